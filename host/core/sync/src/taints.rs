//! Taints, the tolerations of pods, and the taints that a virtual node should have because of its physical one
//! (`bottomup-syncer.md` 4.1 and 6.7, decisions S12, S13 and S17).
//!
//! This room owns when a toleration matches a taint, and for how long. The answer has to be that of Kubernetes, because
//! kube-scheduler and taint-eviction act on the same taints. It never decides whether a window is open ([`reclaim`]
//! does), and it never looks at the taints that a virtual node has already ([`merge`] does).
//!
//! Failure story: an effect or an operator that this room does not know is kept as its word. Such an operator matches
//! nothing, so that a pod is never left running for a toleration that was only guessed. Such an effect is compared as a
//! word and written again unchanged.
//!
//! [`merge`]: super::merge
//! [`reclaim`]: super::reclaim

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use super::copied::{TaintFate, TaintLeftOut, taint_fate};
use super::keys;

#[cfg(test)]
mod tests;

/// What a taint does to pods that do not tolerate it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// kube-scheduler places none of them on the node.
    NoSchedule,
    /// kube-scheduler prefers other nodes.
    PreferNoSchedule,
    /// The same as [`NoSchedule`](Self::NoSchedule), and those that run there are evicted.
    NoExecute,
    /// A word that this version does not know.
    Other(Box<str>),
}

impl Effect {
    /// The word of the API.
    #[must_use]
    pub fn word(&self) -> &str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
            Self::Other(word) => word,
        }
    }
}

impl From<&str> for Effect {
    fn from(word: &str) -> Self {
        match word {
            "NoSchedule" => Self::NoSchedule,
            "PreferNoSchedule" => Self::PreferNoSchedule,
            "NoExecute" => Self::NoExecute,
            word => Self::Other(word.into()),
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A taint of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value. The API server makes no difference between an empty value and none.
    pub value: String,
    /// What it does.
    pub effect: Effect,
    /// When it was added. The API server stores whole seconds.
    pub time_added: Option<Timestamp>,
}

impl Taint {
    /// A taint without a time.
    #[must_use]
    pub fn new(key: &str, value: &str, effect: Effect) -> Self {
        Self { key: key.to_owned(), value: value.to_owned(), effect, time_added: None }
    }

    /// The taint of every virtual node, unless the binding switches it off.
    #[must_use]
    pub fn lent() -> Self {
        Self::new(keys::VNODE_TAINT, "", Effect::NoSchedule)
    }

    /// The taint of a virtual node that is being deleted (decision S10).
    #[must_use]
    pub fn deleting() -> Self {
        Self::new(keys::DELETING_TAINT, "true", Effect::NoSchedule)
    }

    /// The taint of a virtual node whose physical API server does not answer (decision S5).
    #[must_use]
    pub fn unreachable() -> Self {
        Self::new(keys::UNREACHABLE_TAINT, "true", Effect::NoSchedule)
    }

    /// What tells two taints of a node apart: the API server refuses a node that has one pair twice.
    #[must_use]
    pub fn id(&self) -> (&str, &Effect) {
        (&self.key, &self.effect)
    }

    /// Whether the API server would store the same for both.
    #[must_use]
    pub fn is_stored_like(&self, other: &Self) -> bool {
        let second = |taint: &Self| taint.time_added.map(Timestamp::as_second);
        self.id() == other.id() && self.value == other.value && second(self) == second(other)
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.value.is_empty() {
            write!(f, "{}:{}", self.key, self.effect)
        } else {
            write!(f, "{}={}:{}", self.key, self.value, self.effect)
        }
    }
}

/// How a toleration compares values.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Operator {
    /// The values are equal. This is the default.
    #[default]
    Equal,
    /// Every value will do.
    Exists,
    /// Another word. `Gt` and `Lt` are among them: they compare numbers behind a feature gate of the cluster, and no taint
    /// of ours has a number as its value, so that they match none of ours with the gate or without it.
    Other(Box<str>),
}

impl From<&str> for Operator {
    fn from(word: &str) -> Self {
        match word {
            "" | "Equal" => Self::Equal,
            "Exists" => Self::Exists,
            word => Self::Other(word.into()),
        }
    }
}

/// A toleration of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Toleration {
    /// The key of the taints that it matches; an empty one means every key.
    pub key: String,
    /// How it compares values.
    pub operator: Operator,
    /// The value that it compares with.
    pub value: String,
    /// The effect of the taints that it matches; `None` means every effect. An empty word of the API is `None`.
    pub effect: Option<Effect>,
    /// For how many seconds it tolerates a taint with NoExecute; `None` means for ever.
    pub seconds: Option<i64>,
}

impl Toleration {
    /// Whether it matches a taint, for whatever time.
    #[must_use]
    pub fn matches(&self, taint: &Taint) -> bool {
        if self.effect.as_ref().is_some_and(|effect| *effect != taint.effect) {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match self.operator {
            Operator::Equal => self.value == taint.value,
            Operator::Exists => true,
            Operator::Other(_) => false,
        }
    }
}

/// For how long a pod tolerates a taint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tolerated {
    /// Not at all.
    No,
    /// As long as the taint is there.
    Forever,
    /// For so long. Zero means that the pod goes at once.
    For(Duration),
}

