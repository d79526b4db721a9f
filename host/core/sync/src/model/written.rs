//! For each mutation a history that shows it, written by hand: a change of the world that moves what chance finds does not
//! hide it.

use super::actors::{Borrower, Deletion, Edit, Lender, Pool, Spoilt};
use super::server::Revision;
use super::*;

/// The history of a mutation. It is harmless where the rule is kept.
pub(super) fn history(mutation: Mutation) -> Vec<Deed> {
    match mutation {
        Mutation::None => Vec::new(),
        Mutation::LabelAlone => orphan(0, OTHER, 31),
        // The user takes the mapping off, and the top-down half, which writes it again, is late.
        Mutation::OneLook => {
            [vec![Deed::Borrower(Borrower::Strip(0)), Deed::Watch(0, Kind::Pods)], orphan(0, 0, 0), copied(0)].concat()
        }
        // The watch of virtual pods is behind that of physical ones.
        Mutation::CacheIsProof => [
            vec![Deed::Borrower(Borrower::Schedule(1))],
            copied(1),
            vec![Deed::Watch(0, Kind::Copies)],
            orphan(0, 1, 31),
        ]
        .concat(),
        Mutation::VersionAlone => restored(),
        Mutation::ClaimAfter => {
            vec![Deed::Lender(Lender::Relabel(2, Pool::Gpu)), Deed::Watch(0, Kind::Machines), Deed::Do(0, 2)]
        }
        // Between the decision and the first request a user taints the node.
        Mutation::NoVersion => vec![
            Deed::Lender(Lender::Cordon(0)),
            Deed::Watch(0, Kind::Machines),
            Deed::Look(0, 0),
            Deed::Borrower(Borrower::Taint(0)),
            Deed::Carry(0),
            Deed::Carry(0),
        ],
        Mutation::GuardOff => relabelled(),
        // The successor's clock is an hour behind.
        Mutation::RenewNow => vec![Deed::Skew(-3_600), Deed::TakeOver],
        // A typing error, a restart, and then the lender's own pod goes.
        Mutation::LastValidForgotten => vec![
            Deed::Lender(Lender::Edit(Edit::Large)),
            Deed::Catch(0),
            Deed::Status(0),
            Deed::Lender(Lender::Foreign(0)),
            Deed::Catch(0),
            Deed::Do(0, 0),
            Deed::Lender(Lender::Edit(Edit::Broken)),
            Deed::Kill(0),
            Deed::Lender(Lender::Foreign(0)),
        ],
        Mutation::HeldForgotten => held(),
        Mutation::NothingTolerated => [
            vec![Deed::Borrower(Borrower::Schedule(TOLERANT))],
            copied(TOLERANT),
            closed(),
            vec![Deed::Pass(610), Deed::Do(0, 0)],
        ]
        .concat(),
        Mutation::LeftIsGone => vec![
            Deed::Borrower(Borrower::Spoil(0, Spoilt::Missing(keys::VIRTUAL_CLUSTER))),
            Deed::Catch(0),
            Deed::Do(0, 0),
        ],
        // Its pod is adopted, and loses its virtual one.
        Mutation::NotAdopted => vec![
            Deed::Reapply,
            Deed::Catch(0),
            Deed::Do(0, 0),
            Deed::Do(0, 1),
            Deed::Pod(0, 0),
            Deed::Borrower(Borrower::Delete(0, Deletion::Forced)),
            Deed::Catch(0),
            Deed::Do(0, 0),
        ],
    }
}

/// Something of every kind that a process would do.
pub(super) fn busy() -> Vec<Deed> {
    let end = Deed::Borrower(Borrower::Delete(1, Deletion::Graceful));
    let events = vec![
        Deed::Lender(Lender::Relabel(0, Pool::None)),
        Deed::Lender(Lender::Relabel(2, Pool::Gpu)),
        Deed::Lender(Lender::Cordon(1)),
        Deed::Lender(Lender::Foreign(1)),
        Deed::Lender(Lender::Edit(Edit::Large)),
        Deed::Borrower(Borrower::Strip(0)),
        Deed::Catch(0),
        Deed::Status(0),
    ];
    let looks = (0..NODES).map(|node| Deed::Do(0, node)).chain((0..SLOTS).map(|slot| Deed::Pod(0, slot)));
    let looks: Vec<Deed> = looks.chain([Deed::End(0, 1), Deed::Pass(31)]).collect();
    [
        vec![Deed::Borrower(Borrower::Schedule(1))],
        copied(1),
        events,
        looks.clone(),
        vec![end, Deed::Kill(0), Deed::Catch(0)],
        looks.clone(),
        vec![Deed::Pass(130), Deed::Catch(0)],
        looks,
    ]
    .concat()
}

/// Both machines are taken out of the pool, and that is held.
fn both_held() -> Vec<Deed> {
    let looks = [Deed::Do(0, 0), Deed::Do(0, 1)];
    let relabelled = [0, 1].map(|node| Deed::Lender(Lender::Relabel(node, Pool::None)));
    let gathers = [Deed::Pass(6)];
    relabelled.into_iter().chain([Deed::Watch(0, Kind::Machines)]).chain(looks).chain(gathers).chain(looks).collect()
}

