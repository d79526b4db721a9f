//! The history: from the stored objects to the goal, one valid state after another.
//!
//! Every object that differs has one thing to do. It is done as soon as the state after it is valid. Until then the
//! object waits for one other object ([`Wait`]) and is checked again when that one has changed. When every object that
//! is left waits, some of them wait in a circle, and `relax` takes one smaller step.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::reach::{Goal, Reach};
use super::table::{Id, Table};
use super::world::World;
use crate::topology::plan::{Blocked, Obstacle, Withheld, WritePart};

/// The part of an object's state that needs an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OrderedState {
    /// The tier.
    pub(super) tier: u32,
    /// Its HyperNode children, sorted and distinct.
    pub(super) children: Vec<Id>,
    /// Its other members.
    pub(super) others: OtherMembers,
}

/// The members that are no HyperNode children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OtherMembers {
    /// Those that are stored.
    Stored,
    /// Those that are wanted.
    Wanted,
    /// One Node that does not exist, so that the member list is not empty.
    Placeholder,
}

/// One write of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Moment {
    /// The object.
    pub(super) id: Id,
    /// What it was.
    pub(super) before: Option<OrderedState>,
    /// What it is now; `None` when it is gone.
    pub(super) after: Option<OrderedState>,
    /// Whether more of it follows.
    pub(super) part: WritePart,
}

/// All writes of a plan, in the order in which they were simulated.
pub(super) struct History {
    /// The writes.
    pub(super) moments: Vec<Moment>,
    todo: Table<Todo>,
}

/// What an object still has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Todo {
    Nothing,
    Write,
    Delete,
}

/// An object that another one waits for, and what it has to do first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) on: Id,
    pub(super) until: Until,
}

/// The event that is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// It no longer lists this child.
    Releases(Id),
    /// It exists.
    Exists,
    /// It has its new tier, or is no longer connected with the object that waits.
    Moves,
}

pub(super) struct Walk<'w, 'a> {
    pub(super) world: &'w World<'a>,
    pub(super) reach: &'w Reach,
    /// The objects now.
    pub(super) now: Table<Option<OrderedState>>,
    /// Who lists whom now.
    pub(super) listed_by: Table<Vec<Id>>,
    pub(super) todo: Table<Todo>,
    pub(super) waits: Table<Option<Wait>>,
    moments: Vec<Moment>,
    waiters: Table<Vec<Id>>,
    /// How many of its wanted children were free when it was last checked: most objects wait for them one by one.
    checked: Table<usize>,
    ready: BTreeSet<(StepTime, Todo, u32, Id)>,
    /// Where the last circle was found.
    pub(super) looked_until: Id,
}

/// When a possible step is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StepTime {
    /// At once.
    Now,
    /// When nothing else is possible: one of its children has yet to change, and perhaps must be released for that.
    Late,
}

impl PartialOrd for Todo {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Todo {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (*self as u8).cmp(&(*other as u8))
    }
}

impl<'w, 'a> Walk<'w, 'a> {
    pub(super) fn new(world: &'w World<'a>, reach: &'w Reach) -> Self {
        let size = world.name.ids().count();
        let state = |id: Id| {
            let tier = world.stored[id]?.spec.tier;
            Some(OrderedState { tier, children: world.lists[id].clone(), others: OtherMembers::Stored })
        };
        let todo = |id: Id| match reach.goal[id] {
            Goal::Stay => Todo::Nothing,
            Goal::Write(_) => Todo::Write,
            Goal::Delete => Todo::Delete,
        };
        Self {
            world,
            reach,
            now: Table::with(size, state),
            listed_by: Table::with(size, |id| world.listed_by[id].clone()),
            todo: Table::with(size, todo),
            waits: Table::with(size, |_| None),
            moments: Vec::new(),
            waiters: Table::with(size, |_| Vec::new()),
            checked: Table::with(size, |_| 0),
            ready: BTreeSet::new(),
            looked_until: Id(0),
        }
    }

    pub(super) fn run(mut self) -> History {
        for id in self.todo.ids() {
            self.recheck(id);
        }
        while let Some(id) = self.next() {
            // An earlier step may have made it impossible since it became ready.
            self.checked[id] = 0;
            match self.obstacle(id) {
                None => self.finish(id),
                Some(wait) => self.wait(id, wait),
            }
        }
        History { moments: self.moments, todo: self.todo }
    }

    /// The next object whose step is possible. Circles are opened before any step that might have to be undone for
    /// them.
    fn next(&mut self) -> Option<Id> {
        while self.ready.first().is_none_or(|(turn, ..)| *turn == StepTime::Late) {
            if !self.relax() {
                break;
            }
        }
        self.ready.pop_first().map(|(.., id)| id)
    }

    /// Takes one step. After `WritePart::First` the object still has something to do.
    pub(super) fn step(&mut self, id: Id, after: Option<OrderedState>, part: WritePart) {
        let before = self.now[id].take();
        let had = before.as_ref().map_or(&[][..], |state| &state.children);
        let has = after.as_ref().map_or(&[][..], |state| &state.children);
        for child in had.iter().filter(|child| has.binary_search(child).is_err()) {
            self.listed_by[*child].retain(|lister| *lister != id);
        }
        for child in has.iter().filter(|child| had.binary_search(child).is_err()) {
            self.listed_by[*child].push(id);
        }
        self.now[id].clone_from(&after);
        self.moments.push(Moment { id, before, after, part });
        for waiter in std::mem::take(&mut self.waiters[id]) {
            if self.waits[waiter].is_some_and(|wait| wait.on == id) {
                self.recheck(waiter);
            }
        }
    }