impl Tolerated {
    /// Whether the pod goes as soon as the taint is there.
    #[must_use]
    pub fn goes_at_once(self) -> bool {
        match self {
            Self::No => true,
            Self::Forever => false,
            Self::For(time) => time.is_zero(),
        }
    }
}

/// For how long a pod with these tolerations tolerates a taint.
///
/// The first toleration that matches decides, and no other one: taint-eviction goes by the first one for each taint, and
/// takes the shortest time over several *taints*. A pod must not go earlier than it would there, nor stay longer. Seconds
/// count for NoExecute alone.
#[must_use]
pub fn tolerates(tolerations: &[Toleration], taint: &Taint) -> Tolerated {
    let Some(first) = tolerations.iter().find(|toleration| toleration.matches(taint)) else { return Tolerated::No };
    match first.seconds {
        Some(seconds) if taint.effect == Effect::NoExecute => {
            Tolerated::For(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
        }
        _ => Tolerated::Forever,
    }
}

/// Whether virtual nodes of a binding get the default taint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DefaultTaint {
    /// They do.
    #[default]
    On,
    /// `disableNodeDefaultTaint` is set.
    Off,
}

/// The taints that a virtual node should have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Converted {
    /// In the order of 6.7: those of the physical node, the default taint, those that the syncer adds.
    pub taints: Vec<Taint>,
    /// Taints of the physical node that are not copied.
    pub left_out: Vec<(Taint, TaintLeftOut)>,
}

/// Which taints a virtual node should have: those of its physical node as far as they are copied, the default taint, and
/// those that the syncer adds for now (the window, deletion, an unreachable cluster).
#[must_use]
pub fn convert(physical: &[Taint], default: DefaultTaint, own: &[Taint]) -> Converted {
    let mut converted = Converted::default();
    let mut seen = BTreeSet::new();
    let default = (default == DefaultTaint::On).then(Taint::lent);
    // Ours come last in the list, and first where two taints have one identity.
    let mut ours = Vec::with_capacity(own.len() + 1);
    for taint in default.iter().chain(own) {
        if seen.insert((taint.key.clone(), taint.effect.clone())) {
            ours.push(taint.clone());
        }
    }
    for taint in physical {
        let copied = match taint_fate(&taint.key) {
            TaintFate::Keep => taint.clone(),
            // Its time is that of the cordon of another node, and no controller acts on it here.
            TaintFate::Rename(key) => Taint { key: key.to_owned(), time_added: None, ..taint.clone() },
            TaintFate::LeaveOut(why) => {
                converted.left_out.push((taint.clone(), why));
                continue;
            }
        };
        if seen.insert((copied.key.clone(), copied.effect.clone())) {
            converted.taints.push(copied);
        } else {
            converted.left_out.push((taint.clone(), TaintLeftOut::Twice));
        }
    }
    converted.taints.append(&mut ours);
    converted
}

/// Why a virtual node has a taint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TaintReason {
    /// It is lent, and the binding keeps pods away that do not ask for lent nodes.
    Lent,
    /// Its physical node is cordoned.
    Cordoned,
    /// The windows of its policy are closed.
    OutOfWindows,
    /// It is being deleted.
    Deleting,
    /// Its physical API server does not answer.
    Unreachable,
    /// Kubernetes added it, by the conditions or the cordon of the virtual node.
    Kubernetes,
    /// Its physical node has it.
    Copied,
    /// Another client of the virtual cluster added it.
    OtherClient,
}

impl TaintReason {
    /// Why a virtual node has this taint, given the taints of its physical node.
    #[must_use]
    pub fn of(taint: &Taint, physical: &[Taint]) -> Self {
        match taint.key.as_str() {
            keys::VNODE_TAINT => Self::Lent,
            keys::PHYSICAL_UNSCHEDULABLE_TAINT => Self::Cordoned,
            keys::OUT_OF_WINDOWS_TAINT => Self::OutOfWindows,
            keys::DELETING_TAINT => Self::Deleting,
            keys::UNREACHABLE_TAINT => Self::Unreachable,
            key if super::copied::is_of_kubernetes(key) => Self::Kubernetes,
            _ if physical.iter().any(|copied| copied.id() == taint.id()) => Self::Copied,
            _ => Self::OtherClient,
        }
    }
}

impl fmt::Display for TaintReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lent => "the node is lent (disableNodeDefaultTaint in the binding switches this taint off)",
            Self::Cordoned => "the physical node is cordoned",
            Self::OutOfWindows => "the time windows of the policy are closed",
            Self::Deleting => "the virtual node is being deleted",
            Self::Unreachable => "the physical API server does not answer",
            Self::Kubernetes => "Kubernetes added it in the virtual cluster",
            Self::Copied => "the physical node has it",
            Self::OtherClient => "another client added it in the virtual cluster",
        })
    }
}
