//! Names of places in the configuration: URLs, annotations, ConfigMaps.

/// Kubernetes' limit for the name of an annotation and for one part of its prefix.
const MAX_NAME: usize = 63;
/// Kubernetes' limit for prefixes, names of objects and keys of ConfigMaps.
const MAX_LONG_NAME: usize = 253;
/// Longer than any address of a service.
const MAX_URL: usize = 1024;

/// A base URL; one without a scheme means https. The error never repeats the text: people put passwords into URLs.
pub(super) fn url(text: &str) -> Result<String, String> {
    let text = text.trim().trim_end_matches('/');
    let url = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = rest.map(|rest| rest.split('/').next().unwrap_or_default());
    let plain =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>' | b'\\'));
    match host {
        _ if url.len() > MAX_URL => Err(format!("a URL of {} bytes, at most {MAX_URL} are allowed", url.len())),
        None => Err("a URL must begin with https:// or http://".to_owned()),
        Some("") => Err("a URL needs a host".to_owned()),
        Some(_) if url.contains('@') => {
            Err("a URL must not contain a user or a password; name a Secret under credentials of the entry".to_owned())
        }
        Some(_) if url.contains(['?', '#']) => Err("a base URL must not have a query or a fragment".to_owned()),
        Some(_) if !plain(&url) => Err("a URL must contain printable ASCII characters only".to_owned()),
        Some(_) => Ok(url),
    }
}

/// The key of an annotation.
pub(super) fn annotation(key: &str) -> Result<(), String> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if prefix.is_none_or(is_object_name) && is_word(name) {
        Ok(())
    } else {
        Err(format!("{key:?} is not an annotation key: expected a name, or prefix/name"))
    }
}

/// The name of an object.
pub(super) fn object_name(name: &str) -> Result<(), String> {
    if is_object_name(name) {
        Ok(())
    } else {
        Err(format!("{name:?} is not an object name: lower-case letters, digits, - and . are allowed"))
    }
}

/// The name of a namespace.
pub(super) fn namespace(name: &str) -> Result<(), String> {
    if is_object_name(name) && name.len() <= MAX_NAME && !name.contains('.') {
        Ok(())
    } else {
        Err(format!("{name:?} is not a namespace name: lower-case letters, digits and - are allowed"))
    }
}

/// A key in the data of a ConfigMap.
pub(super) fn data_key(key: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if !key.is_empty() && key.len() <= MAX_LONG_NAME && key.bytes().all(is_plain) && key != "." && key != ".." {
        Ok(())
    } else {
        Err(format!("{key:?} is not a ConfigMap key: letters, digits, -, _ and . are allowed"))
    }
}

fn is_object_name(name: &str) -> bool {
    let is_inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = |label: &str| {
        !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && label.bytes().all(is_inside)
    };
    name.len() <= MAX_LONG_NAME && name.split('.').all(is_label)
}

fn is_word(name: &str) -> bool {
    let bytes = name.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let is_inside = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    bytes.len() <= MAX_NAME && edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(is_inside)
}
