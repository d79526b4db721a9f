//! What one judge of answers accepts, all accept, and what one refuses, all refuse in the same words: `Cluster` of the SDK
//! over native types, the host over a real plugin, `plugin run` and `plugin test` at a desk (with the anchor of each rule),
//! and `Cluster` of the packages for Python and JavaScript. And a valid answer is the same text everywhere.
//!
//! A thousand answers are drawn from a seed, each attribute mostly as it should be and sometimes not, and a few more are
//! beyond bounds that chance does not reach. A failure prints the answer, so that it can be tried alone.

mod draw;
mod languages;

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};
use topoloom::endpoints::Endpoints;
use topoloom::plugin::{Plugin, RoundInput};
use topoloom_api::names::SOURCE_LABEL;
use topoloom_core::plugin::{Answered, Granted, Limits};
use topoloom_core::rules::broken::BrokenRule;
use topoloom_core::snapshot::{NodeMeta, Store, View};
use topoloom_core::topology::ValidateInput;
use topoloom_core::topology::decide::accept;
use topoloom_guest_parrot::Said;
use topoloom_sdk::Answer;
use topoloom_sdk::testing::{Cluster, Refused};
use topoloom_tests::{guest, pages};
use topoloom_workshop::cases::shown_round;
use topoloom_workshop::kit::check::Check;
use topoloom_workshop::kit::report::{Line, Mark};
use topoloom_workshop::kit::{self, Exam, FileFacts, Node, Trial};
use topoloom_workshop::nodes::Nodes;
use topoloom_workshop::pack;
use topoloom_workshop::rounds::{Ask, Desk, Round};

use crate::guests::{RUNTIME, load, source};

/// How many answers chance makes.
const ANSWERS: usize = 1_000;
/// Of these, every so many goes through the whole kit, which asks dozens of times about each.
const KIT_EVERY: usize = 25;
/// Any number; the same answers each time.
const SEED: u64 = 26;

/// Answers what its configuration says.
static PARROT: LazyLock<Arc<[u8]>> =
    LazyLock::new(|| guest::component(&guest::module("topoloom-guest-parrot").unwrap()).unwrap().into());

/// An answer, and what it is about.
#[derive(Debug, Clone)]
struct Case {
    /// How many nodes there are.
    nodes: usize,
    /// Whether there was an answer before.
    had_state: bool,
    /// The answer, as the configuration of the parrot.
    said: Value,
}

impl Case {
    fn names(&self) -> impl Iterator<Item = String> {
        (0..self.nodes).map(|at| format!("n{at}"))
    }

