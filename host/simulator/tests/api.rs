//! UFM from outside, without faults.

use crate::client::{Site, TOKEN, client, ufm};
use serde_json::Value;
use std::collections::BTreeMap;
use topoloom_simulator::{
    Authority, Credentials, Filters, Keys, Layout, LinkState, Naming, Presented, Scheme, SharedFabric, Ufm, Validity,
};

const SMALL: &str = "units=2,hosts-per-unit=4,rails=2,pods=1,spines=2,cores=1";

#[tokio::test]
async fn each_prefix_takes_its_own_credential_and_no_other() {
    let site = Site::start(ufm(SMALL).prefix("site-a/ufm", Scheme::Token)).await;
    let status = async |path: &str, authorization: &str| {
        let request = site.ask(&format!("{path}/app/versioning")).header("authorization", authorization);
        request.send().await.unwrap().status().as_u16()
    };
    let (pair, wrong) = ("Basic cm9vdDpzZWNyZXQ=", "Basic cm9vdDp3cm9uZw==");
    let (token, bearer) = (format!("Basic {TOKEN}"), format!("Bearer {TOKEN}"));
    for (path, authorization, expected) in [
        ("/ufmRest", pair, 200),
        ("/ufmRest", wrong, 401),
        ("/ufmRest", &token, 401),
        ("/ufmRestV3", &token, 200),
        ("/ufmRestV3", pair, 401),
        ("/ufmRestV3", &bearer, 401),
        ("/ufmRestV2", pair, 401),
        ("/ufmRestKrb", &token, 401),
        ("/site-a/ufm", &token, 200),
        ("/elsewhere", &token, 404),
    ] {
        assert_eq!(status(path, authorization).await, expected, "{path} {authorization}");
    }
    assert_eq!(site.ask("/ufmRest/app/versioning").send().await.unwrap().status(), 401);
    let seen = site.simulator.requests();
    let (user, password) = ("root".to_owned(), "secret".to_owned());
    assert_eq!(seen[0].presented, Presented::Basic { user, password });
    assert_eq!(seen[3].presented, Presented::Token(TOKEN.into()));
    assert_eq!((seen[1].status, seen[1].path.as_str()), (Some(401), "/ufmRest/app/versioning"));
    assert!(!format!("{seen:?}").contains(TOKEN), "a record that is printed shows no secret");
}

#[tokio::test]
async fn a_client_certificate_of_the_authority_opens_the_first_prefix_only() {
    let authority = Authority::generate().unwrap();
    let credentials = Credentials::none().certificate("fabric-reader.example");
    let site = Site::start(ufm(SMALL).tls(&authority).credentials(credentials)).await;
    let known = authority.client("fabric-reader.example", Validity::Current).unwrap();
    let other = authority.client("someone.example", Validity::Current).unwrap();
    let status = async |identity, path: &str| {
        let client = client(site.simulator.ca_pem(), Some(identity));
        client
            .get(format!("{}{path}/app/versioning", site.simulator.url()))
            .send()
            .await
            .map(|answer| answer.status().as_u16())
    };
    assert_eq!(status(&known, "/ufmRest").await.unwrap(), 200);
    assert_eq!(status(&other, "/ufmRest").await.unwrap(), 401);
    assert_eq!(status(&known, "/ufmRestV3").await.unwrap(), 401);
    let expired = authority.client("fabric-reader.example", Validity::Expired).unwrap();
    assert!(status(&expired, "/ufmRest").await.is_err(), "an expired certificate ends the handshake");
    let foreign = Authority::generate().unwrap().client("fabric-reader.example", Validity::Current).unwrap();
    assert!(status(&foreign, "/ufmRest").await.is_err(), "a certificate of another authority ends the handshake");
}

#[tokio::test]
async fn rotated_credentials_hold_from_the_next_request_on() {
    let site = Site::start(ufm(SMALL)).await;
    assert_eq!(site.status("app/versioning").await, 200);
    site.simulator.set_credentials(Credentials::none().token("new"));
    assert_eq!(site.status("app/versioning").await, 401);
}

