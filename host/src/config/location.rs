//! Where the document is, and the outcomes of looking there.

use super::{Document, Error, parse};
use std::collections::BTreeMap;
use std::fmt;
use topoloom_api::rules::{is_dns_label, is_dns_subdomain};

/// The data key, as Volcano names it.
pub const KEY: &str = "volcano-controller.conf";
/// Environment variable with the namespace.
pub const NAMESPACE_VARIABLE: &str = "KUBE_POD_NAMESPACE";
/// Environment variable with the name of the Helm release.
pub const RELEASE_VARIABLE: &str = "HELM_RELEASE_NAME";

const DEFAULT_NAMESPACE: &str = "volcano-system";
const DEFAULT_RELEASE: &str = "volcano";
/// How charts name the ConfigMap: after the release.
const SUFFIX: &str = "-controller-configmap";

/// One key of one ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The namespace of the ConfigMap.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The key in its data.
    pub key: String,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}[{}]", self.namespace, self.name, self.key)
    }
}

impl Location {
    /// The location that Volcano would read, given the values of [`NAMESPACE_VARIABLE`] and [`RELEASE_VARIABLE`].
    /// An empty value counts as none.
    #[must_use]
    pub fn from_environment(namespace: Option<&str>, release: Option<&str>) -> Self {
        let namespace = namespace.filter(|text| !text.is_empty()).unwrap_or(DEFAULT_NAMESPACE);
        let release = release.filter(|text| !text.is_empty()).unwrap_or(DEFAULT_RELEASE);
        Self::new(namespace, &format!("{release}{SUFFIX}"))
    }

    /// The usual key of the ConfigMap that `NAME` or `NAMESPACE/NAME` says, in `namespace` where it says none.
    ///
    /// # Errors
    /// What a name must look like.
    pub fn parse(text: &str, namespace: &str) -> Result<Self, String> {
        let (namespace, name) = text.split_once('/').unwrap_or((namespace, text));
        if !is_dns_label(namespace) {
            return Err(
                "must be NAME or NAMESPACE/NAME, with a namespace of 1 to 63 lower-case letters, digits and `-`"
                    .to_owned(),
            );
        }
        if !is_dns_subdomain(name) {
            return Err(
                "must be NAME or NAMESPACE/NAME, with a name of 1 to 253 lower-case letters, digits, `-` and `.`"
                    .to_owned(),
            );
        }
        Ok(Self::new(namespace, name))
    }

    /// The Helm release that the ConfigMap is named after, where it is.
    #[must_use]
    pub fn release(&self) -> Option<&str> {
        self.name.strip_suffix(SUFFIX)
    }

    /// The usual key of a ConfigMap that the operator names.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned(), key: KEY.to_owned() }
    }
}

/// What was found at the location. Only `Valid` says anything about sources.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// There is no such ConfigMap. Nothing starts; running sources continue.
    NoConfigMap,
    /// The ConfigMap lacks the key. Nothing starts; running sources continue.
    NoKey,
    /// The value cannot be read. Running sources continue.
    Invalid(Error),
    /// The value can be read; single entries may still be invalid.
    Valid(Document),
}

/// Why there is no document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// What is missing or wrong.
    pub what: String,
    /// What to do about it.
    pub todo: String,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.todo)
    }
}

impl Load {
    /// The outcome for the data of the ConfigMap, or for its absence.
    #[must_use]
    pub fn from_data(data: Option<&BTreeMap<String, String>>, key: &str) -> Self {
        let Some(data) = data else { return Self::NoConfigMap };
        let Some(text) = data.get(key) else { return Self::NoKey };
        match parse(text) {
            Ok(document) => Self::Valid(document),
            Err(error) => Self::Invalid(error),
        }
    }

    /// Why there is no document, and what to do about it; nothing where there is one.
    #[must_use]
    pub fn lack(&self, location: &Location) -> Option<Lack> {
        let Location { namespace, name, key } = location;
        let lack = |what, todo| Some(Lack { what, todo });
        match self {
            Self::Valid(_) => None,
            Self::NoConfigMap => lack(
                format!("there is no ConfigMap {namespace}/{name}"),
                format!(
                    "make it: kubectl create configmap {name} --namespace {namespace} --from-file={key}=FILE; or name \
                     another with --config-map, or --namespace and --release"
                ),
            ),
            Self::NoKey => lack(
                format!("the ConfigMap {namespace}/{name} lacks the key {key}"),
                format!("put the document under that key: kubectl edit configmap {name} --namespace {namespace}"),
            ),
            Self::Invalid(error) => lack(
                format!("{location} cannot be read: {error}"),
                format!(
                    "correct it: kubectl edit configmap {name} --namespace {namespace}; the running sources continue \
                        unchanged until then"
                ),
            ),
        }
    }

    /// The document, where there is one.
    #[must_use]
    pub fn document(&self) -> Option<&Document> {
        match self {
            Self::Valid(document) => Some(document),
            Self::NoConfigMap | Self::NoKey | Self::Invalid(_) => None,
        }
    }
}
