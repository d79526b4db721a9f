//! What the status of a ClusterBinding has to say (decisions S3, S9, S18, S23, S25; `bottomup-syncer.md` 2.1).
//!
//! Owns phase, conditions, numbers, and the sentence for a person at night. A function of what is known; nothing is sent here. A
//! status that says what is already stored is equal to it, so a binding at rest is never written.

mod urgency;

use jiff::Timestamp;
use topoloom_api::cluster_binding::{
    BindingPhase, ClusterBindingStatus, ConfirmedStatus, ConnectionState, ConnectionStatus, HeldBatchStatus,
    LeaseCounts, NodeCounts, OtherClusterStatus, PodCounts, RestoredStatus, Side as StoredSide, SpentStatus,
};
use topoloom_api::condition::{Condition, ConditionStatus, ConditionType, Reason, set_condition};
use topoloom_api::names::lending::LEASED_BY;
use topoloom_cluster::{Refusal, RefusalReason};
use topoloom_core::text;
use topoloom_sync::guard::{BrokenLimit, GrantedActs, Guard, HeldBatch, Spent};
use topoloom_sync::liveness::{Doubt, Reach};

pub(super) use self::urgency::{is_early, is_urgent};
use super::strays;
use super::unstored::Unstored;
use crate::convert::binding::{Problems, granted, held, number};
use crate::kubeconfig::{CredentialEnd, Ending};
use crate::physical::Problem;
use crate::troubles::is_missing_right;
use crate::view::{Counts, Strays};

/// How many refusals one message repeats.
const SHOWN: usize = 3;
/// The longest message, in bytes. Parts of some are the words of a server of another party; the API server takes no status with a
/// message of more than 32 KiB.
const LONGEST: usize = 8 << 10;
/// How the message about a spec with mistakes ends where an earlier one is in force.
pub(super) const EARLIER: &str = "The last valid version stays in force.";

/// What the status keeps for the process that takes over, beside what the guard leaves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Kept {
    /// The physical cluster that the binding borrows from.
    pub(super) physical_cluster: Option<String>,
    /// Another one that answers in its place.
    pub(super) other_cluster: Option<OtherClusterStatus>,
    /// A cluster that was set back.
    pub(super) restored: Option<RestoredStatus>,
    /// What was confirmed, newest first.
    pub(super) confirmed: Vec<ConfirmedStatus>,
}

impl Kept {
    pub(super) fn of(status: &ClusterBindingStatus) -> Self {
        Self {
            physical_cluster: status.physical_cluster_uid.clone().filter(|uid| !uid.is_empty()),
            other_cluster: status.other_cluster.clone(),
            restored: status.restored.clone(),
            confirmed: status.confirmed.clone(),
        }
    }

    /// An operator confirmed this, and it was carried out.
    pub(super) fn confirm(&mut self, hash: &str, now: Timestamp) {
        self.confirmed.retain(|confirmed| confirmed.hash != hash);
        self.confirmed.insert(0, ConfirmedStatus { hash: hash.to_owned(), at: second(now) });
        self.confirmed.truncate(ClusterBindingStatus::CONFIRMED_MAX);
    }
}

/// How the spec is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Spec<'a> {
    /// Valid.
    Valid,
    /// It has mistakes, and an earlier one that had none is in force.
    Earlier(&'a Problems),
    /// It has mistakes, and nothing is changed because of it.
    Invalid(&'a Problems),
    /// Without right names nothing can be done.
    Unusable(&'a Problems),
}

/// What is held.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Held<'a> {
    /// Nothing.
    Nothing,
    /// What an earlier process held; not all of it is known again.
    Recalling,
    /// This.
    Batch(&'a HeldBatch),
}

/// What the guard leaves to the process that takes over, beside what it holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Guarded {
    /// What counts against the limits.
    pub(super) spent: Spent,
    /// What it has allowed, and what is wanted still.
    pub(super) grants: Vec<GrantedActs>,
    /// The hashes that confirm a part of what it holds.
    pub(super) earlier: Vec<String>,
}

impl Guarded {
    pub(super) fn of(guard: &Guard) -> Self {
        Self { spent: guard.committed(), grants: guard.grants(), earlier: guard.earlier() }
    }
}

/// Who has what the binding needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Conflict {
    /// The Lease in `mountNamespace` is another's.
    Borrower(String),
    /// Another binding has the same `clusterID`.
    ClusterId(String),
}

