//! A connection to one endpoint, or to a registry that plugins come from: the name is resolved, every address is judged, and
//! only what was judged is dialled.
//!
//! There is no proxy in here, even if the environment names one, and nothing between the judgement and the dial
//! resolves the name a second time.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::Service;

use super::address::{AddressClass, AddressPolicy};
use super::api_server::ApiServer;
use super::error::{Denial, Error, Wait};

/// Addresses of one name that are tried; more are no pair of machines but an attack on our patience.
const TRIED: usize = 8;

/// How names become addresses.
pub type Resolve = Arc<dyn Fn(String, u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync>;

/// The resolver of the system.
#[must_use]
pub fn system() -> Resolve {
    Arc::new(|host, port| Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) }))
}

/// What connections are for: what a refusal tells the operator to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// An endpoint of a plugin, by its name.
    Endpoint(Arc<str>),
    /// A registry that plugins come from.
    Registry,
}

impl Purpose {
    /// What an operator adds so that such an address may be dialled.
    fn grant(&self, rule: &str) -> String {
        match self {
            Self::Endpoint(name) => format!("`permissions: {{endpoints: {{{name}: {{addresses: [{rule}]}}}}}}`"),
            Self::Registry => format!("`plugin: {{oci: {{addresses: [{rule}]}}}}`"),
        }
    }

    /// Who may not dial it.
    const fn who(&self) -> &'static str {
        match self {
            Self::Endpoint(_) => "this endpoint",
            Self::Registry => "an entry that does not name it",
        }
    }

    /// Where the authority of a certificate is given.
    const fn authority(&self) -> &'static str {
        match self {
            Self::Endpoint(_) => "with `caBundle`, or as `ca.crt` in the Secret",
            Self::Registry => {
                "with `caBundle` of the entry, or with --registry-ca at a desk, beside those of all other hosts that the registry \
                 sends to: its token server and its store"
            }
        }
    }
}

/// Makes connections for one purpose.
#[derive(Clone)]
pub struct Dialler {
    shared: Arc<Settings>,
}

/// How these connections are made.
pub struct Settings {
    /// What they are for.
    pub purpose: Purpose,
    /// Which addresses may be dialled.
    pub policy: Arc<AddressPolicy>,
    /// Where the API server is.
    pub api_server: Arc<ApiServer>,
    /// How names are resolved.
    pub resolve: Resolve,
    /// TLS, for URLs that want it.
    pub tls: Arc<ClientConfig>,
    /// The name on the certificate where it is not that of the URL.
    pub server_name: Option<String>,
    /// The time until the connection is established.
    pub timeout: Duration,
}

impl Dialler {
    /// Of these settings.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { shared: Arc::new(settings) }
    }
}

impl Settings {
    async fn connect(&self, uri: &Uri) -> Result<Link, Error> {
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        let is_tls = uri.scheme_str() != Some("http");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let addresses = self.resolve(&host, port).await?;
        let tcp = self.dial(&host, &addresses).await?;
        // Requests are small and answers wait for them.
        let _ = tcp.set_nodelay(true);
        if !is_tls {
            return Ok(Link::Plain(TokioIo::new(tcp)));
        }
        let name = self.server_name.clone().unwrap_or_else(|| host.clone());
        let server_name = ServerName::try_from(name)
            .map_err(|_| Error::Connect(format!("{host:?} is no name that a certificate could have")))?;
        match TlsConnector::from(Arc::clone(&self.tls)).connect(server_name, tcp).await {
            Ok(stream) => Ok(Link::Tls(Box::new(TokioIo::new(stream)))),
            Err(error) => {
                Err(Error::Connect(format!("TLS with {host}:{port} failed: {}", tls_words(&error, &self.purpose))))
            }
        }
    }

