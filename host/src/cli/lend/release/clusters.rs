//! Both clusters as a release sees them, read live.
//!
//! # Failure story
//!
//! A list that fails ends the command: what could not be read is not gone. Where an operator says that the virtual cluster is
//! gone, the Leases of its borrowers are proof to the contrary for as long as a syncer writes to them.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::Api;
use kube::api::ObjectMeta;
use topoloom_core::names::Uid;
use topoloom_core::text;
use topoloom_sync::keys;
use topoloom_sync::naming::BindingName;
use topoloom_sync::pods::{PhysicalPod, VirtualPod};
use topoloom_sync::release::{Asked, Bindings, Item, Kind, Object, Release, ReleaseFacts, Standing, decide};
use topoloom_syncer::survey::lists;

use super::ReleaseArgs;
use crate::cli::lend::objects::{list, object, physical_pod, virtual_pod};
use crate::cluster::{self, Refusal, leases};

/// The namespace whose UID is the identity of a cluster.
const SYSTEM: &str = "kube-system";
/// A syncer writes to the Lease of a borrower each minute. One that was written later than this is a sign of life.
const ALIVE: SignedDuration = SignedDuration::from_mins(5);
/// Longest name of another that is repeated.
const SHOWN: usize = 80;

/// The two clusters.
pub(super) struct Clusters {
    /// `None`: it is gone for good, as an operator says.
    pub(super) lent: Option<kube::Client>,
    /// `None`: it was not named.
    pub(super) physical: Option<kube::Client>,
    virtual_cluster: String,
    identity: Whose,
}

/// Where the identity of the virtual cluster is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The cluster has said it.
    Its,
    /// An operator has: the cluster that was asked for bindings may be another one.
    Given,
}

/// What they showed.
#[derive(Debug, Default)]
pub(super) struct Seen {
    standing: BTreeMap<Uid, Standing>,
    pub(super) lent: Vec<Object>,
    pub(super) machines: Vec<Object>,
    pods: Vec<PhysicalPod>,
    leases: Vec<Object>,
    twins: Vec<VirtualPod>,
    /// When a Lease of a binding that does not exist was written last, by the clock of the API server.
    written: Option<(String, Timestamp)>,
}

impl Clusters {
    pub(super) async fn connect(args: &ReleaseArgs) -> anyhow::Result<Self> {
        let physical = match &args.physical_kubeconfig {
            Some(path) => {
                let connected = cluster::connect(Some(path.as_path()), args.physical_context.as_deref(), None).await;
                Some(connected.context("the physical cluster")?.client)
            }
            None => None,
        };
        if let Some(gone) = &args.gone_virtual_cluster {
            return Ok(Self { lent: None, physical, virtual_cluster: gone.clone(), identity: Whose::Given });
        }
        let lent = args.reach.client().await?;
        let own = identity(&lent).await.context("the virtual cluster")?;
        if let Some(physical) = &physical
            && identity(physical).await.context("the physical cluster")? == own
        {
            bail!("both kubeconfigs lead to one cluster (UID {own}): no cluster lends to itself");
        }
        let identity = match &args.virtual_cluster_id {
            Some(given) if *given != own => Whose::Given,
            Some(_) | None => Whose::Its,
        };
        let virtual_cluster = args.virtual_cluster_id.clone().unwrap_or(own);
        Ok(Self { lent: Some(lent), physical, virtual_cluster, identity })
    }

    /// A virtual cluster of this identity alone.
    #[cfg(test)]
    pub(super) fn staged(lent: kube::Client, virtual_cluster: &str) -> Self {
        Self { lent: Some(lent), physical: None, virtual_cluster: virtual_cluster.to_owned(), identity: Whose::Its }
    }

    pub(super) fn virtual_cluster(&self) -> &str {
        &self.virtual_cluster
    }

    pub(super) fn has_no_physical(&self) -> bool {
        self.physical.is_none()
    }

