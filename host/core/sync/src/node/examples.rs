//! A binding for tests of what lends nodes, also of other crates (feature `examples`).

#![allow(clippy::unwrap_used, reason = "a test stops where a name of its own is none")]

use std::time::Duration;

use super::{Binding, Chained, NodeClaims};
use crate::copied::CopyRules;
use crate::deletion::{DeletionTiming, Evictions, Existence};
use crate::identity::Identity;
use crate::liveness::OnUnreachable;
use crate::naming::{BindingName, ClusterId};
use crate::policy::in_force::NoPolicy;
use crate::selector::NodeSelector;
use crate::taints::DefaultTaint;

/// The binding `east` of the virtual cluster `vc-1`, with the UID `b-1`.
#[must_use]
pub fn identity() -> Identity {
    Identity::new("vc-1".into(), BindingName::parse("east").unwrap(), "b-1".into()).unwrap()
}

/// That binding, with what an empty spec means: it lends all nodes of the cluster `east`, and its pods are in `lent`.
#[must_use]
pub fn binding() -> Binding {
    Binding {
        identity: identity(),
        cluster: ClusterId::parse("east").unwrap(),
        mount: "lent".to_owned(),
        selector: NodeSelector::default(),
        no_policy: NoPolicy::LeaseAll,
        existence: Existence::Alive,
        default_taint: DefaultTaint::On,
        copy: CopyRules::default(),
        chained: Chained::Refused,
        claims: NodeClaims::Written,
        endpoint: None,
        on_unreachable: OnUnreachable::Unknown,
        grow: Duration::from_secs(600),
        deletion: DeletionTiming::default(),
        evictions: Evictions::Allowed,
    }
}
