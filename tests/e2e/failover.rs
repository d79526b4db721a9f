//! Two replicas and one lease: whatever happens to the one that leads, the other takes over, no request of the old one
//! comes late, and the topology is right afterwards.
//!
//! Every story runs while nodes change all the time, so that a fault meets the leader in the middle of its work. What is
//! claimed is proved from the API server's audit log and from etcd's own order of writes ([`proof`]).
//!
//! `TOPOLOOM_FAULTS` says how often each fault is played; `make test` plays it three times, `make soak FAULTS=50` fifty.

mod churn;
mod clock;
mod proof;
mod stories;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use topoloom_tests::chart;
use topoloom_tests::controlplane::{ControlPlane, eventually};
use topoloom_tests::host::Host;
use topoloom_tests::scene::{NAMESPACE, PATIENCE, RACKS, Scene};

use churn::Churn;
use clock::Clock;

const DEADLINE: Duration = Duration::from_millis(2500);
const LEASES: [&str; 4] = [
    "--leader-elect=true",
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=2500ms",
    "--leader-elect-retry-period=300ms",
];
const LEASE_NAME: &str = "topoloom-hypernode";

/// Two replicas of a host, on a cluster whose every request is logged.
struct Stage {
    scene: Scene,
    kubeconfig: PathBuf,
    hosts: Vec<Option<Host>>,
    born: usize,
    clock: Clock,
}

impl Stage {
    async fn set() -> Result<Self> {
        let scene = Scene::with(ControlPlane::builder().audit(true)).await?;
        scene.nodes(&churn::NODES).await?;
        scene.configure(RACKS).await?;
        let kubeconfig = chart::install(&scene, json!({})).await?.kubeconfig;
        let clock = Clock::build(scene.plane.folder())?;
        let mut stage = Self { scene, kubeconfig, hosts: vec![None, None], born: 0, clock };
        for place in 0..stage.hosts.len() {
            stage.start(place).await?;
        }
        stage.leader().await;
        Ok(stage)
    }

    /// Starts a replica where there is none, under a name of its own, and waits until it follows or leads.
    async fn start(&mut self, place: usize) -> Result<()> {
        let (instance, environment) = (format!("replica-{}", self.born), self.clock.environment());
        let environment: Vec<_> = environment.iter().map(|(name, value)| (&**name, &**value)).collect();
        let host = Host::launch_with(&instance, &self.kubeconfig, &LEASES, &environment).await?;
        self.born += 1;
        eventually("the replica is ready", PATIENCE, async || {
            let ready = host.readyz().await.map_err(|error| error.to_string())?;
            if ready.contains("nodes ok") { Ok(()) } else { Err(ready) }
        })
        .await;
        self.hosts[place] = Some(host);
        Ok(())
    }

    fn host(&self, place: usize) -> &Host {
        self.hosts[place].as_ref().expect("this replica runs")
    }

    /// The place of the replica that leads, as it says itself.
    async fn leader(&self) -> usize {
        eventually("one of the replicas leads", PATIENCE, async || {
            let mut said = Vec::new();
            for (place, host) in self.hosts.iter().enumerate() {
                let Some(host) = host else { continue };
                match host.get("/readyz").await {
                    Ok(ready) if ready.contains("election hypernode: leads") => return Ok(place),
                    other => said.push(format!("{other:?}")),
                }
            }
            Err(said.join("\n"))
        })
        .await
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

    /// Plays a story: nodes change, the fault happens, nodes still change until there is a leader again, and then the
    /// topology has to be that of the nodes. Replicas that ended are started again.
    async fn play(&mut self, fault: stories::Fault, seed: u64) -> Result<Recovered> {
        let churn = Churn::begin(&self.scene, seed).await?;
        let began = Instant::now();
        fault.happens(self).await.with_context(|| format!("{fault:?}"))?;
        let happened = Instant::now();
        self.leader().await;
        let after = churn.mark().await?;
        churn.seen(&self.scene, after).await;
        let recovered = Recovered { in_all: began.elapsed(), after_the_fault: happened.elapsed() };
        let wanted = churn.end(&self.scene).await?;
        let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
        self.scene.until(&wanted).await;
        for place in 0..self.hosts.len() {
            if self.hosts[place].is_none() {
                self.start(place).await?;
            }
        }
        Ok(recovered)
    }
}

/// How long it took until a leader's work was seen again.
struct Recovered {
    in_all: Duration,
    /// From the end of the fault: the lease is free, or the servers are there again.
    after_the_fault: Duration,
}

/// How often each fault is played.
fn times() -> u64 {
    std::env::var("TOPOLOOM_FAULTS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

#[allow(clippy::print_stdout, reason = "how long it took is what the reader of a soak wants to know")]
/// Plays one fault several times, and then proves from what the servers wrote down that nothing came late.
async fn plays(fault: stories::Fault) -> Result<()> {
    let mut stage = Stage::set().await?;
    let mut times_to_recover = Vec::new();
    for seed in 0..times() {
        times_to_recover.push(stage.play(fault, seed).await?);
    }
    let listed = |time: fn(&Recovered) -> Duration| -> String {
        let each: Vec<_> = times_to_recover.iter().map(|it| format!("{:.1}", time(it).as_secs_f64())).collect();
        each.join(", ")
    };
    println!("{fault:?}: seconds until the next leader's work was seen: {}", listed(|it| it.in_all));
    println!("{fault:?}: seconds of that after the fault: {}", listed(|it| it.after_the_fault));
    if let Some(bound) = fault.bound() {
        let slowest = times_to_recover.iter().map(|it| it.after_the_fault).max().unwrap_or_default();
        ensure!(slowest < bound, "{fault:?}: the next leader's work was seen after {slowest:?}, not within {bound:?}");
    }
    for host in stage.hosts.iter_mut().filter_map(Option::take) {
        host.stop().await?;
    }
    proof::nothing_came_late(&stage.scene, DEADLINE).await
}
