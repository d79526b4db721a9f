//! What follows from one physical pod: it is mirrored, left alone, or an orphan that goes (`bottomup-syncer.md` section 8,
//! decisions D14, S1, S5, S6 and S16).
//!
//! Owns the seven rows of section 8, what has to be seen before a pod is deleted ([`Looks`]), and who finishes a virtual pod
//! that terminates ([`finish`]). Never deletes what is not ours, and never by a cache: it requires a live read, and the order
//! carries UID and resourceVersion.
//!
//! What goes wrong: a cache is behind, an API server was set back, a binding was replaced, or a person edited an
//! annotation. Each looks like an orphan. Therefore rows 3, 5 and 6 need two looks, at least the orphan delay apart, and
//! after them a live read of the virtual pod. One look is enough where the virtual pod has another UID than the one
//! named: UIDs do not come back. All deletions here count in the guard (decision S9).
//!
//! A pod of an earlier binding is ours once that binding is gone and both pods name each other (decision S6). No right permits to
//! write that on it (decision S19), so it is decided anew each time, and the process remembers whom it has [adopted](Adopted):
//! what lost its virtual pod afterwards is an orphan like any other. What lost it before, or while no process looked, is left to
//! an operator.

pub mod finish;
mod looks;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::bars::{Bar, Bars, Doing};
use super::identity::mapping::{BrokenPart, Mapping, PhysicalPodRef, PodSide, VirtualPodRef, is_mapped};
use super::identity::{Difference, Earlier, Identity, Owner, Ownership, WhyForeign};
use super::keys;
use super::precondition::Precondition;
use topoloom_core::names::Uid;
use topoloom_core::version::ResourceVersion;

pub use looks::{FORGET, Look, Looks};

/// How far two looks at an orphan are apart, unless `spec.timing` says otherwise (decisions S6 and S28).
pub const ORPHAN_DELAY: Duration = Duration::from_secs(30);

/// What matters of a physical pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhysicalPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: Uid,
    /// The version that this was read from.
    pub version: ResourceVersion,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// It has a deletionTimestamp.
    pub deleting: bool,
}

/// What matters of a virtual pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VirtualPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: Uid,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

/// What is known of the virtual pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Twin<'a> {
    /// Nothing: the read failed otherwise than with "not found", or the cache is not filled yet.
    Unread,
    /// What the cache holds under the name that the physical pod gives. It proves nothing.
    Cached(Option<&'a VirtualPod>),
    /// What the API server answered.
    Live {
        /// The pod; `None` where there is none.
        pod: Option<&'a VirtualPod>,
        /// When the request was sent, by the clock of `now`.
        asked: Duration,
    },
}

/// What a decision rests on.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Who we are.
    pub identity: &'a Identity,
    /// The physical pod; `None` where there is none.
    pub pod: Option<&'a PhysicalPod>,
    /// Its virtual pod. For a pod that names none: the answer to [`Question::NamingIt`].
    pub twin: Twin<'a>,
    /// What a live list shows of the binding that the pod names, where that is an earlier one.
    pub earlier: Earlier,
    /// What forbids writes now.
    pub bars: &'a Bars,
    /// Whether this process has adopted it.
    pub adopted: Adopted,
    /// How far two looks are apart.
    pub orphan_delay: Duration,
    /// The first look at it as an orphan ([`Looks`]).
    pub look: Option<Look>,
}

/// Whether a pod that an earlier binding made was adopted: it named its virtual pod and that named it, and the binding was gone. The
/// caller remembers it by the UID of the pod, from each [`Trusted::Mapping`] on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Adopted {
    /// It was not.
    #[default]
    No,
    /// It was.
    Yes,
}

/// What follows for a physical pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodDecision {
    /// Nothing.
    Nothing(WhyNothing),
    /// Nothing, and a person may have to look.
    Leave(WhyLeft),
    /// The virtual pod could not be read (row 4): the caller returns the error and tries again.
    Retry,
    /// It looks like an orphan: look again then.
    LookAgain {
        /// Why.
        why: Orphan,
        /// When, by the clock of `now`.
        at: Duration,
    },
    /// It was an orphan for long enough: read the virtual pod live, and decide again.
    AskVirtualPod {
        /// Why it looks like an orphan.
        why: Orphan,
        /// What to read.
        question: Question,
    },
    /// List the ClusterBindings live, look for this UID, and decide again.
    AskBinding(Uid),
    /// Delete the physical pod, with its own grace period.
    Delete {
        /// Why.
        why: Orphan,
        /// What the request must carry.
        precondition: Precondition,
    },
    /// Something would be done, and is forbidden now.
    Withheld {
        /// What.
        order: WithheldOrder,
        /// By what.
        bar: Bar,
    },
    /// Mirror its status (row 7).
    Synchronise(Trusted),
}

