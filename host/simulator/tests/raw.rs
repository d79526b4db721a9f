//! A client that reads bytes as they come.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use topoloom_simulator::Simulator;

/// Sends a request with the token to a simulator without TLS.
pub(crate) async fn request(simulator: &Simulator, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(simulator.address()).await.unwrap();
    let text = format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Basic {}\r\n\r\n", crate::client::TOKEN);
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// Reads until the text has come.
pub(crate) async fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(text) {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await.unwrap();
        assert!(count > 0, "the end before {text:?}: {}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&piece[..count]);
    }
    String::from_utf8_lossy(&seen).into_owned()
}
