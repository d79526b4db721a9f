//! Pods of ours go through their phases: how many changes of status a second arrive in the virtual cluster, and how late.
//!
//! The kubelets are silent, and this program writes the status of the physical pods: for the host, as fast as the API server
//! answers and then at a rate; for the raw client it writes each change into both clusters, in the same two ways, while a second
//! process renews the leases of the nodes, as the host does. Once the pods are there, nothing else of this program runs but one
//! watch: two processors carry little more than the servers and the host.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::stream::FuturesUnordered;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};
use topoloom_sync::naming::physical_pod_name;
use topoloom_tests::lending::Background;
use topoloom_tests::lending::kubelets::Health;

use super::SETTLES;
use crate::alone::Alone;
use crate::raw::RENEWER;
use crate::sample::Sample;
use crate::seen::{Pods, Seen, ShownPod};
use crate::stage::{AT_ONCE, BINDING, MOUNT, PATIENCE, Stage, WORK, create_all, machine, pod, shown, virtual_node};
use crate::table::{Row, Table, Target, seconds, time};

/// Pods per machine, in each of the runs.
const PODS: u32 = 2;
/// Changes a second in the run at a rate.
const RATE: u32 = 150;
const LAG: f64 = 1.0;
/// At least 0.8 × the throughput of the raw client.
const RATIO: f64 = 1.25;
/// The phases after Pending.
const PHASES: [&str; 2] = ["Running", "Succeeded"];

/// The pods of one run.
#[derive(Debug, Clone, Copy)]
enum Run {
    Fast,
    Paced,
    Raw,
    RawPaced,
}

impl Run {
    const ALL: [Self; 4] = [Self::Raw, Self::RawPaced, Self::Fast, Self::Paced];

    fn prefix(self) -> &'static str {
        match self {
            Self::Fast => "fast-",
            Self::Paced => "paced-",
            Self::Raw => "raw-fast-",
            Self::RawPaced => "raw-paced-",
        }
    }

    /// Whether there is no host: this program writes both sides.
    fn is_raw(self) -> bool {
        matches!(self, Self::Raw | Self::RawPaced)
    }

    fn name(self, number: u32) -> String {
        format!("{}{number:05}", self.prefix())
    }

    /// Its pods.
    fn of(self, [raw, raw_paced, fast, paced]: &mut All) -> &mut Pods {
        match self {
            Self::Raw => raw,
            Self::RawPaced => raw_paced,
            Self::Fast => fast,
            Self::Paced => paced,
        }
    }
}

/// The pods of all runs, in the order of [`Run::ALL`].
type All = [Pods; 4];

/// The kubelets, the top-down half and the watches of the stage end with this row.
pub(super) async fn measure(stage: &mut Stage, table: &mut Table) -> Result<()> {
    let host = stage.lend().await?;
    let count = stage.machines * PODS;
    silence(stage);
    let mut watching = Background::new();
    let seen = &Stage::follow_pods(&mut watching, &stage.work(), Run::ALL.map(Run::prefix));
    for run in Run::ALL {
        let body =
            |number: u32| pod(&run.name(number), &virtual_node(BINDING, number % stage.machines), "10m", json!({}));
        create_all(&stage.work(), (0..count).map(body)).await?;
        let all = |pods: &mut All| (run.of(pods).marked() == count as usize).then_some(());
        seen.until("every pod has its physical pod", PATIENCE, all).await?;
    }
    stage.still().await;
    sleep(SETTLES).await;

    let fast = Writers::new(stage, Run::Fast).await?;
    let before = stage.virtual_plane.requests().await?;
    let took = fast.quickly(seen, count).await?;
    sleep(SETTLES).await;
    let since = stage.virtual_plane.requests().await?.since(&before);
    let writes = since.writes("pods", "status");
    let changes = count * 2;
    let what = format!("{count} pods Running, then Succeeded: {changes} changes");
    table.add(Row::new(what.clone(), time(took)));
    // Succeeded may follow before Running was written: then one write shows both.
    let row = Row::new("  writes of pod status, one per change that shows", writes.to_string());
    table.add(row.target(writes as f64, Target::AtMost(changes.into()), super::whole));
    // This program reads none.
    let reads = since.count(|request| request.verb == "GET" && request.resource == "pods");
    table.add(Row::new("  virtual pods read one by one", reads.to_string()));

    let late = Writers::new(stage, Run::Paced).await?.lags(seen, count).await?;
    host.stop().await?;

    // The host renewed the leases of the nodes all the while.
    let kubeconfig = stage.virtual_plane.kubeconfig();
    let renewer = Alone::start(RENEWER, &[kubeconfig.as_path()]).await?;
    sleep(SETTLES).await;
    let raw = Writers::new(stage, Run::Raw).await?.quickly(seen, count).await?;
    table.add(Row::new(what, time(took)).against("raw", took, raw, Target::AtMost(RATIO)));
    let shown = |time: Duration| format!("{:.0}/s", f64::from(changes) / time.as_secs_f64());
    table.add(Row::new("  changes a second, and of the raw client", format!("{}, {}", shown(took), shown(raw))));
    let least = Writers::new(stage, Run::RawPaced).await?.lags(seen, count).await?;
    renewer.stop().await?;
    for (which, percent, target) in [("p50", 50, Target::None), ("p99", 99, Target::AtMost(LAG))] {
        let (value, raw) = (late.percentile(percent), least.percentile(percent));
        let what = format!("lag of a pod's status at {RATE} changes a second, {which}");
        table.add(Row::new(what, time(value)).target(value.as_secs_f64(), target, seconds));
        table.add(Row::new("  the same", time(value)).against("raw", value, raw, Target::None));
    }
    watching.stop().await;
    Ok(())
}

