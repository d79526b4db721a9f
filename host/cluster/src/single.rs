//! The watch on one object by name: what it is now, `None` where there is none.
//!
//! List and watch carry the field selector `metadata.name`, which is what lets a Role restrict them to that one object.

use std::fmt::Debug;
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::Api;
use serde::de::DeserializeOwned;
use topoloom_core::version::ResourceVersion;

use super::watched::{Earlier, Event, Index, Watched};
use super::watches::{self, Config, Heard};
use super::{Refusal, Restores};

/// Every state of the object from now on, and every error in between; the watch continues by itself.
pub fn watch<K>(
    api: Api<K>,
    name: &str,
    restores: &Restores,
) -> impl Stream<Item = Result<Option<K>, Refusal>> + Send + use<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    states(watches::events(api, only(name, restores)))
}

/// The same, with each watch passed on that the API server opens: after an error nothing else shows that the watch works again
/// while the object stays as it is.
pub fn watch_heard<K>(
    api: Api<K>,
    name: &str,
    restores: &Restores,
    opened: &Heard,
) -> impl Stream<Item = Result<Option<K>, Refusal>> + Send + use<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    states(watches::events(api, only(name, restores).opened(opened)))
}

/// The same for what must not be missed for long: each watch listens for this time, in whole seconds, and is followed by the
/// next one.
pub fn watch_anew<K>(
    api: Api<K>,
    name: &str,
    restores: &Restores,
    listens: Duration,
) -> impl Stream<Item = Result<Option<K>, Refusal>> + Send + use<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    states(watches::events(api, only(name, restores).listens(listens)))
}

/// The same for what cannot wait: a watch that broke is opened again after this pause, however often it breaks.
pub fn watch_every<K>(
    api: Api<K>,
    name: &str,
    restores: &Restores,
    pause: Duration,
) -> impl Stream<Item = Result<Option<K>, Refusal>> + Send + use<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    states(watches::events_every(api, only(name, restores), pause))
}

/// The field selector that restricts a list or a watch to the objects of one name, in whichever namespace: `resourceNames`
/// of a rule hold for it.
#[must_use]
pub fn named(name: &str) -> String {
    format!("metadata.name={name}")
}

fn only(name: &str, restores: &Restores) -> Config {
    Config::of(restores).fields(&named(name))
}

/// The object; what it was before does not matter.
struct Single;

impl<K> Index<K> for Single {
    type List = Option<K>;
    type Change = Option<K>;

    fn begin(&mut self, _: Earlier) -> Option<K> {
        None
    }

    fn list(&mut self, list: &mut Option<K>, object: K) {
        *list = Some(object);
    }

    fn reset(&mut self, list: Option<K>, _: &ResourceVersion) -> Option<K> {
        list
    }

    fn apply(&mut self, object: K) -> Option<K> {
        Some(object)
    }

    fn delete(&mut self, _: K) -> Option<K> {
        None
    }
}

fn states<K>(
    events: impl Stream<Item = Result<Event<K>, Refusal>> + Send,
) -> impl Stream<Item = Result<Option<K>, Refusal>> + Send
where
    K: Send,
{
    let mut watched = Watched::default();
    events.filter_map(move |event| {
        let state = match event {
            Ok(event) => watched.take(&mut Single, event).map(Ok),
            Err(refusal) => Some(Err(refusal)),
        };
        std::future::ready(state)
    })
}
