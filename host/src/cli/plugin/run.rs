//! `topoloom plugin run`: one round of a plugin at a desk, over nodes of a file or of a cluster. Nothing is written to a cluster.
//!
//! The inner loop of an author: no entry and no grants are needed, since the plugin gets what it asks for, and that is
//! printed. With `--watch` a save builds the plugin and runs it again, and what moved is printed below the tree.

mod record;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use topoloom_api::HyperNode;
use topoloom_core::names::SourceName;
use topoloom_core::plugin::{CallError, Description, Limits};
use topoloom_core::topology::{Forest, Object};
use topoloom_workshop::build::Stop;
use topoloom_workshop::node_file::FileNode;
use topoloom_workshop::nodes::Nodes;
use topoloom_workshop::rounds::moved::moved;
use topoloom_workshop::rounds::{Ask, Configured, Desk, Exchanges, Live, NoAnswer, Round};

use super::inspect::config::{self, Given};
use super::place::{PluginPlace, RegistryArgs};
use super::sandbox::{Engines, ProfileArg};
use super::target::{Component, Target, patient};
use super::watch::{self, Files, Next, Saves};
use crate::cli::desk::{read_existing, read_recording};
use crate::cli::{ClusterArgs, live, print};
use crate::cluster;
use crate::endpoints::recording::{Recorder, Recording};
use crate::endpoints::vault::Vault;
use crate::endpoints::{Outside, Tape};
use crate::topology::convert;

/// Flags of `plugin run`.
#[derive(Debug, Args)]
pub(in crate::cli) struct PluginRunArgs {
    #[command(flatten)]
    connection: ClusterArgs,
    /// The plugin: a component, the folder of a project, which is built first, or a reference, oci://REGISTRY/NAME:TAG
    #[arg(value_name = "DIR|FILE|REF", default_value = ".")]
    plugin: PluginPlace,
    #[command(flatten)]
    registry: RegistryArgs,
    /// What `kubectl get nodes -o json` (or -o yaml) prints; - reads standard input
    #[arg(long, value_name = "FILE|-", required_unless_present = "cluster", conflicts_with = "cluster")]
    nodes: Option<PathBuf>,
    /// Read the Nodes and HyperNodes of a cluster; nothing is written
    #[arg(long)]
    cluster: bool,
    /// The configuration: its own, an entry, or the whole document. An entry also says where endpoints are
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The entry of the document, and the name of the source; default: what the plugin calls itself
    #[arg(long, value_name = "NAME")]
    source: Option<SourceName>,
    /// HyperNodes that exist (`kubectl get hypernodes -o yaml`): they keep their names
    #[arg(long, value_name = "FILE", conflicts_with = "cluster")]
    existing: Option<PathBuf>,
    /// A folder with the keys of the Secret that the entry names, as for `topoloom discover`
    #[arg(long, value_name = "DIR")]
    credentials: Option<PathBuf>,
    /// Answer requests to endpoints from a recording instead of the network
    #[arg(long, value_name = "FILE", conflicts_with = "credentials")]
    replay: Option<PathBuf>,
    /// Build and run again whenever a file is saved, until stopped
    #[arg(long, conflicts_with = "record")]
    watch: bool,
    /// Make a case of this round: a name in the folder of cases, or a path. It has no credentials
    #[arg(long, value_name = "CASE")]
    record: Option<PathBuf>,
    /// Replace the names of Nodes in the case, so that it can be sent to others
    #[arg(long, requires = "record")]
    anonymise: bool,
    /// The limits; default: those of the entry, those of the project, or the standard ones
    #[arg(long, value_enum)]
    profile: Option<ProfileArg>,
    /// List the nodes of every group
    #[arg(long)]
    show_nodes: bool,
}

/// What all rounds of one call have in common.
struct Session {
    args: PluginRunArgs,
    target: Target,
    engines: Engines,
    client: Option<cluster::Connection>,
    /// Standard input is read once.
    piped: Option<Nodes>,
}

/// One round, and what it was about.
struct Turn {
    component: Component,
    desk: Desk,
    description: Description,
    configured: Configured,
    config: Value,
    nodes: Nodes,
    existing: Vec<Arc<Object>>,
    time: Timestamp,
    recording: Option<Recording>,
    round: Round,
}

