//! What operators say by annotations on DiscoverySource objects (decision H17).
//!
//! A verb that asks for something once (`run`, `confirm`, `continue`) is handed over and taken off the object, so that
//! it never counts twice; `pause` and `serve` stay for as long as they are meant.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use topoloom_api::DiscoverySource;
use topoloom_api::names::{
    CONFIRM_ANNOTATION, CONTINUE_ANNOTATION, FIELD_MANAGER, PAUSE_ANNOTATION, RUN_ANNOTATION, SERVE_ANNOTATION,
};
use topoloom_core::plugin::Digest;
use topoloom_core::version::ResourceVersion;

use crate::cluster::watched::{Earlier, Index, Watched};
use crate::cluster::watches::{self, Config};
use crate::cluster::{Check, Refusal, RefusalReason, Restores};
use crate::discovery::report::Reports;

/// How long taking a verb off its object may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the cluster says about a source.
#[derive(Debug)]
pub enum VerbEvent {
    /// An object as it is now.
    Object(Box<DiscoverySource>),
    /// Every object was seen once, or there is no such resource.
    Complete,
}

/// The names of the objects that there are.
#[derive(Default)]
struct ObjectNames(BTreeSet<String>);

/// What a step of the watch brought.
#[derive(Default)]
struct VerbChanges {
    /// Objects as they are now.
    objects: Vec<DiscoverySource>,
    /// The names of those that are gone.
    vanished: Vec<String>,
    /// Whether every object was seen.
    complete: Option<VerbEvent>,
}

impl Index<DiscoverySource> for ObjectNames {
    type List = Vec<DiscoverySource>;
    type Change = VerbChanges;

    fn begin(&mut self, _: Earlier) -> Vec<DiscoverySource> {
        Vec::new()
    }

    fn list(&mut self, list: &mut Vec<DiscoverySource>, object: DiscoverySource) {
        list.push(object);
    }

    fn reset(&mut self, objects: Vec<DiscoverySource>, _: &ResourceVersion) -> VerbChanges {
        let listed: BTreeSet<String> = objects.iter().filter_map(|object| object.metadata.name.clone()).collect();
        let vanished = self.0.difference(&listed).cloned().collect();
        self.0 = listed;
        VerbChanges { objects, vanished, complete: Some(VerbEvent::Complete) }
    }

    fn apply(&mut self, object: DiscoverySource) -> VerbChanges {
        self.0.extend(object.metadata.name.clone());
        VerbChanges { objects: vec![object], ..VerbChanges::default() }
    }

    fn delete(&mut self, object: DiscoverySource) -> VerbChanges {
        let name = object.metadata.name.unwrap_or_default();
        self.0.remove(&name);
        VerbChanges { vanished: vec![name], ..VerbChanges::default() }
    }
}

/// Watches until dropped.
pub async fn watch(
    client: kube::Client,
    restores: Restores,
    reports: Arc<Reports>,
    said: UnboundedSender<VerbEvent>,
    check: Check,
) {
    let api: Api<DiscoverySource> = Api::all(client);
    let mut events = std::pin::pin!(watches::events(api.clone(), Config::of(&restores)));
    let (mut watched, mut names) = (Watched::default(), ObjectNames::default());
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                let Some(VerbChanges { objects, vanished, complete }) = watched.take(&mut names, event) else {
                    continue;
                };
                for object in objects {
                    take(&api, &reports, &said, object).await;
                }
                vanished.iter().for_each(|name| reports.vanished(name));
                check.pass();
                // The receiver is gone once the process stops.
                complete.into_iter().for_each(|complete| drop(said.send(complete)));
            }
            Err(refusal) => {
                if refusal.reason == RefusalReason::NoSuchResource {
                    check.absent(&refusal.message);
                } else {
                    check.fail(&refusal);
                }
                if matches!(refusal.reason, RefusalReason::NoSuchResource | RefusalReason::Forbidden) {
                    // Waiting brings nothing: sources start without what earlier lives of the host wrote down.
                    let _ = said.send(VerbEvent::Complete);
                }
            }
        }
    }
}