/// Every port by its name.
async fn ports(site: &Site, query: &str) -> BTreeMap<String, Value> {
    let list = site.list(&format!("resources/ports{query}")).await;
    let count = list.len();
    let ports: BTreeMap<_, _> =
        list.into_iter().map(|port| (port["name"].as_str().unwrap().to_owned(), port)).collect();
    assert_eq!(ports.len(), count, "a name twice");
    ports
}

#[tokio::test]
async fn the_two_ends_of_a_cable_tell_the_same() {
    for layout in [Layout::Indented, Layout::Compact] {
        let site = Site::start(ufm(SMALL).layout(layout)).await;
        let ports = ports(&site, "").await;
        assert_eq!(ports.len(), site.simulator.fabric().now().counts().active_ports);
        for (name, port) in &ports {
            let peer = &ports[port["peer"].as_str().unwrap()];
            assert_eq!(peer["peer"], **name);
            for (own, of_peer) in [
                ("guid", "peer_guid"),
                ("guid", "peer_node_guid"),
                ("system_name", "peer_node_name"),
                ("node_description", "peer_node_description"),
                ("dname", "peer_port_dname"),
                ("lid", "peer_lid"),
            ] {
                assert_eq!(peer[own], port[of_peer], "{name} {own}");
            }
            assert!((30..=40).contains(&port.as_object().unwrap().len()));
            assert_eq!((&port["physical_state"], &port["logical_state"]), (&"Link Up".into(), &"Active".into()));
        }
        let host = ports.values().find(|port| port["description"] == "Computer IB Port").unwrap();
        assert_eq!(
            (&host["system_name"], &host["node_description"]),
            (&"gpu-00000".into(), &"gpu-00000 mlx5_0".into())
        );
        assert_eq!(
            (&host["dname"], &host["path"]),
            (&"HCA-1/1".into(), &"default / Computer: gpu-00000 / NA / HCA-1/1".into())
        );
    }
}

#[tokio::test]
async fn a_port_is_as_long_as_a_real_one() {
    for (layout, range) in [(Layout::Indented, 1_400..1_600), (Layout::Compact, 950..1_150)] {
        let site = Site::start(ufm(SMALL).layout(layout)).await;
        let length = site.get("resources/ports").send().await.unwrap().bytes().await.unwrap().len();
        let each = length / site.simulator.fabric().now().counts().active_ports;
        assert!(range.contains(&each), "{layout:?}: {each} bytes");
    }
}

#[tokio::test]
async fn filters_narrow_the_list_and_unknown_ones_are_refused() {
    let site = Site::start(ufm(&format!("{SMALL},spare-ports=4"))).await;
    let host = "gpu-00001";
    site.simulator.fabric().edit(|fabric| fabric.cut_host(host, LinkState::Unplugged)).unwrap();
    let all = ports(&site, "").await;
    let count = async |query: &str| ports(&site, query).await.len();
    let active = site.simulator.fabric().now().counts().active_ports;
    assert_eq!(count("?active=true").await, active);
    assert_eq!(count("?active=false").await, all.len() - active);
    let disabled = all.values().filter(|port| port["physical_state"] == "Disabled").count();
    assert!(disabled > 0);
    assert_eq!(count("?show_disabled=false").await, all.len() - disabled);
    assert_eq!(count("?show_disabled=true&external=true&cable_info=true").await, all.len());
    assert_eq!(count(&format!("?system={host}")).await, 2);
    assert_eq!(count(&format!("?system={host}&active=true")).await, 0);
    let leaf = all.values().find(|port| port["system_name"] == "leaf-su0-r0").unwrap()["guid"].as_str().unwrap();
    assert_eq!(count(&format!("?system={leaf}")).await, count("?system=leaf-su0-r0").await);
    assert_eq!(count("?sys_type=host").await, 16);
    assert_eq!(count("?high_ber_only=true").await, 0);
    for query in ["guid=1", "system_name=a", "active=maybe", "page_number=0", "rpp=x", "system=%zz"] {
        assert_eq!(site.status(&format!("resources/ports?{query}")).await, 400, "{query}");
    }
    let down = all.values().find(|port| port["system_name"] == host).unwrap();
    assert_eq!(
        (&down["peer"], &down["physical_state"], &down["mtu"]),
        (&"N/A".into(), &"Polling".into(), &"Unknown".into())
    );
}

