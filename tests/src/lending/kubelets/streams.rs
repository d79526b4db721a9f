//! The log and exec server of all kubelets of a control plane: one port, since the path of a request names its pod.
//!
//! It shows which container was reached: a log is one line with its name, and a command, an attachment and a forwarded port begin
//! with one. Then they say back what they hear, until they have heard the end. A log that is followed never ends. Whether there is
//! such a pod is not checked: an API server has.
//!
//! Nodes say where it is if [`Settings::streams`](super::Settings::streams) has its port; their addresses are then loopback ones, each
//! its own. API servers reach a kubelet with SPDY/3.1 ([`spdy`]); its certificate is not checked, as is usual.
//!
//! What goes wrong: a client that leaves in the middle ends its own stream.

mod spdy;

use std::collections::HashMap;
use std::future::Future;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use http::StatusCode;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use topoloom::serving::{Answers, Bounds, Server};

use spdy::{Frame, Reader, Writer};

/// Where an API server says which protocols it speaks within SPDY, and a kubelet which one it chose.
const PROTOCOL: &str = "x-stream-protocol-version";
/// The streams of a command that it cannot begin without, where they were asked for.
const EXPECTED: [&str; 4] = ["error", "stdin", "stdout", "stderr"];
/// The end of a command that went well, as protocol 4 says it.
const SUCCESS: &[u8] = br#"{"metadata":{},"status":"Success"}"#;

/// Kept open as long as a client wants.
const BOUNDS: Bounds = Bounds {
    header: Duration::from_secs(100),
    connection: Duration::from_secs(3600),
    late: Duration::from_secs(3600),
    connections: 1_000,
    grace: Duration::from_secs(1),
    answers: Answers::Streams,
};

/// The server. It ends when what has to be run for it is dropped.
#[derive(Clone)]
pub struct Streams {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

#[derive(Clone)]
struct Desk {
    asked: Arc<Mutex<Vec<String>>>,
    opened: mpsc::UnboundedSender<(OnUpgrade, Talk)>,
}

/// What an upgraded connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// A command, or what runs: it has these outputs, and perhaps an input.
    Command {
        input: bool,
        output: bool,
        error: bool,
    },
    Ports,
}

/// An upgraded connection.
#[derive(Debug, Clone)]
struct Talk {
    purpose: Purpose,
    /// What it says first.
    greeting: String,
}

impl Streams {
    /// Listens; the other value is what has to be run for it.
    ///
    /// # Errors
    /// When there is no port, or no certificate.
    pub async fn new() -> Result<(Self, impl Future<Output = ()> + Send + use<>)> {
        let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(["kubelet".to_owned()])?;
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).map_err(anyhow::Error::msg)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let config = config.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key)?;
        let settings = watch::channel(Arc::new(config)).1;
        // Every address of the machine: each node has one of its own.
        let server =
            Server::listen_within("kubelets", (Ipv4Addr::UNSPECIFIED, 0).into(), Some(settings), BOUNDS).await?;
        let port = server.address().context("it has an address")?.port();
        let (opened, talks) = mpsc::unbounded_channel();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let router = Router::new().fallback(page).with_state(Desk { asked: Arc::clone(&asked), opened });
        Ok((Self { port, asked }, run(server, router, talks)))
    }

    /// Its port, on every address of this machine.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Method, path and query of each request so far.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn run(server: Server, router: Router, mut talks: mpsc::UnboundedReceiver<(OnUpgrade, Talk)>) {
    let mut open = JoinSet::new();
    let mut serving = std::pin::pin!(server.serve(router, CancellationToken::new()));
    loop {
        tokio::select! {
            () = serving.as_mut() => return,
            Some((upgrade, talk)) = talks.recv() => {
                open.spawn(async move {
                    if let Ok(stream) = upgrade.await {
                        // A client that leaves needs no answer.
                        _ = talk.hold(stream).await;
                    }
                });
            }
            Some(ended) = open.join_next(), if !open.is_empty() => ended.expect("a stream of a kubelet must not crash"),
        }
    }
}

