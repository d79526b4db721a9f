//! Which Nodes a regular expression or a label selector chooses.

use std::borrow::Cow;
use std::collections::BTreeSet;

use regex::Regex;

use super::model::{LabelOperator, LabelRequirement, LabelSelector, Member, MemberKind, Selector};
use super::pattern;
use crate::snapshot::{ColumnKey, View};

/// A selector that can choose something.
#[derive(Debug, Clone)]
pub(crate) enum Chooser {
    /// By name.
    Name(Pattern),
    /// By labels; all requirements hold. There is at least one.
    Labels(Vec<Requirement>),
}

impl Chooser {
    /// Reads the selector of a Node member. `None`: it names a Node, is no Node member, is invalid or is empty. An
    /// invalid or empty selector chooses nothing.
    pub(crate) fn of(member: &Member) -> Option<Self> {
        match (member.kind, &member.selector) {
            (MemberKind::Node, Selector::Regex(go)) => Pattern::new(go).map(Self::Name),
            (MemberKind::Node, Selector::Labels(selector)) => requirements(selector).map(Self::Labels),
            _ => None,
        }
    }

    /// The label columns that it reads.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &ColumnKey> {
        let requirements = match self {
            Self::Name(_) => [].iter(),
            Self::Labels(requirements) => requirements.iter(),
        };
        requirements.map(|requirement| &requirement.key)
    }

    /// Whether the view has every column that it reads: without one, "absent" would be a guess.
    pub(crate) fn can_read(&self, view: &View) -> bool {
        self.keys().all(|key| view.column(key).is_some())
    }

    /// The same chooser, prepared for many calls.
    pub(crate) fn prepared(&self) -> Cow<'_, Self> {
        match self {
            Self::Name(pattern) if pattern.compiled.is_none() => {
                Cow::Owned(Self::Name(Pattern { translated: Box::default(), compiled: pattern.regex() }))
            }
            _ => Cow::Borrowed(self),
        }
    }

    /// Whether it chooses the Node in that row.
    pub(crate) fn chooses(&self, view: &View, row: u32) -> bool {
        match self {
            Self::Name(pattern) => {
                view.names().get(row as usize).is_some_and(|name| pattern.regex().is_some_and(|re| re.is_match(name)))
            }
            Self::Labels(requirements) => requirements.iter().all(|it| it.allows(view.value(row, &it.key))),
        }
    }

    /// All rows that it chooses, ascending. `None` if the view lacks a column.
    pub(crate) fn rows(&self, view: &View) -> Option<Vec<u32>> {
        match self {
            Self::Name(pattern) => {
                let Some(regex) = pattern.regex() else { return Some(Vec::new()) };
                let rows = (0u32..).zip(view.names()).filter(|(_, name)| regex.is_match(name));
                Some(rows.map(|(row, _)| row).collect())
            }
            Self::Labels(requirements) => {
                let mut rows: Vec<u32> = (0..view.rows()).collect();
                for requirement in requirements {
                    let column = view.column(&requirement.key)?;
                    // Values are compared once per dictionary entry, rows by code alone.
                    let values = std::iter::once(None).chain(column.dictionary().iter().map(Some));
                    let allowed: Vec<bool> = values.map(|value| requirement.allows(value)).collect();
                    let code = |row: u32| column.codes().get(row as usize).copied().unwrap_or(0) as usize;
                    rows.retain(|&row| allowed.get(code(row)).copied().unwrap_or(false));
                }
                Some(rows)
            }
        }
    }
}

/// A Go pattern over names.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    translated: Box<str>,
    compiled: Option<Regex>,
}

impl Pattern {
    fn new(go: &str) -> Option<Self> {
        let translated = pattern::translate(go).ok()?;
        let compiled = pattern::build(&translated).ok()?;
        Some(Self { translated: translated.into(), compiled: Some(compiled) })
    }

    /// Keeps only the text; every later use compiles it again.
    pub(crate) fn forget_compiled(&mut self) {
        self.compiled = None;
    }

    pub(crate) fn is_compiled(&self) -> bool {
        self.compiled.is_some()
    }

    /// The expression. It was compiled once before, so this does not fail.
    fn regex(&self) -> Option<Regex> {
        self.compiled.clone().or_else(|| pattern::build(&self.translated).ok())
    }
}

/// One requirement of a label selector.
#[derive(Debug, Clone)]
pub(crate) struct Requirement {
    key: ColumnKey,
    rule: SelectorRule,
}

#[derive(Debug, Clone)]
enum SelectorRule {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
}

impl Requirement {
    fn new(key: &str, rule: SelectorRule) -> Option<Self> {
        let values = match &rule {
            SelectorRule::In(values) | SelectorRule::NotIn(values) => Some(values),
            SelectorRule::Exists | SelectorRule::DoesNotExist => None,
        };
        let valid =
            is_label_key(key) && values.is_none_or(|set| !set.is_empty() && set.iter().all(|v| is_label_value(v)));
        valid.then(|| Self { key: ColumnKey::label(key), rule })
    }

    fn read(requirement: &LabelRequirement) -> Option<Self> {
        let values = || requirement.values.iter().cloned().collect();
        let rule = match &requirement.operator {
            LabelOperator::In => SelectorRule::In(values()),
            LabelOperator::NotIn => SelectorRule::NotIn(values()),
            LabelOperator::Exists if requirement.values.is_empty() => SelectorRule::Exists,
            LabelOperator::DoesNotExist if requirement.values.is_empty() => SelectorRule::DoesNotExist,
            LabelOperator::Exists | LabelOperator::DoesNotExist | LabelOperator::Unknown(_) => return None,
        };
        Self::new(&requirement.key, rule)
    }

