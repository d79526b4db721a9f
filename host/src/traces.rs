//! Spans, sent to an OpenTelemetry collector: where the time of a round went, for a later question.
//!
//! OTLP over HTTP, protobuf, off unless a collector is configured. Only spans of this program go out: names, numbers
//! and outcomes, never the words of a log line.
//!
//! | span | what it lasts |
//! |---|---|
//! | `prepare` | from bytes and an entry to a plugin that can be called; `source`, `digest` |
//! | `round` | a call of a plugin and all that follows from it; `source`, `outcome` |
//! | `call` | one call of a plugin; `function`, `rows`, `outcome` and more |
//! | `request` | one request of it to an endpoint, up to the head of the answer; `endpoint`, `outcome` |
//! | `shadow` | a candidate plugin, called beside the active one; `source` |
//! | `remove` | the end of a source whose objects go with it; `source` |
//! | `reconcile` | the decision about a result and its writes, in a round or without one; `source` |
//! | `decide` | what a result means for the objects there are; `steps`, `verdict` |
//! | `write` | a plan, executed; `steps`, `written`, `refused` |
//! | `step` | one write of it; `hyper_node`, `verb`, `result` |
//!
//! Those of the bottom-up syncer, per decision from which requests follow; `binding` on most of the outermost:
//!
//! | span | what it lasts |
//! |---|---|
//! | `lend` | a decision about a physical node and all its writes; `node`, `why`, `orders` |
//! | `order` | one of its orders; `kind`, `result` |
//! | `mirror` | the status of a physical pod, written to its virtual one; `pod`, `result` |
//! | `orphan` | the deletion of a physical pod of ours that belongs to nothing; `pod`, `verdict`, `result` |
//! | `end` | the final phase of a virtual pod whose physical one is lost; `pod`, `result` |
//! | `remove` | the removal of a virtual pod, as an order or without one; `pod`, `result` |
//! | `csinode` | a write of the CSINode of a virtual node; `node`, `verb`, `result` |
//! | `policy` | a write of the status of a policy; `policy`, `result` |
//!
//! # Failure story
//!
//! Nothing here waits for a collector, and nothing waits for anything here. Spans that end while [`QUEUE`] others wait
//! are dropped; those that a collector does not take after some tries are lost. Both are counted, and the log shows
//! when spans begin to be lost and when that ends, at most once per minute.

mod collector;
mod queue;
mod sending;

use http::{HeaderMap, Uri};
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::EnvResourceDetector;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanLimits};
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::{Layer, Registry};

use crate::authorities::Authorities;

pub use queue::{Metrics, QUEUE};
pub use sending::Spans;

/// Where spans go.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The whole URL, its path included.
    pub endpoint: Uri,
    /// What the collector asks for in every request, a token for instance.
    pub headers: HeaderMap,
    /// The authorities that may have signed its certificate.
    pub authorities: Authorities,
}

/// The layer that records the begin and end of spans.
pub type TraceLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Begins to collect spans: the layer belongs into the log of the process; [`Spans::send`] sends what it records.
#[must_use]
pub fn start(settings: Settings, resource: Resource) -> (TraceLayer, Spans) {
    let metrics = Metrics::default();
    let (processor, queue) = queue::bounded(metrics.clone());
    // What the SDK reads of the environment otherwise, it reads without a word about mistakes.
    let provider = SdkTracerProvider::builder()
        .with_sampler(Sampler::AlwaysOn)
        .with_span_limits(SpanLimits::default())
        .with_resource(resource.clone())
        .with_span_processor(processor)
        .build();
    // Places in the source and threads say nothing to the reader of a trace of a cluster.
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer(OURS))
        .with_context_activation(false)
        .with_location(false)
        .with_target(false)
        .with_threads(false);
    let layer = layer.with_filter(filter_fn(is_ours).with_max_level_hint(LevelFilter::DEBUG));
    (layer.boxed(), Spans::new(queue, metrics, settings, &resource))
}

/// The name of the program: of what it says to a collector, and what the targets of its own spans begin with, whichever of
/// its crates they are in.
const OURS: &str = "topoloom";

/// The resource that sends the spans. The variable `OTEL_RESOURCE_ATTRIBUTES` wins.
#[must_use]
pub fn resource(instance: &str) -> Resource {
    let own = [
        KeyValue::new("service.name", OURS),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", instance.to_owned()),
    ];
    Resource::builder_empty().with_attributes(own).with_detector(Box::new(EnvResourceDetector::new())).build()
}

/// Spans of this program, and no events.
fn is_ours(about: &Metadata<'_>) -> bool {
    about.is_span() && *about.level() <= Level::DEBUG && about.target().starts_with(OURS)
}

#[cfg(test)]
mod tests {
    use opentelemetry::Value;

    use super::*;

    #[test]
    fn who_speaks_is_said_by_name_version_and_instance() {
        let resource = resource("pod-7");
        let said = |key: &'static str| resource.get(&key.into());
        assert_eq!(said("service.name"), Some(Value::from("topoloom")));
        assert_eq!(said("service.version"), Some(Value::from(env!("CARGO_PKG_VERSION"))));
        assert_eq!(said("service.instance.id"), Some(Value::from("pod-7")));
    }
}
