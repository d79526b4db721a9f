//! What is watched together, and what is kept of each object.

use std::convert::Infallible;
use std::sync::Arc;

use kube::Resource;
use topoloom_api::ResourceLeasingPolicy;
use topoloom_cluster::RefusalReason;
use topoloom_sync::csi::{PhysicalCsiNode, VirtualCsiNode};
use topoloom_sync::naming::NODE_PREFIX;
use topoloom_sync::node::{LentNode, PhysicalNode};
use topoloom_sync::resources::ResourceError;

use super::watch::Kind;
use crate::pod_state;
use crate::slices::csi::{CsiNodeSlice, CsiSliceError};
use crate::slices::node::{NodeCommons, NodeSlice};
use crate::slices::pod::{Commons, KnownPod, PodSlice, Texts, WholePod};

/// How many bytes of texts of pods of one kind are held that no binding has taken. A binding takes those of its own pods at once, so
/// this is what comes while it is busy, and what is of bindings that this process does not serve.
const TEXTS: usize = 16 << 20;

/// The nodes of a physical cluster.
#[derive(Debug, Default)]
pub struct Machines(NodeCommons);

impl Kind for Machines {
    type Slice = NodeSlice;
    type Object = PhysicalNode;
    type Error = ResourceError;

    const KIND: &'static str = "physical node";

    fn weight(slice: &NodeSlice) -> usize {
        slice.weight()
    }

    fn read(&mut self, slice: NodeSlice) -> Result<Arc<PhysicalNode>, ResourceError> {
        self.0.physical(slice).map(Arc::new)
    }
}

/// The CSINodes of a physical cluster.
#[derive(Debug, Default)]
pub struct MachineCsiNodes;

impl Kind for MachineCsiNodes {
    type Slice = CsiNodeSlice;
    type Object = PhysicalCsiNode;
    type Error = CsiSliceError;

    const KIND: &'static str = "physical CSINode";

    fn weight(slice: &CsiNodeSlice) -> usize {
        slice.weight()
    }

    fn read(&mut self, slice: CsiNodeSlice) -> Result<Arc<PhysicalCsiNode>, CsiSliceError> {
        slice.physical().map(Arc::new)
    }
}

/// The physical pods of which only their room counts.
#[derive(Debug, Default)]
pub struct OtherPods(Commons);

impl Kind for OtherPods {
    type Slice = PodSlice;
    type Object = KnownPod;
    type Error = ResourceError;

    const KIND: &'static str = "physical pod";

    fn key(slice: &PodSlice) -> &str {
        slice.meta().uid.as_deref().unwrap_or_default()
    }

    fn own_key(pod: &KnownPod) -> Option<Arc<str>> {
        Some(pod.uid().into())
    }

    fn read(&mut self, slice: PodSlice) -> Result<Arc<KnownPod>, ResourceError> {
        KnownPod::of_others(&slice, &mut self.0).map(Arc::new)
    }

    fn kept(pod: &KnownPod) -> usize {
        pod.weight()
    }

    fn place(pod: &KnownPod) -> Option<&Arc<str>> {
        pod.node()
    }
}

