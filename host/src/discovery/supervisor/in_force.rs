//! What is in force: the last answer, its nodes, and what of it the cluster holds.
//!
//! Invariants: an answer and its nodes change together; an answer of an earlier revision stays in force until the
//! present one has answered, but the present one may not call it unchanged; the baseline is the nodes of a result that
//! is completely in the cluster; a removal that a failure requires is dropped by an answer and by another revision.

use std::sync::Arc;

use topoloom_core::snapshot::View;
use topoloom_core::topology::{Forest, guard};

use crate::config::OnFailure;
use crate::discovery::decide;

/// The last answer and its outcome.
#[derive(Default)]
pub(super) struct InForce {
    /// The plugin's own memory.
    state: Arc<[u8]>,
    answer: Option<AcceptedAnswer>,
    /// Whether the present revision gave the answer.
    is_of_present_revision: bool,
    /// What was last decided about it.
    pub(super) decided: decide::DecisionMemory,
    /// The nodes when a result was last completely applied.
    baseline: Option<View>,
    /// The configuration of the objects in the cluster.
    config_applied: Option<String>,
    /// The plugin is in quarantine and its HyperNodes have to be deleted, as the entry requires (`onFailure: remove`).
    is_removal_due: bool,
}

/// An accepted answer.
#[derive(Clone)]
pub(super) struct AcceptedAnswer {
    /// What it says.
    pub(super) forest: Arc<Forest>,
    /// The nodes of the answer.
    pub(super) view: View,
    /// Its configuration.
    pub(super) config_hash: String,
}

impl InForce {
    /// Only the objects that the host wrote with this configuration before its restart.
    pub(super) fn new(config_applied: Option<String>) -> Self {
        Self { config_applied, ..Self::default() }
    }

    /// Another revision serves: it begins without a memory of its own.
    pub(super) fn restart(&mut self) {
        self.state = Arc::from([]);
        self.is_of_present_revision = false;
        self.is_removal_due = false;
    }

    /// The present revision answered, and keeps this for its next round.
    pub(super) fn answered(&mut self, answer: AcceptedAnswer, state: Arc<[u8]>) {
        self.state = state;
        self.answer = Some(answer);
        self.is_of_present_revision = true;
        self.is_removal_due = false;
    }

    /// The plugin failed for good, while the source owns that many HyperNodes.
    pub(super) fn quarantined(&mut self, on_failure: OnFailure, owned: usize) {
        self.is_removal_due = on_failure == OnFailure::Remove && owned > 0;
    }

    /// Whether the HyperNodes have to be deleted because the plugin failed for good.
    pub(super) fn is_removal_due(&self) -> bool {
        self.is_removal_due
    }

    /// The plugin's own memory.
    pub(super) fn state(&self) -> Arc<[u8]> {
        Arc::clone(&self.state)
    }

    /// The last answer, of whichever revision.
    pub(super) fn answer(&self) -> Option<&AcceptedAnswer> {
        self.answer.as_ref()
    }

    /// What the present revision may call unchanged.
    pub(super) fn unchanged(&self) -> Option<&Arc<Forest>> {
        self.answer.as_ref().filter(|_| self.is_of_present_revision).map(|answer| &answer.forest)
    }

    /// Whether the present revision has answered.
    pub(super) fn is_of_present_revision(&self) -> bool {
        self.is_of_present_revision
    }

    /// The nodes when a result was last completely applied.
    pub(super) fn baseline(&self) -> Option<&View> {
        self.baseline.as_ref()
    }

    /// Whether the answer is from another configuration than the objects in the cluster.
    pub(super) fn config(&self) -> guard::Config {
        match (&self.config_applied, &self.answer) {
            (Some(applied), Some(answer)) if *applied != answer.config_hash => guard::Config::Edited,
            _ => guard::Config::Same,
        }
    }

    /// All of an answer that can be written is in the cluster.
    pub(super) fn applied(&mut self, answer: AcceptedAnswer) {
        self.baseline = Some(answer.view);
        self.config_applied = Some(answer.config_hash);
    }

    /// Everything was taken out of the cluster.
    pub(super) fn removed(&mut self) {
        self.answer = None;
        self.is_of_present_revision = false;
        self.baseline = None;
        self.is_removal_due = false;
    }
}

#[cfg(test)]
mod tests {
    use topoloom_core::snapshot::Store;
    use topoloom_core::topology::{Coverage, Topology};

    use super::*;
    use crate::discovery::decide::accept;

    fn answer(config: &str) -> AcceptedAnswer {
        let topology = Topology { groups: Vec::new(), diagnostics: Vec::new(), coverage: Coverage::Complete };
        let view = Store::new().view(&[]);
        let forest = Arc::new(accept(&topology, &"s".parse().unwrap(), &view).unwrap());
        AcceptedAnswer { forest, view, config_hash: config.to_owned() }
    }

    #[test]
    fn another_revision_may_not_call_unchanged_what_the_one_before_answered() {
        let mut in_force = InForce::new(None);
        assert!(in_force.unchanged().is_none());
        in_force.answered(answer("a"), Arc::from(*b"state"));
        assert!(in_force.unchanged().is_some() && in_force.is_of_present_revision());
        in_force.restart();
        assert!(in_force.unchanged().is_none() && in_force.state().is_empty());
        assert!(in_force.answer().is_some(), "what is in force stays so");
    }

    #[test]
    fn the_configuration_is_edited_until_its_result_is_in_the_cluster() {
        let mut in_force = InForce::new(Some("a".to_owned()));
        assert_eq!(in_force.config(), guard::Config::Same, "there is no answer yet");
        in_force.answered(answer("b"), Arc::from([]));
        assert_eq!(in_force.config(), guard::Config::Edited);
        in_force.applied(answer("b"));
        assert_eq!(in_force.config(), guard::Config::Same);
        assert!(in_force.baseline().is_some());
    }

    #[test]
    fn a_removal_is_due_where_the_entry_wants_it_and_something_is_there_until_the_plugin_answers_or_another_serves() {
        let mut in_force = InForce::new(None);
        for (on_failure, owned, is_due) in
            [(OnFailure::KeepLast, 2, false), (OnFailure::Remove, 0, false), (OnFailure::Remove, 2, true)]
        {
            in_force.quarantined(on_failure, owned);
            assert_eq!(in_force.is_removal_due(), is_due, "{on_failure:?}, {owned} HyperNodes");
        }
        let ends: [fn(&mut InForce); 3] =
            [|it| it.answered(answer("a"), Arc::from([])), InForce::restart, InForce::removed];
        for end in ends {
            in_force.quarantined(OnFailure::Remove, 1);
            end(&mut in_force);
            assert!(!in_force.is_removal_due());
        }
    }

    #[test]
    fn what_was_removed_is_not_decided_about_again() {
        let mut in_force = InForce::new(None);
        in_force.answered(answer("a"), Arc::from([]));
        in_force.applied(answer("a"));
        in_force.removed();
        assert!(in_force.answer().is_none() && in_force.baseline().is_none() && !in_force.is_of_present_revision());
    }
}
