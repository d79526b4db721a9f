//! Ownership: two installations and look-alikes that were made by hand share one physical cluster, and one of the virtual clusters is
//! a physical one for the other. Whatever happens at random, nothing without the identity of a binding is updated, evicted or deleted
//! in any of the three, and neither installation touches what is the other's (decisions S1, S6 and S7).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::read_to_string;

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use topoloom_api::ClusterBinding;
use topoloom_api::names::PAUSE_ANNOTATION;
use topoloom_sync::keys;
use topoloom_tests::controlplane::{ControlPlane, KEEPERS, SCALED, Wanted, eventually};
use topoloom_tests::dice::Dice;
use topoloom_tests::host::Host;
use topoloom_tests::lending::kubelets::{self, Kubelets, NewNode};
use topoloom_tests::lending::ownership::senders::{Replicas, judge_senders};
use topoloom_tests::lending::ownership::{Story, judge};
use topoloom_tests::scene::{PATIENCE, Scene};

use super::super::lent::{ELSEWHERE, Lent, SYSTEM, binding, cluster, namespace, now, policy, says, secret, until};
use super::super::pair::BORROWED;
use super::{bound, host_with, plays, pods, switch};

const SEED: u64 = 20_260_801;
/// How much happens by itself, and how much in `make soak`.
const SHORT: usize = 40;
const LONG: usize = 500;
/// Where the pods of the binding that crosses are.
const CROSSED: &str = "crossed";
const MACHINES: usize = 6;
/// Pods with the identity of the first installation where the second one has its pods, and the other way round.
const STRAYS: [(&str, &str); 2] = [("stray-1", ELSEWHERE), ("stray-2", BORROWED)];
/// A pod of each installation whose virtual pod does not exist, and which nothing happens to at random.
const LEFT: &str = "left";
/// Where the physical pods of the two installations are in the cluster that both borrow from.
const MOUNTS: [&str; 2] = [BORROWED, ELSEWHERE];
/// The names of the two replicas.
const REPLICAS: [&str; 2] = ["one", "two"];
/// A virtual node whose Lease another client holds, in either cluster that borrows.
const HELD: &str = "vnode-east-w8";

/// Three clusters. `lent` has the first and the physical one; `second` borrows from both.
struct Play {
    lent: Lent,
    second: ControlPlane,
    others: Kubelets,
    hosts: [Option<Host>; 2],
    identities: [String; 2],
    dice: Dice,
    /// How many objects were made, for their names.
    made: usize,
    /// Pods of the lender, by name.
    lenders: BTreeSet<String>,
    /// What the test deleted in the physical cluster.
    deleted: BTreeSet<String>,
}

/// A replica that may do everything.
async fn unlimited(plane: &ControlPlane, name: &str) -> Result<Host> {
    host_with(&plane.kubeconfig(), name).await
}

/// What another was first with, or what is gone, is no mistake of a play.
fn passed<T>(answer: Result<T, kube::Error>) -> Result<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(kube::Error::Api(status)) if [404, 409, 422].contains(&status.code) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn fields(loan: &str, mount: &str) -> Value {
    let labels = json!([{"key": "loan", "operator": "In", "values": [loan]}]);
    json!({
        "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": labels}]}, "mountNamespace": mount,
        "clusterID": "east", "safety": {"maxEvictPercent": 100}, "timing": {"orphanDelay": "1s"},
    })
}

