//! From what is stored to what is wanted: which writes, in which order (decision H7, `hypernode.md` 14).
//!
//! The scheduler sees every write on its own, and a wrong moment in between can stop it from placing jobs or crash it.
//! So a plan is made by *playing it through*: a model of the stored objects is changed step by step, and a step is taken
//! only when what it leads to is sound.
//!
//! ```text
//! World ─► Reach ─► Walk ───────────────► order ─► Plan
//! (who     (what we  (the history: one      (which two steps
//!  lists    may       sound state after      must keep their
//!  whom)    write)    another, `relax` when  order, and why)
//!                     steps wait in a circle)
//! ```
//!
//! The history alone would be one long queue. What has to stay in order is less: two states of two objects *clash* when
//! they must never be seen together (two parents that list one child, a listed child that does not exist, a child that is
//! not below its parent). Wherever one of two clashing states ended before the other began, the step that ended the one
//! comes before the step that began the other. Then no selection of steps that respects the order can meet a clash that
//! the stored objects did not have at the beginning: whichever writes are slow, or fail and take their dependents with
//! them.
//!
//! Never writes an object of somebody else, never leaves a member list empty, and writes nothing where nothing differs.
//! What stands in the way of a write is reported beside the plan.

mod order;
mod reach;
mod relax;
mod table;
mod walk;
mod world;
mod write;

use std::sync::Arc;

use super::model::Object;
use super::naming::Named;
use super::plan::Plan;
use reach::Reach;
use walk::Walk;
use world::World;

/// Plans the writes that turn the stored objects of a source into the wanted ones.
///
/// `observed` is every HyperNode of the cluster, the same that was given to [`name`](super::name).
#[must_use]
pub fn diff(observed: &[Arc<Object>], desired: &Named) -> Plan {
    let world = World::new(observed, desired);
    let reach = Reach::new(&world);
    let history = Walk::new(&world, &reach).run();
    let mut blocked = reach.into_blocked();
    blocked.extend(history.stuck(&world));
    blocked.sort_unstable();
    Plan { steps: order::steps(&world, &history), blocked }
}

#[cfg(test)]
mod tests;
