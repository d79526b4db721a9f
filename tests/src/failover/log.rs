//! The audit log of the API server: which client sent which request, when it was received, and when it was answered.

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::Value;

use crate::controlplane::ControlPlane;
use crate::scene::Scene;

/// Every write.
#[derive(Debug)]
pub struct Log {
    /// The writes of replicas, in the order in which they were received.
    pub received: Vec<Received>,
    /// For each write of any client: when it was answered, and etcd's revision after it; in that order.
    revisions: Vec<(Timestamp, u64)>,
}

/// One write of a replica as the API server received it.
#[derive(Debug, Clone)]
pub struct Received {
    /// The name of the replica.
    pub replica: String,
    /// When it was received.
    pub at: Timestamp,
    /// When it was answered.
    pub answered: Timestamp,
    /// What it did.
    pub verb: String,
    /// The kind of object, with the subresource.
    pub resource: String,
    /// The namespace of the object; empty where it has none.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The status of the answer.
    pub code: i64,
    /// The version of the object in the answer.
    pub version: Option<u64>,
    /// The body of the request; null if the API server did not read it.
    pub body: Value,
}

impl Log {
    /// Of the control plane of a scene.
    ///
    /// # Errors
    /// When there is no such log, or it is not JSON.
    pub fn read(scene: &Scene) -> Result<Self> {
        Self::of(&scene.plane)
    }

    /// Reads line by line: the log of a soak is much longer than the part that is needed.
    ///
    /// # Errors
    /// When there is no such log, or it is not JSON.
    pub fn of(plane: &ControlPlane) -> Result<Self> {
        let (mut received, mut revisions) = (Vec::new(), Vec::new());
        for line in plane.audit_lines()? {
            let event: Value = serde_json::from_str(&line?).context("the audit log is not JSON")?;
            if !matches!(event["verb"].as_str(), Some("create" | "update" | "patch" | "delete" | "deletecollection")) {
                continue;
            }
            received.extend(write_of_a_replica(&event));
            revisions.extend(time(&event, "stageTimestamp").zip(version(&event)));
        }
        received.sort_by_key(|request| request.at);
        revisions.sort_unstable();
        Ok(Self { received, revisions })
    }

    /// The last revision whose write was answered by then.
    #[must_use]
    pub fn revision(&self, at: Timestamp) -> u64 {
        let before = self.revisions.iter().take_while(|(answered, _)| *answered <= at);
        before.map(|(_, revision)| *revision).max().unwrap_or_default()
    }
}

impl Received {
    /// Whether the API server accepted it.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Whether it claims a lease, held since now. A request that the API server did not read may be a claim.
    #[must_use]
    pub fn is_claim(&self) -> bool {
        let spec = &self.body["spec"];
        self.resource == "leases" && spec["acquireTime"] == spec["renewTime"]
    }

    /// Which version of an object it made. A request that changes nothing makes none: the answer has the version that
    /// the request builds on.
    #[must_use]
    pub fn written_version(&self) -> Option<u64> {
        let base = self.body["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
        self.version.filter(|version| base != Some(*version))
    }

    /// Which version of an object it deletes.
    #[must_use]
    pub fn deleted_version(&self) -> Option<u64> {
        let version = (self.verb == "delete").then(|| &self.body["preconditions"]["resourceVersion"])?;
        version.as_str()?.parse().ok()
    }

    /// Whether it is about a HyperNode or its status.
    #[must_use]
    pub fn is_of_a_hyper_node(&self) -> bool {
        matches!(&*self.resource, "hypernodes" | "hypernodes/status")
    }
}

fn write_of_a_replica(event: &Value) -> Option<Received> {
    let (_, rest) = event["userAgent"].as_str()?.split_once("(replica-")?;
    let replica = format!("replica-{}", rest.strip_suffix(')')?);
    let subresource = event["objectRef"]["subresource"].as_str().map(|sub| format!("/{sub}")).unwrap_or_default();
    Some(Received {
        replica,
        at: time(event, "requestReceivedTimestamp")?,
        answered: time(event, "stageTimestamp")?,
        verb: event["verb"].as_str()?.to_owned(),
        resource: format!("{}{subresource}", event["objectRef"]["resource"].as_str()?),
        namespace: event["objectRef"]["namespace"].as_str().unwrap_or_default().to_owned(),
        name: event["objectRef"]["name"].as_str().unwrap_or_default().to_owned(),
        code: event["responseStatus"]["code"].as_i64().unwrap_or(0),
        version: version(event),
        body: event["requestObject"].clone(),
    })
}

fn time(event: &Value, name: &str) -> Option<Timestamp> {
    event[name].as_str()?.parse().ok()
}

fn version(event: &Value) -> Option<u64> {
    event["responseObject"]["metadata"]["resourceVersion"].as_str()?.parse().ok()
}
