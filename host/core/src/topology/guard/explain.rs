//! Explains the loss of each stored object by its Nodes, and counts the unexplained rest for the rules.

use std::collections::BTreeMap;

use super::{FEW, GuardedRound, Loss};
use crate::snapshot::View;
use crate::topology::model::{Object, Spec};
use crate::topology::select::Chooser;

/// How many splits are followed back.
const SPLITS: usize = 8;

/// The numbers that the rules compare. Explained objects are only in `explained`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GuardCounts {
    pub(super) explained: u64,
    pub(super) objects: u64,
    pub(super) deletes: u64,
    /// Whether the Nodes of some object are unknown.
    pub(super) is_unknown: bool,
}

/// The Nodes that one spec lists itself, as rows of the present view. Nodes that no longer exist are explained by that.
#[derive(Debug, Default)]
pub(super) struct ListedNodes {
    /// Those that it places now.
    pub(super) placed: Vec<u32>,
    /// Those that its selectors chose at the baseline. A Node that left a selector by a change of its own labels lost
    /// its place through no write of ours, but the object represented it.
    chosen_before: Vec<u32>,
    /// A selector reads a label that no view has.
    is_unknown: bool,
    /// A selector chooses no Node, and what it chose before is not known.
    is_vague: bool,
}

/// The Nodes that a spec lists, in the baseline and now.
pub(super) fn listed(spec: &Spec, then: Option<&View>, now: &View) -> ListedNodes {
    let mut listed = ListedNodes {
        placed: spec.exact_nodes().filter_map(|name| now.find(name)).collect(),
        ..ListedNodes::default()
    };
    for chooser in spec.members.iter().filter_map(Chooser::of) {
        let present = chooser.rows(now);
        let past = then.and_then(|then| {
            let rows = chooser.rows(then)?;
            let names = rows.iter().filter_map(|row| then.names().get(*row as usize));
            Some(names.filter_map(|name| now.find(name)).collect::<Vec<u32>>())
        });
        listed.is_unknown |= present.is_none() && past.is_none();
        listed.is_vague |= past.is_none() && present.as_ref().is_some_and(Vec::is_empty);
        // Where the present is unknown, the past is used: rather count too many Nodes that could lose than too few.
        listed.placed.extend(present.as_ref().or(past.as_ref()).into_iter().flatten());
        listed.chosen_before.extend(past.into_iter().flatten());
    }
    listed
}

/// Counts a round. Returns only the loss when the round takes a place from no Node: that is the usual round, and
/// nothing needs an explanation then.
pub(super) fn count(round: &GuardedRound<'_>) -> (Loss, Option<GuardCounts>) {
    let GuardedRound { stored, desired, now, .. } = round;
    let mut listed: Vec<ListedNodes> = stored.iter().map(|object| listed(&object.spec, round.baseline, now)).collect();
    let (loss, strangers) = lost(round, &listed);
    let keeps_all = stored.iter().all(|object| desired.names.contains(&object.name));
    if keeps_all && loss.fresh == 0 {
        return (loss, None);
    }

    for listed in &mut listed {
        listed.is_unknown |= listed.is_vague && strangers > FEW;
    }
    let unexplained = unexplained(round, &listed, loss.is_few(round.safety));
    let left: Vec<&&Object> =
        stored.iter().zip(&unexplained).filter(|(_, is_left)| **is_left).map(|(object, _)| object).collect();
    let counts = GuardCounts {
        explained: (stored.len() - left.len()) as u64,
        objects: left.len() as u64,
        deletes: left.iter().filter(|object| !desired.names.contains(&object.name)).count() as u64,
        is_unknown: listed.iter().any(|listed| listed.is_unknown),
    };
    (loss, Some(counts))
}

/// The lost part of the reference, and how many Nodes without a place are not in the reference, as far as is known.
fn lost(round: &GuardedRound<'_>, listed: &[ListedNodes]) -> (Loss, u64) {
    let GuardedRound { stored, desired, now, losses, .. } = round;
    let mut had = vec![Had::Nothing; now.rows() as usize];
    let mut mark = |row: u32, place| {
        if let Some(had) = had.get_mut(row as usize) {
            *had = place;
        }
    };
    losses.names().filter_map(|name| now.find(name)).for_each(|row| mark(row, Had::PlaceLately));
    for (object, listed) in stored.iter().zip(listed) {
        // A Node that left a selector by itself loses its place through us only if its object is deleted.
        let past: &[u32] = if desired.names.contains(&object.name) { &[] } else { &listed.chosen_before };
        listed.placed.iter().chain(past).for_each(|row| mark(*row, Had::Place));
    }
    let mut loss = Loss { is_held: losses.is_held(), ..Loss::default() };
    let mut strangers = 0;
    for ((had, name), row) in had.iter().zip(now.names()).zip(0..) {
        let is_lost = !desired.places(row);
        match had {
            Had::Nothing => strangers += u64::from(is_lost),
            Had::Place | Had::PlaceLately => {
                loss.reference += 1;
                if is_lost {
                    loss.lost += 1;
                    loss.fresh += u64::from(*had == Had::Place);
                    loss.names.push(name.clone());
                }
            }
        }
    }
    // Any of these Nodes may be one of those of which only the number is known.
    let unnamed = losses.unnamed().min(strangers);
    loss.reference += unnamed;
    loss.lost += unnamed;
    (loss, strangers)
}

