//! The HyperNodes as a user of the API sees them: through a watch, so that the benchmark does not poll the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Result, bail};
use futures::{Stream, StreamExt};
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use topoloom_api::HyperNode;

use crate::cluster::{KEYS, domains};

/// How long anything may take before the benchmark gives up.
const PATIENCE: Duration = Duration::from_secs(300);

/// A running watch and what it has shown so far.
pub(crate) struct Watch {
    events: Pin<Box<dyn Stream<Item = Result<Event<HyperNode>, watcher::Error>> + Send>>,
    objects: BTreeMap<String, HyperNode>,
    complete: bool,
}

impl Watch {
    pub(crate) fn new(api: Api<HyperNode>) -> Self {
        let events = watcher(api, watcher::Config::default()).default_backoff().boxed();
        Self { events, objects: BTreeMap::new(), complete: false }
    }

    pub(crate) fn objects(&self) -> &BTreeMap<String, HyperNode> {
        &self.objects
    }

    /// Waits until the objects satisfy `condition`.
    pub(crate) async fn until(
        &mut self,
        what: &str,
        mut condition: impl FnMut(&BTreeMap<String, HyperNode>) -> bool,
    ) -> Result<()> {
        let waiting = async {
            while !(self.complete && condition(&self.objects)) {
                self.step().await?;
            }
            Ok(())
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| bail!("not within {PATIENCE:?}: {what}"))
    }

    /// Waits until every domain of the cluster has its object, and every object the right count.
    pub(crate) async fn until_right(&mut self, size: u32) -> Result<()> {
        let wanted = domains(size);
        let is_right = |object: &HyperNode| {
            let count = object.status.as_ref().and_then(|status| status.node_count);
            domain(object).is_some_and(|domain| count.is_some() && wanted.get(&domain).copied() == count)
        };
        let waiting = async {
            let names = self.objects.iter().filter(|(_, object)| is_right(object)).map(|(name, _)| name.clone());
            let mut right: BTreeSet<String> = names.collect();
            while !(self.complete && right.len() == wanted.len() && self.objects.len() == wanted.len()) {
                let Some(name) = self.step().await? else { continue };
                match self.objects.get(&name) {
                    Some(object) if is_right(object) => _ = right.insert(name),
                    _ => _ = right.remove(&name),
                }
            }
            Ok(())
        };
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(done) => done,
            Err(_) => bail!("{} HyperNodes of {} after {PATIENCE:?}", self.objects.len(), wanted.len()),
        }
    }

    /// The next event; the name of the object that it was about.
    async fn step(&mut self) -> Result<Option<String>> {
        let (name, object) = match self.events.next().await {
            None => bail!("the watch has ended"),
            Some(Err(error)) => {
                eprintln!("bench: watch: {error}");
                return Ok(None);
            }
            Some(Ok(Event::Init)) => {
                self.objects.clear();
                self.complete = false;
                return Ok(None);
            }
            Some(Ok(Event::InitDone)) => {
                self.complete = true;
                return Ok(None);
            }
            Some(Ok(Event::Apply(object) | Event::InitApply(object))) => (object.metadata.name.clone(), Some(object)),
            Some(Ok(Event::Delete(object))) => (object.metadata.name, None),
        };
        let name = name.unwrap_or_default();
        match object {
            Some(object) => _ = self.objects.insert(name.clone(), object),
            None => _ = self.objects.remove(&name),
        }
        Ok(Some(name))
    }
}

/// Key and value of the domain that an object stands for.
fn domain(object: &HyperNode) -> Option<(&'static str, String)> {
    let labels = object.metadata.labels.as_ref()?;
    KEYS.into_iter().find_map(|key| Some((key, labels.get(key)?.clone())))
}
