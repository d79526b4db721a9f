//! How often a key is tried again before it is dropped (B12).

use std::fmt;

/// The most retries of one key; without a number they are not limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requeue {
    most: Option<u32>,
}

/// What happens to a key that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequeueDecision {
    /// It is tried again after its pause.
    Again,
    /// It was tried often enough.
    Drop,
}

impl Requeue {
    /// Without a limit.
    pub const UNLIMITED: Self = Self { most: None };

    /// So many retries after the first try.
    #[must_use]
    pub fn at_most(retries: u32) -> Self {
        Self { most: Some(retries) }
    }

    /// From the flag `--max-requeue-num`: any negative number means without a limit.
    #[must_use]
    pub fn of_flag(number: i64) -> Self {
        // Retries beyond 32 bits would take longer than any process runs.
        Self { most: u64::try_from(number).ok().map(|number| u32::try_from(number).unwrap_or(u32::MAX)) }
    }

    /// Decides about a key that was tried again this often before.
    #[must_use]
    pub fn decide(self, requeues: u32) -> RequeueDecision {
        if self.most.is_none_or(|most| requeues < most) { RequeueDecision::Again } else { RequeueDecision::Drop }
    }
}

impl Default for Requeue {
    /// The default of `--max-requeue-num`.
    fn default() -> Self {
        Self::at_most(15)
    }
}

impl fmt::Display for Requeue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.most {
            Some(most) => write!(f, "at most {most}"),
            None => f.write_str("unlimited"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_tried_once_and_then_as_often_as_the_flag_says() {
        for (flag, requeues, decision) in [
            (2, 0, RequeueDecision::Again),
            (2, 1, RequeueDecision::Again),
            (2, 2, RequeueDecision::Drop),
            (15, 14, RequeueDecision::Again),
            (15, 15, RequeueDecision::Drop),
            (15, 16, RequeueDecision::Drop),
            (0, 0, RequeueDecision::Drop),
            (-1, 0, RequeueDecision::Again),
            (-1, u32::MAX, RequeueDecision::Again),
            (i64::MIN, u32::MAX, RequeueDecision::Again),
            (i64::MAX, u32::MAX - 1, RequeueDecision::Again),
        ] {
            assert_eq!(Requeue::of_flag(flag).decide(requeues), decision, "{flag} after {requeues}");
        }
        assert_eq!(Requeue::default(), Requeue::of_flag(15));
    }
}
