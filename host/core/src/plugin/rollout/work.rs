//! What is worked on outside of the machine: at most one plugin, the candidate or the active one.

use super::{Rollout, Stage};
use crate::plugin::Digest;

/// What is worked on outside of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloutWork {
    /// A revision is made of the candidate's bytes.
    Prepare(Digest),
    /// The candidate answers a round whose answer is thrown away.
    Shadow(Digest),
    /// The active plugin is prepared once more, with another entry.
    Renew(Digest),
}

impl RolloutWork {
    /// The bytes.
    #[must_use]
    pub fn digest(self) -> Digest {
        match self {
            Self::Prepare(digest) | Self::Shadow(digest) | Self::Renew(digest) => digest,
        }
    }
}

impl<R: Clone> Rollout<R> {
    /// What is worked on. What was worked on before is abandoned as soon as it is not this.
    #[must_use]
    pub fn work(&self) -> Option<RolloutWork> {
        self.work
    }

    /// Whether the active plugin is being prepared with another entry.
    #[must_use]
    pub fn is_renewing(&self) -> bool {
        matches!(self.work, Some(RolloutWork::Renew(_)))
    }

    /// Whether the active plugin may be prepared with another entry: nothing is worked on, and no candidate is on its
    /// way or waits for a person with an answer that was compared.
    #[must_use]
    pub fn may_renew(&self) -> bool {
        let stage = self.candidate.as_ref().map(|candidate| &candidate.stage);
        self.work.is_none() && self.serving.is_some() && matches!(stage, None | Some(Stage::Refused { .. }))
    }

    /// Whether the candidate waits for its shadow round to begin.
    #[must_use]
    pub fn is_shadow_due(&self) -> bool {
        let stage = self.candidate.as_ref().map(|candidate| &candidate.stage);
        self.work.is_none() && stage == Some(&Stage::Shadow)
    }

    /// The shadow round begins. Returns the revisions that answer in it: the candidate's and the active one.
    pub fn begin_shadow(&mut self) -> Option<(R, R)> {
        let candidate = self.candidate.as_ref().filter(|_| self.is_shadow_due())?;
        let both = (candidate.ready.clone()?, self.serving.as_ref()?.revision.clone());
        self.work = Some(RolloutWork::Shadow(candidate.digest));
        Some(both)
    }

    /// Work on what is not wanted any more ends.
    pub(super) fn abandon_what_is_not_wanted(&mut self) {
        let candidate = self.candidate.as_ref();
        let stage = |digest| candidate.filter(|candidate| candidate.digest == digest).map(|candidate| &candidate.stage);
        let serving = self.serving.as_ref().map(|serving| serving.digest);
        self.work = self.work.filter(|work| match *work {
            RolloutWork::Prepare(digest) => stage(digest) == Some(&Stage::Preparing),
            RolloutWork::Shadow(digest) => stage(digest) == Some(&Stage::Shadow),
            RolloutWork::Renew(digest) => serving == Some(digest),
        });
    }
}
