//! Starting the two servers: settings, ports, arguments, readiness.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::access::{
    ClientFiles, client_from, random_bytes, write_admin_token, write_certificate, write_clients, write_kubeconfig,
};
use super::binary::{Programs, find_or_build};
use super::etcd::Gateway;
use super::kept::{self, Content, Data};
use super::planes::{self, Turn};
use super::process::{MEMORY, Server};
use super::shared::GivenBack;
use super::{ControlPlane, Servers};

const STARTS: usize = 4;
const POLL: Duration = Duration::from_millis(50);
const ETCD_TIMEOUT: Duration = Duration::from_secs(30);
const APISERVER_TIMEOUT: Duration = Duration::from_secs(120);
/// Below the ports that the kernel gives to outgoing connections: a client that tries to reach a stopped server on one of
/// those can be connected to itself, and then the server finds its port taken.
const PORTS: std::ops::Range<u16> = 10_000..32_000;
const PORT_TAKEN: &str = "address already in use";
const CERTIFICATES: &str = "certificates";
/// The audit log is one file, however long it becomes.
const AUDIT_LOG_MEGABYTES: u32 = 10_000;
/// The answers to reads are long, and a test needs to know only that there were reads.
const AUDIT_POLICY: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
"omitManagedFields": true, "rules": [
{"level": "RequestResponse", "verbs": ["create", "update", "patch", "delete", "deletecollection"]}, {"level": "Metadata"}]}"#;

/// Settings of a control plane.
#[derive(Debug, Clone, Default)]
pub struct Builder {
    audit: bool,
    apiserver_args: Vec<String>,
    memory: Option<String>,
    content: Content,
}

impl Builder {
    /// Whether every request is logged, for [`ControlPlane::audit_log`]: of writes also what was sent and what was answered.
    #[must_use]
    pub fn audit(mut self, audit: bool) -> Self {
        self.audit = audit;
        self
    }

    /// One more argument of kube-apiserver, after the others: `--name=value`.
    #[must_use]
    pub fn apiserver_arg(mut self, arg: impl Into<String>) -> Self {
        self.apiserver_args.push(arg.into());
        self
    }

    /// The memory of each server from which on it collects garbage, as Go writes it (`4GiB`): with tens of thousands of objects,
    /// what is usual would be too little, and a server would do nothing else.
    #[must_use]
    pub fn memory(mut self, size: impl Into<String>) -> Self {
        self.memory = Some(size.into());
        self
    }

    /// What it has before the test.
    #[must_use]
    pub fn content(mut self, content: Content) -> Self {
        self.content = content;
        self
    }

    /// Starts it and waits until it is ready. Before the start it waits while this process uses as many as the machine
    /// can run.
    ///
    /// # Errors
    ///
    /// Names the program that did not start, with the end of its log.
    pub async fn start(self) -> Result<ControlPlane> {
        let turn = planes::take(1).await?;
        self.start_with(turn).await
    }

    /// The same with a turn that the caller has already.
    pub(super) async fn start_with(self, turn: Turn) -> Result<ControlPlane> {
        let programs = tokio::task::spawn_blocking(find_or_build).await.context("the build panicked")??;
        let data = kept::find_or_make(&programs, &self.content, &turn).await?;
        let plane = self.start_on(data.as_deref(), turn).await?;
        match data {
            None => plane.add(&self.content).await?,
            Some(_) => plane.until_all_listed(&self.content.definitions).await?,
        }
        Ok(plane)
    }

