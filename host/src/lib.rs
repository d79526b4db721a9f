//! The host of topoloom: discoverers in, HyperNodes out.
//!
//! Rooms that others may use alone, or that nothing else of the host may reach into, are crates of their own, which the
//! rooms here use as if they were beside them: `topoloom_cluster`, `topoloom_nodelock`, `topoloom_sandbox`,
//! `topoloom_serving`. What lends nodes to a virtual cluster is a crate, too, `topoloom_syncer`: [`manager`] starts it.
//!
//! *Observe, decide, act; what decides touches nothing, what acts decides nothing.* The deciding half is
//! `topoloom-core`; here are the edges and the wiring.
//!
//! | room | owns |
//! |---|---|
//! | [`cli`] | the command line: flags to typed options, one file per verb |
//! | [`manager`] | the process: controllers, leases, tasks, health, metrics, the rights that all of it needs |
//! | [`discovery`] | rounds, supervisors, reports: what each source does and what is known of it |
//! | [`topology`] | HyperNodes: observed, written, counted, and who else writes them |
//! | [`delivery`] | where the bytes of plugins come from |
//! | [`config`] | the document in the ConfigMap |
//! | [`plugin`] | the sandbox |
//! | [`endpoints`] | what plugins may ask outside, and how the host does that for them |
//! | [`nodelock`] | the lock of a node between a Binding and the device plugin's answer |
//! | [`extender`] | the HTTP server for kube-scheduler, and its Binds |
//! | [`serving`] | HTTP servers: bounds, TLS, a graceful end |
//! | [`work`] | keys that wait for work, and the workers that take them |
//! | [`cluster`] | connecting to the API server, reading its refusals, watching |
//! | [`traces`] | spans for a collector of traces |
//! | [`log`] | the log, turned up and down while it runs |
//! | [`authorities`] | whom we trust to have signed a certificate |

pub mod cli;
pub mod config;
pub mod delivery;
pub mod discovery;
pub mod log;
pub mod manager;
pub mod topology;
pub mod traces;

pub use topoloom_cluster as cluster;
pub use topoloom_cluster::work;
pub use topoloom_nodelock as nodelock;
pub use topoloom_nodelock::extender;
pub use topoloom_sandbox::{authorities, endpoints, plugin};
pub use topoloom_serving as serving;
