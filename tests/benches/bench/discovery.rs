//! A whole round of the label discoverer in its sandbox, beside the same algorithm written natively.
//!
//! Each side starts from data in memory and ends with the decoded model. The sandbox starts from columns, with a new
//! instance; the native code starts from a map of label strings per node, as a program without columns keeps them. Runs
//! alternate in one process, because the speed of allocator and machine changes with time.

mod native;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail};
use topoloom::endpoints::Endpoints;
use topoloom::plugin::{Call, Compiler, Load, Plugin, RoundInput, Runtime};
use topoloom_core::plugin::{Answer, Answered, Granted, Limits};
use topoloom_core::snapshot::{ColumnKey, NodeMeta, Store, View};
use topoloom_core::topology::{Members, Topology};
use topoloom_tests::builtins;

use crate::cluster::{KEYS, TYPES, name, values};
use crate::options::Options;
use crate::sample::Sample;
use crate::table::{Row, Table, Target, mib, time};

/// Number of nodes, number of runs, and the highest ratio allowed.
const SIZES: [(u32, usize, f64); 3] = [(1_000, 2_000, 1.0), (10_000, 400, 0.8), (100_000, 80, 0.8)];
/// Runs that are not counted: caches, page tables and branch predictors.
const WARM_UP: usize = 5;
/// The most memory that the guest may use at the largest size.
const PEAK_MIB: f64 = 8.0;

pub(crate) async fn measure(options: &Options, table: &mut Table) -> Result<()> {
    let builtin = builtins::find("label");
    let runtime = Runtime::start(Compiler::Child { exe: topoloom_tests::host::binary()? })?;
    let load = Load { bytes: Arc::clone(&builtin.bytes), pinned: None, limits: Limits::default() };
    let plugin = runtime.load(load).await?;
    let largest = SIZES[SIZES.len() - 1].0;
    for size in options.nodes(&SIZES.map(|(size, ..)| size)) {
        let (_, runs, target) = SIZES.iter().find(|(of, ..)| size <= *of).unwrap_or(&SIZES[SIZES.len() - 1]);
        let found = side_by_side(&plugin, size, options.runs(*runs)).await?;
        let sandbox = found.sandbox.median();
        let row = Row::new(format!("label discovery, {size} nodes, 3 keys, in the sandbox"), time(sandbox));
        table.add(row.against("native", sandbox, found.native.median(), Target::AtMost(*target)));
        let peak = found.peak_memory as f64 / f64::from(1 << 20);
        let target = if size == largest { Target::AtMost(PEAK_MIB) } else { Target::None };
        table.add(Row::new(format!("  peak memory of the guest, {size} nodes"), mib(peak)).target(peak, target, mib));
    }
    let size = builtin.bytes.len() as f64 / 1024.0;
    table.add(Row::new("  size of the label component", format!("{size:.0} KiB")));
    Ok(())
}

/// What was measured at one size.
struct RoundFigures {
    sandbox: Sample,
    native: Sample,
    peak_memory: usize,
}

async fn side_by_side(plugin: &Plugin, size: u32, runs: usize) -> Result<RoundFigures> {
    let round = round(size);
    let nodes = native::nodes(size);
    let source = "label".parse()?;
    let mut found = RoundFigures { sandbox: Sample::default(), native: Sample::default(), peak_memory: 0 };
    for run in 0..WARM_UP + runs {
        let round = round.clone();
        let begin = Instant::now();
        let call = plugin.discover(&source, round).await;
        let sandbox = begin.elapsed();
        let begin = Instant::now();
        let wanted = native::discover(&nodes);
        let native = begin.elapsed();
        if run == 0 {
            same(call, &wanted)?;
        } else if run >= WARM_UP {
            found.peak_memory = found.peak_memory.max(call.usage.peak_memory);
            found.sandbox.push(sandbox);
            found.native.push(native);
        }
    }
    Ok(found)
}

/// The arguments of a round over the cluster.
fn round(size: u32) -> RoundInput {
    let granted = Granted { labels: KEYS.map(Arc::from).into(), ..Granted::default() };
    RoundInput {
        config: TYPES.into(),
        granted: Arc::new(granted),
        nodes: view(size),
        applied: Arc::default(),
        endpoints: Endpoints::none(),
        time: jiff::Timestamp::UNIX_EPOCH,
        state: Arc::default(),
    }
}

fn view(size: u32) -> View {
    let keys = KEYS.map(ColumnKey::label);
    let mut store = Store::new();
    store.require(keys.clone());
    store.begin_relist();
    for node in 0..size {
        let values = values(node);
        let labels = KEYS.into_iter().zip(values.iter().map(String::as_str));
        store.relist(NodeMeta { name: &name(node), labels, annotations: [] });
    }
    store.commit_relist();
    store.view(&keys)
}

/// Fails if both found different topologies: then their times cannot be compared.
fn same(call: Call<Answer>, wanted: &Topology) -> Result<()> {
    let Answered::Topology(found) = call.end?.outcome else { bail!("the label plugin says unchanged") };
    if shape(&found) != shape(wanted) {
        bail!("sandbox and native found different topologies");
    }
    Ok(())
}

/// Labels and number of members, by identity and tier.
type Shape = BTreeMap<(Arc<str>, u32), (Vec<(Arc<str>, Arc<str>)>, usize)>;

/// Labels and number of members of each group.
fn shape(topology: &Topology) -> Shape {
    let groups = topology.groups.iter().map(|group| {
        let members = match &group.members {
            Members::Rows(members) | Members::Groups(members) => members.len(),
            Members::Names(members) => members.len(),
            Members::Selector(_) => 0,
        };
        ((Arc::clone(&group.id), group.tier), (group.labels.clone(), members))
    });
    groups.collect()
}
