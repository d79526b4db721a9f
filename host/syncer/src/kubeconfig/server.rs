//! The cluster of a kubeconfig: where its API server is, and how it proves itself.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use http::uri::Scheme;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use topoloom_cluster::dial::Dial;
use topoloom_core::certificate::Certificate;

use super::Insecure;
use super::document::Section;
use super::error::{KubeconfigError, shown, shown_path};

const FIELDS: [&str; 6] = [
    "server",
    "certificate-authority-data",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "disable-compression",
    "extensions",
];
const ALLOWED: &str = "allowed are server, certificate-authority-data, tls-server-name and, where the binding has allowInsecure, \
                       insecure-skip-tls-verify";
const ALLOWED_URL: &str = "allowed is https://HOST, with a port and a path if need be";
const ALLOWED_AUTHORITY: &str = "allowed are certificates in PEM, in base64";

/// What a kubeconfig says about its API server.
pub(super) struct Server {
    pub(super) uri: Uri,
    /// In DER. Where there are none, those of the machine count.
    pub(super) authorities: Option<Vec<Vec<u8>>>,
    /// The name that its certificate has to have, where that is not the host of the URL.
    pub(super) name: Option<String>,
    pub(super) proof: Proof,
}

/// Whether the server proves itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    Certificate,
    None,
}

pub(super) fn judge(cluster: &Section<'_>, insecure: Insecure, dial: Dial) -> Result<Server, KubeconfigError> {
    const FILE: &str = "certificate-authority";
    const PROXY: &str = "proxy-url";
    if let Some(value) = cluster.value(FILE) {
        let problem = "no file of this host is read".to_owned();
        return Err(cluster.wrong(FILE, value.as_str().and_then(shown_path), problem, ALLOWED));
    }
    if cluster.value(PROXY).is_some() {
        return Err(cluster.wrong(PROXY, None, "no proxy is used".to_owned(), ALLOWED));
    }
    let mut known = FIELDS.to_vec();
    known.extend([FILE, PROXY]);
    cluster.only(&known, ALLOWED)?;
    let uri = uri(cluster, insecure, dial)?;
    let authorities = authorities(cluster)?;
    let proof = proof(cluster, insecure, authorities.is_some())?;
    let name = cluster.text("tls-server-name")?;
    if let Some(name) = name.filter(|name| ServerName::try_from(*name).is_err()) {
        let problem = "a certificate cannot have this name".to_owned();
        return Err(cluster.wrong(
            "tls-server-name",
            Some(shown(name)),
            problem,
            "allowed is a DNS name or an address",
        ));
    }
    Ok(Server { uri, authorities, name: name.map(str::to_owned), proof })
}

fn uri(cluster: &Section<'_>, insecure: Insecure, dial: Dial) -> Result<Uri, KubeconfigError> {
    const FIELD: &str = "server";
    let text = cluster.needed(FIELD, ALLOWED_URL)?;
    // A URL with a user or a query may hold a credential.
    let value = || (!text.contains(['@', '?', '#'])).then(|| shown(text));
    let wrong = |problem: &str, allowed| cluster.wrong(FIELD, value(), problem.to_owned(), allowed);
    if value().is_none() {
        return Err(wrong("it has a user, a query or a fragment", ALLOWED_URL));
    }
    let uri: Uri = text.parse().map_err(|_| wrong("it is no URL", ALLOWED_URL))?;
    let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
        return Err(wrong("it is no whole URL", ALLOWED_URL));
    };
    let host = authority.host();
    let is_plain = authority.as_str() == host
        || authority.port_u16().is_some_and(|port| port > 0 && authority.as_str() == format!("{host}:{port}"));
    if host.is_empty() || !is_plain {
        return Err(wrong("its host or its port is not valid", "allowed is a host, and a port from 1 to 65535"));
    }
    match insecure {
        _ if *scheme == Scheme::HTTPS => {}
        Insecure::Allowed if *scheme == Scheme::HTTP => {}
        Insecure::Allowed => return Err(wrong("its scheme is neither https nor http", ALLOWED_URL)),
        Insecure::Refused => {
            return Err(wrong("its scheme is not https", "allowed is https; http needs allowInsecure in the binding"));
        }
    }
    dial.check_literal(host).map_err(|refused| {
        let allowed = "allowed are addresses of other machines. For a trial on one machine: --syncer-allow-loopback, or \
                       TOPOLOOM_SYNCER_ALLOW_LOOPBACK=true for each command that reads the physical cluster";
        cluster.wrong(FIELD, value(), format!("{} is not dialled", refused.class), allowed)
    })?;
    Ok(uri)
}

fn authorities(cluster: &Section<'_>) -> Result<Option<Vec<Vec<u8>>>, KubeconfigError> {
    const FIELD: &str = "certificate-authority-data";
    let Some(text) = cluster.text(FIELD)? else { return Ok(None) };
    let wrong = |problem: &str| cluster.wrong(FIELD, None, problem.to_owned(), ALLOWED_AUTHORITY);
    let pem = STANDARD.decode(packed(text)).map_err(|_| wrong("it is no base64"))?;
    let found = certificates(&pem).ok_or_else(|| wrong("it holds something that is no certificate in PEM"))?;
    if found.is_empty() {
        return Err(wrong("it holds no certificate"));
    }
    Ok(Some(found.into_iter().map(|(der, _)| der.to_vec()).collect()))
}

fn proof(cluster: &Section<'_>, insecure: Insecure, has_authorities: bool) -> Result<Proof, KubeconfigError> {
    const FIELD: &str = "insecure-skip-tls-verify";
    if !cluster.switch(FIELD)? {
        return Ok(Proof::Certificate);
    }
    let wrong =
        |problem: &str, allowed| Err(cluster.wrong(FIELD, Some("true".to_owned()), problem.to_owned(), allowed));
    match insecure {
        Insecure::Refused => wrong(
            "the server would not have to prove itself",
            "allowed is false; true needs allowInsecure in the binding",
        ),
        Insecure::Allowed if has_authorities => {
            wrong("there is certificate-authority-data, too, and it would not count", "allowed is one of both")
        }
        Insecure::Allowed => Ok(Proof::None),
    }
}

/// Base64 without the breaks of lines that YAML leaves in it.
pub(super) fn packed(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_whitespace()).collect()
}

/// The certificates in a PEM text, in DER, with what can be read of them; `None` where there is anything that is none.
pub(super) fn certificates(pem: &[u8]) -> Option<Vec<(CertificateDer<'static>, Certificate)>> {
    let read = |der: CertificateDer<'static>| Certificate::read(&der).map(|read| (der, read));
    CertificateDer::pem_slice_iter(pem).map(|der| read(der.ok()?)).collect()
}
