//! `topoloom lock list`.

use std::process::ExitCode;

use jiff::Timestamp;
use serde::Serialize;
use topoloom_core::nodelock::Named;
use topoloom_core::nodelock::sweep::Stands;

use super::look::{Judged, Look};
use super::{ListArgs, Output};
use crate::cli::print;
use crate::text;

/// Longest text of a stranger in a row.
const CELL: usize = 80;

/// One lock, for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    node: String,
    /// The annotation.
    key: &'static str,
    /// What stands there; nothing where a pod is there without a lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    /// Since its time, by the clock of this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    age_seconds: Option<i64>,
    /// A word: `leaked` where nobody holds it.
    state: &'static str,
    why: String,
}

/// Lists.
pub(super) async fn run(args: ListArgs) -> anyhow::Result<ExitCode> {
    let look = Look::everywhere(&args.terms).await?;
    let judged = look.judge_all().await?;
    let now = Timestamp::now();
    let rows: Vec<Row> =
        judged.iter().flat_map(|judged| judged.stands.iter().map(|stands| row(&look, judged, stands, now))).collect();
    let text = match args.output {
        Output::Json => serde_json::to_string_pretty(&rows)? + "\n",
        Output::Text => table(&rows, look.carrier.view().count()),
    };
    print::out(&text);
    Ok(ExitCode::SUCCESS)
}

fn row(look: &Look, judged: &Judged, stands: &Stands, now: Timestamp) -> Row {
    let key = Judged::key(stands);
    let lock = look.lock(&judged.node, key);
    let time = lock.as_ref().and_then(|lock| match &lock.named {
        Named::Pod { time, .. } | Named::Nobody { time } => Some(*time),
        Named::Unparsable(_) => None,
    });
    Row {
        node: judged.node.to_string(),
        key: key.annotation(),
        value: stands.value.as_deref().map(str::to_owned),
        pod: stands.pod.as_ref().map(ToString::to_string),
        uid: stands.pod.as_ref().and_then(|pod| pod.uid.as_deref()).map(str::to_owned),
        age_seconds: time.map(|time| now.duration_since(time).as_secs()),
        state: Judged::word(stands),
        why: Judged::why(stands),
    }
}

fn table(rows: &[Row], nodes: usize) -> String {
    let mut cells = vec![["NODE", "KEY", "HOLDER", "AGE", "STATE", "WHY"].map(str::to_owned).to_vec()];
    for row in rows {
        let none = || "-".to_owned();
        cells.push(vec![
            row.node.clone(),
            row.key.to_owned(),
            row.pod.as_ref().map_or_else(none, |pod| text::line(pod, CELL)),
            row.age_seconds.map_or_else(none, print::span),
            row.state.to_owned(),
            row.why.clone(),
        ]);
    }
    let locked: std::collections::BTreeSet<&str> = rows.iter().map(|row| row.node.as_str()).collect();
    let free = format!("{} of {nodes} nodes are free\n", nodes - locked.len());
    if rows.is_empty() { free } else { print::table(&cells) + &free }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_without_locks_is_one_sentence() {
        assert_eq!(table(&[], 7), "7 of 7 nodes are free\n");
    }
}
