//! What works and what does not, for `/readyz` and `/healthz`.
//!
//! A replica that follows is ready when it has read the lease: what its controllers keep warm is shown, and does not
//! count. One that leads is ready when its caches are there (requirement R6). Every replica is alive whose renew loop
//! continues.
//!
//! What worked once and fails now is shown, and does not count either. An API server that fails, fails for every
//! replica: if that made them unready, all of them would be taken out of service at the same moment, while what is in
//! force continues. There are two exceptions, since a follower is there to take over and for nothing else: one that has
//! not been able to read the lease for two lease durations is not ready, and neither is one that may not read what a
//! leader reads (403), so that a rolling update with broken rules does not replace the replicas that work. What was
//! never read is judged at once: a new pod must not be ready in between. A cache that is cold and was not refused does
//! not count. A leader is judged by the lease itself.
//!
//! Bindings of lending are shown, and none of them fails a replica: what is wrong with one is wrong with its cluster, and the
//! others go on. That its renew loop is stuck is the replica's own, and counts for `/healthz` as for any lease. But a
//! process that serves bindings and does nothing else is not ready while it may not read them, or may not have their leases (403),
//! and never could: it must not replace one that works. Where other controllers run, too, they are not taken out of service for
//! that.

mod bindings;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use topoloom_core::controllers::OURS;

use self::bindings::{GroupFailures, ShownBinding};
use super::election::{Election, Group, LeaseGroup, Role};
use crate::cluster::gate::{ReadOnly, Switch};
use crate::cluster::{Check, Judge, Refusal, RefusalReason};

/// A failure that was not repeated for this long is over.
const FORGOTTEN: Duration = Duration::from_secs(90);
/// How long a follower may be refused what it could read before: the chart's `minReadySeconds`, after which an update
/// counts a pod as available.
pub const RIGHTS: Duration = Duration::from_secs(10);

/// All checks of the process by name.
#[derive(Clone, Default)]
pub struct Health {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    checks: BTreeMap<&'static str, Checked>,
    controllers: BTreeMap<String, Controller>,
    elections: Vec<Election>,
    left_to_others: BTreeSet<LeaseGroup>,
    bindings: BTreeMap<Arc<str>, ShownBinding>,
    /// Whether this process serves bindings and does nothing else.
    serves_only_bindings: bool,
    /// Whether it could read or write the lease of a binding once.
    had_lease_of_binding: bool,
}

struct Checked {
    state: CheckState,
    /// It counts only while this group's lease is ours.
    group: Option<LeaseGroup>,
    /// A replica that follows in this group is not ready once it has failed for this long.
    followers: Option<(LeaseGroup, Duration)>,
    /// A replica that follows in this group is not ready once it was forbidden for this long.
    rights: Option<(LeaseGroup, Duration)>,
    /// Since when it fails without a success in between.
    failing_since: Option<Instant>,
    /// The cause that the log names as the present one.
    reported: Option<(RefusalReason, String)>,
}

/// The state of a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Controller {
    /// It runs, or waits for its lease with everything warm.
    Running,
    /// What it needs is not there.
    Waiting(String),
    /// It could not be initialised, and the process continues without it.
    Failed(String),
    /// It is not enabled.
    Disabled,
}

impl Controller {
    /// The word for metrics.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting(_) => "waiting",
            Self::Failed(_) => "failed",
            Self::Disabled => "disabled",
        }
    }
}

/// The state of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckState {
    /// Not there yet: the process is not ready.
    Starting(String),
    /// As it should be.
    Passing,
    /// It worked before and does not now; what is in force stays in force, so the process stays ready.
    Failing(String, Instant),
    /// It cannot be had here and the process works without it.
    Absent(String),
}

/// One check: what judges a [`Check`], and what it means for followers.
#[derive(Clone)]
pub struct CheckSlot {
    name: &'static str,
    health: Health,
    /// The controller that waits while this is absent.
    controller: Option<&'static str>,
}

impl Health {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a check that has not passed yet.
    #[must_use]
    pub fn check(&self, name: &'static str) -> CheckSlot {
        self.add(name, None, CheckState::Starting("waiting".into()))
    }

