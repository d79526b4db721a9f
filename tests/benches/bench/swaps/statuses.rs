//! The status of each source as a user of the API sees it, through a watch.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Result, bail};
use futures::{Stream, StreamExt};
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use topoloom::plugin::Digest;
use topoloom_api::DiscoverySource;
use topoloom_api::discovery_source::DiscoverySourceStatus;

/// How long anything may take before the benchmark gives up.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running watch and what it has shown so far.
pub(super) struct Statuses {
    events: Pin<Box<dyn Stream<Item = Result<Event<DiscoverySource>, watcher::Error>> + Send>>,
    now: BTreeMap<String, DiscoverySourceStatus>,
    /// How many times a source that had a plugin had none.
    pub(super) bare: usize,
}

impl Statuses {
    pub(super) fn new(client: kube::Client) -> Self {
        let events = watcher(Api::all(client), watcher::Config::default()).default_backoff().boxed();
        Self { events, now: BTreeMap::new(), bare: 0 }
    }

    /// Waits until the plugin with this digest serves a source.
    pub(super) async fn until_serves(&mut self, source: &str, digest: Digest) -> Result<()> {
        let digest = digest.to_string();
        let serves =
            |status: &DiscoverySourceStatus| status.plugin.as_ref().is_some_and(|found| found.digest == digest);
        let waiting = async {
            while !self.now.get(source).is_some_and(serves) {
                self.step().await?;
            }
            Ok(())
        };
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(done) => done,
            Err(_) => bail!("{digest} does not serve after {PATIENCE:?}: {:#?}", self.now.get(source)),
        }
    }

    async fn step(&mut self) -> Result<()> {
        match self.events.next().await {
            None => bail!("the watch has ended"),
            Some(Err(error)) => eprintln!("bench: watch: {error}"),
            Some(Ok(Event::Apply(object) | Event::InitApply(object))) => {
                let status = object.status;
                let had = self.now.get(&status.source).is_some_and(|old| old.plugin.is_some());
                self.bare += usize::from(had && status.plugin.is_none());
                self.now.insert(status.source.clone(), status);
            }
            Some(Ok(Event::Delete(object))) => _ = self.now.remove(&object.status.source),
            Some(Ok(Event::Init | Event::InitDone)) => {}
        }
        Ok(())
    }
}