/// Why a pod of lending cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum UnreadablePod {
    /// Its status has another form than that of a pod.
    #[error(transparent)]
    Form(#[from] serde_json::Error),
    /// One of its amounts is no quantity.
    #[error(transparent)]
    Amount(#[from] ResourceError),
}

/// Pods of lending, each with what is copied of it.
#[derive(Debug)]
struct WholePods {
    commons: Commons,
    texts: Texts,
}

impl Default for WholePods {
    fn default() -> Self {
        Self { commons: Commons::default(), texts: Texts::new(TEXTS) }
    }
}

/// What is kept of a pod but for its text.
type Keeps = fn(&PodSlice, &mut Commons) -> Result<KnownPod, ResourceError>;

impl WholePods {
    fn read(&mut self, whole: WholePod, keep: Keeps) -> Result<Arc<KnownPod>, UnreadablePod> {
        let (slice, copied) = whole.split()?;
        let pod = keep(&slice, &mut self.commons)?;
        let pod = Arc::new(pod.with_text(pod_state::text(&slice, &copied), &self.texts));
        self.texts.admit(&pod);
        Ok(pod)
    }
}

fn uid(whole: &WholePod) -> &str {
    whole.meta().uid.as_deref().unwrap_or_default()
}

/// The physical pods of this virtual cluster.
#[derive(Debug, Default)]
pub struct OurPods(WholePods);

impl Kind for OurPods {
    type Slice = WholePod;
    type Object = KnownPod;
    type Error = UnreadablePod;

    const KIND: &'static str = "physical pod of ours";

    fn key(slice: &WholePod) -> &str {
        uid(slice)
    }

    fn read(&mut self, slice: WholePod) -> Result<Arc<KnownPod>, UnreadablePod> {
        // Nothing depends on what it tolerates, and how much that is is the lender's to choose.
        self.0.read(slice.without_tolerations(), KnownPod::of_lending)
    }

    fn kept(pod: &KnownPod) -> usize {
        pod.weight()
    }

    fn namespace(pod: &KnownPod) -> Option<&Arc<str>> {
        pod.lending().map(|lending| &lending.namespace)
    }

    fn own_key(pod: &KnownPod) -> Option<Arc<str>> {
        Some(pod.uid().into())
    }

    fn place(pod: &KnownPod) -> Option<&Arc<str>> {
        pod.node()
    }
}

/// The pods of the virtual cluster on nodes that may be lent.
#[derive(Debug, Default)]
pub struct LentPods(WholePods);

impl Kind for LentPods {
    type Slice = WholePod;
    type Object = KnownPod;
    type Error = UnreadablePod;

    const KIND: &'static str = "virtual pod";

    fn key(slice: &WholePod) -> &str {
        uid(slice)
    }

    fn own_key(pod: &KnownPod) -> Option<Arc<str>> {
        Some(pod.uid().into())
    }

    /// A pod never leaves its node.
    fn is_kept(slice: &WholePod) -> bool {
        slice.node().is_some_and(|node| node.starts_with(NODE_PREFIX))
    }

    fn read(&mut self, slice: WholePod) -> Result<Arc<KnownPod>, UnreadablePod> {
        self.0.read(slice, KnownPod::of_virtual)
    }
}

/// The virtual nodes of all bindings.
#[derive(Debug, Default)]
pub struct LentNodes(NodeCommons);

impl Kind for LentNodes {
    type Slice = NodeSlice;
    type Object = LentNode;
    type Error = ResourceError;

    const KIND: &'static str = "virtual node";

    fn read(&mut self, slice: NodeSlice) -> Result<Arc<LentNode>, ResourceError> {
        self.0.lent(slice).map(Arc::new)
    }
}

/// The CSINodes of those.
#[derive(Debug, Default)]
pub struct LentCsiNodes;

impl Kind for LentCsiNodes {
    type Slice = CsiNodeSlice;
    type Object = VirtualCsiNode;
    type Error = Infallible;

    const KIND: &'static str = "virtual CSINode";

    fn read(&mut self, slice: CsiNodeSlice) -> Result<Arc<VirtualCsiNode>, Infallible> {
        Ok(Arc::new(slice.lent()))
    }
}

/// The policies of one cluster.
#[derive(Debug, Default)]
pub struct Policies;

impl Kind for Policies {
    type Slice = ResourceLeasingPolicy;
    type Object = ResourceLeasingPolicy;
    type Error = Infallible;

    const KIND: &'static str = "policy";

    fn read(&mut self, mut policy: ResourceLeasingPolicy) -> Result<Arc<ResourceLeasingPolicy>, Infallible> {
        policy.metadata.managed_fields = None;
        Ok(Arc::new(policy))
    }

    fn kept(policy: &ResourceLeasingPolicy) -> usize {
        serde_json::to_vec(policy).map_or(0, |json| json.len())
    }

    fn forgets(reason: RefusalReason) -> bool {
        makes_unknown(reason)
    }
}

/// Whether what is known does not hold any more, where its watch meets this: another client may change it unseen.
/// A server that does not answer shows in the state of its connection.
#[must_use]
pub fn makes_unknown(reason: RefusalReason) -> bool {
    matches!(
        reason,
        RefusalReason::Forbidden
            | RefusalReason::Unauthorized
            | RefusalReason::NoSuchResource
            | RefusalReason::TooLarge
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use topoloom_sync::keys;

    use super::*;

    #[test]
    fn s8_policies_that_may_not_be_read_are_not_known() {
        for reason in RefusalReason::ALL {
            let wanted = [
                RefusalReason::Forbidden,
                RefusalReason::Unauthorized,
                RefusalReason::NoSuchResource,
                RefusalReason::TooLarge,
            ];
            assert_eq!(Policies::forgets(reason), wanted.contains(&reason), "{reason:?}");
        }
    }

    fn pod(node: Value, status: Value) -> WholePod {
        let pod = json!({
            "metadata": {"namespace": "a", "name": "p", "uid": "u", "labels": {"app": "web"}},
            "spec": {"nodeName": node, "containers": [{"name": "c"}], "tolerations": [{"operator": "Exists"}]},
            "status": status,
        });
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn s21_what_another_party_writes_into_pods_and_policies_counts_as_far_as_it_is_kept() {
        let ours = |edit: fn(&mut Value)| {
            let mut pod = json!({
                "metadata": {"namespace": "a", "name": "p", "uid": "u"},
                "spec": {"nodeName": "w1", "containers": [{"name": "c"}]},
            });
            edit(&mut pod);
            OurPods::kept(&OurPods::default().read(serde_json::from_value(pod).unwrap()).unwrap())
        };
        let plain = ours(|_| ());
        assert!(plain < 200, "{plain}");
        let label = |pod: &mut Value| pod["metadata"]["labels"] = json!({"app": "x".repeat(10_000)});
        let note = |pod: &mut Value| pod["metadata"]["annotations"] = json!({"note": "x".repeat(10_000)});
        assert_eq!((ours(label), ours(note)), (plain, plain), "they are not kept");
        assert_eq!(ours(|pod| pod["metadata"]["name"] = "x".repeat(1_001).into()), plain + 1_000);
        let named = |length: usize| {
            let parts = [keys::VIRTUAL_POD_NAMESPACE, keys::VIRTUAL_POD_NAME, keys::VIRTUAL_POD_UID];
            let annotations = parts.map(|key| (key.to_owned(), Value::from("x".repeat(length))));
            let pod: WholePod = serde_json::from_value(json!({
                "metadata": {"namespace": "a", "name": "p", "uid": "u", "annotations": Value::Object(annotations.into_iter().collect())},
                "spec": {"nodeName": "w1", "containers": [{"name": "c"}]},
            }))
            .unwrap();
            OurPods::kept(&OurPods::default().read(pod).unwrap())
        };
        assert!(named(36) >= plain + 3 * 36, "{}", named(36));
        assert_eq!(named(1_000), plain, "what can be no name is not kept");
        let others = |resources: usize| {
            let pod: PodSlice = serde_json::from_value(asking("w1", "Running", resources)).unwrap();
            OtherPods::kept(&OtherPods::default().read(pod).unwrap())
        };
        assert!(others(1_000) > others(0) + 1_000 * "example.com/r".len(), "{}", others(1_000));
        let policy = |note: &str| {
            let metadata = json!({"name": "p", "annotations": {"note": note}, "managedFields": [{"manager": note}]});
            let policy = serde_json::from_value(json!({"metadata": metadata, "spec": {"cluster": "east"}})).unwrap();
            Policies::kept(&Policies.read(policy).unwrap())
        };
        assert_eq!(policy(&"x".repeat(1_000)) - policy(""), 1_000);
    }

    /// A pod on this node, in this phase, that asks for so many resources and ports.
    fn asking(node: &str, phase: &str, count: usize) -> Value {
        let requests: serde_json::Map<String, Value> =
            (0..count).map(|number| (format!("example.com/r{number}"), Value::from("1"))).collect();
        let ports: Vec<Value> = (1..=count).map(|port| json!({"containerPort": port, "hostPort": port})).collect();
        json!({
            "metadata": {"namespace": "a", "name": "p", "uid": "u"},
            "spec": {
                "nodeName": node,
                "containers": [{"name": "c", "resources": {"requests": requests}, "ports": ports}],
            },
            "status": {"phase": phase},
        })
    }

    #[test]
    fn s21_what_a_pod_asks_for_that_uses_no_room_is_not_kept() {
        let kept = |node: &str, phase: &str, count: usize| {
            let pod = serde_json::from_value(asking(node, phase, count)).unwrap();
            OurPods::kept(&OurPods::default().read(pod).unwrap())
        };
        for (node, phase) in [("", "Pending"), ("w1", "Failed"), ("w1", "Succeeded")] {
            assert_eq!(kept(node, phase, 1_000), kept(node, phase, 0), "{phase} on {node:?}");
        }
        assert!(kept("w1", "Pending", 1_000) > kept("w1", "Pending", 0) + 1_000 * "example.com/r".len());
    }

    #[test]
    fn s21_of_what_a_virtual_pod_asks_for_a_part_is_kept_and_what_every_node_has_is_in_it() {
        let kept = |count: usize| {
            let mut pod = asking("vnode-east-w1", "Pending", count);
            let requests = &mut pod["spec"]["containers"][0]["resources"]["requests"];
            requests["cpu"] = "2".into();
            requests["memory"] = "1Gi".into();
            LentPods::default().read(serde_json::from_value(pod).unwrap()).unwrap()
        };
        let (few, many) = (kept(10), kept(1_000));
        assert_eq!((few.requests().len(), many.requests().len()), (10 + 3, 64));
        let shown = |name: &str| many.requests().get(name).map(ToString::to_string);
        assert_eq!(["cpu", "memory", "pods"].map(shown), ["2", "1Gi", "1"].map(|amount| Some(amount.to_owned())));
        assert!(many.ports().is_empty(), "its own scheduler counts them");
    }

    #[test]
    fn s21_of_virtual_pods_those_are_kept_whose_nodes_may_be_lent() {
        for (node, is_kept) in [("vnode-east-w1", true), ("worker-1", false), ("", false)] {
            assert_eq!(LentPods::is_kept(&pod(json!(node), Value::Null)), is_kept, "{node}");
        }
    }

    #[test]
    fn a_pod_of_lending_comes_with_what_is_copied_of_it_and_one_of_another_form_is_an_error() {
        let status = json!({"phase": "Running", "reason": "Why"});
        let read = OurPods::default().read(pod(json!("w1"), status.clone())).unwrap();
        let lent = LentPods::default().read(pod(json!("vnode-east-w1"), status)).unwrap();
        let tolerated = |pod: &KnownPod| pod.lending().unwrap().tolerations.len();
        assert_eq!((tolerated(&read), tolerated(&lent)), (0, 1), "of a physical pod nothing depends on that");
        assert!(read.text().is_some_and(|text| text.contains("Why") && text.contains("web")), "{:?}", read.text());
        assert!(OurPods::default().read(pod(json!("w1"), json!({"conditions": 7}))).is_err());
    }
}
