//! `topoloom lock list`.

use std::collections::BTreeSet;
use std::process::ExitCode;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use topoloom_core::names::NodeName;
use topoloom_core::nodelock::NamedHolder;
use topoloom_core::nodelock::sweep::FoundLock;
use topoloom_core::text;

use super::LockListArgs;
use super::look::{Judged, Look};
use crate::cli::output::Document;
use crate::cli::print;

/// Longest text of a stranger in a row.
const CELL: usize = 80;
/// Longest text of why a node could not be looked at.
const WHY: usize = 300;

/// Every node that has a lock.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Listed {
    /// Nodes of the cluster.
    nodes: usize,
    /// Nodes without a lock.
    free: usize,
    locks: Vec<Row>,
}

impl Document for Listed {
    const KIND: &'static str = "LockList";
}

/// One lock.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Row {
    node: String,
    /// The annotation; absent if the node could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'static str>,
    /// The value of the lock; absent if a pod is there without a lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    /// The age of the lock, by the clock of this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    age_seconds: Option<i64>,
    /// A word: `leaked` if the lock is orphaned, `unknown` if the node could not be read.
    state: &'static str,
    why: String,
}

/// Lists.
pub(super) async fn run(args: LockListArgs) -> anyhow::Result<ExitCode> {
    let look = Look::everywhere(&args.terms).await?;
    let (mut rows, mut complete, now) = (Vec::new(), true, Timestamp::now());
    for (node, judged) in look.judge_all().await {
        match judged {
            Ok(judged) => rows.extend(judged.stands.iter().map(|stands| row(&look, &judged, stands, now))),
            Err(refusal) => {
                rows.push(unknown(&node, &refusal.to_string()));
                complete = false;
            }
        }
    }
    args.output.print(&Listed::of(rows, look.carrier.view().known(|known| known.sizes().nodes)), table)?;
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A node that could not be looked at.
fn unknown(node: &NodeName, why: &str) -> Row {
    Row {
        node: node.to_string(),
        key: None,
        value: None,
        pod: None,
        uid: None,
        age_seconds: None,
        state: "unknown",
        why: text::line(why, WHY),
    }
}

fn row(look: &Look, judged: &Judged, stands: &FoundLock, now: Timestamp) -> Row {
    let key = Judged::key(stands);
    let lock = look.lock(&judged.node, key);
    let time = lock.as_ref().and_then(|lock| match &lock.named {
        NamedHolder::Pod { time, .. } | NamedHolder::NoPod { time } => Some(*time),
        NamedHolder::Unparsable(_) => None,
    });
    Row {
        node: judged.node.to_string(),
        key: Some(key.annotation()),
        value: stands.value.as_deref().map(str::to_owned),
        pod: stands.pod.as_ref().map(ToString::to_string),
        uid: stands.pod.as_ref().and_then(|pod| pod.uid.as_deref()).map(str::to_owned),
        age_seconds: time.map(|time| now.duration_since(time).as_secs()),
        state: stands.word(),
        why: Judged::why(stands),
    }
}

/// How long ago its time was. A time in the future comes from a clock that is ahead, or is made up: it is shown as
/// such.
pub(super) fn age(seconds: i64) -> String {
    if seconds < 0 { format!("in {}", print::span(seconds.saturating_neg())) } else { print::span(seconds) }
}

impl Listed {
    fn of(locks: Vec<Row>, nodes: usize) -> Self {
        let locked: BTreeSet<&str> = locks.iter().map(|row| row.node.as_str()).collect();
        Self { nodes, free: nodes.saturating_sub(locked.len()), locks }
    }
}

fn table(listed: &Listed) -> String {
    let mut cells = vec![["NODE", "KEY", "HOLDER", "AGE", "STATE", "WHY"].map(str::to_owned).to_vec()];
    for row in &listed.locks {
        let none = || "-".to_owned();
        cells.push(vec![
            row.node.clone(),
            row.key.map_or_else(none, str::to_owned),
            row.pod.as_ref().map_or_else(none, |pod| text::line(pod, CELL)),
            row.age_seconds.map_or_else(none, age),
            row.state.to_owned(),
            row.why.clone(),
        ]);
    }
    let free = format!("{} of {} nodes are free\n", listed.free, listed.nodes);
    if listed.locks.is_empty() { free } else { print::table(&cells) + &free }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_without_locks_is_one_sentence() {
        assert_eq!(table(&Listed::of(Vec::new(), 7)), "7 of 7 nodes are free\n");
    }

    #[test]
    fn a_time_in_the_future_is_said_as_such() {
        assert_eq!(
            (age(-7500), age(-1), age(0), age(61)),
            ("in 2h5m".into(), "in 1s".into(), "0s".into(), "1m1s".into())
        );
    }

    #[test]
    fn a_node_that_could_not_be_looked_at_is_a_row_and_not_free() {
        let said = table(&Listed::of(vec![unknown(&"gpu-1".into(), "pods \"p1\" is forbidden\nfor you")], 2));
        let wanted = r#"gpu-1  -    -       -    unknown  pods "p1" is forbidden\nfor you"#;
        assert!(said.contains(wanted) && said.ends_with("1 of 2 nodes are free\n"), "{said}");
        let json = serde_json::to_value(unknown(&"gpu-1".into(), "no")).unwrap();
        assert_eq!(json, serde_json::json!({"node": "gpu-1", "state": "unknown", "why": "no"}));
    }
}