    /// Everything that a verdict follows from.
    pub(super) async fn read(&self) -> anyhow::Result<Seen> {
        let mut seen = self.read_virtual().await?;
        let Some(physical) = &self.physical else { return Ok(seen) };
        self.read_physical(physical, &mut seen).await.context("the physical cluster")?;
        if let Some(lent) = self.lent.as_ref().filter(|_| !seen.pods.is_empty()) {
            let pods = list(&Api::<Pod>::all(lent.clone()), None).await.context("the pods of the virtual cluster")?;
            seen.twins = pods.into_iter().map(virtual_pod).collect();
        }
        Ok(seen)
    }

    /// The bindings and the virtual nodes.
    pub(super) async fn read_virtual(&self) -> anyhow::Result<Seen> {
        let Some(lent) = &self.lent else { return Ok(Seen::default()) };
        let bindings = lists::bindings(lent).await.context("the ClusterBindings")?;
        let ours = self.of_cluster();
        let nodes = list(&Api::<Node>::all(lent.clone()), Some(ours.as_str())).await;
        let nodes = nodes.context("the nodes of the virtual cluster")?;
        let standing = bindings.into_iter().filter_map(|binding| {
            let name = BindingName::parse(binding.metadata.name.as_deref()?).ok()?;
            let cluster = binding.spec.ok().map(|spec| spec.cluster_id);
            Some((binding.metadata.uid?.as_str().into(), Standing { name, cluster }))
        });
        Ok(Seen { standing: standing.collect(), lent: nodes.into_iter().map(object).collect(), ..Seen::default() })
    }

    async fn read_physical(&self, client: &kube::Client, seen: &mut Seen) -> Result<(), Refusal> {
        let ours = self.of_cluster();
        let machines = list(&Api::<Node>::all(client.clone()), None).await?;
        let pods = list(&Api::<Pod>::all(client.clone()), Some(ours.as_str())).await?;
        let leases = list(&Api::<Lease>::all(client.clone()), Some(ours.as_str())).await?;
        seen.written = written_for_others(&leases, &seen.standing);
        seen.machines = machines.into_iter().map(object).collect();
        seen.pods = pods.into_iter().map(physical_pod).collect();
        seen.leases = leases.into_iter().map(object).collect();
        Ok(())
    }

    /// The objects that carry the identity of the virtual cluster.
    fn of_cluster(&self) -> String {
        format!("{}={}", keys::VIRTUAL_CLUSTER, self.virtual_cluster)
    }

    /// What goes and what stays.
    pub(super) fn decide(&self, seen: &Seen, asked: &Asked) -> Release {
        let bindings = match self.lent {
            Some(_) => Bindings::Listed(&seen.standing),
            None => Bindings::ClusterGone,
        };
        decide(&ReleaseFacts {
            virtual_cluster: &self.virtual_cluster,
            asked,
            bindings,
            lent: &seen.lent,
            machines: &seen.machines,
            pods: &seen.pods,
            leases: &seen.leases,
            twins: &seen.twins,
        })
    }

    /// The same of things that were on the list. A claim that names no binding is judged only where exactly its node is asked for.
    pub(super) fn decide_again(&self, seen: &Seen, listed: &[&Item]) -> Release {
        let mut judged = self.decide(seen, &Asked::Everything);
        for item in listed.iter().filter(|item| item.kind == Kind::Claim && item.binding.is_none()) {
            let is_it = |kind: Kind, name: &str| kind == item.kind && *name == item.name;
            let asked = self.decide(seen, &Asked::Node(item.name.clone()));
            judged.items.extend(asked.items.into_iter().filter(|asked| is_it(asked.kind, &asked.name)));
            judged.kept.extend(asked.kept.into_iter().filter(|asked| is_it(asked.kind, &asked.name)));
        }
        judged
    }

