//! Whether a physical cluster answers, and what its silence means for each virtual node (decisions S4, S5 and S28).
//!
//! Owns three decisions. [`Contact`] judges one connection by the time of its last sign of life. [`Emptiness`] says when a cache
//! believes that a cluster has no Nodes any more. [`judge`] says for one virtual
//! node whether its lease is renewed, whether it carries the taint of an unreachable cluster, and who writes its Ready condition.
//! Never: evicts. What follows from a node that is not Ready is node-lifecycle's, in the virtual cluster.
//!
//! # Failure story
//!
//! A cluster that does not answer may be gone or only hidden behind a network. So its silence first takes rights away: nothing
//! is evicted, deleted, created or made larger (*suspect*), then no pod is sent there any more (*unreachable*). Leases that stop
//! let node-lifecycle do the rest by the pods' own tolerations. A cluster that answers again is listed anew before anything is
//! decided about it: until then it is still suspect. A list that was asked for before its silence is no such list: it may
//! arrive after it, and leaves out what happened meanwhile. So each return begins an [`Epoch`], and a list says of which it is.
//! The same holds for leases: one that stopped during the silence stays stopped until the machine was listed again, since a kubelet may
//! have died meanwhile. One that is renewed stays renewed, by what the virtual node says.
//! An empty list is in doubt in each cache that has Nodes: a connection may serve several, of which one never had any.

use std::fmt;
use std::time::Duration;

/// The times of this room (decision S28), all by a clock that cannot be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContactTiming {
    /// Without a sign of life for this long a connection is suspect.
    pub suspect: Duration,
    /// Without a sign of life for this long it is unreachable.
    pub unreachable: Duration,
    /// How long an empty list after a full cache has to stay empty.
    pub empty: Duration,
}

/// The longest time between two probes of a server.
const PROBE: Duration = Duration::from_secs(5);

impl ContactTiming {
    /// How often a server is probed: three times before it is suspect. A binding that wants to know sooner is probed more often, or
    /// its connection would be suspect between two probes that are both answered.
    #[must_use]
    pub fn probe(&self) -> Duration {
        (self.suspect / 3).min(PROBE)
    }
}

impl Default for ContactTiming {
    fn default() -> Self {
        Self { suspect: Duration::from_secs(15), unreachable: Duration::from_secs(40), empty: Duration::from_secs(30) }
    }
}

/// How a connection to a physical API server is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// It answers, and what is cached of it was listed since it was last unreachable.
    Reachable,
    /// It may be gone: nothing is evicted, deleted, created or enlarged because of what is cached.
    Suspect(Doubt),
    /// It is gone for now.
    Unreachable {
        /// Since when.
        since: Duration,
    },
}

/// Why a connection is suspect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// Neither a watch event nor a bookmark nor an answered probe came for too long.
    Silent,
    /// It answers again after it was unreachable, and Nodes and pods have not been listed since.
    NotListed,
    /// It says that it has no Nodes, where it had some before.
    Empty,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Silent => "the physical API server has not answered for a while",
            Self::NotListed => "the physical API server answers again, and its Nodes and pods are being listed",
            Self::Empty => {
                "the physical API server says that it has no Nodes any more; a second list has to confirm that"
            }
        })
    }
}

/// A stretch of time in which a server was never unreachable: the next one begins with its first answer after it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(u64);

/// What is known of one connection. Times are those of a clock that cannot be set.
#[derive(Debug, Clone)]
pub struct Contact {
    timing: ContactTiming,
    /// The last sign of life.
    last: Duration,
    /// How often it was unreachable and answered again.
    epoch: Epoch,
    /// Since when Nodes have not been listed although the connection was unreachable before.
    unlisted: bool,
}

impl Contact {
    /// A connection that was made at this time. Nothing is listed yet.
    #[must_use]
    pub fn new(timing: ContactTiming, now: Duration) -> Self {
        Self { timing, last: now, epoch: Epoch::default(), unlisted: true }
    }

    /// The times by which it is judged.
    #[must_use]
    pub fn timing(&self) -> ContactTiming {
        self.timing
    }

