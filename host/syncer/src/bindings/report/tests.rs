use std::time::Duration;

use topoloom_core::names::NodeName;
use topoloom_sync::guard::{Act, ActKind, Cause, GATHER, Safety, Size, Verdict};

use super::*;
use crate::convert::binding::tests::{around, binding};
use crate::kubeconfig::tests::{SECRET, errors as kubeconfig_errors};
use crate::kubeconfig::{CredentialKind, KubeconfigError};
use crate::physical::CredentialState;
use crate::physical::contact::{ContactError, Question};

const WELL: Link<'static> =
    Link { problem: None, sentence: None, reach: Some(Reach::Reachable), end: None, is_same_cluster: false };
/// No node is astray.
static NO_STRAYS: Strays = Strays {
    stripped: std::collections::BTreeMap::new(),
    astray: std::collections::BTreeSet::new(),
    earlier: std::collections::BTreeMap::new(),
    binding: String::new(),
    labels: String::new(),
};
const GONE: Reach = Reach::Unreachable { since: Duration::ZERO };

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn kept() -> Kept {
    Kept { physical_cluster: Some("c1".to_owned()), ..Kept::default() }
}

fn facts(kept: &Kept) -> Facts<'_> {
    Facts {
        binding: "east",
        now: at("2026-08-03T12:00:00.25Z"),
        generation: Some(1),
        holder: "topoloom-0",
        lease: "topoloom-system/topoloom-binding-0123",
        spec: Spec::Valid,
        link: WELL,
        kept,
        conflict: None,
        held: Held::Nothing,
        guard: Guarded::default(),
        is_paused: false,
        observes: false,
        is_draining: false,
        is_read_only: false,
        troubles: &[],
        counts: Counts { selected: 9, lent: 8, ready: 7, ..Counts::default() },
        strays: &NO_STRAYS,
        next_transition: None,
        unstored: None,
        going: None,
    }
}

fn first(facts: &Facts<'_>) -> ClusterBindingStatus {
    report(&ClusterBindingStatus::default(), facts)
}

/// Type, status and reason of a condition.
fn condition(status: &ClusterBindingStatus, kind: ConditionType) -> String {
    let found = status.conditions.iter().find(|condition| condition.type_ == kind.as_str()).unwrap();
    format!("{} {}", found.status, found.reason)
}

fn batch() -> HeldBatch {
    HeldBatch {
        hash: "abc".to_owned(),
        nodes: 6,
        pods: 4,
        size: Size { nodes: 10, pods: 100 },
        spent: Spent { nodes: 1, pods: 0 },
        causes: std::collections::BTreeMap::new(),
        broken: vec![BrokenLimit::Nodes { percent: 20 }],
    }
}

#[test]
fn a_binding_that_serves_has_all_seven_conditions_and_is_ready() {
    let kept = kept();
    let status = first(&facts(&kept));
    assert_eq!(status.phase, Some(BindingPhase::Ready));
    let words: Vec<String> = status
        .conditions
        .iter()
        .map(|condition| format!("{} {} {}", condition.type_, condition.status, condition.reason))
        .collect();
    assert_eq!(
        words,
        [
            "Ready True Ok",
            "Connected True Ok",
            "Held False Ok",
            "Conflict False Ok",
            "PhysicalClusterChanged False Ok",
            "Restored False Ok",
            "Paused False Ok",
        ]
    );
    assert!(status.conditions.iter().all(|condition| condition.observed_generation == Some(1)));
    assert_eq!(status.nodes.unwrap().ready, 7);
    assert_eq!((status.physical_cluster_uid.as_deref(), status.holder.as_deref()), (Some("c1"), Some("topoloom-0")));
    assert_eq!(status.connection.unwrap().since, "2026-08-03T12:00:00Z");
}

#[test]
fn a_status_that_says_what_is_stored_is_equal_to_it_at_any_later_time() {
    let (kept, batch) = (kept(), batch());
    let mut facts = facts(&kept);
    facts.held = Held::Batch(&batch);
    facts.guard.spent = Spent { nodes: 1, pods: 9 };
    let stored = first(&facts);
    facts.now = at("2026-08-03T15:00:00Z");
    assert_eq!(report(&stored, &facts), stored);
    let read: ClusterBindingStatus = serde_json::from_value(serde_json::to_value(&stored).unwrap()).unwrap();
    assert_eq!(read, stored);
}

