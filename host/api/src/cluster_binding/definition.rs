//! The CustomResourceDefinition of ClusterBinding.
//!
//! The spec is judged as far as one object alone can be judged: words, ranges, what never changes. The selector is not
//! (decision S2), and neither are the rules of `copy`: what is wrong with them is in the conditions. The status is not
//! judged: a refused status helps no one.

use super::spec::{HostPorts, Mode, NoPolicy, OnUnreachable, PhysicalWrites, PolicySource};
use super::status::ClusterBindingStatus;
use super::times::{self, TimeRange, shown};
use crate::crd::{
    Definition, atomic, bounded, conditions_schema, count, keyed, list, object, object_of, status, switch, text, time,
    validated, with,
};
use crate::names::{CLUSTER_BINDING_CRD, GROUP};
use crate::node_selector;
use crate::words::{Words, texts};
use serde_json::{Map, Value, json};

/// The longest `clusterID`, as the names of virtual nodes need it.
const CLUSTER_ID_MAX: usize = 24;
/// A DNS label: what `clusterID` and `mountNamespace` have to be.
const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// The name of a Secret.
const DNS_SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// The longest entry of a rule about keys: a prefix, a slash and a name.
const KEY_MAX: usize = 317;
/// The most entries of such a list.
const KEYS_MAX: usize = 128;

