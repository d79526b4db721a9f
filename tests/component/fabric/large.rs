//! A list that is larger than the plugin's memory: the plugin reads it as it arrives, or the host refuses it for its
//! size.

use std::sync::Arc;

use topoloom::config;
use topoloom::delivery::Module;
use topoloom::discovery::revision::{Host, Revision, call_reason, prepare};
use topoloom::endpoints::Outside;
use topoloom::endpoints::vault::Vault;
use topoloom::plugin::RoundInput;
use topoloom_api::condition::Reason;
use topoloom_core::plugin::{Answer, Answered, CallError, Usage};
use topoloom_core::snapshot::{NodeMeta, Store};
use topoloom_core::topology::{Group, Members};
use topoloom_simulator::{Credentials, Fabric, Layout, Shape, Simulator, Ufm};

use crate::guests::RUNTIME;

const TOKEN: &str = "canary-t0ken-31";

/// 640 hosts with eight rails under three tiers, every cable with two ports.
const SHAPE: &str = "units=20,hosts-per-unit=32,rails=8,pods=2,spines=128,cores=80,seed=7";
const HOSTS: usize = 640;

/// The memory limit of the plugin.
const MEMORY: usize = 8 << 20;
/// The list has at least this many bytes.
const LIST: u64 = 40 << 20;

/// The UFM plugin at this server; `size` is the part of the entry that limits an answer.
async fn revision(server: &Simulator, secret: &std::path::Path, size: &str) -> Revision {
    let ca: String = server.ca_pem().unwrap().lines().map(|line| format!("      {line}\n")).collect();
    let text = format!(
        "networkTopologyDiscovery:
- source: ufm
  enabled: true
  credentials: {{secretRef: {{name: any}}}}
  limits: {{memory: {}Mi}}
  permissions: {{endpoints: {{ufm: {{addresses: [loopback], timeouts: {{total: 5m}}{size}}}}}}}
  config:
    endpoint: \"{}\"
    caBundle: |
{ca}",
        MEMORY >> 20,
        server.url()
    );
    let document = config::parse(&text).unwrap();
    let entry = document.enabled().next().cloned();
    let entry = Arc::new(entry.unwrap_or_else(|| panic!("{:?}", document.errors().collect::<Vec<_>>())));
    let outside = Outside { vault: Vault::folder(secret.to_owned()), ..Outside::offline() };
    topoloom_tests::builtins::embed();
    let module = Arc::new(Module::builtin("ufm").unwrap());
    prepare(Host::at_desk(&RUNTIME, &outside), entry, module, None).await.unwrap()
}

/// One round over a Node for every host.
async fn round(revision: &Revision, server: &Simulator) -> (Result<Answer, CallError>, Usage) {
    let mut store = Store::new();
    store.require(revision.keys.iter().cloned());
    store.begin_relist();
    for (_, host) in server.fabric().now().hosts() {
        store.relist(NodeMeta { name: &host.name, labels: [], annotations: [] });
    }
    store.commit_relist();
    let round = RoundInput {
        config: Arc::clone(&revision.config),
        granted: Arc::clone(&revision.granted),
        nodes: store.view(&revision.keys),
        applied: Arc::default(),
        endpoints: Arc::clone(&revision.endpoints),
        time: jiff::Timestamp::now(),
        state: Arc::default(),
    };
    let call = revision.plugin.discover(&"ufm".parse().unwrap(), round).await;
    (call.end, call.usage)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_larger_than_the_plugins_memory_is_read_or_refused_for_its_size() {
    let fabric = Fabric::generate(&SHAPE.parse::<Shape>().unwrap()).unwrap();
    let credentials = Credentials::none().token(TOKEN);
    let server = Ufm::builder(fabric).credentials(credentials).layout(Layout::Indented).start().await.unwrap();
    let secret = tempfile::tempdir().unwrap();
    std::fs::write(secret.path().join("token"), TOKEN).unwrap();

    let (end, usage) = round(&revision(&server, secret.path(), "").await, &server).await;
    let Answered::Topology(topology) = end.unwrap().outcome else { panic!("nothing was known before") };
    let rows = |group: &Group| if let Members::Rows(rows) = &group.members { rows.len() } else { 0 };
    let placed: usize = topology.groups.iter().map(rows).sum();
    assert_eq!(placed, HOSTS);
    let largest = server.requests().iter().map(|request| request.bytes).max().unwrap();
    assert!(largest >= LIST, "the list has {largest} bytes only");
    assert!(usage.received as u64 >= LIST && usage.peak_memory <= MEMORY, "{usage:?}");

    // The same with a lower limit for one answer: the message names the limit, and the host does not fetch the rest.
    server.forget_requests();
    let (end, usage) = round(&revision(&server, secret.path(), ", maxBody: 12Mi").await, &server).await;
    let error = end.unwrap_err();
    assert_eq!(call_reason(&error), Reason::Upstream, "{error}");
    let words = ["resources/ports", "the answer has more than 12582912 bytes", "raise `maxBody`"];
    assert!(words.iter().all(|words| error.to_string().contains(words)), "{error}");
    let requests = server.requests();
    assert!(requests.last().unwrap().bytes < LIST, "{requests:#?}");
    assert!(usage.peak_memory <= MEMORY, "{usage:?}");
    server.stop().await;
}
