//! The configuration after reading: checked, complete, in the order in which the decisions need it.
//!
//! Reading is lenient in shape, as Volcano's is (keys in any case, a single mapping for a list, a list of mappings for
//! the map of types, scalars for strings), and strict in meaning: what cannot work is a problem with its path, and all
//! problems are reported at once. What works but may surprise is a [`Note`].

mod check;
mod read;

pub(crate) use check::{is_label_key, is_label_value};
use regex_lite::Regex;
use topoloom_sdk::{FromJson, Problem};

/// The entry that stands for the node itself at the end of a list.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// A checked configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// How domains are identified.
    pub mode: Mode,
    /// The topology types in the order of the document, presets last.
    pub types: Vec<Type>,
    /// Which nodes belong to which type; the first match wins.
    pub profiles: Vec<Profile>,
    /// Leave out levels that tell nothing.
    pub collapse: bool,
    /// Values that count as missing, lower case. The empty value always does.
    pub ignored: Vec<String>,
    /// What works but may surprise.
    pub notes: Vec<Note>,
    /// Names of types that are left out, since they are wrong and their neighbours are not.
    pub left_out: Vec<String>,
}

/// How domains are identified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// By the path of values from the outermost level.
    Paths,
    /// By key and value alone, as Volcano does.
    Volcano,
}

/// A topology type: one tree.
#[derive(Debug, Clone)]
pub struct Type {
    /// Its name in the document.
    pub name: String,
    /// Its levels, innermost (tier 1) first.
    pub levels: Vec<Level>,
}

/// One level of a type.
#[derive(Debug, Clone)]
pub struct Level {
    /// The label keys; the first that a node has wins. Never empty.
    pub keys: Vec<String>,
    /// What users call it; the first key unless the configuration says otherwise.
    pub name: String,
    /// Takes the domain out of a value.
    pub extract: Option<Regex>,
    /// How far a value reaches.
    pub scope: Scope,
}

/// How far a value reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One value under two outer domains is two domains.
    Path,
    /// A value is one domain wherever it stands.
    Global,
}

/// Nodes with all these labels belong to a type.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Position in `Config::types`.
    pub kind: usize,
    /// Key and value of each label.
    pub selector: Vec<(String, String)>,
}

/// What works but may surprise. Every round reports it as a diagnostic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The code of the diagnostic.
    pub code: &'static str,
    /// One sentence.
    pub text: String,
}

/// The code of a type that is left out.
pub const LEFT_OUT: &str = "bad-type";

/// The code of everything in which the default mode differs from Volcano for the same document.
pub const DIFFERS: &str = "differs-from-volcano";

impl FromJson for Config {
    fn from_json(text: &str) -> Result<Self, Vec<Problem>> {
        read::config(text)
    }
}

impl Level {
    /// The key that stands for the level in labels and messages.
    #[must_use]
    pub fn key(&self) -> &str {
        self.keys.first().map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests;
