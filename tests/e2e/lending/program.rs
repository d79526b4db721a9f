//! The program itself between two real clusters, with the tokens of the chart and of `topoloom lend grant`: what a Deployment of the
//! bottom-up syncer does, from the first start to a leader that dies.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;
use topoloom::manager::rights::lending::{PhysicalSettings, Streams as LentStreams};
use topoloom::manager::rights::{Right, RightScope};
use topoloom_api::cluster_binding::{PhysicalWrites, PolicySource};
use topoloom_api::names::{PAUSE_ANNOTATION, READ_ONLY_ANNOTATION};
use topoloom_api::{ClusterBinding, cluster_binding};
use topoloom_cluster::gate::ReadOnly;
use topoloom_simulator::Authority;
use topoloom_sync::identity::Identity;
use topoloom_sync::keys;
use topoloom_sync::naming::{BindingName, physical_pod_name};
use topoloom_syncer::kubeconfig::KEY;
use topoloom_tests::collector::{Collector, Request, attribute};
use topoloom_tests::controlplane::{ControlPlane, KUBELET_CLIENT, Wanted, WriteKind, clients, eventually};
use topoloom_tests::host::Host;
use topoloom_tests::lending::Background;
use topoloom_tests::lending::kubelets::{self, Kubelets, NewNode, Streams};
use topoloom_tests::lending::player::{self, Player};
use topoloom_tests::scene::{PATIENCE, Scene};

use super::accounts::{of_chart, of_grant};
use super::group::ready;
use super::lent::{SYSTEM, cluster, says, until};
use super::pair::{BORROWED, SHOP, namespace};
use super::{phase, until_pod};

/// The ConfigMap whose annotation switches writes off.
const SWITCH: &str = "switch";
/// The virtual node of the one machine.
const NODE: &str = "vnode-east-w1";
/// The lease of a virtual node is renewed this often.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long other replicas wait after the last renewal of the lease of a binding that they saw.
const LEASE: Duration = Duration::from_secs(5);
const LEASES: [&str; 3] =
    ["--leader-elect-lease-duration=5s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=500ms"];

/// Two clusters, the accounts of the syncer in both, and what runs beside it.
struct Stage {
    virtual_plane: ControlPlane,
    physical_plane: ControlPlane,
    kubelets: Kubelets,
    background: Background,
    /// For the syncer.
    kubeconfig: PathBuf,
    /// For its Secret.
    borrower: PathBuf,
    /// Where logs and exec of lent pods are served.
    port: u16,
    folder: TempDir,
}

/// Whether the virtual cluster has the definition of bindings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Definition {
    There,
    Absent,
}