impl Play {
    async fn new() -> Result<Self> {
        // Both installations write to the first and to the third.
        let [first, second, physical] = Scene::planes([Wanted::Audited, Wanted::Shared, Wanted::Audited]).await?;
        let mut lent = Lent::between([first, physical], &[], now).await?;
        lent.virtual_plane.start_controllers_with(&KEEPERS, &SCALED)?;
        second.apply(&[namespace(SYSTEM)]).await?;
        lent.virtual_plane.apply(&[namespace(CROSSED)]).await?;
        // They renew their leases within the grace of kube-controller-manager.
        let faster = kubelets::Settings { faster: 10, ..kubelets::Settings::default() };
        let (others, run) = Kubelets::new(lent.virtual_plane.client(), &faster);
        lent.background.spawn(run);
        others.register(["own-1", "own-2"].map(|name| NewNode::named(name).label("loan", "cross"))).await?;

        let identities = [cluster(&lent.virtual_plane).await?.to_string(), cluster(&second).await?.to_string()];
        let machines = (0..MACHINES).map(|number| NewNode::named(format!("w{number}")).label("loan", "yes"));
        let others_names = ["w8", "w9"].map(|name| NewNode::named(name).label("loan", "yes"));
        lent.kubelets.register(machines.chain(others_names)).await?;
        look_alikes(&lent, &identities).await?;
        let physical = read_to_string(lent.physical_plane.kubeconfig())?;
        for plane in [&lent.virtual_plane, &second] {
            switch(plane).await?;
            secret(plane, "east", &physical).await?;
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"holderIdentity": "another"},
                "metadata": {"name": HELD, "namespace": "kube-node-lease"},
            });
            plane.apply(&[lease]).await?;
        }
        secret(&second, "cross", &read_to_string(lent.virtual_plane.kubeconfig())?).await?;
        lent.virtual_plane.apply(&[binding("east", &fields("yes", BORROWED))]).await?;
        second.apply(&[binding("east", &fields("yes", ELSEWHERE))]).await?;
        let mut crossing = fields("cross", CROSSED);
        crossing["clusterID"] = "cross".into();
        second.apply(&[binding("cross", &crossing)]).await?;
        for ((plane, mount), identity) in [&lent.virtual_plane, &second].into_iter().zip(MOUNTS).zip(&identities) {
            let bindings: Api<ClusterBinding> = Api::all(plane.client());
            let uid = bindings.get("east").await?.metadata.uid.context("a stored object has a UID")?;
            let mut labels = of_east(identity);
            labels[keys::BINDING_UID] = uid.into();
            carried(&lent, mount, LEFT, labels, Some("w9")).await?;
        }
        let [one, two] = REPLICAS;
        let hosts = [Some(unlimited(&lent.virtual_plane, one).await?), Some(unlimited(&second, two).await?)];
        let (lenders, deleted) = (BTreeSet::new(), BTreeSet::new());
        Ok(Self { lent, second, others, hosts, identities, dice: Dice::new(SEED), made: 0, lenders, deleted })
    }

    fn virtual_planes(&self) -> [&ControlPlane; 2] {
        [&self.lent.virtual_plane, &self.second]
    }

    fn one_virtual(&mut self) -> usize {
        self.dice.below(2)
    }

    fn machine(&mut self) -> String {
        format!("w{}", self.dice.below(MACHINES))
    }

    fn name(&mut self, kind: &str) -> String {
        self.made += 1;
        format!("{kind}-{}", self.made)
    }

    fn lenders_pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.lent.physical_plane.client())
    }

    /// One thing happens.
    async fn happen(&mut self) -> Result<()> {
        match self.dice.below(12) {
            0 => {
                let machine = NewNode::named(self.machine()).label("loan", "yes");
                self.lent.kubelets.register([machine]).await
            }
            1 => {
                let name = self.machine();
                self.deleted.insert(format!("/registry/minions/{name}"));
                passed(self.lent.machines().delete(&name, &DeleteParams::default()).await).map(drop)
            }
            2 => {
                let (name, loan) = (self.machine(), ["yes", "no"][self.dice.below(2)]);
                let label = Patch::Merge(json!({"metadata": {"labels": {"loan": loan}}}));
                passed(self.lent.machines().patch(&name, &PatchParams::default(), &label).await).map(drop)
            }
            3 => self.a_lenders_pod().await,
            4 => {
                let Some(name) = self.lenders.pop_first() else { return Ok(()) };
                self.deleted.insert(format!("/registry/pods/default/{name}"));
                passed(self.lenders_pods().delete(&name, &DeleteParams::default()).await).map(drop)
            }
            5 | 6 => self.a_users_pod().await,
            7 => self.an_orphan().await,
            8 => {
                let (at, value) = (self.one_virtual(), [Some("true"), None][self.dice.below(2)]);
                let bindings: Api<ClusterBinding> = Api::all(self.virtual_planes()[at].client());
                let mark = Patch::Merge(json!({"metadata": {"annotations": {PAUSE_ANNOTATION: value}}}));
                passed(bindings.patch("east", &PatchParams::default(), &mark).await).map(drop)
            }
            9 => self.restart().await,
            10 => self.a_policy().await,
            _ => {
                let (name, number) = (format!("look-{}", self.dice.below(3)), self.name("touched"));
                let label = Patch::Merge(json!({"metadata": {"labels": {"touched": number}}}));
                let pods: Api<Pod> = Api::namespaced(self.lent.physical_plane.client(), BORROWED);
                passed(pods.patch(&name, &PatchParams::default(), &label).await).map(drop)
            }
        }
    }

    async fn a_lenders_pod(&mut self) -> Result<()> {
        let (name, machine) = (self.name("lender"), self.machine());
        let container = json!({"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}});
        let spec = json!({"nodeName": machine, "containers": [container], "terminationGracePeriodSeconds": 1});
        let pod = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec}))?;
        if passed(self.lenders_pods().create(&PostParams::default(), &pod).await)?.is_some() {
            self.lenders.insert(name);
        }
        Ok(())
    }

    /// A pod on a virtual node of ours, whichever it is.
    async fn a_users_pod(&mut self) -> Result<()> {
        let (at, name) = (self.one_virtual(), self.name("user"));
        let nodes: Api<Node> = Api::all(self.virtual_planes()[at].client());
        let ours = ListParams::default().labels(&format!("{}={}", keys::VIRTUAL_CLUSTER, self.identities[at]));
        let mut names: Vec<String> =
            nodes.list_metadata(&ours).await?.items.into_iter().filter_map(|node| node.metadata.name).collect();
        if names.is_empty() {
            return Ok(());
        }
        let node = names.swap_remove(self.dice.below(names.len()));
        let plane = self.virtual_planes()[at];
        bound(plane, &name, &node, json!({"spec": {"terminationGracePeriodSeconds": 0}})).await.map(drop)
    }

    /// A physical pod of ours whose virtual pod does not exist.
    async fn an_orphan(&mut self) -> Result<()> {
        let (at, name, machine) = (self.one_virtual(), self.name("orphan"), self.machine());
        orphan(&self.lent, MOUNTS[at], &name, &self.identities[at], &machine).await
    }

    async fn restart(&mut self) -> Result<()> {
        let at = self.one_virtual();
        if let Some(host) = self.hosts[at].take() {
            host.kill().await?;
        }
        let next = unlimited(self.virtual_planes()[at], REPLICAS[at]).await?;
        self.hosts[at] = Some(next);
        Ok(())
    }

    /// A policy that closes some machines at once, or none any more.
    async fn a_policy(&mut self) -> Result<()> {
        if self.dice.below(2) == 0 {
            return passed(self.lent.policies().delete("closes", &DeleteParams::default()).await).map(drop);
        }
        let later = Timestamp::now().checked_add(SignedDuration::from_hours(5)).context("there is such a time")?;
        let minute = later.strftime("%H:%M").to_string();
        let field = json!({"key": "metadata.name", "operator": "In", "values": [self.machine()]});
        let spec = json!({
            "cluster": "east", "timeWindows": [{"start": minute, "end": minute}], "forceReclaim": true,
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        });
        self.lent.physical_plane.apply(&[policy("closes", spec)]).await
    }

    /// Everything comes to rest.
    async fn rest(&self) -> Result<()> {
        let is_well = |binding: &Value| says(binding, "Ready", "True", "Ok");
        for plane in self.virtual_planes() {
            let bindings: Api<ClusterBinding> = Api::all(plane.client());
            let resume = Patch::Merge(json!({"metadata": {"annotations": {PAUSE_ANNOTATION: null}}}));
            bindings.patch("east", &PatchParams::default(), &resume).await?;
            until(&bindings, "east", "is ready", is_well).await;
        }
        let bindings: Api<ClusterBinding> = Api::all(self.second.client());
        until(&bindings, "cross", "is ready", is_well).await;
        Ok(())
    }

    /// Each installation has removed the pod that it had to remove, and has said whose Lease it does not renew.
    async fn until_done(&self) {
        for mount in MOUNTS {
            let pods: Api<Pod> = Api::namespaced(self.lent.physical_plane.client(), mount);
            eventually(&format!("the orphan in {mount} goes"), PATIENCE, async || match pods.get_opt(LEFT).await {
                Ok(Some(pod)) if pod.metadata.deletion_timestamp.is_none() => Err("it is there".to_owned()),
                Ok(_) => Ok(()),
                Err(error) => Err(error.to_string()),
            })
            .await;
        }
        let events = self.virtual_planes().map(|plane| Api::<Event>::all(plane.client()));
        eventually("an Event about the Lease that another holds", PATIENCE, async || {
            let mut said = Vec::new();
            for events in &events {
                said.extend(events.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items);
            }
            let is_it = |event: &Event| {
                let about = event.regarding.as_ref().and_then(|about| about.name.as_deref());
                let note = event.note.as_deref().unwrap_or_default();
                about == Some(HELD) && event.reason.as_deref() == Some("NameTaken") && note.contains("\"another\"")
            };
            if said.iter().any(is_it) { Ok(()) } else { Err(format!("none among {}", said.len())) }
        })
        .await;
    }

    async fn stop(self) -> Result<()> {
        for host in self.hosts.into_iter().flatten() {
            host.stop().await?;
        }
        assert_eq!(self.others.mistakes(), [""; 0]);
        self.lent.stop().await?;
        self.second.stop().await
    }
}

