//! Plugins that were built for an earlier interface, as bytes: they load and answer on the host of today.
//!
//! `tests/kept` has one component for each version of the interface, and its README says how it was made. A released
//! version has a folder there, too, and [`the_text_of_a_released_interface_is_what_it_was`] checks every byte of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use topoloom::endpoints::Endpoints;
use topoloom::plugin::{Load, Plugin, RoundInput};
use topoloom_core::names::NodeName;
use topoloom_core::plugin::{
    Answer, Answered, CallError, CredentialKind, Failure, Granted, Limits, Location, Requirements,
};
use topoloom_core::snapshot::{ColumnKey, NodeMeta, Store, View};
use topoloom_core::topology::{Coverage, LabelSelector, Member, MemberKind, Members, Object, Selector, Subject};
use topoloom_tests::guest;

use crate::guests::{RACK, RUNTIME, source, stored};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn kept() -> PathBuf {
    root().join("tests/kept")
}

/// The names in a folder.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The files of an interface that tools read; its explanations are left out.
fn texts(folder: &Path) -> BTreeMap<String, String> {
    let files = names(folder).into_iter().filter(|name| name.ends_with(".wit"));
    files.map(|name| (name.clone(), fs::read_to_string(folder.join(&name)).unwrap())).collect()
}

/// The files that are not the same in both folders.
fn changed(released: &Path, present: &Path) -> Vec<String> {
    let (released, present) = (texts(released), texts(present));
    let all: BTreeSet<_> = released.keys().chain(present.keys()).collect();
    all.into_iter().filter(|name| released.get(*name) != present.get(*name)).cloned().collect()
}

#[test]
fn every_interface_has_a_kept_component() {
    let interfaces: BTreeSet<_> =
        names(&root().join("wit")).into_iter().filter(|name| !name.contains("README")).collect();
    let all = names(&kept());
    let components: BTreeSet<_> = all.iter().filter_map(|name| name.strip_suffix(".wasm")).map(str::to_owned).collect();
    assert_eq!(interfaces, components);
    for name in all.iter().filter(|name| name.ends_with(".wasm")) {
        assert!(fs::metadata(kept().join(name)).unwrap().len() < 80 << 10, "{name} is too large to keep");
    }
}

#[test]
fn the_text_of_a_released_interface_is_what_it_was() {
    for released in
        names(&kept()).into_iter().filter(|name| name.starts_with("discovery-") && kept().join(name).is_dir())
    {
        let changed = changed(&kept().join(&released), &root().join("wit").join(&released));
        assert!(changed.is_empty(), "{released} is released, and these files are not what they were: {changed:?}");
    }
}

#[test]
fn a_change_of_a_released_interface_does_not_go_unseen() {
    let folder = tempfile::tempdir().unwrap();
    let present = root().join("wit/discovery-0.1.0");
    for (name, text) in texts(&present) {
        fs::write(folder.path().join(name), text).unwrap();
    }
    assert!(changed(folder.path(), &present).is_empty() && texts(&present).len() > 1);
    fs::write(folder.path().join("types.wit"), "package topoloom:discovery@0.1.0;").unwrap();
    fs::remove_file(folder.path().join("http.wit")).unwrap();
    fs::write(folder.path().join("clock.wit"), "").unwrap();
    assert_eq!(changed(folder.path(), &present), ["clock.wit", "http.wit", "types.wit"]);
}

#[tokio::test]
async fn the_component_that_is_kept_of_0_1_0_answers() {
    let bytes = fs::read(kept().join("discovery-0.1.0.wasm")).unwrap();
    says_all_of_0_1_0(bytes.into()).await;
}

#[tokio::test]
async fn what_is_built_from_the_same_source_today_answers_alike() {
    let module = guest::module("topoloom-guest-whole").unwrap();
    says_all_of_0_1_0(guest::component(&module).unwrap().into()).await;
}

/// Uses everything that a plugin's interface has.
async fn says_all_of_0_1_0(bytes: Arc<[u8]>) {
    let loaded = RUNTIME.load(Load { bytes, pinned: None, limits: Limits::default() }).await;
    let plugin = loaded.unwrap_or_else(|error| {
        panic!("{error}. Before the release of the interface, make the component anew: tests/kept/README.md")
    });
    // Every function except those that only drop a handle.
    assert_eq!(plugin.imports().len(), FUNCTIONS.len(), "{:?}", plugin.imports());
    for function in FUNCTIONS {
        assert!(plugin.imports().iter().any(|import| import.ends_with(function)), "{function}: {:?}", plugin.imports());
    }
    let description = plugin.describe(&source()).await.end.unwrap();
    assert_eq!((description.name.as_str(), description.version.as_str()), ("whole", "0.1.0"));
    asks(&plugin).await;
    answers(&plugin).await;
    fails(&plugin).await;
}

/// All functions that a plugin can import.
const FUNCTIONS: [&str; 13] = [
    "applied@0.1.0#groups",
    "http@0.1.0#[method]response.headers",
    "http@0.1.0#[method]response.read",
    "http@0.1.0#[method]response.status",
    "http@0.1.0#credential-of",
    "http@0.1.0#send",
    "log@0.1.0#write",
    "nodes@0.1.0#[method]snapshot.annotation",
    "nodes@0.1.0#[method]snapshot.find",
    "nodes@0.1.0#[method]snapshot.generation",
    "nodes@0.1.0#[method]snapshot.label",
    "nodes@0.1.0#[method]snapshot.names",
    "nodes@0.1.0#[method]snapshot.rows",
];