#[test]
fn a_sentence_of_a_server_that_has_its_full_stop_gets_no_second_one() {
    let (kept, reason) = (kept(), RefusalReason::DeniedByAdmission);
    for message in ["the virtual cluster: no pods here.", "the virtual cluster: no pods here"] {
        let refused = [Refusal { reason, message: message.to_owned(), retry_after: None }];
        let status = first(&Facts { troubles: &refused, ..facts(&kept) });
        assert_eq!(trouble(&status), Some("Requests are refused: the virtual cluster: no pods here."));
    }
}

#[test]
fn the_most_basic_reason_is_why_a_binding_is_not_ready() {
    let kept = kept();
    let invalid = crate::convert::binding::read(&binding(serde_json::json!({"mode": "x"})), &around()).unwrap();
    let problems = invalid.problems.unwrap();
    let missing = Problem::Missing;
    let bad = Problem::Kubeconfig(KubeconfigError::NoKey);
    let unfit = |reason| {
        let refusal = Refusal { reason, message: "the physical cluster: no".to_owned(), retry_after: None };
        Problem::Unfit { why: "a field".to_owned(), error: ContactError { asked: Question::Probe, refusal } }
    };
    let (unknown, unproven) = (unfit(RefusalReason::Unauthorized), unfit(RefusalReason::Unreachable));
    let absent = unfit(RefusalReason::NotFound);
    let borrower = Conflict::Borrower("its label is another's".to_owned());
    let same_id = Conflict::ClusterId("binding \"west\" has the same clusterID \"east\"".to_owned());
    let forbidden = [Refusal {
        reason: RefusalReason::Forbidden,
        message: "the physical cluster: no".to_owned(),
        retry_after: None,
    }];
    let (batch, going) = (batch(), Going::Nodes);
    let base = || facts(&kept);
    let unlinked = |problem| Link { problem: Some(problem), sentence: Some("a sentence"), reach: None, ..WELL };
    let rows = [
        (Facts { spec: Spec::Earlier(&problems), ..base() }, "ValidationError", BindingPhase::Failed),
        (Facts { spec: Spec::Invalid(&problems), ..base() }, "ValidationError", BindingPhase::Failed),
        (
            Facts { link: Link { is_same_cluster: true, reach: None, ..WELL }, ..base() },
            "SameCluster",
            BindingPhase::Failed,
        ),
        (Facts { link: unlinked(&missing), ..base() }, "CredentialsMissing", BindingPhase::Failed),
        (Facts { link: unlinked(&bad), ..base() }, "CredentialsInvalid", BindingPhase::Failed),
        (Facts { link: unlinked(&unknown), ..base() }, "Unauthorized", BindingPhase::Failed),
        (Facts { link: unlinked(&unproven), ..base() }, "CredentialsInvalid", BindingPhase::Failed),
        (Facts { link: unlinked(&absent), ..base() }, "CredentialsInvalid", BindingPhase::Failed),
        (Facts { link: Link { reach: None, ..WELL }, ..base() }, "Pending", BindingPhase::Pending),
        (Facts { conflict: Some(&borrower), ..base() }, "BorrowerLeaseTaken", BindingPhase::Failed),
        (Facts { conflict: Some(&same_id), ..base() }, "ClusterIdTaken", BindingPhase::Failed),
        (Facts { troubles: &forbidden, ..base() }, "Forbidden", BindingPhase::Failed),
        (
            Facts { link: Link { reach: Some(GONE), ..WELL }, ..base() },
            "PhysicalClusterUnreachable",
            BindingPhase::Pending,
        ),
        (Facts { held: Held::Batch(&batch), ..base() }, "TooManyNodesRemoved", BindingPhase::Ready),
        (Facts { is_paused: true, ..base() }, "Paused", BindingPhase::Ready),
        (Facts { observes: true, ..base() }, "Observing", BindingPhase::Ready),
        (Facts { is_draining: true, ..base() }, "Draining", BindingPhase::Ready),
        (Facts { is_read_only: true, ..base() }, "ReadOnly", BindingPhase::Ready),
        (Facts { going: Some(&going), ..base() }, "Deleting", BindingPhase::Pending),
        // The first of several.
        (
            Facts { spec: Spec::Invalid(&problems), conflict: Some(&borrower), is_paused: true, ..base() },
            "ValidationError",
            BindingPhase::Failed,
        ),
    ];
    for (facts, reason, phase) in rows {
        let status = first(&facts);
        assert_eq!(condition(&status, ConditionType::Ready), format!("False {reason}"));
        assert_eq!(status.phase, Some(phase), "{reason}");
        assert!(status.message.ends_with('.') && status.message.len() > 20, "{}", status.message);
    }
    let message = first(&Facts { spec: Spec::Earlier(&problems), ..base() }).message;
    assert_eq!(
        message,
        "The spec is invalid: spec.mode must be \"enforce\" or \"observe\", got \"x\". The last valid version stays in force."
    );
}

