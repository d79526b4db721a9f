//! `topoloom discover`: the pipeline over files, without a cluster.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::{Value, json};
use topoloom_api::HyperNode;
use topoloom_api::hyper_node::KIND;
use topoloom_core::snapshot::{NodeMeta, Store};
use topoloom_core::topology::Object;

use super::tree::{Leaf, forest_text};
use super::{live, print};
use crate::config::{self, Document, PluginOrigin, PluginRef, Standing};
use crate::delivery::Supply;
use crate::discovery::node_file::{self, FileNode};
use crate::discovery::oneshot::{ConfigHashes, Found, Prepared, Shot};
use crate::discovery::revision::Host;
use crate::endpoints::recording::{Recorder, Recording, Replay};
use crate::endpoints::vault::Vault;
use crate::endpoints::{Outside, Tape};
use crate::plugin::{Compiler, Runtime};
use crate::topology::convert::{self, Wanted};

/// Largest list of existing HyperNodes that is read.
const MAX_EXISTING: u64 = 256 << 20;

/// Largest recording that is read: the largest answer of a fabric manager, and room for the others.
const MAX_RECORDING: u64 = 512 << 20;

/// Flags of `discover`.
#[derive(Debug, Args)]
pub(super) struct DiscoverArgs {
    /// The configuration: the document that stands in the ConfigMap, or the ConfigMap itself
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// What `kubectl get nodes -o json` (or -o yaml) prints; - reads standard input
    #[arg(long, value_name = "FILE|-")]
    nodes: PathBuf,
    /// HyperNodes that exist (`kubectl get hypernodes -o yaml`): they keep their names
    #[arg(long, value_name = "FILE")]
    existing: Option<PathBuf>,
    /// Use this plugin file in place of the entry's own; grants come from the entry's `permissions`
    #[arg(long, value_name = "FILE")]
    plugin: Option<PathBuf>,
    /// Where the keys of Secrets are that entries name: files like `token`, or `username` and `password`
    #[arg(long, value_name = "DIR")]
    credentials: Option<PathBuf>,
    /// Write down what endpoints answered, to be replayed; no credential gets into it
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    record: Option<PathBuf>,
    /// Answer requests to endpoints from a recording in place of the network
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Only this source
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// What is printed: a tree for people, objects that kubectl can apply, or one list
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
    let mut document = read_config(&args.config)?;
    if let Some(plugin) = &args.plugin {
        replace_plugin(&mut document, plugin, args.source.as_deref())?;
    }
    report_mistakes(&document);
    if let Some(only) = &args.source
        && matches!(document.standing(only), Standing::Absent | Standing::Disabled(_))
    {
        return Err(live::not_enabled(only, &document));
    }
    let existing = args.existing.as_deref().map(read_existing).transpose()?.unwrap_or_default();
    let runtime = Runtime::start(Compiler::Child { exe: super::executable() })?;
    let tape = tape(&args)?;
    let outside = outside(&args, tape.clone());
    let host = Host::at_desk(&runtime, &outside);
    let prepared = Prepared::new(host, &Supply::offline(), &document, args.source.as_deref(), &BTreeMap::new()).await;
    let mut store = Store::new();
    store.want(prepared.keys());
    read_nodes(&args.nodes, &mut store)?;
    let shots = prepared.round(&store, &existing, &ConfigHashes::new()).await;
    if let (Some(path), Tape::Record(recorder)) = (&args.record, &tape) {
        write_recording(path, recorder)?;
    }
    let failed = shots.iter().any(|shot| shot.result.is_err()) || document.errors().next().is_some();
    match args.output {
        Output::Tree => print::out(&tree(&shots, args.show_nodes)),
        Output::Yaml => {
            let mut text = String::new();
            for object in objects(&shots) {
                text.push_str("---\n");
                text.push_str(&topoloom_api::crd::to_yaml(&object)?);
            }
            print::out(&text);
        }
        Output::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": objects(&shots)});
            print::out(&format!("{}\n", serde_json::to_string_pretty(&list)?));
        }
    }
    for shot in &shots {
        if let Err(message) = &shot.result {
            print::error(&format!("topoloom: source {}: {message}", shot.source));
        }
    }
    if shots.is_empty() && !failed {
        print::error("topoloom: no entry of the configuration is enabled");
    }
    Ok(if failed || shots.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Whether endpoints are asked, and whether that is written down.
fn tape(args: &DiscoverArgs) -> anyhow::Result<Tape> {
    if args.record.is_some() {
        return Ok(Tape::Record(Recorder::default()));
    }
    let Some(path) = &args.replay else { return Ok(Tape::None) };
    let named = || format!("--replay {}", path.display());
    let text = read_bounded(path, MAX_RECORDING).with_context(named)?;
    let recording = Recording::parse(&text).map_err(anyhow::Error::msg).with_context(named)?;
    Ok(Tape::Replay(Arc::new(Replay::new(recording))))
}

fn outside(args: &DiscoverArgs, tape: Tape) -> Outside {
    let vault = args.credentials.clone().map_or(Vault::Nothing, Vault::Folder);
    Outside { vault, tape, ..Outside::offline() }
}

fn write_recording(path: &Path, recorder: &Recorder) -> anyhow::Result<()> {
    let text = recorder.recording().print()?;
    std::fs::write(path, text).with_context(|| format!("--record {}", path.display()))
}

fn read_config(path: &Path) -> anyhow::Result<Document> {
    let named = || format!("--config {}", path.display());
    // A manifest is a little larger than the document in it.
    let text = read_bounded(path, 2 * config::MAX_BYTES as u64).with_context(named)?;
    config::parse_file(&text).with_context(named)
}

/// A whole file as text, if it is no longer than that.
fn read_bounded(path: &Path, most: u64) -> anyhow::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(most + 1).read_to_string(&mut text)?;
    anyhow::ensure!(text.len() as u64 <= most, "it is larger than {most} bytes, which are read at most");
    Ok(text)
}

