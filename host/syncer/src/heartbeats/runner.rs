//! The task that renews: it sends what the book orders, and brings it the answers.
//!
//! Owns the requests under way, all within this one task, and the time at which it looks again. Never decides.
//!
//! # Failure story
//!
//! When it is stopped, no further request is sent, those under way may end, and the leases stay as they are: another replica
//! renews them, or node-lifecycle sees them expire. When its future is dropped, so are the requests.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::book::{BeatNews, Done, Job};
use super::options::PATIENCE;
use super::requests::Requests;
use super::{Notify, Shared};

/// Where there is nothing to wait for: a change notifies.
pub(super) const LONG: Duration = Duration::from_secs(3600);

/// Renews the leases of a binding while it runs.
pub struct Renewer {
    pub(super) shared: Arc<Shared>,
    pub(super) notify: Notify,
}

impl Renewer {
    /// Renews until it is stopped. Then no request is sent any more, and those under way have five seconds to end.
    pub async fn run(self, stop: CancellationToken) {
        let Self { shared, notify } = self;
        let ends = Ends(&shared);
        let mut under_way = FuturesUnordered::new();
        let timer = tokio::time::sleep(LONG);
        tokio::pin!(timer);
        loop {
            let (jobs, wait) = shared.orders();
            for job in jobs {
                under_way.push(send(&shared.requests, job));
            }
            report(&shared, &notify);
            timer.as_mut().reset(Instant::now() + wait);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(done) = under_way.next(), if !under_way.is_empty() => shared.answered(done),
                () = shared.changed.notified() => {}
                () = &mut timer => {}
            }
        }
        let rest = async {
            while let Some(done) = under_way.next().await {
                shared.answered(done);
            }
        };
        if tokio::time::timeout(PATIENCE, rest).await.is_err() {
            tracing::debug!("requests for leases of virtual nodes were cut off");
        }
        report(&shared, &notify);
        drop(ends);
    }
}

async fn send(requests: &Requests, job: Job) -> Done {
    let Job { node, sent, at, order } = job;
    Done { node, sent, at, answer: requests.send(order).await }
}

/// Reports what happened, into the log and to the caller, while the book is not locked.
fn report(shared: &Shared, notify: &Notify) {
    for news in shared.news() {
        match &news {
            BeatNews::Foreign { node, why } => {
                tracing::warn!(node = &**node, "the lease of a virtual node is not renewed, since {why}");
            }
            BeatNews::Skew { node, ahead } => {
                let ahead = ahead.as_secs();
                tracing::warn!(node = &**node, "a lease was renewed {ahead} s ahead of the clock of this replica");
            }
            BeatNews::Refused { node, refusal, failing } => {
                tracing::warn!(node = &**node, failing, error = %refusal, "the lease of a virtual node was not renewed");
            }
            // The line about the lease that met it first says so, and who is notified says more.
            BeatNews::NoRight { .. } | BeatNews::Right { .. } => {}
        }
        notify(news);
    }
}

/// Ends the waiting of those who stop a lease when the task ends, however it does.
struct Ends<'a>(&'a Shared);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
