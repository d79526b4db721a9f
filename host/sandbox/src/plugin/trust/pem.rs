//! Keys as openssl writes them, and nothing else.
//!
//! One algorithm has one encoding: a fixed prefix and 32 bytes. So there is no parser of ASN.1 here that could be led
//! astray, only a comparison.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// SubjectPublicKeyInfo of an ed25519 key, up to the key (RFC 8410).
const PUBLIC: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// PKCS#8, version 1, of an ed25519 key, up to the seed (RFC 8410). Version 2 repeats the public key behind it; openssl
/// writes version 1.
const PRIVATE: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// The part of a line that a message repeats.
const SHOWN: usize = 40;

/// What is wrong with a file of keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PemError {
    /// Nothing in it.
    #[error("there is no key in it; a key begins with -----BEGIN {0}-----")]
    Empty(&'static str),
    /// Text that belongs to no key. It is not repeated: it may be a part of a private one.
    #[error("line {0} belongs to no key; a file of keys holds keys, blank lines, and lines that begin with #")]
    Outside(usize),
    /// A key that does not end.
    #[error("the key that begins in line {0} has no end")]
    Unfinished(usize),
    /// Something else.
    #[error("line {line} begins a {found:?}, and a {wanted:?} is needed; {cure}")]
    Label {
        /// Where.
        line: usize,
        /// What begins there.
        found: String,
        /// What is needed.
        wanted: &'static str,
        /// What to do.
        cure: &'static str,
    },
    /// Not ed25519, or damaged.
    #[error("the key that begins in line {0} is no ed25519 key; make one with `openssl genpkey -algorithm ed25519`")]
    Algorithm(usize),
    /// More than one private key.
    #[error("there are {0} private keys in it, and one can sign")]
    Several(usize),
}

/// All public keys of a text.
pub(super) fn public_keys(text: &str) -> Result<Vec<[u8; 32]>, PemError> {
    keys(text, "PUBLIC KEY", &PUBLIC, "the public half of a private key is printed by `openssl pkey -in FILE -pubout`")
}

/// The seed of the one private key of a text.
pub(super) fn private_key(text: &str) -> Result<[u8; 32], PemError> {
    let cure = "make one with `openssl genpkey -algorithm ed25519`, without a passphrase";
    match keys(text, "PRIVATE KEY", &PRIVATE, cure)?.as_slice() {
        [seed] => Ok(*seed),
        several => Err(PemError::Several(several.len())),
    }
}

fn keys(text: &str, wanted: &'static str, prefix: &[u8], cure: &'static str) -> Result<Vec<[u8; 32]>, PemError> {
    let mut keys = Vec::new();
    let mut lines = text.lines().map(str::trim).zip(1..);
    while let Some((line, number)) = lines.next() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let begin = line.strip_prefix("-----BEGIN ").and_then(|line| line.strip_suffix("-----"));
        let label = begin.ok_or(PemError::Outside(number))?;
        if label != wanted {
            let found = topoloom_core::text::line(label, SHOWN);
            return Err(PemError::Label { line: number, found, wanted, cure });
        }
        let end = format!("-----END {wanted}-----");
        let mut body = String::new();
        loop {
            match lines.next() {
                None => return Err(PemError::Unfinished(number)),
                Some((line, _)) if line == end => break,
                Some((line, _)) => body.push_str(line),
            }
        }
        let key = STANDARD.decode(&body).ok();
        let key = key.and_then(|der| <[u8; 32]>::try_from(der.strip_prefix(prefix)?).ok());
        keys.push(key.ok_or(PemError::Algorithm(number))?);
    }
    if keys.is_empty() { Err(PemError::Empty(wanted)) } else { Ok(keys) }
}
