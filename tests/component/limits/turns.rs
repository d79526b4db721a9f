//! Calls that wait for their turn: of one plugin, and of the process.

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

/// A call that lasts as long as it may.
async fn busy(plugin: &Plugin) -> Usage {
    plugin.discover(&source(), round("loop", nodes(1))).await.usage
}

/// Four plugins that each grow to their limit, on a host that has not enough for two of them. Each gets to its own limit, after
/// the others, and dies of that alone.
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
    assert!(sum > total, "they had room for all: {sum}");
    assert!(runtime.peak_memory() <= total, "{} of {total}", runtime.peak_memory());
    assert!(calls.iter().any(|call| call.usage.met.contains(Limit::ProcessMemory)), "no call waited");
    assert!(runtime.metrics().hits(Limit::ProcessMemory) > 0);
}

#[tokio::test]
async fn four_plugins_within_their_limits_hold_no_more_than_the_host_has_for_them() {
    four_that_take_what_they_may_take_no_more_than_all_may(Options::default().memory, 256).await;
}

#[tokio::test]
async fn a_plugin_that_may_have_more_than_all_together_is_told_so_and_gets_no_strike() {
    let options = Options { memory: 32 << 20, ..Options::default() };
    let runtime = Runtime::start_with(Compiler::Child { exe: host() }, options, Metrics::default(), None).unwrap();
    let limits = lowered(Limit::Memory, Amount::mib(256));
    let plugin = runtime.load(Load { bytes: Arc::clone(&VILLAIN), pinned: None, limits }).await.unwrap();
    let error = plugin.discover(&source(), round("grow", nodes(1))).await.end.unwrap_err();
    assert_eq!((error.limit(), error.is_fault_of_plugin()), (Some(Limit::ProcessMemory), false), "{error}");
    assert!(error.to_string().contains("all plugins together may hold 32Mi"), "{error}");
    assert!(error.to_string().contains("--plugin-memory"), "{error}");
}
