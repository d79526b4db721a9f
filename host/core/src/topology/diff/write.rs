//! The content of a write, and whether a write is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::table::Id;
use super::walk::{Moment, OrderedState, OtherMembers};
use super::world::{World, other_members, sorted};
use crate::topology::model::{Member, Object, Spec};
use crate::topology::naming::Desired;
use crate::topology::plan::{Annotations, Changed, Changes, Write};

/// Whether the stored object is as wanted, with these children.
pub(super) fn is_right(world: &World<'_>, id: Id, children: &[Id]) -> bool {
    let (Some(stored), Some(wanted)) = (world.stored[id], world.wanted[id]) else { return false };
    stored.spec.tier == wanted.spec.tier
        && stored.spec.tier_name == wanted.spec.tier_name
        && world.lists[id] == children
        && stored.group_id == wanted.group_id
        && stored.split_from == wanted.split_from
        && stored.description == wanted.description
        && labels_that_change(stored, wanted).is_empty()
        && world.other_members_are_right(id)
}

/// Label keys that are set, changed or removed. Labels of other programs stay. Ours are the wanted ones, those that our
/// field manager owns, and on Volcano's objects the label of its level.
fn labels_that_change(stored: &Object, wanted: &Desired) -> BTreeSet<Arc<str>> {
    let set = wanted.labels.iter().filter(|(key, value)| stored.labels.get(*key) != Some(value)).map(|(key, _)| key);
    let owned = stored.owned_labels.iter();
    let gone = owned.filter(|key| stored.labels.contains_key(*key) && !wanted.labels.contains_key(*key));
    set.chain(gone).cloned().chain(left_by_volcano(stored, wanted)).collect()
}

/// Label keys that an apply cannot remove, since another field manager owns them, alone or with us.
fn others_must_go(stored: &Object, wanted: &Desired) -> BTreeSet<Arc<str>> {
    let shared = stored.shared_labels.iter();
    let gone = shared.filter(|key| stored.labels.contains_key(*key) && !wanted.labels.contains_key(*key));
    gone.cloned().chain(left_by_volcano(stored, wanted)).collect()
}

/// Volcano labels an object with the key and value of its level, and the key is also its tier name. When such an object
/// becomes ours for a level with another key, that label would be wrong. An apply cannot remove it, since Volcano's
/// field manager owns it.
fn left_by_volcano(stored: &Object, wanted: &Desired) -> Option<Arc<str>> {
    let key = stored.spec.tier_name.as_ref()?;
    let made_by_volcano = stored.group_id.is_none() && wanted.group_id.is_some();
    let stale =
        stored.labels.contains_key(key) && !wanted.labels.contains_key(key) && !stored.owned_labels.contains(key);
    if made_by_volcano && stale { Some(Arc::clone(key)) } else { None }
}

/// What one moment of the history writes, if it writes and does not delete.
pub(super) fn write(world: &World<'_>, moment: &Moment, writes_before: Writes) -> Option<Write> {
    let spec = spec(world, moment.id, moment.after.as_ref()?);
    let (stored, wanted) = (world.stored[moment.id], world.wanted[moment.id]);
    Some(match (wanted, stored) {
        (Some(wanted), stored) => {
            let stale = stored.filter(|_| writes_before == Writes::None);
            let remove_labels = stale.map(|stored| others_must_go(stored, wanted)).unwrap_or_default();
            Write {
                spec,
                labels: wanted.labels.clone(),
                remove_labels,
                group_id: wanted.group_id.clone(),
                split_from: wanted.split_from.clone(),
                description: wanted.description.clone(),
            }
        }
        // It is about to be deleted: its list gets shorter, nothing else changes.
        (None, stored) => Write {
            spec,
            labels: stored.map(owned_labels).unwrap_or_default(),
            remove_labels: BTreeSet::new(),
            group_id: stored.and_then(|object| object.group_id.clone()),
            split_from: stored.and_then(|object| object.split_from.clone()),
            description: stored.and_then(|object| object.description.clone()),
        },
    })
}

