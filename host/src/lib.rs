//! The host of topoloom: discoverers in, HyperNodes out.
//!
//! *Observe, decide, act; what decides touches nothing, what acts decides nothing.* The deciding half is
//! `topoloom-core`; here are the edges and the wiring.
//!
//! | room | owns |
//! |---|---|
//! | [`cli`] | the command line: flags to typed options, one file per verb |
//! | [`manager`] | the process: tasks, configuration, health, metrics, the admin server |
//! | [`log`] | the log, turned up and down while it runs |
//! | [`traces`] | spans for a collector of traces |
//! | [`authorities`] | whom we trust to have signed a certificate |
//! | [`config`] | the document in the ConfigMap |
//! | [`cluster`] | connecting to the API server and reading its refusals |
//! | [`discovery`] | nodes, rounds, supervisors, reports |
//! | [`topology`] | HyperNodes: observed, written, counted |
//! | [`plugin`] | the sandbox |
//! | [`work`] | keys that wait for work, and the workers that take them |

pub mod authorities;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod delivery;
pub mod discovery;
pub mod endpoints;
pub mod extender;
pub mod log;
pub mod manager;
pub mod nodelock;
mod panics;
pub mod plugin;
mod seldom;
mod text;
pub mod topology;
pub mod traces;
pub mod work;
