//! `topoloom plugin inspect`: what a plugin file is, and whether the host would take it.
//!
//! The plugin goes the way that it would go in a host, with the same bounds, compiler process and sandbox, and what is
//! known is printed before what stopped it. An entry is even prepared by the very function that a running host uses.

pub(super) mod config;
mod document;
mod report;
mod signature;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use topoloom_core::names::SourceName;
use topoloom_core::plugin::grant::{NotGranted, Origin};
use topoloom_core::plugin::{CallError, Description, Permissions, Requirements, grant};
use topoloom_core::text;
use topoloom_workshop::build::Need;
use topoloom_workshop::pack;

use super::file::PluginFile;
use super::place::{PluginPlace, RegistryArgs};
use super::sandbox::{ProfileArg, Sandbox};
use crate::cli::output::OutputArgs;
use crate::cli::print;
use crate::config::EntryConfig;
use crate::discovery::revision;
use crate::plugin::trust::TrustKeys;
use crate::plugin::{Anatomy, Digest, LoadError, Needs, Plugin, measure};
use config::Given;
pub(in crate::cli) use document::Inspected;
use signature::Signature;

/// The longest line of a refusal, in bytes: it may list what a plugin asks for.
const LINE: usize = 4 << 10;

/// Flags of `plugin inspect`.
#[derive(Debug, Args)]
pub(in crate::cli) struct InspectArgs {
    /// The plugin: a file, or a reference, oci://REGISTRY/NAME:TAG
    #[arg(value_name = "FILE")]
    file: PluginPlace,
    /// The configuration to test it with: its own, an entry, or the whole document
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The entry of the document
    #[arg(long, value_name = "NAME", requires = "config")]
    source: Option<SourceName>,
    /// The limits; default: those of the entry, or the standard ones
    #[arg(long, value_enum)]
    profile: Option<ProfileArg>,
    /// Public keys that may sign plugins: the .sig beside it is checked with them; may be repeated
    #[arg(long, value_name = "FILE")]
    trust_key: Vec<PathBuf>,
    #[command(flatten)]
    registry: RegistryArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Everything that was found out.
struct Report {
    file: String,
    digest: Digest,
    size: usize,
    packed: Option<usize>,
    /// Bytes, packed for a ConfigMap.
    in_config_map: usize,
    anatomy: Anatomy,
    origin: Option<Origin>,
    needs: Option<Needs>,
    description: Option<Description>,
    wishes: Option<Wishes>,
    signature: Option<Signature>,
    refusals: Vec<Refused>,
}

/// What a plugin asks for.
struct Wishes {
    /// For the configuration that was given; nothing is known without one.
    requirements: Option<Requirements>,
    /// Whether it reads names of Nodes, with any configuration.
    node_names: bool,
    /// The lines that grant it all.
    grants: Option<String>,
}

/// Why a host would refuse it.
struct Refused {
    reason: String,
    message: String,
}

impl Refused {
    fn new(reason: &str, message: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), message: message.into() }
    }
}

impl From<LoadError> for Refused {
    fn from(error: LoadError) -> Self {
        let source = std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
        Self::new(error.reason(), format!("{error}{source}"))
    }
}

