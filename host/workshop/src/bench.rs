//! How much a plugin takes over a thousand, ten thousand and a hundred thousand nodes, and of which limit.
//!
//! Owns the nodes of a measure, the rounds of it, and their summary. Measured is what a host would have after a while: the
//! image that it makes of a plugin that has proved itself. Never judges: what is too slow is for a person, or for a CI that
//! compares two of these.
//!
//! # Failure story
//!
//! A round without an answer ends the measure of its size with the words of the host; what was measured before is kept.

use std::sync::Arc;
use std::time::{Duration, Instant};

use topoloom_core::plugin::{CallError, Limits, Usage};
use topoloom_sandbox::endpoints::recording::Recording;
use topoloom_sandbox::plugin::{LoadError, Runtime};

use crate::nodes::Nodes;
use crate::rounds::shares::{Share, most, of_answer, of_compile, of_plugin, of_round, of_short_call};
use crate::rounds::{Ask, Configured, Desk, Exchanges, NoAnswer};

/// The clusters: a test bed, a usual one, and the largest that is promised.
pub const SIZES: [usize; 3] = [1_000, 10_000, 100_000];

/// What is measured.
#[derive(Clone)]
pub struct Measure<'a> {
    /// The configuration, JSON.
    pub config: &'a str,
    /// Nodes that are copied until there are enough; `None`: made-up ones with the columns that the plugin reads.
    pub nodes: Option<&'a Nodes>,
    /// What services answer, in every round the same.
    pub recording: Option<&'a Recording>,
    /// The numbers of nodes.
    pub sizes: &'a [usize],
    /// Rounds of each size at most.
    pub rounds: usize,
    /// How long one size is measured; at least [`FEWEST`] rounds are.
    pub patience: Duration,
}

/// Rounds of one size at least: fewer have no middle.
pub const FEWEST: usize = 5;

/// What was measured.
#[derive(Debug, Clone)]
pub struct Bench {
    /// From bytes to an image.
    pub compile: Compiled,
    /// An instance.
    pub instantiate: Spread,
    /// `configure`, its instance included.
    pub configure: Spread,
    /// One for each size, as far as it came.
    pub sizes: Vec<Size>,
    /// Of each limit that does not depend on the nodes, how much is used.
    pub shares: Vec<Share>,
}

/// How long it took to make images.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compiled {
    /// Elapsed, from bytes to a plugin that can be called.
    pub wall: Duration,
    /// Processor time of the compiler.
    pub cpu: Duration,
    /// Processor time of the second compile, with optimisation.
    pub optimised: Duration,
}

/// One size.
#[derive(Debug, Clone)]
pub struct Size {
    /// Nodes.
    pub nodes: usize,
    /// Groups of the answer.
    pub groups: usize,
    /// Elapsed time of the rounds.
    pub round: Spread,
    /// The most memory of a round, bytes.
    pub peak_memory: usize,
    /// Of each limit, the most that a round used.
    pub shares: Vec<Share>,
    /// Why it was not measured to its end.
    pub ended: Option<NoAnswer>,
}

/// Times of the same thing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spread {
    /// How often it was measured.
    pub count: usize,
    /// Half of them took no longer.
    pub median: Duration,
    /// 99 of 100 took no longer.
    pub p99: Duration,
}

