//! Modules that are files: one that an entry names, or one of the plugin folder.
//!
//! The *folder* is watched and not the file: the kubelet swaps a mounted volume by renaming the link `..data`, of which
//! a watch on the file sees the first time and nothing after it (measured). Events can be lost, so everything is looked
//! at from time to time without one.

mod read;
mod subpath;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use self::read::{FolderFound, FolderState};
use super::{Offer, OfferSender, builtin_offer};

/// Without an event, files are looked at this often (`wasm-plugins.md` 7).
pub const POLL: Duration = Duration::from_secs(60);
/// A swap is several events; after so much silence it is over.
const SILENCE: Duration = Duration::from_millis(200);
/// A folder that never stops changing is read anyway.
const RESTLESS: Duration = Duration::from_secs(2);

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FolderQuery {
    /// The module in this file.
    File(PathBuf),
    /// The plugin of that name in this folder, or else the one of the binary.
    Named(PathBuf, String),
}

impl FolderQuery {
    /// The folders whose entries matter.
    fn folders(&self) -> Vec<PathBuf> {
        match self {
            Self::File(path) => path.parent().map(Path::to_owned).into_iter().collect(),
            Self::Named(folder, name) => vec![folder.clone(), folder.join(name)],
        }
    }
}

/// Offers the file, now and after each change, until dropped.
pub async fn watch(wanted: FolderQuery, poll: Duration, look: Arc<Notify>, sender: OfferSender) {
    let rung = Arc::new(Notify::new());
    let mut ears = Ears::new(Arc::clone(&rung));
    let mut seen = FolderState::default();
    loop {
        // First the ears, then the look: what happens in between is looked at once more.
        ears.listen(&wanted.folders());
        if let Some(offer) = take(&wanted, &mut seen).await {
            sender.send(offer);
        }
        tokio::select! {
            () = rung.notified() => quiet(&rung).await,
            () = look.notified() => {}
            () = tokio::time::sleep(poll) => {}
        }
    }
}

/// Waits for the end of a burst of events.
async fn quiet(rung: &Notify) {
    let patience = Instant::now() + RESTLESS;
    while timeout_at(patience.min(Instant::now() + SILENCE), rung.notified()).await.is_ok() {
        if Instant::now() >= patience {
            return;
        }
    }
}

/// The present offer; `None`: unchanged. Reads in a thread of its own, since a volume may hang.
async fn take(wanted: &FolderQuery, seen: &mut FolderState) -> Option<Offer> {
    let (wanted_there, mut before) = (wanted.clone(), std::mem::take(seen));
    let reading = tokio::task::spawn_blocking(move || {
        let found = before.look(&wanted_there);
        (found, before)
    });
    let (found, after) = reading.await.ok()?;
    *seen = after;
    match (found, wanted) {
        (FolderFound::Same, _) => None,
        (FolderFound::Offer(offer), _) => Some(offer),
        (FolderFound::Nothing(message), FolderQuery::File(_)) => Some(Offer::missing(message)),
        (FolderFound::Nothing(message), FolderQuery::Named(..)) if seen.had_file => Some(Offer::missing(message)),
        (FolderFound::Nothing(_), FolderQuery::Named(folder, name)) => Some(builtin_offer(name, Some(folder))),
    }
}

/// The watches on folders, as far as the system gives us any.
struct Ears {
    watcher: Option<RecommendedWatcher>,
    on: Vec<PathBuf>,
}

impl Ears {
    fn new(rung: Arc<Notify>) -> Self {
        let changed = move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| matters(&event.kind)) {
                rung.notify_one();
            }
        };
        let watcher = notify::recommended_watcher(changed).inspect_err(
            |error| tracing::warn!(%error, "plugin files cannot be watched; they are read again at intervals"),
        );
        Self { watcher: watcher.ok(), on: Vec::new() }
    }

    /// Listens to those folders that exist. One that was replaced is another folder of the same name, so the watch is
    /// created again each time.
    fn listen(&mut self, folders: &[PathBuf]) {
        let Some(watcher) = &mut self.watcher else { return };
        for folder in self.on.drain(..) {
            // It may be gone already, and is not watched either way.
            let _ = watcher.unwatch(&folder);
        }
        for folder in folders {
            match watcher.watch(folder, RecursiveMode::NonRecursive) {
                Ok(()) => self.on.push(folder.clone()),
                Err(error) => tracing::debug!(folder = %folder.display(), %error, "a folder cannot be watched yet"),
            }
        }
    }
}

/// Our own reading is no news.
fn matters(kind: &EventKind) -> bool {
    !matches!(kind, EventKind::Access(kind) if *kind != AccessKind::Close(AccessMode::Write))
}