    /// The same on this data, or on nothing and without the content.
    pub(super) async fn start_on(&self, data: Option<&Data>, turn: Turn) -> Result<ControlPlane> {
        let programs = tokio::task::spawn_blocking(find_or_build).await.context("the build panicked")??;
        let keep = keep();
        let mut failures = 0;
        loop {
            let mut folder = tempfile::Builder::new().prefix("topoloom-controlplane-").tempdir()?;
            if keep {
                folder.disable_cleanup(true);
                eprintln!("controlplane: keeping {}", folder.path().display());
            }
            match Launch::new(programs.clone(), self, &folder, keep)?.run(data).await {
                Ok((launch, etcd, gateway, apiserver, client)) => {
                    let (apiserver, baseline, spoiled) = (Some(apiserver), None, AtomicBool::new(false));
                    let etcd = Some(etcd);
                    let servers =
                        Some(Servers { controllers: None, apiserver, etcd, launch, folder, baseline, spoiled });
                    let (first_revision, audited_from, given_back) = (1, 0, GivenBack::WithTheValue);
                    return Ok(ControlPlane {
                        servers,
                        client,
                        gateway,
                        first_revision,
                        audited_from,
                        given_back,
                        _turn: turn,
                    });
                }
                // Between the choice of a port and its use another process may take it.
                Err(error) if failures < STARTS && format!("{error:#}").contains(PORT_TAKEN) => failures += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether the folders with all logs are kept.
pub(super) fn keep() -> bool {
    std::env::var_os("TOPOLOOM_KEEP").is_some_and(|value| value == "1")
}

/// What is needed to start a server again.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) programs: Programs,
    pub(super) keep: bool,
    folder: PathBuf,
    token: String,
    clients: ClientFiles,
    pub(super) audit: bool,
    apiserver_args: Vec<String>,
    memory: String,
    apiserver_port: u16,
    etcd_port: u16,
    etcd_peer_port: u16,
}

impl Launch {
    fn new(programs: Programs, builder: &Builder, folder: &TempDir, keep: bool) -> Result<Self> {
        let folder = folder.path().to_owned();
        let token = write_admin_token(&folder.join("tokens.csv"))?;
        fs::write(folder.join("audit-policy.yaml"), AUDIT_POLICY).context("cannot write the audit policy")?;
        let [apiserver_port, etcd_port, etcd_peer_port] = free_ports()?;
        let Builder { audit, apiserver_args, memory, content: _ } = builder.clone();
        let certificates = folder.join(CERTIFICATES);
        fs::create_dir_all(&certificates).context("cannot create a folder")?;
        let clients = write_clients(&certificates)?;
        let launch = Self {
            programs,
            keep,
            folder,
            token,
            clients,
            audit,
            apiserver_args,
            memory: memory.unwrap_or_else(|| MEMORY.to_owned()),
            apiserver_port,
            etcd_port,
            etcd_peer_port,
        };
        write_certificate(&launch.certificate(), &launch.key())?;
        write_kubeconfig(&launch.kubeconfig(), &launch.server_url(), &launch.certificate(), "default", &launch.token)?;
        Ok(launch)
    }

    pub(super) fn server_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.apiserver_port)
    }

    pub(super) fn certificate(&self) -> PathBuf {
        self.folder.join(CERTIFICATES).join("apiserver.crt")
    }

    /// The key of that certificate. It signs the tokens of ServiceAccounts too.
    fn key(&self) -> PathBuf {
        self.folder.join(CERTIFICATES).join("apiserver.key")
    }

    pub(super) fn audit_log(&self) -> PathBuf {
        self.folder.join("audit.log")
    }

    /// The file with all rights.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    pub(super) fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_port)
    }

    async fn run(self, data: Option<&Data>) -> Result<(Self, Server, Gateway, Server, kube::Client)> {
        if let Some(data) = data {
            data.write(&self.etcd_folder())?;
        }
        let (etcd, gateway) = self.etcd().await?;
        if data.is_some() {
            gateway.renew().await?;
        }
        let (apiserver, client) = self.apiserver().await?;
        Ok((self, etcd, gateway, apiserver, client))
    }

    /// Where the data of etcd is.
    pub(super) fn etcd_folder(&self) -> PathBuf {
        self.folder.join("etcd")
    }

