//! Which bindings another installation serves, as a metric: while this replica waits for that one.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

/// The bindings that another installation serves, by name. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Elsewhere(Arc<Mutex<BTreeSet<String>>>);

impl Elsewhere {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more, for as long as what is returned is kept.
    pub(super) fn add(&self, binding: &str) -> Waits {
        self.lock().insert(binding.to_owned());
        Waits { all: self.clone(), binding: binding.to_owned() }
    }
}

impl fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Elsewhere")
    }
}

/// This replica waits for the installation that serves a binding.
#[derive(Debug)]
pub(crate) struct Waits {
    all: Elsewhere,
    binding: String,
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.all.lock().remove(&self.binding);
    }
}

impl Collector for Elsewhere {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let bindings = self.lock().clone();
        if bindings.is_empty() {
            return Ok(());
        }
        let help = "1 while another installation serves a binding, and this one stays away from it";
        let mut family = encoder.encode_descriptor("binding_served_elsewhere", help, None, MetricType::Gauge)?;
        for binding in bindings {
            ConstGauge::new(1_i64).encode(family.encode_family(&[("binding", binding.as_str())])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn a_binding_has_the_series_for_as_long_as_this_replica_waits() {
        let elsewhere = Elsewhere::default();
        let mut registry = Registry::default();
        registry.register_collector(Box::new(elsewhere.clone()));
        let shown = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(shown(), [""; 0]);
        let waits = elsewhere.add("east");
        assert_eq!(shown(), ["binding_served_elsewhere{binding=\"east\"} 1"]);
        drop(waits);
        assert_eq!(shown(), [""; 0]);
    }
}
