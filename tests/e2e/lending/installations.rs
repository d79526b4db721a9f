//! Two installations in one virtual cluster that cannot read each other's Leases: each has exactly the rights of the chart, in a
//! namespace of its own (decision S11). kube-controller-manager marks a node whose lease is not renewed.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use topoloom::manager::rights::Extent;
use topoloom::manager::rights::lending::{BindingLeases, Evictions, HostPorts, Streams, VirtualSettings};
use topoloom_api::cluster_binding::PolicySource;
use topoloom_api::names::CONFIRM_ANNOTATION;
use topoloom_syncer::bindings::{self, Holding, Process};
use topoloom_syncer::heartbeats::Clock;
use topoloom_tests::controlplane::{WriteKind, client_from, eventually};
use topoloom_tests::scene::PATIENCE;

use super::group::ready;
use super::lent::{Lent, SYSTEM, holding_in, namespace, now, process_with, says};
use super::program::account;

/// Where the second installation is.
const SECOND: &str = "topoloom-second";
/// The virtual node of the one machine. Its lease lasts for 16 s and is renewed every 4 s.
const NODE: &str = "vnode-east-w1";
const INTERVAL: SignedDuration = SignedDuration::from_secs(4);
/// For so long an installation looks at leases that are not renewed, in reads that are 2 s apart.
const LOOK: SignedDuration = SignedDuration::from_secs(8);
/// A node whose lease was not renewed for 22 s is Unknown: the lease, and what a busy machine adds.
const LIFECYCLE: [&str; 2] = ["--node-monitor-period=1s", "--node-monitor-grace-period=22s"];

/// An installation with one replica.
struct Installation {
    process: Arc<Process>,
    holding: Holding,
    /// What it says of the binding.
    said: Arc<Mutex<String>>,
}

impl Installation {
    async fn new(lent: &mut Lent, home: &str) -> Result<Self> {
        let plane = &lent.virtual_plane;
        let settings = VirtualSettings {
            leases: BindingLeases::Elected(home.to_owned()),
            config: (home.to_owned(), "switch".to_owned()),
            extent: Extent::Everything,
            secrets: vec![(SYSTEM.to_owned(), "east".to_owned())],
            policies: PolicySource::Physical,
            evictions: Evictions::Allowed,
            host_ports: HostPorts::Off,
            streams: Streams::Off,
        };
        let kubeconfig = account(plane, home, &format!("syncer-of-{home}"), &settings.rights()).await?;
        let client = client_from(&kubeconfig).await?;
        let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
        eventually("its rights are in force", PATIENCE, async || {
            leases.list(&ListParams::default()).await.map(drop).map_err(|error| error.to_string())
        })
        .await;
        let process = process_with(plane, &client, home, now, Clock::machine()).await?;
        let said = Arc::<Mutex<String>>::default();
        let mut holding = holding_in(plane, &client, home, "east").await?;
        let hears = Arc::clone(&said);
        holding.tell = Arc::new(move |why: Option<&str>| {
            *hears.lock().unwrap_or_else(PoisonError::into_inner) = why.unwrap_or_default().to_owned();
        });
        let watched_over = Arc::clone(&process);
        lent.background.spawn(async move { watched_over.watch_over().await });
        Ok(Self { process, holding, said })
    }

    /// Serves the binding from now on, or waits for the other one, until it is stopped.
    fn serves(&self, lent: &mut Lent) -> CancellationToken {
        let stop = CancellationToken::new();
        lent.background.spawn(bindings::run(Arc::clone(&self.process), self.holding.clone(), stop.clone()));
        stop
    }

    async fn until_says(&self, words: &str) {
        eventually(&format!("it says {words:?}"), PATIENCE, async || {
            let said = self.said.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if said.contains(words) { Ok(()) } else { Err(said) }
        })
        .await;
    }

    fn has(&self, binding: &Value) -> bool {
        binding["status"]["lease"] == self.holding.lease.to_string()
    }
}

/// The longest time between two renewals of the lease of the virtual node, from all of its writes.
async fn longest_gap(lent: &Lent) -> Result<SignedDuration> {
    let writes = lent.virtual_plane.writes_in_order(&format!("/registry/leases/kube-node-lease/{NODE}")).await?;
    let times = writes.iter().filter(|write| write.kind == WriteKind::Put);
    let times = times.filter_map(|write| write.value["spec"]["renewTime"].as_str()?.parse::<Timestamp>().ok());
    let times: Vec<Timestamp> = times.collect();
    let gaps = times.windows(2).map(|pair| pair[1].duration_since(pair[0]));
    gaps.max().with_context(|| format!("{times:?}"))
}

