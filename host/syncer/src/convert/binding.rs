//! ClusterBindings: what one says, every mistake in it, and what of the guard its status keeps.
//!
//! Owns the step from the fields to types that hold nothing else, and the sentences that name field, value and what is allowed.
//! A mistake takes the default of its field, and is reported beside it: so a binding with a mistake can be served without being
//! changed ([`Bar::Invalid`](topoloom_sync::bars::Bar::Invalid)). Only names are without a default: every object of ours carries
//! them.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use topoloom_api::cluster_binding::times::{TimeError, Times};
use topoloom_api::cluster_binding::{
    ClusterBindingStatus, Extent, GrantedStatus, HeldBatchStatus, HostPorts, MAX_PERCENT, Mode,
    NoPolicy as WrittenNoPolicy, OnUnreachable as WrittenOnUnreachable, PhysicalWrites, PolicySource,
};
use topoloom_api::rules::{is_dns_label, is_dns_subdomain};
use topoloom_api::{ClusterBinding, ClusterBindingSpec, UnknownWord, Unreadable, Word, Words};
use topoloom_core::names::{NodeName, Uid};
use topoloom_core::rules::is_label_key;
use topoloom_core::text;
use topoloom_sync::copied::{CopyRules, KeyRules, Map, RuleError};
use topoloom_sync::deletion::{DeletionTiming, Evictions, Existence};
use topoloom_sync::guard::{ActKind, GrantedActs, HeldBatch, HeldBefore, Inherited, Safety, Size, Spent};
use topoloom_sync::identity::{Identity, IdentityError};
use topoloom_sync::liveness::{ContactTiming, OnUnreachable};
use topoloom_sync::naming::{BindingName, ClusterId, NameError};
use topoloom_sync::node::{Binding, Chained, KubeletEndpoint, NodeClaims};
use topoloom_sync::policy::in_force::NoPolicy;
use topoloom_sync::ports::Mirroring;
use topoloom_sync::selector::{NodeSelector, RequirementError};
use topoloom_sync::taints::DefaultTaint;

use super::selector;
use crate::heartbeats::{self, OptionsError};
use crate::kubeconfig::Insecure;

/// How many mistakes of a binding are kept.
const KEPT: usize = 10;

/// What no ClusterBinding says, and every one of a process has.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The identity of the virtual cluster.
    pub virtual_cluster: Uid,
    /// Whether the Eviction API may be used.
    pub evictions: Evictions,
    /// Where the kubelet's API of virtual nodes is served, where it is.
    pub endpoint: Option<KubeletEndpoint>,
}

/// What a ClusterBinding says.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// What its nodes depend on.
    pub binding: Binding,
    /// `spec.safety`.
    pub safety: Safety,
    /// When its connection is suspect.
    pub contact: ContactTiming,
    /// How its leases are renewed.
    pub heartbeats: heartbeats::Options,
    /// How far two looks at an orphan are apart.
    pub orphan_delay: Duration,
    /// `spec.mode`.
    pub mode: Mode,
    /// `spec.policySource`.
    pub policy_source: PolicySource,
    /// `spec.hostPorts`.
    pub host_ports: Mirroring,
    /// `spec.copy.podMetadata`.
    pub pod_metadata: BTreeSet<String>,
    /// The name of the Secret with the kubeconfig.
    pub secret: String,
    /// `spec.mountNamespace`.
    pub mount_namespace: String,
    /// `spec.allowInsecure`.
    pub insecure: Insecure,
}

/// A binding as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// What it says, with the defaults of what it says wrongly.
    pub terms: Terms,
    /// What is wrong with it, if anything.
    pub problems: Option<Problems>,
}

/// What is wrong with a binding. Prints as its first mistakes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    /// The first ones; never none.
    pub kept: Vec<Problem>,
    /// How many more there are.
    pub more: usize,
}

