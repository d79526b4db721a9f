//! What works and what does not, for `/readyz`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::cluster::Refusal;

/// A failure that was not repeated for this long is over.
const FORGOTTEN: Duration = Duration::from_secs(90);

/// All checks of the process by name.
#[derive(Clone, Default)]
pub struct Health {
    checks: Arc<Mutex<BTreeMap<&'static str, State>>>,
}

/// How one check stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Not there yet: the process is not ready.
    Starting(String),
    /// As it should be.
    Passing,
    /// It worked before and does not now; what is in force stays in force, so the process stays ready.
    Failing(String, Instant),
    /// It cannot be had here and the process works without it.
    Absent(String),
}

/// The handle of whoever is checked.
#[derive(Clone)]
pub struct Check {
    name: &'static str,
    health: Health,
}

impl Health {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, State>> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a check that has not passed yet.
    #[must_use]
    pub fn check(&self, name: &'static str) -> Check {
        self.lock().insert(name, State::Starting("waiting".into()));
        Check { name, health: self.clone() }
    }

    /// Adds a check that readiness does not wait for.
    #[must_use]
    pub fn optional(&self, name: &'static str) -> Check {
        self.lock().insert(name, State::Absent("not needed so far".into()));
        Check { name, health: self.clone() }
    }

    /// Whether everything passed at least once, and one line per check.
    #[must_use]
    pub fn report(&self) -> (bool, String) {
        let checks = self.lock();
        let ready = checks.values().all(|state| !matches!(state, State::Starting(_)));
        let lines = checks.iter().map(|(name, state)| match state {
            State::Passing => format!("[+] {name} ok\n"),
            // What still fails says so again: a watch is opened anew at least every half minute, and one that came back
            // without news says nothing at all.
            State::Failing(why, since) if since.elapsed() < FORGOTTEN => format!("[!] {name} failing: {why}\n"),
            State::Failing(..) => format!("[+] {name} ok\n"),
            State::Absent(why) => format!("[-] {name} absent: {why}\n"),
            State::Starting(why) => format!("[ ] {name} starting: {why}\n"),
        });
        (ready, lines.collect())
    }
}

impl Check {
    /// It works. Says so once.
    pub fn pass(&self) {
        let old = self.health.lock().insert(self.name, State::Passing);
        match old {
            Some(State::Failing(..)) => tracing::info!(check = self.name, "works again"),
            Some(State::Passing) => {}
            _ => tracing::info!(check = self.name, "ready"),
        }
    }

    /// It does not work. The first of equal failures in a row is logged.
    pub fn fail(&self, refusal: &Refusal) {
        let mut checks = self.health.lock();
        let why = refusal.message.clone();
        let next = match checks.get(self.name) {
            Some(State::Passing | State::Failing(..) | State::Absent(_)) => State::Failing(why, Instant::now()),
            _ => State::Starting(why),
        };
        let known = match (checks.get(self.name), &next) {
            (Some(State::Failing(old, _)), State::Failing(new, _)) => old == new,
            (old, new) => old == Some(new),
        };
        checks.insert(self.name, next);
        if !known {
            tracing::warn!(check = self.name, reason = refusal.reason.as_str(), error = %refusal, "does not work");
        }
    }

    /// It cannot be had here.
    pub fn absent(&self, why: &str) {
        let next = State::Absent(why.to_owned());
        let old = self.health.lock().insert(self.name, next.clone());
        if old.as_ref() != Some(&next) {
            tracing::warn!(check = self.name, why, "absent; going on without it");
        }
    }
}
