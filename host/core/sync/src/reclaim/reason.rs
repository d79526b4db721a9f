//! Why pods of a closed node go or stay, in words for `lend explain`, `lend plan` and Events.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::keys;

/// Why a pod stays on a node whose pods go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stay {
    /// It tolerates the taint for as long as it is there.
    Tolerates,
    /// It tolerates the taint for a time, which begins with NoExecute.
    ToleratesLater,
    /// A DaemonSet owns it, and would only make another one: it is left to the taint.
    DaemonSet,
    /// It is being deleted already.
    Terminating,
    /// It has ended and holds nothing. What it did can still be read.
    Finished,
}

impl fmt::Display for Stay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tolerates => "it tolerates the taint",
            Self::ToleratesLater => "it tolerates the taint for a time, which begins when the grace is over",
            Self::DaemonSet => "it belongs to a DaemonSet and is left to the taint",
            Self::Terminating => "it is being deleted already",
            Self::Finished => "it has finished",
        })
    }
}

/// Why a decision is what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The windows are open, or no policy is in force.
    Inside,
    /// The policy does not reclaim by force.
    NotForced,
    /// The policy reclaims by force without a grace.
    NoGrace,
    /// The grace runs until then.
    Grace(Timestamp),
    /// The grace was over then.
    GraceOver(Timestamp),
    /// The effect is NoExecute already.
    Executing,
    /// The second half of the grace: pods are evicted by the Eviction API.
    SecondHalf,
    /// The policy in force has a shorter grace than was in force earlier since the window closed.
    Promised {
        /// That of the policy in force.
        policy: Duration,
        /// The longest one, which counts.
        promised: Duration,
    },
    /// The taint has no time, so that its grace counts as over.
    NoTime,
    /// The taint is not there, or has no time. Its clock started then, and runs on.
    Missing(Timestamp),
    /// The taint has a time in the future, which is set to now.
    Future(Timestamp),
    /// The wall clock was stepped by so much, and the times are moved along.
    Stepped(SignedDuration),
    /// The windows opened and closed again while no syncer looked. The clock starts at this closing.
    MissedOpening(Timestamp),
    /// An annotation cannot be read.
    Unreadable(&'static str),
    /// The annotation with the time from which tolerationSeconds count is missing, or in the future. They count from now.
    SinceNow,
}

impl Reason {
    /// Whether an operator should see it: something is not as the syncer left it.
    #[must_use]
    pub fn is_unusual(&self) -> bool {
        match self {
            Self::NoTime
            | Self::Missing(_)
            | Self::Future(_)
            | Self::Stepped(_)
            | Self::MissedOpening(_)
            | Self::Unreadable(_)
            | Self::SinceNow => true,
            Self::Inside
            | Self::NotForced
            | Self::NoGrace
            | Self::Grace(_)
            | Self::GraceOver(_)
            | Self::Executing
            | Self::SecondHalf
            | Self::Promised { .. } => false,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inside => f.write_str("the time windows are open, or no policy is in force"),
            Self::NotForced => f.write_str("the time windows are closed, and forceReclaim is not set: pods may stay"),
            Self::NoGrace => f.write_str("the time windows are closed, and the policy gives no grace"),
            Self::Grace(end) => write!(f, "the time windows are closed; pods may stay until {end}"),
            Self::GraceOver(end) => write!(f, "the time windows are closed, and the grace ended at {end}"),
            Self::Executing => f.write_str("the time windows are closed, and the grace is over"),
            Self::SecondHalf => f.write_str("in the second half of the grace pods are evicted (reclaimVia: eviction)"),
            Self::Promised { policy, promised } => {
                let (policy, promised) = (policy.as_secs(), promised.as_secs());
                write!(f, "the policy gives {policy} s now, but {promised} s were in force since the windows closed")
            }
            Self::NoTime => f.write_str("the taint has no timeAdded, so that its grace counts as over"),
            Self::Missing(start) => {
                write!(f, "the taint or its timeAdded is missing; the clock that started at {start} runs on")
            }
            Self::Future(time) => write!(f, "the taint was added at {time}, which is in the future; now is written"),
            Self::Stepped(by) => write!(f, "the clock was stepped by {} s, and the times with it", by.as_secs()),
            Self::MissedOpening(at) => {
                write!(f, "the windows opened and closed again at {at} while no syncer looked; the grace starts there")
            }
            Self::Unreadable(key) => write!(f, "the annotation {key} cannot be read and does not count"),
            Self::SinceNow => {
                write!(f, "the annotation {} is missing or in the future; now is written", keys::RECLAIM_SINCE)
            }
        }
    }
}
