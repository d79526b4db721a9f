//! The model of a HyperNode as the API has it.
//!
//! Owns the way from a stored object to what decisions are made on. It is total: everything that the API server accepted has
//! a model, however odd. Never asks the API server and never judges.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use topoloom_api::hyper_node::{self, HyperNode, MemberType};
use topoloom_api::names::{
    DESCRIPTION_ANNOTATION, FIELD_MANAGER, GROUP_ID_ANNOTATION, SOURCE_LABEL, SPLIT_FROM_ANNOTATION,
};
use topoloom_core::names::{SourceName, Uid};
use topoloom_core::topology::{
    LabelOperator, LabelRequirement, LabelSelector, Member, MemberKind, Object, Selector, Spec,
};

/// The UID of an object in a document that was never in a cluster. A write that carries it is refused: no stored object has it,
/// and an empty UID would be no precondition at all.
const NEVER_STORED: &str = "never-stored";

/// The UID in the metadata of an object.
#[must_use]
pub fn uid(metadata: &meta::ObjectMeta) -> Uid {
    metadata.uid.as_deref().filter(|uid| !uid.is_empty()).unwrap_or(NEVER_STORED).into()
}

/// The model of an observed object.
#[must_use]
pub fn object(from: &HyperNode) -> Object {
    let metadata = &from.metadata;
    let text = |text: &Option<String>| Arc::<str>::from(text.as_deref().unwrap_or_default());
    let mut labels: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
    let mut source = None;
    for (key, value) in metadata.labels.iter().flatten() {
        if key == SOURCE_LABEL {
            // The empty value names no source.
            source = SourceName::parse(value).ok();
        } else {
            labels.insert(key.as_str().into(), value.as_str().into());
        }
    }
    if metadata.deletion_timestamp.is_some() {
        // It goes when its finalizers do. Until then it blocks its name as any other object, and no owner keeps it.
        source = None;
    }
    let annotation = |key: &str| metadata.annotations.as_ref()?.get(key).map(|value| Arc::from(value.as_str()));
    let (ours, others) = (labels_of(metadata, |ours| ours), labels_of(metadata, |ours| !ours));
    Object {
        name: text(&metadata.name),
        uid: uid(metadata),
        resource_version: metadata.resource_version.as_deref().into(),
        created: metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second()),
        source,
        group_id: annotation(GROUP_ID_ANNOTATION),
        split_from: annotation(SPLIT_FROM_ANNOTATION),
        description: annotation(DESCRIPTION_ANNOTATION),
        labels,
        shared_labels: ours.intersection(&others).cloned().collect(),
        owned_labels: ours,
        spec: spec(&from.spec),
    }
}

/// The label keys that field managers own, ours or all others: `f:metadata.f:labels.f:KEY` of their entries for the
/// object itself.
fn labels_of(metadata: &meta::ObjectMeta, which: fn(ours: bool) -> bool) -> BTreeSet<Arc<str>> {
    let entries = metadata.managed_fields.iter().flatten().filter(|entry| {
        which(entry.manager.as_deref() == Some(FIELD_MANAGER))
            && entry.subresource.as_deref().unwrap_or_default().is_empty()
    });
    let labels = entries
        .filter_map(|entry| entry.fields_v1.as_ref()?.0.get("f:metadata")?.get("f:labels")?.as_object())
        .flat_map(|labels| labels.keys());
    labels.filter_map(|key| key.strip_prefix("f:")).map(Arc::from).collect()
}

/// The model of a stored spec.
#[must_use]
pub fn spec(from: &hyper_node::HyperNodeSpec) -> Spec {
    Spec {
        tier: u32::try_from(from.tier).unwrap_or(u32::MAX),
        tier_name: from.tier_name.as_deref().filter(|name| !name.is_empty()).map(Arc::from),
        members: from.members.iter().map(member).collect(),
    }
}

fn member(from: &hyper_node::Member) -> Member {
    let kind = match from.type_ {
        MemberType::Node => MemberKind::Node,
        MemberType::HyperNode => MemberKind::HyperNode,
    };
    let selector = match &from.selector {
        None => Selector::Absent,
        Some(selector) => match (&selector.exact_match, &selector.regex_match, &selector.label_match) {
            (Some(exact), ..) => Selector::Exact(exact.name.as_str().into()),
            (None, Some(regex), _) => Selector::Regex(regex.pattern.as_str().into()),
            (None, None, Some(labels)) => Selector::Labels(label_selector(labels)),
            (None, None, None) => Selector::Absent,
        },
    };
    Member { kind, selector }
}

fn label_selector(from: &meta::LabelSelector) -> LabelSelector {
    let expressions = from.match_expressions.iter().flatten().map(|expression| LabelRequirement {
        key: expression.key.clone(),
        operator: match expression.operator.as_str() {
            "In" => LabelOperator::In,
            "NotIn" => LabelOperator::NotIn,
            "Exists" => LabelOperator::Exists,
            "DoesNotExist" => LabelOperator::DoesNotExist,
            other => LabelOperator::Unknown(other.to_owned()),
        },
        values: expression.values.clone().unwrap_or_default(),
    });
    LabelSelector {
        match_labels: from.match_labels.clone().unwrap_or_default(),
        match_expressions: expressions.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn odd_objects_of_others_have_a_model() {
        let odd = json!({"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": "o"},
            "spec": {"tier": 0, "members": [{"type": "Node"}, {"type": "HyperNode", "selector": {"labelMatch": {"matchExpressions": [{"key": "a", "operator": "Odd"}]}}}]}});
        let read = object(&serde_json::from_value(odd).expect("an object that the API server accepts"));
        assert_eq!((read.spec.tier, &*read.uid), (0, NEVER_STORED));
        assert!(matches!(read.spec.members[0].selector, Selector::Absent));
        assert_eq!(read.source, None);
    }
}
