use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use topoloom_sync::naming::BindingName;

use super::arriving::ARRIVES;
use super::*;

fn identity() -> Identity {
    Identity::new("vc".into(), BindingName::parse("east").unwrap(), "b1".into()).unwrap()
}

fn ledger() -> Ledger {
    let mut ledger = Ledger::new(identity(), ClusterId::parse("east").unwrap(), "lent");
    for node in ["w1", "w2"] {
        ledger.node(&node.into());
    }
    ledger
}

fn read(pod: Value) -> PodSlice {
    serde_json::from_value(pod).unwrap()
}

fn pod(uid: &str, node: &str, cpu: &str, phase: &str) -> Value {
    json!({
        "metadata": {"namespace": "team", "name": uid, "uid": uid, "resourceVersion": "1"},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": phase},
    })
}

/// A virtual pod that names a physical one.
fn twin(uid: &str, node: &str, cpu: &str, phase: &str, physical: &str) -> Value {
    let mut pod = pod(uid, node, cpu, phase);
    pod["metadata"]["annotations"] =
        json!({"topoloom.dev/physical-pod-namespace": "lent", "topoloom.dev/physical-pod-name": physical});
    pod
}

/// A physical pod of ours, made for a virtual one.
fn ours(uid: &str, node: &str, cpu: &str, phase: &str, twin: &str) -> Value {
    let mut pod = pod(uid, node, cpu, phase);
    pod["metadata"]["namespace"] = "lent".into();
    pod["metadata"]["labels"] = json!(identity().labels());
    pod["metadata"]["annotations"] = json!({
        "topoloom.dev/virtual-pod-namespace": "team", "topoloom.dev/virtual-pod-name": twin,
        "topoloom.dev/virtual-pod-uid": twin,
    });
    pod
}

fn cpu(list: &ResourceList) -> String {
    list.get("cpu").map_or_else(|| "0".to_owned(), ToString::to_string)
}

fn touched(names: &[&str]) -> Touched {
    names.iter().map(|name| Arc::from(*name)).collect()
}

#[test]
fn the_name_of_a_virtual_node_is_one_text_however_often_it_is_asked_for() {
    let mut ledger = ledger();
    let mut name = || Arc::<str>::from(ledger.node(&"w1".into()).unwrap());
    assert!(Arc::ptr_eq(&name(), &name()));
}

#[test]
fn s14_a_foreign_pod_counts_from_its_binding_until_it_ends_or_is_gone() {
    let mut ledger = ledger();
    assert_eq!(ledger.physical_pod(&read(pod("f", "", "1", "Pending"))), Ok(touched(&[])));
    assert_eq!(ledger.physical_pod(&read(pod("f", "w1", "1", "Pending"))), Ok(touched(&["w1"])));
    assert_eq!(ledger.physical_pod(&read(pod("f", "w1", "1", "Running"))), Ok(touched(&[])), "the sum is the same");
    assert_eq!(cpu(&ledger.used("w1")), "1");
    assert_eq!(ledger.physical_pod(&read(pod("f", "w1", "3", "Running"))), Ok(touched(&["w1"])), "it was resized");
    assert_eq!(ledger.physical_pod(&read(pod("f", "w1", "3", "Succeeded"))), Ok(touched(&["w1"])));
    assert_eq!(cpu(&ledger.used("w1")), "0");
    assert_eq!(ledger.physical_pod_gone(&"f".into()), touched(&[]));
}

/// Most changes of a lent pod are of its status, and no decision about its node depends on them.
#[test]
fn a_lent_pod_that_starts_to_run_touches_no_node_and_one_that_ends_or_terminates_does() {
    let mut ledger = ledger();
    let lent = |phase| pod("v", "vnode-east-w1", "1", phase);
    assert_eq!(ledger.virtual_pod(read(lent("Pending"))), Ok(touched(&["w1"])));
    assert_eq!(ledger.virtual_pod(read(lent("Running"))), Ok(touched(&[])));
    assert_eq!(ledger.bound().collect::<Vec<_>>(), [Phase::Running], "and it is counted as what it is");
    let mut terminates = lent("Running");
    terminates["metadata"]["deletionTimestamp"] = "2026-08-01T06:10:00Z".into();
    assert_eq!(ledger.virtual_pod(read(terminates)), Ok(touched(&["w1"])));
    assert_eq!(ledger.virtual_pod(read(lent("Failed"))), Ok(touched(&["w1"])));
}

