//! Everything that can be wrong with an answer, and the message for it.
//!
//! Each rule has a word, and that word is an anchor on the page for authors (`wit/README.md`). `{:#}` prints it behind the
//! sentence: an author can look it up, and a status of the host has no room for it.

use std::fmt;

use super::names;

/// How many violations are listed; the rest are counted.
const LISTED: usize = 100;
/// The page that explains the rules.
const PAGE: &str = "wit/README.md";
/// Labels that the selectors of one answer read at most: each is a column over all nodes, kept for as long as the objects
/// are stored.
pub const SELECTOR_KEYS: usize = 64;

/// Why an answer is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unacceptable {
    /// It breaks rules of topologies: all of them.
    Invalid(Violations),
    /// Its selectors would need too many columns.
    Selectors {
        /// Labels that they read.
        keys: usize,
    },
}

impl fmt::Display for Unacceptable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(violations) => {
                f.write_str("the topology is not valid: ")?;
                violations.fmt(f)
            }
            Self::Selectors { keys } => {
                write!(f, "its selectors read {keys} different labels and may read {SELECTOR_KEYS}")?;
                anchor(f, "selector-keys")
            }
        }
    }
}

impl std::error::Error for Unacceptable {}

/// Where the page explains a rule, for the alternate form of a message.
fn anchor(f: &mut fmt::Formatter<'_>, word: &str) -> fmt::Result {
    if f.alternate() { write!(f, " ({PAGE}#rule-{word})") } else { Ok(()) }
}

/// Everything that is wrong with an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Violations {
    /// The first of them, in the order of the groups.
    pub listed: Vec<Violation>,
    /// How many more there are.
    pub more: usize,
}

