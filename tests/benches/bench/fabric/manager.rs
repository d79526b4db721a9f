//! A simulated fabric manager in a process of its own, so that its work is not counted as ours.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// The token that the manager accepts.
pub(crate) const TOKEN: &str = "bench-token-51d0c2";

/// A running manager; it stops when this value is dropped.
pub(crate) struct Manager {
    _child: Child,
    pub(crate) folder: TempDir,
    pub(crate) known: Known,
}

/// What a client has to know about a manager and the cluster beside it.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) ufm: String,
    /// Where the fabric document is served, `/v1/fabric` left out.
    pub(crate) document: String,
    /// The authority that signed the certificate of both servers, as PEM.
    pub(crate) authority: String,
    /// The Nodes: one for every host.
    pub(crate) nodes: Vec<String>,
}

/// How JSON is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// As UFM does.
    Indented,
    /// Without a space, where only the content matters.
    Compact,
}

impl Manager {
    /// Starts a manager of this many hosts with eight rails in three tiers.
    pub(crate) async fn start(hosts: u32, layout: Layout) -> Result<Self> {
        let units = hosts / 32;
        let shape = format!(
            "units={units},hosts-per-unit=32,rails=8,pods={},spines=128,cores={}",
            units.div_ceil(16),
            units * 4
        );
        eprintln!("bench: starting a fabric manager with {hosts} hosts");
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(topoloom_tests::host::binary()?);
        command.args(["fabric", "simulate", "--document", "127.0.0.1:0", "--shape", &shape, "--token", TOKEN]);
        if layout == Layout::Indented {
            command.arg("--indented");
        }
        command.arg("--write").arg(folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("standard output is piped")?).lines();
        let (mut ufm, mut document) = (None, None);
        while let Some(line) = lines.next_line().await? {
            let address = || line.split_whitespace().last().map(str::to_owned);
            match line.split_whitespace().next() {
                Some("UFM") => ufm = address(),
                Some("fabric") if line.starts_with("fabric document") => document = address(),
                // The last line that it prints: it has written its files by then.
                Some("Ctrl-C") => {
                    let (ufm, document) = ufm.zip(document).context("the manager does not say where it is")?;
                    let known = Known::read(ufm, document.trim_end_matches("/v1/fabric").to_owned(), folder.path())?;
                    let secret = secret(folder.path());
                    std::fs::create_dir_all(&secret)?;
                    std::fs::write(secret.join("token"), TOKEN)?;
                    return Ok(Self { _child: child, folder, known });
                }
                _ => {}
            }
        }
        bail!("the fabric manager ended at once")
    }
}

/// The folder with the credential, inside the folder of a manager; it stands for a Secret.
pub(crate) fn secret(folder: &Path) -> std::path::PathBuf {
    folder.join("secret")
}

impl Known {
    /// Reads the files that the manager wrote into its folder.
    pub(crate) fn read(ufm: String, document: String, folder: &Path) -> Result<Self> {
        let authority = std::fs::read_to_string(folder.join("ca.crt"))?;
        let list = std::fs::read_to_string(folder.join("nodes.yaml"))?;
        let name = |line: &str| Some(line.split_once("name: \"")?.1.split_once('"')?.0.to_owned());
        let nodes: Vec<String> = list.lines().filter_map(name).collect();
        anyhow::ensure!(!nodes.is_empty(), "the manager wrote no Nodes");
        Ok(Self { ufm, document, authority, nodes })
    }
}
