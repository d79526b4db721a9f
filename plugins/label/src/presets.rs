//! Which labels the known platforms set, outermost first. Each is a list that ends with the hostname entry.

/// The keys of a preset.
pub(crate) fn find(name: &str) -> Option<&'static [&'static str]> {
    PRESETS.iter().find(|(known, _)| *known == name).map(|(_, keys)| *keys)
}

/// All names, for the message that names them.
pub(crate) fn names() -> String {
    PRESETS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

const AWS: [&str; 4] = [
    "topology.k8s.aws/network-node-layer-1",
    "topology.k8s.aws/network-node-layer-2",
    "topology.k8s.aws/network-node-layer-3",
    "topology.k8s.aws/ultraserver-id",
];
const COREWEAVE: [&str; 4] = [
    "backend.coreweave.cloud/fabric",
    "backend.coreweave.cloud/superpod",
    "backend.coreweave.cloud/leafgroup",
    "ds.coreweave.com/nvlink.domain",
];
const AWS_LAYERS: &[&str] = &[AWS[0], AWS[1], AWS[2]];
const COREWEAVE_FABRIC: &[&str] = &[COREWEAVE[0], COREWEAVE[1], COREWEAVE[2]];

const PRESETS: &[(&str, &[&str])] = &[
    ("aws", AWS_LAYERS),
    ("aws-ultraserver", &AWS),
    ("gke", &["cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock"]),
    (
        "oci",
        &[
            "oci.oraclecloud.com/rdma.hpc_island_id",
            "oci.oraclecloud.com/rdma.network_block_id",
            "oci.oraclecloud.com/rdma.local_block_id",
        ],
    ),
    ("coreweave", COREWEAVE_FABRIC),
    ("coreweave-nvl", &COREWEAVE),
    ("nebius", &["topology.nebius.com/gpu-cluster-id", "topology.nebius.com/tier-2", "topology.nebius.com/tier-1"]),
    ("nebius-nvl", &["topology.nebius.com/gpu-cluster-id", "topology.nebius.com/nvl-instance-group-id"]),
    ("alibaba", &["alibabacloud.com/point-of-delivery", "alibabacloud.com/asw-id"]),
    ("topograph", &["fabric.topograph.run/tier-2", "fabric.topograph.run/tier-1", "fabric.topograph.run/tier-0"]),
    (
        "topograph-nvl",
        &["fabric.topograph.run/tier-1", "fabric.topograph.run/tier-0", "accelerator.topograph.run/domain"],
    ),
    (
        "topograph-old",
        &["network.topology.nvidia.com/core", "network.topology.nvidia.com/spine", "network.topology.nvidia.com/leaf"],
    ),
    ("nvlink", &["nvidia.com/gpu.clique"]),
    ("ascend-a2", &["volcano.sh/tor"]),
    ("ascend-a3", &["volcano.sh/hypercluster", "volcano.sh/hypernode"]),
    ("zones", &["topology.kubernetes.io/region", "topology.kubernetes.io/zone"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_fits_the_limit_and_is_unique() {
        for (index, (name, keys)) in PRESETS.iter().enumerate() {
            assert!(name.len() <= 20 && !keys.is_empty(), "{name}");
            assert!(PRESETS[..index].iter().all(|(other, _)| other != name), "{name}");
        }
    }
}
