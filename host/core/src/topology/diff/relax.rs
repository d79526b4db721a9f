//! When objects wait for each other in a circle: one smaller step that opens it.
//!
//! Every circle has a place where somebody waits for an object to let go of a child (everything else that is waited for
//! follows the tree up or down and ends). In this order, the first that is possible:
//!
//! 1. *part*: an object of the circle is written with that part of its goal that is possible now. What stays is kept and
//!    the rest released; if nothing stays, the children that are free already are claimed.
//! 2. *keep one*: nothing of it stays, but it has more than the child that is waited for: it is released, and one other
//!    child (or Nodes that it has) keeps the list from being empty.
//! 3. *nobody, before it goes*: an object that is deleted anyway gets one Node that does not exist, which the scheduler
//!    ignores, instead of the children that others wait for.
//! 4. *delete*: it has only that child. It is released by its own parent, deleted, and created again under its name
//!    (decision H7). Parents with several such children release them in one write.
//! 5. *nobody, for a while*: its parent cannot release it, having no other child. Like 3, better than to take down all
//!    objects above.
//!
//! Each of them happens at most once to an object, so there is an end.

use std::collections::{BTreeMap, BTreeSet};

use super::table::Id;
use super::walk::{Others, State, Todo, Until, Wait, Walk};
use super::world::other_members;
use crate::topology::plan::Part;

/// A smaller step: the object and what it becomes.
struct Smaller {
    id: Id,
    state: State,
}

/// Objects that wait for each other: each entry says who waits, and for what.
type Circle = Vec<(Id, Wait)>;

impl Walk<'_, '_> {
    /// Takes a smaller step. False when everything is done, or nothing can be done.
    pub(super) fn relax(&mut self) -> bool {
        let Some(circle) = self.next_circle() else { return false };
        if let Some(smaller) = self.smaller(&circle) {
            self.advance(smaller);
        } else if self.deletable(&circle).is_some() {
            self.delete_for_now();
        } else if let Some(smaller) = self.nobody(&circle, Todo::Write) {
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
            self.step(id, Some(state), Part::First);
            self.look_at(id);
        }
    }

    /// A step that takes no object away.
    fn smaller(&self, circle: &Circle) -> Option<Smaller> {
        self.part(circle).or_else(|| self.keep_one(circle)).or_else(|| self.nobody(circle, Todo::Delete))
    }

    /// The first circle from where the last one was found: what was looked at before is mostly done by now.
    fn next_circle(&mut self) -> Option<Circle> {
        let mut seen = BTreeSet::new();
        let from = self.looked_until;
        let later = self.todo.ids().skip(from.0);
        let ids = later.chain(self.todo.ids().take(from.0));
        let (id, circle) = ids.into_iter().find_map(|id| Some((id, self.circle_from(id, &mut seen)?)))?;
        self.looked_until = id;
        Some(circle)
    }

    /// A circle that can be reached from this object by following who waits for whom, over objects not seen before.
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
    fn possible_part(&self, id: Id) -> Option<State> {
        let new = self.world.wanted[id]?.spec.tier;
        let tiers = [Some(new), self.tier(id).filter(|now| *now != new)];
        tiers.into_iter().flatten().find_map(|tier| self.part_at(id, tier))
    }

    fn part_at(&self, id: Id, tier: u32) -> Option<State> {
        if self.obstacle_above(id, tier).is_some() {
            return None;
        }
        let free = |child: &Id| self.obstacle_at_child(id, tier, *child).is_none();
        let (stay, come): (Vec<Id>, Vec<Id>) = self.goal(id).iter().partition(|child| self.lists(id, **child));
        if !stay.iter().all(free) {
            return None;
        }
        if !stay.is_empty() || self.has_others(id, Others::Wanted) {
            return Some(State { tier, children: stay, others: Others::Wanted });
        }
        let children: Vec<Id> = come.into_iter().filter(free).collect();
        if children.is_empty() { None } else { Some(State { tier, children, others: Others::Wanted }) }
    }

