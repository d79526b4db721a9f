//! Plans: whichever part of them is executed in whichever allowed order, no state has a fault.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::cluster::{Cluster, Fault, Versions};
use super::consumer::Consumer;
use super::draw::{
    Damage, Dice, Drawing, any_drawing, apply_damage, chained_drawing, crowded_drawing, damage, drawing, source,
};
use crate::topology::plan::{Obstacle, Plan};
use crate::topology::{Forest, Named};

/// Two drawings, mostly of one kind: only similar drawings make circles.
fn two_drawings() -> impl Strategy<Value = (Drawing, Drawing)> {
    prop_oneof![
        (any_drawing(), any_drawing()),
        (drawing(), drawing()),
        (crowded_drawing(), crowded_drawing()),
        (chained_drawing(), chained_drawing()),
    ]
}

/// Which steps of a plan are run, in which order.
fn an_execution(plan: &Plan, seed: u64, failures: Failures) -> Vec<usize> {
    let mut dice = Dice(seed | 1);
    let mut done = BTreeSet::new();
    let mut failed = BTreeSet::new();
    let mut order = Vec::new();
    loop {
        let can_run = |at: &usize| {
            let step = &plan.steps[*at];
            !done.contains(at) && !failed.contains(at) && step.after.iter().all(|d| done.contains(&d.step.0))
        };
        let ready: Vec<usize> = (0..plan.steps.len()).filter(can_run).collect();
        let Some(next) = ready.get(dice.below(ready.len())) else { return order };
        let fails = match failures {
            Failures::None => false,
            Failures::Some => dice.below(5) == 0,
        };
        if fails {
            failed.insert(*next);
        } else {
            done.insert(*next);
            order.push(*next);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failures {
    None,
    Some,
}

/// Executes steps and checks the cluster after each. Only the faults of the start may be seen.
fn watch(start: &Cluster, plan: &Plan, order: &[usize]) -> Result<Cluster, TestCaseError> {
    let allowed = start.faults();
    let mut consumer = allowed.is_empty().then(|| Consumer::start(start));
    if let Some(trouble) = consumer.as_ref().and_then(Consumer::trouble) {
        return Err(TestCaseError::fail(format!("a start without faults is trouble: {trouble}")));
    }
    let mut cluster = start.clone();
    let mut versions = Versions::new();
    for at in order {
        let step = &plan.steps[*at];
        cluster.step(*at, step, &source(), &mut versions);
        let new: Vec<Fault> = cluster.faults().difference(&allowed).cloned().collect();
        prop_assert!(new.is_empty(), "after step {}: {new:?}\nin {order:?} of\n{plan}", at + 1);
        if let Some(consumer) = &mut consumer {
            consumer.event(&cluster, &step.name);
            let trouble = consumer.trouble();
            prop_assert!(trouble.is_none(), "after step {}: {trouble:?}\nin {order:?} of\n{plan}", at + 1);
        }
    }
    if let Some(consumer) = consumer {
        let fresh = Consumer::start(&cluster);
        prop_assert_eq!(&consumer, &fresh, "the scheduler's tree is not what is stored, after\n{}", plan);
    }
    Ok(cluster)
}

/// Everything that must hold while `start` becomes `forest`.
fn check_way(start: &Cluster, forest: &Forest, seed: u64) -> Result<(), TestCaseError> {
    let named = start.named(forest, &source());
    let plan = start.plan(&named);
    prop_assert!(plan.blocked.iter().all(|blocked| blocked.why != Obstacle::NoOrder), "{plan}\nfrom\n{start}");
    for (at, step) in plan.steps.iter().enumerate() {
        prop_assert!(step.after.iter().all(|dependency| dependency.step.0 < at), "not in order:\n{plan}");
    }

    // In the plan's own order, and so for every prefix of it.
    let in_order: Vec<usize> = (0..plan.steps.len()).collect();
    let end = watch(start, &plan, &in_order)?;
    if plan.blocked.is_empty() {
        prop_assert_eq!(end.differences(&named), Vec::<String>::new(), "after\n{}", plan);
    }
    check_is_settled(&end, forest, &plan)?;

    // In other orders, and with failures.
    let other_end = watch(start, &plan, &an_execution(&plan, seed, Failures::None))?;
    prop_assert_eq!(specs(&other_end), specs(&end));
    let mut reached = watch(start, &plan, &an_execution(&plan, seed, Failures::Some))?;
    for only in 0..plan.steps.len() {
        let mut lost = BTreeSet::from([only]);
        for (at, step) in plan.steps.iter().enumerate() {
            if step.after.iter().any(|dependency| lost.contains(&dependency.step.0)) {
                lost.insert(at);
            }
        }
        let order: Vec<usize> = in_order.iter().copied().filter(|at| !lost.contains(at)).collect();
        watch(start, &plan, &order)?;
    }

    // Planning again after any failure leads to the same end.
    let mut rounds = 0;
    loop {
        rounds += 1;
        let named = reached.named(forest, &source());
        let plan = reached.plan(&named);
        let order: Vec<usize> = (0..plan.steps.len()).collect();
        if order.is_empty() {
            break;
        }
        reached = watch(&reached, &plan, &order)?;
        prop_assert!(rounds <= 3, "no end of planning, last:\n{plan}");
    }
    Ok(())
}

fn specs(cluster: &Cluster) -> BTreeMap<Arc<str>, crate::topology::Spec> {
    cluster.objects.iter().map(|(name, object)| (name.clone(), object.spec.clone())).collect()
}

/// The next round of the same answer writes nothing. An object that could not be deleted may have changed its Nodes
/// below, so that it is matched to another domain; then the round after that writes nothing.
fn check_is_settled(end: &Cluster, forest: &Forest, plan: &Plan) -> Result<(), TestCaseError> {
    let mut end = end.clone();
    let mut last = plan.clone();
    for _ in 0..3 {
        let again = end.settle(forest, &source());
        if again.is_empty() {
            prop_assert!(again.blocked.is_empty() || !last.blocked.is_empty(), "again:\n{again}\nafter\n{last}");
            return Ok(());
        }
        prop_assert!(!last.blocked.is_empty(), "again:\n{again}\nafter\n{last}");
        last = again;
    }
    Err(TestCaseError::fail(format!("no end of planning, last:\n{last}")))
}

/// Whether every object could be written once: decision H7 read directly, without any code of the planner.
fn one_write_each_is_possible(start: &Cluster, named: &Named) -> bool {
    let children = |spec: &crate::topology::Spec| spec.children().cloned().collect::<BTreeSet<_>>();
    let stored = |name: &Arc<str>| start.objects.get(name).map(|object| children(&object.spec)).unwrap_or_default();
    let wanted = |name: &Arc<str>| named.objects.get(name).map(|object| children(&object.spec)).unwrap_or_default();
    let tier =
        |name: &Arc<str>| (start.objects.get(name).map(|o| o.spec.tier), named.objects.get(name).map(|o| o.spec.tier));
    let names: BTreeSet<Arc<str>> = start.objects.keys().chain(named.objects.keys()).cloned().collect();
    let mut before: BTreeMap<Arc<str>, BTreeSet<Arc<str>>> = BTreeMap::new();
    for name in &names {
        let mut after = BTreeSet::new();
        for other in names.iter().filter(|other| *other != name) {
            let released: BTreeSet<Arc<str>> = stored(other).difference(&wanted(other)).cloned().collect();
            let (mine, theirs) = (tier(name), tier(other));
            let claims_it = wanted(name).contains(other) && !stored(name).contains(other);
            let from_it = released.intersection(&wanted(name)).next().is_some();
            let is_freed = released.contains(name) && mine.1.is_none();
            // A link that is kept or new, where only one order keeps the parent above.
            let lowers = wanted(name).contains(other) && mine.1 <= theirs.0;
            let rises = stored(other).contains(name) && mine.1.is_some() && theirs.0 <= mine.1;
            if (claims_it && theirs.0.is_none()) || from_it || is_freed || lowers || rises {
                after.insert(other.clone());
            }
        }
        before.insert(name.clone(), after);
    }
    // No object waits for one that needs no write.
    let differs = |name: &Arc<str>| match (start.objects.get(name), named.objects.get(name)) {
        (Some(object), Some(wanted)) => stored(name) != children(&wanted.spec) || object.spec.tier != wanted.spec.tier,
        _ => true,
    };
    let mut open: BTreeSet<Arc<str>> = names.into_iter().filter(differs).collect();
    loop {
        let free: Vec<Arc<str>> = open.iter().filter(|name| before[*name].is_disjoint(&open)).cloned().collect();
        if free.is_empty() {
            return open.is_empty();
        }
        open.retain(|name| !free.contains(name));
    }
}

proptest! {
    #[test]
    fn every_way_between_two_topologies_is_free_of_faults((a, b) in two_drawings(), seed in any::<u64>()) {
        let start = a.stored();
        prop_assert_eq!(start.faults(), BTreeSet::new());
        let named = start.named(&b.forest(), &source());
        let plan = start.plan(&named);
        prop_assert!(plan.blocked.is_empty(), "{}", plan);
        check_way(&start, &b.forest(), seed)?;
    }

    #[test]
    fn an_object_is_written_once_unless_objects_wait_for_each_other((a, b) in two_drawings()) {
        let start = a.stored();
        let named = start.named(&b.forest(), &source());
        let plan = start.plan(&named);
        let mut writes: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
        for step in &plan.steps {
            *writes.entry(&step.name).or_default() += 1;
        }
        let most = writes.values().copied().max().unwrap_or(0);
        if one_write_each_is_possible(&start, &named) {
            prop_assert!(most <= 1, "{}", plan);
        }
        prop_assert!(most <= 3, "{}", plan);
    }

    #[test]
    fn an_unchanged_topology_writes_nothing(a in any_drawing()) {
        let start = a.stored();
        let plan = start.plan(&start.named(&a.forest(), &source()));
        prop_assert!(plan.is_empty() && plan.blocked.is_empty(), "{}", plan);
    }

    #[test]
    fn damage_is_not_made_worse_and_is_repaired(
        (a, b) in two_drawings(),
        harm in prop::collection::vec(damage(), 1..6),
        seed in any::<u64>(),
    ) {
        let mut start = a.stored();
        apply_damage(&mut start, &harm);
        check_way(&start, &b.forest(), seed)?;
        // Without objects of other owners nothing can be blocked, and the end has no fault.
        if !harm.iter().any(|harm| matches!(harm, Damage::Foreign(_) | Damage::Above(..))) {
            let plan = start.settle(&b.forest(), &source());
            prop_assert!(plan.blocked.is_empty(), "{}", plan);
            prop_assert_eq!(start.faults(), BTreeSet::new());
        }
    }

    #[test]
    fn a_plan_does_not_depend_on_the_order_of_the_stored_objects(
        (a, b) in two_drawings(),
        harm in prop::collection::vec(damage(), 0..4),
    ) {
        let mut start = a.stored();
        apply_damage(&mut start, &harm);
        let named = start.named(&b.forest(), &source());
        let mut backwards = start.observed();
        backwards.reverse();
        prop_assert_eq!(start.plan(&named), crate::topology::diff(&backwards, &named));
    }
}