impl Stage {
    async fn new(definition: Definition) -> Result<Self> {
        let (folder, server) = (tempfile::tempdir()?, Authority::generate()?.serving(&["127.0.0.1"])?);
        let of_clients = clients()?.pem();
        for (name, text) in [("ca.crt", of_clients), ("tls.crt", &*server.certificate), ("tls.key", &*server.key)] {
            std::fs::write(folder.path().join(name), text)?;
        }
        let of_virtual = match definition {
            Definition::There => Wanted::Shared,
            Definition::Absent => Wanted::New(ControlPlane::builder()),
        };
        let [virtual_plane, physical_plane] = Scene::planes([of_virtual, Wanted::Shared]).await?;

        namespace(&physical_plane, BORROWED).await?;
        let lends = PhysicalSettings {
            binding: BindingName::parse("east")?,
            mount_namespace: BORROWED.to_owned(),
            writes: PhysicalWrites::All,
            policies: PolicySource::Physical,
            streams: LentStreams::Served,
        };
        let borrower = of_grant(&physical_plane, lends, &cluster(&virtual_plane).await?).await?;
        let mut background = Background::new();
        let (streams, run) = Streams::new().await?;
        background.spawn(run);
        let settings = kubelets::Settings { streams: Some(streams.port()), ..kubelets::Settings::default() };
        let (kubelets, run) = Kubelets::new(physical_plane.client(), &settings);
        background.spawn(run);
        kubelets.register([NewNode::named("w1")]).await?;

        for name in [SYSTEM, SHOP] {
            namespace(&virtual_plane, name).await?;
        }
        // The address is that of the Service, which is not made here.
        let kubelet = json!({"enabled": true, "address": "10.96.0.20", "tls": {"secret": "kubelet"}});
        let of_syncer = json!({"secrets": ["east"], "kubelet": kubelet});
        let kubeconfig = of_chart(&virtual_plane, SWITCH, of_syncer).await?;
        let rights = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "api-servers"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:kubelet-api-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": KUBELET_CLIENT}],
        });
        let switch = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SWITCH, "namespace": SYSTEM}, "data": {},
        });
        virtual_plane.apply(&[rights, switch]).await?;
        // Another program may take it before the host does, as any port that is chosen beforehand: virtual nodes show it.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        Ok(Self { virtual_plane, physical_plane, kubelets, background, kubeconfig, borrower, port, folder })
    }

    /// A replica, as one of the Deployment of the syncer.
    async fn host(&self, name: &str, more: &[&str]) -> Result<Host> {
        let (own, switch) = (format!("--namespace={SYSTEM}"), format!("--config-map={SYSTEM}/{SWITCH}"));
        let usual = [
            "--controllers=bottomup-syncer",
            "--leader-elect-resource-name=topoloom-syncer",
            "--syncer-allow-loopback",
            own.as_str(),
            switch.as_str(),
        ];
        Host::launch_as(name, &self.kubeconfig, &[&usual[..], more].concat()).await
    }

    /// The flags with which logs and exec are served.
    fn serves(&self) -> Vec<String> {
        let file = |name: &str| self.folder.path().join(name).display().to_string();
        vec![
            "--syncer-kubelet-address=127.0.0.1".to_owned(),
            format!("--syncer-kubelet-port={}", self.port),
            format!("--syncer-kubelet-listen-address=127.0.0.1:{}", self.port),
            format!("--syncer-tls-cert-file={}", file("tls.crt")),
            format!("--syncer-tls-private-key-file={}", file("tls.key")),
            format!("--syncer-client-ca-file={}", file("ca.crt")),
        ]
    }

    /// Stores the binding and its Secret.
    async fn bind(&self) -> Result<()> {
        let kubeconfig = std::fs::read_to_string(&self.borrower)?;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "east", "namespace": SYSTEM},
            "stringData": {KEY: kubeconfig},
        });
        let binding = json!({
            "apiVersion": cluster_binding::API_VERSION, "kind": cluster_binding::KIND, "metadata": {"name": "east"},
            "spec": {
                "clusterID": "east", "secretRef": {"name": "east"}, "mountNamespace": BORROWED,
                "disableNodeDefaultTaint": true, "safety": {"maxNodesPercent": 100},
                "timing": {"lease": "4s", "suspect": "5s", "unreachable": "10s", "empty": "3s", "recheck": "1s", "grow": "1s"},
            },
        });
        self.virtual_plane.apply(&[secret, binding]).await
    }

    fn bindings(&self) -> Api<ClusterBinding> {
        Api::all(self.virtual_plane.client())
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.virtual_plane.client())
    }

    async fn until_node(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        until(&self.nodes(), NODE, what, is_so).await
    }

    async fn until_binding(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        until(&self.bindings(), "east", what, is_so).await
    }

    /// When the lease of the virtual node was renewed last.
    async fn renewed(&self) -> Result<Timestamp, String> {
        let leases: Api<Lease> = Api::namespaced(self.virtual_plane.client(), "kube-node-lease");
        let lease = leases.get(NODE).await.map_err(|error| error.to_string())?;
        let renewed = lease.spec.and_then(|spec| spec.renew_time).map(|time| time.0);
        renewed.ok_or_else(|| "it was never renewed".to_owned())
    }

    /// Waits until that was later than this.
    async fn until_renewed(&self, after: Timestamp) {
        eventually(&format!("the lease is renewed after {after}"), PATIENCE, async || {
            let renewed = self.renewed().await?;
            if renewed > after { Ok(()) } else { Err(renewed.to_string()) }
        })
        .await;
    }

    /// The longest time between two renewals of the lease of the virtual node, from all of its writes.
    async fn longest_gap(&self) -> Result<SignedDuration> {
        let writes = self.virtual_plane.writes_in_order(&format!("/registry/leases/kube-node-lease/{NODE}")).await?;
        let times = writes.iter().filter(|write| write.kind == WriteKind::Put);
        let times = times.filter_map(|write| write.value["spec"]["renewTime"].as_str()?.parse::<Timestamp>().ok());
        let times: Vec<Timestamp> = times.collect();
        let gaps = times.windows(2).map(|pair| pair[1].duration_since(pair[0]));
        gaps.max().with_context(|| format!("{times:?}"))
    }

    async fn stop(self) -> Result<()> {
        assert_eq!(self.kubelets.mistakes(), [""; 0]);
        self.background.stop().await;
        self.virtual_plane.stop().await?;
        self.physical_plane.stop().await?;
        self.folder.close().context("its files cannot be removed")
    }
}

