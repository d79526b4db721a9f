//! Clocks that are wrong: that of a new leader is an hour ahead, and that of the one after it is right, and so an hour behind
//! (decisions S17, S18 and S24).

use std::fs::read_to_string;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use topoloom_sync::keys;
use topoloom_sync::node::Now;
use topoloom_syncer::heartbeats;
use topoloom_tests::controlplane::{KEEPERS, SCALED, Wanted, WriteKind, eventually};
use topoloom_tests::scene::{PATIENCE, Scene};

use super::super::group::ready;
use super::super::lent::{Lent, now};
use super::{bound, effects, pass, pods, states};

/// A node whose lease is not renewed is Unknown by then, twice over.
const TWO_GRACES: Duration = Duration::from_secs(17);
const NODE: &str = "vnode-east-w1";

/// What a clock that is an hour ahead shows.
fn later() -> Timestamp {
    let now = Timestamp::now();
    now.checked_add(SignedDuration::from_hours(1)).unwrap_or(now)
}

fn ahead() -> Now {
    Now { wall: later(), ..now() }
}

/// A policy whose windows are closed by each of these clocks, with a grace that none of them sees the end of.
fn closed() -> Result<Value> {
    let later = Timestamp::now().checked_add(SignedDuration::from_hours(5)).context("there is such a time")?;
    let minute = later.strftime("%H:%M").to_string();
    Ok(json!({
        "cluster": "east", "timeWindows": [{"start": minute, "end": minute}], "forceReclaim": true,
        "gracefulReclaimPeriodSeconds": 1800,
    }))
}

/// The Events about clocks.
async fn told(lent: &Lent) -> Result<usize, String> {
    let events: Api<Event> = Api::all(lent.virtual_plane.client());
    let all = events.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
    Ok(all.iter().filter(|event| event.reason.as_deref() == Some("ClockDiffers")).count())
}

#[tokio::test(flavor = "multi_thread")]
async fn s17_s24_leases_count_and_a_grace_goes_on_whatever_the_clock_of_a_new_leader_shows() -> Result<()> {
    let planes = Scene::planes([Wanted::Shared, Wanted::Shared]).await?;
    let mut lent = Lent::between(planes, &["w1"], now).await?;
    lent.virtual_plane.start_controllers_with(&KEEPERS, &SCALED)?;
    lent.policy("nights", closed()?).await?;
    lent.secret("east", &read_to_string(lent.physical_plane.kubeconfig())?).await?;
    lent.binding("east", json!({})).await?;
    let mut stop = CancellationToken::new();
    lent.serve_until("east", stop.clone()).await?;
    let is_closed = |node: &Value| ready(node) == "True" && effects(node, keys::OUT_OF_WINDOWS_TAINT) == ["NoSchedule"];
    lent.until(NODE, "is ready, and outside its windows", is_closed).await;
    bound(&lent.virtual_plane, "web", NODE, json!({})).await?;
    let revision = lent.virtual_plane.revision().await?;

    // By its clock the grace would be over long ago, and a lease of the next one is older than what this one writes.
    for wrong in [true, false] {
        stop.cancel();
        stop = CancellationToken::new();
        if wrong {
            let clock = heartbeats::Clock::new(topoloom_cluster::gate::boot_time, later);
            let replica = lent.replica("replica-1", ahead, clock).await?;
            lent.serve_by(replica, "east", stop.clone()).await?;
            lent.until_binding("east", "has the one that is ahead", |it| it["status"]["holder"] == "replica-1").await;
        } else {
            lent.serve_until("east", stop.clone()).await?;
            lent.until_binding("east", "has the one that is right", |it| it["status"]["holder"] == "replica-0").await;
            pass(Instant::now(), TWO_GRACES).await;
        }
        eventually("an Event says that clocks differ", PATIENCE, async || match told(&lent).await? {
            0 => Err("none".to_owned()),
            _ => Ok(()),
        })
        .await;
    }

    let plane = &lent.virtual_plane;
    let states = states(plane, &format!("/registry/minions/{NODE}"), revision).await?;
    // With all states, since the writer of the wrong one may have followed an earlier one.
    let told = |state: &Value| json!([state["spec"]["taints"], state["metadata"]["annotations"]]).to_string();
    let history: Vec<String> = states.iter().map(told).collect();
    assert!(states.iter().all(is_closed), "{}", history.join("\n"));
    assert!(pods(plane).get("web").await?.metadata.deletion_timestamp.is_none());
    // Each renewal is later than the one before: node-lifecycle counts no others.
    let writes = plane.writes_since(&format!("/registry/leases/kube-node-lease/{NODE}"), revision + 1).await?;
    let puts = writes.iter().filter(|write| write.kind == WriteKind::Put);
    let times = puts.filter_map(|write| write.value["spec"]["renewTime"].as_str()?.parse::<Timestamp>().ok());
    let times: Vec<Timestamp> = times.collect();
    assert!(times.len() > 10 && times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
    stop.cancel();
    lent.stop().await
}