/// That, and the process is started again.
fn held() -> Vec<Deed> {
    let look = Deed::Do(0, 1);
    [both_held(), vec![Deed::Kill(0), Deed::Catch(0), look, Deed::Pass(6), look]].concat()
}

/// That is confirmed, and the process is started again before any of it has happened.
pub(super) fn confirmed() -> Vec<Deed> {
    let looks = [Deed::Do(0, 0), Deed::Do(0, 1)];
    let restarted = [Deed::Confirm(0), Deed::Kill(0), Deed::Catch(0)];
    [both_held(), restarted.to_vec(), looks.to_vec(), vec![Deed::Pass(6)], looks.to_vec()].concat()
}

/// The windows of both machines close without an announcement, and that is held. Then the lender cordons the one.
pub(super) fn closed_unannounced() -> Vec<Deed> {
    let looks = [Deed::Do(0, 0), Deed::Do(0, 1)];
    // The time of the boundary, then the grace, and what acts are gathered for.
    let closes = [700, 610, 6].into_iter().flat_map(|seconds| [Deed::Pass(seconds), looks[0], looks[1]]);
    let edited = [Deed::Lender(Lender::Edit(Edit::Sudden)), Deed::Catch(0)];
    let cordoned = [
        Deed::Lender(Lender::Cordon(0)),
        Deed::Watch(0, Kind::Machines),
        // Its second look comes later than the review of what is held.
        Deed::Look(0, 0),
        Deed::Carry(0),
        Deed::Carry(0),
        Deed::Pass(10),
        Deed::Do(0, 1),
    ];
    edited.into_iter().chain(looks).chain(closes).chain(cordoned).collect()
}

/// A process looks at a pod for as long as two looks, the gathering of the guard and a deletion take. `apart` is how many
/// seconds lie between the two looks.
fn orphan(at: usize, slot: usize, apart: u64) -> Vec<Deed> {
    let pod = Deed::Pod(at, slot);
    vec![pod, Deed::Pass(apart), pod, Deed::Pass(6), pod]
}

/// The three steps of the top-down half, and the kubelet.
fn copied(slot: usize) -> Vec<Deed> {
    let step = Deed::Borrower(Borrower::TopDown(slot));
    vec![step, step, step, Deed::Borrower(Borrower::Kubelet(slot))]
}

/// A pod is made after the last backup, and the virtual cluster goes back to that with a raised revision.
fn restored() -> Vec<Deed> {
    let made = vec![Deed::Borrower(Borrower::Schedule(1))];
    let then = vec![
        Deed::Catch(0),
        Deed::Pod(0, 1),
        Deed::Pass(70),
        Deed::Restore(Side::Virtual, Revision::Raised),
        Deed::Catch(0),
    ];
    [made, copied(1), then, orphan(0, 1, 31)].concat()
}

/// The one cluster goes back, and before that is confirmed the other one would, to a backup of a moment ago. Then a user edits a node.
pub(super) fn restored_twice() -> Vec<Deed> {
    vec![
        Deed::Pass(61),
        Deed::Restore(Side::Physical, Revision::Lower),
        Deed::Pass(130),
        Deed::Catch(0),
        Deed::Restore(Side::Virtual, Revision::Lower),
        Deed::Borrower(Borrower::Spoil(0, Spoilt::Facts)),
    ]
}

/// The windows of the first node are announced to close, and close: its grace of ten minutes has begun.
fn closed() -> Vec<Deed> {
    vec![
        Deed::Lender(Lender::Edit(Edit::Closing)),
        Deed::Catch(0),
        Deed::Status(0),
        Deed::Do(0, 0),
        Deed::Pass(700),
        Deed::Do(0, 0),
    ]
}

/// Windows close with a grace of ten minutes. Meanwhile users take the taint off, or its time, also while no process looks. The second
/// part is behind the end of the grace.
pub(super) fn untainted() -> (Vec<Deed>, Vec<Deed>) {
    let look = [Deed::Watch(0, Kind::Lent), Deed::Do(0, 0)];
    let down = vec![Deed::Kill(0), Deed::Borrower(Borrower::Untaint(0)), Deed::Catch(0), Deed::Do(0, 0)];
    let before = [
        closed(),
        vec![Deed::Pass(300), Deed::Borrower(Borrower::Untaint(0))],
        look.to_vec(),
        down,
        vec![Deed::Borrower(Borrower::Timeless(0))],
        look.to_vec(),
        vec![Deed::Pass(290), Deed::Do(0, 0)],
    ];
    (before.concat(), vec![Deed::Pass(20), Deed::Do(0, 0)])
}

/// A job of the lender takes both machines out of the pool.
fn relabelled() -> Vec<Deed> {
    let end = Deed::Borrower(Borrower::TopDown(0));
    vec![
        Deed::Lender(Lender::Relabel(0, Pool::None)),
        Deed::Lender(Lender::Relabel(1, Pool::None)),
        Deed::Watch(0, Kind::Machines),
        Deed::Do(0, 1),
        Deed::Do(0, 0),
        end,
        Deed::Borrower(Borrower::Kubelet(0)),
        end,
        end,
        Deed::Catch(0),
        Deed::Do(0, 0),
    ]
}
