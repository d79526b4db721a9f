//! What a store carries: the limits of one call, what its imports may serve, and what the plugin said.

use std::sync::Arc;

use topoloom_core::plugin::{CallLimits, Granted};
use topoloom_core::snapshot::{Store, View};
use topoloom_core::topology::Object;
use wasmtime::component::ResourceTable;

use super::limiter::Limiter;
use super::voice::Voice;

/// The host's side of one instance.
pub(super) struct Guest {
    pub(super) limiter: Limiter,
    pub(super) voice: Voice,
    pub(super) limits: CallLimits,
    /// What the guest holds handles of.
    pub(super) table: ResourceTable,
    pub(super) inputs: Inputs,
}

/// What the imports serve. `describe` and `configure` get nothing: they are functions of their argument alone.
#[derive(Debug, Clone)]
pub(super) struct Inputs {
    pub(super) nodes: View,
    pub(super) granted: Arc<Granted>,
    pub(super) applied: Arc<[Arc<Object>]>,
}

impl Guest {
    pub(super) fn new(limiter: Limiter, voice: Voice, limits: CallLimits, inputs: Inputs) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(limiter.limits().handles);
        Self { limiter, voice, limits, table, inputs }
    }
}

impl Default for Inputs {
    /// No nodes, no grants, no objects.
    fn default() -> Self {
        Self { nodes: Store::new().view(&[]), granted: Arc::default(), applied: Arc::default() }
    }
}
