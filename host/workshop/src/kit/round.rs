//! One round of a trial, judged as a host judges it, and how two answers differ.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use topoloom_core::names::NodeName;
use topoloom_core::plugin::grant::Origin;
use topoloom_core::plugin::{
    Answered, CallError, Failure, Granted, ImportSet, Permissions, Requirements, Usage, grant,
};
use topoloom_core::snapshot::ColumnKey;
use topoloom_core::topology::decide::accept;
use topoloom_core::topology::{Coverage, Domain, Forest, Object, ValidateInput};
use topoloom_sandbox::endpoints::recording::{Recording, Uses};

use super::stand::{Ask, Replied, Stand};
use super::trial::{History, Node, Trial, view};

/// A trial whose configuration was accepted.
#[derive(Debug)]
pub(super) struct Prepared<'a> {
    pub(super) trial: &'a Trial,
    pub(super) keys: Vec<ColumnKey>,
    config: Arc<str>,
    granted: Arc<Granted>,
    applied: Arc<[Arc<Object>]>,
    reserved_labels: &'a [&'a str],
    /// What any round of the examination has called.
    called: &'a Cell<ImportSet>,
}

/// What a round is asked with, where that is not what the trial says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round<'a> {
    pub(super) nodes: &'a [Node],
    pub(super) history: History,
    pub(super) state: &'a [u8],
    pub(super) at: Timestamp,
    pub(super) applied: Option<&'a [Arc<Object>]>,
    pub(super) recording: Option<&'a Arc<Recording>>,
}

/// How a round ended.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) end: End,
    pub(super) usage: Usage,
    /// What the plugin asked for and the recording does not have, in words.
    pub(super) missing: Vec<String>,
    /// Which exchanges of the recording it asked for.
    pub(super) uses: Uses,
}

/// Why a variation of a case is not tried: another round may ask services for something else, and then what it answers says
/// nothing about the plugin.
pub(super) const NOT_RECORDED: &str = "the recording does not have what the plugin asks for in such a round";

impl Asked {
    /// Whether the plugin asked for something that the recording does not have, which it did not ask for in another round. A
    /// crash and an answer that no host takes are wrong nevertheless.
    pub(super) fn is_not_recorded(&self, other: &Self) -> bool {
        self.end.fault().is_none() && self.missing.iter().any(|asked| !other.missing.contains(asked))
    }
}

/// The same in the words of a host.
#[derive(Debug, Clone)]
pub(super) enum End {
    /// A valid answer, and the state beside it.
    Topology { forest: Arc<Forest>, state: Vec<u8> },
    /// The last answer, still.
    Unchanged,
    /// A failure that the plugin reports.
    Failure(Failure),
    /// An answer that no host takes.
    Invalid(String),
    /// No answer: a crash, or a limit.
    Broken(CallError),
}

