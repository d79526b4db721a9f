//! A server that sends exactly the bytes that a test gives it, and records the heads of all requests.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// A server; it stops when this value is dropped.
pub(crate) struct Wire {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    /// Stops when the value is dropped.
    _task: JoinSet<()>,
}

impl Wire {
    /// Listens at that address of this machine and answers each request with what the closure makes of its head. After
    /// an answer with `connection: close` it closes.
    pub(crate) async fn at(ip: &str, answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((ip, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (Arc::clone(&heads), Arc::new(answer));
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                connections.spawn(async move {
                    loop {
                        let mut head = Vec::new();
                        while !head.ends_with(b"\r\n\r\n") {
                            match stream.read_u8().await {
                                Ok(byte) => head.push(byte),
                                Err(_) => return,
                            }
                        }
                        let head = String::from_utf8_lossy(&head).into_owned();
                        let bytes = answer(&head);
                        seen.lock().unwrap().push(head);
                        if stream.write_all(&bytes).await.is_err() {
                            return;
                        }
                        if String::from_utf8_lossy(&bytes).to_lowercase().contains("connection: close") {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, heads, _task: task }
    }

    /// Answers everything with 200 and that body.
    pub(crate) async fn saying(ip: &str, body: &'static str) -> Self {
        Self::at(ip, move |_| ok("", body.as_bytes())).await
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The heads of all requests so far.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

/// An answer with further header lines, each ended by a line break.
pub(crate) fn ok(headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}
