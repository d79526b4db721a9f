//! The kit over plugins that are closures: a good one passes, and what no sandbox lets a plugin do is found as well. What real
//! plugins do wrong is in `tests/component/kit`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use topoloom_core::names::SourceName;
use topoloom_core::plugin::{
    Answer, Answered, CallError, Description, Digest, Failure, Limits, Problem, Requirements, Trigger, Usage,
};
use topoloom_core::snapshot::{ColumnKey, View};
use topoloom_core::topology::{Coverage, Diagnostic, Group, Members, Subject, Topology};
use topoloom_sandbox::endpoints::recording::{Recording, Uses};
use topoloom_sandbox::plugin::Call;

use super::report::{Level, Mark};
use super::*;

/// A plugin of functions. Each gets the number of the call.
struct Fake {
    source: SourceName,
    limits: Limits,
    imports: Vec<String>,
    calls: Cell<usize>,
    usage: Usage,
    version: &'static str,
    describe: fn(usize, Description) -> Description,
    configure: fn(usize, &str) -> Result<Requirements, CallError>,
    discover: fn(usize, &Ask) -> Result<Answer, CallError>,
    /// What a round asks for in vain, and what it asks for with a condition.
    missing: fn(&Ask) -> Vec<String>,
    conditional: fn(&Ask) -> Vec<usize>,
}

impl Fake {
    fn good() -> Self {
        Self {
            source: "fake".parse().unwrap(),
            limits: Limits::default(),
            imports: Vec::new(),
            calls: Cell::new(0),
            usage: Usage::default(),
            version: "0.1.0",
            describe: |_, description| description,
            configure: |_, config| configure(config),
            discover: |_, ask| Ok(racks(&ask.nodes, |rack, _| rack.to_owned(), Vec::new())),
            missing: |_| Vec::new(),
            conditional: |_| Vec::new(),
        }
    }

    fn next(&self) -> usize {
        self.calls.replace(self.calls.get() + 1)
    }

    fn call<T>(&self, end: Result<T, CallError>) -> Call<T> {
        Call { end, usage: self.usage }
    }
}

impl Stand for Fake {
    fn digest(&self) -> Digest {
        Digest::of(self.version.as_bytes())
    }

    fn source(&self) -> &SourceName {
        &self.source
    }

