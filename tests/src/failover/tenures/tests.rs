use serde_json::json;

use super::*;

const BASE: &str = "topoloom-syncer";
const DEADLINE: Duration = Duration::from_secs(3);

fn bindings() -> Bindings {
    Bindings::new(BASE, ["c0", "c1"].map(str::to_owned)).unwrap()
}

fn lease(binding: &str) -> String {
    bindings().lease(binding).unwrap().to_owned()
}

fn time(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(milliseconds).unwrap()
}

/// A write as etcd has it.
fn put(key: &str, revision: u64, value: Value) -> Write {
    Write { revision, key: key.to_owned(), kind: WriteKind::Put, created: false, value }
}

fn gone(key: &str, revision: u64) -> Write {
    Write { kind: WriteKind::Delete, ..put(key, revision, Value::Null) }
}

/// The lease of a binding as it is stored when this replica has claimed or renewed it.
fn held(binding: &str, revision: u64, holder: &str, at: i64) -> Write {
    let spec = json!({"holderIdentity": holder, "renewTime": time(at)});
    put(&format!("/registry/leases/topoloom-system/{}", lease(binding)), revision, json!({"spec": spec}))
}

/// A request of a replica that the API server accepted.
fn sent(replica: &str, at: i64, verb: &str, resource: &str, name: &str, body: Value) -> Received {
    Received {
        replica: replica.to_owned(),
        at: time(at),
        answered: time(at + 5),
        verb: verb.to_owned(),
        resource: resource.to_owned(),
        namespace: String::new(),
        name: name.to_owned(),
        code: 200,
        version: None,
        body,
    }
}

/// A write of a virtual node that made this version.
fn node(replica: &str, at: i64, version: u64) -> Received {
    let body = json!({"metadata": {"resourceVersion": "1"}});
    Received { version: Some(version), ..sent(replica, at, "patch", "nodes/status", "vnode-c0-c0-a", body) }
}

/// A claim, or a renewal of what was claimed at that time.
fn renewal(replica: &str, at: i64, claimed: i64) -> Received {
    let spec = json!({"holderIdentity": format!("{replica}_x"), "acquireTime": time(claimed), "renewTime": time(at)});
    sent(replica, at, "update", "leases", &lease("c0"), json!({"spec": spec}))
}

const NODE: &str = "/registry/minions/vnode-c0-c0-a";

#[test]
fn names_show_whose_an_object_is() {
    let bindings = bindings();
    for (name, wanted) in [
        ("c0", Some("c0")),
        ("c1-b", Some("c1")),
        ("vnode-c1-c1-b", Some("c1")),
        ("c1-b-0-1-d8e9078212837472931ac9807f48a030", Some("c1")),
        ("c2-a", None),
        ("own", None),
    ] {
        assert_eq!(bindings.of_object(name), wanted, "{name}");
    }
    let borrower = borrower_lease(&BindingName::parse("c1").unwrap());
    assert_eq!(bindings.of_object(&borrower), Some("c1"));
    assert_eq!(bindings.of_lease(&lease("c0")), Some("c0"));
    assert_eq!(bindings.names().collect::<Vec<_>>(), ["c0", "c1"]);
}

#[test]
fn a_binding_is_without_a_holder_from_one_renewal_to_the_next_whatever_another_program_writes_between() {
    let writes = [
        held("c0", 1, "replica-0_x", 0),
        held("c0", 2, "replica-0_x", 1000),
        held("c1", 3, "replica-1_y", 1000),
        held("c0", 4, "thief", 1500),
        held("c0", 5, "replica-1_y", 6000),
        held("c1", 6, "replica-1_y", 2500),
    ];
    let tenures = Tenures::of(&writes, &bindings()).unwrap();
    let gaps = tenures.longest_gaps(&Stalls::default());
    assert_eq!(gaps["c0"], SignedDuration::from_secs(5));
    assert_eq!(gaps["c1"], SignedDuration::from_millis(1500));
    assert_eq!(tenures.handovers(), 1);
}

#[test]
fn an_earlier_holder_that_writes_what_a_later_one_has_written_is_found() {
    let leases =
        [held("c0", 10, "replica-0_x", 0), held("c0", 20, "replica-1_y", 5000), held("c0", 30, "replica-0_x", 10_000)];
    let tenures = Tenures::of(&leases, &bindings()).unwrap();
    let (first, second) = (node("replica-0", 100, 11), node("replica-1", 5100, 21));
    let stored = |revisions: &[u64]| -> Vec<Write> { revisions.iter().map(|at| put(NODE, *at, json!({}))).collect() };
    let judged = |requests: Vec<Received>, revisions: &[u64]| {
        tenures.no_late_write_wins(&stored(revisions), &requests, &bindings()).map_err(|error| error.to_string())
    };
    // In turns, and again by the first one in its second tenure.
    let third = node("replica-0", 10_100, 31);
    assert_eq!(judged(vec![first, second, third], &[11, 21, 31]), Ok(3));
    // What the first one sent in its first tenure is stored after a write of the second one.
    let (late, second) = (node("replica-0", 4000, 22), node("replica-1", 5100, 21));
    let why = judged(vec![late, second], &[21, 22]).unwrap_err();
    assert!(why.contains("which replica-1 had written as a later holder"), "{why}");
    let why = judged(vec![node("replica-2", 100, 11)], &[11]).unwrap_err();
    assert!(why.contains("never held c0"), "{why}");
    // Writes of other programs, and a deletion by the version that it names.
    assert_eq!(judged(vec![], &[11, 21]), Ok(0));
    let body = json!({"preconditions": {"uid": "u", "resourceVersion": "11"}});
    let deletion = sent("replica-1", 5100, "delete", "nodes", "vnode-c0-c0-a", body);
    let writes = [put(NODE, 11, json!({})), gone(NODE, 25)];
    assert_eq!(tenures.no_late_write_wins(&writes, &[deletion], &bindings()).unwrap(), 1);
}

