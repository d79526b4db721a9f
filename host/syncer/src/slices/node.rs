//! Nodes of either cluster.

use std::sync::Arc;

use k8s_openapi::api::core::v1 as core_v1;
use kube::api::ObjectMeta;
use kube::core::ClusterResourceScope;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use topoloom_sync::conditions::NodeCondition;
use topoloom_sync::keys;
use topoloom_sync::merge::{Cordon, Metadata};
use topoloom_sync::node::{LentNode, PhysicalNode};
use topoloom_sync::resources::{ResourceError, WrittenList};
use topoloom_sync::taints::{Effect, Taint};
use topoloom_sync::texts::{Text, TextMap};
use topoloom_sync::truth::Truth;

use super::pool::Pool;
use super::{Amounts, ConditionSlice, Head, TaintSlice, of_texts, of_value, slice_of, time};

/// A longer text is hardly the same on two nodes.
const COMMON_MAX: usize = 128;

/// A Node, as it is read. Written down again it is the same: a command rehearses what patches make of it.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct NodeSlice {
    #[serde(deserialize_with = "super::metadata::read")]
    metadata: ObjectMeta,
    spec: Spec,
    status: Status,
}

slice_of!(NodeSlice, core_v1::Node, ClusterResourceScope);

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
struct Spec {
    taints: Vec<TaintSlice>,
    unschedulable: bool,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    allocatable: Amounts,
    capacity: Amounts,
    conditions: Vec<ConditionSlice>,
    addresses: Value,
    daemon_endpoints: DaemonEndpoints,
    node_info: Value,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct DaemonEndpoints {
    kubelet_endpoint: Endpoint,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
struct Endpoint {
    #[serde(rename = "Port")]
    port: Option<u16>,
}

impl NodeSlice {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// The bytes of its texts: what it takes of the memory is the choice of those who write it.
    #[must_use]
    pub fn weight(&self) -> usize {
        let taint = |taint: &TaintSlice| taint.key.len() + taint.value.len() + taint.effect.len();
        let condition = |condition: &ConditionSlice| {
            let ConditionSlice { kind, status, reason, message, .. } = condition;
            kind.len() + status.len() + reason.len() + message.len()
        };
        let amounts = [&self.status.allocatable, &self.status.capacity].map(|amounts| of_texts(Some(amounts)));
        let maps = [&self.metadata.labels, &self.metadata.annotations].map(|map| of_texts(map.as_ref()));
        let values = [&self.status.addresses, &self.status.node_info].map(of_value);
        let lists: usize = self.spec.taints.iter().map(taint).chain(self.status.conditions.iter().map(condition)).sum();
        amounts.into_iter().chain(maps).chain(values).fold(lists, usize::saturating_add)
    }

    /// As a physical node.
    ///
    /// # Errors
    /// One of its amounts is no quantity.
    pub fn physical(self) -> Result<PhysicalNode, ResourceError> {
        let Head { uid, version, existence } = Head::of(&self.metadata);
        let internal_ip = self.internal_ip();
        let mut taints: Vec<Taint> = self.spec.taints.into_iter().map(taint).collect();
        // node-lifecycle adds the taint of a cordon a moment later.
        if self.spec.unschedulable && !taints.iter().any(|taint| taint.key == keys::UNSCHEDULABLE_TAINT) {
            taints.push(Taint::new(keys::UNSCHEDULABLE_TAINT, "", Effect::NoSchedule));
        }
        taints.shrink_to_fit();
        Ok(PhysicalNode {
            uid,
            version,
            existence,
            allocatable: list(&self.status.allocatable)?,
            capacity: list(&self.status.capacity)?,
            internal_ip,
            taints,
            conditions: exact(self.status.conditions.into_iter().map(condition)),
            info: self.status.node_info.into(),
            labels: self.metadata.labels.unwrap_or_default().into(),
            annotations: self.metadata.annotations.unwrap_or_default().into(),
        })
    }

    /// As a virtual node.
    ///
    /// # Errors
    /// One of its amounts is no quantity.
    pub fn lent(self) -> Result<LentNode, ResourceError> {
        let Head { uid, version, existence } = Head::of(&self.metadata);
        Ok(LentNode {
            uid,
            version,
            existence,
            allocatable: list(&self.status.allocatable)?,
            capacity: list(&self.status.capacity)?,
            finalizers: self.metadata.finalizers.unwrap_or_default(),
            metadata: Metadata {
                labels: self.metadata.labels.unwrap_or_default().into(),
                annotations: self.metadata.annotations.unwrap_or_default().into(),
                taints: exact(self.spec.taints.into_iter().map(taint)),
                cordon: if self.spec.unschedulable { Cordon::Cordoned } else { Cordon::Open },
            },
            conditions: exact(self.status.conditions.into_iter().map(condition)),
            // No addresses and an empty list of them are the same.
            addresses: if self.status.addresses.is_null() { Value::Array(Vec::new()) } else { self.status.addresses }
                .into(),
            port: self.status.daemon_endpoints.kubelet_endpoint.port.filter(|port| *port != 0),
            info: self.status.node_info.into(),
        })
    }

    fn internal_ip(&self) -> Option<String> {
        let addresses = self.status.addresses.as_array()?;
        let internal = addresses.iter().find(|address| address["type"] == "InternalIP")?;
        internal["address"].as_str().map(str::to_owned)
    }
}

/// What nodes have in common, each held once: keys and lists of them, values that most of them have, and lists of amounts.
#[derive(Debug, Default)]
pub struct NodeCommons {
    texts: Pool<str>,
    keys: Pool<[Text]>,
    lists: Pool<WrittenList>,
}

impl NodeCommons {
    /// A physical node.
    ///
    /// # Errors
    /// One of its amounts is no quantity.
    pub fn physical(&mut self, slice: NodeSlice) -> Result<PhysicalNode, ResourceError> {
        let mut node = slice.physical()?;
        self.share_maps([&mut node.labels, &mut node.annotations]);
        self.share_all(&mut node.conditions, [&mut node.allocatable, &mut node.capacity]);
        Ok(node)
    }

    /// A virtual node.
    ///
    /// # Errors
    /// One of its amounts is no quantity.
    pub fn lent(&mut self, slice: NodeSlice) -> Result<LentNode, ResourceError> {
        let mut node = slice.lent()?;
        self.share_maps([&mut node.metadata.labels, &mut node.metadata.annotations]);
        node.addresses.share(|text| self.share(text));
        self.share_all(&mut node.conditions, [&mut node.allocatable, &mut node.capacity]);
        Ok(node)
    }

    fn share_maps(&mut self, maps: [&mut TextMap; 2]) {
        for map in maps {
            // The texts first: a list that is new to the others is held with the texts that are in it.
            map.share(|text| self.share(text));
            map.share_keys(|keys| self.keys.share(Arc::clone(keys)));
        }
    }

    fn share_all(&mut self, conditions: &mut [NodeCondition], lists: [&mut Arc<WrittenList>; 2]) {
        for condition in conditions {
            for text in [&mut condition.kind, &mut condition.reason, &mut condition.message] {
                *text = self.share(text);
            }
        }
        for list in lists {
            *list = self.lists.share(Arc::clone(list));
        }
    }

    fn share(&mut self, text: &Text) -> Text {
        if text.len() > COMMON_MAX { text.clone() } else { self.texts.share(text.as_str()).into() }
    }
}

fn list(amounts: &Amounts) -> Result<Arc<WrittenList>, ResourceError> {
    super::amounts(amounts).map(|list| Arc::new(list.into()))
}

/// Without room for more: such a list is held for as long as its node is as it is now.
fn exact<T>(items: impl Iterator<Item = T>) -> Vec<T> {
    items.collect::<Box<[T]>>().into_vec()
}

fn taint(written: TaintSlice) -> Taint {
    Taint {
        key: written.key,
        value: written.value,
        effect: Effect::from(written.effect.as_str()),
        time_added: time(written.time_added.as_ref()),
    }
}

fn condition(written: ConditionSlice) -> NodeCondition {
    NodeCondition {
        kind: written.kind.into(),
        status: Truth::from(written.status.as_str()),
        reason: written.reason.into(),
        message: written.message.into(),
        last_heartbeat: time(written.last_heartbeat_time.as_ref()),
        last_transition: time(written.last_transition_time.as_ref()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use topoloom_sync::deletion::Existence;

    use super::*;

    /// As the API server sends it: with all fields of a real node.
    fn read(node: Value) -> NodeSlice {
        let whole: core_v1::Node = serde_json::from_value(node).unwrap();
        serde_json::from_value(serde_json::to_value(whole).unwrap()).unwrap()
    }

    fn node() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": "w1", "uid": "u1", "resourceVersion": "12", "labels": {"rack": "r1"},
                "annotations": {"a": "b"}, "finalizers": ["topoloom.dev/vnode"],
            },
            "spec": {
                "unschedulable": true,
                "taints": [{"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "2026-08-01T06:10:00Z"}],
            },
            "status": {
                "allocatable": {"cpu": "3920m", "nvidia.com/gpu": "8"},
                "capacity": {"cpu": "4"},
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "m",
                    "lastHeartbeatTime": "2026-08-01T06:10:00Z", "lastTransitionTime": "2026-08-01T06:00:00Z"}],
                "addresses": [{"type": "Hostname", "address": "w1"}, {"type": "InternalIP", "address": "10.0.0.1"},
                    {"type": "InternalIP", "address": "fd00::1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
                "images": [{"names": ["x"], "sizeBytes": 1}],
                "nodeInfo": {"machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "6", "osImage": "",
                    "containerRuntimeVersion": "", "kubeletVersion": "v1.36.3", "kubeProxyVersion": "",
                    "operatingSystem": "linux", "architecture": "amd64"},
            },
        })
    }

    #[test]
    fn what_matters_of_a_physical_node_is_read() {
        let read = read(node()).physical().unwrap();
        assert_eq!((&*read.uid, &*read.version, read.existence), ("u1", "12", Existence::Alive));
        assert_eq!(read.internal_ip.as_deref(), Some("10.0.0.1"));
        assert_eq!(read.allocatable["nvidia.com/gpu"].to_string(), "8");
        assert_eq!((read.labels["rack"].as_str(), read.annotations["a"].as_str()), ("r1", "b"));
        assert_eq!(read.taints[0].to_string(), "k=v:NoExecute");
        assert!(read.taints[0].time_added.is_some());
        assert_eq!(
            read.taints[1].to_string(),
            "node.kubernetes.io/unschedulable:NoSchedule",
            "a cordon without its taint"
        );
        assert_eq!(read.conditions[0].reason, "KubeletReady");
        assert_eq!(read.info.value()["kubeletVersion"], "v1.36.3");
    }

    #[test]
    fn each_text_that_is_kept_of_a_node_counts_for_its_weight() {
        let before = read(node()).weight();
        let edits: [(&str, Value); 6] = [
            ("/metadata/labels/rack", json!("x".repeat(1_002))),
            ("/metadata/annotations/a", json!("x".repeat(1_001))),
            ("/spec/taints/0/value", json!("x".repeat(1_001))),
            ("/status/conditions/0/message", json!("x".repeat(1_001))),
            ("/status/addresses/0/address", json!("x".repeat(1_002))),
            ("/status/nodeInfo/kernelVersion", json!("x".repeat(1_001))),
        ];
        for (place, value) in edits {
            let mut larger = node();
            *larger.pointer_mut(place).unwrap() = value;
            assert_eq!(read(larger).weight(), before + 1_000, "{place}");
        }
        let mut images = node();
        images["status"]["images"] = json!([{"names": ["x".repeat(1_000)], "sizeBytes": 1}]);
        assert_eq!(read(images).weight(), before, "it is not kept");
    }

    #[test]
    fn what_matters_of_a_virtual_node_is_read() {
        let mut written = node();
        written["metadata"]["deletionTimestamp"] = "2026-08-01T06:10:00Z".into();
        let lent = read(written).lent().unwrap();
        assert_eq!(
            (lent.metadata.cordon, lent.port, lent.existence),
            (Cordon::Cordoned, Some(10_250), Existence::Terminating)
        );
        assert_eq!(lent.finalizers, ["topoloom.dev/vnode"]);
        let empty = read(json!({"metadata": {}})).lent().unwrap();
        assert_eq!((empty.port, empty.addresses, empty.metadata.cordon), (None, json!([]).into(), Cordon::Open));
    }

    /// The list of its keys.
    fn keys_of(map: &TextMap) -> Arc<[Text]> {
        let mut list: Arc<[Text]> = Arc::default();
        map.clone().share_keys(|keys| {
            list = Arc::clone(keys);
            Arc::clone(keys)
        });
        list
    }

    #[test]
    fn two_nodes_with_the_same_keys_share_one_list_of_them() {
        let mut other = node();
        other["metadata"]["labels"]["rack"] = "r2".into();
        other["metadata"]["annotations"]["a"] = "c".into();
        let mut third = node();
        third["metadata"]["labels"]["row"] = "1".into();
        let nodes = [node(), other, third];

        let mut commons = NodeCommons::default();
        let [first, second, third] = nodes.clone().map(|node| commons.physical(read(node)).unwrap());
        assert!(Arc::ptr_eq(&keys_of(&first.labels), &keys_of(&second.labels)));
        assert!(Arc::ptr_eq(&keys_of(&first.annotations), &keys_of(&third.annotations)));
        assert_eq!((first.labels["rack"].as_str(), second.labels["rack"].as_str()), ("r1", "r2"));
        assert_eq!(keys_of(&third.labels).join(" "), "rack row");
        let place = |list: &Arc<[Text]>| Arc::<str>::from(&list[0]).as_ptr();
        assert_eq!(place(&keys_of(&first.labels)), place(&keys_of(&third.labels)), "a key is held once in all lists");

        let mut commons = NodeCommons::default();
        let [first, second, _] = nodes.map(|node| commons.lent(read(node)).unwrap().metadata);
        assert!(Arc::ptr_eq(&keys_of(&first.labels), &keys_of(&second.labels)));
        assert!(Arc::ptr_eq(&keys_of(&first.annotations), &keys_of(&second.annotations)));
        assert_eq!((first.annotations["a"].as_str(), second.annotations["a"].as_str()), ("b", "c"));
    }

    #[test]
    fn what_is_written_down_is_read_as_it_was() {
        for written in [node(), json!({"metadata": {"name": "w1"}})] {
            let slice = read(written);
            let again: NodeSlice = serde_json::from_value(serde_json::to_value(&slice).unwrap()).unwrap();
            assert_eq!(again.clone().lent().unwrap(), slice.clone().lent().unwrap());
            assert_eq!(again.physical().unwrap(), slice.physical().unwrap());
        }
    }

    #[test]
    fn a_node_with_an_amount_that_is_none_is_not_taken_for_an_empty_one() {
        let slice: NodeSlice =
            serde_json::from_value(json!({"metadata": {"name": "w1"}, "status": {"allocatable": {"cpu": "many"}}}))
                .unwrap();
        let error = slice.physical().unwrap_err().to_string();
        assert!(error.contains("cpu") && error.contains("many"), "{error}");
    }
}