fn replace_plugin(document: &mut Document, plugin: &Path, only: Option<&str>) -> anyhow::Result<()> {
    let mut entries: Vec<_> = document
        .entries
        .iter_mut()
        .filter_map(|entry| entry.config.as_mut().ok())
        .filter(|entry| entry.enabled && only.is_none_or(|only| only == entry.source))
        .collect();
    match entries.as_mut_slice() {
        [entry] => {
            let digest = entry.plugin.digest;
            entry.plugin =
                PluginRef { origin: PluginOrigin::File(plugin.to_owned()), digest, trust: None, expected_name: None };
            Ok(())
        }
        [] => anyhow::bail!("--plugin: no enabled entry of the configuration uses it"),
        _ => anyhow::bail!("--plugin: several entries are enabled; say which one with --source NAME"),
    }
}

fn report_mistakes(document: &Document) {
    for warning in &document.warnings {
        print::error(&format!("topoloom: warning: {warning}"));
    }
    for problem in document.errors() {
        print::error(&format!("topoloom: {problem}"));
    }
}

fn read_existing(path: &Path) -> anyhow::Result<Vec<Arc<Object>>> {
    #[derive(Deserialize)]
    struct List {
        #[serde(default)]
        items: Option<Vec<Value>>,
    }
    let named = || format!("--existing {}", path.display());
    let text = read_bounded(path, MAX_EXISTING).with_context(named)?;
    let list: List = if text.trim_start().starts_with('{') {
        serde_json::from_str(&text).with_context(named)?
    } else {
        serde_saphyr::from_str(&text).with_context(named)?
    };
    let items = list.items.with_context(|| {
        format!("--existing {}: not a list; give what `kubectl get hypernodes -o yaml` prints", path.display())
    })?;
    let object = |(at, item): (usize, Value)| {
        let kind = item.get("kind").and_then(Value::as_str).unwrap_or(KIND);
        anyhow::ensure!(kind == KIND, "items[{at}] is a {kind}, not a {KIND}");
        let item: HyperNode = serde_json::from_value(item).with_context(|| format!("items[{at}]"))?;
        Ok(Arc::new(convert::object(&item)))
    };
    items.into_iter().enumerate().map(object).collect::<anyhow::Result<_>>().with_context(named)
}

fn read_nodes(path: &Path, store: &mut Store) -> anyhow::Result<()> {
    store.begin_relist();
    let sink = |node: FileNode| {
        store.relist(NodeMeta {
            name: &node.name,
            labels: node.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())),
            annotations: node.annotations.iter().map(|(key, value)| (key.as_str(), value.as_str())),
        });
    };
    let named = || format!("--nodes {}", path.display());
    if path.as_os_str() == "-" {
        node_file::read(std::io::stdin().lock(), sink).with_context(named)?;
    } else {
        let file = std::fs::File::open(path).with_context(named)?;
        node_file::read(BufReader::with_capacity(1 << 18, file), sink).with_context(named)?;
    }
    store.commit_relist();
    Ok(())
}

/// The objects of all results, children before parents: the order in which they can be applied.
fn objects(shots: &[Shot]) -> Vec<Value> {
    let found = shots.iter().filter_map(|shot| Some((&shot.source, shot.result.as_ref().ok()?)));
    let mut objects: Vec<(u32, Value)> = found
        .flat_map(|(source, found)| {
            found.decision.named.objects.iter().map(move |(name, object)| {
                let wanted = Wanted {
                    name,
                    source,
                    group_id: object.group_id.as_deref(),
                    split_from: object.split_from.as_deref(),
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
        let numbers = &found.decision.numbers;
        let _ = writeln!(
            text,
            "{}\n{} of {} nodes have a place in {} groups",
            live::heading(&shot.source, shot),
            numbers.covered,
            numbers.total,
            numbers.groups()
        );
        text.push_str(&forest_text(&leaves(found), nodes));
        for (code, (count, example)) in &numbers.diagnostics {
            let _ = writeln!(text, "  {code} ({count}): {example}");
        }
        text.push('\n');
    }
    text
}

fn leaves(found: &Found) -> Vec<Leaf> {
    let objects = found.decision.named.objects.iter();
    objects
        .map(|(name, object)| Leaf {
            name: Arc::clone(name),
            spec: object.spec.clone(),
            labels: object.labels.clone(),
            count: None,
            note: String::new(),
        })
        .collect()
}