#[tokio::test]
async fn an_old_release_knows_fewer_filters_and_keys() {
    let old = Site::start(ufm(SMALL).filters(Filters::WithoutActive).keys(Keys::Few)).await;
    assert_eq!(old.status("resources/ports?active=true").await, 400);
    let ports = ports(&old, "?system=gpu-00000").await;
    let port = ports.values().next().unwrap().as_object().unwrap();
    assert!(port.keys().all(|key| !key.starts_with("peer_")), "{port:?}");
    assert_eq!(port["node_description"], "N/A");
    assert!(ports.values().all(|port| port["peer"] != "N/A"));
    let none = Site::start(ufm(SMALL).filters(Filters::None)).await;
    assert_eq!(none.status("resources/ports?system=gpu-00000").await, 400);
    assert_eq!(none.status("resources/ports?page_number=1&rpp=3").await, 200);
}

#[tokio::test]
async fn pages_together_are_the_list() {
    let site = Site::start(ufm(SMALL).shuffle(5)).await;
    for resource in ["resources/ports?sys_type=switch", "resources/systems?", "resources/links?"] {
        let whole = site.list(resource).await;
        let mut rows = Vec::new();
        for number in 1.. {
            let page = site.json(&format!("{resource}&page_number={number}&rpp=7")).await;
            assert_eq!(page["filtered_resources"], whole.len());
            assert_eq!(page["num_of_pages"], whole.len().div_ceil(7));
            let data = page["data"].as_array().unwrap();
            if data.is_empty() {
                assert_eq!((&page["first_index"], &page["last_index"]), (&0.into(), &0.into()));
                break;
            }
            assert_eq!(page["first_index"], rows.len() + 1);
            rows.extend_from_slice(data);
            assert_eq!(page["last_index"], rows.len());
        }
        assert_eq!(rows, whole, "{resource}");
        let all = site.json(&format!("{resource}&page_number=1&rpp=1000000000")).await;
        assert_eq!(all["data"].as_array().unwrap(), &whole);
    }
    let page = site.json("resources/ports?sys_type=host&page_number=1&rpp=5").await;
    assert_eq!(
        (&page["filtered_resources"], &page["total_resources"]),
        (&16.into(), &Value::from(ports(&site, "").await.len()))
    );
}

#[tokio::test]
async fn single_ports_and_systems_come_as_lists() {
    let site = Site::start(ufm(SMALL)).await;
    let ports: Vec<Value> = site.list("resources/ports").await;
    let names: Vec<&str> = ports[..2].iter().map(|port| port["name"].as_str().unwrap()).collect();
    assert_eq!(site.list(&format!("resources/ports/{}", names[0])).await, ports[..1]);
    assert_eq!(site.list(&format!("resources/ports/{}", names.join(","))).await, ports[..2]);
    assert_eq!(site.status("resources/ports/0000000000000001_1").await, 404);
    assert_eq!(site.status("resources/ports/what").await, 400);
    let system = site.list("resources/systems/leaf-su0-r0").await;
    assert_eq!((system.len(), &system[0]["role"], &system[0]["type"]), (1, &"tor".into(), &"switch".into()));
    assert_eq!(site.status("resources/systems/absent").await, 404);
}

