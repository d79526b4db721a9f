//! Which installation did what in a cluster that several share, by the audit log of its API server (decisions S1, S6 and S7).
//!
//! etcd does not say who deleted an object, and the manager of a field is the program, whichever installation runs it. The user agent
//! of a request ends with the name of the replica that sent it. Owns what of another installation's may not be touched: an object with
//! its identity, a pod or a lease of a virtual node with its identity, and a claim of its cluster. Of an object without an identity only
//! the removal is a violation here; [`judge`](super::judge) checks its other writes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use topoloom_sync::keys;

use super::{NODES, PODS};
use crate::controlplane::{Write, WriteKind};

const LEASES: &str = "/registry/leases/";
const LEASES_OF_NODES: &str = "/registry/leases/kube-node-lease/";

/// Virtual cluster and binding, as the labels have them.
pub type Identity = (String, String);

/// The identities of each replica, by its name.
pub type Replicas = BTreeMap<String, BTreeSet<Identity>>;

/// The result for a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sent {
    /// The violations, a sentence each.
    pub violations: Vec<String>,
    /// How many writes of each replica changed an object.
    pub written: BTreeMap<String, usize>,
    /// How often each replica removed an object of its own.
    pub removed: BTreeMap<String, usize>,
}

/// Judges the requests that the API server of a cluster carried out for these replicas. `writes` are all writes of that cluster, in the
/// order in which they were committed, and read after the log.
#[must_use]
pub fn judge_senders(log: &[Value], writes: &[Write], replicas: &Replicas) -> Sent {
    let (known, mut sent) = (Known::of(writes), Sent::default());
    for request in log.iter().filter_map(|event| Request::of(event, replicas)) {
        let violation = match request.act {
            Act::Removal(uid) => known.removal(&request, uid, &mut sent),
            Act::Write { base, version } => known.write(&request, base, version, &mut sent),
        };
        sent.violations.extend(violation.map(|what| format!("{}: {} {what}", request.key, request.replica)));
    }
    sent
}

/// What a request was about.
enum Act<'a> {
    /// A deletion or an eviction, of the object with this UID.
    Removal(Option<&'a str>),
    /// A write that was computed from one version, and answered with another one.
    Write { base: Option<u64>, version: Option<u64> },
}

/// A request of a replica that was carried out.
struct Request<'a> {
    replica: &'a str,
    own: &'a BTreeSet<Identity>,
    key: String,
    act: Act<'a>,
}

impl<'a> Request<'a> {
    /// Nothing for a read, for a request that was refused, and for those of other programs or about other kinds.
    fn of(event: &'a Value, replicas: &'a Replicas) -> Option<Self> {
        let text = |path: &str| event.pointer(path).and_then(Value::as_str);
        let version = |path: &str| text(path)?.parse().ok();
        let (_, agent) = text("/userAgent")?.strip_prefix("topoloom/")?.split_once(" (")?;
        let (replica, own) = replicas.get_key_value(agent.strip_suffix(')')?)?;
        event.pointer("/responseStatus/code")?.as_u64().filter(|code| (200..300).contains(code))?;
        let act = match (text("/verb")?, text("/objectRef/subresource")) {
            ("delete", _) => Act::Removal(text("/requestObject/preconditions/uid")),
            ("deletecollection", _) => Act::Removal(None),
            ("create", Some("eviction")) => Act::Removal(text("/requestObject/deleteOptions/preconditions/uid")),
            ("create" | "update" | "patch", _) => Act::Write {
                base: version("/requestObject/metadata/resourceVersion"),
                version: version("/responseObject/metadata/resourceVersion"),
            },
            _ => return None,
        };
        let kind = match text("/objectRef/resource")? {
            "nodes" => NODES,
            "pods" => PODS,
            "leases" => LEASES,
            "csinodes" => "/registry/csinodes/",
            _ => return None,
        };
        let namespace = text("/objectRef/namespace").map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let key = format!("{kind}{namespace}{}", text("/objectRef/name").unwrap_or_default());
        Some(Self { replica, own, key, act })
    }
}

/// What was stored.
struct Known<'a> {
    /// The states of each object, by its key, in the order in which they were written.
    states: BTreeMap<&'a str, Vec<&'a Write>>,
    /// The identities of virtual nodes, by name.
    nodes: BTreeMap<&'a str, Identity>,
}

