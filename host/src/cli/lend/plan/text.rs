//! The plans for people.
//!
//! Owns what a person sees first: what is held, how many nodes have which fate, the nodes that change, the pods that go. Nodes to which the
//! same happens later are one line.

use std::collections::{BTreeMap, BTreeSet};

use topoloom_sync::resources::{CPU, MEMORY};

use super::document::{BindingPlan, LendPlans, NodeFate, NodePlan, PlanTime, Step};
use crate::cli::lend::amounts::{Amounts, columns, in_words, shown, title};
use crate::cli::lend::parts::{NodeShape, Rows, count, lines, section, short};
use crate::cli::print;

/// How many nodes of a group are named.
const NAMED: usize = 5;

/// All plans.
pub(super) fn text(plans: &LendPlans, rows: Rows) -> String {
    let mut text = String::new();
    for (index, plan) in plans.bindings.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        binding(&mut text, plan, rows);
    }
    if plans.bindings.is_empty() {
        text.push_str("there are no ClusterBindings\n");
    }
    text
}

fn binding(text: &mut String, plan: &BindingPlan, rows: Rows) {
    if let Some(error) = &plan.error {
        push_line!(text, "binding {}: no plan: {error}", plan.binding);
        return;
    }
    let (nodes, pods) = (count(plan.virtual_nodes, "node"), count(plan.running_pods, "running pod"));
    let stored = if plan.stored { "" } else { "; it is not stored yet, and is planned as if it were created now" };
    push_line!(text, "binding {}: {nodes} with {pods}{stored}", plan.binding);
    for bar in &plan.waits_for {
        push_line!(text, "  planned as if this was over: {}", bar.sentence);
    }
    for bar in &plan.bars {
        push_line!(text, "  less is written: {}", bar.sentence);
    }
    for why in plan.why.iter().chain(&plan.remarks) {
        push_line!(text, "  {why}");
    }
    for (index, time) in plan.times.iter().enumerate() {
        let steps = steps_at(plan, time);
        push_line!(text, "\n  {}", heading(plan, time, &steps, index));
        if let Some(held) = &time.held {
            push_line!(text, "  {}", held.shown());
        }
        if index == 0 {
            table(text, plan, rows);
        } else {
            groups(text, &steps, rows);
        }
        leaving(text, &steps, rows);
        if index == 0 {
            later(text, plan, rows);
        }
    }
}

/// What is written at one time.
fn steps_at<'a>(plan: &'a BindingPlan, time: &PlanTime) -> Vec<(&'a NodePlan, &'a Step)> {
    let all = plan.nodes.iter().flat_map(|node| node.steps.iter().map(move |step| (node, step)));
    all.filter(|(_, step)| step.at == time.time).collect()
}

fn heading(plan: &BindingPlan, time: &PlanTime, steps: &[(&NodePlan, &Step)], index: usize) -> String {
    let nothing = if steps.is_empty() { "; nothing is written" } else { "" };
    if index == 0 {
        let counted = plan.counts.iter().map(|count| {
            let held = if count.held == 0 { String::new() } else { format!(" ({} held)", count.held) };
            format!("{} {}{held}", count.nodes, count.fate.word())
        });
        let counts: Vec<String> = counted.collect();
        let counts = if counts.is_empty() { "no nodes".to_owned() } else { counts.join(", ") };
        return format!("now, at {}: {counts}{nothing}", time.time.at());
    }
    let turns = time.opens.iter().map(|policy| format!("{policy} opens"));
    let turns: Vec<String> = turns.chain(time.closes.iter().map(|policy| format!("{policy} closes"))).collect();
    let turns = if turns.is_empty() { String::new() } else { format!(": {}", turns.join(", ")) };
    format!("at {}{turns}{nothing}", time.time.shown())
}

