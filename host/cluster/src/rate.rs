//! The rate of requests, where the operator limits it (`--kube-api-qps`, `--kube-api-burst`).
//!
//! One bucket for all clients of the process but those of leases, whose requests must not wait (decision M3).

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::Request;
use tokio::time::Instant;
use topoloom_core::queue::Bucket;
use tower::{Layer, Service};

/// A limit, or none. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct RateLimit {
    bucket: Option<Arc<Mutex<(Instant, Bucket)>>>,
}

impl RateLimit {
    /// So many requests per second, and so many at once after a pause. `qps` is finite and above zero.
    #[must_use]
    pub fn new(qps: f32, burst: u32) -> Self {
        let interval = Duration::try_from_secs_f32(1.0 / qps).unwrap_or(Duration::MAX / 2);
        Self { bucket: Some(Arc::new(Mutex::new((Instant::now(), Bucket::new(interval, burst))))) }
    }

    /// Takes a place in the line; says how long it is.
    fn reserve(&self) -> Duration {
        let Some(bucket) = &self.bucket else { return Duration::ZERO };
        let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let now = bucket.0.elapsed();
        bucket.1.reserve(now)
    }
}

impl<S> Layer<S> for RateLimit {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Limited<S> {
        Limited { limit: self.clone(), inner }
    }
}

/// A client whose requests wait for their turn.
#[derive(Debug, Clone)]
pub struct Limited<S> {
    limit: RateLimit,
    inner: S,
}

impl<S, B> Service<Request<B>> for Limited<S>
where
    S: Service<Request<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let wait = self.limit.reserve();
        let fresh = self.inner.clone();
        // The one that was made ready, and another in its place.
        let mut inner = std::mem::replace(&mut self.inner, fresh);
        if wait.is_zero() {
            return Box::pin(inner.call(request));
        }
        Box::pin(async move {
            tokio::time::sleep(wait).await;
            inner.call(request).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn times(limit: RateLimit, requests: usize) -> Vec<u64> {
        let began = Instant::now();
        let mut client = limit.layer(tower::service_fn(async |_: Request<()>| Ok::<_, std::io::Error>(())));
        let all = (0..requests).map(|_| client.call(Request::new(()))).collect::<Vec<_>>();
        let done = all.into_iter().map(async |answer| {
            answer.await.unwrap();
            u64::try_from(began.elapsed().as_millis()).unwrap()
        });
        futures::future::join_all(done).await
    }

    #[tokio::test(start_paused = true)]
    async fn requests_beyond_the_burst_wait_for_their_turn() {
        // A timer may fire a millisecond late.
        let tenths = |times: Vec<u64>| times.into_iter().map(|millis| (millis + 5) / 10).collect::<Vec<_>>();
        assert_eq!(tenths(times(RateLimit::new(10.0, 3), 5).await), [0, 0, 0, 10, 20]);
        assert_eq!(times(RateLimit::default(), 5).await, [0; 5]);
    }
}
