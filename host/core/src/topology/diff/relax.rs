//! Objects that wait for each other in a circle: one smaller step that opens the circle.
//!
//! Every circle has a place where an object waits until another one releases a child. (Everything else that is waited
//! for follows the tree up or down and ends.) The first of these steps that is possible is taken:
//!
//! 1. *part*: an object of the circle is written with the part of its goal that is possible now. It keeps its wanted
//!    children and releases the others; if it has none of them yet, it claims those that are free already.
//! 2. *keep one*: the object keeps none of its children, but has more than the one that is waited for. It releases that
//!    one, and one other child (or Nodes that it has) keeps the list from being empty.
//! 3. *placeholder, before it is deleted*: an object that is deleted anyway gets one Node that does not exist, which
//!    the scheduler ignores, instead of the children that others wait for.
//! 4. *delete*: the object has only that child. Its own parent releases it, it is deleted, and a later step creates it
//!    again under its name (decision H7). Parents with several such children release them in one write.
//! 5. *placeholder, for a while*: the parent cannot release the object, having no other child. The object gets a Node
//!    that does not exist, as in 3, which is better than to delete all objects above.
//!
//! Each of these steps is taken at most once per object, so the search ends.

use std::collections::{BTreeMap, BTreeSet};

use super::table::Id;
use super::walk::{OrderedState, OtherMembers, Todo, Until, Wait, Walk};
use super::world::other_members;
use crate::topology::plan::WritePart;

/// A smaller step: the object and what it becomes.
struct Smaller {
    id: Id,
    state: OrderedState,
}

/// Objects that wait for each other. Each entry is an object that waits, and what it waits for.
type Circle = Vec<(Id, Wait)>;

impl Walk<'_, '_> {
    /// Takes a smaller step. `false` when everything is done, or nothing can be done.
    pub(super) fn relax(&mut self) -> bool {
        let Some(circle) = self.next_circle() else { return false };
        if let Some(smaller) = self.smaller(&circle) {
            self.advance(smaller);
        } else if self.deletable(&circle).is_some() {
            self.delete_for_now();
        } else if let Some(smaller) = self.placeholder(&circle, Todo::Write) {
            self.advance(smaller);
        } else {
            return false;
        }
        true
    }

    fn advance(&mut self, Smaller { id, state }: Smaller) {
        let whole = self.todo[id] == Todo::Write && self.whole(id).as_ref() == Some(&state);
        if whole {
            self.finish(id);
        } else {
            self.step(id, Some(state), WritePart::First);
            self.recheck(id);
        }
    }

    /// A step that deletes no object.
    fn smaller(&self, circle: &Circle) -> Option<Smaller> {
        self.part(circle).or_else(|| self.keep_one(circle)).or_else(|| self.placeholder(circle, Todo::Delete))
    }

    /// The first circle, searched from where the last one was found: the objects before that place are mostly done.
    fn next_circle(&mut self) -> Option<Circle> {
        let mut seen = BTreeSet::new();
        let from = self.looked_until;
        let later = self.todo.ids().skip(from.0);
        let ids = later.chain(self.todo.ids().take(from.0));
        let (id, circle) = ids.into_iter().find_map(|id| Some((id, self.circle_from(id, &mut seen)?)))?;
        self.looked_until = id;
        Some(circle)
    }

    /// A circle that can be reached from this object by following the waits, over objects not seen before.
    fn circle_from(&self, start: Id, seen: &mut BTreeSet<Id>) -> Option<Circle> {
        let mut at = start;
        let mut path: Circle = Vec::new();
        let mut places: BTreeMap<Id, usize> = BTreeMap::new();
        while self.todo[at] != Todo::Nothing {
            if let Some(from) = places.insert(at, path.len()) {
                return Some(path.split_off(from));
            }
            if !seen.insert(at) {
                return None;
            }
            let wait = self.waits[at]?;
            path.push((at, wait));
            at = wait.on;
        }
        None
    }

