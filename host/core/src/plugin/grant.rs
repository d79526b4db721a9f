//! What a plugin requires, compared with what the operator granted (decision H16).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::model::{Endpoint, Method, Requirements};
pub use crate::rules::wish::KeyPattern;
use crate::rules::wish::{Lack, uncovered};

/// Where the bytes of a plugin come from, as far as grants depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Embedded in this binary, by digest: what it requires is granted as it is.
    Embedded,
    /// Anywhere else: only what the operator wrote down is granted.
    Foreign,
}

/// The `permissions` of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Permissions {
    /// Label keys that may become columns.
    pub node_labels: Vec<KeyPattern>,
    /// Annotation keys that may become columns.
    pub node_annotations: Vec<KeyPattern>,
    /// Endpoints by name.
    pub endpoints: BTreeMap<String, EndpointPermission>,
}

/// What requests to an endpoint may look like. Its address and connection are configured in the host's endpoints.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EndpointPermission {
    /// Methods that may be used.
    pub methods: BTreeSet<Method>,
    /// Path prefixes below the base URL; empty: all.
    pub paths: Vec<String>,
}

/// What one plugin may see and do with one configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Granted {
    /// Label keys that were required and granted.
    pub labels: BTreeSet<Arc<str>>,
    /// Annotation keys that were required and granted.
    pub annotations: BTreeSet<Arc<str>>,
    /// Whether the plugin may see names of Nodes.
    pub node_names: bool,
    /// Endpoints that were required and granted.
    pub endpoints: BTreeMap<String, GrantedEndpoint>,
}

/// One endpoint that a plugin may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantedEndpoint {
    /// What the plugin asked for.
    pub required: Endpoint,
    /// What requests may look like: never more than the plugin asked for.
    pub permission: EndpointPermission,
}

/// A requirement that the operator did not grant. Prints a sentence; [`NotGranted::yaml`] prints the lines that grant it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotGranted {
    /// A label key.
    NodeLabel(String),
    /// An annotation key.
    NodeAnnotation(String),
    /// An endpoint as a whole.
    Endpoint {
        /// Its name.
        name: String,
        /// What it is for, as the plugin describes it.
        purpose: String,
        /// What it would use.
        methods: Vec<Method>,
        /// Its address.
        paths: Vec<String>,
    },
    /// Names of Nodes.
    NodeNames,
    /// Methods of an endpoint that is granted without them.
    Methods {
        /// The endpoint.
        name: String,
        /// All methods that the plugin uses.
        methods: Vec<Method>,
    },
    /// Paths of an endpoint that is granted without them.
    Paths {
        /// The endpoint.
        name: String,
        /// The paths that are not covered; empty: the plugin requires all.
        paths: Vec<String>,
    },
}

/// What the plugin may see and do.
///
/// Embedded bytes get what they require. All others get what they require as far as the operator permits it.
///
/// # Errors
///
/// Everything that is missing, at once. A plugin with only some of its grants would answer with half a topology.
pub fn grant(
    requirements: &Requirements,
    permissions: &Permissions,
    origin: Origin,
) -> Result<Granted, Vec<NotGranted>> {
    let mut granted = Granted::default();
    let mut refused = Vec::new();
    let embedded = origin == Origin::Embedded;
    for key in &requirements.node_labels {
        if embedded || permissions.node_labels.iter().any(|pattern| pattern.matches(key)) {
            granted.labels.insert(key.as_str().into());
        } else {
            refused.push(NotGranted::NodeLabel(key.clone()));
        }
    }
    for key in &requirements.node_annotations {
        if embedded || permissions.node_annotations.iter().any(|pattern| pattern.matches(key)) {
            granted.annotations.insert(key.as_str().into());
        } else {
            refused.push(NotGranted::NodeAnnotation(key.clone()));
        }
    }
    for endpoint in &requirements.endpoints {
        let permission = if embedded { Ok(as_required(endpoint)) } else { cover(endpoint, permissions) };
        match permission {
            Ok(permission) => {
                let required = endpoint.clone();
                granted.endpoints.insert(endpoint.name.clone(), GrantedEndpoint { required, permission });
            }
            Err(refusals) => refused.extend(refusals),
        }
    }
    if refused.is_empty() { Ok(granted) } else { Err(refused) }
}

