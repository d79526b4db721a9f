//! `topoloom tree`: what is in force, as a tree.

pub(super) mod document;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use topoloom_api::condition::Condition;
use topoloom_api::discovery_source::DiscoverySourceStatus;
use topoloom_core::names::SourceName;
use topoloom_core::status::StatusIndex;
use topoloom_core::topology::{Desired, Named, Object, Spec};

use super::ClusterArgs;
use super::live::{Live, coverage, diagnostics, outcome};
use super::output::OutputArgs;
use crate::discovery::oneshot::EntryName;
use document::{Complaint, Stored, Tree, Trees};

/// How many nodes of a group are named without --show-nodes.
const SHOWN: usize = 4;
/// Bytes of what people call a group.
const SAID: usize = 120;

/// Flags of `tree`.
#[derive(Debug, Args)]
pub(super) struct TreeArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Only this source
    #[arg(long, value_name = "NAME")]
    source: Option<SourceName>,
    /// List the nodes of every group
    #[arg(long)]
    show_nodes: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// One object of a tree.
pub(super) struct Leaf {
    pub(super) name: Arc<str>,
    pub(super) spec: Spec,
    pub(super) labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Its name for people.
    pub(super) description: Option<Arc<str>>,
    /// Nodes below, as stored; counted from the members where that is not known.
    pub(super) count: Option<i64>,
    pub(super) note: String,
}

impl Leaf {
    /// The objects that follow from a result.
    pub(super) fn of_named(named: &Named) -> Vec<Self> {
        let leaf = |(name, object): (&Arc<str>, &Desired)| Self {
            name: Arc::clone(name),
            spec: object.spec.clone(),
            labels: object.labels.clone(),
            description: object.description.clone(),
            count: None,
            note: String::new(),
        };
        named.objects.iter().map(leaf).collect()
    }
}

/// Prints the stored topology, what sources complain about, how much a round now places, and what differs from it.
pub(super) async fn run(args: TreeArgs) -> anyhow::Result<ExitCode> {
    let mut live = Live::look(&args.cluster).await?;
    let shots = match args.source.as_ref() {
        // What a source that is off has left behind is shown too.
        Some(off) if !live.enables(off) => Vec::new(),
        only => live.rounds(only).await?,
    };
    let mut index = StatusIndex::new();
    let objects = live.objects();
    objects.iter().for_each(|object| index.put(object));
    let keys: Vec<_> = index.keys_used().cloned().collect();
    if !keys.is_empty() {
        live.nodes(&keys).await?;
    }
    live.changes.iter().for_each(|change| index.nodes(change));
    index.settle(&live.store.view(&keys));
    let named = |object: &Arc<Object>| object.source.clone().map(EntryName::Source);
    let mut sources: BTreeSet<Option<EntryName>> = objects.iter().map(named).collect();
    sources.extend(shots.iter().map(|shot| Some(shot.entry.clone())));
    let (mut text, mut trees) = (String::new(), Trees::default());
    for entry in &sources {
        let source = entry.as_ref().and_then(EntryName::source);
        if args.source.is_some() && source != args.source.as_ref() {
            continue;
        }
        let of_source: Vec<(&Object, Option<i64>)> = objects
            .iter()
            .zip(&live.hyper_nodes)
            .filter(|(object, _)| entry.as_ref().map_or(object.source.is_none(), |entry| entry.owns(object)))
            .map(|(object, stored)| (&**object, stored.status.as_ref().and_then(|status| status.node_count)))
            .collect();
        let title = entry.as_ref().map_or("made by hand".to_owned(), ToString::to_string);
        let status = live
            .sources
            .iter()
            .map(|object| &object.status)
            .find(|status| Some(status.source.as_str()) == source.map(|source| &**source));
        let state =
            status.and_then(|status| status.state).map_or(String::new(), |state| format!("  {}", state.as_str()));
        push_line!(text, "{title}{state}  {} HyperNodes", of_source.len());
        let leaves: Vec<Leaf> = of_source.iter().map(|(object, count)| leaf(object, *count, &index)).collect();
        text.push_str(&forest_text(&leaves, args.show_nodes));
        let stored = of_source.iter().map(|(object, count)| Stored::of(object, *count, &index));
        let mut tree = Tree::new(entry.as_ref(), stored.collect());
        if let Some(status) = status {
            tree.state = status.state.map(|state| state.as_str());
            tree.complaints = complaints(status).map(Complaint::from).collect();
            for condition in complaints(status) {
                push_line!(text, "  ! {} ({}): {}", condition.type_, condition.reason, condition.message);
            }
        }
        let shot = shots.iter().find(|shot| Some(&shot.entry) == entry.as_ref());
        shot.into_iter().for_each(|shot| tree.now(shot));
        trees.sources.push(tree);
        match shot.map(|shot| &shot.result) {
            Some(Ok(found)) => {
                push_line!(text, "  {}", coverage(found));
                text.push_str(&diagnostics(found));
                let steps = found.decision.plan.steps.len();
                if steps > 0 {
                    push_line!(
                        text,
                        "  drift: a round now would make {steps} writes (`topoloom plan --source {title}`)"
                    );
                }
            }
            Some(Err(message)) => {
                push_line!(text, "  ! {message}");
            }
            None => {}
        }
        text.push('\n');
    }
    if let (true, Some(source)) = (text.is_empty(), &args.source) {
        anyhow::bail!("source {source:?} has no HyperNodes, and no enabled entry of the configuration");
    } else if text.is_empty() {
        text.push_str("there are no HyperNodes, and no entry of the configuration is enabled\n");
    }
    args.output.print(&trees, |_| text)?;
    Ok(outcome(&shots))
}

