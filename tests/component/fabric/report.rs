//! The report for the technician who goes to the racks.

use serde_json::{Value, json};
use topoloom_simulator::{
    Credentials, Fabric, FabricDocument, HostKind, LinkState, PortName, Shape, SharedFabric, Simulator, Ufm,
};
use topoloom_tests::schema;

use super::Desk;

const TOKEN: &str = "canary-t0ken-31";

struct Hall {
    desk: Desk,
    fabric: SharedFabric,
    ufm: Simulator,
    _document: Simulator,
}

impl Hall {
    /// Two units of six hosts on four rails, and a storage switch that serves both.
    async fn new() -> Self {
        let shape = "units=2,hosts-per-unit=6,rails=4,pods=1,spines=2,cores=0,storage-leaves=1,seed=7";
        let fabric = SharedFabric::new(Fabric::generate(&shape.parse::<Shape>().unwrap()).unwrap());
        let credentials = Credentials::none().token(TOKEN);
        let ufm = Ufm::builder(fabric.clone()).credentials(credentials.clone()).start().await.unwrap();
        let document = FabricDocument::builder(fabric.clone()).credentials(credentials).start().await.unwrap();
        let desk = Desk::new();
        desk.configure("ufm.yaml", "ufm", &ufm.url(), ufm.ca_pem().unwrap(), "");
        let roles = "    roles: [compute, storage]\n";
        desk.configure("roce.yaml", "roce", &document.url(), document.ca_pem().unwrap(), roles);
        desk.put("secret/token", TOKEN);
        let hall = Self { desk, fabric, ufm, _document: document };
        hall.nodes(&[]);
        hall
    }

    /// A Node for every host but these.
    fn nodes(&self, without: &[&str]) {
        let now = self.fabric.now();
        let hosts = now.hosts().filter(|(_, host)| host.kind == HostKind::Compute);
        let names = hosts.map(|(_, host)| host.name.clone()).filter(|name| !without.contains(&name.as_str()));
        let items: Vec<Value> = names.map(|name| json!({"kind": "Node", "metadata": {"name": name}})).collect();
        self.desk.put("nodes.json", &json!({"apiVersion": "v1", "kind": "NodeList", "items": items}).to_string());
    }

    /// The port of a host on a rail.
    fn port(&self, host: &str, rail: usize) -> PortName {
        let now = self.fabric.now();
        let (_, host) = now.hosts().find(|(_, machine)| machine.name == host).unwrap();
        PortName { guid: host.hcas[rail].guid, number: 1 }
    }

    async fn report(&self, source: &str, words: &str) -> super::End {
        let files = format!("--config {source}.yaml --nodes nodes.json --credentials secret");
        self.desk.run(&format!("fabric report {files} {words}")).await
    }
}

