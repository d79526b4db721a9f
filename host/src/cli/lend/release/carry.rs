//! The release, request by request: first the virtual nodes, then what is left in the physical cluster.
//!
//! Owns the order and the waiting. What follows for a node is decided by `topoloom_sync::release::leave` from what was read a
//! moment ago. Each round lists the bindings again: where one of the same name was applied meanwhile, it owns what is left.
//!
//! # Failure story
//!
//! What is refused is shown with the thing that it is about, and holds up no other thing, but for the Lease of the borrower: it goes
//! only when everything else of its binding went, since it is what keeps another borrower out of the namespace. A conflict is no
//! failure: the object is read and judged again in the next round.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use serde_json::json;
use tokio::time::Instant;
use topoloom_api::names::DRAIN_ANNOTATION;
use topoloom_core::names::Uid;
use topoloom_core::text::{line, says_yes};
use topoloom_core::version::ResourceVersion;
use topoloom_sync::deletion::{DeletionCause, DeletionTiming, Existence, RefusedEviction, blocks};
use topoloom_sync::keys;
use topoloom_sync::naming::BindingName;
use topoloom_sync::node::{LentNode, LentPod, NodeOrder, Now, PodRemoval, RemovalMeans};
use topoloom_sync::release::{Asked, Item, Kind, When, former, leave, without_claim};
use topoloom_sync::texts::Keyed;
use topoloom_syncer::slices::node::NodeSlice;
use topoloom_syncer::slices::pod::PodSlice;

use super::clusters::Clusters;
use crate::cli::print;
use crate::cli::source::OPERATOR;
use crate::cluster::eviction::evict;
use crate::cluster::{Refusal, RefusalReason, found};

/// How long a round waits for pods to leave.
const ROUND: Duration = Duration::from_secs(1);
/// How often what changes all the time is judged again.
const TRIES: usize = 5;
/// Requests for one node in one round: it is marked, deleted and freed one after the other once no pod is there.
const STEPS: usize = 8;
/// Pods that a message names.
const NAMED: usize = 5;
/// Longest name of another that is repeated.
const SHOWN: usize = 120;

/// What became of a thing.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) item: Item,
    pub(super) result: Result<(), String>,
}

/// Carries a release out.
pub(super) struct Carrier<'a> {
    clusters: &'a Clusters,
    /// The whole name of the binding, where one was asked for.
    named: Option<BindingName>,
    timing: DeletionTiming,
    since: Timestamp,
    begun: Instant,
    timeout: Duration,
}

/// How a node is doing after a round.
enum Round {
    /// It is gone.
    Gone,
    /// Its pods are still there, or it changed meanwhile.
    Waits(String),
}

impl<'a> Carrier<'a> {
    pub(super) fn new(
        clusters: &'a Clusters,
        named: Option<BindingName>,
        eviction_deadline: Duration,
        timeout: Duration,
    ) -> Self {
        let timing = DeletionTiming { recheck: ROUND, eviction_deadline };
        Self { clusters, named, timing, since: Timestamp::now(), begun: Instant::now(), timeout }
    }

    /// Carries it out, and says of each thing what became of it.
    pub(super) async fn carry(&self, items: &[Item]) -> Vec<Done> {
        let (nodes, others): (Vec<&Item>, Vec<&Item>) = items.iter().partition(|item| item.kind == Kind::LentNode);
        let mut done = match &self.clusters.lent {
            Some(client) => self.nodes(client, nodes).await,
            None => Vec::new(),
        };
        if let Some(client) = &self.clusters.physical {
            self.physical(client, others, &mut done).await;
        }
        done
    }

