//! `topoloom explain NODE`: where a node is placed, by what, or why it is not.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use topoloom_core::topology::{About, Object};

use super::live::{Live, heading, outcome};
use super::{ClusterArgs, print};
use crate::discovery::oneshot::{Found, Shot};

/// Flags of `explain`.
#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The node
    node: String,
    /// Only this source
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
}

/// Explains one node under every source.
pub(super) async fn run(args: ExplainArgs) -> anyhow::Result<ExitCode> {
    let mut live = Live::look(&args.cluster).await?;
    let shots = live.rounds(args.source.as_deref()).await?;
    let exists = live.store.view(&[]).find(&args.node).is_some();
    let mut text = String::new();
    if !exists {
        let _ = writeln!(text, "there is no Node {:?} in the cluster", args.node);
    }
    for shot in &shots {
        let _ = writeln!(text, "{}", heading(&shot.source, shot));
        read(&mut text, &live, shot, &args.node);
        match &shot.result {
            Err(message) => {
                let _ = writeln!(text, "  no result: {message}");
            }
            Ok(found) => placed(&mut text, found, &args.node),
        }
        in_force(&mut text, &live.objects(), &shot.source, &args.node);
    }
    if shots.is_empty() {
        text.push_str("no entry of the configuration is enabled\n");
    }
    print::out(&text);
    let code = outcome(&shots);
    Ok(if exists { code } else { ExitCode::FAILURE })
}

/// What the plugin could read of the node.
fn read(text: &mut String, live: &Live, shot: &Shot, node: &str) {
    let Some(revision) = &shot.revision else { return };
    let view = live.store.view(&revision.keys);
    let Some(row) = view.find(node) else { return };
    let _ = writeln!(text, "  read:");
    for key in &revision.keys {
        let value = view.value(row, key).map_or_else(|| "(absent)".to_owned(), |value| format!("{value:?}"));
        let _ = writeln!(text, "    {key} = {value}");
    }
}

/// Where the result puts the node, from the inside out, and what the plugin remarked about it.
fn placed(text: &mut String, found: &Found, node: &str) {
    let domains = found.decision.forest.domains();
    let mut parents: BTreeMap<usize, usize> = BTreeMap::new();
    for (index, domain) in domains.iter().enumerate() {
        parents.extend(domain.children.iter().map(|child| (*child, index)));
    }
    let names: BTreeMap<&str, &Arc<str>> = found
        .decision
        .named
        .objects
        .iter()
        .filter_map(|(name, object)| Some((object.group_id.as_deref()?, name)))
        .collect();
    let mut any = false;
    for (index, domain) in domains.iter().enumerate() {
        if domain.nodes.binary_search_by(|name| (**name).cmp(node)).is_err() {
            continue;
        }
        any = true;
        let _ = writeln!(text, "  placed:");
        let mut next = Some(index);
        while let Some(domain) = next.and_then(|index| domains.get(index)) {
            let labels: Vec<String> = domain.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let name = names.get(&*domain.id).map_or("(not named)", |name| name);
            let tier_name = domain.tier_name.as_deref().map_or(String::new(), |name| format!(" ({name})"));
            let _ = writeln!(text, "    tier {}{tier_name}  {name}  {}", domain.tier.get(), labels.join(","));
            next = next.and_then(|index| parents.get(&index).copied());
        }
    }
    if !any {
        let _ = writeln!(text, "  not placed");
    }
    for finding in found.decision.forest.findings() {
        if matches!(&finding.subject, About::Nodes(nodes) if nodes.iter().any(|name| **name == *node)) {
            let _ = writeln!(text, "  because ({}): {}", finding.code, finding.detail);
        }
    }
}

/// Which stored objects of the source list the node.
fn in_force(text: &mut String, objects: &[Arc<Object>], source: &Arc<str>, node: &str) {
    let listing: Vec<&str> = objects
        .iter()
        .filter(|object| object.source.as_ref() == Some(source))
        .filter(|object| object.spec.exact_nodes().any(|name| **name == *node))
        .map(|object| &*object.name)
        .collect();
    let what = if listing.is_empty() { "in no HyperNode".to_owned() } else { listing.join(", ") };
    let _ = writeln!(text, "  in force: {what}");
}
