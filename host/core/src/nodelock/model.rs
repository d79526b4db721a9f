//! A small world that the machines of this room live in: an API server with versions, claimants in several processes with
//! caches that are behind, a kubelet and a device plugin on each node, a sweeper, crashes, answers that are lost, and
//! writes that are applied long after their sender gave up. Histories are drawn at random and, to a small depth, all of
//! them are tried. At no moment may two pods be on their way through one node's device plugin, and a plugin that is asked
//! never serves another pod than the one that the kubelet means.
//!
//! Each [`Mutation`] is a world in which one rule is not kept, and a history must be found that shows it.

mod draw;
mod explore;
mod kubelets;
mod processes;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::attempt::{Attempt, AttemptOrder, AttemptOutcome, Bound, ObservedNode, Request, Sight, WriteOutcome};
use super::holder::{Clock, GRACE, Holder, LockState, OrphanReason, Pod, SKEW, Takeover};
use super::needs::LockKey;
use super::record::{Lock, NamedHolder, Note, PodId, PodKey};
use super::retry::Retry;
use super::sightings::{LiveReads, Moment, NodeRead, PodSighting, Sightings};
use super::sweep::{self, Mode, Sweep};
use super::value::{ParsedValue, bare};
use crate::chance::{self, Dice};
use crate::names::{LockValue, NodeName, Uid};
use crate::version::ResourceVersion;
use draw::Mix;
use world::{Deed, World};

const TTL: Duration = Duration::from_secs(60);
const DEADLINE: Duration = Duration::from_secs(20);
const NODES: usize = 2;
const PODS: usize = 4;
/// The shared key, whose values name a pod, and one of a vendor whose values do not.
const KEYS: usize = 2;
const SHARED: usize = 0;
const PROCESSES: usize = 3;
/// How far the clock of each process is ahead, the sweeper's last: as far as clocks may be apart, and one is wrong.
const SKEWS: [SignedDuration; PROCESSES + 1] =
    [SignedDuration::ZERO, SignedDuration::from_secs(5), SignedDuration::from_secs(-30), SignedDuration::from_secs(5)];

/// A rule that is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mutation {
    None,
    /// A take-over removes first and writes then.
    ReleaseThenClaim,
    /// Any pod of that name is the owner.
    UidIgnored,
    /// A node is written without its version.
    NodeVersionDropped,
    /// A pod is bound without its version.
    BindingWithoutVersion,
    /// The lock is released before the pod is marked.
    ReleaseBeforeFence,
    /// A lock is released if it ends with the pod's name.
    ReleaseBySuffix,
    /// `bind-phase` says whether a device plugin has answered.
    PhaseAsEvidence,
    /// A pod that a cache does not have is gone.
    AbsentFromCache,
    /// A Binding does not mind that the lock was taken from the pod.
    MarkIgnored,
    /// A lock is taken from a pod that may still be bound under it, and the pod is not marked.
    TakenUnmarked,
    /// An attempt is over at its deadline, although another clock says when that is.
    ClocksAgree,
    /// An attempt may be over as soon as its value is seen.
    FirstSightCounts,
    /// A lock that disappeared is forgotten before the outcome of its pod is known.
    LostLockForgotten,
    /// A lock that came and went in versions of the node that were passed over counts as none.
    PassedOverForgotten,
}

const MUTATIONS: [Mutation; 14] = [
    Mutation::ReleaseThenClaim,
    Mutation::UidIgnored,
    Mutation::NodeVersionDropped,
    Mutation::BindingWithoutVersion,
    Mutation::ReleaseBeforeFence,
    Mutation::ReleaseBySuffix,
    Mutation::PhaseAsEvidence,
    Mutation::AbsentFromCache,
    Mutation::MarkIgnored,
    Mutation::TakenUnmarked,
    Mutation::ClocksAgree,
    Mutation::FirstSightCounts,
    Mutation::LostLockForgotten,
    Mutation::PassedOverForgotten,
];

