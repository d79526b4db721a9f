//! The node lock at the API server: what `topoloom_core::nodelock` decides is read, written and waited for here.
//!
//! # What it promises
//!
//! * For one node and one key at most one pod is between its Binding and its device plugin's answer, however many
//!   processes bind by this protocol through this crate, and whenever any of them dies or is frozen.
//! * A pod is bound only under a lock that names it, by its UID, at the moment at which the API server binds it.
//! * What a failed attempt wrote is removed, or kept if it cannot be proved that the pod will not be bound under it:
//!   then [`lock::BindReport::kept`] is true, and the sweeper resolves it.
//!
//! # What it does not promise
//!
//! * An order between processes. Inside of one, pods get a node in the order in which they came.
//! * Anything about a scheduler that binds without looking at the lock, or takes over locks by age alone, or about a
//!   pod that is deleted by force while its device plugin is at work.
//!
//! # Rooms
//!
//! `wire` is what objects hold, `pods` what is read of pods, `requests` every request, `view` watches and notifies,
//! `queue` says which attempt is next, `crowd` how many may wait, `carry` carries out what the pure part orders, `lock`
//! is the front that binds pods, `plugin` that of a device plugin, and `sweeper` finds orphaned locks.
//!
//! `extender` (a feature) is the HTTP server for kube-scheduler.
//!
//! # By itself
//!
//! A scheduler in Rust that binds its own pods needs no host beside it, and of this crate no feature:
//!
//! ```no_run
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use prometheus_client::registry::Registry;
//! use topoloom_nodelock::carry::Carrier;
//! use topoloom_nodelock::lock::{NodeLock, Options};
//! use topoloom_nodelock::metrics::hold_histogram;
//! use topoloom_nodelock::requests::Requests;
//! use topoloom_nodelock::view::View;
//! use topoloom_core::nodelock::attempt::{BindFailure, Bound};
//! use topoloom_core::nodelock::needs::Backend;
//! use topoloom_core::nodelock::{PodId, Retry, Takeover};
//!
//! # async fn example(client: kube::Client, pod: PodId) {
//! let backends: Arc<[Backend]> = Backend::known().into();
//! let view = Arc::new(View::new(Arc::clone(&backends), hold_histogram(&mut Registry::default())));
//! let (watched, reads) = (Arc::clone(&view), client.clone());
//! tokio::spawn(async move { watched.watch(reads, |_| (), |_| ()).await });
//! view.synced().await;
//!
//! let carrier = Carrier::new(view, Requests::new(client, backends), "my-scheduler-0".into(), topoloom_nodelock::number());
//! let options = Options { ttl: Duration::from_secs(300), takeover: Takeover::State, retry: Retry::CLASSIC };
//! let lock = NodeLock::new(carrier, options);
//! let report = lock.bind(pod, "gpu-1".into(), Duration::from_secs(28)).await;
//! match report.result {
//!     Ok(Bound::Now | Bound::Before) => println!("bound after {:?}", report.waited),
//!     // Another pod held the node until the end: try again, here or on another node.
//!     Err(failure) if failure.is_contention() => println!("{failure}"),
//!     // The pod is another one, gone, or bound elsewhere: it is not to be tried again.
//!     Err(BindFailure::PodGone | BindFailure::PodReplaced(_) | BindFailure::PodElsewhere(_)) => {}
//!     Err(failure) => println!("{failure}{}", if report.kept { "; its lock may be left" } else { "" }),
//! }
//! lock.finish().await; // before the process ends
//! # }
//! ```

pub mod carry;
pub mod crowd;
#[cfg(feature = "extender")]
pub mod extender;
pub mod lock;
pub mod metrics;
pub mod options;
pub mod plugin;
pub mod pods;
pub mod queue;
pub mod requests;
pub mod sweeper;
pub mod view;
pub mod wire;

/// A number that cannot be guessed.
#[must_use]
pub fn number() -> u32 {
    let mut bytes = [0; 4];
    match ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes) {
        Ok(()) => u32::from_le_bytes(bytes),
        // Without a source of chance: the process and the time are different enough from those of others.
        Err(_) => std::process::id() ^ jiff::Timestamp::now().subsec_nanosecond().unsigned_abs(),
    }
}

/// A number from 0 up to 1, as hard to guess.
fn random() -> f64 {
    f64::from(number()) / (f64::from(u32::MAX) + 1.0)
}
