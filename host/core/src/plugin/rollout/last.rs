//! The plugin that was active when the host last stopped, and is activated first after a start: so that a newer one can
//! be compared with it.
//!
//! It is tried for a while. If it cannot be activated again, the delivered plugin replaces it, or the one that was
//! active before it.

use super::Failed;
use crate::plugin::Digest;

/// Attempts to get the last active plugin, before the delivered one becomes active without a comparison.
const TRIES: u32 = 4;

/// The last active plugin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Last {
    /// The plugin to activate first; `None` once any plugin was active, or once it is given up.
    first: Option<Digest>,
    tries: u32,
    /// The last active plugin, also if it could not be activated since the start.
    remembered: Option<Digest>,
}

/// A failed attempt to let it serve first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastFailed {
    /// It is tried again.
    TriedAgain,
    /// It is given up: what else there is serves.
    GivenUp,
}

/// What else may serve in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Another {
    /// Something is wanted that did not fail in service.
    Wanted,
    /// Nothing is; this served before it and did not fail.
    Before(Option<Digest>),
}

impl Last {
    /// From before the host's restart.
    #[must_use]
    pub fn new(digest: Option<Digest>) -> Self {
        Self { first: digest, tries: 0, remembered: digest }
    }

    /// The plugin to activate before the wanted one.
    #[must_use]
    pub fn before(&self, wanted: Option<Digest>) -> Option<Digest> {
        self.first.filter(|first| Some(*first) != wanted)
    }

    /// Whether these bytes are to serve first.
    #[must_use]
    pub fn is(&self, digest: Digest) -> bool {
        self.first == Some(digest)
    }

    /// Something serves.
    pub fn served(&mut self) {
        self.first = None;
    }

    /// Nothing serves so far, and it may do better with another entry, or at another time.
    pub fn try_again(&mut self) {
        (self.first, self.tries) = (self.remembered, 0);
    }

    /// It failed to serve first. It is given up where trying it again cannot help, or has not helped for long while
    /// something else is wanted.
    pub fn failed(&mut self, failed: Failed, another: Another) -> LastFailed {
        self.tries = self.tries.saturating_add(1);
        let is_lost = self.tries >= TRIES && another == Another::Wanted;
        if failed != Failed::ForGood && !is_lost {
            return LastFailed::TriedAgain;
        }
        self.first = None;
        if let Another::Before(before) = another {
            (self.first, self.tries) = (before, 0);
        }
        LastFailed::GivenUp
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(name: &str) -> Digest {
        Digest::of(name.as_bytes())
    }

    #[test]
    fn what_served_last_serves_first_until_anything_serves() {
        let mut last = Last::new(Some(digest("a")));
        assert_eq!(last.before(Some(digest("b"))), Some(digest("a")));
        assert_eq!(last.before(None), Some(digest("a")));
        assert_eq!(last.before(Some(digest("a"))), None, "it is what is wanted");
        assert!(last.is(digest("a")) && !last.is(digest("b")));
        last.served();
        assert_eq!(last.before(Some(digest("b"))), None);
    }

    #[test]
    fn it_is_given_up_after_four_tries_where_something_else_is_wanted() {
        let mut last = Last::new(Some(digest("a")));
        for _ in 1..TRIES {
            assert_eq!(last.failed(Failed::Circumstance, Another::Wanted), LastFailed::TriedAgain);
        }
        assert_eq!(last.failed(Failed::Circumstance, Another::Wanted), LastFailed::GivenUp);
        assert_eq!(last.before(Some(digest("b"))), None);
        last.try_again();
        assert_eq!(last.before(Some(digest("b"))), Some(digest("a")), "an edit lets it be tried anew");
    }

    #[test]
    fn without_anything_else_it_is_tried_as_long_as_that_may_help_and_then_the_one_before_it() {
        let mut last = Last::new(Some(digest("a")));
        let before = Another::Before(Some(digest("z")));
        for _ in 0..2 * TRIES {
            assert_eq!(last.failed(Failed::Fault, before), LastFailed::TriedAgain);
        }
        assert_eq!(last.failed(Failed::ForGood, before), LastFailed::GivenUp);
        assert!(last.is(digest("z")));
        assert_eq!(last.failed(Failed::ForGood, Another::Before(None)), LastFailed::GivenUp);
        assert_eq!(last.before(None), None);
    }
}
