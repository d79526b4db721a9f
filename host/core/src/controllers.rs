//! Which controllers run: the grammar of `--controllers` (`node-lock-and-bind.md` B6, with R1 and decision M1).
//!
//! A list of tokens, separated by commas. `NAME` and `+NAME` switch a controller on, `-NAME` switches it off, `*` means
//! all controllers that no token names. Lists for Volcano's controller manager are accepted. A controller that only
//! Volcano has may be switched off, with a log line; switching it on is a mistake.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Writes HyperNodes.
pub const HYPER_NODE: &str = "hyperNode-controller";
/// Removes orphaned node locks.
pub const NODELOCK_SWEEPER: &str = "nodelock-sweeper";
/// Serves kube-scheduler.
pub const EXTENDER: &str = "extender";
/// Lends nodes of physical clusters to this one: what it copies goes up, from a physical cluster to the virtual one.
pub const BOTTOMUP_SYNCER: &str = "bottomup-syncer";

/// Every controller that this host knows by name, in the order in which they are initialised. One that is not built in,
/// or not configured, waits.
pub const OURS: [&str; 4] = [BOTTOMUP_SYNCER, EXTENDER, HYPER_NODE, NODELOCK_SWEEPER];

/// The controllers of Volcano's controller manager (B1).
pub const VOLCANOS: [&str; 10] = [
    "colocation-config-controller",
    "cronjob-controller",
    "gc-controller",
    HYPER_NODE,
    "job-controller",
    "jobflow-controller",
    "jobtemplate-controller",
    "pg-controller",
    "queue-controller",
    "sharding-controller",
];

/// A valid list of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    tokens: Vec<String>,
}

/// What is wrong with a list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// No controller has this name.
    #[error("`{name}` is not a controller; the controllers are {}{}", known.join(", "), Meant(meant.as_deref()))]
    Unknown {
        /// The name.
        name: String,
        /// The names there are.
        known: Vec<String>,
        /// A controller with this name in other capitals.
        meant: Option<String>,
    },
    /// Only Volcano's binary has it.
    #[error(
        "`{name}` is a controller of Volcano's own binary and cannot run here; the controllers are {}",
        known.join(", ")
    )]
    Volcanos {
        /// The name.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// It is listed more than once.
    #[error("`{name}` is listed more than once ({}); list it once, with one prefix", tokens.join(", "))]
    Repeated {
        /// The name.
        name: String,
        /// Its tokens.
        tokens: Vec<String>,
    },
    /// Nothing between two commas.
    #[error("a name is missing between commas")]
    Missing,
    /// A prefix before the star.
    #[error("`{0}` is not allowed: `*` has no prefix, and means all controllers that are not named")]
    Star(String),
    /// All tokens switch something off.
    #[error("the list only switches controllers off, so none would run; add `*` for all others: `*,{0}`")]
    OnlyOff(String),
}

/// A hint behind a sentence.
struct Meant<'a>(Option<&'a str>);

impl fmt::Display for Meant<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |name| write!(f, "; did you mean `{name}`? Names are case-sensitive"))
    }
}

/// A valid list, with what is worth a log line about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerList {
    /// The list.
    pub selection: Selection,
    /// Controllers that it switches off and that only Volcano's binary has.
    pub elsewhere: Vec<String>,
}

impl Selection {
    /// The default: all of them.
    #[must_use]
    pub fn all() -> Self {
        Self { tokens: vec!["*".to_owned()] }
    }

    /// Reads the list, from one value or several, with names out of `known`. Blanks around names are ignored.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse<'a>(
        values: impl IntoIterator<Item = &'a str>,
        known: &[&str],
    ) -> Result<ControllerList, Vec<Mistake>> {
        let given = values.into_iter().filter(|value| !value.trim().is_empty());
        let tokens: Vec<&str> = given.flat_map(|value| value.split(',')).map(str::trim).collect();
        let mut mistakes = Vec::new();
        let mut elsewhere = Vec::new();
        let mut seen: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut judged = BTreeSet::new();
        for token in tokens.iter().copied().filter(|token| *token != "*") {
            let name = name_of(token);
            seen.entry(name).or_default().push(token);
            if !judged.insert(token) {
                continue;
            }
            match judge(token, known) {
                Ok(Binary::Here) => {}
                Ok(Binary::Elsewhere) => elsewhere.push(name.to_owned()),
                Err(mistake) if mistakes.contains(&mistake) => {}
                Err(mistake) => mistakes.push(mistake),
            }
        }
        for (name, tokens) in seen.into_iter().filter(|(name, tokens)| tokens.len() > 1 && !name.is_empty()) {
            let tokens = tokens.into_iter().map(str::to_owned).collect();
            mistakes.push(Mistake::Repeated { name: name.to_owned(), tokens });
        }
        if !tokens.is_empty() && tokens.iter().all(|token| token.starts_with('-')) {
            mistakes.push(Mistake::OnlyOff(tokens.join(",")));
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let selection = Self { tokens: tokens.into_iter().map(str::to_owned).collect() };
        Ok(ControllerList { selection, elsewhere })
    }

    /// Whether the controller of this name runs. The first token that names it decides; `*` decides about the others.
    /// An empty list switches every controller on.
    #[must_use]
    pub fn enables(&self, name: &str) -> bool {
        let mut star = self.tokens.is_empty();
        for token in &self.tokens {
            match token.strip_prefix('-') {
                Some(off) if off == name => return false,
                None if token.strip_prefix('+').unwrap_or(token) == name => return true,
                _ => star |= token == "*",
            }
        }
        star
    }
}

/// Which binary has the controller that a token names.
enum Binary {
    Here,
    /// In Volcano's binary; the token switches it off here.
    Elsewhere,
}

fn name_of(token: &str) -> &str {
    token.strip_prefix(['+', '-']).unwrap_or(token)
}

fn judge(token: &str, known: &[&str]) -> Result<Binary, Mistake> {
    let name = name_of(token);
    let known_names = || known.iter().map(|name| (*name).to_owned()).collect();
    match name {
        "" => Err(Mistake::Missing),
        "*" => Err(Mistake::Star(token.to_owned())),
        _ if known.contains(&name) => Ok(Binary::Here),
        _ if !VOLCANOS.contains(&name) => {
            let meant = known.iter().chain(&VOLCANOS).find(|other| other.eq_ignore_ascii_case(name));
            let meant = meant.map(|name| (*name).to_owned());
            Err(Mistake::Unknown { name: name.to_owned(), known: known_names(), meant })
        }
        _ if token.starts_with('-') => Ok(Binary::Elsewhere),
        _ => Err(Mistake::Volcanos { name: name.to_owned(), known: known_names() }),
    }
}

#[cfg(test)]
mod tests;