/// An account with these rights and no others; its kubeconfig.
pub(super) async fn account(plane: &ControlPlane, home: &str, name: &str, rights: &[Right]) -> Result<PathBuf> {
    let version = "rbac.authorization.k8s.io/v1";
    let mut rules: BTreeMap<&RightScope, Vec<Value>> = BTreeMap::new();
    for right in rights {
        let mut rule = json!({"apiGroups": [right.group], "resources": [right.resource], "verbs": right.verbs});
        if !right.names.is_empty() {
            rule["resourceNames"] = json!(right.names);
        }
        rules.entry(&right.place).or_default().push(rule);
    }
    let metadata = json!({"name": name, "namespace": home});
    let mut objects = vec![json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})];
    for (place, rules) in rules {
        let (kind, metadata) = match place {
            RightScope::Cluster => ("ClusterRole", json!({"name": name})),
            RightScope::Namespace(namespace) => ("Role", json!({"name": name, "namespace": namespace})),
        };
        objects.push(json!({"apiVersion": version, "kind": kind, "metadata": metadata, "rules": rules}));
        objects.push(json!({
            "apiVersion": version, "kind": format!("{kind}Binding"), "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": home}],
        }));
    }
    plane.apply(&objects).await?;
    plane.kubeconfig_for(home, name).await
}

async fn until_ready(host: &Host, words: &str) -> String {
    eventually(&format!("/readyz says {words:?}"), PATIENCE, async || {
        let ready = host.readyz().await.map_err(|error| error.to_string())?;
        if ready.contains(words) { Ok(ready) } else { Err(ready) }
    })
    .await
}

