//! The lock as a library: a scheduler and a device plugin in Rust that need no host.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use topoloom::nodelock::carry::Carrier;
use topoloom::nodelock::lock::{NodeLock, Options};
use topoloom::nodelock::metrics::hold_histogram;
use topoloom::nodelock::plugin::{GivenBack, NotServed};
use topoloom::nodelock::requests::Requests;
use topoloom::nodelock::view::View;
use topoloom_core::nodelock::attempt::Bound;
use topoloom_core::nodelock::needs::{Backend, LockKey};
use topoloom_core::nodelock::{PodId, Retry, Takeover};
use topoloom_tests::hami::Vendor;

use super::*;

fn id_of(pod: &Pod) -> PodId {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let metadata = &pod.metadata;
    PodId {
        namespace: text(&metadata.namespace).into(),
        name: text(&metadata.name).into(),
        uid: text(&metadata.uid).into(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_binds_and_a_device_plugin_serves_with_the_library_alone() -> Result<()> {
    let scene = LockScene::scene(&["gpu-1"]).await?;
    let client = scene.plane.client();
    let backends: Arc<[Backend]> = Backend::known().into();
    let view = Arc::new(View::new(Arc::clone(&backends), hold_histogram(&mut Registry::default())));
    let mut watches = JoinSet::new();
    let (watched, reads) = (Arc::clone(&view), client.clone());
    watches.spawn(async move { watched.watch(reads, |_| (), |_| ()).await });
    view.synced().await;
    let requests = Requests::new(client.clone(), backends);
    let carrier = Carrier::new(view, requests.clone(), "a-scheduler".into(), topoloom::nodelock::number());
    let options = Options { ttl: Duration::from_secs(300), takeover: Takeover::State, retry: Retry::CLASSIC };
    let lock = NodeLock::new(carrier, options);

    let pods: Api<Pod> = Api::default_namespaced(client);
    let create = async |name: &str| -> Result<Pod> {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "annotations": {
                Vendor::Nvidia.work_list(): "GPU-0,NVIDIA,1000,10:;", Vendor::Amd.work_list(): "GPU-1,AMD,1000,10:;",
            }},
            "spec": {"containers": [{"name": "c", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1", "amd.com/gpu": "1"}}}]},
        });
        Ok(pods.create(&Default::default(), &serde_json::from_value(pod)?).await?)
    };
    let refused = requests.whom("gpu-1", LockKey::Shared).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "no lock hami.io/mutex.lock of node gpu-1 names a pod, and 0 pods wait there for devices: exactly one is \
            expected"
    );
    assert!(matches!(requests.whom("nowhere", LockKey::Shared).await, Err(NotServed::NoNode(_))));

    let (first, second) = (create("first").await?, create("second").await?);
    let within = Duration::from_secs(28);
    let report = lock.bind(id_of(&first), "gpu-1".into(), within).await;
    assert_eq!((report.result, report.keys, report.kept), (Ok(Bound::Now), vec![LockKey::Shared], false));
    let short = lock.bind(id_of(&second), "gpu-1".into(), Duration::from_millis(300)).await;
    let failure = short.result.expect_err("first holds it");
    assert!(failure.is_contention() && short.waited >= Duration::from_millis(250), "{failure} {:?}", short.waited);

    // First the plugin of one vendor answers, then that of the other, then the kubelet.
    let ticket = requests.whom("gpu-1", LockKey::Shared).await?;
    assert_eq!(ticket.pod, id_of(&first));
    let gives = async |vendor: Vendor| -> Result<GivenBack> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {vendor.work_list(): ";"}}}));
        pods.patch("first", &PatchParams::default(), &patch).await?;
        Ok(requests.give_back(&ticket, Retry::CLASSIC).await?)
    };
    assert_eq!(gives(Vendor::Nvidia).await?, GivenBack::WorkLeft(Vendor::Amd.work_list().to_owned()));
    assert_eq!(gives(Vendor::Amd).await?, GivenBack::Removed);
    assert_eq!(gives(Vendor::Amd).await?, GivenBack::NotOurs);
    // Without a lock the answer is the only pod that waits on the node.
    let alone = requests.whom("gpu-1", LockKey::Shared).await?;
    assert_eq!((alone.pod, alone.value), (id_of(&first), None));
    let running = Patch::Merge(json!({"status": {"phase": "Running", "startTime": "2026-08-01T06:10:00Z"}}));
    pods.patch_status("first", &PatchParams::default(), &running).await?;

    let report = lock.bind(id_of(&second), "gpu-1".into(), within).await;
    assert_eq!(report.result, Ok(Bound::Now));
    // A pod that was served before is not served again, although its old value is on the node.
    let nodes: Api<Node> = Api::all(scene.plane.client());
    let left = Patch::Merge(json!({"metadata": {"annotations": {LOCK: "2026-08-01T06:10:00Z,default,first"}}}));
    nodes.patch("gpu-1", &PatchParams::default(), &left).await?;
    let refused = requests.whom("gpu-1", LockKey::Shared).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the lock hami.io/mutex.lock of node gpu-1 names pod default/first, which has started or ended already"
    );
    lock.finish().await;
    watches.shutdown().await;
    Ok(())
}
