//! The checked, complete configuration, in the order in which the decisions need it.
//!
//! Reading is as lenient in form as Volcano's (keys in any case, a single mapping for a list, a list of mappings for the map
//! of types, scalars for strings), and strict in meaning. A value that cannot work is a problem with its path, and all
//! problems are reported at once. A value that works but may surprise gives a [`Note`].

mod check;
mod read;

pub(crate) use check::{is_label_key, is_label_value};
use regex_lite::Regex;
use topoloom_sdk::{FromJson, Problem};

/// The entry at the end of a list that means the node itself.
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
    /// Leave out levels whose domains all have one member.
    pub collapse: bool,
    /// Values that count as missing, lower case. The empty value always does.
    pub ignored: Vec<String>,
    /// Notes on values that work but may surprise.
    pub notes: Vec<Note>,
    /// Names of types that are left out because of a mistake, while the others are served.
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
    /// The name of the tier; the first key unless configured otherwise.
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
    /// A value is one domain, under any outer domain.
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

/// A note on a value that works but may surprise. Every round reports it as a diagnostic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The code of the diagnostic.
    pub code: &'static str,
    /// One sentence.
    pub text: String,
}

/// The code of a type that is left out.
pub const LEFT_OUT: &str = "bad-type";

/// The code of all differences between the default mode and Volcano for the same document.
pub const DIFFERS: &str = "differs-from-volcano";

impl FromJson for Config {
    fn from_json(text: &str) -> Result<Self, Vec<Problem>> {
        read::config(text)
    }
}

impl Level {
    /// The key of the level in labels and messages.
    #[must_use]
    pub fn key(&self) -> &str {
        self.keys.first().map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests;
