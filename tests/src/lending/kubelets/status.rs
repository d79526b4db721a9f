//! The status of a pod, made of its life: what a kubelet writes.
//!
//! A function of the life and the pod: as long as nothing happens the result is the same, and nothing is written. Conditions
//! of other writers are not in it; the patch leaves them alone.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::amounts::is_sidecar;
use super::life::{Cause, End, Life, Stage};
use super::plan::Phase;
use crate::lending::uid_of;

/// Addresses, IPv4 first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Addresses {
    pub(super) host: Vec<String>,
    pub(super) pod: Vec<String>,
}

/// What is to be written; nothing before the pod was looked at, and nothing of one that ended under another kubelet.
pub(super) fn status(pod: &Pod, life: &Life, addresses: &Addresses, now: Timestamp) -> Option<Value> {
    let spec = pod.spec.as_ref()?;
    let end = life.ended();
    if life.is_new() || end.is_some_and(|end| end.cause == Cause::Found) {
        return None;
    }
    let started = life.admitted.or(end.map(|end| end.at));
    let mut status = json!({
        "observedGeneration": pod.metadata.generation,
        "phase": phase(life),
        "reason": end.and_then(|end| end.reason.clone()),
        "message": end.and_then(|end| end.message.clone()),
        "startTime": started.map(Time),
    });
    if end.is_some_and(|end| end.cause == Cause::Rejected) {
        return Some(status);
    }
    let view = View { pod, spec, life, now };
    status["conditions"] = json!(view.conditions(started.unwrap_or(now)));
    let init = spec.init_containers.as_deref().unwrap_or_default();
    status["initContainerStatuses"] = json!(view.init_containers(init));
    status["containerStatuses"] =
        json!(spec.containers.iter().map(|container| view.container(container)).collect::<Vec<_>>());
    let host = spec.host_network == Some(true);
    status["hostIP"] = json!(addresses.host.first());
    status["hostIPs"] = ips(&addresses.host);
    if life.created.is_some() {
        let own = if host { &addresses.host } else { &addresses.pod };
        status["podIP"] = json!(own.first());
        status["podIPs"] = ips(own);
    }
    Some(status)
}

/// Phase and readiness, as far as another writer may have changed them.
pub(super) fn gist(status: &Value) -> (Option<&str>, Option<&str>) {
    let conditions = status["conditions"].as_array();
    let ready = conditions.and_then(|list| list.iter().find(|condition| condition["type"] == "Ready"));
    (status["phase"].as_str(), ready.and_then(|ready| ready["status"].as_str()))
}

fn phase(life: &Life) -> &'static str {
    match &life.stage {
        Stage::New | Stage::Creating { .. } | Stage::Starting | Stage::Stopping { started: None, .. } => "Pending",
        Stage::Running { .. } | Stage::BackOff { .. } | Stage::Stopping { .. } => "Running",
        Stage::Ended(end) => end.phase.word(),
    }
}

fn ips(list: &[String]) -> Value {
    json!(list.iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>())
}

struct View<'a> {
    pod: &'a Pod,
    spec: &'a PodSpec,
    life: &'a Life,
    now: Timestamp,
}

