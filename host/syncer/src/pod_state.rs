//! A pod of either cluster, as far as anything follows from it for its counterpart: who it is, whom it names, and the status.
//!
//! Between two looks it is a text, which is a fifth of the size of the parsed status; what is at rest is a [`Digest`]. The status is
//! parsed where two pods are compared, and nowhere else: after a take-over there are tens of thousands of them. Of labels and
//! annotations only those are kept that are read: the identity, the mapping, and what `spec.copy.podMetadata` names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use topoloom_core::names::Uid;
use topoloom_core::version::ResourceVersion;
use topoloom_sync::bars::Bars;
use topoloom_sync::identity::mapping::{PhysicalPodRef, PodSide, VirtualPodRef};
use topoloom_sync::identity::{Earlier, Identity};
use topoloom_sync::keys;
use topoloom_sync::phase::Phase;
use topoloom_sync::pods::finish::EndingPod;
use topoloom_sync::pods::{self, Adopted, Facts, PhysicalPod, PodDecision, Trusted, Twin, VirtualPod};
use topoloom_sync::projection::{self, Projection};

use crate::slices::json::Json;
use crate::slices::pod::{Copied, KnownPod, Lending, PodName, PodSlice};

/// The labels that are read.
const LABELS: [&str; 4] = [keys::MANAGED_BY_LABEL, keys::VIRTUAL_CLUSTER, keys::BINDING, keys::BINDING_UID];
/// The annotations of a physical pod that are read.
const OF_PHYSICAL: [&str; 4] =
    [keys::VIRTUAL_POD_NAMESPACE, keys::VIRTUAL_POD_NAME, keys::VIRTUAL_POD_UID, keys::VIRTUAL_NODE_NAME];
/// The annotations of a virtual pod that are read.
const OF_VIRTUAL: [&str; 3] = [keys::PHYSICAL_POD_NAMESPACE, keys::PHYSICAL_POD_NAME, keys::PHYSICAL_POD_UID];

/// A hash of everything of a pod that a projection depends on.
pub(crate) type Digest = [u8; 16];

/// A pod.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PodState {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) version: String,
    /// The node that it is bound to; empty where it is bound to none.
    pub(crate) node: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    /// What is copied of it.
    pub(crate) spec: Json,
    pub(crate) status: Json,
    /// The phase that the status names, as it is written there.
    pub(crate) phase: String,
    /// Its `deletionTimestamp`.
    pub(crate) deletion: Option<Time>,
    /// Its `deletionGracePeriodSeconds`.
    pub(crate) grace: Option<i64>,
}

impl PodState {
    /// Of a pod that was read whole. `copied`: the keys of labels and annotations that belong to the physical side.
    pub(crate) fn of(slice: &PodSlice, whole: Copied, copied: &BTreeSet<String>) -> Self {
        Self {
            node: slice.node().unwrap_or_default().to_owned(),
            spec: whole.spec,
            status: whole.status,
            phase: slice.phase().to_owned(),
            ..Self::of_metadata(slice.metadata(), copied)
        }
    }

    /// With the labels and annotations that are read, and those of these keys.
    pub(crate) fn keeping(mut self, copied: &BTreeSet<String>) -> Self {
        self.labels.retain(|key, _| LABELS.contains(&key.as_str()) || copied.contains(key));
        let is_read = |key: &str| OF_PHYSICAL.contains(&key) || OF_VIRTUAL.contains(&key);
        self.annotations.retain(|key, _| is_read(key) || copied.contains(key));
        self
    }

    /// What is known of a pod whose text is held nowhere: who it is, whom it names, its phase and its end.
    pub(crate) fn unread(pod: &KnownPod, lending: &Lending) -> Self {
        let mut annotations = BTreeMap::new();
        let mut names = |key: &str, value: &str| annotations.insert(key.to_owned(), value.to_owned());
        if let Some(named) = &lending.names {
            names(keys::VIRTUAL_POD_NAMESPACE, &named.namespace);
            names(keys::VIRTUAL_POD_NAME, &named.name);
            names(keys::VIRTUAL_POD_UID, &named.uid);
        }
        if let Some(named) = &lending.names_physical {
            names(keys::PHYSICAL_POD_NAMESPACE, &named.namespace);
            names(keys::PHYSICAL_POD_NAME, &named.name);
            named.uid.iter().for_each(|uid| drop(names(keys::PHYSICAL_POD_UID, uid)));
        }
        Self {
            namespace: lending.namespace.to_string(),
            name: lending.name.clone(),
            uid: pod.uid().to_string(),
            version: lending.version.to_string(),
            node: pod.node().map(ToString::to_string).unwrap_or_default(),
            labels: BTreeMap::clone(&lending.labels),
            annotations,
            spec: Json::default(),
            status: Json::written(&json!({"phase": pod.phase().word()})),
            phase: pod.phase().word().to_owned(),
            deletion: lending.deletion.map(Time),
            grace: lending.grace,
        }
    }

