//! Rules for single values of the configuration.

use regex_lite::Regex;

/// Volcano's limit for the name of a type, in bytes.
const MAX_TYPE_NAME: usize = 20;
/// Kubernetes' limit for the name of a label and for one part of its prefix.
const MAX_NAME: usize = 63;
/// Kubernetes' limit for the prefix of a label, and the CRD's for a tier name.
pub(super) const MAX_LONG_NAME: usize = 253;
/// Tiers are 1 to 16.
pub(super) const MAX_LEVELS: usize = 16;

pub(super) fn type_name(name: &str) -> Result<(), String> {
    if name.len() > MAX_TYPE_NAME {
        return Err(format!("the type name has {} bytes, at most {MAX_TYPE_NAME} are allowed", name.len()));
    }
    Ok(())
}

pub(super) fn label_key(key: &str) -> Result<(), String> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let prefix_is_good = prefix.is_none_or(|prefix| {
        prefix.len() <= MAX_LONG_NAME
            && prefix.split('.').all(|part| is_word(part, b"-") && !part.bytes().any(|byte| byte.is_ascii_uppercase()))
    });
    if prefix_is_good && is_word(name, b"-_.") {
        Ok(())
    } else {
        Err(format!("{key:?} is not a label key: expected a name, or prefix/name"))
    }
}

/// A label key of Kubernetes.
pub(crate) fn is_label_key(key: &str) -> bool {
    label_key(key).is_ok()
}

/// A label value of Kubernetes; the empty one is one too.
pub(crate) fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_word(value, b"-_.")
}

/// Letters and digits, inside also some other characters, 1 to 63 of them.
fn is_word(text: &str, inside: &[u8]) -> bool {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    bytes.len() <= MAX_NAME
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || inside.contains(byte))
}

pub(super) fn extract(pattern: &str) -> Result<Regex, String> {
    let regex =
        Regex::new(pattern).map_err(|error| format!("{pattern:?} is not a valid regular expression: {error}"))?;
    match regex.captures_len() - 1 {
        1 => Ok(regex),
        groups => Err(format!("{pattern:?} has {groups} capture groups, exactly one is expected")),
    }
}