    /// Checks what the object can do now: it becomes ready, or waits.
    pub(super) fn recheck(&mut self, id: Id) {
        if self.todo[id] == Todo::Nothing {
            return;
        }
        match self.obstacle(id) {
            None => {
                self.waits[id] = None;
                let tier = self.world.wanted[id].map_or(0, |wanted| wanted.spec.tier);
                self.ready.insert((self.turn(id), self.todo[id], tier, id));
            }
            Some(wait) => self.wait(id, wait),
        }
    }

    fn turn(&self, id: Id) -> StepTime {
        let unfinished = |child: &Id| self.todo[*child] != Todo::Nothing;
        if self.goal(id).iter().any(unfinished) { StepTime::Late } else { StepTime::Now }
    }

    fn wait(&mut self, id: Id, wait: Wait) {
        self.waits[id] = Some(wait);
        self.waiters[wait.on].push(id);
    }

    /// What an object is to become; `None` when it is to go.
    pub(super) fn whole(&self, id: Id) -> Option<OrderedState> {
        let tier = self.world.wanted[id]?.spec.tier;
        Some(OrderedState { tier, children: self.goal(id).to_vec(), others: OtherMembers::Wanted })
    }

    pub(super) fn finish(&mut self, id: Id) {
        let after = self.whole(id);
        self.todo[id] = Todo::Nothing;
        self.step(id, after, WritePart::Whole);
    }

    /// The children that an object is to have.
    pub(super) fn goal(&self, id: Id) -> &'w [Id] {
        match &self.reach.goal[id] {
            Goal::Write(children) => children,
            Goal::Stay => &self.world.lists[id],
            Goal::Delete => &[],
        }
    }

    pub(super) fn tier(&self, id: Id) -> Option<u32> {
        self.now[id].as_ref().map(|state| state.tier)
    }

    pub(super) fn lists(&self, parent: Id, child: Id) -> bool {
        self.now[parent].as_ref().is_some_and(|state| state.children.binary_search(&child).is_ok())
    }

    /// Another object that lists the child now.
    pub(super) fn other_lister(&self, child: Id, but: Id) -> Option<Id> {
        self.listed_by[child].iter().copied().find(|lister| *lister != but)
    }

    /// What the object waits for before it can take its step.
    fn obstacle(&mut self, id: Id) -> Option<Wait> {
        if self.todo[id] == Todo::Delete {
            return self.other_lister(id, id).map(|on| Wait { on, until: Until::Releases(id) });
        }
        let tier = self.world.wanted[id]?.spec.tier;
        let children = self.goal(id);
        while let Some(child) = children.get(self.checked[id]) {
            if let Some(wait) = self.obstacle_at_child(id, tier, *child) {
                return Some(wait);
            }
            self.checked[id] += 1;
        }
        self.obstacle_above(id, tier)
    }

    /// The reason why a parent cannot list a child while the parent has this tier.
    pub(super) fn obstacle_at_child(&self, parent: Id, tier: u32, child: Id) -> Option<Wait> {
        let until = |on, until| Some(Wait { on, until });
        let below = self.tier(child);
        if self.lists(parent, child) {
            // A wrong link that exists already is not made worse.
            let was_wrong = self.tier(parent) <= below;
            return if below >= Some(tier) && !was_wrong { until(child, Until::Moves) } else { None };
        }
        let Some(below) = below else { return until(child, Until::Exists) };
        if let Some(lister) = self.other_lister(child, parent) {
            return until(lister, Until::Releases(child));
        }
        if below >= tier { until(child, Until::Moves) } else { None }
    }

    /// The reason why an object cannot have this tier, because of the objects that list it.
    pub(super) fn obstacle_above(&self, id: Id, tier: u32) -> Option<Wait> {
        let listers = self.listed_by[id].iter().copied().filter(|lister| *lister != id);
        let sinks = |lister: &Id| {
            let above = self.tier(*lister);
            above <= Some(tier) && self.tier(id).is_none_or(|now| above > Some(now))
        };
        listers.into_iter().find(sinks).map(|on| Wait { on, until: Until::Moves })
    }
}

impl History {
    /// Steps that could not be taken although nothing forbids them.
    pub(super) fn stuck(&self, world: &World<'_>) -> Vec<Blocked> {
        let blocked = |id: Id| {
            let what = match (self.todo[id], world.stored[id]) {
                (Todo::Nothing, _) => return None,
                (Todo::Delete, _) => Withheld::Delete,
                (Todo::Write, None) => Withheld::Create,
                (Todo::Write, Some(_)) => Withheld::Update,
            };
            Some(Blocked { name: Arc::clone(world.name[id]), what, why: Obstacle::NoOrder })
        };
        self.todo.ids().filter_map(blocked).collect()
    }
}
