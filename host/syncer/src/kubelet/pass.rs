//! A stream, passed on: bytes between a caller and the API server of the physical cluster.
//!
//! Owns the end of each stream and how fast it goes. Each direction reads no more than the other side has taken, so a side that does
//! not read holds up its own stream and no other; 16 KiB per direction are under way, and 64 KiB of a log. Bytes are not looked at.
//!
//! | what ends a stream | when |
//! |---|---|
//! | one of its sides has closed, and the other one, too | at once |
//! | one of its sides has closed its half, and the other half is silent | 1 min |
//! | nothing was passed on | 4 h, as at a kubelet |
//! | its binding lost the connection, or the server stops | at once, also where a side does not read |
//! | a connection broke | at once |
//!
//! # Failure story
//!
//! A stream that is cut off is closed on both sides without a farewell: a log that was cut off must not look as if it were whole.
//!
//! A machine of the physical cluster that is gone ends its streams within minutes: the kernel asks for it. The machine of a caller does
//! not: its streams end when something is to be passed on to it, and a silent one after 4 h. Callers are API servers, which ask by
//! themselves.

use std::fmt;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use futures::Stream;
use http_body_util::BodyExt as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use topoloom_cluster::client::chain;

/// How long a stream may pass nothing on.
pub(super) const SILENCE: Duration = Duration::from_secs(4 * 60 * 60);
/// The same after one side has closed its half.
const HALF_CLOSED: Duration = Duration::from_secs(60);
/// How much is read at once.
const PIECE: usize = 16 << 10;

/// How a stream has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// Both sides have closed it.
    Closed,
    /// One of its connections broke.
    Broken,
    /// Nothing was passed on for too long.
    Silent,
    /// The binding has lost its connection.
    Binding,
    /// The server stops.
    Server,
}

impl fmt::Display for StreamEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "closed",
            Self::Broken => "a connection broke",
            Self::Silent => "nothing was passed on for too long",
            Self::Binding => "the binding has lost its connection to the physical cluster",
            Self::Server => "the server stops",
        })
    }
}

/// What ends a stream from outside.
#[derive(Debug, Clone)]
pub(super) struct Ends {
    pub(super) binding: CancellationToken,
    pub(super) server: CancellationToken,
}

impl Ends {
    /// Resolves when one of them does.
    pub(super) async fn ended(&self) -> StreamEnd {
        tokio::select! {
            () = self.server.cancelled() => StreamEnd::Server,
            () = self.binding.cancelled() => StreamEnd::Binding,
        }
    }
}

/// Passes bytes on in both directions until the stream ends.
pub(super) async fn both_ways<C, P>(caller: C, physical: P, ends: &Ends) -> StreamEnd
where
    C: AsyncRead + AsyncWrite + Unpin,
    P: AsyncRead + AsyncWrite + Unpin,
{
    let quiet = Quiet::default();
    let (from_caller, to_caller) = tokio::io::split(caller);
    let (from_physical, to_physical) = tokio::io::split(physical);
    let both = async {
        tokio::try_join!(half(from_caller, to_physical, &quiet), half(from_physical, to_caller, &quiet)).map(drop)
    };
    tokio::select! {
        biased;
        end = ends.ended() => end,
        passed = both => if passed.is_ok() { StreamEnd::Closed } else { StreamEnd::Broken },
        () = quiet.for_too_long() => StreamEnd::Silent,
    }
}

/// One direction, until its source has closed it.
async fn half(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, quiet: &Quiet) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let length = from.read(&mut piece).await?;
        if length == 0 {
            // First: a side that does not read may not take the end either.
            quiet.half_closed();
            to.shutdown().await?;
            return Ok(());
        }
        quiet.ends();
        to.write_all(piece.get(..length).unwrap_or_default()).await?;
        to.flush().await?;
        quiet.ends();
    }
}

/// Since when nothing was passed on.
#[derive(Debug)]
struct Quiet {
    state: Mutex<Silence>,
    shortened: Notify,
}

#[derive(Debug)]
struct Silence {
    since: Instant,
    most: Duration,
}

impl Default for Quiet {
    fn default() -> Self {
        Self { state: Mutex::new(Silence { since: Instant::now(), most: SILENCE }), shortened: Notify::new() }
    }
}