impl Spread {
    /// Of these times.
    #[must_use]
    pub fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        // The smallest that so many per cent do not exceed.
        let at = |percent: usize| times.get((times.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        Self { count: times.len(), median: at(50).unwrap_or_default(), p99: at(99).unwrap_or_default() }
    }
}

/// Loads a plugin, and measures what that takes. Nothing else may run a program meanwhile: the processor time is that of all
/// children of this process.
///
/// # Errors
/// Why a host would refuse it.
pub async fn open(runtime: &Runtime, bytes: Arc<[u8]>, limits: Limits) -> Result<(Desk, Compiled), LoadError> {
    let (begun, before) = (Instant::now(), children());
    let desk = Desk::open(runtime, bytes, limits).await?;
    let (wall, quick) = (begun.elapsed(), children());
    desk.plugin().optimise().await?;
    let optimised = children().saturating_sub(quick);
    Ok((desk, Compiled { wall, cpu: quick.saturating_sub(before), optimised }))
}

/// Measures all of it.
///
/// # Errors
/// When the configuration is refused, or the plugin cannot even start.
pub async fn run(desk: &Desk, compile: Compiled, measure: &Measure<'_>) -> Result<Bench, CallError> {
    let limits = desk.plugin().limits();
    let configured = desk.settle(measure.config).await?;
    let (mut starts, mut configures, mut shares) = (Vec::new(), Vec::new(), of_plugin(desk.plugin()));
    // A builtin plugin brings its image, so nothing was compiled.
    shares.extend((!compile.cpu.is_zero()).then(|| of_compile(compile.cpu.max(compile.optimised), limits)));
    let begun = Instant::now();
    for round in 0..measure.rounds.max(FEWEST) {
        if round >= FEWEST && begun.elapsed() > measure.patience {
            break;
        }
        let started = desk.plugin().start(desk.source()).await;
        started.end?;
        starts.push(started.usage.wall);
        let call = desk.configure(measure.config).await;
        call.end?;
        configures.push(call.usage.wall);
        shares.extend(of_short_call(&call.usage, limits));
    }
    let mut sizes = Vec::new();
    for nodes in measure.sizes {
        let size = size(desk, &configured, *nodes, measure).await;
        let has_ended = size.ended.is_some();
        sizes.push(size);
        if has_ended {
            break;
        }
    }
    let (instantiate, configure) = (Spread::of(starts), Spread::of(configures));
    Ok(Bench { compile, instantiate, configure, sizes, shares: most(shares) })
}

async fn size(desk: &Desk, configured: &Configured, count: usize, measure: &Measure<'_>) -> Size {
    let limits = desk.plugin().limits();
    let nodes = match measure.nodes {
        Some(nodes) => nodes.times_to(count),
        None => Nodes::made_up(count, &configured.keys),
    };
    let view = nodes.view(&configured.keys, 0);
    let mut measured = Measured::default();
    let begun = Instant::now();
    for round in 0..measure.rounds.max(FEWEST) {
        if round >= FEWEST && begun.elapsed() > measure.patience {
            break;
        }
        let exchanges = match measure.recording.map(|recording| desk.replay(recording.clone())) {
            None => Exchanges::None,
            Some(Ok(exchanges)) => exchanges,
            Some(Err(what)) => {
                measured.ended = Some(NoAnswer::Endpoints(vec![what]));
                break;
            }
        };
        let ask = Ask { exchanges, ..Ask::new(&nodes, measure.config) };
        let asked = desk.turn(configured, view.clone(), &ask).await;
        measured.shares.extend(of_round(&asked.usage, limits));
        if let Some(found) = asked.found() {
            measured.groups = found.topology.groups.len();
            measured.shares.extend(of_answer(&found.topology, asked.state.len(), nodes.len(), limits));
        }
        // What ended for want of an answer took what it took.
        measured.count(&asked.usage);
        if let Err(why) = asked.end {
            measured.ended = Some(why);
            break;
        }
    }
    measured.size(nodes.len())
}

/// What is known of one size by now.
#[derive(Default)]
struct Measured {
    times: Vec<Duration>,
    groups: usize,
    peak_memory: usize,
    shares: Vec<Share>,
    ended: Option<NoAnswer>,
}

impl Measured {
    fn count(&mut self, usage: &Usage) {
        self.times.push(usage.wall);
        self.peak_memory = self.peak_memory.max(usage.peak_memory);
    }

    fn size(self, nodes: usize) -> Size {
        let Self { times, groups, peak_memory, shares, ended } = self;
        Size { nodes, groups, round: Spread::of(times), peak_memory, shares: most(shares), ended }
    }
}

/// A unit of the times below: `sysconf(_SC_CLK_TCK)` is 100 on every Linux that we build for.
const TICK: Duration = Duration::from_millis(10);

/// Processor time of all children that have ended: the compiler is one.
fn children() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    ticks_of_children(&stat).map_or(Duration::ZERO, |ticks| TICK.saturating_mul(ticks))
}

/// `cutime` and `cstime` (`proc_pid_stat(5)`): the fields 16 and 17. The second one is a name, which may have anything in it
/// but ends with the last parenthesis.
fn ticks_of_children(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(13);
    let mut next = || fields.next()?.parse::<u32>().ok();
    next()?.checked_add(next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_slowest_of_a_hundred_are_named() {
        let millis = |times: &[u64]| times.iter().map(|time| Duration::from_millis(*time)).collect::<Vec<_>>();
        let spread = |times: &[u64]| {
            let Spread { count, median, p99 } = Spread::of(millis(times));
            (count, median.as_millis(), p99.as_millis())
        };
        assert_eq!(spread(&[]), (0, 0, 0));
        assert_eq!(spread(&[3]), (1, 3, 3));
        assert_eq!(spread(&[5, 1, 3, 2, 4]), (5, 3, 5));
        let hundred: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(spread(&hundred), (100, 50, 99));
        let thousand: Vec<u64> = (1..=1000).collect();
        assert_eq!(spread(&thousand), (1000, 500, 990));
    }

    #[test]
    fn the_time_of_children_is_read_behind_any_name() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194304 100 200 0 0 7 8 30 12 20 0 1 0 5 6 7";
        assert_eq!(ticks_of_children(stat), Some(42));
        assert_eq!(ticks_of_children(""), None);
        assert_eq!(ticks_of_children("42 (a) S 1"), None);
        // Those of this process can be read.
        assert!(ticks_of_children(&std::fs::read_to_string("/proc/self/stat").unwrap()).is_some());
    }
}
