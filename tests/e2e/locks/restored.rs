//! etcd is restored while the extender serves: a lock that is gone after the restore holds no node, and a lock that is
//! there again does.

use topoloom_tests::controlplane::Revision;

use super::*;
use crate::restored::{LONG_LEASES, RAISED, much_happens, until_it_says_so};

/// What is stopped and started again.
#[derive(Clone, Copy)]
enum Restarts {
    Both,
    EtcdOnly,
}

async fn serves(revision: Revision, restarts: Restarts) -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["gpu-1", "gpu-2"]).await?;
    scene.configure("networkTopologyDiscovery: []").await?;
    scene.binds().await?;
    let kubeconfig = scene.host_kubeconfig().await?;
    // A refused Bind waits until its timeout, so that is short.
    let arguments = [&LONG_LEASES[..], &["--extender-http-timeout=6s"]].concat();
    let mut stage = LockScene::on(scene, &kubeconfig, &arguments).await?;
    let (one, two, three) = (stage.gpu_pod("p1").await?, stage.gpu_pod("p2").await?, stage.gpu_pod("p3").await?);
    assert_eq!(stage.extender.bind(&three, "gpu-2").await?, "");
    let held = stage.annotations("gpu-2").await?[LOCK].clone();
    let snapshot = stage.scene.plane.save().await?;
    // The restore loses all of this: a pod that got a node, and one whose device plugin answered.
    assert_eq!(stage.extender.bind(&one, "gpu-1").await?, "");
    stage.served("gpu-2", "p3").await?;
    stage.until_free("gpu-2").await;
    if revision == Revision::AsSaved {
        much_happens(&stage.scene.plane).await?;
    }
    match restarts {
        Restarts::Both => stage.scene.plane.restore(&snapshot, revision).await?,
        Restarts::EtcdOnly => stage.scene.plane.restore_etcd(&snapshot, revision).await?,
    }
    eventually("the node that is free again is given to another pod", PATIENCE, async || {
        let answer = stage.extender.bind(&two, "gpu-1").await.map_err(|error| error.to_string())?;
        if answer.is_empty() { Ok(()) } else { Err(answer) }
    })
    .await;
    if revision == Revision::AsSaved {
        until_it_says_so(&stage.host).await;
    }
    assert_eq!(stage.node_of("p2").await?.as_deref(), Some("gpu-1"));
    let refused = stage.extender.bind(&one, "gpu-2").await?;
    assert!(refused.contains("default/p3"), "the pod whose lock is back holds the node: {refused}");
    assert_eq!((stage.node_of("p1").await?, &stage.annotations("gpu-2").await?[LOCK]), (None, &held));
    // The host sees what happens from now on.
    stage.served("gpu-2", "p3").await?;
    stage.until_free("gpu-2").await;
    assert_eq!(stage.extender.bind(&one, "gpu-2").await?, "");
    stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn after_etcd_was_restored_the_extender_binds_by_the_locks_that_are_there_now() -> Result<()> {
    Box::pin(serves(Revision::AsSaved, Restarts::Both)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn after_etcd_was_restored_with_a_raised_revision_the_extender_binds_by_the_locks_that_are_there_now()
-> Result<()> {
    Box::pin(serves(RAISED, Restarts::Both)).await
}

/// The operator should restart the API server, and did not: its caches notice the raised revision.
#[tokio::test(flavor = "multi_thread")]
async fn after_only_etcd_was_restored_with_a_raised_revision_the_extender_binds_by_the_locks_that_are_there_now()
-> Result<()> {
    Box::pin(serves(RAISED, Restarts::EtcdOnly)).await
}
