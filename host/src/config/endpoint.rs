//! Reads an endpoint; [`crate::endpoints::spec`] defines what it is.
//!
//! No part of a URL ever appears in a problem: people put passwords into URLs.

use std::net::IpAddr;
use std::time::Duration;

use topoloom_api::rules::{is_data_key, is_dns_label, is_dns_subdomain};
use topoloom_core::plugin::Method;
use topoloom_core::size::ByteSize;

use super::entry::read_secret_ref;
use super::read::{At, Fields, ReadReport};
use crate::endpoints::spec::{
    AddressRule, BaseUrl, CaBundle, Carrier, Endpoint, GivenTimeouts, KeyRef, Network, Redirects, Tls, Verification,
    is_plain_path,
};

/// Reads one endpoint.
pub(super) fn read(fields: &mut Fields<'_>, report: &mut ReadReport) -> Endpoint {
    let carrier = read_carrier(fields, report);
    let credentials_place = fields.place("credentials");
    if !matches!(carrier, Some(Carrier::Urls(_)) | None) {
        for key in ["methods", "addresses", "tls", "redirects", "credentials"] {
            if fields.has(key) {
                report.error(fields.place(key), "has a meaning only for `url` and `urls`".to_owned());
            }
        }
    }
    let methods = fields.list("methods", report, method);
    let paths = fields.list("paths", report, path_prefix);
    let max_body = ByteSize::kibi(1)..=ByteSize::gibi(1);
    let endpoint = Endpoint {
        methods: if methods.is_empty() { [Method::Get].into() } else { methods.into_iter().collect() },
        paths: if paths.is_empty() { vec!["/".to_owned()] } else { paths },
        addresses: fields.list("addresses", report, address_rule),
        tls: fields.section("tls", report, read_tls).unwrap_or_default(),
        timeouts: fields.section("timeouts", report, read_timeouts).unwrap_or_default(),
        max_body: fields.read("maxBody", report, |at| at.size(&max_body)),
        redirects: fields
            .read("redirects", report, |at| at.one_of(&[("none", Redirects::None), ("same-host", Redirects::SameHost)]))
            .unwrap_or_default(),
        credentials: read_secret_ref(fields, report),
        carrier,
    };
    if let Some(Carrier::Urls(urls)) = &endpoint.carrier
        && endpoint.credentials.is_some()
        && !urls.iter().all(BaseUrl::is_https)
    {
        report.warning(credentials_place, "are sent unencrypted, since a URL begins with http://".to_owned());
    }
    endpoint
}

fn read_carrier(fields: &mut Fields<'_>, report: &mut ReadReport) -> Option<Carrier> {
    let place = fields.here();
    let mut given = 0;
    for key in ["url", "urls", "configMap", "file"] {
        given += usize::from(fields.has(key));
    }
    if given > 1 {
        report.error(place, "at most one of url, urls, configMap and file may be given".to_owned());
    }
    let url = fields.read("url", report, base_url).map(|url| Carrier::Urls(vec![url]));
    let urls = Some(fields.list("urls", report, base_url)).filter(|urls| !urls.is_empty()).map(Carrier::Urls);
    let config_map = fields.section("configMap", report, key_ref).flatten().map(Carrier::ConfigMap);
    let file = fields.read("file", report, At::path).map(Carrier::File);
    url.or(urls).or(config_map).or(file)
}

/// Reads a reference to a key of a ConfigMap or Secret; nothing where name or key is missing, which is a problem.
pub(super) fn key_ref(fields: &mut Fields<'_>, report: &mut ReadReport) -> Option<KeyRef> {
    let place = fields.here();
    let namespace = fields.read("namespace", report, namespace);
    let (has_name, has_key) = (fields.has("name"), fields.has("key"));
    let name = fields.read("name", report, object_name);
    let key = fields.read("key", report, |at| {
        let text = at.text()?;
        let wanted = "a data key: letters, digits, `-`, `_` and `.`, at most 253";
        if is_data_key(&text) { Ok(text) } else { Err(format!("must be {wanted}, not {}", at.describe())) }
    });
    if !has_name || !has_key {
        report.error(place, "needs a name and a key".to_owned());
    }
    Some(KeyRef { namespace, name: name?, key: key? })
}

