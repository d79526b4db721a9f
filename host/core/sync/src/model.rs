//! A small world over all that this crate decides: two clusters, two bindings that want the same machines, two processes that
//! take over from each other, a lender, a borrower's user, a scheduler, kubelets, node-lifecycle, and a top-down half that keeps
//! its contract and is late. Requests are lost, or applied long after their sender is gone; caches are behind; clocks are set;
//! API servers vanish, or go back to a backup with a lower or a raised revision.
//!
//! What is modelled is everything around the decisions: which object is stored, what a process has read of it, what becomes
//! of a request, and what an operator does. The decisions themselves are production's own functions (`node::draft` to
//! `conclude`, `pods`, `pods::finish`, `guard`, `policy::in_force` and `status`, `projection`, `renewal`, `liveness`, `bars`,
//! `witness`), and what a process remembers between two of them is what the syncer's view remembers.
//!
//! At every step some things must be true ([`judge`]), and after every history in which nothing goes wrong any more, the
//! system comes to rest at the right state ([`rest`]). Each [`Mutation`] is a world in which one rule is not kept; a history
//! must be found that shows it, and the same history must be harmless where the rule is kept.
//!
//! | room | owns |
//! |---|---|
//! | `objects`, `server` | what is stored, with versions, preconditions and backups |
//! | `cache`, `process`, `desk` | what a process knows and remembers; most mutations |
//! | `world` | all of it together, time, and what can happen |
//! | `carry`, `pods`, `actors` | what processes do about nodes and about pods, and what all others do |
//! | `judge`, `rest` | what must never be, and what must be at the end |
//! | `draw`, `explore`, `written` | histories: at random, all of a small world, and by hand |

mod actors;
mod cache;
mod carry;
// The one home of what both models draw by.
#[path = "../../src/chance.rs"]
mod chance;
mod desk;
mod draw;
mod explore;
mod judge;
mod objects;
mod pods;
mod process;
mod rest;
mod server;
mod world;
mod written;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::bars::{Bar, Bars, Doing};
use crate::guard::{Act, Cause, Guard, Inherited, Safety, Size};
use crate::identity::mapping::{PhysicalPodRef, PodSide, VirtualPodRef};
use crate::identity::{Earlier, Identity, Ownership, lacking, names_binding};
use crate::keys;
use crate::phase::Phase;
use crate::policy::object::PolicyObject;
use crate::policy::spec::PolicySpec;
use crate::policy::status::PolicyStatus;
use crate::quantity::Quantity;
use crate::resources::{self, CPU, ResourceList};
use crate::selector::NodeSelector;
use chance::Dice;
use draw::Mix;
use process::Restored;
use server::{Revision, Side};
use topoloom_core::names::{NodeName, Uid};
use topoloom_core::version::ResourceVersion;
use world::{Deed, World};

/// Physical nodes.
const NODES: usize = 3;
/// Names of virtual pods.
const SLOTS: usize = 4;
/// The slot of a physical pod that another installation made.
const OTHER: usize = SLOTS;
/// The slot of the pods that tolerate closed windows for [`TOLERATED`].
const TOLERANT: usize = 2;
const TOLERATED: Duration = Duration::from_secs(120);
/// The slot of the pods of a DaemonSet.
const DAEMON: usize = 3;
/// Two bindings of one virtual cluster to one physical cluster.
const BINDINGS: usize = 2;
const EAST: usize = 0;
const WEST: usize = 1;
/// Two processes for the one binding, and one for the other.
const PROCESSES: usize = 3;
const WESTERN: usize = 2;
/// The virtual cluster.
const US: &str = "vc-1";
/// The names of the bindings, which are their cluster ids, too.
const NAMES: [&str; BINDINGS] = ["east", "west"];
const UIDS: [&str; BINDINGS] = ["b-east", "b-west"];
/// The UID of the binding east after it was deleted by force and applied again.
const APPLIED_AGAIN: &str = "b-east-2";
/// For how long the binding west keeps its leases while the physical cluster is gone.
const HOLD: Duration = Duration::from_secs(300);
/// The claim of a borrower of whom nothing else is seen.
const OTHERS: &str = "vc-2/b-9";
/// The policy, if there is one.
const POLICY: &str = "night";
/// The grace of its windows.
const RECLAIM: Duration = Duration::from_secs(600);

/// A rule that is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutation {
    None,
    /// What has the label of a syncer is ours.
    LabelAlone,
    /// An orphan is deleted after one look.
    OneLook,
    /// Live reads are answered out of the cache.
    CacheIsProof,
    /// A cluster counts as set back by its revision only.
    VersionAlone,
    /// A machine is claimed after its virtual node was made.
    ClaimAfter,
    /// Writes carry no resourceVersion.
    NoVersion,
    /// The guard allows everything.
    GuardOff,
    /// A lease is renewed with the time of the clock.
    RenewNow,
    /// The last valid spec of a policy is remembered by the process alone.
    LastValidForgotten,
    /// A batch that is held is forgotten with its process.
    HeldForgotten,
    /// What pods tolerate does not count.
    NothingTolerated,
    /// A binding that is gone counts as one that stands.
    NotAdopted,
    /// A virtual node that its watch shows no more is gone.
    LeftIsGone,
}

