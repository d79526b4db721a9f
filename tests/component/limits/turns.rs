//! Calls that wait for their turn: of one plugin, and of the process.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use futures::future::join_all;
use topoloom::plugin::{Compiler, Load, Metrics, Options, Plugin, Runtime};
use topoloom_core::plugin::{Amount, CallError, Limit, Usage};

use super::lowered;
use crate::guests::{VILLAIN, host, nodes, round, source};

pub(super) async fn prove(row: Limit) {
    if row == Limit::ProcessMemory {
        return four_that_take_what_they_may_take_no_more_than_all_may(64 << 20, 48).await;
    }
    let options = Options::default();
    assert_eq!(options.calls as u64, super::default(Limit::ProcessCalls));
    // A runtime of its own: calls of other tests would take its turns.
    let runtime = Runtime::start_with(Compiler::Child { exe: host() }, options, Metrics::default(), None).unwrap();
    let plugins = join_all((0..=options.calls).map(|_| load(&runtime))).await;
    let calls = match row {
        // As many calls of one plugin as the process has turns for.
        Limit::PluginCalls => vec![&plugins[0]; options.calls],
        // One call more than that, each of another plugin.
        _ => plugins.iter().collect(),
    };
    let usages = join_all(calls.into_iter().map(busy)).await;
    let waited: Vec<_> = usages.iter().filter(|usage| usage.met.contains(row)).collect();
    let expected = if row == Limit::PluginCalls { options.calls - 1 } else { 1 };
    assert_eq!(waited.len(), expected, "{usages:?}");
    assert!(waited.iter().all(|usage| !usage.queued.is_zero()), "{usages:?}");
    assert_eq!(runtime.metrics().hits(row), expected as u64);
    let other = if row == Limit::PluginCalls { Limit::ProcessCalls } else { Limit::PluginCalls };
    assert!(usages.iter().all(|usage| !usage.met.contains(other)), "{usages:?}");
}

async fn load(runtime: &Runtime) -> Plugin {
    let limits = lowered(Limit::Cpu, Amount::millis(300));
    runtime.load(Load { bytes: Arc::clone(&VILLAIN), pinned: None, limits }).await.unwrap()
}

/// A call that lasts until its limit.
async fn busy(plugin: &Plugin) -> Usage {
    plugin.discover(&source(), round("loop", nodes(1))).await.usage
}

/// Four plugins that each grow to their limit, on a host whose memory for plugins is too small for all of them. One
/// after the other reaches its own limit, and fails only because of that.
async fn four_that_take_what_they_may_take_no_more_than_all_may(total: usize, each: u64) {
    let options = Options { memory: total, ..Options::default() };
    let runtime = Runtime::start_with(Compiler::Child { exe: host() }, options, Metrics::default(), None).unwrap();
    let limits = lowered(Limit::Memory, Amount::mib(each));
    let load = |_| {
        let limits = limits.clone();
        async { runtime.load(Load { bytes: Arc::clone(&VILLAIN), pinned: None, limits }).await.unwrap() }
    };
    let plugins = join_all((0..4).map(load)).await;
    let grow = |plugin: &Plugin| {
        let plugin = plugin.clone();
        async move { plugin.discover(&source(), round("grow", nodes(1))).await }
    };
    let calls = join_all(plugins.iter().map(grow)).await;
    for call in &calls {
        let Err(CallError::OutOfMemory { limit, .. }) = &call.end else { panic!("{:?}", call.end) };
        assert_eq!(*limit as u64, each << 20);
        assert!(call.usage.peak_memory as u64 > (each << 20) * 3 / 4, "{:?}", call.usage);
    }
    let sum: usize = calls.iter().map(|call| call.usage.peak_memory).sum();
    assert!(sum > total, "there was room for all of them: {sum}");
    assert!(runtime.peak_memory() <= total, "{} of {total}", runtime.peak_memory());
    assert!(calls.iter().any(|call| call.usage.met.contains(Limit::ProcessMemory)), "no call waited");
    assert!(runtime.metrics().hits(Limit::ProcessMemory) > 0);
}

