//! One fabric, several servers: two members of a pair, a UFM beside a fabric document.

use super::Fabric;
use std::sync::{Arc, Mutex, PoisonError};

/// A fabric that servers read and tests edit. Clones are the same fabric.
#[derive(Debug, Clone)]
pub struct SharedFabric(Arc<Mutex<Arc<Fabric>>>);

impl SharedFabric {
    /// Shares this fabric.
    pub fn new(fabric: Fabric) -> Self {
        Self(Arc::new(Mutex::new(Arc::new(fabric))))
    }

    /// The fabric as it is now. An answer that is on its way keeps the fabric it began with.
    pub fn now(&self) -> Arc<Fabric> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the fabric; the next request sees it. Answers what the change answers.
    pub fn edit<T>(&self, change: impl FnOnce(&mut Fabric) -> T) -> T {
        // Copied only while an answer or a caller of `now` still holds the old one.
        change(Arc::make_mut(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Puts another fabric in place of this one. Its counters start anew, as after a new installation.
    pub fn replace(&self, fabric: Fabric) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(fabric);
    }
}

impl From<Fabric> for SharedFabric {
    fn from(fabric: Fabric) -> Self {
        Self::new(fabric)
    }
}
