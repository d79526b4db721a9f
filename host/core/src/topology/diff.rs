//! From what is stored to what is wanted: which writes, in which order (decision H7, `hypernode.md` 14).
//!
//! The scheduler reads every write on its own. A wrong state between two writes can stop it from placing jobs or crash
//! it. So the planner *simulates* the writes: it changes a model of the stored objects step by step, and takes a step
//! only when the state after it is valid.
//!
//! ```text
//! World ─► Reach ─► Walk ───────────────► order ─► Plan
//! (who     (what    (the history: one      (which two steps
//!  lists    may      valid state after      must keep their
//!  whom)    be       another, `relax` when  order, and why)
//!           written) steps wait in a circle)
//! ```
//!
//! Executed as it is, the history would be one long queue. Fewer steps have to keep their order. Two states of two
//! objects *clash* when they must never exist at the same time: two parents that list one child, a listed child that
//! does not exist, a child whose tier is not lower than its parent's. Where one of two clashing states ended before the
//! other began, the step that ended the one comes before the step that began the other. No selection of steps that
//! respects this order can meet a clash that the stored objects did not have at the beginning. That holds whichever
//! writes are slow, or fail and so stop the steps that depend on them.
//!
//! Never writes an object of another owner, never leaves a member list empty, and writes nothing where nothing differs.
//! What prevents a write is reported beside the plan.

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
