//! What a UFM, or a proxy before it, does oddly without being wrong: the answer is that of a plain one.

use super::net::{CONFIG, Net, RoundResult, beside, set};
use crate::Ufm;
use serde_json::{Value, json};
use topoloom_sdk::testing::Reply;

const NODES: [&str; 4] = ["a-0", "a-1", "b-0", "b-1"];

/// Two units below one core: groups on two tiers.
fn net() -> Net {
    let mut net = Net::units(&["a", "b"], 2, 4);
    for (unit, rail) in [("a", 0), ("a", 1), ("b", 0), ("b", 1)] {
        net.trunk(&format!("leaf-{unit}-{rail}"), "core");
    }
    net
}

/// A round over what a function makes of every list.
fn round(config: &str, answer: impl Fn(&[Value]) -> Reply + 'static) -> RoundResult {
    let net = net();
    let cluster = beside(NODES, move |path| match path {
        "app/versioning" => Reply::new(404, ""),
        path if path.contains("ports") => answer(&net.ports),
        _ => answer(&net.links),
    });
    RoundResult::of(cluster.discover::<Ufm>(config).unwrap(), &NODES)
}

fn is_whole(seen: &RoundResult) {
    assert_eq!((seen.groups(), seen.tiers()), (set(["a-0 a-1", "b-0 b-1"]), vec![2, 1]));
}

#[test]
fn a_list_is_recognised_by_its_body_under_any_content_type() {
    for kind in ["text/plain", "text/plain; charset=utf-8", "application/octet-stream", "text/html", ""] {
        let seen = round(CONFIG, move |list| Reply::new(200, json!(list).to_string()).header("content-type", kind));
        is_whole(&seen);
        assert_eq!(seen.codes(), [].into(), "{kind}");
    }
    is_whole(&round(CONFIG, |list| Reply::new(200, format!(" \r\n\t{}", json!(list)))));
}

#[test]
fn counters_are_known_by_their_body_too() {
    let net = net();
    let counters = r#"{"ports_version": 1, "links_version": 2, "switches_version": 3, "servers_version": 4}"#;
    let cluster = |state: Vec<u8>| {
        let net = net.clone();
        let plain = |body: String| Reply::new(200, body).header("content-type", "text/plain");
        let cluster = beside(NODES, move |path| match path {
            "app/versioning" => plain(counters.to_owned()),
            path if path.contains("ports") => plain(json!(net.ports).to_string()),
            _ => plain(json!(net.links).to_string()),
        });
        cluster.state(state)
    };
    let first = cluster(Vec::new()).discover::<Ufm>(CONFIG).unwrap();
    let second = cluster(first.state).discover::<Ufm>(CONFIG).unwrap();
    assert_eq!(second.outcome, topoloom_sdk::Outcome::Unchanged);
}

#[test]
fn numbers_that_json_does_not_have_cost_no_record() {
    let odd = r#"{"effective_ber": NaN, "raw_ber": -Infinity, "temperature": Infinity, "age": 1e999, ""#;
    let plain = move |list: &[Value]| json!(list).to_string().replace("{\"", odd);
    let seen = round(CONFIG, move |list| {
        let body = plain(list);
        assert_eq!(body.matches("NaN").count(), list.len());
        Reply::new(200, body)
    });
    is_whole(&seen);
    assert_eq!(seen.codes(), [].into());
    // In pages, with odd numbers too where they are not needed.
    let seen = round(r#"{"endpoint": "ufm", "pageSize": 1000}"#, move |list| {
        let (count, data) = (list.len(), plain(list));
        let around = format!(
            r#"{{"first_index": NaN, "total_resources": {count}, "filtered_resources": {count}, "num_of_pages": 1, "data": {data}, "last_index": Infinity}}"#
        );
        Reply::new(200, around)
    });
    is_whole(&seen);
    assert_eq!(seen.codes(), [].into());
}

#[test]
fn records_that_stand_there_twice_count_once() {
    let twice =
        |list: &[Value]| -> Vec<Value> { list.iter().flat_map(|record| [record.clone(), record.clone()]).collect() };
    let seen = round(CONFIG, move |list| Reply::new(200, json!(twice(list)).to_string()));
    is_whole(&seen);
    let count = net().ports.len();
    let report = seen.report("duplicate-port").unwrap();
    assert!(report.starts_with(&format!("{count} ports are in the list twice: the first counts")), "{report}");
    assert_eq!(seen.codes(), ["duplicate-port"].into());
    // The whole list again behind the first, and cables that are listed from either end: nothing weighs more.
    let once = round(CONFIG, |list| Reply::new(200, json!(list).to_string()));
    let again = round(CONFIG, |list| {
        let mut all = list.to_vec();
        for link in list.iter().filter(|record| record.get("source_guid").is_some()) {
            let mut back = link.clone();
            let (left, right) = link["name"].as_str().unwrap().split_once(':').unwrap();
            back["name"] = json!(format!("{right}:{left}"));
            (back["source_guid"], back["destination_guid"]) =
                (link["destination_guid"].clone(), link["source_guid"].clone());
            all.push(back);
        }
        all.extend_from_slice(list);
        Reply::new(200, json!(all).to_string())
    });
    assert_eq!(again.topology().groups, once.topology().groups);
}
