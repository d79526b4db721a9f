//! Everything that can be wrong with an answer, and the message for it.

use std::fmt;
use std::sync::Arc;

use crate::names::NodeName;
use crate::rules;

/// How many violations are listed; the rest are counted.
pub(super) const LISTED: usize = 100;

/// Everything that is wrong with an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Violations {
    /// The first of them, in the order of the groups.
    pub listed: Vec<Violation>,
    /// How many more there are.
    pub more: usize,
}

impl Violations {
    pub(super) fn push(&mut self, group: Option<&Arc<str>>, problem: BrokenRule) {
        if self.listed.len() < LISTED {
            self.listed.push(Violation { group: group.map(Arc::clone), problem });
        } else {
            self.more += 1;
        }
    }

    /// How many there are.
    #[must_use]
    pub fn total(&self) -> usize {
        self.listed.len() + self.more
    }
}

impl std::error::Error for Violations {}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, violation) in self.listed.iter().enumerate() {
            if at > 0 {
                f.write_str("; ")?;
            }
            violation.fmt(f)?;
        }
        if self.more > 0 {
            write!(f, "; and {} more", self.more)?;
        }
        Ok(())
    }
}

/// One rule that an answer breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The id of the group; `None` when it is about the answer as a whole.
    pub group: Option<Arc<str>>,
    /// What is wrong.
    pub problem: BrokenRule,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.group {
            Some(id) => write!(f, "group {}: {}", Short(id), self.problem),
            None => self.problem.fmt(f),
        }
    }
}

/// A text from a guest, shortened for a message.
struct Short<'a>(&'a str);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.char_indices().nth(80).map(|(at, _)| at);
        match end.and_then(|end| self.0.get(..end)) {
            Some(head) => write!(f, "{head:?}…"),
            None => write!(f, "{:?}", self.0),
        }
    }
}