    /// In which epoch it is: lists that are asked for now are of this one.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// A watch event, a bookmark or an answered probe arrived.
    pub fn answered(&mut self, now: Duration) {
        if self.is_unreachable(now) {
            self.unlisted = true;
            self.epoch = Epoch(self.epoch.0.saturating_add(1));
        }
        self.last = self.last.max(now);
    }

    /// Nodes and pods were listed, by lists that were asked for in this epoch; the last one was answered at this time. What was
    /// asked for in an earlier one is an answer, and no list.
    pub fn listed(&mut self, epoch: Epoch, now: Duration) {
        self.answered(now);
        if epoch == self.epoch {
            self.unlisted = false;
        }
    }

    /// How it is doing.
    #[must_use]
    pub fn reach(&self, now: Duration) -> Reach {
        let silent = now.saturating_sub(self.last);
        if self.is_unreachable(now) {
            Reach::Unreachable { since: self.last.saturating_add(self.timing.unreachable) }
        } else if silent >= self.timing.suspect {
            Reach::Suspect(Doubt::Silent)
        } else if self.unlisted {
            Reach::Suspect(Doubt::NotListed)
        } else {
            Reach::Reachable
        }
    }

    /// When time alone changes the answer of [`Self::reach`] next.
    #[must_use]
    pub fn next(&self, now: Duration) -> Option<Duration> {
        let silence = [self.timing.suspect, self.timing.unreachable].map(|after| self.last.saturating_add(after));
        silence.into_iter().find(|at| *at > now)
    }

    fn is_unreachable(&self, now: Duration) -> bool {
        now.saturating_sub(self.last) >= self.timing.unreachable
    }
}

/// What a list of Nodes says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    /// There are some, or there never were any.
    Some,
    /// There are none, and the cache has some.
    NoneWhereSomeWere,
}

/// Whether a cache believes that a cluster has no Nodes any more: not before a second list, late enough, agrees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Emptiness {
    /// When the cluster first said that it has no Nodes, where the cache has some.
    since: Option<Duration>,
}

impl Emptiness {
    /// Nodes were listed, with this content.
    pub fn listed(&mut self, content: Listed, now: Duration) {
        self.since = match content {
            Listed::Some => None,
            Listed::NoneWhereSomeWere => Some(self.since.unwrap_or(now)),
        };
    }

    /// Whether it is in doubt that there are none.
    #[must_use]
    pub fn is_doubted(&self) -> bool {
        self.since.is_some()
    }

    /// Whether the list that comes now confirms an empty one that came at least this time before, so that the Nodes are gone.
    #[must_use]
    pub fn is_confirmed(&self, time: Duration, now: Duration) -> bool {
        self.since.is_some_and(|since| now.saturating_sub(since) >= time)
    }

    /// The cache has forgotten the Nodes that an empty list confirmed as gone.
    pub fn emptied(&mut self) {
        self.since = None;
    }
}

/// The status of a Ready condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// The kubelet says that it is well.
    True,
    /// The kubelet lives and says that it is not well.
    False,
    /// No kubelet says anything: node-lifecycle wrote this.
    Unknown,
    /// There is no such condition.
    Absent,
}

/// What a binding wants while its cluster is unreachable (`spec.onUnreachable`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnreachable {
    /// Leases stop, and node-lifecycle says Unknown.
    Unknown,
    /// Leases and Ready stay for this long (`spec.holdFor`), and then as [`Self::Unknown`].
    Hold(Duration),
}

/// What is known of the physical node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// Its Ready condition, as it was shown since its cluster was last unreachable. Of one that is gone: that of the virtual node.
    Shown(Ready),
    /// Nothing since then, or since the take-over: it is not listed yet.
    Unlisted,
}

/// What decides about the liveness of one virtual node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LivenessFacts {
    /// The connection.
    pub reach: Reach,
    /// What the binding wants.
    pub on_unreachable: OnUnreachable,
    /// What is known of the machine.
    pub machine: Machine,
    /// The Ready condition of the virtual node.
    pub virtual_ready: Ready,
    /// Since when its lease has not been renewed.
    pub unrenewed_since: Option<Duration>,
}

