//! What endpoints are asked and what they answer, for `/metrics`. Names of sources and endpoints are the operator's.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use topoloom_core::names::SourceName;

use super::error::{Denial, Error, Wait};

/// From a small answer on the same network to the longest that is allowed by default.
const BUCKETS: [f64; 8] = [0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 30.0, 120.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndpointLabels {
    source: Arc<str>,
    endpoint: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    source: Arc<str>,
    endpoint: Arc<str>,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DenialLabels {
    source: Arc<str>,
    what: &'static str,
}

/// The metrics of all endpoints. Clones count together.
#[derive(Debug, Clone)]
pub struct Metrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<EndpointLabels, Histogram>,
    received: Family<EndpointLabels, Counter>,
    denials: Family<DenialLabels, Counter>,
    unverified: Family<EndpointLabels, Gauge>,
}

impl Default for Metrics {
    /// Metrics that are never served.
    fn default() -> Self {
        Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            received: Family::default(),
            denials: Family::default(),
            unverified: Family::default(),
        }
    }
}

impl Metrics {
    /// Registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("endpoint_requests", "Requests of plugins to endpoints by outcome", metrics.requests.clone());
        let seconds = "Time of a request until its response headers";
        registry.register_with_unit("endpoint_request_duration", seconds, Unit::Seconds, metrics.seconds.clone());
        let received = "Bytes of the answers of endpoints, decompressed";
        registry.register_with_unit("endpoint_received", received, Unit::Bytes, metrics.received.clone());
        let denials = "Requests of plugins that the host refused, by what was not granted";
        registry.register("endpoint_denials", denials, metrics.denials.clone());
        let unverified = "1 where an endpoint's certificate is not checked";
        registry.register("endpoint_unverified", unverified, metrics.unverified.clone());
        metrics
    }

    /// One series of each possible kind; `any` is the value of labels without a closed set.
    pub fn examples(&self, any: &'static str) {
        let labels = EndpointLabels { source: any.into(), endpoint: any.into() };
        let series = Series { metrics: self.clone(), labels };
        for status in [200, 304, 302, 401, 429, 500, 400] {
            series.answered(outcome(Ok(status)), Duration::ZERO);
        }
        let nothing = String::new();
        for error in [
            Error::Denied { denial: Denial::Endpoint, message: nothing.clone() },
            Error::Connect(nothing.clone()),
            Error::Timeout { what: Wait::Connection, limit: Duration::ZERO },
            Error::TooLarge(nothing.clone()),
            Error::Protocol(nothing),
        ] {
            series.answered(outcome(Err(&error)), Duration::ZERO);
        }
        series.received(0);
        series.verified(super::Verification::Skipped);
        for denial in Denial::ALL {
            self.counter(any.into(), denial).inc();
        }
    }

    /// The series of one endpoint.
    pub(super) fn of(&self, source: &SourceName, endpoint: &Arc<str>) -> Series {
        let labels = EndpointLabels { source: source.into(), endpoint: Arc::clone(endpoint) };
        Series { metrics: self.clone(), labels }
    }

    /// A request was refused.
    pub(super) fn denied(&self, source: &SourceName, denial: Denial) {
        self.counter(source.into(), denial).inc();
    }

    /// How often that kind of request was refused.
    #[must_use]
    pub fn denials(&self, source: &SourceName, denial: Denial) -> u64 {
        self.counter(source.into(), denial).get()
    }

    fn counter(&self, source: Arc<str>, denial: Denial) -> Counter {
        self.denials.get_or_create_owned(&DenialLabels { source, what: denial.word() })
    }
}

/// A word for how a request ended, up to the head of its answer.
pub(super) fn outcome(status: Result<u16, &Error>) -> &'static str {
    match status {
        Ok(200..=299) => "ok",
        Ok(304) => "not-modified",
        Ok(300..=399) => "redirect",
        Ok(401 | 403) => "unauthorized",
        Ok(429) => "throttled",
        Ok(500..=599) => "server-error",
        Ok(_) => "client-error",
        Err(error) => error.word(),
    }
}

/// The series of one endpoint.
#[derive(Debug, Clone)]
pub(super) struct Series {
    metrics: Metrics,
    labels: EndpointLabels,
}

impl Series {
    /// A request has the head of its answer, or none.
    pub(super) fn answered(&self, outcome: &'static str, took: Duration) {
        let EndpointLabels { source, endpoint } = self.labels.clone();
        self.metrics.requests.get_or_create(&RequestLabels { source, endpoint, outcome }).inc();
        self.metrics.seconds.get_or_create(&self.labels).observe(took.as_secs_f64());
    }

    /// Some of an answer arrived.
    pub(super) fn received(&self, bytes: usize) {
        self.metrics.received.get_or_create(&self.labels).inc_by(bytes as u64);
    }

    /// Whether the endpoint's certificate is checked.
    pub(super) fn verified(&self, verified: super::Verification) {
        let unverified = i64::from(verified == super::Verification::Skipped);
        self.metrics.unverified.get_or_create(&self.labels).set(unverified);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_the_word_of_its_class_up_to_the_edges() {
        let rows = [
            (200..=299, "ok"),
            (300..=303, "redirect"),
            (304..=304, "not-modified"),
            (305..=399, "redirect"),
            (400..=400, "client-error"),
            (401..=401, "unauthorized"),
            (402..=402, "client-error"),
            (403..=403, "unauthorized"),
            (404..=428, "client-error"),
            (429..=429, "throttled"),
            (430..=499, "client-error"),
            (500..=599, "server-error"),
        ];
        for (statuses, word) in rows {
            for status in statuses {
                assert_eq!(outcome(Ok(status)), word, "{status}");
            }
        }
    }
}
