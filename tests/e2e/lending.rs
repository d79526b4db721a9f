//! Lending on real API servers: the world of the bottom-up syncer by itself (the kubelets and the top-down half that its tests rely
//! on), one binding in this process, streams to lent pods, host ports, what a borrower sees of all that, the command line, rights,
//! and the program as an operator runs it.

mod accounts;
mod bindings;
mod csi;
mod group;
mod installations;
mod kubelets;
mod leases_alone;
mod lent;
mod logs;
mod machines;
mod pair;
mod plan;
mod player;
mod pods;
mod policies;
mod ports;
mod program;
mod replicas;
mod rights;
mod several;
mod verbs;
mod whole;
mod wrong;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use topoloom_tests::controlplane::eventually;
use topoloom_tests::scene::PATIENCE;

/// Waits until a pod is as it is wanted, and returns it.
async fn until_pod(pods: &Api<Pod>, name: &str, what: &str, is_so: impl Fn(&Pod) -> bool) -> Pod {
    eventually(&format!("pod {name} {what}"), PATIENCE, async || {
        let pod = pods.get(name).await.map_err(|error| error.to_string())?;
        if is_so(&pod) { Ok(pod) } else { Err(format!("{:?} {:?}", pod.metadata, pod.status)) }
    })
    .await
}

/// Waits until there is no pod of this name.
async fn until_gone(pods: &Api<Pod>, name: &str) {
    eventually(&format!("pod {name} is gone"), PATIENCE, async || match pods.get_opt(name).await {
        Ok(None) => Ok(()),
        Ok(Some(pod)) => Err(format!("{:?} {:?}", pod.metadata, pod.status)),
        Err(error) => Err(error.to_string()),
    })
    .await;
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn reason(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.reason.as_deref()).unwrap_or_default()
}

/// The status of a condition.
fn condition<'a>(pod: &'a Pod, kind: &str) -> &'a str {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .filter(|condition| condition.type_ == kind)
        .map(|condition| condition.status.as_str())
        .next()
        .unwrap_or("")
}