    /// No syncer writes for a cluster that is gone, nor for bindings that do not exist. Where it does, what an operator has said of
    /// the virtual cluster is wrong, and everything of bindings that are well would count as left over.
    pub(super) async fn refuse_if_alive(&self, seen: &Seen) -> anyhow::Result<()> {
        let (Whose::Given, Some(physical), Some(_)) = (self.identity, &self.physical, &seen.written) else {
            return Ok(());
        };
        let now = leases::server(physical).await.context("the physical cluster")?.now;
        let cluster = &self.virtual_cluster;
        match (alive(seen.written.as_ref(), now), &self.lent) {
            (None, _) => Ok(()),
            (Some(sign), None) => bail!(
                "nothing was released: the virtual cluster {cluster} is not gone, since {sign}. Stop its syncer first and run the \
                 command again {} minutes after its last write, or release with the kubeconfig of the virtual cluster",
                ALIVE.as_mins()
            ),
            (Some(sign), Some(_)) => bail!(
                "nothing was released: a binding of the virtual cluster {cluster} is served that does not exist in the cluster \
                 that was asked, since {sign}. Is that the right kubeconfig? If the binding was deleted by force a moment ago, run \
                 the command again in {} minutes",
                ALIVE.as_mins()
            ),
        }
    }
}

/// When a Lease was written last that belongs to none of these bindings.
fn written_for_others(leases: &[ObjectMeta], standing: &BTreeMap<Uid, Standing>) -> Option<(String, Timestamp)> {
    let is_of_standing = |lease: &ObjectMeta| {
        let uid = lease.labels.as_ref().and_then(|labels| labels.get(keys::BINDING_UID));
        uid.is_some_and(|uid| standing.contains_key(uid.as_str()))
    };
    let others = leases.iter().filter(|lease| !is_of_standing(lease));
    others.filter_map(written).max_by_key(|(_, at)| *at)
}

/// A sign of life of a syncer.
fn alive(written: Option<&(String, Timestamp)>, now: Timestamp) -> Option<String> {
    let (lease, at) = written?;
    let ago = now.duration_since(*at);
    (ago < ALIVE)
        .then(|| format!("a syncer wrote to the Lease {} {} s ago", text::line(lease, SHOWN), ago.as_secs().max(0)))
}

/// When an object was written last, and which one it is.
fn written(metadata: &ObjectMeta) -> Option<(String, Timestamp)> {
    let entries = metadata.managed_fields.iter().flatten();
    let at = entries.filter_map(|entry| entry.time.as_ref().map(|time| time.0)).max()?;
    let name = |part: &Option<String>| part.clone().unwrap_or_default();
    Some((format!("{}/{}", name(&metadata.namespace), name(&metadata.name)), at))
}

/// The UID of the namespace kube-system.
async fn identity(client: &kube::Client) -> anyhow::Result<String> {
    let api: Api<Namespace> = Api::all(client.clone());
    let namespace = api.get_metadata(SYSTEM).await.map_err(|error| Refusal::of(&error)).context("its identity")?;
    namespace.metadata.uid.filter(|uid| !uid.is_empty()).context("its namespace kube-system has no UID")
}

impl Seen {
    /// The labels of everything that may show the name of a binding.
    pub(super) fn labels(&self) -> impl Iterator<Item = &BTreeMap<String, String>> {
        let objects = self.lent.iter().chain(&self.leases).map(|object| &object.labels);
        objects.chain(self.pods.iter().map(|pod| &pod.labels))
    }

    /// Whether a binding of this name exists.
    pub(super) fn stands(&self, name: &str) -> bool {
        self.standing.values().any(|standing| *standing.name == *name)
    }

    /// Two bindings that are gone, one that stands, and some machines.
    #[cfg(test)]
    pub(super) fn example() -> Self {
        let keys_of = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let lent = |binding: &str, machine: &str| Object {
            name: format!("vnode-east-{machine}"),
            labels: keys_of(&[(keys::BINDING, binding)]),
            annotations: keys_of(&[(keys::PHYSICAL_NODE_NAME, machine)]),
            ..Object::default()
        };
        let machine = |name: &str| Object { name: name.to_owned(), ..Object::default() };
        Self {
            standing: [("b-9".into(), standing("west"))].into(),
            lent: vec![lent("east", "w1"), lent("both", "w2")],
            machines: vec![machine("w7"), machine("both")],
            ..Self::default()
        }
    }
}

