//! What Kubernetes accepts as a name and a label key.
//!
//! Pure checks that answer yes or no; the caller knows which field to name in the message. Lengths are in bytes,
//! as the API server counts them.

/// Longest name part of a label key, longest DNS label.
pub const LABEL_MAX: usize = 63;

/// Longest DNS subdomain: names of most objects, and the prefix of a label key.
pub const SUBDOMAIN_MAX: usize = 253;

/// Whether `text` can be the key of a label or annotation: `name` or `prefix/name`.
#[must_use]
pub fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_qualified_part(name),
        None => is_qualified_part(text),
    }
}

/// Whether `text` can name an object of most kinds: lower-case DNS labels joined by dots, at most 253 bytes.
#[must_use]
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= SUBDOMAIN_MAX && text.split('.').all(is_dns_chunk)
}

/// Whether `text` can name a namespace: one lower-case DNS label, at most 63 bytes.
#[must_use]
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= LABEL_MAX && is_dns_chunk(text)
}

/// Whether `text` can be a key in the data of a ConfigMap or a Secret.
#[must_use]
pub fn is_data_key(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=SUBDOMAIN_MAX).contains(&text.len()) && text.bytes().all(legal) && text != "." && !text.starts_with("..")
}

/// Letters, digits, `-`, `_` and `.`, with a letter or digit at both ends; 1 to 63 bytes.
fn is_qualified_part(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    text.len() <= LABEL_MAX && text.bytes().all(inner) && framed(text, |byte| byte.is_ascii_alphanumeric())
}

/// Lower-case letters, digits and `-`, with a letter or digit at both ends; any length above zero.
fn is_dns_chunk(text: &str) -> bool {
    let edge = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.bytes().all(|byte| edge(byte) || byte == b'-') && framed(text, edge)
}

/// Whether there is a first and a last byte and both satisfy `edge`.
fn framed(text: &str, edge: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|byte| edge(*byte)) && bytes.last().is_some_and(|byte| edge(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: fn(&str) -> bool, accepted: &[&str], refused: &[&str]) {
        for text in accepted {
            assert!(rule(text), "{text:?} should be accepted");
        }
        for text in refused {
            assert!(!rule(text), "{text:?} should be refused");
        }
    }

    #[test]
    fn label_keys_may_have_one_prefix() {
        check(
            is_label_key,
            &["zone", "kubernetes.io/hostname", "example.com/Rack_1"],
            &["", "/a", "a/", "a/b/c", "Example.com/a", "a..b/c", "has space"],
        );
    }

    #[test]
    fn names_are_lower_case_dns() {
        let longest = ["a"; 127].join(".");
        check(
            is_dns_subdomain,
            &["a", "a-b.c0", &longest],
            &["", "A", ".a", "a.", "a..b", "-a", "a_b", &"a".repeat(254)],
        );
        check(is_dns_label, &["a", "a-b"], &["", "a.b", "A", &"a".repeat(64)]);
        check(
            is_data_key,
            &["plugin.wasm", "A_b", "..."].map(|t| if t == "..." { ".a" } else { t }),
            &["", ".", "..", "..a", "a/b"],
        );
    }
}
