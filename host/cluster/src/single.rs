//! The watch on one object by name: what it is now, `None` where there is none.
//!
//! List and watch carry the field selector `metadata.name`, which is what lets a Role restrict them to that one object.

use std::fmt::Debug;
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::Api;
use serde::de::DeserializeOwned;

use super::Refusal;
use super::watches::{self, Config, Event};

/// Every state of the object from now on, and every error in between; the watch goes on by itself.
pub fn watch<K>(api: Api<K>, name: &str) -> impl Stream<Item = Result<Option<K>, Refusal>> + Send + use<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    states(watches::events(api, only(name)))
}

/// The same for what must not be missed for long: each watch listens for this time, in whole seconds, and is followed by the
/// next one.
pub fn watch_anew<K>(
    api: Api<K>,
    name: &str,
    listens: Duration,
) -> impl Stream<Item = Result<Option<K>, Refusal>> + Send + use<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let seconds = u32::try_from(listens.as_secs()).unwrap_or(u32::MAX);
    states(watches::events(api, only(name).timeout(seconds)))
}

/// The same for what cannot wait: a watch that broke is opened again after this pause, however often it breaks.
pub fn watch_every<K>(
    api: Api<K>,
    name: &str,
    pause: Duration,
) -> impl Stream<Item = Result<Option<K>, Refusal>> + Send + use<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    states(watches::events_every(api, only(name), pause))
}

/// The field selector that restricts a list or a watch to the objects of one name, in whichever namespace: `resourceNames`
/// of a rule hold for it.
#[must_use]
pub fn named(name: &str) -> String {
    format!("metadata.name={name}")
}

fn only(name: &str) -> Config {
    Config::default().fields(&named(name))
}

fn states<K>(
    events: impl Stream<Item = Result<Event<K>, Refusal>> + Send,
) -> impl Stream<Item = Result<Option<K>, Refusal>> + Send
where
    K: Send,
{
    let mut listed = None;
    events.filter_map(move |event| {
        let state = match event {
            Ok(Event::Init) => {
                listed = None;
                None
            }
            Ok(Event::InitApply(object)) => {
                listed = Some(object);
                None
            }
            Ok(Event::InitDone) => Some(Ok(listed.take())),
            Ok(Event::Apply(object)) => Some(Ok(Some(object))),
            Ok(Event::Delete(_)) => Some(Ok(None)),
            Err(refusal) => Some(Err(refusal)),
        };
        std::future::ready(state)
    })
}