impl std::error::Error for Problems {}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.kept.iter().enumerate() {
            write!(f, "{}{problem}", if index == 0 { "" } else { "; " })?;
        }
        if self.more == 0 { Ok(()) } else { write!(f, "; and {} more", self.more) }
    }
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The spec cannot be read as a whole.
    #[error("{0}")]
    Unreadable(Unreadable),
    /// Its name, or its `clusterID`.
    #[error("{0}")]
    Name(NameError),
    /// Its UID, or the identity of the virtual cluster.
    #[error("{0}")]
    Identity(IdentityError),
    /// A namespace.
    #[error(
        "spec.mountNamespace must be the name of a namespace: 1 to 63 lower-case letters, digits and '-', with a letter or digit \
         at both ends, got \"{0}\""
    )]
    MountNamespace(String),
    /// The name of a Secret.
    #[error(
        "spec.secretRef.name must be the name of a Secret: 1 to 253 lower-case letters, digits, '-' and '.', with a letter or \
         digit at both ends of each part, got \"{0}\""
    )]
    Secret(String),
    /// A field of a few words.
    #[error("spec.{field} {error}")]
    Word {
        /// Its name.
        field: &'static str,
        /// What is wrong with it.
        error: UnknownWord,
    },
    /// A time.
    #[error("{0}")]
    Time(TimeError),
    /// The lease.
    #[error("spec.timing.lease: {0}")]
    Lease(OptionsError),
    /// A limit of the guard.
    #[error("spec.safety.{field} must be from 1 to 100, got {got}")]
    Percent {
        /// Its name.
        field: &'static str,
        /// The number.
        got: i64,
    },
    /// A part of the selector.
    #[error("spec.nodeSelector.{0}")]
    Selector(RequirementError),
    /// A rule about what is copied.
    #[error("{0}")]
    Copy(RuleError),
    /// A key of pod metadata.
    #[error("spec.copy.podMetadata[{index}] must be the key of a label or an annotation, got \"{got}\"")]
    PodMetadata {
        /// Its place.
        index: usize,
        /// What it is.
        got: String,
    },
}

/// Reads a binding.
///
/// # Errors
/// One of the names is wrong, so nothing can be done for it at all.
pub fn read(binding: &ClusterBinding, around: &Surroundings) -> Result<Reading, Problems> {
    let mut found = Found::default();
    let parts;
    let spec = match &binding.spec {
        Ok(spec) => spec,
        Err(why) => {
            found.add(Problem::Unreadable(why.clone()));
            parts = parts_of(why);
            &parts
        }
    };
    let names = found.names(binding, spec, around);
    let (selector, copy) = (found.selector(spec), found.copy(spec));
    let (no_policy, source, mode, on_unreachable, host_ports, writes) = (
        found.word("noPolicy", &spec.no_policy),
        found.word("policySource", &spec.policy_source),
        found.word("mode", &spec.mode),
        found.word("onUnreachable", &spec.on_unreachable),
        found.word("hostPorts", &spec.host_ports),
        found.word("physicalWrites", &spec.physical_writes),
    );
    let times = found.times(spec);
    let heartbeats = found.lease(times.lease);
    let safety = found.safety(spec, times.announce);
    let (pod_metadata, secret) = (found.pod_metadata(spec), found.secret(spec));
    let Some(Names { identity, cluster, mount_namespace }) = names else {
        // There is one at least: that of a name.
        return Err(Problems { kept: found.kept, more: found.more });
    };
    let terms = Terms {
        binding: Binding {
            identity,
            cluster,
            mount: mount_namespace.clone(),
            selector,
            no_policy: match no_policy {
                WrittenNoPolicy::LeaseAll => NoPolicy::LeaseAll,
                WrittenNoPolicy::Withdraw => NoPolicy::Withdraw,
            },
            existence: match binding.metadata.deletion_timestamp {
                Some(_) => Existence::Terminating,
                None => Existence::Alive,
            },
            default_taint: if spec.disable_node_default_taint { DefaultTaint::Off } else { DefaultTaint::On },
            copy,
            chained: if spec.allow_chained { Chained::Allowed } else { Chained::Refused },
            claims: match writes {
                PhysicalWrites::All => NodeClaims::Written,
                PhysicalWrites::None => NodeClaims::None,
            },
            endpoint: around.endpoint.clone(),
            on_unreachable: match on_unreachable {
                WrittenOnUnreachable::Unknown => OnUnreachable::Unknown,
                WrittenOnUnreachable::Hold => OnUnreachable::Hold(times.hold_for),
            },
            grow: times.grow,
            deletion: DeletionTiming { recheck: times.recheck, eviction_deadline: times.eviction_deadline },
            evictions: around.evictions,
        },
        safety,
        contact: ContactTiming { suspect: times.suspect, unreachable: times.unreachable, empty: times.empty },
        heartbeats,
        orphan_delay: times.orphan_delay,
        mode,
        policy_source: source,
        host_ports: match host_ports {
            HostPorts::Off => Mirroring::Off,
            HostPorts::Mirror => Mirroring::On,
        },
        pod_metadata,
        secret,
        mount_namespace,
        insecure: if spec.allow_insecure { Insecure::Allowed } else { Insecure::Refused },
    };
    let Found { kept, more } = found;
    Ok(Reading { terms, problems: (!kept.is_empty()).then_some(Problems { kept, more }) })
}