    /// The addresses of a name that may be dialled.
    async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, Error> {
        let found = match host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => (self.resolve)(host.to_owned(), port)
                .await
                .map_err(|error| Error::Connect(format!("the name {host:?} cannot be resolved: {error}")))?,
        };
        let api_server = self.api_server.addresses().await;
        let mut refused: Option<(AddressClass, SocketAddr)> = None;
        let mut allowed = Vec::new();
        for address in found.into_iter().take(TRIED) {
            match self.policy.check(address, &api_server) {
                Ok(()) => allowed.push(address),
                Err(place) => refused = refused.or(Some((place, address))),
            }
        }
        match refused {
            _ if !allowed.is_empty() => Ok(allowed),
            None => Err(Error::Connect(format!("the name {host:?} has no address"))),
            Some((place, address)) => Err(self.denied(host, place, address)),
        }
    }

    fn denied(&self, host: &str, place: AddressClass, address: SocketAddr) -> Error {
        let cure = match AddressPolicy::cure(place, address.ip()) {
            Some(cure) => format!("; if that is right, add {} to the entry", self.purpose.grant(&cure)),
            None => String::new(),
        };
        let who = self.purpose.who();
        let message = match host.parse::<IpAddr>() {
            Ok(_) => format!("{address} is {place}, which {who} may not dial{cure}"),
            Err(_) => format!("{host:?} is {address}, {place}, which {who} may not dial{cure}"),
        };
        Error::denied(Denial::Address, message)
    }

    /// The first address that accepts.
    async fn dial(&self, host: &str, addresses: &[SocketAddr]) -> Result<TcpStream, Error> {
        // An address that swallows everything must not use up the time of the next one.
        let each = self.timeout / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
        let mut last = String::new();
        for address in addresses {
            last = match tokio::time::timeout(each, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => format!("{address}: {error}"),
                Err(_) => format!("{address}: no answer within {each:?}"),
            };
        }
        let named = if last.starts_with(host) { last } else { format!("{host} at {last}") };
        Err(Error::Connect(format!("cannot connect to {named}")))
    }
}

impl Service<Uri> for Dialler {
    type Response = Link;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Link, Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let settings = Arc::clone(&self.shared);
        Box::pin(async move {
            let limit = settings.timeout;
            let late = Error::Timeout { what: Wait::Connection, limit };
            tokio::time::timeout(limit, settings.connect(&uri)).await.map_err(|_| late)?
        })
    }
}

/// What a failed handshake means for a person who configures an endpoint or a registry.
fn tls_words(error: &io::Error, purpose: &Purpose) -> String {
    use rustls::{CertificateError as Bad, Error as Tls};
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Tls>());
    let words = match tls {
        // A bad signature is that of another authority of the same name: the one before a renewal.
        Some(Tls::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature)) => {
            let given = purpose.authority();
            return format!("its certificate is not signed by a trusted authority; give the authority {given}");
        }
        Some(Tls::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. })) => "its certificate has expired",
        Some(Tls::InvalidCertificate(Bad::NotValidYet | Bad::NotValidYetContext { .. })) => {
            "its certificate is not valid yet; compare the clocks"
        }
        Some(Tls::InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. })) => match purpose {
            Purpose::Endpoint(_) => "its certificate is for another name; give that one as `serverName`",
            Purpose::Registry => "its certificate is for another name than that of this host",
        },
        // Recognised by its words: the type of this one belongs to a library below.
        Some(Tls::InvalidCertificate(Bad::Other(other))) if other.to_string() == "CaUsedAsEndEntity" => {
            let given = purpose.authority();
            return format!(
                "its certificate is that of an authority (as most self-signed ones are) and is not trusted; give this \
                 certificate {given}"
            );
        }
        Some(Tls::InvalidMessage(_)) => match purpose {
            Purpose::Endpoint(_) => "the other side does not speak TLS; perhaps the URL should begin with http://",
            Purpose::Registry => {
                "the other side does not speak TLS, and a host pulls from no registry without it; at a desk, --plain-http \
                 uses a registry on the same machine"
            }
        },
        _ => return error.to_string(),
    };
    words.to_owned()
}

/// One connection.
pub enum Link {
    /// Without TLS.
    Plain(TokioIo<TcpStream>),
    /// With TLS.
    Tls(Box<TokioIo<TlsStream<TcpStream>>>),
}

impl Connection for Link {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Link {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_read(context, buffer),
        }
    }
}

impl Write for Link {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
        }
    }
}
