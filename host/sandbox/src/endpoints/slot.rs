//! One object that an endpoint needs, as it was last seen.
//!
//! If the host may watch it, the slot is always current and a change rings the bell at once. If it may only read it,
//! the slot is read once per call of the plugin, and now and then in between so that a change is noticed. Only the keys
//! in use are kept, so that no other change in the object rings the bell.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use tokio::time::Instant;

use super::vault::{Data, ObjectData, Vault, VaultEvent, VaultObject};

/// How often an object is looked at that cannot be watched: as often as a kubelet refreshes a mounted one.
const LOOK: Duration = Duration::from_secs(60);
/// How many looks lie between two tries to watch what could not be watched: the right may have been granted.
const LOOKS: u32 = 10;
/// A state this young needs no second look in the same call.
const YOUNG: Duration = Duration::from_secs(2);

/// Who is notified of changes.
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
    name: VaultObject,
    keys: Mutex<BTreeSet<String>>,
    known: Mutex<SlotState>,
}

#[derive(Default)]
struct SlotState {
    found: Option<Result<Arc<Data>, String>>,
    is_watched: bool,
    read: Option<Instant>,
}

impl Slot {
    /// Nothing is known yet.
    #[must_use]
    pub(super) fn new(vault: Vault, name: VaultObject) -> Self {
        Self { vault, name, keys: Mutex::default(), known: Mutex::default() }
    }

    /// These keys of it are in use.
    pub(super) fn uses(&self, keys: &[&str]) {
        let mut used = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        used.extend(keys.iter().map(|key| (*key).to_owned()));
    }

    /// The object.
    #[must_use]
    pub(super) fn name(&self) -> &VaultObject {
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
        let found = self.read().await;
        if let (Look::Again, Err(why)) = (look, &found) {
            // What is known may still be right, and is at least better than nothing.
            return Err(why.clone());
        }
        self.put(found.clone());
        found.map(Arc::new)
    }

    /// Current entries, unused ones dropped.
    async fn read(&self) -> ObjectData {
        self.vault.read(&self.name).await.map(|data| self.used(data))
    }

    fn used(&self, mut data: Data) -> Data {
        let used = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        data.retain(|key, _| used.contains(key));
        data
    }

    fn current(&self) -> Option<Result<Arc<Data>, String>> {
        let known = self.lock();
        let is_young = known.read.is_some_and(|read| read.elapsed() < YOUNG);
        known.found.clone().filter(|_| known.is_watched || is_young)
    }

    /// Keeps what was found; whether it is something else than before. What is seen first is no change.
    fn put(&self, found: ObjectData) -> bool {
        let mut known = self.lock();
        let same = match (&known.found, &found) {
            (Some(Ok(old)), Ok(new)) => **old == *new,
            (Some(Err(old)), Err(new)) => old == new,
            (None, _) => true,
            _ => false,
        };
        known.read = Some(Instant::now());
        if !same || known.found.is_none() {
            known.found = Some(found.map(Arc::new));
        }
        !same
    }

    /// Keeps the slot current until it is dropped, and rings the bell when the object changes.
    pub(super) async fn follow(self: Arc<Self>, bell: Bell) {
        loop {
            self.watch(&bell).await;
            self.lock().is_watched = false;
            for _ in 0..LOOKS {
                tokio::time::sleep(LOOK).await;
                let found = self.read().await;
                let is_there = found.is_ok();
                // What could not be read once may be read the next time, and nothing changed.
                if self.put(found) && is_there {
                    bell();
                }
            }
        }
    }

    /// As long as it is granted.
    async fn watch(&self, bell: &Bell) {
        let mut states = self.vault.watch(&self.name);
        while let Some(seen) = states.next().await {
            match seen {
                VaultEvent::Now(found) => {
                    let is_change = self.put(found.map(|data| self.used(data)));
                    self.lock().is_watched = true;
                    if is_change {
                        bell();
                    }
                }
                VaultEvent::Interrupted => self.lock().is_watched = false,
                VaultEvent::Refused => return,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::endpoints::vault::ObjectKind;

    fn slot(folder: &std::path::Path) -> Slot {
        let name = VaultObject { kind: ObjectKind::Secret, namespace: "ns".into(), name: "s".into() };
        let slot = Slot::new(Vault::folder(folder.to_owned()), name);
        slot.uses(&["token"]);
        slot
    }

    async fn token(slot: &Slot, look: Look) -> Result<String, String> {
        let data = slot.data(look).await?;
        Ok(String::from_utf8(data.get("token").unwrap().reveal().to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_refused_credential_is_looked_at_again_and_a_failed_look_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "old").unwrap();
        let slot = slot(folder.path());
        assert_eq!(token(&slot, Look::Usual).await.unwrap(), "old");
        std::fs::write(&file, "new").unwrap();
        assert_eq!(token(&slot, Look::Usual).await.unwrap(), "old", "it was read a moment ago");
        assert_eq!(token(&slot, Look::Again).await.unwrap(), "new");
        std::fs::remove_file(&file).unwrap();
        assert!(token(&slot, Look::Again).await.is_err());
        assert_eq!(token(&slot, Look::Usual).await.unwrap(), "new");
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_is_used_rings_and_only_when_it_is_there() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), "old").unwrap();
        let slot = Arc::new(slot(folder.path()));
        assert_eq!(token(&slot, Look::Usual).await.unwrap(), "old");
        let rung = Arc::new(AtomicUsize::new(0));
        let bell: Bell = {
            let rung = Arc::clone(&rung);
            Arc::new(move || {
                let _ = rung.fetch_add(1, Ordering::SeqCst);
            })
        };
        // What cannot be watched is looked at, once a minute.
        let mut follower = tokio::task::JoinSet::new();
        follower.spawn(Arc::clone(&slot).follow(bell));
        let look = async || {
            let read = slot.lock().read;
            while slot.lock().read == read {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            rung.load(Ordering::SeqCst)
        };
        let begun = Instant::now();
        assert_eq!(look().await, 0);
        assert!(begun.elapsed() >= LOOK && begun.elapsed() < LOOK + Duration::from_secs(2), "{:?}", begun.elapsed());
        std::fs::write(folder.path().join("username"), "other").unwrap();
        assert_eq!(look().await, 0, "a key without a user");
        std::fs::remove_file(folder.path().join("token")).unwrap();
        std::fs::remove_file(folder.path().join("username")).unwrap();
        assert_eq!(look().await, 0, "it could not be read");
        std::fs::write(folder.path().join("token"), "new").unwrap();
        assert_eq!(look().await, 1);
        // Also beyond the tries to watch it in between.
        for round in 0..2 * LOOKS as usize {
            std::fs::write(folder.path().join("token"), format!("token {round}")).unwrap();
            assert_eq!(look().await, 2 + round);
        }
    }
}
