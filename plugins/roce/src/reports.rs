//! Findings for operators: which cable, which node, and why it does not count.
//!
//! Nodes with the same finding share one diagnostic: in a fabric without LLDP thousands of nodes have the same one.

use crate::document::cut;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use topoloom_sdk::nodes::{Nodes, Row};
use topoloom_sdk::{Diagnostic, Subject};

/// Different sentences per code; one more sums up the others.
const MAX_SENTENCES: usize = 200;
/// Subjects per code that are no nodes.
const MAX_NAMES: usize = 200;
/// Bytes of one sentence.
const MAX_DETAIL: usize = 600;

/// Diagnostics, while they are collected.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    /// By code and sentence: the nodes or switches that it is about.
    of: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
    source: BTreeSet<(String, String)>,
}

impl Reports {
    /// Adds a finding about a node, or a switch, by its name.
    pub(crate) fn add(&mut self, code: &str, subject: &str, detail: &str) {
        let sentences = self.of.entry(code.to_owned()).or_default();
        sentences.entry(cut(detail, MAX_DETAIL)).or_default().insert(subject.to_owned());
    }

    /// Adds a finding about the answer as a whole.
    pub(crate) fn source(&mut self, code: &str, detail: String) {
        self.source.insert((code.to_owned(), detail));
    }

    /// All diagnostics, in an order that depends on them only.
    pub(crate) fn finish(self, nodes: Nodes<'_>) -> Vec<Diagnostic> {
        let subjects: BTreeSet<&String> = self.of.values().flat_map(BTreeMap::values).flatten().collect();
        let found = if subjects.is_empty() { Vec::new() } else { nodes.find(subjects.iter().copied()) };
        let rows: BTreeMap<&str, Row> =
            subjects.iter().zip(found).filter_map(|(name, row)| Some((name.as_str(), row?))).collect();
        let mut diagnostics = Vec::new();
        for (code, sentences) in &self.of {
            let mut many: BTreeSet<Row> = BTreeSet::new();
            let (mut names, mut more_names) = (0_usize, 0_usize);
            for (number, (detail, subjects)) in sentences.iter().enumerate() {
                let about: BTreeSet<Row> =
                    subjects.iter().filter_map(|name| rows.get(name.as_str()).copied()).collect();
                if number >= MAX_SENTENCES {
                    many.extend(about);
                } else if !about.is_empty() {
                    diagnostics.push(diagnostic(code, Subject::Rows(about.into_iter().collect()), detail));
                }
                for name in subjects.iter().filter(|name| !rows.contains_key(name.as_str())) {
                    if names < MAX_NAMES {
                        names += 1;
                        diagnostics.push(diagnostic(code, Subject::Name(name.clone()), detail));
                    } else {
                        more_names += 1;
                    }
                }
            }
            if !many.is_empty() {
                let detail = format!("the same problem, in {} other wordings", sentences.len() - MAX_SENTENCES);
                diagnostics.push(diagnostic(code, Subject::Rows(many.into_iter().collect()), &detail));
            }
            if more_names > 0 {
                diagnostics.push(diagnostic(
                    code,
                    Subject::Source,
                    &format!("and {more_names} more that are no Nodes"),
                ));
            }
        }
        diagnostics.extend(self.source.into_iter().map(|(code, detail)| diagnostic(&code, Subject::Source, &detail)));
        diagnostics
    }
}

fn diagnostic(code: &str, subject: Subject, detail: &str) -> Diagnostic {
    Diagnostic { code: code.to_owned(), subject, detail: detail.to_owned() }
}

/// A number that changes with the diagnostics. Rows may move without a node having changed; that costs a comparison.
pub(crate) fn hash(diagnostics: &[Diagnostic]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for Diagnostic { code, subject, detail } in diagnostics {
        (code, detail).hash(&mut hasher);
        match subject {
            Subject::Source => 0_u8.hash(&mut hasher),
            Subject::Rows(rows) => (1_u8, rows).hash(&mut hasher),
            Subject::Group(group) => (2_u8, group).hash(&mut hasher),
            Subject::Name(name) => (3_u8, name).hash(&mut hasher),
        }
    }
    hasher.finish()
}
