//! Typed reading of the tree. All problems are collected, so that an operator sees every mistake at once.
//!
//! A reader gives a value or one sentence; the place is added here. Absent and null are the same: the default. A
//! mapping must be read with all its keys: a key that was not read is a typing mistake, which is an error in our own
//! sections and a warning where Volcano would ignore it (decision H1).

use super::ConfigProblem;
use super::duration::{self, SignedDuration};
use super::entry::duration_range;
use super::yaml::{Resolved, ValueKind, YamlNode};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use topoloom_core::near::is_near;
use topoloom_core::size::{self, ByteSize};

/// Longest value that a problem repeats; the rest is cut off.
const MAX_SHOWN: usize = 64;

/// Most problems of one kind that are kept: more than anyone reads, and a document of typing mistakes stays small.
pub(super) const MAX_PROBLEMS: usize = 100;

/// Everything that was found wrong so far.
#[derive(Debug, Default)]
pub(super) struct ReadReport {
    /// Makes the entry invalid.
    pub(super) errors: Vec<ConfigProblem>,
    /// Only worth saying.
    pub(super) warnings: Vec<ConfigProblem>,
}

/// A place in the document.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) path: String,
    pub(super) line: usize,
}

impl ReadReport {
    pub(super) fn error(&mut self, place: Place, message: String) {
        push(&mut self.errors, place, message);
    }

    pub(super) fn warning(&mut self, place: Place, message: String) {
        push(&mut self.warnings, place, message);
    }

    /// Takes over warnings that were found elsewhere.
    pub(super) fn warn_all(&mut self, problems: Vec<ConfigProblem>) {
        for ConfigProblem { path, line, message } in problems {
            self.warning(Place { path, line }, message);
        }
    }
}

fn push(problems: &mut Vec<ConfigProblem>, place: Place, message: String) {
    let message = match problems.len() {
        0..MAX_PROBLEMS => message,
        MAX_PROBLEMS => "and more that are not shown".to_owned(),
        _ => return,
    };
    problems.push(ConfigProblem { path: place.path, line: place.line, message });
}

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct At<'a> {
    pub(super) node: &'a YamlNode,
    path: String,
}

impl<'a> At<'a> {
    /// The top of a document.
    pub(super) fn top(node: &'a YamlNode) -> Self {
        Self { node, path: String::new() }
    }

    pub(super) fn place(&self) -> Place {
        Place { path: self.path.clone(), line: self.node.line }
    }

    /// The items of a list; none where it is no list.
    pub(super) fn items(&self) -> Vec<At<'a>> {
        let item = |(index, node): (usize, &'a Rc<YamlNode>)| At { node, path: format!("{}[{index}]", self.path) };
        self.node.list().unwrap_or_default().iter().enumerate().map(item).collect()
    }

