//! Rounds and cases at a vendor's desk, in the real sandbox: what a plugin gets, what becomes of its answer, and what a case
//! says when it does not fit any more.

mod cases;
mod verbs;

use std::sync::Arc;

use topoloom::endpoints::recording::Recording;
use topoloom::plugin::LineLevel;
use topoloom_core::plugin::{CallError, Limit, Limits};
use topoloom_core::topology::decide::Unacceptable;
use topoloom_tests::builtins;
use topoloom_workshop::bench::{self, Measure};
use topoloom_workshop::cases::show;
use topoloom_workshop::nodes::Nodes;
use topoloom_workshop::rounds::moved::moved;
use topoloom_workshop::rounds::{Ask, Desk, Exchanges, Judged, NoAnswer, Round};

use crate::endpoints::guest::CALLER;
use crate::guests::{RACK, RUNTIME, VILLAIN};

/// Three nodes in two racks, and one in none.
const NODES: &str = r#"{"items": [
    {"metadata": {"name": "m2", "labels": {"example.com/rack": "a7", "example.com/spine": "s1"}}},
    {"metadata": {"name": "m1", "labels": {"example.com/rack": "a7", "example.com/spine": "s1"}}},
    {"metadata": {"name": "m3", "labels": {"example.com/rack": "b1", "example.com/spine": "s1"}}},
    {"metadata": {"name": "m4"}}]}"#;
const LEVELS: &str = r#"{"networkTopologyTypes": {"gpu": [
    {"nodeLabel": "example.com/spine"}, {"nodeLabel": "example.com/rack"}, {"nodeLabel": "kubernetes.io/hostname"}]}}"#;
/// What the label plugin answers to both, as `Cluster::show` of the SDK prints it.
const ANSWER: &str = "tier 1 example.com/rack | gpu/1/s1/a7 | example.com/rack=a7 | m1 m2\n\
                      tier 1 example.com/rack | gpu/1/s1/b1 | example.com/rack=b1 | m3\n\
                      tier 2 example.com/spine | gpu/2/s1 | example.com/spine=s1 | [gpu/1/s1/a7 gpu/1/s1/b1]\n";

fn nodes() -> Nodes {
    Nodes::parse(NODES.as_bytes()).unwrap()
}

async fn desk(bytes: &Arc<[u8]>) -> Desk {
    Desk::open(&RUNTIME, Arc::clone(bytes), Limits::default()).await.unwrap()
}

async fn label() -> Desk {
    desk(&builtins::find("label").bytes).await
}

fn shown(round: &Round) -> String {
    let found = round.found().unwrap();
    show::topology(&found.topology, found.view.names())
}

fn why(round: Round) -> NoAnswer {
    match round.end {
        Err(why) => why,
        Ok(_) => panic!("it has an answer"),
    }
}

#[tokio::test]
async fn a_builtin_plugin_gets_what_it_asks_for_and_its_answer_is_judged_and_named() {
    let (desk, nodes) = (label().await, nodes());
    assert_eq!(desk.describe().await.end.unwrap().name, "label");
    let configured = desk.settle(LEVELS).await.unwrap();
    assert_eq!(configured.keys.len(), 2);
    // What is embedded needs no grants.
    assert_eq!(desk.permissions(&configured.requirements), None);
    let round = desk.round(&configured, &Ask::new(&nodes, LEVELS)).await;
    assert_eq!(shown(&round), ANSWER);
    let found = round.found().unwrap();
    let numbers = &found.decision.numbers;
    assert_eq!((numbers.covered, numbers.total, numbers.groups()), (3, 4, 3));
    assert!(round.usage.peak_memory > 0 && round.usage.received > 0 && round.misfit.is_none());
    // Another generation of the same nodes is the same answer.
    let later = desk.discover(&Ask { earlier: 3, ..Ask::new(&nodes, LEVELS) }).await;
    assert_eq!(shown(&later), ANSWER);
}

