//! What ends the controllers, in which order they stop, and how long that takes. Time is paused except where a test
//! waits for it.

use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;

use super::*;
use crate::manager::election::Role;
use crate::manager::election::staged::Staged;
use crate::manager::options::LeaseOptions;
use crate::manager::tests::options;

const S: Duration = Duration::from_secs(1);

/// What happened, in order, and when.
#[derive(Clone)]
struct Story {
    begun: Instant,
    told: Arc<Mutex<Vec<(String, Duration)>>>,
}

impl Story {
    fn new() -> Self {
        Self { begun: Instant::now(), told: Arc::default() }
    }

    fn tell(&self, what: String) {
        self.told.lock().unwrap().push((what, self.begun.elapsed()));
    }

    fn told(&self) -> Vec<(String, Duration)> {
        self.told.lock().unwrap().clone()
    }

    /// Controllers by name, each of which needs so much time to stop.
    fn controllers<const N: usize>(&self, all: [(&'static str, Duration); N]) -> Vec<Ready> {
        all.map(|(name, time)| self.controller(name, time)).into()
    }

    fn controller(&self, name: &'static str, time: Duration) -> Ready {
        let story = self.clone();
        ready(name, move |stop| {
            async move {
                stop.cancelled().await;
                story.tell(format!("{name} hears"));
                tokio::time::sleep(time).await;
                story.tell(format!("{name} ends"));
                Ok(())
            }
            .boxed()
        })
    }
}

fn ready(
    name: &'static str,
    run: impl FnOnce(CancellationToken) -> BoxFuture<'static, Result<(), String>> + Send + 'static,
) -> Ready {
    Ready {
        name,
        group: Some(LeaseGroup::HyperNode),
        lifetimes: Lifetimes::Fixed,
        configuration: Configuration::Unused,
        run: Box::new(run),
    }
}

/// Longer than anything here.
const NEVER: Duration = Duration::from_secs(1_000_000);

fn at(what: &str, seconds: u32) -> (String, Duration) {
    (what.to_owned(), seconds * S)
}

/// Runs them when the end was already requested.
async fn stopped(ready: Vec<Ready>, drain: Duration) -> Result<(), Error> {
    let stop = CancellationToken::new();
    stop.cancel();
    let options = Options { drain, ..options() };
    RunningControllers::start(ready).until(&stop, &[], &mut Tasks::default(), &options).await
}

#[tokio::test(start_paused = true)]
async fn r2_controllers_stop_in_the_reverse_order_each_when_the_one_before_is_done() {
    let story = Story::new();
    let controllers = story.controllers([("b", 2 * S), ("c", 3 * S), ("a", S)]);
    stopped(controllers, 30 * S).await.unwrap();
    assert_eq!(
        story.told(),
        [at("c hears", 0), at("c ends", 3), at("b hears", 3), at("b ends", 5), at("a hears", 5), at("a ends", 6)]
    );
}

#[tokio::test(start_paused = true)]
async fn r4_a_stop_that_was_asked_for_is_no_error_and_the_work_under_way_is_finished() {
    let (story, stop) = (Story::new(), CancellationToken::new());
    let running = RunningControllers::start(story.controllers([("a", 29 * S)]));
    let (options, mut served) = (options(), Tasks::default());
    let mut until = std::pin::pin!(running.until(&stop, &[], &mut served, &options));
    assert!(timeout(3600 * S, &mut until).await.is_err(), "the end was not requested");
    stop.cancel();
    until.await.unwrap();
    assert_eq!(story.told(), [at("a hears", 3600), at("a ends", 3629)]);
}

#[tokio::test(start_paused = true)]
async fn r4_work_that_does_not_end_is_cut_off_at_the_end_of_the_drain_timeout() {
    let story = Story::new();
    stopped(story.controllers([("a", NEVER)]), 30 * S).await.unwrap();
    assert_eq!((story.told(), story.begun.elapsed()), (vec![at("a hears", 0)], 30 * S));
}

#[tokio::test(start_paused = true)]
async fn r4_a_controller_that_hangs_takes_no_time_from_the_others() {
    let story = Story::new();
    let controllers = story.controllers([("a", S), ("b", S), ("c", NEVER)]);
    stopped(controllers, 30 * S).await.unwrap();
    // A third of the time for the first to stop, then the others in turn, and the rest for what hangs.
    assert_eq!(
        story.told(),
        [at("c hears", 0), at("b hears", 10), at("b ends", 11), at("a hears", 11), at("a ends", 12)]
    );
    assert_eq!(story.begun.elapsed(), 30 * S);
}

#[tokio::test(start_paused = true)]
async fn r4_a_controller_that_is_slow_goes_on_beside_the_others_until_it_is_done() {
    let story = Story::new();
    let controllers = story.controllers([("a", NEVER), ("b", 12 * S), ("c", 25 * S)]);
    stopped(controllers, 30 * S).await.unwrap();
    assert_eq!(
        story.told(),
        [at("c hears", 0), at("b hears", 10), at("a hears", 20), at("b ends", 22), at("c ends", 25)]
    );
    assert_eq!(story.begun.elapsed(), 30 * S);
}

/// Loses a lease of 15 s that has to be renewed within 10 s; says how long the work after it lasted.
async fn drained(drain: Duration, election: impl FnOnce(LeaseOptions) -> Elects) -> (Duration, String) {
    drained_beside(None, drain, election).await
}

/// The same, where a controller without a group runs beside the one that does not end.
async fn drained_beside(
    lifetimes: Option<Lifetimes>,
    drain: Duration,
    election: impl FnOnce(LeaseOptions) -> Elects,
) -> (Duration, String) {
    let (story, staged) = (Story::new(), Staged::new(LeaseGroup::HyperNode, S));
    let lease = LeaseOptions {
        namespace: "default".into(),
        name: "test".into(),
        duration: 15 * S,
        renew_deadline: 10 * S,
        retry_period: 2 * S,
    };
    let options = Options { drain, election: election(lease), ..options() };
    staged.becomes(Role::Lost(Lost::Taken("another".into())));
    let elections = [staged.election.clone()];
    let mut controllers = story.controllers([("a", NEVER)]);
    if let Some(lifetimes) = lifetimes {
        let stops = ready("b", |stop| {
            async move {
                stop.cancelled().await;
                Ok(())
            }
            .boxed()
        });
        controllers.push(Ready { group: None, lifetimes, ..stops });
    }
    let running = RunningControllers::start(controllers);
    let ended = running.until(&CancellationToken::new(), &elections, &mut Tasks::default(), &options).await;
    assert_eq!(story.told(), [at("a hears", 0)]);
    (story.begun.elapsed(), ended.unwrap_err().to_string())
}

#[tokio::test(start_paused = true)]
async fn r5_after_a_lost_lease_work_lasts_until_another_may_hold_it_and_never_beyond_the_drain_timeout() {
    let (time, said) = drained(30 * S, Elects::On).await;
    assert_eq!(time, 5 * S, "15 s of the lease without the 10 s of the deadline");
    assert!(said.starts_with("the lease of the group hypernode is lost: "), "{said}");
    assert!(said.contains("another"), "{said}");
    assert_eq!(drained(2 * S, Elects::On).await.0, 2 * S);
}

#[tokio::test(start_paused = true)]
async fn r5_a_controller_whose_groups_have_leases_of_their_own_does_not_lengthen_the_work_after_a_lost_lease() {
    let beside = async |lifetimes| drained_beside(Some(lifetimes), 30 * S, Elects::On).await.0;
    assert_eq!(beside(Lifetimes::ComeAndGo).await, 5 * S);
    assert_eq!(beside(Lifetimes::Fixed).await, 30 * S, "one without any lease finishes its work");
}

#[tokio::test(start_paused = true)]
async fn r5_a_lease_that_is_lost_while_controllers_run_stops_them() {
    let (story, staged) = (Story::new(), Staged::new(LeaseGroup::HyperNode, S));
    staged.becomes(Role::Leader);
    let (elections, stop, options) = ([staged.election.clone()], CancellationToken::new(), options());
    let (mut served, running) = (Tasks::default(), RunningControllers::start(story.controllers([("a", S), ("b", S)])));
    let mut until = std::pin::pin!(running.until(&stop, &elections, &mut served, &options));
    assert!(timeout(60 * S, &mut until).await.is_err(), "the lease is ours");
    staged.becomes(Role::Lost(Lost::Expired));
    let ended = until.await;
    assert!(matches!(ended, Err(Error::LeaseLost { group: "hypernode", .. })), "{ended:?}");
    assert_eq!(story.told(), [at("b hears", 60), at("b ends", 61), at("a hears", 61), at("a ends", 62)]);
}

/// What the process reports when this controller ends beside one that continues.
async fn ends(
    run: impl FnOnce(CancellationToken) -> BoxFuture<'static, Result<(), String>> + Send + 'static,
) -> String {
    let story = Story::new();
    let mut controllers = story.controllers([("goes-on", S)]);
    controllers.push(ready("ends-early", run));
    let running = RunningControllers::start(controllers);
    let ended = running.until(&CancellationToken::new(), &[], &mut Tasks::default(), &options()).await;
    assert_eq!(story.told(), [at("goes-on hears", 0), at("goes-on ends", 1)], "the others finish their work");
    let ended = ended.unwrap_err();
    assert!(matches!(ended, Error::Controller { name: "ends-early", .. }), "{ended:?}");
    ended.to_string()
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_ends_early_ends_the_process_with_its_name_and_its_words() {
    let said = ends(|_| async { Ok(()) }.boxed()).await;
    assert_eq!(said, "controller ends-early: it ended without an error");
    let said = ends(|_| async { Err("task nodes ended: no more".to_owned()) }.boxed()).await;
    assert_eq!(said, "controller ends-early: task nodes ended: no more");
    let said = ends(|_| async { panic!("at {}", 7) }.boxed()).await;
    assert_eq!(said, "controller ends-early: it panicked: at 7");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_early_ends_the_process_with_its_name() {
    let story = Story::new();
    let mut served = Tasks::default();
    served.spawn("admin server", std::future::pending());
    served.spawn("metrics server", async {});
    let running = RunningControllers::start(story.controllers([("a", S)]));
    let ended = running.until(&CancellationToken::new(), &[], &mut served, &options()).await.unwrap_err();
    assert!(matches!(ended, Error::Task(_)), "{ended:?}");
    assert_eq!(ended.to_string(), "task metrics server ended without an error");
    assert_eq!(story.told(), [at("a hears", 0), at("a ends", 1)]);
}

#[tokio::test(start_paused = true)]
async fn s11_a_lost_lease_of_a_binding_ends_no_process() {
    let (story, staged, stop) = (Story::new(), Staged::binding("east", S), CancellationToken::new());
    staged.becomes(Role::Lost(Lost::Expired));
    let (elections, options, mut served) = ([staged.election.clone()], options(), Tasks::default());
    let running = RunningControllers::start(story.controllers([("a", S)]));
    let mut until = std::pin::pin!(running.until(&stop, &elections, &mut served, &options));
    assert!(timeout(3600 * S, &mut until).await.is_err(), "{:?}", story.told());
    stop.cancel();
    until.await.unwrap();
    assert_eq!(story.told(), [at("a hears", 3600), at("a ends", 3601)]);
}