    /// Adds a check that has not passed yet, and that counts only while this replica leads the group.
    #[must_use]
    pub fn check_of_leader(&self, name: &'static str, group: LeaseGroup) -> CheckSlot {
        self.add(name, Some(group), CheckState::Starting("waiting".into()))
    }

    /// The same for what a controller can do nothing without: while it is absent the controller waits (decision M1).
    #[must_use]
    pub fn check_of_controller(&self, name: &'static str, group: LeaseGroup, controller: &'static str) -> CheckSlot {
        CheckSlot { controller: Some(controller), ..self.check_of_leader(name, group) }
    }

    /// Adds a check that readiness does not wait for.
    #[must_use]
    pub fn optional(&self, name: &'static str) -> CheckSlot {
        self.add(name, None, CheckState::Absent("not needed yet".into()))
    }

    /// The same for what a controller can do nothing without, on every replica: while it is absent the controller waits.
    #[must_use]
    pub fn optional_of_controller(&self, name: &'static str, controller: &'static str) -> CheckSlot {
        CheckSlot { controller: Some(controller), ..self.optional(name) }
    }

    fn add(&self, name: &'static str, group: Option<LeaseGroup>, state: CheckState) -> CheckSlot {
        self.lock()
            .checks
            .insert(name, Checked { state, group, followers: None, rights: None, failing_since: None, reported: None });
        CheckSlot { name, health: self.clone(), controller: None }
    }

    /// Adds an election.
    pub fn election(&self, election: Election) {
        self.lock().elections.push(election);
    }

    /// No controller of this group runs here, so its lease is left to others, and nothing waits for what the group
    /// needs.
    pub fn stands_back(&self, group: LeaseGroup) {
        let mut inner = self.lock();
        inner.elections.retain(|election| !election.is_of(group));
        inner.checks.retain(|name, check| *name != group.check() && check.group != Some(group));
        inner.left_to_others.insert(group);
    }

    /// Sets the state of a controller.
    pub fn controller(&self, name: &str, stands: Controller) {
        self.lock().controllers.insert(name.to_owned(), stands);
    }

    /// The state of every controller.
    #[must_use]
    pub fn controllers(&self) -> BTreeMap<String, Controller> {
        self.lock().controllers.clone()
    }

    /// Every election.
    #[must_use]
    pub fn elections(&self) -> Vec<Election> {
        self.lock().elections.clone()
    }

    /// Whether the process is alive, and why not.
    #[must_use]
    pub fn alive(&self) -> (bool, String) {
        let inner = self.lock();
        let fixed = inner.elections.iter().map(|election| (election.group().as_str().to_owned(), election));
        let bindings = inner.bindings.iter().map(|(name, shown)| (format!("of binding {name}"), &shown.election));
        let stuck = fixed.chain(bindings).find_map(|(lease, election)| Some((lease, election.stuck()?)));
        match stuck {
            Some((lease, late)) => {
                (false, format!("the renewal of the lease {lease} is stuck: {} s late\n", late.as_secs()))
            }
            None => (true, "ok".to_owned()),
        }
    }

    /// Whether everything that counts passed at least once, and one line per check, lease and controller.
    #[must_use]
    pub fn report(&self) -> (bool, String) {
        let inner = self.lock();
        let leads = |group: LeaseGroup| {
            let election = inner.elections.iter().find(|election| election.is_of(group));
            election.is_none_or(|election| matches!(election.role(), Role::Leader | Role::Lost(_)))
        };
        let checks = inner.checks.iter().map(|(name, check)| check.line(name, leads));
        let elections = inner.elections.iter().map(election_line);
        let (ready, mut lines) = checks
            .chain(elections)
            .fold((true, String::new()), |(ready, lines), line| (ready && line.is_ready, lines + &line.text + "\n"));
        for group in &inner.left_to_others {
            lines.push_str(&format!(
                "[-] election {}: no controller of this group runs here, so other replicas lead\n",
                group.as_str()
            ));
        }
        for (name, stands) in &inner.controllers {
            lines.push_str(&match stands {
                Controller::Running => format!("[+] controller {name} runs\n"),
                Controller::Waiting(why) => format!("[-] controller {name} waiting: {why}\n"),
                Controller::Failed(why) => format!("[!] controller {name} failed: {why}\n"),
                Controller::Disabled => format!("[-] controller {name} disabled\n"),
            });
        }
        let may_serve = inner.may_serve_bindings();
        if !may_serve {
            lines.push_str("[!] leases of bindings forbidden, so this replica could serve none\n");
        }
        bindings::show(&inner.bindings, &mut lines);
        (ready && may_serve, lines)
    }
}

