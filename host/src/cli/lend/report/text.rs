//! The report for people.

use topoloom_sync::naming::label_value;
use topoloom_sync::resources::{CPU, MEMORY};

use super::document::{BindingReport, LendReport, NodeRemark, OrphanNode, Share, WaitingNode};
use crate::cli::lend::amounts::{columns, shown_of};
use crate::cli::lend::parts::{Rows, count, section};

/// Longest sentence in a row.
const CELL: usize = 160;

/// Everything that was found.
pub(super) fn text(report: &LendReport, rows: Rows) -> String {
    let mut text = String::new();
    for (index, report) in report.bindings.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        binding(&mut text, report, rows);
    }
    if report.bindings.is_empty() {
        text.push_str("there are no ClusterBindings\n");
    }
    if !report.orphans.is_empty() {
        text.push_str("\nORPHANS: virtual nodes whose binding does not exist any more\n");
        let row = |orphan: &OrphanNode| {
            let stands = report.bindings.iter().any(|binding| label_value(&binding.binding) == orphan.binding);
            let next = match (orphan.adoptable, stands) {
                (true, _) => "the binding of that name adopts it".to_owned(),
                (false, true) => {
                    "the binding of that name has another clusterID: delete it, and then apply it with the earlier \
                                  one, which adopts it, or topoloom lend release removes it"
                        .to_owned()
                }
                (false, false) => {
                    format!("topoloom lend release removes it, or a new binding {} adopts it", orphan.binding)
                }
            };
            vec![orphan.node.clone(), orphan.binding.clone(), orphan.binding_uid.clone(), next]
        };
        section(&mut text, &["NODE", "BINDING", "UID", "NEXT"], report.orphans.iter().map(row).collect(), rows);
    }
    if !report.remarks.is_empty() {
        text.push_str("\nREMARKS\n");
        for remark in &report.remarks {
            push_line!(text, "{remark}");
        }
    }
    text
}

fn binding(text: &mut String, report: &BindingReport, rows: Rows) {
    if let Some(error) = &report.error {
        push_line!(text, "binding {}: nothing is known of it: {error}", report.binding);
        return;
    }
    let (nodes, pods) = (count(report.virtual_nodes, "node"), count(report.running_pods, "running pod"));
    push_line!(text, "binding {}: {nodes} with {pods}", report.binding);
    for bar in &report.bars {
        push_line!(text, "  less is written: {}", bar.sentence);
    }
    for why in report.why.iter().chain(&report.remarks) {
        push_line!(text, "  {why}");
    }
    if let Some(held) = &report.held {
        push_line!(text, "  {}", held.shown());
    }
    if let Some(next) = &report.next_transition {
        push_line!(text, "  next transition: {}", next.shown());
    }
    if let Some(oldest) = &report.leases.oldest {
        push_line!(text, "  oldest lease: {}, renewed at {}", oldest.node, oldest.renewed.shown());
    }
    if report.leases.missing > 0 {
        push_line!(text, "  without a lease: {}", count(report.leases.missing, "node"));
    }
    shares(text, report);
    remarks(text, "OVERCOMMITTED", &report.overcommitted, rows);
    if !report.waiting.is_empty() {
        push_line!(text, "\n  PODS THAT HAVE TO GO");
        let row = |waiting: &WaitingNode| {
            let held = if waiting.held { "held by the guard: " } else { "" };
            let why = topoloom_core::text::line(&waiting.why, CELL);
            vec![waiting.node.clone(), waiting.pods.to_string(), format!("{held}{why}")]
        };
        section(text, &["NODE", "PODS", "WHY"], report.waiting.iter().map(row).collect(), rows);
    }
    remarks(text, "CLAIMED BY OTHERS", &report.claimed_by_others, rows);
    remarks(text, "CLAIMS THAT ARE LEFT OVER", &report.stale_claims, rows);
}

fn shares(text: &mut String, report: &BindingReport) {
    if report.total.nodes == 0 {
        return;
    }
    push_line!(text, "\n  LENT");
    let mut table = share("all", &report.total);
    // One policy alone lends all of it.
    if report.policies.len() > 1 || report.policies.iter().any(|policy| policy.policy.is_some()) {
        for policy in &report.policies {
            table.extend(share(policy.policy.as_deref().unwrap_or("without"), &policy.share));
        }
    }
    section(text, &["POLICY", "NODES", "RESOURCE", "LENT", "USED", "IDLE"], table, Rows::All);
}

/// A row for each resource that people look for.
fn share(name: &str, share: &Share) -> Vec<Vec<String>> {
    let is_some = |resource: &str| {
        let list = if resource.contains('/') { &share.lent } else { &share.used };
        list.get(resource).is_some_and(|amount| amount != "0")
    };
    let shown = columns([&share.lent, &share.used])
        .into_iter()
        .filter(|resource| matches!(*resource, CPU | MEMORY) || is_some(resource));
    let row = |(index, resource): (usize, &str)| -> Vec<String> {
        let (name, nodes) = if index == 0 { (name.to_owned(), share.nodes.to_string()) } else { Default::default() };
        let used = if share.used.contains_key(resource) { shown_of(&share.used, resource) } else { "0".to_owned() };
        let amounts = [shown_of(&share.lent, resource), used, shown_of(&share.idle, resource)];
        [name, nodes, resource.to_owned()].into_iter().chain(amounts).collect()
    };
    shown.enumerate().map(row).collect()
}

fn remarks(text: &mut String, title: &str, remarks: &[NodeRemark], rows: Rows) {
    if remarks.is_empty() {
        return;
    }
    push_line!(text, "\n  {title}");
    let row = |remark: &NodeRemark| vec![remark.node.clone(), topoloom_core::text::line(&remark.sentence, CELL)];
    section(text, &["NODE", "WHY"], remarks.iter().map(row).collect(), rows);
}

#[cfg(test)]
mod tests;