/// A pod in the physical cluster with these labels.
async fn carried(lent: &Lent, mount: &str, name: &str, labels: Value, machine: Option<&str>) -> Result<()> {
    let annotations = json!({
        keys::VIRTUAL_POD_NAMESPACE: "default", keys::VIRTUAL_POD_NAME: name, keys::VIRTUAL_POD_UID: "gone",
        keys::VIRTUAL_NODE_NAME: "vnode-east-w0",
    });
    let pod = json!({
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {
            "nodeName": machine, "containers": [{"name": "c", "image": "none"}], "terminationGracePeriodSeconds": 1,
        },
    });
    let pods: Api<Pod> = Api::namespaced(lent.physical_plane.client(), mount);
    passed(pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await).map(drop)
}

/// The labels of a physical pod of this virtual cluster.
fn of_east(identity: &str) -> Value {
    json!({keys::MANAGED_BY_LABEL: keys::MANAGED_BY, keys::VIRTUAL_CLUSTER: identity, keys::BINDING: "east"})
}

/// A physical pod of this virtual cluster whose virtual pod does not exist. It does not name its binding, so it may be adopted.
async fn orphan(lent: &Lent, mount: &str, name: &str, identity: &str, machine: &str) -> Result<()> {
    carried(lent, mount, name, of_east(identity), Some(machine)).await
}