/// Conditions that need attention.
fn complaints(status: &DiscoverySourceStatus) -> impl Iterator<Item = &Condition> {
    status.conditions.iter().filter(|condition| {
        let good = matches!(condition.type_.as_str(), "Configured" | "Loaded" | "Discovered" | "Applied");
        (condition.status == "True") != good
    })
}

fn leaf(object: &Object, count: Option<i64>, index: &StatusIndex) -> Leaf {
    let real = index.get(&object.name).map(|count| count.nodes);
    let note = match (real, count) {
        (Some(real), Some(stored)) if i64::try_from(real) != Ok(stored) => {
            format!("status says {stored}, there are {real}")
        }
        _ => String::new(),
    };
    Leaf {
        name: Arc::clone(&object.name),
        spec: object.spec.clone(),
        labels: object.labels.clone(),
        description: object.description.clone(),
        count: real.and_then(|real| i64::try_from(real).ok()).or(count),
        note,
    }
}

/// A forest as text, roots first, highest tier first. Every object is drawn out once: stored objects may have two
/// parents or form a cycle.
pub(super) fn forest_text(leaves: &[Leaf], nodes: bool) -> String {
    let all: BTreeMap<&str, &Leaf> = leaves.iter().map(|leaf| (&*leaf.name, leaf)).collect();
    let children: BTreeSet<&str> = leaves.iter().flat_map(|leaf| leaf.spec.children()).map(|name| &**name).collect();
    let mut order: Vec<&Leaf> = leaves.iter().collect();
    order.sort_by(|a, b| b.spec.tier.cmp(&a.spec.tier).then_with(|| title(a).cmp(&title(b))));
    let mut drawing = Drawing { all, nodes, drawn: BTreeSet::new(), text: String::new() };
    for root in order.iter().filter(|leaf| !children.contains(&*leaf.name)) {
        drawing.draw(root, "", "", "");
    }
    for leaf in order {
        // Reached from no root: it is its own ancestor, or below one that is.
        if !drawing.drawn.contains(&*leaf.name) {
            drawing.draw(leaf, "", "", "in a cycle");
        }
    }
    drawing.text
}

fn title(leaf: &Leaf) -> String {
    if let (true, Some(description)) = (leaf.labels.is_empty(), &leaf.description) {
        return topoloom_core::text::line(description, SAID);
    }
    let labels: Vec<String> = leaf.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    labels.join(",")
}

struct Drawing<'a> {
    all: BTreeMap<&'a str, &'a Leaf>,
    /// Whether all nodes of a group are listed.
    nodes: bool,
    drawn: BTreeSet<&'a str>,
    text: String,
}

