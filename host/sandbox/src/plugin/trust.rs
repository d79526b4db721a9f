//! Which plugins are trusted: signatures over what a plugin is, checked with keys of the operator.
//!
//! A `plugin.sig` beside a plugin is a few lines: name, version and digest of the plugin, the id of a key, and an
//! ed25519 signature over all of them. It works without a network and without a service. The digest identifies the
//! bytes; name and version are signed too, so that a signature for one plugin cannot be used for another plugin of the
//! same maker.
//!
//! Owns the format, the keys and the check. Never decides which sources need a signature ([`Trust`] is a word for its
//! caller does), never reads a plugin: the caller has its digest, and compares name and version with what the plugin
//! describes as soon as it has done so.
//!
//! # Failure story
//!
//! Every problem is a [`TrustError`] and means: not trusted. A key file that cannot be read as keys is an error of the
//! whole set, since a signature could be refused for no other reason than that.

mod pem;
mod sign;
mod statement;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ring::signature::{ED25519, UnparsedPublicKey};

pub use pem::PemError;
pub use sign::SigningKey;
use statement::{SignatureFile, Statement};

use super::Digest;

/// The largest `plugin.sig` that is read: an honest one has 300 bytes.
pub const MAX_SIGNATURE_FILE: usize = 4 << 10;

/// The largest file of keys that is read: room for five hundred.
const MAX_KEY_FILE: u64 = 64 << 10;

/// What a plugin has to bring before it is loaded, from nothing to most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trust {
    /// Nothing: anyone who may write the source may choose the plugin.
    #[default]
    None,
    /// A digest that the operator wrote down.
    Digest,
    /// A signature by one of the operator's keys.
    Signature,
}

/// What the host asks of every plugin that is not embedded, and the keys that it believes.
#[derive(Debug, Clone, Default)]
pub struct TrustOptions {
    /// The least that is required. A source may require more.
    pub least: Trust,
    /// The keys that may sign.
    pub keys: TrustKeys,
}

/// Why a plugin is not trusted, or a key is none.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A file of keys cannot be read.
    #[error("the key file {path} cannot be read")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// It holds something else than the keys that are asked for.
    #[error("the key file {path}: {source}")]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: PemError,
    },
    /// The signature file is larger than one can be.
    #[error(
        "the signature file has {size} bytes and may have {MAX_SIGNATURE_FILE}; write it with `topoloom plugin sign`"
    )]
    TooLarge {
        /// Its size.
        size: usize,
    },
    /// It is no signature file.
    #[error("the signature file cannot be read: {cause}; write it with `topoloom plugin sign`")]
    Malformed {
        /// What is wrong.
        cause: String,
    },
    /// A name or version that cannot be signed.
    #[error("{what} {value:?} cannot be signed: 1 to 63 visible ASCII characters can")]
    Word {
        /// Name or version.
        what: &'static str,
        /// What it is.
        value: String,
    },
    /// The signature is about other bytes.
    #[error(
        "the signature is for {signed} and the plugin is {found}; sign this file, or deliver the file that was signed"
    )]
    Digest {
        /// What was signed.
        signed: String,
        /// What is there.
        found: Digest,
    },
    /// No trusted key signed it.
    #[error("the plugin is signed with the key {key}, which is not trusted; {trusted}")]
    UnknownKey {
        /// The id in the file.
        key: String,
        /// The trusted keys.
        trusted: String,
    },
    /// The signature is not valid.
    #[error("the signature by the key {key} is not valid: name, version, digest or the signature itself was changed")]
    Signature {
        /// The key.
        key: KeyId,
    },
}

impl TrustError {
    /// The word for conditions, events and metric labels.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Read { .. } | Self::Key { .. } => "TrustKeyInvalid",
            Self::TooLarge { .. } | Self::Malformed { .. } | Self::Word { .. } => "SignatureMalformed",
            Self::Digest { .. } => "SignatureOfOtherPlugin",
            Self::UnknownKey { .. } => "SignatureKeyUnknown",
            Self::Signature { .. } => "SignatureInvalid",
        }
    }
}

