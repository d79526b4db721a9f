//! One plugin in the real sandbox, at a desk.
//!
//! Owns the way from bytes to one round: the same engine, limits and compiler process as in a running host, permissions that
//! are exactly what the plugin asks for, services that answer out of a recording or are really asked, and an answer that
//! is judged by the very functions that a host judges with. A round says what was answered, logged and used.
//!
//! Never asks a cluster and never writes: nodes and stored HyperNodes are arguments, and so is the time. Keeps no state
//! between rounds: who wants one hands the last one in.
//!
//! ```text
//! bytes ─► Desk ─┬─ describe
//!                ├─ configure ─► settle: what it asks for is what it gets
//!                └─ discover(nodes, config, state, exchanges) ─► Round ─► Judged: forest, names, writes
//! ```
//!
//! # Failure story
//!
//! A plugin that does not load is a [`LoadError`] in the words of the host. A round without an answer is a [`NoAnswer`],
//! which says at which step it ended; an answer that breaks a rule is one, too, with every rule that it breaks.

pub mod moved;
pub mod shares;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use topoloom_api::names::SOURCE_LABEL;
use topoloom_core::names::SourceName;
use topoloom_core::plugin::grant::{NotGranted, Origin};
use topoloom_core::plugin::{
    Answer, Answered, CallError, Description, Granted, GrantedEndpoint, Permissions, Requirements, Usage, grant,
};
use topoloom_core::snapshot::{ColumnKey, View};
use topoloom_core::topology::decide::{Decision, Inputs, Unacceptable, accept, decide};
use topoloom_core::topology::guard::{self, Losses, Safety};
use topoloom_core::topology::{Object, Observed, TierNames, Topology, ValidateInput};
use topoloom_sandbox::endpoints::plan::{EntryTerms, Plan, Usual, plan};
use topoloom_sandbox::endpoints::recording::{Misfit, Recording, Replay};
use topoloom_sandbox::endpoints::spec::{
    Carrier, Credentials, DEFAULT_CONNECT, DEFAULT_FIRST_BYTE, Endpoint as Word, Redirects, Timeouts, Tls,
};
use topoloom_sandbox::endpoints::{Endpoints, Outside, Tape};
use topoloom_sandbox::plugin::{Call, Load, LoadError, LogLine, LogLines, Plugin, RoundInput, Runtime};

use crate::nodes::Nodes;

/// The name of the source where no entry gives one.
const DESK: &str = "desk";

/// A plugin at the desk. Clones share it.
#[derive(Debug, Clone)]
pub struct Desk {
    plugin: Plugin,
    source: SourceName,
}

/// What a plugin asks for with one configuration, and gets.
#[derive(Debug, Clone)]
pub struct Configured {
    /// The configuration, JSON.
    pub config: Arc<str>,
    /// What it asks for.
    pub requirements: Requirements,
    /// The same as grants.
    pub granted: Arc<Granted>,
    /// The columns among them.
    pub keys: Vec<ColumnKey>,
}

/// Where the answers of services come from. Clones share a recording: what one of them has used is used.
#[derive(Clone, Default)]
pub enum Exchanges {
    /// From nowhere: a plugin that asks for an endpoint has no answer.
    #[default]
    None,
    /// Out of a recording. Nothing is dialled, and no Secret is read.
    Replay(Arc<Replay>),
    /// From the services.
    Live(Arc<Live>),
}

/// Services that are really asked.
#[derive(Clone)]
pub struct Live {
    /// Where each endpoint is, as the entry of an operator has it.
    pub words: BTreeMap<String, Word>,
    /// The credential of the entry as a whole.
    pub credentials: Option<Credentials>,
    /// What may be reached, with which Secrets, and whether it is written down.
    pub outside: Outside,
}

/// The arguments of one round.
#[derive(Clone)]
pub struct Ask<'a> {
    /// The nodes.
    pub nodes: &'a Nodes,
    /// The configuration, JSON.
    pub config: &'a str,
    /// All HyperNodes that exist.
    pub existing: &'a [Arc<Object>],
    /// When the round starts.
    pub time: Timestamp,
    /// The state of the last answer.
    pub state: &'a [u8],
    /// How many nodes came and went before: another number is another generation of the same nodes.
    pub earlier: u32,
    /// Where services answer.
    pub exchanges: Exchanges,
}