#[tokio::test]
async fn four_plugins_within_their_limits_hold_no_more_than_the_host_has_for_them() {
    four_that_take_what_they_may_take_no_more_than_all_may(Options::default().memory, 256).await;
}

/// A memory cgroup of a test, of either version.
struct Cgroup {
    folder: PathBuf,
    /// The file with its peak memory.
    peak: &'static str,
}

impl Cgroup {
    /// Makes one with this limit, if this process may.
    fn new(limit: u64) -> std::io::Result<Self> {
        let versions = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"),
            ("/sys/fs/cgroup", "memory.max", "memory.peak"),
        ];
        let mut made = Err(std::io::ErrorKind::NotFound.into());
        for (root, most, peak) in versions {
            let folder = Path::new(root).join(format!("topoloom-test-{}", std::process::id()));
            made = std::fs::create_dir(&folder).map(|()| Self { folder, peak }).and_then(|group| {
                std::fs::write(group.folder.join(most), limit.to_string())?;
                let enters = group.enters("true", &[])?.status.success();
                if enters { Ok(group) } else { Err(std::io::ErrorKind::PermissionDenied.into()) }
            });
            if made.is_ok() {
                break;
            }
        }
        made
    }

    /// Runs a program in it.
    fn enters(&self, program: &str, words: &[&str]) -> std::io::Result<Output> {
        let shell = r#"echo $$ > "$0/cgroup.procs" && exec "$@""#;
        Command::new("sh").args(["-c", shell]).arg(&self.folder).arg(program).args(words).output()
    }

    fn peak(&self) -> u64 {
        std::fs::read_to_string(self.folder.join(self.peak)).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// The same with the memory that the kernel counts: a process with four such plugins, in a cgroup with the limit of the
/// chart.
#[allow(clippy::print_stderr, reason = "who reads what passed has to see what was left out")]
#[test]
fn four_plugins_within_their_limits_fit_into_the_container_of_the_chart() {
    let values = std::fs::read_to_string("../deploy/chart/topoloom/values.yaml").unwrap();
    assert!(values.contains("\n  limits: {memory: 1Gi}\n"), "the chart has another limit than this test");
    let limit = 1 << 30;
    let group = match Cgroup::new(limit) {
        Ok(group) => group,
        Err(error) => return eprintln!("skipped: no memory cgroup can be made here: {error}"),
    };
    let this = std::env::current_exe().unwrap();
    let test = "limits::turns::four_plugins_within_their_limits_hold_no_more_than_the_host_has_for_them";
    let output = group.enters(this.to_str().unwrap(), &["--exact", test]).unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success() && said.contains("1 passed"), "{}: {said}", output.status);
    // The host itself needs room too.
    let peak = group.peak();
    assert!((256 << 20..limit * 3 / 4).contains(&peak), "{} MiB", peak >> 20);
}

#[tokio::test]
async fn a_plugin_with_a_limit_above_that_of_all_gets_a_message_and_no_strike() {
    let options = Options { memory: 32 << 20, ..Options::default() };
    let runtime = Runtime::start_with(Compiler::Child { exe: host() }, options, Metrics::default(), None).unwrap();
    let limits = lowered(Limit::Memory, Amount::mib(256));
    let plugin = runtime.load(Load { bytes: Arc::clone(&VILLAIN), pinned: None, limits }).await.unwrap();
    let error = plugin.discover(&source(), round("grow", nodes(1))).await.end.unwrap_err();
    assert_eq!((error.limit(), error.is_fault_of_plugin()), (Some(Limit::ProcessMemory), false), "{error}");
    assert!(error.to_string().contains("all plugins together may hold 32Mi"), "{error}");
    assert!(error.to_string().contains("--plugin-memory"), "{error}");
}