#[tokio::test]
async fn objects_that_a_round_left_keep_their_names_in_the_next_one() {
    let (desk, mut nodes) = (label().await.named("racks".parse().unwrap()), nodes());
    let first = desk.discover(&Ask::new(&nodes, LEVELS)).await;
    let (before, first) = (first.found().unwrap().written(&[]), first);
    nodes.list[2].labels[0].1 = "c3".to_owned();
    let second = desk.discover(&Ask { existing: &before, ..Ask::new(&nodes, LEVELS) }).await;
    let names = |round: &Round| round.found().unwrap().decision.named.objects.keys().cloned().collect::<Vec<_>>();
    // The rack with one node that is called otherwise now has its object still: its Nodes are the same.
    assert_eq!(names(&first), names(&second));
    let forest = |round: &Round| Arc::clone(&round.found().unwrap().decision.forest);
    let lines = moved(&forest(&first), &forest(&second));
    let begins = ["- tier 1 gpu/1/s1/b1: m3", "+ tier 1 gpu/1/s1/c3: m3", "~ tier 2 gpu/2/s1: + group gpu/1/s1/c3"];
    assert_eq!(lines.len(), begins.len(), "{lines:#?}");
    assert!(lines.iter().zip(begins).all(|(line, begin)| line.starts_with(begin)), "{lines:#?}");
}

#[tokio::test]
async fn a_foreign_plugin_runs_without_an_entry_and_the_lines_of_the_entry_are_known() {
    let (desk, nodes) = (desk(&VILLAIN).await, nodes());
    let configured = desk.settle(r#"{"discover": "good"}"#).await.unwrap();
    let lines = desk.permissions(&configured.requirements).unwrap();
    assert!(lines.contains(&format!("nodeLabels: [\"{RACK}\"]")), "{lines}");
    let round = desk.round(&configured, &Ask::new(&nodes, "")).await;
    assert!(shown(&round).starts_with("tier 1 rack | a7 | example.com/rack=a7 | m1 m2\n"));
}

#[tokio::test]
async fn an_answer_that_breaks_a_rule_and_a_call_that_ends_are_in_the_words_of_the_host() {
    let (desk, nodes) = (desk(&VILLAIN).await, nodes());
    let asked = async |act: &str| {
        let config = format!(r#"{{"discover": "{act}"}}"#);
        desk.discover(&Ask::new(&nodes, &config)).await
    };
    match why(asked("tier-zero").await) {
        NoAnswer::Unsound { why: Unacceptable::Invalid(violations), .. } => {
            assert!(violations.to_string().contains("tier 0 is not between 1 and 16"), "{violations}");
        }
        other => panic!("{other}"),
    }
    let panicked = asked("panic").await;
    // A panic is two lines of the log, and the desk has them.
    assert!(panicked.log.iter().any(|line| line.text.contains("discover panics as configured")), "{:?}", panicked.log);
    assert!(panicked.log.iter().all(|line| line.level >= LineLevel::Info));
    assert!(matches!(why(panicked), NoAnswer::Call(CallError::Trap { .. })));
    let refused = desk.discover(&Ask::new(&nodes, r#"{"configure": "problems"}"#)).await;
    match why(refused) {
        NoAnswer::Configure(CallError::InvalidConfig(problems)) => assert_eq!(problems.len(), 2),
        other => panic!("{other}"),
    }
}

/// What a caller with one endpoint asks and gets.
const ASKS: &str = r#"{"wants": [{"name": "fabric", "credentials": ["bearer"]}],
    "requests": [{"endpoint": "fabric", "path": "/v1"}]}"#;
const RECORDED: &str = r#"{"version": 1, "sources": {"elsewhere": {"credentials": {"fabric": "bearer"}, "exchanges": [
    {"endpoint": "fabric", "method": "GET", "path": "/v1", "status": 200, "headers": [], "text": "seven"}]}}}"#;

