//! From what a plugin requests to the request line. Everything that two readers could understand differently is
//! refused: a server that decodes once more than we do must not see another path than we judged.

use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};

/// The longest path with its query, in bytes; servers commonly stop at 8 KiB for the whole request line.
const LONGEST: usize = 4 << 10;
/// How often a path is decoded to see what a service behind the server might see.
const DECODED: usize = 3;

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
pub fn check<'a>(path_and_query: &'a str, granted: &[String]) -> Result<&'a str, BadPath> {
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

/// Whether a path is the prefix itself or lies below it, by whole segments.
fn is_below(path: &str, prefix: &str) -> bool {
    match path.strip_prefix(prefix) {
        Some(rest) => rest.is_empty() || prefix.ends_with('/') || rest.starts_with('/'),
        None => false,
    }
}

/// The URL of a request: scheme, host and port of the base, its path, and what the plugin asked for.
///
/// # Errors
/// When the two together are no URL, which [`check`] leaves no room for.
pub fn join(base: &Uri, path_and_query: &str) -> Result<Uri, http::Error> {
    let scheme = base.scheme().cloned().unwrap_or(Scheme::HTTPS);
    let authority = base.authority().cloned().unwrap_or_else(|| Authority::from_static("invalid"));
    let joined = format!("{}{path_and_query}", base.path().trim_end_matches('/'));
    let joined = if joined.starts_with('/') { joined } else { format!("/{joined}") };
    Uri::builder().scheme(scheme).authority(authority).path_and_query(PathAndQuery::try_from(joined)?).build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(path: &str) -> bool {
        matches!(check(path, &[]), Err(BadPath::Form(_)))
    }

    #[test]
    fn what_two_readers_could_understand_differently_is_refused() {
        for path in [
            "x",
            "https://evil.example/",
            "//evil.example/x",
            "/a/../b",
            "/..",
            "/./x",
            "/a/%2e%2e/b",
            "/a/%2E./b",
            "/a/.%2e/b",
            "/a/%252e%252e/b",
            "/a/%25252e%25252e/b",
            "/a%2fb",
            "/a%2Fb",
            "/a%252fb",
            "/a%5cb",
            "/a\\b",
            "/a/..;/b",
            "/a b",
            "/a\r\nHost: evil",
            "/a%0d%0aHost:%20evil",
            "/a%00",
            "/a#b",
            "/a%zz",
            "/a%2",
            "/ä",
            "/%2f%2fevil.example",
            "@evil.example/",
            ":8080/",
            ".evil.example/",
            "/a/%c0%ae%c0%ae/b",
            "/a%ff",
            "/a/%2525252525252525",
        ] {
            assert!(refused(path), "{path}: {:?}", check(path, &[]));
        }
        assert!(refused(&format!("/{}", "x".repeat(5000))));
        for path in ["", "/", "/a/b", "/a?x=../..&y=%2f", "/ufmRest/resources/ports?active=true", "/a/...", "/a%20b"] {
            assert_eq!(check(path, &[]), Ok(path));
        }
    }

    #[test]
    fn a_path_must_lie_below_a_granted_one() {
        let granted = ["/ufmRest".to_owned(), "/v1/".to_owned()];
        for path in ["/ufmRest", "/ufmRest/app", "/ufmRest?x", "/v1/x"] {
            assert_eq!(check(path, &granted), Ok(path));
        }
        assert_eq!(check("", &["/".to_owned()]), Ok(""));
        for path in ["", "/", "/ufmRestV3/app", "/v1", "/UFMREST/app"] {
            assert_eq!(check(path, &granted), Err(BadPath::NotGranted), "{path}");
        }
    }

    #[test]
    fn the_base_keeps_its_host_and_path() {
        let uri = |base: &str, path: &str| join(&base.parse().unwrap(), path).unwrap().to_string();
        assert_eq!(uri("https://ufm.example:8443", "/a?b"), "https://ufm.example:8443/a?b");
        assert_eq!(uri("https://ufm.example/x/", "/a"), "https://ufm.example/x/a");
        assert_eq!(uri("http://ufm.example/x", ""), "http://ufm.example/x");
        assert_eq!(uri("http://ufm.example", ""), "http://ufm.example/");
        assert_eq!(uri("http://ufm.example", "?q=1"), "http://ufm.example/?q=1");
    }

    proptest! {
        #[test]
        fn whatever_passes_stays_on_the_host_and_below_the_base(path in "[/a-zA-Z0-9%.;?#@:\\\\&= ]{0,40}") {
            let base: Uri = "https://fabric.example:8443/base".parse().unwrap();
            if check(&path, &[]).is_ok() {
                let uri = join(&base, &path).unwrap();
                prop_assert_eq!(uri.authority().unwrap().as_str(), "fabric.example:8443");
                prop_assert!(uri.path().starts_with("/base"), "{}", uri);
                prop_assert!(!uri.path().split('/').any(|segment| segment == ".."));
            }
        }
    }
}
