//! The spans that a real host sends to a collector.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use opentelemetry_proto::tonic::trace::v1::Span;
use topoloom_tests::collector::{Collector, Request, attribute};
use topoloom_tests::controlplane::eventually;
use topoloom_tests::scene::{PATIENCE, RACKS, Scene};

fn spans(requests: &[Request]) -> impl Iterator<Item = &Span> {
    requests.iter().flat_map(Request::spans)
}

/// A round that wrote something, with everything below it.
fn first_writing(requests: &[Request]) -> Option<(&Span, Vec<&Span>)> {
    let step = spans(requests).find(|span| span.name == "step")?;
    let together = || spans(requests).filter(|span| span.trace_id == step.trace_id);
    let round = together().find(|span| span.parent_span_id.is_empty())?;
    Some((round, together().collect()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_is_one_trace_from_the_question_to_the_last_write() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["m1 ex.io/spine=s1 ex.io/rack=a", "m2 ex.io/spine=s1 ex.io/rack=b"]).await?;
    scene.configure(RACKS).await?;
    let collector = Collector::start([]).await?;
    let headers = scene.plane.folder().join("headers");
    std::fs::write(&headers, "# for the collector\nauthorization: Bearer let-me-in\n")?;
    let (endpoint, file) =
        (format!("--otlp-endpoint={}", collector.url()), format!("--otlp-headers-file={}", headers.display()));
    let host = scene.host_with(&[&endpoint, &file]).await?;
    let came = collector.until(|requests| first_writing(requests).is_some()).await?;

    let (round, together) = first_writing(&came).context("a round wrote")?;
    assert_eq!((round.name.as_str(), attribute(round, "source").as_deref()), ("round", Some("label")));
    assert_eq!(attribute(round, "outcome").as_deref(), Some("ok"));
    let child = |parent: &Span, name: &str| {
        let is_it = |span: &&&Span| span.name == name && span.parent_span_id == parent.span_id;
        together.iter().find(is_it).copied().with_context(|| format!("no {name} in {}: {together:#?}", parent.name))
    };
    let call = child(round, "call")?;
    assert_eq!(
        (attribute(call, "function").as_deref(), attribute(call, "rows").as_deref()),
        (Some("discover"), Some("2"))
    );
    let reconcile = child(round, "reconcile")?;
    assert_eq!(attribute(child(reconcile, "decide")?, "verdict").as_deref(), Some("pass"));
    let write = child(reconcile, "write")?;
    // One spine, two racks.
    assert_eq!((attribute(write, "steps").as_deref(), attribute(write, "written").as_deref()), (Some("3"), Some("3")));
    let steps: Vec<&&Span> = together.iter().filter(|span| span.parent_span_id == write.span_id).collect();
    assert_eq!(steps.len(), 3);
    for step in &steps {
        assert_eq!(attribute(step, "verb").as_deref(), Some("create"));
        assert_eq!(attribute(step, "result").as_deref(), Some("ok"));
    }
    let names: BTreeSet<_> = steps.iter().filter_map(|step| attribute(step, "hyper_node")).collect();
    assert_eq!(names, scene.stored().await?.into_keys().collect());

    assert_eq!(came[0].headers["authorization"], "Bearer let-me-in");
    assert_eq!(came[0].sender("service.name").as_deref(), Some("topoloom"));
    eventually("it counts what it sent", PATIENCE, async || {
        let metrics = host.get("/metrics").await.map_err(|error| error.to_string())?;
        if metrics.contains("topoloom_trace_spans_total{result=\"sent\"}") { Ok(()) } else { Err(metrics) }
    })
    .await;
    assert!(!host.log().join("\n").contains("let-me-in"), "a secret is in the log");

    // The host also sends the spans of its last writes, which end a moment before the process.
    scene.nodes(&["m3 ex.io/spine=s1 ex.io/rack=c"]).await?;
    scene
        .until(&[
            "tier 2 ex.io/spine=s1 (3): ex.io/rack=a ex.io/rack=b ex.io/rack=c",
            "tier 1 ex.io/rack=a (1): m1",
            "tier 1 ex.io/rack=b (1): m2",
            "tier 1 ex.io/rack=c (1): m3",
        ])
        .await;
    host.stop().await?;
    let created = |span: &&Span| span.name == "step" && attribute(span, "verb").as_deref() == Some("create");
    assert_eq!(spans(&collector.requests()).filter(created).count(), 4);
    Ok(())
}