/// Why nothing follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyNothing {
    /// There is no physical pod (row 1).
    Gone,
    /// It is not managed by any syncer (row 2).
    Unmanaged,
    /// It is an orphan, and is being deleted already.
    Terminating(Orphan),
}

/// Why a managed pod is left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyLeft {
    /// It is not ours.
    Foreign(WhyForeign),
    /// A binding that is gone made it, and it had no virtual pod since: only an operator removes it (`lend release`).
    NotAdopted {
        /// The UID of that binding.
        binding: Uid,
        /// What is wrong.
        why: Orphan,
    },
    /// It lost its annotations, and a virtual pod still names it. It runs for that pod, so it is not deleted.
    InUse(BrokenPart),
    /// Its UID or version is not known, so no safe request can be made.
    Unguarded(Orphan),
}

/// What a live read has to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The pod of this namespace and name.
    Named {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The virtual pod that names this physical one. The physical one does not say which.
    NamingIt,
}

/// What is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WithheldOrder {
    /// The status is not mirrored.
    Mirroring,
    /// It is not judged, and so not deleted.
    Deletion(Orphan),
}

/// Why a pod that is mirrored counts as ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trusted {
    /// By its labels.
    Labels,
    /// By its two-way mapping: it is [adopted](Adopted). The binding that made it, of this UID, is gone.
    Mapping(Uid),
}

/// Why a physical pod is an orphan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Orphan {
    /// It names no virtual pod.
    Unmapped(BrokenPart),
    /// There is no virtual pod of that name.
    TwinGone(VirtualPodRef),
    /// The virtual pod of that name is another one.
    TwinReplaced {
        /// The one that it names.
        named: VirtualPodRef,
        /// The UID of the one that exists.
        found: Uid,
    },
    /// The virtual pod does not name it.
    TwinElsewhere {
        /// The virtual pod.
        named: VirtualPodRef,
        /// What differs.
        mapping: Mapping,
    },
}

impl Orphan {
    /// The words of all verdicts.
    pub const WORDS: [&'static str; 4] = ["unmapped", "gone", "replaced", "elsewhere"];

    /// The row of section 8.
    #[must_use]
    pub fn row(&self) -> u8 {
        match self {
            Self::Unmapped(_) => 3,
            Self::TwinGone(_) | Self::TwinReplaced { .. } => 5,
            Self::TwinElsewhere { .. } => 6,
        }
    }

    /// The word of metrics, Events and the command line.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Unmapped(_) => "unmapped",
            Self::TwinGone(_) => "gone",
            Self::TwinReplaced { .. } => "replaced",
            Self::TwinElsewhere { .. } => "elsewhere",
        }
    }

    /// Whether one look is enough. A physical UID that differs is not enough: the top-down half writes it after it has
    /// created the pod, so for a moment the virtual pod may name an earlier one of that name.
    fn is_final(&self) -> bool {
        matches!(self, Self::TwinReplaced { .. })
    }

    fn question(&self, pod: &PhysicalPod) -> Question {
        match self {
            Self::Unmapped(_) => {
                // With any UID in place of the one that may be missing, are the other parts there?
                let mut whole = pod.annotations.clone();
                whole.insert(keys::VIRTUAL_POD_UID.to_owned(), "0".to_owned());
                VirtualPodRef::read(&whole).map_or(Question::NamingIt, |named| Question::Named {
                    namespace: named.namespace,
                    name: named.name,
                })
            }
            Self::TwinGone(named) | Self::TwinReplaced { named, .. } | Self::TwinElsewhere { named, .. } => {
                Question::Named { namespace: named.namespace.clone(), name: named.name.clone() }
            }
        }
    }
}

/// What two pods say of each other, as far as it is known.
enum Judged {
    Mapped,
    Orphan(Orphan),
    InUse(BrokenPart),
    Unread,
}

