//! `topoloom discover` over node lists in files, as an operator runs it before anything is installed.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::cluster::{configuration, labels, name};
use crate::options::Options;
use crate::process::peak_mib;
use crate::sample::Sample;
use crate::table::{Row, Table, Target, mib, seconds, time};

const SIZE: u32 = 10_000;
const RUNS: usize = 5;
/// Seconds for a list with nothing but metadata, and for one as `kubectl get nodes -o json` prints it.
const METADATA_SECONDS: f64 = 1.0;
const REAL_SECONDS: f64 = 3.0;
/// How often the benchmark reads the memory. Reading the list takes seconds, and at its end the process holds as much
/// as at its peak.
const LOOK_EVERY: Duration = Duration::from_millis(2);

pub(crate) async fn measure(options: &Options, table: &mut Table) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("topoloom-bench-").tempdir()?;
    let config = folder.path().join("config.yaml");
    std::fs::write(&config, configuration())?;
    let lists = [("metadata only", json!({}), METADATA_SECONDS), ("real size", rest_of_a_node(), REAL_SECONDS)];
    for (what, rest, target) in lists {
        let nodes = folder.path().join("nodes.json");
        write(&nodes, SIZE, rest)?;
        let size = std::fs::metadata(&nodes)?.len() as f64 / f64::from(1 << 20);
        let (mut sample, mut peak) = (Sample::default(), 0.0_f64);
        for _ in 0..options.runs(RUNS) {
            let (duration, held) = discover(&config, &nodes).await?;
            sample.push(duration);
            peak = peak.max(held);
        }
        let took = sample.median();
        let measure = format!("topoloom discover, {SIZE} nodes, JSON, {what} ({size:.0} MiB)");
        let row = Row::new(measure, time(took)).target(took.as_secs_f64(), Target::Below(target), seconds);
        table.add(row);
        table.add(Row::new("  its peak memory", mib(peak)));
    }
    Ok(())
}

/// Runs it once; returns how long it took and its peak memory.
async fn discover(config: &Path, nodes: &Path) -> Result<(Duration, f64)> {
    let begin = Instant::now();
    let mut child = Command::new(topoloom_tests::host::binary()?)
        .arg("discover")
        .arg("--config")
        .arg(config)
        .arg("--nodes")
        .arg(nodes)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let id = child.id();
    let mut peak = 0.0;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            () = tokio::time::sleep(LOOK_EVERY) => peak = id.and_then(|id| peak_mib(id).ok()).unwrap_or(peak),
        }
    };
    let took = begin.elapsed();
    ensure!(status.success(), "topoloom discover ended with {status}");
    Ok((took, peak))
}

/// Writes a list as kubectl prints it: indented by four.
fn write(path: &Path, size: u32, rest: Value) -> Result<()> {
    let mut file = BufWriter::new(std::fs::File::create(path)?);
    file.write_all(b"{\n    \"apiVersion\": \"v1\",\n    \"items\": [\n")?;
    // The parts that are the same in every node are made once.
    let mut body = json!({"apiVersion": "v1", "kind": "Node", "metadata": {}});
    merge(&mut body, rest);
    for node in 0..size {
        let labels = labels(node).into_iter().map(|(key, value)| (key, Value::String(value))).collect();
        body["metadata"]["labels"] = Value::Object(labels);
        body["metadata"]["name"] = name(node).into();
        let mut pretty =
            serde_json::Serializer::with_formatter(&mut file, serde_json::ser::PrettyFormatter::with_indent(b"    "));
        serde::Serialize::serialize(&body, &mut pretty)?;
        file.write_all(if node + 1 == size { b"\n" } else { b",\n" })?;
    }
    file.write_all(b"    ],\n    \"kind\": \"List\",\n    \"metadata\": {\"resourceVersion\": \"\"}\n}\n")?;
    Ok(file.flush()?)
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            from.into_iter().for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value));
        }
        (into, from) => *into = from,
    }
}

/// Annotations, managed fields, spec and status of a node of a real cluster: about 15 KiB when printed.
fn rest_of_a_node() -> Value {
    let images: Vec<Value> = (0..50)
        .map(|image| {
            let digest = format!("{image:02x}").repeat(32);
            json!({
                "names": [
                    format!("registry.example.com/team-{}/service-{image}@sha256:{digest}", image % 7),
                    format!("registry.example.com/team-{}/service-{image}:v1.{image}.0", image % 7),
                ],
                "sizeBytes": 100_000_000 + image,
            })
        })
        .collect();
    let conditions: Vec<Value> = ["NetworkUnavailable", "MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]
        .map(|type_| {
            json!({"type": type_, "status": "False", "reason": "KubeletHasNoProblem", "message": "kubelet has no problem",
                "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"})
        })
        .into();
    let quantities = json!({"cpu": "192", "memory": "2113406464Ki", "pods": "110", "nvidia.com/gpu": "8",
        "ephemeral-storage": "1835008Ki", "hugepages-1Gi": "0", "hugepages-2Mi": "0", "rdma/hca": "1k"});
    let fields = |owned: Vec<(String, String)>| -> Value {
        let owned: serde_json::Map<_, _> = owned.into_iter().map(|(key, _)| (format!("f:{key}"), json!({}))).collect();
        json!({"f:metadata": {"f:labels": owned.clone(), "f:annotations": {".": {}, "f:node.alpha.kubernetes.io/ttl": {}}},
            "f:status": {"f:allocatable": owned.clone(), "f:capacity": owned, "f:images": {}}})
    };
    let managed: Vec<Value> = ["kubelet", "kube-controller-manager", "nfd-master"]
        .map(|manager| {
            json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "time": "2026-01-01T00:00:00Z", "fieldsV1": fields(labels(0))})
        })
        .into();
    json!({
        "metadata": {
            "annotations": {
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
                "csi.volume.kubernetes.io/nodeid": "{\"csi.example.com\":\"0123456789abcdef0123456789abcdef\"}",
            },
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": managed,
            "resourceVersion": "123456789",
            "uid": "01234567-89ab-cdef-0123-456789abcdef",
        },
        "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"], "providerID": "example://0123456789abcdef"},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "node"}],
            "allocatable": quantities, "capacity": quantities,
            "conditions": conditions, "images": images,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {"architecture": "amd64", "operatingSystem": "linux", "osImage": "Example Linux 12",
                "kernelVersion": "6.8.0", "kubeletVersion": "v1.36.3", "kubeProxyVersion": "v1.36.3",
                "containerRuntimeVersion": "containerd://2.1.0", "bootID": "0123", "machineID": "0123", "systemUUID": "0123"},
        },
    })
}
