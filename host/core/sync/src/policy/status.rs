//! What the status of a policy has to be (`bottomup-syncer.md` section 10, decisions D5, S8, S18).
//!
//! Owns phase, conditions, the announced boundary, and the last valid spec, which is the memory that lets an invalid policy
//! stay in force after a restart. Compares with what the status is, and answers only where something differs: the status of
//! a policy at rest is never written. Conditions of other programs stay as they are.
//!
//! The write has to carry the resourceVersion that the policy was judged from. Otherwise a spec that was replaced meanwhile
//! could become the last valid one of an object that never held it after that.

use std::fmt;

use jiff::Timestamp;

use super::announced::{Announced, Announcement};
use super::object::{Judgement, Policy};
use super::shadow::Shadowing;
use super::spec::PolicySpec;
use super::validate::PolicyProblems;
use crate::schedule::Openness;
use crate::truth::Truth;
use topoloom_core::text;

/// The status of a policy. The default is that of a new object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PolicyStatus {
    /// `phase`; `None` where it is absent or a word that is not known.
    pub phase: Option<Phase>,
    /// `activeTimeWindow`: the policy is valid, and its windows are open.
    pub active_time_window: bool,
    /// `conditions`.
    pub conditions: Vec<PolicyCondition>,
    /// `lastAppliedTime`: when the phase or `activeTimeWindow` changed last.
    pub last_applied_time: Option<Timestamp>,
    /// `observedGeneration`: the spec that this is about.
    pub observed_generation: Option<i64>,
    /// `nextTransition`: when the windows of what is in force open or close next.
    pub next_transition: Option<Timestamp>,
    /// `nextTransitionSince`: since when that has been announced.
    pub next_transition_since: Option<Timestamp>,
    /// `lastClosing`: the closing since which those windows are closed, where it was announced.
    pub last_closing: Option<Announcement>,
    /// `timeZone`: the zone in which those windows are read.
    pub time_zone: Option<String>,
    /// `lastValid`: the last spec that was valid.
    pub last_valid: Option<PolicySpec>,
}

/// The phase of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Not looked at. Read, and never written.
    Pending,
    /// Valid, and its windows are open.
    Active,
    /// Valid, and its windows are closed.
    Inactive,
    /// Invalid.
    Failed,
}

impl PolicyStatus {
    /// What it announces.
    #[must_use]
    pub fn announced(&self) -> Announced {
        let next = self.next_transition.zip(self.next_transition_since);
        Announced { next: next.map(|(at, since)| Announcement { at, since }), closing: self.last_closing }
    }
}

impl Phase {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Active, Self::Inactive, Self::Failed];

    /// The word of the object.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Active => "Active",
            Self::Inactive => "Inactive",
            Self::Failed => "Failed",
        }
    }

    /// Reads the word of an object.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.word() == text)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Condition: whether the spec is valid.
pub const VALID: &str = "Valid";
/// Condition: whether the policy is valid and its windows are open.
pub const ACTIVE: &str = "Active";
/// Condition: whether another policy is in force wherever this one could be.
pub const SHADOWED: &str = "Shadowed";

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyCondition {
    /// `type`.
    pub kind: String,
    /// `status`.
    pub status: Truth,
    /// `observedGeneration`.
    pub observed_generation: Option<i64>,
    /// `lastTransitionTime`; `None` where it cannot be read.
    pub last_transition_time: Option<Timestamp>,
    /// `reason`.
    pub reason: String,
    /// `message`.
    pub message: String,
}

/// What a condition has to be.
struct Wanted {
    kind: &'static str,
    status: Truth,
    reason: &'static str,
    message: String,
}

/// With what the time of a condition moves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MovesWith {
    Status,
    StatusAndReason,
}

/// The status that a policy has to have; `None` where it has it, or where the policy is being deleted.
#[must_use]
pub fn decide_status(
    current: &PolicyStatus,
    policy: &Policy,
    shadowing: &Shadowing,
    now: Timestamp,
) -> Option<PolicyStatus> {
    let object = policy.object();
    if object.deleting {
        return None;
    }
    // The object keeps whole seconds, so that what is read again equals what was written.
    let written = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let openness = policy.terms().map(|terms| terms.schedule.is_open(now));
    let phase = match (policy.judgement(), openness) {
        (Judgement::Valid(_), Some(openness)) if openness.is_open() => Phase::Active,
        (Judgement::Valid(_), _) => Phase::Inactive,
        _ => Phase::Failed,
    };
    let active = phase == Phase::Active;
    let is_changed = current.phase != Some(phase) || current.active_time_window != active;
    let mut conditions = current.conditions.clone();
    let mut settle = |wanted, moves| settle(&mut conditions, wanted, moves, object.generation, written);
    settle(valid(policy.judgement()), MovesWith::StatusAndReason);
    settle(activity(policy.judgement(), openness, phase), MovesWith::Status);
    if let Some(wanted) = shadowed(policy.judgement(), shadowing) {
        settle(wanted, MovesWith::Status);
    }
    // Also where the present spec is invalid: what is in force opens and closes, and a closing that was announced is nothing
    // that a guard has to hold.
    let announced = current.announced().follow(policy.terms().map(|terms| &terms.schedule), now, written);
    let wanted = PolicyStatus {
        phase: Some(phase),
        active_time_window: active,
        conditions,
        last_applied_time: if is_changed { Some(written) } else { current.last_applied_time },
        observed_generation: Some(object.generation),
        next_transition: announced.next.map(|next| next.at),
        next_transition_since: announced.next.map(|next| next.since),
        last_closing: announced.closing,
        time_zone: policy.terms().map(|terms| terms.schedule.zone().name().to_owned()),
        last_valid: match policy.judgement() {
            Judgement::Valid(_) => Some(object.spec.clone()),
            Judgement::LastValid { .. } | Judgement::NeverValid { .. } => current.last_valid.clone(),
        },
    };
    (wanted != *current).then_some(wanted)
}

