//! The rules of a binding about what is copied: `spec.copy.labels` and `spec.copy.annotations`, each with `allow` and
//! `deny`.
//!
//! A list is looked up by key and by prefix, and never gone through: a node may have as many keys as a binding rules.

use std::collections::BTreeSet;
use std::fmt;

use super::{Map, Shown, never_copied};
use topoloom_core::rules::{self, is_object_name};

/// A list of rules of a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum List {
    /// What is copied although it would not be otherwise.
    Allow,
    /// What is not copied although it would be otherwise.
    Deny,
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        })
    }
}

/// Why a rule of a binding cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It is neither a key nor a prefix.
    #[error(
        "spec.copy.{map}.{list}[{at}] must be a key, a prefix such as example.com/*, or *, got {}: {why}",
        Shown(value)
    )]
    Malformed {
        /// The metadata that it is for.
        map: Map,
        /// The list that it is in.
        list: List,
        /// Its place in the list.
        at: usize,
        /// The entry.
        value: String,
        /// Which rule of Kubernetes it breaks.
        why: rules::Error,
    },
    /// It allows what must not be copied.
    #[error("spec.copy.{map}.{list}[{at}] must not name a key that begins with {prefix}, got {}: {why}", Shown(value))]
    Firm {
        /// The metadata that it is for.
        map: Map,
        /// The list that it is in.
        list: List,
        /// Its place in the list.
        at: usize,
        /// The entry.
        value: String,
        /// The beginning of keys that it falls under.
        prefix: &'static str,
        /// Why those are not copied.
        why: &'static str,
    },
}

/// One list of rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Rules {
    keys: BTreeSet<String>,
    /// Without the slash.
    prefixes: BTreeSet<String>,
    all: bool,
}

impl Rules {
    fn parse(map: Map, list: List, texts: &[String]) -> Result<Self, RuleError> {
        let mut rules = Self::default();
        for (at, text) in texts.iter().enumerate() {
            let malformed = |why| RuleError::Malformed { map, list, at, value: text.clone(), why };
            let begins = match text.strip_suffix("/*") {
                _ if text == "*" => {
                    rules.all = true;
                    continue;
                }
                Some(prefix) => {
                    let lower = prefix.to_ascii_lowercase();
                    is_object_name(if map == Map::Labels { prefix } else { &lower }).map_err(malformed)?;
                    rules.prefixes.insert(prefix.to_owned());
                    format!("{prefix}/")
                }
                None => {
                    map.is_key(text).map_err(malformed)?;
                    rules.keys.insert(text.clone());
                    text.clone()
                }
            };
            if let (List::Allow, Some(never)) = (list, never_copied(&begins))
                && never.firm.holds(map)
            {
                let value = text.clone();
                return Err(RuleError::Firm { map, list, at, value, prefix: never.prefix, why: never.why });
            }
        }
        Ok(rules)
    }

    fn has_prefix_of(&self, key: &str) -> bool {
        key.split_once('/').is_some_and(|(prefix, _)| self.prefixes.contains(prefix))
    }
}

/// The rules of a binding for its labels, or for its annotations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyRules {
    allow: Rules,
    deny: Rules,
}

impl KeyRules {
    /// Reads `spec.copy.labels` or `spec.copy.annotations`. Each entry is a key, `prefix/*`, or `*`.
    ///
    /// # Errors
    /// The first entry that cannot be used, and why.
    pub fn parse(map: Map, allow: &[String], deny: &[String]) -> Result<Self, RuleError> {
        Ok(Self { allow: Rules::parse(map, List::Allow, allow)?, deny: Rules::parse(map, List::Deny, deny)? })
    }

    /// Whether nothing is copied that is not allowed.
    pub(super) fn denies_all(&self) -> bool {
        self.deny.all
    }

    /// Which list decides about a key before the fixed prefixes that are not firm are looked at.
    pub(super) fn exact(&self, key: &str) -> Option<List> {
        if self.deny.keys.contains(key) {
            Some(List::Deny)
        } else if self.allow.keys.contains(key) {
            Some(List::Allow)
        } else if self.deny.has_prefix_of(key) {
            Some(List::Deny)
        } else if self.allow.has_prefix_of(key) {
            Some(List::Allow)
        } else {
            None
        }
    }
}

/// `spec.copy` of a binding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopyRules {
    /// For labels.
    pub labels: KeyRules,
    /// For annotations.
    pub annotations: KeyRules,
}
