//! One pod and its twin in the other cluster.
//!
//! Owns which of the two names which, in words. What follows for them is decided by [`topoloom_sync::pods`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use kube::Api;
use topoloom_core::names::Uid;
use topoloom_core::version::ResourceVersion;
use topoloom_sync::bars::Bars;
use topoloom_sync::identity::mapping::PhysicalPodRef;
use topoloom_sync::identity::{Earlier, Identity};
use topoloom_sync::keys;
use topoloom_sync::naming::BindingName;
use topoloom_sync::node::Now;
use topoloom_sync::pods::{Adopted, Facts, PhysicalPod, PodDecision, Twin, VirtualPod, decide};
use topoloom_syncer::slices::pod::PodSlice;

use super::document::{OnePod, PodExplained};
use crate::cli::lend::amounts::Moment;
use crate::cluster::Refusal;

/// What a pod is judged by.
pub(super) struct Judging<'a> {
    pub(super) identity: &'a Identity,
    pub(super) bars: &'a Bars,
    pub(super) orphan_delay: Duration,
    /// The UIDs of all bindings.
    pub(super) bindings: &'a BTreeSet<Uid>,
    pub(super) now: Now,
}

/// Reads a pod; nothing where there is none.
pub(super) async fn read(client: &kube::Client, namespace: &str, name: &str) -> Result<Option<PodSlice>, Refusal> {
    let api: Api<PodSlice> = Api::namespaced(client.clone(), namespace);
    api.get_opt(name).await.map_err(|error| Refusal::of(&error))
}

/// The physical pod that a virtual one names.
pub(super) fn named(lent: &PodSlice) -> Option<PhysicalPodRef> {
    PhysicalPodRef::read(&annotations(lent)).ok()
}

/// Both pods, as far as they exist, and what follows for them.
pub(super) fn explained(lent: Option<&PodSlice>, physical: Option<&PodSlice>, judging: &Judging<'_>) -> PodExplained {
    let written = lent.and_then(|lent| annotations(lent).get(keys::LAST_SYNC_TIME)?.parse::<Timestamp>().ok());
    PodExplained {
        binding: Some(judging.identity.binding().to_string()),
        lent: lent.map(one),
        physical: physical.map(one),
        state: match (lent, physical) {
            (_, Some(physical)) => follows(lent, physical, judging).to_string(),
            (Some(lent), None) => without_physical(lent),
            (None, None) => "neither of the two pods exists".to_owned(),
        },
        last_write: written.map(|at| Moment::seen(at, judging.now.wall)),
        unread: false,
    }
}

/// A virtual pod that no binding has to do with.
pub(super) fn alone(lent: &PodSlice, why: String) -> PodExplained {
    PodExplained { lent: Some(one(lent)), state: why, ..PodExplained::default() }
}

/// A virtual pod of a binding whose physical cluster was not read.
pub(super) fn unread(lent: &PodSlice, binding: &BindingName, why: &str) -> PodExplained {
    let state = format!("its physical cluster was not read: {why}");
    PodExplained { binding: Some(binding.to_string()), unread: true, ..alone(lent, state) }
}

fn follows(lent: Option<&PodSlice>, physical: &PodSlice, judging: &Judging<'_>) -> PodDecision {
    let twin = lent.map(|lent| {
        let pod = lent.pod();
        VirtualPod { namespace: pod.namespace, name: pod.name, uid: pod.uid, annotations: annotations(lent) }
    });
    let pod = physical.pod();
    let metadata = physical.metadata();
    let physical = PhysicalPod {
        namespace: pod.namespace,
        name: pod.name,
        uid: pod.uid,
        version: ResourceVersion::from(metadata.resource_version.as_deref()),
        labels: metadata.labels.clone().unwrap_or_default(),
        annotations: metadata.annotations.clone().unwrap_or_default(),
        deleting: metadata.deletion_timestamp.is_some(),
    };
    let facts = Facts {
        identity: judging.identity,
        pod: Some(&physical),
        twin: Twin::Live { pod: twin.as_ref(), asked: judging.now.steady },
        earlier: Earlier::Unlisted,
        // Only the process that serves the binding knows.
        adopted: Adopted::No,
        bars: judging.bars,
        orphan_delay: judging.orphan_delay,
        look: None,
    };
    match decide(&facts, judging.now.steady) {
        PodDecision::AskBinding(uid) => {
            let earlier = if judging.bindings.contains(&uid) { Earlier::Stands } else { Earlier::Gone };
            decide(&Facts { earlier, ..facts }, judging.now.steady)
        }
        decision => decision,
    }
}

fn without_physical(lent: &PodSlice) -> String {
    match PhysicalPodRef::read(&annotations(lent)) {
        Ok(PhysicalPodRef { namespace, name, .. }) => {
            format!("row 1: there is no physical pod; the virtual pod names {namespace}/{name}")
        }
        Err(part) => format!("row 1: there is no physical pod, and the virtual pod names none: {part}"),
    }
}

fn one(pod: &PodSlice) -> OnePod {
    let topoloom_sync::reclaim::PodRef { namespace, name, uid } = pod.pod();
    OnePod {
        namespace,
        name,
        uid: uid.to_string(),
        node: pod.node().map(str::to_owned),
        phase: if pod.phase().is_empty() { "Unknown".to_owned() } else { pod.phase().to_owned() },
        terminating: pod.metadata().deletion_timestamp.is_some(),
    }
}