#[test]
fn s21_of_a_node_that_is_gone_nothing_is_kept_and_pods_that_are_bound_to_it_keep_its_name() {
    let mut ledger = ledger();
    ledger.physical_pod(&read(pod("f", "w1", "1", "Running"))).unwrap();
    ledger.virtual_pod(read(pod("v", "vnode-east-w1", "1", "Running"))).unwrap();
    ledger.forget("w1");
    assert_eq!((ledger.physical_of("vnode-east-w1").is_some(), ledger.running()), (true, 1));
    assert_eq!(ledger.virtual_pod_gone(&"v".into()), touched(&["w1"]), "it is looked at once more");
    ledger.forget("w1");
    assert_eq!((ledger.physical_of("vnode-east-w1").is_some(), ledger.running()), (false, 0));
    assert_eq!(ledger.physical_pod_gone(&"f".into()), touched(&["w1"]));
    assert_eq!((ledger.names.len(), ledger.used.len(), ledger.lent.len()), (1, 0, 0), "w2 is there");
    // A pod may be shown before its node.
    ledger.virtual_pod(read(pod("v", "vnode-east-w1", "1", "Running"))).unwrap();
    assert_eq!(ledger.running(), 0);
    ledger.node(&"w1".into());
    assert_eq!(ledger.running(), 1);
}

#[test]
fn s14_a_pod_of_ours_counts_until_its_virtual_pod_is_known_on_that_node_and_again_when_that_one_ends() {
    let mut ledger = ledger();
    assert_eq!(ledger.physical_pod(&read(ours("p", "w1", "2", "Running", "v"))), Ok(touched(&["w1"])));
    assert_eq!(cpu(&ledger.used("w1")), "2");
    assert_eq!(ledger.virtual_pod(read(twin("v", "vnode-east-w1", "1500m", "Running", "p"))), Ok(touched(&["w1"])));
    assert_eq!(cpu(&ledger.used("w1")), "500m", "what a webhook added to the physical pod");
    assert_eq!(cpu(&ledger.requested("vnode-east-w1")), "1500m");
    assert_eq!(ledger.pods("vnode-east-w1").len(), 1);
    assert_eq!(ledger.virtual_pod(read(twin("v", "vnode-east-w1", "1500m", "Succeeded", "p"))), Ok(touched(&["w1"])));
    assert_eq!((cpu(&ledger.used("w1")), cpu(&ledger.requested("vnode-east-w1"))), ("2".into(), "0".into()));
    assert_eq!(ledger.virtual_pod_gone(&"v".into()), touched(&["w1"]));
    assert_eq!(cpu(&ledger.used("w1")), "2");
}

#[test]
fn s14_a_pod_of_ours_that_comes_before_what_its_virtual_pod_says_of_it_counts_half_a_second_later() {
    let second = Duration::from_secs;
    let known = |pod: Value| Arc::new(KnownPod::of(&read(pod)).unwrap());
    let used = |ledger: &mut Ledger, now: Duration| {
        let (used, due) = ledger.used_at("w1", now);
        (cpu(&used), due)
    };
    let mut ledger = ledger();
    ledger.virtual_pod(read(pod("v", "vnode-east-w1", "2", "Pending"))).unwrap();
    ledger.shown(PodWatch::Ours, &known(ours("p", "w1", "2", "Pending", "v")));
    ledger.came(&"p".into());
    assert_eq!(cpu(&ledger.used("w1")), "2");
    assert_eq!(
        used(&mut ledger, second(7)),
        ("0".into(), Some(second(7) + ARRIVES)),
        "the decision that sees it first"
    );
    assert_eq!(used(&mut ledger, second(7) + ARRIVES / 2), ("0".into(), Some(second(7) + ARRIVES)));
    // One of another counts at once, and what is on its way beside it does not.
    ledger.shown(PodWatch::Others, &known(pod("x", "w1", "1", "Running")));
    ledger.came(&"x".into());
    assert_eq!(used(&mut ledger, second(7)).0, "1");
    assert_eq!(used(&mut ledger, second(7) + ARRIVES), ("3".into(), None), "no virtual pod names it");
    assert_eq!(used(&mut ledger, second(7)), ("3".into(), None));
    // The names come in time; then another event says that they are gone.
    ledger.shown(PodWatch::Ours, &known(ours("q", "w1", "4", "Pending", "u")));
    ledger.came(&"q".into());
    assert_eq!(used(&mut ledger, second(9)).0, "3");
    ledger.virtual_pod(read(twin("u", "vnode-east-w1", "4", "Pending", "q"))).unwrap();
    assert_eq!(used(&mut ledger, second(9)), ("3".into(), None));
    ledger.virtual_pod_gone(&"u".into());
    assert_eq!(used(&mut ledger, second(9)), ("7".into(), None), "it is no new one");
    // One that goes again leaves nothing behind.
    ledger.shown(PodWatch::Ours, &known(ours("r", "w1", "1", "Pending", "w")));
    ledger.came(&"r".into());
    ledger.physical_pod_gone(&"r".into());
    assert_eq!(used(&mut ledger, second(9)), ("7".into(), None));
}

