use proptest::prelude::*;
use serde_json::{Value, json};
use topoloom_api::cluster_binding::SpentStatus;

use super::*;
use topoloom_sync::texts::TextMap;

pub(crate) fn around() -> Surroundings {
    Surroundings { virtual_cluster: "vc".into(), evictions: Evictions::Allowed, endpoint: None }
}

/// A binding with these fields beside the least ones.
pub(crate) fn binding(fields: Value) -> ClusterBinding {
    let mut spec = json!({"clusterID": "east", "secretRef": {"name": "east"}, "mountNamespace": "lent"});
    for (key, value) in fields.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let metadata = json!({"name": "east", "uid": "b1", "resourceVersion": "3", "generation": 1});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn problems(fields: Value) -> Vec<String> {
    let problems = match read(&binding(fields), &around()) {
        Ok(reading) => reading.problems,
        Err(problems) => Some(problems),
    };
    problems.map(|problems| problems.kept.iter().map(ToString::to_string).collect()).unwrap_or_default()
}

#[test]
fn d1_d2_s28_a_binding_with_the_least_fields_has_the_defaults_of_the_rooms_that_decide() {
    let Reading { terms, problems } = read(&binding(json!({})), &around()).unwrap();
    assert_eq!(problems, None);
    assert_eq!(terms.safety, Safety::default());
    assert_eq!(terms.contact, ContactTiming::default());
    assert_eq!(terms.heartbeats, heartbeats::Options::default());
    assert_eq!(terms.binding.deletion, DeletionTiming::default());
    assert_eq!((terms.binding.no_policy, terms.binding.on_unreachable), (NoPolicy::LeaseAll, OnUnreachable::Unknown));
    assert_eq!((terms.binding.claims, terms.binding.chained), (NodeClaims::Written, Chained::Refused));
    assert_eq!((terms.mode, terms.policy_source), (Mode::Enforce, PolicySource::Physical));
    assert_eq!((terms.secret.as_str(), terms.mount_namespace.as_str()), ("east", "lent"));
    assert_eq!(terms.binding.identity.claim(), "vc/b1");
}

#[test]
fn s28_every_field_of_a_binding_reaches_what_it_is_for() {
    let written = json!({
        "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]},
        "noPolicy": "Withdraw", "policySource": "virtual", "mode": "observe", "onUnreachable": "hold", "holdFor": "2h",
        "safety": {"maxEvictPercent": 1, "maxNodesPercent": 100, "announce": "1m"},
        "copy": {"labels": {"deny": ["*"]}, "podMetadata": ["example.com/rank"]},
        "timing": {"lease": "4s", "suspect": "2s", "unreachable": "5s", "empty": "3s", "recheck": "1s", "orphanDelay": "6s",
                   "evictionDeadline": "7s", "grow": "8s"},
        "hostPorts": "mirror", "physicalWrites": "none", "allowInsecure": true, "allowChained": true,
        "disableNodeDefaultTaint": true,
    });
    let Reading { terms, problems } = read(&binding(written), &around()).unwrap();
    assert_eq!(problems, None);
    let seconds = Duration::from_secs;
    assert!(!terms.binding.selector.matches("w1", &TextMap::default()));
    assert_eq!(terms.binding.no_policy, NoPolicy::Withdraw);
    assert_eq!(terms.binding.on_unreachable, OnUnreachable::Hold(seconds(7200)));
    assert_eq!(terms.safety, Safety { max_evict_percent: 1, max_nodes_percent: 100, announce: seconds(60) });
    assert_eq!(terms.contact, ContactTiming { suspect: seconds(2), unreachable: seconds(5), empty: seconds(3) });
    assert_eq!(terms.heartbeats.interval(), seconds(1));
    let deletion = DeletionTiming { recheck: seconds(1), eviction_deadline: seconds(7) };
    assert_eq!((terms.binding.deletion, terms.binding.grow), (deletion, seconds(8)));
    assert_eq!(terms.orphan_delay, seconds(6));
    assert_eq!((terms.mode, terms.policy_source), (Mode::Observe, PolicySource::Virtual));
    assert_eq!((terms.host_ports, terms.insecure), (Mirroring::On, Insecure::Allowed));
    assert_eq!((terms.binding.claims, terms.binding.chained), (NodeClaims::None, Chained::Allowed));
    assert_eq!(terms.binding.default_taint, DefaultTaint::Off);
    assert_ne!(terms.binding.copy, CopyRules::default());
    assert_eq!(terms.pod_metadata, ["example.com/rank".to_owned()].into());
}

#[test]
fn each_mistake_names_field_value_and_what_is_allowed() {
    let rows = [
        (json!({"noPolicy": "LeaseHalf"}), "spec.noPolicy must be \"LeaseAll\" or \"Withdraw\", got \"LeaseHalf\""),
        (json!({"mode": "Observe"}), "spec.mode must be \"enforce\" or \"observe\", got \"Observe\""),
        (
            json!({"timing": {"lease": "3s"}}),
            "spec.timing.lease must be a time such as 40s, 10m or 1h30m, from 4s to 5m, got \"3s\"",
        ),
        (
            json!({"timing": {"lease": "4500ms"}}),
            "spec.timing.lease: the lease (spec.timing) must be whole seconds from 4 to 3600, got 4.5s",
        ),
        (
            json!({"timing": {"suspect": "30s"}}),
            "spec.timing.unreachable must be at least twice spec.timing.suspect, got 40s and 30s",
        ),
        (json!({"safety": {"maxEvictPercent": 0}}), "spec.safety.maxEvictPercent must be from 1 to 100, got 0"),
        (json!({"safety": {"maxNodesPercent": 101}}), "spec.safety.maxNodesPercent must be from 1 to 100, got 101"),
        (
            json!({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "in"}]}]}}),
            "spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].operator must be In, NotIn, Exists, DoesNotExist, Gt or \
             Lt, got \"in\" (did you mean \"In\"?)",
        ),
        (
            json!({"copy": {"podMetadata": ["a", "b c"]}}),
            "spec.copy.podMetadata[1] must be the key of a label or an annotation, got \"b c\"",
        ),
    ];
    for (fields, sentence) in rows {
        assert_eq!(problems(fields.clone()), [sentence], "{fields}");
        let reading = read(&binding(fields), &around()).unwrap();
        assert!(reading.terms.binding.selector.matches("w1", &TextMap::default()), "the rest of it is read");
    }
    let rules = problems(json!({"copy": {"annotations": {"allow": ["hami.io/x"]}}}));
    assert!(
        rules[0].starts_with("spec.copy.annotations.allow[0] must not name a key that begins with hami.io/"),
        "{rules:?}"
    );
    let secret = problems(json!({"secretRef": {"name": "East"}}));
    assert!(secret[0].starts_with("spec.secretRef.name must be the name of a Secret"), "{secret:?}");
    let several = problems(json!({"mode": "x", "noPolicy": "x", "holdFor": "soon"}));
    assert_eq!(several.len(), 3);
}

