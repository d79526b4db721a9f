//! The body of an answer, handed out in pieces: bounded, unpacked, on time, and never with the credential in it.

use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use flate2::write::MultiGzDecoder;
use futures::future::poll_fn;
use hyper::body::{Body as _, Incoming};
use memchr::memmem::Finder;
use tokio::time::Instant;

use super::credential::{Credential, Hidden};
use super::error::{Error, Wait};

/// Compressed bytes that are unpacked at one time: gzip packs at most 1032 to one, so this is 1 MiB at most.
const UNPACKED_AT_ONCE: usize = 1 << 10;
/// The largest piece that a caller gets, even if it requests more.
const LARGEST_PIECE: usize = 1 << 20;

/// What a body may be.
#[derive(Debug, Clone, Copy)]
pub struct BodyBounds {
    /// Bytes, unpacked.
    pub size: u64,
    /// When its last byte must be there.
    pub deadline: Instant,
    /// The same as a length of time, for messages.
    pub limit: Duration,
}

/// The body of one answer.
pub struct Body {
    from: From,
    unpack: Option<MultiGzDecoder<Vec<u8>>>,
    /// Received bytes that are not unpacked yet.
    packed: Bytes,
    bounds: BodyBounds,
    /// Bytes that came, unpacked; and packed, where they were.
    came: u64,
    came_packed: u64,
    /// Received bytes that the caller has not got yet, and how many of them were searched.
    held: Vec<u8>,
    looked: usize,
    marks: Vec<Hidden>,
    ended: bool,
    /// The error in place of its end.
    broken: Option<Error>,
}

enum From {
    Wire(Incoming),
    Memory(Bytes),
}

impl Body {
    /// A body that is on its way.
    #[must_use]
    pub fn coming(body: Incoming, packing: Packing, bounds: BodyBounds, credential: &Credential) -> Self {
        let unpack = match packing {
            Packing::None => None,
            Packing::Gzip => Some(MultiGzDecoder::new(Vec::new())),
        };
        Self::of(From::Wire(body), unpack, bounds, credential.marks().to_vec())
    }

    /// A body that is here.
    #[must_use]
    pub fn here(bytes: Bytes, bounds: BodyBounds) -> Self {
        Self::of(From::Memory(bytes), None, bounds, Vec::new())
    }

    fn of(from: From, unpack: Option<MultiGzDecoder<Vec<u8>>>, bounds: BodyBounds, marks: Vec<Hidden>) -> Self {
        Self {
            from,
            unpack,
            packed: Bytes::new(),
            bounds,
            came: 0,
            came_packed: 0,
            held: Vec::new(),
            looked: 0,
            marks,
            ended: false,
            broken: None,
        }
    }

    /// The body has no end but this error.
    pub fn ends_with(&mut self, error: Error) {
        self.broken = Some(error);
    }

    /// The next piece, 1 to `most` bytes; empty at the end.
    ///
    /// # Errors
    /// Too slow, too large, broken off, badly packed, or with the credential in it.
    pub async fn read(&mut self, most: usize) -> Result<Vec<u8>, Error> {
        if let Some(error) = self.broken.clone().filter(|_| self.is_over()) {
            return Err(error);
        }
        let piece = self.piece(most).await;
        if let Err(error) = &piece {
            // Nothing follows an error.
            (self.held, self.packed, self.ended) = (Vec::new(), Bytes::new(), true);
            self.broken = Some(error.clone());
        }
        piece
    }

    /// Everything was handed out.
    fn is_over(&self) -> bool {
        self.ended && self.held.is_empty()
    }

    async fn piece(&mut self, most: usize) -> Result<Vec<u8>, Error> {
        let most = most.clamp(1, LARGEST_PIECE);
        // What could be the beginning of a mark stays until its end would be here.
        let kept = self.marks.iter().map(|mark| mark.reveal().len() - 1).max().unwrap_or(0);
        while !self.ended && self.held.len() < most + kept {
            if self.packed.has_remaining() {
                self.unpack()?;
                // What is here already would never be asked about its time, nor leave the thread to others.
                self.on_time()?;
                tokio::task::consume_budget().await;
                continue;
            }
            let frame = if self.held.len() > kept { self.next_now() } else { Some(self.next().await?) };
            match frame {
                // Nothing more is here yet: better a small piece now than a large one later.
                None => break,
                Some(bytes) => self.take(bytes)?,
            }
        }
        self.look(kept)?;
        let whole = if self.ended { self.held.len() } else { self.held.len() - kept.min(self.held.len()) };
        let length = whole.min(most);
        if length == 0 && self.ended {
            self.broken.clone().map_or(Ok(()), Err)?;
        }
        let rest = self.held.split_off(length);
        self.looked = self.looked.saturating_sub(length);
        Ok(std::mem::replace(&mut self.held, rest))
    }

