//! Measures the replicas from outside (`/proc`), through their admin server, and at the API servers.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::time::Instant;

use crate::controlplane::plain_http;

use super::record::{Measure, Who};

/// Longer than a busy replica needs for an answer, and not too long to wait for a frozen one.
const PATIENCE: Duration = Duration::from_secs(5);
/// Failures in a row after which the soak fails, if the replica should answer.
const FAILURES: u32 = 5;
/// Requests that are open at the API server; the names of its labels do not hold a quote.
const OPEN: &str = "apiserver_longrunning_requests{";

/// A replica that can be measured.
#[derive(Debug, Clone)]
pub(super) struct Sight {
    pub(super) id: u32,
    pub(super) admin: String,
    pub(super) born: Instant,
    pub(super) standing: Standing,
    failures: u32,
}

/// The part of a replica in the soak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is ended at times.
    Mortal,
    /// It is never ended, and follows.
    Steady,
    /// It is never ended, and leads.
    Reigning,
    /// The one that is never ended, while it does not run or its role changes.
    Changing,
}

impl Sight {
    pub(super) fn new(id: u32, admin: &str, standing: Standing) -> Self {
        Self { id, admin: admin.to_owned(), born: Instant::now(), standing, failures: 0 }
    }
}

/// Which replicas there are, by their places.
#[derive(Debug, Clone, Default)]
pub(super) struct Board(Arc<Mutex<Vec<Option<Sight>>>>);

impl Board {
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Vec<Option<Sight>>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the same process is still there, in the same part.
    fn is_still(&self, place: usize, sight: &Sight) -> bool {
        let now = self.change(|places| places.get(place).cloned().flatten());
        now.is_some_and(|now| now.id == sight.id && now.standing == sight.standing)
    }
}

/// What replicas are elected for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// The topology, by one lease.
    Topology,
    /// So many bindings, by a lease for each.
    Bindings(usize),
}

impl Work {
    /// Whether a replica with this dump leads in all of it, or in nothing.
    fn leads(self, state: &Value) -> Result<bool> {
        match self {
            Self::Topology => {
                let role = state["process"]["elections"]["hypernode"]["role"].as_str();
                Ok(role.context("the dump has the role")? == "Leader")
            }
            Self::Bindings(all) => {
                let bindings = state["bindings"]["bindings"].as_object().context("the dump has the bindings")?;
                let led = bindings.values().filter(|binding| binding["role"] == "Leader").count();
                ensure!(led == 0 || led == all, "it leads for {led} bindings of {all}");
                Ok(led == all)
            }
        }
    }
}

/// Keys in all queues of a replica.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Keys {
    /// Those that wait for a worker, or are in work.
    pub(super) queued: u64,
    /// Those that are looked at later.
    pub(super) planned: u64,
}

impl Keys {
    /// The keys that a dump shows.
    pub(super) fn of(state: &Value) -> Result<Self> {
        let queues = state["queues"].as_object().context("the dump has the queues")?;
        let sum = |size: &str| {
            let sizes = queues.iter().map(|(name, queue)| {
                queue[size].as_u64().with_context(|| format!("the dump has no number {size:?} of queue {name}"))
            });
            sizes.sum::<Result<u64>>()
        };
        Ok(Self { queued: sum("waiting")? + sum("working")?, planned: sum("later")? })
    }
}

/// Measures all replicas.
pub(super) struct Probe {
    board: Board,
    work: Work,
    planes: Vec<kube::Client>,
    http: reqwest::Client,
    /// Watches of the API servers themselves and of other clients.
    others: u64,
}

impl Probe {
    /// Must be made before the first replica, and after all other clients of these API servers: watches that are open now do not
    /// belong to replicas.
    pub(super) async fn new(planes: Vec<kube::Client>, work: Work) -> Result<Self> {
        let http = plain_http().timeout(PATIENCE).build()?;
        let mut probe = Self { board: Board::default(), work, planes, http, others: 0 };
        probe.others = probe.watches().await?;
        Ok(probe)
    }

    pub(super) fn board(&self) -> Board {
        self.board.clone()
    }

    /// One value of everything that can be measured now.
    ///
    /// # Errors
    /// When a replica does not answer any more though the soak did not end it.
    pub(super) async fn sample(&self, grown_up: Duration) -> Result<Vec<(Who, Measure, u64)>> {
        let sights = self.board.change(|places| places.clone());
        let mut found = Vec::new();
        let mut all_run = !sights.is_empty();
        for (place, sight) in sights.iter().enumerate() {
            let Some(sight) = sight.as_ref().filter(|sight| sight.standing != Standing::Changing) else {
                all_run = false;
                continue;
            };
            let values = self.look(sight).await;
            if !self.board.is_still(place, sight) {
                all_run = false;
                continue;
            }
            self.board.change(|places| {
                if let Some(Some(now)) = places.get_mut(place) {
                    now.failures = if values.is_ok() { 0 } else { now.failures + 1 };
                }
            });
            let is_grown_up = sight.born.elapsed() >= grown_up;
            all_run &= values.is_ok() && is_grown_up;
            match values {
                Ok((leads, values)) => {
                    let who = match (sight.standing, leads) {
                        (Standing::Mortal, true) => Who::Leading,
                        (Standing::Mortal, false) => Who::Following,
                        (Standing::Reigning, leads) => {
                            ensure!(leads, "the replica that leads all the time follows");
                            Who::Reigning
                        }
                        (_, leads) => {
                            ensure!(!leads, "the replica that follows all the time leads");
                            Who::Steady
                        }
                    };
                    if is_grown_up {
                        found.extend(values.map(|(measure, value)| (who, measure, value)));
                    }
                }
                Err(error) => {
                    ensure!(sight.failures < FAILURES, "replica {place} cannot be measured any more: {error:#}");
                }
            }
        }
        if all_run {
            found.push((Who::Together, Measure::Watches, self.watches().await?.saturating_sub(self.others)));
        }
        Ok(found)
    }

