//! Everything that has a name: stored objects, wanted objects, and names that somebody lists.

use std::sync::Arc;

use super::table::{Id, Table};
use crate::topology::model::{Member, MemberKind, Object, Selector, Spec};
use crate::topology::naming::{Desired, Named};

/// What is stored and what is wanted, by number.
pub(super) struct World<'a> {
    /// The name.
    pub(super) name: Table<&'a Arc<str>>,
    /// The stored object.
    pub(super) stored: Table<Option<&'a Object>>,
    /// The wanted object.
    pub(super) wanted: Table<Option<&'a Desired>>,
    /// Whose the stored object is.
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

/// Whose a stored object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// Ours: it may be written.
    Us,
    /// Another source's, somebody's own work, or ours but held back: it is as it is.
    Others,
    /// There is none.
    Nobody,
}

impl<'a> World<'a> {
    pub(super) fn new(observed: &'a [Object], desired: &'a Named) -> Self {
        let mut names: Vec<&'a Arc<str>> = Vec::with_capacity(observed.len() * 2 + desired.objects.len() * 2);
        for object in observed {
            names.push(&object.name);
            names.extend(object.spec.children());
        }
        for (name, wanted) in &desired.objects {
            names.push(name);
            names.extend(wanted.spec.children());
        }
        names.sort_unstable();
        names.dedup();
        let id = |name: &Arc<str>| names.binary_search(&name).ok().map(Id);
        let children = |spec: &'a Spec| {
            let mut children: Vec<Id> = spec.children().filter_map(id).collect();
            children.sort_unstable();
            children.dedup();
            children
        };

        let size = names.len();
        let mut stored = Table::with(size, |_| None);
        let mut owner = Table::with(size, |_| Owner::Nobody);
        let mut lists = Table::with(size, |_| Vec::new());
        for object in observed {
            let Some(at) = id(&object.name) else { continue };
            let ours = object.source.as_ref() == Some(&desired.source) && !desired.held.contains(&object.name);
            stored[at] = Some(object);
            owner[at] = if ours { Owner::Us } else { Owner::Others };
            lists[at] = children(&object.spec);
        }
        let mut wanted = Table::with(size, |_| None);
        let mut wants = Table::with(size, |_| Vec::new());
        let mut wanted_by = Table::with(size, |_| None);
        for (name, object) in &desired.objects {
            let Some(at) = id(name) else { continue };
            wanted[at] = Some(object);
            wants[at] = children(&object.spec);
            for child in &wants[at] {
                wanted_by[*child].get_or_insert(at);
            }
        }
        let listed_by = listers(&lists);
        Self { name: Table::of(names), stored, wanted, owner, lists, listed_by, wants, wanted_by }
    }

    /// Whether the two members that are no HyperNode children select the same.
    pub(super) fn other_members_are_right(&self, id: Id) -> bool {
        let (Some(stored), Some(wanted)) = (self.stored[id], self.wanted[id]) else { return false };
        if other_members(&stored.spec).eq(other_members(&wanted.spec)) {
            return true;
        }
        sorted(other_members(&stored.spec)) == sorted(other_members(&wanted.spec))
    }
}

/// Who lists whom, the other way round.
pub(super) fn listers(lists: &Table<Vec<Id>>) -> Table<Vec<Id>> {
    let mut listed_by = Table::with(lists.ids().count(), |_| Vec::new());
    for parent in lists.ids() {
        for child in &lists[parent] {
            listed_by[*child].push(parent);
        }
    }
    listed_by
}

/// All members but exact HyperNode children: nothing that needs an order.
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
