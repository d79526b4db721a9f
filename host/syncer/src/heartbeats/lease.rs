//! The Lease of a virtual node: what is written into it, what is read of it, and whose it is.
//!
//! Owns the bytes of a request. Of a Lease only what others have added to it is held until the next one ([`Template`]). Of an answer to a write only
//! version, UID and time are read. Never sends anything.
//!
//! # Failure story
//!
//! A Lease of the same name may belong to another: to the kubelet of a real node, to another binding, to a person. It is
//! replaced only where [`Standing::Ours`] says why it is ours, and reported otherwise.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use topoloom_core::names::{NodeName, Uid};
use topoloom_core::text;
use topoloom_core::version::ResourceVersion;
use topoloom_sync::identity::{Identity, Ownership, names_binding};
use topoloom_sync::keys;
use topoloom_sync::wall::TakeOver;

/// Where the leases of all nodes are.
pub const NAMESPACE: &str = "kube-node-lease";

/// A Lease as it is stored: what of it matters here.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct StoredLease {
    #[serde(default)]
    metadata: StoredMetadata,
    #[serde(default)]
    spec: StoredSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StoredMetadata {
    name: String,
    uid: String,
    resource_version: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    finalizers: Vec<String>,
    owner_references: Vec<OwnerReference>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StoredSpec {
    holder_identity: Option<String>,
    #[serde(deserialize_with = "time")]
    renew_time: Option<Timestamp>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OwnerReference {
    kind: String,
    name: String,
    uid: String,
}

/// A time that cannot be read is no time: the Lease is renewed all the same.
fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text: Option<Cow<'de, str>> = Option::deserialize(deserializer)?;
    Ok(text.and_then(|text| text.parse().ok()))
}

impl StoredLease {
    /// The node that it is the Lease of.
    #[must_use]
    pub fn node(&self) -> NodeName {
        self.metadata.name.as_str().into()
    }

    /// The virtual node that it is the Lease of, and its UID, where the Lease itself says that it is of this binding: whatever became of
    /// the labels of the node.
    #[must_use]
    pub fn node_of(&self, us: &Identity) -> Option<(NodeName, Uid)> {
        let node = self.node();
        let is_its = |owner: &&OwnerReference| owner.kind == "Node" && owner.name == *node && !owner.uid.is_empty();
        let owner = self.metadata.owner_references.iter().find(is_its)?;
        let is_held = self.spec.holder_identity.as_deref() == Some(&*node);
        let uid = Uid::from(owner.uid.as_str());
        (is_held && names_binding(&self.metadata.labels, us)).then_some((node, uid))
    }

    /// Whether a process that served what is lent now has renewed it: it names this binding, or its node is there (`nodes`). What an
    /// earlier binding of the name left of nodes that are gone was not renewed since, and says nothing of a clock.
    fn is_of_what_is_lent(&self, us: &Identity, nodes: &BTreeMap<NodeName, Uid>) -> bool {
        let is_there = |owner: &OwnerReference| {
            let uid = nodes.get(owner.name.as_str());
            owner.kind == "Node" && uid.is_some_and(|uid| **uid == *owner.uid)
        };
        Ownership::of(&self.metadata.labels, us) == Ownership::Ours
            || self.metadata.owner_references.iter().any(is_there)
    }

    /// When it was renewed, by the clock of its holder.
    #[must_use]
    pub fn renewed(&self) -> Option<Timestamp> {
        self.spec.renew_time
    }

    /// What the clock of its holder showed then. The renewal carries a later time where the clock was behind (decision S24), and never
    /// an earlier one: a note of a later time is not ours.
    fn clock(&self) -> Option<Timestamp> {
        let renewed = self.spec.renew_time?;
        let shown = self.metadata.annotations.get(keys::RENEWED_AT).and_then(|text| text.parse::<Timestamp>().ok());
        Some(shown.filter(|shown| *shown <= renewed).unwrap_or(renewed))
    }

    pub(super) fn version(&self) -> ResourceVersion {
        self.metadata.resource_version.as_str().into()
    }

    /// Whose it is, for a virtual node of ours with this name and UID.
    pub(super) fn standing(&self, node: &NodeName, uid: &Uid, us: &Identity) -> Standing {
        let of_node = |owner: &&OwnerReference| owner.kind == "Node" && owner.name == **node;
        let owners = &self.metadata.owner_references;
        if owners.iter().filter(of_node).any(|owner| owner.uid == **uid) {
            return Standing::Ours;
        }
        let holder = self.spec.holder_identity.as_deref().unwrap_or_default();
        if !holder.is_empty() && holder != &**node {
            return Standing::Foreign(WhyForeign::Holder(text::holder(holder)));
        }
        match Ownership::of(&self.metadata.labels, us) {
            Ownership::Ours | Ownership::OursOfEarlierBinding(_) => Standing::Ours,
            Ownership::Foreign(difference) => Standing::Foreign(WhyForeign::Label(difference.to_string())),
            // A node of this name owned it, and that node is gone: there is one of a name, and it is ours.
            Ownership::None if !owners.is_empty() && owners.iter().all(|owner| of_node(&owner)) => Standing::Ours,
            Ownership::None => Standing::Foreign(WhyForeign::NoOwner),
        }
    }
}

/// What these Leases show of the clock of the process that renewed one of them last; `None`: none of what is lent was ever renewed.
pub(super) fn take_over(
    stored: &[StoredLease],
    us: &Identity,
    nodes: &BTreeMap<NodeName, Uid>,
    now: Timestamp,
) -> Option<TakeOver> {
    let stored: Vec<&StoredLease> = stored.iter().filter(|lease| lease.is_of_what_is_lent(us, nodes)).collect();
    let latest = stored.iter().filter_map(|lease| lease.renewed()).max()?;
    let mut last: Option<&StoredLease> = None;
    for lease in stored.into_iter().filter(|lease| lease.renewed().is_some()) {
        // By the order of the writes: times are of several clocks.
        if last.is_none_or(|last| last.version().is_older_than(&lease.version())) {
            last = Some(lease);
        }
    }
    Some(TakeOver { earlier: last?.clock()?, latest, now })
}

/// Whose a Lease is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    /// It belongs to our virtual node, to an earlier one of its name, or to this binding.
    Ours,
    /// It does not.
    Foreign(WhyForeign),
}

