use std::sync::Mutex;

use futures::FutureExt;
use futures::future::BoxFuture;
use topoloom_core::queue::{Requeue, RequeueDecision};

use super::*;
use crate::manager::election::staged::Staged;
use crate::manager::lending::{BindingGroups, BottomupSyncerController, HeldBinding};

fn runs() -> Initialized {
    Initialized::Runs(Box::new(|stop| {
        async move {
            stop.cancelled().await;
            Ok(())
        }
        .boxed()
    }))
}

/// One that runs, one that cannot, and one behind it.
fn three() -> Vec<Box<dyn Controller>> {
    vec![
        fake("a", |_| Ok(runs())),
        fake("b", |_| Err(InitError("there is no engine".into()))),
        fake("c", |_| Ok(runs())),
    ]
}

#[tokio::test]
async fn r2_controllers_are_initialised_in_the_order_of_their_names() {
    let order: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let controllers = ["c", "a", "b"].map(|name| {
        let order = Arc::clone(&order);
        fake(name, move |_| {
            order.lock().unwrap().push(name);
            Ok(runs())
        })
    });
    let ready = Process::new(options()).await.initialise(controllers.into()).unwrap();
    assert_eq!(*order.lock().unwrap(), ["a", "b", "c"]);
    let ready: Vec<_> = ready.iter().map(|ready| ready.name).collect();
    assert_eq!(ready, ["a", "b", "c"]);
}

#[tokio::test]
async fn r3_a_controller_that_cannot_be_initialised_ends_the_process() {
    let error = Process::new(options()).await.initialise(three()).err().expect("it is fatal");
    assert!(matches!(error, Error::Initialise { name: "b", .. }), "{error:?}");
    let said = error.to_string();
    for words in ["controller b cannot be initialised: there is no engine", "*,-b", "--tolerate-controller-failures"] {
        assert!(said.contains(words), "{words} in {said}");
    }
}

#[tokio::test]
async fn r3_where_failures_are_tolerated_the_others_run_and_the_one_is_named() {
    let options = Options { on_init_failure: OnInitFailure::Tolerate, ..options() };
    let mut process = Process::new(options).await;
    let ready = process.initialise(three()).unwrap();
    let ready: Vec<_> = ready.iter().map(|ready| ready.name).collect();
    assert_eq!(ready, ["a", "c"]);
    assert_eq!(process.says("b"), (true, "[!] controller b failed: there is no engine".into()));
    assert_eq!(process.says("a").1, "[+] controller a runs");
    let metrics = process.exposition();
    for (name, state) in [("a", "running"), ("b", "failed"), ("c", "running")] {
        let line = format!("topoloom_controllers{{controller=\"{name}\",state=\"{state}\"}} 1");
        assert!(metrics.lines().any(|found| found == line), "{line} in\n{metrics}");
    }
}

#[tokio::test]
async fn r3_a_lease_is_left_to_others_where_no_controller_of_its_group_runs() {
    let options = Options { on_init_failure: OnInitFailure::Tolerate, ..options() };
    let mut process = Process::new(options).await;
    let staged = [LeaseGroup::HyperNode, LeaseGroup::NodeLock].map(|group| Staged::new(group, Duration::ZERO));
    let elections = staged.each_ref().map(|staged| staged.election.clone());
    // One works for its group, and one failed.
    let mut ready = process.initialise(three()).unwrap();
    ready.iter_mut().for_each(|ready| ready.group = Some(LeaseGroup::HyperNode));
    let (needed, idle) = by_need(&elections, &ready);
    let groups = |elections: &[Election]| elections.iter().filter_map(Election::controllers).collect::<Vec<_>>();
    assert_eq!((groups(&needed), groups(&idle)), (vec![LeaseGroup::HyperNode], vec![LeaseGroup::NodeLock]));
}

