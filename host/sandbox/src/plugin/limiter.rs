//! The limits on memory and tables of one instance.
//!
//! Counts *sums*: the engine's ready-made limiter looks at each memory alone, and fifty memories of 60 MiB pass it
//! (measured). A refused growth is reported to the guest, which may live with it; what was refused is remembered,
//! because a guest that dies of it reports only that it died.
//!
//! What its own limits allow, an instance gets only as far as all plugins together have not used up theirs: until then
//! it waits, and its thread is free.

use std::pin::Pin;
use std::time::Duration;

use topoloom_core::plugin::{Amount, Limit, LimitSet, StoreLimits};
use wasmtime::ResourceLimiterAsync;

use super::guest::Exceeded;
use super::share::{Grown, Share, WAIT};

/// The result of a growth: the type that the engine's trait has, which is written with a macro there.
type Growth<'a> = Pin<Box<dyn Future<Output = wasmtime::Result<bool>> + Send + 'a>>;

/// What one instance holds and may hold.
#[derive(Debug)]
pub(super) struct Limiter {
    limits: StoreLimits,
    share: Share,
    waits: bool,
    met: LimitSet,
    memory: usize,
    peak_memory: usize,
    table_elements: usize,
    /// The last growth that was permitted: the engine may still fail to do it.
    last: usize,
    last_table: usize,
    refused_memory: Option<usize>,
    refused_table: Option<usize>,
}

impl Limiter {
    pub(super) fn new(limits: StoreLimits, share: Share) -> Self {
        Self {
            limits,
            share,
            waits: false,
            met: LimitSet::default(),
            memory: 0,
            peak_memory: 0,
            table_elements: 0,
            last: 0,
            last_table: 0,
            refused_memory: None,
            refused_table: None,
        }
    }

    pub(super) fn limits(&self) -> &StoreLimits {
        &self.limits
    }

    /// Whether it waits for memory that others hold.
    pub(super) fn is_waiting(&self) -> bool {
        self.waits
    }

    /// Limits that acted without an end of the call.
    pub(super) fn met(&self) -> LimitSet {
        self.met
    }

    /// It waited so long for memory, and got none.
    pub(super) fn late(&self, waited: Duration) -> Exceeded {
        let total = Amount::Bytes(self.share.total() as u64);
        let what = format!(
            "it waited {} s for memory that other plugins hold; all plugins together may hold {total}",
            waited.as_secs()
        );
        Exceeded { row: Limit::ProcessMemory, what }
    }

    async fn grow(&mut self, current: usize, desired: usize) -> wasmtime::Result<bool> {
        let growth = desired.saturating_sub(current);
        let sum = self.memory.saturating_add(growth);
        if sum > self.limits.memory {
            self.refused_memory = Some(sum);
            return Ok(false);
        }
        self.waits = true;
        let grown = self.share.grow(sum).await;
        self.waits = false;
        match grown {
            Grown::AtOnce => {}
            Grown::AfterWaiting => self.met.insert(Limit::ProcessMemory),
            Grown::Late => return Err(self.late(WAIT).into()),
            Grown::Never => {
                let total = Amount::Bytes(self.share.total() as u64);
                let what = format!("{sum} bytes of memory, and all plugins together may hold {total}");
                return Err(Exceeded { row: Limit::ProcessMemory, what }.into());
            }
        }
        self.refused_memory = None;
        self.memory = sum;
        self.last = growth;
        self.peak_memory = self.peak_memory.max(sum);
        Ok(true)
    }

    fn grow_table(&mut self, current: usize, desired: usize) -> bool {
        let sum = self.table_elements.saturating_add(desired.saturating_sub(current));
        if sum > self.limits.table_elements {
            self.refused_table = Some(sum);
            return false;
        }
        self.refused_table = None;
        self.last_table = sum - self.table_elements;
        self.table_elements = sum;
        true
    }

