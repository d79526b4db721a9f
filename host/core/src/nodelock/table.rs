//! The state table of the lock (`node-lock-and-bind.md` A10, as decisions N5 and N6 change it), made by calling
//! [`decide`] itself: so the documentation cannot differ from the code.

use std::fmt::Write;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::decide::{ClaimDecision, decide};
use super::holder::{Clock, Facts, GRACE, Holder, Pod, Takeover};
use super::record::{Lock, Note, PodId};
use crate::names::LockValue;

const NODE: &str = "gpu-1";
const TTL: Duration = Duration::from_secs(300);
const STEADY: Duration = Duration::from_secs(100_000);

/// What a row begins with.
struct RowStart {
    /// The lock on the node, in words.
    stands: &'static str,
    /// What is known of the pod that it names, in words.
    known: &'static str,
    value: Option<String>,
    /// With our note.
    noted: bool,
    /// The attempt that wrote it should have ended.
    late: bool,
    holder: Holder,
    /// The API server was asked for the pod.
    confirmed: bool,
    /// The API server was asked for the pods of the node.
    listed: bool,
    /// A pod that is bound here and waits for its device plugin.
    waiting: Option<Pod>,
    /// The last lock was that of pod B, and the outcome of that pod is not known.
    left: bool,
    /// Versions of the node were passed over.
    missed: bool,
}

/// The moment of the table.
fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(490_000)
}

fn pod(name: &str, uid: &str) -> Pod {
    Pod {
        key: PodId { namespace: "default".into(), name: name.into(), uid: uid.into() },
        version: "1".into(),
        created: Timestamp::UNIX_EPOCH,
        node: None,
        finished: false,
        started: false,
        deleting: false,
        revoked: None,
    }
}

fn seen(change: impl FnOnce(&mut Pod)) -> Holder {
    let mut holder = pod("b", "uid-b");
    change(&mut holder);
    Holder::Seen(holder)
}

fn bound(change: impl FnOnce(&mut Pod)) -> Holder {
    seen(|pod| {
        pod.node = Some(NODE.into());
        change(pod);
    })
}

fn rows() -> Vec<RowStart> {
    let aged = |seconds: i64| now() - SignedDuration::from_secs(seconds);
    let of_b = |seconds: i64| Some(format!("{},default,b", aged(seconds)));
    let (fresh, old) = (60, 600);
    let b = "a lock of pod B";
    let row = |stands, known, value, holder| RowStart {
        stands,
        known,
        value,
        noted: true,
        late: false,
        holder,
        confirmed: true,
        listed: true,
        waiting: None,
        left: false,
        missed: false,
    };
    let gone = |seconds: u64| Holder::Gone { since: STEADY - Duration::from_secs(seconds) };
    let waits = || {
        let mut waits = pod("c", "uid-c");
        waits.node = Some(NODE.into());
        Some(waits)
    };
    let legacy = |seconds: i64| Some(aged(seconds).to_string());
    let value = of_b(fresh).map(LockValue::from);
    vec![
        row("nothing", "-", None, Holder::Unconfirmed),
        RowStart {
            waiting: waits(),
            ..row("nothing", "pod C is bound here and has not started", None, Holder::Unconfirmed)
        },
        RowStart {
            left: true,
            ..row(
                "nothing; the last lock was that of pod B",
                "not bound, according to the cache",
                None,
                Holder::Unconfirmed,
            )
        },
        RowStart {
            missed: true,
            ..row(
                "nothing; versions of the node were not seen",
                "the pods of the node were not listed",
                None,
                Holder::Unconfirmed,
            )
        },
        row(b, "not bound", of_b(fresh), seen(|_| {})),
        RowStart {
            late: true,
            ..row("the same, 5 s after the deadline of its attempt", "not bound", of_b(fresh), seen(|_| {}))
        },
        row("the same, expired", "not bound", of_b(old), seen(|_| {})),
        row(b, "not bound, this lock was revoked", of_b(fresh), seen(|pod| pod.revoked = value.clone())),
        row(b, "not bound, being deleted", of_b(fresh), seen(|pod| pod.deleting = true)),
        row(b, "bound here, not started", of_b(fresh), bound(|_| {})),
        row(b, "bound here, not started, being deleted", of_b(fresh), bound(|pod| pod.deleting = true)),
        row("the same, expired", "bound here, not started", of_b(old), bound(|_| {})),
        row(b, "bound here, started", of_b(fresh), bound(|pod| pod.started = true)),
        row(b, "bound elsewhere", of_b(fresh), bound(|pod| pod.node = Some("gpu-2".into()))),
        row(b, "finished", of_b(fresh), bound(|pod| pod.finished = true)),
        row(b, "gone for 2 s", of_b(fresh), gone(2)),
        row(b, "gone for 5 s", of_b(fresh), gone(5)),
        row(b, "not in the cache", of_b(fresh), Holder::Unconfirmed),
        RowStart {
            waiting: waits(),
            ..row(b, "gone, but pod C is bound here and has not started", of_b(fresh), gone(60))
        },
        RowStart {
            noted: false,
            confirmed: false,
            ..row(
                "a lock of pod B without topoloom's note",
                "started, according to the cache",
                of_b(fresh),
                bound(|pod| pod.started = true),
            )
        },
        row("a bare time", "-", legacy(fresh), Holder::Unconfirmed),
        RowStart {
            listed: false,
            ..row("a bare time, expired", "the pods of the node were not listed", legacy(old), Holder::Unconfirmed)
        },
        row("a bare time, expired", "no pod of the node waits", legacy(old), Holder::Unconfirmed),
        row("a time in the future", "-", legacy(-600), Holder::Unconfirmed),
        row("a value that cannot be read", "first seen now", Some("lock".to_owned()), Holder::Unconfirmed),
    ]
}

