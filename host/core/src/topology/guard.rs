//! The guard: decides whether a result may be written at once, or is held until it is confirmed (decision H6).
//!
//! Owns the three rules, the explanation of losses, the memory of recent losses ([`Losses`]), and the path from held to
//! confirmed ([`Hold`]). Never writes, never schedules: [`ConfirmationState`] has the time at which a round would count, the
//! host runs it.
//!
//! # The reference
//!
//! The reference is all Nodes that exist and that have a place now, or had one within the last `holdFor`. The stored
//! objects give the first part. [`Losses`] gives the second; across a restart it keeps numbers by time. A Node of the
//! reference that the result places nowhere is *lost*. Lost Nodes are *few* while they are at most ten, or at most
//! `maxLosePercent` of the reference: so many losses of one Node each count like one loss of all of them. While a
//! result is held, no lost Node counts as few: labels that return one by one must not end the hold before the last of
//! them.
//!
//! # What is left out
//!
//! An object is *explained* when each Node last placed under it, at every tier, no longer exists, or has another place
//! after a change in a column that the plugin requires, or is one of few lost ones. A change of a lost Node explains
//! nothing: labels that were removed by mistake change Nodes too. Explained objects are left out before any rule
//! counts:
//!
//! * *delete share*: the rule counts them neither as deleted nor in the whole;
//! * *lost placement*: the rule holds a round that takes a place from a Node when lost Nodes are not few. A Node has a
//!   place in an object that lists it directly, not in an object above: a spine does not place the Nodes of its racks;
//! * *empty*: the rule holds an empty result while more than ten Nodes of the reference exist. When all Nodes of a
//!   source are gone, its last objects are deleted with them.
//!
//! When a move is over, one of its two objects is deleted and its Nodes return to the older name. That is explained
//! too.
//!
//! An object with no existing Node below it is explained: deleting it takes a place from no Node. An object is not
//! explained when its Nodes are unknown: its selector reads a label that neither view has; or, after a restart, its
//! selector chooses no Node while many Nodes are without a place.
//!
//! `allowEmpty` switches off the empty rule and no other. When a source with many objects answers with none, its
//! deletions and losses still hold the result, and time confirms it.
//!
//! # Failure story
//!
//! Every doubt holds. Without a baseline (after a restart) no change of a Node is known. A column that one of the views
//! lacks shows no change. Any Node without a place may be one that was lost before a restart. A clock that goes back
//! restarts the wait. A held round costs minutes; a topology that was deleted by mistake costs running jobs.

mod explain;
mod hold;
mod losses;
mod safety;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

pub use hold::{Confirmation, ConfirmationState, DecisionCause, Hold};
pub use losses::{Bucket, FEW, Loss, Losses};
pub use safety::{Safety, SafetyError};

use super::model::{Object, Spec};
use crate::names::SourceName;
use crate::snapshot::{ColumnKey, View};

/// The input of the guard.
#[derive(Debug, Clone, Copy)]
pub struct GuardedRound<'a> {
    /// The source, for the sentence.
    pub source: &'a SourceName,
    /// All stored objects of the source.
    pub stored: &'a [&'a Object],
    /// What the result would leave.
    pub desired: &'a Desired,
    /// The nodes at the time of the last applied round; `None` after a restart.
    ///
    /// Both views hold the required columns, and those that the selectors of stored objects read.
    pub baseline: Option<&'a View>,
    /// The nodes of this round.
    pub now: &'a View,
    /// The columns that the plugin requires.
    pub required: &'a [ColumnKey],
    /// The places that earlier results, which were written, took from Nodes within `holdFor`.
    pub losses: &'a Losses,
    /// Whether the entry's config was edited since the last applied round.
    pub config: Config,
    /// The limits.
    pub safety: &'a Safety,
}

/// Whether the entry's config was edited since the last applied round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Config {
    /// It is the one of the last applied round.
    Same,
    /// It was edited. The edit may be meant to delete objects, so the delete share is not checked.
    Edited,
}

/// What a result would leave in the cluster, as far as the guard needs it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Desired {
    names: BTreeSet<Arc<str>>,
    /// By row of the present view.
    placed: Vec<bool>,
}

impl Desired {
    /// Adds one object of the result, by the name that it has or will have, with the Nodes that its spec places. The
    /// view holds the columns that its selectors read; a selector that cannot be read places no Node.
    pub fn add(&mut self, name: &Arc<str>, spec: &Spec, now: &View) {
        self.add_name(name);
        for row in explain::listed(spec, None, now).placed {
            self.place(row);
        }
    }

    /// Adds the name of one object of the result.
    pub fn add_name(&mut self, name: &Arc<str>) {
        self.names.insert(Arc::clone(name));
    }

    /// Notes that the result places the Node in this row of the present view.
    pub fn place(&mut self, row: u32) {
        let row = row as usize;
        if self.placed.len() <= row {
            self.placed.resize(row + 1, false);
        }
        if let Some(placed) = self.placed.get_mut(row) {
            *placed = true;
        }
    }

    fn places(&self, row: u32) -> bool {
        self.placed.get(row as usize).copied().unwrap_or(false)
    }
}

/// The rows of the Nodes that a spec places itself, by name or by selector.
pub(crate) fn placed(spec: &Spec, view: &View) -> Vec<u32> {
    explain::listed(spec, None, view).placed
}

/// The guard's decision about a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// Whether it may be written.
    pub verdict: GuardVerdict,
    /// The reference, and the Nodes of it that the result loses.
    pub loss: Loss,
}

