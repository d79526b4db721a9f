//! A virtual node that an earlier binding of our name made under another `clusterID` (decisions S4 to S7 and S22).
//!
//! Owns how one is known: by what it says of itself, and only where all of that fits together. Owns where its machine is
//! ([`EarlierId::find`]). No name that this binding gives leads to it, so it cannot become ours, and nothing is written on it. But the
//! machine that it names may live, and pods run there: while it is there, whether the lease is renewed is decided as for any other node
//! ([`LifeFacts`](super::LifeFacts)).
//!
//! What goes wrong: a ClusterBinding was deleted by force, and applied again with a typing error in its `clusterID`. Until a person has
//! seen that, no pod may be lost, and no machine may be lent under two names. Nothing takes such a node away, so one whose machine is gone
//! has to become NotReady by its lease, or pods would be sent to it for ever. But the binding may borrow from another cluster by now, and
//! of that one the machine was never a part.

use super::facts::{LentNode, LiveNode, Physical, PhysicalNode};
use crate::bars::Bars;
use crate::identity::{Claim, Identity, names_binding};
use crate::keys;
use crate::liveness::Reach;
use crate::naming::{ClusterId, virtual_node_name};
use crate::texts::Keyed;
use topoloom_core::names::Uid;

/// What such a node says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierId {
    /// The `clusterID` under which it was made.
    pub cluster: ClusterId,
    /// The name of its machine.
    pub machine: String,
    /// The UID of the binding that made it; `None` where it does not say that.
    pub binding: Option<Uid>,
}

impl EarlierId {
    /// Reads what a virtual node of this name says. Nothing where it was made under our `clusterID` or by this very binding, where it
    /// names another binding, or where the machine that it names does not give its name: that may have been edited.
    #[must_use]
    pub fn of(
        name: &str,
        labels: &dyn Keyed,
        annotations: &dyn Keyed,
        us: &Identity,
        ours: &ClusterId,
    ) -> Option<Self> {
        // First what nearly no node gets past.
        let said = labels.text(keys::PHYSICAL_CLUSTER_ID).filter(|said| **said != **ours)?;
        let cluster = ClusterId::parse(said).ok()?;
        if !names_binding(labels, us) {
            return None;
        }
        let binding = labels.text(keys::BINDING_UID).filter(|uid| !uid.is_empty()).map(Uid::from);
        if binding.as_ref() == Some(us.binding_uid()) {
            return None;
        }
        let gives = |machine: &&str| virtual_node_name(&cluster, machine).is_ok_and(|given| *given == *name);
        let mut named = [annotations, labels].into_iter().filter_map(|map| map.text(keys::PHYSICAL_NODE_NAME));
        let machine = named.find(gives)?.to_owned();
        Some(Self { cluster, machine, binding })
    }

    /// Whether this is its machine. What the virtual node says of the UID may have been edited: then the claim on the machine counts
    /// (decision S22).
    #[must_use]
    pub fn is_machine(&self, lent: &LentNode, machine: &PhysicalNode, us: &Identity) -> bool {
        let claim = || Claim::read(machine.annotations.text(keys::LEASED_BY), us);
        let is_claimed =
            || matches!((claim(), &self.binding), (Claim::OtherBinding(uid), Some(maker)) if uid == *maker);
        lent.names_uid(&machine.uid) || is_claimed()
    }

    /// Where its machine is.
    #[must_use]
    pub fn find<'a>(&self, traces: &Traces<'a>, us: &Identity) -> Whereabouts<'a> {
        let Traces { lent, physical, live, is_home, reach, bars } = *traces;
        match physical {
            Physical::Unlisted => return Whereabouts::Known(physical),
            Physical::Present(machine) if self.is_machine(lent, machine, us) => return Whereabouts::Known(physical),
            Physical::Present(_) | Physical::Absent => {}
        }
        // What another cluster lacks, or another history, says nothing of it.
        if !is_home || bars.doubt_claims() {
            return Whereabouts::Known(Physical::Absent);
        }
        // A lease that has stopped stays stopped until the cluster answers again.
        if reach != Reach::Reachable {
            return Whereabouts::Known(Physical::Unlisted);
        }
        match (live, physical) {
            (LiveNode::Unasked, _) => Whereabouts::Unread,
            (LiveNode::Gone, _) => Whereabouts::Gone,
            (LiveNode::Found(uid), Physical::Present(machine)) if *uid == machine.uid => Whereabouts::Gone,
            // The cache is behind it, and will follow.
            (LiveNode::Found(_), _) => Whereabouts::Known(Physical::Unlisted),
        }
    }
}