    /// The fields of a mapping; nothing where it is none.
    pub(super) fn into_fields(self) -> Option<Fields<'a>> {
        let fields = self.node.map()?.iter().map(|field| (field.key.as_str(), &*field.value)).collect();
        Some(Fields { path: self.path, line: self.node.line, fields })
    }

    /// The value as a problem shows it.
    pub(super) fn describe(&self) -> String {
        let Some(text) = self.node.text() else { return self.node.kind().words().to_owned() };
        let shown: String = text.chars().take(MAX_SHOWN).collect();
        let dots = if shown.len() < text.len() { "…" } else { "" };
        match self.node.kind() {
            ValueKind::Text => format!("the text {shown:?}{dots}"),
            kind => format!("{} {shown}{dots}", kind.words().replacen("a ", "the ", 1)),
        }
    }

    /// Any scalar but null, as it is written.
    pub(super) fn text(&self) -> Result<String, String> {
        self.node.text().map(str::to_owned).ok_or_else(|| format!("must be a text, not {}", self.node.kind().words()))
    }

    /// As [`Self::text`], for values that no problem may show. The difference is for the reader of the code.
    pub(super) fn private_text(&self) -> Result<String, String> {
        self.text()
    }

    /// A path that does not depend on where the host was started.
    pub(super) fn path(&self) -> Result<PathBuf, String> {
        let path = PathBuf::from(self.text()?);
        if path.is_absolute() { Ok(path) } else { Err(format!("must be an absolute path, not {}", self.describe())) }
    }

    /// An unquoted YAML 1.1 boolean.
    pub(super) fn boolean(&self) -> Result<bool, String> {
        match self.node.resolve() {
            Some(Resolved::Bool(value)) => Ok(value),
            _ => Err(format!("must be true or false without quotes, not {}", self.describe())),
        }
    }

    /// An unquoted integer in a range.
    pub(super) fn integer(&self, range: RangeInclusive<i64>) -> Result<i64, String> {
        match self.node.resolve() {
            Some(Resolved::Integer(value)) if range.contains(&value) => Ok(value),
            _ => Err(format!(
                "must be an integer between {} and {}, not {}",
                range.start(),
                range.end(),
                self.describe()
            )),
        }
    }

    /// Any duration in Go's grammar. A number without a unit is refused, but for zero, which needs none.
    pub(super) fn any_duration(&self) -> Result<SignedDuration, String> {
        let wanted = "must be a duration with units out of h, m, s, ms, us and ns, such as 90s or 1h30m";
        let text = match self.node.resolve() {
            Some(Resolved::Text | Resolved::Integer(0)) => self.node.text(),
            Some(Resolved::Integer(_) | Resolved::Unsigned(_) | Resolved::Float(_)) => {
                return Err(format!("{wanted}; {} has no unit", self.describe()));
            }
            _ => None,
        };
        text.and_then(duration::parse).ok_or_else(|| format!("{wanted}, not {}", self.describe()))
    }

    /// A duration in a range.
    pub(super) fn duration(&self, range: &RangeInclusive<Duration>) -> Result<Duration, String> {
        let duration = self.any_duration()?.non_negative().filter(|duration| range.contains(duration));
        duration.ok_or_else(|| format!("must be {}, not {}", duration_range(range), self.describe()))
    }

    /// A size in a range.
    pub(super) fn size(&self, range: &RangeInclusive<ByteSize>) -> Result<ByteSize, String> {
        let size = self.node.text().and_then(size::parse).filter(|size| range.contains(size));
        let (low, high) = (range.start(), range.end());
        size.ok_or_else(|| format!("must be a size between {low} and {high}, such as 256Mi, not {}", self.describe()))
    }

    /// One of some words.
    pub(super) fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, String> {
        let found = self.node.text().and_then(|text| words.iter().find(|(word, _)| *word == text));
        found.map(|(_, value)| *value).ok_or_else(|| {
            let list: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            format!("must be {}, not {}", list.join(" or "), self.describe())
        })
    }

    /// A mapping as JSON. Its values are never part of a problem.
    pub(super) fn json_object(&self, report: &mut ReadReport) -> Map<String, Value> {
        match self.node.to_json(&self.path) {
            Ok(Value::Object(object)) => object,
            Ok(_) => {
                report.error(self.place(), format!("must be a mapping, not {}", self.node.kind().words()));
                Map::new()
            }
            Err(place) => {
                report.error(place, "is not a finite number; JSON has no other numbers".to_owned());
                Map::new()
            }
        }
    }
}

/// The fields of a mapping that were not read yet.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    path: String,
    line: usize,
    fields: BTreeMap<&'a str, &'a YamlNode>,
}

impl<'a> Fields<'a> {
    /// The place of the mapping itself.
    pub(super) fn here(&self) -> Place {
        Place { path: self.path.clone(), line: self.line }
    }

    /// The place of a field, whether or not it is there.
    pub(super) fn place(&self, key: &str) -> Place {
        let line = self.fields.get(key).map_or(self.line, |node| node.line);
        Place { path: self.path_of(key), line }
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Whether a field is there and not null.
    pub(super) fn has(&self, key: &str) -> bool {
        self.fields.get(key).is_some_and(|node| node.kind() != ValueKind::Null)
    }

    /// Whether a field is there and is a mapping.
    pub(super) fn has_mapping(&self, key: &str) -> bool {
        self.fields.get(key).is_some_and(|node| node.kind() == ValueKind::Map)
    }

    /// All keys that were not read yet.
    pub(super) fn keys(&self) -> Vec<String> {
        self.fields.keys().map(|key| (*key).to_owned()).collect()
    }

    /// All fields that were not read yet.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a str, &'a YamlNode)> {
        self.fields.iter().map(|(key, node)| (*key, *node))
    }

