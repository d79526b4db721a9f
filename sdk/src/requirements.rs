//! Constructors of the plain records of the three functions: description, requirements, answer.

use std::time::Duration;

use crate::{
    Answer, Credential, Description, Endpoint, Failure, Location, Method, Outcome, Pause, Requirements, Tls, Topology,
    Trigger, UpstreamFailure,
};

impl Description {
    /// Name (lower-case letters, digits, hyphens) and semantic version; any object is a valid configuration.
    ///
    /// ```
    /// let description = topoloom_sdk::Description::new("racks", "0.1.0");
    /// assert_eq!(description.config_schema, r#"{"type":"object"}"#);
    /// ```
    #[must_use]
    pub fn new(name: &str, version: &str) -> Self {
        let config_schema = r#"{"type":"object"}"#.to_owned();
        let [name, version] = [name, version].map(str::to_owned);
        Self { name, version, vendor: String::new(), summary: String::new(), config_schema }
    }

    /// The vendor.
    ///
    /// ```
    /// let description = topoloom_sdk::Description::new("racks", "0.1.0").vendor("Acme");
    /// assert_eq!(description.vendor, "Acme");
    /// ```
    #[must_use]
    pub fn vendor(self, vendor: &str) -> Self {
        Self { vendor: vendor.to_owned(), ..self }
    }

    /// One line, at most 200 bytes.
    ///
    /// ```
    /// let description = topoloom_sdk::Description::new("racks", "0.1.0").summary("One group per rack label");
    /// assert_eq!(description.summary, "One group per rack label");
    /// ```
    #[must_use]
    pub fn summary(self, summary: &str) -> Self {
        Self { summary: summary.to_owned(), ..self }
    }

    /// JSON Schema 2020-12 of the configuration.
    ///
    /// ```
    /// let schema = r#"{"type": "object", "properties": {"label": {"type": "string"}}, "required": ["label"]}"#;
    /// let description = topoloom_sdk::Description::new("racks", "0.1.0").config_schema(schema);
    /// assert_eq!(description.config_schema, schema);
    /// ```
    #[must_use]
    pub fn config_schema(self, schema: &str) -> Self {
        Self { config_schema: schema.to_owned(), ..self }
    }
}

