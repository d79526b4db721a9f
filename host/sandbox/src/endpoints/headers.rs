//! Which headers cross between a plugin and a server: none that carries a credential, a connection or another host.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use topoloom_core::rules::request::check_headers;

/// What a server says that no plugin gets: credentials of any kind and the connection's own.
const NEVER_SHOWN: [HeaderName; 12] = [
    header::SET_COOKIE,
    header::AUTHORIZATION,
    header::WWW_AUTHENTICATE,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::COOKIE,
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    HeaderName::from_static("set-cookie2"),
    HeaderName::from_static("x-auth-token"),
    HeaderName::from_static("authentication-info"),
    HeaderName::from_static("refresh"),
];

/// The headers of a plugin as they may be sent.
///
/// # Errors
/// The name of the refused header, and why.
pub(super) fn outgoing(asked: &[(String, String)]) -> Result<HeaderMap, String> {
    check_headers(asked)?;
    let mut headers = HeaderMap::with_capacity(asked.len());
    for (name, value) in asked {
        // Both have just been judged.
        let odd = || format!("the header {name:?} is none");
        headers
            .append(name.parse::<HeaderName>().map_err(|_| odd())?, HeaderValue::from_str(value).map_err(|_| odd())?);
    }
    Ok(headers)
}

/// What a plugin gets of a server's headers: names and values that are text.
pub(super) fn incoming(headers: &HeaderMap) -> Vec<(String, String)> {
    let shown = headers.iter().filter(|(name, _)| !NEVER_SHOWN.contains(name) && !name.as_str().starts_with("proxy-"));
    shown
        .filter_map(|(name, value)| {
            let value = value.to_str().ok()?;
            let value = if name == header::LOCATION { place(value) } else { value.to_owned() };
            Some((name.as_str().to_owned(), value))
        })
        .collect()
}

/// Where a redirect leads, without what says more: users and passwords, sessions, return addresses.
fn place(location: &str) -> String {
    let plain = location.split(['?', '#', ';']).next().unwrap_or_default();
    match plain.split_once("//") {
        Some((scheme, rest)) if scheme.is_empty() || scheme.ends_with(':') => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit('@').next().unwrap_or_default();
            format!("{scheme}//{host}{path}")
        }
        _ => plain.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, value: &str) -> Result<HeaderMap, String> {
        outgoing(&[(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn a_plugin_sets_no_header_of_the_host() {
        for name in [
            "Authorization",
            "authorization",
            "Cookie",
            "HOST",
            "Proxy-Authorization",
            "Proxy-Connection",
            "Connection",
            "Transfer-Encoding",
            "Content-Length",
            "Upgrade",
            "TE",
            "X-Forwarded-For",
            "X-Forwarded-Host",
            "Forwarded",
            "Keep-Alive",
            "Expect",
            "X-Remote-User",
            "X_Remote_User",
            "X-Original-URL",
            "X-HTTP-Method-Override",
            "X-Auth-Token",
            "User-Agent",
            "Range",
        ] {
            assert!(set(name, "x").is_err(), "{name}");
        }
        for name in ["Accept", "If-None-Match", "Content-Type", "X-Request-Id"] {
            assert!(set(name, "x").is_ok(), "{name}");
        }
    }

    #[test]
    fn a_value_cannot_add_lines() {
        for value in ["a\r\nHost: evil", "a\nb", "a\0", "\r"] {
            assert!(set("accept", value).is_err(), "{value:?}");
        }
        assert!(set("bad name", "x").is_err());
        assert!(set("a\r\nb", "x").is_err());
        assert!(set("accept", &"x".repeat(5000)).is_err());
        let many: Vec<_> = (0..33).map(|at| (format!("x-{at}"), String::new())).collect();
        assert!(outgoing(&many).is_err());
    }

    #[test]
    fn a_redirect_names_a_place_and_nothing_else() {
        for (location, shown) in [
            ("/login;jsessionid=7?x=1", "/login"),
            ("https://admin:123456@sso.example/login?sid=1", "https://sso.example/login"),
            ("//user@evil.example", "//evil.example"),
            ("https://sso.example", "https://sso.example"),
            ("page//x@y", "page//x@y"),
        ] {
            assert_eq!(place(location), shown);
        }
    }

    #[test]
    fn credentials_of_a_server_are_not_shown() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("set-cookie", "session=1"),
            ("www-authenticate", "Basic"),
            ("proxy-authenticate", "Basic"),
            ("location", "/login?return=/x&sid=1"),
            ("etag", "\"7\""),
            ("content-type", "application/json"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let shown = incoming(&headers);
        let shown: Vec<_> = shown.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(shown, [("location", "/login"), ("etag", "\"7\""), ("content-type", "application/json")]);
    }
}
