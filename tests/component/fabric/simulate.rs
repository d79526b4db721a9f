//! A simulated fabric manager, for tests and rehearsals.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Desk, PATIENCE, Simulated, client, nodes};

const OPEN: &str = "--token canary-t0ken-31 --document 127.0.0.1:0 --admin 127.0.0.1:0 --write out";

fn desk(simulated: &Simulated) -> impl Fn(&Desk) {
    let (ufm, document) = (simulated.said("UFM"), simulated.said("fabric document").replace("/v1/fabric", ""));
    move |desk: &Desk| {
        let ca = desk.read("out/ca.crt");
        desk.put("secret/token", "canary-t0ken-31\n");
        desk.configure("ufm.yaml", "ufm", &ufm, &ca, "");
        desk.configure("roce.yaml", "roce", &document, &ca, "");
    }
}

#[tokio::test]
async fn a_simulated_fabric_is_discovered_broken_mended_and_ended() {
    let desk = Desk::new();
    let simulated = Simulated::start(&desk, OPEN).await;
    assert_eq!(simulated.said("fabric  "), "8 hosts, 6 switches, 32 cables, 64 ports");
    assert_eq!(simulated.said("written"), "out");
    assert_eq!(nodes(&desk.path("out/nodes.yaml")), 8);
    self::desk(&simulated)(&desk);
    let look = |source: &str| format!("discover --config {source}.yaml --nodes out/nodes.yaml --credentials secret");
    for source in ["ufm", "roce"] {
        let tree = desk.done(&look(source)).await;
        assert!(tree.contains("8 of 8 nodes have a place in 3 groups"), "{tree}");
    }

    // Faults at each of the two servers, set through the admin listener.
    let admin = simulated.said("faults, edits");
    let send = async |request: reqwest::RequestBuilder| request.send().await.unwrap().json::<Value>().await.unwrap();
    assert_eq!(send(client().put(format!("{admin}/ufm/faults")).body("html")).await, json!(["html"]));
    let end = desk.run(&look("ufm")).await;
    assert!(end.code == Some(1) && end.error.contains("topoloom: source ufm: "), "{end:?}");
    assert!(end.error.contains("a login page or a proxy"), "{end:?}");
    desk.done(&look("roce")).await;
    send(client().put(format!("{admin}/document/faults")).body("status:503:2")).await;
    let end = desk.run(&look("roce")).await;
    assert!(end.code == Some(1) && end.error.contains("503"), "{end:?}");
    for faults in ["faults", "document/faults"] {
        assert_eq!(send(client().delete(format!("{admin}/{faults}"))).await, json!([]));
    }

    // Edits reach both servers; the help has what is needed to write one.
    send(client().post(format!("{admin}/edits")).body("move-host gpu-00000 1\ndown-host gpu-00007")).await;
    for source in ["ufm", "roce"] {
        let tree = desk.done(&format!("{} --show-nodes", look(source))).await;
        assert!(tree.contains(" gpu-00001 gpu-00002 gpu-00003\n"), "{tree}");
    }
    let report = desk.done(&look("roce").replace("discover", "fabric report")).await;
    assert!(report.contains("host \"gpu-00007\": 2 of 2 links down"), "{report}");
    let help = desk.done("fabric simulate --help").await;
    for word in ["move-host <host> <unit>", "down-host <host>", "html", "hosts-per-unit=1..4096", "Basic TOKEN"] {
        assert!(help.contains(word), "{word}: {help}");
    }
    assert_eq!(simulated.end(Signal::TERM).await, Some(0));
    let end = desk.run(&look("ufm")).await;
    assert!(end.code == Some(1) && end.error.contains("cannot connect"), "{end:?}");
}

#[tokio::test]
async fn a_simulator_whose_certificate_signed_itself_is_believed_by_its_ca_crt() {
    let desk = Desk::new();
    let simulated = Simulated::start(&desk, &format!("{OPEN} --self-signed")).await;
    self::desk(&simulated)(&desk);
    for source in ["ufm", "roce"] {
        desk.done(&format!("discover --config {source}.yaml --nodes out/nodes.yaml --credentials secret")).await;
    }
    assert_eq!(simulated.end(Signal::TERM).await, Some(0));
}

#[tokio::test]
async fn an_interrupt_ends_it_as_well() {
    let desk = Desk::new();
    let simulated = Simulated::start(&desk, "--plain").await;
    assert!(simulated.said("UFM").starts_with("http://127.0.0.1:"), "{}", simulated.text);
    assert_eq!(simulated.end(Signal::INT).await, Some(0));
}

#[tokio::test]
async fn files_that_cannot_be_written_end_it_at_once() {
    let desk = Desk::new();
    desk.put("taken", "a file, where a folder should be");
    let end = desk.run("fabric simulate --write taken").await;
    assert_eq!((end.code, end.out.as_str()), (Some(1), ""), "{end:?}");
    assert!(end.error.contains("topoloom: --write taken"), "{end:?}");
}

#[tokio::test]
async fn a_reader_that_goes_away_does_not_end_it() {
    let desk = Desk::new();
    let mut simulated = Simulated::start(&desk, "--admin 127.0.0.1:0").await;
    // Its standard output is closed by now.
    let fabric = client().get(format!("{}/fabric", simulated.said("faults, edits"))).send();
    let fabric = tokio::time::timeout(PATIENCE, fabric).await.unwrap().unwrap();
    assert_eq!(fabric.status(), 200);
    assert_eq!(simulated.child.try_wait().unwrap(), None);
    assert_eq!(simulated.end(Signal::TERM).await, Some(0));
}
