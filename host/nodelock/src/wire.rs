//! What Nodes and Pods hold, and what is sent to change it: the two lock keys, our notes beside them, and the marks on
//! pods (`node-lock-and-bind.md` A2, A4, A18; decisions N4 and N5).
//!
//! The lock keys are of the protocol, and every claimant writes them. The notes are ours: one annotation, which holds
//! the note of each key whose lock one of us wrote. A note names its value, and has no meaning if the lock has another.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use topoloom_api::names::lending::VIRTUAL_CLUSTER;
use topoloom_api::names::{BIND_PHASE_ANNOTATION, BIND_TIME_ANNOTATION, LOCK_REVOKED_ANNOTATION, NODE_LOCK_ANNOTATION};
use topoloom_core::nodelock::needs::{LockKey, NodeKind};
use topoloom_core::nodelock::sightings::Locks;
use topoloom_core::nodelock::{Lock, LockValue, NodeName, Note, PodId, Uid};
use topoloom_core::version::ResourceVersion;

/// Annotations, as objects have them.
pub type Annotations = BTreeMap<String, String>;

/// A longer note is not ours: two notes with the longest names are a tenth of it.
const NOTES: usize = 8 << 10;

/// One note, as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    value: String,
    uid: String,
    /// Where the value has no room for them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    name: Option<String>,
    attempt: String,
    instance: String,
    deadline: String,
}

/// The annotation: one note, or a list of them.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Notes {
    One(Written),
    Several(Vec<Written>),
}

impl From<&Note> for Written {
    fn from(note: &Note) -> Self {
        let (namespace, name) = note.pod.as_ref().map(|(one, two)| (one.to_string(), two.to_string())).unzip();
        Self {
            value: note.value.to_string(),
            uid: note.uid.to_string(),
            namespace,
            name,
            attempt: note.attempt.to_string(),
            instance: note.instance.to_string(),
            deadline: note.deadline.to_string(),
        }
    }
}

impl Written {
    /// Nothing where it says nothing that can be used.
    fn note(self) -> Option<Note> {
        let pod = self.namespace.zip(self.name).map(|(namespace, name)| (namespace.into(), name.into()));
        let deadline: Timestamp = self.deadline.parse().ok()?;
        (!self.uid.is_empty()).then(|| Note {
            value: self.value.into(),
            uid: self.uid.into(),
            pod,
            attempt: self.attempt.into(),
            instance: self.instance.into(),
            deadline,
        })
    }
}

/// Our notes on a node. What is no note of ours is none: it is ignored, and the next claim replaces it.
fn notes(annotations: &Annotations) -> Vec<Note> {
    let text = annotations.get(NODE_LOCK_ANNOTATION).filter(|text| text.len() <= NOTES);
    let written = match text.and_then(|text| serde_json::from_str(text).ok()) {
        None => Vec::new(),
        Some(Notes::One(written)) => vec![written],
        Some(Notes::Several(written)) => written,
    };
    written.into_iter().filter_map(Written::note).collect()
}

/// The lock under a key, with the note that counts for it.
#[must_use]
pub fn lock(annotations: &Annotations, key: LockKey) -> Option<Lock> {
    let value = annotations.get(key.annotation())?;
    let note = notes(annotations).into_iter().find(|note| *note.value == **value);
    Some(Lock::read(value, note))
}

/// All locks of a node.
#[must_use]
pub fn locks(annotations: &Annotations) -> Locks {
    let mut locks = Locks::new();
    for key in LockKey::ALL {
        if let Some(lock) = lock(annotations, key) {
            locks.reserve_exact(1);
            locks.push((key, lock));
        }
    }
    locks
}

/// What a node with these labels is.
#[must_use]
pub fn kind(labels: &BTreeMap<String, String>) -> NodeKind {
    if labels.contains_key(VIRTUAL_CLUSTER) { NodeKind::Virtual } else { NodeKind::Machine }
}

/// Locks as the annotations of a node.
#[must_use]
pub fn annotations(locks: &Locks) -> Annotations {
    let values = locks.iter().map(|(key, lock)| (key.annotation().to_owned(), lock.value.to_string()));
    let notes = written(locks.iter().filter_map(|(_, lock)| lock.note()).map(Written::from).collect());
    values.chain(notes.map(|notes| (NODE_LOCK_ANNOTATION.to_owned(), notes))).collect()
}

/// Notes as one annotation; `None` where there are none.
fn written(mut notes: Vec<Written>) -> Option<String> {
    let notes = match notes.len() {
        0 | 1 => Notes::One(notes.pop()?),
        _ => Notes::Several(notes),
    };
    // Plain strings: they cannot fail to be written.
    serde_json::to_string(&notes).ok()
}