fn as_required(endpoint: &Endpoint) -> EndpointPermission {
    EndpointPermission { methods: endpoint.methods.iter().copied().collect(), paths: endpoint.paths.clone() }
}

/// What the plugin asked for, if the operator's permission covers it.
fn cover(endpoint: &Endpoint, permissions: &Permissions) -> Result<EndpointPermission, Vec<NotGranted>> {
    let name = &endpoint.name;
    let Some(permitted) = permissions.endpoints.get(name) else {
        return Err(vec![NotGranted::Endpoint {
            name: name.clone(),
            purpose: endpoint.purpose.clone(),
            methods: endpoint.methods.clone(),
            paths: endpoint.paths.clone(),
        }]);
    };
    let mut refused = Vec::new();
    if !endpoint.methods.iter().all(|method| permitted.methods.contains(method)) {
        refused.push(NotGranted::Methods { name: name.clone(), methods: endpoint.methods.clone() });
    }
    if let Some(paths) = uncovered(&endpoint.paths, &permitted.paths) {
        refused.push(NotGranted::Paths { name: name.clone(), paths });
    }
    if refused.is_empty() { Ok(as_required(endpoint)) } else { Err(refused) }
}

impl fmt::Display for NotGranted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeLabel(key) => Lack::NodeLabel(key).fmt(f),
            Self::NodeAnnotation(key) => Lack::NodeAnnotation(key).fmt(f),
            Self::Endpoint { name, purpose, .. } => Lack::Endpoint { name, purpose }.fmt(f),
            Self::NodeNames => Lack::NodeNames.fmt(f),
            Self::Methods { name, methods } => Lack::Methods { name, methods: &words(methods) }.fmt(f),
            Self::Paths { name, paths } => Lack::Paths { name, paths }.fmt(f),
        }
    }
}

impl NotGranted {
    /// The lines that grant all of these, for the entry. Lists that exist there must be extended.
    #[must_use]
    pub fn yaml(refusals: &[Self]) -> String {
        let mut labels = Vec::new();
        let mut annotations = Vec::new();
        let mut names = false;
        let mut endpoints: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for refusal in refusals {
            match refusal {
                Self::NodeLabel(key) => labels.push(quoted(key)),
                Self::NodeAnnotation(key) => annotations.push(quoted(key)),
                Self::NodeNames => names = true,
                Self::Endpoint { name, purpose, methods, paths } => {
                    let lines = endpoints.entry(name).or_default();
                    lines.push(format!("url: \"https://...\"  # {}", one_line(purpose)));
                    lines.push(format!("methods: [{}]", words(methods)));
                    if !paths.is_empty() {
                        lines.push(format!("paths: [{}]", list(paths)));
                    }
                }
                Self::Methods { name, methods } => {
                    endpoints.entry(name).or_default().push(format!("methods: [{}]", words(methods)));
                }
                Self::Paths { name, paths } => {
                    endpoints.entry(name).or_default().push(format!("paths: [{}]", list(paths)));
                }
            }
        }
        let mut yaml = String::from("permissions:\n");
        if !labels.is_empty() {
            yaml.push_str(&format!("  nodeLabels: [{}]\n", labels.join(", ")));
        }
        if names {
            yaml.push_str("  nodeNames: true\n");
        }
        if !annotations.is_empty() {
            yaml.push_str(&format!("  nodeAnnotations: [{}]\n", annotations.join(", ")));
        }
        if !endpoints.is_empty() {
            yaml.push_str("  endpoints:\n");
        }
        for (name, lines) in endpoints {
            yaml.push_str(&format!("    {}:\n", quoted(name)));
            for line in lines {
                yaml.push_str(&format!("      {line}\n"));
            }
        }
        yaml
    }
}

fn words(methods: &[Method]) -> String {
    methods.iter().map(|method| method.as_str()).collect::<Vec<_>>().join(", ")
}

fn list(texts: &[String]) -> String {
    texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", ")
}