/// A rule and how it is broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrokenRule {
    /// More groups than so many nodes can need.
    #[error("{is} groups for {nodes} nodes, at most {max} are allowed (twice the nodes plus 100)")]
    TooManyGroups {
        /// Groups in the answer.
        is: usize,
        /// Rows of the snapshot.
        nodes: usize,
        /// The limit.
        max: usize,
    },
    /// The id is empty or too long.
    #[error("the id of the group at position {at} is {is} bytes long, 1 to {max} are allowed")]
    Id {
        /// Position in the answer.
        at: usize,
        /// Length in bytes.
        is: usize,
        /// The limit.
        max: usize,
    },
    /// Two groups have one id.
    #[error("the id is used by an earlier group of this answer")]
    IdTwice,
    /// The tier is out of range.
    #[error("{0}")]
    Tier(rules::Error),
    /// The kind cannot be part of a name.
    #[error("kind: {0}")]
    Kind(rules::Error),
    /// The fixed name is no object name.
    #[error("fixed name {name}: {rule}", name = Short(.name))]
    FixedName {
        /// The name.
        name: Arc<str>,
        /// The rule.
        rule: rules::Error,
    },
    /// Two groups have one fixed name.
    #[error("fixed name {0:?} is used by an earlier group of this answer")]
    FixedNameTwice(Arc<str>),
    /// The tier name is too long.
    #[error("the tier name is {is} bytes long, at most {max} are allowed")]
    TierNameLength {
        /// Length in bytes.
        is: usize,
        /// The limit.
        max: usize,
    },
    /// One tier name for two tiers.
    #[error("tier name {name:?} means tier {tier} here and tier {other} in group {group}", group = Short(.group))]
    TierNameTwice {
        /// The name.
        name: Arc<str>,
        /// The tier of this group.
        tier: u32,
        /// The tier that an earlier group uses it for.
        other: u32,
        /// The group that used it first.
        group: Arc<str>,
    },
    /// A label key is illegal.
    #[error("label key {key}: {rule}", key = Short(.key))]
    LabelKey {
        /// The key.
        key: Arc<str>,
        /// The rule.
        rule: rules::Error,
    },
    /// A label value is illegal.
    #[error("value {value} of label {key}: {rule}", value = Short(.value), key = Short(.key))]
    LabelValue {
        /// The key.
        key: Arc<str>,
        /// The value.
        value: Arc<str>,
        /// The rule.
        rule: rules::Error,
    },
    /// A label key is given twice.
    #[error("label {key} is given twice", key = Short(.0))]
    LabelTwice(Arc<str>),
    /// A label that only the host writes.
    #[error("label {0:?} is written by the host alone")]
    LabelReserved(Arc<str>),
    /// The group has no members.
    #[error("the group has no members")]
    Empty,
    /// A row that does not exist.
    #[error("row {row} does not exist, the snapshot has {nodes} rows")]
    Row {
        /// The row.
        row: u32,
        /// Rows of the snapshot.
        nodes: usize,
    },
    /// A row is listed twice.
    #[error("row {0} is a member twice")]
    RowTwice(u32),
    /// A member name that no Node can have.
    #[error("member {name}: {rule}", name = Short(.name))]
    Name {
        /// The name.
        name: NodeName,
        /// The rule.
        rule: rules::Error,
    },
    /// A group reference to a position that does not exist.
    #[error("member group {at} does not exist, the answer has {groups} groups")]
    Reference {
        /// The position.
        at: u32,
        /// Groups in the answer.
        groups: usize,
    },
    /// A group is listed twice.
    #[error("group {child} is a member twice", child = Short(.0))]
    ReferenceTwice(Arc<str>),
    /// A child that is not below its parent.
    #[error("member group {child} has tier {tier}, which is not below {parent}", child = Short(.child))]
    NotBelow {
        /// The child.
        child: Arc<str>,
        /// Its tier.
        tier: u32,
        /// The tier of the group.
        parent: u32,
    },
    /// A child with two parents.
    #[error("member group {child} has two parents: it is already a member of group {parent}", child = Short(.child), parent = Short(.parent))]
    TwoParents {
        /// The child.
        child: Arc<str>,
        /// Its other parent.
        parent: Arc<str>,
    },
    /// A selector that selects nothing or cannot be read.
    #[error("selector: {0}")]
    Selector(SelectorProblem),
    /// An object that is too large for the API server.
    #[error(
        "{members} members make an object of about {bytes} bytes, at most {max} fit: split the group, or select its \
         nodes by a label"
    )]
    TooLarge {
        /// Members.
        members: usize,
        /// Estimated size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// A diagnostic that cannot be counted.
    #[error("diagnostic code {code}: 1 to 64 of a-z, 0-9 and '-' are allowed", code = Short(.0))]
    Code(Arc<str>),
    /// A diagnostic about a row that does not exist.
    #[error("a diagnostic names row {row}, the snapshot has {nodes} rows")]
    DiagnosticRow {
        /// The row.
        row: u32,
        /// Rows of the snapshot.
        nodes: usize,
    },
    /// A diagnostic about a group that does not exist.
    #[error("a diagnostic names group {at}, the answer has {groups} groups")]
    DiagnosticGroup {
        /// The position.
        at: u32,
        /// Groups in the answer.
        groups: usize,
    },
}

/// What is wrong with a selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorProblem {
    /// It has no requirement, so it selects nothing.
    #[error("it is empty and would select nothing")]
    Empty,
    /// A key is illegal.
    #[error("key {key}: {rule}", key = Short(.key))]
    Key {
        /// The key.
        key: String,
        /// The rule.
        rule: rules::Error,
    },
    /// A value is illegal.
    #[error("value {value} of {key}: {rule}", value = Short(.value), key = Short(.key))]
    Value {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// The rule.
        rule: rules::Error,
    },
    /// An operator that Kubernetes does not have.
    #[error("operator {} is none of In, NotIn, Exists, DoesNotExist", Short(.0))]
    Operator(String),
    /// In and NotIn need values, the others must not have any.
    #[error("key {}: In and NotIn need at least one value, Exists and DoesNotExist must have none", Short(.0))]
    Values(String),
}
