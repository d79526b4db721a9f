//! The fields of nodes and pods that matter here, as they are stored.

use serde_json::Value;

use crate::hami::{BIND_PHASE, SHARED_LOCK, Vendor};

/// The host's own note beside the lock: one object, or a list of them.
const NOTE: &str = "topoloom.dev/node-lock";

/// The lock of a node.
#[derive(Debug, Default)]
pub(super) struct Lock {
    pub(super) value: Option<String>,
    notes: Vec<Value>,
}

impl Lock {
    pub(super) fn of(node: &Value) -> Self {
        let annotations = &node["metadata"]["annotations"];
        let notes = annotations[NOTE].as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let notes = match notes {
            None => Vec::new(),
            Some(Value::Array(notes)) => notes,
            Some(note) => vec![note],
        };
        Self { value: annotations[SHARED_LOCK].as_str().map(str::to_owned), notes }
    }

    /// The UID of the pod that it names, by a note for exactly this value.
    pub(super) fn uid(&self) -> Option<&str> {
        let value = self.value.as_deref()?;
        self.notes.iter().find(|note| note["value"] == value)?["uid"].as_str()
    }
}

/// The last two fields of a lock, where there are more than two.
pub(super) fn owner(value: &str) -> Option<(&str, &str)> {
    let mut fields = value.rsplit(',');
    let (name, namespace) = (fields.next()?, fields.next()?);
    fields.next().map(|_| (namespace, name))
}

/// The fields of a pod that matter here.
#[derive(Debug)]
pub(super) struct Pod {
    pub(super) uid: String,
    pub(super) node: Option<String>,
    pub(super) needs_lock: bool,
    /// The phase that the device plugin wrote.
    pub(super) phase: String,
    /// Whether its kubelet admitted it, or it ended before that.
    is_settled: bool,
}

impl Pod {
    pub(super) fn of(pod: &Value) -> Option<Self> {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        Some(Self {
            uid: pod["metadata"]["uid"].as_str()?.to_owned(),
            node: spec["nodeName"].as_str().filter(|node| !node.is_empty()).map(str::to_owned),
            needs_lock: needs_lock(spec),
            phase: pod["metadata"]["annotations"][BIND_PHASE].as_str().unwrap_or_default().to_owned(),
            is_settled: status["startTime"].is_string()
                || matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")),
        })
    }

    /// The node on which it waits for its devices.
    pub(super) fn is_under_way(&self) -> Option<&str> {
        self.node.as_deref().filter(|_| self.needs_lock && !self.is_settled)
    }
}

fn needs_lock(spec: &Value) -> bool {
    let asks = |container: &Value| {
        ["limits", "requests"].iter().any(|list| {
            let quantity = container["resources"][*list][Vendor::Nvidia.resource()].as_str();
            quantity.is_some_and(|quantity| quantity != "0")
        })
    };
    ["initContainers", "containers"].iter().filter_map(|list| spec[*list].as_array()).flatten().any(asks)
}
