//! The phase of a pod, as Kubernetes writes it.
//!
//! Owns its words, and which phases a pod never leaves. Never decides what follows from one.
//!
//! What goes wrong: a field holds no phase, or a word that Kubernetes does not have. Where a phase is copied that is none
//! ([`Phase::parse`]). Where it only counts whether the pod has ended, it is one that does not say so ([`Phase::read`]).

use std::fmt;

/// The phase of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Not all its containers have started.
    Pending,
    /// It is bound, and at least one container runs.
    Running,
    /// All its containers ended well. Final.
    Succeeded,
    /// One of its containers did not, or the pod was stopped. Final.
    Failed,
    /// The kubelet does not say. Kubernetes has the word, and nothing sets it any more.
    Unknown,
}

impl Phase {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Pending, Self::Running, Self::Succeeded, Self::Failed, Self::Unknown];

    /// The word of Kubernetes.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
        }
    }

    /// Reads a word; `None` where it is no phase.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.word() == text)
    }

    /// Reads a word; one that is no phase does not say that the pod has ended.
    #[must_use]
    pub fn read(text: &str) -> Self {
        Self::parse(text).unwrap_or(Self::Unknown)
    }

    /// Whether the pod has ended: it stays in this phase. A phase without meaning does not show that: the scheduler counts
    /// such a pod, too.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_reads_as_it_is_written_and_another_word_is_none() {
        for phase in Phase::ALL {
            assert_eq!((Phase::parse(phase.word()), Phase::read(phase.word())), (Some(phase), phase));
        }
        for word in ["", "running", "Evicted"] {
            assert_eq!((Phase::parse(word), Phase::read(word)), (None, Phase::Unknown), "{word}");
        }
        assert_eq!(Phase::ALL.map(Phase::is_final), [false, false, true, true, false]);
    }
}
