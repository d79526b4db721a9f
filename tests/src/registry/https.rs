//! A server that answers over TLS what a test says, byte by byte, and writes down what it was asked. Each answer ends its
//! connection.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use topoloom_simulator::Authority;

/// The longest head of a request.
const HEAD: usize = 64 << 10;
/// A piece of an answer without end.
const PIECE: usize = 64 << 10;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// By names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
}

impl Asked {
    /// Without the query.
    #[must_use]
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// A field of the query, or of a form in the body.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<String> {
        let query = self.target.split_once('?').map(|(_, query)| query).unwrap_or_default();
        let form = String::from_utf8_lossy(&self.body).into_owned();
        let mut pairs = query.split('&').chain(form.split('&')).filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| decoded(value))
    }

    /// What it proves itself with.
    #[must_use]
    pub fn authorization(&self) -> Option<&str> {
        self.headers.get("authorization").map(String::as_str)
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.filter(|_| *first == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(if *first == b'+' { b' ' } else { *first }));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What is answered.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// Headers beside those of the body.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub content: Content,
}

/// The body of an answer.
#[derive(Debug, Clone)]
pub enum Content {
    /// These bytes.
    Whole(Vec<u8>),
    /// These bytes of as many as are announced; then the connection ends.
    Cut {
        /// The length that is announced.
        says: u64,
        /// What comes.
        comes: Vec<u8>,
    },
    /// Zeroes in pieces, for as long as the client reads.
    Endless,
}

impl Reply {
    /// A status with a body.
    #[must_use]
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), content: Content::Whole(body.into()) }
    }

    /// The same with a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// The same with another body.
    #[must_use]
    pub fn content(self, content: Content) -> Self {
        Self { content, ..self }
    }
}

/// The server; it ends with the value.
pub struct Https {
    port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
    _serving: JoinSet<()>,
}

impl Https {
    /// Starts one on 127.0.0.1.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(
        authority: &Authority,
        answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    ) -> Result<Self> {
        let serving = authority.serving(&["127.0.0.1", "localhost"])?;
        let chain = CertificateDer::pem_slice_iter(serving.certificate.as_bytes()).collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(serving.key.as_bytes())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let config = config.with_no_client_auth().with_single_cert(chain, key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
        let port = listener.local_addr()?.port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (noted, answer) = (Arc::clone(&asked), Arc::new(answer));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, noted, answer) = (acceptor.clone(), Arc::clone(&noted), Arc::clone(&answer));
                connections.spawn(async move {
                    // A client that does not trust us goes away here, and one that has enough later.
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let Some(request) = request(&mut stream).await else { return };
                    let is_head = request.method == "HEAD";
                    let reply = answer(&request);
                    noted.lock().unwrap_or_else(PoisonError::into_inner).push(request);
                    let _ = send(&mut stream, &reply, is_head).await;
                    let _ = stream.shutdown().await;
                });
            }
        });
        Ok(Self { port, asked, _serving: serving })
    }

    /// `HOST:PORT`.
    #[must_use]
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// What it was asked so far.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Forgets what it was asked.
    pub fn forget(&self) {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

async fn request(stream: &mut (impl AsyncRead + Unpin)) -> Option<Asked> {
    let mut head = Vec::new();
    let end = loop {
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).await.ok().filter(|read| *read > 0 && head.len() < HEAD)?;
        head.extend_from_slice(&piece[..read]);
    };
    let mut body = head.split_off(end + 4);
    let text = String::from_utf8_lossy(&head).into_owned();
    let mut lines = text.lines();
    let mut words = lines.next()?.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length: usize = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    while body.len() < length {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).await.ok().filter(|read| *read > 0)?;
        body.extend_from_slice(&piece[..read]);
    }
    Some(Asked { method, target, headers, body })
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), reply: &Reply, is_head: bool) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {} x\r\nconnection: close\r\n", reply.status);
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    let (length, bytes) = match &reply.content {
        Content::Whole(bytes) => (Some(bytes.len() as u64), bytes.as_slice()),
        Content::Cut { says, comes } => (Some(*says), comes.as_slice()),
        Content::Endless => (None, [].as_slice()),
    };
    head +=
        &length.map_or("transfer-encoding: chunked\r\n".to_owned(), |length| format!("content-length: {length}\r\n"));
    stream.write_all(format!("{head}\r\n").as_bytes()).await?;
    if is_head {
        return stream.flush().await;
    }
    stream.write_all(bytes).await?;
    if length.is_none() {
        let piece = [format!("{PIECE:x}\r\n").as_bytes(), &[0; PIECE], b"\r\n"].concat();
        loop {
            stream.write_all(&piece).await?;
        }
    }
    stream.flush().await
}
