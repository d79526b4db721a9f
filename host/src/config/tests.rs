//! The configuration against its specification: every rule once, through one check function.

mod document;
mod fields;
mod hostile;
mod parts;
mod plans;
mod values;

use super::{ConfigProblem, Document, EntryConfig, Error, parse};

/// The document, which must be readable.
fn document(text: &str) -> Document {
    parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// A document with one enabled entry `label` and these further lines, each indented as a field of the entry.
fn entry_with(lines: &str) -> String {
    let indented: String = lines.lines().map(|line| format!("  {line}\n")).collect();
    format!("networkTopologyDiscovery:\n- source: label\n  enabled: true\n{indented}")
}

/// The only entry of that document, which must be valid.
fn config(lines: &str) -> EntryConfig {
    let document = document(&entry_with(lines));
    assert_eq!(document.entries.len(), 1, "{document:#?}");
    let entry = document.entries.into_iter().next().unwrap();
    entry.config.unwrap_or_else(|problems| panic!("{lines}\n{problems:#?}"))
}

/// What is wrong with the only entry of that document, as text, one problem per line.
fn errors(lines: &str) -> Vec<String> {
    document(&entry_with(lines)).errors().map(short).collect()
}

/// The warnings of that document, as text.
fn warnings(lines: &str) -> Vec<String> {
    document(&entry_with(lines)).warnings.iter().map(short).collect()
}

/// A problem without the part of its path that all problems of these tests share.
fn short(problem: &ConfigProblem) -> String {
    format!("{}: {}", problem.path.replace("networkTopologyDiscovery[0].", ""), problem.message)
}

/// The entry must be refused for exactly one reason, which must contain these words.
#[track_caller]
fn refused(lines: &str, words: &[&str]) {
    let errors = errors(lines);
    assert_eq!(errors.len(), 1, "{lines}\n{errors:#?}");
    for word in words {
        assert!(errors[0].contains(word), "{lines}\n{:?} lacks {word:?}", errors[0]);
    }
}

/// The whole document must be refused.
#[track_caller]
fn broken(text: &str) -> Error {
    parse(text).expect_err(text)
}
