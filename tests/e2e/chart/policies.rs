//! What the tests of the admission policies share: a cluster with the chart, and requests that are sent to get the
//! answer of the API server.

use std::time::Duration;

use anyhow::Result;
use serde_json::Value;
use topoloom_tests::chart::{self, Installed};
use topoloom_tests::controlplane::eventually;
use topoloom_tests::scene::Scene;

const SOON: Duration = Duration::from_secs(30);

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The API server accepts it.
    Accepted,
    /// The resource definition refuses it, before any policy does.
    Malformed,
    /// A policy refuses it, with these words.
    Denied(&'static str),
}

/// A cluster with the chart in it.
pub(super) async fn installed(values: Value) -> Result<(Scene, Installed)> {
    let scene = Scene::new().await?;
    let installed = chart::install(&scene, values).await?;
    Ok((scene, installed))
}

/// Calls kubectl and compares the result. `name` is the row of the table.
pub(super) async fn check(scene: &Scene, name: &str, call: &[&str], fate: Fate) {
    let said = scene.plane.kubectl(call).await.map_err(|error| format!("{error:#}"));
    assert!(is(fate, &said), "{name}: wanted {fate:?}, and kubectl {call:?} gave {said:?}");
}

/// Waits until a call has this result: the API server enforces a policy a moment after it has stored it.
pub(super) async fn enforced(scene: &Scene, call: &[&str], fate: Fate) {
    eventually("the policy is enforced", SOON, async || {
        let said = scene.plane.kubectl(call).await.map_err(|error| format!("{error:#}"));
        if is(fate, &said) { Ok(()) } else { Err(format!("{said:?}")) }
    })
    .await;
}

fn is(fate: Fate, said: &Result<String, String>) -> bool {
    const POLICY: &str = "ValidatingAdmissionPolicy";
    match (fate, said) {
        (Fate::Accepted, Ok(_)) => true,
        (Fate::Malformed, Err(said)) => said.contains("is invalid") && !said.contains(POLICY),
        (Fate::Denied(words), Err(said)) => said.contains(POLICY) && said.contains(words),
        _ => false,
    }
}
