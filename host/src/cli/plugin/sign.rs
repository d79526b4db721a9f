//! `topoloom plugin sign`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use super::file::{self, PluginFile};
use super::sandbox::{ProfileArg, Sandbox};
use crate::cli::print;
use crate::plugin::Digest;
use crate::plugin::trust::SigningKey;

/// Flags of `plugin sign`.
#[derive(Debug, Args)]
#[command(disable_version_flag = true)]
pub(in crate::cli) struct SignArgs {
    /// The plugin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The private key, as `openssl genpkey -algorithm ed25519` writes it
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The name that is signed; default: the plugin's own name
    #[arg(id = "plugin_name", long = "name", value_name = "NAME")]
    name: Option<String>,
    /// The version that is signed; default: the plugin's own version
    #[arg(id = "plugin_version", long = "version", value_name = "VERSION")]
    version: Option<String>,
    /// The limits of the call that reads the plugin's name and version
    #[arg(long, value_enum, default_value_t = ProfileArg::Standard)]
    profile: ProfileArg,
}

/// Writes the signature beside the plugin.
pub(super) async fn run(args: SignArgs) -> anyhow::Result<ExitCode> {
    let key = SigningKey::load(&args.key)?;
    let plugin = PluginFile::read(&args.file)?;
    let (name, version) = match (args.name, args.version) {
        (Some(name), Some(version)) => (name, version),
        (name, version) => {
            let sandbox = Sandbox::start("sign")?;
            let described = sandbox.describe(&plugin.bytes, args.profile.limits()).await;
            let described = described.with_context(|| {
                format!("{} does not declare its name and version; give --name and --version", args.file.display())
            })?;
            (name.unwrap_or(described.name), version.unwrap_or(described.version))
        }
    };
    let digest = Digest::of(&plugin.bytes);
    let signature = key.sign(&name, &version, digest)?;
    let path = file::signature_path(&args.file);
    std::fs::write(&path, signature).with_context(|| path.display().to_string())?;
    print::out(&format!("{}: {name} {version}, {digest}, signed by the key {}\n", path.display(), key.id()));
    Ok(ExitCode::SUCCESS)
}