    /// Takes virtual nodes away, round by round.
    async fn nodes(&self, client: &kube::Client, mut open: Vec<&Item>) -> Vec<Done> {
        let (mut done, mut told) = (Vec::new(), String::new());
        let mut refused: BTreeMap<Uid, RefusedEviction> = BTreeMap::new();
        while !open.is_empty() {
            let judged = match self.clusters.read_virtual().await {
                Ok(seen) => self.clusters.decide(&seen, &Asked::Everything),
                Err(error) => {
                    let why = format!("{error:#}");
                    done.extend(open.drain(..).map(|item| failed(item, why.clone())));
                    break;
                }
            };
            let (mut waits, mut why) = (Vec::new(), Vec::new());
            for item in open {
                let is_judged = judged.items.iter().any(|judged| judged.is_same(item));
                let kept = judged.kept.iter().find(|kept| kept.kind == item.kind && kept.name == item.name);
                match kept {
                    Some(kept) => done.push(failed(item, kept.why.to_string())),
                    // It is not on the list any more: it is gone, or another one has its name.
                    None if !is_judged => done.push(released(item)),
                    None => match self.round(client, item, &mut refused).await {
                        Ok(Round::Gone) => done.push(released(item)),
                        Ok(Round::Waits(for_what)) => {
                            why.push(for_what);
                            waits.push(item);
                        }
                        Err(error) => done.push(failed(item, error)),
                    },
                }
            }
            open = waits;
            if self.begun.elapsed() >= self.timeout {
                done.extend(
                    open.drain(..)
                        .zip(why)
                        .map(|(item, why)| failed(item, format!("{why}; run the command again to continue"))),
                );
                break;
            }
            if !open.is_empty() {
                let news = why.join("; ");
                if news != told {
                    print::error(&format!("topoloom: {}", line(&news, 4 * SHOWN)));
                    told = news;
                }
                tokio::time::sleep(ROUND).await;
            }
        }
        done
    }

    /// What can be done for one node now.
    async fn round(
        &self,
        client: &kube::Client,
        item: &Item,
        refused: &mut BTreeMap<Uid, RefusedEviction>,
    ) -> Result<Round, String> {
        let api: Api<NodeSlice> = Api::all(client.clone());
        let name = item.name.as_str();
        for _ in 0..STEPS {
            let seen = found(name, api.get(name)).await.map_err(|error| Refusal::of(&error).to_string())?;
            let Some(slice) = seen else { return Ok(Round::Gone) };
            let lent = slice.lent().map_err(|error| format!("it cannot be read: {error}"))?;
            if lent.uid != *item.precondition.uid() {
                return Ok(Round::Gone);
            }
            if lent.metadata.labels.text(keys::BINDING_UID) != item.binding.as_deref() {
                return Ok(Round::Waits(format!("{name} changed")));
            }
            // Before the first write: what does not show that a binding made it is left alone.
            let made_by = former(self.clusters.virtual_cluster(), name, &lent, self.named.as_ref(), self.timing);
            let made_by = made_by.map_err(|error| error.to_string())?;
            if !says_yes(lent.metadata.annotations.text(DRAIN_ANNOTATION)) {
                match self.keep_away(&api, name, &lent).await? {
                    Some(()) => continue,
                    None => return Ok(Round::Waits(format!("{name} changed"))),
                }
            }
            let pods = self.pods(client, name, refused).await?;
            let orders = leave(&made_by, &lent, &pods, self.since, self.now());
            if orders.is_empty() {
                return Ok(Round::Waits(waiting(name, &pods)));
            }
            for order in &orders {
                match self.send(client, &api, order, refused).await {
                    Ok(()) => {}
                    Err(refusal) if refusal.reason == RefusalReason::Conflict => {
                        return Ok(Round::Waits(format!("{name} changed")));
                    }
                    Err(refusal) => return Err(format!("{order}: {refusal}")),
                }
            }
            if orders.iter().any(|order| matches!(order, NodeOrder::RemovePods(_))) {
                return Ok(Round::Waits(waiting(name, &pods)));
            }
        }
        Ok(Round::Waits(format!("{name} changes all the time")))
    }

    fn now(&self) -> Now {
        Now { wall: Timestamp::now(), steady: self.begun.elapsed() }
    }

    /// A syncer that still serves orphaned nodes repairs them: it would take the mark of the deletion off again. This it obeys.
    /// `None`: the node changed meanwhile.
    async fn keep_away(&self, api: &Api<NodeSlice>, name: &str, lent: &LentNode) -> Result<Option<()>, String> {
        let body = json!({"metadata": {
            "uid": &*lent.uid, "resourceVersion": &*lent.version, "annotations": {DRAIN_ANNOTATION: "true"},
        }});
        match api.patch(name, &operator(), &Patch::Merge(&body)).await.map_err(|error| Refusal::of(&error)) {
            Ok(_) => Ok(Some(())),
            Err(refusal) if matches!(refusal.reason, RefusalReason::Conflict | RefusalReason::NotFound) => Ok(None),
            Err(refusal) => Err(refusal.to_string()),
        }
    }

