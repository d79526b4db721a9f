//! The faults, one by one.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use jiff::{SignedDuration, Timestamp};
use kube::api::DeleteParams;
use rustix::process::Signal;
use topoloom_tests::controlplane::eventually;
use topoloom_tests::host::Host;
use topoloom_tests::scene::PATIENCE;

use super::moment::Moment;
use super::{FailoverScene, LEASE_NAME, plays};

/// What happens to the leader, or to what it depends on.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    /// The leader gets the signal to stop.
    Term,
    /// The leader is killed.
    Kill,
    /// The leader is paused until another replica leads, and then continues.
    Freeze,
    /// The API server is stopped and started again.
    ApiServer,
    /// etcd does not answer for longer than a lease lasts.
    Etcd,
    /// Another client deletes the lease.
    LeaseDeleted,
    /// Another client writes another name into the lease.
    LeaseStolen,
    /// The wall clock of one replica jumps by an hour, and then the leader is killed.
    Clock,
}

/// Which replica's wall clock jumps, and by how much. Four seeds in a row give all cases.
struct Jump {
    is_the_leaders: bool,
    seconds: i64,
}

impl Jump {
    fn drawn(seed: u64) -> Self {
        let seconds = if seed & 2 == 0 { HOUR } else { -HOUR };
        Self { is_the_leaders: seed & 1 == 0, seconds }
    }
}

impl Fault {
    /// How soon after the fault the test has to see the next leader's work: if the lease is free, no replica waits
    /// until it expires, not even on a slow machine.
    pub(super) fn bound(self) -> Option<Duration> {
        matches!(self, Self::Term).then_some(Duration::from_secs(3))
    }

    /// What the seed determines besides the moment, in words.
    pub(super) fn told(self, seed: u64) -> String {
        if !matches!(self, Self::Clock) {
            return String::new();
        }
        let Jump { is_the_leaders, seconds } = Jump::drawn(seed);
        let (whose, there) =
            (if is_the_leaders { "leader" } else { "follower" }, if seconds > 0 { "on" } else { "back" });
        format!(", the clock of the {whose} an hour {there}")
    }

    /// Prepares what the fault needs besides the leader.
    pub(super) async fn is_to_come(self, stage: &mut FailoverScene, leader: usize) -> Result<()> {
        if matches!(self, Self::Etcd) {
            // After an earlier fault of etcd the API server may have been too slow for a renewal of the other replica.
            lives(stage, 1 - leader).await?;
        }
        Ok(())
    }

    /// Causes the fault for the leader at this place, and waits until it has taken effect.
    pub(super) async fn happens(self, stage: &mut FailoverScene, old: usize, seed: u64) -> Result<()> {
        match self {
            Self::Term => {
                let mut host = stage.take(old);
                host.signal(Signal::TERM)?;
                let status = host.ended().await?;
                if !status.success() {
                    stage.still_leads(&host)?;
                    bail!("the host stopped with {status}: {:#?}", host.log());
                }
            }
            Self::Kill => {
                stage.take(old).kill().await?;
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
                // A replica that could not renew its lease in time has ended.
                for place in 0..stage.replicas.len() {
                    lives(stage, place).await?;
                }
            }
            Self::Etcd => {
                stage.scene.plane.signal_etcd(Signal::STOP)?;
                let ended = ends(stage, old).await;
                // etcd stands still for longer than the lease lasts, so the follower tries to take over.
                let other = 1 - old;
                let tried = "topoloom_lease_writes_total{group=\"hypernode\",result=\"unknown\"}";
                eventually("the follower has tried to take the lease", PATIENCE, async || {
                    let metrics = stage.host(other).get("/metrics").await.map_err(|error| error.to_string())?;
                    if metrics.contains(tried) { Ok(()) } else { Err("it has not".to_owned()) }
                })
                .await;
                stage.scene.plane.signal_etcd(Signal::CONT)?;
                ended?;
            }
            Self::LeaseDeleted => {
                stage.leases().delete(LEASE_NAME, &DeleteParams::default()).await?;
                ends(stage, old).await?;
            }
            Self::Clock => {
                let Jump { is_the_leaders, seconds } = Jump::drawn(seed);
                let jumps = if is_the_leaders { old } else { 1 - old };
                renews_with(stage, old, 0).await;
                stage.replica(jumps).clock.shift(seconds)?;
                let before = renewals(stage).await?;
                renews_with(stage, old, if is_the_leaders { seconds } else { 0 }).await;
                // The test waits for more renewals than a holder makes while a lease lasts.
                let patience = Duration::from_secs(30);
                eventually("the lease is renewed over the jump", patience, async || {
                    let now = renewals(stage).await.map_err(|error| error.to_string())?;
                    if now.since(&before) >= RENEWALS { Ok(()) } else { Err(format!("{now:?}")) }
                })
                .await;
                let ready = stage.host(old).get("/readyz").await;
                stage.still_leads(stage.host(old))?;
                let leads = ready?.contains("election hypernode: leads");
                ensure!(leads, "a jump of the wall clock changes nothing: {:#?}", stage.host(old).log());
                // The clocks of the two replicas differ by an hour, and the lease still lasts equally long.
                stage.meets(old, Moment::drawn(seed, THE_END)).await?;
                stage.take(old).kill().await?;
                stage.follower_leads(old).await;
                renews_with(stage, 1 - old, if is_the_leaders { 0 } else { seconds }).await;
            }
            Self::LeaseStolen => {
                stage.steal().await?;
                ends(stage, old).await?;
            }
        }
        Ok(())
    }
}