/// Switches all writes of the syncer off, or on again.
async fn switch(stage: &Stage, host: &Host, read_only: ReadOnly) -> Result<()> {
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::namespaced(stage.virtual_plane.client(), SYSTEM);
    let is_off = read_only == ReadOnly::Yes;
    let value = is_off.then_some("true");
    let patch = Patch::Merge(json!({"metadata": {"annotations": {READ_ONLY_ANNOTATION: value}}}));
    maps.patch(SWITCH, &PatchParams::default(), &patch).await?;
    let line = format!("topoloom_read_only{{reason=\"annotation\"}} {}", u8::from(is_off));
    eventually("the host has seen that", PATIENCE, async || {
        let metrics = host.get("/metrics").await.map_err(|error| error.to_string())?;
        if metrics.contains(&line) { Ok(()) } else { Err(metrics) }
    })
    .await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_waits_for_the_definition_lends_runs_pods_and_serves_their_logs_and_writes_leases_alone_when_told()
-> Result<()> {
    let mut stage = Stage::new(Definition::Absent).await?;
    let collector = Collector::start([]).await?;
    let flags = [stage.serves(), vec![format!("--otlp-endpoint={}", collector.url())]].concat();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let host = stage.host("one", &flags).await?;
    until_ready(&host, "[-] controller bottomup-syncer waiting: clusterbindings.topoloom.dev is absent").await;
    let warned = host.log().iter().filter(|line| line.contains("WARN") && line.contains("clusterbindings")).count();
    assert_eq!(warned, 1, "{:#?}", host.log());
    stage.virtual_plane.apply_crd(cluster_binding::definition()).await?;
    until_ready(&host, "[+] controller bottomup-syncer runs").await;

    stage.bind().await?;
    let node = stage.until_node("is ready", |node| ready(node) == "True").await;
    assert_eq!(node["status"]["addresses"], json!([{"type": "InternalIP", "address": "127.0.0.1"}]));
    assert_eq!(node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"], stage.port);
    let binding = stage.until_binding("is ready", |binding| says(binding, "Ready", "True", "Ok")).await;
    assert_eq!(binding["status"]["holder"], "one");
    until_ready(&host, "[+] binding east: leads\n").await;

    // kube-scheduler places a pod, the top-down half copies it, and its status comes back.
    let uid = binding["metadata"]["uid"].as_str().context("a binding has a UID")?;
    let identity = Identity::new(cluster(&stage.virtual_plane).await?, BindingName::parse("east")?, uid.into())?;
    let settings =
        player::Settings { identity, mount_namespace: BORROWED.to_owned(), patience: Duration::from_secs(60) };
    let (player, run) = Player::new(stage.virtual_plane.client(), stage.physical_plane.client(), settings);
    stage.background.spawn(run);
    let _scheduler = stage.virtual_plane.scheduler(&[]).await?;
    let pods: Api<Pod> = Api::namespaced(stage.virtual_plane.client(), SHOP);
    let pod = json!({"metadata": {"name": "web-0"}, "spec": {"containers": [{"name": "c", "image": "none"}]}});
    pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    until_pod(&pods, "web-0", "runs", |pod| phase(pod) == "Running").await;
    let physical = physical_pod_name(SHOP, "web-0")?;

    // The API server of the virtual cluster reaches its log by the address that the node shows.
    let logs = stage.virtual_plane.kubectl(&["logs", "--namespace", SHOP, "web-0"]);
    let said = timeout(PATIENCE, logs).await.context("kubectl hangs")??;
    assert_eq!(said, format!("the log of {BORROWED}/{physical} c\n"));

    // What an operator sees.
    let dump = host.get("/debug/dump").await?;
    let shown: Value = serde_json::from_str(&dump)?;
    let lending = &shown["lending"];
    assert_eq!(lending["bindings"]["east"]["nodes"]["lent"], 1, "{lending}");
    assert_eq!(lending["streams"]["east"]["cluster"], *cluster(&stage.physical_plane).await?, "{lending}");
    let kubeconfig: Value = serde_json::from_str(&std::fs::read_to_string(&stage.borrower)?)?;
    let token = kubeconfig["users"][0]["user"]["token"].as_str().context("it has a token")?;
    assert!(!dump.contains(token) && !host.log().iter().any(|line| line.contains(token)));
    let metrics = host.get("/metrics").await?;
    for line in [
        "topoloom_virtual_node_leases{binding=\"east\"} 1\n",
        "topoloom_virtual_kubelet_requests_total{verb=\"logs\",outcome=\"opened\"} 1\n",
        "topoloom_physical_api_requests_total{",
        "topoloom_lent_pod_orphans{binding=\"east\"} 0\n",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }

    decisions_are_traced(&collector).await?;

    only_leases(&stage, &host).await?;
    assert_eq!(player.mistakes(), [""; 0]);
    host.stop().await?;
    stage.stop().await
}

/// Whether what a span is about was done: a write that meets another one is tried again, in a span of its own.
fn is_done(span: &Span) -> bool {
    attribute(span, "result").as_deref() == Some("ok")
}

/// The making of the virtual node, below the decision from which it follows.
fn created(requests: &[Request]) -> Option<(&Span, &Span)> {
    let spans = || requests.iter().flat_map(Request::spans);
    let is_creation = |span: &&Span| span.name == "order" && attribute(span, "kind").as_deref() == Some("create");
    let order = spans().filter(is_creation).find(|span| is_done(span))?;
    let decision = spans().find(|span| span.name == "lend" && span.span_id == order.parent_span_id)?;
    Some((decision, order))
}

/// The status of the pod, written to the virtual one.
fn mirrored(requests: &[Request]) -> Option<&Span> {
    let is_of_the_pod = |span: &&Span| attribute(span, "pod").is_some_and(|pod| pod.contains("web-0"));
    let mirrors = requests.iter().flat_map(Request::spans).filter(|span| span.name == "mirror");
    mirrors.filter(is_of_the_pod).find(|span| is_done(span))
}

/// Each decision that writes is a trace of its own: what it is about and why, and each of its writes.
async fn decisions_are_traced(collector: &Collector) -> Result<()> {
    let came = collector.until(|requests| created(requests).is_some() && mirrored(requests).is_some()).await?;
    let said = |span: &Span, key: &str| attribute(span, key).unwrap_or_default();
    let (decision, order) = created(&came).context("a virtual node was made")?;
    assert!(decision.parent_span_id.is_empty() && decision.trace_id == order.trace_id, "{decision:?} {order:?}");
    assert_eq!((said(decision, "binding"), said(decision, "node")), ("east".to_owned(), "w1".to_owned()));
    assert!(!said(decision, "why").is_empty(), "{decision:?}");
    let mirror = mirrored(&came).context("a pod was mirrored")?;
    assert!(mirror.parent_span_id.is_empty(), "{mirror:?}");
    assert_eq!(said(mirror, "binding"), "east");
    Ok(())
}

/// S27: while writes are off nothing but leases is written, and the node stays ready; afterwards what was missed is done.
async fn only_leases(stage: &Stage, host: &Host) -> Result<()> {
    switch(stage, host, ReadOnly::Yes).await?;
    let (before, renewed) = (stage.virtual_plane.requests().await?, stage.renewed().await.map_err(anyhow::Error::msg)?);
    // The lender uses its machine.
    let lenders: Api<Pod> = Api::namespaced(stage.physical_plane.client(), "default");
    let container = json!({"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}});
    let pod = json!({"metadata": {"name": "own"}, "spec": {"nodeName": "w1", "containers": [container]}});
    lenders.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    stage.until_renewed(renewed + 4 * INTERVAL).await;
    let since = stage.virtual_plane.requests().await?.since(&before);
    for (resource, subresource) in [
        ("nodes", ""),
        ("nodes", "status"),
        ("pods", ""),
        ("pods", "status"),
        ("csinodes", ""),
        ("clusterbindings", ""),
        ("clusterbindings", "status"),
    ] {
        assert_eq!(since.writes(resource, subresource), 0, "{resource} {subresource}: {since:?}");
    }
    let node = stage.until_node("is there", |_| true).await;
    assert_eq!((ready(&node), &node["status"]["allocatable"]["cpu"]), ("True", &json!("32")));
    until_ready(host, "[!] binding east: leads; ").await;
    switch(stage, host, ReadOnly::No).await?;
    stage.until_node("shrinks", |node| node["status"]["allocatable"]["cpu"] != "32").await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn s11_s22_a_replica_takes_over_from_one_that_was_killed_and_what_a_binding_that_is_gone_has_lent_stays_alive()
-> Result<()> {
    let stage = Stage::new(Definition::There).await?;
    stage.bind().await?;
    let (one, two) = (stage.host("one", &LEASES).await?, stage.host("two", &LEASES).await?);
    stage.until_node("is ready", |node| ready(node) == "True").await;
    let binding = stage.until_binding("is ready", |binding| says(binding, "Ready", "True", "Ok")).await;
    let (leader, mut follower) = if binding["status"]["holder"] == "one" { (one, two) } else { (two, one) };
    let next = if binding["status"]["holder"] == "one" { "two" } else { "one" };
    until_ready(&follower, "[+] binding east: follows ").await;

    leader.kill().await?;
    stage.until_binding("has another holder", |binding| binding["status"]["holder"] == next).await;
    stage.until_renewed(Timestamp::now()).await;
    let gap = stage.longest_gap().await?;
    // Beside all other tests replicas and servers wait for a processor.
    let most = LEASE + INTERVAL + Duration::from_secs(8);
    assert!(gap <= SignedDuration::try_from(most)?, "no renewal for {gap}");

    // It is paused, so that its nodes do not go with it, and is deleted by force.
    let mark = |key: &str, value: Value| Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
    stage.bindings().patch("east", &PatchParams::default(), &mark(PAUSE_ANNOTATION, json!("true"))).await?;
    stage.until_binding("is paused", |binding| says(binding, "Paused", "True", "Paused")).await;
    stage.bindings().delete("east", &DeleteParams::default()).await?;
    let force = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    stage.bindings().patch("east", &PatchParams::default(), &force).await?;
    eventually("the binding is gone", PATIENCE, async || match stage.bindings().get_opt("east").await {
        Ok(None) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let gone = Timestamp::now();
    stage.until_renewed(gone + 4 * INTERVAL).await;
    assert!(!follower.has_ended()?);
    let orphaned = "binding east: leads; it was deleted by force while it lent 1 nodes";
    let ready_says = follower.readyz().await?;
    assert!(ready_says.contains(orphaned), "{ready_says}");

    // Also by a replica that has never seen the binding.
    follower.stop().await?;
    let last = stage.host("three", &LEASES).await?;
    until_ready(&last, orphaned).await;
    stage.until_renewed(Timestamp::now() + 2 * INTERVAL).await;

    // Applied again it adopts what the earlier one has lent.
    stage.bind().await?;
    let binding = stage.until_binding("is ready again", |binding| says(binding, "Ready", "True", "Ok")).await;
    let uid = binding["metadata"]["uid"].clone();
    stage.until_node("is adopted", |node| node["metadata"]["labels"][keys::BINDING_UID] == uid).await;
    let gap = stage.longest_gap().await?;
    assert!(gap <= SignedDuration::try_from(most)?, "no renewal for {gap}");
    last.stop().await?;
    stage.stop().await
}
