//! Explanations for people.

use super::document::{
    LendExplanation, NodeExplained, OnePod, PodExplained, ResourceExplained, SizeExplained, TaintExplained,
};
use crate::cli::lend::amounts::{columns, in_words, rank, shown, shown_of, title};
use crate::cli::lend::parts::{Rows, count, section, short};

/// Longest text of another client that is repeated.
const SHOWN: usize = 600;
/// Where the numbered rows are that the state of a pod names.
const ROWS: &str = "rows are those of the table in docs/top-down-contract.md, \"A broken contract\"";

/// Why pods that run on the machine may use nothing of it here.
const NOTHING_COUNTS: &str =
    " of which nothing counts: the virtual scheduler counts what is lent, and what has ended uses nothing";

/// Everything that was found.
pub(super) fn text(explanation: &LendExplanation) -> String {
    let mut text = String::new();
    for (index, explained) in explanation.nodes.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        node(&mut text, explained);
    }
    if let Some(explained) = &explanation.pod {
        pod(&mut text, explained);
    }
    if !explanation.remarks.is_empty() {
        text.push_str("\nREMARKS\n");
        for remark in &explanation.remarks {
            push_line!(text, "{remark}");
        }
    }
    text
}

fn node(text: &mut String, node: &NodeExplained) {
    let lent = match (&node.virtual_node, node.lent) {
        (Some(name), true) => format!(", virtual node {name}"),
        (Some(name), false) => format!(", without its virtual node {name}"),
        (None, _) => String::new(),
    };
    push_line!(text, "node {}{lent}, binding {}", node.node, node.binding);
    let bars = node.bars.iter().map(|bar| format!("less is written: {}", bar.sentence));
    let mut facts = vec![("state", node.state.clone())];
    facts.extend(bars.chain(node.why.iter().cloned()).map(|why| ("", why)));
    facts.push(("policy", node.policies.in_force.clone()));
    facts.push(("shadows", node.policies.shadowed.join(", ")));
    facts.extend(node.policies.invalid.iter().map(|invalid| ("invalid", invalid.clone())));
    facts.extend(node.windows.as_ref().map(|windows| ("windows", windows.shown())));
    facts.extend(node.next.as_ref().map(|next| ("next", next.shown())));
    facts.extend(node.lease.as_ref().map(|lease| {
        let renewed = lease.renewed.as_ref().map(|at| format!("; last at {}", at.shown())).unwrap_or_default();
        ("lease", format!("{}{renewed}", lease.sentence))
    }));
    facts.extend(node.last_write.as_ref().map(|at| ("written", at.shown())));
    pairs(text, &facts);
    if let Some(size) = &node.size {
        sizes(text, size);
    }
    taints(text, "TAINTS", &node.taints, "; it is not there yet");
    taints(text, "TAINTS OF THE PHYSICAL NODE THAT ARE NOT COPIED", &node.left_out, "");
    sentences(text, "LABELS AND ANNOTATIONS OF THE PHYSICAL NODE THAT ARE NOT COPIED", &node.not_copied);
    sentences(text, "PODS OUTSIDE OF THE WINDOWS", &node.reclaim);
    sentences(text, "CHANGED BY OTHER CLIENTS", &node.notes);
    sentences(text, "WHAT FOLLOWS NOW, IF THE GUARD ALLOWS IT", &node.follows);
}

/// Names and values in two columns. What has no value is left out.
fn pairs(text: &mut String, facts: &[(&str, String)]) {
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        push_line!(text, "  {name:<9} {}", topoloom_core::text::line(value, SHOWN));
    }
}

