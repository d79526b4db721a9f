//! `topoloom plugin list`, `rollback` and `continue`: which plugin serves which source, and the operator's word about
//! it (decision H17).

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use kube::api::Api;
use schemars::JsonSchema;
use serde::Serialize;
use topoloom_api::DiscoverySource;
use topoloom_api::names::{CONTINUE_ANNOTATION, SERVE_ANNOTATION};
use topoloom_core::names::SourceName;
use topoloom_core::text;

use crate::cli::live::list;
use crate::cli::output::parts::Plugin;
use crate::cli::output::{Document, OutputArgs};
use crate::cli::source::{annotate, get};
use crate::cli::{ClusterArgs, print};

/// Digits of a digest that tables show.
const SHOWN: usize = 12;
/// Digits that a person has to give at least.
const LEAST: usize = 6;

/// Flags of `plugin list`.
#[derive(Debug, Args)]
pub(in crate::cli) struct PluginListArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Which plugin serves which source, which waits, and which served before.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Serving {
    sources: Vec<Served>,
}

impl Document for Serving {
    const KIND: &'static str = "PluginList";
}

/// The plugins of one source.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Served {
    source: String,
    /// What the source is doing, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    /// The active plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    plugin: Option<Plugin>,
    /// Where its bytes came from: `Builtin`, `File`, `ConfigMap`, `Registry` or `Kept`.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    /// The candidate plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    candidate: Option<Candidate>,
    /// Earlier plugins, newest first.
    before: Vec<Plugin>,
    /// The digest that an operator named with `topoloom plugin rollback`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pinned: Option<String>,
}

/// A candidate plugin.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    /// Its own name; empty until it is known.
    plugin: Plugin,
    /// The stage: `Preparing`, `Shadow`, `Held` or `Refused`.
    stage: String,
    /// The step that holds or refuses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
}

/// Flags of `plugin rollback`.
#[derive(Debug, Args)]
pub(in crate::cli) struct RollbackArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The source
    source: SourceName,
    /// The plugin to roll back to, by digest or its first digits; default: the plugin before the active one
    #[arg(long, value_name = "DIGEST")]
    to: Option<String>,
}

/// Flags of `plugin continue`.
#[derive(Debug, Args)]
pub(in crate::cli) struct ContinueArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The source
    source: SourceName,
    /// Only if this plugin is waiting: its digest or its first digits
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,
}

/// Shows the plugins of all sources.
pub(super) async fn show(args: PluginListArgs) -> anyhow::Result<ExitCode> {
    let client = args.cluster.connect().await?;
    let mut sources = list::<DiscoverySource>(&client).await.context("listing DiscoverySources")?;
    sources.sort_by(|a, b| a.status.source.cmp(&b.status.source));
    let serving = Serving { sources: sources.iter().map(served).collect() };
    args.output.print(&serving, table)?;
    Ok(ExitCode::SUCCESS)
}

fn served(object: &DiscoverySource) -> Served {
    let status = &object.status;
    let candidate = status.candidate.as_ref().map(|candidate| Candidate {
        plugin: Plugin {
            name: candidate.name.clone().unwrap_or_default(),
            version: candidate.version.clone().unwrap_or_default(),
            digest: candidate.digest.clone(),
        },
        stage: candidate.stage.clone(),
        step: candidate.step.clone(),
    });
    let before = status.previous.iter().map(|kept| Plugin {
        name: kept.name.clone(),
        version: kept.version.clone(),
        digest: kept.digest.clone(),
    });
    Served {
        source: status.source.clone(),
        state: status.state.map(|state| state.as_str()),
        plugin: Plugin::serving(status),
        origin: status.plugin.as_ref().map(|plugin| format!("{:?}", plugin.origin)),
        candidate,
        before: before.collect(),
        pinned: object.annotation(SERVE_ANNOTATION).map(text::word),
    }
}