/// How the deletion of the binding is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Going {
    /// Virtual nodes are there still.
    Nodes,
    /// Claims on physical nodes are.
    Claims(usize),
    /// Pods of its identity are in the physical cluster.
    Pods(usize),
    /// What is left cannot be read.
    Unknown(String),
    /// Nothing is left.
    Done,
}

/// The connection to the physical cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link<'a> {
    /// What keeps the Secret from being used as it is.
    pub(super) problem: Option<&'a Problem>,
    /// The same in a sentence.
    pub(super) sentence: Option<&'a str>,
    /// How the connection in use is doing; `None`: there is none yet.
    pub(super) reach: Option<Reach>,
    /// When its credential ends.
    pub(super) end: Option<CredentialEnd>,
    /// It leads to the virtual cluster itself.
    pub(super) is_same_cluster: bool,
}

/// What a status follows from.
pub(super) struct Facts<'a> {
    /// The name of the binding.
    pub(super) binding: &'a str,
    pub(super) now: Timestamp,
    pub(super) generation: Option<i64>,
    pub(super) holder: &'a str,
    /// The Lease of the replicas of this installation: namespace and name.
    pub(super) lease: &'a str,
    pub(super) spec: Spec<'a>,
    pub(super) link: Link<'a>,
    pub(super) kept: &'a Kept,
    pub(super) conflict: Option<&'a Conflict>,
    pub(super) held: Held<'a>,
    pub(super) guard: Guarded,
    pub(super) is_paused: bool,
    pub(super) observes: bool,
    pub(super) is_draining: bool,
    pub(super) is_read_only: bool,
    pub(super) troubles: &'a [Refusal],
    pub(super) counts: Counts,
    pub(super) strays: &'a Strays,
    pub(super) next_transition: Option<Timestamp>,
    /// What of the last write was not stored.
    pub(super) unstored: Option<&'a Unstored>,
    pub(super) going: Option<&'a Going>,
}

/// One statement: a reason and a sentence.
struct Says {
    reason: Reason,
    message: String,
}

fn says(reason: Reason, message: impl Into<String>) -> Says {
    let message: String = message.into();
    Says { reason, message: text::line(&message, LONGEST) }
}

