//! One HTTP server of the process: bounds on what a stranger may do to it, TLS on request, a graceful end. A client
//! that only holds connections does not keep a probe out (`seats`).
//!
//! Never decides what is served: pages come as routes. It knows no cluster and no controller, and reads files only where
//! [`tls`] is asked to. Each request carries what its page may need of its connection, as extensions: the certificates that
//! the client has shown ([`ClientCertificates`]), and its seat ([`AtWork`]).
//!
//! # Failure story
//!
//! A port that is taken or a file that cannot be used is an error that names its flag, before anything is served. A client
//! that is slow, silent or hostile loses its connection, and no other client its own.
//!
//! Five of them may run: health and metrics for the cluster, both as Volcano has them (`node-lock-and-bind.md` B10), the
//! admin server for people on the machine, the extender for kube-scheduler, and the kubelet's API of virtual nodes for
//! API servers.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use self::seats::{RequestUnderWay, Seat, Seats};

mod seats;
pub mod tls;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Bytes of the head of a request.
const HEAD: usize = 64 << 10;

/// What a stranger may do to a server.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// How long a connection may wait for a request, and for the rest of its head.
    pub header: Duration,
    /// How long a connection may be used; then it ends with the request that is under way.
    pub connection: Duration,
    /// How long that request may go on then, before `grace` begins: the age is that of the connection, and an answer that takes hours
    /// may have begun a moment ago.
    pub late: Duration,
    /// Connections at a time; for one more, the one whose peer has kept us waiting longest ends.
    pub connections: usize,
    /// How long a request under way may take when the server stops, or its connection is too old.
    pub grace: Duration,
    /// What the server answers with.
    pub answers: Answers,
}

/// What a server answers with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// Pages, which are whole when they are sent.
    Pages,
    /// Streams, in which each byte is awaited: none waits until there are more.
    Streams,
}

impl Answers {
    /// Sets a connection up. A socket that takes no settings is at its end, which shows when it is read.
    fn set_up(self, stream: &TcpStream) {
        match self {
            Self::Pages => {}
            Self::Streams => drop(stream.set_nodelay(true)),
        }
    }
}

impl Bounds {
    /// For probes and scrapers: a probe takes milliseconds, a profile a minute.
    pub const PROBES: Self = Self {
        header: Duration::from_secs(1),
        connection: Duration::from_secs(120),
        late: Duration::ZERO,
        connections: 128,
        grace: Duration::from_secs(5),
        answers: Answers::Pages,
    };
}

/// The settings of TLS, which may change while a server runs.
pub type TlsSettings = watch::Receiver<Arc<rustls::ServerConfig>>;

