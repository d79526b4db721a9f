//! The watch on the one ConfigMap that holds the configuration.

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use tokio::sync::mpsc::UnboundedSender;

use super::health::Check;
use crate::cluster::single;
use crate::config::{Load, Location};

/// Reads the ConfigMap whenever it changes, until dropped. Equal contents in a row are sent once.
pub async fn watch(client: kube::Client, location: Location, loads: UnboundedSender<Load>, check: Check) {
    let api: Api<ConfigMap> = Api::namespaced(client, &location.namespace);
    let mut states = std::pin::pin!(single::watch(api, &location.name));
    let mut last: Option<Option<Option<String>>> = None;
    while let Some(state) = states.next().await {
        let present = match state {
            Ok(present) => present,
            Err(refusal) => {
                check.fail(&refusal);
                continue;
            }
        };
        check.pass();
        let data = present.map(|map| map.data.unwrap_or_default());
        let text = data.as_ref().and_then(|data| data.get(&location.key).cloned());
        let key = data.is_some().then_some(text);
        if last.as_ref() == Some(&key) {
            continue;
        }
        last = Some(key);
        if loads.send(Load::from_data(data.as_ref(), &location.key)).is_err() {
            // Nobody listens any more: the process is stopping.
            std::future::pending::<()>().await;
        }
    }
}
