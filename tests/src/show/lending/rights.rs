//! The accounts of the show that `topoloom lend grant` does not make: the syncer in the virtual cluster, and the top-down half in
//! both, each with what it needs and nothing more.
//!
//! The syncer's rights are those of the host's own table, from which the chart is made, without the admission policies beside them.
//! Those of the top-down half are the ones that its contract names.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use topoloom::manager::rights::lending::{BindingLeases, Evictions, HostPorts, Streams, VirtualSettings};
use topoloom::manager::rights::{Extent, Right, RightScope};
use topoloom_api::cluster_binding::PolicySource;

use super::{ACCOUNTS, BINDING, MOUNT, SYSTEM};

const RBAC: &str = "rbac.authorization.k8s.io";

/// The ConfigMap whose annotation switches writes off: its name follows from namespace and release.
const SWITCH: &str = "topoloom-controller-configmap";

/// The rules of an account, by the namespace that they hold in; without one in the whole cluster.
type Rules = BTreeMap<Option<String>, Vec<Value>>;

/// The syncer in the virtual cluster.
pub(super) fn syncer(account: &str) -> Vec<Value> {
    let settings = VirtualSettings {
        leases: BindingLeases::Elected(SYSTEM.to_owned()),
        config: (SYSTEM.to_owned(), SWITCH.to_owned()),
        extent: Extent::Everything,
        secrets: vec![(SYSTEM.to_owned(), BINDING.to_owned())],
        policies: PolicySource::Physical,
        evictions: Evictions::Allowed,
        host_ports: HostPorts::Off,
        streams: Streams::Served,
    };
    granted(SYSTEM, account, of_rights(&settings.rights()))
}

/// The top-down half in the virtual cluster.
pub(super) fn player_of_virtual(account: &str) -> Vec<Value> {
    let rules = vec![
        rule("", &["nodes"], &["get", "list", "watch"]),
        rule("topoloom.dev", &["clusterbindings"], &["get", "list", "watch"]),
        rule("", &["pods"], &["get", "list", "watch", "patch", "delete"]),
        rule("", &["pods/status"], &["patch"]),
    ];
    granted(SYSTEM, account, [(None, rules)].into())
}

/// The top-down half in the physical cluster.
pub(super) fn player_of_physical(account: &str) -> Vec<Value> {
    let mut system = rule("", &["namespaces"], &["get"]);
    system["resourceNames"] = json!(["kube-system"]);
    let pods = rule("", &["pods"], &["get", "list", "watch", "create", "patch", "delete"]);
    granted(ACCOUNTS, account, [(None, vec![system]), (Some(MOUNT.to_owned()), vec![pods])].into())
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

fn of_rights(rights: &[Right]) -> Rules {
    let mut rules = Rules::new();
    for right in rights {
        let namespace = match &right.place {
            RightScope::Cluster => None,
            RightScope::Namespace(namespace) => Some(namespace.clone()),
        };
        let mut rule = rule(right.group, &[right.resource], &right.verbs);
        if !right.names.is_empty() {
            rule["resourceNames"] = json!(right.names);
        }
        rules.entry(namespace).or_default().push(rule);
    }
    rules
}

/// A ServiceAccount with these rules: the objects in an order in which they can be applied.
fn granted(namespace: &str, account: &str, rules: Rules) -> Vec<Value> {
    let metadata = json!({"name": account, "namespace": namespace});
    let mut objects = vec![json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})];
    let version = format!("{RBAC}/v1");
    for (place, rules) in rules {
        let kind = if place.is_some() { "Role" } else { "ClusterRole" };
        let mut metadata = json!({"name": account});
        if let Some(place) = &place {
            metadata["namespace"] = json!(place);
        }
        objects.push(json!({"apiVersion": version, "kind": kind, "metadata": metadata, "rules": rules}));
        objects.push(json!({
            "apiVersion": version, "kind": format!("{kind}Binding"), "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": account},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        }));
    }
    objects
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind, namespace and rules of the roles.
    fn roles(objects: &[Value]) -> Vec<(&str, &str, usize)> {
        let roles = objects.iter().filter(|object| object.get("rules").is_some());
        roles
            .map(|role| {
                let kind = role["kind"].as_str().unwrap_or_default();
                let namespace = role["metadata"]["namespace"].as_str().unwrap_or("*");
                (kind, namespace, role["rules"].as_array().map_or(0, Vec::len))
            })
            .collect()
    }

    #[test]
    fn each_account_has_its_rules_where_they_hold() {
        let objects = player_of_physical("player");
        assert_eq!(roles(&objects), [("ClusterRole", "*", 1), ("Role", MOUNT, 1)]);
        let accounts: Vec<_> = objects.iter().filter(|object| object["kind"] == "ServiceAccount").collect();
        assert_eq!(accounts.len(), 1);
        let bindings: Vec<_> = objects.iter().filter(|object| object.get("subjects").is_some()).collect();
        assert!(bindings.iter().all(|binding| binding["subjects"][0]["namespace"] == ACCOUNTS), "{bindings:#?}");

        let of_syncer = syncer("syncer");
        let found = roles(&of_syncer);
        assert!(found.iter().any(|(_, namespace, _)| *namespace == "kube-node-lease"), "{found:?}");
        let named = of_syncer.iter().flat_map(|object| object["rules"].as_array().into_iter().flatten());
        let secrets: Vec<_> = named.filter(|rule| rule["resources"] == json!(["secrets"])).collect();
        assert_eq!(secrets.len(), 1, "{secrets:#?}");
        assert_eq!(secrets[0]["resourceNames"], json!([BINDING]));
    }
}
