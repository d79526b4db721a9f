//! The identity of a plugin: the sha256 of its file.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// A sha256, written `sha256:<64 hexadecimal digits>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Reads `sha256:` and 64 hexadecimal digits of either case; printed it is lower case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix("sha256:")?;
        if hex.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            let &[high, low] = pair else { return None };
            *byte = nibble(high)? << 4 | nibble(low)?;
        }
        Some(Self(bytes))
    }

    /// The first 12 digits: enough to distinguish plugins in logs and names.
    #[must_use]
    pub fn short(&self) -> String {
        self.0.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
    }
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_and_print_are_inverse() {
        let digest = Digest::of(b"abc");
        let text = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_string(), text);
        assert_eq!(Digest::parse(text), Some(digest));
        assert_eq!(Digest::parse(&text.to_uppercase().replace("SHA256", "sha256")), Some(digest));
        assert_eq!(digest.short(), "ba7816bf8f01");
    }

    #[test]
    fn other_spellings_are_refused() {
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        for bad in [hex.to_owned(), format!("SHA256:{hex}"), "sha256:ab".into(), String::new()] {
            assert_eq!(Digest::parse(&bad), None, "{bad}");
        }
    }
}