    fn imports(&self) -> &[String] {
        &self.imports
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn describe(&self) -> Call<Description> {
        let schema = json!({
            "type": "object",
            "required": ["label"],
            "properties": {"label": {"type": "string"}},
            "additionalProperties": false,
        });
        let description = Description {
            name: "racks".to_owned(),
            version: self.version.to_owned(),
            vendor: "Acme".to_owned(),
            summary: "One group per rack".to_owned(),
            config_schema: schema.to_string(),
        };
        self.call(Ok((self.describe)(self.next(), description)))
    }

    async fn configure(&self, config: &str) -> Call<Requirements> {
        self.call((self.configure)(self.next(), config))
    }

    async fn discover(&self, ask: Ask) -> Replied {
        Replied {
            call: self.call((self.discover)(self.next(), &ask)),
            missing: (self.missing)(&ask),
            uses: Uses { left: Vec::new(), conditional: (self.conditional)(&ask) },
        }
    }
}

fn configure(config: &str) -> Result<Requirements, CallError> {
    let problem = |path: &str, message: &str| Problem { path: path.to_owned(), message: message.to_owned() };
    let mut problems = Vec::new();
    match serde_json::from_str(config) {
        Ok(Value::Object(fields)) => {
            if !fields.get("label").is_some_and(Value::is_string) {
                problems.push(problem("label", "must be the key of a label"));
            }
            let unknown = fields.keys().filter(|key| *key != "label");
            problems.extend(unknown.map(|key| problem(key, "is no key")));
        }
        _ => problems.push(problem("", "must be an object")),
    }
    if !problems.is_empty() {
        return Err(CallError::InvalidConfig(problems));
    }
    let triggers = vec![Trigger::Columns(Duration::ZERO)];
    Ok(Requirements { node_labels: vec!["rack".to_owned()], triggers, ..Requirements::default() })
}

/// One group per rack.
fn racks(nodes: &View, id: impl Fn(&str, &[u32]) -> String, state: Vec<u8>) -> Answer {
    let key = ColumnKey::label("rack");
    let mut rows: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for row in 0..nodes.rows() {
        if let Some(rack) = nodes.value(row, &key) {
            rows.entry(rack).or_default().push(row);
        }
    }
    let group = |(rack, rows): (&str, Vec<u32>)| Group {
        id: id(rack, &rows).into(),
        kind: None,
        fixed_name: None,
        description: None,
        tier: 1,
        tier_name: Some("rack".into()),
        labels: vec![("rack".into(), rack.into())],
        members: Members::Rows(rows),
    };
    let groups = rows.into_iter().map(group).collect();
    let topology = Topology { coverage: Coverage::Complete, groups, diagnostics: Vec::new() };
    Answer { outcome: Answered::Topology(topology), state }
}

fn trial() -> Trial {
    let node = |at: usize| Node {
        name: format!("m{at}"),
        labels: [("rack".to_owned(), format!("r{}", at / 2))].into(),
        ..Node::default()
    };
    Trial {
        name: "small".to_owned(),
        config: json!({"label": "rack"}),
        nodes: (0..6).map(node).collect(),
        expected: Expected::Met,
        ..Trial::default()
    }
}

async fn examined(fake: &Fake, against: Option<&Fake>) -> Report {
    examined_with(fake, against, &trial()).await
}

async fn examined_with(fake: &Fake, against: Option<&Fake>, trial: &Trial) -> Report {
    let producers = vec![["language", "Rust", "1"].map(str::to_owned)];
    let exam = Exam {
        file: FileFacts { size: 2_000, packed: 1_000, room: 1_000_000, producers, named: Some(true) },
        plugin: Ok(fake),
        trials: std::slice::from_ref(trial),
        against,
        sizes: &[100],
        reserved_labels: &[],
    };
    run(&exam).await
}

async fn found(fake: Fake) -> Vec<(Check, Level)> {
    examined(&fake, None).await.found().collect()
}

#[tokio::test]
async fn a_good_plugin_passes_and_what_was_not_tried_says_why() {
    let report = examined(&Fake::good(), Some(&Fake { version: "0.0.9", ..Fake::good() })).await;
    assert_eq!(report.found().collect::<Vec<_>>(), [], "{}", report.text());
    assert_eq!(report.lines.iter().map(|line| line.check).collect::<Vec<_>>(), Check::ALL);
    let skipped = report.lines.iter().filter(|line| line.mark() == Mark::Skipped);
    let families: std::collections::BTreeSet<Family> = skipped.map(|line| line.check.family()).collect();
    // It has one key, reads no annotation, keeps no state and asks no service.
    assert_eq!(families, [Family::Configure, Family::Sound, Family::State, Family::Http].into(), "{}", report.text());
    assert!(!report.has_failed());
}

#[tokio::test]
async fn two_answers_to_one_question_are_found() {
    let describe = Fake {
        describe: |call, description| Description { vendor: format!("Acme {call}"), ..description },
        ..Fake::good()
    };
    assert_eq!(found(describe).await, [(Check::DescribeConstant, Level::Error)]);
    let configure = Fake {
        configure: |call, config| {
            let mut needs = configure(config)?;
            needs.node_annotations.push(format!("example.com/{call}"));
            Ok(needs)
        },
        ..Fake::good()
    };
    assert_eq!(found(configure).await, [(Check::ConfigureConstant, Level::Error)]);
    let discover = Fake {
        discover: |call, ask| Ok(racks(&ask.nodes, |rack, _| format!("{rack}-{call}"), Vec::new())),
        ..Fake::good()
    };
    assert_eq!(found(discover).await, [(Check::FunctionTwice, Level::Error)]);
}

#[tokio::test]
async fn one_mistake_is_one_finding() {
    let rows = Fake {
        discover: |_, ask| {
            Ok(racks(&ask.nodes, |_, rows| rows.first().copied().unwrap_or_default().to_string(), Vec::new()))
        },
        ..Fake::good()
    };
    assert_eq!(found(rows).await, [(Check::FunctionRows, Level::Error)]);
    let size = Fake {
        discover: |_, ask| Ok(racks(&ask.nodes, |rack, rows| format!("{rack}-{}", rows.len()), Vec::new())),
        ..Fake::good()
    };
    assert_eq!(found(size).await, [(Check::IdentitiesAdd, Level::Error)]);
    let memory = Fake {
        discover: |_, ask| match ask.state.first() {
            Some(7) => Ok(Answer { outcome: Answered::Unchanged, state: vec![7] }),
            _ => Ok(racks(&ask.nodes, |rack, _| rack.to_owned(), vec![7])),
        },
        ..Fake::good()
    };
    assert_eq!(found(memory).await, [(Check::StateStale, Level::Error)]);
    // It looks for nodes that went, and for names only.
    let fewer = Fake {
        discover: |_, ask| {
            let rows = u8::try_from(ask.nodes.rows()).unwrap_or(u8::MAX);
            match ask.state.first() {
                Some(count) if rows >= *count => Ok(Answer { outcome: Answered::Unchanged, state: vec![*count] }),
                _ => Ok(racks(&ask.nodes, |rack, _| rack.to_owned(), vec![rows])),
            }
        },
        ..Fake::good()
    };
    assert_eq!(found(fewer).await, [(Check::StateStale, Level::Error)]);
    let names = Fake {
        discover: |_, ask| {
            let rows = u8::try_from(ask.nodes.rows()).unwrap_or(u8::MAX);
            match ask.state.first() {
                Some(count) if rows == *count => Ok(Answer { outcome: Answered::Unchanged, state: vec![*count] }),
                _ => Ok(racks(&ask.nodes, |rack, _| rack.to_owned(), vec![rows])),
            }
        },
        ..Fake::good()
    };
    assert_eq!(found(names).await, [(Check::StateStale, Level::Error)]);
    let coming = Fake {
        discover: |_, ask| match ask.nodes.rows() {
            7 => Err(CallError::Failure(Failure::Internal("six are enough".into()))),
            _ => Ok(racks(&ask.nodes, |rack, _| rack.to_owned(), Vec::new())),
        },
        ..Fake::good()
    };
    assert_eq!(found(coming).await, [(Check::IdentitiesAdd, Level::Error)]);
    let picky = Fake {
        configure: |_, _| Err(CallError::InvalidConfig(vec![Problem { path: "label".into(), message: "no".into() }])),
        ..Fake::good()
    };
    assert_eq!(found(picky).await, [(Check::ConfigureCases, Level::Error)]);
}

#[tokio::test]
async fn what_is_used_of_a_limit_is_a_warning_above_half_of_it() {
    let with = |usage: Usage| Fake { usage, ..Fake::good() };
    let memory = with(Usage { peak_memory: 200 << 20, ..Usage::default() });
    assert_eq!(found(memory).await, [(Check::MeasureMemory, Level::Warning)]);
    let lines = with(Usage { log_lines: 200, log_dropped: 1, ..Usage::default() });
    assert_eq!(found(lines).await, [(Check::MeasureLog, Level::Error)]);
    let cpu = with(Usage { cpu: Duration::from_millis(2_400), ..Usage::default() });
    assert_eq!(found(cpu).await, []);
}

#[tokio::test]
async fn a_file_that_no_host_takes_is_the_only_finding() {
    let exam: Exam<'_, Fake> = Exam {
        file: FileFacts { size: 1, packed: 1, room: 1, producers: vec![Default::default()], named: None },
        plugin: Err("the plugin is not WebAssembly".to_owned()),
        trials: &[trial()],
        against: None,
        sizes: &[],
        reserved_labels: &[],
    };
    let report = run(&exam).await;
    assert_eq!(report.found().collect::<Vec<_>>(), [(Check::FileLoads, Level::Error)]);
    assert_eq!(report.line(Check::SoundAnswer).unwrap().reason().unwrap(), "file-loads failed");
}

