//! A wire between programs and a server that can be cut.
//!
//! It listens on a port of its own, and passes every byte of a connection on. While it is cut, no byte passes in either direction and
//! no connection is made, and nothing is refused: so it looks as if packets are lost. When it is mended, what waited passes.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Bytes that are passed on at once.
const PIECE: usize = 1 << 14;

/// Whether bytes pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Whole,
    Cut,
}

/// A wire. It ends with this value, and with it every connection.
#[derive(Debug)]
pub(super) struct Wire {
    address: SocketAddr,
    state: watch::Sender<State>,
    _passes: JoinSet<()>,
}

impl Wire {
    /// A wire to the server with this URL: `https://ADDRESS:PORT`.
    ///
    /// # Errors
    /// When the URL has no address, or no port is free.
    pub(super) async fn to(url: &str) -> Result<Self> {
        let server = url.rsplit('/').next().and_then(|server| server.parse().ok());
        let server: SocketAddr = server.with_context(|| format!("{url} has no address with a port at its end"))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let state = watch::Sender::new(State::Whole);
        let (watched, mut passes) = (state.subscribe(), JoinSet::new());
        passes.spawn(serve(listener, server, watched));
        Ok(Self { address, state, _passes: passes })
    }

    /// The URL of the server for those that go by the wire.
    pub(super) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Nothing passes from now on.
    pub(super) fn cut(&self) {
        self.state.send_replace(State::Cut);
    }

    /// Everything passes again.
    pub(super) fn mend(&self) {
        self.state.send_replace(State::Whole);
    }
}

/// Waits until bytes pass; says whether they ever will.
async fn is_whole(state: &mut watch::Receiver<State>) -> bool {
    state.wait_for(|state| *state == State::Whole).await.is_ok()
}

async fn serve(listener: TcpListener, server: SocketAddr, state: watch::Receiver<State>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => drop(connections.spawn(connect(client, server, state.clone()))),
                // Out of descriptors: one that ends makes room.
                Err(_) => drop(connections.join_next().await),
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connect(client: TcpStream, server: SocketAddr, mut state: watch::Receiver<State>) {
    if !is_whole(&mut state).await {
        return;
    }
    let Ok(server) = TcpStream::connect(server).await else { return };
    // A request is not held back for one that follows.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::join!(pass(from_client, to_server, state.clone()), pass(from_server, to_client, state));
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut state: watch::Receiver<State>) {
    let mut piece = vec![0; PIECE];
    while let Ok(read) = from.read(&mut piece).await
        && read > 0
        && is_whole(&mut state).await
    {
        if to.write_all(&piece[..read]).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_secs(30);

    /// A server that answers each byte with the next one.
    async fn counter() -> (String, JoinSet<()>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let mut serves = JoinSet::new();
        serves.spawn(async move {
            let mut clients = JoinSet::new();
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                clients.spawn(async move {
                    while let Ok(byte) = client.read_u8().await {
                        client.write_u8(byte + 1).await.unwrap();
                    }
                });
            }
        });
        (url, serves)
    }

    async fn dial(wire: &Wire) -> TcpStream {
        timeout(SOON, TcpStream::connect(wire.address)).await.unwrap().unwrap()
    }

    async fn answer(client: &mut TcpStream) -> u8 {
        timeout(SOON, client.read_u8()).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn a_wire_that_is_cut_holds_every_byte_and_every_new_connection_until_it_is_mended() {
        let (url, _serves) = counter().await;
        let wire = Wire::to(&url).await.unwrap();
        let mut old = dial(&wire).await;
        old.write_u8(1).await.unwrap();
        assert_eq!(answer(&mut old).await, 2);
        wire.cut();
        old.write_u8(3).await.unwrap();
        let mut new = dial(&wire).await;
        new.write_u8(5).await.unwrap();
        // Nothing comes: whatever is to be read would be read by now, on a wire that is whole.
        let other = Wire::to(&url).await.unwrap();
        for byte in 0..100 {
            let mut client = dial(&other).await;
            client.write_u8(byte).await.unwrap();
            assert_eq!(answer(&mut client).await, byte + 1);
        }
        let mut byte = [0];
        assert!(old.try_read(&mut byte).is_err() && new.try_read(&mut byte).is_err());
        wire.mend();
        assert_eq!((answer(&mut old).await, answer(&mut new).await), (4, 6));
        // A client that is gone ends its connection, and no other.
        drop(old);
        new.write_u8(7).await.unwrap();
        assert_eq!(answer(&mut new).await, 8);
    }

    #[tokio::test]
    async fn an_address_without_a_port_is_no_server() {
        let why = Wire::to("https://127.0.0.1").await.unwrap_err().to_string();
        assert!(why.contains("https://127.0.0.1 has no address"), "{why}");
    }
}
