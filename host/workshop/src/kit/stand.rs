//! What the kit needs of a plugin: its three functions, each in an instance of its own, with every argument in the kit's hand.
//!
//! [`Desk`] is a plugin in the sandbox of the host. Tests of the kit bring plugins that are closures: what a sandbox makes
//! impossible (two answers to one question) has no other way to be shown.

use std::sync::Arc;

use jiff::Timestamp;
use topoloom_core::names::SourceName;
use topoloom_core::plugin::{Answer, CallError, Description, Digest, Granted, Limits, Requirements, Usage};
use topoloom_core::snapshot::View;
use topoloom_core::topology::Object;
use topoloom_sandbox::endpoints::recording::{Recording, Uses};
use topoloom_sandbox::plugin::{Call, LogLines, RoundInput};

use crate::rounds::{Configured, Desk, Exchanges};

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
    pub recording: Option<Arc<Recording>>,
    /// When the round starts.
    pub time: Timestamp,
    /// The state of an earlier round.
    pub state: Arc<[u8]>,
}

/// How one `discover` ended, and how its requests and the recording fitted.
#[derive(Debug)]
pub struct Replied {
    /// The call.
    pub call: Call<Answer>,
    /// What the plugin asked for and the recording does not have, in words.
    pub missing: Vec<String>,
    /// Which exchanges of the recording it asked for.
    pub uses: Uses,
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
    fn discover(&self, ask: Ask) -> impl Future<Output = Replied>;
}

impl Stand for Desk {
    fn digest(&self) -> Digest {
        self.plugin().digest()
    }

    fn source(&self) -> &SourceName {
        Desk::source(self)
    }

    fn imports(&self) -> &[String] {
        self.plugin().imports()
    }

    fn limits(&self) -> &Limits {
        self.plugin().limits()
    }

    async fn describe(&self) -> Call<Description> {
        Desk::describe(self).await
    }

    async fn configure(&self, config: &str) -> Call<Requirements> {
        Desk::configure(self, config).await
    }

    async fn discover(&self, ask: Ask) -> Replied {
        let Ask { config, granted, nodes, applied, recording, time, state } = ask;
        let exchanges = match recording {
            Some(recording) => self.replay(Recording::clone(&recording)),
            None => Ok(Exchanges::None),
        };
        // Columns and requirements are the kit's: here only the grants count.
        let (requirements, keys) = (Requirements::default(), Vec::new());
        let configured = Configured { config, requirements, granted, keys };
        let replay = match &exchanges {
            Ok(Exchanges::Replay(replay)) => Some(Arc::clone(replay)),
            _ => None,
        };
        let endpoints =
            exchanges.and_then(|exchanges| self.endpoints(&configured, &exchanges).map_err(|what| what.join("; ")));
        let call = match endpoints {
            Ok(endpoints) => {
                let Configured { config, granted, .. } = configured;
                let endpoints = Arc::new(endpoints);
                let round = RoundInput { config, granted, nodes, applied, endpoints, time, state };
                self.plugin().logging_to(&LogLines::default()).discover(Desk::source(self), round).await
            }
            Err(what) => Call { end: Err(CallError::Host(what)), usage: Usage::default() },
        };
        let missing = replay.as_ref().map(|replay| replay.misfit().missing).unwrap_or_default();
        Replied { call, missing, uses: replay.map(|replay| replay.uses()).unwrap_or_default() }
    }
}
