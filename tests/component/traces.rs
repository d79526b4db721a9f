//! Spans that go to a collector: what the host sends, and what happens to the spans if the collector is slow, broken or
//! absent.

use std::sync::LazyLock;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTracePartialSuccess, ExportTraceServiceResponse};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry as Metrics;
use prost::Message;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use topoloom::authorities::{self, Authorities};
use topoloom::traces::{self, QUEUE, Settings, Spans, TraceLayer};
use topoloom_tests::collector::{Answer, Collector, attribute};
use topoloom_tests::controlplane::eventually;
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Instrument};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;

use crate::guests::{nodes, round, source, villain};

/// How long a step may take that normally takes a moment.
const PATIENCE: Duration = Duration::from_secs(60);

fn settings(url: &str) -> Settings {
    let endpoint = format!("{url}/v1/traces").parse().unwrap();
    Settings { endpoint, headers: HeaderMap::new(), authorities: Authorities::default() }
}

fn begin(url: &str) -> (TraceLayer, Spans, Metrics) {
    begin_with(settings(url))
}

fn begin_with(settings: Settings) -> (TraceLayer, Spans, Metrics) {
    let (ear, spans) = traces::start(settings, traces::resource("pod-7"));
    let mut metrics = Metrics::default();
    spans.metrics().register(&mut metrics);
    (ear, spans, metrics)
}

/// How many spans have this result.
fn counted(metrics: &Metrics, result: &str) -> usize {
    let mut text = String::new();
    encode(&mut text, metrics).unwrap();
    let series = format!("trace_spans_total{{result=\"{result}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&series)).map_or(0, |count| count.parse().unwrap())
}

/// One round with a call in it, and private data beside them. The targets are those of the host.
fn speak() {
    let round =
        tracing::debug_span!(target: "topoloom::round", "round", source = "fabric", outcome = tracing::field::Empty);
    let _inside = round.enter();
    tracing::warn!(target: "topoloom::round", secret = "s3cr3t", "a line of the log");
    tracing::trace_span!(target: "topoloom::round", "detail").in_scope(|| {});
    tracing::debug_span!(target: "hyper::client", "connect").in_scope(|| {});
    tracing::debug_span!(target: "topoloom::call", "call", rows = 7_u64).in_scope(|| {});
    round.record("outcome", "ok");
}

/// Makes this thread the listener, until the guard is dropped.
///
/// While a process has a single subscriber, tracing asks only the thread that first comes to an event whether it
/// listens, and another test may come first: a second one is registered for good.
fn listen(ear: TraceLayer) -> DefaultGuard {
    static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Registry::default()));
    LazyLock::force(&SECOND);
    tracing::subscriber::set_default(Registry::default().with(ear))
}

fn hear(ear: TraceLayer, says: impl FnOnce()) {
    let _listening = listen(ear);
    says();
}

/// Sends all spans that have ended, as a process does when it stops.
async fn send_all(spans: Spans) {
    let stop = CancellationToken::new();
    stop.cancel();
    assert_eq!(spans.send(stop).await, Ok(()));
}

/// Sends the two spans of [`speak`] to a collector that gives this answer.
async fn after(answer: Answer) -> (Collector, Metrics) {
    let collector = Collector::start([answer]).await.unwrap();
    let (ear, spans, metrics) = begin(collector.url());
    hear(ear, speak);
    send_all(spans).await;
    (collector, metrics)
}

#[tokio::test]
async fn what_ended_reaches_the_collector_with_who_says_it() {
    let collector = Collector::start([]).await.unwrap();
    let headers = HeaderMap::from_iter([(http::header::AUTHORIZATION, HeaderValue::from_static("Bearer t"))]);
    let (ear, spans, metrics) = begin_with(Settings { headers, ..settings(collector.url()) });
    let stop = CancellationToken::new();
    let mut sending = JoinSet::new();
    sending.spawn(spans.send(stop.clone()));
    hear(ear, speak);
    let came = collector.until(|requests| !requests.is_empty()).await.unwrap();
    let request = &came[0];
    assert_eq!(request.headers["authorization"], "Bearer t");
    assert_eq!(request.headers["content-type"], "application/x-protobuf");
    assert_eq!(request.sender("service.instance.id").as_deref(), Some("pod-7"));

    let [call, round] = request.spans().collect::<Vec<_>>()[..] else { panic!("only spans of ours: {request:?}") };
    assert_eq!((call.name.as_str(), round.name.as_str()), ("call", "round"));
    assert_eq!((&call.trace_id, &call.parent_span_id), (&round.trace_id, &round.span_id));
    assert!(round.parent_span_id.is_empty() && round.start_time_unix_nano <= call.start_time_unix_nano);
    assert!(call.end_time_unix_nano <= round.end_time_unix_nano);
    assert_eq!(attribute(round, "source").as_deref(), Some("fabric"));
    assert_eq!(attribute(round, "outcome").as_deref(), Some("ok"));
    assert_eq!(attribute(call, "rows").as_deref(), Some("7"));
    assert!(round.events.is_empty() && !format!("{request:?}").contains("s3cr3t"), "{request:?}");
    stop.cancel();
    assert_eq!(sending.join_all().await, [Ok(())]);
    assert_eq!(counted(&metrics, "sent"), 2);
}