impl Violations {
    /// Adds one. Its texts are copied only if it is listed.
    pub(super) fn push(&mut self, group: Option<&str>, problem: impl FnOnce() -> BrokenRule) {
        if self.listed.len() < LISTED {
            self.listed.push(Violation { group: group.map(str::to_owned), problem: problem() });
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
    pub group: Option<String>,
    /// What is wrong.
    pub problem: BrokenRule,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(id) = &self.group {
            write!(f, "group {}: ", Short(id))?;
        }
        write!(f, "{}", self.problem)?;
        anchor(f, self.problem.word())
    }
}

/// A text from a guest, shortened for a message.
pub(super) struct Short<'a>(pub(super) &'a str);

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BrokenRule {
    /// More groups than so many nodes can need.
    TooManyGroups {
        /// Groups in the answer.
        is: usize,
        /// Rows of the snapshot.
        nodes: usize,
        /// The limit.
        max: usize,
    },
    /// The id is empty or too long.
    Id {
        /// Position in the answer.
        at: usize,
        /// Length in bytes.
        is: usize,
        /// The limit.
        max: usize,
    },
    /// Two groups have one id.
    IdTwice,
    /// The tier is out of range.
    Tier(names::Error),
    /// The kind cannot be part of a name.
    Kind(names::Error),
    /// The fixed name is no object name.
    FixedName {
        /// The name.
        name: String,
        /// The rule.
        rule: names::Error,
    },
    /// Two groups have one fixed name.
    FixedNameTwice(String),
    /// The tier name is too long.
    TierNameLength {
        /// Length in bytes.
        is: usize,
        /// The limit.
        max: usize,
    },
    /// One tier name for two tiers.
    TierNameTwice {
        /// The name.
        name: String,
        /// The tier of this group.
        tier: u32,
        /// The tier that an earlier group uses it for.
        other: u32,
        /// The group that used it first.
        group: String,
    },
    /// A label key is illegal.
    LabelKey {
        /// The key.
        key: String,
        /// The rule.
        rule: names::Error,
    },
    /// A label value is illegal.
    LabelValue {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// The rule.
        rule: names::Error,
    },
    /// A label key is given twice.
    LabelTwice(String),
    /// A label that only the host writes.
    LabelReserved(String),
    /// The group has no members.
    Empty,
    /// A row that does not exist.
    Row {
        /// The row.
        row: u32,
        /// Rows of the snapshot.
        nodes: usize,
    },
    /// A row is listed twice.
    RowTwice(u32),
    /// A member name that no Node can have.
    Name {
        /// The name.
        name: String,
        /// The rule.
        rule: names::Error,
    },
    /// A group reference to a position that does not exist.
    Reference {
        /// The position.
        at: u32,
        /// Groups in the answer.
        groups: usize,
    },
    /// A group is listed twice.
    ReferenceTwice(String),
    /// A child that is not below its parent.
    NotBelow {
        /// The child.
        child: String,
        /// Its tier.
        tier: u32,
        /// The tier of the group.
        parent: u32,
    },
    /// A child with two parents.
    TwoParents {
        /// The child.
        child: String,
        /// Its other parent.
        parent: String,
    },
    /// A selector that selects nothing or cannot be read.
    Selector(SelectorProblem),
    /// An object that is too large for the API server.
    TooLarge {
        /// Members.
        members: usize,
        /// Estimated size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// A diagnostic that cannot be counted.
    Code(String),
    /// A diagnostic about a row that does not exist.
    DiagnosticRow {
        /// The row.
        row: u32,
        /// Rows of the snapshot.
        nodes: usize,
    },
    /// A diagnostic about a group that does not exist.
    DiagnosticGroup {
        /// The position.
        at: u32,
        /// Groups in the answer.
        groups: usize,
    },
}

impl BrokenRule {
    /// The rules in words, from a closed set: each is an anchor on the page for authors.
    pub const WORDS: [&'static str; 18] = [
        "groups",
        "id",
        "id-twice",
        "tier",
        "kind",
        "fixed-name",
        "tier-name",
        "label",
        "label-reserved",
        "empty",
        "row",
        "name",
        "reference",
        "below",
        "parents",
        "selector",
        "size",
        "diagnostic",
    ];

    /// The rule in a word.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::TooManyGroups { .. } => "groups",
            Self::Id { .. } => "id",
            Self::IdTwice => "id-twice",
            Self::Tier(_) => "tier",
            Self::Kind(_) => "kind",
            Self::FixedName { .. } | Self::FixedNameTwice(_) => "fixed-name",
            Self::TierNameLength { .. } | Self::TierNameTwice { .. } => "tier-name",
            Self::LabelKey { .. } | Self::LabelValue { .. } | Self::LabelTwice(_) => "label",
            Self::LabelReserved(_) => "label-reserved",
            Self::Empty => "empty",
            Self::Row { .. } | Self::RowTwice(_) => "row",
            Self::Name { .. } => "name",
            Self::Reference { .. } | Self::ReferenceTwice(_) => "reference",
            Self::NotBelow { .. } => "below",
            Self::TwoParents { .. } => "parents",
            Self::Selector(_) => "selector",
            Self::TooLarge { .. } => "size",
            Self::Code(_) | Self::DiagnosticRow { .. } | Self::DiagnosticGroup { .. } => "diagnostic",
        }
    }
}

