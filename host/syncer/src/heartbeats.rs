//! The heartbeats of virtual nodes: their leases in `kube-node-lease` (`bottomup-syncer.md` section 7, decisions S4, S5, S11,
//! S21, S24 and S27).
//!
//! Owns the leases of the virtual nodes of one binding: makes them, renews each four times within its duration, evenly spread,
//! and takes over those of another replica: one that was renewed less than half of its duration ago is renewed soon, evenly with all such, and all
//! others at once. One task does it for all ([`Renewer`]), with a bounded number of requests at the same time, on a client of its
//! own. Never decides which lease is to be renewed: [`Heartbeats::start`] and
//! [`Heartbeats::stop`] are for the controller that judges whether a node lives. Never watches a Lease, never deletes one, and
//! never writes one of another.
//!
//! # The client
//!
//! It has connections of its own, waits in no bucket, never tries again by itself, and is behind [`Heartbeats::gate`]: a gate
//! that opens with the binding's lease and has no other switch. An operator who switches writes off must not have every node
//! declared dead, and a replica that lost the binding must not renew.
//!
//! # Failure story
//!
//! A renewal that is not answered within half an interval is tried again, after a pause, and holds up no other lease: those
//! that fail have half of the places at most. What is ready goes in the order of the last renewal, so an API server that comes
//! back first gets the leases that are closest to their end. A version that is not the stored one costs one read; a Lease that
//! is gone is made at once. The time of a renewal never goes back, whatever the clock does (S24).
//!
//! A Lease that belongs to another is reported and left alone, and read again with each turn.

mod book;
mod clock;
mod entry;
mod lease;
pub mod metrics;
mod options;
mod queues;
mod requests;
mod runner;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use topoloom_cluster::Refusal;
use topoloom_cluster::gate::{Gate, ReadOnly, Switch};
use topoloom_core::names::{NodeName, Uid};
use topoloom_sync::identity::Identity;
use topoloom_sync::keys;
use topoloom_sync::wall::TakeOver;

use self::book::{Book, Done, Job};
use self::metrics::Metrics;
use self::options::PATIENCE;
use self::requests::Requests;

pub use self::book::{BeatNews, StartError};
pub use self::clock::Clock;
pub use self::entry::{Memory, Sent};
pub use self::lease::{NAMESPACE, StoredLease, WhyForeign};
pub use self::options::{Options, OptionsError};
pub use self::runner::Renewer;

/// Is notified of what a person should know. It must not wait: all leases would.
pub type Notify = Box<dyn Fn(BeatNews) + Send + Sync>;

/// The leases of the virtual nodes of a binding. Clones are the same.
#[derive(Clone)]
pub struct Heartbeats {
    shared: Arc<Shared>,
}

/// What the handle and the task share.
struct Shared {
    book: Mutex<Book>,
    requests: Requests,
    clock: Clock,
    changed: tokio::sync::Notify,
    options: Options,
    /// The labels by which the leases of this binding are found.
    selector: String,
}

impl Heartbeats {
    /// The heartbeats of a binding, and the task that renews them, which the caller runs.
    #[must_use]
    pub fn new(
        client: kube::Client,
        us: Identity,
        options: Options,
        metrics: &Metrics,
        clock: Clock,
        notify: Notify,
    ) -> (Self, Renewer) {
        let labels = us.labels();
        let label = |key: &str| labels.get(key).map(|value| format!("{key}={value}"));
        // Not the UID of the binding: one that was applied again takes over what the earlier one left.
        let selector =
            [keys::VIRTUAL_CLUSTER, keys::BINDING].into_iter().filter_map(label).collect::<Vec<_>>().join(",");
        let metrics = metrics.of(us.binding());
        let shared = Arc::new(Shared {
            book: Mutex::new(Book::new(us, options, metrics, clock.boot())),
            requests: Requests::new(client, options.patience()),
            clock,
            changed: tokio::sync::Notify::new(),
            options,
            selector,
        });
        (Self { shared: Arc::clone(&shared) }, Renewer { shared, notify })
    }

    /// A gate for the client of heartbeats: its holder opens it with the binding's lease, and no switch of writes closes it
    /// (decision S27).
    #[must_use]
    pub fn gate() -> Gate {
        Gate::closed(&Switch::new(ReadOnly::No))
    }

    /// Renews the lease of a virtual node from now on, and makes it where there is none. Again for the same node is nothing; for
    /// one of that name with another UID, the lease becomes that one's.
    ///
    /// # Errors
    /// The name is none of an object, or the UID is empty.
    pub fn start(&self, node: &NodeName, uid: &Uid) -> Result<(), StartError> {
        let started = self.shared.book().start(node, uid, self.shared.clock.boot());
        self.shared.changed.notify_one();
        started
    }

