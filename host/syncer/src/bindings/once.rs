//! The same judgement for a command, which looks once and serves no binding (decision S23).
//!
//! Owns what may not be written for a binding now, and what its operators want, as far as both follow from what is stored and from
//! live reads. Never writes, and remembers nothing: an earlier spec that is in force in the process that serves the binding is not
//! known here, so a spec with a mistake counts as one that was never valid.
//!
//! # Failure story
//!
//! What cannot be read is a remark, and the answer is the one without it. While the physical cluster is not read, nothing is decided
//! about its nodes. Where the status says that it is unreachable, that counts: the process that serves the binding decides by what it
//! reaches itself.

use std::time::Duration;

use jiff::Timestamp;
use topoloom_api::ClusterBinding;
use topoloom_api::cluster_binding::ConnectionState;
use topoloom_core::names::Uid;
use topoloom_core::text;
use topoloom_sync::bars::Bars;
use topoloom_sync::identity::borrower::Borrower;
use topoloom_sync::liveness::{Doubt, Reach};
use topoloom_sync::node::Now;

use super::bars::{Hindrances, Reaches, bars};
use super::borrower::{Access, Taken, take};
use super::others::earlier_of_same_id;
use super::report::Kept;
use super::requests::Clients;
use super::strays;
use super::verbs::Verbs;
use crate::convert::binding::Reading;
use crate::group::Listing;
use crate::view::{Strays, VerbOnBinding};

/// Longest list of drained nodes that is shown.
const DRAINED: usize = 160;

/// What a command has read of a binding.
#[derive(Debug, Clone, Copy)]
pub struct Looked<'a> {
    /// The object.
    pub object: &'a ClusterBinding,
    /// What it says.
    pub reading: &'a Reading,
    /// All bindings.
    pub all: &'a [ClusterBinding],
    /// The UID of the namespace `kube-system` of the virtual cluster.
    pub kube_system: &'a Uid,
    /// The UID of the physical cluster, where it was read.
    pub cluster: Option<&'a Uid>,
    /// Whether writes are switched off in the processes that serve bindings.
    pub is_read_only: bool,
    /// When it was read.
    pub now: Now,
}

/// What may not be written for a binding, and what its operators want.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hindered {
    /// What may not be written.
    pub bars: Bars,
    /// How far the physical cluster is known.
    pub reach: Reach,
    /// What its operators want.
    pub verb: VerbOnBinding,
    /// The hash that an operator confirms.
    pub confirmed: Option<String>,
    /// What the bars alone do not say, each in a sentence.
    pub why: Vec<String>,
    /// What could not be read.
    pub remarks: Vec<String>,
}

/// Looks at a binding, with clients that read the virtual cluster and the physical one.
pub async fn look(looked: &Looked<'_>, lent: &kube::Client, physical: Option<&kube::Client>) -> Hindered {
    let Looked { object, reading, kube_system, cluster, is_read_only, now, .. } = *looked;
    let (verbs, kept) = (Verbs::read(object.metadata.annotations.as_ref()), Kept::of(&object.status));
    let (mut why, mut remarks) = (Vec::new(), Vec::new());
    let virtual_cluster = reading.terms.binding.identity.virtual_cluster();
    let is_same = cluster.is_some_and(|cluster| cluster == kube_system || cluster == virtual_cluster);
    if is_same {
        why.push("the kubeconfig leads to the virtual cluster itself, and no cluster lends to itself".to_owned());
    }
    let other = cluster.filter(|cluster| kept.physical_cluster.as_deref().is_some_and(|known| known != &***cluster));
    if let Some(other) = other.filter(|_| !is_same) {
        why.push(format!(
            "the binding borrows from another physical cluster than the one that answers, which is {other}"
        ));
    }
    let conflict = match physical.filter(|_| !is_same) {
        Some(physical) => Box::pin(conflict(looked, lent, physical, &mut remarks)).await,
        None => same_id(looked),
    };
    let is_terminating = object.metadata.deletion_timestamp.is_some();
    let hindrances = Hindrances {
        mode: reading.terms.mode,
        is_paused: verbs.is_paused,
        is_invalid: reading.problems.is_some(),
        is_orphaned: false,
        is_in_conflict: conflict.is_some(),
        is_another_cluster: other.is_some() || kept.other_cluster.is_some(),
        is_restored: kept.restored.is_some(),
        is_detached: is_terminating && verbs.detach.is_some() && verbs.detach == kept.physical_cluster,
    };
    why.extend(conflict);
    why.extend(drained(&verbs.drain, object.metadata.name.as_deref().unwrap_or_default()));
    let is_read = cluster.is_some() && !is_same;
    let here = if is_read { Reach::Reachable } else { Reach::Suspect(Doubt::NotListed) };
    let reaches = Reaches {
        physical: unreachable(object, now).unwrap_or(here),
        listing: if is_read { Listing::Listed } else { Listing::Unlisted },
        lent: Reach::Reachable,
        is_read_only,
    };
    let verb = if hindrances.is_detached { VerbOnBinding::Detach } else { verbs.drain };
    Hindered {
        bars: bars(&hindrances, reaches),
        reach: reaches.physical(),
        verb,
        confirmed: verbs.confirm,
        why,
        remarks,
    }
}