fn decided(row: &RowStart, claimant: &Pod) -> ClaimDecision {
    let note = |value: &str| Note {
        value: value.into(),
        uid: "uid-b".into(),
        pod: None,
        attempt: "1".into(),
        instance: "x".into(),
        deadline: now() + if row.late { SignedDuration::from_secs(-30) } else { SignedDuration::from_secs(28) },
    };
    let lock = row.value.as_deref().map(|value| Lock::read(value, row.noted.then(|| note(value))));
    let waiting: Vec<Pod> = row.waiting.iter().cloned().collect();
    let left = row.left.then(|| pod("b", "uid-b").key.named());
    let facts = Facts {
        node: NODE,
        holder: &row.holder,
        confirmed: row.confirmed,
        waiting: &waiting,
        listed: row.listed,
        left: left.as_ref(),
        missed: row.missed,
        first_seen: if row.late { STEADY - GRACE } else { STEADY },
        clock: Clock { wall: now(), steady: STEADY },
        ttl: TTL,
        takeover: Takeover::State,
    };
    decide(lock.as_ref(), claimant, &facts)
}

fn words(decision: &ClaimDecision) -> String {
    match decision {
        ClaimDecision::Acquire => "takes the lock".to_owned(),
        ClaimDecision::AlreadyMine { noted: true } => "takes the lock with a new value".to_owned(),
        ClaimDecision::AlreadyMine { noted: false } => {
            "reads its own pod from the API server, then takes the lock with a new value".to_owned()
        }
        ClaimDecision::HeldBy(held) => format!("waits: {} (`{}`)", held.why, held.why.word()),
        ClaimDecision::TakeOver { reason, revoke: None } => {
            format!("takes over the lock: {reason} (`{}`)", reason.word())
        }
        ClaimDecision::TakeOver { reason, revoke: Some(_) } => {
            format!("revokes it from pod B, then takes over the lock: {reason} (`{}`)", reason.word())
        }
    }
}

/// The table, as Markdown: the lock, what is known, what another pod does, and what pod B itself does.
#[must_use]
pub fn table() -> String {
    let mut text = String::from(
        "| on the node | what is known of its pod | another pod | pod B itself |\n| --- | --- | --- | --- |\n",
    );
    for row in rows() {
        let other = words(&decided(&row, &pod("a", "uid-a")));
        // A pod that is bound or gone makes no attempt.
        let asks = !matches!(&row.holder, Holder::Seen(pod) if pod.node.is_some() || pod.deleting)
            && !matches!(row.holder, Holder::Gone { .. });
        let own = if asks { words(&decided(&row, &pod("b", "uid-b"))) } else { "-".to_owned() };
        // Writing to a string never fails.
        let _ = writeln!(text, "| {} | {} | {other} | {own} |", row.stands, row.known);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a10_the_table_has_a_row_for_every_reason_to_wait_and_to_take() {
        let table = table();
        for word in [
            "binding",
            "allocating",
            "stuck",
            "vanished",
            "nameless",
            "unparsable",
            "unrecorded",
            "unconfirmed",
            "unlisted",
        ] {
            assert!(table.contains(&format!("(`{word}`)")), "{word}: {table}");
        }
        for word in ["gone", "finished", "elsewhere", "started", "terminating", "revoked", "expired", "abandoned"] {
            let taken = |line: &str| line.contains("takes over the lock: ") && line.contains(&format!("(`{word}`)"));
            assert!(table.lines().any(taken), "{word}: {table}");
        }
        assert_eq!(table.lines().count(), 2 + rows().len());
    }
}
