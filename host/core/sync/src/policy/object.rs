//! One policy of a cluster: what of it may be applied, and which nodes it selects (decisions D5, S7, S8).
//!
//! Owns the step from an object to what counts of it. A valid spec counts. An invalid one is replaced by the last valid
//! spec, which stands in `status.lastValid`; one that was never valid applies to no node, and keeps the nodes that it selects
//! from being lent without a policy.

use std::cmp::Reverse;
use std::fmt;

use jiff::Timestamp;

use super::announced::Announced;
use super::spec::PolicySpec;
use super::terms::PolicyTerms;
use super::validate::{PolicyProblem, PolicyProblems, validate};
use crate::selector::NodeSelector;
use crate::texts::Keyed;
use topoloom_core::names::Uid;

/// What matters of a policy object. The conversion from the object says what is not known as it is safe: a selector that cannot
/// be read is one that cannot be understood, and a binding that cannot be read could be any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyObject {
    /// Its name, unique in its cluster.
    pub name: String,
    /// Its UID.
    pub uid: Uid,
    /// `metadata.generation`.
    pub generation: i64,
    /// When it was created. What has no date was not created yet, and is the youngest.
    pub created: Option<Timestamp>,
    /// It has a deletionTimestamp: it counts no more.
    pub deleting: bool,
    /// Its spec; of one that cannot be read, what can be.
    pub spec: PolicySpec,
    /// Why its spec cannot be read, if so.
    pub unreadable: Option<String>,
    /// `status.lastValid`.
    pub last_valid: Option<PolicySpec>,
    /// What its status announces.
    pub announced: Announced,
}

/// A policy object that was judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    object: PolicyObject,
    judgement: Judgement,
    /// The selector of the present spec; `None` where it is malformed.
    present: Option<NodeSelector>,
    rank: Rank,
}

/// What of a policy may be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// Its spec.
    Valid(PolicyTerms),
    /// The last spec that was valid. The present one is not.
    LastValid {
        /// What applies.
        terms: PolicyTerms,
        /// What is wrong with the present spec.
        problems: PolicyProblems,
    },
    /// Nothing. No valid spec of it is known.
    NeverValid {
        /// What is wrong with the present spec.
        problems: PolicyProblems,
    },
}

/// The place of a policy among others: priority, then age, then name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    priority: Reverse<i32>,
    age: Age,
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Age {
    Since(Timestamp),
    New,
}

/// What a policy means for a node of a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Its terms select the node.
    Applies,
    /// Its terms do not, or it has none, and its present spec, which is invalid, selects the node.
    Closes,
    /// It is not for that node.
    Passes,
}

impl Policy {
    /// Judges an object.
    #[must_use]
    pub fn new(object: PolicyObject) -> Self {
        let validated = match &object.unreadable {
            None => validate(&object.spec),
            Some(why) => Err(PolicyProblems { kept: vec![PolicyProblem::Unreadable(why.clone())], more: 0 }),
        };
        let judgement = match validated {
            Ok(terms) => Judgement::Valid(terms),
            Err(problems) => match object.last_valid.as_ref().and_then(|last| validate(last).ok()) {
                Some(terms) => Judgement::LastValid { terms, problems },
                None => Judgement::NeverValid { problems },
            },
        };
        let present = object.spec.node_selector.as_ref();
        let present = present.map_or_else(|| Some(NodeSelector::default()), |raw| NodeSelector::parse(raw).ok());
        let priority = judgement.terms().map_or(object.spec.priority, |terms| terms.priority);
        let age = object.created.map_or(Age::New, Age::Since);
        let rank = Rank { priority: Reverse(priority), age, name: object.name.clone() };
        Self { object, judgement, present, rank }
    }

    /// The object.
    #[must_use]
    pub fn object(&self) -> &PolicyObject {
        &self.object
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.object.name
    }

    /// What of it may be applied.
    #[must_use]
    pub fn judgement(&self) -> &Judgement {
        &self.judgement
    }

