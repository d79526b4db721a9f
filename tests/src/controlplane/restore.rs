//! etcd saved and restored, as an operator does after a disaster.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, bail};

use super::ControlPlane;

/// All that etcd held at a moment.
#[derive(Debug)]
pub struct Snapshot {
    file: PathBuf,
    /// The last write in it.
    pub revision: u64,
}

/// Where the revision of a restored etcd begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revision {
    /// At the revision of the snapshot: lower than what clients have seen.
    AsSaved,
    /// Higher by this number, with all revisions before it marked as compacted, so that every old watch ends.
    RaisedBy(u64),
}

impl ControlPlane {
    /// Saves a snapshot of etcd.
    ///
    /// # Errors
    ///
    /// When etcd does not answer.
    pub async fn save(&self) -> Result<Snapshot> {
        let (bytes, revision) = (self.gateway.snapshot().await?, self.revision().await?);
        let file = self.folder().join(format!("snapshot-{revision}.db"));
        fs::write(&file, bytes).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(Snapshot { file, revision })
    }

    /// Kills both servers, restores etcd from the snapshot and starts both again: clients and kubeconfig files stay valid.
    ///
    /// # Errors
    ///
    /// When there is no `etcdutl`, as it is not among the programs of envtest, or a server does not start.
    pub async fn restore(&mut self, snapshot: &Snapshot, revision: Revision) -> Result<()> {
        // Killed, as in a disaster.
        drop(self.servers_mut().apiserver.take());
        let was_spoiled = self.servers().spoiled.load(Ordering::Relaxed);
        self.restore_etcd(snapshot, revision).await?;
        self.start_apiserver().await?;
        // The new apiserver has seen no other data.
        self.servers().spoiled.store(was_spoiled, Ordering::Relaxed);
        Ok(())
    }

    /// Kills etcd, restores it from the snapshot and starts it again, while the apiserver continues to run. etcd
    /// advises against that; with a raised revision the apiserver's caches notice the restore.
    ///
    /// # Errors
    ///
    /// When there is no `etcdutl`, as it is not among the programs of envtest, or etcd does not start.
    pub async fn restore_etcd(&mut self, snapshot: &Snapshot, revision: Revision) -> Result<()> {
        let servers = self.servers_mut();
        servers.spoiled.store(true, Ordering::Relaxed);
        drop(servers.etcd.take());
        let launch = &servers.launch;
        let folder = launch.etcd_folder();
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        let mut command = tokio::process::Command::from(launch.programs.command("etcdutl"));
        command.args(["snapshot", "restore"]).arg(&snapshot.file).arg(format!("--data-dir={}", folder.display()));
        let peer = launch.etcd_peer_url();
        command.args(["--name=etcd".to_owned(), format!("--initial-cluster=etcd={peer}")]);
        command.arg(format!("--initial-advertise-peer-urls={peer}"));
        if let Revision::RaisedBy(by) = revision {
            command.args([format!("--bump-revision={by}"), "--mark-compacted".to_owned()]);
        }
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
        let output = output.context("etcdutl cannot be started")?;
        if !output.status.success() {
            bail!("etcdutl ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        }
        let (etcd, gateway) = launch.etcd().await?;
        servers.etcd = Some(etcd);
        self.gateway = gateway;
        Ok(())
    }
}