/// What follows for one physical pod, at this time of a clock that never goes back.
#[must_use]
pub fn decide(facts: &Facts<'_>, now: Duration) -> PodDecision {
    let Some(pod) = facts.pod else { return PodDecision::Nothing(WhyNothing::Gone) };
    if pod.labels.get(keys::MANAGED_BY_LABEL).map(String::as_str) != Some(keys::MANAGED_BY) {
        return PodDecision::Nothing(WhyNothing::Unmanaged);
    }
    let earlier = match Ownership::of(&pod.labels, facts.identity).resolve(facts.earlier) {
        Owner::Ours => None,
        Owner::Adoptable(uid) => Some(uid),
        Owner::Unknown(uid) => return PodDecision::AskBinding(uid),
        Owner::Foreign(why) => return PodDecision::Leave(WhyLeft::Foreign(why)),
    };
    match judge(pod, facts.twin) {
        Judged::Unread => PodDecision::Retry,
        Judged::Mapped => match facts.bars.forbid(Doing::Mirror) {
            Some(bar) => PodDecision::Withheld { order: WithheldOrder::Mirroring, bar },
            None => PodDecision::Synchronise(earlier.map_or(Trusted::Labels, Trusted::Mapping)),
        },
        Judged::InUse(part) => PodDecision::Leave(WhyLeft::InUse(part)),
        Judged::Orphan(why) => match (earlier, facts.adopted) {
            (Some(binding), Adopted::No) => PodDecision::Leave(WhyLeft::NotAdopted { binding, why }),
            (Some(_), Adopted::Yes) | (None, _) => orphan(pod, why, facts, now),
        },
    }
}

/// Why a physical pod is an orphan, by the virtual pod that a live read found for it; `None`: it belongs to one. A pod that
/// names no virtual pod belongs to the one that names it.
#[must_use]
pub fn orphan_of(pod: &PhysicalPod, twin: Option<&VirtualPod>) -> Option<Orphan> {
    match judge(pod, Twin::Live { pod: twin, asked: Duration::ZERO }) {
        Judged::Orphan(why) => Some(why),
        Judged::Mapped | Judged::InUse(_) | Judged::Unread => None,
    }
}

/// The labels because of which a physical pod is left alone although it and a virtual pod of ours name each other; none where they are
/// right, or the two do not.
#[must_use]
pub fn wrong_labels(pod: &PhysicalPod, twin: &VirtualPod, us: &Identity) -> Vec<Difference> {
    if is_mapped(&physical(pod), &virtual_side(twin)) != Mapping::Both {
        return Vec::new();
    }
    let mut wanted = us.labels();
    wanted.insert(keys::MANAGED_BY_LABEL.to_owned(), keys::MANAGED_BY.to_owned());
    let differs = |key: &'static str| {
        let (found, ours) = (pod.labels.get(key), wanted.get(key)?);
        (found != Some(ours)).then(|| Difference { key, found: found.cloned(), ours: ours.clone() })
    };
    [keys::MANAGED_BY_LABEL, keys::VIRTUAL_CLUSTER, keys::BINDING, keys::BINDING_UID]
        .into_iter()
        .filter_map(differs)
        .collect()
}

fn judge(pod: &PhysicalPod, twin: Twin<'_>) -> Judged {
    let named = match VirtualPodRef::read(&pod.annotations) {
        Ok(named) => named,
        Err(part) => {
            return match twin {
                Twin::Cached(Some(twin)) | Twin::Live { pod: Some(twin), .. } if is_named_by(pod, twin) => {
                    Judged::InUse(part)
                }
                Twin::Unread | Twin::Cached(_) | Twin::Live { .. } => Judged::Orphan(Orphan::Unmapped(part)),
            };
        }
    };
    let twin = match twin {
        Twin::Unread => return Judged::Unread,
        Twin::Cached(twin) | Twin::Live { pod: twin, .. } => twin,
    };
    let Some(twin) = twin else { return Judged::Orphan(Orphan::TwinGone(named)) };
    match is_mapped(&physical(pod), &virtual_side(twin)) {
        Mapping::Both => Judged::Mapped,
        // Another pod was read than the one that is named.
        Mapping::OtherName(_) => Judged::Unread,
        Mapping::PhysicalIncomplete(part) => Judged::Orphan(Orphan::Unmapped(part)),
        Mapping::OtherUid { found, .. } => Judged::Orphan(Orphan::TwinReplaced { named, found }),
        mapping @ (Mapping::VirtualIncomplete(_) | Mapping::OtherPhysical(_) | Mapping::OtherPhysicalUid { .. }) => {
            Judged::Orphan(Orphan::TwinElsewhere { named, mapping })
        }
    }
}