/// The id of a public key: the first 16 digits of its sha256. It finds the key; the signature proves it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(String);

impl KeyId {
    fn of(public: &[u8]) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, public);
        Self(digest.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect())
    }
}

impl std::fmt::Display for KeyId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a signature says that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// What the plugin has to call itself.
    pub name: String,
    /// The version that it has to report.
    pub version: String,
    /// The key that signed it.
    pub key: KeyId,
}

/// What a signature file says, before anybody checked it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The name of the plugin.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The digest of its file.
    pub digest: String,
    /// The id of the key.
    pub key: String,
}

/// The public keys that may sign plugins.
#[derive(Debug, Clone, Default)]
pub struct TrustKeys {
    keys: BTreeMap<KeyId, [u8; 32]>,
}

impl TrustKeys {
    /// Reads the keys of all files: `-----BEGIN PUBLIC KEY-----`, as `openssl pkey -pubout` writes it, one or several
    /// in a file.
    ///
    /// # Errors
    ///
    /// The first file that holds anything else, or nothing.
    pub fn load(paths: &[PathBuf]) -> Result<Self, TrustError> {
        let mut keys = BTreeMap::new();
        for path in paths {
            let public =
                pem::public_keys(&read(path)?).map_err(|source| TrustError::Key { path: path.clone(), source })?;
            keys.extend(public.into_iter().map(|key| (KeyId::of(&key), key)));
        }
        Ok(Self { keys })
    }

    /// Whether no key is trusted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The ids of all keys, sorted.
    pub fn ids(&self) -> impl Iterator<Item = &KeyId> {
        self.keys.keys()
    }

    /// Checks the content of a `plugin.sig` for the plugin with this digest.
    ///
    /// The plugin must say the same name and version in its description: compare them with the answer.
    ///
    /// # Errors
    ///
    /// Why it proves nothing, and what to do.
    pub fn verify(&self, signature_file: &[u8], digest: Digest) -> Result<Signed, TrustError> {
        let file = SignatureFile::parse(signature_file)?;
        let statement = Statement::new(&file.name, &file.version, digest)?;
        if Digest::parse(&file.digest) != Some(digest) {
            return Err(TrustError::Digest { signed: file.digest, found: digest });
        }
        let found = self.keys.get_key_value(&KeyId(file.key.clone()));
        let Some((key, public)) = found else { return Err(self.unknown(file.key)) };
        let signature = file.signature()?;
        UnparsedPublicKey::new(&ED25519, public)
            .verify(&statement.message(), &signature)
            .map_err(|_| TrustError::Signature { key: key.clone() })?;
        Ok(Signed { name: file.name, version: file.version, key: key.clone() })
    }

    fn unknown(&self, key: String) -> TrustError {
        let ids = self.ids().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let trusted = match ids.is_empty() {
            true => "no key is trusted: name one with --plugin-trust-key".to_owned(),
            false => format!("trusted are {ids}"),
        };
        TrustError::UnknownKey { key, trusted }
    }
}

/// What a signature file says. Proves nothing: [`TrustKeys::verify`] does.
///
/// # Errors
///
/// When it is no signature file.
pub fn claim(signature_file: &[u8]) -> Result<Claim, TrustError> {
    let SignatureFile { name, version, digest, key, .. } = SignatureFile::parse(signature_file)?;
    Ok(Claim { name, version, digest, key })
}

/// A key file, bounded.
fn read(path: &Path) -> Result<String, TrustError> {
    use std::io::Read;
    let failed = |source| TrustError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    std::fs::File::open(path).map_err(failed)?.take(MAX_KEY_FILE + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_KEY_FILE {
        // A part of the keys would be another set than the named one.
        return Err(failed(std::io::Error::other(format!("it is larger than {MAX_KEY_FILE} bytes"))));
    }
    // A file that is not text is not PEM, and the error says so.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests;