#[test]
fn s6_s14_a_pod_with_another_identity_is_foreign_whatever_it_names() {
    let mut ledger = ledger();
    let mut other = ours("p", "w1", "2", "Running", "v");
    other["metadata"]["labels"]["topoloom.dev/virtual-cluster"] = "another".into();
    ledger.virtual_pod(read(twin("v", "vnode-east-w1", "2", "Running", "p"))).unwrap();
    ledger.physical_pod(&read(other)).unwrap();
    assert_eq!(cpu(&ledger.used("w1")), "2");
}

#[test]
fn s6_s14_a_copied_manifest_counts_wherever_it_is_and_takes_nothing_from_the_pod_that_it_is_a_copy_of() {
    let mut ledger = ledger();
    ledger.virtual_pod(read(twin("v", "vnode-east-w1", "2", "Running", "p"))).unwrap();
    ledger.physical_pod(&read(ours("p", "w1", "2", "Running", "v"))).unwrap();
    assert_eq!(cpu(&ledger.used("w1")), "0");
    // In another namespace under its own name, and in that of the binding under another one.
    let mut elsewhere = ours("p", "w1", "2", "Running", "v");
    (elsewhere["metadata"]["namespace"], elsewhere["metadata"]["uid"]) = ("theirs".into(), "copy-1".into());
    assert_eq!(ledger.physical_pod(&read(elsewhere)), Ok(touched(&["w1"])));
    assert_eq!(cpu(&ledger.used("w1")), "2");
    ledger.physical_pod(&read(ours("copy-2", "w1", "2", "Running", "v"))).unwrap();
    assert_eq!(cpu(&ledger.used("w1")), "4");
    // Each event of the virtual pod counts all of them anew.
    ledger.virtual_pod(read(twin("v", "vnode-east-w1", "2", "Failed", "p"))).unwrap();
    assert_eq!(cpu(&ledger.used("w1")), "6");
    ledger.virtual_pod(read(twin("v", "vnode-east-w1", "2", "Running", "p"))).unwrap();
    assert_eq!(cpu(&ledger.used("w1")), "4");
    for uid in ["copy-1", "copy-2", "p"] {
        ledger.physical_pod_gone(&uid.into());
    }
    assert!(ledger.twins.is_empty());
}

#[test]
fn s6_s14_a_pod_of_ours_counts_until_its_virtual_pod_names_it_by_all_that_it_names() {
    let mut ledger = ledger();
    ledger.physical_pod(&read(ours("p", "w1", "2", "Running", "v"))).unwrap();
    let with = |key: &str, value: &str| {
        let mut pod = twin("v", "vnode-east-w1", "2", "Running", "p");
        pod["metadata"]["annotations"][key] = value.into();
        read(pod)
    };
    let mut used = |pod: PodSlice| {
        ledger.virtual_pod(pod).unwrap();
        cpu(&ledger.used("w1"))
    };
    assert_eq!(used(read(pod("v", "vnode-east-w1", "2", "Running"))), "2", "it names none yet");
    assert_eq!(used(with("topoloom.dev/physical-pod-namespace", "theirs")), "2");
    assert_eq!(used(with("topoloom.dev/physical-pod-name", "another")), "2");
    assert_eq!(used(with("topoloom.dev/physical-pod-uid", "another")), "2");
    assert_eq!(used(with("topoloom.dev/physical-pod-uid", "p")), "0");
    assert_eq!(used(read(twin("v", "vnode-east-w1", "2", "Running", "p"))), "0", "its UID is written last");
    // The other direction by its name, too.
    let mut renamed = ours("p", "w1", "2", "Running", "v");
    renamed["metadata"]["annotations"]["topoloom.dev/virtual-pod-name"] = "w".into();
    ledger.physical_pod(&read(renamed)).unwrap();
    assert_eq!(cpu(&ledger.used("w1")), "2");
}

