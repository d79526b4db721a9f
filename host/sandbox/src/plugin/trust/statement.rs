//! What is signed, and the file that holds it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::{MAX_SIGNATURE_FILE, TrustError};
use crate::plugin::Digest;

/// The first line of what is signed: no signature for anything else begins like this, and none of ours is valid for
/// anything else. A changed format gets another number.
const DOMAIN: &str = "topoloom plugin signature 1";

/// The longest name or version, as in descriptions.
const WORD: usize = 63;

/// The longest part of a parser's complaint that is shown.
const COMPLAINT: usize = 200;

/// A name, a version and a digest that can be signed.
pub(super) struct Statement<'a> {
    name: &'a str,
    version: &'a str,
    digest: Digest,
}

impl<'a> Statement<'a> {
    pub(super) fn new(name: &'a str, version: &'a str, digest: Digest) -> Result<Self, TrustError> {
        for (what, value) in [("the name", name), ("the version", version)] {
            // Without blanks and line ends two statements never have the same message.
            let is_word = (1..=WORD).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_graphic());
            if !is_word {
                return Err(TrustError::Word { what, value: topoloom_core::text::line(value, COMPLAINT) });
            }
        }
        Ok(Self { name, version, digest })
    }

    /// The bytes under the signature: one line for each part.
    pub(super) fn message(&self) -> Vec<u8> {
        let Self { name, version, digest } = self;
        format!("{DOMAIN}\n{digest}\n{name}\n{version}\n").into_bytes()
    }

    /// The whole `plugin.sig`. Every value is quoted, so that a version such as 1.0 stays a text.
    pub(super) fn file(&self, key: &super::KeyId, signature: &[u8]) -> String {
        let Self { name, version, digest } = self;
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        format!(
            "name: {}\nversion: {}\ndigest: \"{digest}\"\nkey: \"{key}\"\nsignature: \"{}\"\n",
            quoted(name),
            quoted(version),
            STANDARD.encode(signature)
        )
    }
}

/// A `plugin.sig`: YAML, of which JSON is a part.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SignatureFile {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) digest: String,
    pub(super) key: String,
    signature: String,
}

impl SignatureFile {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, TrustError> {
        if bytes.len() > MAX_SIGNATURE_FILE {
            return Err(TrustError::TooLarge { size: bytes.len() });
        }
        let malformed = |cause: String| TrustError::Malformed { cause: topoloom_core::text::line(&cause, COMPLAINT) };
        let text = std::str::from_utf8(bytes).map_err(|error| malformed(error.to_string()))?;
        let file: Self = serde_saphyr::from_str(text).map_err(|error| malformed(error.to_string()))?;
        // They are repeated in messages.
        let clean = |text: String| topoloom_core::text::line(&text, COMPLAINT);
        Ok(Self { digest: clean(file.digest), key: clean(file.key), ..file })
    }

    pub(super) fn signature(&self) -> Result<Vec<u8>, TrustError> {
        let decoded = STANDARD.decode(&self.signature).ok().filter(|signature| signature.len() == 64);
        decoded.ok_or_else(|| TrustError::Malformed { cause: "signature: must be 64 bytes in base64".to_owned() })
    }
}