#[tokio::test]
async fn a_version_is_compared_with_the_one_that_it_replaces() {
    let old = Fake { version: "0.0.9", ..Fake::good() };
    let against = async |new: Fake| examined(&new, Some(&old)).await.found().collect::<Vec<_>>();
    let renamed =
        Fake { describe: |_, description| Description { name: "rows".into(), ..description }, ..Fake::good() };
    assert_eq!(against(renamed).await, [(Check::SwapName, Level::Error)]);
    let asks_more = Fake {
        configure: |_, config| {
            let mut needs = configure(config)?;
            needs.node_labels.push("row".to_owned());
            Ok(needs)
        },
        ..Fake::good()
    };
    assert_eq!(against(asks_more).await, [(Check::SwapGrants, Level::Warning)]);
    let smaller = Fake {
        discover: |_, ask| {
            let mut answer = racks(&ask.nodes, |rack, _| rack.to_owned(), Vec::new());
            if let Answered::Topology(topology) = &mut answer.outcome {
                topology.groups.retain(|group| &*group.id == "r0");
            }
            Ok(answer)
        },
        ..Fake::good()
    };
    assert_eq!(against(smaller).await, [(Check::SwapRails, Level::Warning)]);
}

#[tokio::test]
async fn a_trial_that_is_about_a_failure_is_not_tried_further() {
    let fails = Fake { discover: |_, _| Err(CallError::Failure(Failure::Config("no".into()))), ..Fake::good() };
    let report = examined(&fails, None).await;
    assert_eq!(report.found().collect::<Vec<_>>(), [], "{}", report.text());
    assert_eq!(report.line(Check::FunctionRows).map(report::Line::mark), Some(Mark::Skipped));
    assert_eq!(report.line(Check::CaseExpected).map(report::Line::mark), Some(Mark::Passed));
}

