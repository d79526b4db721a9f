//! Objects of the two API servers, as far as lending depends on them: what is read of each, and the facts made of it.
//!
//! Owns the slices that watches and live reads decode. What a slice does not name is skipped while it is read: a Node has
//! kilobytes of images, a pod has kilobytes of volumes, and there are thousands of both. Never decides anything.
//!
//! # Failure story
//!
//! A field that is absent is empty. An amount that is no quantity, which no API server hands out, makes the object unreadable:
//! counted as nothing it would make a node larger than it is.

pub mod csi;
pub mod json;
mod metadata;
pub mod node;
pub mod pod;
mod pool;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use topoloom_core::names::Uid;
use topoloom_core::version::ResourceVersion;
use topoloom_sync::deletion::Existence;
use topoloom_sync::resources::{ResourceError, ResourceList, read_list};

pub use self::metadata::OnlyMetadata;

/// Gives a slice the kind of the object that it is a part of.
macro_rules! slice_of {
    ($slice:ty, $kind:ty, $scope:ty) => {
        impl kube::Resource for $slice {
            type DynamicType = ();
            type Scope = $scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                <$kind as kube::Resource>::kind(&())
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                <$kind as kube::Resource>::group(&())
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                <$kind as kube::Resource>::version(&())
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                <$kind as kube::Resource>::plural(&())
            }

            fn meta(&self) -> &kube::api::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut kube::api::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}
pub(crate) use slice_of;

/// Amounts as they are written.
type Amounts = BTreeMap<String, String>;

/// A taint as it is written.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct TaintSlice {
    key: String,
    value: String,
    effect: String,
    time_added: Option<Time>,
}

/// A condition as it is written.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct ConditionSlice {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
    message: String,
    last_heartbeat_time: Option<Time>,
    last_transition_time: Option<Time>,
}

/// The bytes of a map of texts.
fn of_texts(texts: Option<&BTreeMap<String, String>>) -> usize {
    texts.into_iter().flatten().map(|(key, value)| key.len().saturating_add(value.len())).sum()
}

/// The bytes of a value, without its marks.
fn of_value(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(of_value).sum(),
        Value::Object(fields) => fields.iter().map(|(key, value)| key.len().saturating_add(of_value(value))).sum(),
    }
}

/// Amounts of resources.
fn amounts(written: &Amounts) -> Result<ResourceList, ResourceError> {
    read_list(written.iter().map(|(name, amount)| (name.as_str(), amount.as_str())))
}

/// What every object of ours has.
struct Head {
    uid: Uid,
    version: ResourceVersion,
    existence: Existence,
}

impl Head {
    fn of(metadata: &kube::api::ObjectMeta) -> Self {
        Self {
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            version: metadata.resource_version.as_deref().into(),
            existence: match metadata.deletion_timestamp {
                Some(_) => Existence::Terminating,
                None => Existence::Alive,
            },
        }
    }
}

fn time(written: Option<&Time>) -> Option<Timestamp> {
    written.map(|time| time.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_text_of_a_value_counts() {
        assert_eq!(of_value(&json!({"a": ["bc", {"d": "efg"}], "h": null})), 1 + 2 + 1 + 3 + 1 + 8);
    }
}
