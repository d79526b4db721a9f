//! Reads a configuration that people write by hand: lenient in form, strict in meaning, all mistakes at once.
//!
//! A [`Reader`] turns single [`Value`]s into typed ones and collects problems, each with its path, and notes on
//! values that work but may surprise. All discoverers of fabrics use it, so they report the same mistake in the same words.

mod duration;
mod names;

use regex_lite::Regex;
use std::time::Duration;
use topoloom_sdk::{Problem, json::Value};

/// A value that works but may surprise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The code of the diagnostic.
    pub code: &'static str,
    /// One sentence.
    pub text: String,
}

/// Collects what is wrong with a configuration.
#[derive(Debug, Default)]
pub struct Reader {
    problems: Vec<Problem>,
    notes: Vec<Note>,
}

impl Reader {
    /// A reader without problems and notes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The notes of a configuration without mistakes.
    ///
    /// # Errors
    ///
    /// Every mistake, in the order in which it was found.
    pub fn finish(self) -> Result<Vec<Note>, Vec<Problem>> {
        if self.problems.is_empty() { Ok(self.notes) } else { Err(self.problems) }
    }

    /// Adds a mistake.
    pub fn problem(&mut self, path: &str, message: String) {
        self.problems.push(Problem::new(path, message));
    }

    /// Adds a note.
    pub fn note(&mut self, code: &'static str, text: String) {
        self.notes.push(Note { code, text });
    }

    /// Notes a key that is not known.
    pub fn unknown(&mut self, path: &str) {
        self.note("unknown-key", format!("{path:?} is not a known key and is ignored"));
    }

    /// A value as messages quote it.
    #[must_use]
    pub fn show(&self, value: &Value) -> String {
        match value {
            Value::String(text) => format!("{text:?}"),
            Value::Number(number) => number.clone(),
            Value::Bool(flag) => flag.to_string(),
            other => other.kind().to_owned(),
        }
    }

    /// `true` or `false`, also in the words of YAML 1.1.
    pub fn flag(&mut self, path: &str, value: &Value) -> Option<bool> {
        match value {
            Value::Bool(flag) => Some(*flag),
            Value::String(text) if ["true", "yes", "on"].contains(&text.to_ascii_lowercase().as_str()) => Some(true),
            Value::String(text) if ["false", "no", "off"].contains(&text.to_ascii_lowercase().as_str()) => Some(false),
            other => {
                self.problem(path, format!("expected true or false, found {}", self.show(other)));
                None
            }
        }
    }

    /// A number; also one in quotes.
    pub fn number(&mut self, path: &str, value: &Value) -> Option<f64> {
        let number = match value {
            Value::Number(text) | Value::String(text) => text.trim().parse::<f64>().ok().filter(|n| n.is_finite()),
            _ => None,
        };
        if number.is_none() {
            self.problem(path, format!("expected a number, found {}", self.show(value)));
        }
        number
    }

    /// A duration in the grammar of Go: `90s`, `1h30m`. A bare number has no unit and is refused.
    pub fn duration(&mut self, path: &str, value: &Value) -> Option<Duration> {
        let duration = match value {
            Value::String(text) => duration::parse(text),
            _ => None,
        };
        if duration.is_none() {
            self.problem(path, format!("expected a duration such as \"90s\" or \"24h\", found {}", self.show(value)));
        }
        duration
    }

    /// A string. Numbers and booleans are taken as they are written, with a note.
    pub fn text(&mut self, path: &str, value: &Value) -> Option<String> {
        let text = match value {
            Value::String(text) => return Some(text.clone()),
            Value::Number(number) => number.clone(),
            Value::Bool(flag) => flag.to_string(),
            other => {
                self.problem(path, format!("expected a string, found {}", other.kind()));
                return None;
            }
        };
        self.note("coerced", format!("{path} is {}: read as {text:?}; put it in quotes", value.kind()));
        Some(text)
    }

    /// A list of strings, each with its path; a single one is a list of one, null an empty list.
    pub fn texts(&mut self, path: &str, value: &Value) -> Vec<(String, String)> {
        let mut texts = Vec::new();
        match value {
            Value::Null => {}
            Value::Array(list) => {
                for (index, item) in list.iter().enumerate() {
                    let path = format!("{path}[{index}]");
                    texts.extend(self.text(&path, item).map(|text| (path, text)));
                }
            }
            one => texts.extend(self.text(path, one).map(|text| (path.to_owned(), text))),
        }
        texts
    }

    /// A mapping from strings to strings, in the order of the document.
    pub fn text_map(&mut self, path: &str, value: &Value) -> Vec<(String, String)> {
        let entries = match value {
            Value::Null => return Vec::new(),
            Value::Object(entries) => entries,
            other => {
                self.problem(path, format!("expected a mapping from names to names, found {}", other.kind()));
                return Vec::new();
            }
        };
        let mut pairs: Vec<(String, String)> = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let path = format!("{path}.{key}");
            if pairs.iter().any(|(known, _)| known == key) {
                self.problem(&path, format!("{key:?} is given twice"));
            }
            pairs.extend(self.text(&path, value).map(|text| (key.clone(), text)));
        }
        pairs
    }

    /// A regular expression.
    pub fn regex(&mut self, path: &str, value: &Value) -> Option<Regex> {
        let text = self.text(path, value)?;
        self.compiled(path, &text)
    }

    /// A list of regular expressions; a single one is a list of one.
    pub fn regexes(&mut self, path: &str, value: &Value) -> Vec<Regex> {
        let texts = self.texts(path, value);
        texts.iter().filter_map(|(path, text)| self.compiled(path, text)).collect()
    }

    fn compiled(&mut self, path: &str, text: &str) -> Option<Regex> {
        match Regex::new(text) {
            Ok(regex) => Some(regex),
            Err(error) => {
                self.problem(path, format!("{text:?} is not a valid regular expression: {error}"));
                None
            }
        }
    }
}