/// What one key becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// This value, with this note.
    Claim(LockValue, Note),
    /// Nothing.
    Release,
}

/// The patch of a node, in the version that was decided on: these keys change, all at once, and the notes of the others stay.
#[must_use]
pub fn node_patch(version: &ResourceVersion, seen: &Locks, changes: &[(LockKey, Change)]) -> Value {
    let mut annotations = serde_json::Map::new();
    let mut kept: Vec<Written> = Vec::new();
    for key in LockKey::ALL {
        match changes.iter().find(|(of, _)| *of == key).map(|(_, change)| change) {
            Some(Change::Claim(value, note)) => {
                annotations.insert(key.annotation().to_owned(), Value::String(value.to_string()));
                kept.push(note.into());
            }
            Some(Change::Release) => {
                annotations.insert(key.annotation().to_owned(), Value::Null);
            }
            None => {
                let lock = seen.iter().find(|(of, _)| *of == key).map(|(_, lock)| lock);
                kept.extend(lock.and_then(Lock::note).map(Written::from));
            }
        }
    }
    annotations.insert(NODE_LOCK_ANNOTATION.to_owned(), written(kept).map_or(Value::Null, Value::String));
    json!({"metadata": {"resourceVersion": &**version, "annotations": annotations}})
}

/// The patch of a pod that loses a lock before it was bound: it can no longer be bound in the version that was judged for it.
#[must_use]
pub fn revoke_patch(uid: &Uid, version: &ResourceVersion, value: &LockValue) -> Value {
    pod_patch(uid, version, json!({LOCK_REVOKED_ANNOTATION: &**value}))
}

/// The patch of a pod whose attempt failed: revoked, and `failed` for readers of phases.
#[must_use]
pub fn fence_patch(uid: &Uid, version: &ResourceVersion, value: &LockValue) -> Value {
    pod_patch(uid, version, json!({LOCK_REVOKED_ANNOTATION: &**value, BIND_PHASE_ANNOTATION: "failed"}))
}

/// Annotations of a pod, if it is that one in that version.
fn pod_patch(uid: &Uid, version: &ResourceVersion, annotations: Value) -> Value {
    json!({"metadata": {"uid": &**uid, "resourceVersion": &**version, "annotations": annotations}})
}

/// A Binding that is refused unless the pod is that one, in that version. The API server gives its annotations to the pod.
#[must_use]
pub fn binding(pod: &PodId, version: &ResourceVersion, node: &NodeName, now: Timestamp) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "namespace": &*pod.namespace,
            "name": &*pod.name,
            "uid": &*pod.uid,
            "resourceVersion": &**version,
            "annotations": {
                BIND_PHASE_ANNOTATION: "allocating",
                BIND_TIME_ANNOTATION: now.as_second().to_string(),
            },
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": &**node},
    })
}

#[cfg(test)]
mod tests {
    use topoloom_core::nodelock::NamedHolder;

    use super::*;

    const SHARED: &str = "2026-08-01T06:10:00.000000007Z,default,p1";
    const BARE: &str = "2026-08-01T06:10:00.000000007Z";

    fn note(value: &str, pod: Option<(&str, &str)>) -> Note {
        Note {
            value: value.into(),
            uid: "b3f0".into(),
            pod: pod.map(|(namespace, name)| (namespace.into(), name.into())),
            attempt: "7".into(),
            instance: "topoloom-0".into(),
            deadline: "2026-08-01T06:10:28Z".parse().unwrap(),
        }
    }

    /// What a node has after a patch.
    fn applied(seen: &Annotations, patch: &Value) -> Annotations {
        let mut annotations = seen.clone();
        for (key, value) in patch["metadata"]["annotations"].as_object().unwrap() {
            match value.as_str() {
                Some(text) => drop(annotations.insert(key.clone(), text.to_owned())),
                None => drop(annotations.remove(key)),
            }
        }
        annotations
    }

    #[test]
    fn r3_a_claim_is_one_patch_of_that_version_and_reads_back_with_its_note() {
        let seen = Annotations::new();
        let change = Change::Claim(SHARED.into(), note(SHARED, None));
        let patch = node_patch(&"81244".into(), &locks(&seen), &[(LockKey::Shared, change)]);
        assert_eq!(patch["metadata"]["resourceVersion"], "81244");
        assert_eq!(patch["metadata"]["annotations"]["hami.io/mutex.lock"], SHARED);
        let notes: Value = serde_json::from_str(&applied(&seen, &patch)[NODE_LOCK_ANNOTATION]).unwrap();
        assert_eq!(notes["uid"], "b3f0", "one note is written as itself, not as a list");
        let read = lock(&applied(&seen, &patch), LockKey::Shared).unwrap();
        assert_eq!(&*read.value, SHARED);
        let NamedHolder::Pod { pod, note: Some(read), .. } = read.named else { panic!("{read:?}") };
        assert_eq!((&*pod.namespace, &*pod.name, pod.uid.as_deref()), ("default", "p1", Some("b3f0")));
        assert_eq!(read, note(SHARED, None));
    }