impl fmt::Display for BrokenRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyGroups { is, nodes, max } => {
                write!(f, "{is} groups for {nodes} nodes, at most {max} are allowed (twice the nodes plus 100)")
            }
            Self::Id { at, is, max } => {
                write!(f, "the id of the group at position {at} is {is} bytes long, 1 to {max} are allowed")
            }
            Self::IdTwice => f.write_str("the id is used by an earlier group of this answer"),
            Self::Tier(rule) => rule.fmt(f),
            Self::Kind(rule) => write!(f, "kind: {rule}"),
            Self::FixedName { name, rule } => write!(f, "fixed name {}: {rule}", Short(name)),
            Self::FixedNameTwice(name) => write!(f, "fixed name {name:?} is used by an earlier group of this answer"),
            Self::TierNameLength { is, max } => {
                write!(f, "the tier name is {is} bytes long, at most {max} are allowed")
            }
            Self::TierNameTwice { name, tier, other, group } => {
                write!(f, "tier name {name:?} means tier {tier} here and tier {other} in group {}", Short(group))
            }
            Self::LabelKey { key, rule } => write!(f, "label key {}: {rule}", Short(key)),
            Self::LabelValue { key, value, rule } => {
                write!(f, "value {} of label {}: {rule}", Short(value), Short(key))
            }
            Self::LabelTwice(key) => write!(f, "label {} is given twice", Short(key)),
            Self::LabelReserved(key) => write!(f, "label {key:?} is written by the host alone"),
            Self::Empty => f.write_str("the group has no members"),
            Self::Row { row, nodes } => write!(f, "row {row} does not exist, the snapshot has {nodes} rows"),
            Self::RowTwice(row) => write!(f, "row {row} is a member twice"),
            Self::Name { name, rule } => write!(f, "member {}: {rule}", Short(name)),
            Self::Reference { at, groups } => {
                write!(f, "member group {at} does not exist, the answer has {groups} groups")
            }
            Self::ReferenceTwice(child) => write!(f, "group {} is a member twice", Short(child)),
            Self::NotBelow { child, tier, parent } => {
                write!(f, "member group {} has tier {tier}, which is not below {parent}", Short(child))
            }
            Self::TwoParents { child, parent } => {
                let (child, parent) = (Short(child), Short(parent));
                write!(f, "member group {child} has two parents: it is already a member of group {parent}")
            }
            Self::Selector(problem) => write!(f, "selector: {problem}"),
            Self::TooLarge { members, bytes, max } => write!(
                f,
                "{members} members make an object of about {bytes} bytes, at most {max} fit: split the group, or select \
                 its nodes by a label"
            ),
            Self::Code(code) => {
                write!(f, "diagnostic code {}: 1 to 64 of a-z, 0-9 and '-' are allowed", Short(code))
            }
            Self::DiagnosticRow { row, nodes } => {
                write!(f, "a diagnostic names row {row}, the snapshot has {nodes} rows")
            }
            Self::DiagnosticGroup { at, groups } => {
                write!(f, "a diagnostic names group {at}, the answer has {groups} groups")
            }
        }
    }
}

/// What is wrong with a selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SelectorProblem {
    /// It has no requirement, so it selects nothing.
    Empty,
    /// A key is illegal.
    Key {
        /// The key.
        key: String,
        /// The rule.
        rule: names::Error,
    },
    /// A value is illegal.
    Value {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// The rule.
        rule: names::Error,
    },
    /// An operator that Kubernetes does not have.
    Operator(String),
    /// In and NotIn need values, the others must not have any.
    Values(String),
}

impl fmt::Display for SelectorProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty and would select nothing"),
            Self::Key { key, rule } => write!(f, "key {}: {rule}", Short(key)),
            Self::Value { key, value, rule } => write!(f, "value {} of {}: {rule}", Short(value), Short(key)),
            Self::Operator(operator) => {
                write!(f, "operator {} is none of In, NotIn, Exists, DoesNotExist", Short(operator))
            }
            Self::Values(key) => {
                let rule = "In and NotIn need at least one value, Exists and DoesNotExist must have none";
                write!(f, "key {}: {rule}", Short(key))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alternate_form_says_where_the_rule_is_explained() {
        let mut violations = Violations::default();
        violations.push(Some("a"), || BrokenRule::Empty);
        violations.push(None, || BrokenRule::Code("A".into()));
        let refused = Unacceptable::Invalid(violations);
        assert_eq!(
            refused.to_string(),
            "the topology is not valid: group \"a\": the group has no members; diagnostic code \"A\": 1 to 64 of a-z, 0-9 \
             and '-' are allowed"
        );
        let shown = format!("{refused:#}");
        assert!(shown.contains("the group has no members (wit/README.md#rule-empty); diagnostic"), "{shown}");
        assert!(BrokenRule::WORDS.contains(&BrokenRule::Empty.word()));
    }
}
