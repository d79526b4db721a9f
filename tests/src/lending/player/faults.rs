//! What a test orders a player to do wrong.

use std::time::Duration;

use super::steps::Step;

/// Which pods an order is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// All of them.
    All,
    /// One virtual pod.
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

impl Scope {
    /// One virtual pod.
    #[must_use]
    pub fn pod(namespace: &str, name: &str) -> Self {
        Self::Pod { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Whether the order is about this pod.
    fn has(&self, pod: (&str, &str)) -> bool {
        match self {
            Self::All => true,
            Self::Pod { namespace, name } => (namespace.as_str(), name.as_str()) == pod,
        }
    }
}

/// What goes wrong. All of it lasts until it is healed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Every step is made this much later.
    Late(Duration),
    /// Before this step the player dies: it makes neither that nor any other step, and forgets everything that no object
    /// holds. For [`Scope::All`] it dies for all pods when the first is there.
    Dies {
        /// The step that is not made any more.
        before: Step,
    },
    /// This step is never made; all others are.
    Forgets(Step),
}

/// Whether a step is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Made,
    /// After this time.
    Later(Duration),
    Never,
}

/// The faults in force.
#[derive(Debug, Default)]
pub(super) struct Faults {
    orders: Vec<(Scope, Fault)>,
    dead: Vec<Scope>,
    forgot: bool,
}

impl Faults {
    pub(super) fn add(&mut self, scope: Scope, fault: Fault) {
        self.orders.push((scope, fault));
    }

    /// Ends the faults that were ordered for exactly this scope; [`Scope::All`] ends every one. A player that was dead
    /// remembers nothing.
    pub(super) fn heal(&mut self, scope: &Scope) {
        let stays = |other: &Scope| *scope != Scope::All && other != scope;
        self.orders.retain(|(other, _)| stays(other));
        let dead = self.dead.len();
        self.dead.retain(stays);
        self.forgot |= self.dead.len() < dead;
    }

    /// Whether a player was dead since the last call.
    pub(super) fn take_forgot(&mut self) -> bool {
        std::mem::take(&mut self.forgot)
    }

    /// Judges a step of a pod, which may kill the player.
    pub(super) fn judge(&mut self, pod: (&str, &str), step: Step) -> Verdict {
        if self.dead.iter().any(|scope| scope.has(pod)) {
            return Verdict::Never;
        }
        let mut verdict = Verdict::Made;
        for (scope, fault) in self.orders.iter().filter(|(scope, _)| scope.has(pod)) {
            match *fault {
                Fault::Dies { before } if before == step => {
                    self.dead.push(scope.clone());
                    return Verdict::Never;
                }
                Fault::Forgets(forgotten) if forgotten == step => return Verdict::Never,
                Fault::Late(time) => verdict = Verdict::Later(time),
                Fault::Dies { .. } | Fault::Forgets(_) => {}
            }
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: (&str, &str) = ("shop", "a");
    const B: (&str, &str) = ("shop", "b");

    fn faults(orders: &[(Scope, Fault)]) -> Faults {
        let mut faults = Faults::default();
        orders.iter().for_each(|(scope, fault)| faults.add(scope.clone(), *fault));
        faults
    }

    #[test]
    fn a_player_that_died_makes_no_step_until_it_is_healed() {
        let mut faults = faults(&[(Scope::pod("shop", "a"), Fault::Dies { before: Step::WriteUid })]);
        assert_eq!(faults.judge(A, Step::Create), Verdict::Made);
        assert_eq!(faults.judge(A, Step::WriteUid), Verdict::Never);
        assert_eq!(faults.judge(A, Step::DeletePhysical), Verdict::Never);
        assert_eq!(faults.judge(B, Step::WriteUid), Verdict::Made);
        faults.heal(&Scope::pod("shop", "b"));
        assert_eq!(faults.judge(A, Step::Remove), Verdict::Never);
        assert!(!faults.take_forgot());
        faults.heal(&Scope::pod("shop", "a"));
        assert_eq!(faults.judge(A, Step::WriteUid), Verdict::Made);
        assert!(faults.take_forgot() && !faults.take_forgot());
    }

    #[test]
    fn it_can_die_for_all() {
        let mut faults = faults(&[(Scope::All, Fault::Dies { before: Step::Create })]);
        assert_eq!(faults.judge(B, Step::WriteNames), Verdict::Made);
        assert_eq!(faults.judge(A, Step::Create), Verdict::Never);
        assert_eq!(faults.judge(B, Step::WriteNames), Verdict::Never);
        faults.heal(&Scope::All);
        assert_eq!(faults.judge(B, Step::WriteNames), Verdict::Made);
    }

    #[test]
    fn a_forgotten_step_is_the_only_one() {
        let mut faults = faults(&[(Scope::All, Fault::Forgets(Step::WriteUid))]);
        assert_eq!(faults.judge(A, Step::WriteUid), Verdict::Never);
        assert_eq!(faults.judge(A, Step::DeletePhysical), Verdict::Made);
    }

    #[test]
    fn a_late_player_makes_every_step_later() {
        let late = Duration::from_secs(3);
        let mut faults = faults(&[(Scope::pod("shop", "a"), Fault::Late(late))]);
        assert_eq!(faults.judge(A, Step::Create), Verdict::Later(late));
        assert_eq!(faults.judge(B, Step::Create), Verdict::Made);
    }
}
