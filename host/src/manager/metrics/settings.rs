//! How the configuration is, and what switches writes off: the settings of a replica, whether it leads or follows.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::cluster::gate::ReadOnly;
use crate::config::Load;

/// What switches all writes off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The flag `--read-only`.
    Flag,
    /// The annotation on the ConfigMap.
    Annotation,
    /// The ConfigMap was never read, so its annotation is unknown.
    Unread,
}

impl By {
    const ALL: [Self; 3] = [Self::Flag, Self::Annotation, Self::Unread];

    fn as_str(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Annotation => "annotation",
            Self::Unread => "unread",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    state: &'static str,
}

/// Every word for a configuration; see [`word`].
const WORDS: [&str; 5] = ["invalid", "key-missing", "missing", "mistakes", "valid"];

/// The result of reading the configuration.
fn word(load: &Load) -> &'static str {
    match load {
        Load::NoConfigMap => "missing",
        Load::NoKey => "key-missing",
        Load::Invalid(_) => "invalid",
        Load::Valid(document) if document.is_doubtful() => "invalid",
        Load::Valid(document) if document.errors().next().is_some() => "mistakes",
        Load::Valid(_) => "valid",
    }
}

/// How the configuration is, and what switches writes off.
#[derive(Debug, Clone, Default)]
pub struct SettingMetrics {
    read_only: Family<ReasonLabels, Gauge>,
    configuration: Family<StateLabels, Gauge>,
}

impl SettingMetrics {
    /// Registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "read_only",
            "1 while the host writes only leases, by reason: the flag, the annotation, or a configuration that was never read",
            metrics.read_only.clone(),
        );
        registry.register(
            "configuration",
            "1 for the state of the configuration: valid, with mistakes in entries, invalid, without its key, or missing",
            metrics.configuration.clone(),
        );
        metrics
    }

    /// What this says about writes.
    pub fn read_only(&self, by: By, read_only: ReadOnly) {
        let is_off = read_only == ReadOnly::Yes;
        self.read_only.get_or_create(&ReasonLabels { reason: by.as_str() }).set(i64::from(is_off));
    }

    /// How the configuration is now.
    pub fn configuration(&self, load: &Load) {
        let now = word(load);
        for state in WORDS {
            self.configuration.get_or_create(&StateLabels { state }).set(i64::from(state == now));
        }
    }

    /// One series of each kind there can be.
    pub(super) fn examples(&self) {
        By::ALL.into_iter().for_each(|by| self.read_only(by, ReadOnly::No));
        self.configuration(&Load::NoConfigMap);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_all_words_for_a_configuration_one_holds() {
        let mut registry = Registry::default();
        let metrics = SettingMetrics::register(&mut registry);
        let valid = |text: &str| Load::Valid(crate::config::parse(text).unwrap());
        for (load, wanted) in [
            (Load::NoConfigMap, "missing"),
            (valid("networkTopologyDiscovery: []\n"), "valid"),
            (valid("networkTopologyDiscovery:\n- source: ufm\n  enabled: true\n  interval: 7\n"), "mistakes"),
            (valid("networkTopologyDiscoveri: []\n"), "invalid"),
            (Load::Invalid(crate::config::parse("[").unwrap_err()), "invalid"),
            (Load::NoKey, "key-missing"),
        ] {
            metrics.configuration(&load);
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            let holds: Vec<&str> = text
                .lines()
                .filter_map(|line| line.strip_prefix("configuration{state=\"")?.strip_suffix("\"} 1"))
                .collect();
            assert_eq!(holds, [wanted], "{load:?}");
        }
    }
}
