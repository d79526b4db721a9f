//! Connecting to the API server.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Builder, Client};
use hyper_util::rt::TokioExecutor;
use kube::client::{ClientBuilder, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tower::util::MapErrLayer;
use tower::{BoxError, ServiceBuilder};

use super::deadline::Deadline;
use super::dial::{Dial, NotDialled, Resolver};
use super::gate::{self, Gate};
use super::lanes::Lane;
use super::rate::RateLimit;
use super::requests;

/// How long one request may take until its answer's head is there; watches answer at once and then stream.
const READ_TIMEOUT: Duration = Duration::from_secs(305);

/// After so much silence on the connection of a stream the kernel asks whether the other machine is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// And so often, until it gives up: as for connections of Go programs. With the nine times of Linux a connection to a machine that is
/// gone ends within three minutes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// How much of an answer is read at once, and how long its head may be: what a TLS record has at most. By itself hyper holds up to 408 KiB for
/// each connection that has had a large answer.
const RECORD: usize = 16 << 10;
/// How much of a stream is read ahead, and how long the head of an answer may be. By itself hyper reads up to 408 KiB ahead.
const READ_AHEAD: usize = 64 << 10;

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file is missing, unreadable or no kubeconfig.
    #[error("kubeconfig {path}: {message}")]
    Kubeconfig {
        /// The file that was named.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// Neither a kubeconfig nor a ServiceAccount.
    #[error(
        "no API server is configured: give --kubeconfig FILE, set KUBECONFIG, or run inside a cluster with a ServiceAccount ({message})"
    )]
    Nowhere {
        /// What was tried.
        message: String,
    },
    /// The settings were read but no client can be made of them.
    #[error("the client settings cannot be used: {0}")]
    Client(String),
    /// The server is where nothing may be dialled.
    #[error(transparent)]
    NotDialled(#[from] NotDialled),
}

/// What bounds the requests to an API server that another party named. The default bounds nothing but connecting.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bounds {
    /// Which addresses are dialled.
    pub dial: Dial,
    /// How long an answer may take, with its body; watches have no end.
    pub deadline: Option<Duration>,
}

/// A client and its API server.
#[derive(Clone)]
pub struct Connection {
    /// The client.
    pub client: kube::Client,
    /// The URL of the API server.
    pub server: http::Uri,
    config: kube::Config,
    bounds: Bounds,
}

impl Connection {
    /// A connection by settings that the caller has judged. Every request is counted and bounded; none is limited.
    ///
    /// # Errors
    /// When a certificate or a key of the settings cannot be used, or the server may not be dialled.
    pub fn bounded(config: kube::Config, bounds: Bounds, metrics: &requests::Metrics) -> Result<Self, ConnectError> {
        let config = settled(config);
        bounds.dial.check_literal(config.cluster_url.host().unwrap_or_default())?;
        let (gate, limit, lane) = (Gate::none(), RateLimit::default(), Lane::default());
        let client = stack(&config, bounds, Carries::Requests, &gate, metrics, &limit, &lane)?;
        Ok(Self { client, server: config.cluster_url.clone(), config, bounds })
    }

    /// The same, with every request counted.
    ///
    /// # Errors
    /// As [`Self::behind`].
    pub fn counted(self, metrics: &requests::Metrics, limit: &RateLimit) -> Result<Self, ConnectError> {
        Ok(Self { client: self.behind(&Gate::none(), metrics, limit)?, ..self })
    }

    /// The authorities that its server has to be signed by, in DER; none where those of the machine count.
    #[must_use]
    pub fn authorities(&self) -> Vec<Vec<u8>> {
        self.config.root_cert.clone().unwrap_or_default()
    }

    /// Whether its server has to prove that it is the one, by a certificate.
    #[must_use]
    pub fn proof(&self) -> ServerProof {
        ServerProof::of(&self.config)
    }

    /// The name that the certificate of its server has to have, where that is not the host of the URL.
    #[must_use]
    pub fn server_name(&self) -> Option<&str> {
        self.config.tls_server_name.as_deref()
    }

    /// Another client, with connections of its own, that sends only while the gate is open. Its connections live on the
    /// runtime that it is used on.
    ///
    /// # Errors
    /// When a certificate or a key of the settings cannot be used.
    pub fn behind(
        &self,
        gate: &Gate,
        metrics: &requests::Metrics,
        limit: &RateLimit,
    ) -> Result<kube::Client, ConnectError> {
        stack(&self.config, self.bounds, Carries::Requests, gate, metrics, limit, &Lane::default())
    }

    /// A client with connections of its own for what has no end: followed logs, and connections that are upgraded. Only connecting is
    /// bounded in time, and no answer in size: its user bounds the rest. A machine that is gone ends its connections within minutes, and
    /// 64 KiB of each are read ahead. It sends whatever it is asked to: no gate, and no lane.
    ///
    /// # Errors
    /// As [`Self::behind`].
    pub fn for_streams(&self, metrics: &requests::Metrics) -> Result<kube::Client, ConnectError> {
        let mut config = self.config.clone();
        (config.read_timeout, config.write_timeout) = (None, None);
        let bounds = Bounds { deadline: None, ..self.bounds };
        let (gate, limit, lane) = (Gate::none(), RateLimit::default(), Lane::default());
        stack(&config, bounds, Carries::Streams, &gate, metrics, &limit, &lane)
    }

