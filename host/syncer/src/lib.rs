//! The bottom-up syncer at its two API servers (`bottomup-syncer.md`, decisions S1 to S28).
//!
//! Owns what touches the virtual and the physical cluster: connections, watches, requests and the controllers that carry out
//! what the pure rooms of `topoloom_sync` decide. Never decides by itself what a node, a pod or a lease should be.

pub mod heartbeats;
