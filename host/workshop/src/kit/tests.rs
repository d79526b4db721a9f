//! The kit over plugins that are closures: a good one passes, and what no sandbox lets a plugin do is found as well. What real
//! plugins do wrong is in `tests/component/kit`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use topoloom_core::names::SourceName;
use topoloom_core::plugin::{
    Answer, Answered, CallError, Description, Digest, Limits, Problem, Requirements, Trigger, Usage,
};
use topoloom_core::snapshot::{ColumnKey, View};
use topoloom_core::topology::{Coverage, Group, Members, Topology};
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

    async fn discover(&self, ask: Ask) -> Call<Answer> {
        self.call((self.discover)(self.next(), &ask))
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
    let producers = vec![["language", "Rust", "1"].map(str::to_owned)];
    let exam = Exam {
        file: FileFacts { size: 2_000, packed: 1_000, room: 1_000_000, producers, named: Some(true) },
        plugin: Ok(fake),
        trials: &[trial()],
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
    use topoloom_core::plugin::Failure;

    let fails = Fake { discover: |_, _| Err(CallError::Failure(Failure::Config("no".into()))), ..Fake::good() };
    let report = examined(&fails, None).await;
    assert_eq!(report.found().collect::<Vec<_>>(), [], "{}", report.text());
    assert_eq!(report.line(Check::FunctionRows).map(report::Line::mark), Some(Mark::Skipped));
    assert_eq!(report.line(Check::CaseExpected).map(report::Line::mark), Some(Mark::Passed));
}
