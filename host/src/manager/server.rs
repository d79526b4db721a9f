//! One HTTP server of the process: bounds on what a stranger may do to it, TLS where it is asked for, a graceful end.
//!
//! Four of them run: health and metrics for the cluster, both as Volcano has them (`node-lock-and-bind.md` B10), the admin
//! server for whoever is on the machine, and the extender for kube-scheduler.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Bytes of the head of a request.
const HEAD: usize = 64 << 10;

/// What a stranger may do to a server.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// How long the head of a request may take, and how long a connection may wait for one.
    pub header: Duration,
    /// How long a connection may be used.
    pub connection: Duration,
    /// Connections at a time; more wait to be accepted.
    pub connections: usize,
    /// How long requests under way may take when the server stops.
    pub grace: Duration,
}

impl Bounds {
    /// For probes and scrapers: a probe takes milliseconds, a profile a minute.
    pub const PROBES: Self = Self {
        header: Duration::from_secs(5),
        connection: Duration::from_secs(120),
        connections: 64,
        grace: Duration::from_secs(5),
    };
}

/// The settings of TLS, which may change while a server runs.
pub type Tls = watch::Receiver<Arc<rustls::ServerConfig>>;

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
    tls: Option<Tls>,
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
        // What never changes needs nobody who could change it.
        Self::listen_within(flag, address, tls.map(|tls| watch::channel(tls).1), Bounds::PROBES).await
    }

    /// The same with bounds and settings of its own.
    ///
    /// # Errors
    /// Names the flag and the address.
    pub async fn listen_within(
        flag: &'static str,
        address: SocketAddr,
        tls: Option<Tls>,
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
        let seats = Arc::new(Semaphore::new(bounds.connections));
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        loop {
            let seat = tokio::select! {
                () = stop.cancelled() => break,
                seat = Arc::clone(&seats).acquire_owned() => seat,
            };
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
            let tls = tls.as_ref().map(|tls| TlsAcceptor::from(Arc::clone(&tls.borrow())));
            let (routes, watcher) = (routes.clone(), graceful.watcher());
            connections.spawn(async move {
                let _seat = seat;
                // Whoever stays longer than that is no probe.
                let _ = tokio::time::timeout(bounds.connection, connection(stream, tls, routes, watcher, bounds)).await;
            });
        }
        drop(listener);
        if tokio::time::timeout(bounds.grace, graceful.shutdown()).await.is_err() {
            tracing::debug!("requests to a server of ours were cut off");
        }
        connections.shutdown().await;
    }
}

async fn connection(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    routes: Router,
    watcher: hyper_util::server::graceful::Watcher,
    bounds: Bounds,
) {
    let mut server = auto::Builder::new(TokioExecutor::new()).http1_only();
    server.http1().timer(TokioTimer::new()).header_read_timeout(bounds.header).max_buf_size(HEAD);
    let service = TowerToHyperService::new(routes);
    // A peer that breaks off, or speaks something else, is its own affair.
    match tls {
        None => drop(watcher.watch(server.serve_connection(TokioIo::new(stream), service).into_owned()).await),
        Some(acceptor) => {
            let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await else { return };
            drop(watcher.watch(server.serve_connection(TokioIo::new(stream), service).into_owned()).await);
        }
    }
}
