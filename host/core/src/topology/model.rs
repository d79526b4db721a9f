//! The plain data of the topology rooms: what a discoverer answered and what the cluster holds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::names::{NodeName, SourceName, Uid};
use crate::version::ResourceVersion;

/// A discoverer's whole answer, decoded and not yet validated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// Whether what is not mentioned is gone.
    pub coverage: Coverage,
    /// The groups, in the discoverer's order; members refer to positions in this list.
    pub groups: Vec<Group>,
    /// One entry for every record that the discoverer dropped or corrected.
    pub diagnostics: Vec<Diagnostic>,
}

/// Whether an answer is about every node or only about those that it mentions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Coverage {
    /// What the answer does not mention does not exist.
    Complete,
    /// What the answer does not mention keeps its place (decision H13).
    AdditionsOnly,
}

/// One group of a discoverer's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Identity: unique among the groups of one source, stable between rounds, 1 to 512 bytes.
    pub id: Arc<str>,
    /// The "type" in a generated name; `None` means the source's name.
    pub kind: Option<Arc<str>>,
    /// The object's name, only for `compat: volcano`; `None` lets the host name the object.
    pub fixed_name: Option<Arc<str>>,
    /// A description for people, at most 256 bytes. `None`: the object keeps the description that it has.
    pub description: Option<Arc<str>>,
    /// Distance class, 1 (closest) to 16.
    pub tier: u32,
    /// The name of that tier for users, at most 253 bytes.
    pub tier_name: Option<Arc<str>>,
    /// Labels that the object carries beside its source label.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// What belongs to the group.
    pub members: Members,
}

/// The members of one group, in the form the discoverer chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Members {
    /// Nodes, as row numbers of the snapshot that the call was given.
    Rows(Vec<u32>),
    /// Groups of a lower tier, as positions in [`Topology::groups`].
    Groups(Vec<u32>),
    /// Nodes by name; they need not exist.
    Names(Vec<NodeName>),
    /// Nodes by their labels. Each reader of the HyperNode evaluates them.
    Selector(LabelSelector),
}

/// A Kubernetes label selector. An empty one selects nothing (`hypernode.md` 12).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LabelSelector {
    /// `key = value` pairs, all of which must hold.
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements, all of which must hold.
    pub match_expressions: Vec<LabelRequirement>,
}

/// One requirement of a [`LabelSelector`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelRequirement {
    /// The label key.
    pub key: String,
    /// How the values are compared.
    pub operator: LabelOperator,
    /// The values, in the order they were written.
    pub values: Vec<String>,
}

/// The operator of a [`LabelRequirement`]. The API server accepts any text there, so an unknown operator is kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LabelOperator {
    /// The value is one of the values.
    In,
    /// The value is none of the values, or the key is absent.
    NotIn,
    /// The key is present.
    Exists,
    /// The key is absent.
    DoesNotExist,
    /// Anything else: selects nothing, is written back as it was read.
    Unknown(String),
}

/// A record that a discoverer dropped or corrected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// A short stable word, for counting, `[a-z0-9-]`, at most 64 bytes.
    pub code: Arc<str>,
    /// What it is about.
    pub subject: Subject,
    /// A sentence for a person.
    pub detail: String,
}

/// What a [`Diagnostic`] is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// The answer as a whole.
    Source,
    /// Nodes, as row numbers of the snapshot that the call was given.
    Rows(Vec<u32>),
    /// A group, as position in [`Topology::groups`].
    Group(u32),
    /// Something outside the cluster, by its own name.
    Name(String),
}

/// A HyperNode as it was last observed in the cluster, no matter which program or person wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub resource_version: ResourceVersion,
    /// `metadata.creationTimestamp`, seconds since the epoch.
    pub created: i64,
    /// The source that owns it (label `volcano.sh/network-topology-source`); `None` also for an object that is being
    /// deleted.
    pub source: Option<SourceName>,
    /// The id of the group that it represents (annotation `topoloom.dev/group-id`); Volcano's objects have none.
    pub group_id: Option<Arc<str>>,
    /// The object whose Nodes this one was first made of (annotation `topoloom.dev/split-from`). While a domain is
    /// relabelled node by node it has two objects; this annotation decides which name survives (decision H3).
    pub split_from: Option<Arc<str>>,
    /// A description for people (annotation `topoloom.dev/description`).
    pub description: Option<Arc<str>>,
    /// All labels but the source label.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// The label keys that our field manager owns (from `managedFields`): what an apply without them would remove.
    pub owned_labels: BTreeSet<Arc<str>>,
    /// Those of them that another field manager owns too: an apply without them would leave them on the object.
    pub shared_labels: BTreeSet<Arc<str>>,
    /// The spec.
    pub spec: Spec,
}

/// The spec of a HyperNode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// The tier as stored: any number of at least 0, since other programs write HyperNodes too.
    pub tier: u32,
    /// The tier's name, if any.
    pub tier_name: Option<Arc<str>>,
    /// The members, in stored order.
    pub members: Vec<Member>,
}

/// One member of a HyperNode.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// What the selector selects.
    pub kind: MemberKind,
    /// Which of them.
    pub selector: Selector,
}

/// What a member's selector selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberKind {
    /// Kubernetes Nodes.
    Node,
    /// Other HyperNodes.
    HyperNode,
}

/// How a member says which Nodes or HyperNodes it means.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Selector {
    /// By name.
    Exact(Arc<str>),
    /// By a Go regular expression over the name.
    Regex(Arc<str>),
    /// By labels.
    Labels(LabelSelector),
    /// The member carries no selector at all; the CRD allows it (`hypernode.md` 2.1).
    Absent,
}

impl Member {
    /// The Node of that name.
    #[must_use]
    pub fn node(name: NodeName) -> Self {
        Self { kind: MemberKind::Node, selector: Selector::Exact(name.into()) }
    }

    /// The HyperNode of that name.
    #[must_use]
    pub fn hyper_node(name: Arc<str>) -> Self {
        Self { kind: MemberKind::HyperNode, selector: Selector::Exact(name) }
    }
}

impl Spec {
    /// The names of the HyperNodes that this spec lists as children. Exact members only: the scheduler reads no others.
    pub fn children(&self) -> impl Iterator<Item = &Arc<str>> {
        self.members.iter().filter_map(|member| match (member.kind, &member.selector) {
            (MemberKind::HyperNode, Selector::Exact(name)) => Some(name),
            _ => None,
        })
    }

    /// The names of the Nodes that this spec lists exactly, as they are stored.
    pub fn exact_nodes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.members.iter().filter_map(|member| match (member.kind, &member.selector) {
            (MemberKind::Node, Selector::Exact(name)) => Some(name),
            _ => None,
        })
    }
}
