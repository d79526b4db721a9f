//! Identities of groups: readable, unambiguous, at most 512 bytes.
//!
//! `gpu/1/s1/a7` is type, level counted from inside, then the values from outside. No part can contain a `/`: label
//! values never do, and any byte that is not a letter, digit, dot, hyphen or underscore is written as `%` and two digits. A
//! value with `valueScope: global` begins with `=`.

use std::fmt::Write;

/// The host takes identities up to this length.
const MAX: usize = 512;
/// Bytes that remain of a longer one, before the hash of the whole.
const KEPT: usize = 460;

/// Adds one part, escaped.
pub(crate) fn push(path: &mut String, part: &str) {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if part.bytes().all(is_plain) {
        return path.push_str(part);
    }
    for byte in part.bytes() {
        if is_plain(byte) {
            path.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(path, "%{byte:02x}");
        }
    }
}

/// Cuts what is too long, with a hash of the whole in place of the tail.
pub(crate) fn bounded(mut id: String) -> String {
    if id.len() > MAX {
        let hash = hash(id.as_bytes());
        id.truncate(KEPT);
        // Writing to a String cannot fail.
        let _ = write!(id, "#{hash:032x}");
    }
    id
}

/// The "type" part of object names, as Volcano cleans it: lower-case letters, digits, `.` and `-`. `None` when nothing
/// usable is left.
pub(crate) fn kind(name: &str) -> Option<String> {
    let clean: String = name
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' => char::from(byte),
            b'A'..=b'Z' => char::from(byte.to_ascii_lowercase()),
            _ => '-',
        })
        .collect();
    let clean = clean.trim_matches(['.', '-']);
    (!clean.is_empty()).then(|| clean.to_owned())
}

/// FNV-1a, 128 bits: not for secrets, only so that two long paths do not collide by chance.
fn hash(bytes: &[u8]) -> u128 {
    const PRIME: u128 = 0x0100_0000_0000_0000_0000_013b;
    const START: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    bytes.iter().fold(START, |hash, &byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_apart() {
        let mut path = String::new();
        push(&mut path, "a/b%");
        assert_eq!(path, "a%2fb%25");
    }

    #[test]
    fn a_long_identity_is_cut_and_still_its_own() {
        let [a, b] = ["x", "y"].map(|end| bounded("p".repeat(600) + end));
        assert!(a.len() <= MAX && a != b);
    }

    #[test]
    fn kinds_are_names() {
        assert_eq!(kind("Rack_Level.X").as_deref(), Some("rack-level.x"));
        assert_eq!((kind("._"), kind("-é").as_deref()), (None, None));
    }
}
