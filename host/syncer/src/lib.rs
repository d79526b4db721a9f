//! The bottom-up syncer at its two API servers (`bottomup-syncer.md`, decisions S1 to S28).
//!
//! Owns what touches the virtual and the physical cluster: connections, watches, requests and the controllers that carry out
//! what the pure rooms of `topoloom_sync` decide. Never decides by itself what a node, a pod or a lease should be.
//!
//! | room | owns |
//! |---|---|
//! | [`convert`] | what the objects of the API say, in the types of the rooms that decide, and back |
//! | [`slices`] | what is read of objects, and the facts made of it |
//! | [`ledger`] | what the pods of both clusters mean for the nodes of a binding |
//! | [`shared`] | one watch for all bindings that follow the same objects by the same connection |
//! | [`view`] | everything that is known for one binding |
//! | [`feeds`] | what watches show, on its way into the view of a binding |
//! | [`kubeconfig`] | which kubeconfigs of borrowers are used |
//! | [`physical`] | connections to physical API servers |
//! | [`kubelet`] | logs, exec, attach and port-forward of lent pods, as a kubelet serves them |
//! | [`heartbeats`] | the leases of virtual nodes |
//! | [`lanes`] | which writes of the virtual cluster go first |
//! | [`nodes`] | the controller of nodes |
//! | [`pods`] | the controller of pods |
//! | [`csi`] | the controller of CSINodes |
//! | [`ports`] | the controller of placeholders for host ports |
//! | [`troubles`] | what is refused, for the conditions of a binding |
//! | [`metrics`] | what is counted of bindings |
//! | [`policies`] | the watch of policies, and the controller of their status |
//! | [`group`] | the tasks of one binding |
//! | [`bindings`] | the controller of a ClusterBinding: connection, claims, verbs, status, deletion |
//! | [`survey`] | one look at a binding without a watch, and what would be written because of it: for the command line |

pub mod bindings;
pub mod convert;
pub mod csi;
pub mod feeds;
pub mod group;
pub mod heartbeats;
pub mod kubeconfig;
pub mod kubelet;
pub mod lanes;
pub mod ledger;
pub mod metrics;
pub mod nodes;
pub mod physical;
mod pod_state;
pub mod pods;
pub mod policies;
pub mod ports;
pub mod shared;
pub mod slices;
pub mod survey;
pub mod troubles;
pub mod view;

#[cfg(test)]
mod tests;
