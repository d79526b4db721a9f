//! Two replicas and one lease: whatever happens to the leader, the other replica takes over, no request of the old
//! leader comes late, and the topology is right afterwards.
//!
//! Every story runs while nodes change all the time, fast around the fault ([`churn`]), which happens at a moment that the seed
//! determines ([`moment`]), in the middle of the leader's work ([`work`]). The proof comes from the API server's audit log and
//! from etcd's own order of writes ([`topoloom_tests::failover`]).
//!
//! `TOPOLOOM_FAULTS` says how often each fault is played; `make test` plays it three times, `make soak FAULTS=50` fifty.

mod churn;
mod clock;
mod moment;
mod stories;
mod work;

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use topoloom_tests::chart;
use topoloom_tests::controlplane::eventually;
use topoloom_tests::failover::Met;
use topoloom_tests::failover::log::Log;
use topoloom_tests::failover::proof;
use topoloom_tests::failover::stalls::Watch;
use topoloom_tests::host::Host;
use topoloom_tests::scene::{NAMESPACE, PATIENCE, RACKS, Scene};

use churn::{Churn, Pace};
use clock::{Clock, Library};
use moment::Moment;
use stories::{Fault, Loss};

const DEADLINE: Duration = Duration::from_millis(2500);
/// With the spans and the lines of `debug` the log would be a good part of what a leader does.
const ARGUMENTS: [&str; 6] = [
    "--log",
    "info",
    "--leader-elect=true",
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=2500ms",
    "--leader-elect-retry-period=300ms",
];
const LEASE_NAME: &str = "topoloom-hypernode";

/// Two replicas of a host, on a cluster that logs every request.
struct FailoverScene {
    scene: Scene,
    kubeconfig: PathBuf,
    replicas: [Option<ReplicaHost>; 2],
    born: usize,
    library: Library,
    pace: Pace,
    /// The faults that leaders have met so far.
    met: Vec<Met>,
    watch: Watch,
    /// How many replicas lost their lease without a fault while the machine ran (`lost`), and because it stood still
    /// (`excused`).
    lost: u64,
    excused: u64,
}

struct ReplicaHost {
    name: String,
    host: Host,
    clock: Clock,
}

#[allow(clippy::print_stdout, reason = "who plays fifty times wants to know of it")]
impl FailoverScene {
    async fn set() -> Result<Self> {
        let scene = Scene::audited().await?;
        scene.nodes(&churn::NODES).await?;
        scene.configure(RACKS).await?;
        let kubeconfig = chart::install(&scene, json!({})).await?.kubeconfig;
        let library = Library::build(scene.plane.folder())?;
        let mut stage = Self {
            scene,
            kubeconfig,
            replicas: [None, None],
            born: 0,
            library,
            pace: Pace::default(),
            met: Vec::new(),
            watch: Watch::begin()?,
            lost: 0,
            excused: 0,
        };
        stage.starts().await?;
        Ok(stage)
    }

    /// Starts both replicas, and waits until one of them leads.
    async fn starts(&mut self) -> Result<()> {
        for place in 0..self.replicas.len() {
            self.launch(place).await?;
        }
        for place in 0..self.replicas.len() {
            self.until_ready(place).await;
        }
        self.leader().await?;
        Ok(())
    }

    async fn stop(&mut self) -> Result<()> {
        for replica in self.replicas.iter_mut().filter_map(Option::take) {
            replica.host.stop().await?;
        }
        Ok(())
    }

    /// Starts a replica in an empty place, under a name of its own, and waits until it follows or leads.
    async fn start(&mut self, place: usize) -> Result<()> {
        self.launch(place).await?;
        self.until_ready(place).await;
        Ok(())
    }

    async fn launch(&mut self, place: usize) -> Result<()> {
        let name = format!("replica-{}", self.born);
        self.born += 1;
        let clock = self.library.clock(&name)?;
        let environment = clock.environment();
        let environment: Vec<_> = environment.iter().map(|(name, value)| (&**name, &**value)).collect();
        let host = Host::launch_with(&name, &self.kubeconfig, &ARGUMENTS, &environment).await?;
        self.replicas[place] = Some(ReplicaHost { name, host, clock });
        Ok(())
    }

    async fn until_ready(&self, place: usize) {
        eventually("the replica is ready", PATIENCE, async || {
            let ready = self.host(place).readyz().await.map_err(|error| error.to_string())?;
            if ready.contains("nodes ok") { Ok(()) } else { Err(ready) }
        })
        .await;
    }

    fn replica(&self, place: usize) -> &ReplicaHost {
        self.replicas[place].as_ref().expect("this replica runs")
    }

    fn host(&self, place: usize) -> &Host {
        &self.replica(place).host
    }

    /// Takes a replica out of its place, for a caller that ends it.
    fn take(&mut self, place: usize) -> Host {
        self.replicas[place].take().expect("this replica runs").host
    }

