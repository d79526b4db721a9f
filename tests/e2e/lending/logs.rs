//! Logs, exec, attach and port-forward of lent pods through both API servers (decision S26).

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::{AsyncBufReadExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::Api;
use kube::api::{LogParams, Patch, PatchParams, PostParams};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use topoloom_cluster::{Restores, requests};
use topoloom_simulator::Authority;
use topoloom_sync::identity::{Identity, Ownership};
use topoloom_sync::keys;
use topoloom_sync::naming::BindingName;
use topoloom_syncer::kubeconfig::{self, Allowed, Insecure, Loopback};
use topoloom_syncer::kubelet::{ClientAuthorities, Kubelet, Lender, Lent, Metrics, Options, Uses};
use topoloom_syncer::physical::{Connection, Dialer, Opens as _};
use topoloom_tests::controlplane::{ControlPlane, KUBELET_CLIENT, clients, eventually};
use topoloom_tests::lending::kubelets::{self, Streams};
use topoloom_tests::lending::player::{Fault, Scope, Step};
use topoloom_tests::scene::PATIENCE;

use super::pair::{BORROWED, Pair, SHOP};

/// The bindings: one.
struct One {
    identity: Identity,
    connection: Connection,
    ends: CancellationToken,
}

impl Lent for One {
    fn lender(&self, labels: &BTreeMap<String, String>) -> Option<Lender> {
        (Ownership::of(labels, &self.identity) == Ownership::Ours).then(|| Lender {
            identity: self.identity.clone(),
            mount_namespace: BORROWED.to_owned(),
            connection: self.connection.clone(),
            ends: self.ends.clone(),
        })
    }
}

/// Two clusters whose API servers reach their kubelets: the virtual one ours, the physical one those of the test.
struct Stage {
    pair: Pair,
    streams: Streams,
    /// Of the server of ours.
    authority: Authority,
    address: SocketAddr,
    /// The end of the connection of the binding.
    ends: CancellationToken,
    folder: TempDir,
}

impl Stage {
    async fn new() -> Result<Self> {
        let (folder, authority) = (tempfile::tempdir()?, Authority::generate()?);
        let file = |name: &str, text: &str| -> Result<PathBuf> {
            let path = folder.path().join(name);
            std::fs::write(&path, text)?;
            Ok(path)
        };
        let (streams, run) = Streams::new().await?;
        let settings = kubelets::Settings { streams: Some(streams.port()), ..kubelets::Settings::default() };
        let mut pair = Pair::with(&settings).await?;
        pair.runs(run);
        let rights = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "api-servers"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:kubelet-api-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": KUBELET_CLIENT}],
        });
        pair.virtual_plane.apply(&[rights]).await?;
        published(&pair.virtual_plane).await;

        let server = authority.serving(&["127.0.0.1"])?;
        let options = Options {
            address: Ipv4Addr::LOCALHOST.into(),
            port: 10_250,
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            certificate: file("tls.crt", &server.certificate)?,
            key: file("tls.key", &server.key)?,
            clients: ClientAuthorities::Cluster,
        };
        let ends = CancellationToken::new();
        let connection = physical(&pair.physical_plane)?;
        let lent = One { identity: pair.identity.clone(), connection, ends: ends.clone() };
        let uses = Uses {
            client: pair.virtual_plane.client(),
            restores: Restores::default(),
            lent: Arc::new(lent),
            metrics: Metrics::register(&mut Registry::default()),
        };
        let kubelet = Kubelet::open(&options, uses).await?;
        let address = kubelet.address().context("it listens")?;
        pair.runs(async move { kubelet.serve(CancellationToken::new()).await.expect("it is not stopped") });
        let stage = Self { pair, streams, authority, address, ends, folder };
        stage
            .node(json!({
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": address.port()}},
            }))
            .await?;
        Ok(stage)
    }

    /// Changes the status of the virtual node.
    async fn node(&self, status: Value) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.pair.virtual_plane.client());
        let patch = Patch::Merge(json!({"status": status}));
        nodes.patch_status(&self.pair.node, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// A virtual pod that runs; the name of its physical pod.
    async fn pod(&self, name: &str) -> Result<String> {
        self.pair.bound(name, json!({})).await?;
        let (_, physical) = self.pair.until_mapped(name).await?;
        // What copies this up is not part of this test.
        let patch = Patch::Merge(json!({"status": {"phase": "Running"}}));
        self.pair.virtuals().patch_status(name, &PatchParams::default(), &patch).await?;
        physical.metadata.name.context("it has a name")
    }

    /// A virtual pod that names this physical one, and whose player is dead.
    async fn claims(&self, name: &str, physical: &str) -> Result<()> {
        self.pair.player.fault(Scope::pod(SHOP, name), Fault::Dies { before: Step::WriteNames });
        let named = json!({keys::PHYSICAL_POD_NAMESPACE: BORROWED, keys::PHYSICAL_POD_NAME: physical});
        self.pair.bound(name, named).await.map(drop)
    }

    /// A physical pod on `w1` that says that it belongs to this virtual one.
    async fn physical(&self, name: &str, twin: &str, labels: Value) -> Result<()> {
        let uid = self.pair.virtuals().get(twin).await?.metadata.uid;
        let annotations = json!({
            keys::VIRTUAL_POD_NAMESPACE: SHOP, keys::VIRTUAL_POD_NAME: twin, keys::VIRTUAL_POD_UID: uid,
        });
        let pod = json!({
            "metadata": {"name": name, "labels": labels, "annotations": annotations},
            "spec": {"nodeName": "w1", "containers": [{"name": "c", "image": "none"}]},
        });
        self.pair.physicals().create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        Ok(())
    }

    async fn kubectl(&self, args: &[&str], input: &str) -> Result<String> {
        // Behind the verb it would be part of a command.
        let args = [&["--namespace", SHOP][..], args].concat();
        timeout(PATIENCE, self.pair.virtual_plane.kubectl_with(&args, input)).await.context("kubectl hangs")?
    }

    /// What a forwarded port of `web-0` says to this.
    async fn forwarded(&self, says: &str) -> Result<String> {
        let args = ["port-forward", "--namespace", SHOP, "--address", "127.0.0.1", "pod/web-0", ":80"];
        let mut kubectl = self.pair.virtual_plane.kubectl_command(&args).spawn()?;
        let mut lines = BufReader::new(kubectl.stdout.take().context("it is piped")?).lines();
        let line = timeout(PATIENCE, lines.next_line()).await.context("kubectl does not say its port")??;
        let line = line.context("kubectl port-forward has ended")?;
        let address = line.strip_prefix("Forwarding from ").and_then(|rest| rest.split(" -> ").next());
        let mut stream = TcpStream::connect(address.with_context(|| line.clone())?).await?;
        let talk = async {
            stream.write_all(says.as_bytes()).await?;
            stream.shutdown().await?;
            let mut said = String::new();
            stream.read_to_string(&mut said).await?;
            anyhow::Ok(said)
        };
        let said = timeout(PATIENCE, talk).await.context("the forwarded port hangs")??;
        kubectl.kill().await?;
        Ok(said)
    }

    /// The answer of our server itself to a caller with a certificate of this user and group, or without one.
    async fn ask(&self, who: Option<(&str, &str)>, path: &str) -> Result<(u16, String)> {
        let trusted = reqwest::Certificate::from_pem(self.authority.pem().as_bytes())?;
        let mut client = reqwest::Client::builder().no_proxy().tls_certs_only([trusted]);
        if let Some((user, group)) = who {
            let issued = clients()?.client_of(user, group)?;
            let both = format!("{}{}", issued.certificate, issued.key);
            client = client.identity(reqwest::Identity::from_pem(both.as_bytes())?);
        }
        let answer = client.build()?.get(format!("https://{}{path}", self.address)).send().await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }

    /// How often the kubelets of the lender were asked for this.
    fn asked(&self, part: &str) -> usize {
        self.streams.asked().iter().filter(|line| line.contains(part)).count()
    }

    async fn stop(self) -> Result<()> {
        self.pair.stop().await?;
        self.folder.close().context("its files cannot be removed")
    }
}

