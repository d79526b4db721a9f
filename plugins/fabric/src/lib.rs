//! From cables to groups: the code that all discoverers of fabrics share.
//!
//! A discoverer reads its source (a fabric manager, link-layer neighbours) into a [`Wiring`]; [`place`] turns it into an
//! answer: hosts that hang on the same switches are a group, groups below the same upper switches are a larger one.
//! Wrong cables, dead links, storage leaves and replaced switches do not move any host to another group; they are
//! reported.
//!
//! ```
//! use topoloom_fabric::{Link, Settings, State, Wiring, place};
//! use topoloom_sdk::prelude::*;
//!
//! fn round(settings: &Settings, input: &Input<'_>) -> Answer {
//!     let state = State::from_bytes(input.state);
//!     let mut wiring = Wiring::new();
//!     let host = wiring.host("gpu-a017");
//!     let leaf = wiring.switch("5c6d7e0000bb0203", "ib-leaf-su2-r3");
//!     wiring.link(host, leaf, Link::up("mlx5_2").to("1/9/1"));
//!     let outcome = place(&wiring, settings, &state.memory, input);
//!     outcome.answer(Vec::new(), input)
//! }
//! ```
//!
//! Findings for operators are diagnostics. Their codes are stable:
//!
//! | code | meaning | subject |
//! |---|---|---|
//! | `miscabled-host` | a host with cables into a unit that is not its own: how many links agree, and each odd cable | Node or host |
//! | `tied-host` | a host with as many links to another place; its neighbours decided, or the smaller switch | Node or host |
//! | `shared-leaf` | a leaf whose hosts are in several units, with counts | switch |
//! | `dead-links` | how many links of a host are down, and which | Node or host |
//! | `kept-while-down` | Nodes without a live link that stay in their group, by group | Nodes |
//! | `kept-uplinks` | groups without a link to a switch above that stay in their group, by that group | group |
//! | `lost-tier` | an earlier tier to which no cable leads any more; its groups stay unchanged | source |
//! | `kept-while-split` | hosts or groups whose links no longer lead to their group; they stay in it while links may be missing | group |
//! | `dropped-while-down` | Nodes that left their group because they had no live link for too long | Nodes |
//! | `unmatched-host`, `ambiguous-host` | a host that matches no Node, or several | host |
//! | `duplicate-host` | a second host that matches one Node | Node |
//! | `unnamed-host` | ports of machines without a name whose GUID no Node lists | source |
//! | `no-links` | no Node has a link that counts, and why each link does not | source |
//!
//! The first thousand findings of a code are reported one by one; one more says how many there are in all. Records that a
//! discoverer left out ([`Wiring::skip`]) and notes on the configuration follow, under codes of its own.
//!
//! Pure: no clock, no randomness, no request. The same wiring in any order gives the same answer.

mod answer;
mod bundle;
mod bytes;
mod declared;
mod doubt;
mod graph;
mod guid;
mod hosts;
mod interned;
mod level;
mod matching;
mod memory;
mod naming;
mod place;
mod reader;
mod report;
mod settings;
mod state;
mod tree;
mod volcano;
mod wiring;

pub use guid::Guid;
pub use memory::Memory;
pub use naming::{HostNames, clean_host, clean_switch, is_aggregation_node};
pub use place::{Change, Counts, Outcome, place};
pub use reader::{Note, Reader};
pub use settings::{Declared, Down, Rewrite, Settings, SharedKey, Tiers, Which};
pub use state::{Part, State};
pub use volcano::volcano;
pub use wiring::{HostId, IGNORED, Link, LinkState, NAMELESS, SwitchId, Wiring};
