//! One key of a ConfigMap, through the API: the fast way, seconds before a mounted volume follows.

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use topoloom_api::condition::Reason;
use topoloom_api::discovery_source::PluginOrigin as Origin;
use topoloom_core::text;

use super::parcel::{Parcel, beside};
use super::{Offer, OfferSender};
use crate::cluster::{Restores, single};

/// Bytes of the list of keys in a sentence.
const KEYS: usize = 300;

/// Offers the content of the key, now and after each change, until dropped.
pub async fn watch(
    client: kube::Client,
    restores: Restores,
    namespace: String,
    name: String,
    key: String,
    sender: OfferSender,
) {
    let api: Api<ConfigMap> = Api::namespaced(client, &namespace);
    let place = format!("plugin.configMap {namespace}/{name}[{key}]");
    let mut states = std::pin::pin!(single::watch(api, &name, &restores));
    let mut refused = None;
    while let Some(state) = states.next().await {
        let was_refused = refused.take();
        let offer = match state {
            // Unpacking and hashing may take a while, and may meet what no decoder was made for.
            Ok(map) => {
                let (place, key) = (place.clone(), key.clone());
                let broken = format!("{place}: it could not be read");
                let read = tokio::task::spawn_blocking(move || offer(map, &place, &key)).await;
                read.unwrap_or(Offer::Nothing(Reason::PluginInvalid, broken))
            }
            Err(refusal) => {
                // What was offered before stays offered: an API server that is away takes nothing from anybody.
                if sender.has_module() {
                    if was_refused.as_ref() != Some(&refusal) {
                        tracing::warn!(place, error = %refusal, "the ConfigMap of a plugin cannot be watched");
                    }
                    refused = Some(refusal);
                    continue;
                }
                Offer::missing(format!("{place} cannot be read: {refusal}"))
            }
        };
        sender.send(offer);
    }
}

fn offer(map: Option<ConfigMap>, place: &str, key: &str) -> Offer {
    let Some(map) = map else { return Offer::missing(format!("{place}: there is no such ConfigMap")) };
    let mut binary = map.binary_data.unwrap_or_default();
    let mut words = map.data.unwrap_or_default();
    let Some(module) = binary.remove(key) else {
        if words.contains_key(key) {
            let message = format!("{place}: the module is in `data`, which is for text only; put it into `binaryData`");
            return Offer::Nothing(Reason::PluginInvalid, message);
        }
        let found: Vec<&str> = binary.keys().map(String::as_str).collect();
        let found = if found.is_empty() { "none".to_owned() } else { text::line(&found.join(", "), KEYS) };
        return Offer::missing(format!("{place}: there is no such key in its binaryData; keys there: {found}"));
    };
    let mut take =
        |name: &str| words.remove(name).map(String::into_bytes).or_else(|| binary.remove(name).map(|bytes| bytes.0));
    let (declaration, signature) = beside(key);
    let (declaration, signature) = (take(&declaration), take(&signature));
    Parcel { module: module.0, declaration, signature }.open(place, Origin::ConfigMap)
}