/// The place of a Node before the round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Had {
    /// It is not in the reference.
    Nothing,
    /// An earlier result, which was written within `holdFor`, took its place.
    PlaceLately,
    /// A stored object lists it.
    Place,
}

/// For each stored object, whether a Node at or below it forbids the deletion: a Node that exists and has an unchanged
/// place, or that is lost together with too many others.
fn unexplained(round: &GuardedRound<'_>, listed: &[ListedNodes], lost_are_few: bool) -> Vec<bool> {
    let by_name: BTreeMap<&str, usize> = (0..).zip(round.stored).map(|(i, object)| (&*object.name, i)).collect();
    let mut parents: Vec<Vec<usize>> = vec![Vec::new(); round.stored.len()];
    for (i, object) in round.stored.iter().enumerate() {
        for child in object.spec.children().filter_map(|child| by_name.get(&**child)) {
            if let Some(parents) = parents.get_mut(*child) {
                parents.push(i);
            }
        }
    }
    let mut known: Vec<Option<bool>> = vec![None; round.now.rows() as usize];
    let mut changed = |row: u32| match known.get_mut(row as usize) {
        Some(known) => *known.get_or_insert_with(|| has_changed(round, row)),
        None => false,
    };
    let mut is_excused = |row: u32| if round.desired.places(row) { changed(row) } else { lost_are_few };
    let mut is_unexplained = |listed: &ListedNodes| {
        listed.is_unknown || listed.placed.iter().chain(&listed.chosen_before).any(|row| !is_excused(*row))
    };
    let mut unexplained: Vec<bool> = listed.iter().map(&mut is_unexplained).collect();
    // A Node below a child is also below its parents. Each object is visited once on the way up, so cycles end.
    let mut open: Vec<usize> = unexplained.iter().enumerate().filter(|(_, is)| **is).map(|(i, _)| i).collect();
    while let Some(i) = open.pop() {
        for parent in parents.get(i).into_iter().flatten() {
            if let Some(is) = unexplained.get_mut(*parent).filter(|is| !**is) {
                *is = true;
                open.push(*parent);
            }
        }
    }
    for ((object, listed), is_unexplained) in round.stored.iter().zip(listed).zip(&mut unexplained) {
        *is_unexplained &= !is_other_half(round, &by_name, object, listed);
    }
    unexplained
}

/// Whether an object is deleted because a move is over and it was one half of it. The object that it was split from
/// still exists and has its Nodes, under the older name (decision H3). The Nodes that moved first are unchanged since
/// the baseline.
fn is_other_half(
    round: &GuardedRound<'_>,
    by_name: &BTreeMap<&str, usize>,
    object: &Object,
    listed: &ListedNodes,
) -> bool {
    if round.desired.names.contains(&object.name) || !listed.placed.iter().all(|row| round.desired.places(*row)) {
        return false;
    }
    let mut origin = object.split_from.as_ref();
    for _ in 0..SPLITS {
        let Some(name) = origin else { return false };
        if round.desired.names.contains(name) {
            return true;
        }
        let stored = by_name.get(&**name).and_then(|at| round.stored.get(*at));
        origin = stored.and_then(|object| object.split_from.as_ref());
    }
    false
}

/// Whether an existing Node has another value than at the baseline in a required column. A Node that did not exist then
/// had no values. A column that one of the views lacks shows no change.
fn has_changed(round: &GuardedRound<'_>, row: u32) -> bool {
    let (Some(then), Some(name)) = (round.baseline, round.now.names().get(row as usize)) else { return false };
    let row_then = then.find(name);
    round.required.iter().any(|key| match (then.column(key), round.now.column(key)) {
        (Some(old), Some(new)) => row_then.and_then(|row| old.value(row)) != new.value(row),
        _ => false,
    })
}