impl<'a> Prepared<'a> {
    /// A trial with what its configuration needs, all of it granted.
    pub(super) fn new(
        trial: &'a Trial,
        requirements: &Requirements,
        stand: &impl Stand,
        reserved_labels: &'a [&'a str],
        called: &'a Cell<ImportSet>,
    ) -> Self {
        let granted = all_of(requirements);
        let labels = granted.labels.iter().map(|key| ColumnKey::Label(Arc::clone(key)));
        let annotations = granted.annotations.iter().map(|key| ColumnKey::Annotation(Arc::clone(key)));
        let own = trial.existing.iter().filter(|object| object.source.as_ref() == Some(stand.source()));
        Self {
            trial,
            keys: labels.chain(annotations).collect(),
            config: trial.config.to_string().into(),
            granted: Arc::new(granted),
            applied: own.cloned().collect(),
            reserved_labels,
            called,
        }
    }

    /// The same trial as another version needs it.
    pub(super) fn needing(&self, requirements: &Requirements, stand: &impl Stand) -> Self {
        Self::new(self.trial, requirements, stand, self.reserved_labels, self.called)
    }

    /// The round as the trial has it.
    pub(super) fn round(&self) -> Round<'a> {
        Round {
            nodes: &self.trial.nodes,
            history: History::None,
            state: &self.trial.state,
            at: self.trial.at,
            applied: None,
            recording: self.trial.recording.as_ref(),
        }
    }

    /// Asks.
    pub(super) async fn ask(&self, stand: &impl Stand, round: &Round<'_>) -> Asked {
        let view = view(round.nodes, &self.keys, round.history);
        let ask = Ask {
            config: Arc::clone(&self.config),
            granted: Arc::clone(&self.granted),
            nodes: view.clone(),
            applied: round.applied.map_or_else(|| Arc::clone(&self.applied), Into::into),
            recording: round.recording.cloned(),
            time: round.at,
            state: round.state.into(),
        };
        let Replied { call, missing, uses } = stand.discover(ask).await;
        self.called.set(self.called.get().and(call.usage.called));
        let end = match call.end {
            Ok(answer) => match answer.outcome {
                Answered::Unchanged => End::Unchanged,
                Answered::Topology(topology) => {
                    let (source, reserved_labels) = (stand.source(), self.reserved_labels);
                    let input = ValidateInput { source, nodes: view.names(), reserved_labels };
                    match accept(&topology, &input) {
                        Ok(forest) => End::Topology { forest: Arc::new(forest), state: answer.state },
                        Err(unacceptable) => End::Invalid(format!("{unacceptable:#}")),
                    }
                }
            },
            Err(CallError::Failure(failure)) => End::Failure(failure),
            Err(CallError::InvalidResult(what)) => End::Invalid(what),
            Err(error) => End::Broken(error),
        };
        Asked { end, usage: call.usage, missing, uses }
    }
}

/// All that is asked for, granted, as to a plugin of the host's own.
fn all_of(requirements: &Requirements) -> Granted {
    // What is embedded gets what it asks for: there is no refusal.
    let granted = grant(requirements, &Permissions::default(), Origin::Embedded).unwrap_or_default();
    Granted { node_names: true, ..granted }
}

impl End {
    /// The valid answer, if it is one.
    pub(super) fn forest(&self) -> Option<&Arc<Forest>> {
        match self {
            Self::Topology { forest, .. } => Some(forest),
            _ => None,
        }
    }

    /// What a host would refuse about it, or count as a fault of the plugin.
    pub(super) fn fault(&self) -> Option<String> {
        match self {
            Self::Topology { .. } | Self::Unchanged => None,
            Self::Failure(failure @ Failure::Internal(_)) => Some(failure.to_string()),
            Self::Failure(_) => None,
            Self::Invalid(what) => Some(format!("the answer is not valid: {what}")),
            Self::Broken(error) => Some(error.to_string()),
        }
    }

    /// How it differs from an answer that it should be equal to.
    pub(super) fn unlike(&self, other: &Self) -> Option<String> {
        match (self, other) {
            (Self::Topology { forest: a, .. }, Self::Topology { forest: b, .. }) => difference(a, b),
            (Self::Unchanged, Self::Unchanged) => None,
            (Self::Failure(a), Self::Failure(b)) if a == b => None,
            (_, other) => Some(other.words()),
        }
    }

    /// What it is, in words.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Topology { forest, .. } => match forest.domains().len() {
                1 => "it answers with one group".to_owned(),
                groups => format!("it answers with {groups} groups"),
            },
            Self::Unchanged => "it answers `unchanged`".to_owned(),
            Self::Failure(failure) => format!("it fails: {failure}"),
            Self::Invalid(what) => format!("the answer is not valid: {what}"),
            Self::Broken(error) => error.to_string(),
        }
    }
}

/// In what the second answer differs from the first one: the first group that does, and how many others. Diagnostics may differ.
pub(super) fn difference(first: &Forest, second: &Forest) -> Option<String> {
    if first.domains() == second.domains() && first.coverage() == second.coverage() {
        return None;
    }
    if first.coverage() != second.coverage() {
        let word = |coverage: Coverage| match coverage {
            Coverage::Complete => "complete",
            Coverage::AdditionsOnly => "additions-only",
        };
        return Some(format!("the coverage is {} instead of {}", word(second.coverage()), word(first.coverage())));
    }
    let (a, b) = (Groups::of(first), Groups::of(second));
    let mut found: Vec<String> = Vec::new();
    for (id, domain) in &a.0 {
        match b.0.get(id) {
            None => found.push(format!("group {id:?} is missing")),
            Some(other) => found.extend(changed(domain, other).map(|what| format!("group {id:?}: {what}"))),
        }
    }
    found.extend(b.0.keys().filter(|id| !a.0.contains_key(*id)).map(|id| format!("group {id:?} is new")));
    let more = found.len().saturating_sub(1);
    let first = found.into_iter().next()?;
    Some(if more > 0 { format!("{first}, and {more} more differences") } else { first })
}

