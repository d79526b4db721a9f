//! Three replicas: two that are ended in turns, by SIGKILL and by SIGTERM, and one that never is; first it follows all the
//! time, then it leads all the time.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use serde_json::Value;

use super::probe::{Board, Keys, Sight, Standing};
use crate::controlplane::eventually;
use crate::host::Host;
use crate::scene::PATIENCE;

/// Short, so that a killed leader is replaced soon; long enough for a machine that is busy.
const ARGUMENTS: [&str; 6] = [
    "--leader-elect=true",
    "--leader-elect-lease-duration=9s",
    "--leader-elect-renew-deadline=7s",
    "--leader-elect-retry-period=500ms",
    "--log",
    "info",
];

/// What the replicas do, and by which lines of `/readyz` that is seen.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) kubeconfig: PathBuf,
    /// Beside those that all replicas of a soak have.
    pub(super) arguments: Vec<String>,
    /// A replica that serves has this.
    pub(super) ready: &'static str,
    /// One that leads in everything has all of these.
    pub(super) leads: Vec<String>,
}

impl Service {
    fn is_led(&self, ready: &str) -> bool {
        self.leads.iter().all(|line| ready.contains(line))
    }
}

/// The place of the one that is never ended, after the two others.
const STEADY: usize = 2;

pub(super) struct Replicas {
    service: Service,
    hosts: Vec<Option<Host>>,
    board: Board,
    born: usize,
    ended: usize,
}

impl Replicas {
    /// Starts them; one of the first two leads then.
    pub(super) async fn start(service: Service, board: Board) -> Result<Self> {
        board.change(|places| *places = vec![None, None, None]);
        let mut replicas = Self { service, hosts: vec![None, None, None], board, born: 0, ended: 0 };
        replicas.start_at(0).await?;
        replicas.leader().await;
        for place in [1, STEADY] {
            replicas.start_at(place).await?;
        }
        Ok(replicas)
    }

    async fn start_at(&mut self, place: usize) -> Result<()> {
        let more: Vec<&str> = self.service.arguments.iter().map(String::as_str).collect();
        let arguments = [&ARGUMENTS[..], more.as_slice()].concat();
        let host = Host::launch_as(&format!("soak-{}", self.born), &self.service.kubeconfig, &arguments).await?;
        self.born += 1;
        eventually("the replica is ready", PATIENCE, async || {
            let ready = host.readyz().await.map_err(|error| error.to_string())?;
            if ready.contains(self.service.ready) { Ok(()) } else { Err(ready) }
        })
        .await;
        let standing = if place == STEADY { Standing::Steady } else { Standing::Mortal };
        let sight = Sight::new(host.id().context("the replica runs")?, host.admin(), standing);
        self.board.change(|places| places[place] = Some(sight));
        self.hosts[place] = Some(host);
        Ok(())
    }

    /// The place of the replica that leads.
    async fn leader(&self) -> usize {
        eventually("one of the replicas leads", PATIENCE, async || {
            let mut said = Vec::new();
            for (place, host) in self.hosts.iter().enumerate() {
                let Some(host) = host.as_ref().filter(|_| place != STEADY) else { continue };
                match host.get("/readyz").await {
                    Ok(ready) if self.service.is_led(&ready) => return Ok(place),
                    other => said.push(format!("{other:?}")),
                }
            }
            Err(said.join("\n"))
        })
        .await
    }

    /// Ends the leader, and starts it again once another replica leads.
    pub(super) async fn end_the_leader(&mut self) -> Result<()> {
        let place = self.leader().await;
        self.board.change(|places| places[place] = None);
        let host = self.hosts[place].take().context("it leads")?;
        self.freeze(Standing::Changing, Signal::STOP)?;
        self.end(host).await?;
        let next = self.leader().await;
        self.freeze(Standing::Steady, Signal::CONT)?;
        ensure!(next != place, "the one that was ended leads");
        self.start_at(place).await
    }

    /// Makes the steady replica lead from now on: the two others are stopped for that moment.
    pub(super) async fn crown_the_steady_one(&mut self) -> Result<()> {
        self.stands(Standing::Changing);
        let leader = self.leader().await;
        for place in [1 - leader, leader] {
            self.board.change(|places| places[place] = None);
            self.hosts[place].take().context("it runs")?.stop().await?;
        }
        let steady = self.hosts[STEADY].as_ref().context("the steady replica runs")?;
        eventually("the steady replica leads", PATIENCE, async || {
            let ready = steady.readyz().await.map_err(|error| error.to_string())?;
            if self.service.is_led(&ready) { Ok(()) } else { Err(ready) }
        })
        .await;
        self.stands(Standing::Reigning);
        for place in [0, 1] {
            self.start_at(place).await?;
        }
        Ok(())
    }

    /// Ends one of those that follow the steady one, and starts it again.
    pub(super) async fn end_a_follower(&mut self) -> Result<()> {
        let place = self.ended % STEADY;
        self.board.change(|places| places[place] = None);
        let host = self.hosts[place].take().context("it runs")?;
        self.end(host).await?;
        self.start_at(place).await
    }

    /// Ends both that follow the steady one, and starts them again: none of them lives for so long that a binding would be handed
    /// over to it.
    pub(super) async fn end_the_followers(&mut self) -> Result<()> {
        for _ in 0..STEADY {
            self.end_a_follower().await?;
        }
        Ok(())
    }

    /// By SIGKILL and by SIGTERM in turns; over four ends each of two places sees both.
    async fn end(&mut self, host: Host) -> Result<()> {
        let turn = self.ended;
        self.ended += 1;
        if (turn / 2 + turn).is_multiple_of(2) { host.kill().await } else { host.stop().await }
    }

    fn stands(&self, standing: Standing) {
        self.board.change(|places| {
            if let Some(Some(sight)) = places.get_mut(STEADY) {
                sight.standing = standing;
            }
        });
    }

    /// Stops the steady one, or lets it continue.
    fn freeze(&self, standing: Standing, signal: Signal) -> Result<()> {
        let host = self.hosts[STEADY].as_ref().context("the steady replica runs")?;
        if standing == Standing::Changing {
            self.stands(standing);
            return host.signal(signal);
        }
        host.signal(signal)?;
        self.stands(standing);
        Ok(())
    }

    /// Waits until no queue of a replica has a key, neither for now nor for later, but for policies: these are looked at again when
    /// their windows open or close.
    pub(super) async fn until_idle(&self, patience: Duration) {
        for host in self.hosts.iter().flatten() {
            eventually("no queue has a key", patience, async || {
                let dump = host.get("/debug/dump").await.map_err(|error| error.to_string())?;
                let state: Value = serde_json::from_str(&dump).map_err(|error| error.to_string())?;
                let keys = Keys::of(&state).map_err(|error| format!("{error:#}"))?;
                let boundaries = state["queues"]["policies"]["later"].as_u64().unwrap_or_default();
                let rest = Keys { planned: boundaries, ..Keys::default() };
                if keys == rest { Ok(()) } else { Err(state["queues"].to_string()) }
            })
            .await;
        }
    }

    /// Stops all of them; each has to end well.
    pub(super) async fn stop(mut self) -> Result<()> {
        for host in self.hosts.iter_mut().filter_map(Option::take) {
            host.stop().await?;
        }
        Ok(())
    }
}
