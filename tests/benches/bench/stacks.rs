//! The folded stacks of a profile, as rows of the table.

use std::collections::BTreeMap;

use crate::table::{Row, Table};

/// Rows of each of the two lists.
const SHOWN: usize = 14;

/// What the processor did in these seconds, by the innermost of our own functions on the stack, and by the innermost crate.
pub(crate) fn show(folded: &str, what: &str, seconds: u64, table: &mut Table) {
    let stacks: Vec<(&str, u64)> = folded
        .lines()
        .filter_map(|line| line.rsplit_once(' '))
        .filter_map(|(s, n)| Some((s, n.parse().ok()?)))
        .collect();
    let all: u64 = stacks.iter().map(|(_, samples)| samples).sum();
    table.add(Row::new(format!("{what}: processor time in {seconds} s"), format!("{all} samples of 1/99 s")));
    for (kind, title) in [(ours as fn(&str) -> String, "in"), (last, "executing")] {
        let mut shares: BTreeMap<String, u64> = BTreeMap::new();
        for (stack, samples) in &stacks {
            *shares.entry(kind(stack)).or_default() += samples;
        }
        let mut shares: Vec<_> = shares.into_iter().collect();
        shares.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
        for (name, samples) in shares.into_iter().take(SHOWN) {
            let percent = samples as f64 * 100.0 / all.max(1) as f64;
            table.add(Row::new(format!("{what}: {title} {name}"), format!("{percent:.1} %")));
        }
    }
}

/// The innermost function that is ours; else the thread.
fn ours(stack: &str) -> String {
    let is_ours = |frame: &&str| frame.trim_start_matches(['<', '&']).starts_with("topoloom");
    let frame = stack.rsplit(';').find(is_ours).or_else(|| stack.split(';').next());
    frame.unwrap_or_default().to_owned()
}

/// The crate of the innermost function.
fn last(stack: &str) -> String {
    let frame = stack.rsplit(';').next().unwrap_or_default().trim_start_matches(['<', '&']);
    frame.split("::").next().unwrap_or_default().to_owned()
}
