//! One list of each kind, page by page: what the two clusters hold now.
//!
//! Never watches, and never writes.
//!
//! # Failure story
//!
//! A list is read to its end or it is an error. One whose pages expire while they are read begins again; one without an end is
//! refused. CSINodes may be missing: nodes are lent without them, with the labels that are known.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use topoloom_api::{ClusterBinding, ResourceLeasingPolicy};
use topoloom_cluster::deadline::answered;
use topoloom_cluster::pages::Pages;
use topoloom_cluster::{Refusal, RefusalReason, Side};
use topoloom_core::names::{NodeName, Uid};
use topoloom_sync::keys;
use topoloom_sync::naming::label_value;
use topoloom_sync::node::Binding;

use crate::shared::USES_ROOM;
use crate::slices::csi::CsiNodeSlice;
use crate::slices::node::NodeSlice;
use crate::slices::pod::PodSlice;

/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a list may begin again because its pages expired.
const TRIES: usize = 3;
/// Where the leases of nodes are.
const NODE_LEASES: &str = "kube-node-lease";
/// The namespace whose UID is that of the cluster.
const SYSTEM: &str = "kube-system";

/// How much is listed.
#[derive(Debug, Clone, Copy)]
pub enum Scope<'a> {
    /// All nodes and pods.
    All,
    /// One machine, its virtual node, and the pods of both.
    Machine {
        /// The name of the physical node.
        physical: &'a str,
        /// The name of its virtual node.
        lent: &'a str,
    },
}

/// What the virtual cluster holds, of all bindings and of others.
#[derive(Debug, Clone, Default)]
pub struct LentLists {
    /// Nodes.
    pub nodes: Vec<NodeSlice>,
    /// Pods that are bound to a node.
    pub pods: Vec<PodSlice>,
    /// CSINodes; nothing where they cannot be read.
    pub csi_nodes: Option<Vec<CsiNodeSlice>>,
}

/// What a physical cluster holds.
#[derive(Debug, Clone, Default)]
pub struct PhysicalLists {
    /// Nodes.
    pub nodes: Vec<NodeSlice>,
    /// Pods that use room on a node.
    pub pods: Vec<PodSlice>,
    /// CSINodes; nothing where they cannot be read.
    pub csi_nodes: Option<Vec<CsiNodeSlice>>,
}

impl Scope<'_> {
    fn nodes(self, side: Side) -> ListParams {
        match self.name(side) {
            None => ListParams::default(),
            Some(name) => ListParams::default().fields(&format!("metadata.name={name}")),
        }
    }

    fn pods(self, side: Side) -> ListParams {
        let bound = self.name(side).map(|name| format!("spec.nodeName={name}"));
        let fields = match (side, bound) {
            (Side::Virtual, None) => "spec.nodeName!=".to_owned(),
            (Side::Virtual, Some(bound)) => bound,
            (Side::Physical, None) => USES_ROOM.to_owned(),
            (Side::Physical, Some(bound)) => format!("{USES_ROOM},{bound}"),
        };
        ListParams::default().fields(&fields)
    }

    fn name(&self, side: Side) -> Option<&str> {
        match (self, side) {
            (Scope::All, _) => None,
            (Scope::Machine { lent, .. }, Side::Virtual) => Some(*lent),
            (Scope::Machine { physical, .. }, Side::Physical) => Some(*physical),
        }
    }
}

/// Lists the virtual cluster.
///
/// # Errors
/// Nodes or pods cannot be read.
pub async fn lent(client: &kube::Client, scope: Scope<'_>) -> Result<LentLists, Refusal> {
    let (nodes, pods, csi_nodes) = read(client, scope, Side::Virtual).await?;
    Ok(LentLists { nodes, pods, csi_nodes })
}

/// The virtual nodes with the name of a binding and another `clusterID` than it has.
///
/// # Errors
/// Nodes cannot be read.
pub async fn under_other_ids(client: &kube::Client, binding: &Binding) -> Result<Vec<NodeSlice>, Refusal> {
    let identity = &binding.identity;
    let selector = format!(
        "{}={},{}={},{}!={}",
        keys::VIRTUAL_CLUSTER,
        identity.virtual_cluster(),
        keys::BINDING,
        label_value(identity.binding()),
        keys::PHYSICAL_CLUSTER_ID,
        binding.cluster
    );
    let nodes: Api<NodeSlice> = Api::all(client.clone());
    list(&nodes, &ListParams::default().labels(&selector)).await.map_err(|refusal| refusal.on(Side::Virtual))
}