    fn state(&self) -> &'static [u8] {
        if self.had_state { b"before" } else { b"" }
    }

    fn answer(&self) -> Answer {
        serde_json::from_value::<Said>(self.said.clone()).unwrap().answer()
    }

    fn cluster(&self) -> Cluster {
        let cluster = self.names().fold(Cluster::new(), |cluster, name| cluster.node(&name, []));
        cluster.state(self.state().to_vec())
    }

    /// What `Cluster` says of it.
    fn by_cluster(&self) -> Option<Refused> {
        self.cluster().judge(&self.answer()).err()
    }

    /// Its text in a native test, if it is a valid one.
    fn shown(&self) -> Option<String> {
        self.by_cluster().is_none().then(|| self.cluster().show(&self.answer()))
    }

    fn view(&self) -> View {
        let mut store = Store::new();
        store.begin_relist();
        for name in self.names() {
            store.relist(NodeMeta { name: &name, labels: [], annotations: [] });
        }
        store.commit_relist();
        store.view(&[])
    }

    /// What the host says of it, after it crossed the boundary.
    async fn by_host(&self, parrot: &Plugin) -> Option<String> {
        let view = self.view();
        let round = RoundInput {
            config: self.said.to_string().into(),
            granted: Arc::new(Granted::default()),
            nodes: view.clone(),
            applied: Arc::default(),
            endpoints: Endpoints::none(),
            time: jiff::Timestamp::UNIX_EPOCH,
            state: self.state().into(),
        };
        let answer = match parrot.discover(&source(), round).await.end {
            Ok(answer) => answer,
            Err(error) => return Some(error.to_string()),
        };
        let Answered::Topology(topology) = answer.outcome else { return None };
        let source = source();
        let input = ValidateInput { source: &source, nodes: view.names(), reserved_labels: &[SOURCE_LABEL] };
        accept(&topology, &input).err().map(|refused| refused.to_string())
    }

    /// The round of `plugin run`, and of a case.
    async fn round(&self, desk: &Desk) -> Round {
        let items: Vec<Value> = self.names().map(|name| json!({"kind": "Node", "metadata": {"name": name}})).collect();
        let list = json!({"kind": "List", "items": items}).to_string();
        let nodes = Nodes::parse(list.as_bytes()).unwrap();
        let config = self.said.to_string();
        desk.discover(&Ask { state: self.state(), ..Ask::new(&nodes, &config) }).await
    }

    /// What `plugin run` says of it.
    async fn by_desk(&self, desk: &Desk) -> Option<String> {
        self.round(desk).await.end.err().map(|refused| refused.to_string())
    }

    /// What the check of the kit found that judges answers.
    async fn by_kit(&self, desk: &Desk) -> Option<String> {
        let nodes = self.names().map(|name| Node { name, ..Node::default() }).collect();
        let trials = [Trial { name: "drawn".to_owned(), config: self.said.clone(), nodes, ..Trial::default() }];
        let file = FileFacts::of(&PARROT, &Limits::default(), pack::quick(&PARROT).len(), pack::ROOM);
        let plugin = Ok(desk);
        let reserved_labels = &[SOURCE_LABEL];
        let exam = Exam { file, plugin, trials: &trials, against: None, sizes: &[], reserved_labels };
        let report = Box::pin(kit::run(&exam)).await;
        let of_answers = |line: &&Line| matches!(line.check, Check::SoundAnswer | Check::StateUnchanged);
        let failed = report.lines.iter().filter(of_answers).find(|line| line.mark() == Mark::Failed)?;
        failed.findings.first().map(|finding| finding.text.clone())
    }
}

/// All cases, in an order that stays.
fn cases() -> Vec<Case> {
    let mut cases = draw::random(SEED, ANSWERS);
    cases.extend(draw::beyond());
    cases
}

#[tokio::test]
async fn a_thousand_answers_are_judged_alike_by_the_sdk_and_by_the_host() {
    let parrot = load(&PARROT, Limits::default()).await;
    let (mut valid, mut refused) = (0, 0);
    for case in cases() {
        let (sdk, host) = (case.by_cluster().map(|refused| refused.to_string()), case.by_host(&parrot).await);
        assert_eq!(sdk, host, "{case:?}");
        if sdk.is_some() {
            refused += 1;
        } else {
            valid += 1;
        }
    }
    // Otherwise the draw says little about one of both.
    assert!(valid > ANSWERS / 4 && refused > ANSWERS / 4, "{valid} valid, {refused} refused");
}

#[tokio::test]
async fn at_a_desk_answers_are_judged_as_by_the_host() {
    let desk = Desk::open(&RUNTIME, Arc::clone(&PARROT), Limits::default()).await.unwrap();
    for (at, case) in cases().into_iter().enumerate() {
        // A vendor may look each rule up.
        let sdk = case.by_cluster().map(|refused| format!("{refused:#}"));
        assert_eq!(case.by_desk(&desk).await, sdk, "{case:?}");
        // The kit also asks with a state that the plugin never wrote: to repeat an answer is wrong there, whatever the host says.
        let repeats = case.said["unchanged"] == json!(true);
        if at % KIT_EVERY == 0 && !repeats {
            let found = case.by_kit(&desk).await;
            match (&sdk, &found) {
                (None, None) => {}
                // A finding has room for the begin of a long sentence.
                (Some(words), Some(found)) => {
                    let begin: String = words.chars().take(200).collect();
                    assert!(found.contains(&begin), "{found}\n{words}\n{case:?}");
                }
                _ => panic!("the kit says {found:?} where the SDK says {sdk:?}: {case:?}"),
            }
        }
    }
}

