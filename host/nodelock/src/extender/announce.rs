//! Events about pods that were bound, or not (`node-lock-and-bind.md` A16). Nothing waits for them.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use topoloom_core::nodelock::{NodeName, PodId};

use topoloom_cluster::events::{EventText, Events, Urgency};

/// Events under way at most. An API server that does not take them is not flooded with more.
const UNDER_WAY: usize = 64;

/// Sends the Events of Binds.
#[derive(Clone)]
pub struct Announcer {
    events: Events,
    seats: Arc<Semaphore>,
    tasks: TaskTracker,
}

impl Announcer {
    /// By this recorder.
    #[must_use]
    pub fn new(events: Events) -> Self {
        Self { events: events.unattended(), seats: Arc::new(Semaphore::new(UNDER_WAY)), tasks: TaskTracker::new() }
    }

    /// A pod was bound.
    pub fn bound(&self, pod: &PodId, node: &NodeName) {
        self.record(pod, Urgency::Normal, "BindingSucceed", format!("Binding succeeded: node [{node}], pod {pod}"));
    }

    /// A pod was not bound.
    pub fn failed(&self, pod: &PodId, why: &str) {
        self.record(pod, Urgency::Warning, "BindingFailed", why.to_owned());
    }

    fn record(&self, pod: &PodId, urgency: Urgency, reason: &'static str, note: String) {
        let Ok(seat) = Arc::clone(&self.seats).try_acquire_owned() else {
            tracing::debug!(%pod, reason, "too many Events are under way; this one is not sent");
            return;
        };
        let (events, pod) = (self.events.clone(), pod.clone());
        self.tasks.spawn(async move {
            let _seat = seat;
            events.pod(&pod, urgency, EventText { reason, action: "Binding", note: &note }).await;
        });
    }

    /// Waits until all are sent; each takes no longer than an Event may take.
    pub async fn finish(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}
