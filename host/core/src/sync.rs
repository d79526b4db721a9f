//! Lending nodes of a physical cluster to a virtual one: everything that is decided (`bottomup-syncer.md`, decisions D1 to
//! D15 and S1 to S28).
//!
//! Each room is a function of facts and of the time: the syncer's controllers, `lend plan` and `lend explain` call the very
//! same ones.
//!
//! | room | owns |
//! |---|---|
//! | [`bars`] | which state forbids which write |
//! | [`deletion`] | the steps by which a virtual node is taken away |
//! | [`guard`] | how much may be disrupted at once |
//! | [`keys`] | labels, annotations, taints and finalizers, each once |
//! | [`liveness`] | whether a physical cluster answers, and which leases are renewed |
//! | [`renewal`] | when a lease is renewed, and with which time |

pub mod bars;
pub mod deletion;
pub mod guard;
pub mod keys;
pub mod liveness;
pub mod renewal;