/// That the process which serves the binding does not reach its physical cluster, and since when.
fn unreachable(object: &ClusterBinding, now: Now) -> Option<Reach> {
    let connection = object.status.connection.as_ref()?;
    if connection.state != ConnectionState::Unreachable {
        return None;
    }
    let since = connection.since.parse::<Timestamp>().ok();
    let past = since.and_then(|since| Duration::try_from(now.wall.duration_since(since)).ok()).unwrap_or_default();
    Some(Reach::Unreachable { since: now.steady.saturating_sub(past) })
}

/// What its virtual nodes show that a person has to set right, with what to type.
#[must_use]
pub fn in_the_way(strays: &Strays) -> Option<String> {
    strays::sentence(strays)
}

/// What an operator drains.
fn drained(drain: &VerbOnBinding, name: &str) -> Option<String> {
    let what = match drain {
        VerbOnBinding::None | VerbOnBinding::Detach => return None,
        VerbOnBinding::Drain => "all nodes of the binding".to_owned(),
        VerbOnBinding::DrainNodes(nodes) => nodes.iter().cloned().collect::<Vec<_>>().join(", "),
    };
    let what = text::line(&what, DRAINED);
    Some(format!("an operator drains {what}, which are not lent; `topoloom lend drain {name} --end` ends this"))
}

/// Another binding that has the same `clusterID` and had it first.
fn same_id(looked: &Looked<'_>) -> Option<String> {
    let terms = &looked.reading.terms;
    let other = earlier_of_same_id(looked.object, terms, looked.all)?;
    Some(format!("ClusterBinding {other} has the same clusterID {:?}", &*terms.binding.cluster))
}