const HOUR: i64 = 3600;
/// How old a renewal may be when the test reads it: far less than an hour.
const NEARLY: SignedDuration = SignedDuration::from_mins(1);
/// Selects the moment of a second fault from the moments of a seed.
const THE_END: u64 = 100;
/// More renewals than a holder makes while a lease lasts.
const RENEWALS: u64 = 16;

/// How often the lease was written.
#[derive(Debug)]
struct Renewals(u64);

impl Renewals {
    fn since(&self, earlier: &Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

async fn renewals(stage: &FailoverScene) -> Result<Renewals> {
    Ok(Renewals(stage.scene.plane.requests().await?.writes("leases", "")))
}

/// Waits until this replica renews the lease, with a clock that is wrong by so many seconds.
async fn renews_with(stage: &FailoverScene, place: usize, seconds: i64) {
    let holder = format!("{}_", stage.replica(place).name);
    let wanted = SignedDuration::from_secs(seconds);
    eventually(&format!("{holder} renews with a clock that is {seconds} s off"), PATIENCE, async || {
        let told = async || -> Result<_> {
            let spec = stage.leases().get(LEASE_NAME).await?.spec.context("it says nothing")?;
            let renewed = spec.renew_time.context("it was never renewed")?.0;
            Ok((spec.holder_identity.unwrap_or_default(), renewed.duration_since(Timestamp::now())))
        };
        let (by, off) = told().await.map_err(|error| error.to_string())?;
        let is_so = by.starts_with(&holder) && (off - wanted).abs() < NEARLY;
        if is_so { Ok(()) } else { Err(format!("{by} renewed it with {off:#}")) }
    })
    .await;
}

/// Waits until the replica ends by itself, with the exit code of a failure and the reason in its log.
pub(super) async fn ends(stage: &mut FailoverScene, place: usize) -> Result<()> {
    let mut host = stage.take(place);
    let status = host.ended().await?;
    ensure!(status.code() == Some(1), "it ended with {status}");
    eventually(
        "its log says why",
        PATIENCE,
        async || {
            if has_lost(&host) { Ok(()) } else { Err(host.log().join("\n")) }
        },
    )
    .await;
    Ok(())
}

/// Whether the log of the replica has the loss of its lease.
fn has_lost(host: &Host) -> bool {
    host.log().iter().any(|line| line.contains("the lease is lost"))
}

/// A lease that its holder could not renew in time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loss {
    /// The time of the loss, by the wall clock of the machine.
    pub(super) at: Timestamp,
}

impl Loss {
    /// The loss in the log of a replica, if there is one.
    pub(super) fn of(host: &Host) -> Result<Option<Self>> {
        let log = host.log();
        let Some(line) = log.iter().find(|line| line.contains("\"the lease is lost\"")) else { return Ok(None) };
        let said: serde_json::Value = serde_json::from_str(line).context("a line of the log is JSON")?;
        let why = said["why"].as_str().unwrap_or_default();
        ensure!(why.contains("renew deadline"), "a replica lost its lease to another: {line}");
        let at: Timestamp = said["timestamp"].as_str().context("a line of the log has a time")?.parse()?;
        // The clock of the replica may be wrong by an hour.
        let off = [0, HOUR, -HOUR].map(SignedDuration::from_secs);
        let now = Timestamp::now();
        let at = off.into_iter().map(|off| at + off).min_by_key(|at| at.duration_since(now).abs());
        Ok(at.map(|at| Self { at }))
    }
}

/// Starts a replica again if it has lost its lease and ended.
pub(super) async fn lives(stage: &mut FailoverScene, place: usize) -> Result<()> {
    if has_lost(stage.host(place)) {
        ends(stage, place).await?;
        stage.start(place).await?;
    }
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
