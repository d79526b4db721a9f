//! What several documents about lending have in them.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use topoloom_api::cluster_binding::HeldBatchStatus;
use topoloom_api::names::GROUP;
use topoloom_sync::bars::Bars;
use topoloom_sync::guard::{HeldBatch, WouldBeHeld};
use topoloom_sync::merge::Cordon;
use topoloom_sync::node::Window;
use topoloom_sync::taints::Taint;
use topoloom_syncer::survey::plan::Shape;

use super::amounts::{Amounts, Moment, amounts};
use crate::cli::print;

/// How many rows of a list are shown without `--all`.
const FIRST: usize = 20;

/// How much of a list is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    /// The first ones, and how many more there are.
    First,
    /// All of it.
    All,
}

/// A reason why less is written than everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BarInForce {
    /// A short stable word.
    bar: &'static str,
    /// The reason.
    pub(super) sentence: String,
}

/// What the guard holds until a person confirms it, or would hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Held {
    /// The hash that confirms it; absent where the status of the binding does not say that it is held: nothing confirms it yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    /// Nodes that would be taken away or emptied, with those that went shortly before.
    nodes: usize,
    /// Of so many nodes of the binding.
    of_nodes: usize,
    /// So many of these nodes went shortly before, and are gone already.
    spent_nodes: usize,
    /// Pods that would be removed, with those that went shortly before.
    pods: usize,
    /// Of so many running pods.
    of_pods: usize,
    /// So many of these pods went shortly before, and are gone already.
    spent_pods: usize,
    /// The numbers, the causes and the limit in a sentence.
    pub(super) sentence: String,
}

/// The time windows of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Windows {
    state: WindowState,
    /// When that changes; absent where it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Moment>,
}

/// Whether time windows are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum WindowState {
    /// There are none.
    Always,
    /// One is.
    Open,
    /// None is.
    Closed,
    /// It is not known, and the node stays as it is.
    Kept,
}

/// A virtual node: what it lends, and what keeps pods away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeShape {
    /// What it lends.
    pub(super) size: Amounts,
    /// Its taints: `key=value:effect`.
    pub(super) taints: Vec<String>,
    /// Whether it is cordoned.
    pub(super) cordoned: bool,
}

impl BarInForce {
    /// All that are in force.
    pub(super) fn all(bars: &Bars) -> Vec<Self> {
        bars.iter().map(|bar| Self { bar: bar.word(), sentence: bar.to_string() }).collect()
    }
}

impl Held {
    /// A batch that would be held.
    pub(super) fn of(batch: &HeldBatch) -> Self {
        Self {
            hash: None,
            nodes: batch.nodes,
            of_nodes: batch.size.nodes,
            spent_nodes: batch.spent.nodes,
            pods: batch.pods,
            of_pods: batch.size.pods,
            spent_pods: batch.spent.pods,
            sentence: WouldBeHeld(batch).to_string(),
        }
    }

    /// The batch that is held, as the status of the binding has it.
    pub(super) fn stored(held: &HeldBatchStatus) -> Self {
        let count = |number: i64| usize::try_from(number).unwrap_or_default();
        Self {
            hash: Some(held.hash.clone()),
            nodes: count(held.extent.nodes),
            of_nodes: count(held.size.nodes),
            spent_nodes: count(held.spent.nodes),
            pods: count(held.extent.pods),
            of_pods: count(held.size.pods),
            spent_pods: count(held.spent.pods),
            sentence: held.sentence.clone(),
        }
    }

    /// In a line.
    pub(super) fn shown(&self) -> String {
        let held = if self.hash.is_some() { "HELD" } else { "WOULD BE HELD" };
        format!("{held} by the guard: {}", self.sentence)
    }
}

impl Windows {
    /// The windows of a node at one time.
    pub(super) fn of(window: Window, now: Timestamp) -> Self {
        let (state, until) = match window {
            Window::Always => (WindowState::Always, None),
            Window::Open { until } => (WindowState::Open, until),
            Window::Closed { until } => (WindowState::Closed, until),
            Window::Kept => (WindowState::Kept, None),
        };
        Self { state, until: until.map(|until| Moment::seen(until, now)) }
    }

    /// In words: `open until 2026-03-05T18:00:00Z, in 6h30m`.
    pub(super) fn shown(&self) -> String {
        let until = self.until.as_ref().map(|until| format!(" until {}", until.shown())).unwrap_or_default();
        match self.state {
            WindowState::Always => "none, so it lends at all times".to_owned(),
            WindowState::Open => format!("open{until}"),
            WindowState::Closed => format!("closed{until}"),
            WindowState::Kept => "not known: no valid policy applies, so its taints stay".to_owned(),
        }
    }
}