#[test]
fn s5_the_connection_is_unknown_while_it_is_suspect_and_false_where_it_is_gone() {
    let kept = kept();
    for (reach, wanted, state) in [
        (Some(Reach::Reachable), "True Ok", ConnectionState::Reachable),
        (Some(Reach::Suspect(Doubt::Silent)), "Unknown PhysicalClusterSuspect", ConnectionState::Suspect),
        (Some(Reach::Suspect(Doubt::NotListed)), "Unknown Pending", ConnectionState::Suspect),
        (Some(GONE), "False PhysicalClusterUnreachable", ConnectionState::Unreachable),
        (None, "False Pending", ConnectionState::Connecting),
    ] {
        let status = first(&Facts { link: Link { reach, ..WELL }, ..facts(&kept) });
        assert_eq!(condition(&status, ConditionType::Connected), wanted);
        assert_eq!(status.connection.unwrap().state, state);
    }
}

#[test]
fn s20_a_secret_that_is_not_used_and_a_credential_that_ends_soon_show_while_the_connection_is_kept() {
    let kept = kept();
    let bad = Problem::Kubeconfig(KubeconfigError::Empty);
    let link = Link { problem: Some(&bad), sentence: Some("the key is empty; it is kept"), ..WELL };
    let status = first(&Facts { link, ..facts(&kept) });
    assert_eq!(condition(&status, ConditionType::Connected), "True CredentialsInvalid");
    assert_eq!(condition(&status, ConditionType::Ready), "True Ok", "it serves by the earlier one");
    for (end, wanted) in [
        ("2026-08-01T00:00:00Z", "True CredentialsExpiring"),
        ("2026-08-09T00:00:00Z", "True CredentialsExpiring"),
        ("2026-09-09T00:00:00Z", "True Ok"),
    ] {
        let end = CredentialEnd { kind: CredentialKind::Token, at: at(end) };
        let status = first(&Facts { link: Link { end: Some(end), ..WELL }, ..facts(&kept) });
        assert_eq!(condition(&status, ConditionType::Connected), wanted);
        assert_eq!(status.connection.unwrap().credentials_end, Some(end.at.to_string()));
    }
}

#[test]
fn s20_a_credential_that_has_ended_is_in_the_conditions_with_its_field_and_its_end() {
    let kept = kept();
    let field = "users[\"syncer\"].user.client-certificate-data";
    let why =
        format!("{field}: the API server does not accept it (the client certificate ends at 2021-01-01T00:00:00Z)");
    let refusal = Refusal { reason: RefusalReason::Unauthorized, message: "no".to_owned(), retry_after: None };
    let problem = Problem::Unfit { why: why.clone(), error: ContactError { asked: Question::Probe, refusal } };
    let state = CredentialState { problem: Some(problem.clone()), ..CredentialState::default() };
    let sentence = state.sentence().unwrap();
    // Before there is a connection, and while an earlier one is kept.
    for (reach, wanted) in [(None, "False Unauthorized"), (Some(Reach::Reachable), "True Unauthorized")] {
        let link = Link { problem: Some(&problem), sentence: Some(&sentence), reach, ..WELL };
        let status = first(&Facts { link, ..facts(&kept) });
        assert_eq!(condition(&status, ConditionType::Connected), wanted);
        let is_connected = |condition: &&Condition| condition.type_ == ConditionType::Connected.as_str();
        let connected = status.conditions.iter().find(is_connected).unwrap();
        assert!(connected.message.contains(&why), "{}", connected.message);
    }
}

