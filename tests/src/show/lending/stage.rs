//! Two real clusters and everything that lending needs in them: machines with test kubelets, kube-scheduler, the controllers of
//! workloads, the syncer as the real program, and the top-down half as a program of its own.
//!
//! Owns all of it until [`Stage::stop`], or until the value is dropped: processes are killed then, and folders removed.
//!
//! What goes wrong is an error with the end of the log of the program that it is about.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{Api, ListParams};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use topoloom_api::names::RESOURCE_LEASING_POLICY_CRD;
use topoloom_api::{ClusterBinding, ResourceLeasingPolicy, cluster_binding};
use topoloom_simulator::Authority;

use super::{ACCOUNTS, BINDING, MOUNT, SYSTEM, WORK, rights};
use crate::controlplane::{Builder, ControlPlane, Scheduler, WORKLOADS, free_ports};
use crate::host::{self, Host};
use crate::lending::Background;
use crate::lending::kubelets::{self, Kubelets, NewNode, Streams};
use crate::show::indented;

/// The ServiceAccount of the syncer.
const SYNCER: &str = "topoloom-syncer";
/// That of the top-down half, in each cluster.
const PLAYER: &str = "player";
/// The user name of the syncer in the audit log of the virtual cluster.
pub(super) const SYNCER_USER: &str = "system:serviceaccount:topoloom-system:topoloom-syncer";
/// What the API server of the virtual cluster is to the kubelets of its nodes.
const API_SERVER: &str = "kube-apiserver-kubelet-client";
/// The machines with their racks.
pub(super) const MACHINES: [(&str, &str); 4] = [("gpu-1", "r1"), ("gpu-2", "r1"), ("gpu-3", "r2"), ("gpu-4", "r2")];
/// What each machine has.
const MACHINE: [(&str, &str); 4] = [("cpu", "32"), ("memory", "256Gi"), ("pods", "110"), ("nvidia.com/gpu", "8")];
/// How long the player may take to end.
const STOP: Duration = Duration::from_secs(10);

/// One of the two clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The one that borrows.
    Virtual,
    /// The one that lends.
    Physical,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Virtual => "virtual",
            Self::Physical => "physical",
        })
    }
}

/// All of it.
pub(super) struct Stage {
    // The fields are dropped in this order.
    player: Option<Player>,
    host: Host,
    background: Background,
    /// Kubelets end with the last copy of their handle.
    _kubelets: Kubelets,
    _scheduler: Scheduler,
    pub(super) virtual_plane: ControlPlane,
    pub(super) physical_plane: ControlPlane,
    folder: TempDir,
}

impl Stage {
    /// Starts everything but the top-down half. No node is lent: there is no grant, no Secret and no ClusterBinding.
    pub(super) async fn start() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("topoloom-lending-").tempdir()?;
        let endpoint = Endpoint::new(folder.path())?;
        let (streams, serves) = Streams::new().await?;
        let builders = [endpoint.asked_by(ControlPlane::builder().audit(true)), ControlPlane::builder()];
        let [mut virtual_plane, physical_plane] = ControlPlane::several(builders).await?;

        let mut background = Background::new();
        background.spawn(serves);
        let settings = kubelets::Settings { streams: Some(streams.port()), ..kubelets::Settings::default() };
        let (kubelets, run) = Kubelets::new(physical_plane.client(), &settings);
        background.spawn(run);
        kubelets.register(MACHINES.map(machine)).await?;

