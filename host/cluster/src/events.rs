//! Kubernetes Events, for what needs a person.
//!
//! Publishing is best effort: an Event that cannot be written in time is logged and dropped, since the source's
//! condition or the log has the same text. Events that say the same about one object become one series (`series`).

mod series;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use topoloom_api::condition::Reason;
use topoloom_api::names::EVENT_COMPONENT;
use topoloom_api::{cluster_binding, discovery_source, object_name};
use topoloom_core::names::{NodeName, SourceName};
use topoloom_core::nodelock::PodId;
use topoloom_core::text;

use self::series::{Series, Subject};
use super::Refusal;

/// Longest note that the API server accepts, in bytes.
const NOTE: usize = 1024;

/// How long an Event may take that a task waits for: no work waits for an API server that does not answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long an Event may take that no task waits for. An API server under load takes seconds.
const UNATTENDED: Duration = Duration::from_secs(10);

/// Publishes Events.
#[derive(Clone)]
pub struct Events {
    client: kube::Client,
    reporter: Reporter,
    series: Arc<Mutex<Series<Recorder>>>,
    patience: Duration,
}

/// How urgent an Event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Good to know.
    Normal,
    /// A person has to act.
    Warning,
}

impl From<Urgency> for EventType {
    fn from(urgency: Urgency) -> Self {
        match urgency {
            Urgency::Normal => Self::Normal,
            Urgency::Warning => Self::Warning,
        }
    }
}

/// The content of an Event.
#[derive(Debug, Clone, Copy)]
pub struct EventText<'a> {
    /// In one word.
    pub reason: &'a str,
    /// What was done.
    pub action: &'a str,
    /// In a sentence.
    pub note: &'a str,
}

impl Events {
    /// A recorder for this process.
    #[must_use]
    pub fn new(client: kube::Client) -> Self {
        let instance = Some(super::instance());
        let reporter = Reporter { controller: EVENT_COMPONENT.into(), instance };
        Self { client, reporter, series: Arc::default(), patience: PATIENCE }
    }

    /// The same recorder for a caller whose work does not wait for its Events.
    #[must_use]
    pub fn unattended(self) -> Self {
        Self { patience: UNATTENDED, ..self }
    }

    /// The recorder of this note. Each knows its own series only, and looks at all it knows with every Event.
    fn recorder(&self, about: &k8s_openapi::api::core::v1::ObjectReference, reason: &str, note: &str) -> Recorder {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let subject = Subject {
            kind: text(&about.kind),
            namespace: text(&about.namespace),
            name: text(&about.name),
            uid: text(&about.uid),
            reason: reason.to_owned(),
        };
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        series.recorder(subject, note, Instant::now(), || Recorder::new(self.client.clone(), self.reporter.clone()))
    }

    /// Says that this replica leads a group, as every Kubernetes component says it.
    pub async fn leads(&self, namespace: &str, lease: &str, identity: &str) {
        let reference = k8s_openapi::api::core::v1::ObjectReference {
            api_version: Some("coordination.k8s.io/v1".into()),
            kind: Some("Lease".into()),
            name: Some(lease.into()),
            namespace: Some(namespace.into()),
            ..Default::default()
        };
        let note = format!("{identity} became leader");
        self.publish(&reference, EventType::Normal, "LeaderElection", note, "Lead").await;
    }

    /// Says something about a source. `uid` is that of its DiscoverySource, where one exists.
    pub async fn source(&self, source: &SourceName, uid: Option<&str>, urgency: Urgency, reason: Reason, note: &str) {
        let reference = k8s_openapi::api::core::v1::ObjectReference {
            api_version: Some(discovery_source::API_VERSION.into()),
            kind: Some(discovery_source::KIND.into()),
            name: Some(object_name(source)),
            uid: uid.map(str::to_owned),
            ..Default::default()
        };
        self.publish(&reference, urgency.into(), reason.as_str(), note.to_owned(), "Discover").await;
    }

    /// Says something about a pod.
    pub async fn pod(&self, pod: &PodId, urgency: Urgency, text: EventText<'_>) {
        let reference = k8s_openapi::api::core::v1::ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Pod".into()),
            namespace: Some(pod.namespace.to_string()),
            name: Some(pod.name.to_string()),
            uid: Some(pod.uid.to_string()),
            ..Default::default()
        };
        self.publish(&reference, urgency.into(), text.reason, text.note.to_owned(), text.action).await;
    }

    /// Says something about a node.
    pub async fn node(&self, name: &NodeName, uid: Option<&str>, urgency: Urgency, text: EventText<'_>) {
        let reference = k8s_openapi::api::core::v1::ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Node".into()),
            name: Some(name.to_string()),
            uid: uid.map(str::to_owned),
            ..Default::default()
        };
        self.publish(&reference, urgency.into(), text.reason, text.note.to_owned(), text.action).await;
    }

    /// Says something about a ClusterBinding.
    pub async fn binding(&self, name: &str, uid: Option<&str>, urgency: Urgency, text: EventText<'_>) {
        let reference = k8s_openapi::api::core::v1::ObjectReference {
            api_version: Some(cluster_binding::API_VERSION.into()),
            kind: Some(cluster_binding::KIND.into()),
            name: Some(name.to_owned()),
            uid: uid.map(str::to_owned),
            ..Default::default()
        };
        self.publish(&reference, urgency.into(), text.reason, text.note.to_owned(), text.action).await;
    }

    async fn publish(
        &self,
        about: &k8s_openapi::api::core::v1::ObjectReference,
        type_: EventType,
        reason: &str,
        note: String,
        action: &str,
    ) {
        let note = text::clip(note, NOTE - '…'.len_utf8());
        let recorder = self.recorder(about, reason, &note);
        let event = Event { type_, reason: reason.into(), note: Some(note), action: action.into(), secondary: None };
        let name = about.name.as_deref().unwrap_or_default();
        match tokio::time::timeout(self.patience, recorder.publish(&event, about)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let refusal = Refusal::of(&error);
                tracing::debug!(
                    about = name, reason = refusal.reason.as_str(), error = %refusal, "an Event could not be published"
                );
            }
            Err(_) => tracing::debug!(about = name, patience = ?self.patience, "an Event was not answered in time"),
        }
    }
}