    /// Waits for the moment of the fault, which is when this returns, and records it.
    async fn meets(&mut self, leader: usize, moment: Moment) -> Result<()> {
        self.pace.quickens().await;
        moment.comes(&self.scene.hyper_nodes()).await?;
        self.pace.slows();
        self.still_leads(self.host(leader))?;
        let leader = self.replica(leader).name.clone();
        self.met.push(Met { leader, at: Timestamp::now(), began: Instant::now() });
        Ok(())
    }

    /// For how long the machine stood still in the renew deadline before that loss, if that explains the loss.
    fn excuse(&self, loss: Loss) -> Option<SignedDuration> {
        let deadline = SignedDuration::try_from(DEADLINE).unwrap_or(SignedDuration::MAX);
        let stood_still = self.watch.stalls().between(loss.at - deadline, loss.at);
        (stood_still >= deadline / 3).then_some(stood_still)
    }

    /// Fails if this leader lost its lease, although no fault should have ended it.
    fn still_leads(&self, host: &Host) -> Result<()> {
        match Loss::of(host)? {
            None => Ok(()),
            Some(loss) => match self.excuse(loss) {
                Some(stood_still) => Err(anyhow::Error::msg(Lapsed(stood_still))),
                None => bail!("a leader lost its lease without a fault: {:#?}", host.log()),
            },
        }
    }

    /// Counts one more replica that lost its lease because the machine stood still.
    fn excused(&mut self, stood_still: SignedDuration) -> Result<()> {
        self.excused += 1;
        println!("a replica lost its lease while the machine stood still for {stood_still:#} of a renew deadline");
        ensure!(self.excused <= 2 + times() / 5, "this machine stands still too often for a test of time");
        Ok(())
    }

    /// The place of the replica that reports that it leads. A replica that lost its lease without a fault is started
    /// again. If the machine did not stand still meanwhile, more than [`LOST`] of these are a bug of the host.
    async fn leader(&mut self) -> Result<usize> {
        loop {
            let found = eventually("one of the replicas leads", PATIENCE, async || {
                let mut said = Vec::new();
                for (place, replica) in self.replicas.iter().enumerate() {
                    let Some(ReplicaHost { host, .. }) = replica else { continue };
                    if let Some(loss) = Loss::of(host).map_err(|error| error.to_string())? {
                        return Ok(ReplicaFinding::Lost(place, loss));
                    }
                    match host.get("/readyz").await {
                        Ok(ready) if ready.contains("election hypernode: leads") => {
                            return Ok(ReplicaFinding::Leads(place));
                        }
                        other => said.push(format!("{other:?}")),
                    }
                }
                Err(said.join("\n"))
            });
            match found.await {
                ReplicaFinding::Leads(place) => return Ok(place),
                ReplicaFinding::Lost(place, loss) => {
                    match self.excuse(loss) {
                        Some(stood_still) => self.excused(stood_still)?,
                        None => {
                            self.lost += 1;
                            let name = &self.replica(place).name;
                            println!("{name} lost its lease without a fault ({} of at most {LOST})", self.lost);
                            let log = self.host(place).log();
                            ensure!(self.lost <= LOST, "replicas lose their lease without a fault: {log:#?}");
                        }
                    }
                    stories::ends(self, place).await?;
                    self.start(place).await?;
                }
            }
        }
    }

    /// Waits until a replica other than this one leads.
    async fn follower_leads(&self, old: usize) {
        let other = 1 - old;
        eventually("the other replica leads", PATIENCE, async || {
            let ready = self.host(other).get("/readyz").await.map_err(|error| error.to_string())?;
            if ready.contains("election hypernode: leads") { Ok(()) } else { Err(ready) }
        })
        .await;
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.scene.plane.client(), NAMESPACE)
    }

    async fn steal(&self) -> Result<()> {
        let body = json!({"spec": {"holderIdentity": "thief"}});
        self.leases().patch(LEASE_NAME, &PatchParams::default(), &Patch::Merge(&body)).await?;
        Ok(())
    }

    /// Plays a fault, again if the leader lost its lease before it, and prints how long it took.
    async fn until_played(&mut self, fault: Fault, seed: u64) -> Result<Recovered> {
        let play = format!("{fault:?} {seed} at {}{}", Moment::drawn(seed, fault as u64), fault.told(seed));
        let recovered = loop {
            if let Some(recovered) = self.play(fault, seed).await.with_context(|| play.clone())? {
                break recovered;
            }
        };
        let (all, after) = (recovered.in_all.as_secs_f64(), recovered.after_the_fault.as_secs_f64());
        println!("{play}: the next leader's work was seen after {all:.1} s, {after:.1} s of that after the fault");
        Ok(recovered)
    }

    /// Plays a fault until there is a leader again and the topology is that of the nodes. Starts replicas again that
    /// ended. Returns nothing if the leader lost its lease before the fault: then the caller plays the fault again.
    async fn play(&mut self, fault: Fault, seed: u64) -> Result<Option<Recovered>> {
        let met = self.met.len();
        let acted = match self.act(fault, seed).await {
            Ok(recovered) => Some(recovered),
            Err(error) => {
                let Lapsed(stood_still) = error.downcast::<Lapsed>()?;
                self.excused(stood_still)?;
                self.met.truncate(met);
                None
            }
        };
        for place in 0..self.replicas.len() {
            match &self.replicas[place] {
                // The clock is right again, whatever the fault did to it.
                Some(replica) => replica.clock.shift(0)?,
                None => self.start(place).await?,
            }
            if acted.is_none() {
                stories::lives(self, place).await?;
            }
        }
        Ok(acted)
    }

    /// Nodes change, the fault happens, nodes still change until there is a leader again, and then the topology has to be
    /// that of the nodes.
    async fn act(&mut self, fault: Fault, seed: u64) -> Result<Recovered> {
        let churn = Churn::begin(&self.scene, &self.pace, seed).await?;
        let leader = self.leader().await?;
        fault.is_to_come(self, leader).await?;
        self.meets(leader, Moment::drawn(seed, fault as u64)).await?;
        fault.happens(self, leader, seed).await?;
        let happened = (Instant::now(), Timestamp::now());
        self.leader().await?;
        let after = churn.mark().await?;
        churn.seen(&self.scene, after).await;
        let began = self.met.last().map_or(happened.0, |met| met.began);
        let stood_still = self.watch.stalls().between(happened.1, Timestamp::now());
        let recovered = Recovered {
            in_all: began.elapsed(),
            after_the_fault: happened.0.elapsed(),
            stood_still: stood_still.unsigned_abs(),
        };
        let wanted = churn.end(&self.scene).await?;
        let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
        self.scene.until(&wanted).await;
        Ok(recovered)
    }
}

