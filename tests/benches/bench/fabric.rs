//! Discoverers of fabrics: whole rounds against a fabric manager, what grouping costs, and rounds in which nothing
//! changed.
//!
//! Each part runs the builtin plugin in its sandbox and the same code as a native program, by turns in one process. The
//! manager is a simulated one in a process of its own, over TLS on the loopback address.

mod alone;
mod grouping;
mod lists;
mod manager;
mod native;
mod sandbox;
mod unchanged;

use anyhow::Result;

use crate::options::Options;
use crate::table::Table;

pub(crate) use alone::run as run_alone;

/// The parts that this module measures.
pub(crate) const PARTS: [&str; 4] = ["fabric", "grouping", "slope", "unchanged"];

/// The first argument of a process that runs one round and prints how much memory it used.
pub(crate) const ALONE: &str = "one-round";

/// 2 048 hosts with eight rails in three tiers: 98 304 ports that are up.
const LARGE: u32 = 2_048;

pub(crate) async fn measure(options: &Options, table: &mut Table) -> Result<()> {
    if options.wants("fabric") {
        lists::measure(options, table).await?;
    }
    if options.wants("grouping") || options.wants("slope") {
        grouping::measure(options, table).await?;
    }
    if options.wants("unchanged") {
        unchanged::measure(options, table).await?;
    }
    Ok(())
}