impl View<'_> {
    fn conditions(&self, admitted: Timestamp) -> Vec<Value> {
        let life = self.life;
        let ended = life.ended();
        let scheduled = self.transition("PodScheduled").unwrap_or(admitted);
        let mut list = vec![condition("PodScheduled", Ok(scheduled), "")];
        let sandbox = match ended {
            Some(end) => Err(end.at),
            None => life.created.ok_or(admitted),
        };
        list.push(condition("PodReadyToStartContainers", sandbox, ""));
        let initialized = life.initialized().filter(|time| *time <= self.now).ok_or(admitted);
        list.push(condition("Initialized", initialized, "ContainersNotInitialized"));

        let (containers, why) = match ended {
            Some(End { phase: Phase::Succeeded, at, .. }) => (Err(*at), "PodCompleted"),
            Some(End { at, .. }) => (Err(*at), "PodFailed"),
            None => (life.ready_since(self.now).ok_or_else(|| self.unready_since(admitted)), "ContainersNotReady"),
        };
        list.push(condition("ContainersReady", containers, why));
        let (ready, why) = match (containers, self.gates_opened()) {
            (Ok(since), Some(opened)) => (Ok(since.max(opened)), ""),
            (Ok(since), None) => (Err(since), "ReadinessGatesNotReady"),
            (unready, _) => (unready, why),
        };
        list.push(condition("Ready", ready, why));
        if let Some(End { cause: Cause::Evicted, at, .. }) = ended {
            let mut disrupted = condition("DisruptionTarget", Ok(*at), "");
            disrupted["reason"] = json!("TerminationByKubelet");
            list.push(disrupted);
        }
        list
    }

    fn unready_since(&self, admitted: Timestamp) -> Timestamp {
        match &self.life.stage {
            Stage::BackOff { since } => *since,
            _ => self.life.running().unwrap_or(admitted),
        }
    }

    /// When the last readiness gate was opened; nothing while one is closed.
    fn gates_opened(&self) -> Option<Timestamp> {
        let mut last = Timestamp::MIN;
        for gate in self.spec.readiness_gates.iter().flatten() {
            let conditions = self.pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions.filter(|it| it.type_ == gate.condition_type).find(|it| it.status == "True")?;
            last = self.transition(&gate.condition_type).map_or(last, |changed| last.max(changed));
        }
        Some(last)
    }

    fn transition(&self, kind: &str) -> Option<Timestamp> {
        let conditions = self.pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let found = conditions.filter(|condition| condition.type_ == kind).find(|condition| condition.status == "True");
        found?.last_transition_time.as_ref().map(|time| time.0)
    }

    fn init_containers(&self, list: &[Container]) -> Vec<Value> {
        let mut before = 0;
        list.iter()
            .map(|container| {
                let begins = self.life.init_ends(before);
                let is_sidecar = is_sidecar(container);
                before += i32::from(!is_sidecar);
                let ends = self.life.init_ends(before).filter(|_| !is_sidecar);
                self.init_container(container, begins, ends)
            })
            .collect()
    }

    fn init_container(&self, container: &Container, begins: Option<Timestamp>, ends: Option<Timestamp>) -> Value {
        let over = self.life.ended();
        let until = over.map_or(self.now, |end| end.at);
        match (begins.filter(|begins| *begins <= until), ends.filter(|ends| *ends <= until), over) {
            (Some(begins), Some(ends), _) => {
                self.row(container, terminated(0, begins, ends), Readiness { ready: true, started: false })
            }
            (Some(begins), None, Some(end)) => {
                let code = if ends.is_some() { end.code } else { 0 };
                self.row(container, terminated(code, begins, end.at), Readiness::NONE)
            }
            (Some(begins), None, None) => {
                let ready = ends.is_none();
                let running = json!({"running": {"startedAt": Time(begins)}});
                self.row(container, running, Readiness { ready, started: true })
            }
            (None, _, Some(end)) => self.row(container, unknown(end.at), Readiness::NONE),
            (None, _, None) => self.row(container, self.waiting(container, "PodInitializing"), Readiness::NONE),
        }
    }

    fn container(&self, container: &Container) -> Value {
        let life = self.life;
        if let Some(end) = life.ended() {
            let state = match end.started {
                Some(started) => terminated(end.code, started, end.at),
                None => unknown(end.at),
            };
            return self.row(container, state, Readiness::NONE);
        }
        if let Some(since) = life.running() {
            let ready = life.ready_since(self.now).is_some();
            return self.row(
                container,
                json!({"running": {"startedAt": Time(since)}}),
                Readiness { ready, started: true },
            );
        }
        let has_init = self.spec.init_containers.as_ref().is_some_and(|list| !list.is_empty());
        let state = match &life.stage {
            Stage::BackOff { .. } => {
                json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}})
            }
            _ => self.waiting(container, if has_init { "PodInitializing" } else { "ContainerCreating" }),
        };
        self.row(container, state, Readiness::NONE)
    }

    fn waiting(&self, container: &Container, reason: &str) -> Value {
        if let Stage::Creating { missing: Some(missing), .. } = &self.life.stage
            && missing.container.as_ref() == Some(&container.name)
        {
            return json!({"waiting": {"reason": "CreateContainerConfigError", "message": missing.message}});
        }
        json!({"waiting": {"reason": reason}})
    }

    fn row(&self, container: &Container, state: Value, readiness: Readiness) -> Value {
        let image = container.image.as_deref().unwrap_or_default();
        let is_init = self.spec.init_containers.iter().flatten().any(|init| init.name == container.name);
        let restarts = if is_init { 0 } else { self.life.restarts };
        let mut row = json!({
            "name": container.name,
            "image": image,
            "imageID": "",
            "ready": readiness.ready,
            "started": readiness.started,
            "restartCount": restarts,
            "state": state,
        });
        if row["state"].get("waiting").is_none() {
            row["imageID"] = json!(format!("test://image/{image}"));
            row["containerID"] = json!(format!("test://{}/{}/{restarts}", uid_of(self.pod), container.name));
        }
        if let Some(exit) = self.life.last.filter(|_| !is_init && self.life.ended().is_none()) {
            row["lastState"] = terminated(1, exit.started, exit.finished);
        }
        row
    }
}

#[derive(Clone, Copy)]
struct Readiness {
    ready: bool,
    started: bool,
}

impl Readiness {
    const NONE: Self = Self { ready: false, started: false };
}

fn terminated(code: i32, started: Timestamp, finished: Timestamp) -> Value {
    let reason = if code == 0 { "Completed" } else { "Error" };
    let (started, finished) = (Time(started), Time(finished));
    json!({"terminated": {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": finished}})
}

/// Of a container that never ran.
fn unknown(at: Timestamp) -> Value {
    let message = "The container could not be located when the pod was terminated";
    json!({"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": message, "finishedAt": Time(at)}})
}

/// True since a time, or False since one for a reason.
fn condition(kind: &str, since: Result<Timestamp, Timestamp>, reason: &str) -> Value {
    let (status, since, reason) = match since {
        Ok(since) => ("True", since, None),
        Err(since) => ("False", since, Some(reason).filter(|reason| !reason.is_empty())),
    };
    json!({"type": kind, "status": status, "lastTransitionTime": Time(since), "reason": reason})
}

#[cfg(test)]
mod tests;