/// The trial with one answer of a service.
fn recorded() -> Trial {
    let exchange = json!({
        "endpoint": "list", "method": "GET", "path": "/v1", "status": 200, "headers": [["etag", "7"]], "text": "{}"
    });
    let recording = json!({"version": 1, "sources": {"any": {"exchanges": [exchange]}}});
    let recording = Recording::parse(&recording.to_string()).unwrap();
    Trial { recording: Some(std::sync::Arc::new(recording)), ..trial() }
}

/// The status of the only answer.
fn status(ask: &Ask) -> Option<u16> {
    ask.recording.as_ref().and_then(|recording| recording.exchanges().next().and_then(|exchange| exchange.status))
}

#[tokio::test]
async fn nothing_new_at_a_service_is_no_answer_over_other_nodes() {
    let has_state = |ask: &Ask| if &*ask.state == b"7" { vec![0] } else { Vec::new() };
    let trusts = Fake {
        discover: |_, ask| {
            let is_same = &*ask.state == b"7" && status(ask) == Some(304);
            let unchanged = Answer { outcome: Answered::Unchanged, state: b"7".to_vec() };
            Ok(if is_same { unchanged } else { racks(&ask.nodes, |rack, _| rack.to_owned(), b"7".to_vec()) })
        },
        conditional: has_state,
        ..Fake::good()
    };
    let report = examined_with(&trusts, None, &recorded()).await;
    assert_eq!(report.found().collect::<Vec<_>>(), [(Check::StateStale, Level::Error)], "{}", report.text());
    let words =
        "node m0 goes, and it has the state of the round before: with status 304 to GET /v1 of the endpoint list";
    assert!(report.text().contains(words), "{}", report.text());
    // With a condition 304 is an answer like any other.
    let fails = Fake {
        discover: |_, ask| match (&*ask.state, status(ask)) {
            (b"7", Some(304)) => {
                Err(CallError::Failure(Failure::Upstream { message: "304".into(), retry_after: None }))
            }
            _ => Ok(racks(&ask.nodes, |rack, _| rack.to_owned(), b"7".to_vec())),
        },
        conditional: has_state,
        ..Fake::good()
    };
    let report = examined_with(&fails, None, &recorded()).await;
    assert_eq!(report.found().collect::<Vec<_>>(), [(Check::StateLast, Level::Error)], "{}", report.text());
    // Without one it is not.
    let report = examined_with(&Fake { conditional: |_| Vec::new(), ..fails }, None, &recorded()).await;
    assert_eq!(report.found().collect::<Vec<_>>(), [], "{}", report.text());
}

