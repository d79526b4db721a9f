//! The life of one pod at its kubelet, over time, without a client and without a clock.
//!
//! ```text
//! New ─ admit ─▶ Creating ─ configured ─▶ Starting ─▶ Running ⇄ BackOff
//!  └─ reject / delete / evict ─▶ Ended ◀─ Stopping ◀─ delete ─┘
//! ```
//!
//! Owns the moments; what is written of them is made in [`status`](super::status). A moment that has passed is taken at its
//! own time, not at the time of the look: a kubelet that was busy changes nothing.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::admission::Refusal;
use super::plan::{Phase, Plan, Run, Stop};
use crate::lending::phase_of;

/// The first back-off of containers that failed more than once, and the longest.
const BACK_OFF: SignedDuration = SignedDuration::from_secs(10);
const LONGEST_BACK_OFF: SignedDuration = SignedDuration::from_secs(300);
/// How often a missing ConfigMap or Secret is looked for.
const RECHECK: SignedDuration = SignedDuration::from_secs(2);

/// The grace of a pod that names none.
const GRACE: i64 = 30;

/// Exit code of a process that SIGTERM ended, and of one that SIGKILL ended.
const TERMINATED: i32 = 143;
const KILLED: i32 = 137;

/// What a pod needs and its node cannot find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Missing {
    /// The container that needs it, or `None` for a volume of the pod.
    pub(super) container: Option<String>,
    pub(super) message: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    New,
    Creating { missing: Option<Missing>, check_at: Timestamp },
    Starting,
    Running { since: Timestamp },
    BackOff { since: Timestamp },
    Stopping { started: Option<Timestamp>, until: Timestamp, code: i32 },
    Ended(End),
}

/// How a pod ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    pub(super) phase: Phase,
    pub(super) reason: Option<String>,
    pub(super) message: Option<String>,
    pub(super) at: Timestamp,
    /// Start of the last run of the containers, if there was one.
    pub(super) started: Option<Timestamp>,
    pub(super) code: i32,
    pub(super) cause: Cause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// It was never taken.
    Rejected,
    /// By itself, or because it was deleted.
    Ended,
    /// By pressure.
    Evicted,
    /// Under an earlier kubelet: its status stays as it is.
    Found,
}

/// An earlier run of the containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exit {
    pub(super) started: Timestamp,
    pub(super) finished: Timestamp,
}

#[derive(Debug, Clone)]
pub(super) struct Life {
    pub(super) plan: Plan,
    /// How many init containers end before the next one starts.
    once: i32,
    faster: i32,
    /// For how long it may be active (`activeDeadlineSeconds`).
    active: Option<SignedDuration>,
    /// How long its containers have to stop.
    grace: SignedDuration,
    /// It was active for longer than that.
    is_overdue: bool,
    pub(super) admitted: Option<Timestamp>,
    /// Since when there is everything that its containers need.
    pub(super) created: Option<Timestamp>,
    pub(super) stage: Stage,
    pub(super) restarts: i32,
    pub(super) last: Option<Exit>,
}

impl Life {
    /// The life of a pod that is seen for the first time. Pods that an earlier kubelet started run on.
    pub(super) fn of(pod: &Pod, plan: Plan, faster: i32) -> Self {
        let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        let once = init.filter(|container| !super::amounts::is_sidecar(container)).count();
        let once = i32::try_from(once).unwrap_or(i32::MAX);
        let active = pod.spec.as_ref().and_then(|spec| spec.active_deadline_seconds).map(SignedDuration::from_secs);
        let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(GRACE);
        let mut life = Self {
            plan,
            once,
            faster,
            active,
            grace: SignedDuration::from_secs(grace),
            is_overdue: false,
            admitted: None,
            created: None,
            stage: Stage::New,
            restarts: 0,
            last: None,
        };
        life.adopt(pod);
        life
    }