/// A binding of this name, which is its `clusterID` too.
#[cfg(test)]
fn standing(name: &str) -> Standing {
    Standing { name: BindingName::parse(name).unwrap(), cluster: Some(name.to_owned()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn s7_a_claim_that_is_none_is_judged_again_by_its_node_before_it_goes() {
        let virtual_cluster = "vc-1".to_owned();
        let clusters = Clusters { lent: None, physical: None, virtual_cluster, identity: Whose::Given };
        let seen = |claim: Option<&str>| Seen {
            machines: vec![Object {
                name: "w1".to_owned(),
                uid: "u-1".to_owned(),
                version: "7".into(),
                annotations: claim.map(|claim| (keys::LEASED_BY.to_owned(), claim.to_owned())).into_iter().collect(),
                ..Object::default()
            }],
            ..Seen::default()
        };
        let listed = clusters.decide(&seen(Some("no claim")), &Asked::Node("w1".to_owned()));
        let [item] = &listed.items[..] else { panic!("{listed:?}") };
        let again = |claim| clusters.decide_again(&seen(claim), &[item]);
        let release = again(Some("no claim"));
        assert!(release.items.iter().any(|again| again.is_same(item)), "{release:?}");
        assert_eq!(again(None), Release::default(), "it is gone");
        let taken = again(Some("vc-2/b-1"));
        assert!(taken.items.is_empty() && taken.kept.len() == 1, "{taken:?}");
    }

    #[test]
    fn s7_a_lease_that_is_written_for_a_binding_that_does_not_exist_is_a_sign_of_another_cluster() {
        let lease = |name: &str, uid: &str, time: &str| -> ObjectMeta {
            let entries = json!([{"manager": "topoloom", "time": time}]);
            let labels = json!({keys::BINDING_UID: uid});
            serde_json::from_value(json!({"name": name, "labels": labels, "managedFields": entries})).unwrap()
        };
        let leases = [
            lease("ours", "b-1", "2026-08-01T06:10:00Z"),
            lease("other", "b-7", "2026-08-01T06:09:00Z"),
            lease("old", "b-8", "2026-07-01T00:00:00Z"),
        ];
        let standing: BTreeMap<Uid, Standing> = [("b-1".into(), standing("east"))].into();
        let found = |standing: &BTreeMap<Uid, Standing>| written_for_others(&leases, standing).map(|(name, _)| name);
        assert_eq!(found(&standing).as_deref(), Some("/other"));
        assert_eq!(found(&BTreeMap::new()).as_deref(), Some("/ours"), "of a cluster that is gone none exists");
        assert_eq!(written_for_others(&leases[..1], &standing), None);
    }

    #[test]
    fn s7_a_cluster_that_is_said_to_be_gone_and_writes_is_alive() {
        let metadata = |times: &[&str]| -> ObjectMeta {
            let entries: Vec<_> = times.iter().map(|time| json!({"manager": "topoloom", "time": time})).collect();
            serde_json::from_value(json!({"namespace": "lent", "name": "l", "managedFields": entries})).unwrap()
        };
        let now: Timestamp = "2026-08-01T06:10:00Z".parse().unwrap();
        let sign = |times: &[&str]| alive(written(&metadata(times)).as_ref(), now);
        assert_eq!(sign(&[]), None);
        assert_eq!(sign(&["2026-08-01T06:05:00Z"]), None);
        let wanted = Some("a syncer wrote to the Lease lent/l 12 s ago".to_owned());
        assert_eq!(sign(&["2026-07-01T00:00:00Z", "2026-08-01T06:09:48Z"]), wanted);
        assert!(
            sign(&["2026-08-01T06:10:30Z"]).is_some_and(|sign| sign.ends_with(" 0 s ago")),
            "a clock that is ahead"
        );
    }
}