/// Reads the name of a namespace.
pub(super) fn namespace(at: &At<'_>) -> Result<String, String> {
    let text = at.text()?;
    if is_dns_label(&text) { Ok(text) } else { Err("must be the name of a namespace".to_owned()) }
}

/// Reads the name of an object.
pub(super) fn object_name(at: &At<'_>) -> Result<String, String> {
    let text = at.text()?;
    if is_dns_subdomain(&text) { Ok(text) } else { Err("must be the name of an object: a DNS subdomain".to_owned()) }
}

/// Reads `caBundle`.
pub(super) fn read_ca(fields: &mut Fields<'_>, report: &mut ReadReport) -> Option<CaBundle> {
    match fields.has_mapping("caBundle") {
        true => fields.section("caBundle", report, read_ca_bundle).flatten(),
        false => fields.read("caBundle", report, |at| at.private_text().map(CaBundle::Inline)),
    }
}

fn read_tls(fields: &mut Fields<'_>, report: &mut ReadReport) -> Tls {
    Tls {
        ca_bundle: read_ca(fields, report),
        server_name: fields.read("serverName", report, |at| {
            let text = at.text()?;
            // A certificate may also be for an address.
            if is_dns_subdomain(&text.to_ascii_lowercase()) || text.parse::<IpAddr>().is_ok() {
                Ok(text)
            } else {
                Err(format!("must be a host name or an address, not {}", at.describe()))
            }
        }),
        verification: match fields.read("insecureSkipVerify", report, At::boolean) {
            Some(true) => Verification::Skipped,
            Some(false) | None => Verification::Full,
        },
    }
}

fn read_ca_bundle(fields: &mut Fields<'_>, report: &mut ReadReport) -> Option<CaBundle> {
    let place = fields.here();
    let given = ["configMap", "secret", "file"].into_iter().filter(|key| fields.has(key)).count();
    if given != 1 {
        report
            .error(place, "must have exactly one of configMap, secret and file, or be the PEM text itself".to_owned());
    }
    let config_map = fields.section("configMap", report, key_ref).flatten().map(CaBundle::ConfigMap);
    let secret = fields.section("secret", report, key_ref).flatten().map(CaBundle::Secret);
    let file = fields.read("file", report, At::path).map(CaBundle::File);
    config_map.or(secret).or(file)
}

fn read_timeouts(fields: &mut Fields<'_>, report: &mut ReadReport) -> GivenTimeouts {
    // Ten minutes: a call that waits longer is not a discovery any more.
    let range = Duration::from_millis(100)..=Duration::from_secs(600);
    GivenTimeouts {
        connect: fields.read("connect", report, |at| at.duration(&range)),
        first_byte: fields.read("firstByte", report, |at| at.duration(&range)),
        total: fields.read("total", report, |at| at.duration(&range)),
    }
}

fn base_url(at: &At<'_>) -> Result<BaseUrl, String> {
    BaseUrl::parse(&at.private_text()?).map_err(str::to_owned)
}

fn method(at: &At<'_>) -> Result<Method, String> {
    let text = at.text()?.to_ascii_uppercase();
    let found = Method::ALL.into_iter().find(|method| method.as_str() == text);
    found.ok_or_else(|| format!("must be GET, HEAD, POST, PUT, PATCH or DELETE, not {}", at.describe()))
}

fn path_prefix(at: &At<'_>) -> Result<String, String> {
    let text = at.private_text()?;
    let wanted = "must begin with `/` and contain no `..`, query, fragment, backslash or encoded slash";
    let plain = text.starts_with('/') && is_plain_path(&text) && !text.contains(['?', '#']);
    if plain { Ok(text) } else { Err(wanted.to_owned()) }
}

/// Reads which addresses may be dialled beside public ones.
pub(super) fn address_rule(at: &At<'_>) -> Result<AddressRule, String> {
    let text = at.text()?;
    match text.as_str() {
        "private" => Ok(AddressRule::Private),
        "loopback" => Ok(AddressRule::Loopback),
        _ => Network::parse(&text)
            .map(AddressRule::Network)
            .ok_or_else(|| format!("must be private, loopback or a network such as 10.0.0.0/8, not {}", at.describe())),
    }
}