    /// The next bytes of the wire; `None` within: the end.
    async fn next(&mut self) -> Result<Option<Result<Bytes, hyper::Error>>, Error> {
        let BodyBounds { deadline, limit, .. } = self.bounds;
        let late = Error::Timeout { what: Wait::Body, limit };
        tokio::time::timeout_at(deadline, poll_fn(|context| self.poll(context))).await.map_err(|_| late)
    }

    /// The same if it is here already.
    fn next_now(&mut self) -> Option<Option<Result<Bytes, hyper::Error>>> {
        // It is polled again with the caller's own context if nothing is here.
        match self.poll(&mut Context::from_waker(std::task::Waker::noop())) {
            Poll::Ready(frame) => Some(frame),
            Poll::Pending => None,
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, hyper::Error>>> {
        match &mut self.from {
            From::Memory(bytes) if bytes.is_empty() => Poll::Ready(None),
            From::Memory(bytes) => Poll::Ready(Some(Ok(bytes.split_to(bytes.len().min(LARGEST_PIECE))))),
            From::Wire(body) => Pin::new(body).poll_frame(context).map(|frame| {
                // Trailers are no part of the body.
                frame.map(|frame| frame.map(|frame| frame.into_data().unwrap_or_default()))
            }),
        }
    }

    /// Adds a received frame.
    fn take(&mut self, frame: Option<Result<Bytes, hyper::Error>>) -> Result<(), Error> {
        let broken = |why: &str| Error::Protocol(format!("the answer {why} after {} bytes", self.came));
        match frame {
            None => {
                self.ended = true;
                if let Some(unpack) = self.unpack.take() {
                    let rest = unpack.finish().map_err(|_| broken("is cut off inside its compressed form"))?;
                    self.keep(rest.len())?;
                    self.held.extend_from_slice(&rest);
                }
                Ok(())
            }
            Some(Err(_)) => Err(broken("broke off")),
            Some(Ok(bytes)) if self.unpack.is_some() => {
                // Packed bytes that unpack to nothing have no other bound.
                self.came_packed += bytes.len() as u64;
                self.packed = bytes;
                self.within(self.came_packed)
            }
            Some(Ok(bytes)) => {
                self.keep(bytes.len())?;
                self.held.extend_from_slice(&bytes);
                Ok(())
            }
        }
    }

    /// Unpacks a part of the received bytes.
    fn unpack(&mut self) -> Result<(), Error> {
        let packed = self.packed.split_to(self.packed.len().min(UNPACKED_AT_ONCE));
        let Some(unpack) = &mut self.unpack else { return Ok(()) };
        if unpack.write_all(&packed).is_err() {
            return Err(Error::Protocol(format!("the answer says it is gzip and is not, after {} bytes", self.came)));
        }
        let unpacked = std::mem::take(unpack.get_mut());
        self.keep(unpacked.len())?;
        self.held.extend_from_slice(&unpacked);
        Ok(())
    }

    /// Counts the unpacked bytes.
    fn keep(&mut self, length: usize) -> Result<(), Error> {
        self.came += length as u64;
        self.within(self.came)
    }

    fn on_time(&self) -> Result<(), Error> {
        let limit = self.bounds.limit;
        if Instant::now() < self.bounds.deadline { Ok(()) } else { Err(Error::Timeout { what: Wait::Body, limit }) }
    }

    fn within(&self, came: u64) -> Result<(), Error> {
        let most = self.bounds.size;
        if came <= most {
            return Ok(());
        }
        Err(Error::TooLarge(format!(
            "the answer has more than {most} bytes, unpacked; raise `maxBody` of the endpoint if it should"
        )))
    }

    /// Looks for the credential in what was not looked through.
    fn look(&mut self, kept: usize) -> Result<(), Error> {
        let new = self.held.get(self.looked.saturating_sub(kept)..).unwrap_or_default();
        if self.marks.iter().any(|mark| Finder::new(mark.reveal()).find(new).is_some()) {
            return Err(Error::Protocol(
                "the answer repeats the credential that was sent; the plugin does not get it".to_owned(),
            ));
        }
        self.looked = self.held.len();
        Ok(())
    }
}

/// Whether an answer has a body at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HasBody {
    /// It has, or may have.
    Yes,
    /// 204, 304 and answers to HEAD.
    No,
}

/// How a body is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// It is not.
    None,
    /// As gzip, which was not requested and some proxies send anyway.
    Gzip,
}