        prepare(&virtual_plane).await?;
        virtual_plane.start_controllers(&WORKLOADS)?;
        let syncer = async {
            let kubeconfig = virtual_plane.kubeconfig_for(SYSTEM, SYNCER).await?;
            let flags = endpoint.flags();
            let host = Host::launch(&kubeconfig, &flags.iter().map(String::as_str).collect::<Vec<_>>()).await?;
            host.until_ready().await;
            anyhow::Ok(host)
        };
        let (scheduler, host) = tokio::try_join!(virtual_plane.scheduler(&[]), syncer)?;
        Ok(Self {
            player: None,
            host,
            background,
            _kubelets: kubelets,
            _scheduler: scheduler,
            virtual_plane,
            physical_plane,
            folder,
        })
    }

    /// The lender grants, and gives a kubeconfig to the borrower, which stores it.
    pub(super) async fn grant(&self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.virtual_plane.client());
        let id = namespaces.get("kube-system").await?.metadata.uid.context("a namespace has a UID")?;
        let borrower = ["--borrower", BINDING, "--mount-namespace", MOUNT];
        let grant = [&["lend", "grant"][..], &borrower, &["--virtual-cluster-id", &id, "--streams"]].concat();
        println!("   $ topoloom {} | kubectl apply --server-side -f -", shell(&grant));
        let objects = self.answer(Side::Physical, &grant).await?;
        indented(&self.physical_plane.kubectl_with(&["apply", "--server-side", "-f", "-"], &objects).await?);
        let definition = format!("crd/{RESOURCE_LEASING_POLICY_CRD}");
        self.physical_plane.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", &definition]).await?;
        let kubeconfig = [&["lend", "kubeconfig"][..], &borrower].concat();
        println!("   $ topoloom {} > east.kubeconfig", shell(&kubeconfig));
        let file = self.folder.path().join("east.kubeconfig");
        let text = self.answer(Side::Physical, &kubeconfig).await?;
        std::fs::write(&file, text).with_context(|| file.display().to_string())?;
        let file = format!("--from-file=kubeconfig={}", file.display());
        self.kubectl(Side::Virtual, &["create", "secret", "generic", BINDING, "--namespace", SYSTEM, &file]).await?;
        self.physical_plane.apply(&rights::player_of_physical(PLAYER)).await
    }

    /// Starts the top-down half, for the ClusterBinding that exists by now.
    pub(super) async fn play(&mut self) -> Result<()> {
        let of_virtual = self.virtual_plane.kubeconfig_for(SYSTEM, PLAYER).await?;
        let of_physical = self.physical_plane.kubeconfig_for(ACCOUNTS, PLAYER).await?;
        self.player = Some(Player::start(&of_virtual, &of_physical, &self.folder.path().join("player.log"))?);
        Ok(())
    }

    fn plane(&self, side: Side) -> &ControlPlane {
        match side {
            Side::Virtual => &self.virtual_plane,
            Side::Physical => &self.physical_plane,
        }
    }

    /// Runs kubectl and prints command and output.
    pub(super) async fn kubectl(&self, side: Side, args: &[&str]) -> Result<()> {
        println!("   {side} $ kubectl {}", shell(args));
        indented(&self.plane(side).kubectl(args).await?);
        Ok(())
    }

    /// Applies an object as a person does with a file, and prints what kubectl says.
    pub(super) async fn apply(&self, side: Side, object: &str) -> Result<()> {
        println!("   {side} $ kubectl apply -f -");
        indented(&self.plane(side).kubectl_with(&["apply", "-f", "-"], object).await?);
        Ok(())
    }

    /// Changes fields of the binding.
    pub(super) async fn patch_binding(&self, spec: Value) -> Result<()> {
        let patch = format!("--patch={}", json!({"spec": spec}));
        self.kubectl(Side::Virtual, &["patch", "clusterbinding", BINDING, "--type=merge", &patch]).await
    }

    /// Runs the command line of topoloom as an operator of the virtual cluster, and prints command and output.
    pub(super) async fn topoloom(&self, args: &[&str]) -> Result<()> {
        println!("   $ topoloom {}", shell(args));
        indented(&self.answer(Side::Virtual, args).await?);
        Ok(())
    }

    /// What the command line of topoloom prints, with the rights of an administrator of one cluster.
    async fn answer(&self, side: Side, args: &[&str]) -> Result<String> {
        let output = Command::new(host::binary()?)
            .args(args)
            .env("KUBECONFIG", self.plane(side).kubeconfig())
            .env("TOPOLOOM_NAMESPACE", SYSTEM)
            .env("TOPOLOOM_RELEASE", "topoloom")
            // The cluster that lends is on this machine.
            .env("TOPOLOOM_SYNCER_ALLOW_LOOPBACK", "true")
            .stdin(Stdio::null())
            .output()
            .await?;
        let (answer, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "topoloom {}: {}: {answer}{errors}", shell(args), output.status);
        Ok(answer.into_owned())
    }

    /// The virtual nodes, sorted by name.
    pub(super) async fn nodes(&self) -> Result<Vec<Value>, String> {
        listed::<Node>(&Api::all(self.virtual_plane.client())).await
    }

    /// The machines.
    pub(super) async fn machines(&self) -> Result<Vec<Value>, String> {
        listed::<Node>(&Api::all(self.physical_plane.client())).await
    }

    /// The pods of the team in the virtual cluster.
    pub(super) async fn pods(&self) -> Result<Vec<Value>, String> {
        listed::<Pod>(&Api::namespaced(self.virtual_plane.client(), WORK)).await
    }

    /// The binding.
    pub(super) async fn binding(&self) -> Result<Value, String> {
        got::<ClusterBinding>(&Api::all(self.virtual_plane.client()), BINDING).await
    }

    /// A policy.
    pub(super) async fn policy(&self, name: &str) -> Result<Value, String> {
        got::<ResourceLeasingPolicy>(&Api::all(self.physical_plane.client()), name).await
    }

    /// Ends all of it, the programs first.
    pub(super) async fn stop(self) -> Result<()> {
        if let Some(player) = self.player {
            player.stop().await?;
        }
        self.host.stop().await?;
        self.background.stop().await;
        self.virtual_plane.stop().await?;
        self.physical_plane.stop().await?;
        self.folder.close().context("the folder of the show cannot be removed")
    }
}

fn machine((name, rack): (&str, &str)) -> NewNode {
    let node = NewNode::named(name).label("pool", "gpu").label("rack", rack);
    MACHINE.into_iter().fold(node, |node, (resource, amount)| node.with(resource, amount))
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

async fn prepare(plane: &ControlPlane) -> Result<()> {
    plane.apply_crd(cluster_binding::definition()).await?;
    let mut objects = vec![namespace(SYSTEM), namespace(WORK)];
    objects.extend(rights::syncer(SYNCER));
    objects.extend(rights::player_of_virtual(PLAYER));
    objects.push(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "api-servers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:kubelet-api-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": API_SERVER}],
    }));
    plane.apply(&objects).await
}

