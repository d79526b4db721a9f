//! A binding that was deleted by force while it lent nodes: how its nodes are served by a replica that has never seen it (decisions
//! S4, S11 and S22).
//!
//! Its nodes are *orphaned*: nothing is made, resized, evicted or deleted ([`Bar::Orphaned`](crate::bars::Bar::Orphaned)), and their
//! leases have to be renewed for as long as S4 says, since a lease that stops evicts every pod of its node. Whether the machines live
//! is known in the physical cluster alone, and where that is, how it is reached and how a lease is timed stood in the binding. So the
//! holder of a binding keeps a *record* of it, in an annotation of the Lease that replicas stand for: it outlives the binding and the
//! process, and every replica that takes over reads it.
//!
//! Owns the form of the record, which leases have one of a binding that may be gone, and what follows for a binding that is. Never
//! serves a binding that exists by its record: that is what the binding says then.
//!
//! # Failure story
//!
//! A record that cannot be read, or is of another virtual cluster or another binding, is none: a Lease may come out of a backup. Where
//! nodes are left and there is no record no replica can know whether they live, and their leases stop. That needs two acts of a
//! person, of which the second one removes the Lease. A record without nodes is removed; until then it costs one look of each process
//! that starts.

use serde_json::{Map, Value};
use topoloom_core::names::Uid;

use super::naming::{BindingName, binding_lease};

/// The longest record in bytes: it is written again with each renewal of the Lease.
pub const RECORD_MAX: usize = 16 << 10;

/// What is kept of a binding.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Its name.
    pub binding: BindingName,
    /// Its UID.
    pub uid: Uid,
    /// The virtual cluster that it was in.
    pub virtual_cluster: Uid,
    /// The physical cluster that it borrowed from.
    pub physical_cluster: Uid,
    /// Its spec that was in force, as the object has it.
    pub spec: Value,
}

/// What is left of a binding that does not exist.
#[derive(Debug, Clone, PartialEq)]
pub enum Left {
    /// None of its virtual nodes.
    Nothing,
    /// Some are, and this says how their machines are reached.
    Orphaned(Box<Record>),
    /// Some are, and nothing says it.
    Unrecorded,
}

impl Record {
    /// It as one text.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { binding, uid, virtual_cluster, physical_cluster, spec } = self;
        let names = [
            ("binding", &**binding),
            ("uid", &**uid),
            ("virtualCluster", &**virtual_cluster),
            ("physicalCluster", &**physical_cluster),
        ];
        let names = names.map(|(key, value)| (key.to_owned(), Value::from(value)));
        let fields = names.into_iter().chain([("spec".to_owned(), spec.clone())]);
        Value::Object(fields.collect::<Map<_, _>>()).to_string()
    }

    /// Reads one; nothing where the text is none.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let Ok(Value::Object(mut fields)) = serde_json::from_str(text) else { return None };
        let spec = fields.remove("spec").filter(Value::is_object)?;
        let name = |key: &str| fields.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        Some(Self {
            binding: BindingName::parse(name("binding")?).ok()?,
            uid: name("uid")?.into(),
            virtual_cluster: name("virtualCluster")?.into(),
            physical_cluster: name("physicalCluster")?.into(),
            spec,
        })
    }
}

/// What is left of a binding that does not exist: how many virtual nodes have its name, live, and the record in its Lease.
#[must_use]
pub fn judge(nodes: usize, record: Option<&str>, virtual_cluster: &Uid, binding: &BindingName) -> Left {
    if nodes == 0 {
        return Left::Nothing;
    }
    let is_its = |record: &Record| record.virtual_cluster == *virtual_cluster && record.binding == *binding;
    match record.and_then(Record::read).filter(is_its) {
        Some(record) => Left::Orphaned(Box::new(record)),
        None => Left::Unrecorded,
    }
}