#[test]
fn s20_no_credential_is_in_a_status_whatever_is_wrong_with_the_kubeconfig() {
    let kept = kept();
    for error in kubeconfig_errors() {
        let problem = Problem::Kubeconfig(error);
        let sentence = problem.to_string();
        for reach in [None, Some(Reach::Reachable)] {
            let link = Link { problem: Some(&problem), sentence: Some(&sentence), reach, ..WELL };
            let status = first(&Facts { link, ..facts(&kept) });
            assert!(condition(&status, ConditionType::Connected).ends_with("CredentialsInvalid"));
            let stored = serde_json::to_string(&status).unwrap();
            assert!(stored.contains("kubeconfig") && !stored.contains(SECRET), "{stored}");
        }
    }
}

#[test]
fn s9_a_held_batch_has_its_numbers_and_the_time_at_which_it_was_first_held() {
    let (kept, batch) = (kept(), batch());
    let mut facts = facts(&kept);
    facts.held = Held::Batch(&batch);
    let stored = first(&facts);
    let held = stored.held.clone().unwrap();
    assert_eq!((held.hash.as_str(), held.extent.nodes, held.size.nodes, held.spent.nodes), ("abc", 6, 10, 1));
    assert!(stored.message.contains("confirm with hash abc"), "{}", stored.message);
    assert_eq!(condition(&stored, ConditionType::Held), "True TooManyNodesRemoved");
    facts.now = at("2026-08-03T13:00:00Z");
    assert_eq!(report(&stored, &facts).held.unwrap().since, held.since);
    // Something came to it. It is held all that time, and what was shown before confirms what it showed.
    let other = HeldBatch { hash: "def".to_owned(), ..batch.clone() };
    facts.held = Held::Batch(&other);
    facts.guard.earlier = vec!["abc".to_owned()];
    let grown = report(&stored, &facts).held.unwrap();
    assert_eq!((grown.hash.as_str(), &grown.since, &grown.earlier), ("def", &held.since, &facts.guard.earlier));
    facts.held = Held::Nothing;
    let released = report(&stored, &facts);
    facts.held = Held::Batch(&batch);
    assert_eq!(report(&released, &facts).held.unwrap().since, "2026-08-03T13:00:00Z", "there was a pause");
    // A process that takes over leaves what it has not judged yet as it is.
    facts.held = Held::Recalling;
    let recalling = report(&stored, &facts);
    assert_eq!(recalling.held, stored.held);
    let grown = ClusterBindingStatus { held: Some(grown), ..stored.clone() };
    assert_eq!(report(&grown, &facts).held.unwrap().earlier, [""; 0], "but for what it has not shown itself");
    assert_eq!(condition(&recalling, ConditionType::Held), "True TooManyNodesRemoved");
    facts.held = Held::Nothing;
    assert_eq!(report(&stored, &facts).held, None::<HeldBatchStatus>);
}

#[test]
fn s9_the_reason_of_a_held_batch_is_the_limit_that_it_breaks() {
    let pods = HeldBatch { broken: vec![BrokenLimit::Pods { percent: 20 }], ..batch() };
    let reasons = [&batch(), &pods].map(reason_of_batch);
    assert_eq!(reasons, [Reason::TooManyNodesRemoved, Reason::TooManyPodsRemoved]);
    let kept = kept();
    let held = first(&Facts { held: Held::Batch(&pods), ..facts(&kept) });
    assert_eq!(condition(&held, ConditionType::Held), "True TooManyPodsRemoved");
    assert!(held.message.ends_with("To confirm it: topoloom lend confirm east abc."), "{}", held.message);
}

#[test]
fn what_a_server_of_another_party_says_is_one_line_that_fits_into_the_status() {
    let kept = kept();
    let message = format!("the physical cluster: no\u{1b}[2J\n{}", "x".repeat(1 << 20));
    let endless = [Refusal { reason: RefusalReason::Forbidden, message, retry_after: None }];
    let unknown = Going::Unknown(endless[0].message.clone());
    for facts in [Facts { troubles: &endless, ..facts(&kept) }, Facts { going: Some(&unknown), ..facts(&kept) }] {
        let status = first(&facts);
        let messages = status.conditions.iter().map(|condition| &condition.message);
        for message in messages.chain([&status.message]) {
            assert!(message.len() <= LONGEST + '…'.len_utf8(), "{}", message.len());
            assert!(!message.contains(['\n', '\u{1b}']), "{message}");
        }
        assert!(status.message.contains("no\\u{1b}[2J\\nxxx"), "{}", status.message);
    }
}

