//! Between the HyperNode of the API and the model that decisions are made on.
//!
//! Reading is total: everything that the API server accepted has a model, `cluster::hyper_nodes` makes it. Writing makes the
//! body of one server-side apply with exactly the fields that are ours.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use topoloom_api::hyper_node;
use topoloom_api::names::{DESCRIPTION_ANNOTATION, GROUP_ID_ANNOTATION, SOURCE_LABEL, SPLIT_FROM_ANNOTATION};
use topoloom_core::names::{SourceName, Uid};
use topoloom_core::topology::{LabelOperator, LabelSelector, Member, MemberKind, Selector, Spec};
use topoloom_core::version::ResourceVersion;

pub(super) use crate::cluster::hyper_nodes::uid;
pub use crate::cluster::hyper_nodes::{object, spec};

/// The object that a write is about, as the decision saw it.
#[derive(Debug, Clone)]
pub struct Precondition {
    /// `metadata.uid`; `None` for an object that does not exist yet.
    pub uid: Option<Uid>,
    /// `metadata.resourceVersion`.
    pub version: ResourceVersion,
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
    use topoloom_core::topology::{LabelRequirement, Object};

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
}
