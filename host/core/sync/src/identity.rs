//! Whose an object is, and which physical pod belongs to which virtual one (`bottomup-syncer.md` 4.3, decisions S1, S6, S7
//! and D14).
//!
//! Owns the identity that everything of ours carries in both clusters, the claim on a physical node, the Lease of a
//! borrower ([`borrower`]), and the two-way mapping of pods ([`mapping`]). Never decides what follows from it: nothing
//! without a match is ever updated, evicted or deleted, and that is for the callers to hold.
//!
//! What goes wrong: a ClusterBinding is deleted and applied again, and everything of ours carries a UID that no longer
//! exists. Then the names match and the UID does not. Only a live list of the bindings can tell a binding that was
//! replaced, whose objects are adopted, from one that still stands, whose objects are foreign. As long as no list was
//! made the answer is [`Owner::Unknown`], which permits nothing.
//!
//! A person takes labels of identity off a virtual node. Then no label names another, and none says that it is ours: nothing may be
//! written on it, and nothing says that it went. What is missing is said by [`lacking`]; whether the node is ours all the same is for
//! those to judge who know it ([`node`](crate::node)).

pub mod borrower;
pub mod mapping;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::keys;
use super::naming::{BindingName, ClusterId, label_value};
use super::texts::Keyed;
use topoloom_core::names::Uid;
use topoloom_core::rules::is_label_value;
use topoloom_core::text::line;

/// How much of a foreign value a message repeats.
const SHOWN: usize = 80;

/// Who we are: a binding of a virtual cluster. Each part can be the value of a label, so nothing is written cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    virtual_cluster: Uid,
    binding: BindingName,
    binding_uid: Uid,
}

/// An identity that cannot be written on an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{field} must be 1 to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends, got {:?}",
    line(value, SHOWN)
)]
pub struct IdentityError {
    /// Which part.
    pub field: &'static str,
    /// What it was.
    pub value: String,
}

impl Identity {
    /// The identity of a binding in the virtual cluster whose namespace `kube-system` has this UID.
    ///
    /// # Errors
    /// One of the UIDs cannot be the value of a label. That of the virtual cluster may come from a flag.
    pub fn new(virtual_cluster: Uid, binding: BindingName, binding_uid: Uid) -> Result<Self, IdentityError> {
        let checked = |field, uid: &Uid| {
            let legal = !uid.is_empty() && is_label_value(uid).is_ok();
            if legal { Ok(()) } else { Err(IdentityError { field, value: uid.to_string() }) }
        };
        checked("the identity of the virtual cluster (--virtual-cluster-id)", &virtual_cluster)?;
        checked("the UID of the ClusterBinding", &binding_uid)?;
        Ok(Self { virtual_cluster, binding, binding_uid })
    }

    /// The virtual cluster: the UID of its namespace `kube-system`.
    #[must_use]
    pub fn virtual_cluster(&self) -> &Uid {
        &self.virtual_cluster
    }

    /// The ClusterBinding.
    #[must_use]
    pub fn binding(&self) -> &BindingName {
        &self.binding
    }

    /// The UID of the ClusterBinding: applied again, it has another one.
    #[must_use]
    pub fn binding_uid(&self) -> &Uid {
        &self.binding_uid
    }

    /// The three labels on everything of ours, in both clusters.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, String> {
        [
            (keys::VIRTUAL_CLUSTER, self.virtual_cluster.to_string()),
            (keys::BINDING, label_value(&self.binding)),
            (keys::BINDING_UID, self.binding_uid.to_string()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into()
    }

    /// The labels that say where a virtual node and its CSINode come from: the identity, and the keys by which the
    /// original system finds them.
    #[must_use]
    pub fn node_labels(&self, cluster: &ClusterId, physical: &str) -> BTreeMap<String, String> {
        let mut labels = self.labels();
        labels.extend(
            [
                (keys::MANAGED_BY_LABEL, keys::MANAGED_BY.to_owned()),
                (keys::CLUSTER_BINDING, label_value(&self.binding)),
                (keys::PHYSICAL_CLUSTER_ID, cluster.to_string()),
                (keys::PHYSICAL_NODE_NAME, label_value(physical)),
            ]
            .map(|(key, value)| (key.to_owned(), value)),
        );
        labels
    }

    /// What a physical node that we lease carries under [`keys::LEASED_BY`].
    #[must_use]
    pub fn claim(&self) -> String {
        format!("{}/{}", self.virtual_cluster, self.binding_uid)
    }
}

/// Whose an object is, by its labels alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ownership {
    /// Virtual cluster, binding and UID are ours.
    Ours,
    /// Virtual cluster and binding are ours, and the binding had this UID then. Whether that one still stands has to be
    /// read live.
    OursOfEarlierBinding(Uid),
    /// It has labels of identity, and they are not ours.
    Foreign(Difference),
    /// It has no label of identity at all.
    None,
}

