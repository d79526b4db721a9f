//! How much was written, by the audit log of the virtual cluster, beside what a syncer would have written that writes a node with
//! each event, as the original does (`bottomup-syncer.md` 6.1, 6.6 and 10).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use crate::controlplane::{Write, WriteKind};

/// Verbs of the audit log that change something.
const WRITES: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];
/// How often the original looks at each node and writes it, without any event.
const RESYNC: u64 = 300;

/// How often a user wrote what: by resource and verb, only what the API server did.
pub(super) fn written(audit: &[Value], user: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for event in audit {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (verb, reference) = (word(&event["verb"]), &event["objectRef"]);
        let is_done = event["stage"] == "ResponseComplete"
            && event["responseStatus"]["code"].as_u64().is_some_and(|code| code < 300);
        if event["user"]["username"] != user || !is_done || !WRITES.contains(&verb.as_str()) {
            continue;
        }
        let subresource = word(&reference["subresource"]);
        let slash = if subresource.is_empty() { "" } else { "/" };
        let what = format!("{verb} {}{slash}{subresource}", word(&reference["resource"]));
        *counts.entry(what).or_default() += 1;
    }
    counts
}

/// How many of them are about virtual nodes.
pub(super) fn of_nodes(written: &BTreeMap<String, u64>) -> u64 {
    let is_of_nodes =
        |what: &str| what.split_once(' ').is_some_and(|(_, what)| matches!(what, "nodes" | "nodes/status"));
    written.iter().filter(|(what, _)| is_of_nodes(what)).map(|(_, count)| count).sum()
}

/// What happened in the physical cluster since its nodes are lent.
pub(super) struct History<'a> {
    /// The writes of Nodes.
    pub(super) machines: &'a [Write],
    /// The writes of pods.
    pub(super) pods: &'a [Write],
    /// The writes of policies.
    pub(super) policies: &'a [Write],
    /// How many nodes are lent.
    pub(super) lent: u64,
    /// How long it was.
    pub(super) time: Duration,
}

impl History<'_> {
    /// How often virtual nodes would have been written: once for each event of a machine and for each pod that comes to one or
    /// goes, all of them with each edit of a policy and again with its status, and each one every five minutes.
    pub(super) fn naive(&self) -> u64 {
        let machines = self.machines.len() as u64;
        let mut bound = BTreeSet::new();
        let mut pods = 0;
        for write in self.pods {
            let is_bound = write.value["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
            let comes = write.kind == WriteKind::Put && is_bound && bound.insert(write.key.as_str());
            let goes = write.kind == WriteKind::Delete && bound.remove(write.key.as_str());
            pods += u64::from(comes || goes);
        }
        let edits: BTreeSet<_> = self
            .policies
            .iter()
            .map(|write| (write.key.as_str(), write.value["metadata"]["generation"].as_i64().unwrap_or_default()))
            .collect();
        machines + pods + 2 * self.lent * edits.len() as u64 + self.lent * (self.time.as_secs() / RESYNC)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(user: &str, verb: &str, resource: &str, subresource: Option<&str>, code: u16) -> Value {
        let mut reference = json!({"resource": resource});
        if let Some(subresource) = subresource {
            reference["subresource"] = json!(subresource);
        }
        json!({
            "stage": "ResponseComplete", "verb": verb, "user": {"username": user}, "objectRef": reference,
            "responseStatus": {"code": code},
        })
    }

    #[test]
    fn only_writes_of_that_user_that_were_done_count() {
        let mut began = event("syncer", "create", "nodes", None, 201);
        began["stage"] = json!("ResponseStarted");
        let audit = [
            event("syncer", "create", "nodes", None, 201),
            event("syncer", "patch", "nodes", Some("status"), 200),
            event("syncer", "patch", "nodes", Some("status"), 200),
            event("syncer", "patch", "pods", Some("status"), 200),
            event("syncer", "patch", "nodes", None, 409),
            event("syncer", "list", "nodes", None, 200),
            event("another", "patch", "nodes", None, 200),
            began,
        ];
        let counts = written(&audit, "syncer");
        let wanted = [("create nodes", 1), ("patch nodes/status", 2), ("patch pods/status", 1)];
        assert_eq!(counts, BTreeMap::from(wanted.map(|(what, count)| (what.to_owned(), count))));
        assert_eq!(of_nodes(&counts), 3);
    }

    fn write(key: &str, kind: WriteKind, value: Value) -> Write {
        Write { revision: 1, key: key.to_owned(), kind, created: false, value }
    }

    #[test]
    fn the_original_writes_a_node_with_each_event() {
        let bound = || json!({"spec": {"nodeName": "gpu-1"}});
        let pods = [
            write("p", WriteKind::Put, json!({"spec": {}})),
            write("p", WriteKind::Put, bound()),
            write("p", WriteKind::Put, bound()),
            write("q", WriteKind::Put, bound()),
            write("p", WriteKind::Delete, Value::Null),
            write("never-bound", WriteKind::Delete, Value::Null),
        ];
        let machines = [write("gpu-1", WriteKind::Put, json!({}))];
        let policy = |generation: i64| write("nights", WriteKind::Put, json!({"metadata": {"generation": generation}}));
        let policies = [policy(1), policy(1), policy(2)];
        let time = Duration::from_secs(601);
        let history = History { machines: &machines, pods: &pods, policies: &policies, lent: 4, time };
        // One machine, three pods that came or went, two edits of a policy for four nodes, and two looks at each.
        assert_eq!(history.naive(), 1 + 3 + 2 * 4 * 2 + 4 * 2);
    }
}
