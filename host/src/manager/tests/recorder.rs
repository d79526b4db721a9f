use std::convert::Infallible;
use std::sync::Mutex;

use futures::FutureExt;
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;
use topoloom_api::condition::Reason;
use topoloom_api::names::EVENT_COMPONENT;

use super::*;
use crate::cluster::events::Urgency;

/// What was asked of an API server that stores every Event.
type Asked = Arc<Mutex<Vec<(http::Method, Value)>>>;

fn server(asked: &Asked) -> kube::Client {
    let asked = Arc::clone(asked);
    let serve = move |request: Request<Body>| {
        let asked = Arc::clone(&asked);
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            asked.lock().unwrap().push((head.method, serde_json::from_slice(&body).unwrap()));
            Ok::<_, Infallible>(Response::new(Body::from(body.to_vec())))
        }
    };
    kube::Client::new(tower::service_fn(serve), "default")
}

#[tokio::test]
async fn r12_equal_events_of_several_controllers_are_one_series_under_one_name() {
    let asked = Asked::default();
    let mut process = Process::new(options()).await;
    process.events = Events::new(server(&asked));
    let says = |name| {
        fake(name, |context| {
            let events = context.events.clone();
            let run = move |_| {
                async move {
                    let source = "a".parse().unwrap();
                    events.source(&source, None, Urgency::Warning, Reason::WriteFailed, "it cannot be written").await;
                    Ok(())
                }
                .boxed()
            };
            Ok(Initialized::Runs(Box::new(run)))
        })
    };
    let ready = process.initialise(["a", "b", "c"].map(says).into()).unwrap();
    for ready in ready {
        (ready.run)(CancellationToken::new()).await.unwrap();
    }
    let asked = asked.lock().unwrap().clone();
    let methods: Vec<_> = asked.iter().map(|(method, _)| method.as_str()).collect();
    assert_eq!(methods, ["POST", "PATCH", "PATCH"], "the first makes the Event, the others count in it");
    let (counts, names): (Vec<_>, Vec<_>) =
        asked.iter().map(|(_, event)| (&event["series"]["count"], &event["reportingController"])).unzip();
    assert_eq!(counts, [&Value::Null, &json!(2), &json!(3)]);
    assert_eq!(names, [EVENT_COMPONENT; 3]);
}

/// A recorder keeps its Events for minutes, and a busy extender sends one for every pod.
#[tokio::test]
async fn all_series_end_after_a_thousand_objects_so_that_they_are_not_all_kept() {
    let asked = Asked::default();
    let events = Events::new(server(&asked));
    for number in (0..1_000).chain([0, 1_000, 0]) {
        let source = format!("s{number}").parse().unwrap();
        // Copies share the series.
        events.clone().source(&source, None, Urgency::Warning, Reason::WriteFailed, "it cannot be written").await;
    }
    let asked = asked.lock().unwrap();
    let methods: Vec<&str> = asked.iter().skip(999).map(|(method, _)| method.as_str()).collect();
    assert_eq!(methods, ["POST", "PATCH", "POST", "POST"], "the object that is one too many begins all anew");
}
