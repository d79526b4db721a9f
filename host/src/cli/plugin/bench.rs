//! `topoloom plugin bench`: what a plugin takes over 1 000, 10 000 and 100 000 nodes, and of which limit.

mod document;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use topoloom_core::names::SourceName;
use topoloom_core::plugin::{Amount, Limits};
use topoloom_workshop::bench::{self, Bench, Compiled, Measure, Size, Spread};
use topoloom_workshop::cases::Case;
use topoloom_workshop::nodes::Nodes;
use topoloom_workshop::rounds::shares::{Rounded, Share};

use super::inspect::config::{self, Given};
use super::place::{PluginPlace, RegistryArgs};
use super::sandbox::ProfileArg;
use super::target::{Component, Target, patient};
use crate::cli::desk::read_recording;
use crate::cli::output::OutputArgs;
use crate::cli::{executable, print};
use crate::endpoints::recording::Recording;
use crate::plugin::{Compiler, Digest, Runtime};
pub(in crate::cli) use document::Benched;

/// How long one size is measured at most: a plugin in Python takes half a second for each round of the largest.
const PATIENCE: Duration = Duration::from_secs(20);
/// Shares below this are not printed for people: nine of ten limits have nothing to do with most plugins.
const SMALL: f64 = 0.1;

/// Flags of `plugin bench`.
#[derive(Debug, Args)]
pub(in crate::cli) struct BenchArgs {
    /// The plugin: a component, the folder of a project, which is built first, or a reference, oci://REGISTRY/NAME:TAG
    #[arg(value_name = "DIR|FILE|REF", default_value = ".")]
    plugin: PluginPlace,
    #[command(flatten)]
    registry: RegistryArgs,
    /// The configuration: its own, an entry, or the whole document; default: that of the first case
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The entry of the document
    #[arg(long, value_name = "NAME", requires = "config")]
    source: Option<SourceName>,
    /// Nodes that are copied until there are enough; default: those of the first case, or made-up ones
    #[arg(long, value_name = "FILE")]
    nodes: Option<PathBuf>,
    /// What endpoints answer in every round; default: the recording of the first case
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// How many nodes, several times for several measures
    #[arg(long, value_name = "NODES", value_delimiter = ',', default_values_t = bench::SIZES)]
    size: Vec<usize>,
    /// How many rounds of each size at most; a size is measured for 20 seconds
    #[arg(long, value_name = "NUMBER", default_value_t = 200)]
    rounds: usize,
    /// The limits; default: those of the entry, those of the project, or the standard ones
    #[arg(long, value_enum)]
    profile: Option<ProfileArg>,
    #[command(flatten)]
    output: OutputArgs,
}

/// What is measured, put together from flags and the first case.
struct Inputs {
    config: String,
    nodes: Option<Nodes>,
    recording: Option<Recording>,
    limits: Limits,
}

/// Measures, prints, and fails where a round has no answer.
pub(super) async fn run(args: BenchArgs) -> anyhow::Result<ExitCode> {
    let component = Target::at(&args.plugin).component(&args.registry).await?;
    let inputs = inputs(&args, &component)?;
    let runtime = Runtime::start(Compiler::AtDesk { exe: executable() })?;
    let (desk, compiled) = bench::open(&runtime, Arc::clone(&component.bytes), inputs.limits).await?;
    let measure = Measure {
        config: &inputs.config,
        nodes: inputs.nodes.as_ref(),
        recording: inputs.recording.as_ref(),
        sizes: &args.size,
        rounds: args.rounds,
        patience: PATIENCE,
    };
    let measured = Box::pin(bench::run(&desk, compiled, &measure)).await?;
    let digest = Digest::of(&component.bytes);
    args.output.print(&Benched::of(component.place, &digest, &measured), |_| text(&measured))?;
    let ended = measured.sizes.iter().find_map(|size| Some((size.nodes, size.ended.as_ref()?)));
    if let Some((nodes, why)) = ended {
        bail!("no answer over {nodes} nodes: {why}");
    }
    Ok(ExitCode::SUCCESS)
}

