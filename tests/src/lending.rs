//! The world around the bottom-up syncer (`bottomup-syncer.md`): what other programs do in the two clusters of lending, on
//! real API servers.
//!
//! * [`kubelets`]: the kubelets of all nodes of one control plane, in one task.
//! * [`player`]: a small top-down half, which obeys the mapping contract of section 4.3, and breaks it on order.
//!
//! Neither decides anything of the syncer's, and neither writes what the syncer writes, except where the contract says that
//! the top-down half does. Amounts, tolerations and phases are read by code of this folder: a test that used the syncer's
//! own code for that would not see the syncer's mistakes. Only keys, names and identities are taken from it, because they are
//! the contract.
//!
//! What goes wrong: an API server that stops, or never answers. Every request has a time limit and is repeated; nothing is
//! decided by the failure of a request. A refusal is recorded as a mistake, which tests compare with nothing.

mod agenda;
mod background;
pub mod kubelets;
pub mod player;
mod requests;

use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::watcher::{self, Event};
use tokio::time::sleep;

pub use background::Background;

/// The pause before a request, or a watch, is repeated.
const PAUSE: Duration = Duration::from_millis(100);
/// How many requests of one player are under way at once.
const AT_ONCE: usize = 64;

/// What must not happen, as text.
#[derive(Default)]
struct Mistakes(Mutex<Vec<String>>);

impl Mistakes {
    fn add(&self, what: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

type Watch<K> = Pin<Box<dyn Stream<Item = Event<K>> + Send>>;

/// A watch that never ends: where the API server does not answer, it begins again after a pause.
fn watch<K>(api: Api<K>, config: watcher::Config) -> Watch<K>
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let events = watcher::watcher(api, config).filter_map(async |event| {
        if event.is_err() {
            sleep(PAUSE).await;
        }
        event.ok()
    });
    Box::pin(events)
}

/// Waits until a time; for ever if there is none.
async fn until(when: Option<Timestamp>) {
    match when {
        // A wait that ends too early by the rounding of a timer would be a round for nothing.
        Some(when) => sleep(left(when, Timestamp::now()) + Duration::from_millis(1)).await,
        None => std::future::pending().await,
    }
}

fn left(when: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(when.duration_since(now)).unwrap_or_default()
}

fn uid_of(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

fn phase_of(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Which write this is the state after. API servers count upwards.
fn version_of(pod: &Pod) -> u64 {
    pod.metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// The node to which it is bound.
fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|node| !node.is_empty())
}

fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Whether its phase is final.
fn is_over(pod: &Pod) -> bool {
    matches!(phase_of(pod), "Succeeded" | "Failed")
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn what_is_overdue_needs_no_wait() {
        let now: Timestamp = "2026-08-01T06:10:00Z".parse().unwrap();
        assert_eq!(left(now + SignedDuration::from_secs(3), now), Duration::from_secs(3));
        assert_eq!(left(now - SignedDuration::from_secs(3), now), Duration::ZERO);
    }
}