    fn part(&self, circle: &Circle) -> Option<Smaller> {
        let mut parts = Vec::new();
        for (waiter, Wait { on, until }) in circle.iter().filter(|(_, wait)| self.todo[wait.on] == Todo::Write) {
            let Some(state) = self.possible_part(*on) else { continue };
            let opens = match until {
                Until::Releases(child) => state.children.binary_search(child).is_err(),
                Until::Exists => true,
                Until::Moves => {
                    let lets_go = self.lists(*on, *waiter) && state.children.binary_search(waiter).is_err();
                    lets_go || self.world.wanted[*on].is_some_and(|wanted| wanted.spec.tier == state.tier)
                }
            };
            if opens && self.now[*on].as_ref() != Some(&state) {
                let claims = state.children.iter().any(|child| !self.lists(*on, *child));
                parts.push((claims, *on, state));
            }
        }
        let first = parts.into_iter().min_by_key(|(claims, id, _)| (*claims, *id));
        first.map(|(_, id, state)| Smaller { id, state })
    }

    /// As much of the goal as can be written now: at the new tier, or else at the present one.
    fn possible_part(&self, id: Id) -> Option<OrderedState> {
        let new = self.world.wanted[id]?.spec.tier;
        let tiers = [Some(new), self.tier(id).filter(|now| *now != new)];
        tiers.into_iter().flatten().find_map(|tier| self.part_at(id, tier))
    }

    fn part_at(&self, id: Id, tier: u32) -> Option<OrderedState> {
        if self.obstacle_above(id, tier).is_some() {
            return None;
        }
        let free = |child: &Id| self.obstacle_at_child(id, tier, *child).is_none();
        let (stay, come): (Vec<Id>, Vec<Id>) = self.goal(id).iter().partition(|child| self.lists(id, **child));
        if !stay.iter().all(free) {
            return None;
        }
        if !stay.is_empty() || self.has_others(id, OtherMembers::Wanted) {
            return Some(OrderedState { tier, children: stay, others: OtherMembers::Wanted });
        }
        let children: Vec<Id> = come.into_iter().filter(free).collect();
        if children.is_empty() { None } else { Some(OrderedState { tier, children, others: OtherMembers::Wanted }) }
    }

    fn has_others(&self, id: Id, others: OtherMembers) -> bool {
        match others {
            OtherMembers::Stored => {
                self.world.stored[id].is_some_and(|object| other_members(&object.spec).next().is_some())
            }
            OtherMembers::Wanted => {
                self.world.wanted[id].is_some_and(|wanted| other_members(&wanted.spec).next().is_some())
            }
            OtherMembers::Placeholder => true,
        }
    }