    /// Of a pod of which only the metadata was read.
    pub(crate) fn of_metadata(metadata: &ObjectMeta, copied: &BTreeSet<String>) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let kept = |all: &Option<BTreeMap<String, String>>, is_read: &dyn Fn(&str) -> bool| {
            let all = all.iter().flatten().filter(|(key, _)| is_read(key) || copied.contains(*key));
            all.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        Self {
            namespace: text(&metadata.namespace),
            name: text(&metadata.name),
            uid: text(&metadata.uid),
            version: text(&metadata.resource_version),
            node: String::new(),
            labels: kept(&metadata.labels, &|key| LABELS.contains(&key)),
            annotations: kept(&metadata.annotations, &|key| OF_PHYSICAL.contains(&key) || OF_VIRTUAL.contains(&key)),
            spec: Json::default(),
            status: Json::default(),
            phase: String::new(),
            deletion: metadata.deletion_timestamp.clone(),
            grace: metadata.deletion_grace_period_seconds,
        }
    }

    /// As it is held; nothing where it cannot be written down, which has no known cause.
    pub(crate) fn text(&self) -> Option<Arc<str>> {
        serde_json::to_string(self).ok().map(Arc::from)
    }

    /// Of a text that was held.
    pub(crate) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    pub(crate) fn pod_name(&self) -> PodName {
        PodName::new(&self.namespace, &self.name)
    }

    pub(crate) fn uid(&self) -> Uid {
        self.uid.as_str().into()
    }

    pub(crate) fn version(&self) -> ResourceVersion {
        self.version.as_str().into()
    }

    /// Its phase; `None` where it is none that Kubernetes knows.
    pub(crate) fn phase(&self) -> Option<Phase> {
        Phase::parse(&self.phase)
    }

    /// When it has to be gone, where it terminates.
    pub(crate) fn ending(&self) -> Option<Timestamp> {
        self.deletion.as_ref().map(|time| time.0)
    }

    /// The virtual pod that it names.
    pub(crate) fn names_virtual(&self) -> Option<VirtualPodRef> {
        VirtualPodRef::read(&self.annotations).ok()
    }

    /// The physical pod that it names.
    pub(crate) fn names_physical(&self) -> Option<PhysicalPodRef> {
        PhysicalPodRef::read(&self.annotations).ok()
    }

    /// Whether it names this physical pod.
    pub(crate) fn is_naming(&self, pod: &Self) -> bool {
        self.names_physical().is_some_and(|back| names(&back, &pod.namespace, &pod.name, &pod.uid()))
    }

    /// What a virtual pod takes over from this physical one, at this time of the day.
    pub(crate) fn project(&self, twin: &Self, copied: &BTreeSet<String>, now: Timestamp) -> Projection {
        let (status, twin_spec, twin_status) = (self.status.value(), twin.spec.value(), twin.status.value());
        let facts = projection::Facts {
            physical: projection::Physical {
                uid: &self.uid(),
                status: &status,
                labels: &self.labels,
                annotations: &self.annotations,
            },
            twin: projection::Twin {
                spec: &twin_spec,
                status: &twin_status,
                labels: &twin.labels,
                annotations: &twin.annotations,
                version: &twin.version(),
            },
            copied,
        };
        projection::project(&facts, now)
    }

    /// Whether nothing follows from this physical pod for its virtual one: it is of this binding by its labels, the two name each other,
    /// and the virtual one says what it says.
    pub(crate) fn is_mirrored_by(&self, twin: &Self, us: &Identity, copied: &BTreeSet<String>) -> bool {
        let (pod, virtual_pod) = (self.physical_pod(), twin.virtual_pod());
        let facts = Facts {
            identity: us,
            pod: Some(&pod),
            twin: Twin::Cached(Some(&virtual_pod)),
            earlier: Earlier::Unlisted,
            adopted: Adopted::No,
            // What is forbidden now is nothing that would be done.
            bars: &Bars::default(),
            orphan_delay: Duration::MAX,
            look: None,
        };
        // The time is that of a write, and of a second look at an orphan.
        matches!(pods::decide(&facts, Duration::ZERO), PodDecision::Synchronise(Trusted::Labels))
            && self.project(twin, copied, Timestamp::UNIX_EPOCH) == Projection::Same
    }

