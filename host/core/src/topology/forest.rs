//! A checked answer: domains that form a forest, by construction.
//!
//! Only `validate` and `merge` make a [`Forest`]. So every `Forest` has these properties: each domain has a member,
//! children are at existing positions and have a strictly lower tier, no child has two parents, names and labels are
//! legal, and one tier name belongs to one tier. Domains are sorted by tier and id, Node names inside them by bytes.

mod overlaps;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::model::{Coverage, Member, MemberKind, Selector};
use super::select::Chooser;
use crate::names::NodeName;
use crate::rules::{Kind, Tier};
use crate::snapshot::ColumnKey;

/// A valid topology of one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forest {
    pub(super) coverage: Coverage,
    pub(super) domains: Vec<Domain>,
    pub(super) findings: Vec<Finding>,
    pub(super) overlaps: Overlaps,
}

/// One group of nodes that are close to each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// The discoverer's identity for it.
    pub id: Arc<str>,
    /// The "type" in a generated name.
    pub kind: Kind,
    /// The object's name where the discoverer fixes it (`compat: volcano`).
    pub fixed_name: Option<Arc<str>>,
    /// A description for people.
    pub description: Option<Arc<str>>,
    /// The distance class.
    pub tier: Tier,
    /// The name of that class for users.
    pub tier_name: Option<Arc<str>>,
    /// Labels that the object carries beside its source label.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Nodes directly in it, sorted and distinct.
    pub nodes: Vec<NodeName>,
    /// Domains directly in it, as ascending positions in [`Forest::domains`].
    pub children: Vec<usize>,
    /// Nodes in it by selector, sorted and distinct.
    pub selectors: Vec<Selector>,
    /// Where it comes from.
    pub origin: DomainOrigin,
}

/// Where a domain comes from, and whether it is already known which stored object it continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DomainOrigin {
    /// The discoverer's answer; naming finds its object.
    Answer,
    /// The discoverer's answer; merging found that it continues the stored object of this name.
    Continued(Arc<str>),
    /// Not in the answer: the stored object of this name, kept because the answer only adds (decision H13).
    Kept(Arc<str>),
}

/// A record that the discoverer dropped or corrected, with rows turned into names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// A short stable word, for counting.
    pub code: Arc<str>,
    /// What it is about.
    pub subject: FindingSubject,
    /// A sentence for a person.
    pub detail: String,
}

/// What a [`Finding`] is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FindingSubject {
    /// The answer as a whole.
    Source,
    /// Nodes.
    Nodes(Vec<NodeName>),
    /// The group of that id.
    Group(Arc<str>),
    /// Something outside the cluster.
    Name(String),
}

/// Nodes that are direct members of two or more domains of one tier. That is allowed, but the scheduler picks one of
/// the domains arbitrarily, so it is reported (decision H15).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overlaps {
    /// The first of them, sorted by tier and Node.
    pub examples: Vec<Overlap>,
    /// How many there are.
    pub total: usize,
}

/// One Node in several domains of one tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlap {
    /// The tier.
    pub tier: Tier,
    /// The Node.
    pub node: NodeName,
    /// Ids of the domains, sorted.
    pub groups: Vec<Arc<str>>,
}

/// The short name of a result: what an operator confirms (decision H6). Equal results have equal hashes; object names
/// are not part of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResultHash(Arc<str>);

impl ResultHash {
    /// The text, 12 hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ResultHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Forest {
    /// Whether what the answer does not mention is gone.
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        self.coverage
    }

    /// All domains, sorted by tier and id.
    #[must_use]
    pub fn domains(&self) -> &[Domain] {
        &self.domains
    }

    /// What the discoverer dropped or corrected.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Nodes in several domains of one tier.
    #[must_use]
    pub fn overlaps(&self) -> &Overlaps {
        &self.overlaps
    }

    /// The names of all Nodes that are direct members of some domain.
    #[must_use]
    pub fn nodes(&self) -> BTreeSet<&NodeName> {
        self.domains.iter().flat_map(|domain| &domain.nodes).collect()
    }

    /// The label columns that its selectors read: the counter of Nodes needs these columns.
    #[must_use]
    pub fn selector_keys(&self) -> BTreeSet<ColumnKey> {
        let selectors = self.domains.iter().flat_map(|domain| &domain.selectors);
        let choosers = selectors
            .filter_map(|selector| Chooser::of(&Member { kind: MemberKind::Node, selector: selector.clone() }));
        choosers.flat_map(|chooser| chooser.keys().cloned().collect::<Vec<_>>()).collect()
    }

    /// Per domain, the position of its parent.
    pub(super) fn parents(&self) -> Vec<Option<usize>> {
        let mut parents = vec![None; self.domains.len()];
        for (at, domain) in self.domains.iter().enumerate() {
            for child in &domain.children {
                if let Some(parent) = parents.get_mut(*child) {
                    *parent = Some(at);
                }
            }
        }
        parents
    }

    /// The short name of the content.
    #[must_use]
    pub fn hash(&self) -> ResultHash {
        ResultHash(super::canonical::short_hash(&self.domains).into())
    }
}
