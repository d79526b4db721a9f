//! What was done for one binding.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;
use topoloom_cluster::{Refusal, RefusalReason};
use topoloom_sync::guard::Cause;
use tracing::Span;

/// From a taint that is written in the second after its boundary to one that waits for a person.
const BOUNDARY: [f64; 10] = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 300.0, 1_800.0, 7_200.0];

/// Refusals that last until a person has changed something: these begin at zero, so that the first one of each is seen.
const LASTING: [RefusalReason; 3] =
    [RefusalReason::Forbidden, RefusalReason::Invalid, RefusalReason::DeniedByAdmission];

/// The reason of a write that was taken, and not stored whole.
const NOT_STORED: &str = "NotStored";

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WriteKind {
    /// The claim on a physical node, and the label of its policy: written, or taken off.
    Claim,
    /// A virtual node is made.
    NodeCreate,
    /// The status of a virtual node, with its metadata.
    NodeStatus,
    /// Taints and cordon of a virtual node.
    NodeSpec,
    /// A virtual node is deleted, or released from the finalizer.
    NodeDelete,
    /// A virtual pod leaves its node by the Eviction API.
    PodEvict,
    /// A virtual pod leaves its node by DELETE.
    PodDelete,
    /// The status of a virtual pod.
    PodStatus,
    /// A virtual pod that terminates is removed.
    PodRemove,
    /// A physical pod without a virtual one is deleted.
    OrphanDelete,
    /// A virtual CSINode: made, changed or deleted.
    CsiNode,
    /// A placeholder for host ports: made, marked or deleted.
    HostPort,
    /// The status of a policy.
    PolicyStatus,
    /// The status of the binding.
    BindingStatus,
    /// The finalizer of the binding, and verbs that were carried out.
    Binding,
}

impl WriteKind {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Claim,
        Self::NodeCreate,
        Self::NodeStatus,
        Self::NodeSpec,
        Self::NodeDelete,
        Self::PodEvict,
        Self::PodDelete,
        Self::PodStatus,
        Self::PodRemove,
        Self::OrphanDelete,
        Self::CsiNode,
        Self::HostPort,
        Self::PolicyStatus,
        Self::BindingStatus,
        Self::Binding,
    ];

    /// The word of metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::NodeCreate => "node-create",
            Self::NodeStatus => "node-status",
            Self::NodeSpec => "node-spec",
            Self::NodeDelete => "node-delete",
            Self::PodEvict => "pod-evict",
            Self::PodDelete => "pod-delete",
            Self::PodStatus => "pod-status",
            Self::PodRemove => "pod-remove",
            Self::OrphanDelete => "orphan-delete",
            Self::CsiNode => "csinode",
            Self::HostPort => "host-port",
            Self::PolicyStatus => "policy-status",
            Self::BindingStatus => "binding-status",
            Self::Binding => "binding",
        }
    }
}

/// By kind and reason, how often.
pub(super) type Writes = BTreeMap<(WriteKind, &'static str), u64>;

/// Counts what is done for one binding. Clones are the same. Where none is shown, nothing of it is served.
#[derive(Debug, Clone, Default)]
pub struct Counted(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    written: Mutex<Writes>,
    refused: Mutex<Writes>,
    evictions: Mutex<BTreeMap<&'static str, u64>>,
    boundaries: Histogram,
}

impl Default for Counts {
    fn default() -> Self {
        let lasting = WriteKind::ALL.into_iter().flat_map(|kind| LASTING.map(|reason| (kind, reason.as_str())));
        Self {
            written: Mutex::default(),
            refused: Mutex::new(lasting.map(|of| (of, 0)).collect()),
            evictions: Mutex::new(Cause::WORDS.into_iter().map(|cause| (cause, 0)).collect()),
            boundaries: Histogram::new(BOUNDARY),
        }
    }
}

impl Counted {
    /// A write ended, and with it the span that it was made in. `reason` is the word for why it was made.
    pub fn wrote<T>(&self, kind: WriteKind, reason: &'static str, ended: &Result<T, Refusal>) {
        let span = Span::current();
        match ended {
            Ok(_) => {
                span.record("result", "ok");
                add(&mut locked(&self.0.written), (kind, reason));
            }
            Err(refusal) => {
                let why = refusal.reason.as_str();
                span.record("result", why).record("otel.status_code", "ERROR");
                add(&mut locked(&self.0.refused), (kind, why));
            }
        }
    }

    /// An API server took a write, and did not store all of it.
    pub fn not_stored(&self, kind: WriteKind) {
        add(&mut locked(&self.0.refused), (kind, NOT_STORED));
    }

    /// A virtual pod left its node, for a cause of this word.
    pub fn evicted(&self, cause: &'static str) {
        add(&mut locked(&self.0.evictions), cause);
    }

    /// A node follows a boundary of its windows, so long after it.
    pub fn followed(&self, lag: Duration) {
        self.0.boundaries.observe(lag.as_secs_f64());
    }

    /// What was counted, a line for each number that is not zero.
    #[cfg(test)]
    pub(crate) fn lines(&self) -> Vec<String> {
        let writes = |what: &'static str, writes: Writes| {
            let counted = writes.into_iter().filter(|(_, count)| *count > 0);
            counted.map(move |((kind, reason), count)| format!("{what} {} {reason} {count}", kind.word()))
        };
        let evictions = self.evictions().into_iter().filter(|(_, count)| *count > 0);
        let evictions = evictions.map(|(cause, count)| format!("evicted {cause} {count}"));
        writes("wrote", self.written()).chain(writes("refused", self.refused())).chain(evictions).collect()
    }

    pub(super) fn written(&self) -> Writes {
        locked(&self.0.written).clone()
    }

    pub(super) fn refused(&self) -> Writes {
        locked(&self.0.refused).clone()
    }

    pub(super) fn evictions(&self) -> BTreeMap<&'static str, u64> {
        locked(&self.0.evictions).clone()
    }

    pub(super) fn boundaries(&self) -> &Histogram {
        &self.0.boundaries
    }
}

fn locked<T>(counts: &Mutex<T>) -> MutexGuard<'_, T> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

fn add<K: Ord>(counts: &mut BTreeMap<K, u64>, of: K) {
    let count = counts.entry(of).or_default();
    *count = count.saturating_add(1);
}
