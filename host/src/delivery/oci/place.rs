//! URLs of a registry: what is the same place, where a `Location` leads, what a query looks like. Pure.

use std::net::IpAddr;

use http::Uri;

/// Whether two URLs are of one scheme, host and port.
pub(super) fn is_same(one: &Uri, other: &Uri) -> bool {
    let port = |uri: &Uri| uri.port_u16().or(if uri.scheme_str() == Some("https") { Some(443) } else { Some(80) });
    let host = |uri: &Uri| uri.host().map(str::to_ascii_lowercase);
    one.scheme() == other.scheme() && host(one) == host(other) && port(one) == port(other)
}

/// Whether a URL is of this machine, by its own words.
pub(super) fn is_loopback(uri: &Uri) -> bool {
    uri.host().is_some_and(is_loopback_host)
}

/// Whether a host is this machine, by its own words.
pub(crate) fn is_loopback_host(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Where a `Location` leads, seen from a URL. One that names a user leads nowhere.
pub(super) fn target(from: &Uri, location: &str) -> Option<Uri> {
    let location = location.split('#').next().unwrap_or_default();
    let (authority, scheme) = (from.authority()?, from.scheme_str()?);
    let whole = match location {
        "" => return None,
        _ if location.starts_with("//") => format!("{scheme}:{location}"),
        _ if location.starts_with('/') => format!("{scheme}://{authority}{location}"),
        _ if location.contains("://") => location.to_owned(),
        _ => {
            let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{scheme}://{authority}{folder}/{location}")
        }
    };
    let to: Uri = whole.parse().ok()?;
    let is_plain = to.authority().is_some_and(|authority| !authority.as_str().contains('@'));
    (is_plain && to.host().is_some_and(|host| !host.is_empty())).then_some(to)
}

/// Fields as a query or a form has them.
pub(super) fn form(fields: &[(&str, &str)]) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let encoded = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    let field = |(name, value): &(&str, &str)| format!("{name}={}", value.bytes().map(encoded).collect::<String>());
    fields.iter().map(field).collect::<Vec<_>>().join("&")
}

/// A URL with more in its query.
pub(super) fn with_query(uri: &Uri, query: &str) -> Option<Uri> {
    let joint = if uri.query().is_some() { '&' } else { '?' };
    format!("{uri}{joint}{query}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    #[test]
    fn one_place_has_one_scheme_host_and_port() {
        for (one, other, same) in [
            ("https://r.example/a", "https://R.example:443/b?c", true),
            ("http://r.example/a", "http://r.example:80/", true),
            ("https://r.example/", "http://r.example/", false),
            ("https://r.example/", "https://r.example:444/", false),
            ("https://r.example/", "https://s.example/", false),
            ("https://r.example/", "https://r.example.evil/", false),
        ] {
            assert_eq!(is_same(&uri(one), &uri(other)), same, "{one} {other}");
        }
    }

    #[test]
    fn a_location_leads_where_a_browser_would_go() {
        let from = uri("https://r.example:5000/v2/a/blobs/uploads/");
        for (location, to) in [
            ("/v2/a/blobs/uploads/1?state=x", Some("https://r.example:5000/v2/a/blobs/uploads/1?state=x")),
            ("https://s.example/x?sig=1#f", Some("https://s.example/x?sig=1")),
            ("//s.example/x", Some("https://s.example/x")),
            ("1?state=x", Some("https://r.example:5000/v2/a/blobs/uploads/1?state=x")),
            ("", None),
            ("#f", None),
            ("https://me:secret@s.example/x", None),
            ("https:///x", None),
        ] {
            assert_eq!(target(&from, location).map(|to| to.to_string()).as_deref(), to, "{location}");
        }
    }

    #[test]
    fn this_machine_is_known_by_its_words() {
        for (text, is_it) in [
            ("http://localhost:5000/", true),
            ("http://127.0.0.1/", true),
            ("http://[::1]:5000/", true),
            ("http://[::ffff:127.0.0.1]/", true),
            ("http://localhost.example/", false),
            ("http://10.0.0.1/", false),
        ] {
            assert_eq!(is_loopback(&uri(text)), is_it, "{text}");
        }
    }

    #[test]
    fn a_query_carries_every_byte() {
        assert_eq!(
            form(&[("scope", "repository:a/b:pull"), ("x", "ü&=")]),
            "scope=repository%3Aa%2Fb%3Apull&x=%C3%BC%26%3D"
        );
        let both = ["https://r.example/t?service=r&a=1", "https://r.example/t?a=1"];
        for (base, wanted) in ["https://r.example/t?service=r", "https://r.example/t"].into_iter().zip(both) {
            assert_eq!(with_query(&uri(base), "a=1").unwrap().to_string(), wanted);
        }
    }
}