/// A line of the report, and whether this replica can be ready with what it says.
struct ReportLine {
    is_ready: bool,
    text: String,
}

impl Checked {
    fn line(&self, name: &str, leads: impl Fn(LeaseGroup) -> bool) -> ReportLine {
        let counts = self.group.is_none_or(&leads);
        let fails_for = self.failing_since.map(|since| since.elapsed());
        let is_too_long = self.followers.is_some_and(|(group, patience)| !leads(group) && fails_for >= Some(patience));
        let is_forbidden = self.is_forbidden_to_followers(&leads);
        let (is_ready, text) = match &self.state {
            CheckState::Starting(why) | CheckState::Failing(why, _) if is_forbidden => {
                (false, format!("[!] {name} forbidden, so this replica could not take over: {why}"))
            }
            CheckState::Passing => (true, format!("[+] {name} ok")),
            CheckState::Failing(why, last) if is_too_long && last.elapsed() < FORGOTTEN => {
                (false, format!("[!] {name} failing for too long to take over: {why}"))
            }
            // A check that still fails reports it again: a watch is opened again at least every half minute, and a
            // watch that works again without news reports nothing at all.
            CheckState::Failing(why, since) if since.elapsed() < FORGOTTEN => {
                (true, format!("[!] {name} failing: {why}"))
            }
            CheckState::Failing(..) => (true, format!("[+] {name} ok")),
            CheckState::Absent(why) => (true, format!("[-] {name} absent: {why}")),
            CheckState::Starting(why) if counts => (false, format!("[ ] {name} starting: {why}")),
            CheckState::Starting(why) => (true, format!("[ ] {name} not needed by a follower: {why}")),
        };
        ReportLine { is_ready: is_ready && !is_forbidden, text }
    }
}

fn election_line(election: &Election) -> ReportLine {
    let name = election.group().as_str();
    let (is_ready, text) = match election.role() {
        Role::Unknown => (false, format!("[ ] election {name}: the lease has not been read yet")),
        Role::Follower(holder) if holder.is_empty() => (true, format!("[+] election {name}: no replica leads")),
        Role::Follower(holder) => (true, format!("[+] election {name}: follows {holder}")),
        Role::Leader => (true, format!("[+] election {name}: leads")),
        Role::Lost(lost) => (false, format!("[!] election {name}: the lease is lost: {lost}")),
    };
    ReportLine { is_ready, text }
}

/// The states of controllers, as a metric: 1 for the present state.
#[derive(Clone)]
struct ControllerStates(Health);

impl std::fmt::Debug for ControllerStates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Collector")
    }
}