    /// The most memory held at one time, bytes.
    pub(super) fn peak_memory(&self) -> usize {
        self.peak_memory
    }

    /// The sum of memory that was asked for and refused, if that was the last thing asked for.
    pub(super) fn refused_memory(&self) -> Option<usize> {
        self.refused_memory
    }

    /// The number of table elements that was asked for and refused.
    pub(super) fn refused_table(&self) -> Option<usize> {
        self.refused_table
    }
}

impl ResourceLimiterAsync for Limiter {
    fn memory_growing<'a, 'b>(&'a mut self, current: usize, desired: usize, _max: Option<usize>) -> Growth<'b>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(self.grow(current, desired))
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        // Called for refused growth too, which was never added.
        if self.refused_memory.is_none() {
            self.memory = self.memory.saturating_sub(std::mem::take(&mut self.last));
            self.share.give_back(self.memory);
        }
        Ok(())
    }

    fn table_growing<'a, 'b>(&'a mut self, current: usize, desired: usize, _max: Option<usize>) -> Growth<'b>
    where
        'a: 'b,
        Self: 'b,
    {
        let grown = self.grow_table(current, desired);
        Box::pin(std::future::ready(Ok(grown)))
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        // The engine asks before it looks at the table's own maximum; what it then refuses is released.
        if self.refused_table.is_none() {
            self.table_elements = self.table_elements.saturating_sub(std::mem::take(&mut self.last_table));
        }
        Ok(())
    }

    fn instances(&self) -> usize {
        self.limits.instances
    }

    fn tables(&self) -> usize {
        self.limits.tables
    }

    fn memories(&self) -> usize {
        self.limits.memories
    }
}

#[cfg(test)]
mod tests {
    use super::super::share::Shares;
    use super::*;

    const MIB: usize = 1 << 20;

    /// With enough for all.
    fn alone(limits: StoreLimits) -> Limiter {
        let share = Shares::new(1 << 30).of(0, limits.memory);
        Limiter::new(limits, share)
    }

    #[tokio::test]
    async fn memories_are_summed() {
        let mut limiter = alone(StoreLimits { memory: 100 * MIB, ..StoreLimits::default() });
        assert!(limiter.memory_growing(0, 60 * MIB, None).await.unwrap());
        assert!(!limiter.memory_growing(0, 60 * MIB, None).await.unwrap());
        assert_eq!(limiter.refused_memory(), Some(120 * MIB));
        assert!(limiter.memory_growing(0, 40 * MIB, None).await.unwrap());
        assert_eq!((limiter.refused_memory(), limiter.peak_memory()), (None, 100 * MIB));
    }

    #[tokio::test]
    async fn growth_that_the_engine_could_not_do_is_given_back() {
        let mut limiter = alone(StoreLimits { memory: 100 * MIB, ..StoreLimits::default() });
        assert!(limiter.memory_growing(0, 90 * MIB, None).await.unwrap());
        limiter.memory_grow_failed(wasmtime::Error::msg("no")).unwrap();
        assert!(limiter.memory_growing(0, 100 * MIB, None).await.unwrap());
    }

    #[tokio::test]
    async fn a_table_that_may_not_grow_by_its_own_word_costs_nothing() {
        let mut limiter = alone(StoreLimits { table_elements: 10, ..StoreLimits::default() });
        for _ in 0..3 {
            assert!(limiter.table_growing(0, 6, None).await.unwrap());
            limiter.table_grow_failed(wasmtime::Error::msg("its maximum")).unwrap();
        }
        assert!(limiter.table_growing(0, 10, None).await.unwrap());
        assert_eq!(limiter.refused_table(), None);
    }

    #[tokio::test]
    async fn tables_are_summed() {
        let mut limiter = alone(StoreLimits { table_elements: 10, ..StoreLimits::default() });
        assert!(limiter.table_growing(0, 6, None).await.unwrap());
        assert!(!limiter.table_growing(0, 6, None).await.unwrap());
    }
}