/// Lists a physical cluster.
///
/// # Errors
/// Nodes or pods cannot be read.
pub async fn physical(client: &kube::Client, scope: Scope<'_>) -> Result<PhysicalLists, Refusal> {
    let (nodes, pods, csi_nodes) = read(client, scope, Side::Physical).await?;
    Ok(PhysicalLists { nodes, pods, csi_nodes })
}

type Lists = (Vec<NodeSlice>, Vec<PodSlice>, Option<Vec<CsiNodeSlice>>);

async fn read(client: &kube::Client, scope: Scope<'_>, side: Side) -> Result<Lists, Refusal> {
    let nodes: Api<NodeSlice> = Api::all(client.clone());
    let pods: Api<PodSlice> = Api::all(client.clone());
    let csi_nodes: Api<CsiNodeSlice> = Api::all(client.clone());
    let (of_nodes, of_pods) = (scope.nodes(side), scope.pods(side));
    let (nodes, pods, csi_nodes) =
        tokio::join!(list(&nodes, &of_nodes), list(&pods, &of_pods), list(&csi_nodes, &of_nodes));
    let on = |refusal: Refusal| refusal.on(side);
    Ok((nodes.map_err(on)?, pods.map_err(on)?, csi_nodes.ok()))
}

/// All ClusterBindings.
///
/// # Errors
/// They cannot be read.
pub async fn bindings(client: &kube::Client) -> Result<Vec<ClusterBinding>, Refusal> {
    list(&Api::all(client.clone()), &ListParams::default()).await.map_err(|refusal| refusal.on(Side::Virtual))
}

/// All policies of a cluster.
///
/// # Errors
/// They cannot be read: then it is not known whether there are any.
pub async fn policies(client: &kube::Client, side: Side) -> Result<Vec<ResourceLeasingPolicy>, Refusal> {
    list(&Api::all(client.clone()), &ListParams::default()).await.map_err(|refusal| refusal.on(side))
}

/// The UID of a cluster: that of its namespace `kube-system` (decision S6).
///
/// # Errors
/// It cannot be read.
pub async fn cluster(client: &kube::Client, side: Side) -> Result<Uid, Refusal> {
    let api: Api<Namespace> = Api::all(client.clone());
    let found = answered(PATIENCE, api.get_metadata(SYSTEM)).await.map_err(|refusal| refusal.on(side))?;
    Ok(found.metadata.uid.unwrap_or_default().as_str().into())
}

/// When the lease of each node was renewed last.
///
/// # Errors
/// They cannot be read.
pub async fn renewals(client: &kube::Client) -> Result<HashMap<NodeName, Timestamp>, Refusal> {
    let api: Api<Lease> = Api::namespaced(client.clone(), NODE_LEASES);
    let leases = list(&api, &ListParams::default()).await.map_err(|refusal| refusal.on(Side::Virtual))?;
    let renewal = |lease: &Lease| Some((lease.metadata.name.as_deref()?.into(), renewed(lease)?));
    Ok(leases.iter().filter_map(renewal).collect())
}

/// The same of one node; nothing where it has no lease.
///
/// # Errors
/// It cannot be read.
pub async fn renewal(client: &kube::Client, node: &str) -> Result<Option<Timestamp>, Refusal> {
    let api: Api<Lease> = Api::namespaced(client.clone(), NODE_LEASES);
    let lease = answered(PATIENCE, api.get_opt(node)).await.map_err(|refusal| refusal.on(Side::Virtual))?;
    Ok(lease.as_ref().and_then(renewed))
}

fn renewed(lease: &Lease) -> Option<Timestamp> {
    Some(lease.spec.as_ref()?.renew_time.as_ref()?.0)
}

async fn list<K>(api: &Api<K>, params: &ListParams) -> Result<Vec<K>, Refusal>
where
    K: Resource + Clone + DeserializeOwned,
{
    for _ in 1..TRIES {
        match pages(api, params).await {
            Err(refusal) if refusal.reason == RefusalReason::Expired => {}
            answer => return answer,
        }
    }
    pages(api, params).await
}