    fn has_others(&self, id: Id, others: Others) -> bool {
        match others {
            Others::Stored => self.world.stored[id].is_some_and(|object| other_members(&object.spec).next().is_some()),
            Others::Wanted => self.world.wanted[id].is_some_and(|wanted| other_members(&wanted.spec).next().is_some()),
            Others::Nobody => true,
        }
    }

    /// Objects that somebody waits for to let go of a child.
    fn holders<'c>(&'c self, circle: &'c Circle, todo: Todo) -> impl Iterator<Item = (Id, Id, &'c State)> {
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
        for (id, child, state) in self.holders(circle, Todo::Write) {
            let keep = |children| State { tier: state.tier, children, others: state.others };
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

    /// How likely it is that keeping a child a little longer makes another circle: 0 when nobody waits for it.
    fn harm_in_keeping(&self, child: Id, circle: &Circle) -> u8 {
        let Some(waiter) = self.world.wanted_by[child] else {
            // It goes, or becomes a root. Going later, it keeps what it lists.
            let lists = self.now[child].as_ref().is_some_and(|state| !state.children.is_empty());
            return match self.todo[child] {
                Todo::Delete if lists => 2,
                Todo::Delete => 1,
                Todo::Nothing | Todo::Write => 0,
            };
        };
        if circle.iter().any(|(waits, _)| *waits == waiter) { 4 } else { 3 }
    }

    /// An object whose parents, if it has any, can do without it for a while.
    fn deletable(&self, circle: &Circle) -> Option<Id> {
        let ours = |lister: &Id| !self.reach.fixed[*lister] && self.world.wanted[*lister].is_some();
        let spares = |lister: &Id| ours(lister) && self.spare(*lister) > 0;
        let holders = self.holders(circle, Todo::Write).map(|(id, _, _)| id);
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

    /// Deletes one object of every circle that cannot be opened otherwise, so that a parent of several of them is
    /// written once.
    fn delete_for_now(&mut self) {
        let mut seen = BTreeSet::new();
        let mut goes = BTreeSet::new();
        let mut releases: BTreeMap<Id, Vec<Id>> = BTreeMap::new();
        for start in self.todo.ids() {
            let circle = self.circle_from(start, &mut seen).filter(|circle| self.smaller(circle).is_none());
            let Some(id) = circle.and_then(|circle| self.deletable(&circle)) else { continue };
            let released = |lister: &Id| releases.get(lister).map_or(0, Vec::len);
            let spared = self.parents(id).all(|lister| released(&lister) < self.spare(lister));
            // A parent that goes itself, or a child that was just written as one, waits for its next turn.
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
            self.step(id, None, Part::First);
            self.look_at(id);
        }
    }

    fn release_for_now(&mut self, lister: Id, released: &[Id]) {
        let Some(mut state) = self.now[lister].clone() else { return };
        state.children.retain(|child| !released.contains(child));
        // Where it has to be written in parts anyway, this is the first part.
        let unfinished = self.todo[lister] == Todo::Write;
        let part = if unfinished { self.possible_part(lister) } else { None };
        // It must not claim, since what it claims may be about to go as well.
        let keeps = |part: &State| part.children.iter().all(|child| state.children.binary_search(child).is_ok());
        let state = part.filter(keeps).unwrap_or(state);
        self.todo[lister] = Todo::Write;
        self.advance(Smaller { id: lister, state });
    }

    fn nobody(&self, circle: &Circle, todo: Todo) -> Option<Smaller> {
        let holders = self.holders(circle, todo).map(|(id, _, state)| (id, state.tier));
        let (id, tier) = holders.min_by_key(|(id, _)| *id)?;
        Some(Smaller { id, state: State { tier, children: Vec::new(), others: Others::Nobody } })
    }
}
