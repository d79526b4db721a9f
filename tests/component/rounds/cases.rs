//! Cases: files of a vendor, played in the sandbox.

use std::path::{Path, PathBuf};

use topoloom::endpoints::recording::{RecordedPlugin, Recording};
use topoloom_workshop::cases::write::{Draft, WriteError};
use topoloom_workshop::cases::{Case, Fault, Played, play};
use topoloom_workshop::rounds::{Ask, Desk};

use super::{ANSWER, ASKS, CALLER, LEVELS, NODES, RECORDED, desk, label, nodes, shown};
use crate::guests::VILLAIN;

/// A folder of cases.
struct Cases {
    folder: tempfile::TempDir,
}

impl Cases {
    fn new(files: &[(&str, &str)]) -> Self {
        let cases = Self { folder: tempfile::tempdir().unwrap() };
        files.iter().for_each(|(name, text)| cases.put(name, text));
        cases
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn case(&self, name: &str) -> Case {
        Case::read(&self.path(name)).unwrap()
    }
}

fn faults(played: &Played) -> Vec<String> {
    played.faults().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_case_passes_differs_in_two_lines_and_is_blessed() {
    let cases = Cases::new(&[("a/nodes.yaml", NODES), ("a/config.yaml", LEVELS), ("a/expected.txt", ANSWER)]);
    let label = label().await;
    assert_eq!(faults(&play(&label, &cases.case("a")).await), [""; 0]);
    cases.put("a/expected.txt", &ANSWER.replace("| m3", "| m4"));
    let played = play(&label, &cases.case("a")).await;
    let [said] = faults(&played).try_into().unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].ends_with("/a/expected.txt: the answer differs"), "{said}");
    assert!(lines[1].starts_with("- tier 1") && lines[1].ends_with("| m4"), "{said}");
    assert!(lines[2].starts_with("+ tier 1") && lines[2].ends_with("| m3"), "{said}");
    assert_eq!(played.bless().unwrap(), [cases.path("a/expected.txt")]);
    assert_eq!(cases.read("a/expected.txt"), ANSWER);
    assert_eq!(play(&label, &cases.case("a")).await.bless().unwrap(), Vec::<PathBuf>::new());
    // What was never written is written.
    std::fs::remove_file(cases.path("a/expected.txt")).unwrap();
    let played = play(&label, &cases.case("a")).await;
    assert!(matches!(&played.faults().collect::<Vec<_>>()[..], [Fault::NothingExpected(_)]));
    played.bless().unwrap();
    assert_eq!(cases.read("a/expected.txt"), ANSWER);
}

#[tokio::test]
async fn what_the_host_ends_is_a_fault_that_no_one_can_bless_and_a_failure_is_an_answer() {
    let cases = Cases::new(&[
        ("trap/nodes.yaml", NODES),
        ("trap/config.yaml", "discover: panic"),
        ("unsound/nodes.yaml", NODES),
        ("unsound/config.yaml", "discover: tier-zero"),
        ("failure/nodes.yaml", NODES),
        ("failure/config.yaml", "discover: internal"),
        ("failure/expected.txt", "failure | the plugin reports a fault of its own: as configured\n"),
        ("problems/nodes.yaml", NODES),
        ("problems/config.yaml", "configure: problems"),
        ("problems/expected.txt", "problem | a.b[0]: is 7 and must be 8\nproblem | is odd\n"),
    ]);
    let villain = desk(&VILLAIN).await;
    for (name, words) in [("trap", "the plugin crashed"), ("unsound", "tier 0 is not between 1 and 16")] {
        let played = play(&villain, &cases.case(name)).await;
        let [said] = faults(&played).try_into().unwrap();
        assert!(said.contains(words), "{name}: {said}");
        assert_eq!(played.bless().unwrap(), Vec::<PathBuf>::new(), "{name}");
    }
    for name in ["failure", "problems"] {
        assert_eq!(faults(&play(&villain, &cases.case(name)).await), [""; 0], "{name}");
    }
}

