//! Pods that need devices of several vendors: one write, one answer, and which vendor releases the shared lock (A12,
//! A14, R17, R18, AX 11 to 13).

use http::Method;
use topoloom_tests::device_plugin::{Fate, Kubelets, Outcome, Settings};
use topoloom_tests::faults::Fault;
use topoloom_tests::hami::{BIND_PHASE, CHOSEN_NODE, Device, Vendor, WorkList};

use super::scheduler::judged;
use super::*;

/// The parts of a Pod's status when it runs.
fn running() -> Value {
    json!({"phase": "Running", "startTime": "2026-08-01T06:10:00Z"})
}

/// Creates a pod whose containers request one device of each of these vendors, with the devices chosen.
async fn chosen(stage: &LockScene, name: &str, containers: &[&[Vendor]]) -> Result<Pod> {
    let mut annotations = serde_json::Map::new();
    annotations.insert(CHOSEN_NODE.into(), "gpu-1".into());
    for vendor in Vendor::ALL {
        let device = Device { uuid: "D-0".into(), kind: vendor.device_type().into(), memory: 1000, cores: 10 };
        let of = |vendors: &&[Vendor]| vendors.iter().filter(|of| **of == vendor).map(|_| device.clone()).collect();
        let list = WorkList::new(containers.iter().map(of));
        if containers.iter().any(|vendors| vendors.contains(&vendor)) {
            annotations.insert(vendor.work_list().into(), list.to_string().into());
        }
    }
    let container = |(index, vendors): (usize, &&[Vendor])| {
        let limits: serde_json::Map<String, Value> =
            vendors.iter().map(|vendor| (vendor.resource().to_owned(), json!("1"))).collect();
        json!({"name": format!("c{index}"), "image": "none", "resources": {"limits": limits}})
    };
    stage
        .create(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations},
            "spec": {"containers": containers.iter().enumerate().map(container).collect::<Vec<_>>()},
        }))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn ax_11_n4_several_vendors_are_one_write_and_one_pod_has_both_keys() -> Result<()> {
    let stage = LockScene::new(&["gpu-1"], &[]).await?;
    let pod = stage.create(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "both"},
        "spec": {
            "initContainers": [{"name": "i", "image": "none", "resources": {"limits": {"cambricon.com/vmlu": "1"}}}],
            "containers": [{"name": "c", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1", "amd.com/gpu": "1"}}}],
        },
    })).await?;
    stage.knows("both").await;
    let before = stage.scene.plane.requests().await?;
    assert_eq!(stage.extender.bind(&pod, "gpu-1").await?, "");
    let since = stage.scene.plane.requests().await?.since(&before);
    assert_eq!((since.writes("nodes", ""), since.writes("pods", "binding")), (1, 1));
    let node = stage.annotations("gpu-1").await?;
    assert!(node[LOCK].ends_with(",default,both"));
    assert!(node[CAMBRICON].parse::<jiff::Timestamp>().is_ok(), "a bare time: {}", node[CAMBRICON]);
    let notes: Value = serde_json::from_str(&node[NOTE])?;
    assert_eq!(notes.as_array().map(Vec::len), Some(2), "{notes}");

    // A pod that needs only the other key waits for the same holder.
    let mlu = stage.pod("mlu", "cambricon.com/vmlu").await?;
    let waits = stage.begin(&mlu, "gpu-1");
    stage.until_logged("waits for a lock").await;
    stage.annotate("gpu-1", json!({LOCK: null, CAMBRICON: null})).await?;
    stage.status("both", running()).await?;
    assert_eq!(waits.ended().await?, "");
    let node = stage.annotations("gpu-1").await?;
    assert!(!node.contains_key(LOCK) && node.contains_key(CAMBRICON), "{node:?}");
    stage.stop().await
}