#[tokio::test]
async fn an_untrusted_certificate_gets_no_spans_and_no_headers() {
    let (collector, pem) = Collector::start_tls([]).await.unwrap();
    let (ear, spans, metrics) = begin(collector.url());
    hear(ear, speak);
    send_all(spans).await;
    assert_eq!((collector.requests().len(), counted(&metrics, "lost")), (0, 2));

    let authorities = authorities::named([("the collector", pem.as_bytes())]).unwrap();
    let (ear, spans, metrics) = begin_with(Settings { authorities, ..settings(collector.url()) });
    hear(ear, speak);
    send_all(spans).await;
    assert_eq!((collector.requests().len(), counted(&metrics, "sent")), (1, 2));
}

#[tokio::test]
async fn a_call_belongs_to_the_round_that_asks_on_whatever_thread_it_runs() {
    let plugin = villain().await;
    let collector = Collector::start([]).await.unwrap();
    let (ear, spans, _) = begin(collector.url());
    let listening = listen(ear);
    let asks = tracing::debug_span!(target: "topoloom::round", "round");
    let call = plugin.discover(&source(), round("good", nodes(16))).instrument(asks).await;
    assert!(call.end.is_ok(), "{:?}", call.end);
    drop(listening);
    send_all(spans).await;
    let came = collector.requests();
    let [call, round] = came[0].spans().collect::<Vec<_>>()[..] else { panic!("{came:?}") };
    assert_eq!((call.name.as_str(), round.name.as_str()), ("call", "round"));
    assert_eq!(call.parent_span_id, round.span_id);
}

#[tokio::test]
async fn what_ended_last_is_sent_when_the_process_stops() {
    let (collector, metrics) = after((StatusCode::OK, Vec::new())).await;
    assert_eq!(collector.requests().iter().map(|request| request.spans().count()).sum::<usize>(), 2);
    assert_eq!(counted(&metrics, "sent"), 2);
}

#[tokio::test]
async fn a_request_is_sent_again_while_that_may_help() {
    let busy = (StatusCode::SERVICE_UNAVAILABLE, Vec::new());
    let collector = Collector::start([busy.clone(), busy]).await.unwrap();
    let (ear, spans, metrics) = begin(collector.url());
    hear(ear, speak);
    let stop = CancellationToken::new();
    let mut sending = JoinSet::new();
    sending.spawn(spans.send(stop.clone()));
    let came = collector.until(|requests| requests.len() == 3).await.unwrap();
    assert_eq!(came[0].body, came[2].body);
    stop.cancel();
    assert_eq!(sending.join_all().await, [Ok(())]);
    assert_eq!((counted(&metrics, "sent"), counted(&metrics, "lost")), (2, 0));
}

#[tokio::test]
async fn what_a_collector_refuses_is_lost_and_not_sent_again() {
    for status in [StatusCode::BAD_REQUEST, StatusCode::UNAUTHORIZED, StatusCode::TEMPORARY_REDIRECT] {
        let collector = Collector::start([(status, Vec::new())]).await.unwrap();
        let (ear, spans, metrics) = begin(collector.url());
        hear(ear, speak);
        // The process goes on, so there is time for another try.
        let stop = CancellationToken::new();
        let mut sending = JoinSet::new();
        sending.spawn(spans.send(stop.clone()));
        eventually("they are lost", PATIENCE, async || match counted(&metrics, "lost") {
            2 => Ok(()),
            lost => Err(lost.to_string()),
        })
        .await;
        stop.cancel();
        assert_eq!(sending.join_all().await, [Ok(())]);
        assert_eq!((collector.requests().len(), counted(&metrics, "sent")), (1, 0), "{status}");
    }
}

#[tokio::test]
async fn what_a_collector_leaves_out_is_counted() {
    let partial = ExportTracePartialSuccess { rejected_spans: 1, error_message: "too long".into() };
    let answer = ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec();
    let (_collector, metrics) = after((StatusCode::OK, answer)).await;
    assert_eq!((counted(&metrics, "sent"), counted(&metrics, "rejected")), (1, 1));
    // More spans than were sent, and a negative number.
    for (rejected, sent) in [(i64::MAX, 0), (-1, 2)] {
        let partial = ExportTracePartialSuccess { rejected_spans: rejected, ..ExportTracePartialSuccess::default() };
        let answer = ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec();
        let (_collector, metrics) = after((StatusCode::OK, answer)).await;
        assert_eq!((counted(&metrics, "sent"), counted(&metrics, "rejected")), (sent, 2 - sent));
    }
}

#[tokio::test]
async fn an_answer_that_is_too_long_or_no_protobuf_is_not_read() {
    // The host would count a rejected span if it read this answer.
    let partial = ExportTracePartialSuccess { rejected_spans: 1, error_message: "x".repeat(1 << 20) };
    let long = ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec();
    for body in [long, vec![0xff; 9]] {
        let (_collector, metrics) = after((StatusCode::OK, body)).await;
        assert_eq!((counted(&metrics, "sent"), counted(&metrics, "rejected")), (2, 0));
    }
}

#[tokio::test]
async fn the_process_does_not_wait_for_a_collector_that_is_not_there() {
    let url = Collector::start([]).await.unwrap().url().to_owned();
    let (ear, spans, metrics) = begin(&url);
    hear(ear, || (0..QUEUE).for_each(|_| speak()));
    assert_eq!(counted(&metrics, "dropped"), QUEUE);
    send_all(spans).await;
    assert_eq!(counted(&metrics, "lost"), QUEUE);
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_never_answers_does_not_keep_the_process() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (ear, spans, metrics) = begin(&format!("http://{}", listener.local_addr().unwrap()));
    hear(ear, speak);
    // The paused clock advances by itself while all tasks wait.
    let began = tokio::time::Instant::now();
    send_all(spans).await;
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(counted(&metrics, "lost"), 2);
}
