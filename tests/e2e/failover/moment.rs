//! When a fault happens: a short time after a write of the leader. The seed determines the write and the time.

use std::fmt;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use topoloom_api::HyperNode;
use topoloom_tests::dice::Dice;
use topoloom_tests::scene::PATIENCE;

/// As many writes as a leader makes in about a second and a half.
const WRITES: u64 = 100;
/// Longer than a write takes, and than the pause between two changes of nodes.
const LATER_MICROSECONDS: u64 = 50_000;

/// One moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    writes: u64,
    later: Duration,
}

impl Moment {
    /// The same seed gives the same moment; `which` selects one of several moments of a seed.
    pub(super) fn drawn(seed: u64, which: u64) -> Self {
        let number = Dice::new(seed ^ Dice::new(which).roll()).roll();
        Self { writes: 1 + number % WRITES, later: Duration::from_micros((number >> 32) % LATER_MICROSECONDS) }
    }

    /// Waits for the moment. Only a leader writes HyperNodes.
    pub(super) async fn comes(self, hyper_nodes: &Api<HyperNode>) -> Result<()> {
        let counted = tokio::time::timeout(PATIENCE, self.counted(hyper_nodes)).await;
        counted.with_context(|| format!("the leader has not made {} writes", self.writes))??;
        // This sleep waits for no condition: the fault has to happen anywhere between two writes, also where a test can
        // see nothing.
        tokio::time::sleep(self.later).await;
        Ok(())
    }

    async fn counted(self, hyper_nodes: &Api<HyperNode>) -> Result<()> {
        let now = hyper_nodes.list_metadata(&ListParams::default().limit(1)).await?.metadata.resource_version;
        let writes = hyper_nodes.watch(&WatchParams::default(), &now.context("a list has a version")?).await?;
        let mut writes = pin!(writes);
        for _ in 0..self.writes {
            if let WatchEvent::Error(status) = writes.next().await.context("the watch ended")?? {
                bail!("the watch ended: {status:?}");
            }
        }
        Ok(())
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = self.later.as_secs_f64() * 1e3;
        write!(f, "HyperNode write {} and {milliseconds:.1} ms", self.writes)
    }
}
