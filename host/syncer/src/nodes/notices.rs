//! Events about virtual nodes and the pods on them, for a person (`bottomup-syncer.md` section 12).
//!
//! Owns the limit over all of them of a binding: a binding that goes has thousands of nodes, and what all say alike no one reads one
//! by one. Each controller that sends such Events has a limit of its own. That the same text about one object is one series is the
//! recorder's ([`Events`]). Everything that is left out here is in the log.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use topoloom_api::Reason;
use topoloom_cluster::events::{EventText, Events, Urgency};
use topoloom_core::names::NodeName;
use topoloom_core::nodelock::PodId;

use crate::view::Remark;

/// So many Events within a span.
const MOST: usize = 100;
/// So many of these at most that are good to know, or that all nodes of a cluster may have at once: what a person has to act on is not
/// left out because of them.
const MOST_NORMAL: usize = 60;
/// The span.
const SPAN: Duration = Duration::from_secs(60);

/// Something about a virtual node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Notice<'a> {
    pub(crate) node: &'a NodeName,
    /// Its UID, where it is known.
    pub(crate) uid: Option<&'a str>,
    pub(crate) urgency: Urgency,
    pub(crate) reason: Reason,
    pub(crate) note: &'a str,
}

/// What was said of each node last, so that it is said once. Few nodes have anything to say of.
#[derive(Default)]
pub(super) struct Said(Mutex<HashMap<NodeName, String>>);

impl Said {
    /// Whether this is news of the node: something else was said of it last, or nothing. That there is nothing to say any more is none.
    pub(super) fn is_news(&self, node: &NodeName, what: Option<&str>) -> bool {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(what) = what else {
            said.remove(node);
            return false;
        };
        said.insert(node.clone(), what.to_owned()).is_none_or(|known| known != what)
    }

    /// What of a remark is news of the node. Of one that is not there nothing is said, and nothing remembered.
    pub(super) fn news<'a>(&self, node: &NodeName, remark: &'a Remark, is_there: bool) -> Option<&'a str> {
        let what = match remark {
            Remark::Says(what) if is_there => Some(what.as_str()),
            // A cluster that is not listed for a moment is no reason to say the same of all its nodes again.
            Remark::Unknown if is_there => return None,
            Remark::Says(_) | Remark::Unknown | Remark::None => None,
        };
        let is_news = self.is_news(node, what);
        what.filter(|_| is_news)
    }

    /// Whether there is nothing to say of any node.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().unwrap().is_empty()
    }
}

/// Sends the Events of one controller of a binding.
pub(crate) struct Notices {
    events: Events,
    /// When the span began, by the steady clock, and how many were sent in it.
    sent: Mutex<(Duration, usize)>,
}

impl Notices {
    pub(crate) fn new(events: Events) -> Self {
        Self { events, sent: Mutex::default() }
    }

    /// Sends it, unless there were too many lately.
    pub(crate) async fn send(&self, notice: &Notice<'_>, now: Duration) {
        let Notice { node, uid, urgency, reason, note } = *notice;
        // A process that begins says it of every node of which it is so: of all of a cluster that is older than a field.
        let is_of_all = matches!(reason, Reason::MetadataIncomplete | Reason::WriteNotStored);
        let room = if is_of_all { Urgency::Normal } else { urgency };
        if !self.has_room(room, now) {
            tracing::debug!(%node, %reason, note, "an Event about a virtual node is left out: there were many within a minute");
            return;
        }
        let text = EventText { reason: reason.as_str(), action: "Lending", note };
        self.events.node(node, uid, urgency, text).await;
    }

    /// Says something of a virtual pod that a person has to act on, unless there were too many lately.
    pub(crate) async fn of_pod(&self, pod: &PodId, reason: Reason, note: &str, now: Duration) {
        let PodId { namespace, name, .. } = pod;
        if !self.has_room(Urgency::Warning, now) {
            tracing::debug!(%namespace, pod = %name, %reason, note, "an Event about a virtual pod is left out: there were many within a minute");
            return;
        }
        let text = EventText { reason: reason.as_str(), action: "Lending", note };
        self.events.pod(pod, Urgency::Warning, text).await;
    }