    fn adopt(&mut self, pod: &Pod) {
        let Some(status) = &pod.status else { return };
        let started = status.start_time.as_ref().map(|time| time.0);
        if let Some(phase) = Phase::read(phase_of(pod)) {
            let at = started.unwrap_or(Timestamp::UNIX_EPOCH);
            let end = End { phase, reason: None, message: None, at, started: None, code: 0, cause: Cause::Found };
            self.stage = Stage::Ended(end);
        } else if phase_of(pod) == "Running"
            && let Some(admitted) = started
        {
            let containers = status.container_statuses.as_deref().unwrap_or_default();
            let since = containers.iter().filter_map(runs_since).min().unwrap_or(admitted);
            let restarts = containers.iter().map(|container| container.restart_count).max().unwrap_or_default();
            (self.admitted, self.created) = (Some(admitted), Some(admitted));
            (self.restarts, self.stage) = (restarts, Stage::Running { since });
        }
    }

    /// The kubelet takes it.
    pub(super) fn admit(&mut self, now: Timestamp) {
        self.admitted = Some(now);
        self.stage = Stage::Creating { missing: None, check_at: now };
    }

    /// The kubelet refuses it.
    pub(super) fn reject(&mut self, refusal: Refusal, now: Timestamp) {
        self.admitted = Some(now);
        let Refusal { reason, message } = refusal;
        self.end(End { reason: Some(reason), message: Some(message), ..failed(now, KILLED, Cause::Rejected) });
    }

    /// What the containers need was looked for.
    pub(super) fn checked(&mut self, missing: Option<Missing>, now: Timestamp) {
        if matches!(self.stage, Stage::Creating { .. }) {
            self.stage = match missing {
                Some(missing) => Stage::Creating { missing: Some(missing), check_at: now + RECHECK / self.faster },
                None => {
                    self.created = Some(now);
                    Stage::Starting
                }
            };
        }
    }

    /// It has to be gone at `deadline`.
    pub(super) fn delete(&mut self, deadline: Timestamp, now: Timestamp) {
        let started = match &mut self.stage {
            Stage::Ended(_) => return,
            Stage::Stopping { until, code, .. } => {
                if deadline < *until {
                    (*until, *code) = (deadline.max(now), KILLED);
                }
                return;
            }
            Stage::New | Stage::Creating { .. } | Stage::BackOff { .. } => {
                let started = self.last.map(|exit| exit.started);
                return self.end(End { started, ..failed(now, KILLED, Cause::Ended) });
            }
            Stage::Starting => None,
            Stage::Running { since } => Some(*since),
        };
        let (until, code) = match self.plan.stop {
            Stop::After(time, phase) if now + time <= deadline || time.is_zero() => {
                (now + time, if phase == Phase::Succeeded { 0 } else { TERMINATED })
            }
            Stop::After(..) | Stop::Never => (deadline.max(now), KILLED),
        };
        self.stage = Stage::Stopping { started, until, code };
    }

    /// The kubelet needs its place.
    pub(super) fn evict(&mut self, message: String, now: Timestamp) {
        if self.holds_room() {
            let (reason, message) = (Some("Evicted".to_owned()), Some(message));
            self.end(End { reason, message, started: self.started(), ..failed(now, KILLED, Cause::Evicted) });
        }
    }

    /// Everything that has happened by now.
    pub(super) fn advance(&mut self, now: Timestamp) {
        while let Some(at) = [self.turn(), self.expires()].into_iter().flatten().min()
            && at <= now
        {
            if self.expires() == Some(at) {
                self.is_overdue = true;
                self.delete(at + self.grace, at);
                continue;
            }
            let stage = match &self.stage {
                Stage::Starting => Stage::Running { since: at },
                Stage::Running { since } => match self.plan.run {
                    Run::Ends(_, phase) => {
                        let code = i32::from(phase == Phase::Failed);
                        Stage::Ended(End { phase, started: Some(*since), ..failed(at, code, Cause::Ended) })
                    }
                    Run::Forever | Run::Restarts(_) => {
                        self.last = Some(Exit { started: *since, finished: at });
                        Stage::BackOff { since: at }
                    }
                },
                Stage::BackOff { .. } => {
                    self.restarts += 1;
                    Stage::Running { since: at }
                }
                Stage::Stopping { started, code, .. } => {
                    let phase = if *code == 0 { Phase::Succeeded } else { Phase::Failed };
                    Stage::Ended(End { phase, started: *started, ..failed(at, *code, Cause::Ended) })
                }
                Stage::New | Stage::Creating { .. } | Stage::Ended(_) => return,
            };
            match stage {
                Stage::Ended(end) => self.end(end),
                stage => self.stage = stage,
            }
        }
    }