/// Whether a lease is renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lease {
    /// It is.
    Renew,
    /// It is not.
    Stop(NotAlive),
}

/// Why a lease is not renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAlive {
    /// The physical cluster does not answer.
    Unreachable,
    /// The physical cluster itself does not know whether the kubelet lives.
    KubeletUnknown,
    /// The physical node has no Ready condition: no kubelet has ever registered it, or it is new.
    NoCondition,
    /// It was stopped while the physical cluster did not answer, and the physical node has not been listed since.
    Unlisted,
    /// The physical node is gone, and nothing takes the virtual one away: an earlier binding made it under another `clusterID`.
    MachineGone,
}

impl fmt::Display for NotAlive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreachable => "the physical API server does not answer",
            Self::KubeletUnknown => "the physical node is Unknown: its kubelet does not report",
            Self::NoCondition => "the physical node has no Ready condition",
            Self::Unlisted => "the physical node has not been listed since its lease stopped",
            Self::MachineGone => "the physical node is gone",
        })
    }
}

/// Who writes the conditions of the virtual node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conditions {
    /// We mirror those of the physical node.
    Mirror,
    /// node-lifecycle does; we leave them alone.
    Leave,
    /// node-lifecycle should have said Unknown by now and has not: we do, with the reason `PhysicalClusterUnreachable`.
    SayUnknown,
    /// The node lives again. In this order: the lease is renewed, all conditions are written, then the status of every pod of
    /// the node, which node-lifecycle has set to not ready and which no other client sets back.
    Heal,
}

/// What follows for one virtual node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Liveness {
    /// Its lease.
    pub lease: Lease,
    /// Whether it carries the taint of an unreachable cluster.
    pub is_tainted: bool,
    /// Its conditions.
    pub conditions: Conditions,
    /// When time alone changes this next.
    pub next: Option<Duration>,
}

/// How long node-lifecycle has to say Unknown itself, before we do.
pub const SAY_UNKNOWN_AFTER: Duration = Duration::from_secs(60);

/// Decides for one virtual node.
#[must_use]
pub fn judge(facts: &LivenessFacts, now: Duration) -> Liveness {
    let held_until = held_until(facts.reach, facts.on_unreachable);
    let is_held = held_until.is_some_and(|until| now < until);
    let physical = match facts.machine {
        Machine::Shown(ready) => ready,
        Machine::Unlisted => facts.virtual_ready,
    };
    let lease = match (facts.reach, physical) {
        (Reach::Unreachable { .. }, _) if !is_held => Lease::Stop(NotAlive::Unreachable),
        _ if facts.machine == Machine::Unlisted && facts.unrenewed_since.is_some() => Lease::Stop(NotAlive::Unlisted),
        (_, Ready::True | Ready::False) => Lease::Renew,
        (_, Ready::Unknown) => Lease::Stop(NotAlive::KubeletUnknown),
        (_, Ready::Absent) => Lease::Stop(NotAlive::NoCondition),
    };
    let (conditions, at) = match (lease, facts.reach) {
        // What is cached is what node-lifecycle of the physical cluster, or the last watch event, said.
        (Lease::Renew, Reach::Unreachable { .. }) => (Conditions::Leave, held_until),
        (Lease::Renew, _) if facts.virtual_ready == Ready::Unknown => (Conditions::Heal, None),
        (Lease::Renew, _) => (Conditions::Mirror, None),
        (Lease::Stop(NotAlive::Unreachable), _) => unknown(facts, now),
        (Lease::Stop(NotAlive::Unlisted), _) => (Conditions::Leave, None),
        // The physical cluster says Unknown: that is mirrored unless node-lifecycle has written it already.
        (Lease::Stop(_), _) if facts.virtual_ready == Ready::Unknown => (Conditions::Leave, None),
        (Lease::Stop(_), _) => (Conditions::Mirror, None),
    };
    Liveness { lease, is_tainted: matches!(facts.reach, Reach::Unreachable { .. }), conditions, next: at }
}

