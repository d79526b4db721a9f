//! From the text of a project file to a project, or to everything that is wrong with it.
//!
//! A reader of a field gives a value or one sentence; the place is added here. Absent and null are the same: the default.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value};
use serde_saphyr::Options;
use topoloom_core::near::nearest;
use topoloom_core::text::line;

use super::limits::{self, Limits};
use super::{CASES, FILE, Language, Mistake, OUTPUT, Project, ProjectError, Use};

/// The fields of the file.
const FIELDS: [&str; 6] = ["language", "build", "output", "uses", "cases", "limits"];

/// Longest value that a mistake repeats; the rest is cut off.
const MAX_SHOWN: usize = 64;

/// Longest message of the parser: it repeats a part of the file.
const MAX_SYNTAX: usize = 400;

/// The fields of a mapping that were not read yet, and what was found wrong so far.
pub(super) struct Fields<'a> {
    /// What stands before a field: empty, or with a dot at its end.
    before: &'static str,
    known: &'a [&'static str],
    fields: Map<String, Value>,
    mistakes: &'a mut Vec<Mistake>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(
        before: &'static str,
        known: &'a [&'static str],
        fields: Map<String, Value>,
        mistakes: &'a mut Vec<Mistake>,
    ) -> Self {
        Self { before, known, fields, mistakes }
    }

    /// Reads a field and takes it out.
    pub(super) fn read<T>(&mut self, field: &str, read: impl FnOnce(&Value) -> Result<T, String>) -> Option<T> {
        let value = self.fields.remove(field).filter(|value| !value.is_null())?;
        read(&value).map_err(|message| self.mistake(field, message)).ok()
    }

    /// Takes a field out as it is.
    fn take(&mut self, field: &str) -> Option<Value> {
        self.fields.remove(field).filter(|value| !value.is_null())
    }

    pub(super) fn mistake(&mut self, field: &str, message: String) {
        self.mistakes.push(Mistake { field: format!("{}{field}", self.before), message });
    }

    /// Every field that was not read is a typing mistake.
    pub(super) fn end(mut self) {
        for field in std::mem::take(&mut self.fields).into_iter().map(|(field, _)| field) {
            let message = match nearest(&field, self.known.iter().copied()) {
                Some(near) => format!("is not known here; did you mean `{near}`?"),
                None => format!("is not known here; known are {}", self.known.join(", ")),
            };
            self.mistake(&line(&field, MAX_SHOWN), message);
        }
    }
}

pub(super) fn project(root: &Path, text: &str) -> Result<Project, ProjectError> {
    let file = || root.join(FILE);
    let mut options = Options::default();
    // A picture of the place is for a terminal of its own: the message has line and column.
    options.with_snippet = false;
    let document = match serde_saphyr::from_str_with_options::<Value>(text, options) {
        Ok(Value::Object(document)) => document,
        // A file of comments alone is none of fields.
        Ok(Value::Null) => Map::new(),
        Ok(other) => {
            let message = format!("it must be a mapping of fields such as `language: rust`, not {}", shown(&other));
            return Err(ProjectError::Syntax { file: file(), message });
        }
        Err(error) => {
            let message = format!("it is neither YAML nor JSON: {}", line(error.to_string().trim(), MAX_SYNTAX));
            return Err(ProjectError::Syntax { file: file(), message });
        }
    };
    let mut mistakes = Vec::new();
    let mut fields = Fields::new("", &FIELDS, document, &mut mistakes);
    let language = language(&mut fields);
    let build = fields.read("build", command);
    if language == Some(Language::Other) && build.is_none() {
        let message = "is missing: it must be the command that makes the component, since `language: other` has no build of its own";
        fields.mistake("build", message.to_owned());
    }
    let output = fields.read("output", component).unwrap_or_else(|| OUTPUT.into());
    let uses = fields.take("uses").map_or_else(|| Use::ALL.into(), |value| uses(&value, &mut fields));
    let cases = fields.read("cases", folder).unwrap_or_else(|| CASES.into());
    let limits = fields.take("limits");
    fields.end();
    let limits = limits.map_or_else(Limits::default, |value| limits::read(value, &mut mistakes));
    match (language, mistakes.is_empty()) {
        (Some(language), true) => {
            let (output, cases) = (root.join(output), root.join(cases));
            Ok(Project { root: root.to_owned(), language, build, output, uses, cases, limits })
        }
        _ => Err(ProjectError::Mistakes { file: file(), mistakes }),
    }
}

fn language(fields: &mut Fields<'_>) -> Option<Language> {
    let words = Language::ALL.map(|language| (language.word(), language));
    let is_there = fields.fields.get("language").is_some_and(|value| !value.is_null());
    if !is_there {
        fields.mistake("language", format!("is missing; it must be {}", choice(&words)));
    }
    fields.read("language", |value| one_of(value, &words))
}

/// A command of a shell.
fn command(value: &Value) -> Result<String, String> {
    match value.as_str() {
        Some(command) if !command.trim().is_empty() => Ok(command.to_owned()),
        _ => Err(format!("must be a command of a shell that makes the component, not {}", shown(value))),
    }
}

/// A file in the folder that a host would take for a component.
fn component(value: &Value) -> Result<PathBuf, String> {
    let path = value.as_str().map(PathBuf::from);
    let is_inside =
        |path: &PathBuf| path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let is_component = |path: &PathBuf| path.extension().is_some_and(|end| end == "wasm") && path.file_stem().is_some();
    path.filter(is_inside).filter(is_component).ok_or_else(|| {
        format!("must be a file in this folder with the ending .wasm, such as {OUTPUT}, not {}", shown(value))
    })
}

/// A folder, seen from that of the project.
fn folder(value: &Value) -> Result<PathBuf, String> {
    match value.as_str() {
        Some(path) if !path.is_empty() && Path::new(path).is_relative() => Ok(path.into()),
        _ => Err(format!("must be a folder, seen from this one, such as {CASES}, not {}", shown(value))),
    }
}

fn uses(value: &Value, fields: &mut Fields<'_>) -> BTreeSet<Use> {
    let words = Use::ALL.map(|used| (used.word(), used));
    let Value::Array(items) = value else {
        fields.mistake("uses", format!("must be a list of {}, not {}", choice(&words), shown(value)));
        return BTreeSet::new();
    };
    let mut uses = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        match one_of(item, &words) {
            Ok(used) => _ = uses.insert(used),
            Err(message) => fields.mistake(&format!("uses[{index}]"), message),
        }
    }
    uses
}

/// One of some words.
pub(super) fn one_of<T: Copy>(value: &Value, words: &[(&str, T)]) -> Result<T, String> {
    let found = value.as_str().and_then(|text| words.iter().find(|(word, _)| *word == text));
    found.map(|(_, meant)| *meant).ok_or_else(|| {
        let near = value.as_str().and_then(|text| nearest(text, words.iter().map(|(word, _)| *word)));
        let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        format!("must be {}, not {}{hint}", choice(words), shown(value))
    })
}

fn choice<T>(words: &[(&str, T)]) -> String {
    words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(" or ")
}

/// A value as a mistake shows it.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(is) => format!("the boolean {is}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => {
            let cut: String = text.chars().take(MAX_SHOWN).collect();
            let dots = if cut.len() < text.len() { "…" } else { "" };
            format!("the text {cut:?}{dots}")
        }
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
    }
}