fn sizes(text: &mut String, size: &SizeExplained) {
    push_line!(text, "\n  SIZE, FROM {}", size.base);
    let row = |resource: &ResourceExplained| {
        let name = &resource.resource;
        let [base, used, left, lends] =
            [&resource.base, &resource.used, &resource.left, &resource.lends].map(|text| shown(name, text));
        let shows = resource.shows.as_ref().map_or_else(|| "-".to_owned(), |text| shown(name, text));
        let decides = resource.limits.iter().find(|limit| limit.decides);
        let decides = decides.map_or_else(|| "what is left".to_owned(), |limit| limit.sentence.clone());
        vec![name.clone(), base, used, left, lends, shows, decides]
    };
    let head = ["RESOURCE", "BASE", "USED", "LEFT", "LENDS", "SHOWS", "DECIDED BY"];
    let mut resources: Vec<&ResourceExplained> = size.resources.iter().collect();
    resources.sort_by_key(|resource| rank(&resource.resource));
    section(text, &head, resources.iter().copied().map(row).collect(), Rows::All);
    let others = resources.iter().flat_map(|resource| {
        let others = resource.limits.iter().filter(|limit| !limit.decides).map(|limit| limit.sentence.clone());
        others.chain(resource.rounded.clone()).map(|sentence| format!("{}: {sentence}", resource.resource))
    });
    let others: Vec<String> = others.chain(size.skipped.iter().cloned()).collect();
    sentences(text, "OTHER LIMITS", &others);
    let waits = size.waits.iter().chain(&size.overcommitted).cloned().collect::<Vec<_>>();
    sentences(text, "SIZE AND REQUESTS", &waits);
    used(text, size);
}

fn used(text: &mut String, size: &SizeExplained) {
    let other = &size.other_pods;
    if size.pods.is_empty() && other.without_use == 0 {
        return;
    }
    push_line!(text, "\n  USED BY");
    let named = columns(size.pods.iter().map(|pod| &pod.uses));
    let titles: Vec<String> = named.iter().map(|resource| title(resource)).collect();
    let mut head = vec!["POD"];
    head.extend(titles.iter().map(String::as_str));
    head.push("WHY");
    let rows = size.pods.iter().map(|pod| {
        let name = if pod.namespace.is_empty() { pod.name.clone() } else { format!("{}/{}", pod.namespace, pod.name) };
        let mut cells = vec![name];
        cells.extend(named.iter().map(|resource| shown_of(&pod.uses, resource)));
        cells.push(pod.counts.clone());
        cells
    });
    if !size.pods.is_empty() {
        section(text, &head, rows.collect(), Rows::All);
    }
    if other.pods > 0 {
        let more = count(other.pods, "more pod");
        push_line!(text, "    and {more} with {}; --top shows more of them", in_words(&other.uses));
    }
    if other.without_use > 0 {
        push_line!(text, "    and {}{NOTHING_COUNTS}", count(other.without_use, "pod"));
    }
}

/// Taints with their reasons. What is not on the virtual node has `missing` behind its reason.
fn taints(text: &mut String, title: &str, taints: &[TaintExplained], missing: &str) {
    if taints.is_empty() {
        return;
    }
    push_line!(text, "\n  {title}");
    let row = |taint: &TaintExplained| {
        let missing = if taint.there { "" } else { missing };
        vec![short(&taint.taint).to_owned(), format!("{}{missing}", taint.reason)]
    };
    section(text, &["TAINT", "WHY"], taints.iter().map(row).collect(), Rows::All);
}

fn sentences(text: &mut String, title: &str, sentences: &[String]) {
    if sentences.is_empty() {
        return;
    }
    push_line!(text, "\n  {title}");
    for sentence in sentences {
        push_line!(text, "    {}", topoloom_core::text::line(sentence, SHOWN));
    }
}

fn pod(text: &mut String, pod: &PodExplained) {
    let side = |side: &Option<OnePod>| side.as_ref().map_or_else(|| "there is none".to_owned(), one);
    let binding = pod.binding.as_ref().map(|binding| format!(", binding {binding}")).unwrap_or_default();
    let subject = pod.lent.as_ref().or(pod.physical.as_ref());
    let subject = subject.map(|pod| format!("{}/{}", pod.namespace, pod.name)).unwrap_or_default();
    push_line!(text, "pod {subject}{binding}");
    let physical =
        if pod.unread { "not known: the physical cluster was not read".to_owned() } else { side(&pod.physical) };
    let mut facts = vec![("virtual", side(&pod.lent)), ("physical", physical), ("state", pod.state.clone())];
    if pod.state.starts_with("row ") {
        facts.push(("", ROWS.to_owned()));
    }
    facts.extend(pod.last_write.as_ref().map(|at| ("written", at.shown())));
    pairs(text, &facts);
}

fn one(pod: &OnePod) -> String {
    let OnePod { namespace, name, uid, node, phase, terminating } = pod;
    let node = node.as_ref().map_or_else(|| "bound to no node".to_owned(), |node| format!("on node {node}"));
    let terminating = if *terminating { ", being deleted" } else { "" };
    format!("{namespace}/{name} (UID {uid}), {node}, {phase}{terminating}")
}

#[cfg(test)]
mod tests;