    /// Takes a field out; nothing where it is absent or null.
    pub(super) fn take(&mut self, key: &str) -> Option<At<'a>> {
        let path = self.path_of(key);
        let node = self.fields.remove(key)?;
        (node.kind() != ValueKind::Null).then_some(At { node, path })
    }

    /// Reads a field and takes it out.
    pub(super) fn read<T>(
        &mut self,
        key: &str,
        report: &mut ReadReport,
        read: impl FnOnce(&At<'a>) -> Result<T, String>,
    ) -> Option<T> {
        let at = self.take(key)?;
        read(&at).map_err(|message| report.error(at.place(), message)).ok()
    }

    /// Reads a field and leaves it in.
    pub(super) fn peek<T>(
        &self,
        key: &str,
        report: &mut ReadReport,
        read: impl FnOnce(&At<'a>) -> Result<T, String>,
    ) -> Option<T> {
        let node = *self.fields.get(key).filter(|node| node.kind() != ValueKind::Null)?;
        let at = At { node, path: self.path_of(key) };
        read(&at).map_err(|message| report.error(at.place(), message)).ok()
    }

    /// Reads a field that is a list; the items that can be read.
    pub(super) fn list<T>(
        &mut self,
        key: &str,
        report: &mut ReadReport,
        mut read: impl FnMut(&At<'a>) -> Result<T, String>,
    ) -> Vec<T> {
        let Some(at) = self.take(key) else { return Vec::new() };
        if at.node.kind() != ValueKind::List {
            report.error(at.place(), format!("must be a list, not {}", at.node.kind().words()));
        }
        let mut values = Vec::new();
        for item in at.items() {
            match read(&item) {
                Ok(value) => values.push(value),
                Err(message) => report.error(item.place(), message),
            }
        }
        values
    }

    /// Reads a field that is a mapping of ours: a key that is never read is an error.
    pub(super) fn section<T>(
        &mut self,
        key: &str,
        report: &mut ReadReport,
        read: impl FnOnce(&mut Fields<'a>, &mut ReadReport) -> T,
    ) -> Option<T> {
        let (value, rest) = self.mapping(key, report, read)?;
        for key in rest.keys() {
            report.error(rest.place(&key), "is not known here".to_owned());
        }
        Some(value)
    }

    /// Reads a field that is a mapping of Volcano's: a key that is never read is a warning.
    pub(super) fn lenient_section<T>(
        &mut self,
        key: &str,
        report: &mut ReadReport,
        read: impl FnOnce(&mut Fields<'a>, &mut ReadReport) -> T,
    ) -> Option<T> {
        let (value, rest) = self.mapping(key, report, read)?;
        rest.warn_unknown(&[], report);
        Some(value)
    }

    fn mapping<T>(
        &mut self,
        key: &str,
        report: &mut ReadReport,
        read: impl FnOnce(&mut Fields<'a>, &mut ReadReport) -> T,
    ) -> Option<(T, Fields<'a>)> {
        let at = self.take(key)?;
        let (place, kind) = (at.place(), at.node.kind());
        let Some(mut fields) = at.into_fields() else {
            report.error(place, format!("must be a mapping, not {}", kind.words()));
            return None;
        };
        Some((read(&mut fields, report), fields))
    }

    /// Warns of every key that is not among the known ones, with the nearest of them.
    pub(super) fn warn_unknown(&self, known: &[&str], report: &mut ReadReport) {
        for key in self.fields.keys().filter(|key| !known.contains(key)) {
            let near = known.iter().find(|known| is_near(key, known));
            let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            report.warning(self.place(key), format!("is not known here and has no effect{hint}"));
        }
    }
}