fn silence(stage: &Stage) {
    for number in 0..stage.machines {
        stage.kubelets.set(&machine(number), Health::Silent);
    }
}

/// Waits until all pods of a run are in this phase; returns when the last of them was seen to be.
async fn until_all(seen: &Seen<All>, run: Run, count: u32, phase: &str) -> Result<Instant> {
    let wanted = count as usize;
    let all = |pods: &mut All| {
        let pods = run.of(pods);
        if pods.in_phase(phase) == wanted { pods.last() } else { None }
    };
    seen.until("every pod has its status", PATIENCE, all).await
}

/// What writes the statuses of the pods of one run, in both clusters.
struct Writers {
    run: Run,
    physical: Api<DynamicObject>,
    lent: Api<ShownPod>,
    /// The physical pods as they are stored, by name: a PUT costs the API server less than a patch. No one else writes them now.
    stored: Mutex<HashMap<String, DynamicObject>>,
}

impl Writers {
    async fn new(stage: &Stage, run: Run) -> Result<Self> {
        let kind = ApiResource::erase::<Pod>(&());
        let physical: Api<DynamicObject> = Api::namespaced_with(stage.physical_plane.client(), MOUNT, &kind);
        let all = physical.list(&ListParams::default()).await?.items;
        let stored = all.into_iter().map(|pod| (pod.name_any(), pod)).collect();
        Ok(Self { run, physical, lent: shown(&stage.work()), stored: Mutex::new(stored) })
    }

    /// Changes the phases of all pods, many at once. Returns how long it took until the virtual cluster showed all of it.
    async fn quickly(&self, seen: &Seen<All>, count: u32) -> Result<Duration> {
        let begin = Instant::now();
        for phase in PHASES {
            let change = |number: u32| async move { self.change(&self.run.name(number), phase).await };
            let changing = stream::iter(0..count).map(change).buffer_unordered(AT_ONCE);
            changing.try_for_each(async |()| Ok(())).await?;
        }
        Ok(until_all(seen, self.run, count, PHASES[1]).await?.saturating_duration_since(begin))
    }

    /// Changes the phases of all pods at a rate; how late each change was seen in the virtual cluster.
    async fn lags(&self, seen: &Seen<All>, count: u32) -> Result<Sample> {
        let mut sample = Sample::default();
        for phase in PHASES {
            let begin = Instant::now();
            let (mut sent, mut under_way) = (Vec::new(), FuturesUnordered::new());
            for number in 0..count {
                let due = begin + Duration::from_secs(1) / RATE * number;
                loop {
                    tokio::select! {
                        biased;
                        Some(written) = under_way.next() => {
                            let written: Result<()> = written;
                            written?;
                        }
                        () = sleep_until(due) => break,
                    }
                }
                let name = self.run.name(number);
                sent.push((name.clone(), Instant::now()));
                under_way.push(async move { self.change(&name, phase).await });
            }
            under_way.try_collect::<Vec<()>>().await?;
            until_all(seen, self.run, count, phase).await?;
            for (name, sent) in sent {
                let since = seen.look(|pods| self.run.of(pods).get(&name).map(|pod| pod.since));
                sample.push(since.context("a pod is gone")?.saturating_duration_since(sent));
            }
        }
        Ok(sample)
    }

    /// Writes what a kubelet would, and without a host what the host would.
    async fn change(&self, name: &str, phase: &str) -> Result<()> {
        self.physical(&physical_pod_name(WORK, name)?, phase).await?;
        if self.run.is_raw() { self.lent(name, phase).await } else { Ok(()) }
    }

    /// Writes the status of a physical pod.
    async fn physical(&self, name: &str, phase: &str) -> Result<()> {
        let stored = || self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pod = stored().remove(name).with_context(|| format!("there is no physical pod {name}"))?;
        if let (Some(known), Value::Object(fields)) = (pod.data["status"].as_object_mut(), status(phase)) {
            known.extend(fields);
        }
        let pod = self.physical.replace_status(name, &PostParams::default(), &pod).await?;
        stored().insert(name.to_owned(), pod);
        Ok(())
    }

    /// Writes the status of a virtual pod, as the host does: by a patch.
    async fn lent(&self, name: &str, phase: &str) -> Result<()> {
        let patch = Patch::Merge(json!({"status": status(phase)}));
        self.lent.patch_status(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }
}

/// The status that a kubelet writes with a phase.
fn status(phase: &str) -> Value {
    let now = "2026-08-01T06:10:00Z";
    let runs = phase == PHASES[0];
    let state = if runs {
        json!({"running": {"startedAt": now}, "terminated": null})
    } else {
        json!({"running": null, "terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}})
    };
    let container = |name: &str| {
        json!({
            "name": name, "image": "registry.example.com/team-1/service:v1.2.3", "imageID": "sha256:0123456789abcdef",
            "containerID": "test://0123456789abcdef", "ready": runs, "started": runs, "restartCount": 0, "state": state,
        })
    };
    let condition = |kind: &str, is_so: bool| json!({"type": kind, "status": if is_so { "True" } else { "False" }, "lastTransitionTime": now});
    let conditions = [("Initialized", true), ("Ready", runs), ("ContainersReady", runs), ("PodScheduled", true)];
    json!({
        "phase": phase, "startTime": now, "hostIP": "10.64.0.1", "hostIPs": [{"ip": "10.64.0.1"}],
        "podIP": "10.128.0.1", "podIPs": [{"ip": "10.128.0.1"}],
        "conditions": conditions.map(|(kind, is_so)| condition(kind, is_so)),
        "containerStatuses": [container("service"), container("sidecar")],
    })
}
