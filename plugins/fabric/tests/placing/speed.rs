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

/// The best of some rounds: what else runs on this machine only adds.
fn best(fabric: &Fabric, names: &[String], rounds: usize) -> Duration {
    let cluster = cluster(names);
    let wiring = fabric.wiring();
    let time = || {
        let start = Instant::now();
        let outcome = first(&cluster, &wiring);
        let took = start.elapsed();
        assert!(!outcome.topology.groups.is_empty());
        took
    };
    (0..rounds).map(|_| time()).min().unwrap()
}

fn slope(prepare: impl Fn(Fabric) -> Fabric, sizes: [usize; 2], rounds: usize) -> f64 {
    let [small, large] = sizes.map(|hosts| {
        let shape = three_tiers(hosts);
        let took = best(&prepare(shape.build()), &shape.names(), rounds);
        println!("{hosts} hosts: {took:?}");
        took.as_secs_f64()
    });
    (large / small).ln() / (sizes[1] as f64 / sizes[0] as f64).ln()
}

#[test]
fn the_cost_grows_with_the_fabric_and_not_with_its_square() {
    for (name, slope) in [
        ("healthy", slope(|fabric| fabric, [1024, 16_384], 3)),
        ("30 % dead", slope(|fabric| fabric.without(30, 1), [1024, 16_384], 3)),
    ] {
        println!("{name}: slope {slope:.3}");
        assert!(slope <= 1.15, "{name}: {slope}");
    }
}

/// One storage switch that bears every host, in a fabric of single-homed racks: every leaf shares a child with it.
#[test]
fn a_switch_that_bears_every_host_costs_nothing_special() {
    let prepare = |mut fabric: Fabric| {
        let hosts: std::collections::BTreeSet<String> = fabric.cables.iter().map(|cable| cable.host.clone()).collect();
        hosts.iter().for_each(|host| fabric.plug(host, "storage-of-all", "mlx5_8"));
        fabric.without(10, 3)
    };
    let slope = slope(prepare, [1024, 16_384], 3);
    println!("with one storage switch: slope {slope:.3}");
    assert!(slope <= 1.15, "{slope}");
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
    assert!(glued < plain * 2, "{plain:?} {glued:?}");
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
    let start = Instant::now();
    round(&cluster, &shape.build().without(30, 1).wiring(), &Settings::default(), &memory);
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
