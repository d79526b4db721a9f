//! Nodes without an entry: the document has another name for them, or the collector does not run there.

use super::Names;
use crate::document::{Author, Sheet};
use std::collections::HashSet;
use topoloom_fabric::Rewrite;
use topoloom_sdk::Packed;

/// How many Nodes a sentence names.
const NAMED: usize = 20;

/// The Nodes without an entry in any of the sheets, good or bad, in the order of the cluster.
pub(crate) fn without_entry<'a>(
    sheets: &[&Sheet],
    names: &Names<'a>,
    nodes: &'a Packed,
    rules: &[Rewrite],
) -> Vec<&'a str> {
    let mut said: HashSet<&str> = HashSet::new();
    for sheet in sheets {
        said.extend(sheet.hosts.iter().filter_map(|host| names.lead(sheet.by, &host.node, rules)));
        let bad = sheet.notes.iter().filter(|note| note.code == "bad-entry");
        said.extend(bad.filter_map(|note| names.lead(sheet.by, &note.subject, rules)));
    }
    nodes.iter().filter(|node| !said.contains(node)).collect()
}

/// One sentence about all of them.
pub(crate) fn sentence(without_entry: &[&str], carriers: &str) -> String {
    let names = without_entry.get(..NAMED).unwrap_or(without_entry).join(", ");
    let more = without_entry.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let have = if without_entry.len() == 1 { "Node has" } else { "Nodes have" };
    format!("{} {have} no entry ({carriers}): {names}{more}", without_entry.len())
}

impl<'a> Names<'a> {
    /// The Node that a name leads to; the rewrite rules of the configuration come last.
    fn lead(&self, by: Author, name: &str, rules: &[Rewrite]) -> Option<&'a str> {
        let by_rule = |rule: &Rewrite| {
            let name = rule.regex.is_match(name).then(|| rule.regex.replace_all(name, rule.replace.as_str()))?;
            self.exact.get(&*name).or_else(|| self.exact.get(name.to_lowercase().as_str())).copied()
        };
        let found = self.node(by, name).map(|(_, node)| node);
        found.or_else(|| rules.iter().filter(|_| by == Author::Document).find_map(by_rule))
    }
}
