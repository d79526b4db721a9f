//! An endpoint: something outside that a plugin may ask, by a name that the operator gives it.
//!
//! The plugin says the name, never a URL. What the name stands for, how it is reached and with which credential is
//! decided here, and no part of a URL ever appears in a problem: people put passwords into URLs.

use super::entry::{SecretRef, read_secret_ref};
use super::read::{At, Fields, Report};
use super::size::ByteSize;
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use topoloom_api::rules::{is_data_key, is_dns_label, is_dns_subdomain};
use topoloom_core::plugin::Method;

/// What one endpoint is and how it may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// What answers; nothing where the configuration of a plugin that comes with the host says it.
    pub carrier: Option<Carrier>,
    /// Which methods may be used.
    pub methods: BTreeSet<Method>,
    /// Which paths may be asked for: prefixes below the base URL, each beginning with `/`.
    pub paths: Vec<String>,
    /// Which addresses may be dialled beside public ones.
    pub addresses: Vec<AddressRule>,
    /// How the peer proves who it is.
    pub tls: Tls,
    /// How long each part of a request may take, as far as the entry says it.
    pub timeouts: GivenTimeouts,
    /// How large one answer may be, if the entry says it.
    pub max_body: Option<ByteSize>,
    /// What happens to a redirect.
    pub redirects: Redirects,
    /// What the host proves itself with.
    pub credentials: Option<SecretRef>,
}

/// What answers to an endpoint's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Servers, in the order in which they are tried; never empty.
    Urls(Vec<BaseUrl>),
    /// A key of a ConfigMap; its hash is the version of the answer.
    ConfigMap(KeyRef),
    /// A file that the host can read.
    File(PathBuf),
}

/// A key of a ConfigMap or a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRef {
    /// Its namespace; nothing means the namespace of the configuration.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The key in its data.
    pub key: String,
}

/// A URL with scheme `http` or `https`, a host, perhaps a port and a path; no user, no query, no fragment.
#[derive(Clone, PartialEq, Eq)]
pub struct BaseUrl(http::Uri);

impl BaseUrl {
    /// Reads a base URL. The error says what is wrong without repeating the text.
    ///
    /// # Errors
    /// When the text is no such URL.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.contains(['#', '?']) {
            return Err("a base URL has no query and no fragment");
        }
        if text.contains('@') {
            return Err("a URL must not hold a user or a password; name a Secret under `credentials`");
        }
        let uri: http::Uri = text.parse().map_err(|_| "this is no URL")?;
        let port = uri.authority().and_then(|authority| authority.as_str().rsplit(']').next()?.split_once(':'));
        if port.is_some() && uri.port_u16().is_none_or(|port| port == 0) {
            return Err("the port of a URL must be between 1 and 65535");
        }
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err("a URL begins with http:// or https://");
        }
        if uri.host().is_none_or(str::is_empty) {
            return Err("a URL needs a host");
        }
        if uri.host().is_some_and(|host| host.contains('%')) {
            return Err("an address in a URL has no zone");
        }
        if !is_plain_path(uri.path()) {
            return Err("the path of a URL must not contain `..`, a backslash or an encoded slash");
        }
        Ok(Self(uri))
    }

    /// The URL for clients.
    #[must_use]
    pub const fn uri(&self) -> &http::Uri {
        &self.0
    }

    /// Whether the peer proves who it is.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither user nor query can be in here.
        write!(f, "{}", self.0)
    }
}

/// Addresses that may be dialled beside public ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressRule {
    /// Private networks.
    Private,
    /// The host itself.
    Loopback,
    /// One network.
    Network(Network),
}

/// A network: an address and how many of its bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Reads `10.0.0.0/8`, `fd00::/8` or a single address.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address.parse().ok()?, Some(bits.parse().ok()?)),
            None => (text.parse().ok()?, None),
        };
        let width = if matches!(address, IpAddr::V4(_)) { 32 } else { 128 };
        let bits = bits.unwrap_or(width);
        (bits <= width).then_some(Self { address, bits })
    }

    /// The address and how many of its bits count.
    #[must_use]
    pub const fn parts(&self) -> (IpAddr, u8) {
        (self.address, self.bits)
    }

    /// Whether `address` lies in the network. An IPv4 address in IPv6 clothes counts as the IPv4 address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address.to_canonical(), address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                // A mapped network counts its bits from the IPv6 beginning.
                let bits = if self.address.is_ipv6() { self.bits.saturating_sub(96) } else { self.bits };
                same_prefix(u128::from(own.to_bits()) << 96, u128::from(other.to_bits()) << 96, bits)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => same_prefix(own.to_bits(), other.to_bits(), self.bits),
            _ => false,
        }
    }
}

fn same_prefix(own: u128, other: u128, bits: u8) -> bool {
    // Shifting by the full width is no shift; no bits means that everything matches.
    (own ^ other).checked_shr(128 - u32::from(bits)).unwrap_or(0) == 0
}