#[test]
fn s6_s14_a_pod_of_an_earlier_binding_is_ours_once_that_is_gone_and_until_the_virtual_cluster_was_set_back() {
    let mut ledger = ledger();
    let earlier = |uid: &str, lent: &str| {
        let mut pod = ours(uid, "w1", "2", "Running", lent);
        pod["metadata"]["labels"]["topoloom.dev/binding-uid"] = "b0".into();
        read(pod)
    };
    ledger.virtual_pod(read(twin("v", "vnode-east-w1", "2", "Running", "p"))).unwrap();
    ledger.physical_pod(&earlier("p", "v")).unwrap();
    // One that no virtual pod names is none of ours.
    ledger.physical_pod(&earlier("q", "w")).unwrap();
    assert_eq!(cpu(&ledger.used("w1")), "4");
    assert_eq!(ledger.earlier_is_gone(&"another".into()), touched(&[]));
    assert_eq!(ledger.earlier_is_gone(&"b0".into()), touched(&["w1"]));
    assert_eq!(cpu(&ledger.used("w1")), "2");
    assert_eq!(ledger.earlier_is_gone(&"b0".into()), touched(&[]));
    ledger.virtual_pod(read(pod("v", "vnode-east-w1", "2", "Running"))).unwrap();
    assert_eq!(cpu(&ledger.used("w1")), "4", "the mapping holds as for every pod of ours");
    ledger.virtual_pod(read(twin("v", "vnode-east-w1", "2", "Running", "p"))).unwrap();
    assert_eq!(ledger.forget_earlier(), touched(&["w1"]));
    assert_eq!(cpu(&ledger.used("w1")), "4");
}

/// What a watch has shown.
#[derive(Debug, Default)]
struct Stock(std::sync::Mutex<Vec<Arc<KnownPod>>>);

impl Stock {
    fn puts(&self, pod: Value) -> Arc<KnownPod> {
        let pod = Arc::new(KnownPod::of(&read(pod)).unwrap());
        let mut pods = self.0.lock().unwrap();
        pods.retain(|known| known.uid() != pod.uid());
        pods.push(Arc::clone(&pod));
        pod
    }
}

impl PodStock for Stock {
    fn on(&self, node: &str) -> Vec<Arc<KnownPod>> {
        let pods = self.0.lock().unwrap();
        pods.iter().filter(|pod| pod.node().is_some_and(|at| **at == *node)).cloned().collect()
    }

    fn has(&self, uid: &str) -> bool {
        self.0.lock().unwrap().iter().any(|pod| **pod.uid() == *uid)
    }
}

#[test]
fn s21_the_pods_of_a_node_are_here_once_the_binding_decides_about_it_and_those_of_no_other_node() {
    let (ours_stock, others_stock) = (Arc::new(Stock::default()), Arc::new(Stock::default()));
    let mut ledger = ledger();
    ledger.draw_on([ours_stock.clone(), others_stock.clone()]);
    let first = others_stock.puts(pod("f", "w1", "1", "Running"));
    assert_eq!(ledger.shown(PodWatch::Others, &first), touched(&[]));
    ours_stock.puts(ours("p", "w1", "2", "Running", "v"));
    assert!(ledger.physical_pods.is_empty() && !ledger.counts("w1"));
    assert!(ledger.take_up(&"w1".into()) && !ledger.take_up(&"w1".into()));
    assert_eq!(cpu(&ledger.used("w1")), "3");
    // From now on each event counts.
    let resized = others_stock.puts(pod("f", "w1", "4", "Running"));
    assert_eq!(ledger.shown(PodWatch::Others, &resized), touched(&["w1"]));
    assert_eq!(cpu(&ledger.used("w1")), "6");
    let elsewhere = others_stock.puts(pod("g", "w2", "1", "Running"));
    assert_eq!(ledger.shown(PodWatch::Others, &elsewhere), touched(&[]));
    assert_eq!(ledger.physical_pods.len(), 2);
    // The watches of another connection, which have shown nothing yet: what is known stays until they have.
    ledger.draw_on([Arc::new(Stock::default()), Arc::new(Stock::default())]);
    assert!(ledger.counts("w1") && cpu(&ledger.used("w1")) == "6");
    assert_eq!(ledger.listed(PodWatch::Others, &["p".into()].into()), touched(&["w1"]));
    assert_eq!(cpu(&ledger.used("w1")), "2", "a list of the one says nothing about what the other shows");
}

