//! The signature that lies beside a plugin file, or came with an artifact.

use topoloom_core::plugin::Description;

use super::document::SignatureFile;
use crate::cli::plugin::file::{FoundSignature, PluginFile};
use crate::plugin::Digest;
use crate::plugin::trust::{self, Claim, TrustKeys};

/// What was found out about it.
pub(super) struct Signature {
    file: String,
    claim: Option<Claim>,
    /// Whether one of the given keys made it.
    is_verified: bool,
    /// Why a host that asks for a signature would not take this one. A key that was not given is no one's fault.
    pub(super) problem: Option<String>,
}

impl Signature {
    /// Looks for it and judges it.
    pub(super) fn beside(
        plugin: &PluginFile,
        keys: &TrustKeys,
        digest: Digest,
        description: Option<&Description>,
    ) -> anyhow::Result<Option<Self>> {
        let Some(FoundSignature { place: file, bytes }) = plugin.signature()? else { return Ok(None) };
        let mut found = Self { file, claim: trust::claim(&bytes).ok(), is_verified: false, problem: None };
        match keys.verify(&bytes, digest) {
            Ok(_) => found.is_verified = true,
            Err(trust::TrustError::UnknownKey { .. }) if keys.is_empty() => {}
            Err(error) => found.problem = Some(error.to_string()),
        }
        if let (None, Some(claim), Some(said)) = (&found.problem, &found.claim, description)
            && (&claim.name, &claim.version) != (&said.name, &said.version)
        {
            let Claim { name, version, .. } = claim;
            let is = format!("{} {}", said.name, said.version);
            found.problem = Some(format!("the signature is for {name} {version} and the plugin calls itself {is}"));
        }
        Ok(Some(found))
    }

    /// In one line.
    pub(super) fn text(&self) -> String {
        let Some(claim) = &self.claim else { return format!("{}: not readable", self.file) };
        let verdict = match (self.is_verified, &self.problem) {
            (_, Some(_)) => "refused",
            (true, None) => "holds",
            (false, None) => "not checked: name the keys with --trust-key",
        };
        format!("{} {} by the key {}, {verdict}", claim.name, claim.version, claim.key)
    }

    /// The same for programs.
    pub(super) fn document(&self) -> SignatureFile {
        let claim = self.claim.as_ref();
        SignatureFile {
            file: self.file.clone(),
            name: claim.map(|claim| claim.name.to_string()),
            version: claim.map(|claim| claim.version.to_string()),
            digest: claim.map(|claim| claim.digest.to_string()),
            key: claim.map(|claim| claim.key.to_string()),
            verified: self.is_verified,
            problem: self.problem.clone(),
        }
    }
}
