//! A document that an operator grants: a key of a ConfigMap, or a file. It answers like a server with one page.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncReadExt as _;
use tokio::time::Instant;
use topoloom_core::plugin::Method;

use super::body::{Body, BodyBounds};
use super::error::{Denial, Error, Wait};
use super::plan::Plan;
use super::slot::{Look, Slot};
use super::{EndpointRequest, Reply};

/// Where a document is.
pub(super) enum DocumentServer {
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
    File {
        /// The file.
        path: PathBuf,
        /// The folder that it must lie in.
        root: Documents,
    },
}

impl DocumentServer {
    /// The document, or that the plugin has it already.
    pub(super) async fn get(&self, plan: &Plan, asked: &EndpointRequest) -> Result<Reply, Error> {
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
                Bytes::copy_from_slice(value.reveal())
            }
            Self::File { path, root } => {
                within(path, root).await?;
                let late = Error::Timeout { what: Wait::Body, limit: plan.timeouts.total };
                tokio::time::timeout(plan.timeouts.total, read(path, plan.max_body)).await.map_err(|_| late)??
            }
        };
        let tag = format!("\"{}\"", hex(&Sha256::digest(&bytes)));
        let known = asked.headers.iter().any(|(name, value)| {
            name.eq_ignore_ascii_case("if-none-match") && value.split(',').any(|one| one.trim() == tag)
        });
        let (status, bytes) = if known { (StatusCode::NOT_MODIFIED, Bytes::new()) } else { (StatusCode::OK, bytes) };
        let limit = plan.timeouts.total;
        let bounds = BodyBounds { size: plan.max_body, deadline: Instant::now() + limit, limit };
        Ok(Reply { status: status.as_u16(), headers: vec![("etag".to_owned(), tag)], body: Body::here(bytes, bounds) })
    }
}

/// Which files may be documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Documents {
    /// Any: a person at a desk reads their own files.
    Any,
    /// Those in this folder.
    In(PathBuf),
    /// None: a person who edits the configuration must not read the host's files.
    None,
}

/// Whether the file lies where documents may lie, also when links are followed.
async fn within(path: &Path, documents: &Documents) -> Result<(), Error> {
    let failed = |path: &Path, error: std::io::Error| Error::Connect(format!("{}: {error}", path.display()));
    match documents {
        Documents::Any => Ok(()),
        Documents::None => Err(Error::denied(
            Denial::Path,
            format!("{} is a file, and this host was started without `--documents DIR`", path.display()),
        )),
        Documents::In(folder) => {
            let root = tokio::fs::canonicalize(folder).await.map_err(|error| failed(folder, error))?;
            let real = tokio::fs::canonicalize(path).await.map_err(|error| failed(path, error))?;
            if real.starts_with(&root) {
                return Ok(());
            }
            let message = format!("{} does not lie in {} (`--documents`)", path.display(), folder.display());
            Err(Error::denied(Denial::Path, message))
        }
    }
}

/// A regular file, as far as its bound and one byte more.
pub(super) async fn read(path: &Path, most: u64) -> Result<Bytes, Error> {
    let failed = |error: std::io::Error| Error::Connect(format!("{}: {error}", path.display()));
    // Opening a pipe would wait for its writer.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = tokio::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).await.map_err(failed)?;
    if !file.metadata().await.map_err(failed)?.is_file() {
        // A pipe would never end, and a device might.
        return Err(Error::Connect(format!("{} is not a regular file", path.display())));
    }
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).await.map_err(failed)?;
    if bytes.len() as u64 > most {
        let message = format!("{} has more than {most} bytes; raise `maxBody` if it should", path.display());
        return Err(Error::TooLarge(message));
    }
    Ok(bytes.into())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
