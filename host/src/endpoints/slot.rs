//! One object that an endpoint needs, as it was last seen.
//!
//! Where the host may watch it, the slot is always current and a change rings at once. Where it may only read it, the
//! slot is read once per call of the plugin, and looked at now and then so that a change is heard of.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use tokio::time::Instant;

use super::vault::{Data, Found, Name, Seen, Vault};

/// How often an object is looked at that cannot be watched: as often as a kubelet refreshes a mounted one.
const LOOK: Duration = Duration::from_secs(60);
/// A state this young needs no second look in the same call.
const YOUNG: Duration = Duration::from_secs(2);

/// Who hears of changes.
pub type Bell = Arc<dyn Fn() + Send + Sync>;

/// How much the caller trusts what is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// What is known counts if it is watched, or was just read.
    Usual,
    /// The other side refused what is known.
    Again,
}

/// The state of one object.
pub(super) struct Slot {
    vault: Vault,
    name: Name,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    found: Option<Result<Arc<Data>, String>>,
    is_watched: bool,
    read: Option<Instant>,
}

impl Slot {
    /// Nothing is known yet.
    #[must_use]
    pub(super) fn new(vault: Vault, name: Name) -> Self {
        Self { vault, name, known: Mutex::default() }
    }

    /// The object.
    #[must_use]
    pub(super) fn name(&self) -> &Name {
        &self.name
    }

    /// Whether it can change under our eyes.
    #[must_use]
    pub(super) fn is_live(&self) -> bool {
        self.vault.is_live()
    }

    /// The object's keys.
    ///
    /// # Errors
    /// Why they cannot be read.
    pub(super) async fn data(&self, look: Look) -> Result<Arc<Data>, String> {
        if look == Look::Usual
            && let Some(found) = self.current()
        {
            return found;
        }
        let found = self.vault.read(&self.name).await;
        self.put(found, false);
        self.lock().found.clone().unwrap_or_else(|| Err(format!("the {} was not read", self.name)))
    }

    fn current(&self) -> Option<Result<Arc<Data>, String>> {
        let known = self.lock();
        let is_young = known.read.is_some_and(|read| read.elapsed() < YOUNG);
        known.found.clone().filter(|_| known.is_watched || is_young)
    }

    /// Keeps what was found; whether it is something else than before.
    fn put(&self, found: Found, from_watch: bool) -> bool {
        let mut known = self.lock();
        let same = match (&known.found, &found) {
            (Some(Ok(old)), Ok(new)) => **old == *new,
            (Some(Err(old)), Err(new)) => old == new,
            (None, _) => true,
            _ => false,
        };
        known.read = Some(Instant::now());
        known.is_watched |= from_watch;
        if !same || known.found.is_none() {
            known.found = Some(found.map(Arc::new));
        }
        !same
    }

    /// Keeps the slot current until it is dropped. Rings when the object changes; what is seen first is no change.
    pub(super) async fn follow(self: Arc<Self>, bell: Bell) {
        let mut states = self.vault.watch(&self.name);
        while let Some(seen) = states.next().await {
            match seen {
                Seen::Now(found) => {
                    if self.put(found, true) {
                        bell();
                    }
                }
                Seen::Interrupted => self.lock().is_watched = false,
                Seen::Refused => break,
            }
        }
        self.lock().is_watched = false;
        drop(states);
        loop {
            tokio::time::sleep(LOOK).await;
            let found = self.vault.read(&self.name).await;
            if self.put(found, false) {
                bell();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