/// Prints what a plugin is; fails when a host would refuse it.
pub(super) async fn run(args: InspectArgs) -> anyhow::Result<ExitCode> {
    let keys = TrustKeys::load(&args.trust_key)?;
    let file = PluginFile::find(&args.file, &args.registry).await?;
    let given = args.config.as_deref().map(|path| config::read(path, args.source.as_ref())).transpose()?;
    let mut report = examine(&args, &file, given.as_ref()).await?;
    report.signature = Signature::beside(&file, &keys, report.digest, report.description.as_ref())?;
    if report.signature.is_none() && !keys.is_empty() {
        let message = format!(
            "--trust-key asks for a signature, and {}; `topoloom plugin sign` writes it, with the private key",
            file.unsigned()
        );
        report.refusals.push(Refused::new("Signature", message));
    }
    if let Some(problem) = report.signature.as_ref().and_then(|signature| signature.problem.as_ref()) {
        report.refusals.push(Refused::new("Signature", problem.clone()));
    }
    args.output.print(&report.document(), |_| report.text())?;
    for refused in &report.refusals {
        print::error(&format!("topoloom: refused: {}", harmless(&refused.message)));
    }
    Ok(if report.refusals.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn examine(args: &InspectArgs, file: &PluginFile, given: Option<&Given>) -> anyhow::Result<Report> {
    let entry = given.and_then(Given::entry);
    let of_entry = || entry.map(|entry| entry.limits.applied()).unwrap_or_default();
    let limits = args.profile.map_or_else(of_entry, ProfileArg::limits);
    // With the widest limits: a file that is too large for these has as much to show. Loading it reports what is wrong with it.
    let (anatomy, _) = measure(&file.bytes);
    let mut report = Report {
        file: file.place.clone(),
        digest: Digest::of(&file.bytes),
        size: file.bytes.len(),
        packed: file.packed,
        in_config_map: pack::size_for_config_map(&file.bytes),
        anatomy,
        origin: None,
        needs: None,
        description: None,
        wishes: None,
        signature: None,
        refusals: Vec::new(),
    };
    let sandbox = Sandbox::start("inspect")?;
    let plugin = match sandbox.load(&file.bytes, limits).await {
        Ok(plugin) => plugin,
        Err(error) => {
            report.refusals.push(error.into());
            return Ok(report);
        }
    };
    report.origin = Some(plugin.origin());
    report.needs = plugin.needs();
    match plugin.describe(sandbox.source()).await.end {
        Ok(description) => report.description = Some(description),
        Err(error) => report.refusals.push(call_refused("describe", &error)),
    }
    report.ask(&sandbox, &plugin, given).await;
    // A host would say the same of the entry once more.
    if let Some(entry) = entry.filter(|_| report.refusals.is_empty()) {
        report.refusals.extend(prepare(&sandbox, file, entry).await.err());
    }
    Ok(report)
}

fn call_refused(step: &str, error: &CallError) -> Refused {
    Refused::new(error.reason(), format!("{step}: {error}"))
}

impl Report {
    /// Which limits it needs, by what is known of it.
    fn need(&self) -> Need {
        let mut measures = self.anatomy.measures.clone();
        measures.extend(self.needs.map(|needs| needs.measures()).unwrap_or_default());
        Need::of(&measures)
    }

    /// Asks the plugin what it needs, with a configuration if there is one.
    async fn ask(&mut self, sandbox: &Sandbox, plugin: &Plugin, given: Option<&Given>) {
        let mut wishes = Wishes { requirements: None, node_names: plugin.reads_node_names(), grants: None };
        if let Some(given) = given {
            let config: Arc<str> = given.config().to_string().into();
            match plugin.configure(sandbox.source(), config).await.end {
                Ok(requirements) => wishes.requirements = Some(requirements),
                Err(error) => self.refusals.push(call_refused("configure", &error)),
            }
        }
        wishes.grants = wishes.grants(plugin.origin());
        self.wishes = Some(wishes);
    }
}

impl Wishes {
    /// What an operator would have to write down. What is embedded needs nothing.
    fn grants(&self, origin: Origin) -> Option<String> {
        if origin == Origin::Embedded {
            return None;
        }
        let nothing = Permissions::default();
        let asked = self.requirements.as_ref().and_then(|asked| grant(asked, &nothing, origin).err());
        let mut refusals = asked.unwrap_or_default();
        refusals.extend(self.node_names.then_some(NotGranted::NodeNames));
        (!refusals.is_empty()).then(|| NotGranted::yaml(&refusals))
    }
}

/// What a host makes of the entry with this file in it: the pinned digest, the name that is expected, the grants.
async fn prepare(sandbox: &Sandbox, file: &PluginFile, entry: &EntryConfig) -> Result<(), Refused> {
    let module = file.module();
    if let Some(pinned) = entry.plugin.digest.filter(|pinned| *pinned != module.digest) {
        return Err(LoadError::Digest { pinned, found: module.digest }.into());
    }
    let prepared = revision::prepare(sandbox.host(), Arc::new(entry.clone()), Arc::new(module), None).await;
    match prepared {
        Ok(_) => Ok(()),
        Err(refused) => Err(Refused::new(refused.reason.as_str(), refused.message)),
    }
}

/// Lines that may repeat what a plugin said, fit for a terminal.
fn harmless(message: &str) -> String {
    message.lines().map(|line| text::line(line, LINE)).collect::<Vec<_>>().join("\n")
}