/// What looks like ours, and is not.
async fn look_alikes(lent: &Lent, identities: &[String; 2]) -> Result<()> {
    let ours = keys::MANAGED_BY;
    for (number, labels) in [
        json!({keys::MANAGED_BY_LABEL: ours, keys::VIRTUAL_CLUSTER: "another", keys::BINDING: "east"}),
        json!({keys::MANAGED_BY_LABEL: ours, keys::VIRTUAL_CLUSTER: identities[0], keys::BINDING: "none"}),
        json!({keys::MANAGED_BY_LABEL: ours}),
    ]
    .into_iter()
    .enumerate()
    {
        carried(lent, BORROWED, &format!("look-{number}"), labels, None).await?;
    }
    for ((name, mount), identity) in STRAYS.into_iter().zip(identities) {
        carried(lent, mount, name, of_east(identity), None).await?;
    }
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"holderIdentity": "another"},
        "metadata": {
            "name": "topoloom-borrower-another", "namespace": BORROWED,
            "labels": {keys::VIRTUAL_CLUSTER: "another", keys::BINDING: "east"},
        },
    });
    lent.physical_plane.apply(&[lease]).await?;
    lent.kubelets.register([NewNode::named("theirs").label("loan", "yes")]).await?;
    let claim = Patch::Merge(json!({"metadata": {"annotations": {keys::LEASED_BY: "vc-9/b-9"}}}));
    lent.machines().patch("theirs", &PatchParams::default(), &claim).await?;

    // A virtual node made by hand, under a name that one of ours would have; and a machine of the virtual cluster itself.
    let by_hand = json!({
        "metadata": {"name": "vnode-east-w9", "labels": {"type": "virtual-kubelet", keys::MANAGED_BY_LABEL: ours}},
    });
    lent.lent().create(&PostParams::default(), &serde_json::from_value(by_hand)?).await?;
    for (name, node) in [("by-hand", "vnode-east-w9"), ("own", "own-1")] {
        let spec = json!({"tolerations": [{"operator": "Exists"}]});
        bound(&lent.virtual_plane, name, node, json!({"spec": spec})).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn s1_s6_s7_nothing_without_our_identity_is_touched_whatever_happens_to_those_that_share_a_cluster() -> Result<()>
{
    let mut play = Play::new().await?;
    play.rest().await.context("before anything happens")?;
    let turns = if plays()? > 1 { LONG } else { SHORT };
    for turn in 0..turns {
        play.happen().await.with_context(|| format!("turn {turn} of seed {SEED}"))?;
    }
    play.rest().await.with_context(|| format!("after {turns} turns of seed {SEED}"))?;
    play.until_done().await;

    let [one, two] = play.identities.clone().map(|cluster| move |name: &str| (cluster.clone(), name.to_owned()));
    let lender = Story {
        identities: BTreeSet::from([one("east"), two("east")]),
        mounts: BTreeMap::from([(one("east"), BORROWED.to_owned()), (two("east"), ELSEWHERE.to_owned())]),
        deleted: play.deleted.clone(),
    };
    let crossed = Story {
        identities: BTreeSet::from([one("east"), two("cross")]),
        mounts: BTreeMap::from([(two("cross"), CROSSED.to_owned())]),
        deleted: BTreeSet::new(),
    };
    let of = |name: &str, identities: [(String, String); 2]| (name.to_owned(), BTreeSet::from(identities));
    let replicas: Replicas =
        [of(REPLICAS[0], [one("east"), one("east")]), of(REPLICAS[1], [two("east"), two("cross")])].into();
    let borrower = Story { identities: BTreeSet::from([two("east"), two("cross")]), ..Story::default() };
    for (what, plane, story) in [
        ("the lender's cluster", &play.lent.physical_plane, lender),
        ("the cluster in both roles", &play.lent.virtual_plane, crossed),
        ("the borrower's cluster", &play.second, borrower),
    ] {
        let has_claims = what != "the borrower's cluster";
        // Before the writes: each of its requests has one.
        let log = if has_claims { plane.audit_log()? } else { Vec::new() };
        let writes = plane.writes_in_order("/registry/").await?;
        let judged = judge(&writes, &story);
        assert_eq!(judged.violations, [""; 0], "{what}, seed {SEED}");
        let sent = judge_senders(&log, &writes, &replicas);
        assert_eq!(sent.violations, [""; 0], "{what}, seed {SEED}");
        assert_eq!(sent.written.len(), if has_claims { 2 } else { 0 }, "{what}: {sent:?}");
        assert!(what != "the lender's cluster" || sent.removed.len() == 2, "{sent:?}");
        assert!(judged.ours > 0 && (judged.claims > 0 || !has_claims), "{what}: {judged:?}");
        assert!(judged.foreign > 0 || !has_claims, "{what}: {judged:?}");
    }
    for plane in play.virtual_planes() {
        let writes = plane.writes_in_order(&format!("/registry/leases/kube-node-lease/{HELD}")).await?;
        assert_eq!(writes.len(), 1, "{writes:#?}");
    }
    for (name, mount) in STRAYS {
        let pods: Api<Pod> = Api::namespaced(play.lent.physical_plane.client(), mount);
        assert!(pods.get(name).await?.metadata.deletion_timestamp.is_none(), "{name}");
    }
    let kept = pods(&play.lent.virtual_plane);
    for name in ["by-hand", "own"] {
        assert!(kept.get(name).await?.metadata.deletion_timestamp.is_none(), "{name}");
    }
    play.stop().await
}