    fn has_room(&self, urgency: Urgency, now: Duration) -> bool {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_sub(sent.0) >= SPAN {
            *sent = (now, 0);
        }
        let most = match urgency {
            Urgency::Normal => MOST_NORMAL,
            Urgency::Warning => MOST,
        };
        let has_room = sent.1 < most;
        sent.1 += usize::from(has_room);
        has_room
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    #[tokio::test]
    async fn events_about_nodes_have_a_limit_within_each_minute_and_those_to_act_on_have_room_of_their_own() {
        let serve = |_: Request<Body>| async { Ok::<_, Infallible>(Response::new(Body::empty())) };
        let notices = Notices::new(Events::new(kube::Client::new(tower::service_fn(serve), "default")));
        let sent = |urgency: Urgency, from: u64| {
            (0..250).filter(|_| notices.has_room(urgency, Duration::from_secs(from))).count()
        };
        assert_eq!([1_000, 1_059, 1_060, 1_061].map(|from| sent(Urgency::Warning, from)), [MOST, 0, MOST, 0]);
        assert_eq!(sent(Urgency::Normal, 2_000), MOST_NORMAL);
        assert_eq!(sent(Urgency::Warning, 2_001), MOST - MOST_NORMAL);
        assert_eq!([Urgency::Normal, Urgency::Warning].map(|urgency| sent(urgency, 2_002)), [0, 0]);
    }

    #[tokio::test]
    async fn s13_what_thousands_of_nodes_lack_leaves_room_for_what_a_person_has_to_act_on() {
        let posted = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&posted);
        let serve = move |request: Request<Body>| {
            counter.fetch_add(1, Ordering::SeqCst);
            async move { Ok::<_, Infallible>(Response::new(request.into_body())) }
        };
        let notices = Notices::new(Events::new(kube::Client::new(tower::service_fn(serve), "default")));
        let now = Duration::from_secs(1_000);
        for number in 0..2 * MOST {
            let node = NodeName::from(format!("vnode-east-w{number}"));
            let reason = if number % 2 == 0 { Reason::MetadataIncomplete } else { Reason::WriteNotStored };
            let urgency = Urgency::Warning;
            notices.send(&Notice { node: &node, uid: None, urgency, reason, note: "it lacks a label" }, now).await;
        }
        assert_eq!(posted.load(Ordering::SeqCst), MOST_NORMAL);
        let node = NodeName::from("vnode-east-w1");
        let (urgency, reason) = (Urgency::Warning, Reason::WriteRefused);
        notices.send(&Notice { node: &node, uid: None, urgency, reason, note: "refused" }, now).await;
        assert_eq!(posted.load(Ordering::SeqCst), MOST_NORMAL + 1);
    }

    #[tokio::test]
    async fn events_about_pods_that_an_api_server_refuses_have_the_same_limit() {
        let posted = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&posted);
        let serve = move |request: Request<Body>| {
            counter.fetch_add(1, Ordering::SeqCst);
            async move { Ok::<_, Infallible>(Response::new(request.into_body())) }
        };
        let notices = Notices::new(Events::new(kube::Client::new(tower::service_fn(serve), "default")));
        for number in 0..MOST + 50 {
            let (name, uid) = (format!("web-{number}"), format!("uid-{number}"));
            let pod = PodId { namespace: "shop".into(), name: name.into(), uid: uid.as_str().into() };
            let now = Duration::from_secs(1_000);
            notices.of_pod(&pod, Reason::WriteRefused, "its status was refused", now).await;
        }
        assert_eq!(posted.load(Ordering::SeqCst), MOST);
    }
}