/// How many replicas may lose their lease without a fault, while the machine runs, in all plays of a fault.
const LOST: u64 = 2;

/// A leader lost its lease before its fault, because the machine stood still for so long.
#[derive(Debug)]
struct Lapsed(SignedDuration);

impl fmt::Display for Lapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the leader lost its lease before it met its fault, while the machine stood still for {:#}", self.0)
    }
}

/// What a check of the replicas found.
enum ReplicaFinding {
    Leads(usize),
    Lost(usize, Loss),
}

/// How long it took until the test saw a leader's work again.
struct Recovered {
    in_all: Duration,
    /// The part after the end of the fault: the lease is free, or the servers run again.
    after_the_fault: Duration,
    /// The part of `after_the_fault` in which the machine stood still.
    stood_still: Duration,
}

/// How often each fault is played.
fn times() -> u64 {
    std::env::var("TOPOLOOM_FAULTS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// A leader may have nothing to write at the moment of its fault. Then the fault is played again, in this many rounds at most.
const ROUNDS: u64 = 3;

#[allow(clippy::print_stdout, reason = "how long it took is what the reader of a soak wants to know")]
/// Plays one fault several times, and then proves from the records of the servers that no request came late.
async fn plays(fault: Fault) -> Result<()> {
    let mut stage = FailoverScene::set().await?;
    let mut times_to_recover = Vec::new();
    let (log, work) = loop {
        let first = times_to_recover.len() as u64;
        for seed in first..first + times() {
            times_to_recover.push(stage.until_played(fault, seed).await?);
        }
        stage.stop().await?;
        let log = Log::read(&stage.scene)?;
        let work = work::of_leaders(&stage.scene, &log, &stage.met, &stage.watch.stalls()).await?;
        println!("{fault:?}: {work}");
        if work.is_enough(times()) || first + times() >= ROUNDS * times() {
            break (log, work);
        }
        println!("{fault:?}: too few leaders had something to write: the fault is played {} times more", times());
        stage.starts().await?;
    };
    let listed = |time: fn(&Recovered) -> Duration| -> String {
        let each: Vec<_> = times_to_recover.iter().map(|it| format!("{:.1}", time(it).as_secs_f64())).collect();
        each.join(", ")
    };
    println!("{fault:?}: seconds until the next leader's work was seen: {}", listed(|it| it.in_all));
    println!("{fault:?}: seconds of that after the fault: {}", listed(|it| it.after_the_fault));
    if let Some(bound) = fault.bound() {
        let ran = times_to_recover.iter().map(|it| it.after_the_fault.saturating_sub(it.stood_still));
        let slowest = ran.max().unwrap_or_default();
        ensure!(slowest < bound, "{fault:?}: the next leader's work was seen after {slowest:?}, not within {bound:?}");
    }
    let stalls = stage.watch.stalls();
    println!("{fault:?}: the machine stood still for {:#} in all", stalls.between(Timestamp::MIN, Timestamp::MAX));
    work.is_in_the_middle(times())?;
    if matches!(fault, Fault::Term) {
        let handovers = proof::Handovers::of(&log, &stage.met, &stalls)?;
        println!("{fault:?}: {handovers}");
        handovers.are_quick()?;
    }
    proof::nothing_came_late(&stage.scene, &log, DEADLINE, &stalls).await
}
