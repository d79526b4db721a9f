//! Names that other systems have rules for: hosts of a network, annotations of Kubernetes.

use std::net::IpAddr;

use super::Reader;
use topoloom_sdk::json::Value;

/// Kubernetes' limit for the name of an annotation, and that of the DNS for one label.
const MAX_NAME: usize = 63;
/// Kubernetes' limit for the prefix of an annotation, and that of the DNS for a whole name.
const MAX_LONG_NAME: usize = 253;

impl Reader {
    /// The name of a host or its IP address, as in a certificate. An empty one is none.
    pub fn host_name(&mut self, path: &str, value: &Value) -> Option<String> {
        let text = self.text(path, value)?;
        let name = text.trim();
        if name.is_empty() {
            return None;
        }
        if !is_dns_name(&name.to_ascii_lowercase()) && name.parse::<IpAddr>().is_err() {
            self.problem(
                path,
                format!(
                    "{text:?} is neither a host name nor an IP address: expected letters, digits and - with . \
                     between them, such as \"fabric.example.org\""
                ),
            );
            return None;
        }
        Some(name.to_owned())
    }

    /// The key of an annotation. An empty one is none.
    pub fn annotation(&mut self, path: &str, value: &Value) -> Option<String> {
        let key = self.text(path, value).filter(|key| !key.is_empty())?;
        let (prefix, name) = key.split_once('/').map_or((None, key.as_str()), |(prefix, name)| (Some(prefix), name));
        if !prefix.is_none_or(is_dns_name) || !is_name(name) {
            self.problem(
                path,
                format!(
                    "{key:?} is not an annotation key: expected name or prefix/name, with a name of at most {MAX_NAME} \
                     letters, digits, -, _ and ., and a DNS name of at most {MAX_LONG_NAME} bytes as prefix"
                ),
            );
            return None;
        }
        Some(key)
    }
}

fn is_dns_name(name: &str) -> bool {
    let is_inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = |label: &str| {
        (1..=MAX_NAME).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(is_inside)
    };
    name.len() <= MAX_LONG_NAME && name.split('.').all(is_label)
}

fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let is_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let is_inside = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    bytes.len() <= MAX_NAME && is_edge(bytes.first()) && is_edge(bytes.last()) && bytes.iter().all(is_inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_one(read: impl Fn(&mut Reader, &Value) -> Option<String>, text: &str) -> Result<Option<String>, String> {
        let mut reader = Reader::new();
        let found = read(&mut reader, &Value::String(text.to_owned()));
        reader.finish().map(|_| found).map_err(|problems| problems[0].to_string())
    }

    #[test]
    fn a_host_goes_by_its_name_or_its_address() {
        let host = |text: &str| read_one(|reader, value| reader.host_name("serverName", value), text);
        for good in ["ufm", "UFM.example.org", "10.0.0.1", "fd00::1", "a-1.b"] {
            assert_eq!(host(good), Ok(Some(good.to_owned())));
        }
        assert_eq!(host(" "), Ok(None));
        for bad in ["foo bar", "a..b", "-a", "ufm:443", "https://ufm", "ä", &"x".repeat(64)] {
            let why = host(bad).unwrap_err();
            assert!(why.starts_with(&format!("serverName: {bad:?} is neither a host name nor an IP address")), "{why}");
        }
    }

    #[test]
    fn an_annotation_has_a_name_and_perhaps_a_prefix() {
        let key = |text: &str| read_one(|reader, value| reader.annotation("guidAnnotation", value), text);
        for good in ["guids", "acme.com/IB_guids", &"x".repeat(63)] {
            assert_eq!(key(good), Ok(Some(good.to_owned())));
        }
        assert_eq!(key(""), Ok(None));
        for bad in ["a b", "a/", "/a", "a/b/c", "A.com/x", "-a", &"x".repeat(64)] {
            let why = key(bad).unwrap_err();
            assert!(why.starts_with(&format!("guidAnnotation: {bad:?} is not an annotation key")), "{why}");
        }
    }
}
