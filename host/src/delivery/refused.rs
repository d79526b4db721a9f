//! Why a source does not get a plugin: the one answer of everything on the way from a place to a loaded revision.

use topoloom_api::condition::{ConditionType, Reason};
use topoloom_core::plugin::rollout::{Failed, RolloutStep};
use topoloom_core::text;

/// The longest message in bytes: a condition has room for 32 KiB.
pub(crate) const MESSAGE: usize = 8 << 10;

/// Why an entry and a module do not become a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The condition that shows it.
    pub condition: ConditionType,
    /// The word.
    pub reason: Reason,
    /// The sentence.
    pub message: String,
    /// The step that refused.
    pub step: RolloutStep,
    /// Whether the same entry and module may do better later.
    pub failed: Failed,
}

impl Refused {
    /// At a step on the way to a loaded plugin.
    #[must_use]
    pub fn loading(step: RolloutStep, reason: Reason, message: impl Into<String>, failed: Failed) -> Self {
        let message = text::clip(message.into(), MESSAGE);
        Self { condition: ConditionType::Loaded, reason, message, step, failed }
    }

    /// Whether the same entry and module may do better later.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        self.failed != Failed::ForGood
    }
}
