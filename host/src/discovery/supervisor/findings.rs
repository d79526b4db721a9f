//! What a source says about its result: the plugin's findings, and conflicts with other sources and objects.

use topoloom_api::condition::{ConditionType, Reason};
use topoloom_api::discovery_source::{Diagnostic, TierConflict};
use topoloom_core::text;
use topoloom_core::topology::Named;

use super::state::{EXAMPLE, StatusReport, integer};
use crate::discovery::compat::Assumed;
use crate::discovery::decide::{Decision, DecisionNumbers};

/// Diagnostic codes that the status lists. The full list is on the admin endpoint.
const CODES: usize = 50;

impl StatusReport {
    /// A result was decided about.
    pub(super) fn decided(&mut self, decision: &Decision) {
        let numbers = &decision.numbers;
        let listed = numbers.diagnostics.iter().take(CODES);
        let diagnostic = |(code, (count, example)): (&std::sync::Arc<str>, &(usize, String))| Diagnostic {
            code: code.to_string(),
            count: integer(*count),
            example: text::clip(example.clone(), EXAMPLE),
        };
        self.status.diagnostics = listed.map(diagnostic).collect();
        self.overlaps(numbers.overlaps);
        self.tier_names(&decision.named);
        self.names(&decision.named);
        self.left_out(numbers);
        self.compatibility(numbers);
    }

    fn overlaps(&mut self, overlaps: usize) {
        self.status.overlaps = (overlaps > 0).then(|| integer(overlaps));
        if overlaps == 0 {
            return self.clear(ConditionType::Overlap);
        }
        let nodes = if overlaps == 1 { "1 Node is" } else { &format!("{overlaps} Nodes are") };
        let message = format!(
            "{nodes} in two groups of one tier, both of this source or one of another source; a scheduler picks one \
                of them"
        );
        self.set(ConditionType::Overlap, true, Reason::SharedNodes, message);
    }

    fn tier_names(&mut self, named: &Named) {
        let conflicts = named.tier_name_conflicts.iter();
        let conflicts = conflicts.map(|conflict| TierConflict {
            tier_name: conflict.tier_name.to_string(),
            tier: i64::from(conflict.tier.get()),
            taken_by: conflict.elsewhere.source.to_string(),
            their_tier: i64::from(conflict.elsewhere.tier.get()),
        });
        self.status.tier_conflicts = conflicts.collect();
        let Some(first) = named.tier_name_conflicts.first() else {
            return self.clear(ConditionType::TierNameConflict);
        };
        let message = format!(
            "tier name {:?} means tier {} in source {}; tier {} of this source is written without a name",
            first.tier_name,
            first.elsewhere.tier.get(),
            first.elsewhere.source,
            first.tier.get()
        );
        self.set(ConditionType::TierNameConflict, true, Reason::TierNameTaken, message);
    }

    fn names(&mut self, named: &Named) {
        let Some(first) = named.name_conflicts.first() else { return self.clear(ConditionType::NameConflict) };
        let owner = first.owner.as_ref();
        let owner = owner.map_or("made by hand or being deleted".to_owned(), |owner| format!("of source {owner}"));
        let message = format!(
            "the name {} is taken by an object {owner}; the HyperNode is not written, and {} of its ancestors wait \
                until the name is free",
            first.name,
            first.held.len()
        );
        self.set(ConditionType::NameConflict, true, Reason::NameTaken, message);
    }

    /// The part of the entry that the plugin left out is added to the message that the entry is valid.
    fn left_out(&mut self, numbers: &DecisionNumbers) {
        let left_out = numbers.diagnostics.get("bad-type").map(|(_, example)| example.clone());
        if left_out == self.left_out {
            return;
        }
        self.left_out = left_out;
        if self.find(ConditionType::Configured).is_some_and(|condition| condition.status == "True") {
            self.set(ConditionType::Configured, true, Reason::Ok, self.valid_sentence());
        }
    }

    fn compatibility(&mut self, numbers: &DecisionNumbers) {
        match numbers.diagnostics.get("differs-from-volcano") {
            Some((count, example)) => {
                let message = format!(
                    "Volcano's own controller would write other HyperNodes; differences: {count}, for instance: {example}"
                );
                self.set(ConditionType::Compatibility, true, Reason::DiffersFromVolcano, message);
            }
            None if self.assumed == Assumed::Compat => {
                let message = "the objects of this source are named as Volcano's controller names them, so its result is \
                               imitated; say `compat: volcano` in the entry to keep it so, or `compat: none` for groups by \
                               what is plugged in (names are kept where groups are the same)";
                self.set(ConditionType::Compatibility, true, Reason::CompatAssumed, message);
            }
            None => self.clear(ConditionType::Compatibility),
        }
    }
}