/// What can be read of a spec that cannot be read as a whole: what never changes, and where the cluster is.
fn parts_of(why: &Unreadable) -> ClusterBindingSpec {
    ClusterBindingSpec {
        cluster_id: why.part("clusterID").or_default(),
        mount_namespace: why.part("mountNamespace").or_default(),
        secret_ref: why.part("secretRef").or_default(),
        allow_insecure: why.part("allowInsecure").or_default(),
        ..ClusterBindingSpec::default()
    }
}

/// Names that are right.
struct Names {
    identity: Identity,
    cluster: ClusterId,
    mount_namespace: String,
}

/// The mistakes so far. What takes the place of a wrong field is its default.
#[derive(Default)]
struct Found {
    kept: Vec<Problem>,
    more: usize,
}

impl Found {
    fn add(&mut self, problem: Problem) {
        if self.kept.len() < KEPT {
            self.kept.push(problem);
        } else {
            self.more = self.more.saturating_add(1);
        }
    }

    fn or<T, E>(&mut self, read: Result<T, E>, problem: impl Fn(E) -> Problem) -> Option<T> {
        read.map_err(|error| self.add(problem(error))).ok()
    }

    fn names(&mut self, binding: &ClusterBinding, spec: &ClusterBindingSpec, around: &Surroundings) -> Option<Names> {
        let name = BindingName::parse(binding.metadata.name.as_deref().unwrap_or_default());
        let name = self.or(name, Problem::Name);
        let cluster = self.or(ClusterId::parse(&spec.cluster_id), Problem::Name);
        let uid = binding.metadata.uid.as_deref().unwrap_or_default();
        let identity = name.and_then(|name| {
            self.or(Identity::new(around.virtual_cluster.clone(), name, uid.into()), Problem::Identity)
        });
        let namespace = if is_dns_label(&spec.mount_namespace) {
            Some(spec.mount_namespace.clone())
        } else {
            self.add(Problem::MountNamespace(text::word(&spec.mount_namespace)));
            None
        };
        Some(Names { identity: identity?, cluster: cluster?, mount_namespace: namespace? })
    }

    fn selector(&mut self, spec: &ClusterBindingSpec) -> NodeSelector {
        let Some(written) = &spec.node_selector else { return NodeSelector::default() };
        NodeSelector::parse(&selector::read(written)).unwrap_or_else(|error| {
            error.problems.into_iter().for_each(|problem| self.add(Problem::Selector(problem)));
            self.more = self.more.saturating_add(error.more);
            NodeSelector::default()
        })
    }

    fn copy(&mut self, spec: &ClusterBindingSpec) -> CopyRules {
        let mut rules = |map, keys: &topoloom_api::cluster_binding::KeysSpec| {
            self.or(KeyRules::parse(map, &keys.allow, &keys.deny), Problem::Copy).unwrap_or_default()
        };
        CopyRules {
            labels: rules(Map::Labels, &spec.copy.labels),
            annotations: rules(Map::Annotations, &spec.copy.annotations),
        }
    }

    fn word<T: Words>(&mut self, field: &'static str, word: &Word<T>) -> T {
        self.or(word.read(), |error| Problem::Word { field, error }).unwrap_or_default()
    }

    /// The times; where one of them is wrong, all have their defaults, since they have to fit together.
    fn times(&mut self, spec: &ClusterBindingSpec) -> Times {
        spec.times().unwrap_or_else(|errors| {
            errors.into_iter().for_each(|error| self.add(Problem::Time(error)));
            Times::default()
        })
    }

    fn lease(&mut self, lease: Duration) -> heartbeats::Options {
        self.or(heartbeats::Options::new(lease), Problem::Lease).unwrap_or_default()
    }

