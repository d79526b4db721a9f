//! The conformance kit over real components: plugins that are wrong in one way each are found by the check that is for that, and by
//! no other; plugins that keep their promises pass.
//!
//! The guests `astray` and `errant` are one wrong plugin for each of their acts: see the tables in their sources.

mod builtins;
mod cases;
mod nodes;
mod services;
mod swaps;
mod verb;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use topoloom_core::plugin::Limits;
use topoloom_tests::guest;
use topoloom_workshop::kit::check::Check;
use topoloom_workshop::kit::report::{Level, Report};
use topoloom_workshop::kit::{self, Exam, FileFacts, Node, Trial};
use topoloom_workshop::pack;
use topoloom_workshop::rounds::Desk;

use crate::guests::RUNTIME;

const RACK: &str = "example.com/rack";
const SWITCH: &str = "example.com/switch";

/// The wrong plugins that read nodes.
fn astray(act: &str) -> Arc<[u8]> {
    aged(act, "1.0.0")
}

/// The same in another version.
fn aged(act: &str, version: &str) -> Arc<[u8]> {
    let marks = [("act=good            ", format!("act={act:<16}")), ("version=1.0.0", format!("version={version}"))];
    guest::marked("topoloom-guest-astray", &marks).unwrap().into()
}

/// The wrong plugins that read a service.
fn errant(act: &str) -> Arc<[u8]> {
    guest::marked("topoloom-guest-errant", &[("act=good            ", format!("act={act:<16}"))]).unwrap().into()
}

/// Three racks of two nodes, below three switches.
fn trial(config: Value) -> Trial {
    let node = |at: usize| {
        let map = |key: &str, value: String| BTreeMap::from([(key.to_owned(), value)]);
        let rack = (at - 1) / 2;
        Node {
            name: format!("m{at}"),
            labels: map(RACK, format!("r{rack}")),
            annotations: map(SWITCH, format!("s{rack}")),
        }
    };
    Trial { name: "small".to_owned(), config, nodes: (1..=6).map(node).collect(), ..Trial::default() }
}

fn racks() -> Trial {
    trial(json!({"label": RACK}))
}

/// What is examined beside a component.
struct Terms {
    limits: Limits,
    sizes: &'static [usize],
}

impl Default for Terms {
    fn default() -> Self {
        Self { limits: Limits::default(), sizes: &[60] }
    }
}

async fn desk(bytes: &Arc<[u8]>, limits: &Limits) -> Result<Desk, String> {
    Desk::open(&RUNTIME, Arc::clone(bytes), limits.clone()).await.map_err(|error| error.to_string())
}

async fn examined(bytes: &Arc<[u8]>, trials: &[Trial], terms: &Terms, against: Option<&Desk>) -> Report {
    let desk = desk(bytes, &terms.limits).await;
    let file = FileFacts::of(bytes, &terms.limits, pack::quick(bytes).len(), pack::ROOM);
    let plugin = desk.as_ref().map_err(Clone::clone);
    let sizes = terms.sizes;
    kit::run(&Exam { file, plugin, trials, against, sizes, reserved_labels: &[] }).await
}

/// Fails unless this check, and no other, finds something of this level.
#[track_caller]
fn assert_only(report: &Report, check: Check, level: Level, what: &str) {
    let found: Vec<_> = report.found().collect();
    assert_eq!(found, [(check, level)], "{what}:\n{}", report.text());
}

/// Examines a wrong plugin for each act.
async fn each_is_found(rows: &[(&str, Check, Level)], terms: &Terms) {
    for (act, check, level) in rows {
        let report = examined(&astray(act), &[racks()], terms, None).await;
        assert_only(&report, *check, *level, act);
    }
}

/// A component with one more custom section, which no tool reads.
fn with_section(component: &[u8], content: &[u8]) -> Arc<[u8]> {
    let mut bytes = component.to_vec();
    let name = b"padding";
    let mut left = 1 + name.len() + content.len();
    bytes.push(0);
    while left >= 0x80 {
        bytes.push(u8::try_from(left & 0x7f).unwrap() | 0x80);
        left >>= 7;
    }
    bytes.push(u8::try_from(left).unwrap());
    bytes.push(u8::try_from(name.len()).unwrap());
    bytes.extend_from_slice(name);
    bytes.extend_from_slice(content);
    bytes.into()
}

/// A component in which sections of this name have another one, so that no tool finds them.
fn renamed_sections(component: &[u8], old: &[u8], new: &[u8]) -> Arc<[u8]> {
    assert_eq!(old.len(), new.len());
    let mut bytes = component.to_vec();
    let length = u8::try_from(old.len()).unwrap();
    let places: Vec<usize> = bytes
        .windows(old.len() + 1)
        .enumerate()
        .filter(|(_, window)| window[0] == length && &window[1..] == old)
        .map(|(at, _)| at + 1)
        .collect();
    assert!(!places.is_empty(), "the component has no such section");
    for at in places {
        bytes[at..at + old.len()].copy_from_slice(new);
    }
    bytes.into()
}

