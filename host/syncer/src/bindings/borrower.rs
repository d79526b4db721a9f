//! The Lease in `mountNamespace` by which a binding takes that namespace (decision S7), at the API server.
//!
//! Owns the steps from what is there to what is ours: it is made where there is none, adopted where the binding that made it is gone,
//! and left alone otherwise. Never expires one, and never writes to one of another.
//!
//! # Failure story
//!
//! Two bindings come at once: both see none, one has made it, and the other reads it then. A binding with the UID in it may stand:
//! only a live list of the bindings tells. What cannot be read is no Lease that is not there.

use topoloom_cluster::{Refusal, RefusalReason, Side};
use topoloom_sync::identity::Earlier;
use topoloom_sync::identity::borrower::{Borrower, BorrowerVerdict, WhyConflict};

use super::requests::{Clients, SeenLease};

/// How often what was seen may be overtaken before it is left to the next try.
const LOOKS: usize = 5;

/// Whose the namespace is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Taken {
    /// Ours.
    Ours(SeenLease),
    /// Another's, and why.
    Another(WhyConflict),
    /// It may be ours, and nothing may be written to make sure.
    Free,
}

/// Whether the Lease may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// It is made, or adopted.
    Write,
    /// It is looked at: the binding observes.
    Look,
}

/// Takes the namespace, or says who has it.
pub(super) async fn take(
    clients: &Clients,
    namespace: &str,
    borrower: &Borrower<'_>,
    access: Access,
) -> Result<Taken, Refusal> {
    let name = borrower.lease();
    let mut earlier = Earlier::Unlisted;
    for _ in 0..LOOKS {
        let seen = clients.borrower_lease(namespace, &name).await?;
        let verdict = borrower.judge(seen.as_ref().map(|seen| &seen.labels), earlier);
        let written = match (verdict, seen, access) {
            (BorrowerVerdict::Ours, Some(seen), _) => return Ok(Taken::Ours(seen)),
            (BorrowerVerdict::Conflict(why), _, _) => return Ok(Taken::Another(why)),
            (BorrowerVerdict::AskBinding(uid), _, _) => {
                let stands = clients.binding_uids().await?.contains(&uid);
                earlier = if stands { Earlier::Stands } else { Earlier::Gone };
                continue;
            }
            (BorrowerVerdict::Free | BorrowerVerdict::Adopt(_) | BorrowerVerdict::Ours, _, Access::Look) => {
                return Ok(Taken::Free);
            }
            (BorrowerVerdict::Adopt(_), Some(seen), Access::Write) => {
                clients.adopt_borrower_lease(namespace, borrower, &seen.version).await
            }
            (BorrowerVerdict::Free | BorrowerVerdict::Adopt(_) | BorrowerVerdict::Ours, _, Access::Write) => {
                clients.make_borrower_lease(namespace, borrower).await
            }
        };
        match written {
            Ok(seen) => return Ok(Taken::Ours(seen)),
            // Another client was first: what it wrote is judged.
            Err(refusal) if matches!(refusal.reason, RefusalReason::AlreadyExists | RefusalReason::Conflict) => {}
            Err(refusal) => return Err(refusal),
        }
    }
    let message = format!("the Lease {name} in the namespace {namespace} changes all the time");
    Err(Refusal { reason: RefusalReason::Conflict, message, retry_after: None }.on(Side::Physical))
}

#[cfg(test)]
mod tests;