fn table(serving: &Serving) -> String {
    let head = ["SOURCE", "STATE", "PLUGIN", "DIGEST", "ORIGIN", "CANDIDATE", "BEFORE", "PINNED"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let none = || "-".to_owned();
    for source in &serving.sources {
        let plugin = source.plugin.as_ref();
        let candidate = source.candidate.as_ref().map(|candidate| {
            let step = candidate.step.as_deref().map(|step| format!(" ({step})")).unwrap_or_default();
            format!("{} {}{step}", short(&candidate.plugin.digest), candidate.stage)
        });
        let before: Vec<String> =
            source.before.iter().map(|kept| format!("{} {}", short(&kept.digest), kept.version)).collect();
        rows.push(vec![
            source.source.clone(),
            source.state.unwrap_or("-").to_owned(),
            plugin.map_or_else(none, |plugin| format!("{} {}", plugin.name, plugin.version)),
            plugin.map_or_else(none, |plugin| short(&plugin.digest)),
            source.origin.clone().unwrap_or_else(none),
            candidate.unwrap_or_else(none),
            if before.is_empty() { none() } else { before.join(", ") },
            source.pinned.as_deref().map_or_else(none, short),
        ]);
    }
    print::table(&rows)
}

/// Names the plugin that is to serve, until `continue`.
pub(super) async fn rollback(args: RollbackArgs) -> anyhow::Result<ExitCode> {
    let api: Api<DiscoverySource> = Api::all(args.cluster.connect().await?);
    let object = get(&api, &args.source).await?;
    let status = &object.status;
    let serving = status.plugin.as_ref().map(|plugin| plugin.digest.as_str());
    let known = status.previous.iter().map(|kept| kept.digest.as_str()).chain(serving);
    let digest = match &args.to {
        Some(text) => find(text, known)?,
        None => match status.previous.first() {
            Some(kept) => kept.digest.clone(),
            None => bail!("no plugin served source {:?} before this one: name one with --to DIGEST", args.source),
        },
    };
    annotate(&api, &args.source, SERVE_ANNOTATION, Some(&digest)).await?;
    print::out(&format!(
        "source {0} will use plugin {digest}; other deliveries wait until `topoloom plugin continue {0}`\n",
        args.source
    ));
    Ok(ExitCode::SUCCESS)
}

/// Ends a rollback, or lets the waiting plugin continue.
pub(super) async fn go_on(args: ContinueArgs) -> anyhow::Result<ExitCode> {
    let api: Api<DiscoverySource> = Api::all(args.cluster.connect().await?);
    let object = get(&api, &args.source).await?;
    let candidate = object.status.candidate.as_ref();
    if let Some(wanted) = &args.digest {
        find(wanted, candidate.map(|candidate| candidate.digest.as_str()))?;
    }
    if let Some(pinned) = object.annotation(SERVE_ANNOTATION) {
        let was = short(pinned);
        annotate(&api, &args.source, SERVE_ANNOTATION, None).await?;
        print::out(&format!("source {} accepts deliveries again ({was} is no longer pinned)\n", args.source));
        return Ok(ExitCode::SUCCESS);
    }
    let Some(candidate) = candidate else {
        bail!("no plugin waits for source {:?} (`topoloom plugin list` shows all)", args.source)
    };
    annotate(&api, &args.source, CONTINUE_ANNOTATION, Some(&candidate.digest)).await?;
    print::out(&format!("plugin {} may take over source {}\n", candidate.digest, args.source));
    Ok(ExitCode::SUCCESS)
}

/// The whole digest that begins with these digits.
fn find<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> anyhow::Result<String> {
    let digits = text.strip_prefix("sha256:").unwrap_or(text).to_ascii_lowercase();
    if let Some(digest) = crate::plugin::Digest::parse(&format!("sha256:{digits}")) {
        return Ok(digest.to_string());
    }
    anyhow::ensure!(
        digits.len() >= LEAST && digits.bytes().all(|digit| digit.is_ascii_hexdigit()),
        "{text:?} is not a digest: give `sha256:` and 64 hexadecimal digits, or the first {LEAST} or more of them"
    );
    let known: Vec<&str> = known.into_iter().collect();
    let mut found: Vec<&&str> =
        known.iter().filter(|known| known.trim_start_matches("sha256:").starts_with(&digits)).collect();
    found.dedup();
    match found.as_slice() {
        [digest] => Ok((**digest).to_owned()),
        [] => bail!("no plugin of this source has a digest that begins with {digits}; there are: {}", shown(&known)),
        _ => bail!("more than one digest begins with {digits}: {}", shown(&known)),
    }
}

fn shown(digests: &[&str]) -> String {
    let digests: Vec<String> = digests.iter().map(|digest| short(digest)).collect();
    if digests.is_empty() { "none".to_owned() } else { digests.join(", ") }
}

fn short(digest: &str) -> String {
    digest.strip_prefix("sha256:").unwrap_or(digest).chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_found_by_its_first_digits() {
        let (a, b) = (crate::plugin::Digest::of(b"a").to_string(), crate::plugin::Digest::of(b"b").to_string());
        let known = [a.as_str(), b.as_str()];
        assert_eq!(find(&a[7..19], known).unwrap(), a);
        assert_eq!(find(&b.to_uppercase().replace("SHA256", "sha256"), known).unwrap(), b);
        assert_eq!(find(&a, []).unwrap(), a, "a whole one need not be known");
        for (text, words) in
            [("12345", "is not a digest"), ("nonsense", "is not a digest"), ("000000000000", "there are: ")]
        {
            let error = find(text, known).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