#[test]
fn s20_s21_until_another_connection_has_listed_all_pods_a_node_is_taken_up_out_of_what_the_one_before_had_shown() {
    let [before, after, ours] = [(); 3].map(|()| Arc::new(Stock::default()));
    let mut ledger = ledger();
    ledger.draw_on([ours.clone(), before.clone()]);
    before.puts(pod("f", "w1", "1", "Running"));
    before.puts(pod("g", "w2", "2", "Running"));
    ledger.take_up(&"w1".into());
    ledger.draw_on([ours, after.clone()]);
    // Its list shows these, and nothing was decided about their node.
    for late in ["g", "h"] {
        let shown = after.puts(pod(late, "w2", "4", "Running"));
        assert_eq!(ledger.shown(PodWatch::Others, &shown), touched(&[]));
    }
    ledger.take_up(&"w2".into());
    assert_eq!(cpu(&ledger.used("w2")), "2", "it never looks empty");
    let seen = HashSet::from(["g".into(), "h".into()]);
    assert_eq!(ledger.listed(PodWatch::Others, &seen), touched(&["w1", "w2"]));
    assert_eq!((cpu(&ledger.used("w1")), cpu(&ledger.used("w2"))), ("0".to_owned(), "8".to_owned()));
    // From now on it is the only one.
    after.puts(pod("k", "w3", "1", "Running"));
    ledger.take_up(&"w3".into());
    assert_eq!(cpu(&ledger.used("w3")), "1");
}

#[test]
fn s21_of_a_node_that_is_gone_no_pods_are_taken_in_any_more_until_it_is_taken_up_again() {
    let stock = Arc::new(Stock::default());
    let mut ledger = ledger();
    ledger.draw_on([stock.clone(), stock.clone()]);
    let first = stock.puts(pod("f", "w1", "1", "Running"));
    ledger.take_up(&"w1".into());
    ledger.forget("w1");
    assert!(!ledger.counts("w1"));
    let late = stock.puts(pod("g", "w1", "2", "Running"));
    assert_eq!(ledger.shown(PodWatch::Others, &late), touched(&[]));
    assert_eq!(ledger.hidden(PodWatch::Ours, first.uid()), touched(&[]));
    assert_eq!(ledger.hidden(PodWatch::Others, first.uid()), touched(&["w1"]), "what was here goes when it is gone");
    assert!(ledger.used.is_empty() && ledger.physical_pods.is_empty());
    assert!(ledger.take_up(&"w1".into()));
    assert_eq!(cpu(&ledger.used("w1")), "3");
}

#[test]
fn what_a_list_that_was_given_up_has_not_shown_is_not_known_any_more() {
    let stock = Arc::new(Stock::default());
    let mut ledger = ledger();
    ledger.draw_on([Arc::new(Stock::default()), stock.clone()]);
    for name in ["f", "g"] {
        stock.puts(pod(name, "w1", "1", "Running"));
    }
    ledger.take_up(&"w1".into());
    assert_eq!(ledger.given_up(PodWatch::Ours, &HashSet::new()), touched(&[]), "the other one shows them");
    assert_eq!(ledger.given_up(PodWatch::Others, &["f".into()].into()), touched(&["w1"]));
    assert_eq!((cpu(&ledger.used("w1")), ledger.physical_pods.len()), ("1".to_owned(), 1));
}

#[test]
fn s21_a_pod_that_came_after_a_list_is_not_gone_by_it() {
    let (ours_stock, others_stock) = (Arc::new(Stock::default()), Arc::new(Stock::default()));
    let mut ledger = ledger();
    ledger.draw_on([ours_stock, others_stock.clone()]);
    others_stock.puts(pod("f", "w1", "1", "Running"));
    ledger.take_up(&"w1".into());
    assert_eq!(ledger.listed(PodWatch::Others, &HashSet::new()), touched(&[]));
    assert_eq!(cpu(&ledger.used("w1")), "1");
    others_stock.0.lock().unwrap().clear();
    assert_eq!(ledger.listed(PodWatch::Others, &HashSet::new()), touched(&["w1"]));
}

