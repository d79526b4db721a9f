//! Whose a node is that is under none of the bindings: one that a binding left that does not exist any more, or a machine of a lender
//! who asks in the physical cluster.
//!
//! Owns the sentence, with what to type next. Decides nothing, and never says that anything may go: `lend release` judges that live.

use kube::Resource as _;
use topoloom_api::ClusterBinding;
use topoloom_sync::identity::claim_parts;
use topoloom_sync::keys;
use topoloom_syncer::slices::node::NodeSlice;

/// Whose a node of the cluster that was asked is, by its labels as a virtual node or by the claim on it as a machine.
pub(super) fn of(node: &NodeSlice, bindings: &[ClusterBinding], virtual_cluster: &str) -> Option<String> {
    by_labels(node, bindings, virtual_cluster).or_else(|| by_claim(node))
}

fn by_labels(node: &NodeSlice, bindings: &[ClusterBinding], virtual_cluster: &str) -> Option<String> {
    let label = |key: &str| node.meta().labels.as_ref()?.get(key).filter(|value| !value.is_empty());
    let (cluster, binding) = (label(keys::VIRTUAL_CLUSTER)?, label(keys::BINDING)?);
    let name = node.name();
    if cluster != virtual_cluster {
        return Some(format!(
            "node {name} has the labels of a virtual node of the virtual cluster {cluster}, and the identity of this cluster is \
             {virtual_cluster}: if its syncer has another one by --virtual-cluster-id, say so here"
        ));
    }
    let uid = label(keys::BINDING_UID);
    let stands = |uid: &String| bindings.iter().any(|binding| binding.metadata.uid.as_ref() == Some(uid));
    if uid.is_some_and(stands) {
        return Some(format!("node {name} is a virtual node of ClusterBinding {binding}"));
    }
    let uid = uid.map(|uid| format!(" with the UID {uid}")).unwrap_or_default();
    Some(format!(
        "node {name} is a virtual node of ClusterBinding {binding}{uid}, which does not exist any more: `topoloom lend report` shows all \
         that such bindings left, and `topoloom lend release {name} --dry-run` what would be removed of this node"
    ))
}

fn by_claim(node: &NodeSlice) -> Option<String> {
    let claim = node.meta().annotations.as_ref()?.get(keys::LEASED_BY)?;
    let name = node.name();
    Some(match claim_parts(claim) {
        Some((cluster, uid)) => format!(
            "node {name} is lent to the virtual cluster {cluster}, by the ClusterBinding with the UID {uid} there: `topoloom lend explain \
             {name}` and `topoloom lend report` show it with the kubeconfig of that cluster. If that cluster is gone for good: \
             `topoloom lend release --gone-virtual-cluster {cluster} --physical-kubeconfig FILE --dry-run`"
        ),
        None => format!(
            "node {name} has an annotation {} that is no claim of a binding: no borrower may change it, and the lender removes it \
             (kubectl annotate node {name} {}-)",
            keys::LEASED_BY,
            keys::LEASED_BY
        ),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn said(metadata: Value, bindings: &[ClusterBinding]) -> String {
        let mut node = json!({"metadata": metadata});
        node["metadata"]["name"] = "n1".into();
        of(&serde_json::from_value(node).unwrap(), bindings, "vc").unwrap_or_default()
    }

    fn labels(cluster: &str, uid: &str) -> Value {
        json!({"labels": {
            "topoloom.dev/virtual-cluster": cluster, "topoloom.dev/binding": "east", "topoloom.dev/binding-uid": uid,
        }})
    }

    #[test]
    fn s22_a_node_that_a_binding_left_is_said_to_be_of_that_binding_with_the_verbs_for_it() {
        let left = said(labels("vc", "b-0"), &[]);
        let begins =
            "node n1 is a virtual node of ClusterBinding east with the UID b-0, which does not exist any more: ";
        assert!(left.starts_with(begins), "{left}");
        assert!(
            left.contains("`topoloom lend report`") && left.contains("`topoloom lend release n1 --dry-run`"),
            "{left}"
        );
        let mut stands = ClusterBinding::new("east", topoloom_api::ClusterBindingSpec::default());
        stands.metadata.uid = Some("b-0".to_owned());
        let bindings = [stands];
        assert_eq!(said(labels("vc", "b-0"), &bindings), "node n1 is a virtual node of ClusterBinding east");
        // It was made again, and has not adopted the node yet.
        assert!(said(labels("vc", "b-1"), &bindings).contains("with the UID b-1, which does not exist any more"));
        let other = said(labels("night.1", "b-0"), &bindings);
        assert!(other.contains("of the virtual cluster night.1") && other.contains("--virtual-cluster-id"), "{other}");
    }

    #[test]
    fn s7_a_machine_is_said_to_be_lent_to_the_cluster_that_claims_it() {
        let claimed = |claim: &str| said(json!({"annotations": {"topoloom.dev/leased-by": claim}}), &[]);
        let lent = claimed("vc-9/b-9");
        let begins = "node n1 is lent to the virtual cluster vc-9, by the ClusterBinding with the UID b-9 there: ";
        assert!(lent.starts_with(begins), "{lent}");
        assert!(lent.contains("`topoloom lend release --gone-virtual-cluster vc-9 "), "{lent}");
        assert!(claimed("mine").contains("is no claim of a binding"));
        assert_eq!(said(json!({"labels": {"zone": "a"}}), &[]), "");
    }
}