    async fn pods(
        &self,
        client: &kube::Client,
        node: &str,
        refused: &BTreeMap<Uid, RefusedEviction>,
    ) -> Result<Vec<LentPod>, String> {
        let api: Api<PodSlice> = Api::all(client.clone());
        let bound = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let pods = api.list(&bound).await.map_err(|error| Refusal::of(&error).to_string())?.items;
        let with_refusal = |pod: LentPod| {
            let refused = refused.get(&pod.pod.uid).copied();
            LentPod { refused, ..pod }
        };
        Ok(pods.into_iter().map(PodSlice::lent).map(with_refusal).collect())
    }

    /// Sends what a step of a deletion wants.
    async fn send(
        &self,
        client: &kube::Client,
        api: &Api<NodeSlice>,
        order: &NodeOrder,
        refused: &mut BTreeMap<Uid, RefusedEviction>,
    ) -> Result<(), Refusal> {
        let answer = match order {
            NodeOrder::PatchSpec { name, body, .. } | NodeOrder::RemoveFinalizer { name, body } => {
                found(name, api.patch(name, &operator(), &Patch::Merge(body))).await.map(drop)
            }
            NodeOrder::Delete { name, precondition } => {
                let uid_and_version = preconditions(precondition.uid(), precondition.version());
                let parameters = DeleteParams::default().preconditions(uid_and_version);
                found(name, api.delete(name, &parameters)).await.map(drop)
            }
            NodeOrder::RemovePods(pods) => {
                for removal in pods {
                    self.remove(client, removal, refused).await?;
                }
                return Ok(());
            }
            // The lease goes with its node, and the rest is for bindings that exist.
            NodeOrder::StopLease(_)
            | NodeOrder::Ask(_)
            | NodeOrder::PatchPhysical { .. }
            | NodeOrder::Create { .. }
            | NodeOrder::PatchStatus { .. }
            | NodeOrder::ReleasePhysical { .. } => return Ok(()),
        };
        answer.map_err(|error| Refusal::of(&error))
    }

    /// Removes a virtual pod, if it is still that one. A disruption budget that does not allow it now is no failure.
    async fn remove(
        &self,
        client: &kube::Client,
        removal: &PodRemoval,
        refused: &mut BTreeMap<Uid, RefusedEviction>,
    ) -> Result<(), Refusal> {
        let PodRemoval { pod, precondition, means } = removal;
        let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
        let answer = match means {
            // An eviction is about the pod, whatever was written on it meanwhile.
            RemovalMeans::Eviction => found(&pod.name, evict(&api, &pod.name, &pod.uid)).await.map(drop),
            RemovalMeans::Delete | RemovalMeans::Shorten => {
                let uid_and_version = preconditions(&pod.uid, precondition.version());
                let parameters = DeleteParams { grace_period_seconds: means.grace(), ..DeleteParams::default() };
                let parameters = parameters.preconditions(uid_and_version);
                found(&pod.name, api.delete(&pod.name, &parameters)).await.map(drop)
            }
        };
        match answer.map_err(|error| Refusal::of(&error)) {
            Ok(()) => Ok(()),
            Err(refusal) if refusal.reason == RefusalReason::TooManyRequests => {
                let times = refused.get(&pod.uid).map_or(0, |refused| refused.times).saturating_add(1);
                refused.insert(pod.uid.clone(), RefusedEviction { at: Timestamp::now(), times });
                Ok(())
            }
            // Its status changes all the time; the next round reads it again.
            Err(refusal) if refusal.reason == RefusalReason::Conflict => Ok(()),
            Err(refusal) => Err(refusal),
        }
    }