    /// Objects that list a child which another object of the circle waits for.
    fn blocking_parents<'c>(
        &'c self,
        circle: &'c Circle,
        todo: Todo,
    ) -> impl Iterator<Item = (Id, Id, &'c OrderedState)> {
        circle.iter().filter(move |(_, wait)| self.todo[wait.on] == todo).filter_map(|(waiter, wait)| {
            let child = match wait.until {
                Until::Releases(child) => child,
                Until::Moves => *waiter,
                Until::Exists => return None,
            };
            let state = self.now[wait.on].as_ref()?;
            self.lists(wait.on, child).then_some((wait.on, child, state))
        })
    }

    fn keep_one(&self, circle: &Circle) -> Option<Smaller> {
        let mut choices = Vec::new();
        for (id, child, state) in self.blocking_parents(circle, Todo::Write) {
            let keep = |children| OrderedState { tier: state.tier, children, others: state.others };
            if self.has_others(id, state.others) {
                choices.push((0, id, None, keep(Vec::new())));
                continue;
            }
            for other in state.children.iter().filter(|other| **other != child) {
                choices.push((self.harm_in_keeping(*other, circle), id, Some(*other), keep(vec![*other])));
            }
        }
        let best = choices.into_iter().min_by_key(|(rank, id, other, _)| (*rank, *id, *other));
        best.map(|(_, id, _, state)| Smaller { id, state })
    }

    /// How likely it is that keeping a child a little longer makes another circle: 0 when no object waits for it.
    fn harm_in_keeping(&self, child: Id, circle: &Circle) -> u8 {
        let Some(waiter) = self.world.wanted_by[child] else {
            // It is deleted, or becomes a root. Deleted later, it keeps its children for longer.
            let lists = self.now[child].as_ref().is_some_and(|state| !state.children.is_empty());
            return match self.todo[child] {
                Todo::Delete if lists => 2,
                Todo::Delete => 1,
                Todo::Nothing | Todo::Write => 0,
            };
        };
        if circle.iter().any(|(waits, _)| *waits == waiter) { 4 } else { 3 }
    }

    /// An object whose parents, if it has any, can release it for a while.
    fn deletable(&self, circle: &Circle) -> Option<Id> {
        let ours = |lister: &Id| !self.reach.fixed[*lister] && self.world.wanted[*lister].is_some();
        let spares = |lister: &Id| ours(lister) && self.spare(*lister) > 0;
        let holders = self.blocking_parents(circle, Todo::Write).map(|(id, _, _)| id);
        let deletable = holders.filter(|id| self.parents(*id).all(|lister| spares(&lister)));
        deletable.min_by_key(|id| (self.parents(*id).count(), *id))
    }

    fn parents(&self, id: Id) -> impl Iterator<Item = Id> {
        self.listed_by[id].iter().copied().filter(move |lister| *lister != id)
    }

    /// How many of its children an object can release.
    fn spare(&self, id: Id) -> usize {
        let Some(state) = &self.now[id] else { return 0 };
        let kept = usize::from(!self.has_others(id, state.others));
        state.children.len().saturating_sub(kept)
    }

    /// Deletes one object of every circle that cannot be opened otherwise. A parent of several such objects is written
    /// once.
    fn delete_for_now(&mut self) {
        let mut seen = BTreeSet::new();
        let mut goes = BTreeSet::new();
        let mut releases: BTreeMap<Id, Vec<Id>> = BTreeMap::new();
        for start in self.todo.ids() {
            let circle = self.circle_from(start, &mut seen).filter(|circle| self.smaller(circle).is_none());
            let Some(id) = circle.and_then(|circle| self.deletable(&circle)) else { continue };
            let released = |lister: &Id| releases.get(lister).map_or(0, Vec::len);
            let spared = self.parents(id).all(|lister| released(&lister) < self.spare(lister));
            // A parent that is deleted itself, or a child that was just written as a parent, waits for its next turn.
            let apart = !releases.contains_key(&id) && self.parents(id).all(|lister| !goes.contains(&lister));
            if spared && apart {
                goes.insert(id);
                for lister in self.parents(id) {
                    releases.entry(lister).or_default().push(id);
                }
            }
        }
        for (lister, released) in &releases {
            self.release_for_now(*lister, released);
        }
        for id in goes {
            self.step(id, None, WritePart::First);
            self.recheck(id);
        }
    }

    fn release_for_now(&mut self, lister: Id, released: &[Id]) {
        let Some(mut state) = self.now[lister].clone() else { return };
        state.children.retain(|child| !released.contains(child));
        // Where it has to be written in parts anyway, this is the first part.
        let unfinished = self.todo[lister] == Todo::Write;
        let part = if unfinished { self.possible_part(lister) } else { None };
        // It must not claim a child, since that child may be deleted too.
        let keeps = |part: &OrderedState| part.children.iter().all(|child| state.children.binary_search(child).is_ok());
        let state = part.filter(keeps).unwrap_or(state);
        self.todo[lister] = Todo::Write;
        self.advance(Smaller { id: lister, state });
    }

    fn placeholder(&self, circle: &Circle, todo: Todo) -> Option<Smaller> {
        let holders = self.blocking_parents(circle, todo).map(|(id, _, state)| (id, state.tier));
        let (id, tier) = holders.min_by_key(|(id, _)| *id)?;
        Some(Smaller { id, state: OrderedState { tier, children: Vec::new(), others: OtherMembers::Placeholder } })
    }
}