/// Waits until it was renewed after this.
async fn until_renewed(lent: &Lent, after: Timestamp) {
    let leases: Api<Lease> = Api::namespaced(lent.virtual_plane.client(), "kube-node-lease");
    eventually(&format!("the lease is renewed after {after}"), PATIENCE, async || {
        let lease = leases.get(NODE).await.map_err(|error| error.to_string())?;
        let renewed = lease.spec.and_then(|spec| spec.renew_time).map(|time| time.0);
        if renewed.is_some_and(|renewed| renewed > after) { Ok(()) } else { Err(format!("{renewed:?}")) }
    })
    .await;
}

/// The states in which the node was anything but ready, since this revision.
async fn unready(lent: &Lent, since: u64) -> Result<Vec<Value>> {
    let writes = lent.virtual_plane.writes_since(&format!("/registry/minions/{NODE}"), since).await?;
    Ok(writes.into_iter().map(|write| write.value).filter(|node| ready(node) != "True").collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn s11_an_installation_whose_lease_may_not_be_read_is_left_alone_while_it_renews_and_taken_over_when_it_does_not()
-> Result<()> {
    let mut lent = Lent::new(&["w1"], now).await?;
    lent.virtual_plane.start_controllers_with(&["node-lifecycle-controller"], &LIFECYCLE)?;
    lent.virtual_plane.apply(&[namespace(SECOND)]).await?;
    lent.secret("east", &std::fs::read_to_string(lent.physical_plane.kubeconfig())?).await?;
    lent.binding("east", json!({"timing": {"lease": "16s"}})).await?;
    let first = Installation::new(&mut lent, SYSTEM).await?;
    let stop = first.serves(&mut lent);
    lent.until(NODE, "is ready", |node| ready(node) == "True").await;
    let revision = lent.virtual_plane.revision().await?;
    lent.until_binding("east", "is of the first", |binding| first.has(binding)).await;

    // The name of one that does not exist, and whose Lease may not be read. The group goes on, and writes its own again.
    let name = Patch::Merge(json!({"status": {"lease": "nowhere/topoloom-syncer-binding-east"}}));
    lent.bindings().patch_status("east", &PatchParams::default(), &name).await?;
    first.until_says("its status has the name of another installation").await;
    lent.until_binding("east", "is of the first again", |binding| first.has(binding)).await;
    let gap = longest_gap(&lent).await?;
    assert!(gap < LOOK, "no renewal for {gap}: the life of the binding has ended");

    // The second one sees that its nodes are served, for longer than it looks at leases that are not renewed.
    let second = Installation::new(&mut lent, SECOND).await?;
    let _serves = second.serves(&mut lent);
    second.until_says("The leases of virtual nodes are renewed, so it lives").await;
    until_renewed(&lent, Timestamp::now() + LOOK + INTERVAL).await;
    let binding = lent.bindings().get("east").await?;
    assert!(first.has(&serde_json::to_value(binding)?), "it is left alone");

    // The first one goes, and nothing that the second may read says so.
    stop.cancel();
    let gone = Timestamp::now();
    lent.until_binding("east", "is of the second", |binding| second.has(binding)).await;
    until_renewed(&lent, gone + LOOK).await;
    assert_eq!(unready(&lent, revision).await?, Vec::<Value>::new(), "the node is never anything but ready");

    // The counter of the witness stood in the Lease of the first: a person confirms that no cluster was restored.
    let is_restored = |binding: &Value| says(binding, "Restored", "True", "VirtualClusterRestored");
    let binding = lent.until_binding("east", "is to be confirmed", is_restored).await;
    let hash = binding["status"]["restored"]["hash"].as_str().context("it has a hash")?.to_owned();
    lent.annotate("east", CONFIRM_ANNOTATION, Some(&hash)).await?;
    lent.until_binding("east", "is ready", |binding| says(binding, "Ready", "True", "Ok")).await;
    assert_eq!(unready(&lent, revision).await?, Vec::<Value>::new(), "the node is never anything but ready");
    lent.stop().await
}