    /// Lists the leases of this binding, for a replica that takes it over (decision S11).
    ///
    /// # Errors
    /// The refusal of the API server.
    pub async fn stored(&self) -> Result<Vec<StoredLease>, Refusal> {
        self.shared.requests.list(&self.shared.selector).await
    }

    /// The time of day. Read as soon as leases were listed, for [`Self::take_over`].
    #[must_use]
    pub fn wall(&self) -> Timestamp {
        self.shared.clock.wall()
    }

    /// What these leases show of the clock of the process that renewed them last; `None`: none of what is lent was ever renewed.
    /// `nodes` are the virtual nodes that are there, and `listed` is what our clock showed when the leases were listed.
    #[must_use]
    pub fn take_over(
        &self,
        stored: &[StoredLease],
        nodes: &BTreeMap<NodeName, Uid>,
        listed: Timestamp,
    ) -> Option<TakeOver> {
        self.shared.book().take_over(stored, nodes, listed)
    }

    /// As [`Self::start`] for many nodes at once, with what one list of the leases shows: what is known of a lease is renewed
    /// without a read, those that were renewed longest ago go first, and those that were renewed a moment ago follow evenly within half
    /// of an interval. A Lease of another node in the list does no harm.
    ///
    /// Returns an error for each node that has no usable name or UID; the others are started.
    #[must_use]
    pub fn adopt(&self, stored: &[StoredLease], nodes: impl IntoIterator<Item = (NodeName, Uid)>) -> Vec<StartError> {
        let now = (self.shared.clock.boot(), self.shared.clock.wall());
        let errors = self.shared.book().adopt(stored, nodes, now);
        self.shared.changed.notify_one();
        errors
    }

    /// Renews the lease of a virtual node no longer. When this returns, no request for it is under way, unless one took longer
    /// than five seconds. Again, or for a node that was never started, is nothing.
    pub async fn stop(&self, node: &NodeName, memory: Memory) {
        let end = self.shared.book().stop(node, memory);
        self.shared.changed.notify_one();
        if let Some(end) = end {
            // An error means that the task has ended, and with it every request.
            let _ = tokio::time::timeout(PATIENCE, end).await;
        }
    }

    /// When the last request that renewed this lease was sent, by the boot-time clock; nothing where none was. It stays known
    /// after a stop with [`Memory::Kept`].
    #[must_use]
    pub fn renewed(&self, node: &str) -> Option<Duration> {
        self.shared.book().renewed(node)
    }

    /// How often a lease of ours was found renewed by another client. It grows once per turn of each lease that two clients renew.
    #[must_use]
    pub fn by_another(&self) -> u64 {
        self.shared.book().by_another()
    }

    /// Whether the lease of this node is renewed here, or was since this time of the boot-time clock.
    #[must_use]
    pub fn renews_since(&self, node: &str, since: Duration) -> bool {
        self.shared.book().renews_since(node, since)
    }

    /// Whether any lease is renewed here.
    #[must_use]
    pub fn renews(&self) -> bool {
        self.shared.book().renews()
    }

    /// The virtual nodes whose lease is another's, and why.
    #[must_use]
    pub fn foreign(&self) -> BTreeMap<NodeName, WhyForeign> {
        self.shared.book().foreign()
    }

    /// Why the lease of this virtual node is another's, where it is.
    #[must_use]
    pub fn foreign_of(&self, node: &str) -> Option<WhyForeign> {
        self.shared.book().foreign_of(node)
    }

    /// The times and numbers that hold here.
    #[must_use]
    pub fn options(&self) -> Options {
        self.shared.options
    }
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The requests to send now, and how long nothing has to be looked at unless something happens.
    fn orders(&self) -> (Vec<Job>, Duration) {
        let (now, wall) = (self.clock.boot(), self.clock.wall());
        let mut book = self.book();
        book.turn(now);
        let jobs = std::iter::from_fn(|| book.take((now, wall))).collect();
        (jobs, book.next().map_or(runner::LONG, |next| next.saturating_sub(now)))
    }

    fn answered(&self, done: Done) {
        self.book().done(done, self.clock.boot());
    }

    fn news(&self) -> Vec<BeatNews> {
        self.book().news()
    }

    fn end(&self) {
        self.book().end();
    }
}

#[cfg(test)]
mod staged;
#[cfg(test)]
mod tests;
