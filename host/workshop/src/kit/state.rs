//! What a plugin keeps between rounds: losing it may cost a full round, never a right answer.

use std::sync::Arc;

use topoloom_sandbox::endpoints::recording::Recording;

use super::bad_day;
use super::check::Check;
use super::identities;
use super::report::{Ledger, Sheet};
use super::round::{Asked, End, NOT_RECORDED, Prepared, Round};
use super::sound::Based;
use super::stand::Stand;
use super::trial::{History, Node};

/// Lengths at which a state is cut: all of a small one.
const CUTS: usize = 64;

/// A trial that was asked without a state, and the state of its answer.
struct Fresh<'a> {
    one: &'a Based<'a>,
    asked: Asked,
    state: Vec<u8>,
}

/// Tries the checks of the family that build on an answer.
pub(super) async fn run(stand: &impl Stand, based: &[Based<'_>], ledger: &mut Ledger) {
    let mut fresh = Vec::new();
    for one in based {
        let asked = if one.prepared.trial.state.is_empty() {
            one.base.clone()
        } else {
            // The answers of services may be those to a plugin with a state.
            one.prepared.ask(stand, &Round { state: &[], ..one.prepared.round() }).await
        };
        if let End::Topology { state, .. } = &asked.end {
            fresh.push(Fresh { one, state: state.clone(), asked });
        }
    }
    last(stand, &fresh, ledger).await;
    cut(stand, &fresh, ledger).await;
    foreign(stand, &fresh, ledger).await;
    stale(stand, &fresh, ledger).await;
}

/// The state of the last answer, also where services say that nothing is new since then.
async fn last(stand: &impl Stand, fresh: &[Fresh<'_>], ledger: &mut Ledger) {
    let Some(mut sheet) = open(Check::StateLast, fresh, ledger) else { return };
    for one in kept(fresh) {
        let round = Round { state: &one.state, ..one.prepared().round() };
        let Some(asked) = one.recorded(stand, &round, &mut sheet).await else { continue };
        sheet.tried();
        if let Some(what) = one.otherwise(&asked.end) {
            sheet.error(one.one.case(), &format!("with the state of its last answer: {what}"));
            continue;
        }
        for (recording, words) in one.not_modified(stand, &asked) {
            let round = Round { recording: Some(&recording), ..round };
            let Some(asked) = one.recorded(stand, &round, &mut sheet).await else { continue };
            if let Some(what) = one.otherwise(&asked.end).filter(|_| is_conditional(&recording, &asked)) {
                sheet.error(one.one.case(), &format!("with the state of its last answer, and {words}: {what}"));
                break;
            }
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
            let round = Round { state, ..one.prepared().round() };
            let Some(asked) = one.recorded(stand, &round, &mut sheet).await else { continue };
            sheet.tried();
            if let Some(what) = one.otherwise(&asked.end) {
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
            let round = Round { state: &state, ..one.prepared().round() };
            let Some(asked) = one.recorded(stand, &round, &mut sheet).await else { continue };
            sheet.tried();
            if let Some(what) = one.otherwise(&asked.end) {
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

/// A node goes, comes, or gets another label: what was true before is not true any more.
async fn stale(stand: &impl Stand, fresh: &[Fresh<'_>], ledger: &mut Ledger) {
    let Some(mut sheet) = open(Check::StateStale, fresh, ledger) else { return };
    for one in kept(fresh) {
        let kinds =
            [identities::remove(one.prepared()), identities::add(one.prepared()), identities::relabel(one.prepared())];
        for change in kinds.into_iter().filter_map(|changes| changes.into_iter().next()) {
            if let Some(what) = one.stale(stand, &change.nodes, &mut sheet).await {
                let when = format!("{}, and it has the state of the round before", change.what);
                sheet.error(one.one.case(), &format!("{when}: {what}"));
                break;
            }
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

/// Whether everything in a recording that is not modified was asked for with a condition: only then it is an answer.
fn is_conditional(recording: &Recording, asked: &Asked) -> bool {
    let mut not_modified = recording.exchanges().enumerate().filter(|(_, exchange)| exchange.status == Some(304));
    not_modified.all(|(at, _)| asked.uses.conditional.contains(&at))
}

impl<'a> Fresh<'a> {
    fn prepared(&self) -> &Prepared<'a> {
        &self.one.prepared
    }

    /// What became of a round. `None`: it asked for something that the recording does not have, since with a state a plugin
    /// may ask for something else.
    async fn recorded(&self, stand: &impl Stand, round: &Round<'_>, sheet: &mut Sheet) -> Option<Asked> {
        let asked = self.prepared().ask(stand, round).await;
        if asked.is_not_recorded(&self.asked) {
            sheet.untried(NOT_RECORDED);
            return None;
        }
        Some(asked)
    }

    /// What an answer with a state is otherwise than the one without. `unchanged` is the same one, in one word.
    fn otherwise(&self, end: &End) -> Option<String> {
        match end {
            End::Unchanged => None,
            end => self.asked.end.unlike(end),
        }
    }

    /// What is wrong about an answer over other nodes with the state of this one.
    async fn stale(&self, stand: &impl Stand, nodes: &[Node], sheet: &mut Sheet) -> Option<String> {
        // Another set of nodes has another generation.
        let round = Round { nodes, history: History::Changed, ..self.prepared().round() };
        let now = self.recorded(stand, &Round { state: &[], ..round }, sheet).await?.end;
        let wrong = |end: &End| match end {
            // It says that the last answer is still right.
            End::Unchanged => now.unlike(&self.asked.end).map(|_| end.words()),
            end => now.unlike(end),
        };
        let round = Round { state: &self.state, ..round };
        let asked = self.recorded(stand, &round, sheet).await?;
        sheet.tried();
        if let Some(what) = wrong(&asked.end) {
            return Some(what);
        }
        for (recording, words) in self.not_modified(stand, &asked) {
            let round = Round { recording: Some(&recording), ..round };
            let Some(asked) = self.recorded(stand, &round, sheet).await else { continue };
            if let Some(what) = wrong(&asked.end).filter(|_| is_conditional(&recording, &asked)) {
                return Some(format!("with {words}: {what}"));
            }
        }
        None
    }

    /// The recording with 304 in place of what a round asked for with a condition: some of these exchanges each, and all.
    fn not_modified(&self, stand: &impl Stand, asked: &Asked) -> Vec<(Arc<Recording>, String)> {
        let recording = self.prepared().trial.recording.as_deref().cloned();
        let Some(Ok(recording)) = recording.map(|recording| recording.for_source(stand.source())) else {
            return Vec::new();
        };
        let places = &asked.uses.conditional;
        let mut each: Vec<usize> =
            [places.first(), places.get(places.len() / 2), places.last()].into_iter().flatten().copied().collect();
        each.dedup();
        let one = |at: usize| {
            let words = format!("status 304 to {}", bad_day::asked(&recording, at));
            (Arc::new(bad_day::not_modified(&recording, &[at])), words)
        };
        let mut changed: Vec<(Arc<Recording>, String)> = each.into_iter().map(one).collect();
        if places.len() > 1 {
            changed.push((
                Arc::new(bad_day::not_modified(&recording, places)),
                "status 304 to every condition".to_owned(),
            ));
        }
        changed
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
