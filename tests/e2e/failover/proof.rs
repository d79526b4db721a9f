//! What the servers wrote down: the audit log says who asked for what and when it was received, etcd in which order it was
//! written.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use topoloom_tests::scene::Scene;

/// What the way from the process to the API server's clock may take on a machine that is busy: the time of a request is
/// taken by the server when it has read its head.
const WAY: SignedDuration = SignedDuration::from_millis(250);

/// One write of a replica as the API server received it.
struct Received {
    replica: String,
    at: Timestamp,
    verb: String,
    resource: String,
    name: String,
    code: i64,
    version: Option<u64>,
    /// What was sent; nothing where the API server did not read it.
    body: Value,
}

/// No request of a replica was received later than its last confirmed renewal and the renew deadline; nobody wrote over
/// what a later holder wrote; no two replicas wrote in turns; every write says what it builds on; and who gave its lease
/// back wrote nothing after that.
pub(super) async fn nothing_came_late(scene: &Scene, deadline: Duration) -> Result<()> {
    let all = received(scene)?;
    m4_every_write_builds_on_a_version(&all)?;
    r4_the_lease_is_the_last_that_is_written(&all)?;
    let deadline = SignedDuration::try_from(deadline)?;
    let mut renewed: BTreeMap<&str, Timestamp> = BTreeMap::new();
    let mut writes = 0;
    for request in &all {
        if request.resource == "leases" {
            if (200..300).contains(&request.code) {
                renewed.insert(&request.replica, request.at);
            }
            continue;
        }
        writes += 1;
        let confirmed = renewed.get(&*request.replica).with_context(|| {
            format!("{} wrote {} {} and never held the lease", request.replica, request.resource, request.name)
        })?;
        let late = request.at.duration_since(*confirmed);
        ensure!(
            late <= deadline + WAY,
            "{} wrote {} {} {late:#} after its last renewal was received",
            request.replica,
            request.resource,
            request.name
        );
    }
    ensure!(writes > 10, "only {writes} writes were seen: this proves nothing");
    in_turns(scene, &all).await
}

/// What is under way when a holder is late cannot undo what the next one wrote: the API server refuses it by the version
/// that it was decided on. Events build on nothing, and neither does what makes an object.
fn m4_every_write_builds_on_a_version(all: &[Received]) -> Result<()> {
    let mut checked = 0;
    for request in all.iter().filter(|request| request.resource != "events" && !request.body.is_null()) {
        let sound = match request.verb.as_str() {
            "create" => true,
            "delete" => {
                let on = &request.body["preconditions"];
                on["uid"].is_string() && on["resourceVersion"].is_string()
            }
            _ => request.code == 201 || is_version(&request.body) || only_makes(&request.body),
        };
        let Received { replica, verb, resource, name, body, .. } = request;
        ensure!(sound, "{replica} sent {verb} {resource} {name} without the version that it builds on: {body}");
        checked += usize::from(request.resource != "leases" && request.verb != "create" && request.code != 201);
    }
    ensure!(checked > 10, "only {checked} writes of what was there already were seen: this proves nothing");
    Ok(())
}

fn is_version(body: &Value) -> bool {
    body["metadata"]["resourceVersion"].as_str().is_some_and(|version| !version.is_empty())
}

/// An apply that says nothing but a name: it makes the object where there is none, and changes nothing where there is one.
fn only_makes(body: &Value) -> bool {
    let keys =
        |value: &Value| -> Vec<String> { value.as_object().into_iter().flat_map(|it| it.keys().cloned()).collect() };
    keys(body) == ["apiVersion", "kind", "metadata"] && keys(&body["metadata"]) == ["name"]
}

/// Whoever clears the holder of the lease has ended everything else before (requirement R4). An Event that is under
/// way is not waited for: it may be read by the API server a moment later than the lease.
fn r4_the_lease_is_the_last_that_is_written(all: &[Received]) -> Result<()> {
    let mut released: BTreeMap<&str, Timestamp> = BTreeMap::new();
    for request in all {
        let Received { replica, verb, resource, name, .. } = request;
        if let Some(free) = released.get(&**replica) {
            let late = request.at.duration_since(*free);
            let was_under_way = resource == "events" && late <= WAY;
            ensure!(was_under_way, "{replica} sent {verb} {resource} {name} {late:#} after it gave its lease back");
        }
        let is_free = resource == "leases" && request.body["spec"]["holderIdentity"] == "";
        if is_free && (200..300).contains(&request.code) {
            released.insert(replica, request.at);
        }
    }
    ensure!(!released.is_empty(), "nobody gave its lease back: this proves nothing");
    Ok(())
}

/// In etcd's order: when a replica has written a HyperNode, no earlier holder writes it any more.
async fn in_turns(scene: &Scene, all: &[Received]) -> Result<()> {
    let writers: BTreeMap<u64, &Received> = all
        .iter()
        .filter(|request| request.resource == "hypernodes" && (200..300).contains(&request.code))
        .filter_map(|request| Some((request.version?, request)))
        .collect();
    let mut order: Vec<&str> = Vec::new();
    let mut last: BTreeMap<&str, usize> = BTreeMap::new();
    let mut known = 0;
    for write in scene.plane.writes_in_order("/registry/topology.volcano.sh/hypernodes/").await? {
        let Some(request) = writers.get(&write.revision) else { continue };
        known += 1;
        let turn = match order.iter().position(|replica| *replica == request.replica) {
            Some(turn) => turn,
            None => {
                order.push(&request.replica);
                order.len() - 1
            }
        };
        let before = last.entry(&request.name).or_insert(turn);
        ensure!(*before <= turn, "{} wrote {} after {} had written it", request.replica, request.name, order[*before]);
        *before = turn;
    }
    ensure!(known > 5, "only {known} writes of HyperNodes could be told apart: this proves nothing");
    Ok(())
}

/// Every write of a replica, in the order in which they were received.
fn received(scene: &Scene) -> Result<Vec<Received>> {
    let mut all: Vec<Received> = scene
        .plane
        .audit_log()?
        .iter()
        .filter(|event| matches!(event["verb"].as_str(), Some("create" | "update" | "patch" | "delete")))
        .filter_map(read)
        .collect();
    all.sort_by_key(|request| request.at);
    Ok(all)
}

fn read(event: &Value) -> Option<Received> {
    let (_, rest) = event["userAgent"].as_str()?.split_once("(replica-")?;
    let replica = format!("replica-{}", rest.strip_suffix(')')?);
    let subresource = event["objectRef"]["subresource"].as_str().map(|sub| format!("/{sub}")).unwrap_or_default();
    let resource = format!("{}{subresource}", event["objectRef"]["resource"].as_str()?);
    let version = event["responseObject"]["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
    Some(Received {
        replica,
        at: event["requestReceivedTimestamp"].as_str()?.parse().ok()?,
        verb: event["verb"].as_str()?.to_owned(),
        resource,
        name: event["objectRef"]["name"].as_str().unwrap_or_default().to_owned(),
        code: event["responseStatus"]["code"].as_i64().unwrap_or(0),
        version,
        body: event["requestObject"].clone(),
    })
}
