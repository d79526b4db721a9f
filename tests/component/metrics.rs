//! What an operator sees of plugins in `/metrics`.

use std::sync::Arc;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use topoloom::plugin::{Compiler, Load, Metrics, Options, Runtime};
use topoloom_core::plugin::{Amount, Limit, Limits};

use crate::guests::{VILLAIN, bomb, host, nodes, round, source};

fn text(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    text
}

fn start() -> (Registry, Runtime) {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let runtime = Runtime::start_with(Compiler::Child { exe: host() }, Options::default(), metrics, None).unwrap();
    (registry, runtime)
}

#[tokio::test]
async fn calls_are_counted_by_name_and_digest_until_the_last_handle_goes() {
    let (registry, runtime) = start();
    let load = || Load { bytes: Arc::clone(&VILLAIN), pinned: None, limits: Limits::default() };
    let plugin = runtime.load(load()).await.unwrap();
    let other = runtime.load(load()).await.unwrap();
    let source = source();
    plugin.describe(&source).await.end.unwrap();
    plugin.discover(&source, round("good", nodes(100))).await.end.unwrap();
    let _ = plugin.configure(&source, r#"{"configure": "problems"}"#.into()).await;
    for act in ["panic", "giant", "row", "internal", "flood"] {
        let _ = other.discover(&source, round(act, nodes(100))).await;
    }
    drop(other);
    let digest = plugin.digest().short();
    let seen = text(&registry);
    for (outcome, count) in [("ok", 3), ("config", 1), ("trap", 1), ("limit", 1), ("invalid-result", 1), ("fault", 1)] {
        let line = format!(r#"plugin_calls_total{{plugin="villain",digest="{digest}",outcome="{outcome}"}} {count}"#);
        assert!(seen.contains(&line), "{line}\n{seen}");
    }
    for metric in ["plugin_received_bytes_total", "plugin_sent_bytes_total", "plugin_log_lines_dropped_total"] {
        let line = format!(r#"{metric}{{plugin="villain",digest="{digest}"}} "#);
        let value = seen.lines().find_map(|seen| seen.strip_prefix(&line)).unwrap_or_else(|| panic!("{line}\n{seen}"));
        assert!(value.parse::<u64>().unwrap() > 0, "{metric}");
    }
    assert!(seen.contains(r#"plugin_limit_hits_total{limit="transfer"} 1"#), "{seen}");
    // Two loads of the same bytes need one compile.
    assert!(seen.contains(r#"plugin_compile_seconds_count{kind="quick",outcome="ok"} 1"#), "{seen}");
    drop(plugin);
    assert!(!text(&registry).contains("villain"), "{}", text(&registry));
}

#[tokio::test]
async fn an_abandoned_call_is_counted_as_cancelled() {
    let (registry, runtime) = start();
    let load = Load { bytes: Arc::clone(&VILLAIN), pinned: None, limits: Limits::default() };
    let plugin = runtime.load(load).await.unwrap();
    let source = source();
    let endless = plugin.discover(&source, round("loop", nodes(1)));
    assert!(tokio::time::timeout(std::time::Duration::from_millis(50), endless).await.is_err());
    assert!(text(&registry).contains(r#"outcome="cancelled"} 1"#), "{}", text(&registry));
}

#[tokio::test]
async fn a_compile_that_hits_a_limit_is_counted_as_that() {
    let (registry, runtime) = start();
    let mut limits = Limits::default();
    limits.set(Limit::CompileCpu, Amount::seconds(1));
    runtime.load(Load { bytes: bomb(), pinned: None, limits }).await.unwrap_err();
    let seen = text(&registry);
    assert!(seen.contains(r#"plugin_compile_seconds_count{kind="quick",outcome="limit"} 1"#), "{seen}");
    assert!(seen.contains(r#"plugin_limit_hits_total{limit="compile-cpu"} 1"#), "{seen}");
}