/// The keys that a pod needs.
fn needs(slot: usize) -> &'static [usize] {
    match slot {
        0 | 1 => &[SHARED],
        2 => &[SHARED, 1],
        _ => &[1],
    }
}

/// The vendors whose device plugins a pod needs, in the order in which its kubelet asks them.
fn vendors(slot: usize) -> &'static [usize] {
    match slot {
        0 => &[0],
        1 => &[0, 1],
        2 => &[1, 2],
        _ => &[2],
    }
}

/// Under which key the device plugin of a vendor finds its pod. Two vendors share one.
const KEY_OF: [usize; 3] = [SHARED, SHARED, 1];

/// Kinds of values that are found lying about.
const LITTER: usize = 6;

/// The process that sweeps.
const SWEEPER: usize = PROCESSES;

/// A history of that many deeds at most, and what it broke.
fn live(mutation: Mutation, seed: u64, length: usize, calm: bool) -> (Vec<Deed>, Option<String>) {
    let mut dice = Dice(seed);
    let mut mix = Mix::draw(&mut dice);
    let mut world = World::new(mutation);
    let mut deeds = Vec::new();
    while deeds.len() < length && world.broken.is_none() {
        if dice.below(40) == 0 {
            mix.speeds = Mix::speeds(&mut dice);
        }
        let possible = world.possible(&mix, &mut dice);
        let Some(deed) = dice.weighted(possible) else {
            mix = Mix::draw(&mut dice);
            continue;
        };
        deeds.push(deed);
        world.deed(deed);
    }
    if calm && world.broken.is_none() {
        world.calm();
    }
    (deeds, world.broken)
}

/// The same history without what it does not need to break something.
fn shortest(mutation: Mutation, deeds: Vec<Deed>, calm: bool) -> Vec<Deed> {
    chance::shortest(deeds, |fewer| play(mutation, fewer, calm).is_some())
}

/// Plays a history, and says what was broken.
fn play(mutation: Mutation, deeds: &[Deed], calm: bool) -> Option<String> {
    let mut world = World::new(mutation);
    for deed in deeds {
        world.deed(*deed);
        if world.broken.is_some() {
            return world.broken;
        }
    }
    if calm {
        world.calm();
    }
    world.broken
}

/// How much is tried, where more time is given; the seeds begin with 0, always.
#[allow(clippy::disallowed_methods, reason = "not what is tested, but how much of it")]
fn effort(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|effort| effort.parse().ok()).unwrap_or(usual)
}

#[test]
fn one_pod_at_a_time_is_on_its_way_to_a_node_and_all_get_through() {
    let many = effort("TOPOLOOM_HISTORIES", 2_000);
    for seed in 0..many {
        let (deeds, broken) = live(Mutation::None, seed, 400, true);
        assert!(broken.is_none(), "seed {seed}: {broken:?}\n{:?}", shortest(Mutation::None, deeds, true));
    }
}

/// The seed of a history that shows each of them, so that it is found at once. Where a change of the protocol makes
/// another history of a seed, another is looked for.
const WITNESSES: [(Mutation, u64); 11] = [
    (Mutation::ReleaseThenClaim, 1),
    (Mutation::UidIgnored, 8423),
    (Mutation::NodeVersionDropped, 1),
    (Mutation::BindingWithoutVersion, 2392),
    (Mutation::ReleaseBeforeFence, 532),
    (Mutation::ReleaseBySuffix, 1509),
    (Mutation::PhaseAsEvidence, 3141),
    (Mutation::AbsentFromCache, 560),
    (Mutation::TakenUnmarked, 628),
    (Mutation::ClocksAgree, 1801),
    (Mutation::FirstSightCounts, 25),
];

/// A pod of two vendors is bound, and the first vendor releases the lock that the second still needs. Another process
/// has seen that lock appear and disappear, its watch of pods is behind, and it has to bind another pod to the same
/// node.
fn lost_lock() -> Vec<Deed> {
    early([Deed::Nodes(1); 2], [Deed::Nodes(1)])
}

/// The same, and the other process has not seen that lock: it reads the node after its claim was a conflict, or its watch of
/// nodes breaks and lists.
fn passed_over() -> [Vec<Deed>; 2] {
    [early([], []), early([], [Deed::RelistNodes(1); 2])]
}