#[test]
fn a_pod_that_both_watches_show_is_gone_when_neither_does() {
    let mut ledger = ledger();
    let pod = Arc::new(KnownPod::of(&read(pod("f", "w1", "1", "Running"))).unwrap());
    assert_eq!(ledger.shown(PodWatch::Others, &pod), touched(&["w1"]));
    assert_eq!(ledger.shown(PodWatch::Ours, &pod), touched(&[]));
    assert_eq!(ledger.hidden(PodWatch::Others, pod.uid()), touched(&[]));
    assert_eq!(ledger.hidden(PodWatch::Others, pod.uid()), touched(&[]), "twice");
    assert_eq!(cpu(&ledger.used("w1")), "1");
    assert_eq!(ledger.hidden(PodWatch::Ours, pod.uid()), touched(&["w1"]));
}

#[test]
fn s15_churn_of_our_own_pods_changes_no_size() {
    let mut ledger = ledger();
    for round in 0..50 {
        let (physical, lent) = (format!("p{round}"), format!("v{round}"));
        ledger.virtual_pod(read(twin(&lent, "vnode-east-w1", "1", "Pending", &physical))).unwrap();
        ledger.physical_pod(&read(ours(&physical, "w1", "1", "Running", &lent))).unwrap();
        assert_eq!(cpu(&ledger.used("w1")), "0");
        ledger.physical_pod_gone(&physical.as_str().into());
        ledger.virtual_pod_gone(&lent.as_str().into());
    }
    assert!(ledger.twins.is_empty() && ledger.lent.is_empty() && ledger.physical_pods.is_empty());
}

#[test]
fn a_pod_that_cannot_be_read_counts_as_before() {
    let mut ledger = ledger();
    ledger.physical_pod(&read(pod("f", "w1", "1", "Running"))).unwrap();
    assert!(ledger.physical_pod(&read(pod("f", "w1", "many", "Running"))).is_err());
    assert_eq!(cpu(&ledger.used("w1")), "1");
}

#[test]
fn what_was_refused_is_remembered_over_changes_of_the_pod() {
    let mut ledger = ledger();
    let now = "2026-08-01T00:00:00Z".parse().unwrap();
    ledger.virtual_pod(read(pod("v", "vnode-east-w1", "1", "Running"))).unwrap();
    ledger.refused("vnode-east-w1", &"v".into(), now);
    ledger.refused("vnode-east-w1", &"v".into(), now);
    ledger.virtual_pod(read(pod("v", "vnode-east-w1", "1", "Running"))).unwrap();
    assert_eq!(ledger.pods("vnode-east-w1")[0].refused.map(|refused| refused.times), Some(2));
}

#[test]
fn s10_a_pod_whose_removal_was_taken_terminates_whatever_an_event_that_is_behind_says() {
    let mut ledger = ledger();
    let event = |ledger: &mut Ledger| drop(ledger.virtual_pod(read(pod("v", "vnode-east-w1", "1", "Running"))));
    let existence = |ledger: &Ledger| ledger.pods("vnode-east-w1")[0].existence;
    event(&mut ledger);
    assert_eq!(existence(&ledger), Existence::Alive);
    ledger.removed("vnode-east-w1", &"v".into());
    assert_eq!(existence(&ledger), Existence::Terminating);
    event(&mut ledger);
    assert_eq!(existence(&ledger), Existence::Terminating);
    // The list of a server that was set back: there it lives.
    ledger.forget_removals();
    event(&mut ledger);
    assert_eq!(existence(&ledger), Existence::Alive);
    ledger.removed("vnode-east-w1", &"v".into());
    ledger.virtual_pod_gone(&"v".into());
    assert!(ledger.removed.is_empty());
}

#[test]
fn s10_s17_a_pod_that_has_a_year_to_end_is_looked_at_and_after_a_removal_only_a_later_event_says_how_long_it_has() {
    let mut ledger = ledger();
    let event = |ledger: &mut Ledger, seconds: i64| {
        let mut pod = pod("v", "vnode-east-w1", "1", "Running");
        pod["metadata"]["deletionTimestamp"] = "2026-08-03T12:00:00Z".into();
        pod["metadata"]["deletionGracePeriodSeconds"] = seconds.into();
        let touched = ledger.virtual_pod(read(pod)).unwrap();
        (touched, ledger.pods("vnode-east-w1")[0].grace.map(|grace| grace.as_secs()))
    };
    assert_eq!(event(&mut ledger, 30), (touched(&["w1"]), Some(30)));
    assert_eq!(event(&mut ledger, 31_536_000), (touched(&["w1"]), Some(31_536_000)));
    ledger.removed("vnode-east-w1", &"v".into());
    assert_eq!(ledger.pods("vnode-east-w1")[0].grace, None);
    assert_eq!(event(&mut ledger, 3_600), (touched(&[]), Some(3_600)));
}

