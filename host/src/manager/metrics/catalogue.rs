//! Every metric: its name, its kind, and its labels.
//!
//! Nothing is written down twice. All rooms are registered as the host registers them, each shows one series of each
//! kind it can make, and the list is read from the text that a scraper would get. The documentation is made from it,
//! and alerts and dashboard are checked against it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use topoloom_core::names::SourceName;

use super::{Discovery, Lending, Process, process};
use crate::cluster::Restores;
use crate::discovery::report::Reports;
use crate::manager::health::Health;
use crate::nodelock::metrics::{BindMetrics, SweepMetrics, hold_histogram};
use crate::plugin::cache;
use crate::traces;

/// Before the name of every metric of ours.
pub const PREFIX: &str = "topoloom";

/// The value of a label whose values are no closed set. Sources are among them, so it is one that a source can have.
const ANY: &str = "ANY";

/// The buckets of a histogram have this label, and it is used only to compute with them.
const BUCKET: &str = "le";

/// What kind of number a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows, until the process starts again.
    Counter,
    /// It is as it is now.
    Gauge,
    /// Observations, counted by size.
    Histogram,
}

impl MetricKind {
    fn parse(word: &str) -> Option<Self> {
        [Self::Counter, Self::Gauge, Self::Histogram].into_iter().find(|kind| kind.to_string() == word)
    }

    /// What is appended to the name of the metric where its series are asked for.
    fn suffixes(self) -> &'static [&'static str] {
        match self {
            Self::Counter => &["_total"],
            Self::Gauge => &[""],
            Self::Histogram => &["_bucket", "_sum", "_count"],
        }
    }
}

impl fmt::Display for MetricKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        })
    }
}

/// One metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// What it is called, without what its kind appends.
    pub name: String,
    /// What it counts or measures.
    pub help: String,
    /// What kind of number it is.
    pub kind: MetricKind,
    /// In what it is measured, where that is part of the name.
    pub unit: Option<String>,
    /// Its labels by name, each with the values that it can have; none where they are no closed set.
    pub labels: BTreeMap<String, BTreeSet<String>>,
}

impl Described {
    /// The names under which its series are asked for.
    #[must_use]
    pub fn series(&self) -> Vec<String> {
        self.kind.suffixes().iter().map(|suffix| format!("{}{suffix}", self.name)).collect()
    }

    fn is_of(&self, series: &str) -> bool {
        series.strip_prefix(self.name.as_str()).is_some_and(|suffix| self.kind.suffixes().contains(&suffix))
    }

    /// Takes in the labels of one line of the text.
    fn add_labels(&mut self, labels: &str) {
        for pair in labels.split(',') {
            let Some((name, value)) = pair.split_once('=') else { continue };
            if name != BUCKET {
                self.labels.entry(name.to_owned()).or_default().insert(value.trim_matches('"').to_owned());
            }
        }
    }
}

/// Every metric, by name.
#[must_use]
pub fn catalogue() -> Vec<Described> {
    let (registry, _kept) = registered();
    let mut text = String::new();
    // Writing to a string never fails.
    let _ = encode(&mut text, &registry);
    read(&text)
}

/// All rooms, with an example of each series.
fn registered() -> (Registry, impl Sized) {
    let mut all = process::registry();
    let registry = process::ours(&mut all);
    let kept = (Process::register(registry).examples(ANY), Lending::register(registry).examples(ANY));
    let source = SourceName::parse(ANY).expect("three letters are the value of a label");
    Discovery::register(registry).examples(ANY, &source);
    Restores::default().register(registry);
    let health = Health::default();
    health.examples(ANY);
    health.register(registry);
    registry.register_collector(Box::new(cache::Example(ANY)));
    Reports::examples(ANY).register(registry);
    let spans = traces::Metrics::default();
    spans.examples();
    spans.register(registry);
    // Every word that these can say has a series from the beginning.
    BindMetrics::register(registry);
    SweepMetrics::register(registry);
    hold_histogram(registry);
    (all, kept)
}

