//! Two clusters that log every request, ten bindings with two machines each, and three replicas that serve them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures::StreamExt;
use futures::future::try_join_all;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::{Value, json};
use topoloom_api::ClusterBinding;
use topoloom_api::names::{DRAIN_ANNOTATION, MEMBER_LABEL};
use topoloom_core::names::Uid;
use topoloom_sync::identity::Identity;
use topoloom_sync::naming::BindingName;
use topoloom_sync::spread::{MemberName, first};
use topoloom_tests::controlplane::{ControlPlane, KEEPERS, Wanted, eventually};
use topoloom_tests::failover::stalls::Watch;
use topoloom_tests::failover::tenures::Bindings;
use topoloom_tests::host::Host;
use topoloom_tests::lending::Background;
use topoloom_tests::lending::kubelets::{self, Kubelets, NewNode};
use topoloom_tests::lending::player::{self, Player};
use topoloom_tests::scene::{PATIENCE, Scene};

use crate::lending::group::ready;
use crate::lending::lent::cluster;
use crate::lending::pair::{BORROWED, SHOP};
use crate::lending::phase;
use crate::lending::several::{LENT_TO, SYSTEM, binding, borrows, lends, pod, stores};

/// How long other replicas wait after the last renewal of the lease of a binding that they saw.
pub(super) const LEASE: Duration = Duration::from_secs(4);
/// For how long a holder writes after its last confirmed renewal.
pub(super) const DEADLINE: Duration = Duration::from_secs(3);
/// The lease of a virtual node, and the grace period of node-lifecycle. By default it is 40 s where the lease of a binding is 15 s;
/// here it is longer beside that, since a take-over costs processors that other tests use, too.
pub(super) const NODE_LEASE: Duration = Duration::from_secs(20);
const LEASES: [&str; 4] = [
    "--leader-elect-resource-name=topoloom-syncer",
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=500ms",
];
/// What node-lifecycle has of all that: it looks each second.
const LIFECYCLE: [&str; 2] = ["--node-monitor-period=1s", "--node-monitor-grace-period=20s"];
/// The names of leases begin with it.
const BASE: &str = "topoloom-syncer";
const BINDINGS: usize = 10;
pub(super) const REPLICAS: usize = 3;
/// The machines of a binding have its name and one of these.
pub(super) const MACHINES: [&str; 2] = ["a", "b"];
/// Pods on each machine that is drained.
const PODS: usize = 2;
/// The ConfigMap whose annotation would switch writes off.
const SWITCH: &str = "switch";
/// How long the syncer has to copy the final phase of a pod before the top-down half writes one: a replica that takes over never
/// saw a physical pod that was gone by then.
const COPIED: Duration = Duration::from_secs(2);

pub(super) struct Stage {
    pub(super) virtual_plane: ControlPlane,
    pub(super) physical_plane: ControlPlane,
    pub(super) bindings: Bindings,
    pub(super) watch: Watch,
    replicas: [Option<Replica>; REPLICAS],
    born: usize,
    kubeconfig: PathBuf,
    kubelets: Kubelets,
    players: Vec<Player>,
    background: Background,
    /// The UIDs of the bindings.
    uids: BTreeMap<String, Uid>,
    /// The bindings that drain a machine.
    draining: BTreeSet<String>,
    /// How many pods there were so far.
    pods: usize,
}

struct Replica {
    name: String,
    host: Host,
}

/// How many bindings went to the replica that ranks first for them, of those that got a new holder.
#[derive(Debug, Default)]
pub(super) struct Spread {
    right: usize,
    all: usize,
}

impl Spread {
    /// Checks that bindings are spread by rank. A replica that gets no processor for a second may be overtaken.
    pub(super) fn is_by_rank(&self) -> Result<()> {
        let Self { right, all } = self;
        ensure!(*all > BINDINGS / 2, "only {all} bindings got a new holder: this proves nothing");
        ensure!(right * 4 >= all * 3, "only {right} of {all} bindings went to the replica that ranks first for them");
        Ok(())
    }
}

