//! Spans that have ended and wait to be sent. There is room for some; what finds none is dropped and counted.

use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;

/// Spans that may wait: those of a first round that writes some hundred HyperNodes, at about 1 KiB each.
pub const QUEUE: usize = 4096;

/// What became of spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The collector took it.
    Sent,
    /// There was no room for it.
    Dropped,
    /// No collector took it.
    Lost,
    /// The collector took others of the same request, and not this one.
    Rejected,
}

impl Fate {
    const ALL: [Self; 4] = [Self::Sent, Self::Dropped, Self::Lost, Self::Rejected];

    const fn word(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Dropped => "dropped",
            Self::Lost => "lost",
            Self::Rejected => "rejected",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FateLabels {
    result: &'static str,
}

/// Counts spans by what became of them.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    spans: Family<FateLabels, Counter>,
}

impl Metrics {
    /// Registers them.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("trace_spans", "Spans for the collector of traces by result", self.spans.clone());
    }

    /// One series of each kind there can be.
    pub(crate) fn examples(&self) {
        Fate::ALL.into_iter().for_each(|fate| self.count(fate, 0));
    }

    pub(super) fn count(&self, fate: Fate, spans: u64) {
        self.spans.get_or_create(&FateLabels { result: fate.word() }).inc_by(spans);
    }
}

/// A queue with room for [`QUEUE`] spans.
pub(super) fn bounded(metrics: Metrics) -> (Processor, mpsc::Receiver<SpanData>) {
    let (room, queue) = mpsc::channel(QUEUE);
    (Processor { room, metrics }, queue)
}

/// Takes spans that end, wherever that is, without waiting.
#[derive(Debug)]
pub(super) struct Processor {
    room: mpsc::Sender<SpanData>,
    metrics: Metrics,
}

impl SpanProcessor for Processor {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.room.try_send(span).is_err() {
            self.metrics.count(Fate::Dropped, 1);
        }
    }

    /// The sender is asked to send the rest when the process stops, not through here.
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}
