//! How soon a status that differs from the stored one has to be written.

use std::collections::BTreeSet;

use topoloom_api::cluster_binding::{ClusterBindingStatus, GrantedStatus, SpentStatus};
use topoloom_api::condition::{Condition, ConditionType, Reason};

/// Whether the two differ in more than what is written less often: numbers that change with every pod, and what the guard needs to
/// remember no more. A process that takes over with too much of that releases nothing.
pub(in crate::bindings) fn is_urgent(before: &ClusterBindingStatus, after: &ClusterBindingStatus) -> bool {
    guards_more(before, after) || without_numbers(before) != without_numbers(after)
}

/// Whether nothing differs but what a replica does not know yet when it has just taken the binding over: whether the physical cluster
/// answers, what is listed there, what follows for each node. The status of the replica before says more then.
pub(in crate::bindings) fn is_early(before: &ClusterBindingStatus, after: &ClusterBindingStatus) -> bool {
    let is_open = |condition: &Condition| [Reason::Ok.as_str(), Reason::Pending.as_str()].contains(&&*condition.reason);
    before.phase.is_some()
        && after.conditions.iter().filter(|condition| is_found_late(condition)).all(is_open)
        && !guards_more(before, after)
        && known_at_once(before) == known_at_once(after)
}

/// Whether a condition follows from what both clusters show.
fn is_found_late(condition: &Condition) -> bool {
    [ConditionType::Ready.as_str(), ConditionType::Connected.as_str()].contains(&&*condition.type_)
}

fn without_numbers(status: &ClusterBindingStatus) -> ClusterBindingStatus {
    ClusterBindingStatus {
        granted: Vec::new(),
        spent: None,
        nodes: None,
        pods: None,
        leases: None,
        last_sync_time: None,
        ..status.clone()
    }
}

fn known_at_once(status: &ClusterBindingStatus) -> ClusterBindingStatus {
    let mut known = without_numbers(status);
    known.conditions.retain(|condition| !is_found_late(condition));
    ClusterBindingStatus {
        phase: None,
        message: String::new(),
        connection: None,
        holder: None,
        next_transition: None,
        ..known
    }
}

/// Whether the guard has more to remember than is stored.
fn guards_more(before: &ClusterBindingStatus, after: &ClusterBindingStatus) -> bool {
    grants_more(&before.granted, &after.granted) || spends_more(before.spent.as_ref(), after.spent.as_ref())
}

/// Whether something is allowed that was not. What is carried out goes from the acts that count to the others, one by one in a batch of
/// thousands, so a node that is known under the same act is no news in either list.
fn grants_more(before: &[GrantedStatus], after: &[GrantedStatus]) -> bool {
    after.iter().any(|granted| {
        let same: Vec<&GrantedStatus> = before.iter().filter(|known| known.act == granted.act).collect();
        // A full list shows some of its nodes, and with each that goes another one comes into sight: in it, or in the list of those
        // that do not count.
        let hides = |known: &&GrantedStatus| is_full(known) && (known.counts || !granted.counts);
        if same.iter().any(hides) {
            return false;
        }
        let known: BTreeSet<&String> = same.iter().flat_map(|known| &known.nodes).collect();
        granted.nodes.iter().any(|node| !known.contains(node))
    })
}

/// Whether there may be nodes that it does not name.
fn is_full(granted: &GrantedStatus) -> bool {
    granted.nodes.len() >= ClusterBindingStatus::GRANTED_NODES_MAX
}

/// Whether more counts against the limits.
fn spends_more(before: Option<&SpentStatus>, after: Option<&SpentStatus>) -> bool {
    let numbers = |spent: Option<&SpentStatus>| spent.map_or((0, 0), |spent| (spent.nodes, spent.pods));
    let (before, after) = (numbers(before), numbers(after));
    before.0 < after.0 || before.1 < after.1
}

#[cfg(test)]
mod tests {
    use topoloom_sync::guard::ActKind;

    use super::*;

    #[test]
    fn s9_a_list_that_is_full_does_not_hide_what_is_allowed_beside_it() {
        let full = ClusterBindingStatus::GRANTED_NODES_MAX;
        let acts = |counts, nodes: std::ops::Range<usize>| {
            let nodes = nodes.map(|number| format!("n{number:04}")).collect();
            GrantedStatus { act: ActKind::NoExecute.word().to_owned(), counts, nodes, ..GrantedStatus::default() }
        };
        let (counted, happened) = (|| acts(true, 0..full), || acts(false, 0..full));
        assert!(grants_more(&[happened()], &[acts(true, 5_000..5_001), happened()]));
        assert!(grants_more(&[acts(true, 1..full)], &[counted()]), "it was not full before");
        for after in [acts(true, 1..full + 1), acts(false, 5_000..5_001)] {
            assert!(!grants_more(&[counted()], &[after]));
        }
        let other = GrantedStatus { act: ActKind::DeleteNode.word().to_owned(), ..acts(true, 0..1) };
        assert!(grants_more(&[counted()], &[other]), "another act");
    }
}