#[test]
fn s6_s25_another_and_a_restored_cluster_say_what_confirms_them() {
    let mut kept = kept();
    let other = OtherClusterStatus { uid: "c2".into(), hash: "h2".into(), since: "2026-08-03T12:00:00Z".into() };
    kept.other_cluster = Some(other.clone());
    let status = first(&facts(&kept));
    assert_eq!(condition(&status, ConditionType::PhysicalClusterChanged), "True AnotherCluster");
    assert!(status.message.contains("its UID is c2") && status.message.contains("with hash h2"), "{}", status.message);
    kept.other_cluster = None;
    for (cluster, reason) in
        [(StoredSide::Virtual, "VirtualClusterRestored"), (StoredSide::Physical, "PhysicalClusterRestored")]
    {
        kept.restored =
            Some(RestoredStatus { cluster, sentence: "it was set back".into(), hash: "h3".into(), since: "t".into() });
        let status = first(&facts(&kept));
        assert_eq!(condition(&status, ConditionType::Restored), format!("True {reason}"));
        assert!(status.message.ends_with("with hash h3."), "{}", status.message);
    }
    kept.other_cluster = Some(other);
    let status = first(&facts(&kept));
    let restored = status.conditions.iter().find(|condition| condition.type_ == "Restored").unwrap();
    let waits = "with hash h3. That waits until the other physical cluster is confirmed, or the first one answers.";
    assert!(restored.message.ends_with(waits), "{}", restored.message);
}

#[test]
fn s7_claims_of_others_show_and_do_not_keep_the_rest_from_being_served() {
    let kept = kept();
    let counts = Counts { claimed: 2, ..Counts::default() };
    let status = first(&Facts { counts, ..facts(&kept) });
    assert_eq!(condition(&status, ConditionType::Conflict), "True NodesClaimed");
    assert_eq!(condition(&status, ConditionType::Ready), "True Ok");
}

#[test]
fn s7_claims_that_were_edited_are_no_claims_of_others_and_the_message_says_who_removes_them() {
    let kept = kept();
    let of = |claimed, unreadable| {
        let counts = Counts { claimed, unreadable, ..Counts::default() };
        let status = first(&Facts { counts, ..facts(&kept) });
        let conflict = status.conditions.iter().find(|condition| condition.type_ == "Conflict").unwrap();
        assert_eq!(condition(&status, ConditionType::Ready), "True Ok");
        (conflict.reason.clone(), conflict.message.clone())
    };
    let (reason, message) = of(3, 3);
    assert_eq!(reason, "ClaimsUnreadable");
    assert!(message.starts_with("3 physical nodes have an annotation topoloom.dev/leased-by"), "{message}");
    assert!(message.contains("the lender removes it") && !message.contains("claimed by another"), "{message}");
    let (reason, message) = of(5, 3);
    assert_eq!(reason, "NodesClaimed");
    assert!(message.starts_with("2 physical nodes are claimed by another") && message.contains(" 3 physical nodes "));
}

#[test]
fn s6_nodes_that_only_a_person_can_set_right_show_by_name_and_a_deletion_waits_for_them_by_name() {
    let kept = kept();
    let mut strays = NO_STRAYS.clone();
    strays.stripped.insert("vnode-east-w1".into(), vec!["topoloom.dev/binding"]);
    let status = first(&Facts { strays: &strays, ..facts(&kept) });
    assert_eq!(condition(&status, ConditionType::Conflict), "True NodesUnclear");
    assert_eq!(condition(&status, ConditionType::Ready), "True Ok");
    let message = |status: &ClusterBindingStatus| {
        let conflict = status.conditions.iter().find(|condition| condition.type_ == "Conflict").unwrap();
        conflict.message.clone()
    };
    assert!(message(&status).contains("kubectl label node vnode-east-w1"), "{}", message(&status));
    let counts = Counts { claimed: 2, ..Counts::default() };
    let both = first(&Facts { strays: &strays, counts, ..facts(&kept) });
    assert!(message(&both).contains("vnode-east-w1") && message(&both).contains("2 physical nodes are claimed"));
    let going = first(&Facts { strays: &strays, going: Some(&Going::Nodes), counts, ..facts(&kept) });
    assert!(going.message.contains("1 virtual nodes go first. 1 virtual nodes lack labels"), "{}", going.message);
    assert!(going.message.contains("vnode-east-w1"), "{}", going.message);
    strays.stripped.clear();
    strays.astray.insert("vnode-east-copy".into());
    let status = first(&Facts { strays: &strays, ..facts(&kept) });
    assert_eq!(condition(&status, ConditionType::Conflict), "True NodesUnclear");
}