/// Waits until the API server has published the authorities of its clients.
async fn published(plane: &ControlPlane) {
    let maps: Api<ConfigMap> = Api::namespaced(plane.client(), "kube-system");
    eventually("the authorities of clients are published", PATIENCE, async || {
        let map = maps.get("extension-apiserver-authentication").await.map_err(|error| error.to_string())?;
        let is_there = map.data.as_ref().is_some_and(|data| data.contains_key("client-ca-file"));
        if is_there { Ok(()) } else { Err(format!("{map:?}")) }
    })
    .await;
}

/// The connection of a binding to this cluster.
fn physical(plane: &ControlPlane) -> Result<Connection> {
    let allowed = Allowed { insecure: Insecure::Refused, loopback: Loopback::Allowed };
    let access = kubeconfig::judge(&std::fs::read(plane.kubeconfig())?, allowed)?;
    let counted = requests::Metrics::register(&mut Registry::default());
    Ok(Dialer::new(&counted, 200).open(&access)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn s26_kubectl_reaches_the_physical_pod_of_a_lent_one_through_both_api_servers() -> Result<()> {
    let stage = Stage::new().await?;
    let physical = stage.pod("web-0").await?;
    let container = format!("{BORROWED}/{physical} c");
    assert_eq!(stage.kubectl(&["logs", "web-0", "--tail=5"], "").await?, format!("the log of {container}\n"));
    assert_eq!(stage.asked("?tailLines=5"), 1);
    // First with the protocol of every kubelet, then as API servers speak to a node that declares WebSocket.
    for declared in [json!([]), json!(["ExtendWebSocketsToKubelet"])] {
        stage.node(json!({"declaredFeatures": declared})).await?;
        let said = stage.kubectl(&["exec", "-i", "web-0", "--", "cat", "-n"], "hello\nfrom outside\n").await?;
        assert_eq!(said, format!("exec {container}: cat -n\nhello\nfrom outside\n"), "{declared}");
        let said = stage.kubectl(&["exec", "web-0", "--", "echo", "a b&c=d", "%41"], "").await?;
        assert_eq!(said, format!("exec {container}: echo a b&c=d %41\n"), "{declared}");
        let said = stage.kubectl(&["attach", "-i", "--quiet", "web-0"], "hello\n").await?;
        assert_eq!(said, format!("attach {container}: \nhello\n"), "{declared}");
        let said = stage.forwarded("hello").await?;
        assert_eq!(said, format!("a port of {BORROWED}/{physical}\nhello"), "{declared}");
    }
    stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn s26_a_hundred_logs_are_followed_beside_a_stream_that_stalls_and_end_with_the_connection_of_their_binding()
-> Result<()> {
    let stage = Stage::new().await?;
    let physical = stage.pod("web-0").await?;
    // What this command answers is not read, so it takes no more after some time.
    let args = ["exec", "-i", "--namespace", SHOP, "web-0", "--", "cat"];
    let mut stalled = stage.pair.virtual_plane.kubectl_command(&args).stdin(Stdio::piped()).spawn()?;
    let mut input = stalled.stdin.take().context("its input is piped")?;
    let much = vec![b'x'; 1 << 20];
    let fills = async {
        loop {
            if let Err(error) = input.write_all(&much).await {
                return error;
            }
        }
    };
    let others = async {
        eventually("the stream that stalls is open", PATIENCE, async || match stage.asked("/exec/") {
            0 => Err("no kubelet was asked".to_owned()),
            _ => Ok(()),
        })
        .await;
        let follow = |_| {
            let pods = stage.pair.virtuals();
            async move {
                let params = LogParams { follow: true, ..LogParams::default() };
                let mut lines = Box::pin(pods.log_stream("web-0", &params).await?).lines();
                let line = lines.next().await.context("the log has ended")??;
                anyhow::Ok((line, lines))
            }
        };
        let open = timeout(2 * PATIENCE, futures::future::try_join_all((0..100).map(follow))).await??;
        for (line, _) in &open {
            assert_eq!(*line, format!("the log of {BORROWED}/{physical} c"));
        }
        // They hold up no other stream.
        let said = stage.kubectl(&["exec", "-i", "web-0", "--", "cat"], "hello\n").await?;
        assert!(said.ends_with("\nhello\n"), "{said}");
        anyhow::Ok(open)
    };
    let open = tokio::select! {
        error = fills => anyhow::bail!("the stream that stalls has ended: {error}"),
        open = others => open?,
    };
    stage.ends.cancel();
    for (_, mut lines) in open {
        let end = async { while lines.next().await.is_some_and(|line| line.is_ok()) {} };
        timeout(Duration::from_secs(30), end).await.context("a log continues without its binding")?;
    }
    stalled.kill().await?;
    stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn s26_without_a_right_or_for_a_pod_of_another_there_is_no_stream() -> Result<()> {
    let stage = Stage::new().await?;
    let physical = stage.pod("web-0").await?;
    let log = "/containerLogs/shop/web-0/c";
    let api_server = Some((KUBELET_CLIENT, "kubeadm:cluster-admins"));
    assert_eq!(stage.ask(api_server, log).await?, (200, format!("the log of {BORROWED}/{physical} c\n")));
    let (code, said) = stage.ask(None, log).await?;
    assert!(code == 401 && said.contains("a client certificate is needed"), "{code} {said}");
    for (user, group) in [("system:node:w1", "system:nodes"), ("system:kube-scheduler", "none"), ("me", "team-a")] {
        let (code, said) = stage.ask(Some((user, group)), log).await?;
        assert!(code == 403 && said.starts_with(&format!("Forbidden (user={user}, verb=get")), "{code} {said}");
    }
    let (code, said) = stage.ask(api_server, "/stats/summary").await?;
    assert!(code == 501 && said.contains("ask the node of the physical cluster"), "{code} {said}");

    // A pod of the lender, one of another binding, and that of another pod.
    stage.claims("of-the-lender", "tenant").await?;
    stage.physical("tenant", "of-the-lender", json!({})).await?;
    stage.claims("of-west", "west").await?;
    let west =
        Identity::new(stage.pair.identity.virtual_cluster().clone(), BindingName::parse("west")?, "binding-2".into())?;
    stage.physical("west", "of-west", json!(west.labels())).await?;
    stage.claims("thief", &physical).await?;
    for (pod, part) in [
        ("of-the-lender", "it has no labels of identity"),
        ("of-west", "its label topoloom.dev/binding is \"west\""),
        ("thief", "the physical pod names another virtual pod, shop/web-0"),
    ] {
        let (code, said) = stage.ask(api_server, &format!("/containerLogs/shop/{pod}/c")).await?;
        assert!(code == 403 && said.contains(part), "{pod}: {code} {said}");
        for args in [&["logs", pod][..], &["exec", "-i", pod, "--", "cat"]] {
            let error = stage.kubectl(args, "hello\n").await.expect_err("there is no stream");
            assert!(format!("{error:#}").contains(part), "{pod}: {error:#}");
        }
    }
    assert_eq!(stage.asked(&physical), 1, "the log that was allowed");
    assert_eq!(stage.asked("tenant") + stage.asked("west"), 0);
    stage.stop().await
}
