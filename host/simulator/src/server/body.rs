//! The body of an answer, made while the connection takes it.
//!
//! Nothing is queued: a piece is made when the connection has room, so a reader that does not read costs one piece.

use super::bomb::Bomb;
use super::record::Ticket;
use crate::wire::{Extent, Listing};
use bytes::Bytes;
use http_body::Frame;
use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// Where bytes come from.
pub(crate) enum BodySource {
    /// From here.
    Bytes(Option<Bytes>),
    /// From a list.
    Listing(Listing),
    /// From a bomb.
    Bomb(Bomb),
    /// First these, then spaces without end.
    Spaces(Option<Bytes>),
}

/// A piece of an endless body that has no records.
static SPACES: [u8; 16 * 1024] = [b' '; 16 * 1024];

impl BodySource {
    fn next(&mut self) -> Option<Bytes> {
        match self {
            Self::Bytes(bytes) => bytes.take(),
            Self::Listing(listing) => listing.next(),
            Self::Bomb(bomb) => bomb.next(),
            Self::Spaces(bytes) => Some(bytes.take().unwrap_or(Bytes::from_static(&SPACES))),
        }
    }

    /// The first half only.
    pub(crate) fn torn(self) -> Self {
        match self {
            Self::Bytes(Some(bytes)) => Self::Bytes(Some(bytes.slice(..bytes.len() / 2))),
            Self::Listing(listing) => Self::Listing(listing.extent(Extent::Torn)),
            other => other,
        }
    }

    /// Without end.
    pub(crate) fn endless(self) -> Self {
        match self {
            Self::Bytes(bytes) => Self::Spaces(bytes),
            Self::Listing(listing) => Self::Listing(listing.extent(Extent::Endless)),
            other => other,
        }
    }
}

/// What happens when the source has no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The body ends.
    Proper,
    /// Nothing happens any more.
    Stall,
    /// What was handed over is sent, then the connection breaks.
    Break,
    /// The connection breaks.
    BreakNow,
}

/// A body that hyper pulls.
pub(crate) struct Body {
    source: BodySource,
    ending: Ending,
    drip: Option<Drip>,
    ticket: Ticket,
}

struct Drip {
    rest: Bytes,
    pause: Duration,
    timer: Pin<Box<Sleep>>,
}

impl Body {
    pub(crate) fn new(source: BodySource, ticket: Ticket) -> Self {
        Self { source, ending: Ending::Proper, drip: None, ticket }
    }

    pub(crate) fn ending(mut self, ending: Ending) -> Self {
        self.ending = ending;
        self
    }

    pub(crate) fn dripping(mut self, pause: Duration) -> Self {
        self.drip = Some(Drip { rest: Bytes::new(), pause, timer: Box::pin(sleep(Duration::ZERO)) });
        self
    }

    fn piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(drip) = &mut self.drip else { return Poll::Ready(self.source.next()) };
        ready!(drip.timer.as_mut().poll(context));
        drip.timer.as_mut().reset(Instant::now() + drip.pause);
        while drip.rest.is_empty() {
            match self.source.next() {
                Some(bytes) => drip.rest = bytes,
                None => return Poll::Ready(None),
            }
        }
        Poll::Ready(Some(drip.rest.split_to(1)))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match (ready!(self.piece(context)), self.ending) {
            (Some(bytes), _) => {
                self.ticket.sent(bytes.len());
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            (None, Ending::Proper) => Poll::Ready(None),
            (None, Ending::Break) => {
                // An error throws away what hyper still holds; a body that is not ready makes it send that first.
                self.ending = Ending::BreakNow;
                context.waker().wake_by_ref();
                Poll::Pending
            }
            (None, Ending::BreakNow) => Poll::Ready(Some(Err(io::Error::other("broken off on purpose")))),
            // No one will wake this; the connection still notices that its client has left.
            (None, Ending::Stall) => Poll::Pending,
        }
    }
}
