//! The options file of `run`: a mapping from names of flags to their values.
//!
//! Values stay texts here, with their lines; what a flag takes is for the command line to say, which reads the same
//! texts from flags and from the environment. A value is never part of a problem: a person may have put a secret into
//! the wrong file.

use super::read::{At, Fields, ReadReport};
use super::yaml::{self, Resolved, Tree, ValueKind, YamlNode};
use super::{ConfigProblem, Error};
use topoloom_core::near::nearest;

/// A flag that may be in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionKey {
    /// Its name, without dashes in front.
    pub name: String,
    /// How many values it takes.
    pub values: Values,
}

/// How many values a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// One.
    One,
    /// Any number: a list, or one text.
    Many,
}

/// The value of one flag in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionLine {
    /// The flag.
    pub name: String,
    /// Its line, from 1.
    pub line: usize,
    /// Its values as they are written; booleans as `true` and `false`.
    pub values: Vec<String>,
}

/// A file that could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionsFile {
    /// What it sets.
    pub settings: Vec<OptionLine>,
    /// What is wrong with it.
    pub problems: Vec<ConfigProblem>,
}

/// Reads a file.
///
/// # Errors
/// When it is no YAML, or no mapping.
pub fn parse(text: &str, known: &[OptionKey]) -> Result<OptionsFile, Error> {
    read(&yaml::load(text, 0)?, known)
}

/// Reads a document that was taken apart already.
pub(super) fn read(tree: &Tree, known: &[OptionKey]) -> Result<OptionsFile, Error> {
    let mut report = ReadReport::default();
    if let Some(line) = tree.further {
        let place = super::read::Place { path: "---".to_owned(), line };
        report.error(place, "begins a second document; an options file has one".to_owned());
    }
    for repeated in &tree.repeated {
        let place = super::read::Place { path: repeated.key.clone(), line: repeated.line };
        report.error(place, "is given again here; name it once".to_owned());
    }
    let mut settings = Vec::new();
    if let Some(root) = tree.root.as_deref().filter(|root| root.kind() != ValueKind::Null) {
        let found = root.kind().words();
        let shape = Error::Shape { line: root.line, path: "the options file", wanted: "a mapping of flags", found };
        let mut fields = At::top(root).into_fields().ok_or(shape)?;
        for name in fields.keys() {
            settings.extend(setting(&name, &mut fields, known, &mut report));
        }
    }
    settings.sort_by_key(|setting| setting.line);
    report.errors.sort_by_key(|problem| problem.line);
    Ok(OptionsFile { settings, problems: report.errors })
}

fn setting(name: &str, fields: &mut Fields<'_>, known: &[OptionKey], report: &mut ReadReport) -> Option<OptionLine> {
    let Some(key) = known.iter().find(|key| key.name == name) else {
        let plain = name.trim_start_matches('-').replace('_', "-");
        let near = nearest(&plain, known.iter().map(|key| key.name.as_str()));
        let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        report.error(fields.place(name), format!("is no flag of `run`{hint}"));
        return None;
    };
    let line = fields.place(name).line;
    let values = fields.read(name, report, |at| match (at.node.kind(), key.values) {
        (ValueKind::List, Values::Many) => at.items().iter().map(scalar).collect(),
        _ => Ok(vec![scalar(at)?]),
    });
    values.map(|values| OptionLine { name: name.to_owned(), line, values })
}

fn scalar(at: &At<'_>) -> Result<String, String> {
    match at.node.resolve() {
        Some(Resolved::Bool(value)) => Ok(value.to_string()),
        _ => at.text(),
    }
}

/// Whether a document looks like an options file: a key is a flag, or nearly one.
pub(super) fn is_likely(root: &YamlNode, known: &[OptionKey]) -> bool {
    let names = || known.iter().map(|key| key.name.as_str());
    root.map().is_some_and(|fields| fields.iter().any(|field| nearest(&field.key, names()).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Vec<OptionKey> {
        let one = ["leader-elect", "concurrency", "log", "drain-timeout"].map(|name| (name, Values::One));
        let many = [("controllers", Values::Many)];
        one.into_iter().chain(many).map(|(name, values)| OptionKey { name: name.to_owned(), values }).collect()
    }

    fn settings(text: &str) -> Vec<(String, usize, Vec<String>)> {
        let file = parse(text, &known()).unwrap();
        assert_eq!(file.problems, []);
        file.settings.into_iter().map(|setting| (setting.name, setting.line, setting.values)).collect()
    }

    #[test]
    fn values_are_texts_with_their_lines() {
        let text = "leader-elect: yes\nconcurrency: 8\n\nlog: \"info\"\ncontrollers:\n- '*'\n- -extender\n";
        let wanted = [
            ("leader-elect", 1, vec!["true"]),
            ("concurrency", 2, vec!["8"]),
            ("log", 4, vec!["info"]),
            ("controllers", 6, vec!["*", "-extender"]),
        ];
        let wanted = wanted.map(|(name, line, values)| {
            (name.to_owned(), line, values.into_iter().map(str::to_owned).collect::<Vec<_>>())
        });
        assert_eq!(settings(text), wanted);
        assert_eq!(settings("controllers: '*'"), [("controllers".to_owned(), 1, vec!["*".to_owned()])]);
    }

    #[test]
    fn nothing_is_set_by_nothing() {
        assert_eq!(settings(""), []);
        assert_eq!(settings("log:\nconcurrency: ~\n"), []);
    }

    #[test]
    fn every_mistake_is_told_with_its_line_and_without_values() {
        let text = "logg: sesame\nleader_elect: true\n--log: info\nconcurrency: [1]\nlog: info\nlog: debug\nother: sesame\n---\nlog: a\n";
        let file = parse(text, &known()).unwrap();
        let problems: Vec<String> = file.problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "line 1: logg: is no flag of `run`; did you mean `log`?",
                "line 2: leader_elect: is no flag of `run`; did you mean `leader-elect`?",
                "line 3: --log: is no flag of `run`; did you mean `log`?",
                "line 4: concurrency: must be a text, not a list",
                "line 6: log: is given again here; name it once",
                "line 7: other: is no flag of `run`",
                "line 8: ---: begins a second document; an options file has one",
            ]
        );
        assert!(!problems.join("").contains("sesame"));
    }

    #[test]
    fn what_is_no_mapping_is_no_options_file() {
        for text in ["- a", "text", "a: [", "a: *b"] {
            assert!(parse(text, &known()).is_err(), "{text}");
        }
    }
}
