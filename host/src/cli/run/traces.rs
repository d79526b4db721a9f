//! Flags about spans for a collector of traces.

use std::path::{Path, PathBuf};

use clap::Args;
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};

use super::Depth;
use crate::authorities::{self, Authorities};
use crate::cli::options::{Given, values};
use crate::cli::plugin::read_bounded;
use crate::traces::Settings;

/// The largest file of headers that is read.
const HEADERS: u64 = 64 << 10;

/// What says how a request is to be read: wrong ones would cut it off, or make it another.
const FRAMING: [HeaderName; 7] = [
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Flags about spans.
#[derive(Debug, Args)]
pub(super) struct TraceArgs {
    /// Send spans of rounds, decisions and writes to an OpenTelemetry collector, as OTLP over HTTP: http://HOST:4318
    /// for instance; the path is /v1/traces where none is given
    #[arg(long, value_name = "URL", value_parser = values::collector)]
    otlp_endpoint: Option<Uri>,
    /// Headers for the collector, a token for instance: a file with one `NAME: VALUE` per line
    #[arg(long, value_name = "FILE", value_parser = values::path)]
    otlp_headers_file: Option<PathBuf>,
    /// Authorities in PEM that may have signed the certificate of the collector; default: those of the system
    #[arg(long, value_name = "FILE", value_parser = values::path)]
    otlp_ca_file: Option<PathBuf>,
}

impl TraceArgs {
    /// Where spans go, if anywhere.
    pub(super) fn settings(self, depth: Depth, given: &mut Given) -> Option<Settings> {
        let Some(endpoint) = self.otlp_endpoint else {
            for flag in ["otlp-headers-file", "otlp-ca-file"] {
                if given.is_given(flag) && given.are_sound(&["otlp-endpoint"]) {
                    given.mistake(&[flag], "needs a collector: --otlp-endpoint URL");
                }
            }
            return None;
        };
        let is_secure = endpoint.scheme_str() == Some("https");
        if !is_secure && given.is_given("otlp-headers-file") {
            given.warn(&["otlp-headers-file"], "is sent unencrypted: the URL of the collector is not https");
        }
        if !is_secure && given.is_given("otlp-ca-file") {
            given.warn(&["otlp-ca-file"], "has no effect: the URL of the collector is not https");
        }
        if depth == Depth::Rules {
            return None;
        }
        let headers = self.otlp_headers_file.map(|path| headers(&path)).transpose();
        let headers = headers.map_err(|error| given.mistake(&["otlp-headers-file"], error)).ok();
        let authorities =
            if is_secure { trusted(self.otlp_ca_file.as_deref(), given) } else { Some(Authorities::default()) };
        Some(Settings { endpoint, headers: headers?.unwrap_or_default(), authorities: authorities? })
    }
}

/// The headers of a file.
fn headers(path: &Path) -> Result<HeaderMap, String> {
    let bytes =
        read_bounded(path, HEADERS).map_err(|error| format!("cannot be read: {}", crate::cli::chain(&error)))?;
    parse(&String::from_utf8(bytes).map_err(|_| "is not UTF-8 text")?)
}

/// An error names the line: values are secrets.
fn parse(text: &str) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let wrong = |what: &str| format!("line {number}: {what}");
        let (name, value) = line.split_once(':').ok_or_else(|| wrong("must be `NAME: VALUE`"))?;
        let name = HeaderName::from_bytes(name.trim().as_bytes())
            .map_err(|_| wrong("has no name of a header before the colon"))?;
        if FRAMING.contains(&name) {
            return Err(wrong(&format!("{name} is set by the host")));
        }
        let mut value = HeaderValue::from_str(value.trim())
            .map_err(|_| wrong("has a value with characters that a header cannot have"))?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

/// The authorities that may have signed the certificate of the collector.
fn trusted(file: Option<&Path>, given: &mut Given) -> Option<Authorities> {
    let Some(file) = file else {
        let roots = authorities::of_system();
        if roots.is_none() {
            given.mistake(
                &["otlp-endpoint"],
                "this system knows no certificate authorities; name some with --otlp-ca-file",
            );
        }
        return roots;
    };
    let bytes = read_bounded(file, authorities::LARGEST)
        .map_err(|error| format!("cannot be read: {}", crate::cli::chain(&error)));
    let roots = bytes.and_then(|pem| authorities::named([("it", pem.as_slice())]));
    roots.map_err(|error| given.mistake(&["otlp-ca-file"], error)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_stand_one_per_line_and_are_never_shown() {
        let headers =
            parse("# the token\nAuthorization: Bearer a:b\n\n x-scope-orgid :  one\nx-a: 1\nx-a: 2\n").unwrap();
        assert_eq!(headers["authorization"], "Bearer a:b");
        assert_eq!(headers["x-scope-orgid"], "one");
        assert_eq!(headers.get_all("x-a").iter().collect::<Vec<_>>(), ["1", "2"]);
        assert!(!format!("{headers:?}").contains("Bearer"), "{headers:?}");
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn a_wrong_header_is_told_by_its_line_without_its_value() {
        for (text, what) in [
            ("x-a: 1\nsecret", "line 2: must be `NAME: VALUE`"),
            ("a b: secret", "line 1: has no name of a header"),
            (": secret", "line 1: has no name of a header"),
            ("Content-Length: 0", "line 1: content-length is set by the host"),
            ("x-a: secret\u{1}", "line 1: has a value with characters"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.starts_with(what) && !said.contains("secret"), "{text:?}: {said}");
        }
    }
}
