//! The admin server of a running host, as a client: it listens on a loopback address, in the pod or behind
//! `kubectl port-forward`.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::options::values;

/// Where a host listens by default.
pub(super) const USUAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8082);

/// How long connecting may take: it is on this machine.
const CONNECT: Duration = Duration::from_secs(2);

/// One answer.
pub(super) struct AdminAnswer {
    pub(super) status: StatusCode,
    pub(super) text: String,
}

impl AdminAnswer {
    /// The text, if the server says that all is well.
    pub(super) fn good(self, path: &str) -> anyhow::Result<String> {
        if !self.status.is_success() {
            bail!("{path}: {}: {}", self.status, topoloom_core::text::line(self.text.trim(), 500));
        }
        Ok(self.text)
    }
}

/// Reads `PORT`, `IP:PORT`, `localhost:PORT`, or such a URL.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let bare = text.strip_prefix("http://").unwrap_or(text);
    let bare = bare.strip_suffix('/').unwrap_or(bare);
    if let Ok(port) = bare.parse::<u16>() {
        return Ok(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port));
    }
    let named = bare.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    values::loopback(named.as_deref().unwrap_or(bare)).map_err(|_| {
        "must be PORT, IP:PORT or http://IP:PORT with a loopback address: run this command in the pod, or through kubectl port-forward"
            .to_owned()
    })
}

/// Asks for a page of at most so many bytes, or sends something.
pub(super) async fn ask(
    server: SocketAddr,
    method: Method,
    path: &str,
    body: String,
    most: usize,
    patience: Duration,
) -> anyhow::Result<AdminAnswer> {
    let asked = async {
        let stream =
            tokio::time::timeout(CONNECT, TcpStream::connect(server)).await.context("no connection in time")??;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::HOST, server.to_string())
            .body(Full::new(Bytes::from(body)))?;
        let exchange = async {
            let answer = sender.send_request(request).await?;
            let status = answer.status();
            let limited = Limited::new(answer.into_body(), most).collect().await;
            let bytes = limited.map_err(|error| anyhow::anyhow!("{path} cannot be read: {error}"))?.to_bytes();
            anyhow::Ok(AdminAnswer { status, text: String::from_utf8_lossy(&bytes).into_owned() })
        };
        tokio::select! {
            answer = exchange => answer,
            // It ends after the answer, or instead of one.
            ended = connection => match ended {
                Ok(()) => bail!("{path}: the connection was closed without an answer"),
                Err(error) => Err(error.into()),
            },
        }
    };
    let answer = tokio::time::timeout(patience, asked).await;
    let answer = answer.map_err(|_| anyhow::anyhow!("no answer within {patience:?}")).flatten();
    answer.with_context(|| format!("the admin server at {server}"))
}

/// Asks for a page.
pub(super) async fn get(server: SocketAddr, path: &str, most: usize) -> anyhow::Result<AdminAnswer> {
    ask(server, Method::GET, path, String::new(), most, Duration::from_secs(30)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_admin_server_is_a_port_or_a_loopback_address() {
        for text in ["8082", "127.0.0.1:8082", "http://127.0.0.1:8082", "http://localhost:8082/", "localhost:8082"] {
            assert_eq!(address(text), Ok(USUAL), "{text}");
        }
        assert_eq!(address("http://[::1]:9").unwrap().to_string(), "[::1]:9");
        for text in ["", "70000", "10.0.0.1:8082", "https://127.0.0.1:8082", "http://example.com:80", "127.0.0.1"] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