#[test]
fn s6_s7_nodes_of_an_earlier_cluster_id_keep_a_binding_from_being_ready_and_a_deletion_does_not_wait_for_them() {
    let kept = kept();
    let id = topoloom_sync::naming::ClusterId::parse("est").unwrap();
    let mut strays = Strays { binding: "east".to_owned(), ..NO_STRAYS.clone() };
    let named = |name: &str| (topoloom_core::names::NodeName::from(name), id.clone());
    strays.earlier.extend(["vnode-est-w1", "vnode-est-w2"].map(named));
    let status = first(&Facts { strays: &strays, ..facts(&kept) });
    for (kind, wanted) in [(ConditionType::Conflict, "True NodesUnclear"), (ConditionType::Ready, "False NodesUnclear")]
    {
        assert_eq!(condition(&status, kind), wanted);
    }
    assert_eq!(status.phase, Some(BindingPhase::Failed));
    assert!(status.message.starts_with("2 virtual nodes are of an earlier ClusterBinding"), "{}", status.message);
    // The Lease in the physical cluster says the same.
    let borrower = Conflict::Borrower("its clusterID is \"est\"".to_owned());
    let both = first(&Facts { strays: &strays, conflict: Some(&borrower), ..facts(&kept) });
    assert_eq!(condition(&both, ConditionType::Conflict), "True BorrowerLeaseTaken");
    let conflict = both.conditions.iter().find(|condition| condition.type_ == "Conflict").unwrap();
    for message in [&both.message, &conflict.message] {
        assert!(message.contains("its clusterID is \"est\". 2 virtual nodes are of an earlier"), "{message}");
    }
    let going = first(&Facts { strays: &strays, going: Some(&Going::Nodes), ..facts(&kept) });
    assert!(going.message.contains(": 6 virtual nodes go first. 2 virtual nodes are of"), "{}", going.message);
}

#[test]
fn a_hash_confirms_once_and_the_oldest_are_forgotten() {
    let mut kept = Kept::default();
    for number in 0..20 {
        kept.confirm(&format!("h{number}"), at("2026-08-03T12:00:00Z"));
    }
    kept.confirm("h10", at("2026-08-03T13:00:00Z"));
    assert_eq!(kept.confirmed.len(), ClusterBindingStatus::CONFIRMED_MAX);
    assert_eq!((kept.confirmed[0].hash.as_str(), kept.confirmed[0].at.as_str()), ("h10", "2026-08-03T13:00:00Z"));
    assert_eq!(kept.confirmed.iter().filter(|confirmed| confirmed.hash == "h10").count(), 1);
    assert_eq!(Kept::of(&ClusterBindingStatus { confirmed: kept.confirmed.clone(), ..Default::default() }), kept);
}

#[test]
fn s9_what_may_be_disrupted_already_is_stored_at_once_and_that_it_is_carried_out_with_the_next_numbers() {
    let kept = kept();
    let may = |nodes: &[&str]| {
        let nodes = nodes.iter().map(|node| NodeName::from(*node)).collect();
        let acts = GrantedActs { kind: ActKind::DeleteNode, is_counted: false, nodes, pods: 0 };
        let guard = Guarded { grants: vec![acts], ..Guarded::default() };
        first(&Facts { guard, ..facts(&kept) })
    };
    let (none, both, one) = (first(&facts(&kept)), may(&["n1", "n2"]), may(&["n2"]));
    assert_eq!(both.granted[0].nodes, ["n1", "n2"]);
    assert!(is_urgent(&none, &both) && is_urgent(&one, &both));
    assert!(one != both && !is_urgent(&both, &one) && !is_urgent(&one, &none));
}