#[tokio::test]
async fn m1_a_controller_that_waits_or_is_switched_off_is_named_and_does_not_run() {
    let controllers = Selection::parse(["*,-off"], &["off", "waits"]).unwrap().selection;
    let mut process = Process::new(Options { controllers, ..options() }).await;
    let ready = process.initialise(vec![
        fake("off", |_| panic!("it is switched off")),
        fake("waits", |_| Ok(Initialized::Waits("its CRD is not there".into()))),
    ]);
    assert!(ready.unwrap().is_empty());
    assert_eq!(process.says("off"), (true, "[-] controller off disabled".into()));
    assert_eq!(process.says("waits").1, "[-] controller waits waiting: its CRD is not there");
    assert_eq!(process.says("extender").1, "[-] controller extender waiting: it is not part of this version");
}

#[test]
fn b12_queues_try_again_as_often_as_the_flag_says() {
    for (flag, last, decision) in [
        (-1, u32::MAX, RequeueDecision::Again),
        (0, 0, RequeueDecision::Drop),
        (15, 14, RequeueDecision::Again),
        (15, 15, RequeueDecision::Drop),
    ] {
        let options = Options { requeue: Requeue::of_flag(flag.into()), ..options() };
        let queues = queues(&options, work::Metrics::default());
        assert_eq!(queues.requeue.decide(last), decision, "{flag}");
    }
}

/// Groups that do nothing.
struct Idle;

impl BindingGroups for Idle {
    fn start_group(&self, _: HeldBinding, stop: CancellationToken) -> BoxFuture<'static, Result<(), String>> {
        async move {
            stop.cancelled().await;
            Ok(())
        }
        .boxed()
    }
}

fn syncer() -> Box<dyn Controller> {
    let make = |_: &mut Context<'_>| Ok(Arc::new(Idle) as Arc<dyn BindingGroups>);
    Box::new(BottomupSyncerController::new(Box::new(make)))
}

#[tokio::test]
async fn s11_the_syncer_runs_on_every_replica_and_its_groups_come_and_go() {
    let mut registry = Registry::default();
    for controller in [syncer(), fake("a", |_| Ok(runs()))] {
        registry.register(controller).unwrap();
    }
    let without = Selection::parse(["*,-bottomup-syncer"], &OURS).unwrap().selection;
    assert_eq!(registry.lifetimes(&Selection::all()), Lifetimes::ComeAndGo);
    assert_eq!(registry.lifetimes(&without), Lifetimes::Fixed);

    let mut process = Process::new(options()).await;
    process.groups = Some(Arc::new(GroupElections::off("me".into(), &process.switch)));
    let mut ready = process.initialise(vec![syncer()]).unwrap();
    let Some(Ready { name, group, run, .. }) = ready.pop() else { panic!("it runs") };
    assert_eq!((name, group), ("bottomup-syncer", None));
    // It stops although its API server never answers.
    let stop = CancellationToken::new();
    stop.cancel();
    run(stop).await.unwrap();
}

#[tokio::test]
async fn r3_a_syncer_without_elections_is_a_defect_and_ends_the_process() {
    let error = Process::new(options()).await.initialise(vec![syncer()]).err().expect("it is fatal");
    assert!(matches!(error, Error::Initialise { name: "bottomup-syncer", .. }), "{error:?}");
}

#[tokio::test]
async fn s11_a_syncer_alone_is_not_ready_before_it_has_read_its_bindings_and_one_beside_others_is() {
    for (controllers, is_ready) in [("*", true), ("bottomup-syncer,extender", true), ("bottomup-syncer", false)] {
        let controllers = Selection::parse([controllers], &OURS).unwrap().selection;
        let mut process = Process::new(Options { controllers, ..options() }).await;
        process.groups = Some(Arc::new(GroupElections::off("me".into(), &process.switch)));
        process.initialise(vec![syncer()]).unwrap();
        assert_eq!(process.says("bottomup-syncer"), (is_ready, "[+] controller bottomup-syncer runs".into()));
    }
}
