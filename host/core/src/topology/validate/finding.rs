//! Diagnostics: row numbers become names, so that later readers need no snapshot.

use std::sync::Arc;

use super::problem::{BrokenRule, Violations};
use crate::names::NodeName;
use crate::topology::forest::{Finding, FindingSubject};
use crate::topology::model::{Subject, Topology};

/// Longest code in bytes: codes are metric labels.
const CODE_MAX: usize = 64;

pub(super) fn resolve(topology: &Topology, nodes: &[NodeName], violations: &mut Violations) -> Vec<Finding> {
    let mut findings = Vec::with_capacity(topology.diagnostics.len());
    for diagnostic in &topology.diagnostics {
        let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if !(1..=CODE_MAX).contains(&diagnostic.code.len()) || !diagnostic.code.bytes().all(legal) {
            violations.push(None, BrokenRule::Code(Arc::clone(&diagnostic.code)));
        }
        let subject = match &diagnostic.subject {
            Subject::Source => FindingSubject::Source,
            Subject::Name(name) => FindingSubject::Name(name.clone()),
            Subject::Rows(rows) => FindingSubject::Nodes(names(rows, nodes, violations)),
            Subject::Group(at) => match topology.groups.get(*at as usize) {
                Some(group) => FindingSubject::Group(Arc::clone(&group.id)),
                None => {
                    violations.push(None, BrokenRule::DiagnosticGroup { at: *at, groups: topology.groups.len() });
                    continue;
                }
            },
        };
        findings.push(Finding { code: Arc::clone(&diagnostic.code), subject, detail: diagnostic.detail.clone() });
    }
    findings
}

fn names(rows: &[u32], nodes: &[NodeName], violations: &mut Violations) -> Vec<NodeName> {
    let mut names = Vec::with_capacity(rows.len().min(nodes.len()));
    for row in rows {
        match nodes.get(*row as usize) {
            Some(name) => names.push(name.clone()),
            None => violations.push(None, BrokenRule::DiagnosticRow { row: *row, nodes: nodes.len() }),
        }
    }
    names
}
