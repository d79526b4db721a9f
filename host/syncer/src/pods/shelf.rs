//! Texts of pods that are held for a while, bounded by their bytes.
//!
//! What finds no room is not held, and what was put first goes first: the reader of a text that is not here reads the pod live.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::slices::pod::PodName;

/// What an entry costs beside its text: its places in two maps, and its name.
const ENTRY: usize = 200;
/// The part of the room for pods at rest that those get for which nothing is expected soon.
const LATE_PART: usize = 8;

/// Texts by the names of their pods.
#[derive(Debug)]
pub(super) struct Shelf {
    room: usize,
    used: usize,
    next: u64,
    texts: HashMap<PodName, (u64, Arc<str>)>,
    order: BTreeMap<u64, PodName>,
}

impl Shelf {
    /// An empty one for so many bytes.
    pub(super) fn new(room: usize) -> Self {
        Self { room, used: 0, next: 0, texts: HashMap::new(), order: BTreeMap::new() }
    }

    /// Holds a text, in place of the one of this pod before.
    pub(super) fn put(&mut self, name: &PodName, text: Arc<str>) {
        self.remove(name);
        let cost = cost(&text);
        if cost > self.room {
            return;
        }
        while self.used.saturating_add(cost) > self.room
            && let Some((_, first)) = self.order.pop_first()
        {
            self.take(&first);
        }
        self.used = self.used.saturating_add(cost);
        self.order.insert(self.next, name.clone());
        self.texts.insert(name.clone(), (self.next, text));
        self.next += 1;
    }

    /// The text of a pod, where it is held.
    pub(super) fn get(&self, name: &PodName) -> Option<&Arc<str>> {
        self.texts.get(name).map(|(_, text)| text)
    }

    /// It is not needed any more.
    pub(super) fn remove(&mut self, name: &PodName) {
        if let Some(at) = self.take(name) {
            self.order.remove(&at);
        }
    }

    /// None is needed any more.
    pub(super) fn clear(&mut self) {
        (self.texts, self.order, self.used) = (HashMap::new(), BTreeMap::new(), 0);
    }

    /// How many bytes are held.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    fn take(&mut self, name: &PodName) -> Option<u64> {
        let (at, text) = self.texts.remove(name)?;
        self.used = self.used.saturating_sub(cost(&text));
        Some(at)
    }
}

/// Texts of virtual pods: those that a look needs, and apart from them the last ones of pods at rest, so that what comes next for these
/// needs no read.
#[derive(Debug)]
pub(super) struct TwinTexts {
    due: Shelf,
    rested: Shelf,
}

/// Whether a pod waits for a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waits {
    /// It does, or may.
    Yes,
    /// It is at rest.
    No,
}

/// When something is expected next for a pod at rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// It was changed a moment ago, or is being started.
    Soon,
    /// It was found as it is, and may stay so for days.
    Late,
}

impl TwinTexts {
    /// None, with room for so many bytes of each.
    pub(super) fn new(due: usize, rested: usize) -> Self {
        Self { due: Shelf::new(due), rested: Shelf::new(rested) }
    }

    /// Holds a text, in place of the one of this pod before.
    pub(super) fn put(&mut self, name: &PodName, text: Arc<str>, waits: Waits) {
        self.remove(name);
        match waits {
            Waits::Yes => self.due.put(name, text),
            Waits::No => self.rested.put(name, text),
        }
    }

    /// The text of a pod, where it is held.
    pub(super) fn get(&self, name: &PodName) -> Option<&Arc<str>> {
        self.due.get(name).or_else(|| self.rested.get(name))
    }

    /// The pod is at rest. After a take-over thousands are found at rest: their texts get a part of the room.
    pub(super) fn rest(&mut self, name: &PodName, expected: Expected) {
        let Some(text) = self.due.get(name).cloned() else { return };
        if expected == Expected::Late && self.rested.used() >= self.rested.room / LATE_PART {
            self.due.remove(name);
        } else {
            self.put(name, text, Waits::No);
        }
    }

    /// It is not needed any more.
    pub(super) fn remove(&mut self, name: &PodName) {
        self.due.remove(name);
        self.rested.remove(name);
    }

    /// None is needed any more.
    pub(super) fn clear(&mut self) {
        self.due.clear();
        self.rested.clear();
    }
}

