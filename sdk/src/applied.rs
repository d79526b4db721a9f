//! What this source wrote before, as it is in the cluster now: where stable groups start from after a restart.

use std::marker::PhantomData;

pub use crate::bindings::topoloom::discovery::applied::AppliedGroup;

/// The objects of this source. Asking for them costs their text; who never asks never pays.
#[derive(Debug, Clone, Copy)]
pub struct Applied<'a> {
    #[cfg(not(target_arch = "wasm32"))]
    source: &'a crate::testing::Cluster,
    of: PhantomData<&'a ()>,
}

impl<'a> Applied<'a> {
    #[cfg(target_arch = "wasm32")]
    pub(crate) fn of_host() -> Self {
        Self { of: PhantomData }
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn of(source: &'a crate::testing::Cluster) -> Self {
        Self { source, of: PhantomData }
    }

    /// All groups. Members are rows, or positions in this very list.
    #[must_use]
    pub fn groups(&self) -> Vec<AppliedGroup> {
        #[cfg(target_arch = "wasm32")]
        let groups = crate::bindings::topoloom::discovery::applied::groups();
        #[cfg(not(target_arch = "wasm32"))]
        let groups = self.source.applied();
        groups
    }
}