    /// Whether a replica leads, and the resources that it uses.
    async fn look(&self, sight: &Sight) -> Result<(bool, [(Measure, u64); 7])> {
        let state: Value = serde_json::from_str(&self.get(sight, "/debug/dump").await?)?;
        let series = self.get(sight, "/metrics").await?.lines().filter(|line| !line.starts_with('#')).count();
        let process = &state["process"];
        let leads = self.work.leads(&state)?;
        let tasks = process["aliveTasks"].as_u64().context("the dump has the number of tasks")?;
        let Keys { queued, planned } = Keys::of(&state)?;
        let folder = Path::new("/proc").join(sight.id.to_string());
        let status = std::fs::read_to_string(folder.join("status")).context("the process has a status")?;
        let descriptors = std::fs::read_dir(folder.join("fd"))?.count();
        let values = [
            (Measure::Memory, field(&status, "VmRSS:")?),
            (Measure::Threads, field(&status, "Threads:")?),
            (Measure::Descriptors, u64::try_from(descriptors)?),
            (Measure::Tasks, tasks),
            (Measure::Queued, queued),
            (Measure::Planned, planned),
            (Measure::Series, u64::try_from(series)?),
        ];
        Ok((leads, values))
    }

    async fn get(&self, sight: &Sight, path: &str) -> Result<String> {
        let answer = self.http.get(format!("http://{}{path}", sight.admin)).send().await?;
        Ok(answer.error_for_status()?.text().await?)
    }

    /// Every watch that is open at the API servers.
    async fn watches(&self) -> Result<u64> {
        let mut all = 0;
        for plane in &self.planes {
            let request = http::Request::get("/metrics").body(Vec::new())?;
            all += open_watches(&plane.request_text(request).await?);
        }
        Ok(all)
    }
}

/// The number behind a name in `/proc/PID/status`.
fn field(status: &str, name: &str) -> Result<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name));
    let word = rest.and_then(|rest| rest.split_whitespace().next());
    word.and_then(|word| word.parse().ok()).with_context(|| format!("the status of the process has no {name}"))
}

fn open_watches(metrics: &str) -> u64 {
    let open = metrics.lines().filter_map(|line| line.strip_prefix(OPEN)?.rsplit_once("} "));
    open.filter(|(labels, _)| labels.contains("verb=\"WATCH\""))
        .filter_map(|(_, value)| value.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_replica_leads_in_everything_or_in_nothing_or_is_not_measured() {
        let topology = |role: &str| json!({"process": {"elections": {"hypernode": {"role": role}}}});
        assert!(Work::Topology.leads(&topology("Leader")).unwrap());
        assert!(!Work::Topology.leads(&topology("Follower(\"a\")")).unwrap());
        let bindings =
            |roles: [&str; 2]| json!({"bindings": {"bindings": {"c0": {"role": roles[0]}, "c1": {"role": roles[1]}}}});
        let work = Work::Bindings(2);
        assert!(work.leads(&bindings(["Leader", "Leader"])).unwrap());
        assert!(!work.leads(&bindings(["Follower(\"a\")", "Unknown"])).unwrap());
        let why = work.leads(&bindings(["Leader", "Unknown"])).unwrap_err().to_string();
        assert!(why.contains("1 bindings of 2"), "{why}");
    }

    #[test]
    fn keys_of_all_queues_are_summed_and_a_number_that_is_missing_is_no_zero() {
        let queue = |waiting: u64, later: u64, working: u64| json!({"waiting": waiting, "later": later, "working": working, "adds": 1000});
        let state = json!({"queues": {"nodes": queue(1, 20, 300), "pods": queue(4, 50, 600)}});
        assert_eq!(Keys::of(&state).unwrap(), Keys { queued: 905, planned: 70 });
        assert_eq!(Keys::of(&json!({"queues": {}})).unwrap(), Keys::default());
        let why = Keys::of(&json!({"queues": {"nodes": {"waiting": 1, "working": 0}}})).unwrap_err().to_string();
        assert!(why.contains("\"later\" of queue nodes"), "{why}");
        assert!(Keys::of(&json!({})).is_err());
    }

    #[test]
    fn numbers_are_found_in_the_status_of_a_process() {
        let status = "Name:\ttopoloom\nVmRSS:\t  123456 kB\nThreads:\t7\n";
        assert_eq!(field(status, "VmRSS:").unwrap(), 123_456);
        assert_eq!(field(status, "Threads:").unwrap(), 7);
        assert!(field(status, "VmSwap:").unwrap_err().to_string().contains("VmSwap:"));
    }

    #[test]
    fn only_open_watches_are_counted() {
        let metrics = r#"# TYPE apiserver_longrunning_requests gauge
apiserver_longrunning_requests{component="apiserver",group="",resource="nodes",scope="cluster",subresource="",verb="WATCH",version="v1"} 3
apiserver_longrunning_requests{component="apiserver",group="x.io",resource="things",scope="cluster",subresource="",verb="WATCH",version="v1"} 2
apiserver_longrunning_requests{component="apiserver",group="",resource="pods",scope="resource",subresource="log",verb="CONNECT",version="v1"} 9
apiserver_request_total{verb="WATCH"} 70
"#;
        assert_eq!(open_watches(metrics), 5);
    }
}
