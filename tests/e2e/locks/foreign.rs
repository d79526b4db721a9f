//! Beside programs that do not know topoloom: schedulers and device plugins of every generation of the protocol (R2,
//! A2, A19).

use jiff::Timestamp;
use kube::core::Status;
use topoloom_tests::device_plugin::{Kubelets, Settings};
use topoloom_tests::hami::{BIND_PHASE, BIND_TIME, CHOSEN_NODE, owner};

use super::*;

/// A scheduler that follows A2 and A7 to A9, and no more: it locks a free node, and tries again while the node is
/// locked.
#[derive(Clone)]
struct Foreign {
    nodes: Api<Node>,
    pods: Api<Pod>,
}

impl Foreign {
    fn new(stage: &LockScene) -> Self {
        Self { nodes: stage.nodes(), pods: stage.pods() }
    }

    async fn binds(&self, pod: &str, node: &str) -> Result<()> {
        while !self.claims(pod, node).await? {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        let annotations = json!({
            BIND_PHASE: "allocating", BIND_TIME: Timestamp::now().as_second().to_string(), CHOSEN_NODE: node,
        });
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        self.pods.patch(pod, &PatchParams::default(), &patch).await?;
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        self.pods.create_subresource::<_, Status>("binding", pod, &Default::default(), &binding).await?;
        Ok(())
    }

    /// Whether this pod holds the lock now. A lock that it cannot read stops this scheduler for good, as it stops the
    /// original.
    async fn claims(&self, pod: &str, node: &str) -> Result<bool> {
        let seen = self.nodes.get(node).await?.metadata;
        if let Some(value) = seen.annotations.iter().flatten().find(|(key, _)| *key == LOCK).map(|(_, value)| value) {
            owner(value).with_context(|| format!("the lock of {node}"))?;
            return Ok(false);
        }
        // The time as a process in another time zone writes it.
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S+00:00");
        let metadata = json!({
            "resourceVersion": seen.resource_version, "annotations": {LOCK: format!("{now},default,{pod}")},
        });
        let patch = Patch::Merge(json!({"metadata": metadata}));
        match self.nodes.patch(node, &PatchParams::default(), &patch).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r2_a_scheduler_and_device_plugins_that_know_only_the_protocol_share_nodes_with_us() -> Result<()> {
    let names = ["gpu-1", "gpu-2"];
    let stage = LockScene::new(&names, &[]).await?;
    let settings = Settings { answers_after: std::time::Duration::from_millis(60), ..Settings::default() };
    let kubelets = Kubelets::start(stage.scene.plane.client(), settings);
    let foreign = Foreign::new(&stage);
    let mut all: JoinSet<Result<()>> = JoinSet::new();
    for index in 0..24 {
        let (name, node) = (format!("p{index}"), names[index / 2 % 2]);
        let pod = stage.chosen(&name, 1 + index % 2).await?;
        let (foreign, ours) = (foreign.clone(), stage.extender.clone());
        all.spawn(async move {
            if index % 2 == 0 {
                return foreign.binds(&name, node).await;
            }
            let said = ours.bind(&pod, node).await?;
            anyhow::ensure!(said.is_empty(), "{name}: {said}");
            Ok(())
        });
    }
    while let Some(ended) = all.join_next().await {
        ended??;
    }
    for node in names {
        stage.until_free(node).await;
    }
    assert_eq!(kubelets.mistakes(), [""; 0]);
    assert_eq!(kubelets.served().len(), 36);
    for pod in stage.pods().list(&Default::default()).await?.items {
        let annotations = pod.metadata.annotations.unwrap_or_default();
        assert_eq!(annotations.get(BIND_PHASE).map(String::as_str), Some("success"), "{annotations:?}");
    }
    kubelets.stop().await;
    stage.stop().await
}

/// Our first write adds the UID, the attempt and the rest.
#[tokio::test(flavor = "multi_thread")]
async fn r2_a2_values_of_earlier_generations_are_understood_and_upgraded() -> Result<()> {
    let values = [
        // The pod's own lock, written by a scheduler that ours has replaced.
        ("own", format!("{},default,own", Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ"))),
        // The same in the time zone of its writer, long expired.
        ("zone", "2026-08-01T14:10:00+08:00,default,zone".to_owned()),
        // A lock of Volcano, and one of a pod without a name; both expired long ago.
        ("bare", "2026-08-01T06:10:00Z".to_owned()),
        ("empty", "2026-08-01T06:10:00Z,,".to_owned()),
        // A lock of another pod, which is gone.
        ("dead", "2026-08-01T06:10:00Z,default,gone".to_owned()),
    ];
    let nodes = values.each_ref().map(|(name, _)| *name);
    let stage = LockScene::new(&nodes, &["--controllers=*,-nodelock-sweeper"]).await?;
    for (name, value) in &values {
        stage.annotate(name, json!({LOCK: value})).await?;
        let pod = stage.gpu_pod(name).await?;
        assert_eq!(stage.extender.bind(&pod, name).await?, "", "{value}");
        let node = stage.annotations(name).await?;
        let ours = &node[LOCK];
        let named = owner(ours)?;
        assert!(ours != value && named == Some(("default", *name)), "{value} became {ours}");
        let note: Value = serde_json::from_str(&node[NOTE])?;
        assert_eq!((note["value"].as_str(), note["uid"].as_str()), (Some(ours.as_str()), pod.metadata.uid.as_deref()));
    }
    stage.stop().await
}
