//! What happened to a source since its task last looked. Collapses: a thousand events are one entry.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use topoloom_core::snapshot::{Change, ColumnKey};

use crate::cluster::nodes::Listener;
use crate::topology::observe::Owner;

/// Drift entries that are kept one by one; what is beyond still wakes.
const MAX_DRIFT: usize = 64;

/// The bell of one source.
#[derive(Default)]
pub(super) struct Wake {
    news: Mutex<WakeEvents>,
    /// Whether an object of another owner is in the way of the last result.
    obstructed: AtomicBool,
    bell: Notify,
}

/// What happened.
#[derive(Debug, Default)]
pub(super) struct WakeEvents {
    /// A required column changed.
    pub(super) columns: bool,
    /// A node appeared or disappeared.
    pub(super) names: bool,
    /// Tier names of an earlier entry changed.
    pub(super) tiers: bool,
    /// What was in the way of the last result may be gone.
    pub(super) others: bool,
    /// A Secret or a document behind an endpoint changed.
    pub(super) outside: bool,
    /// Objects of the source that are not as we wrote them.
    pub(super) drift: Vec<Drift>,
}

/// One object that is not as we wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Drift {
    /// The object.
    pub(super) object: String,
    /// The field manager that changed it, where that is known.
    pub(super) writer: Option<String>,
}

impl Wake {
    fn lock(&self) -> MutexGuard<'_, WakeEvents> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something happened.
    pub(super) async fn rung(&self) {
        self.bell.notified().await;
    }

    /// What happened since the last time.
    pub(super) fn take(&self) -> WakeEvents {
        std::mem::take(&mut self.lock())
    }

    /// A round has just read the nodes: earlier notes about them are known.
    pub(super) fn take_nodes(&self) {
        let mut news = self.lock();
        news.columns = false;
        news.names = false;
    }

    /// Says whether an object of another owner is in the way: only then changes of such objects are news.
    pub(super) fn obstructed(&self, obstructed: bool) {
        self.obstructed.store(obstructed, Ordering::SeqCst);
    }

    /// A Secret or a document behind an endpoint changed.
    pub(super) fn outside(&self) {
        self.lock().outside = true;
        self.bell.notify_one();
    }

    /// Tier names of an earlier entry changed.
    pub(super) fn tiers(&self) {
        self.lock().tiers = true;
        self.bell.notify_one();
    }
}

impl Owner for Wake {
    fn drifted(&self, object: &str, writer: Option<&str>) {
        let mut news = self.lock();
        if news.drift.len() < MAX_DRIFT {
            news.drift.push(Drift { object: object.to_owned(), writer: writer.map(str::to_owned) });
        }
        drop(news);
        self.bell.notify_one();
    }

    fn others_changed(&self) {
        if self.obstructed.load(Ordering::SeqCst) {
            self.lock().others = true;
            self.bell.notify_one();
        }
    }
}

/// Notes for a source the changes in the columns of one revision.
pub(super) struct Interested {
    wake: Arc<Wake>,
    keys: Vec<ColumnKey>,
}

impl Interested {
    /// Under these keys.
    pub(super) fn new(wake: Arc<Wake>, keys: Vec<ColumnKey>) -> Self {
        Self { wake, keys }
    }
}

impl Listener for Interested {
    fn nodes_changed(&self, change: &Change) {
        let mut news = self.wake.lock();
        news.columns |= change.concerns(&self.keys);
        news.names |= change.names_changed();
        drop(news);
        self.wake.bell.notify_one();
    }
}