/// The definition as the API server takes it. Without it there are no bindings, and all that was lent would be left without
/// one.
#[must_use]
pub fn definition() -> Value {
    let schema = object_of(
        "A physical cluster that lends nodes to this one.",
        json!({ "spec": spec(), "status": status_of_binding() }),
    );
    Definition {
        name: CLUSTER_BINDING_CRD,
        group: GROUP,
        version: super::VERSION,
        kind: super::KIND,
        plural: super::PLURAL,
        singular: "clusterbinding",
        short_name: super::SHORT_NAME,
        columns: json!([
            { "name": "ClusterID", "type": "string", "jsonPath": ".spec.clusterID" },
            { "name": "Phase", "type": "string", "jsonPath": ".status.phase" },
            { "name": "Connection", "type": "string", "jsonPath": ".status.connection.state" },
            { "name": "Nodes", "type": "integer", "jsonPath": ".status.nodes.lent" },
            { "name": "Pods", "type": "integer", "jsonPath": ".status.pods.running" },
            { "name": "Held", "type": "string", "jsonPath": ".status.held.hash" },
            { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
            { "name": "Message", "type": "string", "jsonPath": ".status.message", "priority": 1 },
        ]),
        schema: with(schema, "required", json!(["spec"])),
    }
    .object()
}

fn spec() -> Value {
    json!({
        "description": "What is borrowed from the physical cluster, and how.",
        "type": "object",
        "required": ["clusterID", "mountNamespace", "secretRef"],
        "properties": {
            "clusterID": cluster_id(),
            "secretRef": secret_ref(),
            "mountNamespace": mount_namespace(),
            "nodeSelector": node_selector::schema("Which physical nodes may be borrowed. Without it, or without terms: \
                all."),
            "noPolicy": choice::<NoPolicy>("What a node that no policy selects lends: everything that is left \
                (LeaseAll), or nothing (Withdraw)."),
            "policySource": choice::<PolicySource>("In which cluster the policies are."),
            "mode": choice::<Mode>("observe: everything is decided, and nothing is written but the status of this \
                object, and the leases of nodes that it lent before."),
            "onUnreachable": choice::<OnUnreachable>("What becomes of the nodes while the physical cluster does not \
                answer: they become Unknown, and their pods leave after their own tolerationSeconds (unknown), or they \
                stay as they are for holdFor (hold)."),
            "holdFor": duration(times::HOLD_FOR, "For how long nodes stay as they are with onUnreachable: hold. After \
                that as with unknown."),
            "safety": safety(),
            "copy": copy(),
            "timing": timing(),
            "hostPorts": choice::<HostPorts>("Whether host ports that are taken on a physical node are taken on its \
                virtual node too (mirror). In YAML, off needs quotes."),
            "physicalWrites": choice::<PhysicalWrites>("none: no Node of the physical cluster is labelled or claimed. \
                Then nothing keeps a second borrower away from these nodes."),
            "allowInsecure": switch("Whether the kubeconfig may switch off the check of the server's certificate."),
            "allowChained": switch("Whether virtual nodes that another topoloom made in the physical cluster are \
                borrowed."),
            "disableNodeDefaultTaint": switch("Whether virtual nodes come without the taint \
                topoloom.dev/vnode:NoSchedule."),
        },
    })
}

fn cluster_id() -> Value {
    never_changes(
        "clusterID",
        "the names of all virtual nodes contain it",
        json!({
            "description": "Part of the name of every virtual node: lower-case letters, digits and dashes. It is unique \
                in this cluster, and never changes.",
            "type": "string",
            "minLength": 1,
            "maxLength": CLUSTER_ID_MAX,
            "pattern": DNS_LABEL,
        }),
    )
}

fn secret_ref() -> Value {
    json!({
        "description": "The Secret with the kubeconfig of the physical cluster under the key kubeconfig.",
        "type": "object",
        "required": ["name"],
        "properties": { "name": {
            "description": "Its name, in the namespace of topoloom.",
            "type": "string",
            "minLength": 1,
            "maxLength": 253,
            "pattern": DNS_SUBDOMAIN,
        } },
    })
}

fn mount_namespace() -> Value {
    never_changes(
        "mountNamespace",
        "the pods that run there would be left behind",
        json!({
            "description": "The namespace of the physical cluster that all pods are in. Two virtual clusters need two. It \
                never changes.",
            "type": "string",
            "minLength": 1,
            "maxLength": 63,
            "pattern": DNS_LABEL,
        }),
    )
}

fn safety() -> Value {
    let percent = |what: &str| {
        json!({
            "description": format!(
                "The share of {what} that may be taken away at once without a confirmation; 100 switches this limit off. \
                 Default: {}.",
                super::MAX_PERCENT
            ),
            "type": "integer",
            "format": "int64",
            "minimum": 1,
            "maximum": 100,
        })
    };
    object(
        "How much may be disrupted at once. What would disrupt more is held until an operator confirms it.",
        json!({
            "maxEvictPercent": percent("running pods (bound to its nodes and not ended, without those of DaemonSets)"),
            "maxNodesPercent": percent("nodes"),
            "announce": duration(times::ANNOUNCE, "For how long the end of a window has to be announced in the status, for \
                evictions at that end not to count."),
        }),
    )
}

fn copy() -> Value {
    let keys = |description: &str| {
        atomic(description, KEYS_MAX, json!({ "type": "string", "minLength": 1, "maxLength": KEY_MAX }))
    };
    let rules = |what: &str| {
        object(
            &format!("The {what} of virtual nodes. An entry is a key, a prefix such as example.com/*, or *."),
            json!({
                "allow": keys("Copied, although they are not otherwise."),
                "deny": keys("Not copied, although they are otherwise."),
            }),
        )
    };
    object(
        "What is copied beside what always is.",
        json!({
            "labels": rules("labels"),
            "annotations": rules("annotations"),
            "podMetadata": keys("Keys of labels and annotations of physical pods that are copied to their virtual pods."),
        }),
    )
}

fn timing() -> Value {
    let fields = [
        (times::LEASE, "How long the lease of a virtual node is valid. It is renewed at a quarter of that."),
        (
            times::SUSPECT,
            "After how long without an answer the physical cluster is suspect: nothing is created, enlarged, evicted or \
             deleted.",
        ),
        (
            times::UNREACHABLE,
            "After how long without an answer the physical cluster is unreachable; at least twice suspect.",
        ),
        (
            times::EMPTY,
            "How long the physical cluster has to say that it has no Nodes any more, before its Nodes count as gone.",
        ),
        (times::RECHECK, "How often the pods of a node that is taken away are looked at."),
        (times::ORPHAN_DELAY, "How long a physical pod has to be without a virtual pod before it is deleted."),
        (
            times::EVICTION_DEADLINE,
            "For how long pods are evicted, which honours disruption budgets, before they are deleted.",
        ),
        (times::GROW, "How long a node that left its policy for none keeps its size."),
    ];
    let fields: Map<String, Value> =
        fields.into_iter().map(|(range, what)| (range.name().to_owned(), duration(range, what))).collect();
    let timing =
        object("Times. They fit together, and to kube-controller-manager; few clusters need others.", fields.into());
    // A default counts too, and a time that is none has its own message.
    let or = |range: TimeRange| {
        let (name, default) = (range.name(), shown(range.default));
        format!("duration(has(self.{name}) && self.{name}.matches('{}') ? self.{name} : '{default}')", times::GRAMMAR)
    };
    let (suspect, unreachable) = (or(times::SUSPECT), or(times::UNREACHABLE));
    validated(timing, &format!("{unreachable} >= {suspect} + {suspect}"), times::TOO_SOON)
}

fn status_of_binding() -> Value {
    status(json!({
        "observedGeneration": count("The metadata.generation that was looked at."),
        "phase": text("How it is doing: Pending, Ready or Failed."),
        "message": text("The reason for the phase, in one sentence."),
        "conditions": keyed(conditions_schema(), "type"),
        "physicalClusterUID": text("The physical cluster that this binding borrows from: the UID of its namespace \
            kube-system."),
        "otherCluster": other_cluster(),
        "restored": restored(),
        "held": held(),
        "spent": spent(),
        "granted": granted(),
        "confirmed": confirmed(),
        "connection": connection(),
        "holder": text("The replica that serves this binding."),
        "lease": text("The Lease of the installation that serves this binding, as namespace/name."),
        "nodes": nodes(),
        "pods": object("Its pods, counted.", json!({
            "bound": count("Virtual pods that are bound to its nodes and have not ended."),
            "running": count("Virtual pods that are running."),
            "orphans": count("Physical pods of this binding without a virtual pod."),
        })),
        "leases": object("The leases of its virtual nodes, counted.", json!({
            "renewed": count("Those that are renewed."),
            "stopped": count("Those that are not: their kubelet does not report, or the physical cluster is \
                unreachable."),
        })),
        "nextTransition": time("When the windows of its policies open or close next."),
        "lastSyncTime": time("When this status was written last. It changes with another change only."),
    }))
}

fn since() -> Value {
    time("Since when.")
}

fn hash() -> Value {
    text("What an operator confirms with the annotation topoloom.dev/confirm.")
}

fn other_cluster() -> Value {
    object(
        "Another physical cluster that answers in its place. Nothing is created, evicted or deleted until an operator \
         confirms it.",
        json!({
            "uid": text("The UID of its namespace kube-system."),
            "hash": hash(),
            "since": since(),
        }),
    )
}

fn restored() -> Value {
    object(
        "A cluster that was set back to an earlier state. Nothing is evicted or deleted until an operator confirms it.",
        json!({
            "cluster": text("Which one: Virtual or Physical."),
            "sentence": text("How that was seen."),
            "hash": hash(),
            "since": since(),
        }),
    )
}

fn held() -> Value {
    let extent = |description: &str| object(description, json!({ "nodes": count("Nodes."), "pods": count("Pods.") }));
    object(
        "The batch of disruptive acts that waits for confirmation.",
        json!({
            "hash": hash(),
            "earlier": atomic(
                "The hashes of the last ten minutes, before something came to the batch, newest first: each confirms what it was \
                 shown with.",
                ClusterBindingStatus::EARLIER_MAX,
                json!({ "type": "string" }),
            ),
            "sentence": text("What would be disrupted, why, and which limit of spec.safety that breaks."),
            "since": since(),
            "extent": extent("What would be disrupted, with what was before."),
            "size": extent("The size of the binding that the limits refer to."),
            "spent": extent("What counted against the limits already when the batch was held."),
        }),
    )
}

fn spent() -> Value {
    object(
        "What was disrupted lately; it counts against spec.safety.",
        json!({
            "nodes": count("Nodes that were taken away or emptied."),
            "pods": count("Pods that were removed."),
            "at": time("When the last of it happened."),
        }),
    )
}

fn granted() -> Value {
    let nodes = atomic("The virtual nodes.", ClusterBindingStatus::GRANTED_NODES_MAX, json!({ "type": "string" }));
    let acts = object(
        "Acts of one kind.",
        json!({
            "act": text("The kind: NoExecute, RemovePod, RemoveOrphan or DeleteNode."),
            "counts": switch("Whether they count against the limits and have not happened yet; spent has them then."),
            "nodes": nodes,
            "pods": count("How many pods of these nodes."),
            "at": time("When they were written: in a status with another lastSyncTime they count no more."),
        }),
    );
    atomic(
        "What may be disrupted already, within the limits or confirmed, as far as it is wanted still: a replica that takes over \
         continues with it.",
        ClusterBindingStatus::GRANTED_MAX,
        acts,
    )
}

fn confirmed() -> Value {
    let confirmed = list(
        "What operators confirmed, newest first: a hash confirms once.",
        "hash",
        json!({ "hash": text("What was confirmed."), "at": time("When.") }),
    );
    with(confirmed, "maxItems", json!(ClusterBindingStatus::CONFIRMED_MAX))
}

fn connection() -> Value {
    object(
        "The connection to the physical cluster.",
        json!({
            "state": text("How it is doing: Connecting, Reachable, Suspect or Unreachable."),
            "since": since(),
            "serverVersion": text("The version of its API server."),
            "credentialsEnd": time("When the certificate or token of the kubeconfig ends."),
        }),
    )
}

fn nodes() -> Value {
    object(
        "Its nodes, counted.",
        json!({
            "selected": count("Physical nodes that the binding selects."),
            "lent": count("Virtual nodes."),
            "ready": count("Virtual nodes that are Ready."),
            "outsideWindows": count("Virtual nodes outside of the windows of their policy."),
            "overcommitted": count("Virtual nodes whose pods request more than is lent."),
            "leaving": count("Virtual nodes that are being taken away."),
            "frozen": count("Physical nodes that an invalid policy keeps as they are."),
            "claimedByOthers": count("Physical nodes that another binding or borrower has claimed."),
        }),
    )
}

/// A required field that keeps its first value. Required fields cannot be removed, so the rule can stand on the field
/// itself.
fn never_changes(field: &str, why: &str, schema: Value) -> Value {
    let message = format!("{field} cannot be changed, because {why}; make another ClusterBinding");
    validated(schema, "self == oldSelf", &message)
}

fn choice<T: Words>(description: &str) -> Value {
    let description = format!("{description} Default: {}.", T::default().as_str());
    json!({ "description": description, "type": "string", "enum": texts::<T>() })
}

/// A time. The grammar is a part of the rule, so that one message says all.
fn duration(range: TimeRange, description: &str) -> Value {
    let (least, most) = (shown(range.least), shown(range.most));
    let description = format!("{description} From {least} to {most}. Default: {}.", shown(range.default));
    let rule = format!(
        "self.matches('{}') && duration(self) >= duration('{least}') && duration(self) <= duration('{most}')",
        times::GRAMMAR
    );
    validated(bounded(&description, times::LENGTH), &rule, &format!("{} {}", range.name(), range.rule()))
}
