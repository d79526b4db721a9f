//! The checked, complete configuration; every mistake is reported at once with its path.
//!
//! The form is as lenient as Volcano's (keys in any case, a single text for a list of one); a value that cannot work is a
//! problem. A value that works but may surprise gives a note, which every round reports as a diagnostic.

mod check;
mod place;
mod read;

use regex_lite::Regex;
use topoloom_fabric::Settings;
use topoloom_sdk::{Credential, FromJson, Problem, Tls};

/// Where the API begins for requests with a token.
const TOKEN_PREFIX: &str = "/ufmRestV3";
/// Where the API begins otherwise.
const PREFIX: &str = "/ufmRest";

/// A checked configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The UFMs, each with a fabric of its own; never empty.
    pub fabrics: Vec<Fabric>,
    /// How cables become groups.
    pub mode: Mode,
    /// The settings for grouping and names that all discoverers of fabrics have.
    pub settings: Settings,
    /// Which ports count.
    pub ports: Ports,
    /// How many of a hundred records may be unusable before the whole list is refused.
    pub max_unusable: u32,
    /// Whether the round reads the links between switches.
    pub uplinks: Uplinks,
    /// How many records a page has; none: the list is read as a whole.
    pub page_size: Option<u32>,
}

/// How cables become groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// By most cables of each host, level by level.
    Bundles,
    /// As Volcano does: leaves that share a host, and one spine.
    Volcano,
}

/// One UFM, or the members of one high-availability pair.
#[derive(Debug, Clone)]
pub struct Fabric {
    /// The name of its endpoint.
    pub name: String,
    /// Base URLs without a slash at the end; the first that answers is used.
    pub urls: Vec<String>,
    /// Where the API begins, if configured.
    pub prefix: Option<String>,
    /// How the host authenticates.
    pub auth: Auth,
    /// How its certificate is checked.
    pub tls: Tls,
}

/// How the host authenticates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// With the first of these that the operator gave: token, client certificate, user and password.
    Auto,
    /// User and password.
    Basic,
    /// A token.
    Token,
    /// A client certificate.
    Mtls,
}

/// Whether the round reads the links between switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uplinks {
    /// It does.
    Auto,
    /// It does not: the answer has tier 1 only.
    Off,
}

/// Which ports count, by the name of the adapter, the label of the port or the name of the leaf switch.
#[derive(Debug, Clone, Default)]
pub struct Ports {
    /// One of these matches; empty: all ports do.
    pub include: Vec<Regex>,
    /// None of these matches.
    pub exclude: Vec<Regex>,
}

impl FromJson for Config {
    fn from_json(text: &str) -> Result<Self, Vec<Problem>> {
        read::config(text)
    }
}

impl Auth {
    /// The kinds of credential that the plugin can use, best first.
    #[must_use]
    pub fn credentials(self) -> &'static [Credential] {
        match self {
            Self::Auto => &[Credential::Token, Credential::Mtls, Credential::Basic],
            Self::Basic => &[Credential::Basic],
            Self::Token => &[Credential::Token],
            Self::Mtls => &[Credential::Mtls],
        }
    }
}

impl Fabric {
    /// Where the API begins for a kind of credential.
    #[must_use]
    pub fn prefix(&self, credential: Credential) -> &str {
        match (&self.prefix, credential) {
            (Some(prefix), _) => prefix,
            (None, Credential::Token) => TOKEN_PREFIX,
            (None, _) => PREFIX,
        }
    }

    /// All prefixes that a request may have; empty: any path.
    #[must_use]
    pub fn prefixes(&self) -> Vec<&str> {
        match (&self.prefix, self.auth) {
            (Some(prefix), _) if prefix.is_empty() => vec!["/app", "/resources"],
            (Some(prefix), _) => vec![prefix],
            (None, Auth::Auto) => vec![TOKEN_PREFIX, PREFIX],
            (None, Auth::Token) => vec![TOKEN_PREFIX],
            (None, Auth::Basic | Auth::Mtls) => vec![PREFIX],
        }
    }
}

impl Ports {
    /// Whether a port with these texts counts.
    #[must_use]
    pub fn admit(&self, texts: [Option<&str>; 3]) -> bool {
        let any = |patterns: &[Regex]| patterns.iter().any(|regex| texts.iter().flatten().any(|t| regex.is_match(t)));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

#[cfg(test)]
mod tests;