/// The certificates that the client of a connection has shown in its handshake, its own first: an extension of each of its
/// requests. There are none where it has shown none, or there is no TLS. The settings of TLS have checked them at the time of the
/// handshake; a page for which that may be too long ago has to check them again.
#[derive(Debug, Clone, Default)]
pub struct ClientCertificates(pub Arc<[CertificateDer<'static>]>);

/// The seat of a connection, as an extension of each of its requests: while a clone of it lives, no other peer gets the seat. A page
/// whose answer takes long keeps one in the body of that answer.
#[derive(Clone)]
pub struct AtWork {
    work: Arc<RequestUnderWay>,
}

impl AtWork {
    /// What cuts the connection off when it is cancelled, with everything on it: for an answer that has to end although its peer does
    /// not read, so that its body is not asked for anything. It does not keep the seat, and means whatever request is under way then.
    #[must_use]
    pub fn cut(&self) -> CancellationToken {
        self.work.cut()
    }
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
#[error("--{flag} {address}: cannot listen there")]
pub struct ListenError {
    flag: &'static str,
    address: SocketAddr,
    #[source]
    source: std::io::Error,
}

/// A server that listens already, and so knows its port, and does not answer yet.
pub struct Server {
    listener: TcpListener,
    tls: Option<TlsSettings>,
    bounds: Bounds,
}

impl Server {
    /// Listens. The address may carry port 0.
    ///
    /// # Errors
    /// Names the flag and the address.
    pub async fn listen(
        flag: &'static str,
        address: SocketAddr,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> Result<Self, ListenError> {
        // What never changes needs no sender.
        Self::listen_within(flag, address, tls.map(|tls| watch::channel(tls).1), Bounds::PROBES).await
    }

    /// The same with bounds and settings of its own.
    ///
    /// # Errors
    /// Names the flag and the address.
    pub async fn listen_within(
        flag: &'static str,
        address: SocketAddr,
        tls: Option<TlsSettings>,
        bounds: Bounds,
    ) -> Result<Self, ListenError> {
        let named = |source| ListenError { flag, address, source };
        let listener = match TcpListener::bind(address).await {
            // `:PORT` means every address, and a machine without IPv6 has only those of IPv4.
            Err(_) if address.ip() == Ipv6Addr::UNSPECIFIED => {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await.map_err(named)?
            }
            bound => bound.map_err(named)?,
        };
        Ok(Self { listener, tls, bounds })
    }

    /// The real address.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Serves until stopped, then lets requests under way finish.
    pub async fn serve(self, routes: Router, stop: CancellationToken) {
        let Self { listener, tls, bounds } = self;
        let seats = Seats::new(bounds.connections);
        let mut connections = JoinSet::new();
        loop {
            let stream = loop {
                tokio::select! {
                    () = stop.cancelled() => break None,
                    Some(_) = connections.join_next(), if !connections.is_empty() => {}
                    accepted = listener.accept() => match accepted {
                        Ok((stream, _)) => break Some(stream),
                        // Out of descriptors, mostly: it passes, and a loop that spins makes it worse.
                        Err(error) => {
                            tracing::warn!(%error, "a connection was not accepted");
                            tokio::time::sleep(Duration::from_millis(100)).await;
                        }
                    },
                }
            };
            let Some(stream) = stream else { break };
            bounds.answers.set_up(&stream);
            let seat = tokio::select! {
                () = stop.cancelled() => break,
                seat = seats.seat() => seat,
            };
            let tls = tls.as_ref().map(|tls| TlsAcceptor::from(Arc::clone(&tls.borrow())));
            let (routes, stop) = (routes.clone(), stop.clone());
            connections.spawn(async move {
                tokio::select! {
                    // First, so that nothing begins on a seat that another peer has.
                    biased;
                    () = seat.left() => {}
                    () = connection(stream, tls, routes, &seat, stop, bounds) => {}
                }
            });
        }
        drop(listener);
        // Each has an end of its own.
        while connections.join_next().await.is_some() {}
    }
}

async fn connection(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    routes: Router,
    seat: &Arc<Seat>,
    stop: CancellationToken,
    bounds: Bounds,
) {
    let Some(acceptor) = tls else {
        return requests(stream, ClientCertificates::default(), routes, seat, stop, bounds).await;
    };
    let shaken = tokio::select! {
        () = stop.cancelled() => return,
        shaken = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)) => shaken,
    };
    // A peer that breaks off, or uses another protocol, is dropped without a log line.
    if let Ok(Ok(stream)) = shaken {
        let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let client = ClientCertificates(shown.into());
        requests(stream, client, routes, seat, stop, bounds).await;
    }
}

/// Answers requests until the peer leaves, the server stops, or the connection is too old; one that is under way then
/// is answered. A page may take the connection over (an upgrade): then it is the page's, with its bounds and its end.
async fn requests<S>(
    stream: S,
    client: ClientCertificates,
    routes: Router,
    seat: &Arc<Seat>,
    stop: CancellationToken,
    bounds: Bounds,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(bounds.header).max_buf_size(HEAD);
    let routes = TowerToHyperService::new(routes);
    let at_work = service_fn(|mut request: hyper::Request<Incoming>| {
        let work = AtWork { work: Arc::new(seat.work()) };
        request.extensions_mut().insert(client.clone());
        request.extensions_mut().insert(work.clone());
        let answer = routes.call(request);
        async move {
            let answer = answer.await;
            drop(work);
            answer
        }
    });
    let served = server.serve_connection(TokioIo::new(stream), at_work).with_upgrades();
    let mut served = std::pin::pin!(served);
    tokio::select! {
        _ = served.as_mut() => return,
        () = stop.cancelled() => {}
        () = tokio::time::sleep(bounds.connection) => {
            served.as_mut().graceful_shutdown();
            if !bounds.late.is_zero() {
                tokio::select! {
                    _ = served.as_mut() => return,
                    () = stop.cancelled() => {}
                    () = tokio::time::sleep(bounds.late) => {}
                }
            }
        }
    }
    served.as_mut().graceful_shutdown();
    if tokio::time::timeout(bounds.grace, served).await.is_err() {
        tracing::debug!("a request to a server of ours was cut off");
    }
}

#[cfg(test)]
mod tests;