/// A pod is marked while its process binds it, and the answer to its Binding is lost; then the same process binds another one.
fn marked() -> Vec<Deed> {
    let does = [Deed::Act(2), Deed::Serve(2), Deed::Answer(2)];
    let claims = [Deed::Act(2), Deed::Act(2), Deed::Serve(2)];
    let mut deeds = vec![Deed::Start(2, 1, 0)];
    deeds.extend(claims);
    deeds.extend([Deed::Revoke(0, 0), Deed::Answer(2), Deed::Act(2), Deed::Lose(2), Deed::Act(2)]);
    deeds.extend([does, does, does].concat());
    deeds.extend([Deed::Act(2), Deed::Start(2, 0, 0)]);
    deeds.extend(claims);
    deeds.extend([Deed::Answer(2), Deed::Act(2), Deed::Serve(2)]);
    deeds
}

/// What the other process sees before the lock is given back, and after that.
fn early<const B: usize, const A: usize>(before: [Deed; B], after: [Deed; A]) -> Vec<Deed> {
    let does = |at| [Deed::Send(at), Deed::Serve(at), Deed::Answer(at)];
    let mut deeds = vec![Deed::Start(0, 1, 0)];
    deeds.extend((0..3).flat_map(|_| does(0)));
    deeds.extend(before);
    deeds.extend([Deed::Kubelet(0), Deed::Early(0)]);
    deeds.extend(after);
    deeds.push(Deed::Start(1, 0, 0));
    deeds.extend((0..5).flat_map(|_| does(1)));
    deeds
}

#[test]
fn r18_a_lock_that_disappeared_keeps_the_node_until_the_outcome_of_its_pod_is_known() {
    assert_eq!(play(Mutation::None, &lost_lock(), false), None);
    let broken = play(Mutation::LostLockForgotten, &lost_lock(), false).unwrap_or_default();
    assert!(broken.ends_with("are on their way to n0 at once, key 0"), "{broken}");
}

#[test]
fn n5_a_pod_that_was_marked_while_it_was_bound_is_not_bound_again() {
    assert_eq!(play(Mutation::None, &marked(), false), None);
    let broken = play(Mutation::MarkIgnored, &marked(), false).unwrap_or_default();
    assert!(broken.ends_with("are on their way to n0 at once, key 0"), "{broken}");
}

#[test]
fn r18_a_lock_that_was_never_seen_keeps_the_node_until_the_pods_of_the_node_are_known() {
    for deeds in passed_over() {
        assert_eq!(play(Mutation::None, &deeds, false), None);
        let broken = play(Mutation::PassedOverForgotten, &deeds, false).unwrap_or_default();
        assert!(broken.ends_with("are on their way to n0 at once, key 0"), "{broken}: {deeds:?}");
    }
}

/// A world in which a rule is not kept is found out.
#[test]
fn each_rule_is_needed() {
    let many = effort("TOPOLOOM_HISTORIES", 8_000);
    let mut never = Vec::new();
    for mutation in MUTATIONS {
        let mut written = passed_over().into_iter().chain([lost_lock(), marked()]);
        let broken = written.find_map(|deeds| Some((play(mutation, &deeds, false)?, deeds)));
        if let Some((broken, deeds)) = broken {
            println!("{mutation:?}: {broken}\n{deeds:?}");
            continue;
        }
        let witness = WITNESSES.iter().find(|(of, _)| *of == mutation).map(|(_, seed)| *seed);
        let found = witness.into_iter().chain(0..many).find_map(|seed| {
            let (deeds, broken) = live(mutation, seed, 400, false);
            broken.map(|broken| (seed, broken, shortest(mutation, deeds, false)))
        });
        match found {
            Some((seed, broken, deeds)) => println!("{mutation:?}: seed {seed}: {broken}\n{deeds:?}"),
            None => never.push(mutation),
        }
    }
    assert!(never.is_empty(), "{never:?} break nothing");
}