    #[test]
    fn n4_several_keys_are_one_patch_and_each_is_given_back_with_its_own_note() {
        let seen = Annotations::new();
        let claims = [
            (LockKey::Shared, Change::Claim(SHARED.into(), note(SHARED, None))),
            (LockKey::Cambricon, Change::Claim(BARE.into(), note(BARE, Some(("default", "p1"))))),
        ];
        let both = applied(&seen, &node_patch(&"1".into(), &locks(&seen), &claims));
        let names = |annotations: &Annotations, key| lock(annotations, key).and_then(|lock| lock.pod().cloned());
        assert_eq!(names(&both, LockKey::Shared), names(&both, LockKey::Cambricon));
        assert_eq!(names(&both, LockKey::Cambricon).unwrap().to_string(), "default/p1");
        assert_eq!(annotations(&locks(&both)), both, "locks are written as they were read");

        let one = applied(&both, &node_patch(&"2".into(), &locks(&both), &[(LockKey::Shared, Change::Release)]));
        assert_eq!(names(&one, LockKey::Shared), None);
        assert_eq!(names(&one, LockKey::Cambricon), names(&both, LockKey::Cambricon));
        let none = applied(&one, &node_patch(&"3".into(), &locks(&one), &[(LockKey::Cambricon, Change::Release)]));
        assert_eq!(none, Annotations::new());
    }

    #[test]
    fn a_note_counts_for_its_value_only_and_garbage_is_ignored() {
        let change = Change::Claim(SHARED.into(), note(SHARED, None));
        let ours = applied(&Annotations::new(), &node_patch(&"1".into(), &Locks::new(), &[(LockKey::Shared, change)]));
        let mut replaced = ours.clone();
        replaced.insert(LockKey::Shared.annotation().into(), "2026-08-01T06:11:00Z,default,p1".into());
        let uid = |annotations: &Annotations| {
            lock(annotations, LockKey::Shared).and_then(|lock| lock.pod().cloned()).unwrap().uid
        };
        assert_eq!(uid(&ours).as_deref(), Some("b3f0"));
        assert_eq!(uid(&replaced), None, "the same pod by name, by a writer that knows no notes");

        let text = ours[NODE_LOCK_ANNOTATION].clone();
        let long = format!("{text}{}", " ".repeat(NOTES));
        let odd = text.replace("b3f0", "");
        let late = text.replace("2026-08-01T06:10:28Z", "soon");
        for garbage in ["", "{", "[]", "{}", "null", "7", &long, &odd, &late] {
            let mut annotations = ours.clone();
            annotations.insert(NODE_LOCK_ANNOTATION.into(), garbage.into());
            assert_eq!(uid(&annotations), None, "{garbage:?}");
            // It is replaced with the next write.
            let released = applied(
                &annotations,
                &node_patch(&"2".into(), &locks(&annotations), &[(LockKey::Shared, Change::Release)]),
            );
            assert_eq!(released, Annotations::new());
        }
    }

    #[test]
    fn n5_pods_are_marked_and_bound_in_the_version_that_was_judged() {
        let precondition =
            |value: &Value| (value["metadata"]["uid"].clone(), value["metadata"]["resourceVersion"].clone());
        let now = "2026-08-01T06:10:00.5Z".parse().unwrap();
        let (uid, version) = (Uid::from("b3f0"), ResourceVersion::from("12"));
        let pod = PodId { namespace: "default".into(), name: "p1".into(), uid: uid.clone() };
        let all = [
            revoke_patch(&uid, &version, &SHARED.into()),
            fence_patch(&uid, &version, &SHARED.into()),
            binding(&pod, &version, &"gpu-1".into(), now),
        ];
        for value in &all {
            assert_eq!(precondition(value), (json!("b3f0"), json!("12")), "{value}");
        }
        let annotations = all.each_ref().map(|value| value["metadata"]["annotations"].clone());
        assert_eq!(annotations[0], json!({"topoloom.dev/lock-revoked": SHARED}));
        assert_eq!(annotations[1], json!({"topoloom.dev/lock-revoked": SHARED, "hami.io/bind-phase": "failed"}));
        assert_eq!(annotations[2], json!({"hami.io/bind-phase": "allocating", "hami.io/bind-time": "1785564600"}));
        assert_eq!(all[2]["target"]["name"], "gpu-1");
    }
}
