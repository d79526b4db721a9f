//! Which steps must keep their order, and why.
//!
//! Every object has a life: a sequence of states, each begun and ended by a step. Two states of two objects clash when
//! they must not exist at the same time. In the history no two clashing states overlap, except where they did at the
//! very beginning. So of two clashing states one ended before the other began, and the step that ended the one has to
//! come before the step that began the other. No other steps have to keep their order.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::table::Id;
use super::walk::{History, OrderedState};
use super::world::World;
use super::write::{self, Writes};
use crate::topology::model::Object;
use crate::topology::plan::{Action, Base, Because, Dependency, PlanStep, StepId};

/// From which moment to which moment something was true. Step `n` ends what was before and begins what is after the
/// moment `n + 1`; moment 0 is the observed state.
#[derive(Debug, Clone, Copy)]
struct Span {
    from: usize,
    to: usize,
}

impl Span {
    /// The step that ended this and the step that began the other, if they do not overlap.
    fn before(self, other: Self) -> Option<(usize, usize)> {
        if self.to <= other.from { Some((self.to.checked_sub(1)?, other.from.checked_sub(1)?)) } else { None }
    }

    fn within(self, other: Self) -> Option<Self> {
        let both = Self { from: self.from.max(other.from), to: self.to.min(other.to) };
        if both.from < both.to { Some(both) } else { None }
    }
}

/// One state of an object, and how long it lasted.
struct Phase<'h> {
    span: Span,
    state: Option<&'h OrderedState>,
}

/// One object listing another, and for how long.
struct Listing {
    parent: Id,
    span: Span,
}

/// The lives of the objects that are written.
struct Lives<'h> {
    phases: BTreeMap<Id, Vec<Phase<'h>>>,
    listings: BTreeMap<Id, Vec<Listing>>,
}

/// The steps of the plan.
pub(super) fn steps(world: &World<'_>, history: &History) -> Vec<PlanStep> {
    let lives = Lives::new(history);
    let mut after: Vec<BTreeMap<usize, Because>> = history.moments.iter().map(|_| BTreeMap::new()).collect();
    let mut order = |pair: Option<(usize, usize)>, because: Because| {
        if let Some((first, then)) = pair
            && let Some(after) = after.get_mut(then)
        {
            after.entry(first).or_insert(because);
        }
    };
    lives.same_object(&mut order);
    for (child, listings) in &lives.listings {
        lives.one_parent(world, *child, listings, &mut order);
        lives.existence(world, *child, listings, &mut order);
        lives.tiers(world, *child, listings, &mut order);
    }

    let mut last: BTreeMap<Id, StepId> = BTreeMap::new();
    let mut steps = Vec::with_capacity(history.moments.len());
    for ((at, moment), after) in history.moments.iter().enumerate().zip(after) {
        let previous = last.insert(moment.id, StepId(at));
        let writes_before = if previous.is_some() { Writes::Some } else { Writes::None };
        let observed = |object: &Object| Base::Observed {
            uid: object.uid.clone(),
            resource_version: object.resource_version.clone(),
        };
        let base = || {
            let base = previous.map(Base::Step).or_else(|| world.stored[moment.id].map(observed));
            base.expect("what has a state before a step was observed or written by an earlier one")
        };
        let action = match (write::write(world, moment, writes_before), &moment.before) {
            (Some(write), None) => Action::Create { write, part: moment.part },
            (Some(write), Some(_)) => {
                Action::Update { write, base: base(), changes: write::changes(world, moment, writes_before) }
            }
            (None, _) => Action::Delete { base: base(), part: moment.part },
        };
        let after = after.into_iter().map(|(step, because)| Dependency { step: StepId(step), because }).collect();
        steps.push(PlanStep { name: Arc::clone(world.name[moment.id]), action, after });
    }
    steps
}

