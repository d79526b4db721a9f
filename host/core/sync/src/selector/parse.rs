//! Reading a selector: from the words of the object to what can be evaluated, or to the places that cannot be understood.

use std::collections::BTreeSet;
use std::fmt;

use super::{LabelRequirement, LabelTest, NameRequirement, NodeSelector, Term};
use crate::given::Given;
use topoloom_core::rules::{self, is_label_key, is_label_value, is_object_name};

/// How many problems of a selector are kept.
const KEPT: usize = 10;

/// The operators on labels.
const OPERATORS: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];

/// The only field of a node that a selector may name.
const NAME_FIELD: &str = "metadata.name";

/// A NodeSelector as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RawNodeSelector {
    /// `nodeSelectorTerms`: one of them has to hold.
    pub terms: Vec<RawTerm>,
}

/// A term as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RawTerm {
    /// `matchExpressions`: what is required of labels.
    pub match_expressions: Vec<RawRequirement>,
    /// `matchFields`: what is required of fields.
    pub match_fields: Vec<RawRequirement>,
}

/// A requirement as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RawRequirement {
    /// The label or the field.
    pub key: String,
    /// The operator.
    pub operator: String,
    /// What the operator compares with.
    pub values: Vec<String>,
}

/// A selector that cannot be used. Prints as its first problems.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectorError {
    /// The first problems in the order of the selector; never none.
    pub problems: Vec<RequirementError>,
    /// How many more there are.
    pub more: usize,
}

impl std::error::Error for SelectorError {}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            write!(f, "{}{problem}", if index == 0 { "" } else { "; " })?;
        }
        if self.more == 0 { Ok(()) } else { write!(f, "; and {} more", self.more) }
    }
}

/// A part of a requirement that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place} {problem}")]
pub struct RequirementError {
    /// Its path, as `nodeSelectorTerms[1].matchExpressions[0].operator`.
    pub place: String,
    /// What is wrong there.
    pub problem: RequirementProblem,
}

/// What is wrong with a part of a requirement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequirementProblem {
    /// No operator on labels.
    #[error("must be In, NotIn, Exists, DoesNotExist, Gt or Lt, got {0}")]
    Operator(Given),
    /// No operator on the name of a node.
    #[error("must be In or NotIn for a field, got {0}")]
    FieldOperator(Given),
    /// No field that can be selected by.
    #[error("must be \"{NAME_FIELD}\", the only field that a node can be selected by, got {0}")]
    Field(Given),
    /// No key of a label.
    #[error("must be the key of a label, got {got}, which {rule}")]
    Key {
        /// The key.
        got: Given,
        /// The rule that it breaks.
        rule: rules::Error,
    },
    /// A value that no label has.
    #[error("must be the value of a label, got {got}, which {rule}")]
    Value {
        /// The value.
        got: Given,
        /// The rule that it breaks.
        rule: rules::Error,
    },
    /// A name that no node has.
    #[error("must be the name of a node, got {got}, which {rule}")]
    Name {
        /// The name.
        got: Given,
        /// The rule that it breaks.
        rule: rules::Error,
    },
    /// An operator that compares with something, and nothing to compare with.
    #[error("must have at least one value for the operator {operator}, got none")]
    NoValues {
        /// The operator.
        operator: &'static str,
    },
    /// An operator that compares with nothing, and values.
    #[error("must be empty for the operator {operator}, got {count} values")]
    Values {
        /// The operator.
        operator: &'static str,
        /// How many there are.
        count: usize,
    },
    /// An operator that compares with one number, and another count of values.
    #[error("must have exactly one value for the operator {operator}, got {count}")]
    NotOne {
        /// The operator.
        operator: &'static str,
        /// How many there are.
        count: usize,
    },
    /// No number to compare with.
    #[error("must be an integer from {} to {} for the operator {operator}, got {got}", i64::MIN, i64::MAX)]
    Number {
        /// The operator.
        operator: &'static str,
        /// The value.
        got: Given,
    },
}

impl NodeSelector {
    /// Reads a selector. Without terms it selects every node.
    ///
    /// # Errors
    /// Every part that cannot be understood, with its place. Such a selector is invalid as a whole.
    pub fn parse(raw: &RawNodeSelector) -> Result<Self, SelectorError> {
        let mut problems = Problems::default();
        let terms = raw.terms.iter().enumerate().map(|(index, term)| problems.term(index, term)).collect();
        if problems.kept.is_empty() {
            Ok(Self { terms })
        } else {
            Err(SelectorError { problems: problems.kept, more: problems.more })
        }
    }
}

/// The problems so far.
#[derive(Default)]
struct Problems {
    kept: Vec<RequirementError>,
    more: usize,
}

/// A requirement's path: nothing is formatted unless there is a problem.
#[derive(Clone, Copy)]
struct Place {
    term: usize,
    list: &'static str,
    requirement: usize,
}