/// What is read of the two clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Physical nodes.
    Machines,
    /// Physical pods.
    Copies,
    Policies,
    /// Virtual nodes.
    Lent,
    /// Virtual pods.
    Pods,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Machines, Self::Copies, Self::Policies, Self::Lent, Self::Pods];

    fn side(self) -> Side {
        match self {
            Self::Machines | Self::Copies | Self::Policies => Side::Physical,
            Self::Lent | Self::Pods => Side::Virtual,
        }
    }
}

fn binding_of(process: usize) -> usize {
    if process == WESTERN { WEST } else { EAST }
}

fn machine_name(node: usize) -> String {
    format!("w{node}")
}

/// A history of so many deeds at most, and what it broke. Then everything becomes calm.
fn live(mutation: Mutation, seed: u64, length: usize) -> (Vec<Deed>, Option<String>) {
    let mut dice = Dice(seed);
    let mut mix = Mix::draw(&mut dice);
    let mut world = World::new(mutation);
    let mut deeds = Vec::new();
    while deeds.len() < length && world.broken.is_none() {
        let possible = world.possible(&mix, &mut dice);
        let Some(deed) = dice.weighted(possible) else {
            mix = Mix::draw(&mut dice);
            continue;
        };
        deeds.push(deed);
        world.deed(deed);
    }
    if world.broken.is_none() {
        world.calm();
    }
    (deeds, world.broken)
}

/// Plays a history to its calm end, and says what it broke.
fn play(mutation: Mutation, deeds: &[Deed]) -> Option<String> {
    let mut world = World::new(mutation);
    for deed in deeds {
        world.deed(*deed);
        if world.broken.is_some() {
            return world.broken;
        }
    }
    world.calm();
    world.broken
}

/// The same history without what it does not need to break something.
fn shortest(mutation: Mutation, deeds: Vec<Deed>) -> Vec<Deed> {
    chance::shortest(deeds, |fewer| play(mutation, fewer).is_some())
}

/// How much is tried, where more time is given; the seeds begin with 0, always.
#[allow(clippy::disallowed_methods, reason = "not what is tested, but how much of it")]
fn effort(usual: u64) -> u64 {
    std::env::var("TOPOLOOM_HISTORIES").ok().and_then(|effort| effort.parse().ok()).unwrap_or(usual)
}

/// How many histories are played where every rule is kept, and how long they are.
const HISTORIES: u64 = 60;
const LENGTH: usize = 120;
/// How many are tried against a mutation that the written history does not show.
const TRIES: u64 = 60;

#[test]
fn the_world_begins_at_rest() {
    let mut world = World::new(Mutation::None);
    assert_eq!(world.broken, None);
    world.calm();
    assert_eq!(world.broken, None);
}

#[test]
fn nothing_foreign_or_unknown_is_touched_and_every_history_comes_to_rest_at_the_right_state() {
    for seed in 0..effort(HISTORIES) {
        let (deeds, broken) = live(Mutation::None, seed, LENGTH);
        assert!(broken.is_none(), "seed {seed}: {broken:?}\n{:?}", shortest(Mutation::None, deeds));
    }
}

/// While a restore waits for an operator no number is raised. So a second one, of the other cluster to a moment of that time, would go
/// unseen: no history has it.
#[test]
fn s25_after_a_restore_of_one_cluster_the_other_one_goes_back_only_to_what_the_witness_shows() {
    assert_eq!(play(Mutation::None, &written::restored_twice()), None);
}

/// What an operator has read of one restore confirms no other.
#[test]
fn s25_a_second_restore_is_not_confirmed_with_the_first_one() {
    for revision in [Revision::Raised, Revision::Lower] {
        let mut world = World::new(Mutation::None);
        let first = [Deed::Pass(250), Deed::Restore(Side::Physical, revision), Deed::Catch(0), Deed::Do(0, 0)];
        first.into_iter().for_each(|deed| world.deed(deed));
        world.deed(Deed::Pass(61));
        world.deed(Deed::Catch(0));
        assert_eq!((world.processes[0].restored, world.epochs()), (Restored::Yes, [1, 0]), "{revision:?}");
        world.deed(Deed::Restore(Side::Virtual, revision));
        assert_eq!(world.epochs(), [1, 1], "{revision:?}");
        let confirms = |world: &mut World| {
            world.deed(Deed::Confirm(0));
            world.processes[0].restored
        };
        assert_eq!(confirms(&mut world), Restored::Yes, "{revision:?}");
        world.deed(Deed::Catch(0));
        assert_eq!(confirms(&mut world), Restored::No, "{revision:?}");
        world.calm();
        assert_eq!(world.broken, None, "{revision:?}");
    }
}