    fn allows(&self, value: Option<&str>) -> bool {
        match &self.rule {
            SelectorRule::In(values) => value.is_some_and(|value| values.contains(value)),
            SelectorRule::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            SelectorRule::Exists => value.is_some(),
            SelectorRule::DoesNotExist => value.is_none(),
        }
    }
}

/// All requirements of a selector. `None` when it is empty or one of them is invalid: then it selects nothing.
fn requirements(selector: &LabelSelector) -> Option<Vec<Requirement>> {
    let labels =
        selector.match_labels.iter().map(|(k, v)| Requirement::new(k, SelectorRule::In(BTreeSet::from([v.clone()]))));
    let expressions = selector.match_expressions.iter().map(Requirement::read);
    let all: Vec<Requirement> = labels.chain(expressions).collect::<Option<_>>()?;
    (!all.is_empty()).then_some(all)
}

/// `name` or `dns.prefix/name`, by the rules of Kubernetes.
fn is_label_key(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let is_part = |part: &str| {
        let alphanumeric = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let bytes = part.as_bytes();
        alphanumeric(bytes.first())
            && alphanumeric(bytes.last())
            && bytes.iter().all(|b| *b == b'-' || b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    prefix.is_none_or(|prefix| prefix.len() <= 253 && prefix.split('.').all(is_part))
        && !name.is_empty()
        && is_label_value(name)
}

/// At most 63 of `[A-Za-z0-9._-]`, alphanumeric at both ends; or empty.
fn is_label_value(value: &str) -> bool {
    let ends = |b: Option<&u8>| b.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = value.as_bytes();
    bytes.len() <= 63
        && ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{NodeMeta, Store};

    fn view() -> View {
        let mut store = Store::new();
        let keys = [ColumnKey::label("gpu"), ColumnKey::label("rack")];
        store.require(keys.clone());
        store.begin_relist();
        for (name, labels) in
            [("k1", &[("gpu", "a")][..]), ("k2", &[("gpu", "b"), ("rack", "7")]), ("k3", &[]), ("k4", &[("gpu", "")])]
        {
            store.relist(NodeMeta { name, labels: labels.iter().copied(), annotations: [] });
        }
        store.commit_relist();
        store.view(&keys)
    }

    fn check(labels: &[(&str, &str)], expressions: &[(&str, LabelOperator, &[&str])], expected: &[&str]) {
        let selector = LabelSelector {
            match_labels: labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            match_expressions: expressions
                .iter()
                .map(|(key, operator, values)| LabelRequirement {
                    key: (*key).to_owned(),
                    operator: operator.clone(),
                    values: values.iter().map(|v| (*v).to_owned()).collect(),
                })
                .collect(),
        };
        let member = Member { kind: MemberKind::Node, selector: Selector::Labels(selector) };
        let view = view();
        let chosen = Chooser::of(&member).map(|chooser| {
            let rows = chooser.rows(&view).expect("all columns are there");
            assert!((0..view.rows()).all(|row| chooser.chooses(&view, row) == rows.contains(&row)), "{member:?}");
            rows
        });
        let mut names: Vec<&str> = chosen.iter().flatten().map(|row| &*view.names()[*row as usize]).collect();
        names.sort_unstable();
        assert_eq!(names, expected, "{member:?}");
    }

    #[test]
    fn label_selectors_choose_as_in_kubernetes() {
        use LabelOperator::{DoesNotExist, Exists, In, NotIn, Unknown};
        check(&[], &[], &[]);
        check(&[("gpu", "b")], &[], &["k2"]);
        check(&[("gpu", "")], &[], &["k4"]);
        check(&[("gpu", "b"), ("rack", "8")], &[], &[]);
        check(&[], &[("gpu", In, &["a", "b"])], &["k1", "k2"]);
        check(&[], &[("gpu", NotIn, &["a"])], &["k2", "k3", "k4"]);
        check(&[], &[("gpu", Exists, &[])], &["k1", "k2", "k4"]);
        check(&[], &[("gpu", DoesNotExist, &[])], &["k3"]);
        check(&[("rack", "7")], &[("gpu", NotIn, &["a"])], &["k2"]);
        check(&[], &[("gpu", Unknown("Near".into()), &["a"])], &[]);
        check(&[], &[("gpu", In, &[])], &[]);
        check(&[], &[("gpu", Exists, &["a"])], &[]);
        check(&[("gpu", "b")], &[("gpu", NotIn, &[])], &[]);
        check(&[], &[("not a key", DoesNotExist, &[])], &[]);
        check(&[], &[("gpu", NotIn, &["not/a value"])], &[]);
    }

    #[test]
    fn label_keys_follow_kubernetes() {
        for key in ["a", "A_b.c-d", "ex.io/a", "kubernetes.io/hostname"] {
            assert!(is_label_key(key), "{key}");
        }
        let long = "a".repeat(64);
        for key in ["", "/a", "a/", "a/b/c", "-a", "a-", "Ex.io/a", "ex..io/a", &long, "ex.io/é"] {
            assert!(!is_label_key(key), "{key}");
        }
    }
}