#[test]
fn without_right_names_nothing_can_be_done() {
    for (fields, sentence) in [
        (json!({"clusterID": "x".repeat(25)}), "spec.clusterID must have 1 to 24 bytes, got 25 bytes"),
        (json!({"clusterID": "East"}), "spec.clusterID must consist of lower-case letters"),
        (json!({"mountNamespace": "a.b"}), "spec.mountNamespace must be the name of a namespace"),
        (json!({"mountNamespace": ""}), "spec.mountNamespace must be the name of a namespace"),
    ] {
        let problems = read(&binding(fields.clone()), &around()).unwrap_err().to_string();
        assert!(problems.starts_with(sentence), "{fields}: {problems}");
    }
}

#[test]
fn a_spec_that_cannot_be_read_keeps_the_names_that_never_change() {
    let reading = read(&binding(json!({"safety": 5, "noPolicy": "Withdraw"})), &around()).unwrap();
    assert_eq!(&*reading.terms.binding.cluster, "east");
    let problems = reading.problems.unwrap().to_string();
    assert!(problems.starts_with("spec.safety cannot be read: "), "{problems}");
    assert!(
        read(&serde_json::from_value(json!({"metadata": {"name": "east", "uid": "b1"}})).unwrap(), &around()).is_err()
    );
}

#[test]
fn what_a_binding_says_of_its_mistakes_is_short() {
    let wrong: Vec<String> = (0..100).map(|_| "b c".repeat(1000)).collect();
    let problems = read(&binding(json!({"copy": {"podMetadata": wrong}})), &around()).unwrap().problems.unwrap();
    assert_eq!((problems.kept.len(), problems.more), (10, 90));
    assert!(problems.to_string().len() < 4000 && problems.to_string().ends_with("; and 90 more"), "{problems}");
}