/// Reads the text of a registry. The values in it are ours: none has a quote, a comma or a brace.
fn read(text: &str) -> Vec<Described> {
    let mut all: Vec<Described> = Vec::new();
    let mut help = "";
    for line in text.lines() {
        if let Some((_, sentence)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            help = sentence.trim_end_matches('.');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            if let Some(kind) = MetricKind::parse(kind) {
                let (name, help) = (name.to_owned(), help.to_owned());
                all.push(Described { name, help, kind, unit: None, labels: BTreeMap::new() });
            }
        } else if let (Some(unit), Some(metric)) = (line.strip_prefix("# UNIT "), all.last_mut()) {
            metric.unit = unit.split_once(' ').map(|(_, unit)| unit.to_owned());
        } else if let (Some((series, labels)), Some(metric)) = (line.split_once('{'), all.last_mut())
            && metric.is_of(series)
        {
            metric.add_labels(labels.rsplit_once('}').map_or("", |(labels, _)| labels));
        }
    }
    for values in all.iter_mut().flat_map(|metric| metric.labels.values_mut()) {
        if values.contains(ANY) {
            values.clear();
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// More values of a label than this are not listed.
const MANY: usize = 16;

/// The text above the table of the documentation.
const HEAD: &str = "\
# Metrics

<!-- Written by `xtask generate`; do not edit. -->

With `--enable-metrics` ([flags](flags.md)) the host serves them at `/metrics` as OpenMetrics text. The chart serves them at port
8081, with a Service, and with `metrics.serviceMonitor.enabled` a ServiceMonitor. There are [alerts](alerts.md) and
[a dashboard](../../deploy/chart/topoloom/files/dashboard.json).

- The table has the names for queries. A histogram has three: `_bucket` for quantiles, `_sum` and `_count`.
- A metric appears with its first series. A follower has no metrics of work that only the leader does (rounds, writes).
- Counters start at 0 with each process. The series of a source, a plugin or an endpoint end when it is removed.
- Labels have values from closed sets, or names from the configuration. The table lists the values if there are few.
- `process_*` have their usual meaning, without the process that compiles plugins.
- `source` is the name of a source, `plugin` the plugin's own name, `digest` the first digits of its digest, `endpoint` the
  name of an endpoint in the entry, `queue` that of a work queue, `group` the group of controllers of one lease, `binding` the
  name of a ClusterBinding. The queues of one name of all bindings count together, and the series of a binding end when this
  replica does not serve it any more; failures of its group are counted on every replica that is a candidate for it.

| name | type | labels | meaning |
| --- | --- | --- | --- |
";

/// The page of documentation, as Markdown.
#[must_use]
pub fn page() -> String {
    let mut text = HEAD.to_owned();
    for metric in catalogue() {
        let names: Vec<String> = metric.series().iter().map(|name| format!("`{name}`")).collect();
        let labels: Vec<String> = metric.labels.iter().map(|(name, values)| label(name, values)).collect();
        let help = metric.help.replace('|', "\\|");
        let _ = writeln!(text, "| {} | {} | {} | {help} |", names.join(" "), metric.kind, labels.join("; "));
    }
    text
}

/// A label with its values, where there are few enough to be read.
fn label(name: &str, values: &BTreeSet<String>) -> String {
    let mut words: Vec<String> = Vec::new();
    for value in values {
        let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
        words.push(if is_number { "a number".to_owned() } else { format!("`{value}`") });
    }
    match words.len() {
        0 => format!("`{name}`"),
        1..=MANY => format!("`{name}`: {}", words.join(", ")),
        many => format!("`{name}`: one of {many} words"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name and unit of everything that was registered, as the registry itself shows them.
    fn names(registry: &Registry) -> Vec<String> {
        let shown = format!("{registry:?}");
        let descriptors = shown.split("Descriptor { name: \"").skip(1);
        let names = descriptors.map(|descriptor| {
            let (name, rest) = descriptor.split_once('"').unwrap();
            let unit = rest.split_once("unit: ").unwrap().1.split_once(" }").unwrap().0;
            match unit.strip_prefix("Some(").and_then(|unit| unit.strip_suffix(')')) {
                Some(unit) => format!("{PREFIX}_{name}_{}", unit.to_lowercase()),
                None => format!("{PREFIX}_{name}"),
            }
        });
        names.collect()
    }

    #[test]
    fn whatever_is_registered_has_an_example() {
        let (registry, _kept) = registered();
        let registered = names(&registry);
        assert!(registered.len() > 30, "{registered:?}");
        let described: Vec<String> = catalogue().into_iter().map(|metric| metric.name).collect();
        for name in registered {
            assert!(described.contains(&name), "{name} has no example series\n{described:?}");
        }
    }

    /// Metrics without labels: there is one of each in a process.
    const ALONE: [&str; 16] = [
        "process_cpu_seconds",
        "process_max_fds",
        "process_open_fds",
        "process_resident_memory_bytes",
        "process_start_time_seconds",
        "process_threads",
        "process_virtual_memory_bytes",
        "topoloom_api_server_restores",
        "topoloom_extender_filtered_nodes",
        "topoloom_node_lock_contended",
        "topoloom_node_lock_hold_seconds",
        "topoloom_node_lock_kept",
        "topoloom_node_lock_longest_stuck_seconds",
        "topoloom_outdated_watches",
        "topoloom_node_lock_under_way",
        "topoloom_node_lock_wait_seconds",
    ];

    #[test]
    fn every_metric_is_described_once_with_a_sentence_and_labels() {
        let all = catalogue();
        let names: BTreeSet<_> = all.iter().map(|metric| &metric.name).collect();
        assert_eq!(names.len(), all.len(), "two metrics have one name");
        for metric in &all {
            assert!(metric.name.starts_with("topoloom_") || metric.name.starts_with("process_"), "{metric:?}");
            assert!(metric.help.len() > 10, "{metric:?}");
            // Also what proves that a collector had an example: few things here are counted without a label.
            assert_eq!(metric.labels.is_empty(), ALONE.contains(&metric.name.as_str()), "{metric:?}");
            assert!(metric.unit.as_deref().is_none_or(|unit| metric.name.ends_with(unit)), "{metric:?}");
        }
    }

    #[test]
    fn closed_sets_are_listed_and_names_are_not() {
        let all = catalogue();
        let values = |name: &str, label: &str| {
            let metric = all.iter().find(|metric| metric.name == name).unwrap();
            metric.labels.get(label).unwrap().iter().map(String::as_str).collect::<Vec<_>>()
        };
        assert_eq!(values("topoloom_lease_writes", "result"), ["confirmed", "conflict", "unknown"]);
        assert_eq!(values("topoloom_controllers", "state"), ["disabled", "failed", "running", "waiting"]);
        assert!(values("topoloom_rounds", "source").is_empty());
        assert!(values("topoloom_endpoint_requests", "outcome").contains(&"unauthorized"));
        assert_eq!(values("topoloom_node_lock_leaks", "done"), ["removed", "reported"]);
        assert_eq!(values("topoloom_extender_request_duration_seconds", "verb"), ["bind", "filter"]);
        let connections = values("topoloom_binding_connection", "state");
        assert!(connections.contains(&"reachable") && connections.contains(&"unreachable"), "{connections:?}");
        assert!(values("topoloom_binding_connection", "binding").is_empty());
        assert!(values("topoloom_lent_resources", "resource").is_empty());
    }

    #[test]
    fn a_series_is_asked_for_by_what_its_kind_appends() {
        let text = "# HELP topoloom_x_seconds Time.\n# TYPE topoloom_x_seconds histogram\n# UNIT topoloom_x_seconds seconds\n\
                    topoloom_x_seconds_bucket{le=\"+Inf\",source=\"ANY\"} 0\n";
        let [metric]: [Described; 1] = read(text).try_into().unwrap();
        let Described { unit, labels, .. } = &metric;
        assert_eq!(unit.as_deref(), Some("seconds"));
        assert_eq!(labels.keys().collect::<Vec<_>>(), ["source"]);
        assert_eq!(
            metric.series(),
            ["topoloom_x_seconds_bucket", "topoloom_x_seconds_sum", "topoloom_x_seconds_count"]
        );
    }
}
