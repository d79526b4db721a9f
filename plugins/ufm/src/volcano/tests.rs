use super::Port;
use crate::Ufm;
use crate::port::Unusable;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use topoloom_sdk::json::{Elements, Members};
use topoloom_sdk::testing::{Cluster, Reply};
use topoloom_sdk::{Answer, Credential, Failure, Members as Of, Outcome};

const CONFIG: &str = r#"{"endpoint": "ufm", "compat": "volcano"}"#;

fn cluster(ports: String, versioning: Option<u64>) -> Cluster {
    Cluster::new().endpoint("ufm", Credential::Basic, move |request| {
        Ok(match (request.path_and_query.as_str(), versioning) {
            ("/ufmRest/resources/ports", _) => Reply::new(200, ports.clone()),
            ("/ufmRest/app/versioning", Some(version)) => {
                let body =
                    json!({"ports_version": version, "links_version": 1, "switches_version": 1, "servers_version": 1});
                Reply::new(200, body.to_string())
            }
            _ => Reply::new(404, ""),
        })
    })
}

/// Name, tier and members of every object.
type Objects = BTreeMap<String, (u32, Vec<String>)>;

fn objects(answer: &Answer) -> Objects {
    let Outcome::Topology(topology) = &answer.outcome else { panic!("unchanged") };
    let name = |at: u32| topology.groups[at as usize].fixed_name.clone().expect("every name is a promise");
    let members = |members: &Of| match members {
        Of::Names(names) => names.iter().map(str::to_owned).collect(),
        Of::Groups(groups) => groups.iter().map(|&group| name(group)).collect(),
        other => panic!("{other:?}"),
    };
    (0..)
        .zip(&topology.groups)
        .map(|(at, group)| {
            let level = &topology.levels[group.level as usize];
            assert_eq!(level.tier_name, None);
            (name(at), (level.tier, members(&group.members)))
        })
        .collect()
}

fn round(ports: &Value) -> Result<Objects, Failure> {
    cluster(ports.to_string(), None).discover::<Ufm>(CONFIG).map(|answer| objects(&answer))
}

fn port(description: &str, host: &str, leaf: &str) -> Value {
    json!({"description": description, "system_name": host, "peer_node_name": leaf, "tier": 1})
}

fn expected<const N: usize>(objects: [(&str, u32, &[&str]); N]) -> Objects {
    let strings = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    objects.into_iter().map(|(name, tier, members)| (name.to_owned(), (tier, strings(members)))).collect()
}

/// The worked example of Volcano's behaviour.
#[test]
fn leaves_that_share_a_host_are_one_group_under_one_spine() {
    let ports = json!([
        port("Computer IB Port", "dgx-02", "sw-b"),
        port("Computer IB Port", "dgx-01", "sw-a"),
        port("Computer IB Port", "dgx-01", "sw-b"),
        port("Computer IB Port", "dgx-03", "sw-c"),
        port("Switch IB Port", "sw-a", "core-1"),
    ]);
    let all = expected([
        ("leaf-hn-0", 1, &["dgx-01", "dgx-02"]),
        ("leaf-hn-1", 1, &["dgx-03"]),
        ("spine-hn", 2, &["leaf-hn-0", "leaf-hn-1"]),
    ]);
    assert_eq!(round(&ports).unwrap(), all);
}

#[test]
fn names_are_taken_as_they_come() {
    let ports = json!([
        port("My Computer", "host-1.ib", " sw "),
        port("Computer", "h2", " sw "),
        port("computer", "h3", " sw "),
        {"DESCRIPTION": "Computer", "System_Name": "h4", "Peer_Node_Name": "sw"},
        null,
    ]);
    let all = expected([
        ("leaf-hn-0", 1, &["h2", "host-1.ib"]),
        ("leaf-hn-1", 1, &["h4"]),
        ("spine-hn", 2, &["leaf-hn-0", "leaf-hn-1"]),
    ]);
    assert_eq!(round(&ports).unwrap(), all);
    assert_eq!(round(&json!([])).unwrap(), expected([]));
}

/// To Volcano they are plugged into one leaf that is called `N/A`.
#[test]
fn dead_ports_do_not_weld_racks_together_and_are_reported() {
    let mut ports: Vec<Value> = (0..3)
        .flat_map(|rack| (0..2).map(move |host| (rack, format!("h{rack}{host}"))))
        .map(|(rack, host)| port("Computer IB Port", &host, &format!("rack-{rack}")))
        .collect();
    let racks = expected([
        ("leaf-hn-0", 1, &["h00", "h01"]),
        ("leaf-hn-1", 1, &["h10", "h11"]),
        ("leaf-hn-2", 1, &["h20", "h21"]),
        ("spine-hn", 2, &["leaf-hn-0", "leaf-hn-1", "leaf-hn-2"]),
    ]);
    for (host, peer) in
        [("h20", "N/A"), ("h10", "n/a"), ("h00", "N/A"), ("h20", ""), ("h11", "  "), ("h01", "None"), ("dark", "N/A")]
    {
        ports.push(port("Computer IB Port", host, peer));
    }
    ports.push(json!({"description": "Computer IB Port", "system_name": "h00"}));
    ports.push(json!({"description": "Computer IB Port", "system_name": "h10", "peer_node_name": null}));
    ports.push(port("Switch IB Port", "rack-0", "N/A"));
    for _ in 0..2 {
        let answer = cluster(json!(ports).to_string(), None).discover::<Ufm>(CONFIG).unwrap();
        assert_eq!(objects(&answer), racks);
        let Outcome::Topology(topology) = answer.outcome else { panic!("unchanged") };
        let found: Vec<_> = topology.diagnostics.iter().map(|report| (&*report.code, &*report.detail)).collect();
        let sentence = "9 ports do not say which switch they are plugged into, for instance \"dark\", \"h00\", \"h01\"";
        assert_eq!(found, [("no-peer", sentence)]);
        ports.reverse();
    }
}

