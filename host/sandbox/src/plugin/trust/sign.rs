//! Signing, for vendors who make or release plugins. The host only ever verifies.

use std::path::Path;

use ring::signature::{Ed25519KeyPair, KeyPair};

use super::statement::Statement;
use super::{KeyId, TrustError, pem, read};
use crate::plugin::Digest;

/// A private key. Never shown.
pub struct SigningKey {
    pair: Ed25519KeyPair,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SigningKey").field(&self.id()).finish()
    }
}

impl SigningKey {
    /// Reads a file as `openssl genpkey -algorithm ed25519` writes it.
    ///
    /// # Errors
    ///
    /// When it holds anything else.
    pub fn load(path: &Path) -> Result<Self, TrustError> {
        let wrong = |source| TrustError::Key { path: path.to_owned(), source };
        let seed = pem::private_key(&read(path)?).map_err(wrong)?;
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| wrong(pem::PemError::Algorithm(1)))?;
        Ok(Self { pair })
    }

    /// The id of its public half.
    #[must_use]
    pub fn id(&self) -> KeyId {
        KeyId::of(self.pair.public_key().as_ref())
    }

    /// The content of a `plugin.sig`.
    ///
    /// # Errors
    ///
    /// When name or version cannot be signed.
    pub fn sign(&self, name: &str, version: &str, digest: Digest) -> Result<String, TrustError> {
        let statement = Statement::new(name, version, digest)?;
        let signature = self.pair.sign(&statement.message());
        Ok(statement.file(&self.id(), signature.as_ref()))
    }
}
