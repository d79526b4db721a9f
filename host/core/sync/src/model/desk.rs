//! The desk at which a process asks its guard, as the view of the syncer does, and what is noted there of the answers.

use super::process::{Ghost, Remembered};
use super::*;
use crate::deletion::Leave;
use crate::guard::Verdict;
use crate::node::Now;
use crate::pods::{ORPHAN_DELAY, Orphan, PodDecision};

pub(super) struct Desk<'a> {
    pub(super) guard: &'a mut Guard,
    pub(super) ghost: &'a mut Ghost,
    pub(super) mutation: Mutation,
}

impl Desk<'_> {
    /// The answer to all acts of a node together. What is not wanted any more is withdrawn.
    pub(super) fn ask(
        mut self,
        remembered: &mut Remembered,
        acts: Option<(Cause, Vec<Act>)>,
        size: Size,
        now: Now,
    ) -> Leave {
        let (cause, acts) = acts.unwrap_or((Cause::Operator, Vec::new()));
        let wanted: BTreeSet<Act> = acts.into_iter().collect();
        for act in remembered.asked.difference(&wanted) {
            self.withdraw(act);
        }
        let verdicts: Vec<Verdict> = wanted.iter().map(|act| self.verdict(act, cause, size, now.steady)).collect();
        remembered.asked = wanted;
        let gathering = verdicts.iter().filter_map(|verdict| match verdict {
            Verdict::Gathering { until } => Some(until.saturating_sub(now.steady)),
            Verdict::Go | Verdict::Held => None,
        });
        let gathering = gathering.max();
        if verdicts.contains(&Verdict::Held) {
            remembered.given = None;
            return Leave::Held;
        }
        if let Some(left) = gathering {
            remembered.given = None;
            return Leave::Gathering { until: now.wall + left };
        }
        if remembered.asked.is_empty() {
            remembered.given = None;
            return Leave::Given { since: now.wall };
        }
        Leave::Given { since: *remembered.given.get_or_insert(now.wall) }
    }

    /// The answer to one act.
    pub(super) fn verdict(&mut self, act: &Act, cause: Cause, size: Size, now: Duration) -> Verdict {
        if self.mutation == Mutation::GuardOff {
            return Verdict::Go;
        }
        let was_held = self.guard.holds(act);
        let verdict = self.guard.ask(act, cause, &Safety::default(), size, now);
        match verdict {
            // Until an earlier batch is judged again everything is held that counts.
            Verdict::Held if self.guard.is_recalling() => {}
            Verdict::Held => {
                self.ghost.held.insert(act.clone(), cause);
            }
            Verdict::Gathering { .. } => {}
            // Its cause is there as before, no other one went, and no operator confirmed it.
            Verdict::Go if self.ghost.held.get(act) == Some(&cause) && !self.ghost.is_smaller => {
                self.ghost.broken.get_or_insert(format!("held: {act:?} was held for {cause}, and is released"));
            }
            // For another cause, or because another act went: what is held then is another batch.
            Verdict::Go if was_held || self.ghost.held.contains_key(act) => self.ghost.is_another_batch(),
            Verdict::Go => {}
        }
        verdict
    }

    /// An act is not wanted any more. What is held then is another batch.
    pub(super) fn withdraw(&mut self, act: &Act) {
        self.guard.withdraw(act);
        self.ghost.is_another_batch();
    }
}

impl Ghost {
    /// Something went of what is held.
    pub(super) fn is_another_batch(&mut self) {
        self.held.clear();
        self.is_smaller = true;
    }

    /// A process has looked at a physical pod.
    pub(super) fn looked(&mut self, copy: &Uid, decision: &PodDecision, now: Duration) {
        match decision {
            PodDecision::LookAgain { why, .. } => {
                let known = self.looks.get(copy).filter(|(_, row)| *row == why.row());
                if known.is_none() {
                    self.looks.insert(copy.clone(), (now, why.row()));
                }
            }
            PodDecision::Delete { why: Orphan::TwinReplaced { .. }, .. } => {}
            PodDecision::Delete { why, .. } => {
                let first = self.looks.get(copy).filter(|(_, row)| *row == why.row()).map(|(first, _)| *first);
                if first.is_none_or(|first| now.saturating_sub(first) < ORPHAN_DELAY) {
                    self.broken.get_or_insert(format!(
                        "two looks: pod {copy} is to be deleted at {now:?}, and was first seen as an orphan at {first:?}"
                    ));
                }
            }
            PodDecision::Retry
            | PodDecision::AskVirtualPod { .. }
            | PodDecision::AskBinding(_)
            | PodDecision::Withheld { .. } => {}
            PodDecision::Nothing(_) | PodDecision::Leave(_) | PodDecision::Synchronise(_) => {
                self.looks.remove(copy);
            }
        }
    }
}
