//! From a source to the name of its object.

use crate::rules::is_dns_subdomain;
use sha2::{Digest, Sha256};

/// How many hexadecimal digits of the hash end an altered name: 40 bits, so that two of a thousand sources meet with a
/// probability below one in a million.
const SUFFIX_DIGITS: usize = 10;

/// The name of the DiscoverySource of `source`.
///
/// A source is any label value, which may have upper-case letters and underscores; an object's name may not. A source
/// that is a legal name and does not end like an altered one is its own name; every other is spelled in lower case,
/// with `-` for what is illegal, and gets `-` and a hash of the source behind it. So different sources have different
/// names, up to a collision of the hash.
#[must_use]
pub fn object_name(source: &str) -> String {
    if is_dns_subdomain(source) && !looks_altered(source) {
        return source.to_owned();
    }
    let legal = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let spelled: String = source.chars().map(legal).collect();
    let spelled = spelled.trim_matches('-');
    let hash: String = Sha256::digest(source.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let suffix: String = hash.chars().take(SUFFIX_DIGITS).collect();
    if spelled.is_empty() { format!("source-{suffix}") } else { format!("{spelled}-{suffix}") }
}

/// Whether the text could be the altered name of another source.
fn looks_altered(source: &str) -> bool {
    let hex = |text: &str| {
        text.len() == SUFFIX_DIGITS && text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'))
    };
    source.rsplit_once('-').is_some_and(|(_, end)| hex(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_source_has_a_legal_name_of_its_own() {
        let sources = [
            "label",
            "ufm",
            "acme-fabric",
            "a.b",
            "5",
            "Label",
            "LABEL",
            "a_b",
            "a-b",
            "a..b",
            "A.-b",
            "x-0123456789",
            "a__b",
            "A_b",
        ];
        let names: BTreeSet<String> = sources.iter().map(|source| object_name(source)).collect();
        assert_eq!(names.len(), sources.len(), "{names:?}");
        assert!(names.iter().all(|name| is_dns_subdomain(name)), "{names:?}");
    }

    #[test]
    fn a_plain_source_is_its_own_name() {
        for source in ["label", "ufm", "acme-fabric", "rack.7"] {
            assert_eq!(object_name(source), source);
        }
    }

    #[test]
    fn an_altered_name_is_no_other_sources_name() {
        let altered = object_name("Label");
        assert!(altered.starts_with("label-"), "{altered}");
        assert_ne!(object_name(&altered), altered);
    }
}