/// The status that has to be stored where this one is.
pub(super) fn report(before: &ClusterBindingStatus, facts: &Facts<'_>) -> ClusterBindingStatus {
    let now = second(facts.now);
    let ready = not_ready(facts);
    let mut conditions = before.conditions.clone();
    let mut set = |kind, status, Says { reason, message }: Says| {
        let condition = Condition::new(kind, status, reason, message).observed(facts.generation);
        set_condition(&mut conditions, condition, &now);
    };
    let (phase, message) = match ready {
        None => {
            let message = "The binding serves what its spec and the policies ask for.";
            set(ConditionType::Ready, ConditionStatus::True, says(Reason::Ok, message));
            (BindingPhase::Ready, message.to_owned())
        }
        Some(why) => {
            let (phase, message) = (phase(why.reason), why.message.clone());
            set(ConditionType::Ready, ConditionStatus::False, why);
            (phase, message)
        }
    };
    let (connected, why) = connected(facts);
    set(ConditionType::Connected, connected, why);
    if let Some((status, why)) = held_condition(facts.held, facts.binding) {
        set(ConditionType::Held, status, why);
    }
    let yes_or = |why: Option<Says>, otherwise: &str| match why {
        Some(why) => (ConditionStatus::True, why),
        None => (ConditionStatus::False, says(Reason::Ok, otherwise)),
    };
    for (kind, why, otherwise) in [
        (ConditionType::Conflict, conflict(facts), "Nothing that the binding needs belongs to another."),
        (
            ConditionType::PhysicalClusterChanged,
            another_cluster(facts),
            "The physical cluster is the one that the binding borrows from.",
        ),
        (ConditionType::Restored, restored(facts), "No cluster was set back to an earlier state."),
        (ConditionType::Paused, paused(facts), "The binding is not paused."),
    ] {
        let (status, why) = yes_or(why, otherwise);
        set(kind, status, why);
    }
    let status = ClusterBindingStatus {
        observed_generation: facts.generation,
        phase: Some(phase),
        message,
        conditions,
        physical_cluster_uid: facts.kept.physical_cluster.clone(),
        other_cluster: facts.kept.other_cluster.clone(),
        restored: facts.kept.restored.clone(),
        held: match facts.held {
            Held::Nothing => None,
            // What an earlier process has shown confirms nothing here.
            Held::Recalling => before.held.clone().map(|known| HeldBatchStatus { earlier: Vec::new(), ..known }),
            Held::Batch(batch) => {
                // While one batch follows another without a pause, it is one hold.
                let since = before.held.as_ref().map(|known| known.since.as_str()).filter(|since| !since.is_empty());
                Some(held(batch, &facts.guard.earlier, since.unwrap_or(&now).to_owned()))
            }
        },
        spent: spent(before.spent.as_ref(), facts.guard.spent, &now),
        granted: granted(&facts.guard.grants, before.last_sync_time.as_deref().unwrap_or_default()),
        confirmed: facts.kept.confirmed.clone(),
        connection: Some(connection(before.connection.as_ref(), &facts.link, &now)),
        holder: Some(facts.holder.to_owned()),
        lease: Some(facts.lease.to_owned()),
        nodes: None,
        pods: None,
        leases: None,
        next_transition: facts.next_transition.map(second),
        last_sync_time: before.last_sync_time.clone(),
    };
    counted(status, facts.counts)
}

/// What is wrong with a binding, as its status says it; nothing where it serves what it should, or has not said anything yet.
pub(super) fn trouble(status: &ClusterBindingStatus) -> Option<&str> {
    let ready = status.conditions.iter().find(|condition| condition.type_ == ConditionType::Ready.as_str())?;
    (ready.status != ConditionStatus::True.as_str()).then_some(ready.message.as_str())
}