    /// When it was active for as long as it may be. One that stops already does that.
    fn expires(&self) -> Option<Timestamp> {
        let stops = matches!(self.stage, Stage::New | Stage::Stopping { .. } | Stage::Ended(_));
        if stops { None } else { Some(self.admitted? + self.active?) }
    }

    /// When its stage ends by itself.
    fn turn(&self) -> Option<Timestamp> {
        match &self.stage {
            Stage::New | Stage::Creating { .. } | Stage::Ended(_) => None,
            Stage::Starting => self.init_ends(self.once),
            Stage::Running { since } => match self.plan.run {
                Run::Forever => None,
                Run::Ends(time, _) | Run::Restarts(time) => Some(*since + time),
            },
            Stage::BackOff { since } => Some(*since + self.back_off()),
            Stage::Stopping { until, .. } => Some(*until),
        }
    }

    /// When the next thing happens or shows after `now`.
    pub(super) fn due(&self, now: Timestamp) -> Option<Timestamp> {
        let shows = match &self.stage {
            Stage::Creating { check_at, .. } => Some(*check_at),
            Stage::Starting => (1..=self.once).filter_map(|count| self.init_ends(count)).find(|end| *end > now),
            Stage::Running { since } => self.plan.ready.map(|time| *since + time),
            _ => None,
        };
        [shows, self.turn(), self.expires()].into_iter().flatten().filter(|time| *time > now).min()
    }

    /// When so many init containers have ended.
    pub(super) fn init_ends(&self, count: i32) -> Option<Timestamp> {
        Some(self.created? + self.plan.init * count)
    }

    /// When all of them have.
    pub(super) fn initialized(&self) -> Option<Timestamp> {
        self.init_ends(self.once)
    }

    /// Since when the containers are ready.
    pub(super) fn ready_since(&self, now: Timestamp) -> Option<Timestamp> {
        let since = self.running()? + self.plan.ready?;
        (since <= now).then_some(since)
    }

    /// Since when the containers run.
    pub(super) fn running(&self) -> Option<Timestamp> {
        match &self.stage {
            Stage::Running { since } => Some(*since),
            Stage::Stopping { started, .. } => *started,
            _ => None,
        }
    }

    fn started(&self) -> Option<Timestamp> {
        self.running().or(self.last.map(|exit| exit.started))
    }

    /// Whether it counts against what the node has.
    pub(super) fn holds_room(&self) -> bool {
        !matches!(self.stage, Stage::New | Stage::Ended(_))
    }

    pub(super) fn is_new(&self) -> bool {
        self.stage == Stage::New
    }

    pub(super) fn ended(&self) -> Option<&End> {
        if let Stage::Ended(end) = &self.stage { Some(end) } else { None }
    }

    /// Whether what it needs has to be looked for now.
    pub(super) fn wants_check(&self, now: Timestamp) -> bool {
        matches!(&self.stage, Stage::Creating { check_at, .. } if *check_at <= now)
    }

    /// The real kubelet starts containers at once the first time, then waits ever longer.
    fn back_off(&self) -> SignedDuration {
        match u32::try_from(self.restarts) {
            Ok(restarts @ 1..) => (BACK_OFF * 2_i32.pow((restarts - 1).min(5))).min(LONGEST_BACK_OFF) / self.faster,
            _ => SignedDuration::ZERO,
        }
    }

    fn end(&mut self, end: End) {
        let is_overdue = self.is_overdue && end.cause == Cause::Ended;
        self.stage = Stage::Ended(if is_overdue { overdue(end) } else { end });
    }
}

fn failed(at: Timestamp, code: i32, cause: Cause) -> End {
    End { phase: Phase::Failed, reason: None, message: None, at, started: None, code, cause }
}

/// The end of a pod that was active for too long, however its containers stopped.
fn overdue(end: End) -> End {
    let message = "Pod was active on the node longer than the specified deadline";
    End { phase: Phase::Failed, reason: Some("DeadlineExceeded".to_owned()), message: Some(message.to_owned()), ..end }
}

fn runs_since(container: &ContainerStatus) -> Option<Timestamp> {
    let running = container.state.as_ref()?.running.as_ref()?;
    running.started_at.as_ref().map(|time| time.0)
}

#[cfg(test)]
mod tests;
