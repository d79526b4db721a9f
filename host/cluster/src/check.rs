//! Whether something works, reported to a judge that knows what that means for the process.
//!
//! A watch, a writer or a look reports what it saw through a [`Check`], and does not know its reader: in the host that
//! is `/readyz`, by way of `manager::health`.

use std::fmt;
use std::sync::Arc;

use super::Refusal;

/// What receives the results of a [`Check`].
pub trait Judge: Send + Sync {
    /// It works.
    fn pass(&self);
    /// It does not work.
    fn fail(&self, refusal: &Refusal);
    /// It is not available here, and the process continues without it.
    fn absent(&self, why: &str);
}

/// One thing that works or does not, for the code that does it.
#[derive(Clone)]
pub struct Check(Arc<dyn Judge>);

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Check")
    }
}

impl Check {
    /// All reports go to this judge.
    pub fn new(judge: impl Judge + 'static) -> Self {
        Self(Arc::new(judge))
    }

    /// It works.
    pub fn pass(&self) {
        self.0.pass();
    }

    /// It does not work.
    pub fn fail(&self, refusal: &Refusal) {
        self.0.fail(refusal);
    }

    /// An answer, or why there is none.
    pub fn take(&self, answer: Result<(), &Refusal>) {
        match answer {
            Ok(()) => self.pass(),
            Err(refusal) => self.fail(refusal),
        }
    }

    /// It is not available here, and the process continues without it.
    pub fn absent(&self, why: &str) {
        self.0.absent(why);
    }
}
