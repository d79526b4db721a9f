//! Which nodes a policy or a binding selects: the NodeSelector of core/v1 (`bottomup-syncer.md` 6.3, decision S8).
//!
//! Owns the meaning of a selector, and the sentence why a node is not selected. A selector is parsed once. What cannot be
//! understood makes the whole selector invalid: a requirement with a typing error that silently selected no node would take
//! every lent node away, and one that selected all would lend what the lender keeps.
//!
//! Evaluation never fails and never costs more than the selector is long.

use std::collections::BTreeSet;
use std::fmt;

use topoloom_core::text;

use crate::texts::Keyed;

pub use self::parse::{RawNodeSelector, RawRequirement, RawTerm, RequirementError, RequirementProblem, SelectorError};

mod parse;

/// How many values and terms an explanation shows.
const SHOWN: usize = 5;

/// A valid selector. The default selects every node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeSelector {
    terms: Vec<Term>,
}

/// Requirements that must all hold. Without any it selects no node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Term {
    labels: Vec<LabelRequirement>,
    names: Vec<NameRequirement>,
}

/// What is required of one label.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LabelRequirement {
    key: String,
    test: LabelTest,
}

/// The test of a label's value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LabelTest {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
    Gt(i64),
    Lt(i64),
}

/// What is required of the name of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NameRequirement {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
}

/// Whether a selector selects a node, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// The selector has no terms, so it selects every node.
    Everything,
    /// This term holds, by its place; the first that does.
    Term(usize),
    /// No term holds.
    None {
        /// The first terms, each with what it requires and the node does not have.
        unmet: Vec<UnmetTerm>,
        /// How many more terms do not hold.
        more: usize,
    },
}

/// A term that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmetTerm {
    /// Its place in the selector.
    pub term: usize,
    /// The first requirement that is not met, and what the node has.
    pub why: String,
}

impl NodeSelector {
    /// Whether it selects a node of that name and with those labels.
    #[must_use]
    pub fn matches(&self, name: &str, labels: &dyn Keyed) -> bool {
        self.terms.is_empty() || self.terms.iter().any(|term| term.holds(name, labels))
    }

    /// Whether it selects a node, with the reason. Slower than [`matches`](Self::matches), and decides the same.
    #[must_use]
    pub fn explain(&self, name: &str, labels: &dyn Keyed) -> Selection {
        if self.terms.is_empty() {
            return Selection::Everything;
        }
        if let Some(term) = self.terms.iter().position(|term| term.holds(name, labels)) {
            return Selection::Term(term);
        }
        let shown = self.terms.iter().enumerate().take(SHOWN);
        let unmet = shown.map(|(index, term)| UnmetTerm { term: index, why: term.why_not(name, labels) }).collect();
        Selection::None { unmet, more: self.terms.len().saturating_sub(SHOWN) }
    }
}

impl Term {
    fn holds(&self, name: &str, labels: &dyn Keyed) -> bool {
        let is_empty = self.labels.is_empty() && self.names.is_empty();
        !is_empty
            && self.labels.iter().all(|required| required.holds(labels))
            && self.names.iter().all(|required| required.holds(name))
    }

    fn why_not(&self, name: &str, labels: &dyn Keyed) -> String {
        let label = self.labels.iter().find(|required| !required.holds(labels));
        let of_name = self.names.iter().find(|required| !required.holds(name));
        match (label, of_name) {
            (Some(label), _) => match labels.text(&label.key) {
                Some(value) => format!("{label}, and the node has \"{}\"", text::word(value)),
                None => format!("{label}, and the node does not have it"),
            },
            (None, Some(required)) => format!("{required}, and it is \"{}\"", text::word(name)),
            (None, None) => "it has no requirements, so it selects no node".to_owned(),
        }
    }
}

impl LabelRequirement {
    fn holds(&self, labels: &dyn Keyed) -> bool {
        let value = labels.text(&self.key);
        let number = || value?.parse::<i64>().ok();
        match &self.test {
            LabelTest::In(values) => value.is_some_and(|value| values.contains(value)),
            LabelTest::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            LabelTest::Exists => value.is_some(),
            LabelTest::DoesNotExist => value.is_none(),
            LabelTest::Gt(than) => number().is_some_and(|number| number > *than),
            LabelTest::Lt(than) => number().is_some_and(|number| number < *than),
        }
    }
}

impl NameRequirement {
    fn holds(&self, name: &str) -> bool {
        match self {
            Self::In(names) => names.contains(name),
            Self::NotIn(names) => !names.contains(name),
        }
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.test {
            LabelTest::In(values) => write!(f, "label {key} must be one of {}", Values(values)),
            LabelTest::NotIn(values) => write!(f, "label {key} must not be one of {}", Values(values)),
            LabelTest::Exists => write!(f, "label {key} must be there"),
            LabelTest::DoesNotExist => write!(f, "label {key} must not be there"),
            LabelTest::Gt(than) => write!(f, "label {key} must be an integer above {than}"),
            LabelTest::Lt(than) => write!(f, "label {key} must be an integer below {than}"),
        }
    }
}

impl fmt::Display for NameRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::In(names) => write!(f, "the name of the node must be one of {}", Values(names)),
            Self::NotIn(names) => write!(f, "the name of the node must not be one of {}", Values(names)),
        }
    }
}

/// The first of some values, and how many there are beside them.
struct Values<'a>(&'a BTreeSet<String>);

impl fmt::Display for Values<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, value) in self.0.iter().take(SHOWN).enumerate() {
            write!(f, "{}\"{value}\"", if index == 0 { "" } else { ", " })?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => f.write_str("selected: the selector has no terms"),
            Self::Term(term) => write!(f, "selected by nodeSelectorTerms[{term}]"),
            Self::None { unmet, more } => {
                f.write_str("not selected: ")?;
                for (index, UnmetTerm { term, why }) in unmet.iter().enumerate() {
                    write!(f, "{}nodeSelectorTerms[{term}]: {why}", if index == 0 { "" } else { "; " })?;
                }
                if *more == 0 { Ok(()) } else { write!(f, "; and {more} more terms") }
            }
        }
    }
}

#[cfg(test)]
mod tests;
