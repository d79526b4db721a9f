//! Every entry of a document, one round each, nothing written: what `discover`, `plan`, `tree` and `explain` show.
//!
//! The same rooms in the same order as in a running host; only the supervisor's memory (baseline, holds) is missing,
//! so the guard judges as after a restart, with what the source's status says of results that were written lately.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use topoloom_core::names::SourceName;
use topoloom_core::plugin::CallError;
use topoloom_core::plugin::rollout::{Comparison, Objects, compare};
use topoloom_core::snapshot::{ColumnKey, Store, View};
use topoloom_core::topology::{Object, Observed, TierNames, guard};

use super::decide::{Decision, Inputs, Unacceptable, accept, decide};
use super::revision::{Host, Revision, prepare};
use super::shown;
use super::supervisor::safety;
use crate::config::{ConfigProblem, Document, EntryConfig};
use crate::delivery::{Module, Refused, Supply};
use crate::plugin::{Digest, RoundInput};
use crate::topology::writers::Made;

/// What an entry of the configuration is called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryName {
    /// By its source.
    Source(SourceName),
    /// By its line, where its source cannot be read.
    Line(usize),
}

impl EntryName {
    /// The source, where it can be read.
    #[must_use]
    pub fn source(&self) -> Option<&SourceName> {
        match self {
            Self::Source(source) => Some(source),
            Self::Line(_) => None,
        }
    }

    /// Whether the entry's source owns the object.
    #[must_use]
    pub fn owns(&self, object: &Object) -> bool {
        self.source().is_some_and(|source| object.source.as_ref() == Some(source))
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(source) => f.write_str(source),
            Self::Line(line) => write!(f, "the entry in line {line}"),
        }
    }
}

/// Why a round has no result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NoResult {
    /// The entry is wrong: everything that is.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Entry(Vec<ConfigProblem>),
    /// The plugin cannot serve with the entry.
    #[error("{}", .0.message)]
    Refused(Refused),
    /// The plugin has no answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The plugin repeats an answer that it never gave.
    #[error("the plugin answered `unchanged` in its first round")]
    Unchanged,
    /// The answer breaks rules.
    #[error(transparent)]
    Answer(#[from] Unacceptable),
}

/// One entry's round.
pub struct Shot {
    /// The entry.
    pub entry: EntryName,
    /// What it runs with, if it could be prepared.
    pub revision: Option<Revision>,
    /// The result, or why there is none.
    pub result: Result<OneshotResult, NoResult>,
}

/// A result and what it means.
pub struct OneshotResult {
    /// What it means for the cluster.
    pub decision: Decision,
}

/// The entries, prepared, and the columns that they read together.
pub struct Prepared {
    entries: Vec<(Arc<EntryConfig>, Result<Revision, Refused>)>,
}

impl Prepared {
    /// Prepares every enabled entry; a broken one only carries its own message.
    ///
    /// `serving` says which bytes serve a source in the cluster: where they are kept, they answer here too, since others
    /// may be delivered and wait.
    pub async fn new(
        host: Host<'_>,
        supply: &Supply,
        document: &Document,
        only: Option<&SourceName>,
        serving: &BTreeMap<SourceName, Digest>,
        stored: &[Arc<Object>],
    ) -> Self {
        let mut entries = Vec::new();
        for entry in document.enabled().filter(|entry| only.is_none_or(|only| *only == entry.source)) {
            let entry = Arc::new(entry.clone());
            let kept = match serving.get(&entry.source) {
                Some(digest) => supply.modules.find(*digest).await.ok().flatten().map(Arc::new),
                None => None,
            };
            let module = match kept {
                Some(module) => Ok(module),
                None => supply.fetch(&entry).await,
            };
            let revision = match module {
                Ok(module) => {
                    let objects = made(stored, &entry.source);
                    prepare(host.with(&objects), Arc::clone(&entry), module, None).await
                }
                Err(refused) => Err(refused),
            };
            entries.push((entry, revision));
        }
        Self { entries }
    }

    /// One entry with these bytes.
    pub async fn one(host: Host<'_>, entry: Arc<EntryConfig>, module: Arc<Module>, stored: &[Arc<Object>]) -> Self {
        let objects = made(stored, &entry.source);
        let revision = prepare(host.with(&objects), Arc::clone(&entry), module, None).await;
        Self { entries: vec![(entry, revision)] }
    }