impl<'a> Drawing<'a> {
    /// Draws an object and what is below it. `first` begins its own line, `rest` all others.
    fn draw(&mut self, leaf: &'a Leaf, first: &str, rest: &str, odd: &str) {
        let again = !self.drawn.insert(&leaf.name);
        let below = leaf.count.unwrap_or_else(|| i64::try_from(self.count(leaf)).unwrap_or(i64::MAX));
        let notes = [leaf.note.as_str(), odd, if again { "again, see above" } else { "" }];
        let notes: Vec<&str> = notes.into_iter().filter(|note| !note.is_empty()).collect();
        let note = if notes.is_empty() { String::new() } else { format!("  ({})", notes.join("; ")) };
        push_line!(
            self.text,
            "{first}tier {}  {}  {}  {below} node{}{note}",
            leaf.spec.tier,
            leaf.name,
            title(leaf),
            if below == 1 { "" } else { "s" },
        );
        if again {
            return;
        }
        let mut children: Vec<&'a Leaf> =
            leaf.spec.children().filter_map(|name| self.all.get(&**name).copied()).collect();
        children.sort_by_key(|child| title(child));
        self.draw_nodes(leaf, &format!("{rest}{}", if children.is_empty() { "   " } else { "│  " }));
        let last = children.len().saturating_sub(1);
        for (index, child) in children.into_iter().enumerate() {
            let (turn, bar) = if index == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.draw(child, &format!("{rest}{turn}"), &format!("{rest}{bar}"), "");
        }
    }

    fn draw_nodes(&mut self, leaf: &Leaf, before: &str) {
        let members: Vec<&str> = leaf.spec.exact_nodes().map(|name| &**name).collect();
        if members.is_empty() {
            return;
        }
        let shown = if self.nodes { members.len() } else { SHOWN };
        let more = members.len().saturating_sub(shown);
        let tail = if more == 0 { String::new() } else { format!(" and {more} more") };
        let names: Vec<&str> = members.into_iter().take(shown).collect();
        push_line!(self.text, "{before}{}{tail}", names.join(" "));
    }

    /// Nodes that are named below an object.
    fn count(&self, leaf: &'a Leaf) -> usize {
        let (mut nodes, mut seen, mut open) = (BTreeSet::new(), BTreeSet::new(), vec![leaf]);
        while let Some(leaf) = open.pop() {
            if seen.insert(&*leaf.name) {
                nodes.extend(leaf.spec.exact_nodes().map(|name| &**name));
                open.extend(leaf.spec.children().filter_map(|name| self.all.get(&**name)));
            }
        }
        nodes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topoloom_core::topology::Member;

    fn leaf(name: &str, tier: u32, label: (&str, &str), members: Vec<Member>) -> Leaf {
        Leaf {
            name: name.into(),
            spec: Spec { tier, tier_name: None, members },
            labels: BTreeMap::from([(label.0.into(), label.1.into())]),
            description: None,
            count: None,
            note: String::new(),
        }
    }

    #[test]
    fn a_tree_is_drawn_with_counts_and_a_cycle_ends() {
        let leaves = [
            leaf("s", 2, ("spine", "1"), vec![Member::hyper_node("a".into()), Member::hyper_node("b".into())]),
            leaf("a", 1, ("rack", "7"), vec![Member::node("m1".into()), Member::node("m2".into())]),
            leaf("b", 1, ("rack", "8"), vec![Member::node("m3".into())]),
            leaf("x", 1, ("odd", "1"), vec![Member::hyper_node("y".into())]),
            leaf("y", 2, ("odd", "2"), vec![Member::hyper_node("x".into())]),
        ];
        let text = forest_text(&leaves, false);
        let wanted = "tier 2  s  spine=1  3 nodes\n├─ tier 1  a  rack=7  2 nodes\n│     m1 m2\n└─ tier 1  b  rack=8  1 node\n      m3\n\
            tier 2  y  odd=2  0 nodes  (in a cycle)\n└─ tier 1  x  odd=1  0 nodes\n   └─ tier 2  y  odd=2  0 nodes  (again, see above)\n";
        assert_eq!(text, wanted);
    }
}
