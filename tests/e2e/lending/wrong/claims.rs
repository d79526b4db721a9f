//! Two that want the same, and what is left of a binding or of a virtual cluster (decisions S6, S7 and S22).

use std::collections::BTreeSet;
use std::fs::read_to_string;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use topoloom_api::ClusterBinding;
use topoloom_api::names::PAUSE_ANNOTATION;
use topoloom_sync::keys;
use topoloom_syncer::bindings::{self, Process};
use topoloom_syncer::heartbeats;
use topoloom_tests::controlplane::{ControlPlane, KEEPERS, SCALED, Wanted, eventually};
use topoloom_tests::lending::kubelets::NewNode;
use topoloom_tests::scene::{PATIENCE, Scene};

use super::super::group::ready;
use super::super::lent::{
    ELSEWHERE, Lent, SYSTEM, binding, cluster, condition, holding, namespace, now, process, says, secret, until,
};
use super::super::pair::BORROWED;
use super::super::verbs::topoloom;
use super::super::{phase, until_pod};
use super::{bound, claim, is_terminating, pass, player, pods, uid};

/// As long as several rounds of everything that looks again by itself.
const ROUNDS: Duration = Duration::from_secs(6);

/// Another virtual cluster that borrows from the same physical one.
struct Second {
    plane: ControlPlane,
    process: Arc<Process>,
    kubeconfig: String,
}

impl Second {
    async fn new(lent: &mut Lent, plane: ControlPlane) -> Result<Self> {
        plane.apply(&[namespace(SYSTEM)]).await?;
        let process = process(&plane, "replica-2", now, heartbeats::Clock::machine()).await?;
        let watched_over = Arc::clone(&process);
        lent.background.spawn(async move { watched_over.watch_over().await });
        let kubeconfig = read_to_string(lent.physical_plane.kubeconfig())?;
        Ok(Self { plane, process, kubeconfig })
    }

    async fn bind(&self, lent: &mut Lent, name: &str, fields: Value) -> Result<()> {
        secret(&self.plane, name, &self.kubeconfig).await?;
        self.plane.apply(&[binding(name, &fields)]).await?;
        let holding = holding(&self.plane, &self.process.lent, name).await?;
        lent.background.spawn(bindings::run(Arc::clone(&self.process), holding, CancellationToken::new()));
        Ok(())
    }

    fn bindings(&self) -> Api<ClusterBinding> {
        Api::all(self.plane.client())
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.plane.client())
    }
}

/// The machines with one of these labels.
fn of_loans(loans: &[&str]) -> Value {
    json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "loan", "operator": "In", "values": loans}]}]})
}

/// Three control planes: two that borrow, and one that lends.
async fn planes() -> Result<(Lent, ControlPlane)> {
    let [first, second, physical] = Scene::planes([Wanted::Shared, Wanted::Shared, Wanted::Shared]).await?;
    let mut lent = Lent::between([first, physical], &[], now).await?;
    lent.virtual_plane.start_controllers_with(&KEEPERS, &SCALED)?;
    Ok((lent, second))
}

