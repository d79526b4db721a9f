//! The watch of one kind, which runs while it is followed, and those that follow it.
//!
//! Owns its task: it lists and watches, and puts what it sees into the [`Store`]. It starts with the first follower and ends with the
//! last. It begins again with a list where its connection was gone, and where a follower wants that. Where there is more than is held it
//! ends, and begins again after some minutes. Never decides anything.
//!
//! # Failure story
//!
//! What the watch meets is shown to every follower. Each follower is a watch of its own for the [`Restores`] of its server: after the
//! server was set back nothing is written before each has taken a list from after that. Should the task crash, its followers crash with
//! it: what they know would be known as it was for ever. The next follower starts another one.

use std::fmt::{self, Debug, Display};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures::StreamExt;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use topoloom_cluster::restores::{Earlier, RestoreWatch};
use topoloom_cluster::watched::Event;
use topoloom_cluster::watches::{self, Config, Heard};
use topoloom_cluster::{Refusal, RefusalReason, Restores};
use topoloom_sync::liveness::Epoch;

use super::room::{AGAIN, Most};
use super::store::{Content, Cursor, ListMark, OwnKey, Place, Step, Store};

/// So many objects of a list are put in before its followers look: each look costs more than an object.
const TOGETHER: u64 = 128;

/// A kind of objects that all follow by one watch: how each is kept.
pub trait Kind: Default + Send + 'static {
    /// What the watch reads of one.
    type Slice: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static;
    /// What is kept of one.
    type Object: Send + Sync + 'static;
    /// Why one cannot be read.
    type Error: Display;

    /// What one is called in a log.
    const KIND: &'static str;

    /// Under what one is known: its name, unless the kind says otherwise.
    fn key(slice: &Self::Slice) -> &str {
        slice.meta().name.as_deref().unwrap_or_default()
    }

    /// Its key in the text that is kept with it, of kinds that have one.
    fn own_key(_: &Self::Object) -> Option<Arc<str>> {
        None
    }

    /// Whether any follower needs it.
    fn is_kept(_: &Self::Slice) -> bool {
        true
    }

    /// The bytes of its texts, of kinds that are kept with their texts.
    fn weight(_: &Self::Slice) -> usize {
        0
    }

    /// The bytes of what is kept of one whose size another party chooses, of kinds of which a part is kept.
    fn kept(_: &Self::Object) -> usize {
        0
    }

    /// What there is to know of it.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&mut self, slice: Self::Slice) -> Result<Arc<Self::Object>, Self::Error>;

    /// Where it is.
    fn place(_: &Self::Object) -> Option<&Arc<str>> {
        None
    }

    /// Its namespace, of kinds that are kept with it.
    fn namespace(_: &Self::Object) -> Option<&Arc<str>> {
        None
    }

    /// Whether what is known does not hold any more where the watch meets this.
    fn forgets(_: RefusalReason) -> bool {
        false
    }
}

/// The watch of a kind that all share.
pub struct SharedWatch<K: Kind> {
    api: Api<K::Slice>,
    config: Config,
    restores: Restores,
    /// In which epoch the connection is; none where it has none.
    epochs: Option<watch::Receiver<Epoch>>,
    most: Most,
    running: Mutex<Weak<Running<K::Object>>>,
}

/// A watch that runs, for as long as this is kept.
pub struct Running<T> {
    stock: Arc<Stock<T>>,
    /// Aborted when dropped.
    _task: JoinSet<()>,
}

/// What a watch has shown. It stays as it is when the watch has ended.
pub struct Stock<T> {
    store: Mutex<Store<T>>,
    /// The number of the last change that followers have to look at.
    news: watch::Sender<u64>,
    again: Notify,
}

/// One that follows a watch.
pub struct Subscription<T> {
    running: Arc<Running<T>>,
    news: watch::Receiver<u64>,
    cursor: Cursor<T>,
    member: RestoreWatch,
    /// What the next list does to what the follower knows, unless it does more.
    earlier: Earlier,
}

impl<K: Kind> SharedWatch<K> {
    /// Of what this configuration selects, by a client of a server whose restores these are, unless that is more than this.
    #[must_use]
    pub fn new(
        client: &kube::Client,
        restores: &Restores,
        config: Config,
        epochs: Option<watch::Receiver<Epoch>>,
        most: Most,
    ) -> Self {
        let (api, restores) = (Api::all(client.clone()), restores.clone());
        Self { api, config, restores, epochs, most, running: Mutex::default() }
    }

    /// Follows it from now on. Lists that were asked for in an earlier epoch are none for this follower. Must be called in a runtime.
    #[must_use]
    pub fn subscribe(&self, epoch: Epoch) -> Subscription<K::Object> {
        let running = self.run();
        let news = running.stock.news.subscribe();
        let (cursor, member) = (Cursor::new(epoch), self.restores.member());
        Subscription { running, news, cursor, member, earlier: Earlier::Valid }
    }