/// A YAML double-quoted scalar. The text comes from the plugin, and the operator pastes the result: the text must not
/// be able to add lines.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            // All characters that YAML 1.1 reads as a line break, a mark or nothing at all; `\U` is its own escape.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                quoted.push_str(&format!("\\U{:08x}", u32::from(c)));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// The text as a comment of one line.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::model::{Location, Tls};
    use super::*;

    fn endpoint(methods: &[Method], paths: &[&str]) -> Endpoint {
        Endpoint {
            name: "fabric".into(),
            purpose: "reads\nthe fabric".into(),
            location: Location::Granted,
            methods: methods.to_vec(),
            paths: paths.iter().map(|&p| p.into()).collect(),
            tls: Tls::default(),
            credentials: Vec::new(),
        }
    }

    fn permit(methods: &[Method], paths: &[&str]) -> Permissions {
        let permission = EndpointPermission {
            methods: methods.iter().copied().collect(),
            paths: paths.iter().map(|&p| p.into()).collect(),
        };
        Permissions { endpoints: [("fabric".to_owned(), permission)].into(), ..Permissions::default() }
    }

    fn wants(endpoint: Endpoint) -> Requirements {
        Requirements { endpoints: vec![endpoint], ..Requirements::default() }
    }

    #[test]
    fn embedded_bytes_get_all_that_they_require() {
        let requirements = Requirements { node_labels: vec!["a/b".into()], ..wants(endpoint(&[Method::Get], &["/x"])) };
        let granted = grant(&requirements, &Permissions::default(), Origin::Embedded).unwrap();
        assert!(granted.labels.contains("a/b"));
        assert_eq!(granted.endpoints["fabric"].permission.paths, ["/x"]);
    }

    #[test]
    fn foreign_bytes_get_nothing_by_default_and_the_missing_lines_are_printed() {
        let requirements = Requirements {
            node_labels: vec!["acme.example/rack".into()],
            node_annotations: vec!["acme.example/switch".into()],
            ..wants(endpoint(&[Method::Get, Method::Post], &["/api"]))
        };
        let refused = grant(&requirements, &Permissions::default(), Origin::Foreign).unwrap_err();
        assert_eq!(refused.len(), 3);
        assert_eq!(
            NotGranted::yaml(&refused),
            "permissions:\n  nodeLabels: [\"acme.example/rack\"]\n  nodeAnnotations: [\"acme.example/switch\"]\n  \
             endpoints:\n    \"fabric\":\n      url: \"https://...\"  # reads the fabric\n      methods: [GET, POST]\n      \
             paths: [\"/api\"]\n"
        );
    }

    #[test]
    fn a_prefix_grants_the_keys_below_it_and_no_others() {
        let pattern = KeyPattern::parse("acme.example/*").unwrap();
        assert!(pattern.matches("acme.example/rack"));
        assert!(!pattern.matches("acme.example/"));
        assert!(!pattern.matches("acme.example.evil/rack"));
        for bad in ["*", "/*", "acme*", "a*/b", "", "*/*"] {
            assert_eq!(KeyPattern::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_endpoint_is_covered_by_whole_segments() {
        let check = |wanted: &[&str], permitted: &[&str]| {
            grant(&wants(endpoint(&[Method::Get], wanted)), &permit(&[Method::Get], permitted), Origin::Foreign).is_ok()
        };
        assert!(check(&["/api/v1"], &["/api"]));
        assert!(check(&["/api"], &["/api"]));
        assert!(check(&["/api/x"], &["/api/"]));
        assert!(check(&["/anything"], &[]));
        assert!(check(&[], &[]));
        assert!(check(&[], &["/"]), "all paths, in other words");
        assert!(!check(&["/apiary"], &["/api"]));
        assert!(!check(&["/api", "/etc"], &["/api"]));
        assert!(!check(&[], &["/api"]), "all paths are more than one prefix");
    }

    #[test]
    fn a_missing_method_is_named() {
        let refused =
            grant(&wants(endpoint(&[Method::Get, Method::Delete], &[])), &permit(&[Method::Get], &[]), Origin::Foreign)
                .unwrap_err();
        assert_eq!(
            refused.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["the plugin uses GET, DELETE on the endpoint fabric, which is not permitted"]
        );
    }

    #[test]
    fn text_of_a_plugin_cannot_add_lines_to_the_yaml() {
        let refusal = NotGranted::NodeLabel("a\"]\nendpoints: {}".into());
        assert_eq!(NotGranted::yaml(&[refusal]), "permissions:\n  nodeLabels: [\"a\\\"]\\U0000000aendpoints: {}\"]\n");
    }
}
