//! Events about virtual nodes, for a person (`bottomup-syncer.md` section 12).
//!
//! Owns the limit over all nodes of a binding: a binding that goes has thousands of them, and what all say alike no one reads one
//! by one. That the same text about one node is one series is the recorder's ([`Events`]). Everything that is left out here is in the
//! log.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use topoloom_api::Reason;
use topoloom_cluster::events::{EventText, Events, Urgency};
use topoloom_core::names::NodeName;

/// So many Events within a span.
const MOST: usize = 100;
/// The span.
const SPAN: Duration = Duration::from_secs(60);

/// Something about a virtual node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Notice<'a> {
    pub(super) node: &'a NodeName,
    /// Its UID, where it is known.
    pub(super) uid: Option<&'a str>,
    pub(super) urgency: Urgency,
    pub(super) reason: Reason,
    pub(super) note: &'a str,
}

/// Sends the Events of one binding.
pub(super) struct Notices {
    events: Events,
    /// When the span began, by the steady clock, and how many were sent in it.
    sent: Mutex<(Duration, usize)>,
}

impl Notices {
    pub(super) fn new(events: Events) -> Self {
        Self { events, sent: Mutex::default() }
    }

    /// Sends it, unless there were too many lately.
    pub(super) async fn send(&self, notice: &Notice<'_>, now: Duration) {
        let Notice { node, uid, urgency, reason, note } = *notice;
        if !self.has_room(now) {
            tracing::debug!(%node, %reason, note, "an Event about a virtual node is left out: there were many within a minute");
            return;
        }
        let text = EventText { reason: reason.as_str(), action: "Lending", note };
        self.events.node(node, uid, urgency, text).await;
    }

    fn has_room(&self, now: Duration) -> bool {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_sub(sent.0) >= SPAN {
            *sent = (now, 0);
        }
        sent.1 = sent.1.saturating_add(1);
        sent.1 <= MOST
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    #[tokio::test]
    async fn events_about_nodes_have_a_limit_within_each_minute() {
        let serve = |_: Request<Body>| async { Ok::<_, Infallible>(Response::new(Body::empty())) };
        let notices = Notices::new(Events::new(kube::Client::new(tower::service_fn(serve), "default")));
        let sent = |from: u64| (0..250).filter(|_| notices.has_room(Duration::from_secs(from))).count();
        assert_eq!([sent(1_000), sent(1_059), sent(1_060), sent(1_061)], [MOST, 0, MOST, 0]);
    }
}
