//! Ranges of pod addresses (decision S13): with `--allocate-node-cidrs` each virtual node takes one of the virtual cluster's, which
//! no pod of it ever uses, and when they run out real nodes get none.
//!
//! The flag is the controller manager's. From outside it shows by ranges that nodes have, and by the pod of a controller manager
//! that runs in the cluster.

use std::fmt::Debug;

use k8s_openapi::api::core::v1::{Container, Node, Pod};
use kube::Api;
use kube::api::ListParams;
use serde::de::DeserializeOwned;
use topoloom_api::names::lending::VIRTUAL_CLUSTER;

use crate::cli::preflight::line::Line;
use crate::cluster::{Refusal, RefusalReason, Side};

/// The check.
const WHAT: &str = "ranges of pod addresses";
/// The flag.
const FLAG: &str = "--allocate-node-cidrs";
/// Objects per page.
const PAGE: u32 = 500;
/// So many pages at most: more nodes than any cluster has.
const PAGES: usize = 100;
/// Where the controller manager runs, where it runs in the cluster, and the label of its pods.
const CONTROLLER_MANAGER: (&str, &str) = ("kube-system", "component=kube-controller-manager");

/// What was seen.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ranges {
    /// All nodes.
    nodes: usize,
    /// Virtual nodes.
    lent: usize,
    /// Those of them that have a range.
    taken: usize,
    /// Other nodes that have one.
    others: usize,
    /// Whether the pod of a controller manager was seen.
    is_seen: bool,
    /// Whether it has the flag.
    is_set: bool,
}

/// Looks at nodes and at the controller manager. Without the right to list nodes there is no line: the rights say more about that.
pub(super) async fn look(client: &kube::Client) -> Option<Line> {
    let nodes = match list::<Node>(&Api::all(client.clone()), &ListParams::default()).await {
        Ok(nodes) => nodes,
        Err(refusal) if refusal.reason == RefusalReason::Forbidden => return None,
        Err(refusal) => {
            return Some(Line::warn(WHAT, format!("nodes could not be listed: {}", refusal.on(Side::Virtual)), ""));
        }
    };
    let (namespace, label) = CONTROLLER_MANAGER;
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    // Where it runs elsewhere there is none, and without the right to see it nodes show it all the same.
    let pods = list(&pods, &ListParams::default().labels(label)).await.unwrap_or_default();
    Some(Ranges::of(&nodes, &pods).line())
}