/// The verdict of the guard about a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardVerdict {
    /// It may be written.
    Pass,
    /// Nothing of it is written until it is confirmed.
    Held(GuardHold),
}

/// Why a round is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardHold {
    /// The first rule that holds it. The empty rule comes before all others, since time does not confirm an empty
    /// result.
    pub rule: GuardRule,
    /// For the operator: what would be lost, which limit it exceeds, and what to do. Names every rule that holds it.
    pub sentence: String,
}

/// The rules of the guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardRule {
    /// The result is empty while the source has objects.
    Empty {
        /// Stored objects.
        objects: u64,
    },
    /// The result would delete too many objects.
    Deletes {
        /// Unexplained objects that would be deleted.
        deletes: u64,
        /// Unexplained objects of the source.
        of: u64,
        /// Objects that were left out.
        explained: u64,
    },
    /// Too many Nodes would lose their last place.
    Loses {
        /// Nodes of the reference without a place.
        nodes: u64,
        /// All Nodes of the reference.
        of: u64,
        /// Those of `nodes` that lost their place to earlier results, which were written.
        earlier: u64,
    },
}

impl GuardRule {
    /// Whether agreeing rounds confirm what this rule holds.
    #[must_use]
    pub fn yields_to_time(self) -> bool {
        !matches!(self, Self::Empty { .. })
    }
}

/// Judges a round.
#[must_use]
pub fn judge(round: &GuardedRound<'_>) -> Judged {
    let (loss, counts) = explain::count(round);
    let Some(counts) = counts else { return Judged { verdict: GuardVerdict::Pass, loss } };
    let safety = round.safety;
    let takes = loss.fresh > 0 || counts.objects > 0;
    let empty = GuardRule::Empty { objects: round.stored.len() as u64 };
    let deletes = GuardRule::Deletes { deletes: counts.deletes, of: counts.objects, explained: counts.explained };
    let loses = GuardRule::Loses { nodes: loss.lost, of: loss.reference, earlier: loss.lost - loss.fresh };
    let is_empty = round.desired.names.is_empty() && takes && (loss.reference > FEW || counts.is_unknown);
    let holds = [
        (empty, is_empty && !safety.allow_empty),
        (deletes, round.config == Config::Same && exceeds(counts.deletes, counts.objects, safety.max_delete_percent)),
        (loses, loss.fresh > 0 && !loss.is_few(safety)),
    ];
    let rules: Vec<GuardRule> = holds.into_iter().filter(|(_, holds)| *holds).map(|(rule, _)| rule).collect();
    let verdict = match rules.first() {
        None => GuardVerdict::Pass,
        Some(rule) => GuardVerdict::Held(GuardHold { rule: *rule, sentence: sentence(round, *rule, &rules) }),
    };
    Judged { verdict, loss }
}

/// More than so many percent, and at least two: one object alone is no mass deletion, however large its share.
fn exceeds(part: u64, of: u64, percent: u8) -> bool {
    part >= 2 && u128::from(part) * 100 > u128::from(of) * u128::from(percent)
}

fn sentence(round: &GuardedRound<'_>, first: GuardRule, rules: &[GuardRule]) -> String {
    let Safety { max_delete_percent, max_lose_percent, confirmations, hold_for, .. } = round.safety;
    let mut text = String::from("Held, nothing was written: the result");
    for (i, rule) in rules.iter().enumerate() {
        text.push_str(if i == 0 { " " } else { ", and " });
        let _ = match rule {
            GuardRule::Empty { objects } => {
                write!(text, "is empty while the source has {}", many(*objects, "HyperNode"))
            }
            GuardRule::Deletes { deletes, of, explained } => {
                let _ =
                    write!(text, "would delete {deletes} of {} (limit {max_delete_percent} %", many(*of, "HyperNode"));
                match explained {
                    0 => write!(text, ")"),
                    _ => write!(text, "; {explained} more are not counted, their Nodes explain them)"),
                }
            }
            GuardRule::Loses { nodes, of, earlier } => {
                let placed = many(*of, "placed Node");
                let _ = write!(text, "would leave {nodes} of {placed} without a place (limit ");
                let _ = match losses::share(*of, *max_lose_percent) {
                    share if *nodes <= share.max(FEW) => text.write_str("0 while a result is held"),
                    share if share > FEW => write!(text, "{max_lose_percent} %"),
                    _ => write!(text, "{FEW}"),
                };
                match earlier {
                    0 => text.write_char(')'),
                    _ => write!(
                        text,
                        "; {earlier} of them lost it to earlier results, within {})",
                        span(hold_for.as_secs())
                    ),
                }
            }
        };
    }
    let source = round.source;
    let _ = if first.yields_to_time() {
        let wait = span(hold_for.as_secs());
        write!(
            text,
            ". The host applies it after {confirmations} agreeing rounds, at least {wait} apart. \
             If it is right, `topoloom confirm {source}` applies it now; if not, correct what the source reads."
        )
    } else {
        write!(
            text,
            ". Time does not confirm an empty result. If it is right, run `topoloom confirm {source}` or set \
             safety.allowEmpty; if not, correct what the source reads."
        )
    };
    text
}

fn many(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Seconds in the largest unit that shows them exactly.
fn span(seconds: u64) -> String {
    match seconds {
        s if s > 0 && s % 3600 == 0 => format!("{} h", s / 3600),
        s if s > 0 && s % 60 == 0 => format!("{} min", s / 60),
        s => format!("{s} s"),
    }
}
