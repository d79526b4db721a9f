//! The objects of one kind as one watch has shown them, for all that follow it: each with the number of its last change.
//!
//! Owns what a follower sees, whenever it looks: a whole list first, and then each change since its last look, in their latest state
//! alone. So a follower that is slow slows no other, holds nothing up, and costs nothing but its place. The last changes are in a log
//! of a fixed size: a follower that was further behind gets a list of what is there, as after a watch that broke. It gets that list in
//! portions, in the order of the keys, with what has changed meanwhile before each of them: no look makes a copy of all that there is.
//! Owns how much all of it is, and what followers are shown where that is more than is [held](super::room). A plain value: it never
//! waits, and never sends anything.
//!
//! # Failure story
//!
//! A list that breaks off changes nothing but what it has shown: what it does not name goes at its end. What ended is shown once more
//! to each follower in its last state; one that was too far behind misses that, and sees by a list that it is gone. An object that
//! cannot be read is there, and stays what it was.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use topoloom_cluster::Refusal;
use topoloom_core::version::ResourceVersion;
use topoloom_sync::liveness::Epoch;

use super::room::Held;

/// How many changes the log has: those of a page of a list, some times over.
pub(super) const LOG: usize = 4_096;
/// How many bytes of texts the log has, of objects that are gone.
pub(super) const ENDED: usize = 16 << 20;
/// How many objects that are there a follower is shown at one look.
const PORTION: usize = 1_024;

/// Where an object is, by which it can be found: a pod on its node.
pub(super) type Place<T> = fn(&T) -> Option<&Arc<str>>;
/// The text that an object has of its key, where it has one: a pod its UID.
pub(super) type OwnKey<T> = fn(&T) -> Option<Arc<str>>;

/// An object that is shown, under its name or its UID.
pub struct Shown<T> {
    /// Under what it is known.
    pub key: Arc<str>,
    /// What is known of it; nothing where it was never readable.
    pub object: Option<Arc<T>>,
    /// Whether that is its state.
    pub reading: Reading,
}

/// Whether what is known of an object is its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// It was read as the server has shown it.
    Current,
    /// It cannot be read as the server has shown it. This was read of it before, so its version is not the one that was shown.
    Earlier,
}

impl Reading {
    fn of<T>(object: Option<&T>) -> Self {
        if object.is_some() { Self::Current } else { Self::Earlier }
    }
}

impl<T> Shown<T> {
    /// An object under this key, as it was read.
    pub fn new(key: &str, object: Option<Arc<T>>) -> Self {
        let reading = Reading::of(object.as_ref());
        Self { key: key.into(), object, reading }
    }
}

impl<T> Clone for Shown<T> {
    fn clone(&self) -> Self {
        Self { key: Arc::clone(&self.key), object: self.object.clone(), reading: self.reading }
    }
}

impl<T> fmt::Debug for Shown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shown").field(&self.key).field(&self.object.is_some()).finish()
    }
}

/// Which list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListMark {
    /// How often the API server had been set back when it began.
    pub history: u64,
    /// In which epoch of the connection it was asked for.
    pub epoch: Epoch,
    /// How many lists there were with it.
    pub(super) number: u64,
}

/// What a follower is shown.
#[derive(Debug)]
pub enum Step<T> {
    /// A list begins. Another one may have broken off.
    Begins(ListMark),
    /// An object of the list.
    Listed(Shown<T>),
    /// The list is whole, as of this version.
    Whole(ListMark, ResourceVersion),
    /// An object is new or has changed.
    Changed(Shown<T>),
    /// An object is gone; this was its last state.
    Gone(Shown<T>),
    /// After a refusal the watch works again.
    Opened,
    /// A request of the watch was refused, or not answered.
    Failed(Refusal),
    /// There is more than is held. A list that was under way is given up, and what was shown before may be old until the next one is
    /// whole.
    GivenUp(Refusal),
}

/// How much is kept for followers that are behind, and how much one of them is shown at once.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// See [`LOG`].
    log: usize,
    /// See [`ENDED`].
    ended: usize,
    /// See [`PORTION`].
    portion: usize,
}

impl Bounds {
    const USUAL: Self = Self { log: LOG, ended: ENDED, portion: PORTION };
}

