//! `topoloom plugin pull`: an artifact of a registry as files, with what lies beside it, as a host would take them from a
//! folder.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use clap::Args;

use super::file::PluginFile;
use super::place::{PluginPlace, RegistryArgs};
use crate::cli::print;
use crate::delivery::oci::layout;
use crate::delivery::parcel::beside;
use crate::plugin::Digest;

/// Flags of `plugin pull`.
#[derive(Debug, Args)]
pub(in crate::cli) struct PullArgs {
    /// The plugin: oci://REGISTRY/NAME:TAG, oci://REGISTRY/NAME@sha256:DIGEST, or oci-layout:DIR:TAG
    #[arg(value_name = "REF")]
    reference: PluginPlace,
    /// The file to write; a signature and a declaration are written beside it (.sig, .yaml)
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    registry: RegistryArgs,
}

/// Pulls a plugin into a file.
pub(super) async fn run(args: PullArgs) -> anyhow::Result<ExitCode> {
    if let PluginPlace::File(path) = &args.reference {
        bail!("{} is a file already; a registry is oci://REGISTRY/NAME:TAG", path.display());
    }
    let file = PluginFile::find(&args.reference, &args.registry).await?;
    let name = args.output.file_name().context("-o names no file")?.to_string_lossy().into_owned();
    let (declaration, signature) = beside(&name);
    let digest = Digest::of(&file.bytes);
    let declared = file.declared.as_ref();
    let declared = declared.map(|declared| format!("name: {}\ndigest: {}\n", declared.name, declared.digest));
    let signed = file.signature()?.map(|found| found.bytes);
    let beside = [(declaration, declared.map(String::into_bytes)), (signature, signed)];
    for (name, content) in &beside {
        let path = args.output.with_file_name(name);
        // It would be taken for that of this plugin.
        ensure!(
            content.is_some() || !path.exists(),
            "{} is there, and {} brings none: it belongs to another plugin; remove it, or choose another -o",
            path.display(),
            args.reference
        );
    }
    write(&args.output, &file.bytes)?;
    let mut written = vec![args.output.display().to_string()];
    for (name, content) in &beside {
        if let Some(content) = content {
            let path = args.output.with_file_name(name);
            write(&path, content)?;
            written.push(path.display().to_string());
        }
    }
    let named = file.declared.as_ref().map(|declared| format!("{}, ", declared.name)).unwrap_or_default();
    let manifest = file.manifest.map(|manifest| format!("manifest {manifest}\n")).unwrap_or_default();
    print::out(&format!(
        "{named}{} bytes from {}, written to {}\ndigest {digest}\n{manifest}",
        file.bytes.len(),
        file.place,
        written.join(", ")
    ));
    Ok(ExitCode::SUCCESS)
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    layout::write(path, bytes).with_context(|| path.display().to_string())
}