#[tokio::test]
async fn a_plugin_that_keeps_its_promises_passes_without_a_warning() {
    for (what, bytes, trial) in
        [("astray", astray("good"), racks()), ("errant", errant("good"), services::recorded(json!({})))]
    {
        let terms = Terms { sizes: &kit::SIZES, ..Terms::default() };
        let report = examined(&bytes, &[trial], &terms, None).await;
        assert_eq!(report.found().collect::<Vec<_>>(), [], "{what}:\n{}", report.text());
        assert_eq!(report.lines.len(), Check::ALL.len());
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_file_is_found() {
    let good = astray("good");
    let terms = Terms::default();
    let wasi = crate::guests::wat("wasi.wat");
    let report = examined(&wasi, &[racks()], &terms, None).await;
    assert_only(&report, Check::FileLoads, Level::Error, "wasi.wat");

    // Bytes that no packing makes smaller, between what a ConfigMap takes and what a host reads.
    let mut state = 1_u32;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24).to_le_bytes()[0]
    });
    let missing = pack::ROOM + (6 << 10) - pack::quick(&good).len();
    let large = with_section(&good, &noise.take(missing).collect::<Vec<_>>());
    let report = examined(&large, &[racks()], &terms, None).await;
    assert_only(&report, Check::FileConfigMap, Level::Warning, "large");

    let silent = renamed_sections(&good, b"producers", b"prodvcers");
    let report = examined(&silent, &[racks()], &terms, None).await;
    assert_only(&report, Check::FileProducers, Level::Warning, "without producers");

    let nameless = renamed_sections(&good, b"name", b"nome");
    let report = examined(&nameless, &[racks()], &terms, None).await;
    assert_only(&report, Check::FileNames, Level::Warning, "without names");

    each_is_found(&[("idle", Check::FileImports, Level::Warning)], &terms).await;
}

#[tokio::test]
async fn what_is_wrong_with_a_description_is_found() {
    let rows = [
        ("mute", Check::DescribeAnswers, Level::Error),
        ("name", Check::DescribeName, Level::Error),
        ("version", Check::DescribeVersion, Level::Error),
        ("summary", Check::DescribeSummary, Level::Warning),
        ("schema", Check::DescribeSchema, Level::Error),
        ("schema-cases", Check::DescribeSchemaCases, Level::Error),
    ];
    each_is_found(&rows, &Terms::default()).await;
}

#[tokio::test]
async fn what_is_wrong_with_a_configuration_is_found() {
    let rows = [
        ("picky", Check::ConfigureCases, Level::Error),
        ("fragile", Check::ConfigureRobust, Level::Error),
        ("lenient", Check::ConfigureTypes, Level::Error),
        ("pathless", Check::ConfigurePath, Level::Error),
        ("first", Check::ConfigureAll, Level::Warning),
        ("sloppy", Check::ConfigureUnknown, Level::Warning),
        ("scan", Check::ConfigureText, Level::Warning),
    ];
    each_is_found(&rows, &Terms::default()).await;
}

#[tokio::test]
async fn what_is_used_of_limits_is_found() {
    let many = |limits: Limits| Terms { limits, sizes: &[1_000] };
    let rows = [("many", Check::MeasureAnswer, Level::Error), ("hoard", Check::MeasureMemory, Level::Warning)];
    each_is_found(&rows, &many(Limits::default())).await;
    each_is_found(&[("chatty", Check::MeasureLog, Level::Error)], &many(Limits::default())).await;
    // An endless loop ends at its limit; a small one saves the time of this test.
    let mut limits = Limits::default();
    limits.call.cpu = std::time::Duration::from_millis(500);
    each_is_found(&[("slow", Check::MeasureCpu, Level::Error)], &many(limits)).await;
    let mut limits = Limits::default();
    limits.call.received = 1 << 20;
    each_is_found(&[("greedy", Check::MeasureReceived, Level::Warning)], &many(limits)).await;
    let report = examined(&errant("requests"), &[services::recorded(json!({}))], &Terms::default(), None).await;
    assert_only(&report, Check::MeasureRequests, Level::Warning, "requests");
}

#[test]
fn every_check_that_a_plugin_can_fail_has_a_plugin_that_fails_it() {
    // Two answers to one question are not possible in the sandbox: closures show them, beside the kit.
    let impossible = [Check::DescribeConstant, Check::ConfigureConstant, Check::FunctionTwice];
    let here = [
        include_str!("kit.rs"),
        include_str!("kit/cases.rs"),
        include_str!("kit/nodes.rs"),
        include_str!("kit/services.rs"),
        include_str!("kit/swaps.rs"),
    ];
    for check in Check::ALL.iter().filter(|check| !impossible.contains(check)) {
        let name = format!("Check::{check:?}");
        assert!(here.iter().any(|source| source.contains(&name)), "no wrong plugin is found by {check}");
    }
}
