//! What a large fabric takes in the state that the host keeps.

use crate::fabric::{EIGHT_RAILS, Shape};
use crate::round::{cluster, first};
use topoloom_fabric::{Part, State};

#[test]
fn sixteen_thousand_hosts_stay_small() {
    let units = 16_384 / 32;
    let storage = units / 16 * 2;
    let shape = Shape { units, hosts: 32, pod: 8, spines: 16, cores: 16, storage, storage_units: 16, ..EIGHT_RAILS };
    let wiring = shape.build().wiring();
    let memory = first(&cluster(&shape.names()), &wiring).memory;
    let part = Part { key: "ufm-0".into(), own: Vec::new(), wiring };
    let all = State { parts: vec![part], memory }.to_bytes().len();
    assert!(all < 3 << 20, "{all}");
}
