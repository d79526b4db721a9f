//! What a grant covers of what a plugin asks for, and the sentence about what it does not.

use std::fmt;

use super::names::{is_label_key, is_object_name};

/// A label or annotation key, or all keys below a prefix (`acme.example/*`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyPattern {
    /// This key.
    Exact(String),
    /// Every key that begins with this text, which ends with a slash.
    Prefix(String),
}

impl KeyPattern {
    /// Reads a label key, or a domain followed by `/*`. `None` for any other text: a pattern that means something else
    /// than it seems to would be a wrong grant.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_suffix("/*") {
            Some(domain) => is_object_name(domain).is_ok().then(|| Self::Prefix(format!("{domain}/"))),
            None => is_label_key(text).is_ok().then(|| Self::Exact(text.to_owned())),
        }
    }

    /// Whether the pattern covers the key.
    #[must_use]
    pub fn matches(&self, key: &str) -> bool {
        match self {
            Self::Exact(exact) => exact == key,
            Self::Prefix(prefix) => key.len() > prefix.len() && key.starts_with(prefix.as_str()),
        }
    }
}

impl fmt::Display for KeyPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(key) => f.write_str(key),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
        }
    }
}

/// Whether a path is the prefix itself or lies below it, by whole segments: `/api` covers `/api/x`, not `/apiary`.
#[must_use]
pub fn is_below(path: &str, prefix: &str) -> bool {
    match path.strip_prefix(prefix) {
        Some(rest) => rest.is_empty() || prefix.ends_with('/') || rest.starts_with('/'),
        None => false,
    }
}

/// Whether a grant of these paths covers a wish for those; in both an empty list means all. What is not covered, otherwise: an empty
/// list, if the wish is for all paths.
#[must_use]
pub fn uncovered(wanted: &[String], permitted: &[String]) -> Option<Vec<String>> {
    let gives_all = permitted.is_empty() || permitted.iter().any(|path| path == "/");
    let is_covered = |path: &&String| permitted.iter().any(|at| is_below(path, at));
    let lacks: Vec<String> = wanted.iter().filter(|path| !is_covered(path)).cloned().collect();
    (!gives_all && (wanted.is_empty() || !lacks.is_empty())).then_some(lacks)
}

/// What a plugin does that it may not do. Prints a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack<'a> {
    /// A label key.
    NodeLabel(&'a str),
    /// An annotation key.
    NodeAnnotation(&'a str),
    /// An endpoint as a whole.
    Endpoint {
        /// Its name.
        name: &'a str,
        /// What it is for, as the plugin describes it.
        purpose: &'a str,
    },
    /// Names of Nodes.
    NodeNames,
    /// Methods of an endpoint.
    Methods {
        /// The endpoint.
        name: &'a str,
        /// The methods, in one text.
        methods: &'a str,
    },
    /// Paths of an endpoint.
    Paths {
        /// The endpoint.
        name: &'a str,
        /// The paths; empty: all.
        paths: &'a [String],
    },
}

impl fmt::Display for Lack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeLabel(key) => write!(f, "the plugin reads the node label {key}"),
            Self::NodeAnnotation(key) => write!(f, "the plugin reads the node annotation {key}"),
            Self::Endpoint { name, purpose } => write!(f, "the plugin calls the endpoint {name} ({purpose})"),
            Self::NodeNames => f.write_str("the plugin reads names of Nodes"),
            Self::Methods { name, methods } => write!(f, "the plugin uses {methods} on the endpoint {name}"),
            Self::Paths { name, paths: [] } => write!(f, "the plugin uses all paths of the endpoint {name}"),
            Self::Paths { name, paths } => write!(f, "the plugin uses {} of the endpoint {name}", paths.join(", ")),
        }?;
        f.write_str(", which is not permitted")
    }
}

/// All that is lacking as one sentence, which begins the message of a host.
#[must_use]
pub fn not_granted(lacks: &[String]) -> String {
    format!("the plugin requests what is not granted: {}", lacks.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_covered_by_whole_segments() {
        let lacks = |wanted: &[&str], permitted: &[&str]| {
            let texts = |paths: &[&str]| paths.iter().map(ToString::to_string).collect::<Vec<_>>();
            uncovered(&texts(wanted), &texts(permitted))
        };
        assert_eq!(lacks(&["/api/x", "/b"], &["/api", "/b"]), None);
        assert_eq!(lacks(&[], &["/"]), None);
        assert_eq!(lacks(&["/apiary"], &["/api"]), Some(vec!["/apiary".to_owned()]));
        assert_eq!(lacks(&[], &["/api"]), Some(Vec::new()));
    }
}
