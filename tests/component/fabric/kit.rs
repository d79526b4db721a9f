//! The builtin plugins that read a fabric keep the promises that plugins of others have to keep: cases of them are recorded from
//! a simulated fabric manager.

use rustix::process::Signal;
use topoloom_tests::builtins;

use super::{Desk, Simulated};

const OPEN: &str = "--token canary-t0ken-31 --document 127.0.0.1:0 --write out";

#[tokio::test]
async fn the_plugins_that_read_a_fabric_pass() {
    let desk = Desk::new();
    let simulated = Simulated::start(&desk, OPEN).await;
    let (ufm, document) = (simulated.said("UFM"), simulated.said("fabric document").replace("/v1/fabric", ""));
    let ca = desk.read("out/ca.crt");
    desk.put("token/token", "canary-t0ken-31");
    let pem: String = ca.lines().map(|line| format!("  {line}\n")).collect();
    for (source, url) in [("ufm", &ufm), ("roce", &document)] {
        desk.configure(&format!("{source}.yaml"), source, url, &ca, "");
        let words = format!("--config {source}.yaml --nodes out/nodes.yaml --credentials token");
        let case = format!("{source}/small");
        desk.put(&format!("{case}/nodes.yaml"), &desk.read("out/nodes.yaml"));
        desk.put(&format!("{case}/config.yaml"), &format!("endpoint: \"{url}\"\ncaBundle: |\n{pem}"));
        desk.done(&format!("discover {words} --record {case}/recording.json")).await;
        std::fs::write(desk.path(&format!("{source}.wasm")), &*builtins::find(source).bytes).unwrap();
    }
    assert_eq!(simulated.end(Signal::TERM).await, Some(0));
    for source in ["ufm", "roce"] {
        let end = desk.run(&format!("plugin test {source}.wasm --cases {source} --bless")).await;
        assert_eq!(end.code, Some(0), "{source}: {}{}", end.out, end.error);
        assert!(end.out.contains("pass  http-unauthorized") && end.out.contains("pass  case-expected"), "{}", end.out);
    }
}
