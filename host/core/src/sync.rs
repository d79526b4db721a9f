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
//! | [`given`] | a text that cannot be used, as messages show it |
//! | [`guard`] | how much may be disrupted at once |
//! | [`keys`] | labels, annotations, taints and finalizers, each once |
//! | [`liveness`] | whether a physical cluster answers, and which leases are renewed |
//! | [`policy`] | whether a policy is valid, which one is in force on a node, and its status |
//! | [`quantity`] | amounts of resources as Kubernetes writes them, exact |
//! | [`renewal`] | when a lease is renewed, and with which time |
//! | [`requests`] | what a pod requests in total |
//! | [`resources`] | names of resources, and lists of amounts |
//! | [`schedule`] | whether the windows of a policy are open, and when that changes next |
//! | [`selector`] | which nodes a policy or a binding selects, and why one is not |
//! | [`sizes`] | how large a virtual node is and why, and when that is written |
//! | [`summary`] | the numbers of a virtual node in one line |
//! | [`window`] | one time window of a policy, as it is written |
//! | [`zone`] | time zones by their IANA names, compiled in |

pub mod bars;
pub mod deletion;
pub mod given;
pub mod guard;
pub mod keys;
pub mod liveness;
pub mod policy;
pub mod quantity;
pub mod renewal;
pub mod requests;
pub mod resources;
pub mod schedule;
pub mod selector;
pub mod sizes;
pub mod summary;
pub mod window;
pub mod zone;
