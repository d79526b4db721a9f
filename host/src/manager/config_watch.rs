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
use crate::cluster::{Restores, single};
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
    let SwitchWatch { location, switch, forced, metrics, restores } = place;
    metrics.read_only(By::Flag, switched(forced));
    metrics.read_only(By::Unread, ReadOnly::Yes);
    let mut annotated = false;
    let api: Api<ConfigMap> = Api::namespaced(client, &location.namespace);
    // An operator who switches writes off at night waits for this watch, so a silent one is soon opened again.
    let mut states = std::pin::pin!(single::watch_anew(api, &location.name, &restores, LISTENS));
    let mut last: Option<(Option<Option<String>>, Option<Lack>)> = None;
    while let Some(state) = states.next().await {
        let present = match state {
            Ok(present) => present,
            Err(refusal) => {
                check.fail(&refusal);
                switch.still_unknown(&format!(
                    "the ConfigMap {}/{} cannot be read: {refusal}",
                    location.namespace, location.name
                ));
                continue;
            }
        };
        if let Some(map) = &present {
            // Without a ConfigMap the last value counts.
            annotated = says_yes(map.annotations().get(READ_ONLY_ANNOTATION).map(String::as_str));
        }
        metrics.read_only(By::Annotation, switched(annotated));
        metrics.read_only(By::Unread, ReadOnly::No);
        let position = switched(forced || annotated);
        if switch.set(position) && position == ReadOnly::Yes {
            tracing::warn!(annotation = READ_ONLY_ANNOTATION, "writes are switched off");
        }
        let data = present.map(|map| map.data.unwrap_or_default());
        let text = data.as_ref().and_then(|data| data.get(&location.key).cloned());
        let key = data.is_some().then_some(text);
        if let Some((known, lack)) = &last
            && *known == key
        {
            stands(&check, lack.as_ref());
            continue;
        }
        let load = Load::from_data(data.as_ref(), &location.key);
        let lack = load.lack(&location);
        stands(&check, lack.as_ref());
        last = Some((key, lack));
        metrics.configuration(&load);
        if loads.send(load).is_err() {
            // The receiver is gone: the process is stopping.
            std::future::pending::<()>().await;
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
