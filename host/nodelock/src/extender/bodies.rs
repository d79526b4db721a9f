//! Bodies of requests: how long each may be, and all of them together.
//!
//! A Bind is four names. A filter is a pod and either the names of all nodes that are left, or, with `nodeCacheCapable:
//! false`, those nodes themselves; nodes are returned unchanged, and no part of them is copied or parsed.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use futures::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Of a Bind: its names are 697 bytes at most, and there is room for what a later kube-scheduler adds.
pub const BIND: usize = 8 << 10;
/// Of a filter: 65 536 names of 253 bytes with their quotes, or 250 nodes of 64 KiB, which is a node with many images. The
/// pod beside them is 1.5 MiB at most, as all objects of an API server.
pub const FILTER: usize = 16 << 20;
/// A body that is no longer is read beside those that are: 128 of those, for each connection that no Bind can take.
const SMALL: usize = 256 << 10;
/// All small ones together, and all others together. With the answers, which are as long at most, and the lists of what is
/// where in them, three times as much memory: 200 MiB.
const TOGETHER: usize = 32 << 20;
/// Memory is reserved in pieces of this size: a semaphore counts no further than to 2^29 on small machines.
const PIECE: usize = 1 << 10;
/// Bytes behind what counts that are read and thrown away: a client that is still sending when its connection ends loses the
/// answer.
const DISCARDED: usize = 32 << 20;
/// How long a body may take, and the wait for room for it.
const READ: Duration = Duration::from_secs(10);

