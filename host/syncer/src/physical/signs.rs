//! Whether a physical API server is reachable, by its signs of life (decision S5).
//!
//! Owns the time of each sign, by the boot-time clock, and publishes what [`topoloom_sync::liveness`] makes of it. Watches report
//! their events and bookmarks here, probes their answers, and caches their lists. Never asks anything itself.
//!
//! # Failure story
//!
//! Silence needs no event to be noticed: time alone makes a connection suspect, and [`Signs::keep`] publishes that. Should that task
//! end, the connection is published as unreachable: what nothing measures any more is not believed. After the machine slept, the
//! published state is old for up to five seconds; [`Signs::reach`] is never old. So a gap may end before it was published. It
//! begins a new [`Epoch`] all the same, which is what those that have to list anew wait for ([`Signs::epochs`]).

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use topoloom_cluster::gate::boot_time;
use topoloom_cluster::watches::Heard;
use topoloom_sync::liveness::{Contact, ContactTiming, Epoch, Reach};

/// The longest time between two looks at the clock: timers stand still while the machine sleeps, and the clock does not.
const LOOK: Duration = Duration::from_secs(5);

/// A clock that cannot be set.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Clock {
    /// Another clock, for tests and for simulations.
    pub fn new(now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The time that it shows.
    #[must_use]
    pub fn now(&self) -> Duration {
        (self.0)()
    }
}

impl Default for Clock {
    /// The time since the machine was started, sleep included.
    fn default() -> Self {
        Self::new(boot_time)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

/// The signs of life of one connection. Clones are the same.
#[derive(Clone)]
pub struct Signs(Arc<Shared>);

struct Shared {
    clock: Clock,
    contact: Mutex<Contact>,
    reach: watch::Sender<Reach>,
    epoch: watch::Sender<Epoch>,
}

impl Signs {
    /// Those of a connection that is made now.
    #[must_use]
    pub fn new(timing: ContactTiming, clock: &Clock) -> Self {
        let now = clock.now();
        let contact = Contact::new(timing, now);
        let (reach, epoch) = (watch::Sender::new(contact.reach(now)), watch::Sender::new(contact.epoch()));
        Self(Arc::new(Shared { clock: clock.clone(), contact: Mutex::new(contact), reach, epoch }))
    }

    /// A watch event, a bookmark or an answered probe arrived.
    pub fn answered(&self) {
        self.change(Contact::answered);
    }

    /// Nodes and pods were listed, by lists that were asked for in this epoch.
    pub fn listed(&self, epoch: Epoch) {
        self.change(|contact, now| contact.listed(epoch, now));
    }

    /// How often the server is probed.
    #[must_use]
    pub fn probe(&self) -> Duration {
        self.contact().timing().probe()
    }

    /// In which epoch the connection is; is notified when another one begins: then all has to be listed again.
    #[must_use]
    pub fn epochs(&self) -> watch::Receiver<Epoch> {
        self.0.epoch.subscribe()
    }

    /// In which epoch the connection is at this moment.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.contact().epoch()
    }

    /// Whether both are those of one connection.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The time by the clock of these signs.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.0.clock.now()
    }

    /// How the connection is doing at this moment.
    #[must_use]
    pub fn reach(&self) -> Reach {
        let now = self.0.clock.now();
        self.contact().reach(now)
    }

    /// Is notified when that changes.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<Reach> {
        self.0.reach.subscribe()
    }

    /// For watches: each of their signs of life is one of the connection.
    #[must_use]
    pub fn heard(&self) -> Heard {
        let signs = self.clone();
        Heard::new(move || signs.answered())
    }

    /// Publishes what time alone changes, until it is dropped.
    pub async fn keep(&self) {
        let _end = End(self);
        loop {
            let now = self.0.clock.now();
            self.publish();
            // A sign of life only makes this later.
            let next = self.contact().next(now);
            tokio::time::sleep(next.map_or(LOOK, |at| at.saturating_sub(now)).min(LOOK)).await;
        }
    }

    fn change(&self, change: impl FnOnce(&mut Contact, Duration)) {
        let now = self.0.clock.now();
        change(&mut self.contact(), now);
        self.publish();
    }

    fn publish(&self) {
        // Under the lock of the contact, so that an older answer never replaces a newer one.
        let contact = self.contact();
        let reach = contact.reach(self.0.clock.now());
        self.0.reach.send_if_modified(|published| std::mem::replace(published, reach) != reach);
        let epoch = contact.epoch();
        self.0.epoch.send_if_modified(|published| std::mem::replace(published, epoch) != epoch);
    }

    fn contact(&self) -> MutexGuard<'_, Contact> {
        self.0.contact.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Signs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Signs").field(&self.reach()).finish()
    }
}

/// The end of the task that publishes.
struct End<'a>(&'a Signs);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.0.reach.send_replace(Reach::Unreachable { since: self.0.0.clock.now() });
    }
}
