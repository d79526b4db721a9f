//! What is counted of bindings, for `/metrics`: each series has the name of its binding, and none that of a node or a pod.
//!
//! Owns the counters of what was done for a binding ([`Counted`]). All else is read from the state itself when a scraper asks, so
//! that no event costs more because of it and no number can drift. What only [`heartbeats`](crate::heartbeats), [`pods`](crate::pods)
//! and [`kubelet`](crate::kubelet) know they count themselves.
//!
//! The series of a binding end with its life in this process: a replica that does not hold a binding shows nothing of it.
//!
//! # Failure story
//!
//! None of this can fail. A number that is too large for a series is the largest one.

mod counted;
mod elsewhere;
mod shown;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::registry::Registry;
use tokio::sync::watch;
use topoloom_sync::node::Now;

pub use self::counted::{Counted, WriteKind};
use self::elsewhere::{Elsewhere, Waits};
use self::shown::{Connection, Numbered, Numbers, Shown};
use crate::physical::{CredentialState, Physical};
use crate::troubles::Troubles;
use crate::view::View;

/// The numbers of all bindings of a process. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    shown: Shown,
    elsewhere: Elsewhere,
}

/// One binding, as far as its numbers are read when a scraper asks.
pub(crate) struct Served {
    pub(crate) binding: String,
    pub(crate) counted: Counted,
    pub(crate) view: Arc<Mutex<View>>,
    /// The connection that there is.
    pub(crate) link: watch::Receiver<Option<Arc<Physical>>>,
    pub(crate) credential: watch::Receiver<CredentialState>,
    pub(crate) troubles: Troubles,
    pub(crate) now: fn() -> Now,
}

impl Metrics {
    /// Registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register_collector(Box::new(metrics.shown.clone()));
        registry.register_collector(Box::new(metrics.elsewhere.clone()));
        metrics
    }

    /// Shows a binding for as long as what is returned is kept.
    #[must_use]
    pub(crate) fn show(&self, served: Served) -> Arc<Served> {
        let served = Arc::new(served);
        let shown: Arc<dyn Numbered> = Arc::clone(&served) as _;
        self.shown.add(&shown);
        served
    }

    /// Another installation serves this binding, for as long as what is returned is kept.
    #[must_use]
    pub(crate) fn elsewhere(&self, binding: &str) -> Waits {
        self.elsewhere.add(binding)
    }

    /// One series of each kind there can be, for as long as what is returned is kept; `any` is the value of labels without a closed
    /// set.
    pub fn examples(&self, any: &'static str) -> impl Sized + use<> {
        let example: Arc<dyn Numbered> = Arc::new(Example(any));
        self.shown.add(&example);
        (example, self.elsewhere(any))
    }
}

impl Numbered for Served {
    fn numbers(&self) -> Numbers {
        let now = (self.now)().wall;
        let seen = self.view.lock().unwrap_or_else(PoisonError::into_inner).seen(now);
        let is_linked = self.link.borrow().is_some();
        Numbers {
            binding: self.binding.clone(),
            counted: self.counted.clone(),
            connection: Connection::of(is_linked.then_some(seen.reach)),
            credential_end: self.credential.borrow().end.map(|end| end.at),
            refused: self.troubles.all().into_iter().map(|refusal| refusal.reason).collect(),
            seen,
        }
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Served").field(&self.binding).finish()
    }
}

/// A binding with something of everything.
struct Example(&'static str);

impl Numbered for Example {
    fn numbers(&self) -> Numbers {
        Numbers::example(self.0)
    }
}

#[cfg(test)]
mod tests;
