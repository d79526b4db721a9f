//! When policies that were found gone are believed to be gone (decision S8).
//!
//! Owns that time: their watch lists again when none was found gone for a while, and what that list does not show either is gone.
//! What nodes do until then is decided by [`Policies`](topoloom_sync::policy::in_force::Policies).
//!
//! # Failure story
//!
//! Where the definition of policies is deleted, the API server removes all policies first and says some seconds later that there is
//! no such kind. By then the list that would confirm it is still to come, and it fails. A definition that is there again without
//! policies was probably deleted by mistake: the list waits as long then as a node does that leaves its policy for none. A process that
//! begins in between knows of no policy that was there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::feeds::SharedView;
use crate::ledger::Touched;
use crate::view::View;

/// The policies of one watch that were found gone.
pub struct GonePolicies {
    view: SharedView,
    /// How long an empty list has to stay empty (`spec.timing.empty`).
    empty: watch::Receiver<Duration>,
    found: Notify,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How often a policy had been found gone at the last look.
    doubts: u64,
    /// The next list confirms so many.
    confirms: Option<u64>,
    /// Their definition was missing since one was found gone.
    was_missing: bool,
}

impl GonePolicies {
    /// Those of a view.
    #[must_use]
    pub fn new(view: &SharedView, empty: watch::Receiver<Duration>) -> Self {
        Self { view: Arc::clone(view), empty, found: Notify::new(), state: Mutex::default() }
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The watch showed a change.
    pub fn changed(&self) {
        let doubts = self.view().policies.doubts();
        if std::mem::replace(&mut self.state().doubts, doubts) != doubts {
            self.found.notify_one();
        }
    }

    /// A list is whole. Returns the nodes that have to be looked at because it confirms that policies are gone.
    pub fn listed(&self) -> Touched {
        let mut state = self.state();
        let mut view = self.view();
        let touched = state.confirms.take().map(|doubts| view.policies_believed(doubts)).unwrap_or_default();
        state.doubts = view.policies.doubts();
        if view.policies.is_in_doubt() {
            self.found.notify_one();
        } else {
            state.was_missing = false;
        }
        touched
    }

    /// The definition of policies is missing.
    pub fn missing(&self) {
        let mut state = self.state();
        (state.was_missing, state.confirms) = (true, None);
    }

    /// Ends when policies were found gone and no other one was for a while: then they are listed again.
    pub async fn settled(&self) {
        self.found.notified().await;
        loop {
            let time = self.time();
            let is_over = timeout(time, self.found.notified()).await.is_err();
            // Their definition may be missing since then.
            if is_over && self.time() <= time {
                break;
            }
        }
        let doubts = self.view().policies.doubts();
        self.state().confirms = Some(doubts);
    }

    fn time(&self) -> Duration {
        let empty = *self.empty.borrow();
        if self.state().was_missing { self.view().binding.grow.max(empty) } else { empty }
    }
}

impl std::fmt::Debug for GonePolicies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("GonePolicies").field(&self.state()).finish()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use topoloom_sync::policy::announced::Announced;
    use topoloom_sync::policy::object::{Policy, PolicyObject};
    use topoloom_sync::policy::spec::PolicySpec;

    use super::*;
    use crate::view::examples;

    const EMPTY: Duration = Duration::from_secs(30);

    fn policy(name: &str) -> Policy {
        Policy::new(PolicyObject {
            name: name.to_owned(),
            uid: name.into(),
            generation: 1,
            created: None,
            deleting: false,
            spec: PolicySpec { cluster: "east".to_owned(), ..PolicySpec::default() },
            unreadable: None,
            last_valid: None,
            announced: Announced::default(),
        })
    }

    struct Watched {
        view: SharedView,
        gone: GonePolicies,
        _empty: watch::Sender<Duration>,
    }

    /// The watch of two policies.
    fn watched() -> Watched {
        let view: SharedView = Arc::new(Mutex::new(examples::view(1)));
        let (sender, empty) = watch::channel(EMPTY);
        let gone = GonePolicies::new(&view, empty);
        let watched = Watched { view, gone, _empty: sender };
        watched.lists(&["a", "b"]);
        watched
    }

    impl Watched {
        fn lists(&self, names: &[&str]) -> usize {
            self.gone.view().policies_listed(names.iter().map(|name| policy(name)).collect());
            self.gone.listed().len()
        }

        fn goes(&self, name: &str) {
            self.view.lock().unwrap().policy_gone(name);
            self.gone.changed();
        }

        fn is_in_doubt(&self) -> bool {
            self.view.lock().unwrap().policies.is_in_doubt()
        }
    }

    /// Whether it settles within this time, and not before.
    async fn settles_after(gone: &GonePolicies, time: Duration) -> bool {
        let mut settled = Box::pin(gone.settled());
        let second = Duration::from_secs(1);
        let is_early = timeout(time.saturating_sub(second), &mut settled).await.is_ok();
        !is_early && timeout(2 * second, settled).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn s8_a_policy_that_is_gone_is_listed_for_half_a_minute_after_the_last_one_and_then_believed_to_be_gone() {
        let watched = watched();
        assert!(watched.gone.settled().now_or_never().is_none(), "none is gone");
        watched.goes("a");
        let mut settled = Box::pin(watched.gone.settled());
        assert!(timeout(EMPTY / 2, &mut settled).await.is_err());
        watched.goes("b");
        // A change of another object is none.
        assert!(timeout(EMPTY / 2, &mut settled).await.is_err());
        watched.gone.changed();
        assert!(timeout(EMPTY * 2 / 3, settled).await.is_ok());
        assert!(watched.is_in_doubt());
        assert_eq!((watched.lists(&[]), watched.is_in_doubt()), (1, false));
        assert!(watched.gone.settled().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn s8_a_list_that_shows_others_gone_confirms_nothing() {
        let watched = watched();
        watched.goes("a");
        assert!(settles_after(&watched.gone, EMPTY).await);
        assert_eq!((watched.lists(&[]), watched.is_in_doubt()), (0, true));
        assert!(settles_after(&watched.gone, EMPTY).await);
        assert_eq!((watched.lists(&[]), watched.is_in_doubt()), (1, false));
    }

    #[tokio::test(start_paused = true)]
    async fn s8_a_definition_that_comes_again_without_policies_is_believed_as_late_as_a_node_grows_that_has_none() {
        let watched = watched();
        watched.goes("a");
        watched.goes("b");
        // Before it is listed again it is missing.
        watched.view.lock().unwrap().policies_lost();
        watched.gone.missing();
        assert_eq!((watched.lists(&[]), watched.is_in_doubt()), (0, true));
        let grow = watched.view.lock().unwrap().binding.grow;
        assert!(grow > EMPTY && settles_after(&watched.gone, grow).await);
        assert_eq!((watched.lists(&[]), watched.is_in_doubt()), (1, false));
        // One that is missing while policies are doubted waits from then on.
        watched.lists(&["c"]);
        watched.goes("c");
        let mut settled = Box::pin(watched.gone.settled());
        assert!(timeout(EMPTY / 2, &mut settled).await.is_err());
        watched.gone.missing();
        assert!(timeout(grow, &mut settled).await.is_err());
        assert!(timeout(EMPTY, settled).await.is_ok());
        assert_eq!((watched.lists(&[]), watched.is_in_doubt()), (1, false));
        // The next one is an ordinary one.
        watched.lists(&["c"]);
        watched.goes("c");
        assert!(settles_after(&watched.gone, EMPTY).await);
    }
}
