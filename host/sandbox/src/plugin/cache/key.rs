//! The key that seals images.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

/// What a key has at least: as much as the seal itself.
const LEAST: usize = 32;

/// What is read of a key file: a key of more than one block of the hash is hashed first and gains nothing.
const MOST: u64 = 4 << 10;

/// What [`CacheKey::mark`] is a code of. It differs from every sealed text: those begin with the mark of the format.
const MARK: &[u8] = b"which key is this";

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("the cache key {path} cannot be read")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It is too short to be one, or too long to be meant.
    #[error("the cache key {path} has {size} bytes and needs {LEAST} to {MOST}: head -c 32 /dev/urandom > {path}")]
    Size {
        /// The file.
        path: PathBuf,
        /// Its size, as far as it was read.
        size: usize,
    },
    /// This machine has no randomness.
    #[error("no random cache key can be made: the system gives no random bytes")]
    Random,
}

/// The key that seals images. Never shown: `Debug` prints only that it is one.
#[derive(Clone)]
pub struct CacheKey {
    pub(super) mac: hmac::Key,
    /// Distinguishes keys without revealing them.
    pub(super) mark: [u8; 8],
}

impl std::fmt::Debug for CacheKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CacheKey")
    }
}

impl CacheKey {
    /// A key for as long as this process lives.
    ///
    /// # Errors
    ///
    /// When the system gives no random bytes.
    pub fn random() -> Result<Self, KeyError> {
        Ok(Self::new(&Self::generate()?))
    }

    /// The bytes of a new key, for a file that [`Self::read`] reads.
    ///
    /// # Errors
    ///
    /// When the system gives no random bytes.
    pub fn generate() -> Result<[u8; LEAST], KeyError> {
        let mut key = [0; LEAST];
        SystemRandom::new().fill(&mut key).map_err(|_| KeyError::Random)?;
        Ok(key)
    }

    /// The key in a file, byte for byte: for a cache that outlives the process.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or has too few bytes for a key.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let failed = |source| KeyError::Read { path: path.to_owned(), source };
        let mut key = Vec::new();
        File::open(path).map_err(failed)?.take(MOST + 1).read_to_end(&mut key).map_err(failed)?;
        if key.len() < LEAST || key.len() as u64 > MOST {
            return Err(KeyError::Size { path: path.to_owned(), size: key.len() });
        }
        Ok(Self::new(&key))
    }

    fn new(key: &[u8]) -> Self {
        let mac = hmac::Key::new(hmac::HMAC_SHA256, key);
        let mut mark = [0; 8];
        mark.iter_mut().zip(hmac::sign(&mac, MARK).as_ref()).for_each(|(to, from)| *to = *from);
        Self { mac, mark }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_enough_bytes_and_is_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        for (size, fits) in [(0, false), (31, false), (32, true), (4096, true), (4097, false)] {
            std::fs::write(&path, vec![7; size]).unwrap();
            assert_eq!(CacheKey::read(&path).is_ok(), fits, "{size}");
        }
        assert!(matches!(CacheKey::read(Path::new("/nowhere")), Err(KeyError::Read { .. })));
        assert_eq!(format!("{:?}", CacheKey::random().unwrap()), "CacheKey");
        assert_ne!(CacheKey::random().unwrap().mark, CacheKey::random().unwrap().mark);
    }
}