#[tokio::test]
async fn services_answer_out_of_a_recording_or_the_round_says_which_one_is_unknown() {
    let (desk, nodes) = (desk(&CALLER).await, nodes());
    let without = desk.discover(&Ask::new(&nodes, ASKS)).await;
    let NoAnswer::Endpoints(unknown) = why(without) else { panic!("an endpoint answered") };
    assert!(unknown[0].starts_with("the plugin calls the endpoint fabric (To be called): "), "{unknown:?}");
    // The recording of one source is for any.
    let recording = Recording::parse(RECORDED).unwrap();
    let exchanges = desk.replay(recording.clone()).unwrap();
    let round = desk.discover(&Ask { exchanges, ..Ask::new(&nodes, ASKS) }).await;
    let said = shown(&round);
    assert!(said.contains("200 seven 5 bytes") && said.contains("Credential::Bearer"), "{said}");
    assert!(round.misfit.is_none() && round.usage.requests == 1, "{:?}", round.misfit);
    let other = ASKS.replace("\"/v1\"", "\"/v2\"");
    let exchanges: Exchanges = desk.replay(recording).unwrap();
    let round = desk.discover(&Ask { exchanges, ..Ask::new(&nodes, &other) }).await;
    assert_eq!(round.misfit.missing, ["GET /v2 of the endpoint fabric"]);
    assert_eq!(round.misfit.unasked, ["GET /v1 of the endpoint fabric"]);
}

#[tokio::test]
async fn a_plugin_is_measured_over_many_nodes_and_each_limit_has_its_share() {
    let bytes = Arc::clone(&builtins::find("label").bytes);
    let (desk, compiled) = bench::open(&RUNTIME, bytes, Limits::default()).await.unwrap();
    let measure = Measure {
        config: LEVELS,
        nodes: None,
        recording: None,
        sizes: &[100, 1_000],
        rounds: 0,
        patience: std::time::Duration::ZERO,
    };
    let measured = bench::run(&desk, compiled, &measure).await.unwrap();
    let groups: Vec<_> =
        measured.sizes.iter().map(|size| (size.nodes, size.ended.is_none(), size.round.count)).collect();
    assert_eq!(groups, [(100, true, bench::FEWEST), (1_000, true, bench::FEWEST)]);
    let [small, large] = &measured.sizes[..] else { panic!("{measured:?}") };
    assert!(small.groups > 0 && small.groups < large.groups, "{measured:?}");
    let share = |limit| large.shares.iter().find(|share| share.limit == limit).unwrap().percent();
    assert!(share(Limit::Memory) > 0.0 && share(Limit::Received) > 0.0 && share(Limit::Groups) > 0.0, "{large:?}");
    assert!(measured.instantiate.count >= bench::FEWEST && !measured.shares.is_empty());
    // What has no answer ends the measure, and says why.
    let recording = Recording::parse(RECORDED).unwrap();
    let (desk, compiled) = bench::open(&RUNTIME, Arc::clone(&CALLER), Limits::default()).await.unwrap();
    let asked = |recording| Measure { config: ASKS, recording, ..measure.clone() };
    let measured = bench::run(&desk, compiled, &asked(Some(&recording))).await.unwrap();
    assert!(measured.sizes.iter().all(|size| size.ended.is_none()), "{measured:?}");
    let ended = bench::run(&desk, compiled, &asked(None)).await.unwrap();
    assert!(matches!(&ended.sizes[..], [size] if matches!(size.ended, Some(NoAnswer::Endpoints(_)))), "{ended:?}");
}

#[tokio::test]
async fn an_unchanged_answer_needs_a_state_and_is_an_answer() {
    let (desk, nodes) = (desk(&VILLAIN).await, nodes());
    let config = r#"{"discover": "unchanged"}"#;
    let first = desk.discover(&Ask::new(&nodes, config)).await;
    assert!(matches!(why(first), NoAnswer::Call(CallError::InvalidResult(_))));
    let second = desk.discover(&Ask { state: b"x", ..Ask::new(&nodes, config) }).await;
    assert!(matches!(second.end, Ok(Judged::Unchanged)));
}
