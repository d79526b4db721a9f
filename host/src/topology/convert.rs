//! Between the HyperNode of the API and the model that decisions are made on.
//!
//! Reading is total: everything that the API server accepted has a model. Writing makes the body of one server-side
//! apply with exactly the fields that are ours.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use serde_json::{Value, json};
use topoloom_api::hyper_node::{self, HyperNode, MemberType};
use topoloom_api::names::{
    DESCRIPTION_ANNOTATION, FIELD_MANAGER, GROUP_ID_ANNOTATION, SOURCE_LABEL, SPLIT_FROM_ANNOTATION,
};
use topoloom_core::names::{SourceName, Uid};
use topoloom_core::topology::{
    LabelOperator, LabelRequirement, LabelSelector, Member, MemberKind, Object, Selector, Spec,
};
use topoloom_core::version::ResourceVersion;

/// The UID of an object in a document that was never in a cluster. A write that carries it is refused: no stored object has it,
/// and an empty UID would be no precondition at all.
const NEVER_STORED: &str = "never-stored";

/// The UID in the metadata of an object.
pub(super) fn uid(metadata: &meta::ObjectMeta) -> Uid {
    metadata.uid.as_deref().filter(|uid| !uid.is_empty()).unwrap_or(NEVER_STORED).into()
}

/// The object that a write is about, as the decision saw it.
#[derive(Debug, Clone)]
pub struct Precondition {
    /// `metadata.uid`; `None` for an object that does not exist yet.
    pub uid: Option<Uid>,
    /// `metadata.resourceVersion`.
    pub version: ResourceVersion,
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

/// The members of a spec as the API has them.
#[must_use]
pub fn members_json(spec: &Spec) -> Value {
    spec.members.iter().map(member_json).collect()
}

fn member_json(member: &Member) -> Value {
    let kind = match member.kind {
        MemberKind::Node => "Node",
        MemberKind::HyperNode => "HyperNode",
    };
    match &member.selector {
        Selector::Exact(name) => json!({"type": kind, "selector": {"exactMatch": {"name": &**name}}}),
        Selector::Regex(pattern) => json!({"type": kind, "selector": {"regexMatch": {"pattern": &**pattern}}}),
        Selector::Labels(labels) => json!({"type": kind, "selector": {"labelMatch": labels_json(labels)}}),
        Selector::Absent => json!({"type": kind}),
    }
}

fn labels_json(selector: &LabelSelector) -> Value {
    let mut body = serde_json::Map::new();
    if !selector.match_labels.is_empty() {
        body.insert("matchLabels".into(), json!(selector.match_labels));
    }
    if !selector.match_expressions.is_empty() {
        let expressions = selector.match_expressions.iter().map(|requirement| {
            let operator = match &requirement.operator {
                LabelOperator::In => "In",
                LabelOperator::NotIn => "NotIn",
                LabelOperator::Exists => "Exists",
                LabelOperator::DoesNotExist => "DoesNotExist",
                LabelOperator::Unknown(other) => other,
            };
            match requirement.values.is_empty() {
                true => json!({"key": requirement.key, "operator": operator}),
                false => json!({"key": requirement.key, "operator": operator, "values": requirement.values}),
            }
        });
        body.insert("matchExpressions".into(), expressions.collect());
    }
    Value::Object(body)
}

/// What an object of ours should be, in terms of the API.
#[derive(Debug, Clone, Copy)]
pub struct WantedObject<'a> {
    /// `metadata.name`.
    pub name: &'a str,
    /// The owning source.
    pub source: &'a SourceName,
    /// The group's identity.
    pub group_id: Option<&'a str>,
    /// The object whose Nodes this one was first made of.
    pub split_from: Option<&'a str>,
    /// What people call it.
    pub description: Option<&'a str>,
    /// Labels beside the source label.
    pub labels: &'a BTreeMap<Arc<str>, Arc<str>>,
    /// The spec.
    pub spec: &'a Spec,
}

