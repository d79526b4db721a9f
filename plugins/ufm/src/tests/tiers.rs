//! What is plugged in above the leaves, and takes no tier away.

use super::net::{CONFIG, Net, RoundResult, guid};
use crate::Ufm;
use topoloom_sdk::Outcome;
use topoloom_sdk::testing::Cluster;

const NODES: [&str; 8] = ["a-0", "a-1", "b-0", "b-1", "c-0", "c-1", "d-0", "d-1"];
const HOUR: u64 = 60 * 60 * 1000;

/// Four units of two rails in two pods of two spines below two cores: seven HyperNodes.
fn fabric() -> Net {
    let mut net = Net::units(&["a", "b", "c", "d"], 2, 2);
    for (pod, unit) in [(0, "a"), (0, "b"), (1, "c"), (1, "d")] {
        (0..4).for_each(|n| net.trunk(&format!("leaf-{unit}-{}", n % 2), &format!("spine-{pod}-{}", n / 2)));
    }
    for n in 0..4 {
        (0..2).for_each(|core| net.trunk(&format!("spine-{}-{}", n / 2, n % 2), &format!("core-{core}")));
    }
    net
}

/// The same fabric with hosts of others: one on each spine, and a leaf of them on the cores.
fn busy(hosts: usize) -> Net {
    let mut net = fabric();
    for (number, spine) in ["spine-0-0", "spine-0-1", "spine-1-0", "spine-1-1"].into_iter().enumerate() {
        net.cable(&format!("ufm-{number}"), 0, spine);
    }
    for host in 0..hosts {
        net.cable(&format!("service-{host}"), 0, "border");
    }
    (0..2).for_each(|core| net.trunk("border", &format!("core-{core}")));
    net
}

#[test]
fn a_border_leaf_and_a_host_of_ufm_on_each_spine_take_no_tier_away() {
    let plain = fabric().round(&NODES);
    assert_eq!(plain.tiers(), [4, 2, 1]);
    for hosts in [1, 12] {
        assert_eq!(busy(hosts).round(&NODES).tiers(), [4, 2, 1], "{hosts} hosts on the border leaf");
        // Nor later, while the host runs.
        let cluster = busy(hosts).cluster(NODES).state(plain.answer.state.clone()).at(30 * HOUR);
        let seen = RoundResult::of(cluster.discover::<Ufm>(CONFIG).unwrap(), &NODES);
        assert_eq!((seen.tiers(), seen.codes().contains("lost-tier")), (vec![4, 2, 1], false));
    }
}

/// Nodes on all spines and cores: by what is plugged in there is nothing above the leaves.
#[test]
fn a_lost_tier_is_held_and_found_until_levels_or_the_highest_tier_are_declared() {
    let mut net = fabric();
    let upper = ["spine-0-0", "spine-0-1", "spine-1-0", "spine-1-1", "core-0", "core-1"];
    let names: Vec<String> = (0..upper.len()).map(|node| format!("login-{node}")).collect();
    let all: Vec<&str> = NODES.into_iter().chain(names.iter().map(String::as_str)).collect();
    let before = net.round(&all);
    for (name, switch) in names.iter().zip(upper) {
        net.cable(name, 0, switch);
    }
    let round = |config: &str, hours: u64, state: &[u8]| {
        let cluster: Cluster = net.cluster(all.iter().copied()).state(state.to_vec()).at(hours * HOUR);
        RoundResult::of(cluster.discover::<Ufm>(config).unwrap(), &all)
    };
    let held = round(CONFIG, 1, &before.answer.state);
    assert_eq!(held.tiers()[1..], [2, 1]);
    // Long after the grace it is what it was.
    let later = round(CONFIG, 100, &held.answer.state);
    assert_eq!(later.answer.outcome, Outcome::Unchanged);
    let report = held.report("lost-tier").unwrap();
    assert!(report.starts_with("no cable leads to tier 2 any more; 2 groups kept unchanged"), "{report}");
    let spines: Vec<String> = upper[..4].iter().map(|spine| format!("\"0x{}\"", guid(spine))).collect();
    let levels = format!(
        r#"{{"endpoint": "ufm", "levels": [{{"level": 2, "switches": [{}]}}, {{"level": 3, "names": "^core-"}}]}}"#,
        spines.join(",")
    );
    // The same as before there was anything on these switches, to the last sentence.
    let declared = round(&levels, 1, &before.answer.state);
    assert_eq!(declared.answer.outcome, Outcome::Unchanged);
    let gone = round(r#"{"endpoint": "ufm", "maxTier": 1}"#, 101, &later.answer.state);
    assert_eq!((gone.tiers().len(), gone.codes().contains("lost-tier")), (1, false));
}