impl Quiet {
    fn state(&self) -> MutexGuard<'_, Silence> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something was passed on.
    fn ends(&self) {
        self.state().since = Instant::now();
    }

    /// One direction is over.
    fn half_closed(&self) {
        *self.state() = Silence { since: Instant::now(), most: HALF_CLOSED };
        self.shortened.notify_one();
    }

    async fn for_too_long(&self) {
        loop {
            let due = {
                let state = self.state();
                state.since + state.most
            };
            if due <= Instant::now() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep_until(due) => {}
                () = self.shortened.notified() => {}
            }
        }
    }
}

/// A log on its way, and what is held until its end.
pub(super) struct Log<H> {
    /// What the physical API server sends.
    pub(super) body: kube::client::Body,
    /// What ends it from outside.
    pub(super) ends: Ends,
    /// Dropped with it.
    #[expect(dead_code, reason = "it is held, not read: it counts the stream as open")]
    pub(super) held: H,
}

/// Why a log is not whole.
#[derive(Debug, thiserror::Error)]
pub(super) enum LogCut {
    /// From outside, or by silence.
    #[error("the log was cut off: {0}")]
    Ended(StreamEnd),
    /// The physical API server broke off.
    #[error("the log was cut off: {0}")]
    Broken(String),
}

impl<H: Send + 'static> Log<H> {
    /// Its pieces, read when they are asked for. A log that is cut off ends with an error.
    pub(super) fn pieces(self) -> impl Stream<Item = Result<Bytes, LogCut>> + Send + 'static {
        futures::stream::unfold(Some(self), |log| async move {
            let mut log = log?;
            match log.next().await {
                Some(Ok(piece)) => Some((Ok(piece), Some(log))),
                Some(Err(cut)) => Some((Err(cut), None)),
                None => None,
            }
        })
    }

    async fn next(&mut self) -> Option<Result<Bytes, LogCut>> {
        let Self { body, ends, held: _ } = self;
        loop {
            let frame = tokio::select! {
                biased;
                end = ends.ended() => return Some(Err(LogCut::Ended(end))),
                frame = tokio::time::timeout(SILENCE, body.frame()) => frame,
            };
            match frame {
                Err(_) => return Some(Err(LogCut::Ended(StreamEnd::Silent))),
                Ok(None) => return None,
                Ok(Some(Err(error))) => return Some(Err(LogCut::Broken(chain(&error)))),
                // Trailers are no part of a log.
                Ok(Some(Ok(frame))) => {
                    if let Ok(piece) = frame.into_data() {
                        return Some(Ok(piece));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use futures::{FutureExt as _, StreamExt as _};
    use tokio::io::{DuplexStream, ReadBuf, duplex};
    use tokio::task::JoinSet;

    use super::*;

    const S: Duration = Duration::from_secs(1);

    /// A stream between two sides, and its end.
    struct Stage {
        caller: DuplexStream,
        physical: DuplexStream,
        ends: Ends,
        passing: JoinSet<StreamEnd>,
    }

    impl Stage {
        fn new() -> Self {
            let ((caller, one), (other, physical)) = (duplex(1 << 10), duplex(1 << 10));
            let ends = Ends { binding: CancellationToken::new(), server: CancellationToken::new() };
            let (passing, given) = (JoinSet::new(), ends.clone());
            let mut stage = Self { caller, physical, ends, passing };
            stage.passing.spawn(async move { both_ways(one, other, &given).await });
            stage
        }

        async fn end(&mut self) -> StreamEnd {
            self.passing.join_next().await.unwrap().unwrap()
        }
    }

    async fn read(from: &mut DuplexStream, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        from.read_exact(&mut bytes).await.unwrap();
        bytes
    }

    #[tokio::test(start_paused = true)]
    async fn s26_bytes_are_passed_on_as_they_are_in_both_directions_with_the_end_of_each_half() {
        let mut stage = Stage::new();
        let all: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        let sent = all.clone();
        let Stage { caller, physical, .. } = &mut stage;
        let (wrote, got) = tokio::join!(caller.write_all(&sent), read(physical, all.len()));
        wrote.unwrap();
        assert_eq!(got, all);
        // The caller has said all, and still reads.
        caller.shutdown().await.unwrap();
        assert_eq!(physical.read(&mut [0; 8]).await.unwrap(), 0);
        physical.write_all(b"bye").await.unwrap();
        assert_eq!(read(caller, 3).await, b"bye");
        physical.shutdown().await.unwrap();
        assert_eq!(caller.read(&mut [0; 8]).await.unwrap(), 0);
        assert_eq!(stage.end().await, StreamEnd::Closed);
    }

    #[tokio::test(start_paused = true)]
    async fn s26_a_side_that_does_not_read_stops_the_other_from_sending_and_nothing_is_lost() {
        let mut stage = Stage::new();
        let all = vec![7; 1 << 20];
        let mut sending = std::pin::pin!(stage.caller.write_all(&all));
        // What is under way has an end.
        tokio::time::timeout(S, sending.as_mut()).await.unwrap_err();
        let (wrote, got) = tokio::join!(sending, read(&mut stage.physical, all.len()));
        wrote.unwrap();
        assert_eq!(got, all);
    }

    #[tokio::test(start_paused = true)]
    async fn s26_four_hours_without_a_byte_in_either_direction_end_a_stream() {
        let mut stage = Stage::new();
        let began = Instant::now();
        for _ in 0..3 {
            tokio::time::sleep(SILENCE - S).await;
            stage.physical.write_all(b"x").await.unwrap();
            assert_eq!(read(&mut stage.caller, 1).await, b"x");
        }
        assert_eq!(stage.end().await, StreamEnd::Silent);
        assert_eq!(began.elapsed().as_secs(), 4 * SILENCE.as_secs() - 3);
    }

    #[tokio::test(start_paused = true)]
    async fn s26_after_one_half_is_closed_the_other_one_may_be_silent_for_a_minute() {
        let mut stage = Stage::new();
        tokio::time::sleep(10 * S).await;
        stage.caller.shutdown().await.unwrap();
        let began = Instant::now();
        assert_eq!(stage.end().await, StreamEnd::Silent);
        assert_eq!(began.elapsed().as_secs(), HALF_CLOSED.as_secs());
    }

    /// A side that takes no end.
    struct Stubborn(DuplexStream);

    impl AsyncRead for Stubborn {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            into: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_read(context, into)
        }
    }

    impl AsyncWrite for Stubborn {
        fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.0).poll_write(context, bytes)
        }

        fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_flush(context)
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    #[tokio::test(start_paused = true)]
    async fn s26_a_side_that_does_not_take_the_end_of_the_other_half_has_a_minute_too() {
        let ((mut caller, one), (other, _physical)) = (duplex(1 << 10), duplex(1 << 10));
        let ends = Ends { binding: CancellationToken::new(), server: CancellationToken::new() };
        caller.shutdown().await.unwrap();
        let began = Instant::now();
        assert_eq!(both_ways(one, Stubborn(other), &ends).await, StreamEnd::Silent);
        assert_eq!(began.elapsed().as_secs(), HALF_CLOSED.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn s26_a_stream_ends_with_the_server_or_the_connection_of_its_binding_whatever_its_sides_do() {
        for (which, end) in [(0, StreamEnd::Server), (1, StreamEnd::Binding)] {
            let mut stage = Stage::new();
            tokio::time::sleep(S).await;
            assert!(stage.passing.join_next().now_or_never().is_none());
            [&stage.ends.server, &stage.ends.binding][which].cancel();
            assert_eq!(stage.end().await, end);
            assert_eq!(stage.caller.read(&mut [0; 8]).await.unwrap(), 0);
        }
    }

    fn log(body: kube::client::Body) -> (Log<()>, Ends) {
        let ends = Ends { binding: CancellationToken::new(), server: CancellationToken::new() };
        (Log { body, ends: ends.clone(), held: () }, ends)
    }

    #[tokio::test(start_paused = true)]
    async fn s26_a_log_is_whole_or_ends_with_an_error() {
        let (whole, _) = log(kube::client::Body::from(b"line\n".to_vec()));
        let pieces: Vec<_> = whole.pieces().map(Result::unwrap).collect().await;
        assert_eq!(pieces.concat(), b"line\n");
        let (cut, ends) = log(kube::client::Body::from(b"line\n".to_vec()));
        ends.server.cancel();
        let pieces: Vec<_> = cut.pieces().map(|piece| piece.map_err(|cut| cut.to_string())).collect().await;
        assert_eq!(pieces, [Err("the log was cut off: the server stops".to_owned())]);
    }
}