#[test]
fn s9_what_may_be_disrupted_already_is_written_again_where_another_version_has_written_the_status_since() {
    let kept = kept();
    let facts = || {
        let nodes = ["n1".into()].into();
        let acts = GrantedActs { kind: ActKind::DeleteNode, is_counted: false, nodes, pods: 0 };
        Facts { guard: Guarded { grants: vec![acts], ..Guarded::default() }, ..facts(&kept) }
    };
    let stored = first(&facts()).written("2026-08-03T12:00:00Z".to_owned());
    assert_eq!(report(&stored, &facts()), stored);
    let over = ClusterBindingStatus { last_sync_time: Some("2026-08-03T12:07:00Z".to_owned()), ..stored };
    let again = report(&over, &facts());
    assert_ne!(again, over);
    assert_eq!(again.granted_now().count(), 1);
}

#[test]
fn s9_a_batch_that_is_carried_out_one_by_one_is_stored_at_once_only_when_it_is_allowed() {
    let (kept, size) = (kept(), Size { nodes: 5_000, pods: 0 });
    let safety = Safety { max_evict_percent: 100, max_nodes_percent: 100, ..Safety::default() };
    let says = |guard: &Guard, before: &ClusterBindingStatus| {
        report(before, &Facts { guard: Guarded::of(guard), ..facts(&kept) })
    };
    // Of the second one not every node is named.
    for nodes in [20, ClusterBindingStatus::GRANTED_NODES_MAX + 20] {
        let node = |number: usize| NodeName::from(format!("vnode-east-w{number:04}"));
        let acts: Vec<Act> = (0..nodes).map(|number| Act::NoExecute(node(number))).collect();
        let mut guard = Guard::default();
        for act in &acts {
            guard.ask(act, Cause::Policy, &safety, size, Duration::ZERO);
        }
        assert_eq!(guard.ask(&acts[0], Cause::Policy, &safety, size, GATHER), Verdict::Go);
        let before = first(&facts(&kept));
        let mut stored = says(&guard, &before);
        assert!(is_urgent(&before, &stored));
        // At first those that are not named.
        let carried_out = acts.iter().rev().take(10).chain(acts.iter().take(nodes.min(40) - 10));
        for act in carried_out {
            guard.happened(act, GATHER);
            let wanted = says(&guard, &stored);
            assert!(wanted != stored && !is_urgent(&stored, &wanted), "{nodes} {act:?}");
            stored = wanted;
        }
    }
}

#[test]
fn s9_a_status_that_is_not_stored_whole_says_so_where_nothing_else_is_wrong() {
    let (kept, stored) = (kept(), ClusterBindingStatus::default());
    let sent = ClusterBindingStatus { message: "m".to_owned(), ..stored.clone() };
    let unstored = Unstored::of(sent, &stored, tokio::time::Instant::now());
    let unstored = unstored.as_ref();
    assert!(unstored.is_some());
    let status = first(&Facts { unstored, ..facts(&kept) });
    assert_eq!(condition(&status, ConditionType::Ready), "False WriteNotStored");
    assert_eq!(status.phase, Some(BindingPhase::Ready), "it serves what it should");
    assert!(trouble(&status).is_some_and(|why| why.contains("does not store status.message")));
    let paused = first(&Facts { unstored, is_paused: true, ..facts(&kept) });
    assert_eq!(condition(&paused, ConditionType::Ready), "False Paused");
}

#[test]
fn numbers_of_pods_alone_are_not_urgent() {
    let kept = kept();
    let stored = first(&facts(&kept));
    let counts = Counts { bound: 5, ..facts(&kept).counts };
    let counted = report(&stored, &Facts { counts, ..facts(&kept) });
    assert_ne!(counted, stored);
    assert!(!is_urgent(&stored, &counted));
    assert!(is_urgent(&stored, &report(&stored, &Facts { is_paused: true, ..facts(&kept) })));
    let guard = Guarded { spent: Spent { nodes: 0, pods: 1 }, ..Guarded::default() };
    let spent = report(&stored, &Facts { guard, ..facts(&kept) });
    assert!(is_urgent(&stored, &spent));
    assert!(stored != spent && !is_urgent(&spent, &stored), "it counts no more");
}