/// Who has what the binding needs, where that is another.
async fn conflict(
    looked: &Looked<'_>,
    lent: &kube::Client,
    physical: &kube::Client,
    remarks: &mut Vec<String>,
) -> Option<String> {
    if let Some(conflict) = same_id(looked) {
        return Some(conflict);
    }
    let terms = &looked.reading.terms;
    let clients = Clients {
        lent: lent.clone(),
        lent_writes: lent.clone(),
        physical: physical.clone(),
        physical_writes: physical.clone(),
    };
    let borrower = Borrower { identity: &terms.binding.identity, cluster: &terms.binding.cluster };
    match take(&clients, &terms.mount_namespace, &borrower, Access::Look).await {
        Ok(Taken::Ours(_) | Taken::Free) => None,
        Ok(Taken::Another(why)) => {
            Some(format!("the Lease of the borrower in {} belongs to another: {why}", terms.mount_namespace))
        }
        Err(refusal) => {
            remarks.push(format!("whose the namespace {} is could not be read: {refusal}", terms.mount_namespace));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use topoloom_api::names::{CONFIRM_ANNOTATION, DRAIN_ANNOTATION, PAUSE_ANNOTATION};
    use topoloom_sync::bars::Bar;

    use super::super::staged::Server;
    use super::*;
    use crate::convert::binding::read;
    use crate::convert::binding::tests::{around, binding};

    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/lent/leases";

    /// Looks at a binding with these fields, annotations and status, from which this cluster answers.
    async fn looked(spec: Value, metadata: Value, status: Value, cluster: Option<&str>, physical: &Server) -> Hindered {
        let mut object = binding(spec);
        object.metadata.annotations = serde_json::from_value(metadata).unwrap();
        object.status = serde_json::from_value(status).unwrap();
        let reading = read(&object, &around()).unwrap();
        let (kube_system, cluster): (Uid, Option<Uid>) = ("vc-1".into(), cluster.map(Uid::from));
        let all = [object.clone()];
        let looked = Looked {
            object: &object,
            reading: &reading,
            all: &all,
            kube_system: &kube_system,
            cluster: cluster.as_ref(),
            is_read_only: false,
            now: now(),
        };
        let client = physical.client();
        look(&looked, &Server::default().client(), cluster.as_ref().map(|_| &client)).await
    }

    fn now() -> Now {
        Now { wall: "2026-08-03T12:00:00Z".parse().unwrap(), steady: Duration::from_secs(1_000) }
    }

    fn bars_of(hindered: &Hindered) -> Vec<Bar> {
        hindered.bars.iter().collect()
    }

    #[tokio::test]
    async fn s23_what_is_stored_bars_what_it_bars_in_the_process_that_serves_the_binding() {
        let server = Server::default();
        let none = || json!({});
        let well = looked(none(), none(), none(), Some("pc"), &server).await;
        assert_eq!((bars_of(&well), well.reach, well.why.len()), (vec![], Reach::Reachable, 0));
        let verbs = json!({PAUSE_ANNOTATION: "true", DRAIN_ANNOTATION: "w1", CONFIRM_ANNOTATION: "abc"});
        let asked = looked(none(), verbs, none(), Some("pc"), &server).await;
        assert_eq!((bars_of(&asked), asked.confirmed.as_deref()), (vec![Bar::Paused], Some("abc")));
        assert_eq!(asked.verb, VerbOnBinding::DrainNodes(["w1".to_owned()].into()));
        assert!(asked.why[0].starts_with("an operator drains w1, which are not lent; "), "{:?}", asked.why);
        let observes = looked(json!({"mode": "observe"}), none(), none(), Some("pc"), &server).await;
        assert_eq!(bars_of(&observes), [Bar::Observing]);
        let wrong = looked(json!({"mode": "obey"}), none(), none(), Some("pc"), &server).await;
        assert_eq!(bars_of(&wrong), [Bar::Invalid]);
        let changed = looked(none(), none(), json!({"physicalClusterUID": "pc-0"}), Some("pc"), &server).await;
        assert_eq!((bars_of(&changed), changed.why.len()), (vec![Bar::ClusterChanged], 1));
        // Of a cluster that was not read nothing is known.
        let unread = looked(none(), none(), none(), None, &server).await;
        assert_eq!((bars_of(&unread), unread.reach), (vec![Bar::Suspect], Reach::Suspect(Doubt::NotListed)));
        let gone = json!({"connection": {"state": "Unreachable", "since": "2026-08-03T11:59:00Z"}});
        for cluster in [None, Some("pc")] {
            let gone = looked(none(), none(), gone.clone(), cluster, &server).await;
            let since = now().steady - Duration::from_secs(60);
            assert_eq!((bars_of(&gone), gone.reach), (vec![Bar::Unreachable], Reach::Unreachable { since }));
        }
        let itself = looked(none(), none(), none(), Some("vc-1"), &server).await;
        assert_eq!((bars_of(&itself), itself.why.len()), (vec![Bar::Suspect], 1));
        assert_eq!(server.writes(), [""; 0]);
    }

    #[tokio::test]
    async fn s27_writes_that_are_switched_off_are_a_bar() {
        let object = binding(json!({}));
        let reading = read(&object, &around()).unwrap();
        let (kube_system, cluster): (Uid, Uid) = ("vc-1".into(), "pc".into());
        let (all, server) = ([object.clone()], Server::default());
        let looked = Looked {
            object: &object,
            reading: &reading,
            all: &all,
            kube_system: &kube_system,
            cluster: Some(&cluster),
            is_read_only: true,
            now: now(),
        };
        let hindered = look(&looked, &server.client(), Some(&server.client())).await;
        assert_eq!((bars_of(&hindered), hindered.reach), (vec![Bar::ReadOnly], Reach::Reachable));
    }

    #[tokio::test]
    async fn s7_a_namespace_of_another_is_a_conflict_and_its_lease_is_not_touched() {
        let server = Server::default();
        let reading = read(&binding(json!({})), &around()).unwrap();
        let borrower = Borrower { identity: &reading.terms.binding.identity, cluster: &reading.terms.binding.cluster };
        assert_eq!(reading.terms.mount_namespace, "lent");
        let labels = json!({"topoloom.dev/virtual-cluster": "another"});
        server.put(&format!("{LEASES}/{}", borrower.lease()), json!({"metadata": {"labels": labels}}));
        let taken = looked(json!({}), json!({}), json!({}), Some("pc"), &server).await;
        assert_eq!(bars_of(&taken), [Bar::Conflict]);
        assert!(taken.why[0].contains("topoloom.dev/virtual-cluster"), "{:?}", taken.why);
        assert_eq!(server.writes(), [""; 0]);
    }
}