/// What becomes of the lease of a virtual node of ours whose machine is not known.
#[must_use]
pub fn judge_alone(reach: Reach, on_unreachable: OnUnreachable, now: Duration) -> Lease {
    let is_held = held_until(reach, on_unreachable).is_some_and(|until| now < until);
    match reach {
        Reach::Unreachable { .. } if !is_held => Lease::Stop(NotAlive::Unreachable),
        _ => Lease::Renew,
    }
}

/// Until when leases stay although the physical cluster is unreachable.
fn held_until(reach: Reach, on_unreachable: OnUnreachable) -> Option<Duration> {
    match (reach, on_unreachable) {
        (Reach::Unreachable { since }, OnUnreachable::Hold(hold)) => Some(since.saturating_add(hold)),
        _ => None,
    }
}

/// Who says Unknown while the lease is stopped.
fn unknown(facts: &LivenessFacts, now: Duration) -> (Conditions, Option<Duration>) {
    if facts.virtual_ready == Ready::Unknown {
        return (Conditions::Leave, None);
    }
    let due = facts.unrenewed_since.unwrap_or(now).saturating_add(SAY_UNKNOWN_AFTER);
    if now >= due { (Conditions::SayUnknown, None) } else { (Conditions::Leave, Some(due)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn contact() -> Contact {
        let mut contact = Contact::new(ContactTiming::default(), at(100));
        listed(&mut contact, 100);
        contact
    }

    /// A list that was asked for, and answered, at this time.
    fn listed(contact: &mut Contact, now: u64) {
        contact.answered(at(now));
        contact.listed(contact.epoch(), at(now));
    }

    #[test]
    fn s5_a_connection_is_suspect_after_15_s_and_unreachable_after_40_s() {
        let contact = contact();
        assert_eq!(contact.reach(at(114)), Reach::Reachable);
        assert_eq!(contact.reach(at(115)), Reach::Suspect(Doubt::Silent));
        assert_eq!(contact.reach(at(139)), Reach::Suspect(Doubt::Silent));
        assert_eq!(contact.reach(at(140)), Reach::Unreachable { since: at(140) });
        assert_eq!(contact.reach(at(900)), Reach::Unreachable { since: at(140) });
        assert_eq!([100, 115, 140].map(|now| contact.next(at(now))), [Some(at(115)), Some(at(140)), None]);
    }

    #[test]
    fn s5_s28_a_server_that_answers_each_probe_is_never_suspect_between_two_of_them() {
        assert_eq!(ContactTiming::default().probe(), at(5));
        for suspect in [1, 3, 14, 15, 600] {
            let timing = ContactTiming { suspect: at(suspect), ..ContactTiming::default() };
            assert!(timing.probe() <= at(5) && timing.probe() * 3 <= timing.suspect, "{suspect}");
        }
    }

    #[test]
    fn s5_a_connection_that_was_unreachable_is_suspect_until_everything_is_listed_anew() {
        let mut contact = contact();
        contact.answered(at(130));
        assert_eq!(contact.reach(at(131)), Reach::Reachable, "a short silence needs no new list");
        contact.answered(at(200));
        assert_eq!(contact.reach(at(200)), Reach::Suspect(Doubt::NotListed));
        listed(&mut contact, 201);
        assert_eq!(contact.reach(at(201)), Reach::Reachable);
    }

    #[test]
    fn s5_a_list_that_was_asked_for_before_a_server_was_unreachable_is_none_of_what_it_holds_afterwards() {
        let mut contact = contact();
        let before = contact.epoch();
        contact.answered(at(139));
        assert_eq!(contact.epoch(), before, "it was suspect only");
        contact.answered(at(200));
        let after = contact.epoch();
        assert_ne!(after, before);
        contact.listed(before, at(201));
        assert_eq!(contact.reach(at(201)), Reach::Suspect(Doubt::NotListed));
        // Nor where the list itself is the first answer.
        contact.listed(after, at(300));
        assert_eq!(contact.reach(at(300)), Reach::Suspect(Doubt::NotListed));
        contact.listed(after, at(301));
        assert_eq!(contact.reach(at(301)), Reach::Suspect(Doubt::NotListed), "it is of an earlier one still");
        listed(&mut contact, 302);
        assert_eq!(contact.reach(at(302)), Reach::Reachable);
    }

    #[test]
    fn s5_a_new_connection_is_suspect_until_its_first_list() {
        let contact = Contact::new(ContactTiming::default(), at(5));
        assert_eq!(contact.reach(at(5)), Reach::Suspect(Doubt::NotListed));
    }

    #[test]
    fn s5_an_empty_list_after_a_full_cache_is_believed_when_a_second_one_30_s_later_agrees() {
        let (mut emptiness, time) = (Emptiness::default(), ContactTiming::default().empty);
        assert!(!emptiness.is_doubted());
        let mut lists = |content: Listed, now: u64| {
            emptiness.listed(content, at(now));
            let is_confirmed = emptiness.is_confirmed(time, at(now));
            if is_confirmed {
                emptiness.emptied();
            }
            (is_confirmed, emptiness.is_doubted())
        };
        assert_eq!(lists(Listed::NoneWhereSomeWere, 110), (false, true));
        assert_eq!(lists(Listed::NoneWhereSomeWere, 139), (false, true));
        assert_eq!(lists(Listed::NoneWhereSomeWere, 140), (true, false));
        assert_eq!(lists(Listed::NoneWhereSomeWere, 141), (false, true));
        assert_eq!(lists(Listed::Some, 142), (false, false), "the Nodes are there again");
        assert_eq!(lists(Listed::NoneWhereSomeWere, 900), (false, true), "the time begins anew");
    }

    #[test]
    fn a_sign_of_life_that_arrives_late_does_not_turn_the_clock_back() {
        let mut contact = contact();
        contact.answered(at(110));
        contact.answered(at(105));
        assert_eq!(contact.reach(at(124)), Reach::Reachable);
    }

    fn facts(reach: Reach, physical: Ready) -> LivenessFacts {
        LivenessFacts {
            reach,
            on_unreachable: OnUnreachable::Unknown,
            machine: Machine::Shown(physical),
            virtual_ready: Ready::True,
            unrenewed_since: None,
        }
    }

    const GONE: Reach = Reach::Unreachable { since: at(140) };

    #[test]
    fn s4_a_lease_is_renewed_while_the_kubelet_says_true_or_false() {
        for (physical, lease, conditions) in [
            (Ready::True, Lease::Renew, Conditions::Mirror),
            (Ready::False, Lease::Renew, Conditions::Mirror),
            (Ready::Unknown, Lease::Stop(NotAlive::KubeletUnknown), Conditions::Mirror),
            (Ready::Absent, Lease::Stop(NotAlive::NoCondition), Conditions::Mirror),
        ] {
            for reach in [Reach::Reachable, Reach::Suspect(Doubt::Silent)] {
                let verdict = judge(&facts(reach, physical), at(120));
                assert_eq!((verdict.lease, verdict.conditions), (lease, conditions), "{reach:?} {physical:?}");
                assert!(!verdict.is_tainted);
            }
        }
    }

    #[test]
    fn s4_conditions_that_node_lifecycle_set_to_unknown_are_left_alone_while_the_lease_is_stopped() {
        let stopped = LivenessFacts { virtual_ready: Ready::Unknown, ..facts(Reach::Reachable, Ready::Unknown) };
        assert_eq!(judge(&stopped, at(120)).conditions, Conditions::Leave);
        let gone = LivenessFacts { virtual_ready: Ready::Unknown, ..facts(GONE, Ready::True) };
        assert_eq!(judge(&gone, at(900)).conditions, Conditions::Leave);
    }

    #[test]
    fn s4_a_node_that_lives_again_is_healed() {
        let back = LivenessFacts { virtual_ready: Ready::Unknown, ..facts(Reach::Reachable, Ready::True) };
        let verdict = judge(&back, at(300));
        assert_eq!((verdict.lease, verdict.conditions), (Lease::Renew, Conditions::Heal));
    }

    #[test]
    fn s5_s11_a_lease_that_stopped_stays_stopped_until_its_machine_is_listed_and_one_that_is_renewed_goes_on() {
        let back = facts(Reach::Suspect(Doubt::NotListed), Ready::True);
        let unlisted = LivenessFacts { machine: Machine::Unlisted, ..back };
        // A take-over, or a cluster that was held.
        assert_eq!(judge(&unlisted, at(300)).lease, Lease::Renew);
        let stopped = LivenessFacts { unrenewed_since: Some(at(140)), ..unlisted };
        for virtual_ready in [Ready::True, Ready::Unknown] {
            let verdict = judge(&LivenessFacts { virtual_ready, ..stopped }, at(300));
            assert_eq!((verdict.lease, verdict.conditions), (Lease::Stop(NotAlive::Unlisted), Conditions::Leave));
        }
        // Its pods may still be on their way to be listed.
        let listed = LivenessFacts { unrenewed_since: Some(at(140)), virtual_ready: Ready::Unknown, ..back };
        let verdict = judge(&listed, at(300));
        assert_eq!((verdict.lease, verdict.conditions), (Lease::Renew, Conditions::Heal));
        let died = LivenessFacts { machine: Machine::Shown(Ready::Unknown), ..listed };
        assert_eq!(judge(&died, at(300)).lease, Lease::Stop(NotAlive::KubeletUnknown));
    }

    #[test]
    fn s11_until_machines_are_listed_the_virtual_node_decides_and_where_the_cluster_is_silent_for_40_s_at_most() {
        // A take-over: the connection is new.
        let contact = Contact::new(ContactTiming::default(), at(0));
        let judged = |now: u64| {
            let reach = contact.reach(at(now));
            judge(&LivenessFacts { machine: Machine::Unlisted, ..facts(reach, Ready::Absent) }, at(now)).lease
        };
        assert_eq!([0, 14, 15, 39].map(judged), [Lease::Renew; 4]);
        assert_eq!(judged(40), Lease::Stop(NotAlive::Unreachable));
        let dead = LivenessFacts {
            machine: Machine::Unlisted,
            virtual_ready: Ready::Unknown,
            ..facts(Reach::Suspect(Doubt::NotListed), Ready::Absent)
        };
        assert_eq!(judge(&dead, at(1)).lease, Lease::Stop(NotAlive::KubeletUnknown));
        // A server that answers, and does not let us list its nodes, takes no node away.
        let refused = LivenessFacts { virtual_ready: Ready::True, ..dead };
        assert_eq!(judge(&refused, at(3_600)).lease, Lease::Renew);
    }

    #[test]
    fn d7_s5_unknown_stops_leases_and_says_unknown_itself_after_60_s() {
        let gone = LivenessFacts { unrenewed_since: Some(at(140)), ..facts(GONE, Ready::True) };
        let early = judge(&gone, at(199));
        assert_eq!(early.lease, Lease::Stop(NotAlive::Unreachable));
        assert!(early.is_tainted);
        assert_eq!((early.conditions, early.next), (Conditions::Leave, Some(at(200))));
        assert_eq!(judge(&gone, at(200)).conditions, Conditions::SayUnknown);
        let just = judge(&LivenessFacts { unrenewed_since: None, ..gone }, at(150));
        assert_eq!((just.conditions, just.next), (Conditions::Leave, Some(at(210))), "the lease stops now");
    }

    #[test]
    fn s5_hold_keeps_leases_and_conditions_for_as_long_as_the_binding_says() {
        let hold = LivenessFacts { on_unreachable: OnUnreachable::Hold(at(3600)), ..facts(GONE, Ready::True) };
        let held = judge(&hold, at(3739));
        assert_eq!((held.lease, held.conditions, held.next), (Lease::Renew, Conditions::Leave, Some(at(3740))));
        assert!(held.is_tainted, "no new pod is sent there");
        assert_eq!(judge(&hold, at(3740)).lease, Lease::Stop(NotAlive::Unreachable));
        let dead = LivenessFacts { machine: Machine::Shown(Ready::Unknown), ..hold };
        assert_eq!(judge(&dead, at(200)).lease, Lease::Stop(NotAlive::KubeletUnknown), "it was dead before");
    }
}