impl<'a> Known<'a> {
    fn of(writes: &'a [Write]) -> Self {
        let mut known = Self { states: BTreeMap::new(), nodes: BTreeMap::new() };
        for write in writes.iter().filter(|write| write.kind == WriteKind::Put) {
            known.states.entry(write.key.as_str()).or_default().push(write);
            if let (Some(name), Some(identity)) = (write.key.strip_prefix(NODES), identity(&write.value)) {
                known.nodes.insert(name, identity);
            }
        }
        known
    }

    /// Whose it is: by its labels, or by the virtual node that it belongs to.
    fn owner(&self, key: &str, object: &Value) -> Option<Identity> {
        let bound = object["spec"]["nodeName"].as_str().filter(|_| key.starts_with(PODS));
        let node = key.strip_prefix(LEASES_OF_NODES).or(bound);
        identity(object).or_else(|| self.nodes.get(node?).cloned())
    }

    fn states(&self, key: &str) -> &[&'a Write] {
        self.states.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    fn removal(&self, request: &Request<'_>, uid: Option<&str>, sent: &mut Sent) -> Option<String> {
        let Some(uid) = uid else { return Some("removed it, whichever it was".to_owned()) };
        let of_it = |write: &&&Write| write.value["metadata"]["uid"] == *uid;
        let Some(removed) = self.states(&request.key).iter().rev().find(of_it) else {
            return Some(format!("removed the one with the UID {uid}, which was never stored"));
        };
        match self.owner(&request.key, &removed.value) {
            Some(owner) if request.own.contains(&owner) => {
                *sent.removed.entry(request.replica.to_owned()).or_default() += 1;
                None
            }
            Some(owner) => Some(format!("removed it, and it is of {owner:?}")),
            None => Some("removed it, and it has no identity".to_owned()),
        }
    }

    fn write(&self, request: &Request<'_>, base: Option<u64>, version: Option<u64>, sent: &mut Sent) -> Option<String> {
        // A request that changes nothing is answered with the version that another may have written.
        let version = version.filter(|version| base != Some(*version))?;
        let states = self.states(&request.key);
        let at = states.iter().position(|write| write.revision == version)?;
        let after = &states.get(at)?.value;
        let before = at.checked_sub(1).and_then(|before| states.get(before)).map(|write| &write.value);
        let before = before.filter(|before| before["metadata"]["uid"] == after["metadata"]["uid"]);
        *sent.written.entry(request.replica.to_owned()).or_default() += 1;
        let mut owners = before.into_iter().chain([after]).filter_map(|object| self.owner(&request.key, object));
        if let Some(owner) = owners.find(|owner| !request.own.contains(owner)) {
            return Some(format!("wrote it, and it is of {owner:?}"));
        }
        let (was, is) = (before.and_then(claim), claim(after));
        if !request.key.starts_with(NODES) || was == is {
            return None;
        }
        let is_own = |claim: &&str| {
            let cluster = claim.split('/').next().unwrap_or_default();
            request.own.iter().any(|(own, _)| own == cluster)
        };
        let other = was.into_iter().chain(is).find(|claim| !is_own(claim))?;
        Some(format!("changed its claim from {was:?} to {is:?}, and {other:?} is another's"))
    }
}

fn identity(object: &Value) -> Option<Identity> {
    let label = |key: &str| object["metadata"]["labels"][key].as_str().filter(|text| !text.is_empty());
    Some((label(keys::VIRTUAL_CLUSTER)?.to_owned(), label(keys::BINDING)?.to_owned()))
}

fn claim(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][keys::LEASED_BY].as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const POD: &str = "/registry/pods/borrowed/p";

    fn replicas() -> Replicas {
        let of =
            |name: &str, cluster: &str| (name.to_owned(), BTreeSet::from([(cluster.to_owned(), "east".to_owned())]));
        [of("one", "vc-1"), of("two", "vc-2")].into()
    }

    fn put(revision: u64, key: &str, value: Value) -> Write {
        Write { revision, key: key.to_owned(), kind: WriteKind::Put, created: false, value }
    }

    fn of_cluster(cluster: &str) -> Value {
        json!({"metadata": {"uid": "u", "labels": {keys::VIRTUAL_CLUSTER: cluster, keys::BINDING: "east"}}})
    }

    fn event(replica: &str, verb: &str, object: Value, body: Value) -> Value {
        json!({
            "userAgent": format!("topoloom/1.0.0 ({replica})"), "verb": verb, "objectRef": object,
            "responseStatus": {"code": 200}, "requestObject": body,
        })
    }

    fn pod() -> Value {
        json!({"resource": "pods", "namespace": "borrowed", "name": "p"})
    }

