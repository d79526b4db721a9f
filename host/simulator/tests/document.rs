//! The fabric-document server from outside.

use crate::client::{Site, fabric};
use serde_json::Value;
use topoloom_simulator::{Coverage, Credentials, FabricDocument, Fault, LinkState};

const SMALL: &str =
    "units=2,hosts-per-unit=4,rails=2,planes=2,pods=1,spines=2,cores=1,storage-leaves=1,service-hosts=1";

async fn start() -> Site {
    let credentials = Credentials::none().token("t0ken").user("root", "secret");
    Site::start(FabricDocument::builder(fabric(SMALL)).credentials(credentials)).await
}

async fn page(site: &Site, query: &str) -> Value {
    let answer = site.ask(&format!("/v1/fabric{query}")).bearer_auth("t0ken").send().await.unwrap();
    assert_eq!(answer.status(), 200, "{query}");
    answer.json().await.unwrap()
}

#[tokio::test]
async fn the_document_says_what_the_fabric_is() {
    let site = start().await;
    let document = page(&site, "").await;
    assert_eq!(
        (&document["schema"], &document["complete"], &document["next"]),
        (&"topoloom.fabric/v1".into(), &true.into(), &Value::Null)
    );
    let nodes = document["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 9);
    assert_eq!(nodes[0]["node"], "gpu-00000");
    let links = nodes[0]["links"].as_array().unwrap();
    assert_eq!(links.len(), 5);
    assert_eq!((&links[1]["if"], &links[1]["rail"], &links[1]["plane"]), (&"rdma1".into(), &0.into(), &"b".into()));
    assert_eq!((&links[4]["role"], &links[4]["switch"]["name"]), (&"storage".into(), &"storage-leaf-0".into()));
    let switches = document["switches"].as_array().unwrap();
    let id = |id: &Value| switches.iter().find(|switch| switch["id"] == *id).unwrap();
    let leaf = id(&links[0]["switch"]["chassis"]);
    assert_eq!((&leaf["name"], &leaf["level"]), (&"leaf-su0-r0a".into(), &1.into()));
    let uplinks = leaf["uplinks"].as_array().unwrap();
    assert!(uplinks.iter().all(|uplink| id(&uplink["to"])["level"] == 2));
    assert_eq!(uplinks.iter().map(|uplink| uplink["count"].as_u64().unwrap()).sum::<u64>(), 4);
    nodes[0]["observedAt"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
}

#[tokio::test]
async fn pages_together_are_the_document() {
    let site = start().await;
    let whole = page(&site, "").await;
    let (mut nodes, mut switches, mut query) = (Vec::new(), Vec::new(), "?limit=4".to_owned());
    loop {
        let part = page(&site, &query).await;
        assert_eq!(part["generation"], whole["generation"]);
        nodes.extend_from_slice(part["nodes"].as_array().unwrap());
        switches.extend_from_slice(part["switches"].as_array().unwrap());
        let Some(next) = part["next"].as_str() else { break };
        query = format!("?limit=4&cursor={next}");
    }
    assert_eq!((Value::from(nodes), Value::from(switches)), (whole["nodes"].clone(), whole["switches"].clone()));
}

#[tokio::test]
async fn an_unchanged_document_is_not_sent_again() {
    let site = start().await;
    let first = site.ask("/v1/fabric").bearer_auth("t0ken").send().await.unwrap();
    let etag = first.headers()["etag"].clone();
    let again = || site.ask("/v1/fabric").basic_auth("root", Some("secret")).header("if-none-match", &etag).send();
    let unchanged = again().await.unwrap();
    assert_eq!((unchanged.status().as_u16(), unchanged.bytes().await.unwrap().len()), (304, 0));
    site.simulator.fabric().edit(|fabric| fabric.cut_host("gpu-00000", LinkState::Unplugged)).unwrap();
    let changed = again().await.unwrap();
    assert_eq!(changed.status(), 200);
    let document: Value = changed.json().await.unwrap();
    assert_eq!(document["nodes"][0]["links"], serde_json::json!([]));
}

#[tokio::test]
async fn strangers_and_wrong_queries_are_refused() {
    let site = start().await;
    assert_eq!(site.ask("/v1/fabric").send().await.unwrap().status(), 401);
    assert_eq!(site.ask("/v1/fabric").bearer_auth("wrong").send().await.unwrap().status(), 401);
    assert_eq!(site.ask("/v1/fabric?limit=0").bearer_auth("t0ken").send().await.unwrap().status(), 400);
    assert_eq!(site.ask("/v2").bearer_auth("t0ken").send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn faults_act_on_documents_too() {
    let site = start().await;
    let set = async |fault| site.simulator.faults().set(fault).await.unwrap();
    set(Fault::EmptyList).await;
    assert_eq!(page(&site, "").await["nodes"], serde_json::json!([]));
    set(Fault::ChangedBetweenPages).await;
    let first = page(&site, "?limit=4").await;
    let second = page(&site, &format!("?limit=4&cursor={}", first["next"].as_str().unwrap())).await;
    assert_ne!(first["generation"], second["generation"]);
    set(Fault::Truncated).await;
    let body = site.ask("/v1/fabric").bearer_auth("t0ken").send().await.unwrap().text().await.unwrap();
    assert!(serde_json::from_str::<Value>(&body).unwrap_err().is_eof());
    set(Fault::WrongTypes(100)).await;
    assert_eq!(page(&site, "").await["nodes"][0]["links"], "none");
}

#[tokio::test]
async fn a_partial_document_says_so_and_old_entries_keep_their_time() {
    let time: jiff::Timestamp = "2020-01-02T03:04:05Z".parse().unwrap();
    let builder = FabricDocument::builder(fabric(SMALL)).coverage(Coverage::Partial).observed_at(time);
    let site = Site::start(builder.credentials(Credentials::anyone())).await;
    let document = page(&site, "").await;
    assert_eq!(
        (&document["complete"], &document["nodes"][0]["observedAt"]),
        (&false.into(), &"2020-01-02T03:04:05Z".into())
    );
}
