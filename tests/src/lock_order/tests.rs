//! Small histories: valid ones, and one for each violation.

use serde_json::{Value, json};

use super::*;

const LOCK: &str = "2026-08-01T06:10:00.000000007Z,default,a";
const OTHER: &str = "2026-08-01T06:10:01Z,default,b";

/// Writes in their order, as the API server makes them.
#[derive(Default)]
struct History(Vec<Write>);

impl History {
    fn writes(mut self, key: &str, value: Value) -> Self {
        let key = format!("/registry/{key}");
        let earlier = self.0.iter().rfind(|write| write.key == key).map(|write| write.kind);
        let kind = if value.is_null() { WriteKind::Delete } else { WriteKind::Put };
        let created = kind == WriteKind::Put && earlier != Some(WriteKind::Put);
        let revision = self.0.len() as u64 + 1;
        self.0.push(Write { revision, key, kind, created, value });
        self
    }

    /// The node `n` with these annotations.
    fn node(self, annotations: Value) -> Self {
        self.writes("minions/n", json!({"metadata": {"annotations": annotations}}))
    }

    fn locked(self, value: &str) -> Self {
        self.node(json!({"hami.io/mutex.lock": value}))
    }

    /// A pod whose UID is its name, which is created and then bound to the node.
    fn bound(self, name: &str) -> Self {
        self.pod(name, None, json!({})).pod(name, Some("n"), json!({}))
    }

    fn started(self, name: &str) -> Self {
        self.pod(name, Some("n"), json!({"phase": "Running", "startTime": "2026-08-01T06:10:00Z"}))
    }

    fn pod(self, name: &str, node: Option<&str>, status: Value) -> Self {
        self.phase(name, node, status, "allocating")
    }

    fn phase(self, name: &str, node: Option<&str>, status: Value, phase: &str) -> Self {
        let pod = json!({
            "metadata": {"uid": name, "annotations": {"hami.io/bind-phase": phase}},
            "spec": {
                "nodeName": node,
                "containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}],
            },
            "status": status,
        });
        self.writes(&format!("pods/default/{name}"), pod)
    }

    fn gone(self, name: &str) -> Self {
        self.writes(&format!("pods/default/{name}"), Value::Null)
    }

    fn violates(self, what: &str) {
        let violations = judge(&self.0).violations;
        assert!(violations.len() == 1 && violations[0].contains(what), "{violations:#?}");
    }
}

#[test]
fn two_pods_one_after_the_other_are_right() {
    let note = json!({"value": LOCK, "uid": "a", "attempt": "7"}).to_string();
    let history = History::default()
        .node(json!({}))
        .node(json!({"hami.io/mutex.lock": LOCK, "topoloom.dev/node-lock": note}))
        .bound("a")
        .phase("a", Some("n"), json!({"phase": "Pending"}), "success")
        .node(json!({}))
        .started("a")
        .locked(OTHER)
        .bound("b")
        .gone("b");
    let wanted = Judged { binds: 2, successes: 1, claims: 2, releases: 1, most_under_way: 1, ..Judged::default() };
    assert_eq!(judge(&history.0), wanted);
}

#[test]
fn pods_that_ask_for_nothing_do_not_count() {
    let cpu = json!({"metadata": {"uid": "c"}, "spec": {"nodeName": "n", "containers": [{}]}, "status": {}});
    let history = History::default().locked(LOCK).bound("a").writes("pods/default/c", cpu);
    assert_eq!(judge(&history.0), Judged { binds: 1, claims: 1, most_under_way: 1, ..Judged::default() });
}

#[test]
fn two_pods_under_way_are_one_too_many() {
    History::default()
        .locked(LOCK)
        .bound("a")
        .locked(OTHER)
        .bound("b")
        // The violation is reported once.
        .pod("b", Some("n"), json!({"phase": "Pending"}))
        .violates("pod default/b is under way on node n, and so is default/a");
}

#[test]
fn a_recreated_pod_is_another() {
    let again = json!({"metadata": {"uid": "again"}, "spec": {
        "nodeName": "n", "initContainers": [{"resources": {"requests": {"nvidia.com/gpu": "1"}}}],
    }});
    let history = History::default().locked(LOCK).bound("a").gone("a").writes("pods/default/a", again);
    assert_eq!(judge(&history.0), Judged { binds: 1, claims: 1, most_under_way: 1, ..Judged::default() });
}

#[test]
fn a_pod_is_bound_under_its_own_lock() {
    let free = || History::default().node(json!({}));
    free().bound("a").violates("pod default/a is bound, and node n has no lock");
    free().locked(OTHER).bound("a").violates("the lock of node n is 2026-08-01T06:10:01Z,default,b");
    History::default().bound("a").violates("nothing is known of node \"n\"");
}

#[test]
fn what_stands_beside_the_lock_counts_for_its_value_only() {
    let noted = |note: Value| {
        let annotations = json!({"hami.io/mutex.lock": LOCK, "topoloom.dev/node-lock": note.to_string()});
        History::default().node(annotations).bound("a")
    };
    let (other, stale) = (json!({"value": LOCK, "uid": "other"}), json!({"value": OTHER, "uid": "other"}));
    noted(other.clone()).violates("is for UID other instead of a");
    noted(json!([stale, other])).violates("is for UID other instead of a");
    assert_eq!(judge(&noted(stale).0).violations, Vec::<String>::new());
}

#[test]
fn success_is_said_under_the_lock() {
    History::default()
        .locked(LOCK)
        .bound("a")
        .locked(OTHER)
        .phase("a", Some("n"), json!({}), "success")
        .violates("the device plugin is done with pod default/a, and the lock of node n is");
}

#[test]
fn locks_that_are_replaced_are_counted() {
    let again = "2026-08-01T06:11:00Z,default,a";
    let history = History::default().locked(LOCK).locked(LOCK).locked(again).locked(OTHER).locked("lock");
    assert_eq!(judge(&history.0), Judged { claims: 1, restamps: 1, take_overs: 2, ..Judged::default() });
}
