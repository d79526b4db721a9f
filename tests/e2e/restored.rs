//! etcd is restored from a snapshot while hosts run: the hosts follow the API server again, write nothing that only the
//! lost history has, and report what happened.

use anyhow::Result;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use topoloom_tests::controlplane::{ControlPlane, Revision, eventually};
use topoloom_tests::host::Host;
use topoloom_tests::scene::{NAMESPACE, PATIENCE, RACKS, Scene};

/// Leases that outlive the time without an API server, so that the running hosts continue.
pub(crate) const LONG_LEASES: [&str; 3] =
    ["--leader-elect-lease-duration=120s", "--leader-elect-renew-deadline=100s", "--leader-elect-retry-period=500ms"];
/// Far more revisions than a test writes.
pub(crate) const RAISED: Revision = Revision::RaisedBy(1_000_000);

/// Makes so many writes that a server that is restored to an earlier state does not soon reach the same revision.
pub(crate) async fn much_happens(plane: &ControlPlane) -> Result<()> {
    let maps: Api<ConfigMap> = Api::default_namespaced(plane.client());
    for turn in 0..300 {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "turns"}, "data": {"turn": turn.to_string()}});
        maps.patch("turns", &PatchParams::apply("test").force(), &Patch::Apply(&body)).await?;
    }
    Ok(())
}

/// Waits until the host has found that the API server went back, and has read everything again.
pub(crate) async fn until_it_says_so(host: &Host) {
    eventually("the host says that the API server went back", PATIENCE, async || {
        let log = host.log();
        let says = |words: &str| log.iter().any(|line| line.contains(words));
        let metrics = host.get("/metrics").await.map_err(|error| error.to_string())?;
        let counts = ["topoloom_api_server_restores_total 1\n", "topoloom_outdated_watches 0\n"];
        let is_so = says("the API server went back to an earlier version")
            && says("all caches were read again")
            && counts.iter().all(|line| metrics.contains(line));
        let shown = || metrics.lines().filter(|line| line.contains("restores") || line.contains("outdated"));
        if is_so { Ok(()) } else { Err(shown().collect::<Vec<_>>().join("\n")) }
    })
    .await;
}