    /// The same as [`Self::behind`], whose writes go in a lane, and wait for no limit.
    ///
    /// # Errors
    /// As [`Self::behind`].
    pub fn in_lane(&self, lane: &Lane, gate: &Gate, metrics: &requests::Metrics) -> Result<kube::Client, ConnectError> {
        self.in_lanes(lane, gate, metrics, &RateLimit::default())
    }

    /// The same, whose requests wait for a limit, too.
    ///
    /// # Errors
    /// As [`Self::behind`].
    pub fn in_lanes(
        &self,
        lanes: &Lane,
        gate: &Gate,
        metrics: &requests::Metrics,
        limit: &RateLimit,
    ) -> Result<kube::Client, ConnectError> {
        stack(&self.config, self.bounds, Carries::Requests, gate, metrics, limit, lanes)
    }
}

/// How a server proves that it is the one that was meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerProof {
    /// By a certificate of one of the authorities.
    Certificate,
    /// Not at all: `insecure-skip-tls-verify`, or `http`.
    None,
}

impl ServerProof {
    fn of(config: &kube::Config) -> Self {
        let has_tls = config.cluster_url.scheme().is_some_and(|scheme| *scheme == http::uri::Scheme::HTTPS);
        if has_tls && !config.accept_invalid_certs { Self::Certificate } else { Self::None }
    }
}

/// What the connections of a client are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carries {
    /// Requests with answers, and watches.
    Requests,
    /// What has no end, may be silent for hours, and may be typed.
    Streams,
}

impl Carries {
    /// What connects to a machine. TLS is added on top.
    fn wire(self, dial: Dial) -> HttpConnector<Resolver> {
        let mut tcp = HttpConnector::new_with_resolver(Resolver::new(dial));
        tcp.enforce_http(false);
        match self {
            Self::Requests => {}
            Self::Streams => {
                // A machine that is gone ends no connection by itself.
                tcp.set_keepalive(Some(KEEPALIVE));
                tcp.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
                tcp.set_nodelay(true);
            }
        }
        tcp
    }

    /// What speaks HTTP.
    fn http(self) -> Builder {
        let mut builder = Client::builder(TokioExecutor::new());
        match self {
            Self::Requests => {
                builder.http1_read_buf_exact_size(RECORD);
            }
            Self::Streams => {
                builder.http1_max_buf_size(READ_AHEAD);
            }
        }
        builder
    }
}

/// A client with connections of its own.
fn stack(
    config: &kube::Config,
    bounds: Bounds,
    carries: Carries,
    gate: &Gate,
    metrics: &requests::Metrics,
    limit: &RateLimit,
    lane: &Lane,
) -> Result<kube::Client, ConnectError> {
    let refused = |error: kube::Error| ConnectError::Client(chain(&error));
    let wire = gate::Connector::new(gate.clone(), carries.wire(bounds.dial));
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(wire).map_err(refused)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    let service = ServiceBuilder::new()
        // Before the gate: a request that waited for its turn is checked against the lease after the wait.
        .layer(limit.clone())
        .layer(lane.clone())
        // Before what counts: what is refused here was never asked of the API server.
        .layer(gate::Door(gate.clone()))
        .layer(requests::Counted(metrics.clone()))
        .layer(MapErrLayer::new(named(&config.cluster_url)))
        .layer(Deadline(bounds.deadline))
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(refused)?)
        .layer(config.extra_headers_layer().map_err(refused)?)
        .map_err(BoxError::from)
        .service(carries.http().build(connector));
    Ok(ClientBuilder::new(service, config.default_namespace.clone()).build())
}

/// Makes a client. Does not talk to the API server yet.
///
/// `kubeconfig` wins over `KUBECONFIG`, that over `~/.kube/config`, that over the ServiceAccount of the pod. `server`
/// replaces the API server that is found there; if nothing is found, it is used without credentials.
///
/// # Errors
/// Names the file and what is wrong with it.
pub async fn connect(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    server: Option<&http::Uri>,
) -> Result<Connection, ConnectError> {
    let mut config = match kubeconfig {
        Some(path) => {
            let named = |message: String| ConnectError::Kubeconfig { path: path.to_owned(), message };
            if !path.exists() {
                return Err(named("there is no such file".into()));
            }
            let file = Kubeconfig::read_from(path).map_err(|error| named(chain(&error)))?;
            let options = KubeConfigOptions { context: context.map(str::to_owned), ..Default::default() };
            kube::Config::from_custom_kubeconfig(file, &options).await.map_err(|error| named(chain(&error)))?
        }
        None if context.is_some() => {
            let options = KubeConfigOptions { context: context.map(str::to_owned), ..Default::default() };
            kube::Config::from_kubeconfig(&options)
                .await
                .map_err(|error| ConnectError::Nowhere { message: chain(&error) })?
        }
        None => match (kube::Config::infer().await, server) {
            (Ok(config), _) => config,
            (Err(_), Some(server)) => kube::Config::new(server.clone()),
            (Err(error), None) => return Err(ConnectError::Nowhere { message: chain(&error) }),
        },
    };
    if let Some(server) = server {
        config.cluster_url = server.clone();
    }
    let config = settled(config);
    let server = config.cluster_url.clone();
    let builder = ClientBuilder::try_from(config.clone()).map_err(|error| ConnectError::Client(chain(&error)))?;
    Ok(Connection {
        client: builder.with_layer(&MapErrLayer::new(named(&server))).build(),
        server,
        config,
        bounds: Bounds::default(),
    })
}