fn annotations(pod: &PodSlice) -> BTreeMap<String, String> {
    pod.metadata().annotations.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use topoloom_sync::bars::Bar;

    use super::*;

    fn identity() -> Identity {
        Identity::new("vc".into(), BindingName::parse("east").unwrap(), "binding-uid".into()).unwrap()
    }

    fn labels(identity: &Identity) -> BTreeMap<String, String> {
        let mut labels = identity.labels();
        labels.insert(keys::MANAGED_BY_LABEL.to_owned(), keys::MANAGED_BY.to_owned());
        labels
    }

    fn pod(namespace: &str, name: &str, labels: &BTreeMap<String, String>, annotations: Value) -> PodSlice {
        serde_json::from_value(json!({
            "metadata": {"namespace": namespace, "name": name, "uid": format!("{name}-uid"), "resourceVersion": "7",
                "labels": labels, "annotations": annotations},
            "spec": {"nodeName": "w1"},
            "status": {"phase": "Running"},
        }))
        .unwrap()
    }

    fn virtual_pod() -> PodSlice {
        let names = json!({
            "topoloom.dev/physical-pod-namespace": "lent", "topoloom.dev/physical-pod-name": "shop-web",
            "topoloom.dev/last-sync-time": "2026-03-05T11:29:50Z",
        });
        pod("shop", "web", &BTreeMap::new(), names)
    }

    fn physical_pod(uid: &str, labels: &BTreeMap<String, String>) -> PodSlice {
        let names = json!({
            "topoloom.dev/virtual-pod-namespace": "shop", "topoloom.dev/virtual-pod-name": "web",
            "topoloom.dev/virtual-pod-uid": uid,
        });
        pod("lent", "shop-web", labels, names)
    }

    fn said(lent: Option<&PodSlice>, physical: Option<&PodSlice>, bars: &Bars, bindings: &[&str]) -> PodExplained {
        let bindings = bindings.iter().map(|&uid| uid.into()).collect();
        let now = Now { wall: "2026-03-05T11:30:00Z".parse().unwrap(), steady: Duration::from_secs(60) };
        let delay = Duration::from_secs(30);
        let judging = Judging { identity: &identity(), bars, orphan_delay: delay, bindings: &bindings, now };
        explained(lent, physical, &judging)
    }

    #[test]
    fn s6_s23_a_pod_is_explained_by_its_row_from_either_side() {
        let (ours, none) = (labels(&identity()), Bars::default());
        let lent = virtual_pod();
        let both = said(Some(&lent), Some(&physical_pod("web-uid", &ours)), &none, &[]);
        assert_eq!(both.state, "row 7: its status is mirrored");
        assert_eq!(both.last_write.map(|at| at.shown()).as_deref(), Some("2026-03-05T11:29:50Z, 10s ago"));
        assert_eq!(both.physical.unwrap().node.as_deref(), Some("w1"));
        let paused = Bars::from_iter([Bar::Observing]);
        let barred = said(Some(&lent), Some(&physical_pod("web-uid", &ours)), &paused, &[]);
        assert_eq!(barred.state, "row 7: not mirrored, because the binding has mode: observe");
        let alone = said(Some(&lent), None, &none, &[]);
        assert_eq!(alone.state, "row 1: there is no physical pod; the virtual pod names lent/shop-web");
        let unnamed = said(Some(&pod("shop", "web", &BTreeMap::new(), json!({}))), None, &none, &[]);
        assert!(
            unnamed.state.starts_with("row 1: there is no physical pod, and the virtual pod names none"),
            "{unnamed:?}"
        );
        let other = said(Some(&lent), Some(&physical_pod("earlier-uid", &ours)), &none, &[]);
        assert!(other.state.starts_with("row 5: "), "{other:?}");
        let orphan = said(None, Some(&physical_pod("web-uid", &ours)), &none, &[]);
        assert!(orphan.state.starts_with("row 5: ") && orphan.state.ends_with("it needs a second look"), "{orphan:?}");
    }

    #[test]
    fn s5_s23_a_program_sees_that_a_physical_pod_is_not_known_and_not_that_it_is_missing() {
        let fields = |pod: &PodExplained| serde_json::to_value(pod).unwrap();
        let not_read = fields(&unread(&virtual_pod(), identity().binding(), "no route"));
        assert_eq!((&not_read["unread"], not_read.get("physical")), (&json!(true), None));
        let missing = fields(&said(Some(&virtual_pod()), None, &Bars::default(), &[]));
        assert_eq!((missing.get("unread"), missing.get("physical")), (None, None));
    }

    #[test]
    fn s6_s23_a_pod_of_another_binding_with_the_name_is_left_alone_while_that_exists() {
        let earlier = Identity::new("vc".into(), BindingName::parse("east").unwrap(), "earlier-uid".into()).unwrap();
        let (lent, physical) = (virtual_pod(), physical_pod("web-uid", &labels(&earlier)));
        let stands = said(Some(&lent), Some(&physical), &Bars::default(), &["earlier-uid"]);
        assert!(stands.state.starts_with("left alone: it is not ours"), "{stands:?}");
        let gone = said(Some(&lent), Some(&physical), &Bars::default(), &["binding-uid"]);
        assert!(gone.state.starts_with("row 7: its status is mirrored; the ClusterBinding that made it"), "{gone:?}");
    }
}