/// The bindings of which Leases have records, each by the name of its Lease and the text: those of this installation, whose leases
/// begin with `base`, and of this virtual cluster. Which of them exist is for the caller to know.
#[must_use]
pub fn recorded<'a>(
    leases: impl IntoIterator<Item = (&'a str, &'a str)>,
    base: &str,
    virtual_cluster: &Uid,
) -> Vec<(BindingName, Uid)> {
    let read = |(lease, text): (&str, &str)| {
        let record = Record::read(text).filter(|record| record.virtual_cluster == *virtual_cluster)?;
        let is_its = binding_lease(base, &record.binding).is_ok_and(|name| name == lease);
        is_its.then_some((record.binding, record.uid))
    };
    leases.into_iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn east() -> BindingName {
        BindingName::parse("east").unwrap()
    }

    fn record() -> Record {
        Record {
            binding: east(),
            uid: "b1".into(),
            virtual_cluster: "vc".into(),
            physical_cluster: "pc".into(),
            spec: json!({"clusterID": "east", "secretRef": {"name": "east"}, "timing": {"lease": "20s"}}),
        }
    }

    #[test]
    fn s22_a_record_is_read_as_it_was_written_and_anything_else_is_none() {
        let text = record().text();
        assert_eq!(Record::read(&text), Some(record()));
        for (field, value) in [
            ("binding", json!("East")),
            ("binding", json!("")),
            ("uid", json!("")),
            ("uid", json!(7)),
            ("virtualCluster", Value::Null),
            ("physicalCluster", json!("")),
            ("spec", json!([])),
            ("spec", Value::Null),
        ] {
            let mut other: Value = serde_json::from_str(&text).unwrap();
            other[field] = value;
            assert_eq!(Record::read(&other.to_string()), None, "{other}");
        }
        for broken in ["", "{", "[]", "null", "7", &text[1..]] {
            assert_eq!(Record::read(broken), None, "{broken}");
        }
        // What a later version adds is no reason to let leases stop.
        let mut later: Value = serde_json::from_str(&text).unwrap();
        later["later"] = json!({"a": 1});
        assert_eq!(Record::read(&later.to_string()), Some(record()));
    }

    #[test]
    fn s22_orphaned_nodes_are_served_by_the_record_of_their_own_binding_and_by_no_other() {
        let text = record().text();
        let of = |nodes, text: Option<&str>, cluster: &str, name: &str| {
            judge(nodes, text, &cluster.into(), &BindingName::parse(name).unwrap())
        };
        assert_eq!(of(3, Some(&text), "vc", "east"), Left::Orphaned(Box::new(record())));
        assert_eq!(of(0, Some(&text), "vc", "east"), Left::Nothing, "whatever the record says");
        assert_eq!(of(0, None, "vc", "east"), Left::Nothing);
        // A Lease out of a backup of another cluster, or one that was copied.
        assert_eq!(of(3, Some(&text), "vc-2", "east"), Left::Unrecorded);
        assert_eq!(of(3, Some(&text), "vc", "west"), Left::Unrecorded);
        assert_eq!(of(3, Some("{"), "vc", "east"), Left::Unrecorded);
        assert_eq!(of(3, None, "vc", "east"), Left::Unrecorded);
    }

    #[test]
    fn s11_s22_the_records_of_another_installation_and_of_another_virtual_cluster_are_not_ours() {
        let (ours, theirs) = (binding_lease("a", &east()).unwrap(), binding_lease("b", &east()).unwrap());
        let text = record().text();
        let found = |lease: &str, text: &str, cluster: &str| recorded([(lease, text)], "a", &cluster.into());
        assert_eq!(found(&ours, &text, "vc"), [(east(), "b1".into())]);
        assert_eq!(found(&theirs, &text, "vc"), []);
        assert_eq!(found(&ours, &text, "vc-2"), []);
        assert_eq!(found(&ours, "{}", "vc"), []);
        // Copied into the Lease of another binding.
        let west = binding_lease("a", &BindingName::parse("west").unwrap()).unwrap();
        assert_eq!(found(&west, &text, "vc"), []);
    }
}