/// How the peer proves who it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Who may have signed its certificate; nothing means the public authorities.
    pub ca_bundle: Option<CaBundle>,
    /// The name that the certificate must have, where it is not the host of the URL.
    pub server_name: Option<String>,
    /// Whether the certificate counts at all.
    pub verification: Verification,
}

/// Where certificates of authorities are.
#[derive(Clone, PartialEq, Eq)]
pub enum CaBundle {
    /// In the document, as PEM.
    Inline(String),
    /// In a ConfigMap.
    ConfigMap(KeyRef),
    /// In a Secret.
    Secret(KeyRef),
    /// In a file that the host can read.
    File(PathBuf),
}

impl fmt::Debug for CaBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A bundle is public, but a key pasted beside it is not.
            Self::Inline(pem) => write!(f, "Inline({} bytes)", pem.len()),
            Self::ConfigMap(key) => f.debug_tuple("ConfigMap").field(key).finish(),
            Self::Secret(key) => f.debug_tuple("Secret").field(key).finish(),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

/// Whether a certificate is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verification {
    /// It is.
    #[default]
    Full,
    /// It is not; a condition says so.
    Skipped,
}

/// How long each part of a request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection stands, TLS included.
    pub connect: Duration,
    /// Until the first byte of the answer.
    pub first_byte: Duration,
    /// Until its last byte.
    pub total: Duration,
}

/// The same, as far as an entry says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenTimeouts {
    /// Until the connection stands, TLS included.
    pub connect: Option<Duration>,
    /// Until the first byte of the answer.
    pub first_byte: Option<Duration>,
    /// Until its last byte.
    pub total: Option<Duration>,
}

/// What happens to a redirect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redirects {
    /// The plugin gets it as the answer.
    #[default]
    None,
    /// Up to three are followed on the same scheme, host and port.
    SameHost,
}

/// A full LAN handshake with one retransmission takes 3 s; a fabric manager under load takes longer.
pub const DEFAULT_CONNECT: Duration = Duration::from_secs(10);
/// Fabric managers compute their answer before they send any of it.
pub const DEFAULT_FIRST_BYTE: Duration = Duration::from_secs(30);
/// No longer than a call may take by default.
pub const DEFAULT_TOTAL: Duration = Duration::from_secs(60);
/// Four times the answer of a fabric with ten thousand ports.
pub const DEFAULT_MAX_BODY: ByteSize = ByteSize::mebi(64);
/// The same for the builtin plugins that read whole fabrics (decision P3).
pub const FABRIC_MAX_BODY: ByteSize = ByteSize::mebi(256);
/// As long as such an answer may take (decision P3).
pub const FABRIC_TOTAL: Duration = Duration::from_secs(120);

/// Reads one endpoint.
pub(super) fn read(fields: &mut Fields<'_>, report: &mut Report) -> Endpoint {
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
        report.warning(credentials_place, "are sent in the clear, since a URL begins with http://".to_owned());
    }
    endpoint
}

fn read_carrier(fields: &mut Fields<'_>, report: &mut Report) -> Option<Carrier> {
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
pub(super) fn key_ref(fields: &mut Fields<'_>, report: &mut Report) -> Option<KeyRef> {
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

fn read_tls(fields: &mut Fields<'_>, report: &mut Report) -> Tls {
    let ca_bundle = match fields.has_mapping("caBundle") {
        true => fields.section("caBundle", report, read_ca_bundle).flatten(),
        false => fields.read("caBundle", report, |at| at.private_text().map(CaBundle::Inline)),
    };
    Tls {
        ca_bundle,
        server_name: fields.read("serverName", report, |at| {
            let text = at.text()?;
            // A certificate may also stand for an address.
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

fn read_ca_bundle(fields: &mut Fields<'_>, report: &mut Report) -> Option<CaBundle> {
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

fn read_timeouts(fields: &mut Fields<'_>, report: &mut Report) -> GivenTimeouts {
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

/// Whether a path means the same to everyone who reads it.
fn is_plain_path(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    let hidden = ["%2f", "%5c", "%2e"].iter().any(|encoded| lower.contains(encoded));
    !hidden
        && !path.contains('\\')
        && path.chars().all(|c| c.is_ascii_graphic())
        && path.split('/').all(|segment| segment != ".." && segment != ".")
}

fn address_rule(at: &At<'_>) -> Result<AddressRule, String> {
    let text = at.text()?;
    match text.as_str() {
        "private" => Ok(AddressRule::Private),
        "loopback" => Ok(AddressRule::Loopback),
        _ => Network::parse(&text)
            .map(AddressRule::Network)
            .ok_or_else(|| format!("must be private, loopback or a network such as 10.0.0.0/8, not {}", at.describe())),
    }
}