#[test]
fn s9_a_patch_of_a_node_whose_closing_is_held_releases_no_other_node() {
    let history = written::closed_unannounced();
    let mut world = World::new(Mutation::None);
    history.iter().for_each(|deed| world.deed(*deed));
    let held = world.processes[0].guard.held().map(|batch| batch.nodes);
    assert_eq!((world.broken, held), (None, Some(2)));
    assert_eq!(play(Mutation::None, &history), None);
}

#[test]
fn s9_what_an_operator_confirmed_goes_on_after_a_restart_and_waits_for_no_second_confirmation() {
    let history = written::confirmed();
    let mut world = World::new(Mutation::None);
    let held: Vec<bool> = history
        .iter()
        .map(|deed| {
            world.deed(*deed);
            world.processes[0].guard.held().is_some()
        })
        .collect();
    let confirmed = history.iter().position(|deed| matches!(deed, Deed::Confirm(_))).unwrap();
    assert!(held[confirmed - 1] && !held[confirmed..].contains(&true), "{held:?}");
    assert_eq!(world.broken, None);
    assert_eq!(play(Mutation::None, &history), None);
}

/// A history that shows the mutation is found, and is harmless where the rule is kept.
fn fails_under(mutation: Mutation, invariant: &str) {
    let written = written::history(mutation);
    let shown = play(mutation, &written).map(|broken| (written, broken));
    let drawn = || {
        (0..effort(TRIES)).find_map(|seed| {
            let (deeds, broken) = live(mutation, seed, LENGTH);
            broken.map(|broken| (shortest(mutation, deeds), broken))
        })
    };
    let Some((deeds, broken)) = shown.or_else(drawn) else { panic!("{mutation:?} breaks nothing") };
    println!("{mutation:?}: {broken}\n{deeds:?}");
    assert!(broken.starts_with(invariant), "{broken}\n{deeds:?}");
    assert_eq!(play(Mutation::None, &deeds), None, "{deeds:?}");
}

#[test]
fn fails_under_identity_by_label_alone() {
    fails_under(Mutation::LabelAlone, "ownership");
}

#[test]
fn fails_under_one_look_for_an_orphan() {
    fails_under(Mutation::OneLook, "two looks");
}

#[test]
fn fails_under_a_cache_taken_as_proof_of_absence() {
    fails_under(Mutation::CacheIsProof, "proof");
}

#[test]
fn fails_under_a_restore_noticed_by_version_alone() {
    fails_under(Mutation::VersionAlone, "restore");
}

#[test]
fn fails_under_a_claim_after_creation() {
    fails_under(Mutation::ClaimAfter, "claim");
}

#[test]
fn fails_under_writes_without_resource_version() {
    fails_under(Mutation::NoVersion, "user");
}

#[test]
fn fails_under_a_guard_that_is_off() {
    fails_under(Mutation::GuardOff, "guard");
}

#[test]
fn fails_under_a_renewal_with_the_time_of_the_clock() {
    fails_under(Mutation::RenewNow, "renewal");
}

#[test]
fn fails_under_a_last_valid_policy_that_a_restart_forgets() {
    fails_under(Mutation::LastValidForgotten, "end");
}

#[test]
fn fails_under_a_held_batch_that_a_restart_forgets() {
    fails_under(Mutation::HeldForgotten, "held");
}

#[test]
fn fails_under_toleration_seconds_that_do_not_count() {
    fails_under(Mutation::NothingTolerated, "grace");
}

#[test]
fn fails_under_a_binding_that_is_gone_and_counts_as_one_that_stands() {
    fails_under(Mutation::NotAdopted, "end");
}

/// Also across a restart pods go when the grace is over, and no sooner.
#[test]
fn s17_a_user_who_takes_the_taint_of_closed_windows_off_or_its_time_gains_no_time() {
    let mut world = World::new(Mutation::None);
    let runs = |world: &World| {
        let twin = world.server(Side::Virtual).store.pods.get(&pods::twin_key(0));
        twin.is_some_and(|twin| twin.deletion.is_none())
    };
    let (before, last) = written::untainted();
    for (deeds, still_runs) in [(before, true), (last, false)] {
        deeds.into_iter().for_each(|deed| world.deed(deed));
        assert_eq!((world.broken.as_deref(), runs(&world)), (None, still_runs));
    }
    world.calm();
    assert_eq!(world.broken, None);
}

#[test]
fn fails_under_a_virtual_node_that_its_watch_shows_no_more_and_that_counts_as_gone() {
    fails_under(Mutation::LeftIsGone, "lease");
}

/// What an operator holds back is not written, and is written when that ends.
#[test]
fn s23_s27_a_pause_takes_and_makes_nothing_and_a_binding_that_observes_or_is_read_only_writes_nothing() {
    for bar in [Bar::Paused, Bar::Observing, Bar::ReadOnly] {
        let mut world = World::new(Mutation::None);
        world.hindered = Some(bar);
        let before = world.writes;
        written::busy().into_iter().for_each(|deed| world.deed(deed));
        assert_eq!(world.broken, None, "{bar}");
        assert_eq!(world.writes > before, bar == Bar::Paused, "{bar}");
        world.calm();
        assert_eq!(world.broken, None, "{bar}");
        assert!(world.writes > before, "{bar}");
    }
}