    /// Without the version, the deletion, and the mapping of a virtual pod, which is compared by itself: it gets its last part
    /// after everything was mirrored.
    pub(crate) fn digest(&self) -> Digest {
        let annotations: BTreeMap<&String, &String> =
            self.annotations.iter().filter(|(key, _)| !OF_VIRTUAL.contains(&key.as_str())).collect();
        let mut whole = Sha256::new();
        whole.update(self.status.text());
        whole.update(self.spec.text());
        whole.update(format!("{:?}{annotations:?}", self.labels));
        let whole: [u8; 32] = whole.finalize().into();
        let mut half = Digest::default();
        for (to, from) in half.iter_mut().zip(whole) {
            *to = from;
        }
        half
    }

    /// As the decision about a physical pod sees it.
    pub(crate) fn physical_pod(&self) -> PhysicalPod {
        PhysicalPod {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid(),
            version: self.version(),
            labels: self.labels.clone(),
            annotations: self.annotations.clone(),
            deleting: self.deletion.is_some(),
        }
    }

    /// As the decision about its physical pod sees it.
    pub(crate) fn virtual_pod(&self) -> VirtualPod {
        VirtualPod {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid(),
            annotations: self.annotations.clone(),
        }
    }

    /// As the decision about its end sees it.
    pub(crate) fn ending_pod(&self) -> EndingPod {
        EndingPod {
            uid: self.uid(),
            version: self.version(),
            phase: self.phase(),
            annotations: self.annotations.clone(),
            deletion: self.ending(),
            grace: self.grace,
        }
    }
}

/// Whether this names the physical pod.
fn names(back: &PhysicalPodRef, namespace: &str, name: &str, uid: &Uid) -> bool {
    let none = BTreeMap::new();
    back.names(&PodSide { namespace, name, uid, annotations: &none })
}

/// A [`PodState`] that is written and not held.
#[derive(Serialize)]
struct Written<'a> {
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    version: &'a str,
    node: &'a str,
    labels: &'a BTreeMap<String, String>,
    annotations: &'a BTreeMap<String, String>,
    spec: &'a Json,
    status: &'a Json,
    phase: &'a str,
    deletion: &'a Option<Time>,
    grace: Option<i64>,
}

