//! Many leases: how their renewals are spread, and how fast a crowd is served.

use std::collections::BTreeMap;

use super::*;

/// The names of virtual nodes.
fn names(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("vnode-east-node-{index}")).collect()
}

/// The times of the renewals of each node.
fn times(seen: &[Seen]) -> BTreeMap<&str, Vec<Duration>> {
    let mut times: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    for seen in seen.iter().filter(|seen| seen.code == Some(200) && seen.method == Method::PUT) {
        times.entry(&seen.node).or_default().push(seen.at);
    }
    times
}

/// Every renewal follows the last one after ten seconds, give or take one.
#[track_caller]
fn check_spacing(seen: &[Seen], nodes: usize, least: usize) {
    let times = times(seen);
    assert_eq!(times.len(), nodes);
    for (node, times) in times {
        assert!(times.len() >= least, "{node}: {times:?}");
        for pair in times.windows(2) {
            let gap = pair[1] - pair[0];
            assert!((9 * S..=11 * S).contains(&gap), "{node}: {gap:?}");
        }
    }
}

/// No second has more than twice as many renewals as the mean.
#[track_caller]
fn check_spread(seen: &[Seen], nodes: usize) {
    let mut per_second: BTreeMap<u64, usize> = BTreeMap::new();
    for seen in seen {
        *per_second.entry(seen.at.as_secs()).or_default() += 1;
    }
    assert!(per_second.values().all(|count| count * 10 <= 2 * nodes), "{per_second:?}");
}

#[tokio::test(start_paused = true)]
async fn s21_leases_of_5000_nodes_are_spread_and_renewed_every_ten_seconds() {
    for count in [5000, 30] {
        let scene = Scene::new();
        scene.api.script(|_, _, _| Fault::Slow(Duration::from_millis(80)));
        for name in names(count) {
            scene.start(&name, "uid");
        }
        until("all are made", || scene.api.leases() == count).await;
        assert!(scene.begun.elapsed() < 10 * S, "{:?}", scene.begun.elapsed());
        pass(11 * S).await;
        scene.api.take_seen();
        pass(25 * S).await;
        let seen = scene.api.take_seen();
        assert!(seen.iter().all(|seen| seen.method == Method::PUT), "nothing but renewals");
        check_spacing(&seen, count, 2);
        check_spread(&seen, count);
        assert!(scene.api.most_under_way() <= 64, "{}", scene.api.most_under_way());
        assert_eq!(scene.metric("virtual_node_leases{") as usize, count);
        let oldest = scene.metric("virtual_node_lease_oldest_seconds");
        assert!((8.0..=11.0).contains(&oldest), "{oldest}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_hangs_for_30_s_gets_the_oldest_leases_first_when_it_is_back() {
    let count = 2000;
    let scene = Scene::new();
    for name in names(count) {
        scene.start(&name, "uid");
    }
    until("all are made", || scene.api.leases() == count).await;
    pass(20 * S - scene.begun.elapsed()).await;
    let before = scene.api.take_seen();
    let (from, to) = (20 * S, 50 * S);
    scene.api.script(move |_, _, at| if (from..to).contains(&at) { Fault::Hangs } else { USUAL });
    pass(29 * S).await;
    assert!(scene.metric("virtual_node_lease_oldest_seconds") > 35.0);
    pass(12 * S).await;
    let after: Vec<Seen> = scene.api.take_seen().into_iter().filter(|seen| seen.at >= to).collect();
    let renewed = times(&after);
    assert_eq!(renewed.len(), count, "all of them");
    let first = |node: &str| renewed[node][0];
    let slowest = renewed.values().map(|times| times[0]).max().unwrap();
    assert!(slowest < to + 6 * S, "the requests that hung, and then all at once: {slowest:?}");
    // Those that were renewed longest ago, before those that were renewed last.
    let last: BTreeMap<&str, Duration> =
        times(&before).into_iter().map(|(node, times)| (node, *times.last().unwrap())).collect();
    let mut by_age: Vec<&str> = last.keys().copied().collect();
    by_age.sort_by_key(|node| last[node]);
    // In the middle of them: those whose requests hung until the end wait for their deadline.
    let middle = |nodes: &[&str]| {
        let mut times: Vec<Duration> = nodes.iter().map(|node| first(node)).collect();
        times.sort();
        times[times.len() / 2]
    };
    let fifth = count / 5;
    assert!(middle(&by_age[..fifth]) < middle(&by_age[4 * fifth..]));
    // And then as before.
    pass(5 * S).await;
    scene.api.take_seen();
    pass(21 * S).await;
    let seen = scene.api.take_seen();
    check_spacing(&seen, count, 2);
    check_spread(&seen, count);
    assert_eq!(scene.metric("virtual_node_leases_failing"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn leases_that_never_succeed_hold_up_no_other() {
    const GOOD: usize = 400;
    // More of them than there are places.
    let is_bad = |node: &str| node.starts_with("bad");
    for fault in [Fault::Hangs, Fault::Refused(500, "InternalError", 0), Fault::Refused(409, "Conflict", 0)] {
        let scene = Scene::new();
        scene.api.script(move |_, node, _| if is_bad(node) { fault } else { USUAL });
        for index in 0..100 {
            scene.start(&format!("bad-{index}"), "uid");
        }
        for name in names(GOOD) {
            scene.start(&name, "uid");
        }
        until("the others are made", || scene.api.leases() == GOOD).await;
        pass(20 * S).await;
        scene.api.take_seen();
        pass(40 * S).await;
        let seen = scene.api.take_seen();
        let (bad, good): (Vec<Seen>, Vec<Seen>) = seen.into_iter().partition(|seen| is_bad(&seen.node));
        check_spacing(&good, GOOD, 3);
        check_spread(&good, GOOD);
        assert!(bad.len() <= 100 * 40, "{fault:?}: {}", bad.len());
        assert_eq!(scene.metric("virtual_node_leases_failing"), 100.0, "{fault:?}");
    }
}
