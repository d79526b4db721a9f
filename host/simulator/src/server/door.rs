//! The listener and its connections: one task owns them all, and everything ends with it.

use super::body::Body;
use super::record::Record;
use super::tls::Identities;
use crate::Error;
use crate::fault::{Board, Fault};
use http::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// The connection is to be broken instead of answered.
#[derive(Debug, thiserror::Error)]
#[error("the connection is broken off on purpose")]
pub(crate) struct Hangup;

pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Hangup>> + Send>>;

/// Answers requests; the second argument is the name of the client's certificate.
pub(crate) trait Desk: Send + Sync {
    fn answer(self: Arc<Self>, request: http::Request<Incoming>, certificate: Option<String>) -> Answering;
}

/// What a connection needs.
pub(crate) struct Hall {
    pub(crate) desk: Arc<dyn Desk>,
    pub(crate) tls: Option<Arc<Identities>>,
    pub(crate) board: Arc<Board>,
    pub(crate) record: Arc<Record>,
}

/// What can be asked of the task at the door.
enum DoorOrder {
    /// Listen, on the address of before.
    Open,
    /// Do not listen.
    Shut,
    /// Break every connection.
    Evict,
    /// End.
    End,
}

/// Orders for the task at the door.
#[derive(Clone)]
pub(crate) struct Door {
    orders: mpsc::Sender<(DoorOrder, oneshot::Sender<std::io::Result<()>>)>,
    pub(crate) address: SocketAddr,
}

impl Door {
    /// Listens and puts the task into the set. Port 0 lets the system choose one.
    pub(crate) async fn open(address: SocketAddr, hall: Hall, tasks: &mut JoinSet<()>) -> Result<Self, Error> {
        let listening = async {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = listening.await.map_err(|source| Error::Listen { address, source })?;
        let (orders, inbox) = mpsc::channel(1);
        tasks.spawn(stand(listener, address, inbox, Arc::new(hall)));
        Ok(Self { orders, address })
    }

    pub(crate) async fn listen(&self) -> Result<(), Error> {
        self.order(DoorOrder::Open).await
    }

    /// When this returns the address has no listener, and every connection is broken.
    pub(crate) async fn shut(&self) -> Result<(), Error> {
        self.order(DoorOrder::Shut).await?;
        self.evict().await
    }

    /// When this returns every connection that was open is broken.
    pub(crate) async fn evict(&self) -> Result<(), Error> {
        self.order(DoorOrder::Evict).await
    }

    /// When this returns everything has ended.
    pub(crate) async fn end(&self) {
        // Has it ended before, then that is what was wanted.
        let _ = self.order(DoorOrder::End).await;
    }

    async fn order(&self, order: DoorOrder) -> Result<(), Error> {
        let (done, answer) = oneshot::channel();
        self.orders.send((order, done)).await.map_err(|_| Error::Stopped)?;
        let outcome = answer.await.map_err(|_| Error::Stopped)?;
        outcome.map_err(|source| Error::Listen { address: self.address, source })
    }
}

type Inbox = mpsc::Receiver<(DoorOrder, oneshot::Sender<std::io::Result<()>>)>;

async fn stand(listener: TcpListener, address: SocketAddr, mut inbox: Inbox, hall: Arc<Hall>) {
    let mut listener = Some(listener);
    let mut guests = JoinSet::new();
    loop {
        let (order, done) = tokio::select! {
            stream = accept(listener.as_ref()) => {
                guests.spawn(hall.clone().host(stream));
                continue;
            }
            Some(_) = guests.join_next() => continue,
            order = inbox.recv() => match order {
                Some(order) => order,
                None => return,
            },
        };
        let outcome = match order {
            DoorOrder::Open if listener.is_none() => TcpListener::bind(address).await.map(|new| listener = Some(new)),
            DoorOrder::Open => Ok(()),
            DoorOrder::Shut => {
                listener = None;
                Ok(())
            }
            DoorOrder::Evict => {
                guests.shutdown().await;
                Ok(())
            }
            DoorOrder::End => {
                drop(listener);
                guests.shutdown().await;
                // Without a receiver the caller does not wait for the end.
                let _ = done.send(Ok(()));
                return;
            }
        };
        // Who gave the order may have stopped waiting for it.
        let _ = done.send(outcome);
    }
}

/// The next connection; waits while there is no listener.
async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // Out of files: the next one needs a moment, and a busy loop would not make it shorter.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

impl Hall {
    async fn host(self: Arc<Self>, mut stream: TcpStream) {
        let _open = self.record.connect();
        let fault = self.board.of_connection();
        match fault {
            Some(Fault::Closed) => return,
            Some(Fault::StallHandshake) => return listen_only(&mut stream).await,
            _ => {}
        }
        // Small answers are to leave at once; failing that they leave a little later.
        let _ = stream.set_nodelay(true);
        let Some(identities) = self.tls.clone() else { return self.talk(stream, None).await };
        let identity = match fault {
            Some(Fault::ExpiredCertificate) => &identities.expired,
            Some(Fault::UntrustedCertificate) => &identities.untrusted,
            Some(Fault::WrongNameCertificate) => &identities.wrong_name,
            _ => &identities.right,
        };
        // A client that does not like the certificate ends here, as it should.
        if let Ok(stream) = TlsAcceptor::from(identity.clone()).accept(stream).await {
            let certificate = identities.client(stream.get_ref().1.peer_certificates());
            self.talk(stream, certificate).await;
        }
    }

    async fn talk(self: Arc<Self>, stream: impl AsyncRead + AsyncWrite + Unpin, certificate: Option<String>) {
        let service = service_fn(|request| self.desk.clone().answer(request, certificate.clone()));
        // A connection ends with an error when its client leaves or when it is broken on purpose.
        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    }
}

/// Reads until the client leaves, and never answers.
async fn listen_only(stream: &mut TcpStream) {
    let mut ignored = [0; 1024];
    while matches!(stream.read(&mut ignored).await, Ok(1..)) {}
}