/// The objects.
pub(super) struct Store<T> {
    place: Place<T>,
    own_key: OwnKey<T>,
    bounds: Bounds,
    /// In an order in which they can be shown portion by portion, while some of them come and go.
    objects: BTreeMap<Arc<str>, Entry<T>>,
    /// The keys of the objects of each place.
    places: HashMap<Arc<str>, Vec<Arc<str>>>,
    /// The number of the last change.
    head: u64,
    /// The last changes, one for each number.
    log: VecDeque<Logged<T>>,
    /// How many bytes of texts those have that are gone.
    ended: usize,
    /// How much there is.
    all: Held,
    /// How much of it the last list has shown, or changes after it.
    listed: Held,
    /// How many lists have begun.
    begun: u64,
    /// The last one, unless what it has shown was forgotten.
    list: Option<List>,
    /// In place of which list another one was asked for last.
    replaced: u64,
    /// Counts what happened to the watch itself.
    news: u64,
    /// Why it does not work, where it does not.
    refusal: Option<Refusal>,
    /// Which bound was met last, and how often one was.
    given_up: Option<(Refusal, u64)>,
    /// No list has begun since.
    is_given_up: bool,
    /// Nothing will be shown any more: its watch crashed.
    has_crashed: bool,
}

struct Entry<T> {
    object: Option<Arc<T>>,
    reading: Reading,
    /// The number of its last change.
    changed: u64,
    /// The list that has shown it last, or the one after which a change did.
    list: u64,
    /// The bytes of its texts.
    weight: usize,
}

enum Logged<T> {
    Changed(Arc<str>),
    /// With the bytes of its texts.
    Gone(Shown<T>, usize),
}

impl<T> Logged<T> {
    fn weight(&self) -> usize {
        match self {
            Self::Changed(_) => 0,
            Self::Gone(_, weight) => *weight,
        }
    }
}

/// An object that was taken out of the store.
struct TakenOut<T> {
    key: Arc<str>,
    object: Option<Arc<T>>,
    weight: usize,
}

struct List {
    mark: ListMark,
    /// The number of the last change before it.
    began: u64,
    /// As of which version it is whole, where it is.
    whole: Option<ResourceVersion>,
}

/// How far a follower has looked.
pub(super) struct Cursor<T> {
    /// Lists of an earlier epoch are none for it.
    epoch: Epoch,
    /// The last list that it was shown, or has begun to be shown.
    list: u64,
    is_whole: bool,
    /// What was there when that list began for it, and was not shown yet.
    rest: Rest,
    /// What ended while it was shown that list: each has to end for it once more when the list is whole.
    ended: Vec<Shown<T>>,
    /// The bytes of their texts.
    weight: usize,
    /// The number of the last change that it has seen.
    at: u64,
    news: u64,
    /// How often it was shown that there is more than is held.
    given_up: u64,
}

/// What a follower has still to be shown of what is there.
#[derive(Debug)]
enum Rest {
    /// Nothing: all since then is in the log.
    Nothing,
    /// What comes after this key; without one, all.
    After(Option<Arc<str>>),
}

impl Rest {
    /// Whether the object with this key is shown with the rest.
    fn has(&self, key: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::After(last) => last.as_deref().is_none_or(|last| last < key),
        }
    }
}

impl<T> fmt::Debug for Cursor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor")
            .field("list", &self.list)
            .field("is_whole", &self.is_whole)
            .field("rest", &self.rest)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl<T> Cursor<T> {
    /// That of a follower that has seen nothing, and wants no list from before this epoch.
    pub(super) fn new(epoch: Epoch) -> Self {
        let (rest, ended) = (Rest::Nothing, Vec::new());
        Self { epoch, list: 0, is_whole: false, rest, ended, weight: 0, at: 0, news: 0, given_up: 0 }
    }

    /// Whether it has seen a whole list, and none has begun since.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Whether that list is this one.
    pub(super) fn is_at(&self, list: &ListMark) -> bool {
        self.is_whole && self.list == list.number
    }
}

/// Whether the content of a store is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// It was listed, or is being listed.
    Listed,
    /// It was forgotten, and needs a list.
    Forgotten,
}

impl<T> Store<T> {
    /// Nothing was shown yet.
    pub(super) fn new(place: Place<T>, own_key: OwnKey<T>) -> Self {
        Self {
            place,
            own_key,
            bounds: Bounds::USUAL,
            objects: BTreeMap::new(),
            places: HashMap::new(),
            head: 0,
            log: VecDeque::new(),
            ended: 0,
            all: Held::default(),
            listed: Held::default(),
            begun: 0,
            list: None,
            replaced: 0,
            news: 0,
            refusal: None,
            given_up: None,
            is_given_up: false,
            has_crashed: false,
        }
    }

    /// A list begins, in this history of the server and this epoch of the connection.
    pub(super) fn begin(&mut self, history: u64, epoch: Epoch) {
        if self.list.is_none() {
            // What was given up.
            self.forget();
        }
        self.is_given_up = false;
        self.begun += 1;
        let mark = ListMark { history, epoch, number: self.begun };
        self.list = Some(List { mark, began: self.head, whole: None });
        self.listed = Held::default();
    }

