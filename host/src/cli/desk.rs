//! Rounds over files: the same pipeline as in a running host, without a cluster.

use std::collections::BTreeMap;
use std::io::{BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use topoloom_core::names::SourceName;
use topoloom_core::snapshot::{NodeMeta, Store};
use topoloom_core::topology::Object;
use topoloom_workshop::existing;
use topoloom_workshop::node_file::{self, FileNode};

use super::plugin::{PluginFile, PluginPlace, RegistryArgs};
use super::{live, print, private};
use crate::config::{self, Document, EntryState, PluginOrigin, PluginRef};
use crate::delivery::Supply;
use crate::discovery::oneshot::{Prepared, Shot};
use crate::discovery::revision::Host;
use crate::endpoints::recording::{Recorder, Recording, Replay};
use crate::endpoints::vault::Vault;
use crate::endpoints::{Outside, Tape};
use crate::plugin::{Compiler, Runtime};

/// Largest list of existing HyperNodes that is read.
const MAX_EXISTING: u64 = 256 << 20;
/// Largest recording that is read: the largest answer of a fabric manager, and room for the others.
const MAX_RECORDING: u64 = 512 << 20;

/// What is read in place of a cluster, beside the nodes: each verb has its own `--nodes`, needed or not.
#[derive(Debug, Args)]
pub(super) struct DeskArgs {
    /// HyperNodes that exist (`kubectl get hypernodes -o yaml`): they keep their names
    #[arg(long, value_name = "FILE", requires = "nodes")]
    existing: Option<PathBuf>,
    /// Use this plugin in place of the entry's own: a file, or a reference, oci://REGISTRY/NAME:TAG; grants come from the
    /// entry's `permissions`
    #[arg(long, value_name = "FILE", requires = "nodes")]
    plugin: Option<PluginPlace>,
    #[command(flatten)]
    registry: RegistryArgs,
    /// A folder with the keys of the Secret that the entry names: files such as `token`, or `username` and `password`.
    /// If the entry names several Secrets, one subfolder per Secret, with its name
    #[arg(long, value_name = "DIR", requires = "nodes")]
    credentials: Option<PathBuf>,
    /// Record the answers of endpoints, for --replay; the recording contains no credentials
    #[arg(long, value_name = "FILE", conflicts_with = "replay", requires = "nodes")]
    record: Option<PathBuf>,
    /// Answer requests to endpoints from a recording instead of the network
    #[arg(long, value_name = "FILE", requires = "nodes")]
    replay: Option<PathBuf>,
}

/// What the rounds found.
pub(super) struct Desk {
    /// One per enabled entry.
    pub(super) shots: Vec<Shot>,
    /// Whether anything went wrong: an entry that is invalid counts.
    pub(super) failed: bool,
}

/// Runs one round of every enabled entry of the document (or of one) over the files.
pub(super) async fn rounds(
    args: &DeskArgs,
    nodes: &Path,
    config: &Path,
    only: Option<&SourceName>,
) -> anyhow::Result<Desk> {
    let mut document = read_config(config)?;
    // It lives as long as the rounds.
    let plugin = match &args.plugin {
        Some(place) => Some(PluginOnDisk::of(place, &args.registry).await?),
        None => None,
    };
    if let Some(plugin) = &plugin {
        replace_plugin(&mut document, plugin.path(), only)?;
    }
    report_mistakes(&document);
    if let Some(only) = only
        && matches!(document.state_of(only), EntryState::Absent | EntryState::Disabled(_))
    {
        return Err(live::not_enabled(only, &document));
    }
    let existing = args.existing.as_deref().map(read_existing).transpose()?.unwrap_or_default();
    let runtime = Runtime::start(Compiler::AtDesk { exe: super::executable() })?;
    let tape = tape(args)?;
    let outside = outside(args, tape.clone());
    let host = Host::at_desk(&runtime, &outside);
    let prepared = Prepared::new(host, &Supply::offline(), &document, only, &BTreeMap::new(), &existing).await;
    let mut store = Store::new();
    store.require(prepared.keys());
    read_nodes(nodes, &mut store)?;
    let shots = prepared.round(&store, &existing, &BTreeMap::new()).await;
    if let (Some(path), Tape::Record(recorder)) = (&args.record, &tape) {
        write_recording(path, recorder)?;
    }
    for shot in &shots {
        if let Err(why) = &shot.result {
            print::error(&format!("topoloom: source {}: {why}", shot.entry));
        }
    }
    let failed = shots.iter().any(|shot| shot.result.is_err()) || document.errors().next().is_some();
    if shots.is_empty() && !failed {
        print::error("topoloom: no entry of the configuration is enabled");
    }
    Ok(Desk { failed: failed || shots.is_empty(), shots })
}

/// The component that a person names, by the path of a file, a reference to a registry, or one to a folder of artifacts.
///
/// # Errors
/// Why there is none.
pub(super) async fn bytes_of(place: &PluginPlace, registry: &RegistryArgs) -> anyhow::Result<Arc<[u8]>> {
    Ok(PluginFile::find(place, registry).await?.bytes)
}

/// A plugin that an entry can name.
enum PluginOnDisk {
    /// It was there.
    File(PathBuf),
    /// It was pulled; the file goes with this.
    Pulled(tempfile::NamedTempFile),
}

impl PluginOnDisk {
    async fn of(place: &PluginPlace, registry: &RegistryArgs) -> anyhow::Result<Self> {
        if let PluginPlace::File(path) = place {
            return Ok(Self::File(path.clone()));
        }
        let bytes = bytes_of(place, registry).await.with_context(|| format!("--plugin {place}"))?;
        let mut file = tempfile::NamedTempFile::new()?;
        file.write_all(&bytes)?;
        Ok(Self::Pulled(file))
    }

    fn path(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Pulled(file) => file.path(),
        }
    }
}

