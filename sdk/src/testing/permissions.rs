//! What an operator grants, where it is less than everything.

use std::collections::BTreeMap;

use crate::rules::wish::{KeyPattern, Lack, uncovered};
use crate::{Endpoint, Method, Requirements};

/// The `permissions` of an entry: [`Cluster::permit`](super::Cluster::permit).
///
/// ```
/// use topoloom_sdk::Method;
/// use topoloom_sdk::testing::Permissions;
///
/// let permissions = Permissions::none()
///     .node_label("acme.example/*")
///     .node_annotation("acme.example/switch")
///     .endpoint("fabric", [Method::Get], ["/v1"])
///     .node_names();
/// # let _ = permissions;
/// ```
#[derive(Debug, Clone, Default)]
pub struct Permissions {
    node_labels: Vec<KeyPattern>,
    node_annotations: Vec<KeyPattern>,
    endpoints: BTreeMap<String, (Vec<Method>, Vec<String>)>,
    node_names: bool,
}

impl Permissions {
    /// Nothing. Add to it.
    ///
    /// ```
    /// let permissions = topoloom_sdk::testing::Permissions::none();
    /// # let _ = permissions;
    /// ```
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// A label key, or a domain followed by `/*`. Any other text grants nothing.
    ///
    /// ```
    /// let permissions = topoloom_sdk::testing::Permissions::none().node_label("acme.example/*");
    /// # let _ = permissions;
    /// ```
    #[must_use]
    pub fn node_label(mut self, pattern: &str) -> Self {
        self.node_labels.extend(KeyPattern::parse(pattern));
        self
    }

    /// The same for annotations.
    ///
    /// ```
    /// let permissions = topoloom_sdk::testing::Permissions::none().node_annotation("acme.example/switch");
    /// # let _ = permissions;
    /// ```
    #[must_use]
    pub fn node_annotation(mut self, pattern: &str) -> Self {
        self.node_annotations.extend(KeyPattern::parse(pattern));
        self
    }

    /// An endpoint with these methods, below these paths; no paths: all.
    ///
    /// ```
    /// use topoloom_sdk::Method;
    ///
    /// let permissions = topoloom_sdk::testing::Permissions::none().endpoint("fabric", [Method::Get], ["/v1"]);
    /// # let _ = permissions;
    /// ```
    #[must_use]
    pub fn endpoint<'a>(
        mut self,
        name: &str,
        methods: impl IntoIterator<Item = Method>,
        paths: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let paths = paths.into_iter().map(str::to_owned).collect();
        self.endpoints.insert(name.to_owned(), (methods.into_iter().collect(), paths));
        self
    }

    /// Names of nodes. A host refuses a plugin that may ask for them; natively only one that does.
    ///
    /// ```
    /// let permissions = topoloom_sdk::testing::Permissions::none().node_names();
    /// # let _ = permissions;
    /// ```
    #[must_use]
    pub fn node_names(self) -> Self {
        Self { node_names: true, ..self }
    }

    pub(super) fn shows_names(&self) -> bool {
        self.node_names
    }

    /// What is asked for and not granted, each in a sentence.
    pub(super) fn lacks(&self, wishes: &Requirements) -> Vec<String> {
        let covered = |patterns: &[KeyPattern], key: &str| patterns.iter().any(|pattern| pattern.matches(key));
        let labels = wishes.node_labels.iter().filter(|key| !covered(&self.node_labels, key));
        let annotations = wishes.node_annotations.iter().filter(|key| !covered(&self.node_annotations, key));
        let mut lacks: Vec<String> = labels.map(|key| Lack::NodeLabel(key).to_string()).collect();
        lacks.extend(annotations.map(|key| Lack::NodeAnnotation(key).to_string()));
        lacks.extend(wishes.endpoints.iter().flat_map(|wish| self.lacks_of(wish)));
        lacks
    }

    fn lacks_of(&self, wish: &Endpoint) -> Vec<String> {
        let Endpoint { name, purpose, methods, paths, .. } = wish;
        let Some((permitted, below)) = self.endpoints.get(name) else {
            return vec![Lack::Endpoint { name, purpose }.to_string()];
        };
        let mut lacks = Vec::new();
        if !methods.iter().all(|method| permitted.contains(method)) {
            let methods = methods.iter().map(|&method| word(method)).collect::<Vec<_>>().join(", ");
            lacks.push(Lack::Methods { name, methods: &methods }.to_string());
        }
        if let Some(paths) = uncovered(paths, below) {
            lacks.push(Lack::Paths { name, paths: &paths }.to_string());
        }
        lacks
    }
}

/// A method as it stands in a request line.
pub(super) fn word(method: Method) -> &'static str {
    match method {
        Method::Get => "GET",
        Method::Head => "HEAD",
        Method::Post => "POST",
        Method::Put => "PUT",
        Method::Patch => "PATCH",
        Method::Delete => "DELETE",
    }
}
