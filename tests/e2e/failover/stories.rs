//! The faults, one by one.

use std::time::Duration;

use anyhow::{Result, ensure};
use kube::api::DeleteParams;
use rustix::process::{Pid, Signal, kill_process};
use topoloom_tests::controlplane::eventually;
use topoloom_tests::scene::PATIENCE;

use super::{LEASE_NAME, Stage, plays};

/// What happens to the leader, or to what it depends on.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    /// It is asked to stop.
    Term,
    /// It is killed.
    Kill,
    /// It is stopped until another one leads, and goes on then.
    Freeze,
    /// The API server is stopped and started again.
    ApiServer,
    /// etcd does not answer for longer than a lease lasts.
    Etcd,
    /// Somebody deletes the lease.
    LeaseDeleted,
    /// Somebody writes another name into the lease.
    LeaseStolen,
    /// The wall clock of both replicas jumps by an hour, and back.
    Clock,
}

impl Fault {
    /// How soon after it the next leader's work has to be seen: where the lease is free nobody waits for its time, not even
    /// on a machine that is slow.
    pub(super) fn bound(self) -> Option<Duration> {
        matches!(self, Self::Term).then_some(Duration::from_secs(3))
    }

    /// Lets it happen, and waits until the leader has met it.
    pub(super) async fn happens(self, stage: &mut Stage) -> Result<()> {
        let old = stage.leader().await;
        match self {
            Self::Term => {
                let host = stage.hosts[old].take().expect("it leads");
                host.stop().await?;
            }
            Self::Kill => {
                let host = stage.hosts[old].take().expect("it leads");
                host.kill().await?;
                stage.follower_leads(old).await;
            }
            Self::Freeze => {
                stage.host(old).signal(Signal::STOP)?;
                stage.follower_leads(old).await;
                stage.host(old).signal(Signal::CONT)?;
                ends(stage, old).await?;
            }
            Self::ApiServer => {
                stage.scene.plane.stop_apiserver().await?;
                stage.scene.plane.start_apiserver().await?;
                // Whoever could not renew in time has ended.
                for place in 0..stage.hosts.len() {
                    if stage.host(place).get("/healthz").await.is_err() {
                        ends(stage, place).await?;
                        stage.start(place).await?;
                    }
                }
            }
            Self::Etcd => {
                let etcd = *stage.scene.plane.process_ids().last().expect("etcd runs");
                let etcd = Pid::from_raw(i32::try_from(etcd)?).expect("a process id is above 0");
                kill_process(etcd, Signal::STOP)?;
                let ended = ends(stage, old).await;
                // It stands still for longer than the lease lasts: the other one has tried to take it.
                let other = 1 - old;
                let tried = "topoloom_lease_writes_total{group=\"hypernode\",result=\"unknown\"}";
                eventually("the follower has tried to take the lease", PATIENCE, async || {
                    let metrics = stage.host(other).get("/metrics").await.map_err(|error| error.to_string())?;
                    if metrics.contains(tried) { Ok(()) } else { Err("it has not".to_owned()) }
                })
                .await;
                kill_process(etcd, Signal::CONT)?;
                ended?;
            }
            Self::LeaseDeleted => {
                stage.leases().delete(LEASE_NAME, &DeleteParams::default()).await?;
                ends(stage, old).await?;
            }
            Self::Clock => {
                let before = renewals(stage).await?;
                stage.clock.jump()?;
                // Longer than a lease lasts, by the renewals of whoever holds it.
                let patience = Duration::from_secs(30);
                eventually("the lease is renewed over the jump", patience, async || {
                    let now = renewals(stage).await.map_err(|error| error.to_string())?;
                    if now.since(&before) >= RENEWALS { Ok(()) } else { Err(format!("{now:?}")) }
                })
                .await;
                stage.clock.back()?;
                ensure!(stage.leader().await == old, "a jump of the wall clock changes nothing");
            }
            Self::LeaseStolen => {
                stage.steal().await?;
                ends(stage, old).await?;
            }
        }
        Ok(())
    }
}

/// More renewals than there are in the time of a lease.
const RENEWALS: u64 = 20;

/// How often the lease was written.
#[derive(Debug)]
struct Renewals(u64);

impl Renewals {
    fn since(&self, earlier: &Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

async fn renewals(stage: &Stage) -> Result<Renewals> {
    Ok(Renewals(stage.scene.plane.requests().await?.writes("leases", "")))
}

/// The replica ends by itself, with an exit code that says that something was wrong.
async fn ends(stage: &mut Stage, place: usize) -> Result<()> {
    let mut host = stage.hosts[place].take().expect("it runs");
    let status = host.ended().await?;
    ensure!(status.code() == Some(1), "it ended with {status}");
    eventually("its log says why", PATIENCE, async || {
        let log = host.log();
        if log.iter().any(|line| line.contains("the lease is lost")) { Ok(()) } else { Err(log.join("\n")) }
    })
    .await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_asked_to_stop_hands_over_at_once() -> Result<()> {
    plays(Fault::Term).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_killed_is_followed_after_its_lease() -> Result<()> {
    plays(Fault::Kill).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_wakes_up_late_writes_nothing_more() -> Result<()> {
    plays(Fault::Freeze).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_is_restarted_leaves_one_leader() -> Result<()> {
    plays(Fault::ApiServer).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_that_stands_still_leaves_one_leader() -> Result<()> {
    plays(Fault::Etcd).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_deleted_ends_its_holder() -> Result<()> {
    plays(Fault::LeaseDeleted).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_stolen_ends_its_holder() -> Result<()> {
    plays(Fault::LeaseStolen).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jump_of_the_wall_clock_changes_nothing() -> Result<()> {
    plays(Fault::Clock).await
}
