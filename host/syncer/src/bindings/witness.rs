//! One round of the witness of two clusters (decision S25), at the API servers.
//!
//! Owns the order: read both, judge, then raise, copy, confirm. Never writes where the two disagree; that needs an operator. Never
//! raises the counter without having read its copy: a counter that was set back would catch up with it unseen.
//!
//! # Failure story
//!
//! A round that fails in the middle leaves numbers that agree, and the next one begins again. So does one in which another replica has
//! written numbers in between. The Lease of the borrower is looked at
//! with each round: one that another client took over is found here.

use topoloom_cluster::Refusal;
use topoloom_sync::identity::borrower::Borrower;
use topoloom_sync::keys;
use topoloom_sync::witness::{
    Kept, Pair, SetBack, Step, Verdict, judge, read_copy, read_kept, resume, round, write_copy, write_kept,
};

use super::borrower::{Access, Taken, take};
use super::requests::{Clients, LeaseName, SeenLease};

/// Why a round is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Its time has come.
    Time,
    /// Something is about to be disrupted, or a restore waits for an operator: the numbers are compared, and nothing is written.
    Asked,
    /// An operator has confirmed that a store was set back: the numbers agree from now on.
    Confirmed,
}

/// What a round found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// The stores agree.
    Agree,
    /// One was set back, or both.
    SetBack(Vec<SetBack>),
    /// The Lease of the borrower is another's.
    Taken(String),
    /// There is no lease to keep the counter in: no replica has stood for it.
    NoLease,
}

/// Where the numbers stand.
pub(super) struct Places<'a> {
    pub(super) lease: &'a LeaseName,
    pub(super) namespace: &'a str,
    pub(super) borrower: Borrower<'a>,
    pub(super) pair: &'a Pair,
}

/// Makes a round.
pub(super) async fn make(clients: &Clients, places: &Places<'_>, why: Why) -> Result<Found, Refusal> {
    let Some(kept_in) = clients.lease(places.lease).await? else { return Ok(Found::NoLease) };
    let access = match why {
        Why::Time | Why::Confirmed => Access::Write,
        Why::Asked => Access::Look,
    };
    let copied_in = match take(clients, places.namespace, &places.borrower, access).await? {
        Taken::Ours(seen) => seen,
        Taken::Another(why) => return Ok(Found::Taken(why.to_string())),
        Taken::Free => return Ok(Found::NoLease),
    };
    let (kept, copy) = numbers(places.pair, &kept_in, &copied_in);
    let steps = match (why, judge(kept, copy)) {
        (Why::Time | Why::Asked, Verdict::SetBack(found)) => return Ok(Found::SetBack(found)),
        (Why::Asked, Verdict::Agree) => return Ok(Found::Agree),
        (Why::Time, Verdict::Agree) => round(kept, copy),
        (Why::Confirmed, _) => resume(kept, copy),
    };
    let (mut kept_in, mut copied_in) = (kept_in, copied_in);
    for step in steps {
        match step {
            Step::Keep(kept) | Step::Confirm(kept) => {
                let text = write_kept(places.pair, kept);
                kept_in = clients.write_witness(places.lease, &kept_in, &text).await?;
            }
            Step::Copy(copy) => {
                let (name, text) = (places.borrower.lease(), write_copy(places.pair, copy));
                copied_in = clients.write_copy(places.namespace, &name, &copied_in.version, &text).await?;
            }
        }
    }
    Ok(Found::Agree)
}

fn numbers(pair: &Pair, kept: &SeenLease, copied: &SeenLease) -> (Option<Kept>, Option<u64>) {
    let text = |lease: &SeenLease, key: &str| lease.annotations.get(key).cloned();
    let (kept, copy) = (text(kept, keys::WITNESS), text(copied, keys::WITNESS_COPY));
    (read_kept(pair, kept.as_deref()), read_copy(pair, copy.as_deref()))
}

#[cfg(test)]
mod tests;