    /// It runs for as long as this is kept, although it has no follower. Must be called in a runtime.
    #[must_use]
    pub fn run(&self) -> Arc<Running<K::Object>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = running.upgrade().filter(|running| !running.stock.store().has_crashed()) {
            return running;
        }
        let started = Arc::new(self.start());
        *running = Arc::downgrade(&started);
        started
    }

    fn start(&self) -> Running<K::Object> {
        let stock = Arc::new(Stock::new(K::place, K::own_key));
        let source = Source {
            kind: K::default(),
            api: self.api.clone(),
            config: self.config.clone(),
            restores: self.restores.clone(),
            epochs: self.epochs.clone(),
            most: self.most,
            stock: Arc::clone(&stock),
        };
        let mut task = JoinSet::new();
        // In a box, since it is large, and would be moved from stack to stack.
        task.spawn(Box::pin(source.run()));
        Running { stock, _task: task }
    }
}

impl<K: Kind> Debug for SharedWatch<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.running.lock().unwrap_or_else(PoisonError::into_inner).strong_count() > 0;
        f.debug_struct("SharedWatch").field("kind", &K::KIND).field("runs", &runs).finish_non_exhaustive()
    }
}

impl<T> Stock<T> {
    fn new(place: Place<T>, own_key: OwnKey<T>) -> Self {
        Self { store: Mutex::new(Store::new(place, own_key)), news: watch::Sender::new(0), again: Notify::new() }
    }

    fn store(&self) -> MutexGuard<'_, Store<T>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The objects of a place, as they were shown last.
    #[must_use]
    pub fn at(&self, place: &str) -> Vec<Arc<T>> {
        self.store().at(place)
    }

    /// All objects, as they were shown last, one after the other.
    pub fn visit(&self, visit: impl FnMut(&Arc<T>)) {
        self.store().objects().for_each(visit);
    }

    /// Whether an object under this key is shown.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.store().has(key)
    }

    /// Everything is listed again in place of this list; once, however many followers of the same list want it.
    pub fn replace(&self, list: &ListMark) {
        if self.store().replace(list) {
            self.again.notify_one();
        }
    }

    fn tell(&self) {
        self.news.send_modify(|news| *news = news.wrapping_add(1));
    }
}

impl<T> Debug for Stock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stock").field(&self.store().head()).finish()
    }
}

impl<T> Subscription<T> {
    /// What was shown since the last call, as soon as there is something; of much that was, a portion. Where it is dropped while it
    /// waits nothing is lost.
    pub async fn next(&mut self) -> Vec<Step<T>> {
        loop {
            // Before the look, so that no change is missed.
            self.news.mark_unchanged();
            let steps = self.look();
            if !steps.is_empty() {
                return steps;
            }
            if self.news.changed().await.is_err() {
                // The sender is in what this follower keeps.
                std::future::pending::<()>().await;
            }
        }
    }

    fn look(&mut self) -> Vec<Step<T>> {
        let store = self.running.stock.store();
        if store.has_crashed() {
            drop(store);
            std::panic::resume_unwind(Box::new("a watch that several bindings share has crashed"));
        }
        store.take(&mut self.cursor)
    }

    /// What its watch has shown.
    #[must_use]
    pub fn stock(&self) -> Arc<Stock<T>> {
        Arc::clone(&self.running.stock)
    }

    /// Whether a list is of the history that the API server has: what another one shows does not count.
    #[must_use]
    pub fn is_of_now(&self, list: &ListMark) -> bool {
        self.member.is_as_of(list.history)
    }

    /// Whether the follower was shown this list whole, and since then changes alone.
    #[must_use]
    pub fn is_at(&self, list: &ListMark) -> bool {
        self.cursor.is_at(list)
    }

    /// This list begins for the follower: what it does to what the follower knows.
    pub fn begins(&mut self, list: &ListMark) -> Earlier {
        let before = std::mem::replace(&mut self.earlier, Earlier::Valid);
        match self.member.lists_as_of(list.history) {
            Earlier::Valid => before,
            Earlier::Void => Earlier::Void,
        }
    }

    /// The follower has taken in a whole list.
    pub fn took_list(&self) {
        self.member.listed();
    }

    /// The follower was shown a refusal. Where nothing may be listed for good, or more than is held, there is nothing that it could
    /// forget now, and writes do not wait for it.
    pub fn was_refused(&mut self, refusal: &Refusal) {
        let is_for_good = matches!(
            refusal.reason,
            RefusalReason::Forbidden | RefusalReason::NoSuchResource | RefusalReason::TooLarge
        );
        let is_listed = self.cursor.is_whole() && self.running.stock.store().content() == Content::Listed;
        if is_for_good && !is_listed {
            if self.member.lists() == Earlier::Void {
                self.earlier = Earlier::Void;
            }
            self.member.listed();
        }
    }
}

impl<T> Debug for Subscription<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("cursor", &self.cursor).finish_non_exhaustive()
    }
}

/// The task of a watch.
struct Source<K: Kind> {
    kind: K,
    api: Api<K::Slice>,
    config: Config,
    restores: Restores,
    epochs: Option<watch::Receiver<Epoch>>,
    most: Most,
    stock: Arc<Stock<K::Object>>,
}