/// The nodes that change now; with all rows, every node.
fn table(text: &mut String, plan: &BindingPlan, rows: Rows) {
    let is_shown = |node: &&NodePlan| rows == Rows::All || node.fate.is_news() || node.held;
    let mut nodes: Vec<&NodePlan> = plan.nodes.iter().filter(is_shown).collect();
    if nodes.is_empty() {
        return;
    }
    nodes.sort_by_key(|node| (!node.held, node.fate));
    let resources = resources(&nodes);
    let titles: Vec<String> = resources.iter().map(|resource| title(resource)).collect();
    let mut head = vec!["NODE", "WHAT", "POLICY"];
    head.extend(titles.iter().map(String::as_str));
    head.extend(["TAINTS", "WHY"]);
    let row = |node: &&NodePlan| {
        let held = if node.held { ", held" } else { "" };
        let policy = node.policy.clone().unwrap_or_else(none);
        let mut cells = vec![node.node.clone(), format!("{}{held}", node.fate.word()), policy];
        cells.extend(resources.iter().map(|resource| size(node, resource)));
        cells.push(node.after.as_ref().map_or_else(none, |after| taints(node.before.as_ref(), after)));
        cells.push(why(node));
        cells
    };
    section(text, &head, nodes.iter().map(row).collect(), rows);
}

/// Processors and memory, and of all others those that change or of which there is something that has to be asked for.
fn resources<'a>(nodes: &[&'a NodePlan]) -> Vec<&'a str> {
    let sizes = |node: &&'a NodePlan| {
        let (before, after) = (node.before.as_ref(), node.after.as_ref());
        before.into_iter().chain(after).map(|shape| &shape.size)
    };
    let matters = |resource: &&str| {
        let is_changed = |node: &&NodePlan| match (&node.before, &node.after) {
            (Some(before), Some(after)) => before.size.get(*resource) != after.size.get(*resource),
            (None, _) | (_, None) => false,
        };
        let is_some = |size: &Amounts| size.get(*resource).is_some_and(|amount| amount != "0");
        let is_asked_for = resource.contains('/') && nodes.iter().flat_map(sizes).any(is_some);
        matches!(*resource, CPU | MEMORY) || is_asked_for || nodes.iter().any(is_changed)
    };
    columns(nodes.iter().flat_map(sizes)).into_iter().filter(matters).collect()
}

/// One resource of a node, before and after.
fn size(node: &NodePlan, resource: &str) -> String {
    let of = |shape: &Option<NodeShape>| shape.as_ref().map(|shape| shape.size.get(resource).cloned());
    match (of(&node.before), of(&node.after)) {
        (None, None) => none(),
        (Some(before), None) => change(resource, before.as_deref(), None),
        (None, Some(after)) => after.map_or_else(none, |after| shown(resource, &after)),
        (Some(before), Some(after)) => change(resource, before.as_deref(), after.as_deref()),
    }
}

/// `26500m -> 18550m`. What looks the same although it is not is shown to the last byte.
fn change(resource: &str, before: Option<&str>, after: Option<&str>) -> String {
    let readable = |text: Option<&str>| text.map_or_else(none, |text| shown(resource, text));
    match (readable(before), readable(after)) {
        (same, _) if before == after => same,
        (was, is) if was == is => {
            format!("{} -> {}", before.unwrap_or_default(), after.unwrap_or_default())
        }
        (was, is) => format!("{was} -> {is}"),
    }
}

/// What becomes of taints and cordon: `+vnode:NoSchedule`.
fn taints(before: Option<&NodeShape>, after: &NodeShape) -> String {
    let set = |shape: Option<&'_ NodeShape>| -> BTreeSet<String> {
        let taints = shape.into_iter().flat_map(|shape| &shape.taints).map(|taint| short(taint).to_owned());
        let cordon = shape.is_some_and(|shape| shape.cordoned).then(|| "cordon".to_owned());
        taints.chain(cordon).collect()
    };
    let (was, is) = (set(before), set(Some(after)));
    let added = is.difference(&was).map(|taint| format!("+{taint}"));
    let changes: Vec<String> = added.chain(was.difference(&is).map(|taint| format!("-{taint}"))).collect();
    if changes.is_empty() { none() } else { changes.join(" ") }
}