/// The groups of an answer by id, with what a position in the answer says spelled out.
struct Groups<'a>(BTreeMap<&'a str, Shown<'a>>);

struct Shown<'a> {
    domain: &'a Domain,
    children: BTreeSet<&'a str>,
}

impl<'a> Groups<'a> {
    fn of(forest: &'a Forest) -> Self {
        let id = |at: &usize| forest.domains().get(*at).map(|domain| &*domain.id);
        let shown = |domain: &'a Domain| Shown { domain, children: domain.children.iter().filter_map(id).collect() };
        Self(forest.domains().iter().map(|domain| (&*domain.id, shown(domain))).collect())
    }
}

/// In what the second form of a group differs from the first one.
fn changed(first: &Shown<'_>, second: &Shown<'_>) -> Option<String> {
    let (a, b) = (first.domain, second.domain);
    if a.tier != b.tier {
        return Some(format!("tier {} instead of {}", b.tier, a.tier));
    }
    if a.nodes != b.nodes {
        let lost = a.nodes.iter().find(|node| !b.nodes.contains(node)).map(|node| format!("without node {node}"));
        let new = || b.nodes.iter().find(|node| !a.nodes.contains(node)).map(|node| format!("with node {node}"));
        return lost.or_else(new);
    }
    if first.children != second.children {
        let lost = first.children.difference(&second.children).next().map(|id| format!("without group {id:?}"));
        let new = || second.children.difference(&first.children).next().map(|id| format!("with group {id:?}"));
        return lost.or_else(new);
    }
    if a.labels != b.labels {
        return Some(format!("labels {:?} instead of {:?}", b.labels, a.labels));
    }
    let texts = |domain: &Domain| {
        [&domain.description, &domain.fixed_name, &domain.tier_name].map(|text| text.as_deref().map(str::to_owned))
    };
    let words = ["description", "fixed name", "tier name"];
    for ((word, old), new) in words.into_iter().zip(texts(a)).zip(texts(b)) {
        if old != new {
            return Some(format!("{word} {:?} instead of {:?}", new.unwrap_or_default(), old.unwrap_or_default()));
        }
    }
    let parts = |domain: &Domain| (domain.kind.clone(), domain.selectors.clone());
    (parts(a) != parts(b)).then(|| "another kind or another selector".to_owned())
}

/// Whether an answer reports something that another one does not.
pub(super) fn says_more(first: &Forest, second: &Forest) -> bool {
    let is_new = |finding| !first.findings().contains(finding);
    second.findings().len() > first.findings().len() || second.findings().iter().any(is_new)
}

/// The first member of the first answer that the second one does not have: by group, and by node wherever that is placed.
pub(super) fn lost(first: &Forest, second: &Forest) -> Option<String> {
    let placed = second.nodes();
    if let Some(node) = first.nodes().into_iter().find(|node| !placed.contains(node)) {
        return Some(format!("node {node} has no place any more"));
    }
    let known: BTreeSet<&str> = second.domains().iter().map(|domain| &*domain.id).collect();
    let gone = first.domains().iter().find(|domain| !known.contains(&*domain.id));
    gone.map(|domain| format!("group {:?} is missing", domain.id))
}

/// All nodes in a group or in one below it.
pub(super) fn below(forest: &Forest, at: usize) -> BTreeSet<NodeName> {
    let mut nodes = BTreeSet::new();
    let mut open = vec![at];
    while let Some(domain) = open.pop().and_then(|at| forest.domains().get(at)) {
        nodes.extend(domain.nodes.iter().cloned());
        open.extend(&domain.children);
    }
    nodes
}
