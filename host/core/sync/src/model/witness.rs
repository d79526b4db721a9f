//! The witness of decision S25: a counter without a clock, by which a cluster that was set back is known although its
//! revision was raised.
//!
//! Owns what is stored of it, and the comparison. The rule is written down here as the model needs it, so that the model can
//! be moved onto the room that production has for it. Three things are part of the rule and easily forgotten:
//!
//! * it is compared after every list, and *before every disruption*: between two raises lies a minute, and an orphan is
//!   deleted after half of one;
//! * it is raised only after it was compared: a counter that was set back would otherwise catch up with its copy unseen;
//! * it shows nothing of a backup that is younger than the last raise.

use super::server::Side;

/// What a binding keeps in one of its two clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counters {
    /// In the virtual cluster the counter, in the lease of the binding; in the physical one its copy, in that of the borrower.
    pub(super) count: u64,
    /// In the virtual cluster: the copy that was confirmed.
    pub(super) confirmed: u64,
}

/// Which cluster was set back, if one was.
pub(super) fn compare(lent: Counters, physical: Counters) -> Option<Side> {
    if lent.count < physical.count {
        Some(Side::Virtual)
    } else if physical.count < lent.confirmed {
        Some(Side::Physical)
    } else {
        None
    }
}

#[test]
fn s25_a_counter_below_its_copy_and_a_copy_below_what_was_confirmed_were_set_back() {
    let counters = |count, confirmed| Counters { count, confirmed };
    for (lent, copy, set_back) in [
        ((0, 0), 0, None),
        ((3, 3), 3, None),
        // A raise that ended after each of its three writes.
        ((4, 3), 3, None),
        ((4, 3), 4, None),
        ((2, 2), 3, Some(Side::Virtual)),
        ((2, 1), 3, Some(Side::Virtual)),
        ((3, 3), 2, Some(Side::Physical)),
        ((4, 3), 2, Some(Side::Physical)),
    ] {
        assert_eq!(compare(counters(lent.0, lent.1), counters(copy, 0)), set_back, "{lent:?} {copy}");
    }
}