    /// An object is as it is now: in a list under way, or by a change after it. Without one it cannot be read. Its texts have so many
    /// bytes.
    pub(super) fn put(&mut self, key: &str, object: Option<Arc<T>>, weight: usize) {
        let TakenOut { key, object: before, weight: known } = self.take_out(key, object.as_deref());
        let reading = Reading::of(object.as_ref());
        // One that cannot be read stays what it was, and as large.
        let weight = if object.is_some() { weight } else { weight.max(known) };
        let object = object.or_else(|| before.clone());
        self.relocate(&key, before.as_deref(), object.as_deref());
        self.log(Logged::Changed(Arc::clone(&key)));
        self.all.add(weight);
        self.listed.add(weight);
        self.objects.insert(key, Entry { object, reading, changed: self.head, list: self.begun, weight });
    }

    /// An object is gone. This was its last state, where that can be read, with so many bytes of texts.
    pub(super) fn remove(&mut self, key: &str, last: Option<Arc<T>>, weight: usize) {
        let TakenOut { key, object: before, weight: known } = self.take_out(key, last.as_deref());
        self.relocate(&key, before.as_deref(), None);
        let (reading, object) = (Reading::of(last.as_ref()), last.or(before));
        self.log(Logged::Gone(Shown { key, object, reading }, weight.max(known)));
    }

    /// The list is whole: what it did not name is gone.
    pub(super) fn whole(&mut self, version: ResourceVersion) {
        let Some(list) = &mut self.list else { return };
        list.whole = Some(version);
        let number = list.mark.number;
        let gone = self.objects.iter().filter(|(_, entry)| entry.list != number);
        let gone: Vec<Arc<str>> = gone.map(|(key, _)| Arc::clone(key)).collect();
        for key in gone {
            let TakenOut { key, object, .. } = self.take_out(&key, None);
            self.relocate(&key, object.as_deref(), None);
        }
        self.works();
    }

    /// How much is held. While a list replaces another one that is both, and twice as much may be.
    pub(super) fn held(&self) -> Held {
        self.listed.max(self.all.half())
    }

    /// The part that has most of what is held, where each object is in this one.
    pub(super) fn largest(&self, part: fn(&T) -> Option<&Arc<str>>) -> Option<Arc<str>> {
        let mut parts: BTreeMap<&Arc<str>, Held> = BTreeMap::new();
        for entry in self.objects.values() {
            if let Some(part) = entry.object.as_deref().and_then(part) {
                parts.entry(part).or_default().add(entry.weight);
            }
        }
        let most = parts.into_iter().max_by_key(|(_, held)| (held.bytes, held.objects));
        most.map(|(part, _)| Arc::clone(part))
    }

    /// There is more than is held: until the next list nothing is shown of it. Objects that are looked at by their place stay until
    /// then, since a node would look empty to a follower that has not seen this yet.
    pub(super) fn give_up(&mut self, refusal: Refusal) {
        self.log.clear();
        (self.ended, self.list) = (0, None);
        // What was met before is not what keeps it from being known now.
        self.refusal = None;
        let times = self.given_up.as_ref().map_or(0, |(_, times)| *times);
        self.given_up = Some((refusal, times + 1));
        self.is_given_up = true;
    }

    /// The watch was refused, or not answered.
    pub(super) fn failed(&mut self, refusal: &Refusal) {
        self.refusal = Some(refusal.clone());
        self.news += 1;
    }

    /// The watch works.
    pub(super) fn works(&mut self) {
        if self.refusal.take().is_some() {
            self.news += 1;
        }
    }

    /// What is known may be another one by now, and no watch shows it.
    pub(super) fn forget(&mut self) {
        self.objects.clear();
        self.places.clear();
        self.log.clear();
        (self.ended, self.all, self.listed) = (0, Held::default(), Held::default());
        self.list = None;
    }

    /// Whether a list is needed.
    pub(super) fn content(&self) -> Content {
        if self.list.is_some() { Content::Listed } else { Content::Forgotten }
    }

    /// Another list is wanted in place of this one. Whether no follower has asked for that before, and none has begun.
    pub(super) fn replace(&mut self, list: &ListMark) -> bool {
        let is_news = list.number == self.begun && self.replaced != list.number;
        if is_news {
            self.replaced = list.number;
        }
        is_news
    }

    /// Its watch crashed.
    pub(super) fn crash(&mut self) {
        self.has_crashed = true;
    }

    /// Whether it did.
    pub(super) fn has_crashed(&self) -> bool {
        self.has_crashed
    }

