//! The watch on the one ConfigMap that holds the configuration, and the switch of all writes in its annotations.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt};
use tokio::sync::mpsc::UnboundedSender;
use topoloom_api::names::READ_ONLY_ANNOTATION;

use super::metrics::{By, SettingMetrics};
use crate::cluster::Check;
use crate::cluster::gate::{ReadOnly, Switch};
use crate::cluster::{Refusal, Restores, single};
use crate::config::{Lack, Load, Location};
use topoloom_core::text::says_yes;

/// How long one watch listens: on a connection that broke silently it receives nothing for that long.
const LISTENS: Duration = Duration::from_secs(30);

/// What is watched, and what listens to its annotation.
pub struct SwitchWatch {
    /// Where the ConfigMap is.
    pub location: Location,
    /// The switch of all writes: off until the ConfigMap was looked at once.
    pub switch: Switch,
    /// Writes stay off, even if the annotation allows them.
    pub forced: bool,
    /// Counts what is found.
    pub metrics: SettingMetrics,
    /// How the watch is notified that the API server went back.
    pub restores: Restores,
}

/// Watches the switch of all writes where no controller needs the configuration.
pub async fn watch_switch(client: kube::Client, place: SwitchWatch, check: Check) {
    let (loads, mut read) = tokio::sync::mpsc::unbounded_channel();
    let unread = async { while read.recv().await.is_some() {} };
    tokio::join!(watch(client, place, loads, check), unread);
}

fn switched(is_off: bool) -> ReadOnly {
    if is_off { ReadOnly::Yes } else { ReadOnly::No }
}

/// Reads the ConfigMap whenever it changes, until dropped. Equal contents in a row are sent once.
pub async fn watch(client: kube::Client, place: SwitchWatch, loads: UnboundedSender<Load>, check: Check) {
    let api: Api<ConfigMap> = Api::namespaced(client, &place.location.namespace);
    // An operator who switches writes off at night waits for this watch, so a silent one is soon opened again.
    let mut states = std::pin::pin!(single::watch_anew(api, &place.location.name, &place.restores, LISTENS));
    let mut reader = ConfigReader::new(place, check);
    while let Some(state) = states.next().await {
        let load = match state {
            Ok(present) => reader.read(present),
            Err(refusal) => {
                reader.fails(&refusal);
                None
            }
        };
        if let Some(load) = load
            && loads.send(load).is_err()
        {
            // The receiver is gone: the process is stopping.
            std::future::pending::<()>().await;
        }
    }
}

/// What the key of the ConfigMap holds; `None` without a ConfigMap.
type Stored = Option<Option<String>>;

/// What is known of the ConfigMap.
struct ConfigReader {
    place: SwitchWatch,
    check: Check,
    /// As the annotation said last.
    annotated: bool,
    /// What was read last, and what it lacks.
    last: Option<(Stored, Option<Lack>)>,
}

impl ConfigReader {
    fn new(place: SwitchWatch, check: Check) -> Self {
        place.metrics.read_only(By::Flag, switched(place.forced));
        place.metrics.read_only(By::Unread, ReadOnly::Yes);
        Self { place, check, annotated: false, last: None }
    }

    fn fails(&self, refusal: &Refusal) {
        let Location { namespace, name, .. } = &self.place.location;
        self.check.fail(refusal);
        self.place.switch.still_unknown(&format!("the ConfigMap {namespace}/{name} cannot be read: {refusal}"));
    }

    /// Sets the switch, and gives the configuration if it is another one than before.
    fn read(&mut self, present: Option<ConfigMap>) -> Option<Load> {
        self.switch(present.as_ref());
        let location = &self.place.location;
        let data = present.map(|map| map.data.unwrap_or_default());
        let stored: Stored = data.as_ref().map(|data| data.get(&location.key).cloned());
        if let Some((known, lack)) = &self.last
            && *known == stored
        {
            stands(&self.check, lack.as_ref());
            return None;
        }
        let load = Load::from_data(data.as_ref(), &location.key);
        let lack = load.lack(location);
        stands(&self.check, lack.as_ref());
        self.last = Some((stored, lack));
        self.place.metrics.configuration(&load);
        Some(load)
    }

    fn switch(&mut self, present: Option<&ConfigMap>) {
        let SwitchWatch { switch, forced, metrics, .. } = &self.place;
        if let Some(map) = present {
            // Without a ConfigMap the last value counts.
            self.annotated = says_yes(map.annotations().get(READ_ONLY_ANNOTATION).map(String::as_str));
        }
        metrics.read_only(By::Annotation, switched(self.annotated));
        metrics.read_only(By::Unread, ReadOnly::No);
        let position = switched(*forced || self.annotated);
        if switch.set(position) && position == ReadOnly::Yes {
            tracing::warn!(annotation = READ_ONLY_ANNOTATION, "writes are switched off");
        }
    }
}

/// Shows in `/readyz` whether there is a configuration. The process is ready without one: running sources continue, and
/// the first install has none.
fn stands(check: &Check, lack: Option<&Lack>) {
    match lack {
        None => check.pass(),
        Some(lack) => check.absent(&lack.to_string()),
    }
}
