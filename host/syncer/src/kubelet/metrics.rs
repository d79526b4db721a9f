//! What is counted of streams: requests by what was asked and how that ended, and the streams that are open. Never by pod or caller.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::path::StreamVerb;

/// How a request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamOutcome {
    /// A stream was opened.
    Opened,
    /// It was not clear who asks.
    Unauthenticated,
    /// The caller may not.
    Forbidden,
    /// There is no such pod.
    NotFound,
    /// The pod is none that streams are passed on to.
    Foreign,
    /// The physical API server says that the pod cannot do what is asked: a container that has not begun has no log.
    Impossible,
    /// It was asked for nothing that is served.
    NotServed,
    /// There were too many streams.
    Crowded,
    /// The virtual API server did not say enough to decide.
    Undecided,
    /// The physical API server refused us, or did not answer.
    Failed,
}

impl StreamOutcome {
    /// Each of them.
    pub const ALL: [Self; 10] = [
        Self::Opened,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::NotFound,
        Self::Foreign,
        Self::Impossible,
        Self::NotServed,
        Self::Crowded,
        Self::Undecided,
        Self::Failed,
    ];

    /// The word of metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::Foreign => "foreign",
            Self::Impossible => "impossible",
            Self::NotServed => "not_served",
            Self::Crowded => "crowded",
            Self::Undecided => "undecided",
            Self::Failed => "failed",
        }
    }
}

/// The label of what asks for no page of ours.
const OTHER: &str = "other";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabels {
    verb: &'static str,
}

/// Counts requests and streams. Clones are the same.
#[derive(Debug, Clone)]
pub struct Metrics {
    requests: Family<RequestLabels, Counter>,
    open: Family<VerbLabels, Gauge>,
}

impl Metrics {
    /// Registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self { requests: Family::default(), open: Family::default() };
        registry.register(
            "virtual_kubelet_requests",
            "Requests to the kubelet's API of virtual nodes by what was asked and how that ended",
            metrics.requests.clone(),
        );
        registry.register("virtual_kubelet_open_streams", "Streams to lent pods that are open", metrics.open.clone());
        for verb in StreamVerb::ALL {
            let _begins_at_zero = metrics.open.get_or_create_owned(&VerbLabels { verb: verb.word() });
        }
        metrics
    }

    /// One series of each kind there can be.
    pub fn examples(&self) {
        for verb in StreamVerb::ALL.into_iter().map(Some).chain([None]) {
            StreamOutcome::ALL.into_iter().for_each(|outcome| self.answered(verb, outcome));
        }
    }

    /// A request was answered.
    pub(super) fn answered(&self, verb: Option<StreamVerb>, outcome: StreamOutcome) {
        let verb = verb.map_or(OTHER, StreamVerb::word);
        self.requests.get_or_create_owned(&RequestLabels { verb, outcome: outcome.word() }).inc();
    }

    /// A stream is open until this value is dropped.
    pub(super) fn opened(&self, verb: StreamVerb) -> OpenStream {
        let open = self.open.get_or_create_owned(&VerbLabels { verb: verb.word() });
        open.inc();
        OpenStream(open)
    }
}

/// A stream that is open.
#[derive(Debug)]
pub(super) struct OpenStream(Gauge);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s26_requests_are_counted_by_verb_and_outcome_and_streams_while_they_are_open() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let shown = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        for verb in StreamVerb::ALL {
            let line = format!("virtual_kubelet_open_streams{{verb=\"{}\"}} 0", verb.word());
            assert!(shown().contains(&line), "{line}");
        }
        let open = [metrics.opened(StreamVerb::Exec), metrics.opened(StreamVerb::Exec)];
        assert!(shown().contains("virtual_kubelet_open_streams{verb=\"exec\"} 2"));
        drop(open);
        assert!(shown().contains("virtual_kubelet_open_streams{verb=\"exec\"} 0"));
        for outcome in StreamOutcome::ALL {
            metrics.answered(Some(StreamVerb::Logs), outcome);
            metrics.answered(None, outcome);
            for verb in ["logs", "other"] {
                let labels = format!("verb=\"{verb}\",outcome=\"{}\"", outcome.word());
                assert!(shown().contains(&format!("virtual_kubelet_requests_total{{{labels}}} 1")), "{labels}");
            }
        }
    }
}
