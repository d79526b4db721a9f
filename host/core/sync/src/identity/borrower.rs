//! The Lease in `mountNamespace` by which a binding takes that namespace (decision S7).
//!
//! Owns what the Lease says of its holder, and whose an existing one is. Never expires it: the Lease marks who lends here,
//! not who is alive, and its counter (decision S25) is another room's.
//!
//! What goes wrong: two virtual clusters have a binding of one name, and both were given the same namespace. The second
//! one finds a Lease that is not its own, and writes nothing else in that cluster. It must be made by a write that fails
//! where the Lease exists, so that two who come at once cannot both have made it.

use std::collections::BTreeMap;
use std::fmt;

use super::{Earlier, Identity, Owner, Ownership, WhyForeign};
use crate::keys;
use crate::naming::{ClusterId, borrower_lease};
use topoloom_core::names::Uid;
use topoloom_core::text::line;

/// The binding, as its Lease names it.
#[derive(Debug, Clone, Copy)]
pub struct Borrower<'a> {
    /// Who it is.
    pub identity: &'a Identity,
    /// Its `spec.clusterID`, which is part of every name that it gives.
    pub cluster: &'a ClusterId,
}

/// Whose the Lease is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BorrowerVerdict {
    /// There is none: make it, by a write that fails where one exists.
    Free,
    /// Ours.
    Ours,
    /// It is of a binding of this name that is gone: write our labels and holder under its resourceVersion.
    Adopt(Uid),
    /// The bindings have to be listed for this UID first.
    AskBinding(Uid),
    /// Another's. Nothing is written to that cluster but the condition.
    Conflict(WhyConflict),
}

/// Why the Lease is not ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyConflict {
    /// It is foreign.
    Foreign(WhyForeign),
    /// The binding is ours and gave its nodes other names then.
    ClusterId {
        /// What the Lease says; `None` where it says nothing.
        found: Option<String>,
        /// What ours is.
        ours: ClusterId,
    },
}

impl Borrower<'_> {
    /// The name of its Lease.
    #[must_use]
    pub fn lease(&self) -> String {
        borrower_lease(self.identity.binding())
    }

    /// The labels of its Lease: the identity and the cluster id.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.identity.labels();
        labels.insert(keys::MANAGED_BY_LABEL.to_owned(), keys::MANAGED_BY.to_owned());
        labels.insert(keys::PHYSICAL_CLUSTER_ID.to_owned(), self.cluster.to_string());
        labels
    }

    /// `holderIdentity` of its Lease: what its claims on nodes say, too.
    #[must_use]
    pub fn holder(&self) -> String {
        self.identity.claim()
    }

    /// Whose the Lease with these labels is; `None` where no such Lease exists.
    #[must_use]
    pub fn judge(&self, existing: Option<&BTreeMap<String, String>>, earlier: Earlier) -> BorrowerVerdict {
        let Some(labels) = existing else { return BorrowerVerdict::Free };
        let verdict = match Ownership::of(labels, self.identity).resolve(earlier) {
            Owner::Ours => BorrowerVerdict::Ours,
            Owner::Adoptable(uid) => BorrowerVerdict::Adopt(uid),
            Owner::Unknown(uid) => return BorrowerVerdict::AskBinding(uid),
            Owner::Foreign(why) => return BorrowerVerdict::Conflict(WhyConflict::Foreign(why)),
        };
        let found = labels.get(keys::PHYSICAL_CLUSTER_ID);
        if found.map(String::as_str) == Some(&**self.cluster) {
            return verdict;
        }
        BorrowerVerdict::Conflict(WhyConflict::ClusterId { found: found.cloned(), ours: self.cluster.clone() })
    }
}

impl fmt::Display for WhyConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign(why) => why.fmt(f),
            Self::ClusterId { found: Some(found), ours } => write!(
                f,
                "its clusterID is {:?} and that of this binding is {:?}: names of nodes made under the one are not those of \
                 the other. Delete this ClusterBinding and apply it again with the first, or, where nothing is left of that, delete \
                 the Lease",
                line(found, super::SHOWN),
                &**ours
            ),
            Self::ClusterId { found: None, ours } => {
                write!(f, "it names no clusterID, and that of this binding is {:?}", &**ours)
            }
        }
    }
}
