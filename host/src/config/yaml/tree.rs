//! The tree itself.

use super::scalar::{Resolved, Scalar};
use std::rc::Rc;

/// One document.
#[derive(Debug)]
pub(in crate::config) struct Tree {
    /// Its content; nothing where there is none.
    pub(in crate::config) root: Option<Rc<YamlNode>>,
    /// Keys that are more than once in one mapping.
    pub(in crate::config) repeated: Vec<RepeatedKey>,
    /// Keys that YAML reads as something else than what is written.
    pub(in crate::config) misread: Vec<MisreadKey>,
    /// The line where another document begins.
    pub(in crate::config) further: Option<usize>,
}

/// A key without quotes that is no text in YAML 1.1, and means another text than its own.
#[derive(Debug)]
pub(in crate::config) struct MisreadKey {
    /// As it is written.
    pub(in crate::config) written: String,
    /// What it is.
    pub(in crate::config) kind: ValueKind,
    /// The key that it becomes.
    pub(in crate::config) key: String,
    /// Its line.
    pub(in crate::config) line: usize,
}

/// A key that is more than once in one mapping.
#[derive(Debug)]
pub(in crate::config) struct RepeatedKey {
    /// The key.
    pub(in crate::config) key: String,
    /// The line of the key that counts.
    pub(in crate::config) line: usize,
}

/// One value.
#[derive(Debug)]
pub(in crate::config) struct YamlNode {
    /// Its first line, from 1.
    pub(in crate::config) line: usize,
    /// Size of its expansion; see [`super::MAX_WEIGHT`].
    pub(super) weight: usize,
    pub(super) content: YamlContent,
}

#[derive(Debug)]
pub(super) enum YamlContent {
    Scalar(Scalar),
    List(Vec<Rc<YamlNode>>),
    Map(Vec<Field>),
}

/// One key of a mapping with its value.
#[derive(Clone, Debug)]
pub(in crate::config) struct Field {
    pub(in crate::config) key: String,
    pub(in crate::config) value: Rc<YamlNode>,
}

/// What a value is, for the sentence that says it should be something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::config) enum ValueKind {
    Null,
    Bool,
    Number,
    Text,
    List,
    Map,
}

impl ValueKind {
    pub(in crate::config) const fn words(self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool => "a boolean",
            Self::Number => "a number",
            Self::Text => "a text",
            Self::List => "a list",
            Self::Map => "a mapping",
        }
    }
}

impl YamlNode {
    pub(in crate::config) fn kind(&self) -> ValueKind {
        match &self.content {
            YamlContent::List(_) => ValueKind::List,
            YamlContent::Map(_) => ValueKind::Map,
            YamlContent::Scalar(scalar) => scalar.kind(),
        }
    }

    /// What a scalar means.
    pub(in crate::config) fn resolve(&self) -> Option<Resolved> {
        match &self.content {
            YamlContent::Scalar(scalar) => Some(scalar.resolve()),
            YamlContent::List(_) | YamlContent::Map(_) => None,
        }
    }

    /// A scalar but null, as it is written.
    pub(in crate::config) fn text(&self) -> Option<&str> {
        match &self.content {
            YamlContent::Scalar(scalar) if scalar.resolve() != Resolved::Null => Some(&scalar.text),
            YamlContent::Scalar(_) | YamlContent::List(_) | YamlContent::Map(_) => None,
        }
    }

    pub(in crate::config) fn list(&self) -> Option<&[Rc<Self>]> {
        match &self.content {
            YamlContent::List(items) => Some(items),
            YamlContent::Scalar(_) | YamlContent::Map(_) => None,
        }
    }

    pub(in crate::config) fn map(&self) -> Option<&[Field]> {
        match &self.content {
            YamlContent::Map(fields) => Some(fields),
            YamlContent::Scalar(_) | YamlContent::List(_) => None,
        }
    }

    /// The value of a key; nothing where there is none, or no mapping.
    pub(in crate::config) fn field(&self, key: &str) -> Option<&Rc<Self>> {
        self.map()?.iter().rev().find(|field| field.key == key).map(|field| &field.value)
    }

    /// The text of a document that is here as a text, and how many lines come before it: a value that went through a
    /// YAML writer once too often (Helm's `toYaml` of a string does that).
    pub(in crate::config) fn embedded_document(&self) -> Option<(&str, usize)> {
        match &self.content {
            YamlContent::Scalar(scalar) if scalar.resolve() == Resolved::Text => {
                // Only the lines of a literal block are the lines of the outer text, and the parser places a block at
                // its first line that is not blank.
                let blank = scalar.text.bytes().take_while(|byte| *byte == b'\n').count();
                let lines_before = if scalar.is_literal() { self.line.saturating_sub(1 + blank) } else { 0 };
                Some((&scalar.text, lines_before))
            }
            _ => None,
        }
    }
}