async fn take(
    api: &Api<DiscoverySource>,
    reports: &Reports,
    said: &UnboundedSender<VerbEvent>,
    object: DiscoverySource,
) {
    reports.observed(&object);
    let once: serde_json::Map<String, Value> = [CONFIRM_ANNOTATION, CONTINUE_ANNOTATION, RUN_ANNOTATION]
        .into_iter()
        .filter(|key| object.annotation(key).is_some())
        .map(|key| (key.to_owned(), Value::Null))
        .collect();
    let name = object.metadata.name.clone().unwrap_or_default();
    let version = object.metadata.resource_version.clone();
    // Without a receiver the process is stopping.
    let _ = said.send(VerbEvent::Object(Box::new(object)));
    if once.is_empty() {
        return;
    }
    // With the version that was read: a newer annotation of the operator must not be removed before it was acted on.
    let body = json!({"metadata": {"resourceVersion": version, "annotations": once}});
    let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
    let patch = Patch::Merge(&body);
    // The watch waits for this, and with it an operator who pauses another source.
    match tokio::time::timeout(PATIENCE, api.patch(&name, &parameters, &patch)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            let refusal = Refusal::of(&error);
            tracing::debug!(discovery_source = name, error = %refusal, "a verb's annotation could not be removed");
        }
        Err(_) => tracing::debug!(discovery_source = name, "a verb's annotation was not removed in time"),
    }
}

/// The verbs of one object.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verbs {
    /// The confirmed result.
    pub confirm: Option<String>,
    /// The request for a round.
    pub run: Option<String>,
    /// Whether the source is paused.
    pub pause: bool,
    /// The plugin that may continue.
    pub go_on: Option<Digest>,
    /// The plugin that is to serve.
    pub serve: Serve,
}

/// What the operator says about the plugin that is to serve.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Serve {
    /// Nothing.
    #[default]
    Delivered,
    /// This one.
    Named(Digest),
    /// Something that is no digest: the value before it counts.
    Unreadable,
}

impl Verbs {
    /// Reads the annotations.
    #[must_use]
    pub fn of(object: &DiscoverySource) -> Self {
        let text = |key| object.annotation(key).filter(|text| !text.is_empty()).map(str::to_owned);
        Self {
            // It goes into the log, even if it is invalid.
            confirm: text(CONFIRM_ANNOTATION).map(|text| topoloom_core::text::word(&text)),
            run: text(RUN_ANNOTATION),
            pause: topoloom_core::text::says_yes(text(PAUSE_ANNOTATION).as_deref()),
            go_on: text(CONTINUE_ANNOTATION).and_then(|text| digest(CONTINUE_ANNOTATION, &text)),
            serve: match text(SERVE_ANNOTATION) {
                None => Serve::Delivered,
                Some(text) => digest(SERVE_ANNOTATION, &text).map_or(Serve::Unreadable, Serve::Named),
            },
        }
    }
}

/// A digest, or a warning.
fn digest(annotation: &str, text: &str) -> Option<Digest> {
    let digest = Digest::parse(text);
    if digest.is_none() {
        let value = topoloom_core::text::word(text);
        tracing::warn!(
            annotation,
            value,
            "no digest (`sha256:` and 64 hexadecimal digits): the annotation has no effect"
        );
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_into_the_log_is_short_and_on_one_line() {
        let mut object = DiscoverySource::new("fabric");
        let hash = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        let mut said = |text: String| {
            object.metadata.annotations = Some([(CONFIRM_ANNOTATION.to_owned(), text)].into());
            Verbs::of(&object).confirm
        };
        assert_eq!(said(hash.to_owned()).as_deref(), Some(hash));
        let long = said("x".repeat(200_000)).unwrap();
        assert!(long.len() <= 110 && long.ends_with('…'), "{} bytes", long.len());
        assert_eq!(said("a\nb\u{61c}c\u{200b}".to_owned()).as_deref(), Some("a\\nb\\u{61c}c\\u{200b}"));
    }
}
