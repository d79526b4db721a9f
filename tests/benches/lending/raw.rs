//! The raw client: it knows the result before, and sends only the requests that every program must send, on connections like
//! those of the host.

mod births;
mod reads;
mod renewals;

pub(crate) use births::{Pattern, births, clear, remove_leases, taints};
pub(crate) use reads::{lists, machines};
pub(crate) use renewals::run as run_renewals;

/// The first argument of a process that renews leases, and nothing else.
pub(crate) const RENEWER: &str = "raw-renewer";
/// How the names of raw nodes begin.
pub(crate) const RAW: &str = "raw-";
/// Writes under way at once, as many as the host has workers for nodes.
const AT_ONCE: usize = 32;