impl<'a> Ask<'a> {
    /// A first round over these nodes in 1970, without services, objects and state.
    #[must_use]
    pub fn new(nodes: &'a Nodes, config: &'a str) -> Self {
        Self {
            nodes,
            config,
            existing: &[],
            time: Timestamp::UNIX_EPOCH,
            state: &[],
            earlier: 0,
            exchanges: Exchanges::None,
        }
    }
}

/// One round.
pub struct Round {
    /// What was answered, or why there is no answer.
    pub end: Result<Judged, NoAnswer>,
    /// The state of the answer; empty where there is none.
    pub state: Vec<u8>,
    /// What it used.
    pub usage: Usage,
    /// What the plugin logged, in order.
    pub log: Vec<LogLine>,
    /// What a recording was asked in vain by now, and what it was not asked.
    pub misfit: Misfit,
}

/// A valid answer.
pub enum Judged {
    /// That nothing changed.
    Unchanged,
    /// A topology.
    Found(Box<Found>),
}

/// A valid topology, and what it means.
pub struct Found {
    /// As it was answered.
    pub topology: Topology,
    /// The nodes that it is about.
    pub view: View,
    /// What it means beside the HyperNodes that exist: the forest, its names, the writes.
    pub decision: Decision,
}

/// Why a round has no answer that a host would use.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NoAnswer {
    /// `configure` had none.
    #[error("configure: {0}")]
    Configure(CallError),
    /// Endpoints that cannot be asked, all of them.
    #[error("{}", .0.join("; "))]
    Endpoints(Vec<String>),
    /// `discover` had none.
    #[error(transparent)]
    Call(#[from] CallError),
    /// It breaks rules.
    #[error("{why:#}")]
    Unsound {
        /// The answer.
        topology: Box<Topology>,
        /// The rules.
        why: Unacceptable,
    },
}

impl NoAnswer {
    /// The call that ended without an answer, if one did.
    #[must_use]
    pub const fn call(&self) -> Option<&CallError> {
        match self {
            Self::Configure(error) | Self::Call(error) => Some(error),
            Self::Endpoints(_) | Self::Unsound { .. } => None,
        }
    }
}

impl Desk {
    /// Loads a plugin as a host would. Runs no code of it.
    ///
    /// # Errors
    /// Why a host would refuse the bytes.
    pub async fn open(
        runtime: &Runtime,
        bytes: Arc<[u8]>,
        limits: topoloom_core::plugin::Limits,
    ) -> Result<Self, LoadError> {
        let plugin = runtime.load(Load { bytes, pinned: None, limits }).await?;
        Ok(Self { plugin, source: SourceName::parse(DESK).expect("four letters are the value of a label") })
    }

    /// The same plugin for a source of this name, which new objects are called after.
    #[must_use]
    pub fn named(self, source: SourceName) -> Self {
        Self { source, ..self }
    }

    /// The plugin.
    #[must_use]
    pub const fn plugin(&self) -> &Plugin {
        &self.plugin
    }

    /// The name in place of a source.
    #[must_use]
    pub const fn source(&self) -> &SourceName {
        &self.source
    }

    /// What the plugin says about itself. Each call is one more instance.
    pub async fn describe(&self) -> Call<Description> {
        self.plugin.logging_to(&LogLines::default()).describe(&self.source).await
    }

    /// Checks a configuration, any text.
    pub async fn configure(&self, config: &str) -> Call<Requirements> {
        self.plugin.logging_to(&LogLines::default()).configure(&self.source, config.into()).await
    }

    /// Checks a configuration, and grants what it asks for.
    ///
    /// # Errors
    /// What is wrong with the configuration, or with the plugin.
    pub async fn settle(&self, config: &str) -> Result<Configured, CallError> {
        let requirements = self.configure(config).await.end?;
        // As for a builtin plugin, whose wish is its grant: nothing is refused.
        let granted = grant(&requirements, &Permissions::default(), Origin::Embedded).unwrap_or_default();
        let granted = Granted { node_names: self.plugin.reads_node_names(), ..granted };
        let labels = granted.labels.iter().map(|key| ColumnKey::Label(Arc::clone(key)));
        let annotations = granted.annotations.iter().map(|key| ColumnKey::Annotation(Arc::clone(key)));
        let keys = labels.chain(annotations).collect();
        Ok(Configured { config: config.into(), requirements, granted: Arc::new(granted), keys })
    }

