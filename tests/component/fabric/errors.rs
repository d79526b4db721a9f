//! Wrong arguments and broken files: the message shows what is wrong, where, and what would be right.

use std::net::TcpListener;

use super::Desk;

/// The arguments, the exit code, and parts of the error.
const WRONG: [(&str, i32, &[&str]); 25] = [
    ("fabric simulate --shape units=0", 2, &["--shape", "units", "1 to 65536"]),
    ("fabric simulate --shape colour=red", 2, &["--shape", "colour", "hosts-per-unit"]),
    ("fabric simulate --fault burn", 2, &["--fault", "burn", "slow-headers"]),
    ("fabric simulate --fault status:99", 2, &["--fault", "99", "200 to 599"]),
    ("fabric simulate --user admin", 2, &["--user", "USER:PASSWORD"]),
    ("fabric simulate --client ops", 2, &["--write"]),
    ("fabric simulate --listen nowhere", 2, &["--listen", "nowhere"]),
    ("fabric simulate --admin 0.0.0.0:0", 1, &["0.0.0.0:0", "loopback"]),
    ("fabric report --config good.yaml", 2, &["--nodes"]),
    ("fabric report --nodes nodes.yaml", 2, &["--config <FILE>"]),
    ("fabric report --record x.json", 2, &["--nodes"]),
    ("fabric report --config good.yaml --nodes nodes.yaml -o xml", 2, &["xml", "text", "json"]),
    ("fabric report --config good.yaml --nodes nodes.yaml --source other", 1, &["\"other\"", "enabled: ufm"]),
    ("discover --config missing.yaml --nodes nodes.yaml", 1, &["--config missing.yaml", "No such file"]),
    ("discover --config broken.yaml --nodes nodes.yaml", 1, &["--config broken.yaml", "line 2"]),
    ("discover --config good.yaml --nodes missing.yaml", 1, &["--nodes missing.yaml", "No such file"]),
    ("discover --config good.yaml --nodes broken.yaml", 1, &["--nodes broken.yaml"]),
    ("discover --config good.yaml --nodes nodes.yaml", 1, &["--credentials DIR"]),
    (
        "discover --config good.yaml --nodes nodes.yaml --credentials empty",
        1,
        &["no file named like a key of a Secret"],
    ),
    (
        "discover --config good.yaml --nodes nodes.yaml --replay broken.yaml",
        1,
        &["--replay broken.yaml", "no recording"],
    ),
    ("discover --config good.yaml --nodes nodes.yaml --replay later.json", 1, &["version 2", "this host reads 1"]),
    (
        "discover --config good.yaml --nodes nodes.yaml --credentials missing",
        1,
        &["--credentials missing: No such file"],
    ),
    (
        "discover --config good.yaml --nodes nodes.yaml --credentials nodes.yaml",
        1,
        &["--credentials nodes.yaml: it is no folder"],
    ),
    ("discover --config good.yaml --nodes nodes.yaml --record missing/x", 1, &["--record missing/x: No such file"]),
    ("discover --config good.yaml --nodes nodes.yaml --replay a --record b", 2, &["--replay", "--record"]),
];

#[tokio::test]
async fn wrong_words_and_broken_files_are_distinguished() {
    let desk = Desk::new();
    desk.configure("good.yaml", "ufm", "https://127.0.0.1:1", "", "");
    let good = desk.read("good.yaml").replace("    caBundle: |\n", "");
    desk.put("good.yaml", &good);
    desk.put("broken.yaml", "networkTopologyDiscovery:\n- [}\n");
    desk.put("later.json", r#"{"version": 2, "sources": {}}"#);
    desk.put("nodes.yaml", "apiVersion: v1\nkind: NodeList\nitems:\n- {kind: Node, metadata: {name: n1}}\n");
    desk.put("empty/readme", "");
    for (words, code, parts) in WRONG {
        let end = desk.run(words).await;
        assert_eq!(end.code, Some(code), "{words}: {end:?}");
        for part in parts {
            assert!(end.error.contains(part), "{words}: {part:?} is not in {}", end.error);
        }
        assert!(!end.error.contains("panicked") && !end.error.contains("RUST_BACKTRACE"), "{words}: {}", end.error);
    }
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let desk = Desk::new();
    for words in [format!("--listen {address}"), format!("--document {address}"), format!("--admin {address}")] {
        let end = desk.run(&format!("fabric simulate {words}")).await;
        assert_eq!((end.code, end.out.as_str()), (Some(1), ""), "{words}: {end:?}");
        assert!(end.error.contains(&address.to_string()), "{words}: {end:?}");
    }
}