impl Requirements {
    /// No requirements and no triggers. Add to it.
    ///
    /// ```
    /// let wishes = topoloom_sdk::Requirements::new();
    /// assert!(wishes.node_labels.is_empty() && wishes.triggers.is_empty());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self { node_labels: Vec::new(), node_annotations: Vec::new(), endpoints: Vec::new(), triggers: Vec::new() }
    }

    /// Reads this node label. A repeated key counts once.
    ///
    /// ```
    /// let wishes = topoloom_sdk::Requirements::new().node_label("rack").node_label("rack");
    /// assert_eq!(wishes.node_labels, ["rack"]);
    /// ```
    #[must_use]
    pub fn node_label(mut self, key: &str) -> Self {
        add(&mut self.node_labels, key);
        self
    }

    /// Reads this node annotation.
    ///
    /// ```
    /// let wishes = topoloom_sdk::Requirements::new().node_annotation("example.com/switch");
    /// assert_eq!(wishes.node_annotations, ["example.com/switch"]);
    /// ```
    #[must_use]
    pub fn node_annotation(mut self, key: &str) -> Self {
        add(&mut self.node_annotations, key);
        self
    }

    /// Calls this endpoint.
    ///
    /// ```
    /// use topoloom_sdk::{Endpoint, Requirements};
    ///
    /// let wishes = Requirements::new().endpoint(Endpoint::new("list", "Reads which rack every node is in"));
    /// assert_eq!(wishes.endpoints.len(), 1);
    /// ```
    #[must_use]
    pub fn endpoint(mut self, endpoint: Endpoint) -> Self {
        self.endpoints.push(endpoint);
        self
    }

    /// Starts a round when this happens.
    ///
    /// ```
    /// use topoloom_sdk::{Requirements, Trigger};
    ///
    /// let wishes = Requirements::new().trigger(Trigger::on_columns()).trigger(Trigger::on_timer());
    /// assert_eq!(wishes.triggers.len(), 2);
    /// ```
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
    ///
    /// ```
    /// use topoloom_sdk::{Pause, Trigger};
    ///
    /// assert_eq!(Trigger::on_columns(), Trigger::Columns(Pause { at_least: 0 }));
    /// ```
    #[must_use]
    pub fn on_columns() -> Self {
        Self::Columns(Pause { at_least: 0 })
    }

    /// A node was added or deleted.
    ///
    /// ```
    /// use topoloom_sdk::{Pause, Trigger};
    ///
    /// assert_eq!(Trigger::on_names(), Trigger::Names(Pause { at_least: 0 }));
    /// ```
    #[must_use]
    pub fn on_names() -> Self {
        Self::Names(Pause { at_least: 0 })
    }

    /// The interval of the entry has passed.
    ///
    /// ```
    /// use topoloom_sdk::{Pause, Trigger};
    ///
    /// assert_eq!(Trigger::on_timer(), Trigger::Timer(Pause { at_least: 0 }));
    /// ```
    #[must_use]
    pub fn on_timer() -> Self {
        Self::Timer(Pause { at_least: 0 })
    }

    /// At most once in this time, in whole milliseconds up to 49 days.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use topoloom_sdk::{Pause, Trigger};
    ///
    /// let trigger = Trigger::on_names().at_least_apart(Duration::from_secs(10));
    /// assert_eq!(trigger, Trigger::Names(Pause { at_least: 10_000 }));
    /// ```
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
    ///
    /// ```
    /// use topoloom_sdk::{Endpoint, Method};
    ///
    /// let list = Endpoint::new("list", "Reads which rack every node is in");
    /// assert_eq!(list.methods, [Method::Get]);
    /// ```
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
    ///
    /// ```
    /// use topoloom_sdk::{Endpoint, Location};
    ///
    /// let pair = Endpoint::new("fabric", "Reads the cables").at(["https://a.example", "https://b.example"]);
    /// assert!(matches!(pair.location, Location::Urls(urls) if urls.len() == 2));
    /// ```
    #[must_use]
    pub fn at<S: Into<String>>(self, urls: impl IntoIterator<Item = S>) -> Self {
        Self { location: Location::Urls(urls.into_iter().map(Into::into).collect()), ..self }
    }

    /// Allows requests with these methods, in place of `GET` alone.
    ///
    /// ```
    /// use topoloom_sdk::{Endpoint, Method};
    ///
    /// let cmdb = Endpoint::new("cmdb", "Searches the racks").methods([Method::Get, Method::Post]);
    /// assert_eq!(cmdb.methods.len(), 2);
    /// ```
    #[must_use]
    pub fn methods(self, methods: impl IntoIterator<Item = Method>) -> Self {
        Self { methods: methods.into_iter().collect(), ..self }
    }

    /// Allows requests only below these path prefixes.
    ///
    /// ```
    /// let list = topoloom_sdk::Endpoint::new("list", "Reads the racks").paths(["/v1"]);
    /// assert_eq!(list.paths, ["/v1"]);
    /// ```
    #[must_use]
    pub fn paths<S: Into<String>>(self, paths: impl IntoIterator<Item = S>) -> Self {
        Self { paths: paths.into_iter().map(Into::into).collect(), ..self }
    }

    /// The kinds of credential that the plugin can use, best first.
    ///
    /// ```
    /// use topoloom_sdk::{Credential, Endpoint};
    ///
    /// let list = Endpoint::new("list", "Reads the racks").credentials([Credential::Bearer, Credential::Basic]);
    /// assert_eq!(list.credentials.len(), 2);
    /// ```
    #[must_use]
    pub fn credentials(self, credentials: impl IntoIterator<Item = Credential>) -> Self {
        Self { credentials: credentials.into_iter().collect(), ..self }
    }

    /// How its certificate is checked.
    ///
    /// ```
    /// use topoloom_sdk::{Endpoint, Tls};
    ///
    /// let tls = Tls { ca_bundle: None, server_name: Some("fabric.example".to_owned()), insecure_skip_verify: false };
    /// assert!(Endpoint::new("fabric", "Reads the cables").tls(tls).tls.server_name.is_some());
    /// ```
    #[must_use]
    pub fn tls(self, tls: Tls) -> Self {
        Self { tls, ..self }
    }
}

impl Answer {
    /// The same topology as the last answer; keeps `state` for the next round. Only allowed when the round had a state.
    ///
    /// ```
    /// use topoloom_sdk::prelude::*;
    ///
    /// fn answer(input: &Input<'_>, etag: &[u8]) -> Option<Answer> {
    ///     (input.state == etag).then(|| Answer::unchanged(etag.to_vec()))
    /// }
    /// ```
    #[must_use]
    pub fn unchanged(state: Vec<u8>) -> Self {
        Self { outcome: Outcome::Unchanged, state }
    }

    /// Keeps at most 8 MiB for the next round. Losing it may cost a full round, never a right answer.
    ///
    /// ```
    /// use topoloom_sdk::{Answer, TopologyBuilder};
    ///
    /// let answer = Answer::from(TopologyBuilder::new().finish()).with_state(b"etag-7".to_vec());
    /// assert_eq!(answer.state, b"etag-7");
    /// ```
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
    ///
    /// ```
    /// use topoloom_sdk::Failure;
    ///
    /// let failure = Failure::upstream("there is no list of nodes in the answer");
    /// assert!(matches!(failure, Failure::Upstream(upstream) if upstream.retry_after.is_none()));
    /// ```
    pub fn upstream(message: impl Into<String>) -> Self {
        Self::Upstream(UpstreamFailure { message: message.into(), retry_after: None })
    }
}