    /// The lines that grant what the plugin asks for, for an entry; `None` where it asks for nothing, or is a builtin
    /// plugin, which needs no grants.
    #[must_use]
    pub fn permissions(&self, requirements: &Requirements) -> Option<String> {
        if self.plugin.origin() == Origin::Embedded {
            return None;
        }
        let nothing = Permissions::default();
        let mut asked = grant(requirements, &nothing, Origin::Foreign).err().unwrap_or_default();
        asked.extend(self.plugin.reads_node_names().then_some(NotGranted::NodeNames));
        (!asked.is_empty()).then(|| NotGranted::yaml(&asked))
    }

    /// Services that answer out of a recording.
    ///
    /// # Errors
    /// When the recording is of several sources, none of which is this one.
    pub fn replay(&self, recording: Recording) -> Result<Exchanges, String> {
        Ok(Exchanges::Replay(Arc::new(Replay::new(recording.for_source(&self.source)?))))
    }

    /// One round, `configure` included.
    pub async fn discover(&self, ask: &Ask<'_>) -> Round {
        match self.settle(ask.config).await {
            Ok(configured) => self.round(&configured, ask).await,
            Err(error) => Round::without(NoAnswer::Configure(error)),
        }
    }

    /// One round with a configuration that was accepted before; that of `ask` does not count.
    pub async fn round(&self, configured: &Configured, ask: &Ask<'_>) -> Round {
        self.turn(configured, ask.nodes.view(&configured.keys, ask.earlier), ask).await
    }

    /// One round over nodes that are columns already.
    pub(crate) async fn turn(&self, configured: &Configured, view: View, ask: &Ask<'_>) -> Round {
        let endpoints = match self.endpoints(configured, &ask.exchanges) {
            Ok(endpoints) => endpoints,
            Err(what) => return Round::without(NoAnswer::Endpoints(what)),
        };
        let observed = Arc::new(Observed::new(ask.existing.iter().cloned()));
        let lines = LogLines::default();
        let input = RoundInput {
            config: Arc::clone(&configured.config),
            granted: Arc::clone(&configured.granted),
            nodes: view.clone(),
            applied: observed.of(&self.source).cloned().collect(),
            endpoints: Arc::new(endpoints),
            time: ask.time,
            state: ask.state.into(),
        };
        let call = self.plugin.logging_to(&lines).discover(&self.source, input).await;
        let (end, state) = match call.end {
            Ok(Answer { outcome, state }) => (self.judge(outcome, configured, view, &observed), state),
            Err(error) => (Err(error.into()), Vec::new()),
        };
        let misfit = match &ask.exchanges {
            Exchanges::Replay(replay) => replay.misfit(),
            Exchanges::None | Exchanges::Live(_) => Misfit::default(),
        };
        Round { end, state, usage: call.usage, log: lines.take(), misfit }
    }

    /// As a host judges: nothing of an answer that breaks a rule is used.
    fn judge(
        &self,
        outcome: Answered,
        configured: &Configured,
        view: View,
        observed: &Arc<Observed>,
    ) -> Result<Judged, NoAnswer> {
        let Answered::Topology(topology) = outcome else { return Ok(Judged::Unchanged) };
        let input = ValidateInput { source: &self.source, nodes: view.names(), reserved_labels: &[SOURCE_LABEL] };
        let forest = match accept(&topology, &input) {
            Ok(forest) => Arc::new(forest),
            Err(why) => return Err(NoAnswer::Unsound { topology: Box::new(topology), why }),
        };
        let inputs = Inputs {
            source: &self.source,
            observed,
            view: &view,
            keys: &configured.keys,
            baseline: None,
            losses: &Losses::default(),
            config: guard::Config::Same,
            safety: &Safety::default(),
            tier_names_elsewhere: &TierNames::new(),
        };
        let decision = decide(&forest, &inputs);
        Ok(Judged::Found(Box::new(Found { topology, view, decision })))
    }