impl Problems {
    fn add(&mut self, place: Place, part: impl fmt::Display, problem: RequirementProblem) {
        if self.kept.len() < KEPT {
            let Place { term, list, requirement } = place;
            let place = format!("nodeSelectorTerms[{term}].{list}[{requirement}].{part}");
            self.kept.push(RequirementError { place, problem });
        } else {
            self.more = self.more.saturating_add(1);
        }
    }

    /// What can be understood of a term.
    fn term(&mut self, term: usize, raw: &RawTerm) -> Term {
        let place = |list| move |requirement| Place { term, list, requirement };
        let (label, field) = (place("matchExpressions"), place("matchFields"));
        let labels = raw.match_expressions.iter().enumerate();
        let labels = labels.filter_map(|(index, raw)| self.label(label(index), raw)).collect();
        let names = raw.match_fields.iter().enumerate();
        let names = names.filter_map(|(index, raw)| self.name(field(index), raw)).collect();
        Term { labels, names }
    }

    fn label(&mut self, place: Place, raw: &RawRequirement) -> Option<LabelRequirement> {
        if let Err(rule) = is_label_key(&raw.key) {
            self.add(place, "key", RequirementProblem::Key { got: Given::new(&raw.key), rule });
        }
        let test = match raw.operator.as_str() {
            "In" => LabelTest::In(self.values(place, "In", raw)),
            "NotIn" => LabelTest::NotIn(self.values(place, "NotIn", raw)),
            "Exists" => self.without_values(place, "Exists", raw, LabelTest::Exists),
            "DoesNotExist" => self.without_values(place, "DoesNotExist", raw, LabelTest::DoesNotExist),
            "Gt" => LabelTest::Gt(self.number(place, "Gt", raw)?),
            "Lt" => LabelTest::Lt(self.number(place, "Lt", raw)?),
            other => {
                let got = Given::instead_of(other, OPERATORS.into_iter());
                self.add(place, "operator", RequirementProblem::Operator(got));
                return None;
            }
        };
        Some(LabelRequirement { key: raw.key.clone(), test })
    }

    fn name(&mut self, place: Place, raw: &RawRequirement) -> Option<NameRequirement> {
        if raw.key != NAME_FIELD {
            let got = Given::instead_of(&raw.key, std::iter::once(NAME_FIELD));
            self.add(place, "key", RequirementProblem::Field(got));
        }
        match raw.operator.as_str() {
            "In" => Some(NameRequirement::In(self.names(place, "In", raw))),
            "NotIn" => Some(NameRequirement::NotIn(self.names(place, "NotIn", raw))),
            other => {
                let got = Given::instead_of(other, ["In", "NotIn"].into_iter());
                self.add(place, "operator", RequirementProblem::FieldOperator(got));
                None
            }
        }
    }

    fn values(&mut self, place: Place, operator: &'static str, raw: &RawRequirement) -> BTreeSet<String> {
        let problem = |got, rule| RequirementProblem::Value { got, rule };
        self.set(place, operator, raw, is_label_value, problem)
    }

    fn names(&mut self, place: Place, operator: &'static str, raw: &RawRequirement) -> BTreeSet<String> {
        let problem = |got, rule| RequirementProblem::Name { got, rule };
        self.set(place, operator, raw, is_object_name, problem)
    }

    fn set(
        &mut self,
        place: Place,
        operator: &'static str,
        raw: &RawRequirement,
        check: impl Fn(&str) -> Result<(), rules::Error>,
        problem: impl Fn(Given, rules::Error) -> RequirementProblem,
    ) -> BTreeSet<String> {
        if raw.values.is_empty() {
            self.add(place, "values", RequirementProblem::NoValues { operator });
        }
        for (index, value) in raw.values.iter().enumerate() {
            if let Err(rule) = check(value) {
                self.add(place, format_args!("values[{index}]"), problem(Given::new(value), rule));
            }
        }
        raw.values.iter().cloned().collect()
    }

    fn without_values(
        &mut self,
        place: Place,
        operator: &'static str,
        raw: &RawRequirement,
        test: LabelTest,
    ) -> LabelTest {
        if !raw.values.is_empty() {
            self.add(place, "values", RequirementProblem::Values { operator, count: raw.values.len() });
        }
        test
    }

    fn number(&mut self, place: Place, operator: &'static str, raw: &RawRequirement) -> Option<i64> {
        let [value] = raw.values.as_slice() else {
            self.add(place, "values", RequirementProblem::NotOne { operator, count: raw.values.len() });
            return None;
        };
        let number = value.parse().ok();
        if number.is_none() {
            self.add(place, "values[0]", RequirementProblem::Number { operator, got: Given::new(value) });
        }
        number
    }
}
