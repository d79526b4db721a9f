//! Hosts that are no Nodes and are connected above the leaves.

use serde_json::{Value, json};
use topoloom_simulator::{Chassis, Credentials, Fabric, FabricDocument, HostKind, Layer, Shape, SharedFabric, Ufm};

use super::Desk;

const TOKEN: &str = "canary-t0ken-47";

/// How many groups of each tier `topoloom discover` finds, by the lines of the tree.
async fn tiers(desk: &Desk, source: &str) -> [usize; 3] {
    let tree = desk.done(&format!("discover --config {source}.yaml --nodes nodes.json --credentials secret")).await;
    [1, 2, 3].map(|tier| tree.lines().filter(|line| line.contains(&format!("tier {tier} "))).count())
}

/// Four units in two pods below cores, and a folder of files for them: a Node for every compute host.
fn hall() -> (SharedFabric, Desk) {
    let shape = "units=4,hosts-per-unit=4,rails=2,pods=2,spines=2,cores=2,storage-leaves=0,service-hosts=1,seed=7";
    let fabric = SharedFabric::new(Fabric::generate(&shape.parse::<Shape>().unwrap()).unwrap());
    let desk = Desk::new();
    desk.put("secret/token", TOKEN);
    let now = fabric.now();
    let hosts = now.hosts().filter(|(_, host)| host.kind == HostKind::Compute);
    let items: Vec<Value> = hosts.map(|(_, host)| json!({"kind": "Node", "metadata": {"name": host.name}})).collect();
    desk.put("nodes.json", &json!({"apiVersion": "v1", "kind": "NodeList", "items": items}).to_string());
    (fabric, desk)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_on_each_spine_and_core_takes_no_tier_away() {
    let (fabric, desk) = hall();
    let ufm = Ufm::builder(fabric.clone()).credentials(Credentials::default().token(TOKEN)).start().await.unwrap();
    desk.configure("ufm.yaml", "ufm", &ufm.url(), ufm.ca_pem().unwrap(), "");
    assert_eq!(tiers(&desk, "ufm").await, [4, 2, 1]);
    let now = fabric.now();
    let service = now.hosts().find(|(_, host)| host.kind == HostKind::Service).unwrap().1;
    let above = now.switches().filter(|(_, switch)| matches!(switch.layer, Layer::Spine | Layer::Core));
    for (_, switch) in above {
        fabric.edit(|fabric| fabric.add_stray(&service.name, &switch.name)).unwrap();
    }
    assert_eq!(tiers(&desk, "ufm").await, [4, 2, 1]);
    ufm.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn switches_with_another_chassis_id_on_every_port_give_the_same_tree_and_are_named() {
    let (fabric, desk) = hall();
    let server = FabricDocument::builder(fabric).credentials(Credentials::default().token(TOKEN));
    let server = server.chassis(Chassis::OfPort).start().await.unwrap();
    desk.configure("roce.yaml", "roce", &server.url(), server.ca_pem().unwrap(), "");
    assert_eq!(tiers(&desk, "roce").await, [4, 2, 1]);
    let report = desk.done("fabric report --config roce.yaml --nodes nodes.json --credentials secret").await;
    let title = "Switches with a different chassis id on every port (chassis-per-port, 8)";
    assert!(report.contains(title), "{report}");
    server.stop().await;
}
