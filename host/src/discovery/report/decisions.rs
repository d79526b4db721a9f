//! What was last decided about a source, and the outcome: for `topoloom debug dump`. Numbers and sentences that are in
//! conditions anyway, in the host's memory only.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde::Serialize;
use topoloom_core::text;
use topoloom_core::topology::plan::{Action, PlanStep};

use crate::discovery::decide::Decision;
use crate::topology::apply::ApplyOutcome;
use crate::topology::refusals::RefusedWrite;

/// Decisions that are remembered of one source.
const REMEMBERED: usize = 10;
/// Bytes of a sentence.
const SENTENCE: usize = 1024;

/// One decision, or several equal ones in a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decided {
    /// When it was made first, RFC 3339.
    pub since: String,
    /// When it was made last.
    pub last: String,
    /// How often.
    pub times: u32,
    /// The short name of the result.
    pub result: String,
    /// What was planned.
    pub planned: Planned,
    /// Nodes with a place, and all.
    pub nodes: (usize, usize),
    /// The outcome.
    pub fate: String,
}

/// A plan in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Planned {
    /// Objects that are made.
    pub creates: usize,
    /// Objects that are changed.
    pub updates: usize,
    /// Objects that go.
    pub deletes: usize,
    /// What is wanted and cannot be written.
    pub blocked: usize,
}

impl Decided {
    /// A decision now, with its outcome.
    #[must_use]
    pub(crate) fn now(decision: &Decision, fate: impl Into<String>) -> Self {
        let now = Timestamp::now().to_string();
        Self {
            since: now.clone(),
            last: now,
            times: 1,
            result: decision.hash.as_str().to_owned(),
            planned: planned(&decision.plan.steps, decision.plan.blocked.len()),
            nodes: (decision.numbers.covered, decision.numbers.total),
            fate: text::clip(fate.into(), SENTENCE),
        }
    }
}

fn planned(steps: &[PlanStep], blocked: usize) -> Planned {
    let mut planned = Planned { blocked, ..Planned::default() };
    for step in steps {
        let count = match step.action {
            Action::Create { .. } => &mut planned.creates,
            Action::Update { .. } => &mut planned.updates,
            Action::Delete { .. } => &mut planned.deletes,
        };
        *count += 1;
    }
    planned
}

/// The outcome of a plan that was executed, in words.
pub(crate) fn fate(outcome: &ApplyOutcome) -> String {
    let mut fate = format!("{} written", outcome.written);
    if let Some(RefusedWrite { object, refusal, .. }) = outcome.refused.first() {
        let (refused, left) = (outcome.refused.len(), outcome.left_out);
        fate.push_str(&format!(
            ", {refused} refused, {left} left out; {object}: {}: {refusal}",
            refusal.reason.as_str()
        ));
    } else if outcome.is_cut_short {
        fate.push_str(&format!(", {} left to the next leader", outcome.left_out));
    } else if outcome.left_out > 0 {
        fate.push_str(&format!(", {} left out", outcome.left_out));
    }
    fate
}

/// Remembers a decision. One like the last is that one again.
pub(super) fn remember(decisions: &mut VecDeque<Decided>, new: Decided) {
    if let Some(last) = decisions.back_mut() {
        let same = Decided { since: last.since.clone(), last: last.last.clone(), times: last.times, ..new.clone() };
        if same == *last {
            last.last = new.last;
            last.times = last.times.saturating_add(1);
            return;
        }
    }
    if decisions.len() >= REMEMBERED {
        decisions.pop_front();
    }
    decisions.push_back(new);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Refusal, RefusalReason};
    use crate::topology::refusals::WriteVerb;

    fn decided(second: u32, result: &str) -> Decided {
        let now = format!("1970-01-01T00:00:{second:02}Z");
        Decided {
            since: now.clone(),
            last: now,
            times: 1,
            result: result.to_owned(),
            planned: Planned::default(),
            nodes: (1, 2),
            fate: "0 written".to_owned(),
        }
    }

    #[test]
    fn a_decision_like_the_last_one_is_that_one_again() {
        let mut decisions = VecDeque::new();
        for second in 0..5 {
            remember(&mut decisions, decided(second, "same"));
        }
        let last = decisions.front().map(|it| (it.times, it.since.clone(), it.last.clone()));
        assert_eq!(last, Some((5, "1970-01-01T00:00:00Z".to_owned(), "1970-01-01T00:00:04Z".to_owned())));
        for number in 0..20 {
            remember(&mut decisions, decided(9, &number.to_string()));
        }
        assert_eq!((decisions.len(), decisions.front().map(|it| it.result.as_str())), (REMEMBERED, Some("10")));
    }

    #[test]
    fn a_fate_names_the_first_object_that_was_refused_and_why() {
        let refusal = Refusal { reason: RefusalReason::Conflict, message: "modified".into(), retry_after: None };
        let mut outcome = ApplyOutcome { written: 2, ..ApplyOutcome::default() };
        assert_eq!(fate(&outcome), "2 written");
        outcome.refused.push(RefusedWrite { object: "rack".into(), verb: WriteVerb::Update, refusal });
        outcome.left_out = 3;
        assert_eq!(fate(&outcome), "2 written, 1 refused, 3 left out; rack: Conflict: modified");
    }
}
