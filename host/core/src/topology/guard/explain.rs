//! What became of the Nodes below each stored object, and what the rules count after that.

use std::collections::BTreeMap;

use super::Round;
use crate::snapshot::View;
use crate::status::select::Chooser;
use crate::topology::model::Spec;

/// What the rules look at: explained objects are left out of all but `explained`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) explained: u64,
    pub(super) objects: u64,
    pub(super) deletes: u64,
    /// Existing Nodes that an object lists itself.
    pub(super) placed: u64,
    /// Those that the result places nowhere.
    pub(super) loses: u64,
}

/// The Nodes that one spec lists itself, as rows of the present view: Nodes that are gone explain themselves.
#[derive(Debug, Default)]
pub(super) struct Listed {
    /// Those that it places now.
    pub(super) placed: Vec<u32>,
    /// Those that its selectors chose at the baseline. A Node that left a selector by its own labels lost nothing
    /// through us, but it is what the object stood for.
    chosen_before: Vec<u32>,
    /// A selector reads a label that no view has.
    is_unknown: bool,
}

/// What a spec lists, between two views.
pub(super) fn listed(spec: &Spec, then: Option<&View>, now: &View) -> Listed {
    let mut listed =
        Listed { placed: spec.exact_nodes().filter_map(|name| now.find(name)).collect(), ..Listed::default() };
    for chooser in spec.members.iter().filter_map(Chooser::of) {
        let present = chooser.rows(now);
        let past = then.and_then(|then| {
            let rows = chooser.rows(then)?;
            let names = rows.iter().filter_map(|row| then.names().get(*row as usize));
            Some(names.filter_map(|name| now.find(name)).collect::<Vec<u32>>())
        });
        listed.is_unknown |= present.is_none() && past.is_none();
        // Where the present is unknown, the past stands for it: rather too many that could lose than too few.
        listed.placed.extend(present.as_ref().or(past.as_ref()).into_iter().flatten());
        listed.chosen_before.extend(past.into_iter().flatten());
    }
    listed
}

/// Counts a round. `None` when it takes nothing from anybody, which is what nearly every round does: then nothing needs
/// to be explained.
pub(super) fn count(round: &Round<'_>) -> Option<Counts> {
    let Round { stored, desired, now, .. } = round;
    let listed: Vec<Listed> = stored.iter().map(|object| listed(&object.spec, round.baseline, now)).collect();
    let keeps_all = stored.iter().all(|object| desired.names.contains(&object.name));
    if keeps_all && listed.iter().flat_map(|listed| &listed.placed).all(|row| desired.places(*row)) {
        return None;
    }

    let unexplained = unexplained(round, &listed);
    let left: Vec<_> = stored.iter().zip(&listed).zip(&unexplained).filter(|(_, is_left)| **is_left).collect();
    let mut counts = Counts {
        explained: (stored.len() - left.len()) as u64,
        objects: left.len() as u64,
        deletes: left.iter().filter(|((object, _), _)| !desired.names.contains(&object.name)).count() as u64,
        placed: 0,
        loses: 0,
    };
    let mut seen = vec![false; now.rows() as usize];
    for row in left.iter().flat_map(|((_, listed), _)| &listed.placed) {
        if let Some(seen) = seen.get_mut(*row as usize).filter(|seen| !**seen) {
            *seen = true;
            counts.placed += 1;
            counts.loses += u64::from(!desired.places(*row));
        }
    }
    Some(counts)
}

/// For each stored object, whether a Node at or below it exists and is as it was.
fn unexplained(round: &Round<'_>, listed: &[Listed]) -> Vec<bool> {
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
    let mut is_unexplained = |listed: &Listed| {
        listed.is_unknown || listed.placed.iter().chain(&listed.chosen_before).any(|row| !changed(*row))
    };
    let mut unexplained: Vec<bool> = listed.iter().map(&mut is_unexplained).collect();
    // A Node below a child is below its parents: upwards, each object once, so cycles end.
    let mut open: Vec<usize> = unexplained.iter().enumerate().filter(|(_, is)| **is).map(|(i, _)| i).collect();
    while let Some(i) = open.pop() {
        for parent in parents.get(i).into_iter().flatten() {
            if let Some(is) = unexplained.get_mut(*parent).filter(|is| !**is) {
                *is = true;
                open.push(*parent);
            }
        }
    }
    unexplained
}

/// Whether a Node that exists has another value than at the baseline in a required column. A Node that was not there
/// had no values. What one of the views does not hold shows no change.
fn has_changed(round: &Round<'_>, row: u32) -> bool {
    let (Some(then), Some(name)) = (round.baseline, round.now.names().get(row as usize)) else { return false };
    let row_then = then.find(name);
    round.required.iter().any(|key| match (then.column(key), round.now.column(key)) {
        (Some(old), Some(new)) => row_then.and_then(|row| old.value(row)) != new.value(row),
        _ => false,
    })
}
