//! A proxy in front of an API server that passes bytes on, and can hold those of the server back for half a minute.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use topoloom_tests::lending::Background;

/// How late a slow server answers.
pub(super) const LATE: Duration = Duration::from_secs(30);
const PIECE: usize = 64 << 10;

/// A server. It ends with the value.
pub(super) struct Proxy {
    port: u16,
    slow: Arc<AtomicBool>,
    running: Background,
}

impl Proxy {
    /// Listens on a port of this machine.
    pub(super) async fn start(target: &str) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let slow = Arc::new(AtomicBool::new(false));
        let mut running = Background::new();
        running.spawn(serve(listener, target.to_owned(), Arc::clone(&slow)));
        Ok(Self { port, slow, running })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// From now on it answers half a minute late, or as quickly as it can.
    pub(super) fn set_slow(&self, slow: bool) {
        self.slow.store(slow, Ordering::Relaxed);
    }

    pub(super) async fn stop(self) {
        self.running.stop().await;
    }
}

async fn serve(listener: TcpListener, target: String, slow: Arc<AtomicBool>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let (target, slow) = (target.clone(), Arc::clone(&slow));
        connections.spawn(async move {
            // A connection that breaks is the matter of its client.
            _ = pass(client, &target, &slow).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn pass(client: TcpStream, target: &str, slow: &AtomicBool) -> Result<()> {
    let server = TcpStream::connect(target).await?;
    // Small answers are passed on at once.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let up = async {
        tokio::io::copy(&mut from_client, &mut to_server).await?;
        to_server.shutdown().await?;
        anyhow::Ok(())
    };
    let (pieces, mut due) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let read = async {
        let pieces = pieces;
        let mut piece = vec![0; PIECE];
        loop {
            let length = from_server.read(&mut piece).await?;
            let late = if slow.load(Ordering::Relaxed) { LATE } else { Duration::ZERO };
            let bytes = piece.get(..length).unwrap_or_default().to_vec();
            if length == 0 || pieces.send((Instant::now() + late, bytes)).is_err() {
                return anyhow::Ok(());
            }
        }
    };
    let down = async {
        while let Some((due, bytes)) = due.recv().await {
            sleep_until(due).await;
            to_client.write_all(&bytes).await?;
        }
        to_client.shutdown().await?;
        anyhow::Ok(())
    };
    tokio::try_join!(up, read, down)?;
    Ok(())
}
