//! Which requests a plugin may make of an endpoint that it was granted: which headers it sets, and the form of a path. Everything
//! that two readers could understand differently is refused.

use super::broken::Short;
use super::wish::is_below;

/// Headers that a plugin may set: what it would like to get, what it has, what it sends. A list of what it may not set
/// would always lack one: servers, and the proxies before them, believe `X-Forwarded-For`, `X_Remote_User`,
/// `X-Original-URL`, `X-HTTP-Method-Override` and their like.
pub const HEADERS: [&str; 12] = [
    "accept",
    "accept-charset",
    "accept-language",
    "cache-control",
    "content-language",
    "content-type",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-unmodified-since",
    "pragma",
    "x-request-id",
];
/// Headers of one request that a plugin may set.
const MOST: usize = 32;
/// The longest value of a header, and the longest path with its query, in bytes; servers commonly stop at 8 KiB for the whole request
/// line.
const LONGEST: usize = 4 << 10;
/// How often a path is decoded to see what a service behind the server might see.
const DECODED: usize = 3;

/// Whether a plugin may set these headers.
///
/// # Errors
/// The name of the refused header, and why.
pub fn check_headers(asked: &[(String, String)]) -> Result<(), String> {
    if asked.len() > MOST {
        return Err(format!("{} headers, at most {MOST} may be set", asked.len()));
    }
    for (name, value) in asked {
        let bad = |why: &str| Err(format!("the header {} {why}", Short(name)));
        if name.is_empty() || !name.bytes().all(is_of_a_token) {
            return bad("has no valid name");
        }
        if !HEADERS.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            return bad(&format!("belongs to the host; a plugin may set {}", HEADERS.join(", ")));
        }
        if value.len() > LONGEST {
            return bad("is longer than 4096 bytes");
        }
        // A line break would begin another header.
        if !value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')) {
            return bad("has a value with a control character or a character beyond ASCII");
        }
    }
    Ok(())
}

/// Whether a byte may be in the name of a header (RFC 9110, 5.6.2).
fn is_of_a_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Why a path is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadPath {
    /// Its form.
    Form(&'static str),
    /// It is fine, and not one of those that are granted.
    NotGranted,
}

/// The path below the base that a request may name, judged.
///
/// # Errors
/// What is wrong with it.
pub fn check_path<'a>(path_and_query: &'a str, granted: &[String]) -> Result<&'a str, BadPath> {
    let bad = |what| Err(BadPath::Form(what));
    if path_and_query.len() > LONGEST {
        return bad("it is longer than 4096 bytes");
    }
    if !path_and_query.is_empty() && !path_and_query.starts_with('/') {
        return bad("it does not begin with `/`");
    }
    if !path_and_query.bytes().all(|byte| byte.is_ascii_graphic()) {
        return bad("it has a space, a control character or a character beyond ASCII; encode it");
    }
    if path_and_query.contains('#') {
        return bad("it has a fragment");
    }
    let path = path_and_query.split_once('?').map_or(path_and_query, |(path, _)| path);
    let mut seen = path.to_owned();
    let mut is_plain = false;
    for _ in 0..=DECODED {
        if let Some(what) = trouble(&seen) {
            return bad(what);
        }
        let Some(next) = decoded(&seen) else { return bad("it has a `%` that begins no encoded character") };
        is_plain = next == seen;
        if is_plain {
            break;
        }
        seen = next;
    }
    if !is_plain {
        return bad("it is encoded over and over");
    }
    // Nothing and a slash are the same request.
    let path = if path.is_empty() { "/" } else { path };
    let covered = granted.is_empty() || granted.iter().any(|prefix| is_below(path, prefix));
    if covered { Ok(path_and_query) } else { Err(BadPath::NotGranted) }
}

/// What a reader could misread in a path.
fn trouble(path: &str) -> Option<&'static str> {
    let mut segments = path.split('/').skip(1);
    if path.contains('\\') {
        return Some("it has a backslash");
    }
    if path.chars().any(char::is_control) {
        return Some("it has an encoded control character");
    }
    if path.starts_with("//") {
        return Some("it begins with `//`, which could name another host");
    }
    // `..;` and its like are dots to some servers.
    if segments.any(|segment| matches!(segment.split(';').next(), Some("." | ".."))) {
        return Some("it has a `.` or `..` segment");
    }
    None
}

/// The path with its encoded characters decoded once. A decoded slash becomes a backslash, which is refused: whether it
/// separates segments is a matter of taste.
fn decoded(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (high, low) = (rest.next()?, rest.next()?);
        let value = |digit: u8| char::from(digit).to_digit(16);
        let byte = u8::try_from(value(high)? * 16 + value(low)?).ok()?;
        bytes.push(if byte == b'/' { b'\\' } else { byte });
    }
    // An overlong form of a slash or a dot is no UTF-8.
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_host_are_named_with_those_of_a_plugin() {
        let check = |name: &str, value: &str| check_headers(&[(name.to_owned(), value.to_owned())]);
        assert_eq!(check("If-None-Match", "\"7\""), Ok(()));
        let words = check("Authorization", "Bearer x").unwrap_err();
        assert!(
            words.starts_with(
                "the header \"Authorization\" belongs to the host; a plugin may set accept, accept-charset"
            )
        );
        for (name, value, words) in [
            ("a b", "", "the header \"a b\" has no valid name"),
            ("", "", "the header \"\" has no valid name"),
            (
                "accept",
                "a\nb",
                "the header \"accept\" has a value with a control character or a character beyond ASCII",
            ),
            ("accept", "ä", "the header \"accept\" has a value with a control character or a character beyond ASCII"),
        ] {
            assert_eq!(check(name, value), Err(words.to_owned()));
        }
        let many = vec![("accept".to_owned(), String::new()); 33];
        assert_eq!(check_headers(&many), Err("33 headers, at most 32 may be set".to_owned()));
    }

    #[test]
    fn a_path_has_one_meaning() {
        assert_eq!(check_path("/v1/nodes?limit=5", &["/v1".to_owned()]), Ok("/v1/nodes?limit=5"));
        assert_eq!(check_path("/v10", &["/v1".to_owned()]), Err(BadPath::NotGranted));
        assert_eq!(check_path("/a/%2e%2e/b", &[]), Err(BadPath::Form("it has a `.` or `..` segment")));
        assert_eq!(check_path("nodes", &[]), Err(BadPath::Form("it does not begin with `/`")));
    }
}
