//! What a plugin keeps between rounds: losing it may cost a full round, never a right answer.

use topoloom_core::plugin::Failure;

use super::check::Check;
use super::report::{Ledger, Sheet};
use super::round::{End, Prepared, Round};
use super::sound::Based;
use super::stand::Stand;
use super::trial::Node;

/// Lengths at which a state is cut: all of a small one.
const CUTS: usize = 64;

/// A trial that was asked without a state, and the state of its answer.
struct Fresh<'a> {
    one: &'a Based<'a>,
    end: End,
    state: Vec<u8>,
}

impl Fresh<'_> {
    fn prepared(&self) -> &Prepared<'_> {
        &self.one.prepared
    }
}

/// Tries the checks of the family that build on an answer.
pub(super) async fn run(stand: &impl Stand, based: &[Based<'_>], ledger: &mut Ledger) {
    let mut fresh = Vec::new();
    for one in based {
        let end = match one.prepared.trial.state.is_empty() {
            true => one.base.end.clone(),
            // The answers of services may be those to a plugin with a state.
            false => one.prepared.ask(stand, &Round { state: &[], ..one.prepared.round() }).await.end,
        };
        if let End::Topology { state, .. } = &end {
            fresh.push(Fresh { one, state: state.clone(), end });
        }
    }
    last(stand, &fresh, ledger).await;
    cut(stand, &fresh, ledger).await;
    foreign(stand, &fresh, ledger).await;
    stale(stand, &fresh, ledger).await;
}

async fn last(stand: &impl Stand, fresh: &[Fresh<'_>], ledger: &mut Ledger) {
    let Some(mut sheet) = open(Check::StateLast, fresh, ledger) else { return };
    for one in kept(fresh) {
        let end = one.prepared().ask(stand, &Round { state: &one.state, ..one.prepared().round() }).await.end;
        if let Some(what) = one.otherwise(&end) {
            sheet.error(one.one.case(), &format!("with the state of its last answer: {what}"));
        }
    }
    ledger.close(sheet);
}

async fn cut(stand: &impl Stand, fresh: &[Fresh<'_>], ledger: &mut Ledger) {
    let Some(mut sheet) = open(Check::StateCut, fresh, ledger) else { return };
    for one in kept(fresh) {
        let step = one.state.len().div_ceil(CUTS).max(1);
        for length in (1..one.state.len()).step_by(step) {
            let state = one.state.get(..length).unwrap_or_default();
            let end = one.prepared().ask(stand, &Round { state, ..one.prepared().round() }).await.end;
            if let Some(what) = one.otherwise(&end) {
                let whole = one.state.len();
                sheet.error(one.one.case(), &format!("with {length} of the {whole} bytes of its state: {what}"));
                break;
            }
        }
    }
    ledger.close(sheet);
}

async fn foreign(stand: &impl Stand, fresh: &[Fresh<'_>], ledger: &mut Ledger) {
    let Some(mut sheet) = open(Check::StateForeign, fresh, ledger) else { return };
    for one in kept(fresh) {
        for (state, which) in others(&one.state) {
            let end = one.prepared().ask(stand, &Round { state: &state, ..one.prepared().round() }).await.end;
            if let Some(what) = one.otherwise(&end) {
                let cure = "begin the state with its version, and answer in full where that is another one";
                sheet.error(one.one.case(), &format!("with {which}: {what}; {cure}"));
                break;
            }
        }
    }
    ledger.close(sheet);
}

/// States that another version could have written.
fn others(state: &[u8]) -> Vec<(Vec<u8>, &'static str)> {
    let first = |change: u8| -> Vec<u8> {
        let changed = state.first().map(|byte| byte ^ change);
        changed.into_iter().chain(state.iter().skip(1).copied()).collect()
    };
    vec![
        (first(0x01), "a state that begins with another byte"),
        (first(0xff), "a state that begins with another byte"),
        (vec![0xff; state.len()], "a state of other bytes"),
        ([state, state].concat(), "its state twice"),
    ]
}

/// A node goes: what was true before is not true any more.
async fn stale(stand: &impl Stand, fresh: &[Fresh<'_>], ledger: &mut Ledger) {
    let Some(mut sheet) = open(Check::StateStale, fresh, ledger) else { return };
    for one in kept(fresh) {
        let nodes: &[Node] = one.prepared().trial.nodes.get(1..).unwrap_or_default();
        let round = Round { nodes, state: &[], ..one.prepared().round() };
        let now = one.prepared().ask(stand, &round).await.end;
        let end = one.prepared().ask(stand, &Round { state: &one.state, ..round }).await.end;
        let wrong = match &end {
            // It says that the last answer is still right.
            End::Unchanged => now.unlike(&one.end).map(|_| end.words()),
            _ => now.unlike(&end),
        };
        if let Some(what) = wrong.filter(|_| !one.is_not_recorded(&end)) {
            sheet.error(one.one.case(), &format!("with the state of a round that had one more node: {what}"));
        }
    }
    ledger.close(sheet);
}

fn open(check: Check, fresh: &[Fresh<'_>], ledger: &mut Ledger) -> Option<Sheet> {
    let mut sheet = ledger.open(check)?;
    if kept(fresh).next().is_none() {
        sheet.nothing("the plugin keeps no state");
    }
    Some(sheet)
}

fn kept<'a>(fresh: &'a [Fresh<'a>]) -> impl Iterator<Item = &'a Fresh<'a>> {
    fresh.iter().filter(|one| !one.state.is_empty())
}

impl Fresh<'_> {
    /// What an answer with a state is otherwise than the one without. `unchanged` is the same one, in one word.
    fn otherwise(&self, end: &End) -> Option<String> {
        match end {
            End::Unchanged => None,
            end if self.is_not_recorded(end) => None,
            end => self.end.unlike(end),
        }
    }

    /// Whether the plugin asked for something that the recording does not have: with a state it may ask for less.
    fn is_not_recorded(&self, end: &End) -> bool {
        let is_recorded = self.prepared().trial.recording.is_some();
        is_recorded && matches!(end, End::Failure(Failure::Upstream { .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_could_have_written_something_else_of_any_length() {
        let states: Vec<_> = others(b"\x01ab").into_iter().map(|(state, _)| state).collect();
        assert_eq!(states, [&b"\x00ab"[..], b"\xfeab", b"\xff\xff\xff", b"\x01ab\x01ab"]);
    }
}