impl<'h> Lives<'h> {
    fn new(history: &'h History) -> Self {
        let mut lives = Self { phases: BTreeMap::new(), listings: BTreeMap::new() };
        for (at, moment) in history.moments.iter().enumerate() {
            let phases = lives.phases.entry(moment.id).or_insert_with(|| {
                vec![Phase { span: Span { from: 0, to: usize::MAX }, state: moment.before.as_ref() }]
            });
            if let Some(last) = phases.last_mut() {
                last.span.to = at + 1;
            }
            phases.push(Phase { span: Span { from: at + 1, to: usize::MAX }, state: moment.after.as_ref() });
        }
        for (parent, phases) in &lives.phases {
            let mut open: BTreeMap<Id, Span> = BTreeMap::new();
            let mut closed: Vec<(Id, Span)> = Vec::new();
            for phase in phases {
                let children = phase.state.map_or(&[][..], |state| &state.children);
                for child in children {
                    open.entry(*child).or_insert(phase.span).to = phase.span.to;
                }
                let gone = |child: &Id| children.binary_search(child).is_err();
                closed.extend(open.extract_if(.., |child, _| gone(child)));
            }
            for (child, span) in closed.into_iter().chain(open) {
                lives.listings.entry(child).or_default().push(Listing { parent: *parent, span });
            }
        }
        lives
    }

    fn phases(&self, id: Id) -> &[Phase<'h>] {
        self.phases.get(&id).map_or(&[], Vec::as_slice)
    }

    fn same_object(&self, order: &mut impl FnMut(Option<(usize, usize)>, Because)) {
        for phases in self.phases.values() {
            for (one, next) in phases.iter().zip(phases.iter().skip(2)) {
                order(one.span.before(next.span), Because::SameObject);
            }
        }
    }

    /// Two parents that list one child.
    fn one_parent(
        &self,
        world: &World<'_>,
        child: Id,
        listings: &[Listing],
        order: &mut impl FnMut(Option<(usize, usize)>, Because),
    ) {
        for then in listings.iter().filter(|listing| listing.span.from > 0) {
            for first in listings.iter().filter(|listing| listing.parent != then.parent) {
                order(first.span.before(then.span), Because::Releases(Arc::clone(world.name[child])));
            }
        }
    }

    /// A child that is listed while it does not exist.
    fn existence(
        &self,
        world: &World<'_>,
        child: Id,
        listings: &[Listing],
        order: &mut impl FnMut(Option<(usize, usize)>, Because),
    ) {
        let name = world.name[child];
        for absent in self.phases(child).iter().filter(|phase| phase.state.is_none()) {
            for listing in listings.iter().filter(|listing| listing.parent != child) {
                order(listing.span.before(absent.span), Because::Unlists(Arc::clone(name)));
                order(absent.span.before(listing.span), Because::Creates(Arc::clone(name)));
            }
        }
    }

    /// A child that is not below its parent.
    fn tiers(
        &self,
        world: &World<'_>,
        child: Id,
        listings: &[Listing],
        order: &mut impl FnMut(Option<(usize, usize)>, Because),
    ) {
        let still;
        let below = match self.phases(child) {
            [] => {
                still = world.stored[child].map(|object| object.spec.tier);
                vec![(Span { from: 0, to: usize::MAX }, still)]
            }
            phases => phases.iter().map(|phase| (phase.span, phase.state.map(|state| state.tier))).collect(),
        };
        for listing in listings.iter().filter(|listing| listing.parent != child) {
            for phase in self.phases(listing.parent) {
                let Some(above) = phase.span.within(listing.span) else { continue };
                let Some(tier) = phase.state.map(|state| state.tier) else { continue };
                for (span, _) in below.iter().filter(|(_, below)| below.is_some_and(|below| below >= tier)) {
                    let (parent, child) = (world.name[listing.parent], world.name[child]);
                    let because = || Because::Tier { parent: Arc::clone(parent), child: Arc::clone(child) };
                    order(above.before(*span), because());
                    order(span.before(above), because());
                }
            }
        }
    }
}