fn orphan(pod: &PhysicalPod, why: Orphan, facts: &Facts<'_>, now: Duration) -> PodDecision {
    if pod.deleting {
        return PodDecision::Nothing(WhyNothing::Terminating(why));
    }
    // What may be judged may be deleted, too: the table of bars sees to that.
    if let Some(bar) = facts.bars.forbid(Doing::JudgeOrphan) {
        return PodDecision::Withheld { order: WithheldOrder::Deletion(why), bar };
    }
    let first = facts.look.filter(|look| look.row == why.row()).map(|look| look.first);
    let at = first.unwrap_or(now).saturating_add(facts.orphan_delay);
    if !why.is_final() && (first.is_none() || now < at) {
        return PodDecision::LookAgain { why, at };
    }
    let is_proved = match facts.twin {
        // An answer from before the second look may be older than the pod's last change.
        Twin::Live { asked, .. } => why.is_final() || asked >= at,
        Twin::Unread | Twin::Cached(_) => false,
    };
    if !is_proved {
        let question = why.question(pod);
        return PodDecision::AskVirtualPod { why, question };
    }
    match Precondition::of(&pod.uid, &pod.version) {
        Some(precondition) => PodDecision::Delete { why, precondition },
        None => PodDecision::Leave(WhyLeft::Unguarded(why)),
    }
}

/// Whether a virtual pod names this physical one.
#[must_use]
pub fn is_named_by(pod: &PhysicalPod, twin: &VirtualPod) -> bool {
    PhysicalPodRef::read(&twin.annotations).is_ok_and(|back| back.names(&physical(pod)))
}

fn physical(pod: &PhysicalPod) -> PodSide<'_> {
    PodSide { namespace: &pod.namespace, name: &pod.name, uid: &pod.uid, annotations: &pod.annotations }
}

fn virtual_side(pod: &VirtualPod) -> PodSide<'_> {
    PodSide { namespace: &pod.namespace, name: &pod.name, uid: &pod.uid, annotations: &pod.annotations }
}

impl fmt::Display for Orphan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unmapped(part) => write!(f, "it names no virtual pod: {part}"),
            Self::TwinGone(named) => write!(f, "its virtual pod {named} does not exist"),
            Self::TwinReplaced { named, found } => {
                write!(f, "its virtual pod {named} is gone, and the pod of that name has the UID {found}")
            }
            Self::TwinElsewhere { named, mapping } => write!(f, "its virtual pod {named} does not name it: {mapping}"),
        }
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named { namespace, name } => write!(f, "the virtual pod {namespace}/{name}"),
            Self::NamingIt => f.write_str("the virtual pod that names it"),
        }
    }
}

impl fmt::Display for WhyLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign(why) => write!(f, "it is not ours: {why}"),
            Self::NotAdopted { binding, why } => {
                write!(f, "the ClusterBinding that made it (UID {binding}) is gone, and {why}")
            }
            Self::InUse(part) => write!(f, "a virtual pod names it, but {part}"),
            Self::Unguarded(why) => write!(f, "{why}, but its UID or resourceVersion is not known"),
        }
    }
}

impl fmt::Display for PodDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing(WhyNothing::Gone) => f.write_str("row 1: there is no physical pod"),
            Self::Nothing(WhyNothing::Unmanaged) => f.write_str("row 2: it is not managed"),
            Self::Nothing(WhyNothing::Terminating(why)) => {
                write!(f, "row {}: {why}; it is being deleted already", why.row())
            }
            Self::Leave(why) => write!(f, "left alone: {why}"),
            Self::Retry => f.write_str("row 4: its virtual pod could not be read"),
            Self::LookAgain { why, .. } => write!(f, "row {}: {why}; it needs a second look", why.row()),
            Self::AskVirtualPod { why, question } => write!(f, "row {}: {why}; {question} is read again", why.row()),
            Self::AskBinding(uid) => write!(f, "the ClusterBindings are read for the UID {uid}"),
            Self::Delete { why, .. } => write!(f, "row {}: {why}; it is deleted", why.row()),
            Self::Withheld { order: WithheldOrder::Mirroring, bar } => {
                write!(f, "row 7: not mirrored, because {bar}")
            }
            Self::Withheld { order: WithheldOrder::Deletion(why), bar } => {
                write!(f, "row {}: {why}; not deleted, because {bar}", why.row())
            }
            Self::Synchronise(Trusted::Labels) => f.write_str("row 7: its status is mirrored"),
            Self::Synchronise(Trusted::Mapping(uid)) => {
                write!(f, "row 7: its status is mirrored; the ClusterBinding that made it (UID {uid}) is gone")
            }
        }
    }
}

#[cfg(test)]
mod tests;
