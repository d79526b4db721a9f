//! How long an answer may take, and how large it may be.
//!
//! Owns the bounds of one request to an API server that another party runs: the whole answer, with its body, has to be there in
//! time, and what never ends is cut off. A watch and a stream (a followed log, an upgraded connection) have no such bounds: their
//! connection has its own. [`answered`] bounds one request of any client, for callers whose work must not wait as long as the
//! client would.
//!
//! # Failure story
//!
//! An answer that is late fails as one that did not come, and its connection is closed. What was written may have been done: the
//! caller reads before it decides again, as after any lost answer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::UPGRADE;
use http::{Request, Response};
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use tower::{BoxError, Layer, Service};

use super::refusal::{Refusal, RefusalReason};

/// The largest answer that is read, in bytes. A page of 500 pods has some ten MiB.
pub const LARGEST: u64 = 256 << 20;

/// An answer that was cut off.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CutOff {
    /// It took too long.
    #[error("there was no complete answer within {0:?}")]
    Late(Duration),
    /// It was too large.
    #[error("the answer has more than {} MiB", LARGEST >> 20)]
    Large,
}

/// The answer to one request, if it comes within this time. The request is dropped otherwise.
///
/// # Errors
/// The refusal; or that there was no answer in time: then it is not known whether a write was done.
pub async fn answered<T, E>(patience: Duration, request: impl Future<Output = Result<T, E>>) -> Result<T, Refusal>
where
    E: Into<Refusal>,
{
    match tokio::time::timeout(patience, request).await {
        Ok(answer) => answer.map_err(Into::into),
        Err(_) => Err(Refusal {
            reason: RefusalReason::Unreachable,
            message: format!("the API server did not answer within {patience:?}"),
            retry_after: None,
        }),
    }
}

/// Bounds the answers of a client; `None` bounds nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Deadline(pub Option<Duration>);

impl<S> Layer<S> for Deadline {
    type Service = Bounded<S>;

    fn layer(&self, inner: S) -> Bounded<S> {
        Bounded { time: self.0, inner }
    }
}

/// A client whose answers are bounded.
#[derive(Debug, Clone)]
pub struct Bounded<S> {
    time: Option<Duration>,
    inner: S,
}

impl<S, A, B> Service<Request<A>> for Bounded<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Error: Into<BoxError> + Send + 'static,
    S::Future: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<BoundedBody<B>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let time = self.time.filter(|_| !is_stream(&request));
        let answer = self.inner.call(request);
        Box::pin(async move {
            let Some(time) = time else {
                return Ok(answer
                    .await
                    .map_err(Into::<BoxError>::into)?
                    .map(|inner| BoundedBody { inner, bounds: None }));
            };
            let ends = Instant::now() + time;
            let late = |_| BoxError::from(CutOff::Late(time));
            let answer = tokio::time::timeout_at(ends, answer).await.map_err(late)?.map_err(Into::<BoxError>::into)?;
            let ends = Box::pin(tokio::time::sleep_until(ends));
            Ok(answer.map(|inner| BoundedBody { inner, bounds: Some(Bounds { time, ends, left: LARGEST }) }))
        })
    }
}

/// Whether its answer is meant to go on.
fn is_stream<A>(request: &Request<A>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let says = |part: &str| matches!(part, "watch" | "watch=true" | "watch=1" | "follow=true" | "follow=1");
    query.split('&').any(says) || request.headers().contains_key(UPGRADE)
}

/// The body of an answer.
#[derive(Debug)]
pub struct BoundedBody<B> {
    inner: B,
    bounds: Option<Bounds>,
}

#[derive(Debug)]
struct Bounds {
    time: Duration,
    ends: Pin<Box<Sleep>>,
    left: u64,
}