async fn page(State(desk): State<Desk>, mut request: Request) -> Response {
    let uri = request.uri().clone();
    let line = format!("{} {uri}", request.method());
    desk.asked.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    let parts: Vec<&str> = uri.path().split('/').skip(1).collect();
    let query = uri.query().unwrap_or_default();
    let is_on = |name: &str| query.split('&').any(|part| part == format!("{name}=1"));
    match parts.as_slice() {
        ["containerLogs", namespace, pod, container] => {
            let first = stream::iter([Ok::<_, std::io::Error>(format!("the log of {namespace}/{pod} {container}\n"))]);
            if query.split('&').any(|part| part == "follow=true") {
                return Body::from_stream(first.chain(stream::pending())).into_response();
            }
            Body::from_stream(first).into_response()
        }
        [verb @ ("exec" | "attach"), namespace, pod, .., container] => {
            let command = commands(query).join(" ");
            let purpose = Purpose::Command { input: is_on("input"), output: is_on("output"), error: is_on("error") };
            let greeting = format!("{verb} {namespace}/{pod} {container}: {command}\n");
            upgraded(&desk, &mut request, Talk { purpose, greeting })
        }
        ["portForward", namespace, pod, ..] => {
            let greeting = format!("a port of {namespace}/{pod}\n");
            upgraded(&desk, &mut request, Talk { purpose: Purpose::Ports, greeting })
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// The words of a command.
fn commands(query: &str) -> Vec<String> {
    let url = reqwest::Url::parse(&format!("http://kubelet/?{query}")).expect("a query of a request is one of a URL");
    url.query_pairs().filter(|(key, _)| key == "command").map(|(_, value)| value.into_owned()).collect()
}

fn upgraded(desk: &Desk, request: &mut Request, talk: Talk) -> Response {
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !header("upgrade").eq_ignore_ascii_case("SPDY/3.1") {
        return (StatusCode::BAD_REQUEST, format!("no SPDY/3.1: {:?}", request.headers())).into_response();
    }
    let chosen = match talk.purpose {
        Purpose::Command { .. } => "v4.channel.k8s.io",
        Purpose::Ports => "portforward.k8s.io",
    };
    let offers = request.headers().get_all(PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    if !offers.flat_map(|offer| offer.split(',')).any(|offer| offer.trim() == chosen) {
        return (StatusCode::FORBIDDEN, format!("no {chosen}: {:?}", request.headers())).into_response();
    }
    // If nothing runs this any more, the client sees the connection end.
    _ = desk.opened.send((hyper::upgrade::on(request), talk));
    let headers = [("connection", "Upgrade"), ("upgrade", "SPDY/3.1"), (PROTOCOL, chosen)];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

impl Talk {
    async fn hold(self, stream: Upgraded) -> std::io::Result<()> {
        let (from, to) = tokio::io::split(TokioIo::new(stream));
        let (reader, writer) = (Reader::new(from), Writer::new(to));
        match self.purpose {
            Purpose::Command { input, output, error } => {
                let expected = 1 + [input, output, error].into_iter().filter(|is_there| *is_there).count();
                Command { greeting: self.greeting, input, expected, streams: HashMap::new() }.run(reader, writer).await
            }
            Purpose::Ports => ports(&self.greeting, reader, writer).await,
        }
    }
}

type ReadSide = tokio::io::ReadHalf<TokioIo<Upgraded>>;
type WriteSide = tokio::io::WriteHalf<TokioIo<Upgraded>>;

/// A command that says what it was asked, and then what it hears.
struct Command {
    greeting: String,
    input: bool,
    /// How many streams belong to it.
    expected: usize,
    /// Those that are open, by what they are for.
    streams: HashMap<String, u32>,
}

impl Command {
    async fn run(mut self, mut reader: Reader<ReadSide>, mut writer: Writer<WriteSide>) -> std::io::Result<()> {
        while let Some(frame) = reader.next().await? {
            match frame {
                Frame::Open { stream, mut headers, .. } => {
                    writer.reply(stream).await?;
                    let kind = headers.remove("streamtype").unwrap_or_default();
                    // A terminal has one more, for its size, which may come at any time.
                    let is_expected = EXPECTED.contains(&kind.as_str());
                    self.streams.insert(kind, stream);
                    let there = EXPECTED.into_iter().filter(|kind| self.streams.contains_key(*kind)).count();
                    if is_expected && there == self.expected {
                        self.say(&mut writer, self.greeting.as_bytes()).await?;
                        if !self.input {
                            self.end(&mut writer).await?;
                        }
                    }
                }
                Frame::Data { stream, bytes, fin } if self.streams.get("stdin") == Some(&stream) => {
                    self.say(&mut writer, &bytes).await?;
                    if fin {
                        self.end(&mut writer).await?;
                    }
                }
                Frame::Ping(id) => writer.pong(id).await?,
                Frame::GoAway => break,
                Frame::Data { .. } | Frame::Reset(_) | Frame::Other => {}
            }
        }
        writer.close().await
    }

    async fn say(&self, writer: &mut Writer<WriteSide>, bytes: &[u8]) -> std::io::Result<()> {
        match self.streams.get("stdout") {
            Some(stdout) if !bytes.is_empty() => writer.data(*stdout, bytes, false).await,
            _ => Ok(()),
        }
    }

    async fn end(&self, writer: &mut Writer<WriteSide>) -> std::io::Result<()> {
        for (kind, stream) in &self.streams {
            let last = if kind == "error" { SUCCESS } else { b"" };
            writer.data(*stream, last, true).await?;
        }
        Ok(())
    }
}

/// Connections to a port: each is a stream of data and one for an error, with an id in common.
async fn ports(greeting: &str, mut reader: Reader<ReadSide>, mut writer: Writer<WriteSide>) -> std::io::Result<()> {
    // The streams for errors by their id, and the ids of the streams of data.
    let (mut errors, mut data) = (HashMap::new(), HashMap::new());
    while let Some(frame) = reader.next().await? {
        match frame {
            Frame::Open { stream, mut headers, .. } => {
                writer.reply(stream).await?;
                let id = headers.remove("requestid").unwrap_or_default();
                if headers.get("streamtype").is_some_and(|kind| kind == "error") {
                    errors.insert(id, stream);
                } else {
                    data.insert(stream, id);
                    writer.data(stream, greeting.as_bytes(), false).await?;
                }
            }
            Frame::Data { stream, bytes, fin } => {
                // The stream for errors is closed by its client at once.
                let Some(id) = data.get(&stream) else { continue };
                writer.data(stream, &bytes, fin).await?;
                if fin && let Some(error) = errors.get(id) {
                    writer.data(*error, b"", true).await?;
                }
            }
            Frame::Ping(id) => writer.pong(id).await?,
            Frame::GoAway => break,
            Frame::Reset(_) | Frame::Other => {}
        }
    }
    writer.close().await
}
