//! The deletion of a binding (`bottomup-syncer.md` 11.1, decisions S3, S10, S22).
//!
//! Owns what has to be gone before the finalizer goes: first the virtual nodes, then the claims on physical ones, then the pods of its
//! identity, then its Lease. Each is counted live once the caches say that there is none. Virtual nodes that an earlier binding of its
//! name made under another `clusterID`, and their pods, are not waited for: that the deletion leaves them is how a person keeps them.
//! Never deletes a pod or a node itself.
//!
//! # Failure story
//!
//! What cannot be read is not gone. Nor is a node that lost the labels by which nodes are counted: it is waited for by its
//! name. A cluster that does not answer holds a deletion up until it does, or until an operator says that it is gone for good.

use std::sync::PoisonError;

use topoloom_sync::identity::Identity;
use topoloom_sync::identity::borrower::Borrower;
use topoloom_sync::naming::ClusterId;
use topoloom_sync::node::NodeClaims;

use super::borrower::{Access, Taken, take};
use super::report::Going;
use super::requests::Clients;
use crate::feeds::SharedView;

/// What may be left of a binding.
pub(super) struct Left<'a> {
    pub(super) clients: &'a Clients,
    pub(super) identity: &'a Identity,
    pub(super) cluster: &'a ClusterId,
    pub(super) namespace: &'a str,
    pub(super) view: &'a SharedView,
    /// Whether anything can be there: it was connected to a physical cluster before.
    pub(super) has_connected: bool,
    /// Whether it is now.
    pub(super) is_connected: bool,
    /// Whether the physical cluster is gone for good.
    pub(super) is_detached: bool,
}

/// Looks at what is left.
pub(super) async fn look(left: &Left<'_>) -> Going {
    let (leaves_nothing, are_written, claims, earlier) = {
        let view = left.view.lock().unwrap_or_else(PoisonError::into_inner);
        let are_written = view.binding.claims == NodeClaims::Written;
        let claims = if are_written { view.claims() } else { 0 };
        (view.leaves_nothing(), are_written, claims, view.under_earlier_ids())
    };
    if !leaves_nothing {
        return Going::Nodes;
    }
    // The cache may be behind.
    match left.clients.has_lent(left.identity, left.cluster).await {
        Ok(false) => {}
        Ok(true) => return Going::Nodes,
        Err(refusal) => return Going::Unknown(refusal.to_string()),
    }
    if left.is_detached || !left.has_connected {
        return Going::Done;
    }
    if !left.is_connected {
        return Going::Unknown("there is no connection to the physical cluster".to_owned());
    }
    if claims > 0 {
        return Going::Claims(claims);
    }
    match left.clients.count_pods(left.identity, left.namespace, &earlier).await {
        Ok(0) => {}
        Ok(pods) => return Going::Pods(pods),
        Err(refusal) => return Going::Unknown(refusal.to_string()),
    }
    let borrower = Borrower { identity: left.identity, cluster: left.cluster };
    let ours = match take(left.clients, left.namespace, &borrower, Access::Look).await {
        Ok(Taken::Ours(seen)) => Some(seen),
        Ok(Taken::Free) => None,
        Ok(Taken::Another(_)) => return Going::Done,
        Err(refusal) => return Going::Unknown(refusal.to_string()),
    };
    if are_written {
        // Physical nodes that were not listed yet are in no cache.
        match left.clients.count_claims(&left.identity.claim()).await {
            Ok(0) => {}
            Ok(claims) => return Going::Claims(claims),
            Err(refusal) => return Going::Unknown(refusal.to_string()),
        }
    }
    let Some(seen) = ours else { return Going::Done };
    match left.clients.delete_borrower_lease(left.namespace, &borrower.lease(), &seen).await {
        Ok(()) => Going::Done,
        Err(refusal) => Going::Unknown(refusal.to_string()),
    }
}

#[cfg(test)]
mod tests;
