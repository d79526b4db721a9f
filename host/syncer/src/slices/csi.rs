//! CSINodes of either cluster.
//!
//! Owns what is read of a CSINode, and how much a physical one may hold: it comes from another party, and is copied. What of
//! its labels and annotations may be copied is decided by [`copied`](topoloom_sync::copied), and the rest is not kept.
//!
//! # Failure story
//!
//! A physical CSINode that holds more than any API server takes cannot be read, and what was read of it before counts. A part of
//! it is never copied: a driver that is left out is one that no pod can use.

use k8s_openapi::api::storage::v1 as storage_v1;
use kube::api::ObjectMeta;
use kube::core::ClusterResourceScope;
use serde::Deserialize;
use topoloom_sync::copied::{Copied, copy_csi_node};
use topoloom_sync::csi::{Driver, PhysicalCsiNode, VirtualCsiNode};
use topoloom_sync::deletion::Existence;

use super::{Head, of_texts, slice_of};

/// The most drivers of a physical CSINode. A node has a handful.
const DRIVERS: usize = 128;
/// The most topology keys of a driver. It has one or two.
const TOPOLOGY_KEYS: usize = 32;
/// The longest name of a driver, and the longest key of a label; API servers take 63 and 317 bytes.
const NAME: usize = 317;
/// The longest id of a node; API servers take 192 bytes, and took 256.
const NODE_ID: usize = 256;

/// A CSINode, as it is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct CsiNodeSlice {
    #[serde(deserialize_with = "super::metadata::read")]
    metadata: ObjectMeta,
    spec: Spec,
}

slice_of!(CsiNodeSlice, storage_v1::CSINode, ClusterResourceScope);

/// API servers write an empty list as null.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Spec {
    drivers: Option<Vec<DriverSlice>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DriverSlice {
    name: String,
    #[serde(rename = "nodeID")]
    node_id: String,
    topology_keys: Option<Vec<String>>,
    allocatable: Option<Allocatable>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Allocatable {
    count: Option<i32>,
}

/// What of a physical CSINode is no API server's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} must have {bound}, got {found}")]
pub struct CsiSliceError {
    /// Where it stands.
    pub field: &'static str,
    /// What it must have.
    pub bound: String,
    /// What it has.
    pub found: i64,
}

impl CsiNodeSlice {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// The bytes of its texts.
    #[must_use]
    pub fn weight(&self) -> usize {
        let driver = |driver: &DriverSlice| {
            let keys: usize = driver.topology_keys.iter().flatten().map(String::len).sum();
            driver.name.len().saturating_add(driver.node_id.len()).saturating_add(keys)
        };
        let maps = [&self.metadata.labels, &self.metadata.annotations].map(|map| of_texts(map.as_ref()));
        let drivers: usize = self.spec.drivers.iter().flatten().map(driver).sum();
        maps.into_iter().fold(drivers, usize::saturating_add)
    }

    /// Whether a finalizer keeps it when it is deleted.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty())
    }

    /// As a physical CSINode.
    ///
    /// # Errors
    /// It holds more than an API server takes.
    pub fn physical(self) -> Result<PhysicalCsiNode, CsiSliceError> {
        let Head { uid, existence, .. } = Head::of(&self.metadata);
        let drivers = self.spec.drivers.unwrap_or_default();
        at_most("spec.drivers", DRIVERS, "entries", drivers.len())?;
        for driver in &drivers {
            driver.judge()?;
        }
        let (labels, annotations) = (self.metadata.labels.unwrap_or_default(), self.metadata.annotations);
        let Copied { labels, annotations, .. } = copy_csi_node(&labels, &annotations.unwrap_or_default());
        Ok(PhysicalCsiNode {
            uid,
            deleting: existence == Existence::Terminating,
            labels,
            annotations,
            drivers: drivers.into_iter().map(driver).collect(),
        })
    }

    /// As a virtual CSINode.
    #[must_use]
    pub fn lent(self) -> VirtualCsiNode {
        let Head { uid, version, existence } = Head::of(&self.metadata);
        let owners = self.metadata.owner_references.unwrap_or_default();
        VirtualCsiNode {
            uid,
            version,
            deleting: existence == Existence::Terminating,
            labels: self.metadata.labels.unwrap_or_default(),
            annotations: self.metadata.annotations.unwrap_or_default(),
            owners: owners.into_iter().filter_map(|owner| serde_json::to_value(owner).ok()).collect(),
            drivers: self.spec.drivers.unwrap_or_default().into_iter().map(driver).collect(),
        }
    }
}

impl DriverSlice {
    fn judge(&self) -> Result<(), CsiSliceError> {
        let keys = self.topology_keys.as_deref().unwrap_or_default();
        at_most("spec.drivers[].name", NAME, "bytes", self.name.len())?;
        at_most("spec.drivers[].nodeID", NODE_ID, "bytes", self.node_id.len())?;
        at_most("spec.drivers[].topologyKeys", TOPOLOGY_KEYS, "entries", keys.len())?;
        for key in keys {
            at_most("spec.drivers[].topologyKeys[]", NAME, "bytes", key.len())?;
        }
        match self.allocatable.as_ref().and_then(|allocatable| allocatable.count) {
            Some(count) if count < 0 => Err(CsiSliceError {
                field: "spec.drivers[].allocatable.count",
                bound: "at least 0".to_owned(),
                found: count.into(),
            }),
            _ => Ok(()),
        }
    }
}