/// What shows where the machine of such a node is.
#[derive(Debug, Clone, Copy)]
pub struct Traces<'a> {
    /// The virtual node.
    pub lent: &'a LentNode,
    /// What is cached under the name of the machine.
    pub physical: Physical<'a>,
    /// What a live read has shown of that name.
    pub live: &'a LiveNode,
    /// Whether the physical cluster is known to be the one that the machine was in.
    pub is_home: bool,
    /// How the connection to the physical cluster is doing.
    pub reach: Reach,
    /// What may not be written.
    pub bars: &'a Bars,
}

/// Where the machine of such a node is.
#[derive(Debug, Clone, Copy)]
pub enum Whereabouts<'a> {
    /// It may be gone: its name has to be read live first.
    Unread,
    /// What is cached of it holds.
    Known(Physical<'a>),
    /// It is gone. Its name may be that of another one by now.
    Gone,
}

#[cfg(test)]
mod tests {
    use super::super::examples::identity;
    use super::*;

    type Keys = std::collections::BTreeMap<String, String>;

    fn ours() -> ClusterId {
        ClusterId::parse("east").unwrap()
    }

    /// Name, labels and annotations of a node that the binding with this UID made under this `clusterID`.
    fn made(uid: &str, id: &str) -> (String, Keys, Keys) {
        let us = identity();
        let made_by = Identity::new(us.virtual_cluster().clone(), us.binding().clone(), uid.into()).unwrap();
        let labels = made_by.node_labels(&ClusterId::parse(id).unwrap(), "w1");
        let annotations = [(keys::PHYSICAL_NODE_NAME.to_owned(), "w1".to_owned())].into();
        (format!("vnode-{id}-w1"), labels, annotations)
    }

    fn read((name, labels, annotations): &(String, Keys, Keys)) -> Option<EarlierId> {
        EarlierId::of(name, labels, annotations, &identity(), &ours())
    }

    #[test]
    fn s6_s7_a_node_of_an_earlier_binding_of_our_name_says_under_which_cluster_id_it_was_made_and_for_which_machine() {
        let found = |uid: Option<&str>| EarlierId {
            cluster: ClusterId::parse("est").unwrap(),
            machine: "w1".to_owned(),
            binding: uid.map(Uid::from),
        };
        let node = made("b-0", "est");
        assert_eq!(read(&node), Some(found(Some("b-0"))));
        for wiped in [None, Some("")] {
            let mut node = node.clone();
            match wiped {
                Some(value) => drop(node.1.insert(keys::BINDING_UID.to_owned(), value.to_owned())),
                None => drop(node.1.remove(keys::BINDING_UID)),
            }
            assert_eq!(read(&node), Some(found(None)), "{wiped:?}");
        }
        // Either of the two names of its machine is enough.
        for which in [1, 2] {
            let mut node = node.clone();
            let edited = if which == 1 { &mut node.1 } else { &mut node.2 };
            edited.insert(keys::PHYSICAL_NODE_NAME.to_owned(), "w9".to_owned());
            assert_eq!(read(&node), Some(found(Some("b-0"))), "{which}");
        }
    }

    #[test]
    fn s6_s22_what_was_edited_or_copied_or_is_of_another_binding_is_no_node_of_an_earlier_cluster_id() {
        assert_eq!(read(&made("b-0", "east")), None, "it becomes ours");
        assert_eq!(read(&made("b-1", "est")), None, "this very binding never had another one");
        let node = made("b-0", "est");
        let with = |key: &str, value: &str| {
            let mut node = node.clone();
            node.1.insert(key.to_owned(), value.to_owned());
            node
        };
        for (key, value) in [
            (keys::VIRTUAL_CLUSTER, "vc-9"),
            (keys::VIRTUAL_CLUSTER, ""),
            (keys::BINDING, "west"),
            (keys::PHYSICAL_CLUSTER_ID, "west"),
            (keys::PHYSICAL_CLUSTER_ID, "East"),
            (keys::PHYSICAL_CLUSTER_ID, ""),
        ] {
            assert_eq!(read(&with(key, value)), None, "{key}={value}");
        }
        // A node of ours whose label was edited: its name is one that we give.
        let mut edited = made("b-0", "east");
        edited.1.insert(keys::PHYSICAL_CLUSTER_ID.to_owned(), "est".to_owned());
        assert_eq!(read(&edited), None);
        let mut copy = node.clone();
        copy.0 = "vnode-est-copy".to_owned();
        assert_eq!(read(&copy), None);
    }
}