    /// Removes what is left in the physical cluster, and can go, after what was done in the virtual one.
    async fn physical(&self, client: &kube::Client, items: Vec<&Item>, done: &mut Vec<Done>) {
        let mut open = items;
        for _ in 0..TRIES {
            if open.is_empty() {
                break;
            }
            let judged = match self.clusters.read().await {
                Ok(seen) => self.clusters.decide_again(&seen, &open),
                Err(error) => {
                    let why = format!("{error:#}");
                    done.extend(open.drain(..).map(|item| failed(item, why.clone())));
                    break;
                }
            };
            let mut again = Vec::new();
            for item in open {
                let kept = judged
                    .kept
                    .iter()
                    .find(|kept| kept.kind == item.kind && kept.name == item.name && kept.namespace == item.namespace);
                if let Some(kept) = kept {
                    done.push(failed(item, kept.why.to_string()));
                    continue;
                }
                let Some(now) = judged.items.iter().find(|now| now.is_same(item)) else {
                    done.push(released(item));
                    continue;
                };
                if let When::After(node) = &now.when {
                    done.push(failed(item, format!("its virtual node {node} is still there")));
                    continue;
                }
                if is_lease_too_early(item, &again, done) {
                    again.push(item);
                    continue;
                }
                match delete(client, now).await.map_err(|error| Refusal::of(&error)) {
                    Ok(()) => done.push(released(item)),
                    Err(refusal) if refusal.reason == RefusalReason::Conflict => again.push(item),
                    Err(refusal) => done.push(failed(item, refusal.to_string())),
                }
            }
            open = again;
        }
        done.extend(open.into_iter().map(|item| {
            let why = match item.kind {
                Kind::Lease => "something else of its binding is left",
                Kind::LentNode | Kind::Claim | Kind::Pod => "it changed before each try; run the command again",
            };
            failed(item, why.to_owned())
        }));
    }
}

/// Whether it is the Lease of a borrower of which something else is left, in either cluster.
fn is_lease_too_early(item: &Item, open: &[&Item], done: &[Done]) -> bool {
    let is_open = open.iter().any(|open| open.binding == item.binding);
    let has_failed = done.iter().any(|done| done.item.binding == item.binding && done.result.is_err());
    item.kind == Kind::Lease && (is_open || has_failed)
}

/// Removes one thing of the physical cluster in the version that was judged.
async fn delete(client: &kube::Client, item: &Item) -> kube::Result<()> {
    let (name, precondition) = (item.name.as_str(), &item.precondition);
    let namespace = item.namespace.as_deref().unwrap_or_default();
    let parameters = DeleteParams::default().preconditions(preconditions(precondition.uid(), precondition.version()));
    match item.kind {
        Kind::Claim => {
            let api: Api<NodeSlice> = Api::all(client.clone());
            let body = without_claim(precondition);
            found(name, api.patch(name, &operator(), &Patch::Merge(&body))).await.map(drop)
        }
        Kind::Pod => {
            let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
            found(name, api.delete(name, &parameters)).await.map(drop)
        }
        Kind::Lease => {
            let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
            found(name, api.delete(name, &parameters)).await.map(drop)
        }
        // Those are taken away step by step, in the other cluster.
        Kind::LentNode => Ok(()),
    }
}

fn preconditions(uid: &Uid, version: &ResourceVersion) -> Preconditions {
    Preconditions { uid: Some(uid.to_string()), resource_version: Some(version.to_string()) }
}

fn operator() -> PatchParams {
    PatchParams { field_manager: Some(OPERATOR.into()), ..PatchParams::default() }
}

fn released(item: &Item) -> Done {
    Done { item: item.clone(), result: Ok(()) }
}

fn failed(item: &Item, why: String) -> Done {
    Done { item: item.clone(), result: Err(why) }
}

