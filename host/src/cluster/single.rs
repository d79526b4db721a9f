//! The watch on one object by name: what it is now, `None` where there is none.
//!
//! List and watch carry the field selector `metadata.name`, which is what lets a Role restrict them to that one object.

use std::fmt::Debug;

use futures::{Stream, StreamExt};
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use serde::de::DeserializeOwned;

use super::Refusal;

/// Every state of the object from now on, and every error in between; the watch goes on by itself.
pub fn watch<K>(api: Api<K>, name: &str) -> impl Stream<Item = Result<Option<K>, Refusal>> + Send + use<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut listed = None;
    watcher::watcher(api, config).default_backoff().filter_map(move |event| {
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
            Err(error) => Some(Err(Refusal::of_watch(&error))),
        };
        std::future::ready(state)
    })
}