impl Stage {
    /// Three replicas, which have no binding yet.
    pub(super) async fn new() -> Result<Self> {
        let [mut virtual_plane, physical_plane] = Scene::planes([Wanted::Audited, Wanted::Audited]).await?;
        let names: Vec<String> = (0..BINDINGS).map(|number| format!("c{number}")).collect();
        let (kubeconfigs, lender) =
            tokio::try_join!(borrows(&virtual_plane, &[SWITCH]), lends(&physical_plane, &names))?;
        stores(&virtual_plane, &lender).await?;
        let kubeconfig = kubeconfigs.into_iter().next().context("there is one account")?;
        virtual_plane.start_controllers_with(&KEEPERS, &LIFECYCLE)?;

        let mut background = Background::new();
        let (kubelets, run) = Kubelets::new(physical_plane.client(), &kubelets::Settings::default());
        background.spawn(run);
        let machines = names.iter().flat_map(|binding| {
            MACHINES.map(|place| NewNode::named(format!("{binding}-{place}")).label(LENT_TO, binding))
        });
        kubelets.register(machines).await?;

        let mut stage = Self {
            virtual_plane,
            physical_plane,
            bindings: Bindings::new(BASE, names)?,
            watch: Watch::begin()?,
            replicas: [const { None }; REPLICAS],
            born: REPLICAS,
            kubeconfig,
            kubelets,
            players: Vec::new(),
            background,
            uids: BTreeMap::new(),
            draining: BTreeSet::new(),
            pods: 0,
        };
        let names: Vec<String> = (0..REPLICAS).map(|born| format!("replica-{born}")).collect();
        let hosts = try_join_all(names.iter().map(|name| stage.launch(name))).await?;
        for (place, (name, host)) in stage.replicas.iter_mut().zip(names.into_iter().zip(hosts)) {
            *place = Some(Replica { name, host });
        }
        Ok(stage)
    }

    async fn launch(&self, name: &str) -> Result<Host> {
        let (own, switch) = (format!("--namespace={SYSTEM}"), format!("--config-map={SYSTEM}/{SWITCH}"));
        let usual = [
            "--controllers=bottomup-syncer",
            "--syncer-allow-loopback",
            own.as_str(),
            switch.as_str(),
            "--log",
            "info",
        ];
        Host::launch_as(name, &self.kubeconfig, &[&usual[..], &LEASES].concat()).await
    }

    /// Starts a replica in an empty place, under a name of its own.
    pub(super) async fn start(&mut self, place: usize) -> Result<()> {
        let name = format!("replica-{}", self.born);
        self.born += 1;
        let host = self.launch(&name).await?;
        self.replicas[place] = Some(Replica { name, host });
        Ok(())
    }

