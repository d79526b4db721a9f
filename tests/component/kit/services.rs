//! Plugins that are wrong about a service: one for each answer that it could have given.

use std::sync::Arc;

use serde_json::{Value, json};
use topoloom::endpoints::recording::Recording;
use topoloom_workshop::kit::Trial;
use topoloom_workshop::kit::check::Check;
use topoloom_workshop::kit::report::Level;

use super::{Terms, assert_only, errant, examined, trial};

/// The case of the plugin that reads a list: the racks of all nodes, as the service lists them.
pub(super) fn recorded(config: Value) -> Trial {
    let nodes: Vec<_> =
        (1..=6).map(|at| json!({"name": format!("m{at}"), "rack": format!("r{}", (at - 1) / 2)})).collect();
    let body = json!({"nodes": nodes}).to_string();
    let exchange = json!({
        "endpoint": "list", "method": "GET", "path": "/v1/nodes", "status": 200,
        "headers": [["content-type", "application/json"]], "text": body,
    });
    let source = json!({"credentials": {"list": "bearer"}, "exchanges": [exchange]});
    let recording = json!({"version": 1, "sources": {"any": source}});
    let recording = Recording::parse(&recording.to_string()).unwrap();
    Trial { recording: Some(Arc::new(recording)), ..trial(config) }
}

/// The same in three pages.
fn paged() -> Trial {
    let page = |at: usize| {
        let nodes: Vec<_> =
            [2 * at + 1, 2 * at + 2].map(|node| json!({"name": format!("m{node}"), "rack": format!("r{at}")})).into();
        let next = (at < 2).then(|| format!("/v1/nodes?page={}", at + 1));
        let path = if at == 0 { "/v1/nodes".to_owned() } else { format!("/v1/nodes?page={at}") };
        let body = json!({"nodes": nodes, "next": next}).to_string();
        json!({"endpoint": "list", "method": "GET", "path": path, "status": 200, "headers": [], "text": body})
    };
    let source = json!({"credentials": {"list": "bearer"}, "exchanges": (0..3).map(page).collect::<Vec<_>>()});
    let recording = json!({"version": 1, "sources": {"any": source}});
    let recording = Recording::parse(&recording.to_string()).unwrap();
    Trial { recording: Some(Arc::new(recording)), ..trial(json!({})) }
}

#[tokio::test]
async fn later_pages_have_bad_days_too() {
    let report = examined(&errant("good"), &[paged()], &Terms::default(), None).await;
    assert_eq!(report.found().collect::<Vec<_>>(), [], "{}", report.text());
    let report = examined(&errant("later-page"), &[paged()], &Terms::default(), None).await;
    assert_only(&report, Check::HttpServerError, Level::Error, "later-page");
    let text = report.text();
    assert!(text.contains("page=1") && text.contains("page=2"), "{text}");
}

#[tokio::test]
async fn nothing_new_at_the_service_is_no_answer_over_other_nodes() {
    let report = examined(&errant("etag"), &[recorded(json!({}))], &Terms::default(), None).await;
    assert_only(&report, Check::StateStale, Level::Error, "etag");
    assert!(report.text().contains("with status 304 to GET /v1/nodes"), "{}", report.text());
}

#[tokio::test]
async fn a_bad_answer_that_is_taken_for_a_good_one_is_found() {
    for (act, check) in [
        ("unauthorized", Check::HttpUnauthorized),
        ("redirect", Check::HttpRedirect),
        ("html", Check::HttpHtml),
        ("server-error", Check::HttpServerError),
        ("retry-after", Check::HttpRetryAfter),
        ("not-modified", Check::HttpNotModified),
        ("empty", Check::HttpEmpty),
        ("cut", Check::HttpCut),
        ("refused", Check::HttpRefused),
        ("timeout", Check::HttpTimeout),
        ("odd", Check::HttpOdd),
        ("large", Check::HttpLarge),
    ] {
        let report = examined(&errant(act), &[recorded(json!({}))], &Terms::default(), None).await;
        assert_only(&report, check, Level::Error, act);
    }
}

#[tokio::test]
async fn a_case_without_its_recording_says_what_is_missing() {
    let report = examined(&errant("good"), &[trial(json!({}))], &Terms::default(), None).await;
    assert_only(&report, Check::SoundAnswer, Level::Error, "without a recording");
    let text = report.text();
    assert!(text.contains("the plugin calls the endpoint list (Reads which rack every node is in)"), "{text}");
}
