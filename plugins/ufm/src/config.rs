//! The configuration after reading: checked, complete, every mistake reported at once with its path.
//!
//! Shapes are lenient where Volcano's are (keys in any case, a single text for a list of one); what cannot work is a
//! problem. What works but may surprise is a note, which every round reports as a diagnostic.

mod check;
mod place;
mod read;

use regex_lite::Regex;
use topoloom_fabric::Settings;
use topoloom_sdk::{Credential, FromJson, Problem, Tls};

/// Where the API begins when the host proves itself with a token.
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
    /// What all discoverers of fabrics can be told about grouping and names.
    pub settings: Settings,
    /// Which ports count.
    pub ports: Ports,
    /// How many of a hundred records may be unusable before the whole list is.
    pub max_unusable: u32,
    /// Whether switches above the leaves are asked for.
    pub uplinks: Uplinks,
    /// How many records a page has; nothing: no pages are asked for.
    pub page_size: Option<u32>,
}

/// How cables become groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// By what most cables of a host say, level by level.
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
    /// Where the API begins, when the configuration says so.
    pub prefix: Option<String>,
    /// How the host proves itself.
    pub auth: Auth,
    /// How its certificate is checked.
    pub tls: Tls,
}

/// How the host proves itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// Whatever the operator gave: token, client certificate, user and password, in this order.
    Auto,
    /// User and password.
    Basic,
    /// A token.
    Token,
    /// A client certificate.
    Mtls,
}

/// Whether switches above the leaves are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uplinks {
    /// They are.
    Auto,
    /// Only tier 1 is wanted.
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
    /// The kinds of credential that serve, best first.
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
