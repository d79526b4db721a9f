//! What may be written at all, before the order of the steps is decided.
//!
//! Objects of other owners, and ours that are held back, are *fixed*: they keep their children and their tier. That
//! spreads: an object of ours that should be deleted but that a fixed one lists must stay, so it is fixed too, and its
//! children cannot be claimed by other objects. Some sequence of steps can always write the rest.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::table::{Id, Table};
use super::world::{Owner, World, other_members};
use super::write;
use crate::topology::plan::{Blocked, Obstacle, Withheld};

/// What to do with each object.
pub(super) struct Reach {
    /// What the object is to become.
    pub(super) goal: Table<Goal>,
    /// Whether the object must stay as it is.
    pub(super) fixed: Table<bool>,
    blocked: Vec<Blocked>,
}

/// What an object is to become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Goal {
    /// What it is now: it is as wanted already, or must not be touched.
    Stay,
    /// The wanted object with these of its children.
    Write(Vec<Id>),
    /// It is deleted.
    Delete,
}

impl Reach {
    pub(super) fn new(world: &World<'_>) -> Self {
        let size = world.name.ids().count();
        let mut search = Search {
            world,
            fixed: Table::with(size, |id| world.owner[id] == Owner::Other),
            missing: Table::with(size, |id| world.stored[id].is_none() && world.wanted[id].is_none()),
            open: world.name.ids().collect(),
        };
        search.spread();
        let mut reach = Self {
            goal: Table::with(size, |_| Goal::Stay),
            fixed: Table::with(size, |id| search.fixed[id]),
            blocked: Vec::new(),
        };
        for id in world.name.ids() {
            let judgement = search.judge(id);
            let blocked = judgement.obstacles.into_iter().map(|(what, why)| {
                let name = Arc::clone(world.name[id]);
                Blocked { name, what, why }
            });
            reach.blocked.extend(blocked);
            reach.goal[id] = match judgement.goal {
                Goal::Write(children) if write::is_right(world, id, &children) => Goal::Stay,
                goal => goal,
            };
        }
        reach
    }

    pub(super) fn into_blocked(self) -> Vec<Blocked> {
        self.blocked
    }
}

struct Search<'w, 'a> {
    world: &'w World<'a>,
    fixed: Table<bool>,
    /// Objects that do not exist and will not be created.
    missing: Table<bool>,
    open: BTreeSet<Id>,
}

struct Judgement {
    goal: Goal,
    obstacles: Vec<(Withheld, Obstacle)>,
}

impl Judgement {
    fn stay(what: Withheld, why: Obstacle) -> Self {
        Self { goal: Goal::Stay, obstacles: vec![(what, why)] }
    }
}

impl Search<'_, '_> {
    /// Fixes objects until no further one has to be fixed. Each object is fixed once, and only its neighbours are then
    /// judged again.
    fn spread(&mut self) {
        let world = self.world;
        while let Some(id) = self.open.pop_first() {
            let ours = world.owner[id] == Owner::ThisSource || world.wanted[id].is_some();
            if !ours || self.fixed[id] || self.missing[id] || self.judge(id).goal != Goal::Stay {
                continue;
            }
            if world.stored[id].is_some() {
                self.fixed[id] = true;
            } else {
                self.missing[id] = true;
            }
            self.open.extend(world.wanted_by[id]);
            for child in &world.lists[id] {
                self.open.insert(*child);
                self.open.extend(world.wanted_by[*child]);
            }
        }
    }

    fn judge(&self, id: Id) -> Judgement {
        let world = self.world;
        match (world.wanted[id], world.owner[id]) {
            (Some(_), Owner::Other) => Judgement::stay(Withheld::Update, Obstacle::Foreign),
            (None, Owner::Other | Owner::Absent) => Judgement { goal: Goal::Stay, obstacles: Vec::new() },
            (None, Owner::ThisSource) => match self.fixed_lister(id) {
                Some(lister) => Judgement::stay(Withheld::Delete, Obstacle::ListedBy(self.named(lister))),
                None => Judgement { goal: Goal::Delete, obstacles: Vec::new() },
            },
            (Some(wanted), _) => self.judge_wanted(id, wanted.spec.tier),
        }
    }

    fn judge_wanted(&self, id: Id, tier: u32) -> Judgement {
        let world = self.world;
        let whole = if world.stored[id].is_some() { Withheld::Update } else { Withheld::Create };
        let above = |lister: &Id| self.tier(*lister).is_some_and(|above| above > tier);
        let was_above = |lister: &Id| self.tier(*lister) > self.tier(id) && self.tier(id).is_some();
        let sinks = |lister: &Id| !above(lister) && (was_above(lister) || self.tier(id).is_none());
        if let Some(lister) = self.fixed_listers(id).find(|lister| sinks(lister)) {
            return Judgement::stay(whole, Obstacle::BelowForeign(self.named(lister)));
        }
        let mut children = Vec::with_capacity(world.wants[id].len());
        let mut obstacles = Vec::new();
        for child in &world.wants[id] {
            match self.obstacle(id, tier, *child) {
                Some(why) => obstacles.push((*child, why)),
                None => children.push(*child),
            }
        }
        let has_others = world.wanted[id].is_some_and(|wanted| other_members(&wanted.spec).next().is_some());
        if children.is_empty() && !has_others {
            // Better to keep the children that it lists already, although another object lists them too, than to delete
            // it.
            let kept = |(child, why): &(Id, Obstacle)| {
                matches!(why, Obstacle::ListedBy(_)) && world.lists[id].binary_search(child).is_ok()
            };
            children.extend(obstacles.iter().filter(|obstacle| kept(obstacle)).map(|(child, _)| *child));
        }
        let goal = if children.is_empty() && !has_others { Goal::Stay } else { Goal::Write(children) };
        let mut obstacles: Vec<_> =
            obstacles.into_iter().map(|(child, why)| (Withheld::Child(self.named(child)), why)).collect();
        if goal == Goal::Stay {
            obstacles.push((whole, Obstacle::NoMembers));
        }
        Judgement { goal, obstacles }
    }

    /// The reason why a wanted child cannot be listed.
    fn obstacle(&self, parent: Id, tier: u32, child: Id) -> Option<Obstacle> {
        let world = self.world;
        if self.missing[child] || world.wanted[child].is_none() || world.owner[child] == Owner::Other {
            return Some(Obstacle::Missing(self.named(child)));
        }
        let stays = if self.fixed[child] { self.tier(child) } else { None };
        if stays.is_some_and(|stays| stays >= tier) {
            return Some(Obstacle::TierOf(self.named(child)));
        }
        // Also a child that lists itself and cannot be changed: to the scheduler it has a parent.
        let mut listers = world.listed_by[child].iter().copied();
        let other = listers.find(|lister| *lister != parent && self.fixed[*lister])?;
        Some(Obstacle::ListedBy(self.named(other)))
    }

    fn fixed_listers(&self, id: Id) -> impl Iterator<Item = Id> {
        self.world.listed_by[id].iter().copied().filter(move |lister| *lister != id && self.fixed[*lister])
    }

    fn fixed_lister(&self, id: Id) -> Option<Id> {
        self.fixed_listers(id).next()
    }

    fn tier(&self, id: Id) -> Option<u32> {
        self.world.stored[id].map(|object| object.spec.tier)
    }

    fn named(&self, id: Id) -> Arc<str> {
        Arc::clone(self.world.name[id])
    }
}
