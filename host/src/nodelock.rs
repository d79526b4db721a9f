//! The node lock at the API server: what `topoloom_core::nodelock` decides is read, written and waited for here.
//!
//! # What it promises
//!
//! * For one node and one key at most one pod is between its Binding and its device plugin's answer, whatever else binds by
//!   this protocol through this crate, in however many processes, and whenever any of them dies or stands still.
//! * A pod is bound only under a lock that names it, by its UID, at the moment at which the API server binds it.
//! * What a failed attempt wrote is taken back, or kept where it cannot be proved that the pod will not be bound under it:
//!   then [`lock::Report::kept`] says so, and the sweeper resolves it.
//!
//! # What it does not promise
//!
//! * An order between processes. Inside of one, pods get a node in the order in which they came.
//! * Anything about a scheduler that binds without looking at the lock, or takes locks away by age alone, or about a pod
//!   that is deleted by force while its device plugin is at work.
//!
//! # Rooms
//!
//! `wire` is what stands on objects, `pods` what is read of them, `requests` every request, `view` what is watched, `queue`
//! who is next, `carry` carries out what the pure part orders, and `lock` is the front that binds pods.

pub mod carry;
pub mod lock;
pub mod metrics;
pub mod pods;
pub mod queue;
pub mod requests;
pub mod sweeper;
pub mod view;
pub mod wire;

/// A number that nobody can guess.
#[must_use]
pub fn number() -> u32 {
    let mut bytes = [0; 4];
    match ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes) {
        Ok(()) => u32::from_le_bytes(bytes),
        // Without a source of chance: the process and the time are different enough from those of others.
        Err(_) => std::process::id() ^ jiff::Timestamp::now().subsec_nanosecond().unsigned_abs(),
    }
}
