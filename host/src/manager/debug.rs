//! What `topoloom debug dump` shows: the state of every part of the process, as each part reports it.
//!
//! A part adds a function that returns its state on request; nothing is copied beforehand. No part may show secrets: it
//! shows names, numbers and sentences that are in conditions and logs anyway.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// The functions by part.
#[derive(Clone, Default)]
pub struct Debug {
    parts: BTreeMap<&'static str, Arc<dyn Fn() -> Value + Send + Sync>>,
}

impl Debug {
    /// Adds a part. A second one of the same name replaces the first.
    pub fn part(&mut self, name: &'static str, state: impl Fn() -> Value + Send + Sync + 'static) {
        self.parts.insert(name, Arc::new(state));
    }

    /// What every part says now.
    #[must_use]
    pub fn dump(&self) -> BTreeMap<&'static str, Value> {
        self.parts.iter().map(|(name, state)| (*name, state())).collect()
    }
}
