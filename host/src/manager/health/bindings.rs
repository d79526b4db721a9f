//! What `/readyz` shows of the bindings that this replica stands for. What is wrong with one makes no replica unready (decision
//! S11), and why its lease cannot be had is one line in the log for each cause, whichever bindings it holds for. A process that
//! serves nothing else is not ready where the rules never allowed it the lease of any.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use topoloom_core::text;

use super::{CheckSlot, Health, Inner};
use crate::cluster::{Check, Judge, Refusal, RefusalReason};
use crate::manager::election::{Election, Role};

/// So many bindings have a line; of more, the number is shown.
const LINES: usize = 100;
/// The longest text of trouble, in bytes.
const SHOWN: usize = 300;
/// The trouble with a lease.
const LEASE: &str = "lease";

/// One binding.
pub(super) struct ShownBinding {
    pub(super) election: Election,
    /// What is wrong with it, by the part that says so.
    troubles: BTreeMap<&'static str, String>,
    /// Why its lease cannot be had, as the log says.
    reported: Option<(RefusalReason, String)>,
    /// Whether it was refused for want of a right since it was had last.
    is_forbidden: bool,
    /// How often its group ended by itself.
    failures: u64,
}

impl ShownBinding {
    fn trouble(&mut self, part: &'static str, why: &str) {
        self.troubles.insert(part, text::line(why, SHOWN));
    }

    fn is_reported(&self, reason: RefusalReason, cause: &str) -> bool {
        self.reported.as_ref().is_some_and(|(reported, of)| *reported == reason && of == cause)
    }
}

impl Inner {
    /// Whether this replica could do its work, as far as rules are concerned.
    pub(super) fn may_serve_bindings(&self) -> bool {
        let is_forbidden = || self.bindings.values().any(|shown| shown.is_forbidden);
        !self.serves_only_bindings || self.had_lease_of_binding || !is_forbidden()
    }
}

impl Health {
    /// This process serves bindings and does nothing else: it is not ready while the rules do not allow it to. Adds the check
    /// of what this controller serves, which has not passed yet.
    #[must_use]
    pub fn check_of_bindings_alone(&self, name: &'static str, controller: &'static str) -> CheckSlot {
        self.lock().serves_only_bindings = true;
        CheckSlot { controller: Some(controller), ..self.check(name) }
    }

    /// This replica stands for a binding, by this election from now on.
    pub fn binding(&self, name: &Arc<str>, election: Election) {
        let mut inner = self.lock();
        if let Some(shown) = inner.bindings.get_mut(name) {
            shown.election = election;
            return;
        }
        let shown =
            ShownBinding { election, troubles: BTreeMap::new(), reported: None, is_forbidden: false, failures: 0 };
        inner.bindings.insert(Arc::clone(name), shown);
    }

    /// What is wrong with a binding, as a part of it sees it: that its cluster does not answer, that it is held, or wrong.
    pub fn binding_trouble(&self, name: &str, part: &'static str, why: Option<&str>) {
        let mut inner = self.lock();
        let Some(shown) = inner.bindings.get_mut(name) else { return };
        match why {
            Some(why) => shown.trouble(part, why),
            None => drop(shown.troubles.remove(part)),
        }
    }

    /// The group of a binding ended by itself on this replica.
    pub fn binding_failed(&self, name: &str) {
        if let Some(shown) = self.lock().bindings.get_mut(name) {
            shown.failures = shown.failures.saturating_add(1);
        }
    }

    /// This replica does not run the group of a binding, or no longer does: what was wrong with it is another's to say.
    pub fn binding_follows(&self, name: &str) {
        if let Some(shown) = self.lock().bindings.get_mut(name) {
            shown.troubles.retain(|part, _| *part == LEASE);
        }
    }

    /// This replica does not stand for it any more.
    pub fn binding_gone(&self, name: &str) {
        self.lock().bindings.remove(name);
    }

