//! The requests of kubelets. Each can be made twice.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::machine::LEASES;
use super::needs::{Found, Kind, Need};
use crate::device_plugin::PodName;
use crate::lending::requests::{Answer, ask, only_this};
use crate::lending::version_of;

/// What a kubelet has to do.
#[derive(Debug)]
pub(super) enum Work {
    Renew(Box<Lease>),
    /// Writes the status of a node.
    ShowNode(String, Value),
    /// Writes the status of a pod.
    ShowPod(PodName, Box<Value>),
    /// Looks for what a pod needs in its namespace.
    Check(Arc<str>, Vec<Need>),
    /// Deletes a pod of which nothing runs any more.
    Bury(PodName),
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Done {
    /// A lease or the status of a node is written.
    Written,
    /// The status of a pod is, and this is the version after it.
    Shown(Box<Value>, u64),
    Checked(Found),
    /// What a pod needs cannot be read.
    Unreadable(String),
    Buried,
    /// It has to be looked at again soon.
    Again,
    /// It was refused, with this message; the status of a pod with what was to be written.
    Refused(Option<Box<Value>>, String),
}

/// Does it.
pub(super) async fn perform(client: Client, work: Work) -> Done {
    match work {
        Work::Renew(lease) => renew(client, &lease).await,
        Work::ShowNode(name, patch) => {
            let nodes: Api<Node> = Api::all(client);
            match ask(nodes.patch_status(&name, &PatchParams::default(), &Patch::Strategic(patch))).await {
                Answer::Done(_) => Done::Written,
                Answer::Refused(why) => Done::Refused(None, why),
                Answer::Absent | Answer::Exists | Answer::Again => Done::Again,
            }
        }
        Work::ShowPod(pod, status) => show_pod(client, &pod, status).await,
        Work::Check(namespace, needs) => check(client, &namespace, &needs).await,
        Work::Bury(pod) => {
            let pods: Api<Pod> = Api::namespaced(client, &pod.namespace);
            match ask(pods.delete(&pod.name, &only_this(&pod.uid, Some(0)))).await {
                Answer::Done(_) | Answer::Absent => Done::Buried,
                Answer::Refused(why) => Done::Refused(None, why),
                Answer::Exists | Answer::Again => Done::Again,
            }
        }
    }
}

async fn renew(client: Client, lease: &Lease) -> Done {
    let leases: Api<Lease> = Api::namespaced(client, LEASES);
    let name = lease.metadata.name.clone().unwrap_or_default();
    let answer = match ask(leases.patch(&name, &PatchParams::default(), &Patch::Merge(lease))).await {
        Answer::Absent => ask(leases.create(&PostParams::default(), lease)).await,
        answer => answer,
    };
    match answer {
        Answer::Done(_) => Done::Written,
        Answer::Refused(why) => Done::Refused(None, why),
        // The namespace is not there yet, or another client made the lease meanwhile.
        Answer::Absent | Answer::Exists | Answer::Again => Done::Again,
    }
}

async fn show_pod(client: Client, pod: &PodName, status: Box<Value>) -> Done {
    let pods: Api<Pod> = Api::namespaced(client, &pod.namespace);
    let patch = Patch::Strategic(patch(pod, &status));
    match ask(pods.patch_status(&pod.name, &PatchParams::default(), &patch)).await {
        Answer::Done(after) => Done::Shown(status, version_of(&after)),
        Answer::Refused(why) => Done::Refused(Some(status), why),
        // If it is gone, the watch will report that.
        Answer::Absent | Answer::Exists | Answer::Again => Done::Again,
    }
}

/// Of the conditions it changes those that it names; other writers keep theirs. Addresses it replaces: the machine may be
/// another one.
fn patch(pod: &PodName, status: &Value) -> Value {
    let mut status = status.clone();
    for list in ["hostIPs", "podIPs"] {
        if let Some(list) = status.get_mut(list).and_then(Value::as_array_mut) {
            list.push(json!({"$patch": "replace"}));
        }
    }
    json!({"metadata": {"uid": &*pod.uid}, "status": status})
}

async fn check(client: Client, namespace: &str, needs: &[Need]) -> Done {
    let (maps, secrets): (Api<ConfigMap>, Api<Secret>) =
        (Api::namespaced(client.clone(), namespace), Api::namespaced(client, namespace));
    let mut found = Found::new();
    for need in needs {
        let place = (need.kind, need.name.clone());
        if found.contains_key(&place) {
            continue;
        }
        let answer = match need.kind {
            Kind::ConfigMap => keys(ask(maps.get(&need.name)).await, |map| {
                let binary = map.binary_data.into_iter().flatten().map(|(key, _)| key);
                map.data.into_iter().flatten().map(|(key, _)| key).chain(binary).collect()
            }),
            Kind::Secret => keys(ask(secrets.get(&need.name)).await, |secret| {
                secret.data.into_iter().flatten().map(|(key, _)| key).collect()
            }),
        };
        match answer {
            Answer::Done(keys) => drop(found.insert(place, keys)),
            // One missing object decides.
            Answer::Absent => break,
            Answer::Refused(why) => return Done::Unreadable(why),
            Answer::Exists | Answer::Again => return Done::Again,
        }
    }
    Done::Checked(found)
}

fn keys<K>(answer: Answer<K>, of: impl FnOnce(K) -> Vec<String>) -> Answer<Vec<String>> {
    match answer {
        Answer::Done(object) => Answer::Done(of(object)),
        Answer::Absent => Answer::Absent,
        Answer::Exists => Answer::Exists,
        Answer::Again => Answer::Again,
        Answer::Refused(why) => Answer::Refused(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_names_its_pod_and_replaces_addresses() {
        let pod = PodName { namespace: "d".into(), name: "a".into(), uid: "u".into() };
        let replace = json!({"$patch": "replace"});
        let all = json!({"phase": "Running", "hostIPs": [{"ip": "10.0.0.1"}], "podIPs": [{"ip": "10.1.0.1"}]});
        let wanted = json!({"metadata": {"uid": "u"}, "status": {
            "phase": "Running", "hostIPs": [{"ip": "10.0.0.1"}, replace], "podIPs": [{"ip": "10.1.0.1"}, replace],
        }});
        assert_eq!(patch(&pod, &all), wanted);
        let wanted = json!({"metadata": {"uid": "u"}, "status": {"phase": "Failed"}});
        assert_eq!(patch(&pod, &json!({"phase": "Failed"})), wanted);
    }
}
