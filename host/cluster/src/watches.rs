//! Every watch of this program begins here.
//!
//! Owns how a watch is opened again: by whom it is asked for does not matter, so that none can ask without pauses
//! ([`pause`](super::pause)). Never reads what the objects say, and logs nothing: who watches says what a failure means.

use std::fmt::Debug;
use std::time::Duration;

use futures::stream::{self, Stream, StreamExt};
use kube::Api;
use kube::runtime::watcher::{self, watcher};
pub use kube::runtime::watcher::{Config, Event};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::Refusal;
use super::pause::Pauses;

/// What happens to the objects of a kind, with every failure in between; it goes on by itself, after a pause that grows.
pub fn events<K>(api: Api<K>, config: Config) -> impl Stream<Item = Result<Event<K>, Refusal>> + Send + use<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    paused(watcher(api, config), Pauses::default())
}

/// The same for what cannot wait: after every failure it goes on after this pause.
pub fn events_every<K>(
    api: Api<K>,
    config: Config,
    pause: Duration,
) -> impl Stream<Item = Result<Event<K>, Refusal>> + Send + use<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    paused(watcher(api, config), Always(pause))
}

/// Whether the API server has answered: a list was read to its end, or something happened. That a list begins, and a part
/// of one, proves nothing.
#[must_use]
pub fn is_answer<K>(event: &Event<K>) -> bool {
    !matches!(event, Event::Init | Event::InitApply(_))
}

/// When to go on after a failure.
trait Waits: Send {
    fn succeeded(&mut self, now: Instant);
    fn failed(&mut self, now: Instant, asked: Option<Duration>) -> Duration;
}

impl Waits for Pauses {
    fn succeeded(&mut self, now: Instant) {
        Self::succeeded(self, now);
    }

    fn failed(&mut self, now: Instant, asked: Option<Duration>) -> Duration {
        Self::failed(self, now, asked)
    }
}

/// One pause, every time.
struct Always(Duration);

impl Waits for Always {
    fn succeeded(&mut self, _: Instant) {}

    fn failed(&mut self, _: Instant, _: Option<Duration>) -> Duration {
        self.0
    }
}

fn paused<K: Send>(
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send,
    waits: impl Waits,
) -> impl Stream<Item = Result<Event<K>, Refusal>> + Send {
    let begun = (Box::pin(events), waits, None);
    stream::unfold(begun, |(mut events, mut waits, due)| async move {
        if let Some(pause) = due {
            tokio::time::sleep(pause).await;
        }
        let mut due = None;
        let event = match events.next().await? {
            Ok(event) => {
                if is_answer(&event) {
                    waits.succeeded(Instant::now());
                }
                Ok(event)
            }
            Err(error) => {
                let refusal = Refusal::of_watch(&error);
                due = Some(waits.failed(Instant::now(), refusal.retry_after));
                Err(refusal)
            }
        };
        Some((event, (events, waits, due)))
    })
}

#[cfg(any(test, feature = "staged"))]
pub mod staged;
#[cfg(test)]
mod tests;
