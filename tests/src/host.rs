//! The real binary, run as an operator runs it.
//!
//! Owns the process and its log. [`Host::stop`] ends it by SIGTERM, dropping the value by SIGKILL. When a test fails,
//! the end of its log is printed.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use crate::controlplane::{eventually, plain_http};

/// How long a host may take from its start until it is ready: a debug build compiles its plugins slowly.
const READY: Duration = Duration::from_secs(60);
/// How long a host may take to stop.
const STOP: Duration = Duration::from_secs(30);
/// Short, so that a test that kills its host does not wait long for the lease; but a host must keep its lease when the
/// machine stands still for seconds. Each renewal costs the servers more than what most hosts do meanwhile.
const LEASES: [&str; 3] =
    ["--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=1s"];
/// As the chart starts the first Deployment: the bottom-up syncer has one of its own, with other rights.
const CONTROLLERS: [&str; 1] = ["--controllers=*,-bottomup-syncer"];
/// Log lines that are printed when a test fails.
const TAIL: usize = 60;

/// A running host.
pub struct Host {
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    /// Reads the log; ends with the value.
    _reader: JoinSet<()>,
    admin: String,
    health: Option<String>,
    metrics: Option<String>,
    http: reqwest::Client,
}

/// One of the servers of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// For people on the same machine; always there.
    Admin,
    /// For the probes, with `--enable-healthz`.
    Health,
    /// For Prometheus, with `--enable-metrics`.
    Metrics,
}

/// The binary that the tests run.
///
/// # Errors
/// When it was not built.
pub fn binary() -> Result<PathBuf> {
    let here = std::env::current_exe()?;
    // target/PROFILE/deps/e2e-HASH or target/PROFILE/demo
    let folder = here.ancestors().skip(1).find(|folder| !folder.ends_with("deps"));
    let binary = folder.map(|folder| folder.join("topoloom")).filter(|binary| binary.is_file());
    binary.context("the binary topoloom is not built: run `cargo build -p topoloom`")
}

impl Host {
    /// Starts `topoloom run`, alone, and waits until it is ready and leads.
    ///
    /// # Errors
    /// When it ends or does not become ready; with its log.
    pub async fn start(kubeconfig: &Path, arguments: &[&str]) -> Result<Self> {
        let host = Self::launch(kubeconfig, arguments).await?;
        // A host that still waits for the lease of a killed host is ready, and does nothing yet.
        eventually("the host is ready and leads", READY, async || {
            let ready = host.readyz().await.map_err(|error| error.to_string())?;
            if ready.contains("election hypernode: leads") { Ok(()) } else { Err(ready) }
        })
        .await;
        Ok(host)
    }

    /// Waits until it is ready.
    ///
    /// # Panics
    /// When it does not become ready, with its answer.
    pub async fn until_ready(&self) {
        eventually("the host is ready", READY, async || self.readyz().await.map_err(|error| error.to_string())).await;
    }

    /// Starts `topoloom run` and waits only for its first log line. It logs at the level that tests need, unless
    /// `arguments` set another.
    ///
    /// # Errors
    /// When it ends before that.
    pub async fn launch(kubeconfig: &Path, arguments: &[&str]) -> Result<Self> {
        Self::launch_as("host", kubeconfig, arguments).await
    }

    /// The same as one of several replicas: `instance` is in its lease and in its user agent.
    ///
    /// # Errors
    /// When it ends before its first line.
    pub async fn launch_as(instance: &str, kubeconfig: &Path, arguments: &[&str]) -> Result<Self> {
        Self::launch_with(instance, kubeconfig, arguments, &[]).await
    }

    /// The same with more environment variables.
    ///
    /// # Errors
    /// When it ends before its first line.
    pub async fn launch_with(
        instance: &str,
        kubeconfig: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        let mut command = Command::new(binary()?);
        command.arg("run").arg("--kubeconfig").arg(kubeconfig);
        command.env("HOSTNAME", instance).envs(environment.iter().copied());
        Self::spawn(command, arguments).await
    }

    /// The same with a command of the caller's, to which only arguments are added.
    ///
    /// # Errors
    /// When it ends before its first log line.
    pub async fn spawn(mut command: Command, arguments: &[&str]) -> Result<Self> {
        let elects = arguments.iter().any(|argument| argument.starts_with("--leader-elect"));
        let leases: &[&str] = if elects { &[] } else { &LEASES };
        let is_selection = |argument: &str| argument.starts_with("--controllers");
        let selects = arguments.iter().any(|argument| is_selection(argument))
            || command.as_std().get_args().any(|argument| argument.to_str().is_some_and(is_selection));
        let controllers: &[&str] = if selects { &[] } else { &CONTROLLERS };
        let log: &[&str] = if arguments.contains(&"--log") { &[] } else { &["--log", "info,topoloom=debug"] };
        let mut child = command
            .args(["--admin-address", "127.0.0.1:0", "--log-format", "json"])
            .args(log)
            .args(leases)
            .args(controllers)
            .args(arguments)
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let log = Arc::new(Mutex::new(Vec::new()));
        let mut lines = BufReader::new(child.stderr.take().context("standard error is piped")?).lines();
        let (mut admin, mut health, mut metrics) = (None, None, None);
        while let Some(line) = lines.next_line().await? {
            admin = field(&line, "admin");
            (health, metrics) = (field(&line, "health"), field(&line, "metrics"));
            log.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            if admin.is_some() {
                break;
            }
        }
        let Some(admin) = admin else {
            bail!("the host ended at once: {}", log.lock().unwrap_or_else(PoisonError::into_inner).join("\n"));
        };
        let sink = Arc::clone(&log);
        let mut reader = JoinSet::new();
        reader.spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                sink.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        let http = plain_http().build().context("no HTTP client for the host")?;
        Ok(Self { child, log, _reader: reader, admin, health, metrics, http })
    }

