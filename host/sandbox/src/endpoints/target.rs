//! From what a plugin requests to the request line. Everything that two readers could understand differently is
//! refused: a server that decodes once more than we do must not see another path than we judged.

use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};
pub use topoloom_core::rules::request::{BadPath, check_path as check};

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