#[tokio::test(flavor = "multi_thread")]
async fn s7_the_first_claim_stays_without_a_quarrel_and_what_is_not_disputed_works() -> Result<()> {
    let (mut lent, plane) = planes().await?;
    lent.physical_plane.apply(&["third", "fourth"].map(namespace)).await?;
    let machines = [("c1", "both"), ("c2", "twin"), ("c3", "south"), ("w-1", "dash"), ("1", "name")]
        .map(|(name, loan)| NewNode::named(name).label("loan", loan));
    lent.kubelets.register(machines).await?;
    lent.bind("east", json!({"nodeSelector": of_loans(&["both", "dash"])})).await?;
    for node in ["vnode-east-c1", "vnode-east-w-1"] {
        lent.until(node, "is ready", |node| ready(node) == "True").await;
    }

    // One node for two bindings, and for two virtual clusters; one namespace; two machines that give one name.
    lent.bind("twin", json!({"nodeSelector": of_loans(&["both", "twin"]), "mountNamespace": ELSEWHERE})).await?;
    let fields = json!({"nodeSelector": of_loans(&["name"]), "mountNamespace": "third", "clusterID": "east-w"});
    lent.bind("dash", fields).await?;
    let second = Second::new(&mut lent, plane).await?;
    second.bind(&mut lent, "east", json!({"nodeSelector": of_loans(&["south"])})).await?;
    let fields = json!({"nodeSelector": of_loans(&["both", "south"]), "mountNamespace": "fourth"});
    second.bind(&mut lent, "south", fields).await?;
    let is_claimed = |binding: &Value| {
        says(binding, "Conflict", "True", "NodesClaimed")
            && condition(binding, "Conflict")[2].starts_with("1 physical nodes are claimed")
    };
    lent.until_binding("twin", "does not get all of its nodes", is_claimed).await;
    until(&second.bindings(), "south", "does not get all of its nodes", is_claimed).await;
    let is_taken = |binding: &Value| says(binding, "Conflict", "True", "BorrowerLeaseTaken");
    until(&second.bindings(), "east", "does not get its namespace", is_taken).await;
    lent.until("vnode-twin-c2", "is ready", |node| ready(node) == "True").await;
    until(&second.nodes(), "vnode-south-c3", "is ready", |node| ready(node) == "True").await;
    let events: Api<Event> = Api::all(lent.virtual_plane.client());
    eventually("Events about the name that is taken and the machine that is claimed", PATIENCE, async || {
        let all = events.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let is_told = |reason: &str, of: &str| {
            let is_it = |event: &Event| {
                let about = event.regarding.as_ref().and_then(|about| about.name.as_deref());
                event.reason.as_deref() == Some(reason) && about == Some(of)
            };
            all.iter().any(is_it)
        };
        let told = [is_told("NameTaken", "vnode-east-w-1"), is_told("NodesClaimed", "twin")];
        if told == [true; 2] { Ok(()) } else { Err(format!("{told:?} among {}", all.len())) }
    })
    .await;

    // Each looks again by itself, and nothing is written for that.
    let planes = [&lent.physical_plane, &lent.virtual_plane, &second.plane];
    let mut revisions = Vec::new();
    for plane in planes {
        revisions.push(plane.revision().await?);
    }
    pass(Instant::now(), ROUNDS).await;
    for (plane, revision) in planes.into_iter().zip(revisions) {
        let writes = plane.writes_since("/registry/minions/", revision + 1).await?;
        let keys: Vec<&str> = writes.iter().map(|write| write.key.as_str()).collect();
        assert_eq!(keys, [""; 0], "{writes:#?}");
    }
    let writes = lent.physical_plane.writes_in_order("/registry/minions/c1").await?;
    let claims: BTreeSet<&str> = writes.iter().filter_map(|write| claim(&write.value)).collect();
    assert_eq!(claims.into_iter().collect::<Vec<_>>(), [lent.identity("east").await?.claim()]);
    // Whose name is taken is not lent: it may be claimed, since a claim comes first.
    let taken = lent.lent().get("vnode-east-w-1").await?;
    assert_eq!(
        taken.metadata.labels.unwrap_or_default().get(keys::PHYSICAL_NODE_NAME).map(String::as_str),
        Some("w-1")
    );
    lent.stop().await?;
    second.plane.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_s22_a_binding_that_is_made_again_adopts_and_a_cluster_that_is_built_again_gets_what_its_lender_releases()
-> Result<()> {
    let (mut lent, plane) = planes().await?;
    lent.kubelets.register(["w1", "w2"].map(NewNode::named)).await?;
    let stop = CancellationToken::new();
    lent.secret("east", &read_to_string(lent.physical_plane.kubeconfig())?).await?;
    lent.binding("east", json!({})).await?;
    lent.serve_until("east", stop.clone()).await?;
    for node in ["vnode-east-w1", "vnode-east-w2"] {
        lent.until(node, "is ready", |node| ready(node) == "True").await;
    }
    let _player = player(&mut lent, "east", BORROWED).await?;
    let web = bound(&lent.virtual_plane, "web", "vnode-east-w1", json!({"spec": {"tolerations": []}})).await?;
    until_pod(&pods(&lent.virtual_plane), "web", "runs", |pod| phase(pod) == "Running").await;

    made_again(&lent, &web).await?;
    stop.cancel();

    // The virtual cluster is built again, with the same names. What the earlier one has stays its own.
    let earlier = cluster(&lent.virtual_plane).await?;
    let second = Second::new(&mut lent, plane).await?;
    second.bind(&mut lent, "east", json!({})).await?;
    let is_taken = |binding: &Value| says(binding, "Conflict", "True", "BorrowerLeaseTaken");
    until(&second.bindings(), "east", "does not get its namespace", is_taken).await;
    let physicals: Api<Pod> = Api::namespaced(lent.physical_plane.client(), BORROWED);
    let run = physicals.list(&ListParams::default()).await?.items;
    assert!(run.len() == 1 && run.iter().all(|pod| pod.metadata.deletion_timestamp.is_none()), "{run:?}");

    // The lender releases it, once that cluster has not been heard of for a while.
    let file = lent.physical_plane.kubeconfig().display().to_string();
    let release = ["lend", "release", "--gone-virtual-cluster", &*earlier, "--physical-kubeconfig", &file, "--yes"];
    let early = topoloom(None, &release).await?.refused()?;
    assert!(early.contains("is not gone"), "{early}");
    eventually("it is released", PATIENCE, async || {
        age(&lent.physical_plane, &earlier).await.map_err(|error| format!("{error:#}"))?;
        let said = topoloom(None, &release).await.and_then(|said| said.done());
        said.map(drop).map_err(|error| format!("{error:#}"))
    })
    .await;
    for node in ["vnode-east-w1", "vnode-east-w2"] {
        until(&second.nodes(), node, "is ready", |node| ready(node) == "True").await;
    }
    let of_earlier = ListParams::default().labels(&format!("{}={}", keys::VIRTUAL_CLUSTER, &*earlier));
    assert_eq!(physicals.list(&of_earlier).await?.items.len(), 0);
    for machine in lent.machines().list(&ListParams::default()).await?.items {
        let machine = serde_json::to_value(machine)?;
        let claim = claim(&machine).unwrap_or_default();
        assert!(claim.starts_with(&*cluster(&second.plane).await?), "{claim}");
    }
    lent.stop().await?;
    second.plane.stop().await
}

/// The binding is deleted by force, while the garbage collector runs, and applied again.
async fn made_again(lent: &Lent, web: &Pod) -> Result<()> {
    let nodes = async || -> Result<Vec<(Option<String>, Option<String>)>> {
        let all = lent.lent().list_metadata(&ListParams::default()).await?.items;
        Ok(all.into_iter().map(|node| (node.metadata.name, node.metadata.uid)).collect())
    };
    let before = nodes().await?;
    lent.annotate("east", PAUSE_ANNOTATION, Some("true")).await?;
    lent.until_binding("east", "is paused", |binding| says(binding, "Paused", "True", "Paused")).await;
    lent.bindings().delete("east", &DeleteParams::default()).await?;
    let force = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    lent.bindings().patch("east", &PatchParams::default(), &force).await?;
    eventually("the binding is gone", PATIENCE, async || match lent.bindings().get_opt("east").await {
        Ok(None) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    lent.binding("east", json!({})).await?;
    let again = lent.until_binding("east", "is ready again", |binding| says(binding, "Ready", "True", "Ok")).await;
    let uid_of_binding = again["metadata"]["uid"].as_str().context("a binding has a UID")?.to_owned();
    for node in ["vnode-east-w1", "vnode-east-w2"] {
        lent.until(node, "is adopted", |node| node["metadata"]["labels"][keys::BINDING_UID] == *uid_of_binding).await;
    }
    for machine in ["w1", "w2"] {
        let is_adopted = |machine: &Value| claim(machine).is_some_and(|claim| claim.ends_with(&uid_of_binding));
        until(&lent.machines(), machine, "is adopted", is_adopted).await;
    }
    // The collector has had the time to take what a binding that is gone would own.
    pass(Instant::now(), Duration::from_secs(3)).await;
    assert_eq!(nodes().await?, before);
    let kept = pods(&lent.virtual_plane).get("web").await?;
    assert_eq!((uid(&kept), phase(&kept)), (uid(web), "Running"));
    assert!(!is_terminating(&serde_json::to_value(&kept)?));
    Ok(())
}

/// Makes the Leases of a virtual cluster an hour old.
async fn age(plane: &ControlPlane, virtual_cluster: &str) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(plane.client(), BORROWED);
    let of_it = ListParams::default().labels(&format!("{}={virtual_cluster}", keys::VIRTUAL_CLUSTER));
    let hour_ago = Timestamp::from_second(Timestamp::now().as_second())? - SignedDuration::from_hours(1);
    for lease in leases.list(&of_it).await?.items {
        let name = lease.metadata.name.context("a Lease has a name")?;
        let key = format!("/registry/leases/{BORROWED}/{name}");
        plane
            .edit(&key, |lease| {
                for entry in lease["metadata"]["managedFields"].as_array_mut().into_iter().flatten() {
                    entry["time"] = hour_ago.to_string().into();
                }
            })
            .await?;
    }
    Ok(())
}
