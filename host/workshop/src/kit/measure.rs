//! How much of its limits a plugin uses, over many nodes that are like those of a case.
//!
//! What a limit ends is an error here, too; what uses more than half of one is a warning, since clusters grow and the host of an
//! operator may be slower than this machine.

use topoloom_core::plugin::Limit;

use super::check::Check;
use super::report::{Ledger, Sheet};
use super::round::{Asked, End, Prepared, Round};
use super::sound::Based;
use super::stand::Stand;
use super::trial::Node;
use crate::node_file::FileNode;
use crate::nodes::Nodes;

/// The share of a limit, in percent, above which there is a warning.
const WARNED: u64 = 50;

/// What is measured, each with its limit.
const MEASURES: [(Check, &str); 5] = [
    (Check::MeasureCpu, "processor time"),
    (Check::MeasureMemory, "memory"),
    (Check::MeasureReceived, "received data"),
    (Check::MeasureRequests, "requests"),
    (Check::MeasureLog, "log lines"),
];

/// One round that was measured.
struct Measured<'a> {
    case: &'a str,
    nodes: usize,
    asked: Asked,
}

/// Tries all checks of the family: every case as it is, and the one with the most nodes at these sizes.
pub(super) async fn run(stand: &impl Stand, based: &[Based<'_>], sizes: &[usize], ledger: &mut Ledger) {
    let mut measured = Vec::new();
    for one in based {
        let (case, nodes) = (one.prepared.trial.name.as_str(), one.prepared.trial.nodes.len());
        measured.push(Measured { case, nodes, asked: one.base.clone() });
    }
    if let Some(one) = based.iter().max_by_key(|one| one.prepared.trial.nodes.len()) {
        for size in sizes.iter().filter(|_| !one.prepared.trial.nodes.is_empty()) {
            let nodes = many(&one.prepared, *size);
            let asked = one.prepared.ask(stand, &Round { nodes: &nodes, ..one.prepared.round() }).await;
            measured.push(Measured { case: &one.prepared.trial.name, nodes: *size, asked });
        }
    }
    answers(&measured, ledger);
    for (check, what) in MEASURES {
        let Some(mut sheet) = ledger.open(check) else { continue };
        judge(&mut sheet, check, what, &measured, stand);
        ledger.close(sheet);
    }
}

fn answers(measured: &[Measured<'_>], ledger: &mut Ledger) {
    let Some(mut sheet) = ledger.open(Check::MeasureAnswer) else { return };
    if measured.is_empty() {
        sheet.nothing("there is no case with an answer");
    }
    for Measured { case, nodes, asked } in measured {
        // What a limit ended is found by the check of that limit.
        let is_of_a_limit = ended_by(&asked.end).is_some_and(|limit| check_of(limit).is_some());
        if let Some(fault) = asked.end.fault().filter(|_| !is_of_a_limit) {
            sheet.error(Some(case), &format!("{nodes} nodes: {fault}"));
        }
    }
    ledger.close(sheet);
}

fn judge(sheet: &mut Sheet, check: Check, what: &str, measured: &[Measured<'_>], stand: &impl Stand) {
    let mut most: Option<(u64, usize, String)> = None;
    for Measured { case, nodes, asked } in measured {
        let (share, shown) = share(check, asked, stand);
        if ended_by(&asked.end).and_then(check_of) == Some(check) {
            let why = asked.end.words();
            sheet.error(Some(case), &format!("{nodes} nodes: {why}"));
        } else if share > 100 {
            sheet.error(Some(case), &format!("{nodes} nodes: {what} of {shown}, which is {share} % of the limit"));
        } else if share > WARNED {
            sheet.warning(Some(case), &format!("{nodes} nodes: {what} of {shown}, which is {share} % of the limit"));
        }
        if most.as_ref().is_none_or(|(known, ..)| share > *known) {
            most = Some((share, *nodes, shown));
        }
    }
    match most {
        Some((share, nodes, shown)) => sheet.note(format!("{shown}, {share} % of the limit, at {nodes} nodes")),
        None => sheet.nothing("there is no case with an answer"),
    }
}

/// The share of a limit that a round used, in percent, and the amount.
fn share(check: Check, asked: &Asked, stand: &impl Stand) -> (u64, String) {
    let (usage, limits) = (&asked.usage, stand.limits());
    // What is a little more than the whole is more than a hundred per cent.
    let percent =
        |is: u128, most: u128| u64::try_from(is.saturating_mul(100).div_ceil(most.max(1))).unwrap_or(u64::MAX);
    let of_sizes = |is: usize, most: usize| percent(is as u128, most as u128);
    let kib = |bytes: usize| format!("{} KiB", bytes >> 10);
    match check {
        Check::MeasureCpu => {
            let shown = format!("{:.1} ms", usage.cpu.as_secs_f64() * 1e3);
            (percent(usage.cpu.as_micros(), limits.call.cpu.as_micros()), shown)
        }
        Check::MeasureMemory => (of_sizes(usage.peak_memory, limits.store.memory), kib(usage.peak_memory)),
        Check::MeasureReceived => (of_sizes(usage.received, limits.call.received), kib(usage.received)),
        Check::MeasureRequests => (of_sizes(usage.requests, limits.call.requests), usage.requests.to_string()),
        _ => {
            let lines = usage.log_lines + usage.log_dropped;
            (of_sizes(lines, limits.call.log_lines), lines.to_string())
        }
    }
}

/// The limit that ended a round.
fn ended_by(end: &End) -> Option<Limit> {
    match end {
        End::Broken(error) => error.limit(),
        _ => None,
    }
}

/// The check that is about a limit.
fn check_of(limit: Limit) -> Option<Check> {
    match limit {
        Limit::Cpu => Some(Check::MeasureCpu),
        Limit::Memory => Some(Check::MeasureMemory),
        Limit::Received => Some(Check::MeasureReceived),
        Limit::Requests => Some(Check::MeasureRequests),
        _ => None,
    }
}

/// So many nodes: those of the case again and again, with names and places of their own.
fn many(prepared: &Prepared<'_>, size: usize) -> Vec<Node> {
    let nodes = Nodes { list: prepared.trial.nodes.iter().map(FileNode::from).collect() };
    nodes.times_to(size).list.iter().map(Node::from).collect()
}