#[tokio::test]
async fn several_rounds_carry_their_state_and_what_was_written() {
    // The state counts the rounds: the second answer comes in the second round alone.
    let config = r#"{"answers": [[{"id": "x", "nodes": ["m1", "m2"]}], [{"id": "y", "nodes": ["m3"]}]]}"#;
    let cases = Cases::new(&[
        ("a/config.yaml", config),
        ("a/1/nodes.yaml", NODES),
        ("a/1/expected.txt", "tier 1 - | x |  | names m1 m2\n"),
        ("a/2/nodes.yaml", NODES),
        ("a/2/expected.txt", "tier 1 - | y |  | names m3\n"),
    ]);
    let scripted = scripted().await;
    let played = play(&scripted, &cases.case("a")).await;
    assert_eq!(faults(&played), [""; 0]);
    assert_eq!(played.turns.len(), 2);
    // The second round deletes the object of the first.
    let plan = played.turns[1].round.found().unwrap().decision.plan.to_string();
    assert!(plan.contains("delete"), "{plan}");
    // With the state of a later round the first answer is the second one.
    std::fs::write(cases.path("a/state"), [1]).unwrap();
    let [said] = faults(&play(&scripted, &cases.case("a")).await).try_into().unwrap();
    assert!(said.contains("a/1/expected.txt") && said.contains("+ tier 1 - | y"), "{said}");
}

async fn scripted() -> Desk {
    let bytes = topoloom_tests::guest::component(&topoloom_tests::guest::module("topoloom-guest-scripted").unwrap());
    desk(&bytes.unwrap().into()).await
}

