//! A leader is killed, with node-lifecycle and taint-eviction at their defaults in the virtual cluster.

use std::time::Duration;

use anyhow::{Result, ensure};
use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, sleep};
use topoloom_tests::controlplane::{Request, WORKLOADS};
use topoloom_tests::host::Host;

use super::SETTLES;
use crate::program::until_at_rest;
use crate::scale::Scale;
use crate::seen::{Leases, Nodes};
use crate::stage::{BINDING, PATIENCE, Stage};
use crate::table::{Row, Table, Target, seconds, time};

const OLDEST: f64 = 40.0;
/// The grace period of node-lifecycle is 50 s by default: after this time everything that follows has been seen.
const LATE: Duration = Duration::from_secs(90);
/// How long the second replica may take to follow.
const FOLLOWS: Duration = Duration::from_secs(120);
/// A renewal that was under way when the leader was killed is younger than this.
const UNDER_WAY: SignedDuration = SignedDuration::from_secs(1);

pub(super) async fn measure(scale: &Scale, table: &mut Table) -> Result<()> {
    let mut stage = Stage::new(scale.timed, scale).await?;
    stage.virtual_plane.start_controllers(&WORKLOADS)?;
    let leader = stage.lend().await?;
    let player = stage.play().await?;
    stage.let_work_in(stage.machines).await?;
    until_at_rest(&leader, stage.machines, stage.machines).await?;
    let follower = stage.host("second", &[]).await?;
    until_follows(&follower).await?;
    sleep(SETTLES).await;

    stage.leases.look(Leases::begin);
    stage.nodes.look(Nodes::begin);
    let before = stage.virtual_plane.requests().await?;
    let killed = Timestamp::now();
    leader.kill().await?;
    let wanted = stage.machines as usize;
    let after = killed + UNDER_WAY;
    let all = |leases: &mut Leases| (leases.renewed_after(after) == wanted).then_some(());
    stage.leases.until("the follower renews all leases", PATIENCE, all).await?;
    sleep(LATE).await;
    let oldest = stage.leases.look(|leases| leases.oldest(Timestamp::now()));
    let fell = stage.nodes.look(|nodes| nodes.fell);
    let evicted = stage.virtual_plane.requests().await?.since(&before).count(is_eviction);
    let taken = stage.taken_over().await?.duration_since(killed).as_secs_f64();
    follower.stop().await?;
    drop(player);

    let what = format!("leader killed, {} nodes with a pod each", stage.machines);
    table.add(Row::new(format!("{what}: binding taken over after"), seconds(taken.max(0.0))));
    let row = Row::new("  oldest lease", time(oldest));
    table.add(row.target(oldest.as_secs_f64(), Target::AtMost(OLDEST), seconds));
    table.add(Row::new("  nodes that were not ready", fell.to_string()).exactly(fell == 0, "0".to_owned()));
    let row = Row::new("  pods evicted or deleted", evicted.to_string());
    table.add(row.exactly(evicted == 0, "0".to_owned()));
    stage.stop().await
}

fn is_eviction(request: &Request) -> bool {
    let is_gone = matches!(request.verb.as_str(), "DELETE" | "DELETECOLLECTION");
    request.resource == "pods" && (is_gone || request.subresource == "eviction")
}

async fn until_follows(host: &Host) -> Result<()> {
    let end = Instant::now() + FOLLOWS;
    let words = format!("binding {BINDING}: follows");
    loop {
        // One that is not ready says so with an error.
        let ready = host.readyz().await.unwrap_or_else(|error| format!("{error:#}"));
        if ready.contains(&words) {
            return Ok(());
        }
        ensure!(Instant::now() < end, "the second replica does not follow: {ready}");
        sleep(Duration::from_millis(200)).await;
    }
}
