//! The entry as it was last received, and how the active revision relates to it.
//!
//! Invariants: the active plugin may have an earlier entry than this one; a refused entry is tried again after pauses
//! that grow, unless trying again cannot help; an edit resets that.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::config::EntryConfig;
use crate::delivery::Refused;

/// How often an entry is prepared again whose file may still appear.
const PREPARE_AGAIN: Duration = Duration::from_secs(10);
/// What fails by itself, a compile or a call, is tried less and less often, down to this.
const PREPARE_SELDOM: Duration = Duration::from_secs(600);

/// The entry of a source.
pub(super) struct SourceEntry {
    /// As last received; the revision's own may be an earlier one.
    pub(super) config: Arc<EntryConfig>,
    /// Its position in the document.
    pub(super) order: usize,
    /// Paused by the annotation. The entry may pause, too: each ends only what it began.
    is_paused_by_annotation: bool,
    /// Why the plugin that serves does not run with it.
    refused: Option<Refused>,
    /// When it is prepared again, and the next pause.
    prepare_at: Option<Instant>,
    pause: Duration,
    /// No attempt to prepare it has ended so far.
    is_unprepared: bool,
}

/// What a newer entry changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Changes {
    /// Another position in the document.
    pub(super) is_reordered: bool,
    /// Anything but the verbs.
    pub(super) is_edited: bool,
    /// The place of the modules has changed.
    pub(super) is_moved: bool,
}

/// Whether an annotation pauses the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// The operator stops rounds and writes.
    On,
    /// The operator lets them continue.
    Off,
}

impl From<bool> for Pause {
    fn from(paused: bool) -> Self {
        if paused { Self::On } else { Self::Off }
    }
}

impl SourceEntry {
    /// Not prepared so far.
    pub(super) fn new(config: Arc<EntryConfig>, order: usize, pause: Pause) -> Self {
        Self {
            config,
            order,
            is_paused_by_annotation: pause == Pause::On,
            refused: None,
            prepare_at: None,
            pause: PREPARE_AGAIN,
            is_unprepared: true,
        }
    }

    /// Takes a newer one.
    pub(super) fn take(&mut self, config: Arc<EntryConfig>, order: usize) -> Changes {
        let is_reordered = std::mem::replace(&mut self.order, order) != order;
        let is_edited = config.hash != self.config.hash;
        let is_moved = config.plugin.origin != self.config.plugin.origin;
        self.config = config;
        if is_edited {
            self.refused = None;
            self.prepare_at = None;
            self.pause = PREPARE_AGAIN;
        }
        Changes { is_reordered, is_edited, is_moved }
    }

    /// The operator pauses the source by its annotation, or ends that.
    pub(super) fn pause(&mut self, pause: Pause) {
        self.is_paused_by_annotation = pause == Pause::On;
    }

    /// Whether the operator has stopped rounds and writes.
    pub(super) fn is_paused(&self) -> bool {
        self.is_paused_by_annotation || self.config.verbs.pause
    }

    /// Whether this entry is that one, but for the verbs.
    pub(super) fn is(&self, other: &EntryConfig) -> bool {
        self.config.hash == other.hash
    }

    /// Why the plugin that serves does not run with it.
    pub(super) fn refused(&self) -> Option<&Refused> {
        self.refused.as_ref()
    }

    /// Whether preparing what serves with it may do better than the last time, and need not wait for a time.
    pub(super) fn may_be_prepared(&self) -> bool {
        self.prepare_at.is_none() && self.refused.as_ref().is_none_or(Refused::may_pass)
    }

    /// When it is prepared again.
    pub(super) fn prepare_at(&self) -> Option<Instant> {
        self.prepare_at
    }

    /// What serves refuses it. It is tried again where that may help.
    pub(super) fn refuse(&mut self, refused: Refused, now: Instant) {
        self.prepare_at = refused.may_pass().then(|| now + self.pause);
        self.pause = (self.pause * 2).min(PREPARE_SELDOM);
        self.refused = Some(refused);
    }

    /// Something serves with it, or with what took its place.
    pub(super) fn accepted(&mut self) {
        self.refused = None;
    }

