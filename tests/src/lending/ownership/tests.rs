use serde_json::json;

use super::*;

const CLAIM: &str = "vc-1/b-1";

fn story(deleted: &[&str]) -> Story {
    Story {
        identities: BTreeSet::from([("vc-1".to_owned(), "east".to_owned())]),
        mounts: BTreeMap::from([(("vc-1".to_owned(), "east".to_owned()), "borrowed".to_owned())]),
        deleted: deleted.iter().map(|key| (*key).to_owned()).collect(),
    }
}

fn put(revision: u64, key: &str, value: Value) -> Write {
    Write { revision, key: key.to_owned(), kind: WriteKind::Put, created: false, value }
}

fn delete(revision: u64, key: &str) -> Write {
    Write { revision, key: key.to_owned(), kind: WriteKind::Delete, created: false, value: Value::Null }
}

/// An entry of the manager `topoloom` for these fields.
fn written(fields: Value) -> Value {
    json!([
        {"manager": "kubelet", "fieldsV1": {"f:status": {"f:phase": {}}}},
        {"manager": "topoloom", "fieldsV1": fields},
    ])
}

fn ours() -> Value {
    json!({keys::VIRTUAL_CLUSTER: "vc-1", keys::BINDING: "east"})
}

fn claimed(by: Option<&str>) -> Value {
    let claim = format!("f:{}", keys::LEASED_BY);
    json!({"metadata": {
        "annotations": {keys::LEASED_BY: by},
        "managedFields": written(json!({"f:metadata": {"f:annotations": {".": {}, claim: {}}}})),
    }})
}

#[test]
fn what_carries_the_identity_may_be_written_and_deleted() {
    let key = "/registry/pods/borrowed/p";
    let pod = json!({"metadata": {"labels": ours(), "managedFields": written(json!({"f:status": {"f:phase": {}}}))}});
    let judged =
        judge(&[put(1, key, json!({"metadata": {"labels": ours()}})), put(2, key, pod), delete(3, key)], &story(&[]));
    assert_eq!(judged, Judged { ours: 1, ..Judged::default() });
}

#[test]
fn a_look_alike_may_not_be_written_or_deleted_by_any_but_the_test() {
    let (key, other) = ("/registry/pods/borrowed/p", json!({keys::VIRTUAL_CLUSTER: "vc-1", keys::BINDING: "west"}));
    let pod = json!({"metadata": {"labels": other}});
    let going = json!({"metadata": {"labels": other, "deletionTimestamp": "2026-08-01T00:00:00Z"}});
    let history = [put(1, key, pod.clone()), put(2, key, going), delete(3, key)];
    assert_eq!(judge(&history, &story(&[])).violations.len(), 2);
    assert_eq!(judge(&history, &story(&[key])), Judged { foreign: 1, ..Judged::default() });
    let mut touched = pod.clone();
    touched["metadata"]["managedFields"] = written(json!({"f:status": {"f:phase": {}}}));
    let violations = judge(&[put(1, key, pod), put(2, key, touched)], &story(&[])).violations;
    assert_eq!(violations, [format!("revision 2: {key} is not ours, and the program wrote status.phase")]);
}

#[test]
fn a_pod_with_the_identity_in_a_namespace_that_another_borrows_may_not_be_touched() {
    let (key, pod) = ("/registry/pods/elsewhere/p", json!({"metadata": {"labels": ours()}}));
    let mut touched = pod.clone();
    touched["metadata"]["managedFields"] = written(json!({"f:status": {"f:phase": {}}}));
    let violations = judge(&[put(1, key, pod), put(2, key, touched), delete(3, key)], &story(&[])).violations;
    assert_eq!(violations.len(), 2, "{violations:?}");
}

#[test]
fn of_a_machine_the_policy_and_the_claim_are_written_and_no_claim_of_another_is_taken() {
    let key = "/registry/minions/w1";
    let free = json!({"metadata": {}});
    let judged =
        judge(&[put(1, key, free.clone()), put(2, key, claimed(Some(CLAIM))), put(3, key, claimed(None))], &story(&[]));
    assert_eq!(judged, Judged { foreign: 1, claims: 1, ..Judged::default() });
    for after in [Some(CLAIM), None] {
        let history = [put(1, key, claimed(Some("vc-9/b-9"))), put(2, key, claimed(after))];
        assert_eq!(judge(&history, &story(&[])).violations.len(), 1, "{after:?}");
    }
    let mut tainted = free.clone();
    tainted["metadata"]["managedFields"] = written(json!({"f:spec": {"f:taints": {}}}));
    assert_eq!(judge(&[put(1, key, free), put(2, key, tainted)], &story(&[])).violations.len(), 1);
    assert_eq!(judge(&[put(1, key, claimed(None)), delete(2, key)], &story(&[])).violations.len(), 1);
}

#[test]
fn pods_and_leases_of_virtual_nodes_are_ours_and_those_of_nodes_that_only_look_so_are_not() {
    let (pod, lease) = ("/registry/pods/default/web", "/registry/leases/kube-node-lease/vnode-east-w1");
    let bound = json!({"metadata": {}, "spec": {"nodeName": "vnode-east-w1"}});
    let node = |labels: Value| put(1, "/registry/minions/vnode-east-w1", json!({"metadata": {"labels": labels}}));
    let after = [put(2, pod, bound), put(3, lease, json!({"metadata": {}})), delete(4, pod), delete(5, lease)];
    let lent: Vec<Write> = [node(ours())].into_iter().chain(after.clone()).collect();
    assert!(judge(&lent, &story(&[])).violations.is_empty());
    let by_hand: Vec<Write> = [node(json!({}))].into_iter().chain(after).collect();
    assert_eq!(judge(&by_hand, &story(&[])).violations.len(), 2);
    // The program's own leases are no one's node.
    let own = "/registry/leases/topoloom-system/topoloom-binding-x";
    assert_eq!(judge(&[put(1, own, json!({"metadata": {}})), delete(2, own)], &story(&[])), Judged::default());
}

#[test]
fn of_other_kinds_only_status_and_finalizer_of_our_own_and_events_are_written() {
    let touched = |fields: Value| json!({"metadata": {"managedFields": written(fields)}});
    let status = || touched(json!({"f:status": {".": {}, "f:phase": {}}}));
    let finalizer = touched(json!({"f:metadata": {"f:finalizers": {".": {}, "v:\"topoloom.dev/binding\"": {}}}}));
    let (binding, policy) =
        ("/registry/topoloom.dev/clusterbindings/east", "/registry/topoloom.dev/resourceleasingpolicies/nights");
    let event = touched(json!({"f:reason": {}}));
    let history = [
        put(1, binding, finalizer),
        put(2, binding, status()),
        put(3, policy, status()),
        put(4, "/registry/events/default/e", event),
    ];
    assert_eq!(judge(&history, &story(&[])), Judged::default());
    for (key, value) in [
        (policy, touched(json!({"f:spec": {"f:timeZone": {}}}))),
        ("/registry/secrets/topoloom-system/east", touched(json!({"f:data": {"f:kubeconfig": {}}}))),
        ("/registry/configmaps/default/m", status()),
    ] {
        assert_eq!(judge(&[put(1, key, value)], &story(&[])).violations.len(), 1, "{key}");
    }
}