impl prometheus_client::collector::Collector for ControllerStates {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let gauge = ConstGauge::new(1_i64);
        let mut metric = encoder.encode_descriptor(
            "controllers",
            "1 for each controller with its state: running, waiting, failed or disabled",
            None,
            gauge.metric_type(),
        )?;
        for (name, stands) in self.0.controllers() {
            let labels = [("controller", name.as_str()), ("state", stands.as_str())];
            gauge.encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl Health {
    /// Registers what is counted of it.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(ControllerStates(self.clone())));
        registry.register_collector(Box::new(GroupFailures(self.clone())));
    }

    /// One series of each possible kind; `any` is the value of labels without a closed set.
    pub(super) fn examples(&self, any: &'static str) {
        let states = [
            Controller::Running,
            Controller::Waiting(String::new()),
            Controller::Failed(String::new()),
            Controller::Disabled,
        ];
        for (name, stands) in OURS.into_iter().zip(states) {
            self.controller(name, stands);
        }
        self.controller(any, Controller::Running);
        let switch = Switch::new(ReadOnly::No);
        self.binding(&any.into(), Election::off(Group::Binding(any.into()), &switch));
    }
}

impl Checked {
    /// Whether a replica that follows could do nothing if it led: it is forbidden what it has never read, or what it
    /// has not been allowed to read for too long.
    fn is_forbidden_to_followers(&self, leads: impl Fn(LeaseGroup) -> bool) -> bool {
        let Some((_, patience)) = self.rights.filter(|(group, _)| !leads(*group)) else { return false };
        let is_forbidden = matches!(self.reported, Some((RefusalReason::Forbidden, _)));
        let for_long = || self.failing_since.is_some_and(|since| since.elapsed() >= patience);
        is_forbidden
            && match &self.state {
                CheckState::Starting(_) => true,
                CheckState::Failing(_, last) => for_long() && last.elapsed() < FORGOTTEN,
                CheckState::Passing | CheckState::Absent(_) => false,
            }
    }
}

impl CheckSlot {
    fn set(&self, state: CheckState) -> Option<CheckState> {
        let mut inner = self.health.lock();
        let stands = match &state {
            CheckState::Absent(why) => Some(Controller::Waiting(why.clone())),
            CheckState::Passing => Some(Controller::Running),
            CheckState::Starting(_) | CheckState::Failing(..) => None,
        };
        if let (Some(name), Some(stands)) = (self.controller, stands) {
            inner.controllers.insert(name.to_owned(), stands);
        }
        let checked = inner.checks.get_mut(self.name)?;
        checked.failing_since = None;
        checked.reported = None;
        Some(std::mem::replace(&mut checked.state, state))
    }

    /// From now on a follower of the group is not ready once this has failed for that long. Shorter failures do not
    /// count, so that a restarted API server does not make every replica unready.
    pub fn counts_for_followers(&self, group: LeaseGroup, patience: Duration) {
        if let Some(checked) = self.health.lock().checks.get_mut(self.name) {
            checked.followers = Some((group, patience));
        }
    }

    /// From now on a follower of the group is not ready while it is forbidden what this checks: at once where it was
    /// never allowed, and after [`RIGHTS`] otherwise.
    #[must_use]
    pub fn rights_count_for_followers(self, group: LeaseGroup) -> Self {
        if let Some(checked) = self.health.lock().checks.get_mut(self.name) {
            checked.rights = Some((group, RIGHTS));
        }
        self
    }
}

impl Judge for CheckSlot {
    /// It works. Logs it once.
    fn pass(&self) {
        match self.set(CheckState::Passing) {
            Some(CheckState::Failing(..)) => tracing::info!(check = self.name, "a check passes again"),
            Some(CheckState::Passing) => {}
            _ => tracing::info!(check = self.name, "ready"),
        }
    }

    /// It does not work. The first of failures in a row that have one cause is logged.
    fn fail(&self, refusal: &Refusal) {
        let why = refusal.message.clone();
        let known = {
            let mut inner = self.health.lock();
            let Some(checked) = inner.checks.get_mut(self.name) else { return };
            let next = match &checked.state {
                CheckState::Passing | CheckState::Failing(..) | CheckState::Absent(_) => {
                    CheckState::Failing(why, Instant::now())
                }
                CheckState::Starting(_) => CheckState::Starting(why),
            };
            checked.state = next;
            let (reason, cause) = refusal.cause();
            let known = checked.reported.as_ref().is_some_and(|(reported, of)| *reported == reason && of == cause);
            if !known {
                checked.reported = Some((reason, cause.to_owned()));
            }
            checked.failing_since.get_or_insert_with(Instant::now);
            known
        };
        if !known {
            tracing::warn!(check = self.name, reason = refusal.reason.as_str(), error = %refusal, "a check fails");
        }
    }

    /// It cannot be had here.
    fn absent(&self, why: &str) {
        let next = CheckState::Absent(why.to_owned());
        if self.set(next.clone()).as_ref() != Some(&next) {
            tracing::warn!(check = self.name, why, "a part is absent; the host continues without it");
        }
    }
}

impl From<CheckSlot> for Check {
    fn from(slot: CheckSlot) -> Self {
        Self::new(slot)
    }
}

#[cfg(test)]
mod tests;
