//! The cluster that is measured: leaves of 18 nodes, 16 leaves per spine, 16 spines per pod.
//!
//! Nodes come in the order of their names, as the API server lists them, and their names follow the wiring.

use std::collections::BTreeMap;

/// Nodes of a leaf.
pub(crate) const LEAF: u32 = 18;
/// Leaves of a spine.
const SPINE: u32 = 16;
/// Spines of a pod.
const POD: u32 = 16;

/// The label of each level, from the leaf to the pod.
pub(crate) const KEYS: [&str; 3] = ["example.com/leaf", "example.com/spine", "example.com/pod"];

/// The levels as the configuration of the label discoverer.
pub(crate) const TYPES: &str = r#"{"networkTopologyTypes": {"gpu": [{"nodeLabel": "example.com/pod"},
    {"nodeLabel": "example.com/spine"}, {"nodeLabel": "example.com/leaf"}, {"nodeLabel": "kubernetes.io/hostname"}]}}"#;

/// The name of a node.
pub(crate) fn name(node: u32) -> String {
    format!("gpu-node-{node:06}")
}

/// The leaf of a node.
pub(crate) fn leaf(node: u32) -> u32 {
    node / LEAF
}

/// The value of a leaf's label.
pub(crate) fn leaf_value(leaf: u32) -> String {
    format!("leaf-{leaf:05}")
}

/// The values of a node under [`KEYS`].
pub(crate) fn values(node: u32) -> [String; 3] {
    let leaf = leaf(node);
    [leaf_value(leaf), format!("spine-{:04}", leaf / SPINE), format!("pod-{:02}", leaf / SPINE / POD)]
}

/// All labels of a node, as the kubelet and a feature discovery set them; the host needs three of them.
pub(crate) fn labels(node: u32) -> Vec<(String, String)> {
    const OTHERS: [(&str, &str); 16] = [
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/arch", "amd64"),
        ("beta.kubernetes.io/os", "linux"),
        ("node.kubernetes.io/instance-type", "gpu.8x"),
        ("topology.kubernetes.io/region", "north"),
        ("topology.kubernetes.io/zone", "north-1a"),
        ("nvidia.com/gpu.count", "8"),
        ("nvidia.com/gpu.family", "hopper"),
        ("nvidia.com/gpu.memory", "81559"),
        ("nvidia.com/gpu.present", "true"),
        ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"),
        ("nvidia.com/cuda.driver.major", "550"),
        ("feature.node.kubernetes.io/cpu-model.family", "6"),
        ("feature.node.kubernetes.io/kernel-version.major", "6"),
        ("feature.node.kubernetes.io/pci-10de.present", "true"),
    ];
    let others = OTHERS.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let own = KEYS.into_iter().map(str::to_owned).zip(values(node));
    others.into_iter().chain([("kubernetes.io/hostname".to_owned(), name(node))]).chain(own).collect()
}

/// How many nodes there are below each domain of a cluster of that size, by key and value.
pub(crate) fn domains(size: u32) -> BTreeMap<(&'static str, String), i64> {
    let mut domains = BTreeMap::new();
    for domain in (0..size).flat_map(|node| KEYS.into_iter().zip(values(node))) {
        *domains.entry(domain).or_insert(0) += 1;
    }
    domains
}

/// The configuration of the host.
pub(crate) fn configuration() -> String {
    // JSON is YAML.
    format!(r#"{{"networkTopologyDiscovery": [{{"source": "label", "enabled": true, "config": {TYPES}}}]}}"#)
}