    /// The elections of all bindings.
    #[must_use]
    pub fn bindings(&self) -> BTreeMap<Arc<str>, Election> {
        let inner = self.lock();
        inner.bindings.iter().map(|(name, shown)| (Arc::clone(name), shown.election.clone())).collect()
    }

    /// Whether the lease of a binding can be read and written.
    #[must_use]
    pub fn binding_lease(&self, name: &Arc<str>) -> Check {
        Check::new(LeaseOfBinding { health: self.clone(), name: Arc::clone(name) })
    }
}

/// How often the group of each binding failed, as a metric: one series for each binding that this replica stands for, which are
/// bounded, from zero on. A binding that fails on every replica has no other series.
#[derive(Clone)]
pub(super) struct GroupFailures(pub(super) Health);

impl fmt::Debug for GroupFailures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collector")
    }
}

impl Collector for GroupFailures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let failures: Vec<(Arc<str>, u64)> = {
            let inner = self.0.lock();
            inner.bindings.iter().map(|(name, shown)| (Arc::clone(name), shown.failures)).collect()
        };
        if failures.is_empty() {
            return Ok(());
        }
        let help =
            "How often the group of a binding ended by itself on this replica, since it first stood for its lease";
        let mut family = encoder.encode_descriptor("binding_group_failures", help, None, MetricType::Counter)?;
        for (name, count) in failures {
            ConstCounter::new(count).encode(family.encode_family(&[("binding", &*name)])?)?;
        }
        Ok(())
    }
}

/// Judges the requests for the lease of a binding.
struct LeaseOfBinding {
    health: Health,
    name: Arc<str>,
}

impl Judge for LeaseOfBinding {
    fn pass(&self) {
        let mut inner = self.health.lock();
        inner.had_lease_of_binding = true;
        if let Some(shown) = inner.bindings.get_mut(&self.name) {
            shown.troubles.remove(LEASE);
            shown.reported = None;
            shown.is_forbidden = false;
        }
    }

    fn fail(&self, refusal: &Refusal) {
        let (reason, cause) = refusal.cause();
        let is_known = {
            let mut inner = self.health.lock();
            let is_known = inner.bindings.values().any(|shown| shown.is_reported(reason, cause));
            let Some(shown) = inner.bindings.get_mut(&self.name) else { return };
            shown.trouble(LEASE, &format!("its lease: {refusal}"));
            if !shown.is_reported(reason, cause) {
                shown.reported = Some((reason, cause.to_owned()));
            }
            // Another failure after it does not say that the right is there.
            shown.is_forbidden |= reason == RefusalReason::Forbidden;
            is_known
        };
        if !is_known {
            tracing::warn!(
                binding = &*self.name, reason = reason.as_str(), error = %refusal,
                "the lease of a binding cannot be read or written"
            );
        }
    }

    fn absent(&self, why: &str) {
        self.health.binding_trouble(&self.name, LEASE, Some(why));
    }
}

/// One line for each binding.
pub(super) fn show(bindings: &BTreeMap<Arc<str>, ShownBinding>, lines: &mut String) {
    for (name, shown) in bindings.iter().take(LINES) {
        let (mark, role) = match shown.election.role() {
            Role::Unknown => ("[ ]", "the lease has not been read yet".to_owned()),
            Role::Follower(holder) if holder.is_empty() => ("[+]", "no replica leads".to_owned()),
            Role::Follower(holder) => ("[+]", format!("follows {holder}")),
            Role::Leader => ("[+]", "leads".to_owned()),
            Role::Lost(lost) => (
                "[!]",
                format!("the lease is lost: {lost}; this replica tries to get it again one lease duration later"),
            ),
        };
        let mark = if shown.troubles.is_empty() { mark } else { "[!]" };
        let troubles: String = shown.troubles.values().map(|trouble| format!("; {trouble}")).collect();
        lines.push_str(&format!("{mark} binding {name}: {role}{troubles}\n"));
    }
    let more = bindings.len().saturating_sub(LINES);
    if more > 0 {
        lines.push_str(&format!("[-] and {more} more bindings\n"));
    }
}