async fn list<K>(api: &Api<K>, all: &ListParams) -> Result<Vec<K>, Refusal>
where
    K: Clone + DeserializeOwned + Debug,
{
    let (mut page, mut found) = (all.clone().limit(PAGE), Vec::new());
    for _ in 0..PAGES {
        let list = api.list(&page).await.map_err(|error| Refusal::of(&error))?;
        found.extend(list.items);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    Ok(found)
}

/// Whether the last word of a container about the flag switches it on.
fn is_set(container: &Container) -> bool {
    let words = [&container.command, &container.args].into_iter().flatten().flatten();
    let said = words.filter_map(|word| word.trim().strip_prefix(FLAG)).next_back();
    said.is_some_and(|value| matches!(value, "" | "=true" | "=True" | "=TRUE" | "=t" | "=T" | "=1"))
}

impl Ranges {
    fn of(nodes: &[Node], pods: &[Pod]) -> Self {
        let has_range = |node: &&Node| {
            let spec = node.spec.as_ref();
            spec.and_then(|spec| spec.pod_cidr.as_ref()).is_some_and(|range| !range.is_empty())
        };
        let is_lent =
            |node: &&Node| node.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(VIRTUAL_CLUSTER));
        let (lent, others): (Vec<&Node>, Vec<&Node>) = nodes.iter().partition(is_lent);
        let mut containers = pods.iter().filter_map(|pod| pod.spec.as_ref()).flat_map(|spec| &spec.containers);
        Self {
            nodes: nodes.len(),
            lent: lent.len(),
            taken: lent.into_iter().filter(has_range).count(),
            others: others.into_iter().filter(has_range).count(),
            is_seen: !pods.is_empty(),
            is_set: containers.any(is_set),
        }
    }

    fn line(&self) -> Line {
        let Self { nodes, lent, taken, others, is_seen, is_set } = self;
        let todo = "if the virtual cluster has no nodes of its own, give its kube-controller-manager --allocate-node-cidrs=false; \
                    otherwise choose --cluster-cidr and --node-cidr-mask-size for its nodes and all machines that may be lent together";
        if *taken > 0 {
            let found = format!(
                "{taken} of {lent} virtual nodes have taken a range of the virtual cluster, which runs with {FLAG}: when its ranges \
                 run out, nodes get none"
            );
            return Line::warn(WHAT, found, todo);
        }
        if *is_set || *others > 0 {
            let seen = if *is_set {
                "its kube-controller-manager runs with it".to_owned()
            } else {
                format!("{others} nodes have one")
            };
            let found = format!(
                "the virtual cluster seems to run with {FLAG} ({seen}): each virtual node will take one of its ranges, and when they run \
                 out, nodes get none"
            );
            return Line::warn(WHAT, found, todo);
        }
        if *nodes == 0 && !is_seen {
            let found = format!(
                "it does not show whether the virtual cluster runs with {FLAG}: it has no node, and no pod of its \
                 kube-controller-manager is seen here. With the flag each virtual node takes one of its ranges, and when they run out, \
                 nodes get none"
            );
            return Line::warn(WHAT, found, todo);
        }
        Line::ok(WHAT, "no node has one: virtual nodes will take none")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cli::preflight::line::Mark;

    fn node(lent: bool, range: Value) -> Node {
        let labels = if lent { json!({"topoloom.dev/virtual-cluster": "vc"}) } else { json!({}) };
        serde_json::from_value(json!({"metadata": {"name": "n", "labels": labels}, "spec": {"podCIDR": range}}))
            .unwrap()
    }

    fn manager(words: &[&str]) -> Pod {
        let container = json!({"name": "c", "command": words});
        serde_json::from_value(json!({"metadata": {"name": "m"}, "spec": {"containers": [container]}})).unwrap()
    }

    #[test]
    fn s13_ranges_that_virtual_nodes_took_or_will_take_are_warned_of_with_numbers() {
        let said = |nodes: &[Node], pods: &[Pod]| {
            let line = Ranges::of(nodes, pods).line();
            (line.mark, line.found, line.todo.len())
        };
        let (range, none) = (json!("10.1.0.0/24"), Value::Null);
        let (mark, found, todo) =
            said(&[node(true, range.clone()), node(true, none.clone()), node(false, none.clone())], &[]);
        assert_eq!((mark, todo), (Mark::Warn, 1));
        assert!(found.starts_with("1 of 2 virtual nodes have taken a range"), "{found}");
        let (mark, found, _) = said(&[node(true, none.clone()), node(false, range)], &[]);
        assert!(mark == Mark::Warn && found.contains("(1 nodes have one)"), "{found}");
        let (mark, found, _) = said(&[], &[manager(&["kube-controller-manager", "--allocate-node-cidrs=true"])]);
        assert!(mark == Mark::Warn && found.contains("runs with it"), "{found}");
        let off = manager(&["kube-controller-manager", "--allocate-node-cidrs", "--allocate-node-cidrs=false"]);
        assert_eq!(said(&[node(true, none.clone()), node(false, json!(""))], std::slice::from_ref(&off)).0, Mark::Ok);
        assert_eq!(said(&[], &[off]).0, Mark::Ok);
        // A new virtual cluster whose controller manager runs elsewhere.
        let (mark, found, todo) = said(&[], &[]);
        assert!(mark == Mark::Warn && found.starts_with("it does not show whether") && todo == 1, "{found}");
        assert_eq!(said(&[node(false, none)], &[manager(&["--allocate-node-cidrs-too"])]).0, Mark::Ok);
    }
}
