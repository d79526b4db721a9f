//! What was given where, and everything that is wrong with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

/// Longest value that a sentence repeats.
const SHOWN: usize = 64;

/// Which layer a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum Origin {
    /// The flag itself.
    CommandLine,
    /// An environment variable.
    Variable(String),
    /// A line of the options file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// No layer gives it.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine => f.write_str("command line"),
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::File { path, line } => write!(f, "{} line {line}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// The values of one flag in one layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct LayerValues {
    pub(in crate::cli) origin: Origin,
    pub(in crate::cli) values: Vec<String>,
}

impl LayerValues {
    /// As a sentence names it: flag, value and where it was set.
    pub(super) fn named(&self, flag: &str) -> String {
        let values: Vec<String> = self.values.iter().map(|value| shown(value)).collect();
        let values = values.join(" ");
        let gap = if values.is_empty() { "" } else { " " };
        format!("--{flag}{gap}{values} ({})", self.origin)
    }
}

/// A value in a sentence. A URL may hold a password.
fn shown(value: &str) -> String {
    if value.contains('@') {
        return "…".to_owned();
    }
    let cut: String = value.chars().take(SHOWN).collect();
    let dots = if cut.len() < value.len() { "…" } else { "" };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:+=*,[]".contains(c);
    let quoted = if cut.is_empty() || !cut.chars().all(plain) { format!("{cut:?}") } else { cut };
    quoted + dots
}

/// What was given, and what is wrong with it.
#[derive(Debug, Default)]
pub(in crate::cli) struct Given {
    /// What was set for each flag, defaults included; the first counts.
    pub(super) settings: BTreeMap<String, Vec<LayerValues>>,
    /// Flags with a value that cannot be used; their defaults replace them, and rules across flags leave them out.
    pub(super) broken: BTreeSet<String>,
    mistakes: Vec<String>,
    warnings: Vec<String>,
}

impl Given {
    /// Whether a layer gives this flag.
    pub(in crate::cli) fn is_given(&self, flag: &str) -> bool {
        self.counting(flag).is_some_and(|setting| setting.origin != Origin::Default)
    }

    /// Whether the typed values of all these flags come from valid texts.
    pub(in crate::cli) fn are_sound(&self, flags: &[&str]) -> bool {
        flags.iter().all(|flag| !self.broken.contains(*flag))
    }

    /// Something is wrong with these flags together.
    pub(in crate::cli) fn mistake(&mut self, flags: &[&str], message: impl fmt::Display) {
        let sentence = self.sentence(flags, message);
        self.mistakes.push(sentence);
    }

    /// Something about these flags is worth saying.
    pub(in crate::cli) fn warn(&mut self, flags: &[&str], message: impl fmt::Display) {
        let sentence = self.sentence(flags, message);
        self.warnings.push(sentence);
    }

    fn sentence(&self, flags: &[&str], message: impl fmt::Display) -> String {
        let named = flags.iter().map(|flag| match self.counting(flag) {
            Some(setting) => setting.named(flag),
            None => format!("--{flag}"),
        });
        format!("{}: {message}", named.collect::<Vec<_>>().join(", "))
    }

    /// A value of a layer is wrong, whether or not it counts.
    pub(in crate::cli) fn broken(&mut self, flag: &str, setting: &LayerValues, message: impl fmt::Display) {
        self.broken.insert(flag.to_owned());
        self.mistakes.push(format!("{}: {message}", setting.named(flag)));
    }

    /// A layer itself is wrong.
    pub(super) fn wrong(&mut self, sentence: String) {
        self.mistakes.push(sentence);
    }

    /// Something else is worth saying.
    pub(super) fn odd(&mut self, sentence: String) {
        self.warnings.push(sentence);
    }

    /// Every mistake, in the order in which they were found.
    pub(in crate::cli) fn mistakes(&self) -> &[String] {
        &self.mistakes
    }

    /// Everything that is worth saying.
    pub(in crate::cli) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What counts for one flag, and where it came from.
    pub(super) fn counting(&self, flag: &str) -> Option<&LayerValues> {
        self.settings.get(flag)?.first()
    }

    /// What every layer says about a flag, for lists that are judged as a whole.
    pub(in crate::cli) fn layers(&self, flag: &str) -> Vec<LayerValues> {
        self.settings.get(flag).cloned().unwrap_or_default()
    }
}