#[tokio::test]
async fn what_a_recording_lacks_is_no_mistake_of_the_plugin_and_a_failure_without_that_is_one() {
    /// The one round that the recording is of.
    fn is_first(ask: &Ask) -> bool {
        ask.state.is_empty() && ask.nodes.rows() == 6
    }

    let changes = Fake {
        discover: |_, ask| {
            if is_first(ask) {
                return Ok(racks(&ask.nodes, |rack, _| rack.to_owned(), b"7".to_vec()));
            }
            Err(CallError::Failure(Failure::Upstream { message: "away".into(), retry_after: None }))
        },
        missing: |ask| {
            let asked = "GET /changes of the endpoint list".to_owned();
            if is_first(ask) { Vec::new() } else { vec![asked] }
        },
        ..Fake::good()
    };
    let report = examined_with(&changes, None, &recorded()).await;
    assert_eq!(report.found().collect::<Vec<_>>(), [], "{}", report.text());
    for check in [Check::StateLast, Check::StateForeign, Check::StateStale, Check::IdentitiesNone, Check::IdentitiesAdd]
    {
        let reason = report.line(check).and_then(report::Line::reason).unwrap_or_default();
        assert!(reason.contains("the recording does not have what the plugin asks for"), "{check}: {}", report.text());
    }
    // The recording has everything: the state makes it fail.
    let report = examined_with(&Fake { missing: |_| Vec::new(), ..changes }, None, &recorded()).await;
    assert_eq!(report.found().collect::<Vec<_>>(), [(Check::StateLast, Level::Error)], "{}", report.text());
}

#[tokio::test]
async fn a_diagnostic_that_sums_up_says_what_is_left_out() {
    let diagnosed = Fake {
        discover: |_, ask| {
            let text = ask.recording.as_ref().and_then(|recording| recording.exchanges().next()?.body().ok());
            let is_odd = text.as_deref().is_some_and(|text| text.windows(4).any(|word| word == b"odd\""));
            let mut answer = racks(&ask.nodes, |rack, _| rack.to_owned(), Vec::new());
            if let Answered::Topology(topology) = &mut answer.outcome {
                if is_odd {
                    topology.groups.truncate(1);
                }
                let detail = format!("{} records are left out", 3 + usize::from(is_odd));
                let (code, subject) = ("unusable".into(), Subject::Source);
                topology.diagnostics.push(Diagnostic { code, subject, detail });
            }
            Ok(answer)
        },
        ..Fake::good()
    };
    let mut trial = recorded();
    let mut recording = trial.recording.as_deref().cloned().unwrap();
    for exchange in recording.exchanges_mut() {
        exchange.set_body(br#"{"nodes": [{"rack": 1}, {"rack": 2}]}"#.to_vec());
    }
    trial.recording = Some(std::sync::Arc::new(recording));
    let report = examined_with(&diagnosed, None, &trial).await;
    assert_eq!(report.found().collect::<Vec<_>>(), [], "{}", report.text());
    assert_eq!(report.line(Check::HttpOdd).map(report::Line::mark), Some(Mark::Passed));
}
