//! A Kubernetes control plane for one test: an etcd and a kube-apiserver that no other test uses while it runs.
//!
//! [`ControlPlane::start`] starts one, [`ControlPlane::create_nodes`] and the like fill it, and [`ControlPlane::stop`] ends it.
//!
//! It lives in a temporary folder and on free ports of 127.0.0.1, and it ends with the test, also with one that panics or
//! is killed. [`ControlPlane::shared`] is one that other tests of the process had before: it ends with the process.
//! [`ControlPlane::several_shared`] are several of them at the same time, each of which a test has to stop before another test
//! gets it.
//! A new one begins with data that was made once ([`Builder::content`]), so that an apiserver has not to write it again.
//! `TOPOLOOM_KEEP=1` keeps the folder with all logs, and nothing is shared. How many are in use in a
//! process at a time follows from the machine ([`at_once`]).

mod access;
mod binary;
mod etcd;
mod eventually;
mod kept;
mod launch;
mod objects;
mod planes;
mod process;
mod requests;
mod restore;
mod scheduler;
mod shared;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

pub use access::{KUBELET_CLIENT, client_from, clients, plain_http};
pub use binary::{Programs, find_or_build};
pub use etcd::{Write, WriteKind};
pub use eventually::eventually;
pub use kept::Content;
pub use launch::Builder;
pub(crate) use launch::free_ports;
pub use planes::{AT_ONCE, at_once};
pub use requests::{Request, Requests};
pub use restore::{Revision, Snapshot};
pub use scheduler::Scheduler;
pub use shared::{Audit, Wanted};

use etcd::Gateway;
use launch::Launch;
use planes::Turn;
use process::Server;
use shared::{Baseline, GivenBack};

/// The apiserver needs about 3 s to end.
const APISERVER_DEADLINE: Duration = Duration::from_secs(10);

/// The controllers by which workloads become pods, and pods leave nodes, for [`ControlPlane::start_controllers`].
pub const WORKLOADS: [&str; 6] = [
    "deployment-controller",
    "replicaset-controller",
    "job-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "disruption-controller",
];

/// The controllers that take pods away from nodes, and those that count or remove what is left of them. They run in every test of
/// lending in which something goes wrong.
pub const KEEPERS: [&str; 6] = [
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "pod-garbage-collector-controller",
    "garbage-collector-controller",
    "disruption-controller",
    "job-controller",
];

/// Times of node-lifecycle that fit the shortest lease of a virtual node, 4 s: a node whose lease is not renewed is Unknown after
/// 8 s. It taints as many nodes as there are, not one in ten seconds.
pub const SCALED: [&str; 3] = ["--node-monitor-period=1s", "--node-monitor-grace-period=8s", "--node-eviction-rate=10"];

/// A running control plane. Dropping it kills the servers and removes the folder, as [`stop`](Self::stop) does. Both return a
/// [shared](Self::shared) one.
pub struct ControlPlane {
    /// Until it is stopped or returned.
    servers: Option<Servers>,
    client: kube::Client,
    gateway: Gateway,
    /// The first write that belongs to this test.
    first_revision: u64,
    /// Where the part of the audit log begins that belongs to this test.
    audited_from: u64,
    given_back: GivenBack,
    _turn: Turn,
}

/// The part that outlives the test and its runtime if the control plane is shared.
struct Servers {
    // The fields are dropped in this order.
    controllers: Option<Server>,
    apiserver: Option<Server>,
    etcd: Option<Server>,
    launch: Launch,
    folder: TempDir,
    /// The state with which the next test begins, if the control plane is shared.
    baseline: Option<Baseline>,
    /// Whether a test changed the servers in a way that no clean-up of the data reverts. A server that was stopped and
    /// started again is as good as before.
    spoiled: AtomicBool,
}

impl std::fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Servers { apiserver, etcd, launch, .. } = self.servers();
        f.debug_struct("ControlPlane")
            .field("launch", launch)
            .field("servers", &(apiserver, etcd))
            .finish_non_exhaustive()
    }
}

impl ControlPlane {
    /// A control plane with other settings than the default.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts one with the default settings and waits until it is ready.
    ///
    /// # Errors
    ///
    /// Names the program that did not start, with the end of its log.
    pub async fn start() -> Result<Self> {
        Builder::default().start().await
    }

    /// Starts several, for a test that needs them at the same time: a test must not request one after the other, since
    /// two tests that do so can wait for each other.
    ///
    /// # Errors
    ///
    /// Names the program that did not start, with the end of its log.
    pub async fn several<const N: usize>(builders: [Builder; N]) -> Result<[Self; N]> {
        let turn = planes::take(N).await?;
        let planes = builders.into_iter().map(|builder| builder.start_with(turn.clone()));
        let planes = futures::future::try_join_all(planes).await?;
        planes.try_into().map_err(|_| anyhow::anyhow!("there are as many as builders"))
    }