impl<B> Body for BoundedBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Self { inner, bounds } = &mut *self;
        let frame = Pin::new(inner).poll_frame(context).map_err(Into::into);
        let Some(bounds) = bounds else { return frame };
        match &frame {
            Poll::Pending if bounds.ends.as_mut().poll(context).is_ready() => {
                return Poll::Ready(Some(Err(CutOff::Late(bounds.time).into())));
            }
            // What arrives all the time is late, too.
            Poll::Ready(Some(Ok(_))) if bounds.ends.deadline() <= Instant::now() => {
                return Poll::Ready(Some(Err(CutOff::Late(bounds.time).into())));
            }
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, |data| u64::try_from(data.len()).unwrap_or(u64::MAX));
                match bounds.left.checked_sub(bytes) {
                    Some(left) => bounds.left = left,
                    None => return Poll::Ready(Some(Err(CutOff::Large.into()))),
                }
            }
            _ => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream::{self, StreamExt};
    use http_body_util::{BodyExt, StreamBody};
    use tower::ServiceExt;

    use super::*;

    const S: Duration = Duration::from_secs(1);

    /// After how long a request fails, or ends, and with what.
    async fn asked(uri: &str, head: Duration, every: Duration, piece: usize) -> (u64, String) {
        let began = Instant::now();
        let serve = move |_: Request<()>| async move {
            tokio::time::sleep(head).await;
            let data = Bytes::from(vec![0; piece]);
            let pieces = stream::unfold(0_u32, move |count| {
                let data = data.clone();
                async move {
                    tokio::time::sleep(every).await;
                    (count < 100).then(|| (Ok::<_, Infallible>(Frame::data(data)), count + 1))
                }
            });
            Ok::<_, Infallible>(Response::new(StreamBody::new(pieces.boxed())))
        };
        let client = Deadline(Some(30 * S)).layer(tower::service_fn(serve));
        let answer = async { client.oneshot(Request::get(uri).body(()).unwrap()).await?.into_body().collect().await };
        let words = answer.await.map_or_else(|error| error.to_string(), |body| body.to_bytes().len().to_string());
        (began.elapsed().as_secs(), words)
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_has_half_a_minute_and_a_watch_has_no_end() {
        let late = "there was no complete answer within 30s".to_owned();
        assert_eq!(asked("/api/v1/nodes", 31 * S, S, 1).await, (30, late.clone()), "no head");
        assert_eq!(asked("/api/v1/nodes", S, 60 * S, 1).await, (30, late.clone()), "no body");
        assert_eq!(asked("/api/v1/nodes", S, S, 1).await, (30, late), "a body that trickles");
        assert_eq!(asked("/api/v1/nodes", S, S / 10, 1).await, (11, "100".to_owned()));
        assert_eq!(asked("/api/v1/nodes?limit=5&watch=true", 40 * S, S, 1).await.1, "100");
        assert_eq!(asked("/api/v1/namespaces/n/pods/p/log?follow=true", 40 * S, S, 1).await.1, "100");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_without_an_end_is_cut_off_by_its_size() {
        let words = asked("/api/v1/nodes", Duration::ZERO, Duration::ZERO, 4 << 20).await.1;
        assert_eq!(words, "the answer has more than 256 MiB");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_without_an_answer_is_refused_as_unreachable_in_time() {
        let begun = Instant::now();
        let never = answered(10 * S, std::future::pending::<Result<(), Refusal>>()).await.unwrap_err();
        assert_eq!((begun.elapsed(), never.reason), (10 * S, RefusalReason::Unreachable));
        assert_eq!(never.message, "the API server did not answer within 10s");
        let status = kube::core::Status { code: 404, reason: "NotFound".to_owned(), ..kube::core::Status::default() };
        let missing = async { Err::<(), _>(kube::Error::Api(Box::new(status))) };
        assert_eq!(answered(S, missing).await.unwrap_err().reason, RefusalReason::NotFound);
        assert_eq!(answered(S, async { Ok::<_, kube::Error>(7) }).await, Ok(7));
    }
}
