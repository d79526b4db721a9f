//! What an operator reads, as text.

use super::*;
use prometheus_client::encoding::text::encode;

fn text(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    text
}

fn start() -> (Registry, Metrics) {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    (registry, metrics)
}

#[test]
fn a_call_counts_under_name_and_digest() {
    let (registry, metrics) = start();
    let series = metrics.series(&"0123".into());
    let usage = Usage { received: 7, sent: 3, log_dropped: 2, peak_memory: 65_536, ..Usage::default() };
    series.named("acme");
    series.begin(&"label".parse().unwrap()).with(None, &usage);
    series.begin(&"label".parse().unwrap()).with(Some(&CallError::InvalidResult("no".into())), &usage);
    drop(series.begin(&"label".parse().unwrap()));
    let text = text(&registry);
    for line in [
        r#"plugin_calls_total{plugin="acme",digest="0123",outcome="ok"} 1"#,
        r#"plugin_calls_total{plugin="acme",digest="0123",outcome="invalid-result"} 1"#,
        r#"plugin_calls_total{plugin="acme",digest="0123",outcome="cancelled"} 1"#,
        r#"plugin_call_seconds_count{plugin="acme",digest="0123"} 2"#,
        r#"plugin_received_bytes_total{plugin="acme",digest="0123"} 14"#,
        r#"plugin_sent_bytes_total{plugin="acme",digest="0123"} 6"#,
        r#"plugin_log_lines_dropped_total{plugin="acme",digest="0123"} 4"#,
        r#"plugin_peak_memory_bytes{source="label",plugin="acme",digest="0123"} 65536"#,
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn a_name_cannot_add_lines() {
    let (registry, metrics) = start();
    let series = metrics.series(&"0123".into());
    series.named("a\"} 1\nplugin_calls_total{plugin=\"b");
    series.begin(&"label".parse().unwrap()).with(None, &Usage::default());
    assert!(!text(&registry).lines().any(|line| line.starts_with(r#"plugin_calls_total{plugin="b"#)));
}

#[test]
fn series_end_with_the_last_handle_of_the_same_bytes() {
    let (registry, metrics) = start();
    let first = metrics.series(&"0123".into());
    first.begin(&"label".parse().unwrap()).with(None, &Usage::default());
    let second = metrics.series(&"0123".into());
    second.named("acme");
    second.begin(&"label".parse().unwrap()).with(None, &Usage::default());
    drop(first);
    assert!(text(&registry).contains(r#"plugin="acme",digest="0123""#));
    drop(second);
    assert!(!text(&registry).contains("0123"), "{}", text(&registry));
    assert!(metrics.live().is_empty());
}

#[test]
fn limits_that_act_are_counted_by_row() {
    let (registry, metrics) = start();
    let series = metrics.series(&"0123".into());
    let mut usage = Usage::default();
    usage.met.insert(Limit::LogLines);
    let report = Box::default();
    series.begin(&"label".parse().unwrap()).with(Some(&CallError::OutOfMemory { limit: 1, asked: 2, report }), &usage);
    assert_eq!((metrics.hits(Limit::LogLines), metrics.hits(Limit::Memory), metrics.hits(Limit::Cpu)), (1, 1, 0));
    assert!(text(&registry).contains(r#"plugin_limit_hits_total{limit="log-lines"} 1"#));
}

#[test]
fn every_outcome_is_in_the_list_that_ends_series() {
    use topoloom_core::plugin::{Failure, Transfer, TrapKind};
    let report = Box::default;
    for error in [
        CallError::Failure(Failure::Config(String::new())),
        CallError::Failure(Failure::Denied(String::new())),
        CallError::Failure(Failure::Upstream { message: String::new(), retry_after: None }),
        CallError::Failure(Failure::Internal(String::new())),
        CallError::Trap { kind: TrapKind::Stack, report: report() },
        CallError::WallClock { used: Duration::ZERO, limit: Duration::ZERO, report: report() },
        CallError::OutOfMemory { limit: 0, asked: 0, report: report() },
        CallError::TooLarge { what: Transfer::State, limit: 0, report: report() },
        CallError::InvalidResult(String::new()),
        CallError::Start(String::new()),
        CallError::Host(String::new()),
    ] {
        assert!(OUTCOMES.contains(&error.outcome()), "{error:?}");
    }
}

#[test]
fn what_a_plugin_cost_a_source_ends_with_the_source_and_with_the_plugin() {
    let (registry, metrics) = start();
    let series = metrics.series(&"0123".into());
    series.named("acme");
    for source in ["east", "west"] {
        series.begin(&source.parse().unwrap()).with(None, &Usage { peak_memory: 1, ..Usage::default() });
    }
    let costs = || {
        let text = text(&registry);
        let lines = text.lines().filter(|line| line.starts_with("plugin_cpu") || line.starts_with("plugin_peak"));
        let mut costs: Vec<String> = lines.map(str::to_owned).collect();
        costs.sort_unstable();
        costs
    };
    assert_eq!(costs().len(), 4);
    metrics.forget_source(&"west".parse().unwrap());
    let left = [
        r#"plugin_cpu_seconds_total{source="east",plugin="acme",digest="0123"} 0.0"#,
        r#"plugin_peak_memory_bytes{source="east",plugin="acme",digest="0123"} 1"#,
    ];
    assert_eq!(costs(), left);
    drop(series);
    assert_eq!(costs(), [""; 0]);
}
