//! Which Events become one series: those that say the same about the same object.
//!
//! The recorder of kube counts every Event of one reason about one object in the series of the first, and keeps the
//! first one's note: the second cause of a failure would never be read. So each note has a recorder of its own. An
//! object whose notes all differ does not flood the API server: after [`NOTES`] of them within [`SPAN`], the rest is
//! counted in the last series (the numbers of client-go's `EventAggregator`).

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Different notes of one reason about one object, within a span.
const NOTES: usize = 10;
/// After this time an object may have new notes again.
const SPAN: Duration = Duration::from_secs(600);
/// With so many series all restart. Each bound pod has some of its own, and each keeps an Event: the bound is on their
/// number, not on that of objects, so that a crowd of pods that fail in ten ways each takes no more memory.
const KEPT: usize = 1_000;

/// Events of one reason about one object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Subject {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) reason: String,
}

/// A recorder for each note.
#[derive(Debug)]
pub(super) struct Series<R> {
    subjects: HashMap<Subject, Notes<R>>,
    /// How many recorders there are in all.
    kept: usize,
}

#[derive(Debug)]
struct Notes<R> {
    since: Instant,
    recorders: Vec<(String, R)>,
}

impl<R> Default for Series<R> {
    fn default() -> Self {
        Self { subjects: HashMap::new(), kept: 0 }
    }
}

impl<R: Clone> Series<R> {
    /// The recorder of this note.
    pub(super) fn recorder(&mut self, subject: Subject, note: &str, now: Instant, make: impl FnOnce() -> R) -> R {
        if let Some(notes) = self.subjects.get(&subject) {
            if now.saturating_duration_since(notes.since) > SPAN {
                self.kept = self.kept.saturating_sub(notes.recorders.len());
                self.subjects.remove(&subject);
            } else {
                let of_note = notes.recorders.iter().find(|(known, _)| known == note);
                if let Some((_, recorder)) = of_note.or_else(|| notes.recorders.get(NOTES - 1)) {
                    return recorder.clone();
                }
            }
        }
        if self.kept == KEPT {
            self.subjects.clear();
            self.kept = 0;
        }
        let recorder = make();
        let notes = self.subjects.entry(subject).or_insert_with(|| Notes { since: now, recorders: Vec::new() });
        notes.recorders.push((note.to_owned(), recorder.clone()));
        self.kept += 1;
        recorder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(name: impl Into<String>) -> Subject {
        Subject {
            kind: "Pod".into(),
            namespace: "default".into(),
            name: name.into(),
            uid: "u1".into(),
            reason: "BindingFailed".into(),
        }
    }

    /// Series whose recorders are numbers, in the order in which they were made.
    struct Scene {
        series: Series<usize>,
        made: usize,
        now: Instant,
    }

    impl Scene {
        fn new() -> Self {
            Self { series: Series::default(), made: 0, now: Instant::now() }
        }

        fn recorder(&mut self, subject: Subject, note: &str) -> usize {
            let made = &mut self.made;
            self.series.recorder(subject, note, self.now, || {
                *made += 1;
                *made
            })
        }
    }

    #[test]
    fn each_note_about_an_object_has_a_series_of_its_own() {
        let mut scene = Scene::new();
        assert_eq!(scene.recorder(subject("p1"), "failed to get node"), 1);
        assert_eq!(scene.recorder(subject("p1"), "the pod is bound to another node"), 2);
        assert_eq!(scene.recorder(subject("p1"), "failed to get node"), 1);
        assert_eq!(scene.recorder(subject("p2"), "failed to get node"), 3);
        let reason = Subject { reason: "BindingSucceed".into(), ..subject("p1") };
        assert_eq!(scene.recorder(reason, "failed to get node"), 4);
        let namesake = Subject { uid: "u2".into(), ..subject("p1") };
        assert_eq!(scene.recorder(namesake, "failed to get node"), 5);
    }

    #[test]
    fn notes_that_all_differ_join_the_last_series_until_the_span_ends() {
        let mut scene = Scene::new();
        for number in 1..=NOTES {
            assert_eq!(scene.recorder(subject("p1"), &format!("held for {number} s")), number);
        }
        assert_eq!(scene.recorder(subject("p1"), "held for 11 s"), NOTES);
        assert_eq!(scene.recorder(subject("p1"), "held for 12 s"), NOTES);
        assert_eq!(scene.recorder(subject("p1"), "held for 3 s"), 3);
        scene.now += SPAN;
        assert_eq!(scene.recorder(subject("p1"), "held for 13 s"), NOTES);
        scene.now += Duration::from_nanos(1);
        assert_eq!(scene.recorder(subject("p1"), "held for 14 s"), NOTES + 1);
    }

    #[test]
    fn the_memory_has_a_bound_over_all_objects_and_their_notes() {
        let mut scene = Scene::new();
        for number in 0..KEPT {
            scene.recorder(subject((number / NOTES).to_string()), &format!("failed in way {number}"));
        }
        assert_eq!(scene.recorder(subject("0"), "failed in way 0"), 1, "a series that is known ends no other");
        assert_eq!((scene.series.subjects.len(), scene.series.kept), (KEPT / NOTES, KEPT));
        scene.recorder(subject("one more"), "failed");
        assert_eq!((scene.series.subjects.len(), scene.series.kept), (1, 1));
    }

    #[test]
    fn a_span_that_ended_makes_room() {
        let mut scene = Scene::new();
        for number in 0..NOTES {
            scene.recorder(subject("p1"), &format!("failed in way {number}"));
        }
        scene.now += SPAN + Duration::from_nanos(1);
        scene.recorder(subject("p1"), "failed");
        assert_eq!(scene.series.kept, 1);
    }
}
