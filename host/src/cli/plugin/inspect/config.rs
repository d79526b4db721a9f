//! What a plugin would run with, in any form that a person has.
//!
//! Everything is read by the reader of the host, so that `yes` means here what it means there: a part of a document is
//! made a whole one first.

use std::path::Path;

use anyhow::{Context, bail};
use serde_json::Value;
use topoloom_core::names::SourceName;

use crate::cli::plugin::file::read_bounded;
use crate::cli::print;
use crate::config::{self, Document, EntryConfig};

/// What was given.
pub(in crate::cli::plugin) enum Given {
    /// An entry with all that belongs to it.
    Entry(Box<EntryConfig>),
    /// Only the free-form part of one.
    Config(Value),
}

impl Given {
    pub(in crate::cli::plugin) fn entry(&self) -> Option<&EntryConfig> {
        match self {
            Self::Entry(entry) => Some(entry),
            Self::Config(_) => None,
        }
    }

    /// What the plugin gets.
    pub(in crate::cli::plugin) fn config(&self) -> &Value {
        match self {
            Self::Entry(entry) => &entry.config,
            Self::Config(config) => config,
        }
    }
}

/// The forms, by their top level.
enum Form {
    Document,
    List,
    Entry,
    Config,
}

/// Reads a file.
pub(in crate::cli::plugin) fn read(path: &Path, source: Option<&SourceName>) -> anyhow::Result<Given> {
    let named = || format!("--config {}", path.display());
    // A manifest is a little larger than the document in it.
    let bytes = read_bounded(path, 2 * config::MAX_BYTES as u64).with_context(named)?;
    let text = String::from_utf8(bytes).context("it is not text").with_context(named)?;
    parse(&text, source).with_context(named)
}

fn parse(text: &str, source: Option<&SourceName>) -> anyhow::Result<Given> {
    let form = form(text)?;
    // A marker of its beginning cannot be inside of another document.
    let body = text.trim_start_matches('\u{feff}').trim_start_matches("---");
    let indented = |by: &str| body.lines().map(|line| format!("{by}{line}\n")).collect::<String>();
    let (whole, added) = match form {
        Form::Document => (text.to_owned(), 0),
        Form::List => (format!("networkTopologyDiscovery:\n{}", indented("  ")), 1),
        Form::Entry => (format!("networkTopologyDiscovery:\n-\n{}", indented("  ")), 2),
        Form::Config => {
            let head = "networkTopologyDiscovery:\n- source: inspect\n  enabled: true\n  config:\n";
            (format!("{head}{}", indented("    ")), 4)
        }
    };
    // What is no entry has no name: any source may have it.
    let named = source.filter(|_| !matches!(form, Form::Config));
    let entry = choose(config::parse_file(&whole)?, named, added)?;
    Ok(match form {
        Form::Config => Given::Config(entry.config),
        _ => Given::Entry(Box::new(entry)),
    })
}

fn form(text: &str) -> anyhow::Result<Form> {
    let value: Value = serde_saphyr::from_str(text).context("it is neither YAML nor JSON")?;
    let has = |key: &str| value.get(key).is_some();
    Ok(match &value {
        Value::Object(_) if has("networkTopologyDiscovery") || has("kind") && has("data") => Form::Document,
        Value::Object(_) if has("source") => Form::Entry,
        Value::Object(_) => Form::Config,
        Value::Array(_) => Form::List,
        _ => bail!("give a configuration, an entry, or a whole document: a mapping"),
    })
}

/// The one entry that is meant. `added` lines precede the text of the file.
fn choose(document: Document, source: Option<&SourceName>, added: usize) -> anyhow::Result<EntryConfig> {
    let place = |mut problem: config::ConfigProblem| {
        problem.line = problem.line.saturating_sub(added);
        problem.to_string()
    };
    for warning in document.warnings {
        print::error(&format!("topoloom: warning: {}", place(warning)));
    }
    let entries = document.entries.into_iter();
    let mut meant: Vec<_> = entries.filter(|entry| source.is_none() || entry.source.as_ref() == source).collect();
    match (meant.pop(), meant.len()) {
        (Some(entry), 0) => entry
            .config
            .map_err(|problems| anyhow::anyhow!("{}", problems.into_iter().map(place).collect::<Vec<_>>().join("\n"))),
        (Some(_), _) => bail!("it has several entries; say which one with --source NAME"),
        (None, _) => bail!("it has no such entry"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> String {
        parse(text, None).unwrap_or_else(|error| panic!("{text:?}: {error:#}")).config().to_string()
    }

    #[test]
    fn every_form_means_the_same() {
        for text in [
            "a: yes\nb:\n- 1\n",
            "---\na: yes\nb: [1]\n",
            "# a comment\na: true\nb:\n    - 1",
            r#"{"a": true, "b": [1]}"#,
            "source: x\nenabled: true\nconfig:\n  a: yes\n  b: [1]\n",
            "source: x\nconfig: {a: yes, b: [1]}\n",
            "- source: x\n  enabled: true\n  config:\n    a: yes\n    b: [1]\n",
            r#"[{"source": "x", "config": {"a": true, "b": [1]}}]"#,
            "networkTopologyDiscovery:\n- source: x\n  enabled: true\n  config:\n    a: yes\n    b: [1]\n",
        ] {
            assert_eq!(config(text), r#"{"a":true,"b":[1]}"#, "{text:?}");
        }
        assert_eq!(config("text: |\n  one\n\n  two\n"), r#"{"text":"one\n\ntwo\n"}"#);
        assert_eq!(config("{}"), "{}");
    }

    #[test]
    fn one_entry_is_meant() {
        let two = "networkTopologyDiscovery:\n- {source: x, enabled: true}\n- {source: y, enabled: true}\n";
        let refused = |source: Option<&str>| {
            parse(two, source.map(|source| source.parse().unwrap()).as_ref()).err().unwrap().to_string()
        };
        assert_eq!(refused(None), "it has several entries; say which one with --source NAME");
        assert_eq!(refused(Some("z")), "it has no such entry");
        assert_eq!(parse(two, Some(&"y".parse().unwrap())).unwrap().entry().unwrap().source.to_string(), "y");
        assert_eq!(parse("a: 1", Some(&"y".parse().unwrap())).unwrap().config().to_string(), r#"{"a":1}"#);
    }

    #[test]
    fn mistakes_have_the_lines_of_the_file() {
        let error = parse("source: x\nenabled: true\ninterval: 5\n", None).err().unwrap().to_string();
        assert!(error.starts_with("line 3: networkTopologyDiscovery[0].interval: "), "{error}");
        for bad in ["", "1", "text", "a: [", "\0"] {
            assert!(parse(bad, None).is_err(), "{bad:?}");
        }
    }
}
