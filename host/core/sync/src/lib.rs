//! Lending nodes of a physical cluster to a virtual one: everything that is decided (`bottomup-syncer.md`, decisions D1 to
//! D15 and S1 to S28).
//!
//! A crate of its own beside `topoloom-core`, and as pure: it takes names, versions and texts from there, the [`keys`] from
//! `topoloom-api`, and knows no client, no clock and no randomness. A change in another room of core does not compile its
//! tests.
//!
//! Each room is a function of facts and of the time: the syncer's controllers, `lend plan` and `lend explain` call the very
//! same ones.
//!
//! | room | owns |
//! |---|---|
//! | [`bars`] | which state forbids which write |
//! | [`conditions`] | the conditions of a virtual node, and which of them are left to others |
//! | [`copied`] | what a virtual node gets of the labels, annotations and taints of its physical one |
//! | [`csi`] | the CSINode of a virtual node |
//! | [`deletion`] | the steps by which a virtual node is taken away |
//! | [`drain`] | which nodes of a binding an operator drains |
//! | [`given`] | a text that cannot be used, as messages show it |
//! | [`guard`] | how much may be disrupted at once |
//! | [`identity`] | whose an object is, claims, and which physical pod belongs to which virtual one |
//! | [`liveness`] | whether a physical cluster answers, and which leases are renewed |
//! | [`merge`] | what of labels, annotations, taints and the cordon is ours to change on a virtual node |
//! | [`naming`] | the names that lending gives, and label values made of long ones |
//! | [`node`] | what follows for one physical node and its virtual one: all of the above in their order |
//! | [`orphaned`] | what a binding that was deleted by force has left, and how its nodes are served |
//! | [`phase`] | the phase of a pod |
//! | [`pods`] | what follows from one physical pod, and who finishes a virtual one |
//! | [`policy`] | whether a policy is valid, which one is in force on a node, and its status |
//! | [`ports`] | which placeholder pods hold the host ports of the lender's pods on a virtual node |
//! | [`precondition`] | what a request must carry so that it meets what was judged |
//! | [`projection`] | the status of a virtual pod, made of that of its physical one |
//! | [`quantity`] | amounts of resources as Kubernetes writes them, exact |
//! | [`reclaim`] | when pods leave a node whose windows are closed |
//! | [`renewal`] | when a lease is renewed, and with which time |
//! | [`release`] | what a binding left that does not exist any more, and what of it an operator may remove |
//! | [`requests`] | what a pod requests in total |
//! | [`resources`] | names of resources, and lists of amounts |
//! | [`schedule`] | whether the windows of a policy are open, and when that changes next |
//! | [`selector`] | which nodes a policy or a binding selects, and why one is not |
//! | [`served`] | which of several installations serves a binding |
//! | [`sizes`] | how large a virtual node is and why, and when that is written |
//! | [`sorted`] | small maps of which there are thousands |
//! | [`spread`] | which replica serves which binding, and when one is handed over |
//! | [`streams`] | whether a stream to a virtual pod is passed on to a physical one |
//! | [`summary`] | the numbers of a virtual node in one line |
//! | [`taints`] | taints, which tolerations match them and for how long, and the taints that a virtual node should have |
//! | [`texts`] | labels and annotations, as they are held for thousands of nodes |
//! | [`truth`] | whether a condition holds, in the words of Kubernetes |
//! | [`wall`] | how far the wall clock is trusted: by which time windows are judged, and the clocks of earlier processes |
//! | [`window`] | one time window of a policy, as it is written |
//! | [`witness`] | whether the store of one of the two clusters was set back |
//! | [`zone`] | time zones by their IANA names, compiled in |

pub mod bars;
pub mod conditions;
pub mod copied;
pub mod csi;
pub mod deletion;
pub mod drain;
pub mod given;
pub mod guard;
pub mod identity;
pub mod liveness;
pub mod merge;
#[cfg(test)]
mod model;
pub mod naming;
pub mod node;
pub mod orphaned;
pub mod phase;
pub mod pods;
pub mod policy;
pub mod ports;
pub mod precondition;
pub mod projection;
pub mod quantity;
pub mod reclaim;
pub mod release;
pub mod renewal;
pub mod requests;
pub mod resources;
pub mod schedule;
pub mod selector;
pub mod served;
pub mod sizes;
pub mod sorted;
pub mod spread;
pub mod streams;
pub mod summary;
pub mod taints;
pub mod texts;
pub mod truth;
pub mod wall;
pub mod window;
pub mod witness;
pub mod zone;

/// Labels, annotations, taints and finalizers, each once.
pub use topoloom_api::names::lending as keys;
