//! `topoloom discover`: the pipeline over files, without a cluster.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use topoloom_core::names::SourceName;

use super::desk::{self, DeskArgs};
use super::tree::{Leaf, forest_text};
use super::{live, print};
use crate::discovery::oneshot::Shot;
use crate::topology::convert::{self, WantedObject};

/// Flags of `discover`.
#[derive(Debug, Args)]
pub(super) struct DiscoverArgs {
    /// The configuration: the document of the ConfigMap, or the ConfigMap itself
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// What `kubectl get nodes -o json` (or -o yaml) prints; - reads standard input
    #[arg(long, value_name = "FILE|-")]
    nodes: PathBuf,
    #[command(flatten)]
    desk: DeskArgs,
    /// Only this source
    #[arg(long, value_name = "NAME")]
    source: Option<SourceName>,
    /// The output: a tree for people, objects for kubectl apply, or one list
    #[arg(short, long, value_enum, default_value_t = Output::Tree)]
    output: Output,
    /// With -o tree: list the nodes of every group
    #[arg(long)]
    show_nodes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Tree,
    Yaml,
    Json,
}

/// Runs one round of every enabled entry over the file.
pub(super) async fn run(args: DiscoverArgs) -> anyhow::Result<ExitCode> {
    let desk = desk::rounds(&args.desk, &args.nodes, &args.config, args.source.as_ref()).await?;
    let shots = &desk.shots;
    match args.output {
        Output::Tree => print::out(&tree(shots, args.show_nodes)),
        Output::Yaml => {
            let mut text = String::new();
            for object in objects(shots) {
                text.push_str("---\n");
                text.push_str(&topoloom_api::crd::to_yaml(&object)?);
            }
            print::out(&text);
        }
        Output::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": objects(shots)});
            print::out(&format!("{}\n", serde_json::to_string_pretty(&list)?));
        }
    }
    Ok(if desk.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The objects of all results, children before parents: the order in which they can be applied.
fn objects(shots: &[Shot]) -> Vec<Value> {
    let found = shots.iter().filter_map(|shot| Some((shot.entry.source()?, shot.result.as_ref().ok()?)));
    let mut objects: Vec<(u32, Value)> = found
        .flat_map(|(source, found)| {
            found.decision.named.objects.iter().map(move |(name, object)| {
                let wanted = WantedObject {
                    name,
                    source,
                    group_id: object.group_id.as_deref(),
                    split_from: object.split_from.as_deref(),
                    description: object.description.as_deref(),
                    labels: &object.labels,
                    spec: &object.spec,
                };
                (object.spec.tier, convert::apply_body(wanted, None))
            })
        })
        .collect();
    objects.sort_by_key(|(tier, _)| *tier);
    objects.into_iter().map(|(_, object)| object).collect()
}

fn tree(shots: &[Shot], nodes: bool) -> String {
    let mut text = String::new();
    for shot in shots {
        let Ok(found) = &shot.result else { continue };
        push_line!(text, "{}\n{}", live::heading(shot), live::coverage(found));
        text.push_str(&forest_text(&Leaf::of_named(&found.decision.named), nodes));
        text.push_str(&live::diagnostics(found));
        text.push('\n');
    }
    text
}