    fn safety(&mut self, spec: &ClusterBindingSpec, announce: Duration) -> Safety {
        let mut percent = |field, written: Option<i64>| {
            let got = written.unwrap_or(MAX_PERCENT);
            let percent = u8::try_from(got).ok().filter(|percent| (1..=100).contains(percent));
            self.or(percent.ok_or(got), |got| Problem::Percent { field, got })
        };
        let (pods, nodes) = (
            percent("maxEvictPercent", spec.safety.max_evict_percent),
            percent("maxNodesPercent", spec.safety.max_nodes_percent),
        );
        let usual = Safety::default();
        Safety {
            max_evict_percent: pods.unwrap_or(usual.max_evict_percent),
            max_nodes_percent: nodes.unwrap_or(usual.max_nodes_percent),
            announce,
        }
    }

    fn pod_metadata(&mut self, spec: &ClusterBindingSpec) -> BTreeSet<String> {
        let mut keys = BTreeSet::new();
        for (index, key) in spec.copy.pod_metadata.iter().enumerate() {
            if is_label_key(key).is_ok() {
                keys.insert(key.clone());
            } else {
                self.add(Problem::PodMetadata { index, got: text::word(key) });
            }
        }
        keys
    }

    fn secret(&mut self, spec: &ClusterBindingSpec) -> String {
        if !is_dns_subdomain(&spec.secret_ref.name) {
            self.add(Problem::Secret(text::word(&spec.secret_ref.name)));
        }
        spec.secret_ref.name.clone()
    }
}

/// What the status keeps of the guard, for the process that takes over.
#[must_use]
pub fn inherited(status: &ClusterBindingStatus) -> Inherited {
    let spent = status.spent.as_ref().map(|spent| Spent { nodes: count(spent.nodes), pods: count(spent.pods) });
    let held = status.held.as_ref().filter(|held| !held.hash.is_empty()).map(|held| HeldBefore {
        hash: held.hash.clone(),
        nodes: count(held.extent.nodes),
        pods: count(held.extent.pods),
        size: Size { nodes: count(held.size.nodes), pods: count(held.size.pods) },
        spent: Spent { nodes: count(held.spent.nodes), pods: count(held.spent.pods) },
    });
    let grants = status.granted_now().filter_map(grant).collect();
    Inherited { spent: spent.unwrap_or_default(), grants, held }
}

/// Acts of a kind that is known: others are judged again.
fn grant(granted: &GrantedStatus) -> Option<GrantedActs> {
    Some(GrantedActs {
        kind: ActKind::read(&granted.act)?,
        is_counted: granted.counts,
        nodes: granted.nodes.iter().map(|node| NodeName::from(node.as_str())).collect(),
        pods: count(granted.pods),
    })
}

/// What the guard has allowed, as the status keeps it that was written at this time.
#[must_use]
pub fn granted(grants: &[GrantedActs], at: &str) -> Vec<GrantedStatus> {
    let granted = |acts: &GrantedActs| GrantedStatus {
        act: acts.kind.word().to_owned(),
        counts: acts.is_counted,
        nodes: acts.nodes.iter().take(ClusterBindingStatus::GRANTED_NODES_MAX).map(ToString::to_string).collect(),
        pods: number(acts.pods),
        at: at.to_owned(),
    };
    grants.iter().map(granted).collect()
}

/// A batch that is held, as the status keeps it, with the hashes that confirm a part of it.
#[must_use]
pub fn held(batch: &HeldBatch, earlier: &[String], since: String) -> HeldBatchStatus {
    let extent = |nodes, pods| Extent { nodes: number(nodes), pods: number(pods) };
    HeldBatchStatus {
        hash: batch.hash.clone(),
        earlier: earlier.iter().take(ClusterBindingStatus::EARLIER_MAX).cloned().collect(),
        sentence: batch.to_string(),
        since,
        extent: extent(batch.nodes, batch.pods),
        size: extent(batch.size.nodes, batch.size.pods),
        spent: extent(batch.spent.nodes, batch.spent.pods),
    }
}

/// A number of things, from a field that holds any. Below zero is none.
fn count(written: i64) -> usize {
    usize::try_from(written.max(0)).unwrap_or(usize::MAX)
}

/// The same, as a field holds it.
#[must_use]
pub fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub(crate) mod tests;
