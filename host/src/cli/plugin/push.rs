//! `topoloom plugin push`: a plugin file into a ConfigMap, from where hosts take it within a second.
//!
//! Server-side apply, so that the annotation of client-side apply never bites, which would end at 256 KiB.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use topoloom_workshop::pack;

use super::file::{PluginFile, read_bounded, signature_path};
use super::sandbox::{ProfileArg, Sandbox};
use crate::cli::source::OPERATOR;
use crate::cli::{ClusterArgs, print};
use crate::cluster::Refusal;
use crate::delivery::parcel::{SIGNATURE, beside};
use crate::plugin::Digest;

/// Flags of `plugin push`.
#[derive(Debug, Args)]
pub(in crate::cli) struct PushArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The plugin: a component, packed with zstd or not; a signature beside it (.sig) is pushed too
    file: PathBuf,
    /// The ConfigMap; without a namespace it is that of the configuration
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    configmap: String,
    /// The key of the module in it
    #[arg(long, default_value = "plugin.wasm")]
    key: String,
    /// Which limits apply when the plugin is tested before it is pushed
    #[arg(long, value_enum, default_value_t = ProfileArg::Standard)]
    profile: ProfileArg,
    /// Do everything except the write
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn run(args: PushArgs) -> anyhow::Result<ExitCode> {
    let (namespace, name) = match args.configmap.split_once('/') {
        Some((namespace, name)) => (namespace.to_owned(), name.to_owned()),
        None => (args.cluster.found().await?.location().namespace, args.configmap.clone()),
    };
    let file = PluginFile::read(&args.file)?;
    let digest = Digest::of(&file.bytes);
    // What no host would take is not pushed either; and the name has to come from the plugin.
    let described = Sandbox::start("push")?.describe(&file.bytes, args.profile.limits()).await;
    let described =
        described.with_context(|| format!("{} is not a plugin that a host would accept", args.file.display()))?;
    // As well as it can be, where the quick packing leaves it a little too large.
    let packed = pack::for_config_map(&file.bytes);
    let packed = packed.with_context(|| format!("{} is too large for a ConfigMap", args.file.display()))?;
    let (declaration, signature_key) = beside(&args.key);
    let declared = format!("name: {}\ndigest: {digest}\n", described.name);
    let path = signature_path(&args.file);
    let signature = match path.exists() {
        true => Some(read_bounded(&path, SIGNATURE as u64).with_context(|| path.display().to_string())?),
        false => None,
    };
    let binary = [(args.key.clone(), Some(packed)), (signature_key, signature.clone())]
        .into_iter()
        .filter_map(|(key, bytes)| Some((key, json!(ByteString(bytes?)))));
    let body = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {declaration: declared},
        "binaryData": binary.collect::<serde_json::Map<_, _>>(),
    });
    let api: Api<ConfigMap> = Api::namespaced(args.cluster.connect().await?, &namespace);
    // A manager of its own for each key: an apply takes away what the same manager does not name any more.
    let manager = format!("{OPERATOR}-{}", args.key);
    let parameters = PatchParams { dry_run: args.dry_run, ..PatchParams::apply(&manager).force() };
    api.patch(&name, &parameters, &Patch::Apply(&body))
        .await
        .map_err(|error| Refusal::of(&error))
        .with_context(|| format!("writing the ConfigMap {namespace}/{name}"))?;
    let what = if args.dry_run { "would be pushed" } else { "pushed" };
    let signed = if signature.is_some() { ", with its signature" } else { "" };
    print::out(&format!(
        "{} {} {what} to {namespace}/{name}[{}]{signed}\ndigest {digest}\n\
         an entry takes it with\n  plugin: {{configMap: {{namespace: {namespace}, name: {name}, key: {}}}}}\n\
         watch it take over: topoloom plugin list\n",
        described.name, described.version, args.key, args.key
    ));
    Ok(ExitCode::SUCCESS)
}