    fn servers(&self) -> &Servers {
        self.servers.as_ref().expect("they are there until the end")
    }

    fn servers_mut(&mut self) -> &mut Servers {
        self.servers.as_mut().expect("they are there until the end")
    }

    fn programs(&self) -> Programs {
        self.servers().launch.programs.clone()
    }

    /// A client with all rights.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// The kubeconfig file with all rights.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder().join("kubeconfig")
    }

    /// The folder with the data, the logs (`etcd.log`, `kube-apiserver.log`) and the kubeconfig files.
    pub fn folder(&self) -> &Path {
        self.servers().folder.path()
    }

    /// The address of the apiserver.
    pub fn server_url(&self) -> String {
        self.servers().launch.server_url()
    }

    /// The serving certificate of the apiserver, in PEM.
    pub fn certificate(&self) -> PathBuf {
        self.servers().launch.certificate()
    }

    /// The ids of the processes that run, for a test that disturbs them: the control plane is not shared any more.
    pub fn process_ids(&self) -> Vec<u32> {
        let servers = self.servers();
        servers.spoiled.store(true, Ordering::Relaxed);
        servers.ids()
    }

    /// The answer to a GET, as text.
    ///
    /// # Errors
    ///
    /// When there is none, or a refusal.
    pub async fn get(&self, path: &str) -> Result<String> {
        let request = http::Request::get(path).body(Vec::new()).context("this is no path")?;
        self.client().request_text(request).await.with_context(|| format!("no answer to GET {path}"))
    }

    /// How often the apiserver answered which request since it started. With a [shared](Self::shared) one, compare with
    /// the counts at the beginning of the test.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub async fn requests(&self) -> Result<Requests> {
        Ok(Requests::parse(&self.get("/metrics").await?))
    }

    /// Every write under a prefix (`/registry/minions/`, `/registry/<group>/<plural>/`) of this test, in commit order.
    ///
    /// # Errors
    ///
    /// When etcd does not answer, or when the history was compacted: then use [`writes_since`](Self::writes_since).
    pub async fn writes_in_order(&self, prefix: &str) -> Result<Vec<Write>> {
        self.gateway.writes(prefix, self.first_revision).await
    }

    /// As [`writes_in_order`](Self::writes_in_order), from a revision on.
    ///
    /// # Errors
    ///
    /// When etcd does not answer, or when the revision is older than the last compaction.
    pub async fn writes_since(&self, prefix: &str, revision: u64) -> Result<Vec<Write>> {
        self.gateway.writes(prefix, revision).await
    }

    /// The revision of the last write.
    ///
    /// # Errors
    ///
    /// When etcd does not answer.
    pub async fn revision(&self) -> Result<u64> {
        self.gateway.revision().await
    }

    /// Compacts the history before now and returns the present revision. The apiserver remembers the last events by
    /// itself: a watch from an older revision fails with 410 only after it was stopped and started again.
    ///
    /// # Errors
    ///
    /// When etcd does not answer or was compacted at this very revision already.
    pub async fn compact(&self) -> Result<u64> {
        self.gateway.compact().await
    }

    /// The audit log of this test (one [event](https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/) per
    /// answer).
    ///
    /// # Errors
    ///
    /// When it was not requested with [`Builder::audit`] or [`Audit::On`].
    pub fn audit_log(&self) -> Result<Vec<Value>> {
        let parsed = |line: io::Result<String>| -> Result<Value> {
            let line = line.context("the audit log cannot be read")?;
            serde_json::from_str(&line).context("the audit log is not JSON")
        };
        self.audit_lines()?.map(parsed).collect()
    }

    /// The same line by line, for a log that is long.
    ///
    /// # Errors
    ///
    /// When there is no audit log.
    pub fn audit_lines(&self) -> Result<io::Lines<BufReader<File>>> {
        let mut log = File::open(self.servers().launch.audit_log()).context("there is no audit log")?;
        log.seek(SeekFrom::Start(self.audited_from)).context("the audit log cannot be read")?;
        Ok(BufReader::new(log).lines())
    }

    /// Runs kubectl with all rights and gives its output.
    ///
    /// # Errors
    ///
    /// With what it wrote to standard error, when it fails.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.kubectl_with(args, "").await
    }

    /// The same with this text as its input.
    ///
    /// # Errors
    ///
    /// With what it wrote to standard error, when it fails.
    pub async fn kubectl_with(&self, args: &[&str], input: &str) -> Result<String> {
        let mut command = self.kubectl_command(args);
        command.stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() });
        let mut kubectl = command.spawn().context("kubectl cannot be started")?;
        let stdin = kubectl.stdin.take();
        let write = async {
            if let Some(mut stdin) = stdin {
                // One that ends early reads no more.
                _ = stdin.write_all(input.as_bytes()).await;
            }
        };
        let ((), output) = tokio::join!(write, kubectl.wait_with_output());
        let output = output.context("kubectl does not end")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("kubectl {} ended with {}: {}", args.join(" "), output.status, said.trim());
        }
        String::from_utf8(output.stdout).context("the output of kubectl is not text")
    }

    /// kubectl with all rights, for a test that runs it by itself: its output is piped, and it ends with the process that is made
    /// of it.
    pub fn kubectl_command(&self, args: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::from(self.servers().launch.programs.command("kubectl"));
        command.args(args).current_dir(self.folder()).stdin(Stdio::null()).kill_on_drop(true);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
            .env("KUBECONFIG", self.kubeconfig())
            .env("KUBECACHEDIR", self.folder().join("kubectl"))
            .env("GOGC", "off");
        command
    }

    /// Ends the apiserver; etcd stays.
    ///
    /// # Errors
    ///
    /// When the process cannot be signalled.
    pub async fn stop_apiserver(&mut self) -> Result<()> {
        match self.servers_mut().apiserver.take() {
            Some(server) => server.stop(APISERVER_DEADLINE).await,
            None => Ok(()),
        }
    }

    /// Kills the apiserver, as when its machine breaks; etcd stays.
    pub fn kill_apiserver(&mut self) {
        drop(self.servers_mut().apiserver.take());
    }

    /// Stops etcd (SIGSTOP), or lets it continue (SIGCONT): after that it is as good as before.
    ///
    /// # Errors
    ///
    /// When it does not run.
    pub fn signal_etcd(&self, signal: Signal) -> Result<()> {
        self.servers().etcd.as_ref().context("etcd does not run")?.signal(signal)
    }

    /// The same with the apiserver.
    ///
    /// # Errors
    ///
    /// When it does not run.
    pub fn signal_apiserver(&self, signal: Signal) -> Result<()> {
        self.servers().apiserver.as_ref().context("the apiserver does not run")?.signal(signal)
    }

    /// Changes a stored object behind the back of the apiserver, in a way that no client of it could.
    ///
    /// # Errors
    ///
    /// When etcd does not answer, or has no such key.
    pub async fn edit(&self, key: &str, change: impl FnOnce(&mut Value)) -> Result<()> {
        self.gateway.edit(key, change).await
    }

    /// Starts the apiserver again, on the same port, with the same certificate and data, and waits until it is ready.
    /// Clients and kubeconfig files stay valid; a running one is left alone.
    ///
    /// # Errors
    ///
    /// When it does not become ready.
    pub async fn start_apiserver(&mut self) -> Result<()> {
        let servers = self.servers_mut();
        if servers.apiserver.is_none() {
            let (server, _) = servers.launch.apiserver().await?;
            servers.apiserver = Some(server);
        }
        Ok(())
    }

    /// Starts controllers of Kubernetes, each with the user that it has in a cluster, by the names that
    /// kube-controller-manager has for them. The garbage collector knows the definitions that exist by then; it looks
    /// for later ones every half minute. They end with the test: another test that gets this control plane has none.
    ///
    /// # Errors
    ///
    /// When the program is not there, as it is not among those of envtest.
    pub fn start_controllers(&mut self, names: &[&str]) -> Result<()> {
        self.start_controllers_with(names, &[])
    }

    /// The same with more flags of kube-controller-manager, such as [`SCALED`].
    ///
    /// # Errors
    ///
    /// When the program is not there, as it is not among those of envtest.
    pub fn start_controllers_with(&mut self, names: &[&str], flags: &[&str]) -> Result<()> {
        let servers = self.servers_mut();
        servers.controllers = Some(servers.launch.controllers(names, flags)?);
        Ok(())
    }

    /// Kills the servers and removes the folder; a shared one is returned instead. The apiserver would need seconds for
    /// an orderly end, and the folder with all that it would leave is removed anyway.
    ///
    /// # Errors
    ///
    /// When the folder cannot be removed.
    pub async fn stop(mut self) -> Result<()> {
        if self.servers().is_shared() {
            self.given_back = GivenBack::WithTheValue;
            return Ok(());
        }
        let Some(Servers { controllers, apiserver, etcd, folder, launch, .. }) = self.servers.take() else {
            return Ok(());
        };
        drop((controllers, apiserver, etcd));
        if launch.keep {
            return Ok(());
        }
        folder.close().context("the folder of the control plane cannot be removed")
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if let Some(servers) = self.servers.take()
            && servers.is_shared()
            && self.given_back == GivenBack::WithTheValue
            && !std::thread::panicking()
        {
            shared::give_back(servers);
        }
    }
}

impl Servers {
    fn ids(&self) -> Vec<u32> {
        self.apiserver.iter().chain(&self.etcd).chain(&self.controllers).map(Server::id).collect()
    }

    fn is_shared(&self) -> bool {
        let run = self.apiserver.is_some() && self.etcd.is_some();
        self.baseline.is_some() && run && !self.spoiled.load(Ordering::Relaxed)
    }
}
