//! Whether an answer depends on its arguments, and on nothing about them that has no meaning: the order of the rows, the
//! generation, the time.

use jiff::{SignedDuration, Timestamp};

use super::check::Check;
use super::report::Ledger;
use super::round::Round;
use super::sound::{Based, NO_ANSWER};
use super::stand::Stand;
use super::trial::{History, Node, Time};

/// Another time: neither the same hour of the day nor the same day of the week.
const LATER: SignedDuration = SignedDuration::from_secs(((9 * 24 + 5) * 60 + 17) * 60 + 3);

/// Tries all checks of the family but [`twice`], which every comparison of two answers builds on.
pub(super) async fn run(stand: &impl Stand, based: &[Based<'_>], ledger: &mut Ledger) {
    rows(stand, based, ledger).await;
    generation(stand, based, ledger).await;
    time(stand, based, ledger).await;
}

/// The same question once more.
pub(super) async fn twice(stand: &impl Stand, based: &[Based<'_>], ledger: &mut Ledger) {
    let Some(mut sheet) = ledger.open(Check::FunctionTwice) else { return };
    if based.is_empty() {
        sheet.nothing(NO_ANSWER);
    }
    for one in based {
        let end = one.prepared.ask(stand, &one.prepared.round()).await.end;
        if let Some(what) = one.base.end.unlike(&end) {
            sheet.error(one.case(), &format!("asked a second time: {what}"));
        }
    }
    ledger.close(sheet);
}

async fn rows(stand: &impl Stand, based: &[Based<'_>], ledger: &mut Ledger) {
    let Some(mut sheet) = ledger.open(Check::FunctionRows) else { return };
    sheet.nothing("no case has two nodes");
    for one in based.iter().filter(|one| one.prepared.trial.nodes.len() > 1) {
        for (nodes, order) in orders(&one.prepared.trial.nodes) {
            let round = Round { nodes: &nodes, ..one.prepared.round() };
            if !one.answers_alike(stand, &round, &mut sheet, &format!("with the rows {order}")).await {
                break;
            }
        }
    }
    ledger.close(sheet);
}

/// The nodes in other orders.
fn orders(nodes: &[Node]) -> [(Vec<Node>, &'static str); 2] {
    let reversed = nodes.iter().rev().cloned().collect();
    // First those at odd places, then the others.
    let (odd, even) = (nodes.iter().skip(1).step_by(2), nodes.iter().step_by(2));
    [(reversed, "reversed"), (odd.chain(even).cloned().collect(), "in another order")]
}

async fn generation(stand: &impl Stand, based: &[Based<'_>], ledger: &mut Ledger) {
    let Some(mut sheet) = ledger.open(Check::FunctionGeneration) else { return };
    if based.is_empty() {
        sheet.nothing(NO_ANSWER);
    }
    for one in based {
        let round = Round { history: History::Changed, ..one.prepared.round() };
        one.answers_alike(stand, &round, &mut sheet, "with another generation of the same nodes").await;
    }
    ledger.close(sheet);
}

async fn time(stand: &impl Stand, based: &[Based<'_>], ledger: &mut Ledger) {
    let Some(mut sheet) = ledger.open(Check::FunctionTime) else { return };
    sheet.nothing(if based.is_empty() { NO_ANSWER } else { "all cases say that the time counts" });
    for one in based.iter().filter(|one| one.prepared.trial.time == Time::Ignored) {
        let round = Round { at: later(one.prepared.trial.at), ..one.prepared.round() };
        one.answers_alike(stand, &round, &mut sheet, "nine days later").await;
    }
    ledger.close(sheet);
}

/// Another time, be it at the end of all times.
fn later(time: Timestamp) -> Timestamp {
    time.checked_add(LATER).unwrap_or(Timestamp::UNIX_EPOCH)
}