    /// What applies, if anything.
    #[must_use]
    pub fn terms(&self) -> Option<&PolicyTerms> {
        self.judgement.terms()
    }

    pub(super) fn rank(&self) -> &Rank {
        &self.rank
    }

    /// The bindings of a virtual cluster that have to look at it: the one of its terms, and the one that its present spec
    /// names.
    pub(super) fn bindings<'a>(&'a self, virtual_cluster: &'a str) -> impl Iterator<Item = &'a str> {
        let of_terms = self.terms().map(|terms| terms.cluster.as_str());
        let of_spec = Some(self.object.spec.cluster.as_str()).filter(|present| Some(*present) != of_terms);
        let all = [of_terms, of_spec].into_iter().flatten();
        all.filter(move |binding| self.is_for(binding, virtual_cluster))
    }

    /// Whether a binding has to look at it: its terms are for that binding, or its present spec is.
    #[must_use]
    pub fn is_for(&self, binding: &str, virtual_cluster: &str) -> bool {
        self.applies_to(binding, virtual_cluster) || self.names(binding, virtual_cluster)
    }

    /// Whether the same policy is in force on each node under both, with the same terms. What only the status says may differ.
    #[must_use]
    pub fn decides_as(&self, other: &Self) -> bool {
        self.object.deleting == other.object.deleting
            && self.object.spec == other.object.spec
            && self.judgement == other.judgement
            && self.present == other.present
            && self.rank == other.rank
    }

    /// What it means for a node that the selector of the binding selects.
    pub(super) fn reach(&self, binding: &str, virtual_cluster: &str, node: &str, labels: &dyn Keyed) -> Reach {
        let terms = self.terms().filter(|terms| terms.is_for(binding, virtual_cluster));
        if self.object.deleting {
            Reach::Passes
        } else if terms.is_some_and(|terms| terms.selector.matches(node, labels)) {
            Reach::Applies
        } else if self.judgement.problems().is_some()
            && self.names(binding, virtual_cluster)
            // Nothing is known of what a malformed selector was to select, so it is every node.
            && self.present.as_ref().is_none_or(|selector| selector.matches(node, labels))
        {
            Reach::Closes
        } else {
            Reach::Passes
        }
    }

    /// Whether it matters for a node of a binding: it could be in force there, or keeps the node from being lent without a
    /// policy. After a change every node for which the old or the new one says yes has to be looked at.
    #[must_use]
    pub fn concerns(&self, binding: &str, virtual_cluster: &str, node: &str, labels: &dyn Keyed) -> bool {
        self.reach(binding, virtual_cluster, node, labels) != Reach::Passes
    }

    fn applies_to(&self, binding: &str, virtual_cluster: &str) -> bool {
        self.terms().is_some_and(|terms| terms.is_for(binding, virtual_cluster))
    }

    /// Whether its present spec, valid or not, is for a binding: that binding's syncer writes its status.
    #[must_use]
    pub fn names(&self, binding: &str, virtual_cluster: &str) -> bool {
        self.object.spec.whom().is(binding, virtual_cluster)
    }
}

impl Judgement {
    /// What applies, if anything.
    #[must_use]
    pub fn terms(&self) -> Option<&PolicyTerms> {
        match self {
            Self::Valid(terms) | Self::LastValid { terms, .. } => Some(terms),
            Self::NeverValid { .. } => None,
        }
    }

    /// What is wrong with the present spec, if anything.
    #[must_use]
    pub fn problems(&self) -> Option<&PolicyProblems> {
        match self {
            Self::Valid(_) => None,
            Self::LastValid { problems, .. } | Self::NeverValid { problems } => Some(problems),
        }
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Valid(_) => f.write_str("valid"),
            Self::LastValid { problems, .. } => {
                write!(f, "invalid, so its last valid version stays in force: {problems}")
            }
            Self::NeverValid { problems } => {
                write!(f, "invalid, and no valid version of it is known, so it is not applied: {problems}")
            }
        }
    }
}