fn inputs(args: &BenchArgs, component: &Component) -> anyhow::Result<Inputs> {
    let given = args.config.as_deref().map(|path| config::read(path, args.source.as_ref())).transpose()?;
    let case = first_case(&component.cases)?;
    let of_case = case.as_ref().and_then(|case| Some((case, case.turns.first()?)));
    let config = match (&given, of_case) {
        (Some(given), _) => given.config().to_string(),
        (None, Some((_, turn))) => turn.config.clone(),
        (None, None) => "{}".to_owned(),
    };
    let nodes = match &args.nodes {
        Some(path) => Some(Nodes::read(path).with_context(|| format!("--nodes {}", path.display()))?),
        None => of_case.map(|(_, turn)| turn.nodes.clone()).filter(|nodes| !nodes.is_empty()),
    };
    let recording = match &args.replay {
        Some(path) => Some(read_recording(path)?),
        None => of_case.and_then(|(case, turn)| turn.recording.clone().or_else(|| case.recording.clone())),
    };
    let of_entry = given.as_ref().and_then(Given::entry).map(|entry| entry.limits.applied());
    let of_flag = args.profile.map(ProfileArg::limits);
    let limits = of_flag.or(of_entry).or_else(|| component.limits.clone()).unwrap_or_default();
    // The second compile is measured, too, and takes longer than the one that an operator waits for.
    Ok(Inputs { config, nodes, recording, limits: patient(limits) })
}

fn first_case(folder: &Path) -> anyhow::Result<Option<Case>> {
    match Case::read_all(folder) {
        Ok(cases) => Ok(cases.into_iter().next()),
        Err(wrong) => bail!("{}", wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
    }
}

/// Two tables: what does not depend on nodes, and a row for each size; then of each limit the largest share.
fn text(bench: &Bench) -> String {
    let time = |time: Duration| Rounded(Amount::Time(time)).to_string();
    let spread = |spread: Spread| [time(spread.median), time(spread.p99)];
    let Compiled { wall, cpu, optimised } = bench.compile;
    let row = |name: &str, cells: &[String]| {
        std::iter::once(name.to_owned()).chain(cells.iter().cloned()).collect::<Vec<_>>()
    };
    let head = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let mut text = print::table(&[
        row("load", &[time(wall), format!("{} of processor time, optimised {}", time(cpu), time(optimised))]),
        row("instantiate", &spread(bench.instantiate)),
        row("configure", &spread(bench.configure)),
    ]);
    text.push('\n');
    let size = |size: &Size| {
        let memory = Rounded(Amount::Bytes(u64::try_from(size.peak_memory).unwrap_or(u64::MAX)));
        let [median, p99] = spread(size.round);
        let cells = [size.groups.to_string(), size.round.count.to_string(), median, p99, memory.to_string()];
        row(&size.nodes.to_string(), &cells)
    };
    let mut rows = vec![head(&["nodes", "groups", "rounds", "median", "p99", "memory"])];
    rows.extend(bench.sizes.iter().map(size));
    text.push_str(&print::table(&rows));
    let largest = bench.sizes.last().map(|size| size.shares.as_slice()).unwrap_or_default();
    let shares: Vec<&Share> = bench.shares.iter().chain(largest).filter(|share| share.percent() >= SMALL).collect();
    if let (false, Some(size)) = (shares.is_empty(), bench.sizes.last()) {
        push_line!(text, "\nof its limits, over {} nodes:", size.nodes);
        for share in shares {
            push_line!(text, "  {share}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use topoloom_core::plugin::Usage;
    use topoloom_workshop::rounds::shares::of_round;

    use super::*;

    pub(super) fn bench() -> Bench {
        let spread = |median: u64, p99: u64| Spread {
            count: 200,
            median: Duration::from_micros(median),
            p99: Duration::from_micros(p99),
        };
        let usage = Usage { cpu: Duration::from_millis(50), peak_memory: 3 << 20, ..Usage::default() };
        let size = Size {
            nodes: 10_000,
            groups: 625,
            round: spread(612, 1_840),
            peak_memory: 3 << 20,
            shares: of_round(&usage, &Limits::default()),
            ended: None,
        };
        let millis = Duration::from_millis;
        Bench {
            compile: Compiled { wall: millis(48), cpu: millis(30), optimised: millis(70) },
            instantiate: spread(90, 200),
            configure: spread(110, 250),
            sizes: vec![size],
            shares: Vec::new(),
        }
    }

    #[test]
    fn a_person_sees_times_memory_and_the_limits_that_matter() {
        assert_eq!(
            text(&bench()),
            "load         48.0ms  30.0ms of processor time, optimised 70.0ms\n\
             instantiate  90µs    200µs\n\
             configure    110µs   250µs\n\
             \n\
             nodes  groups  rounds  median  p99    memory\n\
             10000  625     200     612µs   1.8ms  3.0Mi\n\
             \n\
             of its limits, over 10000 nodes:\n  cpu 50.0ms of 5s (1.0 %)\n  memory 3.0Mi of 256Mi (1.2 %)\n"
        );
    }
}