    pub(super) fn etcd_peer_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_peer_port)
    }

    /// Starts etcd over the data that is there.
    pub(super) async fn etcd(&self) -> Result<(Server, Gateway)> {
        let (url, peer) = (self.etcd_url(), self.etcd_peer_url());
        let args = [
            "--name=etcd".to_owned(),
            format!("--data-dir={}", self.etcd_folder().display()),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=etcd={peer}"),
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        let mut server = Server::start_with(&self.programs, "etcd", &args, &self.folder, &self.memory)?;
        let gateway = Gateway::new(&url)?;
        ready("etcd", &mut server, ETCD_TIMEOUT, async || gateway.revision().await).await?;
        Ok((server, gateway))
    }

    /// The admission plugins that are switched off. Without a controller for tokens and one for taints, pods are refused and every
    /// node stays not ready.
    fn plugins_off(&self) -> Vec<&'static str> {
        let mut off = vec!["ServiceAccount", "TaintNodesByCondition"];
        if matches!(self.programs, Programs::Built { .. }) {
            // No test has such a policy, and the plugin looks for new descriptions of the API all the time. Older servers do not
            // know it.
            off.push("MutatingAdmissionPolicy");
        }
        off
    }

    /// Starts the apiserver over the data that is there.
    pub(super) async fn apiserver(&self) -> Result<(Server, kube::Client)> {
        let (certificate, key) = (self.certificate(), self.key());
        let mut args = vec![
            format!("--etcd-servers={}", self.etcd_url()),
            format!("--secure-port={}", self.apiserver_port),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            // No client reaches the apiserver through its Service, whose endpoint may not be a loopback address.
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--tls-cert-file={}", certificate.display()),
            format!("--tls-private-key-file={}", key.display()),
            // It reads the public key from a certificate, too.
            format!("--service-account-key-file={}", certificate.display()),
            format!("--service-account-signing-key-file={}", key.display()),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            // Logs and exec of pods whose kubelets are those of a test.
            format!("--client-ca-file={}", self.clients.authority.display()),
            format!("--kubelet-client-certificate={}", self.clients.certificate.display()),
            format!("--kubelet-client-key={}", self.clients.key.display()),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            format!("--token-auth-file={}", self.folder.join("tokens.csv").display()),
            format!("--disable-admission-plugins={}", self.plugins_off().join(",")),
            // Otherwise it reads the keys of all resources each minute.
            "--etcd-count-metric-poll-period=0".to_owned(),
            // So that the writes can be read from etcd; its history is kept until a test compacts it.
            "--storage-media-type=application/json".to_owned(),
            "--etcd-compaction-interval=0".to_owned(),
        ];
        if self.audit {
            args.push(format!("--audit-policy-file={}", self.folder.join("audit-policy.yaml").display()));
            args.push(format!("--audit-log-path={}", self.audit_log().display()));
            args.push("--audit-log-mode=blocking".to_owned());
            args.push(format!("--audit-log-maxsize={AUDIT_LOG_MEGABYTES}"));
        }
        args.extend(self.apiserver_args.iter().cloned());
        let mut server = Server::start_with(&self.programs, "kube-apiserver", &args, &self.folder, &self.memory)?;
        let client = client_from(&self.kubeconfig()).await?;
        ready("kube-apiserver", &mut server, APISERVER_TIMEOUT, async || {
            let answer = client.request_text(http::Request::get("/readyz").body(Vec::new())?).await?;
            if answer == "ok" { Ok(()) } else { bail!("/readyz says {answer}") }
        })
        .await?;
        Ok((server, client))
    }

    /// Starts these controllers of Kubernetes. They are ready when a test sees what they do.
    pub(super) fn controllers(&self, names: &[&str], flags: &[&str]) -> Result<Server> {
        let mut args = vec![
            format!("--kubeconfig={}", self.kubeconfig().display()),
            format!("--controllers={}", names.join(",")),
            // Otherwise all of them have all rights, as one user.
            "--use-service-account-credentials=true".to_owned(),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
        ];
        args.extend(flags.iter().map(|flag| (*flag).to_owned()));
        Server::start_with(&self.programs, "kube-controller-manager", &args, &self.folder, &self.memory)
    }
}

/// Polls until `probe` succeeds, the server ends or the time is over.
pub(super) async fn ready<T>(
    name: &str,
    server: &mut Server,
    timeout: Duration,
    mut probe: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    let deadline = Instant::now() + timeout;
    loop {
        let state = match tokio::time::timeout_at(deadline, probe()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => "no answer".to_owned(),
        };
        if let Some(status) = server.ended()? {
            bail!("{name} ended with {status}\n{}", server.tail());
        }
        if Instant::now() >= deadline {
            bail!("{name} is not ready after {timeout:?}: {state}\n{}", server.tail());
        }
        sleep(POLL).await;
    }
}

/// Different ports of 127.0.0.1 without a listener.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    // All are held until the last is found, so that they differ.
    let mut held = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = loop {
            let candidate = PORTS.start + u16::from_le_bytes(random_bytes()?) % (PORTS.end - PORTS.start);
            if let Ok(listener) = TcpListener::bind(("127.0.0.1", candidate)) {
                break listener;
            }
        };
        *port = listener.local_addr().context("a bound socket has an address")?.port();
        held.push(listener);
    }
    Ok(ports)
}