/// The room that there is for bodies.
pub struct Bodies {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

/// A body, and the room that it takes until this is dropped.
pub struct Read {
    /// The bytes that arrived.
    pub bytes: Vec<u8>,
    room: OwnedSemaphorePermit,
}

/// An answer that takes the room of its request until it was sent.
struct ReservedBody {
    bytes: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for ReservedBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Default for Bodies {
    fn default() -> Self {
        let room = || Arc::new(Semaphore::new(TOGETHER / PIECE));
        Self { small: room(), large: room() }
    }
}

/// Why a body cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Other requests had all the memory, for the whole time that a body has.
    #[error("the body is {length} bytes long, and other requests used all the memory for bodies for {READ:?}")]
    NoMemory {
        /// In bytes.
        length: usize,
    },
    /// Other requests have the memory that the answer needs.
    #[error("the answer is {length} bytes long, and other requests use the memory for it")]
    NoMemoryForAnswer {
        /// In bytes.
        length: usize,
    },
    /// The connection failed, or the client sent no valid HTTP.
    #[error("the body cannot be read: {0}")]
    Unreadable(String),
    /// It did not arrive in time.
    #[error("the body took longer than {READ:?}")]
    Late,
}

impl Bodies {
    /// Reads the body of a filter, and no more of it than counts.
    ///
    /// # Errors
    /// If it does not arrive in time, or there was no memory for it in time.
    pub async fn filter(&self, headers: &HeaderMap, body: Body) -> Result<Read, BodyError> {
        let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        // A client that does not announce a length may send up to the limit.
        let length = length.unwrap_or(FILTER).min(FILTER);
        let pieces = u32::try_from(length / PIECE + 1).unwrap_or(u32::MAX);
        let room = Arc::clone(if length <= SMALL { &self.small } else { &self.large }).acquire_many_owned(pieces);
        let Ok(Ok(room)) = tokio::time::timeout(READ, room).await else {
            return Err(BodyError::NoMemory { length });
        };
        Ok(Read { bytes: read(body, length.max(SMALL)).await?, room })
    }
}

impl Read {
    /// An answer of these bytes in its place. Of nodes with locks it says more than was asked, and takes more room.
    ///
    /// # Errors
    /// When there is no such room.
    pub fn answered(self, bytes: Vec<u8>) -> Result<Bytes, BodyError> {
        let Self { bytes: asked, mut room } = self;
        let more = bytes.len().saturating_sub(asked.len()) / PIECE;
        let pieces = u32::try_from(more).unwrap_or(u32::MAX);
        // It does not wait: it has room that others may wait for.
        let Ok(more) = Arc::clone(room.semaphore()).try_acquire_many_owned(pieces) else {
            return Err(BodyError::NoMemoryForAnswer { length: bytes.len() });
        };
        room.merge(more);
        Ok(Bytes::from_owner(ReservedBody { bytes, _room: room }))
    }
}

/// Reads the body of a Bind, and no more of it than counts.
///
/// # Errors
/// If it does not arrive in time.
pub async fn bind(body: Body) -> Result<Vec<u8>, BodyError> {
    read(body, BIND).await
}

async fn read(body: Body, most: usize) -> Result<Vec<u8>, BodyError> {
    let whole = async {
        let (mut stream, mut bytes, mut came) = (body.into_data_stream(), Vec::new(), 0_usize);
        while let Some(piece) = stream.next().await {
            let piece = piece.map_err(|error| BodyError::Unreadable(error.to_string()))?;
            let room = most.saturating_sub(bytes.len());
            bytes.extend_from_slice(piece.get(..room).unwrap_or(&piece));
            came = came.saturating_add(piece.len());
            if came >= most.saturating_add(DISCARDED) {
                break;
            }
        }
        Ok(bytes)
    };
    tokio::time::timeout(READ, whole).await.unwrap_or(Err(BodyError::Late))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn of(length: usize) -> (HeaderMap, Body) {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_LENGTH, length.into());
        (headers, Body::from(vec![b' '; length]))
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_wait_for_room_and_small_ones_do_not_wait_for_those() {
        let bodies = Bodies::default();
        let read = async |(headers, body): (HeaderMap, Body)| bodies.filter(&headers, body).await;
        let first = read(of(FILTER - PIECE)).await.unwrap_or_else(|why| panic!("{why}"));
        // Longer than what counts: as much as counts is read of it.
        let second = read(of(FILTER - PIECE)).await.unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(second.bytes.len(), FILTER - PIECE);
        assert_eq!(read(of(100)).await.map(|read| read.bytes.len()), Ok(100));
        let why = read(of(1 << 20)).await.map(drop).unwrap_err();
        assert_eq!(why, BodyError::NoMemory { length: 1 << 20 });
        assert!(why.to_string().contains("1048576 bytes long, and other requests used all the memory"), "{why}");
        // An answer keeps the room until it was sent.
        let answer = first.answered(vec![1, 2]).unwrap();
        assert!(read(of(1 << 20)).now_or_never().is_none());
        drop(answer);
        assert_eq!(read(of(1 << 20)).await.map(|read| read.bytes.len()), Ok(1 << 20));
        // One that does not say how long it is takes as much room as the longest.
        drop(second);
        let unknown = bodies.filter(&HeaderMap::new(), Body::from(vec![b' '; 2 * FILTER])).await;
        assert_eq!(unknown.map(|read| read.bytes.len()), Ok(FILTER));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_of_256_kib_is_small_and_one_of_a_byte_more_is_not() {
        let bodies = Bodies::default();
        let _all = Arc::clone(&bodies.large).acquire_many_owned(u32::try_from(TOGETHER / PIECE).unwrap()).await;
        let read = async |(headers, body): (HeaderMap, Body)| bodies.filter(&headers, body).await;
        assert_eq!(read(of(256 << 10)).await.map(|read| read.bytes.len()), Ok(256 << 10));
        assert!(read(of((256 << 10) + 1)).await.is_err(), "others took the room");
    }

    #[tokio::test]
    async fn an_answer_that_is_longer_than_its_request_takes_room_of_its_own_or_is_none() {
        let bodies = Bodies::default();
        let asked = async || {
            let (headers, body) = of(100);
            bodies.filter(&headers, body).await.unwrap_or_else(|why| panic!("{why}"))
        };
        let (first, second, third) = (asked().await, asked().await, asked().await);
        let first = first.answered(vec![b' '; 20 << 20]).unwrap();
        let why = second.answered(vec![b' '; 20 << 20]).unwrap_err();
        assert_eq!(why, BodyError::NoMemoryForAnswer { length: 20 << 20 });
        assert!(why.to_string().contains("20971520 bytes long, and other requests use the memory"), "{why}");
        assert_eq!(third.answered(vec![b' '; 1 << 20]).map(|answer| answer.len()), Ok(1 << 20));
        drop(first);
        assert!(asked().await.answered(vec![b' '; 20 << 20]).is_ok());
    }

    #[tokio::test]
    async fn what_is_too_long_is_taken_from_the_client_all_the_same_within_a_bound() {
        let taken = async |pieces: usize| {
            let left = Arc::new(std::sync::atomic::AtomicUsize::new(pieces));
            let count = Arc::clone(&left);
            let stream = futures::stream::iter((0..pieces).map(move |_| {
                count.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
                Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 1 << 20]))
            }));
            let kept = bind(Body::from_stream(stream)).await.map(|bytes| bytes.len());
            assert_eq!(kept, Ok(BIND));
            left.load(std::sync::atomic::Ordering::Relaxed)
        };
        assert_eq!((taken(17).await, taken(100).await > 60), (0, true));
    }

    #[tokio::test]
    async fn no_more_of_a_bind_is_read_than_counts() {
        let read = async |length: usize| bind(Body::from(vec![b' '; length])).await.map(|bytes| bytes.len());
        assert_eq!((read(BIND - 1).await, read(BIND).await, read(BIND + 1).await), (Ok(BIND - 1), Ok(BIND), Ok(BIND)));
    }
}