fn valid(judgement: &Judgement) -> Wanted {
    let (status, reason, message) = match judgement {
        Judgement::Valid(_) => (Truth::True, "ValidationPassed", "The policy is valid.".to_owned()),
        Judgement::LastValid { problems, .. } => (
            Truth::False,
            "ValidationError",
            format!("{} The last valid version stays in force.", is_invalid(problems)),
        ),
        Judgement::NeverValid { problems } => (
            Truth::False,
            "ValidationError",
            format!(
                "{} No valid version is known: nodes that only this policy selects keep their size and taints.",
                is_invalid(problems)
            ),
        ),
    };
    Wanted { kind: VALID, status, reason, message }
}

/// The problems as a sentence. What a definition of another version makes of a spec ends as that server's words end.
fn is_invalid(problems: &PolicyProblems) -> String {
    text::ended(&format!("The spec is invalid: {problems}"))
}

fn activity(judgement: &Judgement, openness: Option<Openness>, phase: Phase) -> Wanted {
    let windows = match openness {
        Some(Openness::Always) => "There are no time windows, so it is always active.",
        Some(Openness::Open { .. }) => "A time window is open.",
        Some(Openness::Closed) | None => "No time window is open.",
    };
    let (status, reason, message) = match (judgement, phase) {
        (Judgement::Valid(_), Phase::Active) => (Truth::True, "ActiveTimeWindow", windows.to_owned()),
        (Judgement::Valid(_), _) => (Truth::False, "InactiveTimeWindow", windows.to_owned()),
        (Judgement::LastValid { .. }, _) => {
            (Truth::False, "ValidationError", format!("The spec is invalid. Of the last valid version: {windows}"))
        }
        (Judgement::NeverValid { .. }, _) => {
            (Truth::False, "ValidationError", "The spec is invalid, so it has no time windows.".to_owned())
        }
    };
    Wanted { kind: ACTIVE, status, reason, message }
}

/// `None` where it is not known: the condition stays as it is.
fn shadowed(judgement: &Judgement, shadowing: &Shadowing) -> Option<Wanted> {
    let (status, reason, message) = match (judgement, shadowing) {
        (Judgement::NeverValid { .. }, _) => {
            (Truth::False, "ValidationError", "The spec is invalid, so the policy is in force on no node.".to_owned())
        }
        (_, Shadowing::Unknown) => return None,
        (_, Shadowing::InForce) => (Truth::False, "InForce", "The policy is in force on at least one node.".to_owned()),
        (_, Shadowing::SelectsNone) => {
            (Truth::False, "SelectsNoNode", "The policy selects no node that its binding selects.".to_owned())
        }
        (_, Shadowing::By(name)) => (
            Truth::True,
            "Shadowed",
            format!("The policy is in force on no node: policy {name} comes before it, by priority, age or name."),
        ),
    };
    Some(Wanted { kind: SHADOWED, status, reason, message })
}

/// Puts a condition in place of the one of its type.
fn settle(conditions: &mut Vec<PolicyCondition>, wanted: Wanted, moves: MovesWith, generation: i64, now: Timestamp) {
    let before = conditions.iter().find(|condition| condition.kind == wanted.kind);
    let stays = before.filter(|before| {
        before.status == wanted.status && (moves == MovesWith::Status || before.reason == wanted.reason)
    });
    let since = stays.and_then(|before| before.last_transition_time).unwrap_or(now);
    let mut condition = Some(PolicyCondition {
        kind: wanted.kind.to_owned(),
        status: wanted.status,
        observed_generation: Some(generation),
        last_transition_time: Some(since),
        reason: wanted.reason.to_owned(),
        message: wanted.message,
    });
    // A list that has it twice, which the API server takes from a careless client, has it once after this.
    conditions.retain_mut(|known| {
        if known.kind != wanted.kind {
            return true;
        }
        condition.take().map(|condition| *known = condition).is_some()
    });
    conditions.extend(condition);
}

#[cfg(test)]
mod tests;