fn config(end: &str) -> Arc<str> {
    format!(r#"{{"end":"{end}"}}"#).into()
}

async fn asks(plugin: &Plugin) {
    let asked = plugin.configure(&source(), config("")).await.end.unwrap();
    let Requirements { node_labels, node_annotations, endpoints, triggers } = asked;
    assert_eq!((node_labels, node_annotations), (vec![RACK.to_owned()], vec![RACK.to_owned()]));
    let places: Vec<_> = endpoints.iter().map(|endpoint| &endpoint.location).collect();
    assert!(matches!(places[..], [Location::Granted, Location::Urls(_), Location::ConfigMap(_)]), "{places:?}");
    assert_eq!((endpoints[1].credentials.len(), endpoints[1].credentials[4]), (5, CredentialKind::Mtls));
    assert_eq!(endpoints[1].tls.server_name.as_deref(), Some("fabric.example"));
    assert_eq!(triggers.len(), 3);
    let problems = plugin.configure(&source(), config("problem")).await.end.unwrap_err();
    assert_eq!(problems.to_string(), "the configuration has a mistake: end: is no way to end");
}

/// Two nodes, of which one has the label and the other the annotation.
fn nodes() -> View {
    let keys = [ColumnKey::label(RACK), ColumnKey::annotation(RACK)];
    let mut store = Store::new();
    store.require(keys.clone());
    store.begin_relist();
    store.relist(NodeMeta { name: "node-000000", labels: [(RACK, "a")], annotations: [] });
    store.relist(NodeMeta { name: "node-000001", labels: [], annotations: [(RACK, "b")] });
    store.commit_relist();
    store.view(&keys)
}

/// Objects whose members are of every form.
fn objects() -> Arc<[Arc<Object>]> {
    let selector = LabelSelector { match_labels: [(RACK.into(), "a".into())].into(), ..LabelSelector::default() };
    let members = vec![
        Member::node("node-000000".into()),
        Member::node("gone".into()),
        Member::hyper_node("object".into()),
        Member { kind: MemberKind::Node, selector: Selector::Labels(selector) },
    ];
    [Arc::new(stored("object", members))].into()
}

async fn discover(plugin: &Plugin, end: &str, state: &[u8]) -> Result<Answer, CallError> {
    let keys = || [RACK.into()].into();
    let granted = Granted { labels: keys(), annotations: keys(), node_names: true, ..Granted::default() };
    let round = RoundInput {
        config: config(end),
        granted: Arc::new(granted),
        nodes: nodes(),
        applied: objects(),
        endpoints: Endpoints::none(),
        time: jiff::Timestamp::from_millisecond(1_700).unwrap(),
        state: state.into(),
    };
    plugin.discover(&source(), round).await.end
}

async fn answers(plugin: &Plugin) {
    let answer = discover(plugin, "", b"state").await.unwrap();
    let state = String::from_utf8(answer.state).unwrap();
    assert!(state.ends_with(" 1700 5"), "{state}");
    let Answered::Topology(topology) = answer.outcome else { panic!("it said unchanged") };
    assert_eq!(topology.coverage, Coverage::AdditionsOnly);
    let [labelled, annotated, row, named, selected] = &topology.groups[..] else { panic!("{topology:?}") };
    assert_eq!(
        (&*labelled.id, labelled.fixed_name.as_deref(), labelled.kind.as_deref(), labelled.tier_name.as_deref()),
        ("a", Some("rack-a"), Some("rack"), Some("rack"))
    );
    assert_eq!(&*labelled.labels[0].1, "a");
    let of = [labelled, annotated, row, named].map(|group| group.members.clone());
    let elsewhere = ["node-000000", "node-000001", "elsewhere"].map(NodeName::from).to_vec();
    let [first, second] = [0, 1].map(|row| Members::Rows(vec![row]));
    assert_eq!(of, [first, second, Members::Groups(vec![0, 1]), Members::Names(elsewhere)]);
    assert_eq!((row.tier, row.description.as_deref()), (2, Some("the row")));
    let Members::Selector(selector) = &selected.members else { panic!("{selected:?}") };
    assert_eq!((selector.match_labels.len(), selector.match_expressions.len()), (1, 4));
    let subjects: Vec<_> = topology.diagnostics.iter().map(|said| (&said.subject, &*said.detail)).collect();
    assert_eq!(
        subjects,
        [
            (&Subject::Rows(vec![0]), "2 rows"),
            (&Subject::Source, ""),
            (&Subject::Group(0), ""),
            (&Subject::Name("object".into()), "a selector, 1 rows, 1 groups, 1 names"),
        ]
    );
    let unchanged = discover(plugin, "unchanged", b"state").await.unwrap();
    assert_eq!((unchanged.outcome, unchanged.state.as_slice()), (Answered::Unchanged, b"state".as_slice()));
}

async fn fails(plugin: &Plugin) {
    for end in ["config", "denied", "unauthorized", "upstream", "internal"] {
        let Err(CallError::Failure(failure)) = discover(plugin, end, b"").await else { panic!("{end}") };
        let is_that = match &failure {
            Failure::Config(_) => end == "config",
            Failure::Denied(_) => end == "denied",
            Failure::Unauthorized(_) => end == "unauthorized",
            Failure::Upstream { retry_after, .. } => end == "upstream" && retry_after.is_some(),
            Failure::Internal(_) => end == "internal",
            // Only the host itself makes this failure.
            Failure::Credentials(_) => false,
        };
        assert!(is_that, "{end}: {failure:?}");
    }
}