/// The body of a server-side apply: exactly our fields, and the precondition in the metadata.
#[must_use]
pub fn apply_body(wanted: WantedObject<'_>, precondition: Option<&Precondition>) -> Value {
    let mut labels: BTreeMap<&str, &str> = wanted.labels.iter().map(|(key, value)| (&**key, &**value)).collect();
    labels.insert(SOURCE_LABEL, wanted.source);
    let mut metadata = json!({
        "name": wanted.name,
        "labels": labels,
    });
    let annotations = [
        (GROUP_ID_ANNOTATION, wanted.group_id),
        (SPLIT_FROM_ANNOTATION, wanted.split_from),
        (DESCRIPTION_ANNOTATION, wanted.description),
    ];
    let annotations: BTreeMap<&str, &str> =
        annotations.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
    if let (Some(metadata), false) = (metadata.as_object_mut(), annotations.is_empty()) {
        metadata.insert("annotations".into(), json!(annotations));
    }
    let mut spec = json!({"tier": wanted.spec.tier, "members": members_json(wanted.spec)});
    if let (Some(spec), Some(name)) = (spec.as_object_mut(), &wanted.spec.tier_name) {
        spec.insert("tierName".into(), json!(&**name));
    }
    if let (Some(metadata), Some(Precondition { uid, version })) = (metadata.as_object_mut(), precondition) {
        if let Some(uid) = uid {
            metadata.insert("uid".into(), json!(&**uid));
        }
        metadata.insert("resourceVersion".into(), json!(&**version));
    }
    json!({"apiVersion": hyper_node::API_VERSION, "kind": hyper_node::KIND, "metadata": metadata, "spec": spec})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: Value) -> Object {
        object(&serde_json::from_value(value).expect("an object that the API server accepts"))
    }

    #[test]
    fn what_we_write_reads_back_as_what_we_wanted() {
        let spec = Spec {
            tier: 2,
            tier_name: Some("spine".into()),
            members: vec![
                Member::hyper_node("a".into()),
                Member { kind: MemberKind::Node, selector: Selector::Regex("^n".into()) },
                Member {
                    kind: MemberKind::Node,
                    selector: Selector::Labels(LabelSelector {
                        match_labels: BTreeMap::from([("k".into(), "v".into())]),
                        match_expressions: vec![LabelRequirement {
                            key: "e".into(),
                            operator: LabelOperator::Exists,
                            values: vec![],
                        }],
                    }),
                },
            ],
        };
        let labels = BTreeMap::from([(Arc::from("ex.io/rack"), Arc::from("7"))]);
        let wanted = WantedObject {
            name: "x",
            source: &"label".parse().unwrap(),
            group_id: Some("id"),
            split_from: None,
            description: Some("its switches"),
            labels: &labels,
            spec: &spec,
        };
        let of = Precondition { uid: Some("u".into()), version: "5".into() };
        let read = read(apply_body(wanted, Some(&of)));
        assert_eq!(read.spec, spec);
        assert_eq!(read.labels, labels);
        assert_eq!(read.source.as_deref(), Some("label"));
        assert_eq!((read.group_id.as_deref(), read.description.as_deref()), (Some("id"), Some("its switches")));
        assert_eq!((&*read.uid, &*read.resource_version), ("u", "5"));
    }

    #[test]
    fn odd_objects_of_others_have_a_model() {
        let odd = json!({"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": "o"},
            "spec": {"tier": 0, "members": [{"type": "Node"}, {"type": "HyperNode", "selector": {"labelMatch": {"matchExpressions": [{"key": "a", "operator": "Odd"}]}}}]}});
        let read = read(odd);
        assert_eq!((read.spec.tier, &*read.uid), (0, NEVER_STORED));
        assert!(matches!(read.spec.members[0].selector, Selector::Absent));
        assert_eq!(read.source, None);
    }
}