    fn deletes(replica: &str, uid: &str) -> Value {
        event(replica, "delete", pod(), json!({"preconditions": {"uid": uid}}))
    }

    #[test]
    fn each_may_remove_its_own_and_not_what_is_the_others_or_no_ones() {
        let judged = |cluster: &str, event: Value| {
            let writes = [put(1, POD, of_cluster(cluster))];
            judge_senders(&[event], &writes, &replicas())
        };
        let own = judged("vc-1", deletes("one", "u"));
        assert_eq!(own, Sent { removed: [("one".to_owned(), 1)].into(), ..Sent::default() });
        let theirs = judged("vc-2", deletes("one", "u")).violations;
        assert_eq!(theirs, [format!(r#"{POD}: one removed it, and it is of ("vc-2", "east")"#)]);
        assert_eq!(judged("", deletes("one", "u")).violations.len(), 1);
        assert_eq!(judged("vc-1", deletes("one", "another")).violations.len(), 1);
        assert_eq!(judged("vc-1", event("one", "delete", pod(), Value::Null)).violations.len(), 1);
        let all = json!({"resource": "pods", "namespace": "borrowed"});
        assert_eq!(judged("vc-1", event("one", "deletecollection", all, Value::Null)).violations.len(), 1);
    }

    #[test]
    fn what_was_refused_and_what_other_programs_did_is_no_act_of_a_replica() {
        let writes = [put(1, POD, of_cluster("vc-2"))];
        let mut refused = deletes("one", "u");
        refused["responseStatus"]["code"] = 409.into();
        let mut other = deletes("one", "u");
        other["userAgent"] = "kube-controller-manager/v1 (one)".into();
        let log = [refused, other, deletes("three", "u"), event("one", "get", pod(), Value::Null)];
        assert_eq!(judge_senders(&log, &writes, &replicas()), Sent::default());
    }

    #[test]
    fn pods_and_leases_of_a_virtual_node_are_those_of_its_binding() {
        let bound = json!({"metadata": {"uid": "u"}, "spec": {"nodeName": "vnode-east-w1"}});
        let lease = "/registry/leases/kube-node-lease/vnode-east-w1";
        let writes = [
            put(1, "/registry/minions/vnode-east-w1", of_cluster("vc-1")),
            put(2, POD, bound),
            put(3, lease, json!({"metadata": {"uid": "l"}})),
        ];
        let evicted = json!({"resource": "pods", "namespace": "borrowed", "name": "p", "subresource": "eviction"});
        let body = json!({"deleteOptions": {"preconditions": {"uid": "u"}}});
        for (replica, violations) in [("one", 0), ("two", 2)] {
            let mut renews = event(
                replica,
                "update",
                json!({"resource": "leases", "namespace": "kube-node-lease", "name": "vnode-east-w1"}),
                json!({"metadata": {"resourceVersion": "1"}}),
            );
            renews["responseObject"] = json!({"metadata": {"resourceVersion": "3"}});
            let log = [event(replica, "create", evicted.clone(), body.clone()), renews];
            let sent = judge_senders(&log, &writes, &replicas());
            assert_eq!(sent.violations.len(), violations, "{sent:?}");
        }
    }

    #[test]
    fn no_claim_of_the_other_is_taken_or_removed_and_a_request_that_changes_nothing_is_no_write() {
        let key = "/registry/minions/w1";
        let claimed = |claim: Option<&str>| json!({"metadata": {"uid": "u", "annotations": {keys::LEASED_BY: claim}}});
        let patches = |base: &str| {
            let mut event = event(
                "one",
                "patch",
                json!({"resource": "nodes", "name": "w1"}),
                json!({"metadata": {"resourceVersion": base}}),
            );
            event["responseObject"] = json!({"metadata": {"resourceVersion": "2"}});
            event
        };
        let judged = |was: Option<&str>, is: Option<&str>, base: &str| {
            judge_senders(&[patches(base)], &[put(1, key, claimed(was)), put(2, key, claimed(is))], &replicas())
        };
        let (ours, theirs) = (Some("vc-1/b"), Some("vc-2/b"));
        for (was, is, violations) in [
            (None, ours, 0),
            (ours, None, 0),
            (theirs, theirs, 0),
            (theirs, None, 1),
            (theirs, ours, 1),
            (None, theirs, 1),
            (ours, theirs, 1),
        ] {
            let sent = judged(was, is, "1");
            assert_eq!((sent.violations.len(), sent.written["one"]), (violations, 1), "{was:?} to {is:?}");
        }
        assert_eq!(judged(theirs, None, "2"), Sent::default());
    }
}