/// Nodes and HyperNodes: a host continues from the state of the restored cluster.
async fn follows(revision: Revision) -> Result<()> {
    let mut scene = Scene::new().await?;
    scene
        .nodes(&["a ex.io/spine=s ex.io/rack=x", "b ex.io/spine=s ex.io/rack=x", "c ex.io/spine=s ex.io/rack=y"])
        .await?;
    scene.configure(RACKS).await?;
    let host = scene.host_with(&LONG_LEASES).await?;
    let saved = [
        "tier 2 ex.io/spine=s (3): ex.io/rack=x ex.io/rack=y",
        "tier 1 ex.io/rack=x (2): a b",
        "tier 1 ex.io/rack=y (1): c",
    ];
    scene.until(&saved).await;
    let snapshot = scene.plane.save().await?;
    // The restore loses all of this: a node that moved, a new node, a deleted node, and the writes about them.
    scene.plane.relabel("b", "ex.io/rack", "lost").await?;
    scene.nodes(&["d ex.io/spine=s ex.io/rack=lost"]).await?;
    scene.delete_nodes(&["c"]).await?;
    scene
        .until(&[
            "tier 2 ex.io/spine=s (3): ex.io/rack=lost ex.io/rack=x",
            "tier 1 ex.io/rack=lost (2): b d",
            "tier 1 ex.io/rack=x (1): a",
        ])
        .await;
    much_happens(&scene.plane).await?;
    scene.plane.restore(&snapshot, revision).await?;
    until_it_says_so(&host).await;
    assert_eq!(scene.topology().await?, saved, "nothing has changed since");
    scene.plane.relabel("c", "ex.io/rack", "new").await?;
    let followed = [
        "tier 2 ex.io/spine=s (3): ex.io/rack=new ex.io/rack=x",
        "tier 1 ex.io/rack=new (1): c",
        "tier 1 ex.io/rack=x (2): a b",
    ];
    scene.until(&followed).await;
    let first = match revision {
        Revision::AsSaved => snapshot.revision + 1,
        Revision::RaisedBy(by) => snapshot.revision + by + 1,
    };
    let writes = scene.plane.writes_since("/registry/topology.volcano.sh/hypernodes/", first).await?;
    assert!(!writes.is_empty(), "what follows was written");
    for write in &writes {
        let text = write.value.to_string();
        assert!(!text.contains("rack=lost") && !text.contains("\"d\""), "written on old knowledge: {write:?}");
    }
    // The host did not write the object that was right in the restored cluster.
    let x = scene.name_of("ex.io/rack=x").await?;
    assert!(writes.iter().all(|write| !write.key.ends_with(&format!("/{x}"))), "{writes:#?}");
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn after_etcd_was_restored_the_host_follows_again_and_writes_nothing_on_old_knowledge() -> Result<()> {
    follows(Revision::AsSaved).await
}

#[tokio::test(flavor = "multi_thread")]
async fn after_etcd_was_restored_with_a_raised_revision_the_host_follows_again() -> Result<()> {
    follows(RAISED).await
}

/// The version of the lease, and its holder.
async fn lease(scene: &Scene) -> Result<(u64, String)> {
    let leases: Api<Lease> = Api::namespaced(scene.plane.client(), NAMESPACE);
    let lease = leases.get("topoloom-hypernode").await?;
    let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
    Ok((lease.metadata.resource_version.unwrap_or_default().parse()?, holder))
}

#[tokio::test(flavor = "multi_thread")]
async fn after_etcd_was_restored_the_leader_renews_an_older_lease_and_the_follower_takes_over_from_it() -> Result<()> {
    let mut scene = Scene::new().await?;
    scene.nodes(&["a ex.io/spine=s ex.io/rack=x"]).await?;
    scene.configure(RACKS).await?;
    let kubeconfig = scene.host_kubeconfig().await?;
    let leader = Host::launch_as("first", &kubeconfig, &LONG_LEASES).await?;
    scene.until(&["tier 2 ex.io/spine=s (1): ex.io/rack=x", "tier 1 ex.io/rack=x (1): a"]).await;
    let follower = Host::launch_as("second", &kubeconfig, &LONG_LEASES).await?;
    eventually("the second follows", PATIENCE, async || {
        let ready = follower.readyz().await.map_err(|error| error.to_string())?;
        if ready.contains("election hypernode: follows first") { Ok(()) } else { Err(ready) }
    })
    .await;
    let (saved, holder) = lease(&scene).await?;
    assert!(holder.starts_with("first"), "{holder}");
    let snapshot = scene.plane.save().await?;
    let renewed = async |scene: &Scene, from: u64| {
        eventually("the lease is renewed ten times", PATIENCE, async || {
            let (version, holder) = lease(scene).await.map_err(|error| error.to_string())?;
            if version >= from + 10 && holder.starts_with("first") {
                Ok(())
            } else {
                Err(format!("{version} {holder}"))
            }
        })
        .await;
    };
    renewed(&scene, saved).await;
    much_happens(&scene.plane).await?;
    scene.plane.restore(&snapshot, Revision::AsSaved).await?;
    until_it_says_so(&leader).await;
    until_it_says_so(&follower).await;
    renewed(&scene, saved).await;
    let ready = follower.readyz().await?;
    assert!(ready.contains("election hypernode: follows first"), "{ready}");
    leader.stop().await?;
    scene.plane.relabel("a", "ex.io/rack", "y").await?;
    scene.until(&["tier 2 ex.io/spine=s (1): ex.io/rack=y", "tier 1 ex.io/rack=y (1): a"]).await;
    follower.stop().await
}