/// Back end b3 fails where b1 and b2 would not: with one write for all there is nothing to roll back.
#[tokio::test(flavor = "multi_thread")]
async fn ax_12_ax_14_a_pod_that_gets_one_key_of_two_gets_none_and_the_reason_is_contention() -> Result<()> {
    let patience = ["--extender-http-timeout=5s", "--controllers=*,-nodelock-sweeper"];
    let stage = LockScene::new(&["gpu-1"], &patience).await?;
    let held = jiff::Timestamp::now().to_string();
    stage.annotate("gpu-1", json!({CAMBRICON: held})).await?;
    let pod = chosen(&stage, "both", &[&[Vendor::Nvidia, Vendor::Amd, Vendor::Cambricon]]).await?;
    stage.knows("both").await;
    let before = stage.scene.plane.requests().await?;
    let said = stage.extender.bind(&pod, "gpu-1").await?;
    assert!(said.contains("node lock contention: node gpu-1 has been locked within 5m0s"), "{said}");
    let since = stage.scene.plane.requests().await?.since(&before);
    assert_eq!((since.writes("nodes", ""), since.writes("pods", "")), (0, 0), "it waits and does not try");
    let node = stage.annotations("gpu-1").await?;
    assert_eq!((node.get(CAMBRICON), node.get(LOCK), node.get(NOTE)), (Some(&held), None, None));
    stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn r17_every_key_of_a_failed_bind_is_given_back_and_no_other() -> Result<()> {
    let (stage, faults) =
        LockScene::through_faults(&["gpu-1", "gpu-2"], &["--controllers=*,-nodelock-sweeper"]).await?;
    let both = chosen(&stage, "both", &[&[Vendor::Nvidia, Vendor::Cambricon]]).await?;
    faults.on(Method::POST, "/binding", 1, Fault::Refused(403, "Forbidden"));
    assert!(stage.extender.bind(&both, "gpu-1").await?.contains("was refused"));
    let node = stage.annotations("gpu-1").await?;
    assert!([LOCK, CAMBRICON, NOTE].iter().all(|key| !node.contains_key(*key)), "{node:?}");
    // When a Bind fails, the original removes Cambricon's lock, also that of another pod.
    let theirs = jiff::Timestamp::now().to_string();
    stage.annotate("gpu-2", json!({CAMBRICON: theirs})).await?;
    let one = chosen(&stage, "one", &[&[Vendor::Nvidia]]).await?;
    faults.on(Method::POST, "/binding", 1, Fault::Refused(403, "Forbidden"));
    assert!(stage.extender.bind(&one, "gpu-2").await?.contains("was refused"));
    let node = stage.annotations("gpu-2").await?;
    assert_eq!((node.get(CAMBRICON), node.get(LOCK)), (Some(&theirs), None));
    // That lock is contention like any other, and a Bind waits for it.
    let waits = stage.begin(&both, "gpu-2");
    stage.until_logged("waits for a lock").await;
    stage.annotate("gpu-2", json!({CAMBRICON: null})).await?;
    assert_eq!(waits.ended().await?, "");
    stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn ax_13_a_pod_keeps_its_lock_until_the_last_of_its_containers_was_served() -> Result<()> {
    let stage = LockScene::new(&["gpu-1"], &[]).await?;
    let kubelets = Kubelets::start(stage.scene.plane.client(), Settings::default());
    let first = chosen(&stage, "first", &[&[Vendor::Nvidia], &[], &[Vendor::Nvidia]]).await?;
    let second = chosen(&stage, "second", &[&[Vendor::Nvidia]]).await?;
    for pod in [first, second] {
        assert_eq!(stage.extender.bind(&pod, "gpu-1").await?, "");
    }
    stage.until_free("gpu-1").await;
    let outcomes: Vec<_> =
        kubelets.served().into_iter().map(|served| (served.asked.name.to_string(), served.outcome)).collect();
    assert_eq!(
        outcomes,
        [("first", Outcome::Partly), ("first", Outcome::Completed), ("second", Outcome::Completed)]
            .map(|(name, outcome)| (name.to_owned(), outcome))
    );
    let list = stage.pods().get("first").await?.metadata.annotations.unwrap_or_default();
    assert_eq!(list[Vendor::Nvidia.work_list()], ";;;");
    assert_eq!(kubelets.mistakes(), [""; 0]);
    judged(&stage).await?;
    kubelets.stop().await;
    stage.stop().await
}

/// The reference plugin does not check for the work of other vendors. With or without that check, no other pod gets the
/// node before all of the work is done.
#[tokio::test(flavor = "multi_thread")]
async fn r18_a_shared_lock_that_one_vendor_gives_back_too_early_frees_nothing() -> Result<()> {
    let stage = LockScene::new(&["gpu-1"], &[]).await?;
    let fate = |pod: &Pod| match pod.metadata.name.as_deref() {
        Some("early") => Fate::ReleasesEarly,
        _ => Fate::Completes,
    };
    let settings = Settings { answers_after: std::time::Duration::from_millis(200), fate: std::sync::Arc::new(fate) };
    let kubelets = Kubelets::start(stage.scene.plane.client(), settings);
    let vendors: &[&[Vendor]] = &[&[Vendor::Nvidia, Vendor::Amd]];
    for name in ["early", "late", "last"] {
        let pod = chosen(&stage, name, vendors).await?;
        assert_eq!(stage.extender.bind(&pod, "gpu-1").await?, "", "{name}");
    }
    stage.until_free("gpu-1").await;
    let outcomes: Vec<_> = kubelets
        .served()
        .into_iter()
        .map(|served| (served.asked.name.to_string(), served.vendor, served.outcome))
        .collect();
    let wanted = [
        ("early", Vendor::Nvidia, Outcome::Completed),
        ("early", Vendor::Amd, Outcome::Completed),
        ("late", Vendor::Nvidia, Outcome::Partly),
        ("late", Vendor::Amd, Outcome::Completed),
        ("last", Vendor::Nvidia, Outcome::Partly),
        ("last", Vendor::Amd, Outcome::Completed),
    ];
    assert_eq!(outcomes, wanted.map(|(name, vendor, outcome)| (name.to_owned(), vendor, outcome)));
    assert_eq!(kubelets.mistakes(), [""; 0]);
    for name in ["early", "late", "last"] {
        let annotations = stage.pods().get(name).await?.metadata.annotations.unwrap_or_default();
        assert_eq!(annotations.get(BIND_PHASE).map(String::as_str), Some("success"));
    }
    judged(&stage).await?;
    kubelets.stop().await;
    stage.stop().await
}