/// The settings that every connection of ours has.
fn settled(mut config: kube::Config) -> kube::Config {
    // We decide ourselves when a write is tried again: a blind retry would hide a 429 from the operator.
    config.default_retry = false;
    config.read_timeout = Some(READ_TIMEOUT);
    config.connect_timeout = Some(Duration::from_secs(10));
    let agent = format!(concat!("topoloom/", env!("CARGO_PKG_VERSION"), " ({})"), super::instance());
    let agent = http::HeaderValue::try_from(agent)
        .unwrap_or_else(|_| http::HeaderValue::from_static(concat!("topoloom/", env!("CARGO_PKG_VERSION"))));
    config.headers.push((http::header::USER_AGENT, agent));
    config
}

fn named(server: &http::Uri) -> impl Fn(BoxError) -> NoAnswer + Clone + Send + 'static {
    let server: Arc<str> = server.to_string().trim_end_matches('/').into();
    move |source| NoAnswer { server: Arc::clone(&server), source }
}

/// Which API server did not answer: the client's own errors do not say where they knocked.
#[derive(Debug, thiserror::Error)]
#[error("{server}")]
struct NoAnswer {
    server: Arc<str>,
    source: BoxError,
}

/// An error with everything behind it, each part once: some libraries repeat their source in their own text.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let part = cause.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use prometheus_client::registry::Registry;
    use tokio::net::TcpListener;
    use tower::ServiceExt as _;

    use super::*;
    use crate::gate::{ReadOnly, Switch};
    use crate::{Refusal, RefusalReason};

    /// Whether the kernel has a timer for the socket on this port: on a connection without a byte under way, that of keepalive.
    fn has_timer(port: u16) -> bool {
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        let local = format!("0100007F:{port:04X}");
        let line =
            table.lines().find(|line| line.split_whitespace().nth(1) == Some(local.as_str())).expect("it is connected");
        // The sixth column: which timer, and when it is due.
        line.split_whitespace().nth(5).unwrap().starts_with("02:")
    }

    #[tokio::test]
    async fn connections_of_streams_notice_a_machine_that_is_gone_and_wait_for_no_more_bytes_and_no_others_do() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let server: http::Uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        for (carries, is_of_streams) in [(Carries::Requests, false), (Carries::Streams, true)] {
            let connected = carries.wire(Dial::default()).oneshot(server.clone()).await.unwrap();
            let socket = connected.inner();
            assert_eq!(socket.nodelay().unwrap(), is_of_streams, "{carries:?}");
            assert_eq!(has_timer(socket.local_addr().unwrap().port()), is_of_streams, "{carries:?}");
        }
    }

    #[test]
    fn a_server_proves_itself_by_a_certificate_unless_that_is_switched_off_or_it_has_none() {
        for (server, accepts_any, wanted) in [
            ("https://a:6443", false, ServerProof::Certificate),
            ("https://a:6443", true, ServerProof::None),
            ("http://a:8001", false, ServerProof::None),
        ] {
            let mut config = kube::Config::new(http::Uri::from_static(server));
            config.accept_invalid_certs = accepts_any;
            assert_eq!(ServerProof::of(&config), wanted, "{server} {accepts_any}");
        }
    }

    #[tokio::test]
    async fn what_is_refused_at_the_door_is_no_request() {
        // Nothing listens there.
        let server = http::Uri::from_static("http://127.0.0.1:1");
        let config = kube::Config::new(server.clone());
        let bounds = Bounds::default();
        let connection = Connection { client: kube::Client::try_from(config.clone()).unwrap(), server, config, bounds };
        let mut registry = Registry::default();
        let metrics = requests::Metrics::register(&mut registry);
        let counted = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text.lines().filter(|line| line.starts_with("api_requests_total")).map(str::to_owned).collect::<Vec<_>>()
        };
        let switch = Switch::new(ReadOnly::Yes);
        let client = connection.behind(&Gate::open(&switch), &metrics, &RateLimit::default()).unwrap();
        let write = async || {
            let request = http::Request::patch("/api/v1/nodes/n").body(Vec::new()).unwrap();
            Refusal::of(&client.request::<serde_json::Value>(request).await.unwrap_err()).reason
        };
        assert_eq!((write().await, counted()), (RefusalReason::ReadOnly, vec![]));
        switch.set(ReadOnly::No);
        assert_eq!(write().await, RefusalReason::Unreachable);
        assert_eq!(counted(), [r#"api_requests_total{verb="patch",resource="nodes",code="error"} 1"#]);
    }
}