/// That a node is lent says nothing that its row does not say.
fn why(node: &NodePlan) -> String {
    match node.fate {
        NodeFate::Created | NodeFate::Resized | NodeFate::Changed | NodeFate::Unchanged => none(),
        NodeFate::TakenAway | NodeFate::Frozen | NodeFate::OfAnother | NodeFate::Barred | NodeFate::NotLent => {
            topoloom_core::text::line(&node.why, 160)
        }
    }
}

/// What happens to nodes at a later time, the same to several of them in one line.
fn groups(text: &mut String, steps: &[(&NodePlan, &Step)], rows: Rows) {
    let mut groups: BTreeMap<(bool, String), Vec<&str>> = BTreeMap::new();
    for (node, step) in steps {
        groups.entry((step.after_pods_ended, happens(step))).or_default().push(&node.node);
    }
    let line = |((after_pods, what), nodes): ((bool, String), Vec<&str>)| {
        let when = if after_pods { ", when their pods have ended" } else { "" };
        let more = nodes.len().saturating_sub(NAMED);
        let named = nodes.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        format!("{}{when}: {what}: {named}{more}", count(nodes.len(), "node"))
    };
    lines(text, groups.into_iter().map(line).collect(), rows);
}

/// What one step does to a virtual node.
fn happens(step: &Step) -> String {
    match (&step.before, &step.after) {
        (None, Some(after)) => format!("created with {}", in_words(&after.size)),
        (Some(_), None) => "deleted".to_owned(),
        (Some(before), Some(after)) => {
            let changed = |resource: &&str| before.size.get(*resource) != after.size.get(*resource);
            let sizes = columns([&before.size, &after.size]).into_iter().filter(changed).map(|resource| {
                let of = |size: &'_ Amounts| size.get(resource).cloned();
                let (was, is) = (of(&before.size), of(&after.size));
                format!("{resource} {}", change(resource, was.as_deref(), is.as_deref()))
            });
            let taints = Some(taints(Some(before), after)).filter(|taints| taints != "-");
            let changes: Vec<String> = sizes.chain(taints).collect();
            if changes.is_empty() { written(step) } else { changes.join(", ") }
        }
        (None, None) => written(step),
    }
}

/// What is written without a change that is shown.
fn written(step: &Step) -> String {
    let kinds: BTreeSet<&str> = step.writes.iter().map(|write| write.kind).collect();
    kinds.into_iter().collect::<Vec<_>>().join(", ")
}

fn leaving(text: &mut String, steps: &[(&NodePlan, &Step)], rows: Rows) {
    let pods = steps.iter().flat_map(|(node, step)| step.pods.iter().map(move |pod| (node, pod)));
    let pods = pods.map(|(node, pod)| {
        let on = node.virtual_node.as_deref().unwrap_or(&node.node);
        format!("{}/{} on {on}, {}", pod.namespace, pod.name, pod.by.word())
    });
    let pods: Vec<String> = pods.collect();
    if !pods.is_empty() {
        push_line!(
            text,
            "  {}:",
            if pods.len() == 1 { "1 pod goes".to_owned() } else { format!("{} pods go", pods.len()) }
        );
        lines(text, pods, rows);
    }
}

/// Sizes that are not written yet.
fn later(text: &mut String, plan: &BindingPlan, rows: Rows) {
    let waiting = plan.nodes.iter().filter_map(|node| Some((node, node.later.as_ref()?)));
    let waiting = waiting.map(|(node, later)| {
        let after = later.in_seconds.map(|seconds| format!(" in {}", print::span(seconds))).unwrap_or_default();
        let empty = NodeShape::default();
        let now = node.after.as_ref().unwrap_or(&empty);
        let differs = |(resource, amount): &(&String, &String)| now.size.get(*resource) != Some(*amount);
        let size = later.size.iter().filter(differs).map(|(resource, amount)| (resource.clone(), amount.clone()));
        format!("{}{after}: {}; {}", node.node, in_words(&size.collect()), later.why)
    });
    let waiting: Vec<String> = waiting.collect();
    if !waiting.is_empty() {
        push_line!(text, "  not yet:");
        lines(text, waiting, rows);
    }
}

fn none() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests;
