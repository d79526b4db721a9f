//! Kubernetes Events, for what needs a person.
//!
//! Publishing is best effort: an Event that cannot be written is logged and forgotten, since the same words stand in the
//! source's condition. Equal Events in a row become one series (the recorder's own rule).

use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use topoloom_api::condition::Reason;
use topoloom_api::names::EVENT_COMPONENT;
use topoloom_api::{discovery_source, object_name};

use super::Refusal;
use crate::text;

/// Longest note that the API server accepts, in bytes.
const NOTE: usize = 1024;

/// Publishes Events about sources.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
}

/// How urgent an Event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Good to know.
    Normal,
    /// Somebody has to do something.
    Warning,
}

impl Events {
    /// A recorder for this process.
    #[must_use]
    pub fn new(client: kube::Client) -> Self {
        let instance = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
        Self { recorder: Recorder::new(client, Reporter { controller: EVENT_COMPONENT.into(), instance }) }
    }

    /// Says something about a source. `uid` is that of its DiscoverySource, where one exists.
    pub async fn source(&self, source: &str, uid: Option<&str>, urgency: Urgency, reason: Reason, note: &str) {
        let reference = k8s_openapi::api::core::v1::ObjectReference {
            api_version: Some(discovery_source::API_VERSION.into()),
            kind: Some(discovery_source::KIND.into()),
            name: Some(object_name(source)),
            uid: uid.map(str::to_owned),
            ..Default::default()
        };
        let event = Event {
            type_: match urgency {
                Urgency::Normal => EventType::Normal,
                Urgency::Warning => EventType::Warning,
            },
            reason: reason.as_str().into(),
            note: Some(text::clip(note.to_owned(), NOTE - '…'.len_utf8())),
            action: "Discover".into(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &reference).await {
            let refusal = Refusal::of(&error);
            tracing::debug!(source, reason = refusal.reason.as_str(), error = %refusal, "an Event could not be published");
        }
    }
}