    /// The operator asks: what was refused is tried at once.
    pub(super) fn hurry(&mut self, now: Instant) {
        if self.prepare_at.is_some() || self.refused.is_some() {
            self.prepare_at = Some(now);
        }
    }

    /// It is being prepared.
    pub(super) fn begins(&mut self) {
        self.prepare_at = None;
    }

    /// It cannot be prepared now, since something else is worked on.
    pub(super) fn put_off(&mut self, now: Instant) {
        self.prepare_at = Some(now + PREPARE_AGAIN);
    }

    /// What it needs of the Nodes is known, or cannot be known yet. Returns whether this is the first call.
    pub(super) fn is_first_end(&mut self) -> bool {
        std::mem::take(&mut self.is_unprepared)
    }
}

#[cfg(test)]
mod tests {
    use topoloom_api::condition::Reason;
    use topoloom_core::plugin::rollout::{Failed, RolloutStep};

    use super::*;

    fn config(rest: &str) -> Arc<EntryConfig> {
        let text = format!("networkTopologyDiscovery:\n- {{source: s, enabled: true{rest}}}\n");
        let document = crate::config::parse(&text).unwrap();
        Arc::new(document.enabled().next().unwrap().clone())
    }

    fn entry() -> SourceEntry {
        SourceEntry::new(config(", plugin: {builtin: label}"), 0, Pause::Off)
    }

    fn refused(failed: Failed) -> Refused {
        Refused::loading(RolloutStep::Configure, Reason::InvalidConfig, "no", failed)
    }

    #[test]
    fn an_edit_is_distinguished_from_a_verb_a_position_and_a_place() {
        let changes = |is_reordered, is_edited, is_moved| Changes { is_reordered, is_edited, is_moved };
        for (rest, order, expected) in [
            (", plugin: {builtin: label}", 0, changes(false, false, false)),
            (", plugin: {builtin: label}", 1, changes(true, false, false)),
            (", plugin: {builtin: label}, run: again", 0, changes(false, false, false)),
            (", plugin: {builtin: label}, interval: 7m", 0, changes(false, true, false)),
            (", plugin: {builtin: ufm}", 0, changes(false, true, true)),
        ] {
            assert_eq!(entry().take(config(rest), order), expected, "{rest}");
        }
    }

    #[test]
    fn the_annotation_and_the_entry_pause_and_each_ends_only_what_it_began() {
        let mut entry = entry();
        entry.pause(Pause::On);
        entry.take(config(", plugin: {builtin: label}, pause: true"), 0);
        entry.pause(Pause::Off);
        assert!(entry.is_paused());
        entry.take(config(", plugin: {builtin: label}"), 0);
        assert!(!entry.is_paused());
    }

    #[test]
    fn a_refused_entry_is_tried_again_less_and_less_often_unless_that_cannot_help() {
        let (mut entry, now) = (entry(), Instant::now());
        assert!(entry.may_be_prepared());
        for seconds in [10, 20, 40, 80, 160, 320, 600, 600] {
            entry.refuse(refused(Failed::Circumstance), now);
            assert_eq!(entry.prepare_at(), Some(now + Duration::from_secs(seconds)));
            assert!(!entry.may_be_prepared(), "its time comes");
            entry.begins();
            assert!(entry.may_be_prepared());
        }
        entry.refuse(refused(Failed::ForGood), now);
        assert!(entry.prepare_at().is_none() && !entry.may_be_prepared());
        entry.hurry(now);
        assert_eq!(entry.prepare_at(), Some(now), "the operator asks");
        entry.take(config(", plugin: {builtin: label}, interval: 7m"), 0);
        assert!(entry.refused().is_none() && entry.may_be_prepared(), "an edit begins anew");
        entry.refuse(refused(Failed::Circumstance), now);
        assert_eq!(entry.prepare_at(), Some(now + PREPARE_AGAIN));
    }

    #[test]
    fn the_first_end_of_preparing_is_said_once() {
        let mut entry = entry();
        assert!(entry.is_first_end() && !entry.is_first_end());
    }
}
