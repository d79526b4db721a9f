//! Constructors of the plain records of the three functions: description, requirements, answer.

use std::time::Duration;

use crate::{
    Answer, Credential, Description, Endpoint, Failure, Location, Method, Outcome, Pause, Requirements, Tls, Topology,
    Trigger, UpstreamFailure,
};

impl Description {
    /// Name (lower-case letters, digits, hyphens) and semantic version; any object is a valid configuration.
    #[must_use]
    pub fn new(name: &str, version: &str) -> Self {
        let config_schema = r#"{"type":"object"}"#.to_owned();
        let [name, version] = [name, version].map(str::to_owned);
        Self { name, version, vendor: String::new(), summary: String::new(), config_schema }
    }

    /// The vendor.
    #[must_use]
    pub fn vendor(self, vendor: &str) -> Self {
        Self { vendor: vendor.to_owned(), ..self }
    }

    /// One line, at most 200 bytes.
    #[must_use]
    pub fn summary(self, summary: &str) -> Self {
        Self { summary: summary.to_owned(), ..self }
    }

    /// JSON Schema 2020-12 of the configuration.
    #[must_use]
    pub fn config_schema(self, schema: &str) -> Self {
        Self { config_schema: schema.to_owned(), ..self }
    }
}

impl Requirements {
    /// No requirements and no triggers. Add to it.
    #[must_use]
    pub fn new() -> Self {
        Self { node_labels: Vec::new(), node_annotations: Vec::new(), endpoints: Vec::new(), triggers: Vec::new() }
    }

    /// Reads this node label. A repeated key counts once.
    #[must_use]
    pub fn node_label(mut self, key: &str) -> Self {
        add(&mut self.node_labels, key);
        self
    }

    /// Reads this node annotation.
    #[must_use]
    pub fn node_annotation(mut self, key: &str) -> Self {
        add(&mut self.node_annotations, key);
        self
    }

    /// Calls this endpoint.
    #[must_use]
    pub fn endpoint(mut self, endpoint: Endpoint) -> Self {
        self.endpoints.push(endpoint);
        self
    }

    /// Starts a round when this happens.
    #[must_use]
    pub fn trigger(mut self, trigger: Trigger) -> Self {
        self.triggers.push(trigger);
        self
    }
}

impl Default for Requirements {
    fn default() -> Self {
        Self::new()
    }
}

fn add(keys: &mut Vec<String>, key: &str) {
    if !keys.iter().any(|known| known == key) {
        keys.push(key.to_owned());
    }
}

impl Trigger {
    /// A value in a required column changed.
    #[must_use]
    pub fn on_columns() -> Self {
        Self::Columns(Pause { at_least: 0 })
    }

    /// A node was added or deleted.
    #[must_use]
    pub fn on_names() -> Self {
        Self::Names(Pause { at_least: 0 })
    }

    /// The interval of the entry has passed.
    #[must_use]
    pub fn on_timer() -> Self {
        Self::Timer(Pause { at_least: 0 })
    }

    /// At most once in this time, in whole milliseconds up to 49 days.
    #[must_use]
    pub fn at_least_apart(self, pause: Duration) -> Self {
        let pause = Pause { at_least: u32::try_from(pause.as_millis()).unwrap_or(u32::MAX) };
        match self {
            Self::Columns(_) => Self::Columns(pause),
            Self::Names(_) => Self::Names(pause),
            Self::Timer(_) => Self::Timer(pause),
        }
    }
}

impl Endpoint {
    /// An endpoint whose address the operator configures, read with `GET`, without credential. `purpose` is one sentence for
    /// the operator who grants it.
    #[must_use]
    pub fn new(name: &str, purpose: &str) -> Self {
        Self {
            name: name.to_owned(),
            purpose: purpose.to_owned(),
            location: Location::Granted,
            methods: vec![Method::Get],
            paths: Vec::new(),
            tls: Tls { ca_bundle: None, server_name: None, insecure_skip_verify: false },
            credentials: Vec::new(),
        }
    }

    /// The plugin's configuration has the address: base URLs of one high-availability pair, the first that answers is used.
    #[must_use]
    pub fn at<S: Into<String>>(self, urls: impl IntoIterator<Item = S>) -> Self {
        Self { location: Location::Urls(urls.into_iter().map(Into::into).collect()), ..self }
    }

    /// Allows requests only below these path prefixes.
    #[must_use]
    pub fn paths<S: Into<String>>(self, paths: impl IntoIterator<Item = S>) -> Self {
        Self { paths: paths.into_iter().map(Into::into).collect(), ..self }
    }

    /// The kinds of credential that the plugin can use, best first.
    #[must_use]
    pub fn credentials(self, credentials: impl IntoIterator<Item = Credential>) -> Self {
        Self { credentials: credentials.into_iter().collect(), ..self }
    }

    /// How its certificate is checked.
    #[must_use]
    pub fn tls(self, tls: Tls) -> Self {
        Self { tls, ..self }
    }
}

impl Answer {
    /// The same topology as the last answer; keeps `state` for the next round. Only allowed when the round had a state.
    #[must_use]
    pub fn unchanged(state: Vec<u8>) -> Self {
        Self { outcome: Outcome::Unchanged, state }
    }

    /// Keeps at most 8 MiB for the next round. Losing it may cost a full round, never a right answer.
    #[must_use]
    pub fn with_state(self, state: Vec<u8>) -> Self {
        Self { state, ..self }
    }
}

impl From<Topology> for Answer {
    fn from(topology: Topology) -> Self {
        Self { outcome: Outcome::Topology(topology), state: Vec::new() }
    }
}

impl Failure {
    /// The other side is unreachable, too slow or at fault.
    pub fn upstream(message: impl Into<String>) -> Self {
        Self::Upstream(UpstreamFailure { message: message.into(), retry_after: None })
    }
}
