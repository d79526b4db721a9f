//! The rules in force, and which of them a request or a connection meets.

use super::{Fault, FaultRule};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The rules of one server.
#[derive(Debug, Default)]
pub(crate) struct Board(Mutex<Vec<FaultRule>>);

impl Board {
    pub(crate) fn new(rules: Vec<FaultRule>) -> Self {
        Self(Mutex::new(rules))
    }

    /// Puts these rules in place of all others and answers the others.
    pub(crate) fn replace(&self, rules: Vec<FaultRule>) -> Vec<FaultRule> {
        std::mem::replace(&mut *self.rules(), rules)
    }

    /// The rules in force; a rule that counts shows how often it will still act.
    pub(crate) fn active(&self) -> Vec<FaultRule> {
        self.rules().clone()
    }

    /// The fault that this request meets: the first rule whose path fits. Counts it. `local` is the path behind the
    /// prefix of the API.
    pub(crate) fn of_request(&self, path: &str, local: &str, usual: &str) -> Option<Fault> {
        self.take(|rule| !rule.fault.is_of_connections() && rule.fits(path, local, usual))
    }

    /// The fault that this connection meets. Counts it.
    pub(crate) fn of_connection(&self) -> Option<Fault> {
        self.take(|rule| rule.fault.is_of_connections())
    }

    fn take(&self, fits: impl Fn(&FaultRule) -> bool) -> Option<Fault> {
        let mut rules = self.rules();
        let (place, rule) = rules.iter_mut().enumerate().find(|(_, rule)| fits(rule))?;
        let fault = rule.fault.clone();
        rule.times = rule.times.map(|left| left.saturating_sub(1));
        if rule.times == Some(0) {
            rules.remove(place);
        }
        Some(fault)
    }

    fn rules(&self) -> MutexGuard<'_, Vec<FaultRule>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counted_rule_ends_by_itself_and_the_next_one_follows() {
        let board = Board::new(vec![FaultRule::new(Fault::Html).times(2), FaultRule::new(Fault::EmptyList)]);
        let met = || board.of_request("/ufmRest/resources/ports", "/resources/ports", "/resources/");
        assert_eq!([met(), met(), met()], [Some(Fault::Html), Some(Fault::Html), Some(Fault::EmptyList)]);
    }

    #[test]
    fn a_rule_acts_on_its_paths_only() {
        let board = Board::new(vec![FaultRule::new(Fault::Html), FaultRule::new(Fault::Reset).at("/app/versioning")]);
        let met = |path| board.of_request(path, path, "/resources/");
        assert_eq!([met("/app/ufm_version"), met("/app/versioning")], [None, Some(Fault::Reset)]);
        assert_eq!(board.of_connection(), None);
    }

    #[test]
    fn the_whole_path_is_understood_as_well_as_the_one_behind_the_prefix() {
        let acts = |at: &str, prefix: &str| {
            let board = Board::new(vec![FaultRule::new(Fault::Html).at(at)]);
            board.of_request(&format!("{prefix}/resources/ports"), "/resources/ports", "/resources/").is_some()
        };
        for prefix in ["/ufmRest", "/ufmRestV3", "/site-a/ufm"] {
            assert!(acts("/resources/ports", prefix) && acts(&format!("{prefix}/resources/po"), prefix), "{prefix}");
            assert!(
                !acts("/resources/links", prefix) && !acts(&format!("{prefix}/resources/links"), prefix),
                "{prefix}"
            );
        }
        assert!(!acts("/ufmRestV3/resources/ports", "/ufmRest"));
    }
}
