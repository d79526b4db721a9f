//! What is wrong with a kubeconfig, for the person who can put it right. Owns the sentences; shows no credential.

use std::fmt;

use topoloom_core::text;

use super::LARGEST;

/// The longest value that an error repeats, in bytes.
const SHOWN: usize = 120;

/// Why a kubeconfig is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KubeconfigError {
    /// The Secret does not have it.
    #[error("the Secret has no key \"kubeconfig\"")]
    NoKey,
    /// There is nothing in it.
    #[error("the key \"kubeconfig\" of the Secret is empty")]
    Empty,
    /// It is too large.
    #[error("the kubeconfig has {bytes} bytes; at most {LARGEST} are read")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// It is not UTF-8.
    #[error("the kubeconfig is no text in UTF-8")]
    NotText,
    /// It is no YAML, or such YAML as is not read.
    #[error("the kubeconfig is not used: line {line}, column {column}: {problem}")]
    Syntax {
        /// Where, counted from 1; 0 where the place is not known.
        line: u64,
        /// Where in the line, counted from 1.
        column: u64,
        /// What is wrong.
        problem: &'static str,
    },
    /// A field is missing, wrong or refused.
    #[error("kubeconfig: {0}")]
    Field(Box<FieldError>),
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Which field.
    pub field: String,
    /// What it says, where that can be shown.
    pub value: Option<String>,
    /// What is wrong with it.
    pub problem: String,
    /// What would be right.
    pub allowed: &'static str,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, value, problem, allowed } = self;
        match value {
            Some(value) => write!(f, "{field} is \"{value}\": {problem}; {allowed}"),
            None => write!(f, "{field}: {problem}; {allowed}"),
        }
    }
}

/// A value as an error shows it.
pub(super) fn shown(value: &str) -> String {
    text::line(value, SHOWN)
}

/// The path of a file, if that is what it looks like: by mistake people put a credential where its file is named.
pub(super) fn shown_path(value: &str) -> Option<String> {
    let looks_like_one =
        value.starts_with(['/', '.', '~']) && value.len() <= SHOWN && !value.contains(char::is_whitespace);
    looks_like_one.then(|| shown(value))
}