    /// Every log line so far.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The answer of the admin server.
    ///
    /// # Errors
    /// When there is none, or another status than 200.
    pub async fn get(&self, path: &str) -> Result<String> {
        let answer = self.http.get(format!("http://{}{path}", self.admin)).send().await?;
        Ok(answer.error_for_status()?.text().await?)
    }

    /// `/readyz`.
    ///
    /// # Errors
    /// When it is not ready.
    pub async fn readyz(&self) -> Result<String> {
        let answer = self.http.get(format!("http://{}/readyz", self.admin)).send().await?;
        let (status, text) = (answer.status(), answer.text().await?);
        if status.is_success() { Ok(text) } else { bail!("{status}: {text}") }
    }

    /// Where its admin server listens.
    pub fn admin(&self) -> &str {
        &self.admin
    }

    /// Where one of its servers listens.
    ///
    /// # Errors
    /// When it was started without that server.
    pub fn address(&self, port: Port) -> Result<&str> {
        let address = match port {
            Port::Admin => Some(&self.admin),
            Port::Health => self.health.as_ref(),
            Port::Metrics => self.metrics.as_ref(),
        };
        address.map(String::as_str).with_context(|| format!("the host has no server for {port:?}"))
    }

    /// The status and the text that one of its servers answers.
    ///
    /// # Errors
    /// When there is no such server, or no answer.
    pub async fn ask(&self, port: Port, path: &str) -> Result<(u16, String)> {
        let answer = self.http.get(format!("http://{}{path}", self.address(port)?)).send().await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }

    /// Where its extender listens, once it does.
    ///
    /// # Panics
    /// When it does not serve in time.
    pub async fn extender(&self) -> String {
        eventually("the extender serves", READY, async || {
            let log = self.log();
            let line = log.iter().rev().find(|line| line.contains("the extender serves"));
            line.and_then(|line| field(line, "address")).ok_or_else(|| log.last().cloned().unwrap_or_default())
        })
        .await
    }

    /// Its process id.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Sends SIGTERM, then waits for its end.
    ///
    /// # Errors
    /// When it does not end, or with another code than 0.
    ///
    /// # Panics
    /// When its last line does not say that no task is left.
    pub async fn stop(mut self) -> Result<()> {
        self.signal(Signal::TERM)?;
        let status = tokio::time::timeout(STOP, self.child.wait()).await.context("the host does not stop")??;
        if !status.success() {
            let log = self.log();
            let tail: Vec<&str> = log.iter().rev().take(TAIL).rev().map(String::as_str).collect();
            bail!("the host stopped with {status}: {}", tail.join("\n"));
        }
        eventually("its last line says that no task is left", STOP, async || {
            let last = self.log().pop().unwrap_or_default();
            let is_none = ["\"tasks\":0", "tasks=0"].iter().any(|word| last.contains(word));
            if last.contains("topoloom has stopped") && is_none { Ok(()) } else { Err(last) }
        })
        .await;
        Ok(())
    }

    /// Sends SIGKILL, then waits for its end.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub async fn kill(mut self) -> Result<()> {
        self.child.kill().await?;
        Ok(())
    }

    /// Whether it has ended.
    ///
    /// # Errors
    /// When the system does not say whether it has ended.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Waits for its end, by any cause.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn ended(&mut self) -> Result<std::process::ExitStatus> {
        let ended = tokio::time::timeout(STOP, self.child.wait()).await;
        ended.with_context(|| format!("the host does not end: {:#?}", self.log()))?.context("waiting for it")
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When it has ended already.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let id = self.child.id().context("the host has ended already")?;
        let pid = Pid::from_raw(i32::try_from(id)?).context("a process id is above 0")?;
        Ok(kill_process(pid, signal)?)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            eprintln!("--- the end of the host's log");
            log.iter().rev().take(TAIL).rev().for_each(|line| eprintln!("{line}"));
        }
    }
}

/// One field of a JSON log line.
fn field(line: &str, name: &str) -> Option<String> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    Some(line.get(name)?.as_str()?.to_owned())
}
