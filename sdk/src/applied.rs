//! The objects of this source, as they are in the cluster now. After a restart, keep identities stable with them.

use std::marker::PhantomData;

pub use crate::bindings::topoloom::discovery::applied::AppliedGroup;

/// The objects of this source. Reading them copies their text into the guest; a plugin that never reads them pays nothing.
///
/// ```
/// use topoloom_sdk::prelude::*;
///
/// /// The identities that a round before a restart gave.
/// fn known(input: &Input<'_>) -> Vec<String> {
///     input.applied.groups().into_iter().filter_map(|group| group.id).collect()
/// }
/// ```
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
    ///
    /// ```
    /// use topoloom_sdk::prelude::*;
    ///
    /// fn tiers(input: &Input<'_>) -> Vec<u32> {
    ///     input.applied.groups().iter().map(|group| group.tier).collect()
    /// }
    /// ```
    #[must_use]
    pub fn groups(&self) -> Vec<AppliedGroup> {
        #[cfg(target_arch = "wasm32")]
        let groups = crate::bindings::topoloom::discovery::applied::groups();
        #[cfg(not(target_arch = "wasm32"))]
        let groups = self.source.applied();
        groups
    }
}
