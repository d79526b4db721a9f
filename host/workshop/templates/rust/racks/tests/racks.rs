//! The discoverer as an ordinary program: no WebAssembly and no cluster.

use racks::Racks;
use topoloom_sdk::testing::Cluster;

#[test]
fn nodes_of_one_rack_are_one_group() {
    let cluster = Cluster::new().node("m1", [("rack", "a7")]).node("m2", [("rack", "a7")]).node("m3", []);
    let answer = cluster.discover::<Racks>(r#"{"label": "rack"}"#).unwrap();
    assert_eq!(cluster.show(&answer), "tier 1 rack | a7 | rack=a7 | m1 m2\n");
}