    /// What is granted, answered for in this way.
    pub(crate) fn endpoints(&self, configured: &Configured, exchanges: &Exchanges) -> Result<Endpoints, Vec<String>> {
        let granted = &configured.granted.endpoints;
        let (plans, outside): (Vec<Result<Plan, String>>, Outside) = match exchanges {
            Exchanges::None => (granted.values().map(unknown).collect(), Outside::offline()),
            Exchanges::Replay(replay) => {
                let outside = Outside { tape: Tape::Replay(Arc::clone(replay)), ..Outside::offline() };
                (granted.values().map(|endpoint| Ok(replayed(endpoint))).collect(), outside)
            }
            Exchanges::Live(live) => (self.live(granted, live), live.outside.clone()),
        };
        let (plans, wrong): (Vec<_>, Vec<_>) = plans.into_iter().partition(Result::is_ok);
        if wrong.is_empty() {
            let plans = plans.into_iter().filter_map(Result::ok).collect();
            return Ok(Endpoints::new(&self.source, plans, &outside));
        }
        Err(wrong.into_iter().filter_map(Result::err).collect())
    }

    fn live(&self, granted: &BTreeMap<String, GrantedEndpoint>, live: &Live) -> Vec<Result<Plan, String>> {
        let among = granted.values().filter(|endpoint| !endpoint.required.credentials.is_empty()).count();
        let one = |(name, endpoint): (&String, &GrantedEndpoint)| {
            let word = live.words.get(name);
            if word.is_none() && self.plugin.origin() == Origin::Foreign {
                return unknown(endpoint);
            }
            let credentials = live.credentials.as_ref().map(|credentials| (credentials, among));
            plan(endpoint, &EntryTerms { origin: self.plugin.origin(), word, credentials, usual: Usual::default() })
        };
        granted.iter().map(one).collect()
    }
}

/// An endpoint that nothing answers for.
fn unknown(endpoint: &GrantedEndpoint) -> Result<Plan, String> {
    let wish = &endpoint.required;
    Err(format!(
        "the plugin calls the endpoint {} ({}): give an entry that says where it is, or a recording",
        wish.name, wish.purpose
    ))
}

/// An endpoint that a recording answers for: where it would be does not count.
fn replayed(endpoint: &GrantedEndpoint) -> Plan {
    let GrantedEndpoint { required, permission } = endpoint;
    let Usual { total, max_body } = Usual::default();
    Plan {
        name: required.name.as_str().into(),
        carrier: Carrier::File(PathBuf::new()),
        methods: permission.methods.clone(),
        paths: permission.paths.clone(),
        narrowed: Vec::new(),
        addresses: Vec::new(),
        tls: Tls::default(),
        timeouts: Timeouts { connect: DEFAULT_CONNECT, first_byte: DEFAULT_FIRST_BYTE, total },
        max_body,
        redirects: Redirects::default(),
        kinds: required.credentials.clone(),
        credentials: None,
    }
}

impl Round {
    fn without(why: NoAnswer) -> Self {
        Self { end: Err(why), state: Vec::new(), usage: Usage::default(), log: Vec::new(), misfit: Misfit::default() }
    }

    /// The topology, if that was the answer.
    #[must_use]
    pub fn found(&self) -> Option<&Found> {
        match &self.end {
            Ok(Judged::Found(found)) => Some(found),
            Ok(Judged::Unchanged) | Err(_) => None,
        }
    }
}

impl Found {
    /// The HyperNodes as they are after a host has written this answer over those that existed.
    #[must_use]
    pub fn written(&self, before: &[Arc<Object>]) -> Vec<Arc<Object>> {
        let named = &self.decision.named;
        let stay =
            |object: &&Arc<Object>| object.source.as_ref() != Some(&named.source) || named.held.contains(&object.name);
        let ours = named.objects.iter().map(|(name, object)| {
            Arc::new(Object {
                name: Arc::clone(name),
                uid: object.continues.clone().unwrap_or_else(|| format!("uid-of-{name}").into()),
                resource_version: "1".into(),
                created: 0,
                source: Some(named.source.clone()),
                group_id: object.group_id.clone(),
                split_from: object.split_from.clone(),
                description: object.description.clone(),
                labels: object.labels.clone(),
                owned_labels: object.labels.keys().cloned().collect(),
                shared_labels: std::collections::BTreeSet::new(),
                spec: object.spec.clone(),
            })
        });
        before.iter().filter(stay).cloned().chain(ours).collect()
    }
}
