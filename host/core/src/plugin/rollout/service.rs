//! The active plugin: how its real calls end, how long it is watched, and when it is rolled back or quarantined.

use std::time::Duration;

use super::{Call, Candidate, Cause, Rollout, RolloutOrder, STRIKES, Stage, Time};

/// Real calls that a new revision is watched for, and for how long at most: the first fault in this time is its last.
pub const WATCHED_CALLS: u32 = 3;
/// See [`WATCHED_CALLS`].
pub const WATCHED_FOR: Duration = Duration::from_secs(600);
/// First pause of a revision in quarantine; doubles up to [`LONGEST_QUARANTINE`].
pub(super) const FIRST_QUARANTINE: Duration = Duration::from_secs(300);
/// Even the worst plugin is called once an hour: the cause of its failure may be a node that is gone by now.
pub(super) const LONGEST_QUARANTINE: Duration = Duration::from_secs(3600);

/// How long a new revision is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Watch {
    calls: u32,
    pub(super) until: Time,
}

impl Watch {
    /// Begins now.
    pub(super) fn begin(now: Time) -> Self {
        Self { calls: 0, until: now + WATCHED_FOR }
    }
}

/// The pause of a revision at the end of its tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quarantine {
    pause: Duration,
    until: Time,
}

impl<R: Clone> Rollout<R> {
    /// Until when the serving revision is in quarantine.
    #[must_use]
    pub fn quarantined_until(&self) -> Option<Time> {
        self.serving.as_ref()?.quarantine.map(|quarantine| quarantine.until)
    }

    /// How long the pauses of the serving revision are, if it is in quarantine.
    #[must_use]
    pub fn quarantine_pause(&self) -> Option<Duration> {
        self.serving.as_ref()?.quarantine.map(|quarantine| quarantine.pause)
    }

    /// Whether the serving revision is new and watched.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.serving.as_ref().is_some_and(|serving| serving.watch.is_some())
    }

    /// Whether the next fault of the serving revision is its last, since it is watched and a rollback is possible.
    #[must_use]
    pub fn is_on_trial(&self) -> bool {
        self.is_watched() && !self.previous.is_empty()
    }

    pub(super) fn called(&mut self, call: Call, now: Time) -> Option<RolloutOrder> {
        let serving = self.serving.as_mut()?;
        match call {
            Call::Circumstance => return None,
            Call::Answered => {
                serving.strikes = 0;
                serving.quarantine = None;
                if let Some(watch) = &mut serving.watch {
                    watch.calls += 1;
                    if watch.calls >= WATCHED_CALLS {
                        serving.watch = None;
                    }
                }
                return None;
            }
            Call::Fault => serving.strikes = serving.strikes.saturating_add(1),
        }
        let watched = serving.watch.is_some_and(|watch| now < watch.until);
        let out_of_patience = serving.strikes >= STRIKES;
        if self.is_rolling_back() || !(watched || out_of_patience) {
            return None;
        }
        if self.previous.is_empty() && !out_of_patience {
            return None;
        }
        self.go_back(now)
    }

    /// Rolls back to the latest earlier bytes. Without any, the active plugin continues: no longer watched, and with
    /// long pauses after too many faults.
    pub(super) fn go_back(&mut self, now: Time) -> Option<RolloutOrder> {
        let Some(to) = self.previous.front().copied() else {
            let serving = self.serving.as_mut()?;
            if serving.strikes < STRIKES {
                serving.watch = None;
                return None;
            }
            return self.quarantine(now);
        };
        // With the entry that it served with: whether it takes the present one is tried when it serves.
        let ready = self.earlier.take_if(|(digest, _)| *digest == to).map(|(_, revision)| revision);
        let is_whole = ready.is_some();
        self.candidate =
            Some(Candidate { digest: to, ready, stage: Stage::Preparing, strikes: 0, cause: Cause::Rollback });
        // A whole one is as it was when it served: nothing has to be prepared, and nothing can fail.
        if is_whole { self.swap(now) } else { Some(RolloutOrder::Prepare(to)) }
    }

    fn quarantine(&mut self, now: Time) -> Option<RolloutOrder> {
        let serving = self.serving.as_mut()?;
        let pause = serving.quarantine.map_or(FIRST_QUARANTINE, |old| (old.pause * 2).min(LONGEST_QUARANTINE));
        serving.watch = None;
        serving.quarantine = Some(Quarantine { pause, until: now + pause });
        Some(RolloutOrder::Quarantine(serving.digest))
    }
}
