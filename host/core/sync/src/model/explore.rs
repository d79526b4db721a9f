//! All orders of a small world: one node with one pod, its two processes, and each kind of trouble at most once.

use super::actors::{Borrower, Deletion, Lender, Pool, Spoilt};
use super::server::Revision;
use super::*;

/// How many deeds a history has.
const DEPTH: usize = 4;

/// What can happen, each at most once.
const MENU: [Deed; 11] = [
    Deed::Do(0, 0),
    Deed::Do(1, 0),
    Deed::Pod(0, 0),
    Deed::Delay(0),
    Deed::Late(0),
    Deed::Catch(0),
    Deed::TakeOver,
    Deed::Lender(Lender::Relabel(0, Pool::None)),
    Deed::Borrower(Borrower::Taint(0)),
    Deed::Borrower(Borrower::Spoil(0, Spoilt::Missing(keys::VIRTUAL_CLUSTER))),
    Deed::Borrower(Borrower::Delete(0, Deletion::Forced)),
];

/// What has happened before: the machine is cordoned, which is a taint to write, and the pod has been an orphan for the time
/// between two looks.
const BEFORE: [Deed; 4] =
    [Deed::Lender(Lender::Cordon(0)), Deed::Borrower(Borrower::Strip(0)), Deed::Catch(0), Deed::Pod(0, 0)];

/// Every order of so many of them. Returns how many there are, and the first that breaks something.
fn explore(world: &World, path: &mut Vec<usize>, count: &mut usize) -> Option<(String, Vec<Deed>)> {
    for (index, deed) in MENU.iter().enumerate() {
        if path.contains(&index) {
            continue;
        }
        let mut next = world.clone();
        next.deed(*deed);
        // The process that took over has read everything.
        if matches!(deed, Deed::TakeOver) {
            next.deed(Deed::Catch(next.leader));
        }
        path.push(index);
        *count += 1;
        if let Some(broken) = next.broken.clone() {
            return Some((broken, path.iter().map(|index| MENU[*index]).collect()));
        }
        if path.len() < DEPTH
            && let Some(found) = explore(&next, path, count)
        {
            return Some(found);
        }
        path.pop();
    }
    None
}

#[test]
fn no_order_of_two_processes_and_one_trouble_of_each_kind_breaks_it() {
    // The taint is one request, and the second of two where the kubelet is not ready, too, which is a status to write.
    for (first, requests) in [(None, 1), (Some(Deed::Lender(Lender::Ready(0, "False"))), 2)] {
        let mut world = World::new(Mutation::None);
        first.into_iter().chain(BEFORE).for_each(|deed| world.deed(deed));
        world.deed(Deed::Pass(31));
        let mut decided = world.clone();
        decided.deed(Deed::Look(0, 0));
        assert_eq!(decided.processes[0].plan.as_ref().map(|plan| plan.orders.len()), Some(requests));
        let mut count = 0;
        let found = explore(&world, &mut Vec::new(), &mut count);
        println!("{count} states");
        assert_eq!(found.map(|(broken, path)| format!("{broken}: {path:?}")), None);
    }
}

/// Where a cluster is set back at each step of a small history, everything comes to rest after an operator has looked.
#[test]
fn s25_a_restore_at_any_step_of_a_life_is_noticed_and_comes_to_rest() {
    let life = [
        Deed::Borrower(Borrower::Schedule(1)),
        Deed::Borrower(Borrower::TopDown(1)),
        Deed::Borrower(Borrower::TopDown(1)),
        Deed::Borrower(Borrower::TopDown(1)),
        Deed::Catch(0),
        Deed::Pass(70),
        Deed::Lender(Lender::Relabel(2, Pool::Gpu)),
        Deed::Catch(0),
        Deed::Do(0, 2),
        Deed::Pass(70),
        Deed::Lender(Lender::Relabel(0, Pool::None)),
        Deed::Catch(0),
        Deed::Do(0, 0),
    ];
    for side in [Side::Physical, Side::Virtual] {
        for revision in [Revision::Lower, Revision::Raised] {
            for step in 0..=life.len() {
                let mut deeds = life.to_vec();
                deeds.insert(step, Deed::Restore(side, revision));
                assert_eq!(play(Mutation::None, &deeds), None, "{side:?} {revision:?} {step}");
            }
        }
    }
}