    /// The number of the last change.
    pub(super) fn head(&self) -> u64 {
        self.head
    }

    /// The objects of a place.
    pub(super) fn at(&self, place: &str) -> Vec<Arc<T>> {
        let keys = self.places.get(place).into_iter().flatten();
        keys.filter_map(|key| self.objects.get(key)?.object.clone()).collect()
    }

    /// All objects.
    pub(super) fn objects(&self) -> impl Iterator<Item = &Arc<T>> {
        self.objects.values().filter_map(|entry| entry.object.as_ref())
    }

    /// Whether there is an object under this key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.objects.contains_key(key)
    }

    /// What a follower has not seen yet, or a portion of that. It has seen all when this is empty.
    pub(super) fn take(&self, cursor: &mut Cursor<T>) -> Vec<Step<T>> {
        let mut steps = Vec::new();
        self.show_given_up(cursor, &mut steps);
        match self.list.as_ref().filter(|list| list.mark.epoch >= cursor.epoch) {
            Some(list) => {
                self.begin_to_show(list, cursor, &mut steps);
                self.show(list, cursor, &mut steps);
            }
            // It is not shown that list any further.
            None => cursor.rest = Rest::Nothing,
        }
        // It came after the list, of which the follower has not seen all yet.
        if matches!(cursor.rest, Rest::Nothing) {
            self.show_news(cursor, &mut steps);
        }
        steps
    }

    /// What happened to the watch itself since.
    fn show_news(&self, cursor: &mut Cursor<T>, steps: &mut Vec<Step<T>>) {
        if cursor.news != self.news {
            cursor.news = self.news;
            steps.push(self.refusal.clone().map_or(Step::Opened, Step::Failed));
        }
    }

    /// Before a list that came after it. A follower that was shown nothing has to know it only where it is why there is no list.
    fn show_given_up(&self, cursor: &mut Cursor<T>, steps: &mut Vec<Step<T>>) {
        let Some((refusal, times)) = self.given_up.as_ref().filter(|(_, times)| *times != cursor.given_up) else {
            return;
        };
        cursor.given_up = *times;
        if cursor.list > 0 || self.is_given_up {
            cursor.is_whole = false;
            // In the order in which they came, since the last one is why nothing is known: a refusal that is still one came after it.
            if self.refusal.is_none() {
                self.show_news(cursor, steps);
            }
            steps.push(Step::GivenUp(refusal.clone()));
        }
    }

    /// Where a list has begun since, or the log does not reach back to what the follower has seen, it begins with that list.
    fn begin_to_show(&self, list: &List, cursor: &mut Cursor<T>, steps: &mut Vec<Step<T>>) {
        let is_another = cursor.list != list.mark.number;
        let is_behind = cursor.at < self.forgotten() || cursor.weight > self.bounds.ended;
        if !is_another && !is_behind {
            return;
        }
        if cursor.is_whole && !is_behind {
            // The list does not show in which state something ended before it, and it may never come to its end.
            self.show_changes(cursor.at, list.began, steps);
        }
        // The list that it was shown breaks off for it.
        self.show_ended(cursor, steps);
        (cursor.list, cursor.is_whole, cursor.at, cursor.rest) = (list.mark.number, false, list.began, Rest::Nothing);
        steps.push(Step::Begins(list.mark));
        if list.began < self.forgotten() {
            (cursor.rest, cursor.at) = (Rest::After(None), self.head);
        }
    }

    /// Each change since, in its latest state; and of a list that it was not shown whole, what it has named, and its end.
    fn show(&self, list: &List, cursor: &mut Cursor<T>, steps: &mut Vec<Step<T>>) {
        if cursor.is_whole {
            self.show_changes(cursor.at, self.head, steps);
            cursor.at = self.head;
            return;
        }
        for (number, logged) in self.since(cursor.at) {
            match logged {
                Logged::Changed(key) => {
                    // A later change shows it otherwise, or its end; or it is shown with the rest.
                    let latest = self.objects.get(key).filter(|entry| entry.changed == number && !cursor.rest.has(key));
                    steps.extend(latest.map(|entry| Step::Listed(entry.shown(key))));
                }
                // It was in the list, and ended after that was whole.
                Logged::Gone(shown, weight) => {
                    steps.push(Step::Listed(shown.clone()));
                    cursor.ended.push(shown.clone());
                    cursor.weight = cursor.weight.saturating_add(*weight);
                }
            }
        }
        cursor.at = self.head;
        self.show_rest(list, cursor, steps);
        if let (Rest::Nothing, Some(version)) = (&cursor.rest, &list.whole) {
            cursor.is_whole = true;
            steps.push(Step::Whole(list.mark, version.clone()));
            self.show_ended(cursor, steps);
        }
    }

    /// The next portion of what is there, where the follower is shown a list out of that.
    fn show_rest(&self, list: &List, cursor: &mut Cursor<T>, steps: &mut Vec<Step<T>>) {
        let Rest::After(last) = &cursor.rest else { return };
        let after = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.objects.range::<str, _>((after, Bound::Unbounded));
        // What no list has named since is shown once one has, or goes at its end.
        let listed = rest.filter(|(_, entry)| entry.list == list.mark.number).take(self.bounds.portion);
        let (before, mut last) = (steps.len(), None);
        for (key, entry) in listed {
            steps.push(Step::Listed(entry.shown(key)));
            last = Some(key);
        }
        let is_over = steps.len() - before < self.bounds.portion;
        cursor.rest = if is_over { Rest::Nothing } else { Rest::After(last.cloned()) };
    }

    /// What ended while the follower was shown a list that is over for it. What came again under its key is there.
    fn show_ended(&self, cursor: &mut Cursor<T>, steps: &mut Vec<Step<T>>) {
        cursor.weight = 0;
        let ended = std::mem::take(&mut cursor.ended).into_iter();
        steps.extend(ended.filter(|shown| !self.objects.contains_key(&shown.key)).map(Step::Gone));
    }

    /// The changes after this number and until that one, to a follower that knows what was before: of each object the latest state,
    /// unless it changed after those, and each end.
    fn show_changes(&self, after: u64, until: u64, steps: &mut Vec<Step<T>>) {
        let mut unseen = HashSet::new();
        for (number, logged) in self.since(after).take_while(|(number, _)| *number <= until) {
            match logged {
                Logged::Changed(key) => match self.objects.get(key).filter(|entry| entry.changed == number) {
                    Some(entry) => steps.push(Step::Changed(entry.shown(key))),
                    // A later change shows it, or its end.
                    None => {
                        unseen.insert(key);
                    }
                },
                Logged::Gone(shown, _) => {
                    if unseen.remove(&shown.key) {
                        steps.push(Step::Changed(shown.clone()));
                    }
                    steps.push(Step::Gone(shown.clone()));
                }
            }
        }
    }

    /// The number of the last change that is not in the log.
    fn forgotten(&self) -> u64 {
        self.head.saturating_sub(self.log.len() as u64)
    }

    /// The changes after this number, with theirs.
    fn since(&self, number: u64) -> impl Iterator<Item = (u64, &Logged<T>)> {
        let forgotten = self.forgotten();
        let seen = usize::try_from(number.saturating_sub(forgotten)).unwrap_or(usize::MAX).min(self.log.len());
        (forgotten + seen as u64 + 1..).zip(self.log.range(seen..))
    }

    fn log(&mut self, logged: Logged<T>) {
        self.head += 1;
        self.ended = self.ended.saturating_add(logged.weight());
        self.log.push_back(logged);
        while self.log.len() > self.bounds.log || self.ended > self.bounds.ended {
            let Some(first) = self.log.pop_front() else { return };
            self.ended = self.ended.saturating_sub(first.weight());
        }
    }

    /// Takes an object out, to put this one in its place, or none. The key of one that is new is its own text, so that it is held once.
    fn take_out(&mut self, key: &str, now: Option<&T>) -> TakenOut<T> {
        let Some((key, entry)) = self.objects.remove_entry(key) else {
            let own = now.and_then(self.own_key).filter(|own| **own == *key);
            return TakenOut { key: own.unwrap_or_else(|| key.into()), object: None, weight: 0 };
        };
        let Entry { object, list, weight, .. } = entry;
        self.all.take(weight);
        if list == self.begun {
            self.listed.take(weight);
        }
        TakenOut { key, object, weight }
    }

    fn relocate(&mut self, key: &Arc<str>, before: Option<&T>, now: Option<&T>) {
        let (from, to) = (before.and_then(self.place), now.and_then(self.place));
        if from == to {
            return;
        }
        if let Some(from) = from
            && let Some(keys) = self.places.get_mut(from)
        {
            keys.retain(|known| known != key);
            if keys.is_empty() {
                self.places.remove(from);
            }
        }
        if let Some(to) = to {
            self.places.entry(Arc::clone(to)).or_default().push(Arc::clone(key));
        }
    }
}

impl<T> Entry<T> {
    fn shown(&self, key: &Arc<str>) -> Shown<T> {
        Shown { key: Arc::clone(key), object: self.object.clone(), reading: self.reading }
    }
}

#[cfg(test)]
mod tests;
