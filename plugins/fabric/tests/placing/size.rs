//! The size of the state of a large fabric.

use crate::fabric::{EIGHT_RAILS, Shape};
use crate::round::{cluster, first, round};
use topoloom_fabric::{Part, Settings, State};

#[test]
fn sixteen_thousand_hosts_stay_small() {
    let units = 16_384 / 32;
    let storage = units / 16 * 2;
    let shape = Shape { units, hosts: 32, pod: 8, spines: 16, cores: 16, storage, storage_units: 16, ..EIGHT_RAILS };
    let (fabric, cluster) = (shape.build(), cluster(&shape.names()));
    let wiring = fabric.wiring();
    let memory = first(&cluster, &wiring).memory;
    let size = |wiring, memory| {
        let part = Part { key: "ufm-0".into(), own: Vec::new(), wiring };
        State { parts: vec![part], memory }.to_bytes().len()
    };
    let all = size(wiring, memory.clone());
    assert!(all < 3 << 20, "{all}");
    // What is missed of each host is little beside what is there.
    let left = fabric.without(30, 1).wiring();
    let memory = round(&cluster, &left, &Settings::default(), &memory).memory;
    let all = size(left, memory);
    assert!(all < 3 << 20, "{all} with a third of the cables missing");
}
