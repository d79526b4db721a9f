//! A push: blobs first, each only where the registry lacks it, then the manifest that names them. Until that is written, no one
//! sees anything of it.

use bytes::Bytes;
use http::Method;
use http::header;

use super::client::{CONTENT_DIGEST, Client};
use super::error::{OciError, Trouble};
use super::manifest::{Blobs, MANIFEST};
use super::place::{form, is_same, target, with_query};
use super::wire::{Action, Ask};
use crate::plugin::Digest;

impl Client {
    /// Writes an artifact, and what the tag means from now on. Returns the digest of its manifest.
    ///
    /// # Errors
    /// The first request that the registry refuses.
    pub async fn push(&self, tag: &str, blobs: &Blobs) -> Result<Digest, OciError> {
        for blob in [&blobs.layer, &blobs.config] {
            self.put_blob(blob).await?;
        }
        let digest = Digest::of(&blobs.manifest);
        let ask =
            Ask::write(Method::PUT, self.uri(&format!("manifests/{tag}"))?, Bytes::copy_from_slice(&blobs.manifest));
        let answer = self.send(&ask.header(header::CONTENT_TYPE, MANIFEST)).await?;
        if !matches!(answer.status(), 200..=202) {
            return Err(answer.refused().await);
        }
        match answer.header(&CONTENT_DIGEST).and_then(Digest::parse).filter(|stored| *stored != digest) {
            None => Ok(digest),
            Some(other) => {
                let what = format!("the registry has stored {other} in place of {digest}");
                Err(answer.error(Trouble::Mismatch, what))
            }
        }
    }

    async fn put_blob(&self, bytes: &[u8]) -> Result<(), OciError> {
        let digest = Digest::of(bytes).to_string();
        // A token for this has to be good for what follows.
        let look = Ask { action: Action::Push, ..Ask::read(Method::HEAD, self.uri(&format!("blobs/{digest}"))?) };
        let answer = self.send(&look).await?;
        match answer.status() {
            200 => return Ok(()),
            400 | 404 | 405 | 501 => {}
            // A store behind a redirect may answer other questions only.
            _ if answer.is_elsewhere() => {}
            _ => return Err(answer.refused().await),
        }
        let start = Ask::write(Method::POST, self.uri("blobs/uploads/")?, Bytes::new());
        let answer = self.send(&start).await?;
        if answer.status() != 202 {
            return Err(answer.refused().await);
        }
        let place = answer.header(&header::LOCATION).and_then(|to| target(&start.uri, to));
        let place = place.and_then(|place| with_query(&place, &form(&[("digest", digest.as_str())])));
        let Some(place) = place.filter(|place| self.wire.access.scheme.allows(place)) else {
            let what = "the registry names no place for the upload, or one without TLS";
            return Err(answer.error(Trouble::Invalid, what));
        };
        let upload = Ask::write(Method::PUT, place, Bytes::copy_from_slice(bytes));
        let upload = upload.header(header::CONTENT_TYPE, "application/octet-stream");
        let answer = match is_same(&upload.uri, &start.uri) {
            true => self.send(&upload).await?,
            // Another place gets the bytes and no credentials.
            false => self.wire.exchange(&self.wire.http().await?, &upload, None).await?,
        };
        match answer.status() {
            201 => Ok(()),
            _ => Err(answer.refused().await),
        }
    }
}
