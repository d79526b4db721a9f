//! An endpoint: a server outside that a plugin may call, by a name that the operator gives it.
//!
//! The plugin passes the name, never a URL. The operator decides which server it means, how it is reached and with
//! which credential, and no part of a URL ever appears in an error: people put passwords into URLs.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use topoloom_core::plugin::Method;
use topoloom_core::size::ByteSize;

use super::credential::Hidden;

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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressRule {
    /// Private networks.
    Private,
    /// The host itself.
    Loopback,
    /// One network.
    Network(Network),
}

/// A network: an address and how many of its bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
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
    /// It is not; a condition shows it.
    Skipped,
}

/// How long each part of a request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// The time until the connection is established, TLS included.
    pub connect: Duration,
    /// Until the first byte of the answer.
    pub first_byte: Duration,
    /// Until its last byte.
    pub total: Duration,
}

/// The same, as far as an entry says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenTimeouts {
    /// The time until the connection is established, TLS included.
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

/// The name of a Secret. Its content never passes through here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretRef {
    /// Its name.
    pub name: String,
    /// Its namespace; nothing means the namespace of the configuration.
    pub namespace: Option<String>,
}

/// Where a credential is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// In a Secret.
    Secret(SecretRef),
    /// It was in the document itself, as `config.token` of a source `roce`.
    Token(Hidden),
}

/// Whether a path means the same to everyone who reads it.
#[must_use]
pub fn is_plain_path(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    let hidden = ["%2f", "%5c", "%2e"].iter().any(|encoded| lower.contains(encoded));
    !hidden
        && !path.contains('\\')
        && path.chars().all(|c| c.is_ascii_graphic())
        && path.split('/').all(|segment| segment != ".." && segment != ".")
}
