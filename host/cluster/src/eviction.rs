//! The eviction of one pod, with the UID of the pod that is meant.
//!
//! Owns the body of the request. The one of the client library (`kube::Api::evict`) writes its options under a name that no API
//! server reads: the UID would be dropped without an error, and another pod that has the name by now would be evicted.
//!
//! # Failure story
//!
//! A pod with another UID is a conflict (409), and a disruption budget that does not allow the eviction is 429. Both leave the pod as
//! it is.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use kube::core::Status;
use serde_json::json;

/// Evicts the pod of this name, if it is the one with this UID, whatever was written on it meanwhile. `pods` are those of its
/// namespace.
///
/// # Errors
/// The refusal of the API server; or that there was no answer: then the pod may be evicted.
pub async fn evict(pods: &Api<Pod>, name: &str, uid: &str) -> kube::Result<Status> {
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name},
        "deleteOptions": {"preconditions": {"uid": uid}},
    });
    pods.create_subresource("eviction", name, &PostParams::default(), &eviction).await
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::Value;

    use super::*;

    #[tokio::test]
    async fn the_uid_is_where_api_servers_read_it() {
        let sent = Arc::new(Mutex::new(Value::Null));
        let seen = Arc::clone(&sent);
        let serve = move |request: Request<Body>| {
            let seen = Arc::clone(&seen);
            async move {
                assert_eq!(request.method(), "POST");
                assert_eq!(request.uri().path(), "/api/v1/namespaces/shop/pods/web-0/eviction");
                let body = request.into_body().collect_bytes().await.unwrap();
                *seen.lock().unwrap() = serde_json::from_slice(&body).unwrap();
                let answer = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
                Ok::<_, Infallible>(Response::new(Body::from(answer.to_string().into_bytes())))
            }
        };
        let client = kube::Client::new(tower::service_fn(serve), "default");
        evict(&Api::namespaced(client, "shop"), "web-0", "u-1").await.unwrap();
        let sent = sent.lock().unwrap().clone();
        let eviction: k8s_openapi::api::policy::v1::Eviction = serde_json::from_value(sent).unwrap();
        let preconditions = eviction.delete_options.and_then(|options| options.preconditions).unwrap();
        assert_eq!(preconditions.uid.as_deref(), Some("u-1"));
        assert_eq!(eviction.metadata.name.as_deref(), Some("web-0"));
    }
}
