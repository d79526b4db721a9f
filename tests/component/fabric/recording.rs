//! Recordings: what a live round received, replayed without the server.

use rustix::process::Signal;
use serde_json::Value;

use super::{Desk, Simulated};

const OPEN: &str =
    "--token canary-t0ken-31 --user admin:canary-passw0rd --client ops --document 127.0.0.1:0 --write out";

/// What no recording may contain: credentials, and `admin:canary-passw0rd` as Basic authentication sends it.
const SECRETS: [&str; 3] = ["canary", "YWRtaW46Y2FuYXJ5", "PRIVATE KEY"];

#[tokio::test]
async fn a_recording_gives_the_same_again_without_server_and_without_secrets() {
    let desk = Desk::new();
    let simulated = Simulated::start(&desk, OPEN).await;
    let (ufm, document) = (simulated.said("UFM"), simulated.said("fabric document").replace("/v1/fabric", ""));
    let ca = desk.read("out/ca.crt");
    desk.put("token/token", "canary-t0ken-31");
    desk.put("basic/username", "admin\n");
    desk.put("basic/password", "canary-passw0rd\n");
    desk.put("mtls/tls.crt", &desk.read("out/ops.crt"));
    desk.put("mtls/tls.key", &desk.read("out/ops.key"));
    desk.configure("ufm.yaml", "ufm", &ufm, &ca, "");
    desk.configure("roce.yaml", "roce", &document, &ca, "");
    let rounds = ["ufm token", "ufm basic", "ufm mtls", "roce token", "roce basic", "roce mtls"];
    let mut live = Vec::new();
    for round in rounds {
        let (source, secret) = round.split_once(' ').unwrap();
        let words = format!("--config {source}.yaml --nodes out/nodes.yaml --credentials {secret}");
        let tree = desk.done(&format!("discover {words} --record {source}-{secret}.json --show-nodes")).await;
        assert!(tree.contains("8 of 8 nodes have a place in 3 groups"), "{round}: {tree}");
        let objects = desk.done(&format!("discover {words} -o yaml")).await;
        let recording = desk.read(&format!("{source}-{secret}.json"));
        for secret in SECRETS {
            assert!(!recording.contains(secret), "{round}: {secret:?} is in the recording");
        }
        let said: Value = serde_json::from_str(&recording).unwrap();
        let exchanges = said["sources"][source]["exchanges"].as_array().unwrap();
        assert!(exchanges.iter().all(|exchange| exchange["status"] == 200), "{round}: {exchanges:#?}");
        let header = |exchange: &Value| exchange["headers"].to_string().to_lowercase();
        assert!(!exchanges.iter().any(|exchange| header(exchange).contains("authorization")), "{round}");
        live.push((tree, objects));
    }
    assert_eq!(simulated.end(Signal::TERM).await, Some(0));
    for (round, (tree, objects)) in rounds.iter().zip(live) {
        let (source, secret) = round.split_once(' ').unwrap();
        let words = format!("--config {source}.yaml --nodes out/nodes.yaml --replay {source}-{secret}.json");
        assert_eq!(desk.done(&format!("discover {words} --show-nodes")).await, tree, "{round}");
        assert_eq!(desk.done(&format!("discover {words} -o yaml")).await, objects, "{round}");
        desk.done(&format!("fabric report {words} --exit-code")).await;
    }
}

#[tokio::test]
async fn a_recording_of_a_failure_fails_in_the_same_words() {
    let desk = Desk::new();
    let simulated = Simulated::start(&desk, "--token canary-t0ken-31 --write out --fault truncated").await;
    desk.put("token/token", "canary-t0ken-31");
    desk.configure("ufm.yaml", "ufm", &simulated.said("UFM"), &desk.read("out/ca.crt"), "");
    let words = "discover --config ufm.yaml --nodes out/nodes.yaml";
    let live = desk.run(&format!("{words} --credentials token --record failed.json")).await;
    assert!(live.code == Some(1) && live.error.contains("ends in the middle"), "{live:?}");
    assert_eq!(simulated.end(Signal::TERM).await, Some(0));
    let again = desk.run(&format!("{words} --replay failed.json")).await;
    assert_eq!((again.code, again.error), (live.code, live.error));
}