/// What a node waits for, with the names of some pods.
fn waiting(node: &str, pods: &[LentPod]) -> String {
    let is_blocking = |pod: &&LentPod| blocks(&pod.bound(), DeletionCause::Operator);
    let blocking: Vec<&LentPod> = pods.iter().filter(is_blocking).collect();
    if blocking.is_empty() {
        return format!("{node} waits for the API server");
    }
    let shown = blocking.iter().take(NAMED).map(|pod| {
        let how = match (pod.existence, pod.refused) {
            (Existence::Terminating, _) => " (terminating)",
            (Existence::Alive, Some(_)) => " (a disruption budget does not allow its eviction)",
            (Existence::Alive, None) => "",
        };
        format!("{}{how}", line(&pod.pod.to_string(), SHOWN))
    });
    let shown: Vec<String> = shown.collect();
    let more = blocking.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{node} waits for {} pods: {}{more}", blocking.len(), shown.join(", "))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::client::Body;
    use topoloom_sync::deletion::PodClass;
    use topoloom_sync::phase::Phase;
    use topoloom_sync::precondition::Precondition;
    use topoloom_sync::reclaim::PodRef;

    use super::*;

    fn item(kind: Kind, binding: &str) -> Item {
        Item {
            kind,
            namespace: None,
            name: "n".into(),
            binding: Some(binding.into()),
            precondition: Precondition::of(&"u".into(), &"7".into()).unwrap(),
            when: When::Now,
        }
    }

    #[test]
    fn s7_the_lease_of_a_borrower_waits_for_everything_else_of_its_binding_in_both_clusters() {
        let (lease, node) = (item(Kind::Lease, "b-0"), item(Kind::LentNode, "b-0"));
        let (other, claim) = (item(Kind::LentNode, "b-1"), item(Kind::Claim, "b-0"));
        let early = |open: &[&Item], done: &[Done]| is_lease_too_early(&lease, open, done);
        assert!(!early(&[], &[released(&node), failed(&other, String::new())]));
        assert!(early(&[], &[failed(&node, "its pods are still there".to_owned())]), "a virtual node stays");
        assert!(early(&[&claim], &[]) && !early(&[&other], &[]));
        assert!(!is_lease_too_early(&claim, &[&claim], &[]), "nothing else waits");
    }

    #[tokio::test]
    async fn s6_a_virtual_node_that_does_not_show_which_binding_made_it_is_not_written_to() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let labels = json!({keys::VIRTUAL_CLUSTER: "vc-1", keys::BINDING: "east", keys::BINDING_UID: "b-0"});
        let metadata = json!({"name": "vnode-east-w1", "uid": "u", "resourceVersion": "7", "labels": labels});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata}).to_string();
        let serve = move |request: Request<Body>| {
            seen.lock().unwrap().push(format!("{} {}", request.method(), request.uri().path()));
            let answer = Response::new(Body::from(node.clone().into_bytes()));
            async move { Ok::<_, Infallible>(answer) }
        };
        let client = kube::Client::new(tower::service_fn(serve), "default");
        let clusters = Clusters::staged(client.clone(), "vc-1");
        let carrier = Carrier::new(&clusters, None, Duration::ZERO, Duration::from_secs(1));
        let node = Item { name: "vnode-east-w1".into(), ..item(Kind::LentNode, "b-0") };
        let Err(why) = carrier.round(&client, &node, &mut BTreeMap::new()).await else { panic!("it goes") };
        assert!(why.contains(keys::PHYSICAL_CLUSTER_ID), "{why}");
        assert_eq!(*asked.lock().unwrap(), ["GET /api/v1/nodes/vnode-east-w1"]);
    }

    fn pod(name: &str, phase: Phase) -> LentPod {
        LentPod {
            pod: PodRef { namespace: "shop".into(), name: name.into(), uid: name.into() },
            version: "3".into(),
            class: PodClass::Ordinary,
            phase,
            existence: Existence::Alive,
            tolerations: Vec::new(),
            refused: None,
            grace: None,
        }
    }

    #[test]
    fn s10_what_a_node_waits_for_is_told_by_name() {
        let refused = Some(RefusedEviction { at: Timestamp::UNIX_EPOCH, times: 1 });
        let pods = [
            pod("ended", Phase::Succeeded),
            LentPod { refused, ..pod("web", Phase::Running) },
            LentPod { existence: Existence::Terminating, ..pod("slow", Phase::Running) },
        ];
        assert_eq!(
            waiting("n", &pods),
            "n waits for 2 pods: shop/web (a disruption budget does not allow its eviction), shop/slow (terminating)"
        );
        let many: Vec<LentPod> = (0..9).map(|number| pod(&format!("p{number}"), Phase::Running)).collect();
        assert!(waiting("n", &many).ends_with("shop/p4 and 4 more"));
        assert_eq!(waiting("n", &[]), "n waits for the API server");
    }
}
