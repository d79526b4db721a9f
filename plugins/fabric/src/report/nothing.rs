//! Why no Node has a place: each filter may be right, and all of them together leave no link.

use topoloom_sdk::{Subject, TopologyBuilder};

use super::{cut, plural};
use crate::graph::{NONE, at};
use crate::place::Round;
use crate::wiring::{IGNORED, NAMELESS};

/// Reports why each link does not count, where there are Nodes and none of them has a link that counts (`no-links`).
pub(super) fn left(round: &Round<'_>, topology: &mut TopologyBuilder) {
    let is_wired = |host: u32| at(&round.hosts.rows, host) != NONE && !round.present.of(host).is_empty();
    if round.nodes == 0 || (0..round.hosts.hosts.len() as u32).any(is_wired) {
        return;
    }
    let reasons = reasons(round);
    let total = reasons.iter().map(|(_, count)| count).sum();
    let why = match reasons.as_slice() {
        [] => "the source lists no usable link of a host".to_owned(),
        [(reason, 1)] => format!("the only link is {reason}"),
        [(reason, _)] => format!("all {total} links are {reason}"),
        several => {
            let parts: Vec<String> = several.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
            format!("of {}, {}", plural(total, "link"), parts.join(", "))
        }
    };
    topology.diagnose("no-links", Subject::Source, cut(format!("no Node has a link that counts: {why}")));
}

/// The reasons why links do not count, with the number of links; each link counts once.
fn reasons<'a>(round: &'a Round<'_>) -> Vec<(&'a str, u64)> {
    let (mut down, mut unmatched, mut high) = (0, 0, 0);
    for host in 0..round.hosts.hosts.len() as u32 {
        for port in round.hosts.ports_of(host) {
            let reason = if !round.settings.counts(port.state) {
                &mut down
            } else if at(&round.hosts.rows, host) == NONE {
                &mut unmatched
            } else {
                &mut high
            };
            *reason += u64::from(port.count);
        }
    }
    let strangers = &round.wiring.strangers;
    let unnamed = round.hosts.strangers.map_or(0, |(_, count)| count);
    // The GUIDs of the others led to Nodes: they are counted as ports of hosts above.
    let known = round.hosts.ports.len().saturating_sub(round.wiring.cables.len());
    let ignored = strangers.len().saturating_sub(known + unnamed);
    let ignored = if strangers.iter().any(|stranger| stranger.is_ignored) { ignored } else { 0 };
    let counted = [
        (IGNORED, ignored as u64),
        (NAMELESS, unnamed as u64),
        ("down", down),
        ("of hosts that are no Nodes", unmatched),
        ("plugged into switches above level 1", high),
    ];
    let mut reasons: Vec<(&str, u64)> =
        round.wiring.left_out.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
    for (reason, count) in counted.into_iter().filter(|(_, count)| *count > 0) {
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, known)) => *known += count,
            None => reasons.push((reason, count)),
        }
    }
    reasons
}
