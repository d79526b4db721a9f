//! Write a topology discoverer for topoloom: one trait, one macro, one `.wasm` file.
//!
//! A discoverer is three pure functions. [`Discoverer::describe`] identifies it, [`Discoverer::configure`] says what a
//! configuration needs, and [`Discoverer::discover`] says how the nodes are wired now. It has no clock, no file and no
//! socket: nodes come as columns, services as named endpoints, and data for the next round goes into its state. The host
//! names objects, compares them with the cluster and writes them; a discoverer only returns groups with identities.
//!
//! ```
//! use topoloom_sdk::prelude::*;
//!
//! /// All nodes with the same value of one label are close together.
//! struct Racks;
//!
//! #[derive(serde::Deserialize)]
//! struct Config {
//!     label: String,
//! }
//!
//! impl Discoverer for Racks {
//!     type Config = Config;
//!
//!     fn describe() -> Description {
//!         Description::new("racks", "0.1.0").vendor("Acme").summary("One group per rack label")
//!     }
//!
//!     fn configure(config: &Config) -> Result<Requirements, Vec<Problem>> {
//!         Ok(Requirements::new().node_label(&config.label).trigger(Trigger::on_columns()))
//!     }
//!
//!     fn discover(config: &Config, input: &Input<'_>) -> Result<Answer, Failure> {
//!         let column = input.nodes.label(&config.label);
//!         let mut topology = TopologyBuilder::new();
//!         let racks = topology.level(Level::new(1).named(&config.label));
//!         for (rack, rows) in column.by_value() {
//!             topology.group(racks, rack).label(&config.label, rack).rows(rows);
//!         }
//!         Ok(topology.finish().into())
//!     }
//! }
//!
//! topoloom_plugin!(Racks);
//!
//! // The same code runs natively: a test needs neither wasm nor a cluster.
//! use topoloom_sdk::testing::Cluster;
//! let cluster = Cluster::new().node("m1", [("rack", "a7")]).node("m2", [("rack", "a7")]).node("m3", []);
//! let answer = cluster.discover::<Racks>(r#"{"label": "rack"}"#).unwrap();
//! assert_eq!(cluster.show(&answer), "tier 1 rack | a7 | rack=a7 | m1 m2\n");
//! ```
//!
//! `topoloom plugin new` writes a whole plugin, and `topoloom plugin build` makes a component of it: the target
//! `wasm32-unknown-unknown`, a `cdylib`, and what `wasm-tools component new` does. `docs/vendors/first-plugin.md` in the repository has
//! every step, from the `Cargo.toml` to the entry of the operator; `docs/vendors/http.md` is about endpoints. An import that
//! the code never calls is not in the component's import list, so the list shows what a discoverer can do.
//!
//! On wasm the crate brings an allocator that is smaller and faster than the usual one; with `default-features = false` a
//! plugin uses its own.
//!
//! The crate never retries, never hides a failure and has no global state. A panic ends the call and is in the host's log
//! with its message and place; the next call starts in a fresh instance.

#[cfg(all(target_arch = "wasm32", feature = "allocator"))]
#[global_allocator]
static ALLOCATOR: talc::wasm::WasmDynamicTalc = talc::wasm::new_wasm_dynamic_allocator();

pub mod applied;
#[doc(hidden)]
pub mod bindings;
pub mod config;
#[doc(hidden)]
pub mod glue;
pub mod http;
pub mod json;
pub mod log;
pub mod nodes;
mod packed;
mod requirements;
// One text of the rules: the host has it, too. Public for the macros that read the types of bindings.
#[cfg(not(target_arch = "wasm32"))]
#[doc(hidden)]
pub mod rules;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
mod topology;

use applied::Applied;
pub use bindings::exports::topoloom::discovery::discoverer::{
    Answer, ConfigMapKey, Description, Endpoint, Location, Outcome, Pause, Problem, Requirements, Tls, Trigger,
};
pub use bindings::topoloom::discovery::types::{
    Column, Coverage, Credential, Diagnostic, Failure, Group, LabelOperator, LabelRequirement, LabelSelector, Level,
    Members, Method, Packed, Subject, Topology, UpstreamFailure,
};
pub use config::FromJson;
use http::Http;
use nodes::Nodes;
pub use topology::{GroupBuilder, GroupRef, LevelRef, TopologyBuilder};

/// The pieces as one text. The standard library's way has code for pieces of every type.
pub(crate) fn join(pieces: &[&str]) -> String {
    let mut text = String::new();
    for piece in pieces {
        text.push_str(piece);
    }
    text
}

/// The names that nearly every discoverer uses.
///
/// ```
/// use topoloom_sdk::prelude::*;
///
/// let wishes = Requirements::new().node_label("rack").trigger(Trigger::on_columns());
/// assert_eq!(wishes.node_labels, ["rack"]);
/// ```
pub mod prelude {
    pub use crate::http::Request;
    pub use crate::json::Elements;
    pub use crate::nodes::{Nodes, Row};
    pub use crate::{
        Answer, Column, Coverage, Credential, Description, Discoverer, Endpoint, Failure, Input, Level, Problem,
        Requirements, Subject, TopologyBuilder, Trigger, topoloom_plugin,
    };
}

