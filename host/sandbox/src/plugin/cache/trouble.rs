//! What can be wrong with a cache. None of it keeps a plugin from being loaded.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a folder is not used as a cache.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It cannot be created or opened.
    #[error("the plugin cache {path} cannot be opened; it must be a folder, and no symbolic link to one")]
    Open {
        /// The folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It belongs to another user, who could put anything there.
    #[error(
        "the plugin cache {path} belongs to user {owner} and this process is user {us}; name a folder that does not exist \
         yet: it is created"
    )]
    Owner {
        /// The folder.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Our user.
        us: u32,
    },
    /// Others may write it. The mount of an `emptyDir` is such a folder.
    #[error(
        "the plugin cache {path} has mode {mode:03o}, so other users may write it; name a folder below it that \
         does not exist yet: it is created for this user alone"
    )]
    Writable {
        /// The folder.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Without knowing which binary this is, images of another one could be taken for ours.
    #[error("the plugin cache is not used: this executable cannot be read")]
    Build(#[source] io::Error),
}

/// Why a file of the cache was of no use.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// It could not be read.
    #[error("the image cannot be read")]
    Read(#[source] io::Error),
    /// It is something else.
    #[error("the file is not an image of this cache")]
    NoImage,
    /// A part of it is missing, or something follows.
    #[error("the image has {found} bytes, and its header says {expected}")]
    Length {
        /// What is there.
        found: u64,
        /// What should be there.
        expected: u64,
    },
    /// It was sealed with another key.
    #[error("the image was sealed with another key")]
    OtherKey,
    /// Its name is that of another image.
    #[error("the image is of another {0}")]
    Other(&'static str),
    /// Its seal is broken: not one bit of it is what it was, or it was never ours.
    #[error("the seal of the image is broken")]
    Seal,
    /// The engine does not take it.
    #[error("the engine refuses the image: {0}")]
    Refused(String),
    /// It could not be written.
    #[error("the image cannot be written")]
    Write(#[source] io::Error),
    /// It is larger than the whole cache may be.
    #[error("the image has {size} bytes and the cache may have {limit}")]
    TooLarge {
        /// Bytes of the image.
        size: u64,
        /// The bound of the cache.
        limit: u64,
    },
    /// The disk does not answer.
    #[error("the disk does not answer within {0:?}")]
    Slow(Duration),
    /// The host's own fault: a bug.
    #[error("the host failed: {0}")]
    Host(String),
}

impl Trouble {
    /// The word for logs and metric labels.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Read(_) => "Read",
            Self::NoImage => "NoImage",
            Self::Length { .. } => "Length",
            Self::OtherKey => "OtherKey",
            Self::Other(_) => "Other",
            Self::Seal => "Seal",
            Self::Refused(_) => "Refused",
            Self::Write(_) => "Write",
            Self::TooLarge { .. } => "TooLarge",
            Self::Slow(_) => "Slow",
            Self::Host(_) => "Host",
        }
    }

    /// The sentence with its cause.
    pub(super) fn chain(&self) -> String {
        match std::error::Error::source(self) {
            Some(source) => format!("{self}: {source}"),
            None => self.to_string(),
        }
    }
}