/// Answers with what chance does not make: texts for people, and labels of a selector in another order than that of their keys.
fn more_texts() -> Vec<Case> {
    let labels = json!([["zone", "east"], ["disk", "ssd"], ["example.com/row", "r1"]]);
    let requirements = json!([{"key": "gpu", "operator": "not-in", "values": ["b", "a"]}]);
    let members = json!({"selector": {"labels": labels, "requirements": requirements}});
    let group = |id: &str, members: Value| -> Value {
        let (labels, description) = ([["z", "1"], ["a", "2"]], "by the door \"B\"");
        json!({"id": id, "level": 0, "members": members, "labels": labels, "description": description})
    };
    let said = json!({
        "additionsOnly": true, "levels": [{"tier": 1, "name": "rack"}],
        "groups": [group("b", members), group("a", json!({"rows": [1, 0]}))],
        "diagnostics": [
            {"code": "odd", "detail": "two ports", "about": {"rows": [1, 0]}},
            {"code": "half", "detail": "one port", "about": {"group": 0}},
        ],
    });
    vec![
        Case { nodes: 2, had_state: false, said },
        Case { nodes: 2, had_state: true, said: json!({"unchanged": true}) },
    ]
}

/// `expected.txt` of a case is compared with what the host shows, a native test with what the SDK shows: a vendor copies one into
/// the other.
#[tokio::test]
async fn a_valid_answer_is_the_same_text_in_a_native_test_and_in_a_case() {
    let desk = Desk::open(&RUNTIME, Arc::clone(&PARROT), Limits::default()).await.unwrap();
    let mut compared = 0;
    for case in cases().into_iter().chain(more_texts()) {
        let Some(shown) = case.shown() else { continue };
        assert_eq!(shown_round(&case.round(&desk).await), Some(shown), "{case:?}");
        compared += 1;
    }
    assert!(compared > ANSWERS / 4, "{compared}");
    assert!(more_texts().iter().all(|case| case.shown().is_some()));
}

#[test]
fn every_rule_is_broken_by_an_answer_and_explained_on_the_page() {
    let refused: Vec<Refused> = cases().iter().filter_map(Case::by_cluster).collect();
    let verdicts: Vec<String> = refused.iter().map(Refused::to_string).collect();
    for words in [
        "the id of the group at position",
        "the id is used by an earlier group",
        "is not between 1 and 16",
        "kind: is",
        "fixed name \"",
        "fixed name \"same\" is used",
        "the tier name is",
        "tier name \"",
        "label key \"",
        "of label \"",
        "is given twice",
        "is written by the host alone",
        "the group has no members",
        "is a member twice",
        "member \"",
        "which is not below",
        "has two parents",
        "selector: it is empty",
        "selector: key",
        "selector: value",
        "need at least one value",
        "split the group",
        "diagnostic code",
        "different labels",
        "it answers `unchanged`",
        "is of level",
        "has node row",
        "has group",
        "the names of group",
        "a diagnostic names node row",
        "a diagnostic names group",
        "has a label key twice",
        "groups and may have",
        "labels in one group",
        "requirements in one selector",
        "values in one selector",
        "bytes long, at most 4096 are read",
        "the state of the answer is larger",
    ] {
        assert!(verdicts.iter().any(|verdict| verdict.contains(words)), "no answer is refused with {words:?}");
    }
    let page = pages::page("wit/README.md").unwrap();
    for word in BrokenRule::WORDS.into_iter().chain(["selector-keys"]) {
        assert!(page.contains(&format!("<a id=\"rule-{word}\"></a>{word} |")), "{word} is not on the page");
    }
}