/// Why a Lease with the name of a virtual node of ours is not replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyForeign {
    /// Another than the node holds it.
    Holder(String),
    /// Its labels of identity are another's: which label, and how it differs.
    Label(String),
    /// It has neither a label of ours nor an owner reference to a node of its name.
    NoOwner,
}

impl fmt::Display for WhyForeign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holder(holder) => write!(f, "its holder is {holder:?} and not the node"),
            Self::Label(difference) => write!(f, "it belongs to another binding: {difference}"),
            Self::NoOwner => {
                f.write_str("it has neither a label of this binding nor an owner reference to a node of its name")
            }
        }
    }
}

/// What a renewal keeps of a Lease. What others have added to it, labels, annotations and finalizers, stays in it.
pub(super) struct Template {
    /// Its UID: an update would make one that was deleted. Nothing of one that does not exist yet.
    uid: Uid,
    /// What others have added: most have nothing, and there is one of these for each node.
    added: Option<Box<Added>>,
}

/// What others have added to a Lease.
struct Added {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    finalizers: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Lease<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata<'a>,
    spec: Spec<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    name: &'a str,
    namespace: &'static str,
    labels: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    finalizers: &'a [String],
    owner_references: [Owner<'a>; 1],
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    resource_version: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    holder_identity: &'a str,
    lease_duration_seconds: u32,
    renew_time: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Owner<'a> {
    api_version: &'static str,
    kind: &'static str,
    name: &'a str,
    uid: &'a str,
}

/// What a Lease of ours says beside its time.
pub(super) struct Content<'a> {
    pub(super) node: &'a NodeName,
    /// The UID of the virtual node, which owns the Lease.
    pub(super) uid: &'a Uid,
    /// The labels of identity.
    pub(super) labels: &'a BTreeMap<String, String>,
    /// How long a renewal is valid.
    pub(super) seconds: u32,
}