fn cost(text: &str) -> usize {
    text.len().saturating_add(ENTRY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> PodName {
        PodName::new("a", &number.to_string())
    }

    fn text(bytes: usize) -> Arc<str> {
        "x".repeat(bytes).into()
    }

    #[test]
    fn what_was_put_first_goes_first_and_the_bytes_are_bounded() {
        let mut shelf = Shelf::new(10 * (100 + ENTRY));
        for number in 0..1_000 {
            shelf.put(&name(number), text(100));
            assert!(shelf.used() <= 10 * (100 + ENTRY));
        }
        let held: Vec<usize> = (0..1_000).filter(|number| shelf.get(&name(*number)).is_some()).collect();
        assert_eq!(held, (990..1_000).collect::<Vec<_>>());
        // Put again, it is the last.
        shelf.put(&name(990), text(100));
        shelf.put(&name(1_000), text(100));
        assert!(shelf.get(&name(990)).is_some() && shelf.get(&name(991)).is_none());
    }

    #[test]
    fn what_waits_for_a_look_is_held_and_of_what_is_at_rest_the_last() {
        let mut texts = TwinTexts::new(1 << 20, 10 * (100 + ENTRY));
        let held = |texts: &TwinTexts| (0..1_000).filter(|number| texts.get(&name(*number)).is_some()).count();
        (0..1_000).for_each(|number| texts.put(&name(number), text(100), Waits::Yes));
        assert_eq!(held(&texts), 1_000);
        (0..990).for_each(|number| texts.rest(&name(number), Expected::Soon));
        assert_eq!(held(&texts), 10 + 10);
        assert!(texts.get(&name(0)).is_none() && texts.get(&name(989)).is_some());
        texts.rest(&name(0), Expected::Soon);
        texts.put(&name(0), text(100), Waits::No);
        assert!(texts.get(&name(0)).is_some() && texts.get(&name(980)).is_none());
        // What is shown of one at rest may wait again.
        texts.put(&name(989), text(50), Waits::Yes);
        assert_eq!((held(&texts), texts.get(&name(989)).map(|text| text.len())), (20, Some(50)));
        (0..1_000).for_each(|number| texts.remove(&name(number)));
        assert_eq!((held(&texts), texts.due.used(), texts.rested.used()), (0, 0, 0));
    }

    #[test]
    fn what_a_take_over_finds_at_rest_gets_a_part_of_the_room_and_displaces_nothing() {
        let mut texts = TwinTexts::new(1 << 20, LATE_PART * 3 * (100 + ENTRY));
        let held =
            |texts: &TwinTexts| (0..100).filter(|number| texts.get(&name(*number)).is_some()).collect::<Vec<_>>();
        (0..100).for_each(|number| texts.put(&name(number), text(100), Waits::Yes));
        (0..90).for_each(|number| texts.rest(&name(number), Expected::Late));
        assert_eq!(held(&texts), [&[0, 1, 2][..], &(90..100).collect::<Vec<_>>()].concat());
        (90..100).for_each(|number| texts.rest(&name(number), Expected::Soon));
        assert_eq!(held(&texts), [&[0, 1, 2][..], &(90..100).collect::<Vec<_>>()].concat(), "there is room");
        (10..22).for_each(|number| texts.put(&name(number), text(100), Waits::No));
        assert_eq!(held(&texts), [&[1, 2][..], &(10..22).collect::<Vec<_>>(), &(90..100).collect::<Vec<_>>()].concat());
        texts.put(&name(5), text(100), Waits::Yes);
        texts.rest(&name(5), Expected::Late);
        assert!(texts.get(&name(5)).is_none() && held(&texts).len() == LATE_PART * 3);
    }

    #[test]
    fn a_text_replaces_the_one_before_and_one_that_is_too_large_is_not_held() {
        let mut shelf = Shelf::new(1_000);
        shelf.put(&name(1), text(100));
        shelf.put(&name(1), text(200));
        assert_eq!((shelf.used(), shelf.get(&name(1)).map(|text| text.len())), (200 + ENTRY, Some(200)));
        shelf.put(&name(1), text(1_000));
        assert_eq!((shelf.used(), shelf.get(&name(1))), (0, None));
        shelf.put(&name(2), text(1));
        shelf.remove(&name(2));
        shelf.remove(&name(2));
        assert_eq!(shelf.used(), 0);
        shelf.put(&name(3), text(1));
        shelf.clear();
        assert_eq!((shelf.used(), shelf.get(&name(3))), (0, None));
    }
}
