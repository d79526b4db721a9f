//! The state of every source, as a metric: 1 for the present state.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use topoloom_api::discovery_source::{DiscoverySourceStatus, State};
use topoloom_core::names::SourceName;

use super::Reports;

/// Read at each scrape, so that it cannot differ from other reports.
struct States(Arc<Reports>);

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("States")
    }
}

impl Collector for States {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let gauge = ConstGauge::new(1_i64);
        let help = "1 for each source of the configuration with its state, which its DiscoverySource has too";
        let mut metric = encoder.encode_descriptor("source_state", help, None, gauge.metric_type())?;
        for (source, state) in self.0.states() {
            gauge.encode(metric.encode_family(&[("source", &*source), ("state", state.as_str())])?)?;
        }
        Ok(())
    }
}

impl Reports {
    /// Registers what is counted of it.
    pub fn register(self: &Arc<Self>, registry: &mut Registry) {
        registry.register_collector(Box::new(States(Arc::clone(self))));
    }

    /// One source in each possible state; `any` is the value of labels without a closed set.
    pub(crate) fn examples(any: &str) -> Arc<Self> {
        let reports = Self::default();
        for (index, state) in State::ALL.iter().enumerate() {
            let source = if index == 0 { any.to_owned() } else { state.as_str().to_owned() };
            reports.publish(DiscoverySourceStatus { source, state: Some(*state), ..DiscoverySourceStatus::default() });
        }
        Arc::new(reports)
    }

    fn states(&self) -> Vec<(SourceName, State)> {
        self.lock().iter().map(|(source, entry)| (source.clone(), entry.status.state.unwrap_or_default())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_whose_entry_was_never_valid_is_shown_as_well_and_each_has_one_state() {
        let mut registry = Registry::default();
        let reports = Arc::new(Reports::default());
        reports.register(&mut registry);
        let invalid = crate::discovery::supervisor::describe_invalid(
            &"ufm".parse().unwrap(),
            DiscoverySourceStatus::default(),
            topoloom_api::Reason::InvalidConfig,
            "line 3: interval".to_owned(),
        );
        reports.publish(invalid);
        for state in [State::Waiting, State::Serving] {
            let status = DiscoverySourceStatus { source: "label".into(), state: Some(state), ..Default::default() };
            reports.publish(status);
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let series: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("source_state")).collect();
        let wanted = ["{source=\"label\",state=\"Serving\"} 1", "{source=\"ufm\",state=\"Failed\"} 1"];
        assert_eq!(series, wanted, "{text}");
    }
}