fn batches() -> impl Strategy<Value = HeldBatch> {
    let numbers = (0..9_usize, 0..9_usize);
    ("[0-9a-f]{12}", numbers.clone(), numbers.clone(), numbers).prop_map(|(hash, acts, size, spent)| HeldBatch {
        hash,
        nodes: acts.0,
        pods: acts.1,
        size: Size { nodes: size.0, pods: size.1 },
        spent: Spent { nodes: spent.0, pods: spent.1 },
        causes: std::collections::BTreeMap::new(),
        broken: Vec::new(),
    })
}

proptest! {
    #[test]
    fn s9_what_the_status_keeps_of_a_batch_is_what_the_next_process_inherits(batch in batches()) {
        let held = Some(held(&batch, &[], "t".to_owned()));
        let status = ClusterBindingStatus { held, ..ClusterBindingStatus::default() };
        let stored: ClusterBindingStatus = serde_json::from_value(serde_json::to_value(&status).unwrap()).unwrap();
        let HeldBefore { hash, nodes, pods, size, spent } = inherited(&stored).held.unwrap();
        prop_assert_eq!((hash, nodes, pods), (batch.hash, batch.nodes, batch.pods));
        prop_assert_eq!((size, spent), (batch.size, batch.spent));
    }
}

#[test]
fn s9_numbers_of_a_status_that_are_none_are_read_as_none() {
    let status = json!({"spent": {"nodes": -3, "pods": 9}, "held": {"hash": ""}});
    let read = inherited(&serde_json::from_value(status).unwrap());
    assert_eq!(read, Inherited { spent: Spent { nodes: 0, pods: 9 }, ..Inherited::default() });
    assert_eq!(inherited(&ClusterBindingStatus::default()), Inherited::default());
}

/// When a status was written.
const WRITTEN: &str = "2026-08-03T12:00:00Z";

#[test]
fn s9_what_the_guard_has_allowed_is_stored_up_to_a_bound_and_a_kind_that_is_not_known_is_judged_again() {
    let of = |kind, is_counted, nodes: usize, pods| {
        let nodes = (0..nodes).map(|number| NodeName::from(format!("vnode-east-w{number:04}"))).collect();
        GrantedActs { kind, is_counted, nodes, pods }
    };
    let read = |stored: &[GrantedStatus]| {
        let status = ClusterBindingStatus { granted: stored.to_vec(), ..ClusterBindingStatus::default() };
        let status = status.written(WRITTEN.to_owned());
        let status: ClusterBindingStatus = serde_json::from_value(serde_json::to_value(&status).unwrap()).unwrap();
        inherited(&status).grants
    };
    let all: Vec<GrantedActs> =
        ActKind::ALL.into_iter().flat_map(|kind| [of(kind, true, 2, 7), of(kind, false, 1, 0)]).collect();
    assert_eq!(read(&granted(&all, WRITTEN)), all);
    let many = granted(&[of(ActKind::DeleteNode, false, 5_000, 0)], WRITTEN);
    assert_eq!(read(&many)[0].nodes.len(), ClusterBindingStatus::GRANTED_NODES_MAX);
    let later = GrantedStatus { act: "Later".to_owned(), ..granted(&all, WRITTEN)[0].clone() };
    assert_eq!(read(&[later]), []);
}

#[test]
fn s9_what_the_guard_had_allowed_counts_no_more_after_a_version_that_does_not_know_it_has_written_the_status() {
    let nodes = ["vnode-east-w1".into()].into();
    let acts = GrantedActs { kind: ActKind::DeleteNode, is_counted: true, nodes, pods: 0 };
    let status = ClusterBindingStatus {
        granted: granted(std::slice::from_ref(&acts), ""),
        spent: Some(SpentStatus { nodes: 1, ..SpentStatus::default() }),
        ..ClusterBindingStatus::default()
    };
    let stored = status.written(WRITTEN.to_owned());
    assert_eq!(inherited(&stored).grants, [acts]);
    // Its write changes what it knows, and the time.
    let over = ClusterBindingStatus { last_sync_time: Some("2026-08-03T12:07:00Z".to_owned()), ..stored.clone() };
    let wanted = Inherited { spent: Spent { nodes: 1, pods: 0 }, ..Inherited::default() };
    assert_eq!(inherited(&over), wanted);
    assert_eq!(inherited(&ClusterBindingStatus { last_sync_time: None, ..stored }), wanted);
}
