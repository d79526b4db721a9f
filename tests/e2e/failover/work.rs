//! What a leader was doing when it met a fault, and whether it was in the middle of its work.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Result, ensure};
use jiff::{SignedDuration, Timestamp};
use topoloom_api::HyperNode;
use topoloom_tests::controlplane::{Write, WriteKind};
use topoloom_tests::failover::Met;
use topoloom_tests::failover::log::Log;
use topoloom_tests::failover::stalls::Stalls;
use topoloom_tests::scene::{Scene, describe};

use super::churn::{RACK, topology_of};

/// A leader that has something to write pauses for less than this, also on a busy machine.
const SHORT: SignedDuration = SignedDuration::from_secs(2);

/// What the leader did at each fault, in the order of the faults.
pub(super) struct Work(Vec<Doing>);

struct Doing {
    /// The time since the answer to the leader's last HyperNode write, without the time in which the machine stood
    /// still. Zero if a write was under way.
    pause: SignedDuration,
    is_writing: bool,
    /// Whether a node had moved and the topology did not show it yet.
    is_behind: bool,
}

/// Reads this from the records of the servers.
pub(super) async fn of_leaders(scene: &Scene, log: &Log, met: &[Met], stalls: &Stalls) -> Result<Work> {
    let mut stored = Stored::all(scene).await?;
    let mut doings = Vec::new();
    for Met { leader, at, .. } in met {
        let writes = log.received.iter().filter(|it| it.replica == *leader && it.is_of_a_hyper_node() && it.at <= *at);
        let last = writes.map(|it| it.answered).max().unwrap_or(Timestamp::MIN);
        let pause = at.duration_since(last).max(SignedDuration::ZERO) - stalls.between(last, *at);
        doings.push(Doing { pause, is_writing: last > *at, is_behind: stored.is_behind(log.revision(*at))? });
    }
    Ok(Work(doings))
}

impl Work {
    /// Whether the leaders had something to write at more than half as many faults as were to be played. A leader need not have
    /// it at each: a node may move to the rack that it is in, and on a busy machine a leader may be as fast as the nodes.
    pub(super) fn is_enough(&self, times: u64) -> bool {
        self.behind() as u64 * 2 > times
    }

    /// Checks three things. Every fault happened between two writes. The leaders had something to write often enough. Of many
    /// faults, some happened while a write was under way.
    pub(super) fn is_in_the_middle(&self, times: u64) -> Result<()> {
        let all = self.0.len();
        let pause = self.0.iter().map(|it| it.pause).max().unwrap_or(SignedDuration::MAX);
        ensure!(pause < SHORT, "a leader had written nothing for {pause:#} when it met its fault");
        let (behind, under_way) = (self.behind(), self.under_way());
        ensure!(self.is_enough(times), "only {behind} of {all} leaders had something to write");
        ensure!(under_way >= all / 10, "only {under_way} of {all} leaders had a write under way");
        Ok(())
    }

    fn behind(&self) -> usize {
        self.0.iter().filter(|it| it.is_behind).count()
    }

    fn under_way(&self) -> usize {
        self.0.iter().filter(|it| it.is_writing).count()
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pauses: Vec<_> = self.0.iter().map(|it| format!("{:.0}", it.pause.as_secs_f64() * 1e3)).collect();
        write!(f, "milliseconds since the old leader's last HyperNode write: {}", pauses.join(", "))?;
        let (all, behind, under_way) = (self.0.len(), self.behind(), self.under_way());
        write!(f, " (of {all}, {under_way} with a write under way, {behind} with something to write)")
    }
}

/// What etcd stored, revision by revision.
struct Stored {
    /// The writes that come next, the last one first.
    writes: Vec<Write>,
    racks: BTreeMap<String, String>,
    hyper_nodes: BTreeMap<String, HyperNode>,
}

impl Stored {
    async fn all(scene: &Scene) -> Result<Self> {
        let mut writes = scene.plane.writes_in_order(NODES).await?;
        writes.extend(scene.plane.writes_in_order(HYPER_NODES).await?);
        writes.sort_by_key(|write| std::cmp::Reverse(write.revision));
        Ok(Self { writes, racks: BTreeMap::new(), hyper_nodes: BTreeMap::new() })
    }

    /// Whether at this revision the topology is not that of the nodes. Each call needs a revision that is not before
    /// that of the last call.
    fn is_behind(&mut self, revision: u64) -> Result<bool> {
        while let Some(write) = self.writes.pop_if(|write| write.revision <= revision) {
            self.then(write)?;
        }
        Ok(describe(&self.hyper_nodes) != topology_of(&self.racks))
    }

    fn then(&mut self, write: Write) -> Result<()> {
        let is_put = write.kind == WriteKind::Put;
        if let Some(node) = write.key.strip_prefix(NODES) {
            let rack = write.value["metadata"]["labels"][RACK].as_str().unwrap_or_default().to_owned();
            if is_put {
                self.racks.insert(node.to_owned(), rack)
            } else {
                self.racks.remove(node)
            };
        } else if let Some(name) = write.key.strip_prefix(HYPER_NODES) {
            match is_put {
                true => self.hyper_nodes.insert(name.to_owned(), serde_json::from_value(write.value)?),
                false => self.hyper_nodes.remove(name),
            };
        }
        Ok(())
    }
}

const NODES: &str = "/registry/minions/";
const HYPER_NODES: &str = "/registry/topology.volcano.sh/hypernodes/";
