//! All that a source says about itself in one word, one sentence, and the Events that are worth one.

use jiff::Timestamp;
use topoloom_api::condition::{Condition, ConditionStatus, ConditionType, Reason, set_condition};
use topoloom_api::discovery_source::{DiscoverySourceStatus, Held, State};

use super::state::StatusReport;
use crate::cluster::events::Urgency;
use crate::discovery::decide::NO_SUCH_LABEL;
use crate::discovery::ready::{self, PARTS, Runs};

/// The first sentence about a held result: the column of a table; `held` and the condition have all of it.
fn first_sentence(held: &Held) -> Option<String> {
    held.sentence.split(". ").next().map(str::to_owned)
}

/// The status of a source that is to go with its HyperNodes, while that waits for a person.
#[must_use]
pub fn removal_held(mut status: DiscoverySourceStatus, held: &Held) -> DiscoverySourceStatus {
    let message = format!("{}; result {}", held.sentence, held.hash);
    let condition = Condition::new(ConditionType::Held, ConditionStatus::True, Reason::EmptyDocument, message);
    set_condition(&mut status.conditions, condition, &held.since);
    status.conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
    status.state = Some(State::Held);
    status.message = first_sentence(held).unwrap_or_default();
    status.held = Some(held.clone());
    // Always the same time: a status is written when its content changes.
    ready::set(&mut status, Runs::Otherwise, held.since.parse().unwrap_or_default());
    status.conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
    status
}

impl StatusReport {
    /// The status as it is now.
    pub(super) fn status(&mut self, paused: bool, observing: bool, runs: Runs) -> DiscoverySourceStatus {
        let is_broken = |type_: &ConditionType| {
            let found = self.find(*type_).filter(|condition| condition.status == "False");
            PARTS.contains(type_) && found.is_some_and(|condition| condition.reason != Reason::Pending.as_str())
        };
        if !self.has_served && self.fresh.iter().any(is_broken) {
            self.forget_another_process();
        }
        let first_bad =
            PARTS.into_iter().filter(|type_| self.is_false(*type_)).find_map(|type_| self.find(type_)).cloned();
        let works = self.status.plugin.is_some() && self.status.groups.is_some();
        let failing = first_bad.as_ref().filter(|condition| {
            // A plugin that waits or was refused does not change the active one.
            let is_loading = condition.type_ == ConditionType::Loaded.as_str();
            let is_harmless = is_loading && works && !self.is_false(ConditionType::Discovered);
            let is_wished = [Reason::Observing.as_str(), Reason::Pending.as_str()].contains(&&*condition.reason);
            !is_harmless && !is_wished
        });
        let state = if self.disabled {
            State::Disabled
        } else if paused {
            State::Paused
        } else if self.status.held.is_some() {
            State::Held
        } else if self.find(ConditionType::Stale).is_some() {
            State::Stale
        } else if failing.is_some() {
            if self.status.groups.is_some() { State::Stale } else { State::Failed }
        } else if observing {
            State::Observing
        } else if self.status.groups.is_some() {
            State::Serving
        } else {
            State::Waiting
        };
        self.status.state = Some(state);
        if !self.disabled {
            let held = self.status.held.as_ref().and_then(first_sentence);
            self.status.message = held
                .or_else(|| first_bad.map(|condition| condition.message))
                .unwrap_or_else(|| sentence(&self.status, paused));
        }
        ready::set(&mut self.status, runs, Timestamp::now());
        self.status.conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
        match &self.removal_held {
            Some(held) => removal_held(self.status.clone(), held),
            None => self.status.clone(),
        }
    }

    /// Nothing can run: this process does not report what an earlier one counted and found. What the source needs to
    /// continue later stays.
    fn forget_another_process(&mut self) {
        let status = &mut self.status;
        (status.nodes, status.groups, status.overlaps) = (None, None, None);
        status.groups_by_tier.clear();
        status.diagnostics.clear();
        status.tier_conflicts.clear();
        let fresh: Vec<&str> = self.fresh.iter().map(|type_| type_.as_str()).collect();
        status.conditions.retain(|condition| fresh.contains(&&*condition.type_));
    }

    /// What changed and is worth an Event.
    pub(super) fn news(&mut self, status: &DiscoverySourceStatus) -> Vec<(Urgency, Reason, String)> {
        let mut news = std::mem::take(&mut self.events);
        for condition in &status.conditions {
            let old = self.reported.iter().find(|old| old.type_ == condition.type_);
            if old.is_some_and(|old| old.status == condition.status && old.reason == condition.reason) {
                continue;
            }
            if condition.type_ == ConditionType::Ready.as_str() {
                // It follows from the others.
                continue;
            }
            if status.held.is_some() && condition.type_ == ConditionType::Applied.as_str() {
                // The held result says it already.
                continue;
            }
            let Some(type_) = ConditionType::ALL.iter().find(|type_| type_.as_str() == condition.type_) else {
                continue;
            };
            let good_when_true = matches!(
                type_,
                ConditionType::Configured | ConditionType::Loaded | ConditionType::Discovered | ConditionType::Applied
            );
            let bad = (condition.status == "True") != good_when_true;
            let Some(reason) = Reason::ALL.iter().find(|reason| reason.as_str() == condition.reason) else { continue };
            // Good news is an Event only after bad news; a quiet day needs none.
            if bad && !matches!(reason, Reason::Observing | Reason::Paused | Reason::Pending) {
                news.push((Urgency::Warning, *reason, condition.message.clone()));
            } else if !bad && old.is_some() {
                news.push((Urgency::Normal, *reason, condition.message.clone()));
            }
        }
        self.reported.clone_from(&status.conditions);
        news
    }
}

/// The message of a source without a problem.
fn sentence(status: &DiscoverySourceStatus, paused: bool) -> String {
    match (&status.nodes, status.groups) {
        _ if paused => "paused by the operator: no rounds, no writes".to_owned(),
        (Some(nodes), Some(groups)) => {
            // The table of sources is where a typing error in a label is looked for first.
            let absent = status.diagnostics.iter().find(|found| found.code == NO_SUCH_LABEL);
            let absent = absent.map(|found| format!("; {}", found.example)).unwrap_or_default();
            format!("{} of {} nodes have a place in {groups} groups{absent}", nodes.covered, nodes.total)
        }
        _ => "the first round is under way".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_table_of_sources_says_that_no_node_has_a_label() {
        let sentence = |code: &str| {
            let diagnostic = json!({"code": code, "count": 1, "example": "ex.io/rak: no Node has this label"});
            let nodes = json!({"covered": 0, "total": 6});
            let status = json!({"source": "label", "nodes": nodes, "groups": 0, "diagnostics": [diagnostic]});
            sentence(&serde_json::from_value(status).unwrap(), false)
        };
        let numbers = "0 of 6 nodes have a place in 0 groups";
        assert_eq!(sentence("no-such-label"), format!("{numbers}; ex.io/rak: no Node has this label"));
        assert_eq!(sentence("missing-label"), numbers);
    }
}