    /// Stores the bindings, and waits until all machines are lent. From the first binding on replicas see each other; the others
    /// are stored when they do, so that each goes to the replica that ranks first for it.
    pub(super) async fn bind(&mut self, spread: &mut Spread) -> Result<()> {
        let names: Vec<String> = self.bindings.names().map(str::to_owned).collect();
        let (one, others) = names.split_at(1);
        self.virtual_plane.apply(&[binding(&one[0], &timing())]).await?;
        self.until_members().await;
        let objects: Vec<Value> = others.iter().map(|name| binding(name, &timing())).collect();
        self.virtual_plane.apply(&objects).await?;
        let stored = self.cluster_bindings().list(&ListParams::default()).await?.items;
        self.uids = stored
            .into_iter()
            .filter_map(|binding| Some((binding.metadata.name?, Uid::from(binding.metadata.uid?))))
            .collect();
        let all = self.names();
        self.until_held(&names, &all).await;
        self.counts(others, &all, spread).await?;

        let virtual_cluster = cluster(&self.virtual_plane).await?;
        for name in &names {
            let uid = self.uids.get(name).context("it is stored")?;
            let settings = player::Settings {
                identity: Identity::new(virtual_cluster.clone(), BindingName::parse(name)?, uid.clone())?,
                mount_namespace: BORROWED.to_owned(),
                patience: COPIED,
            };
            let (player, run) = Player::new(self.virtual_plane.client(), self.physical_plane.client(), settings);
            self.background.spawn(run);
            self.players.push(player);
        }
        let machines: BTreeSet<String> =
            names.iter().flat_map(|name| MACHINES.map(|place| format!("{name}-{place}"))).collect();
        self.until_lent(&machines).await;
        Ok(())
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.virtual_plane.client(), SYSTEM)
    }

    fn cluster_bindings(&self) -> Api<ClusterBinding> {
        Api::all(self.virtual_plane.client())
    }

    fn virtual_pods(&self) -> Api<Pod> {
        Api::namespaced(self.virtual_plane.client(), SHOP)
    }

    // Replicas.

    /// The names of the replicas that run.
    pub(super) fn names(&self) -> BTreeSet<String> {
        self.replicas.iter().flatten().map(|replica| replica.name.clone()).collect()
    }

    fn replica(&self, place: usize) -> &Replica {
        self.replicas[place].as_ref().expect("this replica runs")
    }

    pub(super) fn name(&self, place: usize) -> &str {
        &self.replica(place).name
    }

    pub(super) fn host(&self, place: usize) -> &Host {
        &self.replica(place).host
    }

    /// Takes a replica out of its place, for a caller that ends it.
    pub(super) fn take(&mut self, place: usize) -> Host {
        self.replicas[place].take().expect("this replica runs").host
    }

    /// Fails if a replica has ended by itself.
    pub(super) fn all_live(&mut self) -> Result<()> {
        for Replica { name, host } in self.replicas.iter_mut().flatten() {
            ensure!(!host.has_ended()?, "{name} has ended by itself: {:#?}", host.log());
        }
        Ok(())
    }

    /// Waits until each replica counts all of them as live.
    pub(super) async fn until_members(&self) {
        for Replica { name, host } in self.replicas.iter().flatten() {
            eventually(&format!("{name} sees {REPLICAS} replicas"), PATIENCE, async || {
                let dump = host.get("/debug/dump").await.map_err(|error| error.to_string())?;
                let dump: Value = serde_json::from_str(&dump).map_err(|error| error.to_string())?;
                let live = &dump["bindings"]["liveMembers"];
                if *live == json!(REPLICAS) { Ok(()) } else { Err(live.to_string()) }
            })
            .await;
        }
    }

    /// Waits until a replica does not believe any more that it holds one of these bindings.
    pub(super) async fn until_lost(&self, place: usize, bindings: &[String]) {
        let Replica { name, host } = self.replica(place);
        eventually(&format!("{name} has lost {bindings:?}"), PATIENCE, async || {
            let ready = host.get("/readyz").await.map_err(|error| error.to_string())?;
            let still = bindings.iter().any(|binding| ready.contains(&format!("binding {binding}: leads")));
            if still { Err(ready) } else { Ok(()) }
        })
        .await;
    }

    /// Waits until each replica leads or follows for each binding: it stands again for what it has lost.
    pub(super) async fn until_all_stand(&self) {
        for Replica { name, host } in self.replicas.iter().flatten() {
            eventually(&format!("{name} stands for every binding"), PATIENCE, async || {
                let ready = host.readyz().await.map_err(|error| error.to_string())?;
                let stands = |binding: &str| {
                    ["leads", "follows "].iter().any(|word| ready.contains(&format!("binding {binding}: {word}")))
                };
                if self.bindings.names().all(stands) { Ok(()) } else { Err(ready) }
            })
            .await;
        }
    }

    /// Ends all replicas; each has to end well.
    pub(super) async fn end_replicas(&mut self) -> Result<()> {
        for Replica { host, .. } in self.replicas.iter_mut().filter_map(Option::take) {
            host.stop().await?;
        }
        Ok(())
    }

    // Leases of bindings.

    /// The name in its lease of the holder of each binding.
    pub(super) async fn holders(&self) -> Result<BTreeMap<String, String>> {
        let all = self.leases().list(&ListParams::default()).await?.items;
        let held = all.into_iter().filter_map(|lease| {
            let binding = self.bindings.of_lease(lease.metadata.name.as_deref()?)?;
            Some((binding.to_owned(), lease.spec?.holder_identity.unwrap_or_default()))
        });
        Ok(held.collect())
    }

    /// Waits until each of these bindings is held by one of these replicas.
    pub(super) async fn until_held(&self, bindings: &[String], by: &BTreeSet<String>) {
        eventually(&format!("{by:?} hold {bindings:?}"), PATIENCE, async || {
            let holders = self.holders().await.map_err(|error| error.to_string())?;
            let is_held = |binding: &String| holders.get(binding).is_some_and(|holder| by.contains(replica_of(holder)));
            if bindings.iter().all(is_held) { Ok(()) } else { Err(format!("{holders:?}")) }
        })
        .await;
    }

    /// Counts which of these bindings are held by the replica that ranks first for them among these.
    pub(super) async fn counts(
        &self,
        bindings: &[String],
        among: &BTreeSet<String>,
        spread: &mut Spread,
    ) -> Result<()> {
        let announced = ListParams::default().labels(&format!("{MEMBER_LABEL}={BASE}"));
        let announced = self.leases().list(&announced).await?.items.into_iter();
        let members: Vec<MemberName> = announced
            .filter_map(|lease| lease.spec?.holder_identity)
            .filter(|identity| among.contains(replica_of(identity)))
            .map(MemberName::from)
            .collect();
        let holders = self.holders().await?;
        for binding in bindings {
            let uid = self.uids.get(binding).context("it is stored")?;
            let wanted = first(uid, &members).context("a replica has announced itself")?;
            let holder = holders.get(binding).context("it has a lease")?;
            spread.all += 1;
            spread.right += usize::from(**wanted == **holder);
        }
        Ok(())
    }

    /// Writes another name into the lease of a binding, as another client could.
    pub(super) async fn steal(&self, binding: &str) -> Result<()> {
        let lease = self.bindings.lease(binding).context("a binding has a lease")?;
        let body = json!({"spec": {"holderIdentity": "thief"}});
        self.leases().patch(lease, &PatchParams::default(), &Patch::Merge(&body)).await?;
        Ok(())
    }

    // Nodes and pods.

    /// Waits until these machines are lent, ready, and not on their way out.
    pub(super) async fn until_lent(&self, machines: &BTreeSet<String>) {
        eventually(&format!("{machines:?} are lent"), PATIENCE, async || {
            let lent = self.lent().await?;
            let is_lent = |machine: &String| lent.get(machine).copied() == Some(true);
            if machines.iter().all(is_lent) { Ok(()) } else { Err(format!("{lent:?}")) }
        })
        .await;
    }

    /// Waits until no virtual node is left of these machines.
    pub(super) async fn until_away(&self, machines: &BTreeSet<String>) {
        eventually(&format!("{machines:?} are not lent any more"), PATIENCE, async || {
            let lent = self.lent().await?;
            if machines.iter().any(|machine| lent.contains_key(machine)) { Err(format!("{lent:?}")) } else { Ok(()) }
        })
        .await;
    }

    /// The machines that have a virtual node, and whether it is ready and takes pods.
    async fn lent(&self) -> Result<BTreeMap<String, bool>, String> {
        let nodes: Api<Node> = Api::all(self.virtual_plane.client());
        let nodes = nodes.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let lent = nodes.into_iter().filter_map(|node| {
            let machine = node.metadata.name.as_deref()?.strip_prefix("vnode-")?.split_once('-')?.1.to_owned();
            let leaves = node.metadata.deletion_timestamp.is_some();
            let node = serde_json::to_value(node).ok()?;
            let takes_pods = !leaves && node["spec"]["unschedulable"] != true;
            Some((machine, takes_pods && ready(&node) == "True"))
        });
        Ok(lent.collect())
    }

    /// Makes pods on these machines, and waits until they run. Returns their names.
    pub(super) async fn fill(&mut self, machines: &BTreeSet<String>) -> Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for machine in machines {
            let binding = self.bindings.of_object(machine).context("a machine is lent to a binding")?.to_owned();
            for _ in 0..PODS {
                let name = format!("{machine}-{}", self.pods);
                self.pods += 1;
                let pod = pod(&name, &format!("vnode-{binding}-{machine}"));
                self.virtual_pods().create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
                names.insert(name);
            }
        }
        eventually(&format!("{names:?} run"), PATIENCE, async || {
            let pods = self.virtual_pods().list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
            let running: BTreeSet<String> =
                pods.into_iter().filter(|pod| phase(pod) == "Running").filter_map(|pod| pod.metadata.name).collect();
            if names.is_subset(&running) { Ok(()) } else { Err(format!("{running:?}")) }
        })
        .await;
        Ok(names)
    }

    /// An operator drains a machine.
    pub(super) async fn drain(&mut self, machine: &str) -> Result<()> {
        let binding = self.bindings.of_object(machine).context("a machine is lent to a binding")?.to_owned();
        self.drains(&binding, Some(machine)).await?;
        self.draining.insert(binding);
        Ok(())
    }

    /// Nothing is drained any more.
    pub(super) async fn lift(&mut self) -> Result<()> {
        for binding in std::mem::take(&mut self.draining) {
            self.drains(&binding, None).await?;
        }
        Ok(())
    }

    async fn drains(&self, binding: &str, machine: Option<&str>) -> Result<()> {
        let body = Patch::Merge(json!({"metadata": {"annotations": {DRAIN_ANNOTATION: machine}}}));
        self.cluster_bindings().patch(binding, &PatchParams::default(), &body).await?;
        Ok(())
    }

    /// Waits until so many of these pods terminate, and a short time more.
    pub(super) async fn until_terminating(&self, pods: &BTreeSet<String>, count: usize, more: Duration) -> Result<()> {
        let terminating = tokio::time::timeout(PATIENCE, self.terminating(pods, count)).await;
        terminating.with_context(|| format!("no {count} of {pods:?} terminate"))??;
        // This sleep waits for no condition: the fault has to happen anywhere between two writes, also where a test can see
        // nothing.
        tokio::time::sleep(more).await;
        Ok(())
    }

    async fn terminating(&self, pods: &BTreeSet<String>, count: usize) -> Result<()> {
        let mut ending = BTreeSet::new();
        let mut saw = |pod: Pod| {
            let name = pod.metadata.name.unwrap_or_default();
            if pod.metadata.deletion_timestamp.is_some() && pods.contains(&name) {
                ending.insert(name);
            }
            ending.len() >= count
        };
        let api = self.virtual_pods();
        let list = api.list(&ListParams::default()).await?;
        let version = list.metadata.resource_version.context("a list has a version")?;
        if list.items.into_iter().any(&mut saw) {
            return Ok(());
        }
        let events = api.watch(&WatchParams::default(), &version).await?;
        let mut events = pin!(events);
        loop {
            let pod = match events.next().await.context("the watch ended")?? {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod) => pod,
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(status) => bail!("the watch ended: {status:?}"),
            };
            if saw(pod) {
                return Ok(());
            }
        }
    }

    pub(super) async fn stop(self) -> Result<()> {
        for player in &self.players {
            assert_eq!(player.mistakes(), [""; 0]);
        }
        assert_eq!(self.kubelets.mistakes(), [""; 0]);
        self.background.stop().await;
        self.virtual_plane.stop().await?;
        self.physical_plane.stop().await
    }
}

fn timing() -> Value {
    json!({
        "lease": format!("{}s", NODE_LEASE.as_secs()),
        "suspect": "5s", "unreachable": "10s", "empty": "3s", "recheck": "1s", "grow": "1s",
    })
}

/// The replica that has this name in leases.
pub(super) fn replica_of(holder: &str) -> &str {
    holder.split('_').next().unwrap_or_default()
}