/// Runs a round, or one after each save.
pub(super) async fn run(args: PluginRunArgs) -> anyhow::Result<ExitCode> {
    let client = match args.cluster {
        true => Some(args.connection.connection().await?),
        false => None,
    };
    let piped = match &args.nodes {
        Some(path) if path.as_os_str() == "-" => Some(Nodes::parse(std::io::stdin().lock()).context("--nodes -")?),
        _ => None,
    };
    let target = Target::at(&args.plugin);
    let engines = if args.watch { Engines::of_saves()? } else { Engines::of_service()? };
    let session = Session { args, target, engines, client, piped };
    if session.args.watch {
        return session.watch().await;
    }
    let turn = Box::pin(session.turn(None)).await?;
    print::out(&report::text(&turn, session.args.show_nodes));
    let failure = turn.failure();
    if let Some(why) = &failure {
        print::error(&format!("topoloom: no answer: {why}"));
    }
    if let Some(case) = &session.args.record {
        let written = Box::pin(record::write(&turn, case, session.args.anonymise)).await?;
        print::out(&written);
    }
    Ok(if failure.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Session {
    /// Until it is stopped. A build that fails, and a round without an answer, are printed and wait for the next save.
    async fn watch(&self) -> anyhow::Result<ExitCode> {
        let mut before: Option<Arc<Forest>> = None;
        let (given, mut saves) = (self.given(), Saves::default());
        // From here on Ctrl-C ends nothing by itself, neither a wait nor a turn.
        let mut interrupts = signal(SignalKind::interrupt())?;
        let stop = Stop::default();
        loop {
            let looked = self.files();
            let turn = tokio::select! {
                turn = Box::pin(self.turn(Some(&stop))) => turn,
                _ = interrupts.recv() => {
                    stop.stop();
                    return Ok(ExitCode::SUCCESS);
                }
            };
            match turn {
                Ok(turn) => self.show(&turn, &mut before),
                Err(error) => print::error(&format!("topoloom: {error:#}")),
            }
            let now = self.files();
            match saves.after(looked.changed(&now), &given) {
                Next::Again => continue,
                Next::Wait(made) => made.iter().for_each(|path| {
                    let path = path.display();
                    print::error(&format!("topoloom: {path} changes with each build: it starts no other one"));
                }),
            }
            print::error("topoloom: waiting for a file to be saved; Ctrl-C ends it");
            tokio::select! {
                _ = watch::changes(&now, || self.files()) => {}
                _ = interrupts.recv() => return Ok(ExitCode::SUCCESS),
            }
        }
    }

    /// One of several rounds, and what moved since the last one that had an answer.
    fn show(&self, turn: &Turn, before: &mut Option<Arc<Forest>>) {
        print::out(&report::text(turn, self.args.show_nodes));
        if let Some(why) = turn.failure() {
            print::error(&format!("topoloom: no answer: {why}"));
        }
        if let Some(found) = turn.round.found() {
            let now = &found.decision.forest;
            if let Some(before) = before.as_deref() {
                print::out(&report::moved_text(&moved(before, now)));
            }
            *before = Some(Arc::clone(now));
        }
    }

    /// Every file that a round depends on.
    fn files(&self) -> Files {
        self.target.files().and(&self.given())
    }

    /// Those of them that no build writes.
    fn given(&self) -> Vec<PathBuf> {
        let args = &self.args;
        let beside = [&args.nodes, &args.config, &args.existing, &args.replay].into_iter().flatten();
        beside.chain(self.target.file()).cloned().collect()
    }

    /// One round. Where it is given up, `stop` ends the tools of its build.
    async fn turn(&self, stop: Option<&Stop>) -> anyhow::Result<Turn> {
        let args = &self.args;
        let given = args.config.as_deref().map(|path| config::read(path, args.source.as_ref())).transpose()?;
        let component = self.target.component_until(&args.registry, stop).await?;
        let desk = self.engines.open(&component.bytes, self.limits(given.as_ref(), &component)).await?;
        let description = desk.describe().await.end.context("describe")?;
        let desk = desk.named(self.source(given.as_ref(), &description));
        let config = given.as_ref().map_or_else(|| json!({}), |given| given.config().clone());
        let text = config.to_string();
        let configured = desk.settle(&text).await.map_err(|error| refused(&error, given.as_ref()))?;
        let (nodes, existing) = self.nodes().await?;
        let recorder = Recorder::default();
        let exchanges = self.exchanges(&desk, given.as_ref(), &recorder)?;
        let time = Timestamp::now();
        let ask = Ask { existing: &existing, time, exchanges, ..Ask::new(&nodes, &text) };
        let round = desk.round(&configured, &ask).await;
        let recording = self.recording(&configured, recorder)?;
        Ok(Turn { component, desk, description, configured, config, nodes, existing, time, recording, round })
    }

    fn limits(&self, given: Option<&Given>, component: &Component) -> Limits {
        let of_entry = || given.and_then(Given::entry).map(|entry| entry.limits.applied());
        let of_flag = self.args.profile.map(ProfileArg::limits);
        // An entry is taken at its word, as a host takes it.
        let given = of_flag.map(patient).or_else(of_entry);
        given.unwrap_or_else(|| patient(component.limits.clone().unwrap_or_default()))
    }

    /// The source that the plugin answers for.
    fn source(&self, given: Option<&Given>, description: &Description) -> SourceName {
        let of_entry = || given.and_then(Given::entry).map(|entry| entry.source.clone());
        let own = || SourceName::parse(&description.name).ok();
        let usual = || SourceName::parse("desk").expect("four letters are the value of a label");
        self.args.source.clone().or_else(of_entry).or_else(own).unwrap_or_else(usual)
    }

    /// The nodes, and the HyperNodes that exist.
    async fn nodes(&self) -> anyhow::Result<(Nodes, Vec<Arc<Object>>)> {
        if let Some(cluster::Connection { client, .. }) = &self.client {
            let mut list: Vec<FileNode> = Vec::new();
            live::each_node(client, |node| list.push(node)).await?;
            let stored = live::list::<HyperNode>(client).await.context("listing HyperNodes")?;
            return Ok((Nodes { list }, stored.iter().map(convert::object).map(Arc::new).collect()));
        }
        let nodes = match (&self.piped, &self.args.nodes) {
            (Some(piped), _) => piped.clone(),
            (None, Some(path)) => Nodes::read(path).with_context(|| format!("--nodes {}", path.display()))?,
            (None, None) => Nodes::default(),
        };
        let existing = self.args.existing.as_deref().map(read_existing).transpose()?;
        Ok((nodes, existing.unwrap_or_default()))
    }

    /// Where services answer: from a recording, or where an entry says that they are.
    fn exchanges(&self, desk: &Desk, given: Option<&Given>, recorder: &Recorder) -> anyhow::Result<Exchanges> {
        if let Some(path) = &self.args.replay {
            let recording = read_recording(path)?;
            return desk
                .replay(recording)
                .map_err(anyhow::Error::msg)
                .with_context(|| format!("--replay {}", path.display()));
        }
        let Some(entry) = given.and_then(Given::entry) else { return Ok(Exchanges::None) };
        let outside = match &self.client {
            Some(cluster::Connection { client, server, .. }) => {
                Outside::cluster(client, &self.args.connection.location().namespace, server)
            }
            None => Outside::offline(),
        };
        let vault = self.args.credentials.clone().map_or(outside.vault.clone(), Vault::folder);
        let tape = if self.args.record.is_some() { Tape::Record(recorder.clone()) } else { Tape::None };
        Ok(Exchanges::Live(Arc::new(Live {
            words: entry.permissions.as_ref().map(|given| given.endpoints.clone()).unwrap_or_default(),
            credentials: entry.credentials.clone(),
            outside: Outside { vault, tape, ..outside },
        })))
    }

    /// What a case needs of services.
    fn recording(&self, configured: &Configured, recorder: Recorder) -> anyhow::Result<Option<Recording>> {
        if self.args.record.is_none() || configured.requirements.endpoints.is_empty() {
            return Ok(None);
        }
        match &self.args.replay {
            Some(path) => read_recording(path).map(Some),
            None => Ok(Some(recorder.recording())),
        }
    }
}

/// A configuration that was refused; without one, `{}` was asked.
fn refused(error: &CallError, given: Option<&Given>) -> anyhow::Error {
    let hint = if given.is_none() { "; without --config the configuration is {}" } else { "" };
    anyhow::anyhow!("configure: {error}{hint}")
}

impl Turn {
    /// Why there is no answer, if there is none; where an endpoint is not known, with the lines that say where it is.
    fn failure(&self) -> Option<String> {
        let why = self.round.end.as_ref().err()?;
        Some(match (why, self.desk.permissions(&self.configured.requirements)) {
            (NoAnswer::Endpoints(_), Some(lines)) => format!("{why}\nin an entry (--config):\n\n{lines}"),
            _ => why.to_string(),
        })
    }
}

/// What was recorded without an answer is no case.
fn answered(turn: &Turn) -> anyhow::Result<String> {
    match topoloom_workshop::cases::shown_round(&turn.round) {
        Some(shown) => Ok(shown),
        None => bail!("--record: no case is made of a round that the host ended"),
    }
}