fn at_most(field: &'static str, most: usize, of: &str, found: usize) -> Result<(), CsiSliceError> {
    if found <= most {
        return Ok(());
    }
    Err(CsiSliceError { field, bound: format!("at most {most} {of}"), found: i64::try_from(found).unwrap_or(i64::MAX) })
}

fn driver(written: DriverSlice) -> Driver {
    Driver {
        name: written.name,
        node_id: written.node_id,
        topology_keys: written.topology_keys.unwrap_or_default(),
        count: written.allocatable.and_then(|allocatable| allocatable.count),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// As the API server sends it: with all fields of a real CSINode.
    fn read(node: Value) -> CsiNodeSlice {
        let whole: storage_v1::CSINode = serde_json::from_value(node).unwrap();
        serde_json::from_value(serde_json::to_value(whole).unwrap()).unwrap()
    }

    fn node() -> Value {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
            "metadata": {
                "name": "w1", "uid": "c1", "resourceVersion": "12",
                "labels": {"from": "lender", "topoloom.dev/binding": "x"},
                "annotations": {"storage.alpha.kubernetes.io/migrated-plugins": "a,b"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "w1", "uid": "u1"}],
            },
            "spec": {"drivers": [
                {"name": "ebs", "nodeID": "i-1", "topologyKeys": ["zone"], "allocatable": {"count": 25}},
                {"name": "nfs", "nodeID": "w1"},
            ]},
        })
    }

    #[test]
    fn what_matters_of_a_csinode_is_read() {
        let physical = read(node()).physical().unwrap();
        assert_eq!((&*physical.uid, physical.deleting), ("c1", false));
        assert_eq!(physical.labels, [("from".to_owned(), "lender".to_owned())].into());
        assert_eq!(physical.annotations.len(), 1);
        let ebs = Driver {
            name: "ebs".to_owned(),
            node_id: "i-1".to_owned(),
            topology_keys: vec!["zone".to_owned()],
            count: Some(25),
        };
        let nfs = Driver { name: "nfs".to_owned(), node_id: "w1".to_owned(), topology_keys: vec![], count: None };
        assert_eq!(physical.drivers, [ebs, nfs]);

        let mut written = node();
        written["metadata"]["deletionTimestamp"] = "2026-08-01T06:10:00Z".into();
        written["metadata"]["finalizers"] = json!(["a/b"]);
        let slice = read(written);
        assert!(slice.is_kept() && !read(node()).is_kept());
        let lent = slice.lent();
        assert_eq!((&*lent.version, lent.deleting, lent.labels.len(), lent.drivers.len()), ("12", true, 2, 2));
        assert_eq!(lent.owners, [json!({"apiVersion": "v1", "kind": "Node", "name": "w1", "uid": "u1"})]);
        let mut longer = node();
        longer["spec"]["drivers"][0]["topologyKeys"] = json!(["zone", "x".repeat(100)]);
        assert_eq!(read(longer).weight(), read(node()).weight() + 100);
    }

    #[test]
    fn a_list_that_is_empty_or_null_is_empty() {
        for drivers in [json!(null), json!([])] {
            let slice: CsiNodeSlice = serde_json::from_value(json!({"spec": {"drivers": drivers}})).unwrap();
            assert_eq!(slice.physical().unwrap().drivers, []);
        }
        let driver = json!({"name": "d", "nodeID": "n", "topologyKeys": null, "allocatable": {}});
        let slice: CsiNodeSlice = serde_json::from_value(json!({"spec": {"drivers": [driver]}})).unwrap();
        let physical = slice.physical().unwrap();
        assert_eq!((physical.drivers[0].topology_keys.len(), physical.drivers[0].count), (0, None));
    }

    #[test]
    fn a_physical_csinode_with_more_than_an_api_server_takes_is_not_read_and_says_what() {
        let driver = |edit: &dyn Fn(&mut Value)| {
            let mut driver = json!({"name": "d", "nodeID": "n", "topologyKeys": ["zone"], "allocatable": {"count": 1}});
            edit(&mut driver);
            driver
        };
        let long = |bytes: usize| Value::from("x".repeat(bytes));
        let one = |edit: &dyn Fn(&mut Value)| vec![driver(edit)];
        let rows = [
            (vec![driver(&|_| ()); 129], "spec.drivers must have at most 128 entries, got 129"),
            (one(&|it| it["name"] = long(318)), "spec.drivers[].name must have at most 317 bytes, got 318"),
            (one(&|it| it["nodeID"] = long(257)), "spec.drivers[].nodeID must have at most 256 bytes, got 257"),
            (
                one(&|it| it["topologyKeys"] = json!(vec!["k"; 33])),
                "spec.drivers[].topologyKeys must have at most 32 entries, got 33",
            ),
            (
                one(&|it| it["topologyKeys"] = json!([long(318)])),
                "spec.drivers[].topologyKeys[] must have at most 317 bytes, got 318",
            ),
            (
                one(&|it| it["allocatable"]["count"] = json!(-1)),
                "spec.drivers[].allocatable.count must have at least 0, got -1",
            ),
        ];
        for (drivers, wanted) in rows {
            let slice: CsiNodeSlice = serde_json::from_value(json!({"spec": {"drivers": drivers}})).unwrap();
            assert_eq!(slice.clone().physical().unwrap_err().to_string(), wanted);
            // Users of the virtual cluster may have written it, and it is repaired.
            assert!(!slice.lent().drivers.is_empty());
        }
    }
}
