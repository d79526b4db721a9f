//! What the kit needs of a plugin: its three functions, each in an instance of its own, with every argument in the kit's hand.
//!
//! [`Loaded`] is a plugin in the sandbox of the host. Tests of the kit bring plugins that are closures: what a sandbox makes
//! impossible (two answers to one question) has no other way to be shown.

use std::sync::Arc;

use jiff::Timestamp;
use topoloom_core::names::SourceName;
use topoloom_core::plugin::{Answer, CallError, Description, Digest, Granted, Limits, Requirements, Usage};
use topoloom_core::snapshot::View;
use topoloom_core::topology::Object;
use topoloom_sandbox::endpoints::Endpoints;
use topoloom_sandbox::plugin::{Call, Plugin, RoundInput};

use super::exchanges::Exchanges;

/// The arguments of one `discover`.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The configuration, a JSON object.
    pub config: Arc<str>,
    /// What it was granted: all that it asked for.
    pub granted: Arc<Granted>,
    /// The nodes.
    pub nodes: View,
    /// The objects that the source has in the cluster.
    pub applied: Arc<[Arc<Object>]>,
    /// What services answer.
    pub exchanges: Option<Arc<Exchanges>>,
    /// When the round starts.
    pub time: Timestamp,
    /// The state of an earlier round.
    pub state: Arc<[u8]>,
}

/// A plugin that can be asked.
pub trait Stand {
    /// The identity of its bytes.
    fn digest(&self) -> Digest;

    /// The source that it answers for.
    fn source(&self) -> &SourceName;

    /// Every function that it imports, as `interface#function`.
    fn imports(&self) -> &[String];

    /// What it may use.
    fn limits(&self) -> &Limits;

    /// `describe`.
    fn describe(&self) -> impl Future<Output = Call<Description>>;

    /// `configure`.
    fn configure(&self, config: &str) -> impl Future<Output = Call<Requirements>>;

    /// `discover`.
    fn discover(&self, ask: Ask) -> impl Future<Output = Call<Answer>>;
}

/// A plugin in the sandbox.
#[derive(Debug, Clone)]
pub struct Loaded {
    plugin: Plugin,
    source: SourceName,
}

impl Loaded {
    /// A plugin that answers for this source.
    #[must_use]
    pub fn new(plugin: Plugin, source: SourceName) -> Self {
        Self { plugin, source }
    }
}

impl Stand for Loaded {
    fn digest(&self) -> Digest {
        self.plugin.digest()
    }

    fn source(&self) -> &SourceName {
        &self.source
    }

    fn imports(&self) -> &[String] {
        self.plugin.imports()
    }

    fn limits(&self) -> &Limits {
        self.plugin.limits()
    }

    async fn describe(&self) -> Call<Description> {
        self.plugin.describe(&self.source).await
    }

    async fn configure(&self, config: &str) -> Call<Requirements> {
        self.plugin.configure(&self.source, config.into()).await
    }

    async fn discover(&self, ask: Ask) -> Call<Answer> {
        let Ask { config, granted, nodes, applied, exchanges, time, state } = ask;
        let nothing = Arc::default();
        let exchanges = exchanges.as_ref().unwrap_or(&nothing);
        let endpoints = match granted.endpoints.is_empty() {
            true => Ok(Endpoints::none()),
            false => exchanges.endpoints(&self.source, &granted),
        };
        match endpoints {
            Ok(endpoints) => {
                let round = RoundInput { config, granted, nodes, applied, endpoints, time, state };
                self.plugin.discover(&self.source, round).await
            }
            Err(what) => Call { end: Err(CallError::Host(what)), usage: Usage::default() },
        }
    }
}
