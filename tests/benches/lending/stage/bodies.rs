//! What objects of real clusters have beside what a test needs: a node of about 12 KiB, a pod of about 4.

use serde_json::{Value, json};

/// Labels of a machine, as the kubelet and a feature discovery set them.
pub(super) fn labels() -> [(&'static str, &'static str); 12] {
    [
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/os", "linux"),
        ("topology.kubernetes.io/region", "north"),
        ("topology.kubernetes.io/zone", "north-1a"),
        ("nvidia.com/gpu.count", "8"),
        ("nvidia.com/gpu.family", "hopper"),
        ("nvidia.com/gpu.memory", "81559"),
        ("nvidia.com/gpu.present", "true"),
        ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"),
        ("feature.node.kubernetes.io/cpu-model.family", "6"),
        ("feature.node.kubernetes.io/kernel-version.major", "6"),
        ("feature.node.kubernetes.io/pci-10de.present", "true"),
    ]
}

/// The images that a machine has pulled.
pub(super) fn images() -> Vec<Value> {
    let image = |number: u32| {
        let digest = format!("{number:02x}").repeat(32);
        let name = format!("registry.example.com/team-{}/service-{number}", number % 7);
        json!({"names": [format!("{name}@sha256:{digest}"), format!("{name}:v1.{number}.0")], "sizeBytes": 100_000_000 + number})
    };
    (0..50).map(image).collect()
}

/// A pod on a node, which requests so much processor time.
pub(crate) fn pod(name: &str, node: &str, cpu: &str, annotations: Value) -> Value {
    let variables: Vec<Value> = (0..12)
        .map(|number| json!({"name": format!("SERVICE_{number}_ENDPOINT"), "value": format!("https://service-{number}.example.com:8443/api/v1")}))
        .collect();
    let container = |name: &str, cpu: &str| {
        json!({
            "name": name, "image": format!("registry.example.com/team-1/{name}:v1.2.3"), "env": variables,
            "args": ["--config=/etc/service/config.yaml", "--log-level=info", "--listen=:8443"],
            "ports": [{"name": "https", "containerPort": 8443}],
            "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
        })
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "annotations": annotations,
            "labels": {"app": "service", "app.kubernetes.io/part-of": "bench", "pod-template-hash": "5d8f7c9b6d"},
        },
        "spec": {
            "nodeName": node, "terminationGracePeriodSeconds": 1,
            "containers": [container("service", cpu), container("sidecar", "0")],
        },
    })
}
