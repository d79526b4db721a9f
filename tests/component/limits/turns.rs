//! Calls that wait for their turn: of one plugin, and of the process.

use std::sync::Arc;

use futures::future::join_all;
use topoloom::plugin::{Compiler, Load, Metrics, Options, Plugin, Runtime};
use topoloom_core::plugin::{Amount, Limit, Usage};

use super::lowered;
use crate::guests::{VILLAIN, host, nodes, round, source};

pub(super) async fn prove(row: Limit) {
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
