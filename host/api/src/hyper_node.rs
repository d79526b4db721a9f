//! `HyperNode`, `topology.volcano.sh/v1alpha1`: Volcano's own resource, unchanged.
//!
//! Owns: the Rust shape of the object and the definition that accepts and refuses exactly what Volcano's does. Never:
//! a judgement about an object. What is legal for the API server deserializes here, however odd: a missing spec, a
//! member without selector, an unknown operator, tier 0.
//!
//! Both `spec.members` and `status` of foreign objects keep their meaning through a round trip, but nothing here is
//! for writing a foreign object back whole; writes are server-side applies of our own fields.

mod definition;

pub use definition::definition;

use crate::condition::Condition;
use crate::lenient;
use crate::names::VOLCANO_TOPOLOGY_GROUP;
use crate::resource::cluster_resource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::{Deserialize, Serialize};

/// API version of the resource.
pub const VERSION: &str = "v1alpha1";
/// `apiVersion` of every object.
pub const API_VERSION: &str = "topology.volcano.sh/v1alpha1";
/// `kind` of every object.
pub const KIND: &str = "HyperNode";
/// The plural, as in URLs.
pub const PLURAL: &str = "hypernodes";

/// A group of Nodes, or of HyperNodes of a lower tier, that are close to each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HyperNode {
    /// Always [`API_VERSION`]; items of a list come without it.
    #[serde(default = "api_version")]
    pub api_version: String,
    /// Always [`KIND`]; items of a list come without it.
    #[serde(default = "kind")]
    pub kind: String,
    /// Standard metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What the group is. The API server accepts an object without it.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub spec: HyperNodeSpec,
    /// The status of the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<HyperNodeStatus>,
}

/// What a HyperNode is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HyperNodeSpec {
    /// Distance: lower is closer. Legal from 0, used from 1; absent reads as 0.
    #[serde(default, deserialize_with = "lenient::integer")]
    pub tier: i64,
    /// What users call the tier, at most 253 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier_name: Option<String>,
    /// What belongs to the group. Absent is legal in the schema, an empty list is not, so an empty one is not sent.
    #[serde(default, deserialize_with = "lenient::null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Member>,
}

/// One line of a HyperNode's member list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// Whether Nodes or HyperNodes are selected.
    #[serde(rename = "type", default)]
    pub type_: MemberType,
    /// Which ones. The API server accepts a member without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<MemberSelector>,
}

/// Whether a member means Nodes or HyperNodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MemberType {
    /// Kubernetes Nodes.
    #[default]
    Node,
    /// Other HyperNodes.
    HyperNode,
}

/// How a member selects. Legal objects have exactly one of the three.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberSelector {
    /// By name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact_match: Option<ExactMatch>,
    /// By a regular expression over names, in Go's dialect, not anchored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regex_match: Option<RegexMatch>,
    /// By labels. An empty selector selects nothing; an operator may be any text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_match: Option<LabelSelector>,
}

/// Selection by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExactMatch {
    /// The name.
    #[serde(default)]
    pub name: String,
}

/// Selection by pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegexMatch {
    /// The pattern.
    #[serde(default)]
    pub pattern: String,
}

/// What is known about a HyperNode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HyperNodeStatus {
    /// Conditions, one per type.
    #[serde(default, deserialize_with = "lenient::null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// How many Nodes there are below.
    #[serde(default, deserialize_with = "lenient::optional_integer", skip_serializing_if = "Option::is_none")]
    pub node_count: Option<i64>,
}

impl HyperNode {
    /// An object of that name with that content and nothing else.
    #[must_use]
    pub fn new(name: &str, spec: HyperNodeSpec) -> Self {
        Self {
            api_version: api_version(),
            kind: kind(),
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            spec,
            status: None,
        }
    }

    /// The source that owns the object, or nothing where it was made by hand.
    #[must_use]
    pub fn source(&self) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(crate::names::SOURCE_LABEL).map(String::as_str)
    }

    /// The identity of the object's group; objects that Volcano made have none.
    #[must_use]
    pub fn group_id(&self) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(crate::names::GROUP_ID_ANNOTATION).map(String::as_str)
    }
}

impl Member {
    /// The Node of that name.
    #[must_use]
    pub fn node(name: &str) -> Self {
        Self::exact(MemberType::Node, name)
    }

    /// The HyperNode of that name.
    #[must_use]
    pub fn hyper_node(name: &str) -> Self {
        Self::exact(MemberType::HyperNode, name)
    }

    fn exact(type_: MemberType, name: &str) -> Self {
        let exact_match = Some(ExactMatch { name: name.to_owned() });
        Self { type_, selector: Some(MemberSelector { exact_match, ..MemberSelector::default() }) }
    }
}

cluster_resource!(HyperNode, VOLCANO_TOPOLOGY_GROUP);