#[test]
fn members_of_the_spine_are_sorted_as_text() {
    let ports: Vec<Value> = (0..12).map(|n| port("Computer", &format!("h{n:02}"), &format!("leaf{n:02}"))).collect();
    let objects = round(&json!(ports)).unwrap();
    let spine = &objects["spine-hn"].1;
    assert_eq!((spine.len(), spine.is_sorted()), (12, true));
    assert_eq!(spine[2], "leaf-hn-10");
    assert_eq!(objects["leaf-hn-11"].1, ["h11"]);
}

#[test]
fn one_record_of_the_wrong_type_fails_the_round() {
    for (key, value) in
        [("tier", json!("4")), ("tier", json!(1.5)), ("system_name", json!(7)), ("node_description", json!([]))]
    {
        let mut ports = vec![port("Computer", "h1", "l1"); 99];
        ports[50][key] = value;
        let Err(Failure::Upstream(failure)) = round(&json!(ports)) else { panic!("{key}") };
        assert!(failure.message.contains(&format!("number 50: its {key} is not a usable text")), "{}", failure.message);
    }
    assert!(round(&json!({})).is_err());
}

#[test]
fn a_field_that_is_null_keeps_what_it_had() {
    let read = |text: &'static str| {
        let port = Port::read(&mut Members::of(text.as_bytes()).unwrap());
        port.map(|port| (port.description.into_owned(), port.system_name.into_owned()))
    };
    assert_eq!(read(r#"{"description": "a", "Description": null, "tier": null}"#), Ok(("a".into(), String::new())));
    assert_eq!(read(r#"{"system_name": "a", "system_name": "b"}"#), Ok((String::new(), "b".into())));
    assert_eq!(read(r#"{"description": {}}"#), Err(Unusable::Field("description")));
    let mut elements = Elements::new(&b"[7]"[..], "");
    assert_eq!(
        elements.next_members(|members| Port::read(members).map(|_| ())).unwrap(),
        Some(Err(Unusable::NoObject))
    );
}

#[test]
fn counters_that_did_not_move_are_unchanged() {
    let ports = json!([port("Computer", "h1", "l1")]).to_string();
    let first = cluster(ports.clone(), Some(1)).discover::<Ufm>(CONFIG).unwrap();
    let again = |version| cluster(ports.clone(), version).state(first.state.clone()).discover::<Ufm>(CONFIG).unwrap();
    assert_eq!(again(Some(1)).outcome, Outcome::Unchanged);
    assert_eq!(objects(&again(Some(2))), objects(&first));
    assert_eq!(objects(&again(None)), objects(&first));
}

#[test]
fn notes_reach_the_diagnostics() {
    let config = r#"{"endpoint": "ufm", "compat": "volcano", "uplinks": "off"}"#;
    let answer = cluster("[]".to_owned(), None).discover::<Ufm>(config).unwrap();
    let Outcome::Topology(topology) = answer.outcome else { panic!("unchanged") };
    assert_eq!(topology.diagnostics.iter().map(|report| report.code.as_str()).collect::<Vec<_>>(), ["ignored-key"]);
}

/// Connected components as plainly as possible: leaves that share a host get one name, until nothing changes.
fn naive(ports: &[(usize, usize)]) -> Objects {
    let leaf = |number: usize| format!("l{number}");
    let mut group: BTreeMap<String, String> = ports.iter().map(|&(_, l)| (leaf(l), leaf(l))).collect();
    loop {
        let before = group.clone();
        for (a, b) in ports.iter().flat_map(|a| ports.iter().map(move |b| (a, b))).filter(|(a, b)| a.0 == b.0) {
            let least = group[&leaf(a.1)].clone().min(group[&leaf(b.1)].clone());
            group.insert(leaf(a.1), least.clone());
            group.insert(leaf(b.1), least);
        }
        if group == before {
            break;
        }
    }
    let names: BTreeSet<&String> = group.values().collect();
    let mut all: Objects = names
        .iter()
        .enumerate()
        .map(|(number, name)| {
            let hosts: BTreeSet<String> =
                ports.iter().filter(|(_, l)| group[&leaf(*l)] == **name).map(|(host, _)| format!("h{host}")).collect();
            (format!("leaf-hn-{number}"), (1, hosts.into_iter().collect()))
        })
        .collect();
    if !all.is_empty() {
        let mut leaves: Vec<String> = all.keys().cloned().collect();
        leaves.sort();
        all.insert("spine-hn".to_owned(), (2, leaves));
    }
    all
}

proptest::proptest! {
    #[test]
    fn groups_are_connected_components(ports in proptest::collection::vec((0..30_usize, 0..20_usize), 0..40)) {
        let list: Vec<Value> =
            ports.iter().map(|(host, leaf)| port("Computer IB Port", &format!("h{host}"), &format!("l{leaf}"))).collect();
        proptest::prop_assert_eq!(round(&json!(list)).unwrap(), naive(&ports));
    }
}
