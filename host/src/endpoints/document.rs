//! A document that an operator grants: a key of a ConfigMap, or a file. It answers like a server with one page.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncReadExt as _;
use tokio::time::Instant;
use topoloom_core::plugin::Method;

use super::body::{Body, Bounds};
use super::error::{Denial, Error};
use super::plan::Plan;
use super::slot::{Look, Slot};
use super::{Asked, Reply};

/// Where a document is.
pub(super) enum Document {
    /// In a ConfigMap.
    Key {
        /// The ConfigMap.
        slot: Arc<Slot>,
        /// Its key.
        key: String,
        /// Its name, for messages.
        map: String,
    },
    /// In a file of this machine.
    File(PathBuf),
}

impl Document {
    /// The document, or that it is the one that the plugin has.
    pub(super) async fn get(&self, plan: &Plan, asked: &Asked) -> Result<Reply, Error> {
        if asked.method != Method::Get {
            return Err(Error::denied(Denial::Method, format!("a document has no {}", asked.method)));
        }
        if !matches!(asked.path_and_query.as_str(), "" | "/") {
            return Err(Error::denied(Denial::Path, "a document has no paths below it"));
        }
        let bytes = match self {
            Self::Key { slot, key, map } => {
                let data = slot.data(Look::Usual).await.map_err(Error::Connect)?;
                let value = data.get(key).ok_or_else(|| Error::Connect(format!("the {map} has no key {key:?}")))?;
                Bytes::copy_from_slice(value)
            }
            Self::File(path) => read(path, plan.max_body).await?,
        };
        let tag = format!("\"{}\"", hex(&Sha256::digest(&bytes)));
        let known = asked.headers.iter().any(|(name, value)| {
            name.eq_ignore_ascii_case("if-none-match") && value.split(',').any(|one| one.trim() == tag)
        });
        let (status, bytes) = if known { (StatusCode::NOT_MODIFIED, Bytes::new()) } else { (StatusCode::OK, bytes) };
        let limit = plan.timeouts.total;
        let bounds = Bounds { size: plan.max_body, deadline: Instant::now() + limit, limit };
        Ok(Reply { status: status.as_u16(), headers: vec![("etag".to_owned(), tag)], body: Body::here(bytes, bounds) })
    }
}

/// A regular file, as far as its bound and one byte more.
async fn read(path: &std::path::Path, most: u64) -> Result<Bytes, Error> {
    let failed = |error: std::io::Error| Error::Connect(format!("{}: {error}", path.display()));
    let file = tokio::fs::metadata(path).await.map_err(failed)?;
    if !file.is_file() {
        // A pipe would never end, and a device might.
        return Err(Error::Connect(format!("{} is no regular file", path.display())));
    }
    let mut bytes = Vec::new();
    let file = tokio::fs::File::open(path).await.map_err(failed)?;
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).await.map_err(failed)?;
    if bytes.len() as u64 > most {
        return Err(Error::TooLarge(format!(
            "{} has more than {most} bytes; raise `maxBody` if it should",
            path.display()
        )));
    }
    Ok(bytes.into())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