    /// The columns that all entries read together.
    #[must_use]
    pub fn keys(&self) -> Vec<ColumnKey> {
        let revisions = self.entries.iter().filter_map(|(_, revision)| revision.as_ref().ok());
        let mut keys: Vec<ColumnKey> = revisions.flat_map(|revision| revision.keys.iter().cloned()).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// Runs one round per entry over the nodes in `store`, in the order of the document.
    pub async fn round(
        self,
        store: &Store,
        observed: &[Arc<Object>],
        applied: &BTreeMap<SourceName, Applied>,
    ) -> Vec<Shot> {
        let observed = &Arc::new(Observed::new(observed.iter().cloned()));
        let mut tiers = TierNames::new();
        let mut shots = Vec::new();
        for (entry, revision) in self.entries {
            let source = &entry.source;
            let name = EntryName::Source(source.clone());
            let shot = match revision {
                Err(refused) => Shot { entry: name, revision: None, result: Err(NoResult::Refused(refused)) },
                Ok(revision) => {
                    let view = store.view(&revision.keys);
                    let applied = applied.get(source).cloned().unwrap_or_default();
                    let result = one(source, &revision, &view, observed, &tiers, &applied).await;
                    if let Ok(found) = &result {
                        for (name, used) in found.decision.named.tier_names() {
                            tiers.entry(name).or_insert(used);
                        }
                    }
                    Shot { entry: name, revision: Some(revision), result }
                }
            };
            shots.push(shot);
        }
        shots
    }
}

/// The names of the objects of a source.
fn made(stored: &[Arc<Object>], source: &SourceName) -> Vec<Made> {
    let own = stored.iter().filter(|object| object.source.as_ref() == Some(source));
    own.map(|object| Made::of(object)).collect()
}

/// What another plugin would change.
pub struct Compared {
    /// How many nodes there are.
    pub nodes: u32,
    /// What serves, in words.
    pub serving: String,
    /// What would, in words.
    pub candidate: String,
    /// How far their answers lie apart, or why the candidate has none.
    pub comparison: Result<Comparison, NoResult>,
    /// What would be written with the candidate.
    pub changes: Vec<String>,
}

impl Compared {
    /// Of two rounds over the same nodes. If the active plugin has no answer, the objects of the source replace it.
    #[must_use]
    pub fn of(serving: &Shot, candidate: Shot, stored: &[Arc<Object>], view: &View) -> Self {
        let before: Objects<'_> = match &serving.result {
            Ok(found) => found.decision.named.objects.iter().map(|(name, object)| (name, &object.spec)).collect(),
            Err(_) => {
                let own = stored.iter().filter(|object| serving.entry.owns(object));
                own.map(|object| (&object.name, &object.spec)).collect()
            }
        };
        let words_of_candidate = words(&candidate);
        let changes = candidate.result.as_ref().map(|found| found.decision.plan.to_string()).unwrap_or_default();
        let comparison = candidate.result.map(|found| {
            let after = found.decision.named.objects.iter();
            let after: Objects<'_> = after.map(|(name, object)| (name, &object.spec)).collect();
            compare(&before, &after, view)
        });
        Self {
            nodes: view.rows(),
            serving: words(serving),
            candidate: words_of_candidate,
            comparison,
            changes: changes.lines().map(str::to_owned).collect(),
        }
    }
}

fn words(shot: &Shot) -> String {
    let plugin = shot.revision.as_ref().map(|revision| {
        let description = &revision.description;
        format!("{} {} ({})", description.name, description.version, revision.plugin.digest())
    });
    match (plugin, &shot.result) {
        (Some(plugin), Ok(_)) => plugin,
        (plugin, Err(message)) => {
            format!("{}{message}", plugin.map(|plugin| format!("{plugin}: ")).unwrap_or_default())
        }
        (None, Ok(_)) => String::new(),
    }
}

/// What is known of the objects of a source that are in the cluster.
#[derive(Debug, Clone, Default)]
pub struct Applied {
    /// Hash of their configuration.
    pub config_hash: Option<String>,
    /// Whether the plugin has answered with Nodes by name without the grant to see names.
    pub nodes_by_name: bool,
    /// What results took lately that were written.
    pub losses: guard::Losses,
}

async fn one(
    source: &SourceName,
    revision: &Revision,
    view: &View,
    observed: &Arc<Observed>,
    tiers: &TierNames,
    applied: &Applied,
) -> Result<OneshotResult, NoResult> {
    let config = match &applied.config_hash {
        Some(applied) if *applied != revision.entry.config_hash.to_string() => guard::Config::Edited,
        _ => guard::Config::Same,
    };
    let round = RoundInput {
        config: Arc::clone(&revision.config),
        granted: Arc::clone(&revision.granted),
        nodes: view.clone(),
        applied: shown::objects(observed.of(source), &revision.granted, applied.nodes_by_name),
        endpoints: Arc::clone(&revision.endpoints),
        time: Timestamp::now(),
        state: Arc::from([]),
    };
    let answer = revision.plugin.discover(source, round).await.end?;
    let topoloom_core::plugin::Answered::Topology(topology) = answer.outcome else {
        return Err(NoResult::Unchanged);
    };
    let forest = Arc::new(accept(&topology, source, view)?);
    let safety = safety(&revision.entry.safety, revision.rhythm.reach);
    let mut losses = applied.losses.clone();
    losses.pass(Timestamp::now(), &safety);
    let inputs = Inputs {
        source,
        observed,
        view,
        keys: &revision.keys,
        baseline: None,
        losses: &losses,
        config,
        safety: &safety,
        tier_names_elsewhere: tiers,
    };
    Ok(OneshotResult { decision: decide(&forest, &inputs) })
}