async fn pages<K>(api: &Api<K>, params: &ListParams) -> Result<Vec<K>, Refusal>
where
    K: Resource + Clone + DeserializeOwned,
{
    let (mut pages, mut all) = (Pages::whole(api.clone(), params.clone()), Vec::new());
    while let Some(page) = answered(PATIENCE, pages.next()).await? {
        all.extend(page);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// A client whose requests are answered in this order, the last answer again and again; and the paths that were asked.
    fn answers(answers: Vec<(u16, Value)>) -> (kube::Client, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let serve = move |request: Request<Body>| {
            let at = {
                let mut seen = seen.lock().unwrap();
                seen.push(request.uri().to_string());
                (seen.len() - 1).min(answers.len() - 1)
            };
            let (code, body) = answers[at].clone();
            let body = Body::from(body.to_string().into_bytes());
            async move { Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()) }
        };
        (kube::Client::new(tower::service_fn(serve), "default"), asked)
    }

    fn page(names: &[&str], token: &str) -> (u16, Value) {
        let items: Vec<Value> = names.iter().map(|name| json!({"metadata": {"name": name}})).collect();
        (200, json!({"kind": "List", "apiVersion": "v1", "metadata": {"continue": token}, "items": items}))
    }

    async fn names(client: &kube::Client) -> Result<Vec<String>, Refusal> {
        let api: Api<NodeSlice> = Api::all(client.clone());
        let nodes = list(&api, &ListParams::default()).await?;
        Ok(nodes.iter().map(|node| node.name().to_owned()).collect())
    }

    #[tokio::test]
    async fn a_list_is_read_to_its_end_or_is_an_error() {
        let (client, asked) = answers(vec![page(&["a", "b"], "t1"), page(&["c"], "")]);
        assert_eq!(names(&client).await.unwrap(), ["a", "b", "c"]);
        let asked = asked.lock().unwrap().clone();
        assert!(asked.len() == 2 && asked[0].contains("limit=500") && asked[1].contains("continue=t1"), "{asked:?}");
        let broken = (500, json!({"kind": "Status", "status": "Failure", "code": 500, "reason": "", "message": "no"}));
        let (client, _) = answers(vec![page(&["a"], "t1"), broken]);
        assert!(names(&client).await.is_err());
    }

    #[tokio::test]
    async fn a_list_whose_pages_expire_begins_again() {
        let gone =
            json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"});
        let (client, _) = answers(vec![page(&["a"], "t1"), (410, gone), page(&["a"], "t2"), page(&["b"], "")]);
        assert_eq!(names(&client).await.unwrap(), ["a", "b"]);
    }

    #[tokio::test]
    async fn s6_virtual_nodes_of_another_cluster_id_are_listed_by_the_labels_of_their_binding() {
        let (client, asked) = answers(vec![page(&["vnode-est-w1"], "")]);
        let found = under_other_ids(&client, &topoloom_sync::node::examples::binding()).await.unwrap();
        assert_eq!(found[0].name(), "vnode-est-w1");
        let asked = asked.lock().unwrap().join(" ").replace("%2F", "/").replace("%3D", "=").replace("%2C", ",");
        let asked = asked.replace("%21", "!");
        let wanted = "labelSelector=topoloom.dev/virtual-cluster=vc-1,topoloom.dev/binding=east,\
                      topoloom.dev/physical-cluster-id!=east";
        assert!(asked.contains(wanted), "{asked}");
    }

    #[test]
    fn a_machine_alone_is_selected_on_both_sides() {
        let scope = Scope::Machine { physical: "w1", lent: "vnode-east-w1" };
        let fields = |list: ListParams| list.field_selector.unwrap_or_default();
        assert_eq!(fields(scope.nodes(Side::Virtual)), "metadata.name=vnode-east-w1");
        assert_eq!(fields(scope.pods(Side::Virtual)), "spec.nodeName=vnode-east-w1");
        assert!(fields(scope.pods(Side::Physical)).ends_with(",spec.nodeName=w1"));
        assert_eq!(fields(Scope::All.nodes(Side::Physical)), "");
    }
}