/// The same pod with these host ports.
fn holding(mut pod: Value, ports: &[u16]) -> PodSlice {
    let ports: Vec<Value> = ports.iter().map(|port| json!({"containerPort": port, "hostPort": port})).collect();
    pod["spec"]["containers"][0]["ports"] = json!(ports);
    read(pod)
}

fn held(ledger: &Ledger) -> Vec<String> {
    let pods = ledger.host_ports("w1").into_iter();
    pods.map(|ports| ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn section_11_2_the_host_ports_of_pods_of_others_are_known_until_they_end_or_are_gone() {
    let mut ledger = ledger();
    let event = |ledger: &mut Ledger, pod: PodSlice| {
        ledger.physical_pod(&pod).unwrap();
        ledger.take_port_news()
    };
    assert_eq!(event(&mut ledger, read(pod("p", "w1", "1", "Running"))), touched(&[]));
    let web = |phase| holding(pod("web", "w1", "1", phase), &[443, 80]);
    assert_eq!(event(&mut ledger, web("Pending")), touched(&["w1"]));
    assert_eq!(event(&mut ledger, web("Running")), touched(&[]), "the same ports");
    assert_eq!(event(&mut ledger, holding(pod("dns", "w1", "1", "Running"), &[53])), touched(&["w1"]));
    assert_eq!(held(&ledger), ["0.0.0.0/TCP/53", "0.0.0.0/TCP/80 0.0.0.0/TCP/443"]);
    assert_eq!(event(&mut ledger, web("Succeeded")), touched(&["w1"]));
    ledger.physical_pod_gone(&"dns".into());
    assert_eq!((ledger.take_port_news(), held(&ledger).len()), (touched(&["w1"]), 0));
    ledger.physical_pod_gone(&"web".into());
    assert_eq!(ledger.take_port_news(), touched(&[]));
}

#[test]
fn section_11_2_pods_of_ours_hold_no_ports_whatever_is_known_of_their_virtual_pods() {
    let mut ledger = ledger();
    // The virtual scheduler counts the port of its virtual pod, which may not have been shown yet.
    ledger.physical_pod(&holding(ours("p", "w1", "1", "Running", "v"), &[80])).unwrap();
    let mut earlier = ours("q", "w1", "1", "Running", "w");
    earlier["metadata"]["labels"]["topoloom.dev/binding-uid"] = "b0".into();
    ledger.physical_pod(&holding(earlier, &[81])).unwrap();
    assert_eq!((ledger.take_port_news(), held(&ledger).len()), (touched(&[]), 0));
    // A manifest that was copied is a pod of others.
    let mut copied = ours("c", "w1", "1", "Running", "v");
    copied["metadata"]["namespace"] = "theirs".into();
    ledger.physical_pod(&holding(copied, &[82])).unwrap();
    assert_eq!(held(&ledger), ["0.0.0.0/TCP/82"]);
}

#[test]
fn section_11_2_a_placeholder_is_in_no_sum_and_no_limit_counts_it() {
    let mut ledger = ledger();
    let mut placeholder = pod("h", "vnode-east-w1", "1", "Pending");
    placeholder["metadata"]["namespace"] = "topoloom-host-ports".into();
    placeholder["metadata"]["labels"] = json!({"topoloom.dev/hostport-fake-pod": "true"});
    ledger.virtual_pod(read(placeholder.clone())).unwrap();
    ledger.virtual_pod(read(pod("v", "vnode-east-w1", "2", "Running"))).unwrap();
    assert_eq!(cpu(&ledger.requested("vnode-east-w1")), "2");
    assert_eq!((ledger.running(), ledger.bound().count(), ledger.pods("vnode-east-w1").len()), (1, 1, 2));
    // Nor where its node is known later.
    ledger
        .virtual_pod(read({
            placeholder["metadata"]["uid"] = "i".into();
            placeholder["spec"]["nodeName"] = "vnode-east-w3".into();
            placeholder
        }))
        .unwrap();
    ledger.node(&"w3".into());
    assert_eq!(ledger.running(), 1);
    ledger.virtual_pod_gone(&"h".into());
    ledger.virtual_pod_gone(&"v".into());
    assert_eq!((ledger.running(), cpu(&ledger.requested("vnode-east-w1"))), (0, "0".to_owned()));
}

#[test]
fn s9_no_limit_is_of_pods_of_a_daemon_set_which_may_never_start() {
    let mut ledger = ledger();
    ledger.virtual_pod(read(pod("v", "vnode-east-w1", "1", "Running"))).unwrap();
    let mut daemon = pod("d", "vnode-east-w1", "1", "Pending");
    daemon["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "set", "controller": true}]);
    ledger.virtual_pod(read(daemon.clone())).unwrap();
    assert_eq!((ledger.running(), ledger.bound().count()), (1, 2), "it is bound all the same");
    // One that nothing makes again is one of them.
    daemon["metadata"]["ownerReferences"] = json!([]);
    ledger.virtual_pod(read(daemon)).unwrap();
    assert_eq!(ledger.running(), 2);
}

/// An event: a pod of one of two clusters, by its number, with a node, an amount and a phase; none: it is gone.
type Step = (bool, u8, Option<(u8, u8, u8)>);

const PHASES: [&str; 3] = ["Pending", "Running", "Failed"];

/// The state of both clusters after some events.
#[derive(Default)]
struct Truth {
    physical: BTreeMap<u8, (u8, u8, u8)>,
    lent: BTreeMap<u8, (u8, u8, u8)>,
}

impl Truth {
    /// The sum of a node, from nothing.
    fn used(&self, node: u8) -> u64 {
        let of = |(number, (at, cpu, phase)): (&u8, &(u8, u8, u8))| {
            if *at != node || *phase == 2 {
                return 0;
            }
            // Even numbers are ours, each with the virtual pod of its number.
            let covered = self.lent.get(number).filter(|(at, _, phase)| number % 2 == 0 && *at == node && *phase != 2);
            u64::from(cpu.saturating_sub(covered.map_or(0, |(_, cpu, _)| *cpu)))
        };
        self.physical.iter().map(of).sum()
    }
}

proptest! {
    #[test]
    fn s14_the_sums_are_those_of_a_plain_computation_after_any_history(
        steps in prop::collection::vec(
            (any::<bool>(), 0..6_u8, prop::option::of((0..2_u8, 0..9_u8, 0..3_u8))), 0..60,
        )
    ) {
        let (mut ledger, mut truth) = (Ledger::new(identity(), ClusterId::parse("east").unwrap(), "lent"), Truth::default());
        ledger.node(&"w1".into());
        let not_ended = |ledger: &Ledger| ledger.bound().filter(|phase| !phase.is_final()).count();
        let steps: Vec<Step> = steps;
        for (is_physical, number, pod_now) in steps {
            let pods = if is_physical { &mut truth.physical } else { &mut truth.lent };
            match pod_now {
                Some(now) => pods.insert(number, now),
                None => pods.remove(&number),
            };
            let (uid, lent) = (format!("p{number}"), format!("v{number}"));
            match (is_physical, pod_now) {
                (true, None) => drop(ledger.physical_pod_gone(&uid.as_str().into())),
                (false, None) => drop(ledger.virtual_pod_gone(&lent.as_str().into())),
                (true, Some((node, cpu, phase))) => {
                    let (node, cpu) = (format!("w{}", node + 1), cpu.to_string());
                    let phase = PHASES[usize::from(phase)];
                    let written = if number % 2 == 0 {
                        ours(&uid, &node, &cpu, phase, &lent)
                    } else {
                        pod(&uid, &node, &cpu, phase)
                    };
                    ledger.physical_pod(&read(written)).unwrap();
                }
                (false, Some((node, cpu, phase))) => {
                    let (node, cpu) = (format!("vnode-east-w{}", node + 1), cpu.to_string());
                    let phase = PHASES[usize::from(phase)];
                    ledger.virtual_pod(read(twin(&lent, &node, &cpu, phase, &uid))).unwrap();
                }
            }
            for node in 0..2 {
                prop_assert_eq!(cpu(&ledger.used(&format!("w{}", node + 1))), truth.used(node).to_string());
            }
            prop_assert_eq!(ledger.running(), not_ended(&ledger));
        }
        // A node that is known later than its pods.
        ledger.node(&"w2".into());
        prop_assert_eq!(ledger.running(), truth.lent.values().filter(|(_, _, phase)| *phase != 2).count());
        prop_assert_eq!(ledger.running(), not_ended(&ledger));
    }
}