/// Whether what there is is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    /// It is.
    Enough,
    /// It is more, and nothing of it is.
    TooSmall,
}

impl<K: Kind> Source<K> {
    async fn run(mut self) {
        let _end = End(Arc::clone(&self.stock));
        loop {
            match self.watch().await {
                Room::Enough => {}
                // A connection that was gone may lead to another state of the cluster.
                Room::TooSmall => tokio::select! {
                    () = changed(self.epochs.as_mut()) => {}
                    () = tokio::time::sleep(AGAIN) => {}
                },
            }
        }
    }

    /// Watches, from a list on, until everything has to be listed again.
    async fn watch(&mut self) -> Room {
        let epoch = self.epochs.as_mut().map(|epochs| *epochs.borrow_and_update()).unwrap_or_default();
        let opened = Arc::new(Notify::new());
        let noted = Arc::clone(&opened);
        let config = self.config.clone().opened(&Heard::new(move || noted.notify_one()));
        let mut events = std::pin::pin!(watches::events(self.api.clone(), config));
        loop {
            tokio::select! {
                biased;
                () = changed(self.epochs.as_mut()) => return Room::Enough,
                () = self.stock.again.notified() => return Room::Enough,
                () = opened.notified() => {
                    if self.is_open() == Content::Forgotten {
                        return Room::Enough;
                    }
                }
                event = events.next() => match event {
                    Some(event) => {
                        if self.take(event, epoch) == Room::TooSmall {
                            return Room::TooSmall;
                        }
                    }
                    // It has no end.
                    None => return Room::Enough,
                },
            }
        }
    }

    /// The watch is open: after a refusal without a list. Whether what it continues is still known.
    fn is_open(&self) -> Content {
        let mut store = self.stock.store();
        store.works();
        let content = store.content();
        drop(store);
        self.stock.tell();
        content
    }

    fn take(&mut self, event: Result<Event<K::Slice>, Refusal>, epoch: Epoch) -> Room {
        let is_part = matches!(event, Ok(Event::InitApply(_)));
        match event {
            Ok(Event::Init(_)) => {
                let history = *self.restores.changes().borrow();
                self.stock.store().begin(history, epoch);
            }
            Ok(Event::InitApply(slice) | Event::Apply(slice)) => self.put(slice),
            Ok(Event::InitDone(version)) => self.stock.store().whole(version),
            Ok(Event::Delete(slice)) => self.remove(slice),
            Err(refusal) => {
                tracing::debug!(
                    kind = K::KIND, reason = refusal.reason.as_str(), error = %refusal, "a watch of lending broke"
                );
                let mut store = self.stock.store();
                store.failed(&refusal);
                if K::forgets(refusal.reason) {
                    store.forget();
                }
            }
        }
        let room = self.room();
        if room == Room::TooSmall || !is_part || self.stock.store().head().is_multiple_of(TOGETHER) {
            self.stock.tell();
        }
        room
    }

    /// Whether what there is now is held. Where it is more nothing of it is.
    fn room(&self) -> Room {
        let mut store = self.stock.store();
        let plural = <K::Slice as kube::Resource>::plural(&());
        let Some(refusal) = self.most.refuse(store.held(), &plural, || store.largest(K::namespace)) else {
            return Room::Enough;
        };
        tracing::debug!(kind = K::KIND, error = %refusal, "a watch of lending shows more than is held");
        store.give_up(refusal);
        Room::TooSmall
    }

    fn put(&mut self, slice: K::Slice) {
        if K::is_kept(&slice) {
            let (key, object, weight) = self.read(slice);
            self.stock.store().put(&key, object, weight);
        }
    }

    fn remove(&mut self, slice: K::Slice) {
        if K::is_kept(&slice) {
            let (key, last, weight) = self.read(slice);
            self.stock.store().remove(&key, last, weight);
        }
    }

    /// Under what it is known, what there is to know of it, and its bytes.
    fn read(&mut self, slice: K::Slice) -> (String, Option<Arc<K::Object>>, usize) {
        let (key, weight) = (K::key(&slice).to_owned(), K::weight(&slice));
        let read = self.kind.read(slice).inspect_err(|error| {
            let kind = K::KIND;
            tracing::warn!(kind, key, %error, "an object cannot be read; what was read of it before counts");
        });
        let object = read.ok();
        let kept = object.as_deref().map_or(0, K::kept);
        (key, object, weight.saturating_add(kept))
    }
}

/// Ends with the next epoch, and never where there are none.
async fn changed(epochs: Option<&mut watch::Receiver<Epoch>>) {
    if let Some(epochs) = epochs
        && epochs.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// The end of the task of a watch. Where it was not the last follower that ended it, it crashed.
struct End<T>(Arc<Stock<T>>);

impl<T> Drop for End<T> {
    fn drop(&mut self) {
        self.0.store().crash();
        self.0.tell();
    }
}
