//! A small world that the machines of this room live in: an API server with versions, claimants in several processes with
//! caches that are behind, a kubelet and a device plugin on each node, a sweeper, crashes, answers that are lost, and
//! writes that are applied long after their sender gave up. Histories are drawn at random and, to a small depth, all of
//! them are tried. At no moment may two pods be on their way through one node's device plugin, and a plugin that is asked
//! never serves another pod than the one that the kubelet means.
//!
//! What would break that is tried, too: each [`Mutation`] is a world in which one rule is not kept, and a history must be
//! found that shows it.

mod draw;
mod explore;
mod kubelets;
mod processes;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::attempt::{Answer, Attempt, Bound, Node, Order, Outcome, Request, Sight};
use super::holder::{Clock, GRACE, Holder, Pod, Reason, SKEW, Standing, Takeover, confirm, is_owner};
use super::record::{Lock, Named, Note, PodKey};
use super::retry::Retry;
use super::sweep::Sweep;
use super::value::{Value, bare};
use draw::{Dice, Mix};
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
    /// Whoever has the name is the owner.
    UidIgnored,
    /// A node is written whatever its version is.
    NodeVersionDropped,
    /// A pod is bound whatever its version is.
    BindingWithoutVersion,
    /// The lock is given back before the pod is marked.
    ReleaseBeforeFence,
    /// A lock is given back that ends with the pod's name.
    ReleaseBySuffix,
    /// `bind-phase` says whether a device plugin has answered.
    PhaseAsEvidence,
    /// A pod that a cache does not have is gone.
    AbsentFromCache,
    /// Whoever binds does not mind that the lock was taken from the pod.
    MarkIgnored,
    /// A lock is taken from a pod that may still be bound under it, and the pod is not marked.
    TakenUnmarked,
    /// An attempt is over at its deadline, although another clock says when that is.
    ClocksAgree,
    /// An attempt may be over as soon as its value is seen.
    FirstSightCounts,
}

const MUTATIONS: [Mutation; 12] = [
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
];

/// The keys that a pod needs.
fn needs(slot: usize) -> &'static [usize] {
    match slot {
        0 | 1 => &[SHARED],
        2 => &[SHARED, 1],
        _ => &[1],
    }
}

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
        let sum: usize = possible.iter().map(|(weight, _)| weight).sum();
        if sum == 0 {
            mix = Mix::draw(&mut dice);
            continue;
        }
        let mut drawn = dice.below(sum);
        let deed = possible.into_iter().find(|(weight, _)| {
            let here = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            here
        });
        let deed = deed.unwrap().1;
        deeds.push(deed);
        world.deed(deed);
    }
    if calm && world.broken.is_none() {
        world.calm();
    }
    (deeds, world.broken)
}

/// The same history without what it does not need to break something.
fn shortest(mutation: Mutation, mut deeds: Vec<Deed>, calm: bool) -> Vec<Deed> {
    let mut size = deeds.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < deeds.len() {
            let mut fewer = deeds.clone();
            fewer.drain(at..(at + size).min(deeds.len()));
            if play(mutation, &fewer, calm).is_some() { deeds = fewer } else { at += size }
        }
        size /= 2;
    }
    deeds
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

/// How long whoever has time lets it look; the seeds begin with 0, always.
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

/// The seed of a history that shows each of them, so that nobody has to look for long. Where a change of the protocol makes
/// another history of a seed, another is looked for.
const WITNESSES: [(Mutation, u64); 12] = [
    (Mutation::ReleaseThenClaim, 1),
    (Mutation::UidIgnored, 772),
    (Mutation::NodeVersionDropped, 1),
    (Mutation::BindingWithoutVersion, 183),
    (Mutation::ReleaseBeforeFence, 186),
    (Mutation::ReleaseBySuffix, 1828),
    (Mutation::PhaseAsEvidence, 2027),
    (Mutation::AbsentFromCache, 639),
    (Mutation::MarkIgnored, 2897),
    (Mutation::TakenUnmarked, 3764),
    (Mutation::ClocksAgree, 4032),
    (Mutation::FirstSightCounts, 23),
];

/// A world in which a rule is not kept is found out.
#[test]
fn each_rule_is_needed() {
    let many = effort("TOPOLOOM_HISTORIES", 8_000);
    let mut never = Vec::new();
    for mutation in MUTATIONS {
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
