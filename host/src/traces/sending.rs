//! The task that sends what has ended, in requests of many spans.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanData;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Settings;
use super::collector::{Collector, NotTaken};
use super::queue::{Fate, Metrics};

/// Spans of one request at most.
const BATCH: usize = 512;

/// How long the first span of a request waits for others.
const LINGER: Duration = Duration::from_secs(1);

/// Pauses before the same request is sent again.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(2)];

/// The log says no more often that spans are lost.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// How long the last spans may take when the process stops.
pub(super) const FAREWELL: Duration = Duration::from_secs(2);

/// Spans that have ended, and where they go.
pub struct Spans {
    queue: mpsc::Receiver<SpanData>,
    metrics: Metrics,
    settings: Settings,
    resource: ResourceAttributesWithSchema,
}

impl Spans {
    pub(super) fn new(
        queue: mpsc::Receiver<SpanData>,
        metrics: Metrics,
        settings: Settings,
        resource: &Resource,
    ) -> Self {
        Self { queue, metrics, settings, resource: resource.into() }
    }

    /// What counts them.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Sends until `stop`, and then what is left.
    ///
    /// # Errors
    /// When no client can be made.
    pub async fn send(self, stop: CancellationToken) -> Result<(), String> {
        let Self { mut queue, metrics, settings, resource } = self;
        let endpoint = settings.endpoint.to_string();
        let collector = Collector::new(settings).map_err(|error| format!("TLS cannot be used: {error}"))?;
        let mut sender =
            Sender { collector, metrics, resource, endpoint, trouble: SendingTrouble::default(), under_way: 0 };
        let late = async {
            stop.cancelled().await;
            tokio::time::sleep(FAREWELL).await;
        };
        tokio::select! {
            () = sender.run(&mut queue, &stop) => {}
            () = late => {
                let left = std::iter::from_fn(|| queue.try_recv().ok()).count();
                let lost = sender.under_way + u64::try_from(left).unwrap_or(u64::MAX);
                sender.metrics.count(Fate::Lost, lost);
                tracing::warn!(collector = sender.endpoint, lost, "the last spans are lost: the collector did not accept them in time");
            }
        }
        Ok(())
    }
}

struct Sender {
    collector: Collector,
    metrics: Metrics,
    resource: ResourceAttributesWithSchema,
    endpoint: String,
    trouble: SendingTrouble,
    /// Spans of the request that is not answered yet.
    under_way: u64,
}

/// Whether spans are lost at present, and when the log said so last.
#[derive(Debug, Default)]
struct SendingTrouble {
    is_there: bool,
    logged: Option<Instant>,
    /// The log has said so, and not yet that it is over.
    is_known: bool,
}

impl SendingTrouble {
    /// Whether the log is to say that it begins.
    fn begins(&mut self) -> bool {
        let is_new = !std::mem::replace(&mut self.is_there, true);
        let is_due = is_new && self.logged.is_none_or(|logged| logged.elapsed() >= SAY_AGAIN);
        if is_due {
            (self.logged, self.is_known) = (Some(Instant::now()), true);
        }
        is_due
    }

    /// Whether the log is to say that it is over.
    fn ends(&mut self) -> bool {
        self.is_there = false;
        std::mem::take(&mut self.is_known)
    }
}

impl Sender {
    async fn run(&mut self, queue: &mut mpsc::Receiver<SpanData>, stop: &CancellationToken) {
        loop {
            let batch = next(queue, stop).await;
            if batch.is_empty() {
                return;
            }
            self.deliver(batch, stop).await;
        }
    }

    /// Sends spans, more than once if that may help.
    async fn deliver(&mut self, batch: Vec<SpanData>, stop: &CancellationToken) {
        let spans = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        self.under_way = spans;
        let request =
            ExportTraceServiceRequest { resource_spans: group_spans_by_resource_and_scope(batch, &self.resource) };
        let mut pauses = PAUSES.into_iter();
        let answer = loop {
            let answer = self.collector.take(&request).await;
            match (&answer, pauses.next()) {
                (Err(NotTaken::Yet(_)), Some(pause)) if !stop.is_cancelled() => {
                    // What stops does not wait: the request is sent a last time.
                    tokio::select! { () = tokio::time::sleep(pause) => {}, () = stop.cancelled() => {} }
                }
                _ => break answer,
            }
        };
        self.under_way = 0;
        match answer {
            Ok(rejected) => {
                let rejected = rejected.min(spans);
                self.metrics.count(Fate::Sent, spans - rejected);
                self.metrics.count(Fate::Rejected, rejected);
                if self.trouble.ends() {
                    tracing::info!(collector = self.endpoint, "the collector accepts spans again");
                }
            }
            Err(error) => {
                self.metrics.count(Fate::Lost, spans);
                if self.trouble.begins() {
                    tracing::warn!(collector = self.endpoint, %error, "spans are lost: the collector does not accept them");
                }
            }
        }
    }
}

/// The next spans, or none when all are sent and the process stops.
async fn next(queue: &mut mpsc::Receiver<SpanData>, stop: &CancellationToken) -> Vec<SpanData> {
    let mut batch = Vec::new();
    tokio::select! {
        biased;
        taken = queue.recv_many(&mut batch, BATCH) => if taken == 0 { return batch },
        () = stop.cancelled() => return batch,
    }
    let until = Instant::now() + LINGER;
    while batch.len() < BATCH {
        let room = BATCH - batch.len();
        tokio::select! {
            biased;
            taken = queue.recv_many(&mut batch, room) => if taken == 0 { break },
            () = stop.cancelled() => break,
            () = tokio::time::sleep_until(until) => break,
        }
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_log_says_when_spans_are_lost_and_taken_again_but_not_for_each_request() {
        let mut trouble = SendingTrouble::default();
        assert_eq!([trouble.ends(), trouble.begins(), trouble.begins(), trouble.ends()], [false, true, false, true]);
        // A collector that takes every other request.
        for _ in 0..3 {
            assert_eq!([trouble.begins(), trouble.ends()], [false, false]);
        }
        tokio::time::advance(SAY_AGAIN).await;
        assert_eq!([trouble.begins(), trouble.ends()], [true, true]);
    }
}