/// Whether an object was written earlier in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writes {
    /// It is as it was observed.
    None,
    /// It was written.
    Some,
}

fn owned_labels(object: &Object) -> BTreeMap<Arc<str>, Arc<str>> {
    let ours = object.labels.iter().filter(|(key, _)| object.owned_labels.contains(*key));
    ours.map(|(key, value)| (Arc::clone(key), Arc::clone(value))).collect()
}

fn spec(world: &World<'_>, id: Id, state: &OrderedState) -> Spec {
    let mut members: Vec<Member> =
        state.children.iter().map(|child| Member::hyper_node(Arc::clone(world.name[*child]))).collect();
    members.extend(others(world, id, state.others));
    Spec { tier: state.tier, tier_name: tier_name(world, id, state), members }
}

/// The tier name changes together with the tier, so that one name belongs to one tier in every state.
fn tier_name(world: &World<'_>, id: Id, state: &OrderedState) -> Option<Arc<str>> {
    let wanted = world.wanted[id].map(|wanted| &wanted.spec);
    let stored = world.stored[id].map(|object| &object.spec);
    let spec = wanted.filter(|spec| spec.tier == state.tier).or(stored).or(wanted);
    spec.and_then(|spec| spec.tier_name.clone())
}

fn others(world: &World<'_>, id: Id, others: OtherMembers) -> Vec<Member> {
    let spec = match others {
        OtherMembers::Stored => world.stored[id].map(|object| &object.spec),
        OtherMembers::Wanted => world.wanted[id].map(|wanted| &wanted.spec),
        // No Node has the name of a HyperNode.
        OtherMembers::Placeholder => return vec![Member::node(Arc::clone(world.name[id]).into())],
    };
    spec.map(|spec| other_members(spec).cloned().collect()).unwrap_or_default()
}

/// How one moment differs from the one before, for an operator.
pub(super) fn changes(world: &World<'_>, moment: &Moment, writes_before: Writes) -> Changes {
    let (Some(before), Some(after)) = (&moment.before, &moment.after) else { return Changes::default() };
    let id = moment.id;
    let only_in = |one: &OrderedState, other: &OrderedState| -> Vec<Arc<str>> {
        let only = one.children.iter().filter(|child| other.children.binary_search(child).is_err());
        only.map(|child| Arc::clone(world.name[*child])).collect()
    };
    let (had, has) = (others(world, id, before.others), others(world, id, after.others));
    let (had, has) = (sorted(had.iter()), sorted(has.iter()));
    let missing =
        |one: &[&Member], other: &[&Member]| one.iter().filter(|member| other.binary_search(member).is_err()).count();
    let (from, to) = (stored_tier_name(world, moment, writes_before), tier_name(world, id, after));
    let first = match (world.stored[id], world.wanted[id], writes_before) {
        (Some(stored), Some(wanted), Writes::None) => Some((stored, wanted)),
        _ => None,
    };
    let annotated = first.is_some_and(|(stored, wanted)| {
        (&stored.group_id, &stored.split_from, &stored.description)
            != (&wanted.group_id, &wanted.split_from, &wanted.description)
    });
    Changes {
        claims: only_in(after, before),
        releases: only_in(before, after),
        added: missing(&has, &had),
        dropped: missing(&had, &has),
        tier: (before.tier != after.tier).then_some(Changed { from: before.tier, to: after.tier }),
        tier_name: (from != to).then_some(Changed { from, to }),
        labels: first
            .map(|(stored, wanted)| labels_that_change(stored, wanted).into_iter().collect())
            .unwrap_or_default(),
        annotations: if annotated { Annotations::Written } else { Annotations::Same },
        part: moment.part,
    }
}

fn stored_tier_name(world: &World<'_>, moment: &Moment, writes_before: Writes) -> Option<Arc<str>> {
    match (writes_before, &moment.before, world.stored[moment.id]) {
        (Writes::None, _, Some(stored)) => stored.spec.tier_name.clone(),
        (_, Some(before), _) => tier_name(world, moment.id, before),
        _ => None,
    }
}
