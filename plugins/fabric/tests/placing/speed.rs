//! What a round costs. Prints with `cargo test --release -p topoloom-fabric speed -- --nocapture`.

use std::time::{Duration, Instant};

use crate::fabric::{EIGHT_RAILS, Fabric, Shape};
use crate::round::{cluster, first, kept, round};
use topoloom_fabric::{Part, Settings, State};

/// Three tiers, storage switches, units of 32 hosts with eight rails.
fn three_tiers(hosts: usize) -> Shape {
    let units = hosts / 32;
    Shape {
        units,
        hosts: 32,
        pod: 8,
        spines: 16,
        cores: 16,
        storage: units.div_ceil(16) * 2,
        storage_units: 16,
        ..EIGHT_RAILS
    }
}

/// One round.
fn time(fabric: &Fabric, names: &[String]) -> Duration {
    let (cluster, wiring) = (cluster(names), fabric.wiring());
    let start = Instant::now();
    let outcome = first(&cluster, &wiring);
    let took = start.elapsed();
    assert!(!outcome.topology.groups.is_empty());
    took
}

/// The best of some rounds: what else runs on this machine only adds.
fn best(fabric: &Fabric, names: &[String], rounds: usize) -> Duration {
    (0..rounds).map(|_| time(fabric, names)).min().unwrap()
}

/// The slope of log time over log hosts, from 1 024 to 16 384 hosts. Rounds of both sizes take turns, and what else
/// runs on this machine only adds to either: measured until the best of both says what it has to, or long enough.
fn slope(prepare: impl Fn(Fabric) -> Fabric) -> f64 {
    let sizes = [1024_usize, 16_384];
    let fabrics = sizes.map(|hosts| (prepare(three_tiers(hosts).build()), three_tiers(hosts).names()));
    let mut best = [Duration::MAX; 2];
    let mut slope = f64::MAX;
    for _ in 0..12 {
        for ((fabric, names), best) in fabrics.iter().zip(&mut best) {
            *best = time(fabric, names).min(*best);
        }
        slope = (best[1].as_secs_f64() / best[0].as_secs_f64()).ln() / 16_f64.ln();
        if slope <= MAX_SLOPE {
            break;
        }
    }
    println!("{best:?}: slope {slope:.3}");
    slope
}

const MAX_SLOPE: f64 = 1.15;

#[test]
fn the_cost_grows_with_the_fabric_and_not_with_its_square() {
    assert!(slope(|fabric| fabric) <= MAX_SLOPE);
    assert!(slope(|fabric| fabric.without(30, 1)) <= MAX_SLOPE);
}

/// One storage switch that bears every host: every leaf shares children with it.
#[test]
fn a_switch_that_bears_every_host_costs_nothing_special() {
    let prepare = |mut fabric: Fabric| {
        let hosts: std::collections::BTreeSet<String> = fabric.cables.iter().map(|cable| cable.host.clone()).collect();
        hosts.iter().for_each(|host| fabric.plug(host, "storage-of-all", "mlx5_8"));
        fabric.without(10, 3)
    };
    assert!(slope(prepare) <= MAX_SLOPE);
}

/// A name that a thousand machines share: it hangs on every leaf.
#[test]
fn a_host_on_every_leaf_costs_nothing_special() {
    let shape = three_tiers(4096);
    let plain = shape.build();
    let mut glued = plain.clone();
    for unit in 0..shape.units {
        (0..shape.rails).for_each(|rail| glued.plug("ghost", &Shape::leaf(unit, rail), "mlx5_0"));
    }
    let names = shape.names();
    let [plain, glued] = [plain, glued].map(|fabric| best(&fabric, &names, 3));
    println!("plain {plain:?}, with a host on every leaf {glued:?}");
    assert!(glued < plain * 3, "{plain:?} {glued:?}");
}

#[test]
fn two_thousand_hosts_with_eight_rails_and_three_tiers_take_milliseconds() {
    let shape = three_tiers(2048);
    let names = shape.names();
    for fabric in [shape.build(), shape.build().without(30, 1)] {
        let took = best(&fabric, &names, 5);
        println!("2048 hosts: {took:?}");
        // Ten times as long without optimisation.
        let most = if cfg!(debug_assertions) { 500 } else { 50 };
        assert!(took < Duration::from_millis(most), "{took:?}");
    }
    let cluster = cluster(&names);
    let before = first(&cluster, &shape.build().wiring());
    let memory = kept(&before);
    let wiring = shape.build().without(30, 1).wiring();
    let start = Instant::now();
    round(&cluster, &wiring, &Settings::default(), &memory);
    println!("with memory: {:?}", start.elapsed());
}

#[test]
fn a_large_fabric_stays_small() {
    let shape = three_tiers(16_384);
    let names = shape.names();
    let cluster = cluster(&names);
    let wiring = shape.build().wiring();
    let memory = first(&cluster, &wiring).memory;
    let alone = State { parts: Vec::new(), memory: memory.clone() }.to_bytes().len();
    let part = Part { key: "ufm-0".into(), own: Vec::new(), wiring };
    let all = State { parts: vec![part], memory }.to_bytes().len();
    println!("state: {all} bytes, of which memory {alone}");
    assert!(all < 3 << 20, "{all}");
}