/// Parts of a report, in the order of a walk through the hall: each finding below its title.
const WALK: [&str; 11] = [
    ": plugin ",
    "Hosts with a cable into another unit (miscabled-host, 1)\n",
    "gpu-00001: host \"gpu-00001\" is in group ",
    "but also cabled to switch \"leaf-su1-r2\" port ",
    "Leaf switches that serve more than one unit (shared-leaf, 1)\n",
    "storage-leaf-0: switch \"storage-leaf-0\" serves several groups; its ",
    "Hosts with dead links (dead-links, 2)\n",
    "gpu-00008: host \"gpu-00008\": 1 of 5 links down: switch \"leaf-su1-r3\" port ",
    "gpu-00011: host \"gpu-00011\": 5 of 5 links down: ",
    "Hosts in the fabric that match no Node (unmatched-host, 1)\n",
    "gpu-00003: no Node matches host \"gpu-00003\"",
];

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_in_a_hall_is_named_with_its_evidence() {
    let hall = Hall::new().await;
    let (odd, dead) = (hall.port("gpu-00001", 2), hall.port("gpu-00008", 3));
    hall.fabric.edit(|fabric| fabric.plug(odd, "leaf-su1-r2")).unwrap();
    hall.fabric.edit(|fabric| fabric.cut_port(dead, LinkState::Down)).unwrap();
    hall.fabric.edit(|fabric| fabric.cut_host("gpu-00011", LinkState::Down)).unwrap();
    hall.nodes(&["gpu-00003"]);
    // The plugin reads only the ports that are up from UFM. It finds a dead link because neighbours of the host have
    // that link, and it does not see a host without any link.
    let by_neighbours: Vec<&str> = WALK
        .iter()
        .filter(|words| !words.starts_with("gpu-00011"))
        .map(|words| match *words {
            "Hosts with dead links (dead-links, 2)\n" => "Hosts with dead links (dead-links, 1)\n",
            words if words.starts_with("gpu-00008") => {
                "gpu-00008: host \"gpu-00008\": 1 of 5 links down: switch \"leaf-su1-r3\" (reached by 4 of 5 hosts of its group)"
            }
            words => words,
        })
        .collect();
    for source in ["ufm", "roce"] {
        let end = hall.report(source, "--exit-code").await;
        assert_eq!((end.code, end.error.as_str()), (Some(3), ""), "{}", end.out);
        let mut rest = end.out.as_str();
        let walk = if source == "roce" { WALK.to_vec() } else { by_neighbours.clone() };
        for words in walk {
            let at = rest.find(words).unwrap_or_else(|| panic!("{words:?} is not, or not there, in\n{}", end.out));
            rest = &rest[at + words.len()..];
        }

        let end = hall.report(source, "-o json").await;
        assert_eq!(end.code, Some(0), "without --exit-code findings are no failure: {}", end.error);
        let said = schema::checked(&end.out).unwrap();
        let said = &said["sources"][0];
        assert_eq!((&said["source"], &said["error"]), (&json!(source), &Value::Null));
        let found = |code: &str, key: &str| -> Vec<Value> {
            let findings = said["findings"].as_array().unwrap().iter();
            findings.filter(|finding| finding["code"] == code).map(|finding| finding[key].clone()).collect()
        };
        assert_eq!(found("miscabled-host", "nodes"), [json!(["gpu-00001"])]);
        assert!(found("miscabled-host", "detail")[0].as_str().unwrap().contains("leaf-su1-r2"));
        assert_eq!(found("shared-leaf", "name"), [json!("storage-leaf-0")]);
        assert_eq!(found("unmatched-host", "name"), [json!("gpu-00003")]);
        let dead = [json!(["gpu-00008"]), json!(["gpu-00011"])];
        assert_eq!(found("dead-links", "nodes"), dead[..if source == "roce" { 2 } else { 1 }]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hall_without_a_fault_has_nothing_to_report() {
    let hall = Hall::new().await;
    hall.fabric.edit(|fabric| fabric.remove_switch("storage-leaf-0")).unwrap();
    for source in ["ufm", "roce"] {
        let end = hall.report(source, "--exit-code").await;
        assert!(end.code == Some(0) && end.out.contains("nothing to report"), "{end:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_report_is_a_failure_whatever_else_was_found() {
    let hall = Hall::new().await;
    let good = hall.desk.read("ufm.yaml");
    let closed = good
        .replace("source: ufm", "source: closed\n  discoverer: ufm")
        .replace(&hall.ufm.url(), "https://127.0.0.1:1");
    let entry = closed.trim_start_matches("networkTopologyDiscovery:\n");
    hall.desk.put("ufm.yaml", &format!("{good}{entry}"));
    for words in ["--exit-code", ""] {
        let end = hall.report("ufm", words).await;
        assert_eq!(end.code, Some(1), "{end:?}");
        assert!(end.out.contains("shared-leaf") && end.out.contains("no report: "), "{end:?}");
        assert!(end.error.contains("topoloom: source closed: "), "{end:?}");
    }
    let end = hall.report("ufm", "--source ufm --exit-code").await;
    assert!(end.code == Some(3) && !end.out.contains("closed"), "{end:?}");
}