/// The first label of identity that is not ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Which label.
    pub key: &'static str,
    /// What it is; `None` where the object does not have it.
    pub found: Option<String>,
    /// What it is on ours.
    pub ours: String,
}

/// What a live list of the ClusterBindings shows of the one with an earlier UID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Earlier {
    /// No list was made for this question.
    Unlisted,
    /// A binding with that UID exists.
    Stands,
    /// None has that UID. No later one can.
    Gone,
}

/// Whose an object is, after all that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// Ours.
    Ours,
    /// It was made by a binding of this name that is gone: it becomes ours by a write under its resourceVersion, a
    /// physical pod by its two-way mapping alone.
    Adoptable(Uid),
    /// The bindings have to be listed for this UID first.
    Unknown(Uid),
    /// Another's.
    Foreign(WhyForeign),
}

/// Why an object is not ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyForeign {
    /// A label of identity is another's.
    Label(Difference),
    /// The names are ours, and the binding with the other UID exists.
    BindingStands(Uid),
    /// It has no label of identity.
    Unlabelled,
}

impl Ownership {
    /// Reads the labels of an object.
    ///
    /// Where the UID is missing there is none to look for, so the object is foreign; of a virtual node see [`Owner::of_node`].
    #[must_use]
    pub fn of(labels: &dyn Keyed, us: &Identity) -> Self {
        let ours = us.labels();
        if !ours.keys().any(|key| labels.text(key).is_some()) {
            return Self::None;
        }
        let differs = |key: &'static str| {
            let (found, ours) = (labels.text(key), ours.text(key));
            let difference =
                || Difference { key, found: found.map(str::to_owned), ours: ours.unwrap_or_default().to_owned() };
            (found != ours).then(difference)
        };
        if let Some(difference) = differs(keys::VIRTUAL_CLUSTER).or_else(|| differs(keys::BINDING)) {
            return Self::Foreign(difference);
        }
        match differs(keys::BINDING_UID) {
            None => Self::Ours,
            Some(Difference { found: Some(uid), .. }) if !uid.is_empty() => Self::OursOfEarlierBinding(uid.into()),
            Some(difference) => Self::Foreign(difference),
        }
    }

    /// Whose it is, given what a list of the bindings shows.
    #[must_use]
    pub fn resolve(self, earlier: Earlier) -> Owner {
        match (self, earlier) {
            (Self::Ours, _) => Owner::Ours,
            (Self::OursOfEarlierBinding(uid), Earlier::Unlisted) => Owner::Unknown(uid),
            (Self::OursOfEarlierBinding(uid), Earlier::Gone) => Owner::Adoptable(uid),
            (Self::OursOfEarlierBinding(uid), Earlier::Stands) => Owner::Foreign(WhyForeign::BindingStands(uid)),
            (Self::Foreign(difference), _) => Owner::Foreign(WhyForeign::Label(difference)),
            (Self::None, _) => Owner::Foreign(WhyForeign::Unlabelled),
        }
    }
}

impl Owner {
    /// Whose a virtual node with these labels is. `bindings`: the UIDs of all ClusterBindings by a live list, where one was made.
    ///
    /// One that names the binding and no UID of it was made by none that could stand, so it becomes ours with the next write.
    #[must_use]
    pub fn of_node(labels: &dyn Keyed, us: &Identity, bindings: Option<&BTreeSet<Uid>>) -> Self {
        let ownership = Ownership::of(labels, us);
        let earlier = match &ownership {
            Ownership::Foreign(_) if names_binding(labels, us) => return Self::Adoptable("".into()),
            Ownership::OursOfEarlierBinding(uid) => Earlier::of(uid, bindings),
            Ownership::Ours | Ownership::Foreign(_) | Ownership::None => Earlier::Unlisted,
        };
        ownership.resolve(earlier)
    }
}

