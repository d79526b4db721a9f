//! The cluster against discoverers that do what a host refuses.

use super::*;
use crate::prelude::*;

/// Asks for everything, and does what its configuration names.
struct Wild;

#[derive(serde::Deserialize)]
struct Act {
    act: String,
}

impl Discoverer for Wild {
    type Config = Act;

    fn describe() -> Description {
        Description::new("wild", "0.1.0")
    }

    fn configure(config: &Act) -> Result<Requirements, Vec<Problem>> {
        let wish = Endpoint::new("list", "Reads the list").paths(["/v1"]).credentials([Credential::Bearer]);
        let wishes = Requirements::new().node_label("acme.example/rack").node_annotation("switch").endpoint(wish);
        Ok(if config.act == "no-key" { wishes.node_label("no key") } else { wishes })
    }

    fn discover(config: &Act, input: &Input<'_>) -> Result<Answer, Failure> {
        let send = |request| input.http.send(&request).map(drop);
        match config.act.as_str() {
            "names" => drop(input.nodes.find(["m1"])),
            "post" => send(Request::post("list", "/v1/x", b"{}"))?,
            "body" => send(Request { body: Some(vec![1]), ..Request::get("list", "/v1") })?,
            "header" => send(Request::get("list", "/v1").header("Authorization", "Bearer x"))?,
            "up" => send(Request::get("list", "/v1/../v2"))?,
            "elsewhere" => send(Request::get("list", "/v2?page=1"))?,
            "unknown" => send(Request::get("other", "/v1"))?,
            "within" => send(Request::get("list", "/v1/nodes?page=1"))?,
            "unchanged" => return Ok(Answer::unchanged(vec![1])),
            _ => {}
        }
        crate::log::info(&config.act);
        let mut topology = TopologyBuilder::new();
        let level = topology.level(Level::new(1));
        if config.act == "empty" {
            topology.group(level, "a").rows(Vec::new());
        }
        if config.act == "beyond" {
            topology.group(level, "a").rows(vec![7]);
        }
        Ok(topology.finish().into())
    }
}

fn cluster() -> Cluster {
    Cluster::new().node("m1", []).endpoint("list", Credential::Bearer, |_| Ok(Reply::new(200, "[]")))
}

fn run(cluster: &Cluster, act: &str) -> Result<Answer, Failure> {
    cluster.discover::<Wild>(&format!(r#"{{"act": "{act}"}}"#))
}

#[track_caller]
fn denied(cluster: &Cluster, act: &str, words: &str) {
    assert_eq!(run(cluster, act), Err(Failure::Denied(words.to_owned())), "{act}");
}

#[test]
fn what_configure_did_not_ask_for_is_denied() {
    denied(&cluster(), "post", "POST is not granted on the endpoint list");
    denied(&cluster(), "body", "GET has no body");
    denied(&cluster(), "elsewhere", "the path \"/v2?page=1\" of the endpoint list is not granted, only /v1");
    denied(&cluster(), "up", "the path \"/v1/../v2\" is refused: it has a `.` or `..` segment");
    let Err(Failure::Denied(words)) = run(&cluster(), "header") else { panic!("a header of the host is sent") };
    assert!(
        words.starts_with("the header \"Authorization\" belongs to the host; a plugin may set accept, "),
        "{words}"
    );
    denied(&cluster(), "unknown", "the endpoint \"other\" is not granted");
    assert!(run(&cluster(), "within").is_ok());
}

#[test]
fn a_plugin_that_asks_for_more_than_it_gets_is_not_called() {
    let all = || Permissions::none().node_label("acme.example/*").node_annotation("switch");
    let permitted = |permissions| cluster().permit(permissions);
    assert!(run(&permitted(all().endpoint("list", [Method::Get], ["/"])), "").is_ok());
    let lacks = |words: &str| format!("the plugin requests what is not granted: {words}, which is not permitted");
    denied(&permitted(all()), "", &lacks("the plugin calls the endpoint list (Reads the list)"));
    let other = all().endpoint("list", [Method::Post], ["/v2"]);
    denied(
        &permitted(other),
        "",
        &lacks(
            "the plugin uses GET on the endpoint list, which is not permitted; \
             the plugin uses /v1 of the endpoint list",
        ),
    );
    denied(
        &permitted(Permissions::none().node_label("acme.example.evil/*").endpoint("list", [Method::Get], [])),
        "",
        &lacks(
            "the plugin reads the node label acme.example/rack, which is not permitted; \
             the plugin reads the node annotation switch",
        ),
    );
    let silent = all().endpoint("list", [Method::Get], ["/v1"]);
    denied(&permitted(silent.clone()), "names", &lacks("the plugin reads names of Nodes"));
    assert!(run(&permitted(silent.node_names()), "names").is_ok());
}

#[test]
fn what_the_host_would_refuse_is_a_failure_with_its_words() {
    let refused = |act: &str| match run(&cluster(), act) {
        Err(Failure::Internal(words)) => words,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused("empty"),
        "the topology is not valid: group \"a\": the group has no members (wit/README.md#rule-empty)"
    );
    assert_eq!(refused("beyond"), "the answer is not valid: group 0 has node row 7 and there are 1 nodes");
    assert!(refused("unchanged").ends_with("but has no state of an earlier answer"));
    assert!(
        refused("no-key").starts_with("the answer is not valid: it asks for the node label or annotation \"no key\"")
    );
}

#[test]
fn each_round_has_its_lines() {
    let cluster = cluster();
    for act in ["first", "second"] {
        run(&cluster, act).unwrap();
        assert_eq!(cluster.log(), [(crate::log::Level::Info, act.to_owned())]);
    }
    assert_eq!(take_log().len(), 2);
}

#[test]
fn a_failed_round_keeps_state_and_topology() {
    let mut rounds = cluster().state(vec![3]).rounds::<Wild>(r#"{"act": "unchanged"}"#);
    rounds.run().unwrap();
    assert_eq!((rounds.state(), rounds.show()), (&[1][..], ""));
    let mut broken = cluster().state(vec![3]).rounds::<Wild>(r#"{"act": "beyond"}"#);
    assert!(broken.run().is_err());
    assert_eq!(broken.state(), [3]);
    assert!(broken.restart().state().is_empty());
}
