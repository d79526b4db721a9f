//! Every name: of stored objects, of wanted objects, and of children that an object lists.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use super::table::{Id, Table};
use crate::topology::model::{Member, MemberKind, Object, Selector, Spec};
use crate::topology::naming::{Desired, Named};

/// The stored and the wanted objects, by number.
pub(super) struct World<'a> {
    /// The name.
    pub(super) name: Table<&'a Arc<str>>,
    /// The stored object.
    pub(super) stored: Table<Option<&'a Object>>,
    /// The wanted object.
    pub(super) wanted: Table<Option<&'a Desired>>,
    /// Who owns the stored object.
    pub(super) owner: Table<Owner>,
    /// The children that the stored object lists, sorted and distinct.
    pub(super) lists: Table<Vec<Id>>,
    /// The stored objects that list it, sorted and distinct.
    pub(super) listed_by: Table<Vec<Id>>,
    /// The children that the wanted object lists, sorted and distinct.
    pub(super) wants: Table<Vec<Id>>,
    /// The wanted object that lists it.
    pub(super) wanted_by: Table<Option<Id>>,
}

/// Who owns a stored object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// Ours: it may be written.
    ThisSource,
    /// It must not be written: another source's, a hand-made one, or ours but held back.
    Other,
    /// No object is stored.
    Absent,
}

impl<'a> World<'a> {
    pub(super) fn new(observed: &'a [Arc<Object>], desired: &'a Named) -> Self {
        // Specs are long lists of Nodes and are read once; children are few.
        let listing: Vec<Vec<&Arc<str>>> = observed.iter().map(|object| children(&object.spec)).collect();
        let wanting: Vec<Vec<&Arc<str>>> = desired.objects.values().map(|object| children(&object.spec)).collect();
        let (names, numbers) = number(observed, desired, listing.iter().chain(&wanting).flatten());
        let id = |name: &Arc<str>| numbers.get(name.as_ref()).copied();
        let ids = |names: Vec<&Arc<str>>| {
            let mut ids: Vec<Id> = names.into_iter().filter_map(id).collect();
            ids.sort_unstable();
            ids.dedup();
            ids
        };

        let size = names.len();
        let mut stored = Table::with(size, |_| None);
        let mut owner = Table::with(size, |_| Owner::Absent);
        let mut lists = Table::with(size, |_| Vec::new());
        for (object, listing) in observed.iter().zip(listing) {
            let Some(at) = id(&object.name) else { continue };
            let ours = object.source.as_ref() == Some(&desired.source) && !desired.held.contains(&object.name);
            stored[at] = Some(&**object);
            owner[at] = if ours { Owner::ThisSource } else { Owner::Other };
            lists[at] = ids(listing);
        }
        let mut wanted = Table::with(size, |_| None);
        let mut wants = Table::with(size, |_| Vec::new());
        let mut wanted_by = Table::with(size, |_| None);
        for ((name, object), wanting) in desired.objects.iter().zip(wanting) {
            let Some(at) = id(name) else { continue };
            wanted[at] = Some(object);
            wants[at] = ids(wanting);
            for child in &wants[at] {
                wanted_by[*child].get_or_insert(at);
            }
        }
        let listed_by = listers(&lists);
        Self { name: Table::of(names), stored, wanted, owner, lists, listed_by, wants, wanted_by }
    }

    /// Whether the stored and the wanted object have the same members, HyperNode children aside.
    pub(super) fn other_members_are_right(&self, id: Id) -> bool {
        let (Some(stored), Some(wanted)) = (self.stored[id], self.wanted[id]) else { return false };
        if other_members(&stored.spec).eq(other_members(&wanted.spec)) {
            return true;
        }
        sorted(other_members(&stored.spec)) == sorted(other_members(&wanted.spec))
    }
}

/// The number of every name. Only looked up, never iterated, so its order does not matter.
type Numbers<'a> = HashMap<&'a str, Id, BuildHasherDefault<DefaultHasher>>;

/// Every name once, sorted, and its position. Nearly all children are objects too, so only the few that are not are
/// sorted in.
fn number<'a: 'n, 'n>(
    observed: &'a [Arc<Object>],
    desired: &'a Named,
    children: impl Iterator<Item = &'n &'a Arc<str>>,
) -> (Vec<&'a Arc<str>>, Numbers<'a>) {
    let place = |mut names: Vec<&'a Arc<str>>| {
        // A stable sort is fast here, because the input consists of sorted runs.
        names.sort();
        names.dedup();
        let numbers: Numbers<'a> =
            names.iter().copied().enumerate().map(|(at, name)| (name.as_ref(), Id(at))).collect();
        (names, numbers)
    };
    let objects = observed.iter().map(|object| &object.name).chain(desired.objects.keys());
    let (mut names, numbers) = place(objects.collect());
    let before = names.len();
    names.extend(children.copied().filter(|child| !numbers.contains_key(child.as_ref())));
    if names.len() > before { place(names) } else { (names, numbers) }
}

fn children(spec: &Spec) -> Vec<&Arc<str>> {
    spec.children().collect()
}

/// For every object, the objects that list it.
pub(super) fn listers(lists: &Table<Vec<Id>>) -> Table<Vec<Id>> {
    let mut listed_by = Table::with(lists.ids().count(), |_| Vec::new());
    for parent in lists.ids() {
        for child in &lists[parent] {
            listed_by[*child].push(parent);
        }
    }
    listed_by
}

/// All members but exact HyperNode children. They need no order.
pub(super) fn other_members(spec: &Spec) -> impl Iterator<Item = &Member> + Clone {
    spec.members.iter().filter(|member| !is_child(member))
}

fn is_child(member: &Member) -> bool {
    member.kind == MemberKind::HyperNode && matches!(member.selector, Selector::Exact(_))
}

pub(super) fn sorted<'m>(members: impl Iterator<Item = &'m Member>) -> Vec<&'m Member> {
    let mut members: Vec<&Member> = members.collect();
    members.sort_unstable();
    members.dedup();
    members
}
