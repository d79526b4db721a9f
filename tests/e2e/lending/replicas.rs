//! Three replicas of the syncer and ten bindings, as real processes with the rights of the table (decision S11): whatever happens to
//! one replica, each of its bindings is served by another one in time, no process ends because of it, and no pod is removed twice.
//!
//! A fault happens while replicas evict the pods of nodes that an operator drains, in the middle of these evictions; the seed
//! determines the replica, the bindings and the moment. node-lifecycle, taint-eviction and the collector of pods run in the virtual
//! cluster all the time. The proof comes from the audit logs of both API servers and from etcd's own order of writes
//! ([`topoloom_tests::failover::tenures`]).
//!
//! `TOPOLOOM_FAULTS` says how many plays there are; `make test` has three, `make soak FAULTS=50` fifty.

mod play;
mod stage;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::SignedDuration;
use topoloom_tests::failover::log::Log;
use topoloom_tests::failover::tenures::{Removed, Tenures, harmed, longest_lease_age, no_request_is_late};

use play::play;
use stage::{DEADLINE, LEASE, NODE_LEASE, Spread, Stage};

/// For so much longer than a lease lasts a binding may be without a holder.
const MORE: Duration = Duration::from_secs(3);
/// The same beside all other tests, where replicas and servers wait for a processor. `make soak` proves the shorter one.
const MORE_BESIDE_OTHERS: Duration = Duration::from_secs(8);
/// The variable with the number of plays, which `make soak` sets, where nothing else runs.
const FAULTS: &str = "TOPOLOOM_FAULTS";

/// What holders write in the virtual cluster, and in the physical one.
const LENT: [&str; 4] =
    ["/registry/minions/vnode-", "/registry/leases/kube-node-lease/vnode-", "/registry/pods/shop/", BINDINGS];
const BINDINGS: &str = "/registry/topoloom.dev/clusterbindings/";
const PHYSICAL: [&str; 3] = ["/registry/minions/", "/registry/leases/borrowed/", "/registry/pods/borrowed/"];

/// For how long a binding may have no holder beyond its lease.
fn more() -> Duration {
    if std::env::var_os(FAULTS).is_some() { MORE } else { MORE_BESIDE_OTHERS }
}

/// How many plays there are.
fn times() -> u64 {
    std::env::var(FAULTS).ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

#[tokio::test(flavor = "multi_thread")]
async fn s11_ten_bindings_are_served_through_kills_and_stops_of_three_replicas_and_no_pod_is_removed_twice()
-> Result<()> {
    let mut stage = Stage::new().await?;
    let mut spread = Spread::default();
    stage.bind(&mut spread).await?;
    for seed in 0..times() {
        play(&mut stage, seed, &mut spread).await.with_context(|| format!("play {seed}"))?;
    }
    stage.until_all_stand().await;
    stage.end_replicas().await?;
    spread.is_by_rank()?;
    judge(&stage).await?;
    stage.stop().await
}

#[allow(clippy::print_stdout, reason = "how much was looked at is what the reader of a soak wants to know")]
/// Proves from the records of the servers what was promised.
async fn judge(stage: &Stage) -> Result<()> {
    let stalls = stage.watch.stalls();
    let (lent, physical) = (Log::of(&stage.virtual_plane)?, Log::of(&stage.physical_plane)?);
    let sent = [lent.received.as_slice(), physical.received.as_slice()];
    let leases = stage.virtual_plane.writes_in_order("/registry/leases/topoloom-system/").await?;
    let tenures = Tenures::of(&leases, &stage.bindings)?;
    let (gaps, most) = (tenures.longest_gaps(&stalls), SignedDuration::try_from(LEASE + more())?);
    ensure!(gaps.keys().copied().eq(stage.bindings.names()), "not every binding had a holder: {gaps:?}");
    for (binding, gap) in &gaps {
        ensure!(*gap <= most, "{binding} had no holder for {gap:#}, not for {most:#} at most");
    }

    let looked_at = no_request_is_late(sent, &stage.bindings, DEADLINE, &stalls)?;
    ensure!(looked_at > 200, "only {looked_at} requests were looked at: this proves nothing");
    let mut attributed = 0;
    for prefix in LENT {
        let stored = stage.virtual_plane.writes_in_order(prefix).await?;
        attributed += tenures.no_late_write_wins(&stored, &lent.received, &stage.bindings)?;
    }
    for prefix in PHYSICAL {
        let stored = stage.physical_plane.writes_in_order(prefix).await?;
        attributed += tenures.no_late_write_wins(&stored, &physical.received, &stage.bindings)?;
    }
    ensure!(attributed > 100, "only {attributed} writes could be attributed: this proves nothing");

    let removed = Removed::once(sent)?;
    ensure!(removed.count() as u64 >= 2 * times(), "only {} pods were removed: this proves nothing", removed.count());
    let pods = stage.virtual_plane.writes_in_order("/registry/pods/shop/").await?;
    let others = removed.not_by_replicas(&pods);
    ensure!(others.is_empty(), "other programs removed pods: {others:?}");

    // Neither by node-lifecycle nor by taint-eviction.
    let nodes = stage.virtual_plane.writes_in_order("/registry/minions/vnode-").await?;
    let harmed = harmed(&nodes);
    ensure!(harmed.is_empty(), "{harmed:#?}");
    let beats = stage.virtual_plane.writes_in_order("/registry/leases/kube-node-lease/vnode-").await?;
    let (age, whose) = longest_lease_age(&beats, &stalls).context("no lease was renewed")?;
    let oldest = SignedDuration::try_from(NODE_LEASE)?;
    ensure!(age <= oldest, "{whose} was not renewed for {age:#}, not for {oldest:#} at most");

    let longest = gaps.values().max().copied().unwrap_or_default();
    println!(
        "{} handovers, {} pods removed, {looked_at} requests of which {attributed} were attributed; the longest time without a \
         holder was {longest:#}, the oldest lease of a node {age:#}",
        tenures.handovers(),
        removed.count()
    );
    Ok(())
}