impl Template {
    /// A Lease that does not exist yet, or one that nothing was added to.
    pub(super) fn new(uid: Uid) -> Self {
        Self { uid, added: None }
    }

    /// The Lease that was read, as ours, whose labels are these.
    pub(super) fn replacing(ours: &BTreeMap<String, String>, stored: &StoredLease) -> Self {
        let StoredMetadata { labels, annotations, finalizers, uid, .. } = &stored.metadata;
        let others = |all: &BTreeMap<String, String>, is_ours: &dyn Fn(&String) -> bool| -> BTreeMap<String, String> {
            all.iter().filter(|(key, _)| !is_ours(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        let added = Added {
            labels: others(labels, &|key| ours.contains_key(key)),
            annotations: others(annotations, &|key| key == keys::RENEWED_AT),
            finalizers: finalizers.clone(),
        };
        let is_any = !(added.labels.is_empty() && added.annotations.is_empty() && added.finalizers.is_empty());
        Self { uid: uid.as_str().into(), added: is_any.then(|| Box::new(added)) }
    }

    /// The body of a request: a create where there is no version. `clock` is what our clock shows, where that is not the time.
    pub(super) fn fill(
        &self,
        content: &Content<'_>,
        version: Option<&ResourceVersion>,
        time: Timestamp,
        clock: Option<Timestamp>,
    ) -> Vec<u8> {
        let added = self.added.as_deref();
        let labels = added.filter(|added| !added.labels.is_empty()).map(|added| {
            let ours = content.labels.iter().map(|(key, value)| (key.clone(), value.clone()));
            added.labels.clone().into_iter().chain(ours).collect::<BTreeMap<_, _>>()
        });
        let mut annotations = added.map(|added| added.annotations.clone()).unwrap_or_default();
        if let Some(clock) = clock {
            annotations.insert(keys::RENEWED_AT.to_owned(), format!("{clock:.6}"));
        }
        let lease = Lease {
            api_version: "coordination.k8s.io/v1",
            kind: "Lease",
            metadata: Metadata {
                name: content.node,
                namespace: NAMESPACE,
                labels: labels.as_ref().unwrap_or(content.labels),
                annotations: &annotations,
                finalizers: added.map_or(&[], |added| &added.finalizers),
                owner_references: [Owner { api_version: "v1", kind: "Node", name: content.node, uid: content.uid }],
                uid: &self.uid,
                resource_version: version.map_or("", |version| version),
            },
            spec: Spec {
                holder_identity: content.node,
                lease_duration_seconds: content.seconds,
                renew_time: format!("{time:.6}"),
            },
        };
        json(&lease)
    }
}

/// Texts in maps with texts as keys: there is nothing in them that has no JSON.
fn json<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// What the answer to a write says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WrittenLease {
    pub(super) version: ResourceVersion,
    pub(super) uid: Uid,
    pub(super) renewed: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    metadata: AnswerMetadata<'a>,
    #[serde(borrow, default)]
    spec: AnswerSpec<'a>,
}

#[derive(Deserialize)]
struct AnswerMetadata<'a> {
    #[serde(borrow, rename = "resourceVersion")]
    version: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
struct AnswerSpec<'a> {
    #[serde(borrow, default, rename = "renewTime")]
    renewed: Cow<'a, str>,
}

impl WrittenLease {
    /// Reads an answer.
    pub(super) fn read(body: &[u8]) -> Result<Self, serde_json::Error> {
        let answer: Answer<'_> = serde_json::from_slice(body)?;
        Ok(Self {
            version: (&*answer.metadata.version).into(),
            uid: (&*answer.metadata.uid).into(),
            renewed: answer.spec.renewed.parse().ok(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::{Value, json};
    use topoloom_sync::naming::BindingName;

    fn us() -> Identity {
        Identity::new("cluster".into(), BindingName::parse("east").unwrap(), "binding".into()).unwrap()
    }

    fn stored(value: Value) -> StoredLease {
        serde_json::from_value(value).unwrap()
    }

    fn content<'a>(node: &'a NodeName, uid: &'a Uid, labels: &'a BTreeMap<String, String>) -> Content<'a> {
        Content { node, uid, labels, seconds: 40 }
    }

    #[test]
    fn a_create_names_the_node_as_owner_and_holder_and_carries_the_identity() {
        let (node, uid, labels) = ("vnode-east-w1".into(), "u-1".into(), us().labels());
        let body = Template::new("".into()).fill(
            &content(&node, &uid, &labels),
            None,
            "2026-11-25T10:00:00.5Z".parse().unwrap(),
            None,
        );
        let lease: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            lease,
            json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {
                    "name": "vnode-east-w1", "namespace": "kube-node-lease", "labels": labels,
                    "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "vnode-east-w1", "uid": "u-1"}],
                },
                "spec": {
                    "holderIdentity": "vnode-east-w1", "leaseDurationSeconds": 40,
                    "renewTime": "2026-11-25T10:00:00.500000Z",
                },
            })
        );
    }

