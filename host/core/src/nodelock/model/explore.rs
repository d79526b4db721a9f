//! All orders of a small world, to a small depth.

use super::world::*;
use super::*;

/// What can happen in a small world: two processes that bind two pods to one node, the sweeper, a kubelet, and each kind of
/// trouble at most once.
fn moves(world: &World, path: &[Deed]) -> Vec<Deed> {
    let once = |deed: fn(&Deed) -> bool| !path.iter().any(deed);
    let latest = world.history.len() - 1;
    let mut all = Vec::new();
    for at in [0, 1, SWEEPER] {
        let process = &world.processes[at];
        match (&process.machine, &process.sent) {
            (None, _) if at == SWEEPER => {
                all.extend(once(|deed| matches!(deed, Deed::Sweep(..))).then_some(Deed::Sweep(at, 0)))
            }
            (None, _) => {}
            (Some(_), None) => all.push(Deed::Send(at)),
            (Some(_), Some(sent)) => {
                all.push(if sent.reply.is_some() { Deed::Answer(at) } else { Deed::Serve(at) });
                all.extend(once(|deed| matches!(deed, Deed::Lose(_))).then_some(Deed::Lose(at)));
                let refuses = sent.writes() && sent.reply.is_none() && once(|deed| matches!(deed, Deed::Refuse(_)));
                all.extend(refuses.then_some(Deed::Refuse(at)));
            }
        }
        if process.machine.is_some() && (process.nodes < latest || process.pods < latest) {
            all.push(Deed::Catch(at));
        }
    }
    if once(|deed| matches!(deed, Deed::GiveUp(_))) && world.processes[0].machine.is_some() {
        all.push(Deed::GiveUp(0));
    }
    if once(|deed| matches!(deed, Deed::Force(_) | Deed::Delete(_))) {
        all.extend([Deed::Force(0), Deed::Delete(0)]);
    }
    if once(|deed| matches!(deed, Deed::Pass(_))) {
        all.push(Deed::Pass(61_000));
    }
    if !world.late.is_empty() {
        all.push(Deed::Late(0));
    }
    let waits = world.store().pods.values().any(|stored| stored.pod.waits_on(&name_of(0)));
    if waits || world.kubelets[0].asks.is_some() || !world.ghosts.is_empty() {
        all.push(Deed::Kubelet(0));
    }
    all
}

/// Two worlds with the same print and the same future faults continue alike.
fn print_of(world: &World, path: &[Deed]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let oldest = world.processes.iter().map(|process| process.nodes.min(process.pods)).min().unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    let World { now, processes, late, kubelets, ghosts, .. } = world;
    // In any order: each of them happens once.
    let mut trouble = 0_u64;
    for deed in path.iter().filter(|deed| deed.is_trouble()) {
        let mut one = DefaultHasher::new();
        std::mem::discriminant(deed).hash(&mut one);
        trouble = trouble.wrapping_add(one.finish());
    }
    (trouble, now, &world.history[oldest..], processes, late, kubelets, ghosts).hash(&mut hasher);
    hasher.finish()
}

/// Every order of everything, to a depth in which both pods can be bound and served; and how many states were continued.
fn explore(mutation: Mutation, depth: usize) -> (usize, Option<(String, Vec<Deed>)>) {
    let mut world = World::new(mutation);
    world.start(0, 0, 0);
    world.start(1, 1, 0);
    let (mut layer, mut seen) = (vec![(world, Vec::new())], std::collections::HashSet::new());
    for left in (0..depth).rev() {
        let mut next = Vec::new();
        for (world, path) in layer {
            for deed in moves(&world, &path) {
                let mut world = world.clone();
                let mut path = path.clone();
                path.push(deed);
                world.deed(deed);
                if let Some(broken) = world.broken {
                    return (seen.len(), Some((broken, path)));
                }
                // Nothing follows the last deed.
                if left > 0 && seen.insert(print_of(&world, &path)) {
                    next.push((world, path));
                }
            }
        }
        layer = next;
    }
    (seen.len(), None)
}

#[test]
fn no_order_of_two_binds_a_sweep_and_one_trouble_of_each_kind_breaks_it() {
    let depth = usize::try_from(effort("TOPOLOOM_DEPTH", 8)).unwrap();
    let (states, broken) = explore(Mutation::None, depth);
    println!("{states} states before the last of {depth} deeds");
    assert_eq!(broken.map(|(broken, path)| format!("{broken}: {path:?}")), None);
}