#[test]
fn s11_a_deletion_says_what_it_waits_for() {
    let (kept, batch) = (kept(), batch());
    for (going, part) in [
        (Going::Nodes, "8 virtual nodes go first"),
        (Going::Claims(3), "3 physical nodes are claimed still"),
        (Going::Pods(2), "2 of its pods are in the physical cluster still"),
        (Going::Unknown("no answer".to_owned()), "cannot be read: no answer"),
    ] {
        let status = first(&Facts { going: Some(&going), ..facts(&kept) });
        assert!(status.message.contains(part), "{}", status.message);
    }
    let going = Going::Nodes;
    let held = first(&Facts { going: Some(&going), held: Held::Batch(&batch), ..facts(&kept) });
    assert_eq!(condition(&held, ConditionType::Ready), "False TooManyNodesRemoved");
    for part in ["confirm with hash abc", "topoloom lend confirm east abc. A deletion cannot be taken back."] {
        assert!(held.message.contains(part), "{part}: {}", held.message);
    }
}

#[test]
fn s19_a_deletion_that_lacks_a_right_says_which_one() {
    let (kept, going) = (kept(), Going::Nodes);
    let refusal = |reason| Refusal { reason, message: "the virtual cluster: no".to_owned(), retry_after: None };
    let status = |reason| {
        let troubles = [refusal(reason)];
        first(&Facts { going: Some(&going), troubles: &troubles, ..facts(&kept) })
    };
    let forbidden = status(RefusalReason::Forbidden);
    assert_eq!(condition(&forbidden, ConditionType::Ready), "False Forbidden");
    assert!(forbidden.message.contains("go first. Requests are refused: the virtual cluster: no."), "{forbidden:?}");
    // That something else cannot be read does not hold a deletion up.
    assert_eq!(condition(&status(RefusalReason::NoSuchResource), ConditionType::Ready), "False Deleting");
}

#[test]
fn what_is_wrong_is_the_sentence_of_the_condition_ready_and_a_new_binding_says_nothing() {
    let kept = kept();
    assert_eq!(trouble(&ClusterBindingStatus::default()), None);
    assert_eq!(trouble(&first(&facts(&kept))), None);
    let gone = first(&Facts { link: Link { reach: Some(GONE), ..WELL }, ..facts(&kept) });
    let ready = gone.conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
    assert!(!ready.message.is_empty());
    assert_eq!(trouble(&gone), Some(ready.message.as_str()));
    // Also where that is no failure: someone wanted it, and asks why nothing happens.
    let paused = Facts { is_paused: true, ..facts(&kept) };
    assert!(trouble(&first(&paused)).is_some_and(|why| why.contains("paused")));
}

#[test]
fn s11_only_what_is_not_known_yet_is_early() {
    let kept = kept();
    let stored = first(&facts(&kept));
    let unlisted = Link { reach: Some(Reach::Suspect(Doubt::NotListed)), ..WELL };
    let unconnected = Link { reach: None, ..WELL };
    for link in [WELL, unlisted, unconnected] {
        let facts = Facts { link, holder: "topoloom-1", counts: Counts::default(), ..facts(&kept) };
        assert!(is_early(&stored, &report(&stored, &facts)), "{link:?}");
        assert!(!is_early(&ClusterBindingStatus::default(), &first(&facts)), "nothing was said before: {link:?}");
    }
    let another = Kept { physical_cluster: Some("c2".to_owned()), ..Kept::default() };
    let conflict = Conflict::ClusterId("another".to_owned());
    for news in [
        Facts { link: Link { reach: Some(GONE), ..WELL }, ..facts(&kept) },
        Facts { link: Link { problem: Some(&Problem::Missing), ..unconnected }, ..facts(&kept) },
        Facts { generation: Some(2), ..facts(&kept) },
        Facts { conflict: Some(&conflict), ..facts(&kept) },
        Facts { held: Held::Batch(&batch()), ..facts(&kept) },
        Facts { is_paused: true, ..facts(&kept) },
        Facts { is_read_only: true, ..facts(&kept) },
        Facts { guard: Guarded { spent: Spent { nodes: 1, pods: 0 }, ..Guarded::default() }, ..facts(&kept) },
        facts(&another),
    ] {
        let wanted = report(&stored, &news);
        assert!(!is_early(&stored, &wanted), "{}", wanted.message);
    }
}
