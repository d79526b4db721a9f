//! Properties that hold for every topology, tested with random ones.
//!
//! | file | what it is |
//! |---|---|
//! | `cluster` | a model of the API server: stored objects, preconditions, and the faults in what is stored |
//! | `consumer` | a model of the scheduler's tree (`hypernode.md` 14.2 and 14.3) |
//! | `draw` | random topologies, random damage, random orders |
//! | `histories` | the guard over time: labels, Nodes and restarts |
//! | `plans`, `naming`, `merging`, `observed` | the properties |

pub(super) mod cluster;
mod consumer;
mod draw;
mod histories;
mod merging;
mod naming;
mod observed;
mod plans;