#[tokio::test]
async fn systems_name_every_port_of_a_machine() {
    let site = Site::start(ufm(SMALL)).await;
    let hosts = site.list("resources/systems?type=host").await;
    assert_eq!(hosts.len(), 8);
    let guids: std::collections::BTreeSet<&str> = hosts[0]["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap().split('_').next().unwrap())
        .collect();
    assert_eq!(guids.len(), 2, "two HCAs are two GUIDs");
    let switches = site.list("resources/systems?type=switch").await;
    assert_eq!(switches.len(), site.simulator.fabric().now().counts().switches);
    let ports = ports(&site, "").await;
    let named = hosts.iter().chain(&switches).flat_map(|system| system["ports"].as_array().unwrap());
    assert!(
        named.map(|name| name.as_str().unwrap()).eq(site
            .list("resources/ports")
            .await
            .iter()
            .map(|port| port["name"].as_str().unwrap()))
    );
    assert!(switches.iter().all(|switch| (switch["is_managed"] == true) == (switch["ip"] != "0.0.0.0")));
    assert_eq!(ports.len(), 2 * site.list("resources/links").await.len());
    assert_eq!(site.status("resources/systems?kind=host").await, 400);
}

#[tokio::test]
async fn links_name_both_ends() {
    let site = Site::start(ufm(SMALL)).await;
    let ports = ports(&site, "").await;
    for link in site.list("resources/links").await {
        let (source, destination) = link["name"].as_str().unwrap().split_once(':').unwrap();
        assert_eq!(ports[source]["peer"], destination);
        assert_eq!(
            (&link["source_guid"], &link["destination_guid"]),
            (&ports[source]["guid"], &ports[destination]["guid"])
        );
        assert_eq!(link["source_port"], ports[source]["number"].to_string());
        assert_eq!(link["cable_info"], serde_json::json!({}));
    }
    assert_eq!(site.list("resources/links?system=leaf-su0-r0").await.len(), 8);
    let with = site.list("resources/links?cable_info=true&monitoring_counters_info=true").await;
    assert!(with[0]["cable_info"]["part_number"].is_string());
}

#[tokio::test]
async fn the_version_counters_follow_the_fabric() {
    let site = Site::start(ufm(SMALL)).await;
    let before = site.json("app/versioning").await;
    site.simulator.fabric().edit(|fabric| fabric.rename_switch("leaf-su0-r0", "sonic")).unwrap();
    let after = site.json("app/versioning").await;
    let moved: Vec<&str> =
        before.as_object().unwrap().keys().map(String::as_str).filter(|key| before[*key] != after[*key]).collect();
    assert_eq!(moved, ["ports_version", "switches_version"]);
    assert!(site.json("app/ufm_version").await["ufm_release_version"].is_string());
    assert_eq!(ports(&site, "?system=sonic").await.len(), ports(&site, "?system=leaf-su1-r0").await.len());
}

#[tokio::test]
async fn odd_names_reach_the_client_as_they_are() {
    let site = Site::start(ufm(SMALL)).await;
    let odd = "MF0;dir\"1\\:CS8500/L07/U1\u{200b}";
    site.simulator.fabric().edit(|fabric| {
        fabric.rename_switch("leaf-su0-r0", odd).unwrap();
        fabric.set_naming("gpu-00000", Naming::Default).unwrap();
        fabric.set_naming("gpu-00001", Naming::SuffixKept).unwrap();
        fabric.add_aggregation_nodes();
    });
    let ports = ports(&site, "").await;
    let with = |key: &str, value: &str| ports.values().filter(|port| port[key] == value).count();
    assert_eq!(with("system_name", odd), 9);
    assert_eq!(with("system_name", "MT4129 ConnectX7   Mellanox Technologies"), 2);
    assert_eq!((with("system_name", "gpu-00001 mlx5_0"), with("system_name", "gpu-00001 mlx5_1")), (1, 1));
    let switches = site.simulator.fabric().now().counts().switches;
    assert_eq!(with("node_description", "Mellanox Technologies Aggregation Node"), switches);
}

#[tokio::test]
async fn only_reading_is_allowed() {
    let site = Site::start(ufm(SMALL)).await;
    let url = format!("{}/ufmRestV3/resources/ports", site.simulator.url());
    let request = site.client.delete(url).header("authorization", format!("Basic {TOKEN}"));
    assert_eq!(request.send().await.unwrap().status(), 405);
    assert_eq!(site.status("resources/unknown").await, 404);
}

#[tokio::test]
async fn two_members_of_a_pair_show_one_fabric() {
    let (authority, shared) = (Authority::generate().unwrap(), SharedFabric::new(crate::client::fabric(SMALL)));
    let member = || Ufm::builder(shared.clone()).tls(&authority).credentials(Credentials::none().token(TOKEN));
    let (one, other) = (Site::start(member()).await, Site::start(member()).await);
    one.simulator.fabric().edit(|fabric| fabric.remove_host("gpu-00000")).unwrap();
    assert_eq!(one.list("resources/ports").await, other.list("resources/ports").await);
    one.simulator.faults().set(topoloom_simulator::Fault::Refused).await.unwrap();
    assert!(one.get("app/versioning").send().await.unwrap_err().is_connect());
    assert_eq!(other.status("app/versioning").await, 200);
    one.simulator.faults().clear().await.unwrap();
    assert_eq!(one.status("app/versioning").await, 200);
}
