//! Real watches and real followers at a staged API server; time is paused.

use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::time::Duration;

use futures::FutureExt;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use topoloom_cluster::gate::{Gate, ReadOnly, Switch};
use topoloom_cluster::work::WorkQueue;
use topoloom_core::queue::Limiter;
use topoloom_sync::liveness::{Contact, ContactTiming};

use super::staged::Server;
use super::*;
use crate::feeds::{Feed, OurPods as OurPodsOf, PhysicalNodes, PhysicalPods, SharedView, follow};
use crate::group::{Listing, Lists};
use crate::ledger::PodStock;
use crate::pods::{Inbox, PodKey};
use crate::slices::node::NodeSlice;
use crate::view::{Evidence, examples};

const MOMENT: Duration = Duration::from_millis(10);
const MINUTE: Duration = Duration::from_secs(60);

fn node(name: &str, pool: &str) -> Value {
    json!({
        "metadata": {"name": name, "uid": format!("u-{name}"), "labels": {"pool": pool}},
        "status": {"allocatable": {"cpu": "4"}},
    })
}

/// A pod on a node, of the virtual cluster or of others.
fn pod(name: &str, at: &str, virtual_cluster: Option<&str>) -> Value {
    let labels = virtual_cluster.map_or_else(|| json!({}), |cluster| json!({keys::VIRTUAL_CLUSTER: cluster}));
    json!({
        "metadata": {
            "namespace": "a", "name": name, "uid": format!("u-{name}"), "labels": labels,
        },
        "spec": {"nodeName": at, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running"},
    })
}

/// A server with one object of each kind.
fn server() -> Server {
    let server = Server::new();
    server.put("nodes", node("w1", "gpu"));
    server.put("pods", pod("ours", "w1", Some("vc-1")));
    server.put("pods", pod("theirs", "w1", Some("another")));
    server.put("csinodes", json!({"metadata": {"name": "w1", "uid": "c1"}, "spec": {"drivers": null}}));
    server.put("resourceleasingpolicies", json!({"metadata": {"name": "p", "uid": "p"}, "spec": {"cluster": "east"}}));
    server
}

/// What is watched of it, and the epoch of the connection.
fn watches(server: &Server, restores: &Restores) -> (PhysicalWatches, watch::Sender<Epoch>) {
    let epochs = watch::Sender::new(Epoch::default());
    let life = Life { heard: Heard::default(), epochs: epochs.subscribe() };
    (PhysicalWatches::new(&server.client(), restores, life, &"vc-1".into()), epochs)
}

fn nodes(server: &Server) -> SharedWatch<Machines> {
    watches(server, &Restores::default()).0.nodes
}

/// The next epoch of a connection.
fn second() -> Epoch {
    let mut contact = Contact::new(ContactTiming::default(), Duration::ZERO);
    contact.answered(Duration::from_secs(900));
    contact.epoch()
}

/// What a follower is shown until it has been shown nothing for this time, in words.
async fn seen_within<T>(follower: &mut Subscription<T>, time: Duration) -> Vec<String> {
    let mut seen = Vec::new();
    while let Ok(steps) = timeout(time, follower.next()).await {
        for step in steps {
            seen.push(match step {
                Step::Begins(list) => format!("begins {:?}", follower.begins(&list)),
                Step::Listed(shown) => format!("listed {}", shown.key),
                Step::Whole(..) => {
                    follower.took_list();
                    "whole".to_owned()
                }
                Step::Changed(shown) => format!("changed {}", shown.key),
                Step::Gone(shown) => format!("gone {}", shown.key),
                Step::Opened => "opened".to_owned(),
                Step::Failed(refusal) | Step::GivenUp(refusal) => {
                    follower.was_refused(&refusal);
                    format!("failed {:?}", refusal.reason)
                }
            });
        }
    }
    seen
}

async fn seen<T>(follower: &mut Subscription<T>) -> Vec<String> {
    seen_within(follower, MOMENT).await
}

/// Until the watches have lasted: one that ends as soon as it was opened is opened again after a pause.
async fn lasts() {
    tokio::time::sleep(MINUTE).await;
}

/// The last list that a follower was shown.
async fn listed<T>(follower: &mut Subscription<T>) -> ListMark {
    loop {
        for step in follower.next().await {
            if let Step::Whole(list, _) = step {
                return list;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s21_followers_of_one_connection_are_one_list_and_one_watch_of_each_kind() {
    let server = server();
    let (watches, _epochs) = watches(&server, &Restores::default());
    let epoch = Epoch::default();
    let (mut nodes, mut csi) =
        ([(); 3].map(|()| watches.nodes.subscribe(epoch)), [(); 3].map(|()| watches.csi_nodes.subscribe(epoch)));
    let (mut ours, mut others) =
        ([(); 3].map(|()| watches.our_pods.subscribe(epoch)), [(); 3].map(|()| watches.other_pods.subscribe(epoch)));
    let mut policies = [(); 3].map(|()| watches.policies.subscribe(epoch));
    for which in 0..3 {
        let list = |key: &str| ["begins Valid".to_owned(), format!("listed {key}"), "whole".to_owned()];
        assert_eq!(seen(&mut nodes[which]).await, list("w1"));
        assert_eq!(seen(&mut csi[which]).await, list("w1"));
        assert_eq!(seen(&mut ours[which]).await, list("u-ours"));
        assert_eq!(seen(&mut others[which]).await, list("u-theirs"));
        assert_eq!(seen(&mut policies[which]).await, list("p"));
    }
    let all = [
        "LIST csinodes",
        "LIST nodes",
        "LIST pods others",
        "LIST pods ours",
        "LIST resourceleasingpolicies",
        "WATCH csinodes",
        "WATCH nodes",
        "WATCH pods others",
        "WATCH pods ours",
        "WATCH resourceleasingpolicies",
    ];
    assert_eq!(server.asked(), all);
    assert_eq!(server.open(), 5);
}

#[tokio::test(start_paused = true)]
async fn s21_one_that_joins_late_gets_the_whole_state_as_a_list_and_asks_for_nothing() {
    let server = server();
    let nodes = nodes(&server);
    let mut first = nodes.subscribe(Epoch::default());
    seen(&mut first).await;
    server.put("nodes", node("w2", "gpu"));
    assert_eq!(seen(&mut first).await, ["changed w2"]);
    server.asked();
    let mut late = nodes.subscribe(Epoch::default());
    assert_eq!(seen(&mut late).await, ["begins Valid", "listed w1", "listed w2", "whole"]);
    server.remove("nodes", "w1");
    assert_eq!(
        (seen(&mut first).await, seen(&mut late).await),
        (vec!["gone w1".to_owned()], vec!["gone w1".to_owned()])
    );
    assert_eq!(server.asked(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn s21_a_watch_ends_with_its_last_follower_and_the_next_one_lists() {
    let server = server();
    let nodes = nodes(&server);
    assert_eq!((server.asked(), server.open()), (Vec::<String>::new(), 0), "there is no follower");
    let mut followers = [nodes.subscribe(Epoch::default()), nodes.subscribe(Epoch::default())];
    for follower in &mut followers {
        seen(follower).await;
    }
    let [first, mut last] = followers;
    drop(first);
    server.put("nodes", node("w2", "gpu"));
    assert_eq!((seen(&mut last).await, server.open()), (vec!["changed w2".to_owned()], 1));
    let stock = last.stock();
    drop(last);
    tokio::time::sleep(MINUTE).await;
    assert_eq!(server.open(), 0);
    assert!(stock.has("w2"), "what was shown stays for those that still look");
    server.remove("nodes", "w1");
    server.asked();
    let mut next = nodes.subscribe(Epoch::default());
    assert_eq!(seen(&mut next).await, ["begins Valid", "listed w2", "whole"]);
    assert_eq!(server.asked(), ["LIST nodes", "WATCH nodes"]);
}

#[tokio::test(start_paused = true)]
async fn s21_a_slow_follower_holds_up_no_other_and_sees_the_latest_state() {
    let server = server();
    let nodes = nodes(&server);
    let (mut quick, mut slow) = (nodes.subscribe(Epoch::default()), nodes.subscribe(Epoch::default()));
    seen(&mut quick).await;
    seen(&mut slow).await;
    for number in 0..50 {
        server.put("nodes", node("w1", &number.to_string()));
        assert_eq!(seen(&mut quick).await, ["changed w1"], "{number}");
    }
    server.put("nodes", node("w2", "gpu"));
    server.remove("nodes", "w1");
    assert_eq!(seen(&mut quick).await, ["changed w2", "gone w1"]);
    assert_eq!(seen(&mut slow).await, ["changed w2", "changed w1", "gone w1"]);
}

#[tokio::test(start_paused = true)]
async fn s19_a_refusal_is_shown_to_every_follower_also_to_one_that_joins_and_is_over_for_all() {
    let server = server();
    let nodes = nodes(&server);
    server.refuse(Some(403));
    let mut followers = vec![nodes.subscribe(Epoch::default()), nodes.subscribe(Epoch::default())];
    for follower in &mut followers {
        assert_eq!(seen(follower).await[..2], ["begins Valid", "failed Forbidden"]);
    }
    let mut late = nodes.subscribe(Epoch::default());
    assert_eq!(seen(&mut late).await[..2], ["begins Valid", "failed Forbidden"]);
    followers.push(late);
    server.refuse(None);
    for follower in &mut followers {
        let seen = seen_within(follower, MINUTE).await;
        let list = ["listed w1", "whole", "opened"].map(str::to_owned);
        assert!(seen.ends_with(&list), "{seen:?}");
    }
    assert_eq!(server.asked(), ["LIST nodes", "WATCH nodes"]);
}

#[tokio::test(start_paused = true)]
async fn s19_what_may_not_be_watched_any_more_is_not_listed_until_its_watch_works_again() {
    let server = server();
    let (nodes, lists) = (nodes(&server), Arc::new(Lists::new(1)));
    let met = Arc::clone(&lists);
    let mut tasks = JoinSet::new();
    let index = Feed::<PhysicalNodes>::of(&view());
    tasks.spawn(follow(nodes.subscribe(Epoch::default()), index, queue(), move |news| met.met(0, news)));
    let listing = || *lists.changes().borrow();
    tokio::time::sleep(MOMENT).await;
    assert_eq!((listing(), server.asked()), (Listing::Listed, vec!["LIST nodes".to_owned(), "WATCH nodes".to_owned()]));
    lasts().await;
    server.refuse(Some(403));
    tokio::time::sleep(MINUTE).await;
    assert_eq!(listing(), Listing::Unlisted);
    server.refuse(None);
    tokio::time::sleep(MINUTE).await;
    assert_eq!(listing(), Listing::Listed);
    assert_eq!(server.asked(), ["WATCH nodes"], "it continues from what was known");
    // A server that does not answer shows in the state of its connection.
    server.refuse(Some(500));
    tokio::time::sleep(MOMENT).await;
    assert_eq!(listing(), Listing::Listed);
}

#[tokio::test(start_paused = true)]
async fn s8_policies_that_may_not_be_watched_any_more_are_forgotten_and_listed_again() {
    let server = server();
    let (watches, _epochs) = watches(&server, &Restores::default());
    let mut follower = watches.policies.subscribe(Epoch::default());
    seen(&mut follower).await;
    lasts().await;
    server.refuse(Some(403));
    let mut late = watches.policies.subscribe(Epoch::default());
    for follower in [&mut follower, &mut late] {
        let refused = seen(follower).await;
        // What is known may be old.
        assert!(!refused.is_empty() && refused.iter().all(|word| word == "failed Forbidden"), "{refused:?}");
    }
    server.asked();
    server.refuse(None);
    for follower in [&mut follower, &mut late] {
        let seen = seen_within(follower, MINUTE).await;
        let list: Vec<&String> = seen.iter().filter(|word| !word.starts_with("failed") && *word != "opened").collect();
        assert_eq!(list, ["begins Valid", "listed p", "whole"], "{seen:?}");
        assert!(seen.contains(&"opened".to_owned()), "{seen:?}");
    }
    // The watch from what was known before, which showed that it works again; then a list.
    assert_eq!(
        server.asked(),
        ["LIST resourceleasingpolicies", "WATCH resourceleasingpolicies", "WATCH resourceleasingpolicies"]
    );
    // Nodes are not forgotten: that they cannot be watched says nothing of them.
    let mut machines = watches.nodes.subscribe(Epoch::default());
    seen(&mut machines).await;
    lasts().await;
    server.refuse(Some(403));
    seen(&mut machines).await;
    assert!(machines.stock().has("w1"));
}

#[tokio::test(start_paused = true)]
async fn s25_a_server_that_is_set_back_is_listed_once_for_all_and_nothing_is_written_before_each_has_taken_that_in() {
    let server = server();
    let switch = Switch::new(ReadOnly::No);
    let (gate, restores) = (Gate::open(&switch), Restores::holding(&switch));
    let (watches, _epochs) = watches(&server, &restores);
    let (mut one, mut other) = (watches.nodes.subscribe(Epoch::default()), watches.nodes.subscribe(Epoch::default()));
    seen(&mut one).await;
    seen(&mut other).await;
    lasts().await;
    server.asked();
    server.set_back(50);
    let list = ["begins Void", "listed w1", "whole"];
    assert_eq!(seen(&mut one).await, list);
    assert!(gate.check().is_err(), "the other one has not taken it in");
    assert_eq!(seen(&mut other).await, list);
    assert_eq!(gate.check(), Ok(()));
    assert_eq!(server.asked(), ["LIST nodes", "WATCH nodes"]);
    // One that comes later may know what the lost history has.
    let mut late = watches.nodes.subscribe(Epoch::default());
    assert_eq!(seen(&mut late).await, list);
    assert_eq!((gate.check(), server.asked()), (Ok(()), Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn s25_writes_do_not_wait_for_one_that_may_list_nothing_and_its_next_list_is_of_another_history_all_the_same() {
    let server = server();
    let switch = Switch::new(ReadOnly::No);
    let (gate, restores) = (Gate::open(&switch), Restores::holding(&switch));
    let (watches, _epochs) = watches(&server, &restores);
    let (mut machines, mut policies) =
        (watches.nodes.subscribe(Epoch::default()), watches.policies.subscribe(Epoch::default()));
    seen(&mut machines).await;
    seen(&mut policies).await;
    lasts().await;
    server.refuse(Some(403));
    seen(&mut policies).await;
    restores.contradicted(&"10".into(), &"7".into());
    assert!(gate.check().is_err());
    // Each list is refused.
    tokio::time::sleep(MINUTE).await;
    seen(&mut policies).await;
    seen(&mut machines).await;
    assert_eq!(gate.check(), Ok(()));
    server.refuse(None);
    assert!(seen_within(&mut policies, MINUTE).await.contains(&"begins Void".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn s5_a_connection_that_was_gone_is_listed_once_and_earlier_lists_are_none() {
    let server = server();
    let (watches, epochs) = watches(&server, &Restores::default());
    let mut stays = watches.nodes.subscribe(Epoch::default());
    seen(&mut stays).await;
    server.asked();
    // The first to learn of it is a follower.
    let mut after = watches.nodes.subscribe(second());
    assert_eq!(seen(&mut after).await, [""; 0]);
    epochs.send_replace(second());
    let list = ["begins Valid", "listed w1", "whole"];
    assert_eq!(seen(&mut after).await, list);
    assert_eq!(seen(&mut stays).await, list);
    assert_eq!(server.asked(), ["LIST nodes", "WATCH nodes"]);
}

#[tokio::test(start_paused = true)]
async fn s5_a_list_that_many_followers_doubt_is_replaced_once() {
    let server = server();
    let nodes = nodes(&server);
    let mut followers: Vec<_> = (0..20).map(|_| nodes.subscribe(Epoch::default())).collect();
    let mut doubted = Vec::new();
    for follower in &mut followers {
        doubted.push(listed(follower).await);
    }
    seen(&mut followers[0]).await;
    server.asked();
    for (follower, list) in followers.iter().zip(&doubted) {
        follower.stock().replace(list);
    }
    for follower in &mut followers {
        assert_eq!(seen(follower).await, ["begins Valid", "listed w1", "whole"]);
    }
    followers[7].stock().replace(&doubted[7]);
    assert_eq!(seen(&mut followers[0]).await, [""; 0], "another list has come since");
    assert_eq!(server.asked(), ["LIST nodes", "WATCH nodes"]);
}

#[tokio::test(start_paused = true)]
async fn s20_followers_of_a_credential_that_was_replaced_leave_its_watches_one_by_one() {
    let server = server();
    let restores = Restores::default();
    let ((before, _first), (after, _second)) = (watches(&server, &restores), watches(&server, &restores));
    let [mut one, mut other] = [before.nodes.subscribe(Epoch::default()), before.nodes.subscribe(Epoch::default())];
    seen(&mut one).await;
    seen(&mut other).await;
    server.asked();
    one = after.nodes.subscribe(Epoch::default());
    assert_eq!(seen(&mut one).await, ["begins Valid", "listed w1", "whole"]);
    assert_eq!((server.asked(), server.open()), (vec!["LIST nodes".to_owned(), "WATCH nodes".to_owned()], 2));
    server.put("nodes", node("w2", "gpu"));
    assert_eq!(
        (seen(&mut one).await, seen(&mut other).await),
        (vec!["changed w2".to_owned()], vec!["changed w2".to_owned()])
    );
    other = after.nodes.subscribe(Epoch::default());
    assert_eq!(seen(&mut other).await, ["begins Valid", "listed w1", "listed w2", "whole"]);
    assert_eq!((server.asked(), server.open()), (Vec::new(), 1));
}

/// A kind of which no object can be looked at.
#[derive(Default)]
struct Mistakes;

impl Kind for Mistakes {
    type Slice = NodeSlice;
    type Object = ();
    type Error = String;

    const KIND: &'static str = "mistake";

    fn read(&mut self, _: NodeSlice) -> Result<Arc<()>, String> {
        panic!("a mistake")
    }
}

/// Whether a follower crashes.
async fn crashes(follower: &mut Subscription<()>) -> bool {
    let follows = async { while !follower.next().await.is_empty() {} };
    AssertUnwindSafe(timeout(MINUTE, follows)).catch_unwind().await.is_err()
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_crashes_takes_its_followers_with_it_and_the_next_one_starts_another() {
    let server = server();
    let restores = Restores::default();
    let watch = SharedWatch::<Mistakes>::new(&server.client(), &restores, Config::of(&restores), None, Most::ALL);
    let mut followers = [watch.subscribe(Epoch::default()), watch.subscribe(Epoch::default())];
    for follower in &mut followers {
        assert!(crashes(follower).await);
    }
    assert_eq!(server.asked(), ["LIST nodes"]);
    assert!(crashes(&mut watch.subscribe(Epoch::default())).await);
    assert_eq!(server.asked(), ["LIST nodes"]);
}

#[tokio::test(start_paused = true)]
async fn s11_a_follower_keeps_the_virtual_cluster_warm_and_a_binding_that_it_takes_over_lists_nothing() {
    let server = Server::new();
    let lent = |name: &str| json!({"metadata": {"name": name, "uid": name, "labels": {keys::VIRTUAL_CLUSTER: "vc-1", keys::BINDING: "east"}}});
    server.put("nodes", lent("vnode-east-w1"));
    server.put("nodes", node("worker-1", "cpu"));
    server.put("pods", pod("web-0", "vnode-east-w1", None));
    server.put("pods", pod("dns", "worker-1", None));
    let watches = LentWatches::new(&server.client(), &Restores::default(), &"vc-1".into());
    let warm = watches.keep_warm();
    tokio::time::sleep(MOMENT).await;
    let asked =
        ["LIST csinodes ours", "LIST nodes ours", "LIST pods", "WATCH csinodes ours", "WATCH nodes ours", "WATCH pods"];
    assert_eq!(server.asked(), asked);
    let (mut nodes, mut pods) = (watches.nodes.subscribe(Epoch::default()), watches.pods.subscribe(Epoch::default()));
    assert_eq!(seen(&mut nodes).await, ["begins Valid", "listed vnode-east-w1", "whole"]);
    assert_eq!(seen(&mut pods).await, ["begins Valid", "listed u-web-0", "whole"], "no other node can be lent");
    assert_eq!(server.asked(), [""; 0]);
    drop((warm, nodes, pods));
    tokio::time::sleep(MOMENT).await;
    assert_eq!(server.open(), 0);
}

fn view() -> SharedView {
    Arc::new(Mutex::new(examples::view(0)))
}

fn queue() -> WorkQueue<crate::ledger::PhysicalName> {
    WorkQueue::new("test", std::num::NonZeroUsize::MIN.saturating_add(99), Limiter::default())
}

#[tokio::test(start_paused = true)]
async fn s21_what_several_bindings_know_of_a_cluster_is_in_memory_once_and_each_has_the_pods_of_its_nodes_alone() {
    let server = server();
    server.put("nodes", node("w2", "cpu"));
    server.put("pods", pod("elsewhere", "w2", None));
    let (watches, _epochs) = watches(&server, &Restores::default());
    let (views, mut tasks) = ([view(), view()], JoinSet::new());
    for view in &views {
        let (ours, others) =
            (watches.our_pods.subscribe(Epoch::default()), watches.other_pods.subscribe(Epoch::default()));
        let stocks: [Arc<dyn PodStock>; 2] = [ours.stock(), others.stock()];
        view.lock().unwrap().ledger.draw_on(stocks);
        let [of_ours, of_others] = PhysicalPods::both(view);
        tasks.spawn(follow(ours, of_ours, queue(), |_| ()));
        tasks.spawn(follow(others, of_others, queue(), |_| ()));
        let nodes = watches.nodes.subscribe(Epoch::default());
        tasks.spawn(follow(nodes, Feed::<PhysicalNodes>::of(view), queue(), |_| ()));
    }
    tokio::time::sleep(MOMENT).await;
    let machine = |view: &SharedView| view.lock().unwrap().shared_physical("w1").unwrap();
    assert!(Arc::ptr_eq(&machine(&views[0]), &machine(&views[1])));
    let used =
        |view: &SharedView, node: &str| view.lock().unwrap().ledger.used(node).get("cpu").map(ToString::to_string);
    // Nothing was decided about yet.
    assert_eq!([used(&views[0], "w1"), used(&views[1], "w1")], [None, None]);
    let now = examples::now();
    drop(views[0].lock().unwrap().decide(&"w1".into(), &Evidence::default(), now));
    assert_eq!(
        [used(&views[0], "w1"), used(&views[0], "w2"), used(&views[1], "w1")],
        [Some("2".to_owned()), None, None]
    );
    server.put("pods", pod("more", "w1", None));
    server.put("pods", pod("more-elsewhere", "w2", None));
    tokio::time::sleep(MOMENT).await;
    assert_eq!([used(&views[0], "w1"), used(&views[0], "w2")], [Some("3".to_owned()), None]);
    server.remove("pods", "theirs");
    tokio::time::sleep(MOMENT).await;
    assert_eq!(used(&views[0], "w1"), Some("2".to_owned()));
    // The other one decides later, and knows all that there is.
    drop(views[1].lock().unwrap().decide(&"w2".into(), &Evidence::default(), now));
    assert_eq!(used(&views[1], "w2"), Some("2".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn s25_what_a_list_shows_to_all_bindings_is_one_restore_and_not_one_for_each() {
    let server = Server::new();
    let binding = examples::binding();
    let pod = json!({
        "metadata": {"namespace": "lent", "name": "p", "uid": "u-p", "labels": binding.identity.labels()},
        "spec": {"nodeName": "w1", "containers": [{"name": "c"}]}, "status": {"phase": "Running"},
    });
    server.put("pods", pod);
    let restores = Restores::default();
    let (watches, _epochs) = watches(&server, &restores);
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let queue: WorkQueue<PodKey> =
            WorkQueue::new("test", std::num::NonZeroUsize::MIN.saturating_add(99), Limiter::default());
        let inbox = Inbox::new(&binding.identity, &binding.cluster, "lent", queue, || Duration::ZERO);
        let [of_ours, _] = PhysicalPods::both(&view());
        let index = OurPodsOf::new(of_ours, inbox, restores.clone());
        tasks.spawn(follow(watches.our_pods.subscribe(Epoch::default()), index, self::queue(), |_| ()));
    }
    let mut follower = watches.our_pods.subscribe(Epoch::default());
    let list = listed(&mut follower).await;
    tokio::time::sleep(MOMENT).await;
    server.asked();
    server.set_back_and_raise(500);
    follower.stock().replace(&list);
    tokio::time::sleep(MOMENT).await;
    assert_eq!(*restores.changes().borrow(), 1);
    // The list that has shown it, and the one from after that.
    let lists = server.asked().iter().filter(|asked| asked.starts_with("LIST")).count();
    assert_eq!(lists, 2);
}