async fn listed<K>(api: &Api<K>) -> Result<Vec<Value>, String>
where
    K: Clone + fmt::Debug + Serialize + DeserializeOwned,
{
    let list = api.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
    list.items.into_iter().map(|object| serde_json::to_value(object).map_err(|error| error.to_string())).collect()
}

async fn got<K>(api: &Api<K>, name: &str) -> Result<Value, String>
where
    K: Clone + fmt::Debug + Serialize + DeserializeOwned,
{
    let object = api.get(name).await.map_err(|error| error.to_string())?;
    serde_json::to_value(object).map_err(|error| error.to_string())
}

/// Words as a person types them.
fn shell(args: &[&str]) -> String {
    let is_plain = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || "-_=./,:".contains(c));
    let quoted = args.iter().map(|word| if is_plain(word) { (*word).to_owned() } else { format!("'{word}'") });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Where the syncer serves logs: certificates of both sides, and a port of this machine.
struct Endpoint {
    /// The authority of the API server's client certificate.
    clients: PathBuf,
    /// The certificate that the API server shows, and its key.
    client: (PathBuf, PathBuf),
    /// That of the syncer, and its key.
    server: (PathBuf, PathBuf),
    port: u16,
}

impl Endpoint {
    fn new(folder: &Path) -> Result<Self> {
        let authority = Authority::generate()?;
        let file = |name: &str, text: &str| -> Result<PathBuf> {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| path.display().to_string())?;
            Ok(path)
        };
        let client = authority.client_of(API_SERVER, "kubeadm:cluster-admins")?;
        let server = authority.serving(&["127.0.0.1"])?;
        let [port] = free_ports()?;
        Ok(Self {
            clients: file("ca.crt", authority.pem())?,
            client: (file("client.crt", &client.certificate)?, file("client.key", &client.key)?),
            server: (file("tls.crt", &server.certificate)?, file("tls.key", &server.key)?),
            port,
        })
    }

    /// An API server that reaches kubelets with that certificate.
    fn asked_by(&self, builder: Builder) -> Builder {
        let (certificate, key) = &self.client;
        builder
            .apiserver_arg(format!("--client-ca-file={}", self.clients.display()))
            .apiserver_arg(format!("--kubelet-client-certificate={}", certificate.display()))
            .apiserver_arg(format!("--kubelet-client-key={}", key.display()))
    }

    /// The flags of the syncer.
    fn flags(&self) -> Vec<String> {
        let (certificate, key) = &self.server;
        vec![
            "--controllers=bottomup-syncer".to_owned(),
            format!("--namespace={SYSTEM}"),
            "--release=topoloom".to_owned(),
            // The cluster that lends is on this machine.
            "--syncer-allow-loopback=true".to_owned(),
            "--syncer-kubelet-address=127.0.0.1".to_owned(),
            format!("--syncer-kubelet-port={}", self.port),
            format!("--syncer-kubelet-listen-address=127.0.0.1:{}", self.port),
            format!("--syncer-tls-cert-file={}", certificate.display()),
            format!("--syncer-tls-private-key-file={}", key.display()),
            format!("--syncer-client-ca-file={}", self.clients.display()),
        ]
    }
}

/// The top-down half, as a process.
struct Player {
    child: Child,
    log: PathBuf,
}

impl Player {
    fn start(of_virtual: &Path, of_physical: &Path, log: &Path) -> Result<Self> {
        let program = host::binary()?.with_file_name("player");
        if !program.is_file() {
            bail!("the program player is not built: run `make demo SHOW=lending`");
        }
        let output = std::fs::File::create(log).with_context(|| log.display().to_string())?;
        let mut command = Command::new(program);
        command.arg("--virtual-kubeconfig").arg(of_virtual).arg("--physical-kubeconfig").arg(of_physical);
        command.args(["--binding", BINDING]).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        Ok(Self { child: command.kill_on_drop(true).spawn()?, log: log.to_owned() })
    }

    /// Sends SIGTERM, and waits for its end.
    async fn stop(mut self) -> Result<()> {
        let id = self.child.id().with_context(|| format!("the player has ended by itself: {}", self.said()))?;
        let id = Pid::from_raw(i32::try_from(id)?).context("a process id is above 0")?;
        kill_process(id, Signal::TERM)?;
        let status = tokio::time::timeout(STOP, self.child.wait()).await.context("the player does not stop")??;
        ensure!(status.success(), "the player stopped with {status}: {}", self.said());
        Ok(())
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- what the player said\n{}", self.said());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_printed_as_they_can_be_typed() {
        assert_eq!(shell(&["get", "nodes", "-o=wide"]), "get nodes -o=wide");
        assert_eq!(shell(&["patch", "--patch={\"a\":1}"]), "patch '--patch={\"a\":1}'");
    }
}