/// Whether endpoints are asked, and whether that is written down.
fn tape(args: &DeskArgs) -> anyhow::Result<Tape> {
    if let Some(path) = &args.record {
        // A folder that cannot be written is an error before any endpoint is asked.
        let is_there = std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0);
        anyhow::ensure!(
            !is_there,
            "--record {}: the file exists already; name another file, or remove this one",
            path.display()
        );
        private::open(path).with_context(|| format!("--record {}", path.display()))?;
        return Ok(Tape::Record(Recorder::default()));
    }
    let Some(path) = &args.replay else { return Ok(Tape::None) };
    Ok(Tape::Replay(Arc::new(Replay::new(read_recording(path)?))))
}

/// What `--replay` names.
pub(super) fn read_recording(path: &Path) -> anyhow::Result<Recording> {
    let named = || format!("--replay {}", path.display());
    let text = read_bounded(path, MAX_RECORDING).with_context(named)?;
    Recording::parse(&text).map_err(anyhow::Error::msg).with_context(named)
}

fn outside(args: &DeskArgs, tape: Tape) -> Outside {
    let vault = args.credentials.clone().map_or(Vault::Nothing, Vault::folder);
    Outside { vault, tape, ..Outside::offline() }
}

fn write_recording(path: &Path, recorder: &Recorder) -> anyhow::Result<()> {
    let text = recorder.recording().print()?;
    private::write(path, text.as_bytes()).with_context(|| format!("--record {}", path.display()))
}

fn read_config(path: &Path) -> anyhow::Result<Document> {
    let named = || format!("--config {}", path.display());
    // A manifest is a little larger than the document in it.
    let text = read_bounded(path, 2 * config::MAX_BYTES as u64).with_context(named)?;
    config::parse_file(&text).with_context(named)
}

/// A whole file as text, if it is no longer than that.
pub(super) fn read_bounded(path: &Path, most: u64) -> anyhow::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(most + 1).read_to_string(&mut text)?;
    anyhow::ensure!(text.len() as u64 <= most, "it is larger than {most} bytes, the most that is read");
    Ok(text)
}

fn replace_plugin(document: &mut Document, plugin: &Path, only: Option<&SourceName>) -> anyhow::Result<()> {
    let mut entries: Vec<_> = document
        .entries
        .iter_mut()
        .filter_map(|entry| entry.config.as_mut().ok())
        .filter(|entry| entry.enabled && only.is_none_or(|only| *only == entry.source))
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

pub(super) fn read_existing(path: &Path) -> anyhow::Result<Vec<Arc<Object>>> {
    let named = || format!("--existing {}", path.display());
    let text = read_bounded(path, MAX_EXISTING).with_context(named)?;
    existing::parse(&text).with_context(named)
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
