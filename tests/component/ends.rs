//! Every way in which a call can end, each caused by a guest.

use std::sync::Arc;
use std::time::Duration;

use topoloom_core::plugin::{Answer, Answered, CallError, Limits, TrapKind};

use crate::guests::{VILLAIN, load, nodes, round, source, villain};

async fn discover(limits: Limits, act: &str) -> (Result<Answer, CallError>, topoloom_core::plugin::Usage) {
    let call = load(&VILLAIN, limits).await.discover(&source(), round(act, nodes(100))).await;
    (call.end, call.usage)
}

/// The error with which the act ends.
async fn fails(act: &str) -> CallError {
    discover(Limits::default(), act).await.0.expect_err(act)
}

#[tokio::test]
async fn a_good_round_is_an_answer() {
    let call = villain().await.discover(&source(), round("good", nodes(100))).await;
    let Answered::Topology(topology) = call.end.unwrap().outcome else { panic!("it said unchanged") };
    assert_eq!(topology.groups.len(), 7);
    assert_eq!(&*topology.groups[0].labels[0].0, "example.com/rack");
    assert_eq!(topology.groups[0].tier_name.as_deref(), Some("rack"));
    assert!(call.usage.peak_memory > 0 && call.usage.cpu > Duration::ZERO, "{:?}", call.usage);
}

#[tokio::test]
async fn deep_recursion_is_a_trap() {
    // Rust guests hit the end of their own stack in linear memory first.
    for (act, expected) in [("recurse", TrapKind::Memory), ("recurse-deep", TrapKind::Stack)] {
        match fails(act).await {
            CallError::Trap { kind, report } => {
                assert_eq!(kind, expected, "{act}: {report}");
                assert!(!report.frames.is_empty() && report.frames.len() <= 20, "{:?}", report.frames);
                assert!(report.spent.peak_memory > 0 && report.spent.memory_limit == 256 << 20, "{report:?}");
                assert!(report.spent.cpu > Duration::ZERO && report.spent.cpu_limit.as_secs() == 5, "{report:?}");
            }
            other => panic!("{act}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_panic_arrives_with_its_words_and_its_place() {
    let CallError::Trap { kind: TrapKind::Unreachable, report } = fails("panic").await else { panic!() };
    assert!(report.log_tail.iter().any(|line| line.contains("discover panics as configured")), "{report:?}");
    assert!(report.log_tail.iter().any(|line| line.contains("villain/src/lib.rs")), "{report:?}");
    assert!(report.frames.iter().any(|frame| frame.contains("topoloom_guest_villain")), "{report:?}");
    let call = villain().await.configure(&source(), r#"{"configure": "panic"}"#.into()).await;
    assert!(matches!(call.end, Err(CallError::Trap { kind: TrapKind::Unreachable, .. })), "{:?}", call.end);
}

#[tokio::test]
async fn a_label_key_must_be_one() {
    let call = villain().await.configure(&source(), r#"{"configure": "no-label"}"#.into()).await;
    let Err(CallError::InvalidResult(what)) = call.end else { panic!("{:?}", call.end) };
    assert!(what.starts_with("it asks for the node label or annotation \"no label\\nat all\": "), "{what}");
}

#[tokio::test]
async fn answers_that_lead_nowhere_are_invalid() {
    for (act, words) in [
        ("row", "group 0 has node row 100 and there are 100 nodes"),
        ("level", "group 0 is of level 7 and there are 2 levels"),
        ("position", "group 0 has group 1 and there are 1 groups"),
        ("offsets", "the names of group 0: entry 1 ends at 1, before it begins at 3"),
        ("boundary", "the names of group 0: entry 0 ends at 1, which is no character boundary of 2 bytes"),
        ("rest", "the names of group 0: the last entry ends at 2 and the text has 4 bytes"),
        ("unchanged", "it answers `unchanged`, but has no state of an earlier answer"),
    ] {
        // Names of Nodes are granted: without the grant, the host would refuse the answer for that first.
        let mut round = round(act, nodes(100));
        Arc::get_mut(&mut round.granted).unwrap().node_names = true;
        let end = villain().await.discover(&source(), round).await.end;
        assert_eq!(end.expect_err(act), CallError::InvalidResult(words.to_owned()), "{act}");
    }
}

#[tokio::test]
async fn words_of_a_plugin_are_short_and_move_no_cursor() {
    let harmless = |text: &str| text.len() <= 1_100 && !text.contains(['\u{1b}', '\n', '\u{202e}']);
    let CallError::Failure(topoloom_core::plugin::Failure::Internal(said)) = fails("shout").await else { panic!() };
    assert!(harmless(&said), "{said:?}");
    let Answered::Topology(topology) = discover(Limits::default(), "long-detail").await.0.unwrap().outcome else {
        panic!("it said unchanged")
    };
    let note = &topology.diagnostics[0];
    let topoloom_core::topology::Subject::Name(name) = &note.subject else { panic!("{:?}", note.subject) };
    assert!(harmless(name) && harmless(&note.detail), "{note:?}");
    let call = villain().await.configure(&source(), r#"{"configure": "many-problems"}"#.into()).await;
    let Err(CallError::InvalidConfig(problems)) = call.end else { panic!("{:?}", call.end) };
    assert_eq!(problems.len(), 101);
    assert!(problems.iter().all(|problem| harmless(&problem.path) && harmless(&problem.message)));
    assert_eq!(problems[100].message, "and 400 more problems");
}

#[tokio::test]
async fn unsound_topologies_have_the_right_shape_and_arrive() {
    for act in ["twice", "cycle", "parents", "tier-zero"] {
        assert!(discover(Limits::default(), act).await.0.is_ok(), "{act}");
    }
}

#[tokio::test]
async fn state_comes_back_and_unchanged_needs_one() {
    let plugin = villain().await;
    let first = plugin.discover(&source(), round("remember", nodes(1))).await.end.unwrap();
    assert_eq!(first.state, [7]);
    let state: Arc<[u8]> = first.state.into();
    let again = topoloom::plugin::RoundInput { state: Arc::clone(&state), ..round("remember", nodes(1)) };
    assert_eq!(plugin.discover(&source(), again).await.end.unwrap().state, [7, 7]);
    let unchanged = topoloom::plugin::RoundInput { state, ..round("unchanged", nodes(1)) };
    assert_eq!(plugin.discover(&source(), unchanged).await.end.unwrap().outcome, Answered::Unchanged);
}

#[tokio::test]
async fn a_label_that_was_not_granted_looks_absent() {
    assert!(discover(Limits::default(), "secret-label").await.0.is_ok());
}

#[tokio::test]
async fn mistakes_of_a_configuration_arrive_all_at_once() {
    let plugin = villain().await;
    let call = plugin.configure(&source(), r#"{"configure": "problems"}"#.into()).await;
    let Err(error @ CallError::InvalidConfig(_)) = call.end else { panic!("{:?}", call.end) };
    assert_eq!(error.to_string(), "the configuration has 2 mistakes: a.b[0]: is 7 and must be 8; is odd");
    let requirements = plugin.configure(&source(), "{}".into()).await.end.unwrap();
    assert_eq!(requirements.node_labels, ["example.com/rack"]);
}

#[tokio::test]
async fn a_failure_is_the_plugins_own_word() {
    assert_eq!(fails("internal").await.reason(), "PluginFault");
}