/// A time as the object keeps it.
pub(super) fn second(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// Why the binding does not serve what it should, the most basic reason first.
fn not_ready(facts: &Facts<'_>) -> Option<Says> {
    let link = &facts.link;
    deletion(facts)
        .or_else(|| spec(facts.spec))
        .or_else(|| link.is_same_cluster.then(|| says(Reason::SameCluster, SAME_CLUSTER)))
        .or_else(|| another_cluster(facts))
        .or_else(|| link.reach.is_none().then(|| not_connected(link)))
        .or_else(|| in_the_way(facts))
        .or_else(|| refused(facts.troubles))
        .or_else(|| restored(facts))
        .or_else(|| link.reach.and_then(out_of_reach))
        .or_else(|| match facts.held {
            Held::Nothing => None,
            Held::Recalling => Some(says(Reason::Pending, "What an earlier replica held is judged again.")),
            Held::Batch(batch) => Some(batch_is_held(batch, facts.binding)),
        })
        .or_else(|| paused(facts))
        .or_else(|| facts.is_draining.then(|| says(Reason::Draining, "An operator drains nodes of the binding.")))
        .or_else(|| facts.is_read_only.then(|| says(Reason::ReadOnly, "Writes are switched off in this replica.")))
        .or_else(|| facts.unstored.map(|unstored| says(Reason::WriteNotStored, unstored.sentence())))
}

const SAME_CLUSTER: &str = "The kubeconfig leads to this cluster itself, and no cluster lends to itself: point secretRef to a \
    Secret with the kubeconfig of the physical cluster.";

fn phase(reason: Reason) -> BindingPhase {
    match reason {
        Reason::ValidationError
        | Reason::SameCluster
        | Reason::AnotherCluster
        | Reason::BorrowerLeaseTaken
        | Reason::ClusterIdTaken
        | Reason::NodesUnclear
        | Reason::VirtualClusterRestored
        | Reason::PhysicalClusterRestored
        | Reason::CredentialsInvalid
        | Reason::CredentialsMissing
        | Reason::Unauthorized
        | Reason::Forbidden
        | Reason::NamespaceMissing
        | Reason::DefinitionMissing
        | Reason::TooManyObjects
        | Reason::WriteFailed => BindingPhase::Failed,
        // It does what it may, and waits at most for the operator who wanted that.
        Reason::TooManyNodesRemoved
        | Reason::TooManyPodsRemoved
        | Reason::Paused
        | Reason::Observing
        | Reason::Draining
        | Reason::ReadOnly
        | Reason::WriteNotStored => BindingPhase::Ready,
        _ => BindingPhase::Pending,
    }
}

fn deletion(facts: &Facts<'_>) -> Option<Says> {
    let message = match facts.going? {
        Going::Nodes => {
            let nodes = facts.counts.lent.saturating_sub(facts.strays.earlier.len()) + facts.strays.stripped.len();
            format!("The binding is being deleted: {nodes} virtual nodes go first.")
        }
        Going::Claims(count) => format!("The binding is being deleted: {count} physical nodes are claimed still."),
        Going::Pods(count) => {
            format!("The binding is being deleted: {count} of its pods are in the physical cluster still.")
        }
        Going::Unknown(why) => format!("The binding is being deleted, and what is left of it cannot be read: {why}"),
        Going::Done => "The binding is being deleted, and nothing is left of it.".to_owned(),
    };
    let message = [Some(message), strays::sentence(facts.strays)].into_iter().flatten().collect::<Vec<_>>().join(" ");
    // A deletion that is held waits for an operator, one that lacks a right for a person who can add it, and both say so.
    let lacks = facts.troubles.iter().filter(|refusal| is_missing_right(refusal.reason)).cloned();
    match (facts.held, refused(&lacks.collect::<Vec<_>>())) {
        (Held::Batch(batch), _) => {
            let held = held_sentence(batch, facts.binding);
            Some(says(reason_of_batch(batch), format!("{message} Held: {held} A deletion cannot be taken back.")))
        }
        (Held::Nothing | Held::Recalling, Some(why)) => Some(says(why.reason, format!("{message} {}", why.message))),
        (Held::Nothing | Held::Recalling, None) => Some(says(Reason::Deleting, message)),
    }
}

fn spec(spec: Spec<'_>) -> Option<Says> {
    let (problems, then) = match spec {
        Spec::Valid => return None,
        Spec::Earlier(problems) => (problems, EARLIER),
        Spec::Invalid(problems) => (problems, "Until it is corrected nothing is created, resized, evicted or deleted."),
        Spec::Unusable(problems) => (problems, "Until it is corrected nothing is done."),
    };
    let problems = text::ended(&format!("The spec is invalid: {problems}"));
    Some(says(Reason::ValidationError, format!("{problems} {then}")))
}

fn not_connected(link: &Link<'_>) -> Says {
    match (link.problem, link.sentence) {
        (Some(problem), sentence) => {
            let sentence = sentence.map_or_else(|| problem.to_string(), str::to_owned);
            let message = text::ended(&format!("There is no connection to the physical cluster: {sentence}"));
            says(reason_of_problem(problem), message)
        }
        (None, _) => says(Reason::Pending, "The connection to the physical cluster is being made."),
    }
}

fn reason_of_problem(problem: &Problem) -> Reason {
    match problem {
        Problem::Missing | Problem::Deleted => Reason::CredentialsMissing,
        Problem::Kubeconfig(_) | Problem::Client(_) => Reason::CredentialsInvalid,
        Problem::Unwatched(refusal) => reason_of_refusal(refusal.reason),
        Problem::Contact(error) => reason_of_refusal(error.refusal.reason),
        Problem::Unfit { error, .. } if error.refusal.reason == RefusalReason::Unauthorized => Reason::Unauthorized,
        Problem::Unfit { .. } => Reason::CredentialsInvalid,
        Problem::ClusterChanged { .. } => Reason::AnotherCluster,
    }
}

fn reason_of_refusal(reason: RefusalReason) -> Reason {
    match reason {
        RefusalReason::Forbidden => Reason::Forbidden,
        RefusalReason::Unauthorized => Reason::Unauthorized,
        RefusalReason::NotFound => Reason::NamespaceMissing,
        RefusalReason::NoSuchResource => Reason::DefinitionMissing,
        RefusalReason::TooLarge => Reason::TooManyObjects,
        RefusalReason::Invalid | RefusalReason::DeniedByAdmission | RefusalReason::WebhookUnreachable => {
            Reason::WriteFailed
        }
        RefusalReason::Conflict
        | RefusalReason::AlreadyExists
        | RefusalReason::TooManyRequests
        | RefusalReason::Expired
        | RefusalReason::ServerError
        | RefusalReason::Unreachable
        | RefusalReason::NotLeader
        | RefusalReason::ReadOnly => Reason::PhysicalClusterUnreachable,
    }
}

fn refused(troubles: &[Refusal]) -> Option<Says> {
    let first = troubles.first()?;
    let shown: Vec<String> = troubles.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = troubles.len().saturating_sub(SHOWN);
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    let message = text::ended(&format!("Requests are refused: {}{more}", shown.join("; ")));
    Some(says(reason_of_refusal(first.reason), message))
}

fn out_of_reach(reach: Reach) -> Option<Says> {
    match reach {
        Reach::Reachable => None,
        Reach::Suspect(Doubt::NotListed) => Some(says(Reason::Pending, "The physical cluster is being listed.")),
        Reach::Suspect(doubt @ (Doubt::Silent | Doubt::Empty)) => {
            Some(says(Reason::PhysicalClusterSuspect, sentence(doubt)))
        }
        Reach::Unreachable { .. } => {
            Some(says(Reason::PhysicalClusterUnreachable, "The physical API server does not answer."))
        }
    }
}

/// The words of a doubt as a sentence.
fn sentence(doubt: Doubt) -> String {
    format!("{}.", capital(&doubt.to_string()))
}

/// These words as the beginning of a sentence.
pub(super) fn capital(words: &str) -> String {
    let mut chars = words.chars();
    let first = chars.next().map(|first| first.to_uppercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}", chars.as_str())
}

fn connected(facts: &Facts<'_>) -> (ConditionStatus, Says) {
    let link = &facts.link;
    if link.is_same_cluster {
        return (ConditionStatus::False, says(Reason::SameCluster, SAME_CLUSTER));
    }
    let Some(reach) = link.reach else { return (ConditionStatus::False, not_connected(link)) };
    if let Some(why) = out_of_reach(reach) {
        let status = match reach {
            Reach::Unreachable { .. } => ConditionStatus::False,
            Reach::Suspect(_) | Reach::Reachable => ConditionStatus::Unknown,
        };
        return (status, why);
    }
    if let (Some(problem), Some(sentence)) = (link.problem, link.sentence) {
        let message = format!("The physical API server answers, but the Secret is not used as it is: {sentence}");
        let message = text::ended(&message);
        return (ConditionStatus::True, says(reason_of_problem(problem), message));
    }
    let ending = link.end.map(|end| (end, end.ending(facts.now)));
    match ending {
        Some((end, Ending::Soon { .. } | Ending::Past)) => {
            let message = format!("The physical API server answers; {end}.");
            (ConditionStatus::True, says(Reason::CredentialsExpiring, message))
        }
        Some((_, Ending::Later)) | None => {
            (ConditionStatus::True, says(Reason::Ok, "The physical API server answers, and was listed."))
        }
    }
}

/// `None`: it stays as it is.
fn held_condition(held: Held<'_>, binding: &str) -> Option<(ConditionStatus, Says)> {
    match held {
        Held::Nothing => Some((ConditionStatus::False, says(Reason::Ok, "Nothing is held."))),
        Held::Recalling => None,
        Held::Batch(batch) => Some((ConditionStatus::True, batch_is_held(batch, binding))),
    }
}

fn batch_is_held(batch: &HeldBatch, binding: &str) -> Says {
    says(reason_of_batch(batch), held_sentence(batch, binding))
}

/// What is held, and what an operator types about it.
pub(super) fn held_sentence(batch: &HeldBatch, binding: &str) -> String {
    format!("{batch}. To confirm it: topoloom lend confirm {binding} {}.", batch.hash)
}

/// The limit that a held batch breaks, in a word.
pub(super) fn reason_of_batch(batch: &HeldBatch) -> Reason {
    match batch.broken.first() {
        Some(BrokenLimit::Pods { .. }) => Reason::TooManyPodsRemoved,
        Some(BrokenLimit::Nodes { .. }) | None => Reason::TooManyNodesRemoved,
    }
}

fn reason_of_conflict(conflict: &Conflict) -> Reason {
    match conflict {
        Conflict::Borrower(_) => Reason::BorrowerLeaseTaken,
        Conflict::ClusterId(_) => Reason::ClusterIdTaken,
    }
}

fn sentence_of_conflict(conflict: &Conflict) -> String {
    match conflict {
        Conflict::Borrower(why) => {
            let lease = "The Lease of the borrower in mountNamespace belongs to another, so nothing is written";
            text::ended(&format!("{lease}: {why}"))
        }
        Conflict::ClusterId(why) => format!("{why}, so nothing is written."),
    }
}

/// What keeps the binding from lending anything new: another has what it needs, or nodes of an earlier binding of its name are there.
fn in_the_way(facts: &Facts<'_>) -> Option<Says> {
    let earlier = strays::of_earlier_ids(facts.strays);
    let reason = facts.conflict.map_or(Reason::NodesUnclear, reason_of_conflict);
    let sentences: Vec<String> = facts.conflict.map(sentence_of_conflict).into_iter().chain(earlier).collect();
    (!sentences.is_empty()).then(|| says(reason, sentences.join(" ")))
}

fn conflict(facts: &Facts<'_>) -> Option<Says> {
    if facts.conflict.is_some() {
        return in_the_way(facts);
    }
    let Counts { claimed, unreadable, .. } = facts.counts;
    let claimed = claimed.saturating_sub(unreadable);
    let of_others =
        || format!("{claimed} physical nodes are claimed by another binding or borrower, and are left out.");
    let broken = || {
        format!(
            "{unreadable} physical nodes have an annotation {LEASED_BY} that is no claim: those that are lent do not grow, and the \
             others are not lent. No borrower may change that: the lender removes it (kubectl annotate node NODE {LEASED_BY}-)."
        )
    };
    let all = [
        strays::sentence(facts.strays).map(|sentence| (Reason::NodesUnclear, sentence)),
        (claimed > 0).then(|| (Reason::NodesClaimed, of_others())),
        (unreadable > 0).then(|| (Reason::ClaimsUnreadable, broken())),
    ];
    let (reasons, sentences): (Vec<Reason>, Vec<String>) = all.into_iter().flatten().unzip();
    let reason = reasons.first().copied()?;
    Some(says(reason, sentences.join(" ")))
}

fn another_cluster(facts: &Facts<'_>) -> Option<Says> {
    let other = facts.kept.other_cluster.as_ref()?;
    let known = facts.kept.physical_cluster.as_deref().unwrap_or_default();
    let message = format!(
        "Another physical cluster answers: its UID is {}, and the binding borrows from {known}. Nothing is created, evicted or \
         deleted; confirm with hash {}, or point the Secret back.",
        other.uid, other.hash
    );
    Some(says(Reason::AnotherCluster, message))
}

fn restored(facts: &Facts<'_>) -> Option<Says> {
    let restored = facts.kept.restored.as_ref()?;
    let reason = match restored.cluster {
        StoredSide::Physical => Reason::PhysicalClusterRestored,
        StoredSide::Virtual | StoredSide::Unknown => Reason::VirtualClusterRestored,
    };
    // A confirmation writes to the physical cluster, and it is not known which one that is.
    let waits = match facts.kept.other_cluster {
        Some(_) => " That waits until the other physical cluster is confirmed, or the first one answers.",
        None => "",
    };
    let message = format!(
        "{}. Nothing is created, evicted or deleted until that is confirmed with hash {}.{waits}",
        restored.sentence, restored.hash
    );
    Some(says(reason, message))
}

fn paused(facts: &Facts<'_>) -> Option<Says> {
    if facts.is_paused {
        let message = "An operator paused the binding: leases and mirroring continue, and nothing is created, resized, evicted or \
            deleted.";
        return Some(says(Reason::Paused, message));
    }
    let message = if facts.counts.lent > 0 {
        "The binding has mode: observe and lends nodes already: their leases are renewed, since pods would be evicted otherwise, \
         and nothing else is written but this status."
    } else {
        "The binding has mode: observe: everything is decided, and nothing is written but this status."
    };
    facts.observes.then(|| says(Reason::Observing, message))
}

fn spent(before: Option<&SpentStatus>, spent: Spent, now: &str) -> Option<SpentStatus> {
    if spent == Spent::default() {
        return None;
    }
    let (nodes, pods) = (number(spent.nodes), number(spent.pods));
    let same = before.filter(|known| (known.nodes, known.pods) == (nodes, pods));
    Some(SpentStatus { nodes, pods, at: same.map_or_else(|| now.to_owned(), |known| known.at.clone()) })
}

fn connection(before: Option<&ConnectionStatus>, link: &Link<'_>, now: &str) -> ConnectionStatus {
    let state = match link.reach {
        None => ConnectionState::Connecting,
        Some(Reach::Reachable) => ConnectionState::Reachable,
        Some(Reach::Suspect(_)) => ConnectionState::Suspect,
        Some(Reach::Unreachable { .. }) => ConnectionState::Unreachable,
    };
    let same = before.filter(|known| known.state == state && !known.since.is_empty());
    ConnectionStatus {
        state,
        since: same.map_or_else(|| now.to_owned(), |known| known.since.clone()),
        server_version: before.and_then(|known| known.server_version.clone()),
        credentials_end: link.end.map(|end| second(end.at)),
    }
}

fn counted(status: ClusterBindingStatus, counts: Counts) -> ClusterBindingStatus {
    ClusterBindingStatus {
        nodes: Some(NodeCounts {
            selected: number(counts.selected),
            lent: number(counts.lent),
            ready: number(counts.ready),
            outside_windows: number(counts.outside),
            overcommitted: number(counts.overcommitted),
            leaving: number(counts.leaving),
            frozen: number(counts.frozen),
            claimed_by_others: number(counts.claimed),
        }),
        pods: Some(PodCounts {
            bound: number(counts.bound),
            running: number(counts.running),
            orphans: number(counts.orphans),
        }),
        leases: Some(LeaseCounts { renewed: number(counts.renewed), stopped: number(counts.stopped) }),
        ..status
    }
}

#[cfg(test)]
mod tests;