/// What is copied of a pod, as one text for all bindings that may take it: with all its labels and annotations. Which of them are kept,
/// each binding says ([`PodState::keeping`]).
pub(crate) fn text(slice: &PodSlice, copied: &Copied) -> Option<Arc<str>> {
    let (metadata, none) = (slice.metadata(), BTreeMap::new());
    let written = Written {
        namespace: metadata.namespace.as_deref().unwrap_or_default(),
        name: metadata.name.as_deref().unwrap_or_default(),
        uid: metadata.uid.as_deref().unwrap_or_default(),
        version: metadata.resource_version.as_deref().unwrap_or_default(),
        node: slice.node().unwrap_or_default(),
        labels: metadata.labels.as_ref().unwrap_or(&none),
        annotations: metadata.annotations.as_ref().unwrap_or(&none),
        spec: &copied.spec,
        status: &copied.status,
        phase: slice.phase(),
        deletion: &metadata.deletion_timestamp,
        grace: metadata.deletion_grace_period_seconds,
    };
    serde_json::to_string(&written).ok().map(Arc::from)
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::slices::pod::WholePod;

    /// As an API server sends it.
    pub(crate) fn state(pod: &Value) -> PodState {
        let whole: WholePod = serde_json::from_value(pod.clone()).unwrap();
        let (slice, copied) = whole.split().unwrap();
        PodState::of(&slice, copied, &["team".to_owned()].into())
    }

    fn pod() -> Value {
        json!({
            "metadata": {
                "namespace": "shop", "name": "web-0", "uid": "v", "resourceVersion": "7",
                "deletionTimestamp": "2026-08-03T12:00:00Z", "deletionGracePeriodSeconds": 30,
                "labels": {"topoloom.dev/managed-by": "topoloom", "app": "web", "team": "a"},
                "annotations": {"topoloom.dev/physical-pod-name": "p", "topoloom.dev/virtual-pod-uid": "v", "note": "long"},
            },
            "spec": {"nodeName": "w1", "containers": [{"name": "c"}]},
            "status": {"phase": "Running", "conditions": []},
        })
    }

    #[test]
    fn what_is_read_is_kept_and_a_text_gives_it_again() {
        let state = state(&pod());
        let keys = |all: &BTreeMap<String, String>| all.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&state.labels), ["team", "topoloom.dev/managed-by"]);
        assert_eq!(keys(&state.annotations), ["topoloom.dev/physical-pod-name", "topoloom.dev/virtual-pod-uid"]);
        assert_eq!((state.phase(), state.node.as_str()), (Some(Phase::Running), "w1"));
        assert_eq!(state.ending(), Some("2026-08-03T12:00:00Z".parse().unwrap()));
        assert_eq!(PodState::read(&state.text().unwrap()), Some(state));
        assert_eq!(PodState::read("{"), None);
    }

    #[test]
    fn what_all_bindings_share_of_a_pod_is_for_each_what_it_would_have_read_itself() {
        let whole: WholePod = serde_json::from_value(pod()).unwrap();
        let (slice, copied) = whole.split().unwrap();
        let text = text(&slice, &copied).unwrap();
        let keeping = |keys: &[&str]| {
            let keys = keys.iter().map(|key| (*key).to_owned()).collect();
            PodState::read(&text).unwrap().keeping(&keys)
        };
        assert_eq!((keeping(&["team"]), keeping(&["team"]).digest()), (state(&pod()), state(&pod()).digest()));
        assert_eq!((keeping(&[]).labels.len(), keeping(&["note"]).annotations["note"].as_str()), (1, "long"));
    }

    #[test]
    fn of_a_pod_whose_text_is_held_nowhere_it_is_known_whom_it_names_and_when_it_has_to_be_gone() {
        let whole: WholePod = serde_json::from_value(pod()).unwrap();
        let (slice, _) = whole.split().unwrap();
        let known = KnownPod::of(&slice).unwrap();
        let (unread, whole) = (PodState::unread(&known, known.lending().unwrap()), state(&pod()));
        assert_eq!(
            (unread.pod_name(), unread.uid(), unread.version()),
            (whole.pod_name(), whole.uid(), whole.version())
        );
        assert_eq!((unread.node.as_str(), unread.phase(), unread.ending()), ("w1", whole.phase(), whole.ending()));
        assert_eq!((unread.grace, whole.grace), (Some(30), Some(30)));
        // Where it names none whole it names none.
        assert_eq!((unread.names_physical(), unread.names_virtual()), (None, None));
        let mut named = pod();
        named["metadata"]["annotations"]["topoloom.dev/physical-pod-namespace"] = "lent".into();
        let whole: WholePod = serde_json::from_value(named.clone()).unwrap();
        let known = KnownPod::of(&whole.split().unwrap().0).unwrap();
        let unread = PodState::unread(&known, known.lending().unwrap());
        assert_eq!(unread.names_physical(), state(&named).names_physical());
    }

    #[test]
    fn a_digest_follows_what_is_copied_and_not_version_deletion_or_the_mapping_of_a_virtual_pod() {
        let of = |edit: &dyn Fn(&mut Value)| {
            let mut pod = pod();
            edit(&mut pod);
            state(&pod).digest()
        };
        let before = of(&|_| ());
        let same: [&dyn Fn(&mut Value); 4] = [
            &|pod| pod["metadata"]["resourceVersion"] = "8".into(),
            &|pod| pod["metadata"]["deletionTimestamp"] = Value::Null,
            &|pod| pod["metadata"]["annotations"]["topoloom.dev/physical-pod-uid"] = "p-1".into(),
            &|pod| pod["metadata"]["annotations"]["note"] = "other".into(),
        ];
        assert!(same.into_iter().all(|edit| of(edit) == before));
        let other: [&dyn Fn(&mut Value); 5] = [
            &|pod| pod["status"]["phase"] = "Failed".into(),
            &|pod| pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]),
            &|pod| pod["metadata"]["labels"]["team"] = "b".into(),
            &|pod| pod["metadata"]["annotations"]["topoloom.dev/virtual-pod-uid"] = "w".into(),
            &|pod| pod["spec"]["ephemeralContainers"] = json!([{"name": "debug"}]),
        ];
        assert!(other.into_iter().all(|edit| of(edit) != before));
    }
}