impl Earlier {
    /// What is known of a binding with another UID than ours. `bindings`: those of a live list, where one was made.
    #[must_use]
    pub fn of(uid: &Uid, bindings: Option<&BTreeSet<Uid>>) -> Self {
        match bindings {
            None => Self::Unlisted,
            Some(bindings) if bindings.contains(uid) => Self::Stands,
            Some(_) => Self::Gone,
        }
    }
}

/// The labels that say of which binding an object is, whatever the UID of that is.
const NAMES: [&str; 2] = [keys::VIRTUAL_CLUSTER, keys::BINDING];

/// Whether an object names our virtual cluster and our binding, whatever it says of the UID of that.
#[must_use]
pub fn names_binding(labels: &dyn Keyed, us: &Identity) -> bool {
    let ours = us.labels();
    NAMES.into_iter().all(|key| labels.text(key) == ours.text(key))
}

/// Which of the labels that name virtual cluster and binding are missing or empty; nothing where none is, or one names another.
#[must_use]
pub fn lacking(labels: &dyn Keyed, us: &Identity) -> Option<Vec<&'static str>> {
    let ours = us.labels();
    let is_missing = |key: &&'static str| labels.text(key).is_none_or(str::is_empty);
    let names_no_other = |key: &'static str| is_missing(&key) || labels.text(key) == ours.text(key);
    let missing: Vec<&'static str> = NAMES.into_iter().filter(is_missing).collect();
    (!missing.is_empty() && NAMES.into_iter().all(names_no_other)).then_some(missing)
}

/// Whose a physical node is, by its annotation [`keys::LEASED_BY`]. Claims do not expire: only their binding and an
/// operator release them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// No binding claims it.
    Free,
    /// We do.
    Ours,
    /// A binding of this virtual cluster with another UID does: an earlier one, which can be adopted when it is gone, or
    /// another one that stands.
    OtherBinding(Uid),
    /// Another virtual cluster does.
    Other {
        /// Which one.
        virtual_cluster: Uid,
        /// Which of its bindings.
        binding_uid: Uid,
    },
    /// The value is no claim. The node is left alone like a claimed one: an annotation that was edited by hand must not
    /// lend the node twice. One that is lent already stays lent, and does not grow.
    Malformed(String),
}

impl Claim {
    /// Reads the annotation of a physical node.
    #[must_use]
    pub fn read(value: Option<&str>, us: &Identity) -> Self {
        let Some(value) = value else { return Self::Free };
        match claim_parts(value) {
            Some((cluster, uid)) => match (cluster == &**us.virtual_cluster(), uid == &**us.binding_uid()) {
                (true, true) => Self::Ours,
                (true, false) => Self::OtherBinding(uid.into()),
                (false, _) => Self::Other { virtual_cluster: cluster.into(), binding_uid: uid.into() },
            },
            None => Self::Malformed(line(value, SHOWN)),
        }
    }
}

/// The two parts of a claim on a physical node: the virtual cluster, and the UID of its binding. `None`: the value is no claim.
#[must_use]
pub fn claim_parts(value: &str) -> Option<(&str, &str)> {
    let is_part = |part: &str| !part.is_empty() && is_label_value(part).is_ok();
    let (cluster, uid) = value.split_once('/')?;
    (is_part(cluster) && is_part(uid)).then_some((cluster, uid))
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.found {
            Some(found) => write!(f, "its label {} is {:?}, and ours is {:?}", self.key, line(found, SHOWN), self.ours),
            None => write!(f, "it has no label {}, and ours is {:?}", self.key, self.ours),
        }
    }
}

impl fmt::Display for WhyForeign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label(difference) => difference.fmt(f),
            Self::BindingStands(uid) => {
                write!(f, "it belongs to the ClusterBinding with the UID {}, which exists", line(uid, SHOWN))
            }
            Self::Unlabelled => f.write_str("it has no labels of identity"),
        }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free => f.write_str("no binding claims it"),
            Self::Ours => f.write_str("this binding claims it"),
            Self::OtherBinding(uid) => {
                write!(f, "the ClusterBinding with the UID {uid} of this virtual cluster claims it")
            }
            Self::Other { virtual_cluster, binding_uid } => {
                write!(
                    f,
                    "the ClusterBinding with the UID {binding_uid} of the virtual cluster {virtual_cluster} claims it"
                )
            }
            Self::Malformed(value) => write!(
                f,
                "its annotation {} must be <virtual cluster>/<UID of the ClusterBinding>, got {value:?}",
                keys::LEASED_BY
            ),
        }
    }
}

#[cfg(test)]
mod tests;