impl Packing {
    /// What `Content-Encoding` says, where the answer has a body.
    ///
    /// # Errors
    /// It is an encoding that the host cannot read.
    pub fn of(headers: &http::HeaderMap, has_body: HasBody) -> Result<Self, Error> {
        if has_body == HasBody::No {
            return Ok(Self::None);
        }
        let encoding = headers.get(http::header::CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?").trim());
        match encoding.map(str::to_ascii_lowercase).as_deref() {
            None | Some("" | "identity") => Ok(Self::None),
            Some("gzip" | "x-gzip") => Ok(Self::Gzip),
            Some(_) => Err(Error::Protocol("the answer has a content encoding that was not requested".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::credential::Material;
    use topoloom_core::plugin::CredentialKind;

    fn bounds(size: u64) -> BodyBounds {
        let limit = Duration::from_secs(5);
        BodyBounds { size, deadline: Instant::now() + limit, limit }
    }

    async fn all(mut body: Body, most: usize) -> Result<Vec<u8>, Error> {
        let mut whole = Vec::new();
        loop {
            let piece = body.read(most).await?;
            assert!(piece.len() <= most);
            if piece.is_empty() {
                return Ok(whole);
            }
            whole.extend(piece);
        }
    }

    #[tokio::test]
    async fn a_body_comes_in_pieces_up_to_its_bound() {
        let bytes = Bytes::from(vec![7; 100_000]);
        assert_eq!(all(Body::here(bytes.clone(), bounds(100_000)), 999).await.unwrap(), bytes);
        let error = all(Body::here(bytes, bounds(99_999)), 999).await.unwrap_err();
        assert!(matches!(error, Error::TooLarge(_)), "{error}");
    }

    #[tokio::test]
    async fn the_credential_is_found_wherever_pieces_end() {
        let token = "canary-0123456789";
        let material = Material::token(token.to_owned());
        let marks = material.credential(&[CredentialKind::Bearer]).unwrap().marks().to_vec();
        for before in 0..40 {
            for most in [1, 7, 64] {
                let text = format!("{}{token}{}", "x".repeat(before), "y".repeat(40));
                let mut body = Body::here(Bytes::from(text), bounds(1000));
                body.marks.clone_from(&marks);
                let mut shown = Vec::new();
                let error = loop {
                    match body.read(most).await {
                        Ok(piece) => {
                            assert!(!piece.is_empty(), "it was not found");
                            shown.extend(piece);
                        }
                        Err(error) => break error,
                    }
                };
                assert!(!String::from_utf8(shown).unwrap().contains('c'), "a part of it was shown");
                assert!(!error.to_string().contains("canary"), "{error}");
            }
        }
        let mut body = Body::here(Bytes::from_static(b"canary-012345678 is another word"), bounds(1000));
        body.marks = marks;
        assert_eq!(all(body, 5).await.unwrap(), b"canary-012345678 is another word");
    }

    #[tokio::test]
    async fn a_bomb_is_counted_while_it_is_unpacked() {
        let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        bomb.write_all(&vec![0; 64 << 20]).unwrap();
        let bomb = bomb.finish().unwrap();
        let unpack = Some(MultiGzDecoder::new(Vec::new()));
        let mut body = Body::of(From::Memory(bomb.into()), unpack, bounds(8 << 20), Vec::new());
        let mut most = 0;
        let error = loop {
            match body.read(64 << 10).await {
                Ok(_) => most = most.max(body.held.capacity()),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::TooLarge(_)), "{error}");
        assert!(most < 16 << 20, "{most} bytes were held");
    }

    #[tokio::test]
    async fn packed_bytes_that_unpack_to_nothing_are_bounded_too() {
        let empty = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best()).finish().unwrap();
        let endless: Vec<u8> = empty.iter().copied().cycle().take(1 << 20).collect();
        let unpack = Some(MultiGzDecoder::new(Vec::new()));
        let mut body = Body::of(From::Memory(endless.clone().into()), unpack, bounds(512 << 10), Vec::new());
        assert!(matches!(body.read(100).await, Err(Error::TooLarge(_))));
        assert!(matches!(body.read(100).await, Err(Error::TooLarge(_))), "nothing comes after an error");
        let unpack = Some(MultiGzDecoder::new(Vec::new()));
        let late = BodyBounds { deadline: Instant::now(), ..bounds(64 << 20) };
        let mut body = Body::of(From::Memory(endless.into()), unpack, late, Vec::new());
        assert!(matches!(body.read(100).await, Err(Error::Timeout { .. })));
    }
}