#[tokio::test]
async fn a_round_after_a_failure_is_played_with_what_was_there_before() {
    // The second configuration fails, the third one is that of the first round: a host has dropped the state twice.
    let answers = r#"{"answers": [[{"id": "x", "nodes": ["m1"]}], [{"id": "y", "nodes": ["m3"]}]]}"#;
    let (fails, x, y) =
        (r#"{"answers": [{"fail": "away"}]}"#, "tier 1 - | x |  | names m1\n", "tier 1 - | y |  | names m3\n");
    let cases = Cases::new(&[
        ("a/config.yaml", answers),
        ("a/1/nodes.yaml", NODES),
        ("a/1/expected.txt", x),
        ("a/2/nodes.yaml", NODES),
        ("a/2/config.yaml", fails),
        ("a/3/nodes.yaml", NODES),
        ("a/3/expected.txt", "nonsense\n"),
    ]);
    let scripted = scripted().await;
    let played = play(&scripted, &cases.case("a")).await;
    assert_eq!(played.turns.len(), 3);
    let shown = played.turns[1].shown.clone().unwrap();
    assert!(shown.starts_with("failure | ") && shown.ends_with("away\n"), "{shown}");
    assert_eq!(played.turns[2].shown.as_deref(), Some(x));
    let said = faults(&played);
    assert!(said.iter().any(|said| said.contains("a/3/expected.txt: the answer differs")), "{said:#?}");
    // A failure keeps the state: the answers are of one configuration, and the third round has the second answer.
    let later = answers.replace("]]}", "], {\"fail\": \"away\"}, []]}");
    cases.put("a/config.yaml", &later);
    std::fs::remove_file(cases.path("a/2/config.yaml")).unwrap();
    std::fs::write(cases.path("a/state"), [1]).unwrap();
    let played = play(&scripted, &cases.case("a")).await;
    let shown: Vec<_> = played.turns.iter().map(|turn| turn.shown.clone().unwrap()).collect();
    assert_eq!(shown[0], y);
    assert!(shown[1] == shown[2] && shown[1].starts_with("failure | "), "{shown:#?}");
    // `configure` that refuses is no other configuration: the host serves the one before.
    cases.put("a/config.yaml", answers);
    cases.put("a/2/config.yaml", r#"{"answers": 7}"#);
    std::fs::remove_file(cases.path("a/state")).unwrap();
    let played = play(&scripted, &cases.case("a")).await;
    let shown: Vec<_> = played.turns.iter().map(|turn| turn.shown.clone().unwrap()).collect();
    assert!(shown[0] == x && shown[1].starts_with("problem | ") && shown[2] == y, "{shown:#?}");
}

#[tokio::test]
async fn a_round_after_one_that_the_host_ended_is_a_fault() {
    let cases = Cases::new(&[
        ("a/1/nodes.yaml", NODES),
        ("a/1/config.yaml", "discover: good"),
        ("a/2/nodes.yaml", NODES),
        ("a/2/config.yaml", "discover: panic"),
        ("a/3/nodes.yaml", NODES),
        ("a/3/config.yaml", "discover: good"),
    ]);
    let played = play(&desk(&VILLAIN).await, &cases.case("a")).await;
    let said = faults(&played);
    assert_eq!(played.turns.len(), 2);
    let words = "a/2; repair that one first";
    assert!(said[0].contains("a/3: this round is not played") && said[0].ends_with(words), "{said:#?}");
    // What came before is right on its own.
    assert_eq!(played.bless().unwrap(), [cases.path("a/1/expected.txt")]);
}

#[tokio::test]
async fn an_answer_that_did_not_ask_for_all_is_not_blessed() {
    let cases = Cases::new(&[
        ("a/nodes.yaml", NODES),
        ("a/config.yaml", r#"{"wants": [{"name": "fabric", "credentials": ["bearer"]}]}"#),
        ("a/expected.txt", "! answer | source | 200 seven 5 bytes Ok(5)\n"),
        ("a/recording.json", RECORDED),
    ]);
    let caller = desk(&CALLER).await;
    for is_written in [true, false] {
        if !is_written {
            std::fs::remove_file(cases.path("a/expected.txt")).unwrap();
        }
        let played = play(&caller, &cases.case("a")).await;
        let said = faults(&played);
        assert!(said.len() == 2 && said[0].contains("the plugin does not ask GET /v1"), "{said:#?}");
        assert_eq!(played.bless().unwrap(), Vec::<PathBuf>::new());
    }
}

#[tokio::test]
async fn a_recording_of_other_requests_or_another_plugin_says_which() {
    let answer = "! answer | source | 200 seven 5 bytes Ok(5)\n! credential | source | Ok(Credential::Bearer)\n";
    let cases = Cases::new(&[
        ("a/nodes.yaml", NODES),
        ("a/config.yaml", ASKS),
        ("a/expected.txt", answer),
        ("a/recording.json", RECORDED),
    ]);
    let caller = desk(&CALLER).await;
    assert_eq!(faults(&play(&caller, &cases.case("a")).await), [""; 0]);
    // Another request: the answer differs because of it, and the cause is said first.
    cases.put("a/config.yaml", &ASKS.replace("\"/v1\"", "\"/v2\""));
    let played = play(&caller, &cases.case("a")).await;
    let said = faults(&played);
    let words = "recording.json: it has GET /v1 of the endpoint fabric; asked instead: GET /v2 of the endpoint fabric";
    assert!(said.len() == 2 && said[0].contains(words), "{said:#?}");
    assert_eq!(played.bless().unwrap(), Vec::<PathBuf>::new());
    // A request less.
    cases.put("a/config.yaml", r#"{"wants": [{"name": "fabric", "credentials": ["bearer"]}]}"#);
    cases.put("a/expected.txt", "! credential | source | Ok(Credential::Bearer)\n");
    let [said] = faults(&play(&caller, &cases.case("a")).await).try_into().unwrap();
    assert!(said.contains("the plugin does not ask GET /v1 of the endpoint fabric"), "{said}");
    // Another plugin; and a later version of this one, which may ask the same.
    for (name, version, words) in [
        ("racks", "0.1.0", "a recording of the plugin racks 0.1.0, and this is caller 0.1.0"),
        ("caller", "0.9.0", "(of caller 0.9.0)"),
    ] {
        let plugin = RecordedPlugin { name: name.into(), version: version.into() };
        cases.put("a/recording.json", &Recording::parse(RECORDED).unwrap().of_plugin(plugin).print().unwrap());
        let said = faults(&play(&caller, &cases.case("a")).await);
        assert!(said.len() == 1 && said[0].contains(words), "{said:#?}");
    }
    // None at all.
    std::fs::remove_file(cases.path("a/recording.json")).unwrap();
    let [said] = faults(&play(&caller, &cases.case("a")).await).try_into().unwrap();
    assert!(said.contains("the plugin calls the endpoint fabric"), "{said}");
}

/// What a round over the usual nodes would be written as.
fn draft(config: &str, shown: &str) -> Draft {
    Draft {
        nodes: nodes(),
        config: serde_json::from_str(config).unwrap(),
        existing: None,
        recording: None,
        state: Vec::new(),
        time: jiff::Timestamp::UNIX_EPOCH,
        shown: shown.to_owned(),
    }
}

#[tokio::test]
async fn a_round_becomes_a_case_that_plays_and_another_one_does_not() {
    let (label, folder) = (label().await, tempfile::tempdir().unwrap());
    let round = label.discover(&Ask::new(&nodes(), LEVELS)).await;
    let draft = draft(LEVELS, &shown(&round));
    let at = folder.path().join("a");
    draft.write(&label, &at).await.unwrap();
    assert_eq!(faults(&play(&label, &Case::read(&at).unwrap()).await), [""; 0]);
    assert!(matches!(draft.write(&label, &at).await, Err(WriteError::Exists(_))));
    // An answer that the case would not have is a mistake of today, not of its first day in a pipeline.
    let other = Draft { shown: ANSWER.replace("m3", "m9"), ..draft.clone() };
    let refused = other.write(&label, &folder.path().join("b")).await.unwrap_err().to_string();
    assert!(refused.contains("would not answer what this round did") && refused.contains("m9"), "{refused}");
    let config = serde_json::json!({"password": "canary"});
    let refused = Draft { config, ..draft }.write(&label, &folder.path().join("c")).await.unwrap_err();
    assert!(refused.to_string().contains("config.password"), "{refused}");
    assert!(!folder.path().join("b").exists() && !folder.path().join("c").exists());
}

#[tokio::test]
async fn a_plugin_that_puts_the_time_into_a_request_becomes_a_case_of_that_time() {
    let (caller, folder) = (desk(&CALLER).await, tempfile::tempdir().unwrap());
    let time: jiff::Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
    let asks = ASKS.replace("/v1", "/v1?at={time}");
    // What it asks with that time.
    let exchanges = caller.replay(Recording::parse(RECORDED).unwrap()).unwrap();
    let round = caller.discover(&Ask { exchanges, time, ..Ask::new(&nodes(), &asks) }).await;
    let asked = round.misfit.missing[0].split_whitespace().nth(1).unwrap().to_owned();
    assert!(asked.starts_with("/v1?at=") && !asked.ends_with("{time}"), "{asked}");
    let recording = Recording::parse(&RECORDED.replace("/v1", &asked)).unwrap();
    let exchanges = caller.replay(recording.clone()).unwrap();
    let round = caller.discover(&Ask { exchanges, time, ..Ask::new(&nodes(), &asks) }).await;
    let draft = Draft { recording: Some(recording), time, ..draft(&asks, &shown(&round)) };
    let written = draft.write(&caller, &folder.path().join("a")).await.unwrap();
    assert!(written.remarks[0].contains("the answer depends on the time of the round"), "{:?}", written.remarks);
    assert_eq!(faults(&play(&caller, &Case::read(&folder.path().join("a")).unwrap()).await), [""; 0]);
}

#[tokio::test]
async fn a_case_without_the_names_of_nodes_answers_the_same() {
    let (label, caller, folder) = (label().await, desk(&CALLER).await, tempfile::tempdir().unwrap());
    let original = draft(LEVELS, ANSWER);
    let at = folder.path().join("a");
    original.anonymised().unwrap().write(&label, &at).await.unwrap();
    assert!(no_file_has(&at, &["m1", "m2", "m3", "m4"]));
    let expected = std::fs::read_to_string(at.join("expected.txt")).unwrap();
    assert!(expected.contains("| node-0001 node-0002\n"), "{expected}");
    assert_eq!(faults(&play(&label, &Case::read(&at).unwrap()).await), [""; 0]);
    // Names in what was asked, and in what was answered.
    let (asks, recorded) = (ASKS.replace("/v1", "/v1/m1"), RECORDED.replace("/v1", "/v1/m1").replace("seven", "m2 7"));
    let recording = Recording::parse(&recorded).unwrap();
    let exchanges = caller.replay(recording.clone()).unwrap();
    let round = caller.discover(&Ask { exchanges, ..Ask::new(&nodes(), &asks) }).await;
    let draft = Draft { recording: Some(recording), ..draft(&asks, &shown(&round)) };
    // It reports how many bytes came, and another name is longer.
    let refused = draft.anonymised().unwrap().write(&caller, &folder.path().join("b")).await.unwrap_err().to_string();
    assert!(refused.contains("4 bytes") && refused.contains("11 bytes"), "{refused}");
}

fn no_file_has(folder: &Path, words: &[&str]) -> bool {
    std::fs::read_dir(folder).unwrap().all(|file| {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        words.iter().all(|word| !text.contains(word))
    })
}