    #[test]
    fn a_renewal_keeps_what_others_added_and_rewrites_owner_and_identity() {
        let (node, uid, labels) = ("n".into(), "new".into(), us().labels());
        let old = stored(json!({
            "metadata": {
                "name": "n", "uid": "lease-uid", "resourceVersion": "7",
                "labels": {"team": "a", "topoloom.dev/binding-uid": "earlier"},
                "annotations": {"note": "quoted \"so\""}, "finalizers": ["x/y"],
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "old"}],
            },
            "spec": {"holderIdentity": "n", "renewTime": "2026-11-25T09:00:00.000000Z"},
        }));
        let template = Template::replacing(&labels, &old);
        let body = template.fill(
            &content(&node, &uid, &labels),
            Some(&old.version()),
            "2026-11-25T10:00:00.123456Z".parse().unwrap(),
            None,
        );
        let lease: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(lease["metadata"]["resourceVersion"], "7");
        assert_eq!(lease["metadata"]["uid"], "lease-uid");
        assert_eq!(lease["metadata"]["labels"]["team"], "a");
        assert_eq!(lease["metadata"]["labels"]["topoloom.dev/binding-uid"], "binding");
        assert_eq!(lease["metadata"]["annotations"]["note"], "quoted \"so\"");
        assert_eq!(lease["metadata"]["finalizers"], json!(["x/y"]));
        assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], "new");
        assert_eq!(lease["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
        assert_eq!(lease["spec"]["renewTime"], "2026-11-25T10:00:00.123456Z");
    }

    #[test]
    fn s24_a_renewal_whose_time_is_not_that_of_the_clock_says_what_the_clock_shows_and_the_next_one_does_not() {
        let (node, uid, labels) = ("n".into(), "u".into(), BTreeMap::new());
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let (time, clock) = (at("2026-11-25T10:00:00.000001Z"), at("2026-11-25T09:00:00Z"));
        for others in [json!({}), json!({"note": "quoted \"so\"", "other": ""})] {
            let old = stored(json!({"metadata": {"name": "n", "annotations": others}, "spec": {}}));
            let template = Template::replacing(&labels, &old);
            let body = template.fill(&content(&node, &uid, &labels), Some(&"7".into()), time, Some(clock));
            let behind: StoredLease = serde_json::from_slice(&body).unwrap();
            assert_eq!((behind.renewed(), behind.clock()), (Some(time), Some(clock)));
            assert_eq!(&*behind.version(), "7");
            let template = Template::replacing(&labels, &behind);
            let lease: Value =
                serde_json::from_slice(&template.fill(&content(&node, &uid, &labels), None, time, None)).unwrap();
            assert_eq!(lease["metadata"].get("annotations").unwrap_or(&json!({})), &others);
        }
    }

    #[test]
    fn s17_s24_the_lease_that_was_written_last_shows_the_clock_of_an_earlier_process() {
        let at = |hour: i64| Timestamp::from_second(1_772_352_000 + 3_600 * hour).unwrap();
        let lease = |version: &str, renewed: i64, clock: Option<i64>| {
            let annotations = clock.map_or(json!({}), |clock| json!({keys::RENEWED_AT: at(clock).to_string()}));
            let spec = json!({"renewTime": at(renewed).to_string()});
            let metadata = json!({"resourceVersion": version, "annotations": annotations, "labels": us().labels()});
            stored(json!({"metadata": metadata, "spec": spec}))
        };
        let never = stored(json!({"metadata": {"resourceVersion": "99", "labels": us().labels()}, "spec": {}}));
        let take_over = |stored: &[StoredLease], now| take_over(stored, &us(), &BTreeMap::new(), now);
        assert_eq!(take_over(&[], at(0)), None);
        assert_eq!(take_over(std::slice::from_ref(&never), at(0)), None);
        // The third was renewed by a clock that was ahead, the first by the next process, which is two hours behind.
        let all = [lease("30", 8, Some(6)), lease("9", 7, None), lease("20", 8, None), never];
        assert_eq!(take_over(&all, at(9)), Some(TakeOver { earlier: at(6), latest: at(8), now: at(9) }));
        assert_eq!(take_over(&all[1..], at(9)), Some(TakeOver { earlier: at(8), latest: at(8), now: at(9) }));
        // A clock that showed more than the renewal carries is none of ours: no grace would be left.
        let forged = lease("40", 8, Some(80_000));
        assert_eq!(forged.clock(), Some(at(8)));
    }

    #[test]
    fn s17_a_lease_that_an_earlier_binding_of_the_name_left_of_a_node_that_is_gone_shows_no_clock() {
        let at = |second: i64| Timestamp::from_second(1_772_352_000 + second).unwrap();
        let mut labels = us().labels();
        labels.insert(keys::BINDING_UID.to_owned(), "of an earlier binding".to_owned());
        let owner = json!([{"kind": "Node", "name": "vnode-east-w1", "uid": "u-1"}]);
        let left = [stored(json!({
            "metadata": {"name": "vnode-east-w1", "labels": labels, "ownerReferences": owner, "resourceVersion": "7"},
            "spec": {"holderIdentity": "vnode-east-w1", "renewTime": at(0).to_string()},
        }))];
        let shown = |nodes: &[(&str, &str)]| {
            let nodes = nodes.iter().map(|&(name, uid)| (name.into(), uid.into())).collect();
            take_over(&left, &us(), &nodes, at(67))
        };
        assert_eq!(shown(&[]), None);
        assert_eq!(shown(&[("vnode-east-w1", "u-2"), ("vnode-east-w2", "u-1")]), None, "a node made again");
        // The binding was deleted by force: its node is there, and is adopted with its graces.
        assert_eq!(shown(&[("vnode-east-w1", "u-1")]), Some(TakeOver { earlier: at(0), latest: at(0), now: at(67) }));
    }

    #[test]
    fn a_version_that_is_no_number_cannot_break_the_body() {
        let (node, uid, labels) = ("n".into(), "u".into(), BTreeMap::new());
        let body = Template::new("".into()).fill(
            &content(&node, &uid, &labels),
            Some(&"a\"}\\".into()),
            Timestamp::UNIX_EPOCH,
            None,
        );
        let lease: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(lease["metadata"]["resourceVersion"], "a\"}\\");
    }

    #[test]
    fn of_an_answer_version_uid_and_time_are_read() {
        let answer = json!({
            "kind": "Lease",
            "metadata": {"name": "n", "uid": "u", "resourceVersion": "12", "managedFields": [{"fieldsV1": {"f:spec": {}}}]},
            "spec": {"renewTime": "2026-11-25T10:00:00.123456Z", "holderIdentity": "n"},
        });
        let written = WrittenLease::read(answer.to_string().as_bytes()).unwrap();
        let renewed = Some("2026-11-25T10:00:00.123456Z".parse().unwrap());
        assert_eq!(written, WrittenLease { version: "12".into(), uid: "u".into(), renewed });
        assert!(WrittenLease::read(b"{\"kind\":\"Status\"}").is_err());
        assert!(WrittenLease::read(b"<html>").is_err());
    }

    #[track_caller]
    fn check(metadata: Value, holder: &str, standing: &str) {
        let lease = stored(json!({"metadata": metadata, "spec": {"holderIdentity": holder}}));
        let found = match lease.standing(&"n".into(), &"u".into(), &us()) {
            Standing::Ours => "ours".to_owned(),
            Standing::Foreign(why) => why.to_string(),
        };
        assert!(found.contains(standing), "{found}");
    }

    #[test]
    fn s1_a_lease_is_ours_by_owner_or_identity_and_foreign_otherwise() {
        let owner = |kind: &str, name: &str, uid: &str| json!([{"kind": kind, "name": name, "uid": uid}]);
        let labels = |cluster: &str, binding: &str, uid: &str| {
            json!({
                "topoloom.dev/virtual-cluster": cluster, "topoloom.dev/binding": binding,
                "topoloom.dev/binding-uid": uid,
            })
        };
        // Owned by our virtual node: whatever else it says.
        check(json!({"ownerReferences": owner("Node", "n", "u")}), "another", "ours");
        let other = labels("other", "east", "binding");
        check(json!({"ownerReferences": owner("Node", "n", "u"), "labels": other}), "n", "ours");
        // An earlier node of this name.
        check(json!({"ownerReferences": owner("Node", "n", "old")}), "n", "ours");
        check(json!({"ownerReferences": owner("Node", "n", "old")}), "", "ours");
        check(json!({"ownerReferences": owner("Node", "n", "old")}), "another", "its holder is \"another\"");
        check(json!({"ownerReferences": owner("Node", "n", "old"), "labels": other}), "n", "another binding");
        check(json!({"ownerReferences": owner("Node", "m", "old")}), "n", "nor an owner reference");
        check(json!({"ownerReferences": owner("Pod", "n", "old")}), "n", "nor an owner reference");
        // By its labels.
        check(json!({"labels": labels("cluster", "east", "binding")}), "n", "ours");
        check(json!({"labels": labels("cluster", "east", "earlier")}), "n", "ours");
        check(json!({"labels": labels("cluster", "west", "binding")}), "n", "another binding");
        check(json!({"labels": labels("cluster", "east", "binding")}), "another", "its holder is \"another\"");
        check(json!({}), "n", "nor an owner reference");
    }

    #[test]
    fn s6_s11_a_lease_of_ours_says_of_which_node_it_is() {
        let node_of = |owner: &str, holder: &str, labels: &BTreeMap<String, String>| {
            let owner = json!([{"kind": "Node", "name": owner, "uid": "u"}]);
            let metadata = json!({"name": "n", "labels": labels, "ownerReferences": owner});
            stored(json!({"metadata": metadata, "spec": {"holderIdentity": holder}})).node_of(&us())
        };
        let labels = us().labels();
        assert_eq!(node_of("n", "n", &labels), Some(("n".into(), "u".into())));
        assert_eq!(node_of("m", "n", &labels), None, "another node owns it");
        assert_eq!(node_of("n", "m", &labels), None, "another client holds it");
        let with = |key: &str, value: &str| {
            let mut labels = labels.clone();
            labels.insert(key.to_owned(), value.to_owned());
            labels
        };
        assert_eq!(node_of("n", "n", &with(keys::BINDING, "west")), None);
        assert!(node_of("n", "n", &with(keys::BINDING_UID, "of an earlier binding")).is_some());
        assert_eq!(stored(json!({"metadata": {"name": "n", "labels": labels}})).node_of(&us()), None);
    }
}