/// A discoverer: three pure functions. Export it with [`topoloom_plugin!`].
///
/// ```
/// use topoloom_sdk::prelude::*;
///
/// /// All nodes are close together.
/// struct OneRoom;
///
/// impl Discoverer for OneRoom {
///     type Config = std::collections::BTreeMap<String, String>;
///
///     fn describe() -> Description {
///         Description::new("one-room", "0.1.0").vendor("Acme").summary("One group of all nodes")
///     }
///
///     fn configure(_: &Self::Config) -> Result<Requirements, Vec<Problem>> {
///         Ok(Requirements::new().trigger(Trigger::on_names()))
///     }
///
///     fn discover(_: &Self::Config, input: &Input<'_>) -> Result<Answer, Failure> {
///         let mut topology = TopologyBuilder::new();
///         let level = topology.level(Level::new(1));
///         topology.group(level, "room").rows((0..input.nodes.rows()).collect());
///         Ok(topology.finish().into())
///     }
/// }
/// ```
pub trait Discoverer {
    /// The configuration. Any type that derives `serde::Deserialize` is enough; implement [`FromJson`] yourself to report
    /// several mistakes at once.
    type Config: FromJson;

    /// Name, version and vendor. Constant.
    fn describe() -> Description;

    /// What this configuration needs: node columns, endpoints, and the triggers that start a round.
    ///
    /// # Errors
    ///
    /// Every mistake of the configuration, each with its path. The last valid configuration stays active.
    fn configure(config: &Self::Config) -> Result<Requirements, Vec<Problem>>;

    /// One round.
    ///
    /// # Errors
    ///
    /// Why there is no answer. The active topology stays: prefer this over an incomplete answer.
    fn discover(config: &Self::Config, input: &Input<'_>) -> Result<Answer, Failure>;
}

/// The input of one round.
///
/// ```
/// use topoloom_sdk::prelude::*;
///
/// /// How many nodes have a value, and how long ago the first round was.
/// fn look(input: &Input<'_>) -> (usize, u64) {
///     let with = input.nodes.label("rack").values().flatten().count();
///     let first = input.state.try_into().map_or(input.time, u64::from_le_bytes);
///     (with, input.time - first)
/// }
/// ```
#[derive(Debug)]
pub struct Input<'a> {
    /// The nodes of the cluster.
    pub nodes: Nodes<'a>,
    /// The objects of this source, as they are in the cluster now.
    pub applied: Applied<'a>,
    /// The endpoints that the operator granted.
    pub http: Http<'a>,
    /// When the round started, milliseconds since 1970-01-01 UTC. There is no other clock.
    pub time: u64,
    /// The state of the last answer of the same revision and configuration; empty after a restart.
    pub state: &'a [u8],
}

/// Exports a [`Discoverer`] from a component. Once per crate, at its root. Natively it only checks the type.
///
/// ```
/// # use topoloom_sdk::prelude::*;
/// # struct Racks;
/// # impl Discoverer for Racks {
/// #     type Config = std::collections::BTreeMap<String, String>;
/// #     fn describe() -> Description { Description::new("racks", "0.1.0") }
/// #     fn configure(_: &Self::Config) -> Result<Requirements, Vec<Problem>> { Ok(Requirements::new()) }
/// #     fn discover(_: &Self::Config, _: &Input<'_>) -> Result<Answer, Failure> {
/// #         Ok(TopologyBuilder::new().finish().into())
/// #     }
/// # }
/// use topoloom_sdk::topoloom_plugin;
///
/// topoloom_plugin!(Racks);
/// ```
#[macro_export]
macro_rules! topoloom_plugin {
    ($discoverer:ty) => {
        const _: () = {
            const fn is_a_discoverer<T: $crate::Discoverer>() {}
            is_a_discoverer::<$discoverer>();

            // A native test binary may contain several discoverers, and the symbols below have the same name in each.
            #[cfg(target_arch = "wasm32")]
            mod component {
                use super::*;
                use $crate::bindings::exports::topoloom::discovery::discoverer as interface;

                struct Export;

                impl interface::Guest for Export {
                    fn describe() -> interface::Description {
                        $crate::glue::describe::<$discoverer>()
                    }

                    fn configure(config: String) -> Result<interface::Requirements, Vec<interface::Problem>> {
                        $crate::glue::configure::<$discoverer>(&config)
                    }

                    fn discover(
                        config: String,
                        nodes: &interface::Snapshot,
                        round: interface::Round,
                    ) -> Result<interface::Answer, interface::Failure> {
                        $crate::glue::discover::<$discoverer>(&config, nodes, &round)
                    }
                }

        $crate::bindings::export_plugin!(Export with_types_in $crate::bindings);
            }
        };
    };
}