#[test]
fn a_request_after_the_renew_deadline_is_late_also_where_it_is_refused() {
    let judged = |requests: Vec<Received>| {
        let judged = no_request_is_late([&requests, &[]], &bindings(), DEADLINE, &Stalls::default());
        judged.map_err(|error| error.to_string())
    };
    let held = || vec![renewal("replica-0", 0, 0), renewal("replica-0", 1000, 0)];
    let with = |more: Received| [held(), vec![more]].concat();
    assert_eq!(judged(with(node("replica-0", 3900, 9))), Ok(1));
    for code in [200, 409] {
        let late = Received { code, ..node("replica-0", 4300, 9) };
        let why = judged(with(late)).unwrap_err();
        assert!(why.contains("after its last renewal of the lease of c0"), "{why}");
    }
    let why = judged(with(node("replica-1", 1100, 9))).unwrap_err();
    assert!(why.contains("does not hold c0"), "{why}");
    // Released.
    let free = sent("replica-0", 1100, "update", "leases", &lease("c0"), json!({"spec": {"holderIdentity": ""}}));
    let after = [held(), vec![free, node("replica-0", 1200, 9)]].concat();
    assert!(judged(after).is_err());
    // Events and announcements are no writes of a binding.
    let event = sent("replica-1", 9000, "create", "events", "vnode-c0-c0-a.1", json!({}));
    let member = sent("replica-1", 9000, "update", "leases", "topoloom-syncer-member-0", json!({}));
    assert_eq!(judged(vec![event, member]), Ok(0));
    let blind = sent("replica-0", 1100, "patch", "nodes", "vnode-c0-c0-a", json!({"spec": {}}));
    assert!(judged(with(blind)).unwrap_err().contains("builds on nothing"));
}

fn eviction(replica: &str, uid: &str) -> Received {
    let body = json!({"deleteOptions": {"preconditions": {"uid": uid}}});
    sent(replica, 0, "create", "pods/eviction", "c0-a-0", body)
}

#[test]
fn a_pod_is_removed_once_whatever_the_means() {
    let deletion = |code: i64, grace: Value| {
        let body = json!({"preconditions": {"uid": "p1"}, "gracePeriodSeconds": grace});
        Received { code, ..sent("replica-1", 9, "delete", "pods", "c0-a-0", body) }
    };
    let once = |requests: &[Received]| Removed::once([requests, &[]]).map_err(|error| error.to_string());
    let why = once(&[eviction("replica-0", "p1"), deletion(200, Value::Null)]).unwrap_err();
    assert!(why.contains("was removed twice: by replica-0"), "{why}");
    // A refusal removes nothing, and what is finished was removed before.
    let fine =
        [eviction("replica-0", "p1"), deletion(409, Value::Null), deletion(200, json!(0)), eviction("replica-0", "p2")];
    let removed = once(&fine).unwrap();
    assert_eq!(removed.count(), 2);
    let ends = |name: &str, uid: &str| {
        let metadata = json!({"name": name, "uid": uid, "deletionTimestamp": "2026-08-03T12:00:00Z"});
        put(&format!("/registry/pods/shop/{name}"), 1, json!({"metadata": metadata}))
    };
    let others = removed.not_by_replicas(&[ends("c0-a-0", "p1"), ends("c0-a-9", "p9")]);
    assert_eq!(others.into_iter().collect::<Vec<_>>(), ["c0-a-9"]);
    let nameless = eviction("replica-0", "");
    assert!(once(&[nameless]).unwrap_err().contains("without its UID"));
}

#[test]
fn the_age_of_a_lease_is_that_of_one_node() {
    let beat = |revision: u64, owner: &str, at: i64| {
        let metadata = json!({"ownerReferences": [{"uid": owner}]});
        put(
            "/registry/leases/kube-node-lease/n",
            revision,
            json!({"metadata": metadata, "spec": {"renewTime": time(at)}}),
        )
    };
    let writes = [beat(1, "u1", 0), beat(2, "u1", 2000), beat(3, "u2", 60_000), beat(4, "u2", 61_000)];
    let longest = longest_lease_age(&writes, &Stalls::default());
    assert_eq!(longest, Some((SignedDuration::from_secs(2), "/registry/leases/kube-node-lease/n")));
    let writes = [beat(1, "u1", 0), gone("/registry/leases/kube-node-lease/n", 2), beat(3, "u1", 9000)];
    assert_eq!(longest_lease_age(&writes, &Stalls::default()), None);
}

#[test]
fn a_node_that_was_ready_and_is_not_any_more_is_harmed_and_so_is_one_whose_pods_are_evicted() {
    let ready = |revision: u64, uid: &str, status: &str| {
        let conditions = json!([{"type": "Ready", "status": status}]);
        put(NODE, revision, json!({"metadata": {"uid": uid}, "status": {"conditions": conditions}}))
    };
    assert_eq!(harmed(&[ready(1, "u1", "False"), ready(2, "u1", "True"), ready(3, "u2", "Unknown")]), [""; 0]);
    assert_eq!(harmed(&[ready(1, "u1", "True"), ready(2, "u1", "Unknown")]).len(), 1);
    let taints = json!([{"key": "k", "effect": "NoExecute"}, {"key": "k", "effect": "NoSchedule"}]);
    assert_eq!(harmed(&[put(NODE, 1, json!({"metadata": {"uid": "u1"}, "spec": {"taints": taints}}))]).len(), 1);
}