impl NodeShape {
    /// A virtual node.
    pub(super) fn of(shape: &Shape) -> Self {
        Self {
            size: amounts(&shape.size),
            taints: shape.taints.iter().map(Taint::to_string).collect(),
            cordoned: shape.cordon == Cordon::Cordoned,
        }
    }
}

/// A taint without our prefix, which almost all of them have.
pub(super) fn short(taint: &str) -> &str {
    taint.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix('/')).unwrap_or(taint)
}

/// Rows of a table in a section, and how many more there are. Columns that say nothing are left out.
pub(super) fn section(text: &mut String, head: &[&str], mut rows: Vec<Vec<String>>, shown: Rows) {
    let more = cut(&mut rows, shown);
    let says = |column: usize| rows.iter().any(|row| row.get(column).is_some_and(|cell| cell != "-"));
    let kept: Vec<usize> = (0..head.len()).filter(|column| *column == 0 || says(*column)).collect();
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    let narrowed =
        |row: &Vec<String>| -> Vec<String> { kept.iter().filter_map(|column| row.get(*column).cloned()).collect() };
    let table: Vec<Vec<String>> = std::iter::once(&head).chain(&rows).map(narrowed).collect();
    indented(text, &print::table(&table));
    and_more(text, more);
}

/// Lines of a section, and how many more there are.
pub(super) fn lines(text: &mut String, mut lines: Vec<String>, shown: Rows) {
    let more = cut(&mut lines, shown);
    for line in lines {
        push_line!(text, "    {line}");
    }
    and_more(text, more);
}

/// `2 nodes`, `1 node`.
pub(super) fn count(number: usize, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

fn indented(text: &mut String, block: &str) {
    for line in block.lines() {
        push_line!(text, "    {line}");
    }
}

/// Leaves what is shown. Returns how many are not.
fn cut<T>(rows: &mut Vec<T>, shown: Rows) -> usize {
    match shown {
        Rows::All => 0,
        Rows::First => {
            let more = rows.len().saturating_sub(FIRST);
            rows.truncate(FIRST);
            more
        }
    }
}

fn and_more(text: &mut String, more: usize) {
    if more > 0 {
        push_line!(text, "    and {more} more; --all shows them");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(number: usize) -> Vec<Vec<String>> {
        (0..number).map(|index| vec![format!("w{index}"), "-".into(), "lent".into()]).collect()
    }

    #[test]
    fn s23_a_section_of_thousands_of_rows_is_summarised_unless_all_are_asked_for() {
        let shown = |number, shown| {
            let mut text = String::new();
            section(&mut text, &["NODE", "TAINTS", "WHAT"], rows(number), shown);
            text
        };
        assert_eq!(shown(2, Rows::First), "    NODE  WHAT\n    w0    lent\n    w1    lent\n");
        let first = shown(5_000, Rows::First);
        assert_eq!(first.lines().count(), FIRST + 2);
        assert!(first.ends_with("\n    and 4980 more; --all shows them\n"), "{first}");
        assert_eq!(shown(5_000, Rows::All).lines().count(), 5_001);
    }

    #[test]
    fn s23_windows_are_said_with_their_end() {
        let now: Timestamp = "2026-03-05T11:30:00Z".parse().unwrap();
        let until = Some("2026-03-05T18:00:00Z".parse().unwrap());
        let shown = |window| Windows::of(window, now).shown();
        assert_eq!(shown(Window::Open { until }), "open until 2026-03-05T18:00:00Z, in 6h30m");
        assert_eq!(shown(Window::Closed { until: None }), "closed");
        assert_eq!(shown(Window::Always), "none, so it lends at all times");
        assert_eq!(serde_json::to_value(Windows::of(Window::Kept, now)).unwrap(), serde_json::json!({"state": "kept"}));
    }

    #[test]
    fn taints_of_ours_are_shown_without_their_prefix() {
        assert_eq!(short("topoloom.dev/vnode:NoSchedule"), "vnode:NoSchedule");
        assert_eq!(short("topoloom.device/x:NoSchedule"), "topoloom.device/x:NoSchedule");
        assert_eq!((count(1, "node"), count(0, "pod")), ("1 node".into(), "0 pods".into()));
    }
}
