//! The kubelet's side of `kubectl logs`, `exec`, `attach` and `port-forward` for lent pods (decision S26).
//!
//! Every replica serves it, for the virtual nodes of all bindings, at one address: the path of a request names the pod. It has no
//! state but what is open at the moment.
//!
//! ```text
//!   kubectl ──► virtual API server ──TLS, client certificate──► here ──credential of the binding──► physical API server ──► kubelet
//!                                                                │
//!         who asks (caller) ─► may it (access) ─► which pod (pods) ─► the same for an API server (path, query, upstream) ─► bytes (pass)
//! ```
//!
//! | room | owns |
//! |---|---|
//! | [`options`] | whether it is served, and where |
//! | `tls` | its certificate and the authorities of clients, followed |
//! | `serve` | the order of the questions, and the status of each answer |
//! | `caller` | the user and groups of a client certificate |
//! | `access` | SubjectAccessReviews for `nodes/proxy`, and how long an answer counts |
//! | `path`, `query` | from the words of a kubelet to those of an API server |
//! | `pods` | live reads of both pods; what follows from them is decided by [`topoloom_sync::streams`] |
//! | `upstream` | the request to the physical API server, and what its refusals mean |
//! | `pass` | a stream until its end |
//! | `crowd` | how many streams there may be |
//! | `metrics` | what is counted |
//!
//! Never looks at what is passed on, never adds a header or a credential of a caller to a request, and never shows that of a binding.
//!
//! # Which protocols
//!
//! API servers speak SPDY/3.1 to a kubelet, also where kubectl speaks WebSocket to them; from Kubernetes 1.36 on they pass WebSocket
//! on to nodes whose `status.declaredFeatures` has `ExtendWebSocketsToKubelet`. Virtual nodes declare nothing, so what comes here is
//! SPDY/3.1, which every API server takes. Both are passed on: after the answer 101 there are only bytes.
//!
//! # Failure story
//!
//! Each stream has connections, bounds and an end of its own: one that stalls, or whose physical cluster is gone, holds up no other. If
//! the virtual API server does not answer, no stream is opened and the open ones go on. If a binding loses its connection, its streams
//! end. If the process stops, all streams end at once: they may last for hours, and no drain is that long.

mod access;
mod caller;
mod crowd;
mod metrics;
pub mod options;
mod pass;
mod path;
mod pods;
mod query;
mod serve;
mod tls;
mod upstream;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use topoloom_cluster::Restores;
use topoloom_core::seldom::Seldom;
use topoloom_core::text;
use topoloom_serving::{Answers, Bounds, ListenError, Server};
use topoloom_sync::identity::Identity;

use self::access::Access;
use self::crowd::Crowd;
use self::pods::Reads;
use self::serve::{Pages, Stream};
use self::tls::{Kept, Trust};
use crate::physical::Connection;

pub use self::crowd::{STREAMS, STREAMS_OF_ONE};
pub use self::metrics::{Metrics, StreamOutcome};
pub use self::options::{ClientAuthorities, GivenOptions, Options, OptionsError};
pub use self::path::StreamVerb;
pub use self::tls::{TrustError, check_files};

/// How many requests there may be at the same time of callers that may not reach every node, until it is known which node they are
/// about.
const STRANGERS: usize = 64;
/// The same of one of them.
const STRANGERS_OF_ONE: usize = 16;
/// How many requests there may be at the same time of callers about whom nothing is known, until the API server has said whether they
/// may reach every node: for 10 s at most, and once for each caller.
const UNJUDGED: usize = 256;
/// The same of one of them. An API server may pass on very many at once to a replica that has just begun.
const UNJUDGED_OF_ONE: usize = 128;
/// Connections beside those of streams and requests: for probes, and for those that are idle.
const SPARE: usize = 128;

/// What a client may do to the server.
const BOUNDS: Bounds = Bounds {
    // Longer than a client keeps a connection without a request (90 s in Go): it is the one that closes it.
    header: Duration::from_secs(100),
    // As at a kubelet. A stream that took over its connection has bounds of its own.
    connection: Duration::from_secs(4 * 60 * 60),
    // A log that began at the last moment has as long as one that began on a new connection.
    late: pass::SILENCE,
    connections: STREAMS + UNJUDGED + STRANGERS + SPARE,
    // Logs end at once when the server stops, and what is being judged by then is not worth more.
    grace: Duration::from_secs(5),
    answers: Answers::Streams,
};

/// The bindings that streams are passed on for.
///
/// Every replica serves streams, also one that does not hold the lease of the binding: so this is asked for a connection and not for
/// the tasks of a binding.
pub trait Lent: Send + Sync + 'static {
    /// By whom pods of a virtual node with these labels are reached; nothing where it is of no binding that has a connection here.
    /// The labels were read a moment ago. That they are those of the binding is checked by the caller, too.
    fn lender(&self, labels: &BTreeMap<String, String>) -> Option<Lender>;
}

/// By whom the pods of a binding are reached.
#[derive(Debug, Clone)]
pub struct Lender {
    /// Whose the pods are.
    pub identity: Identity,
    /// The namespace of its physical pods.
    pub mount_namespace: String,
    /// The connection to its physical cluster.
    pub connection: Connection,
    /// Is cancelled when the binding is gone, or uses another connection: its streams end then.
    pub ends: CancellationToken,
}

/// What the server uses.
pub struct Uses {
    /// Reads and SubjectAccessReviews in the virtual cluster.
    pub client: kube::Client,
    /// The watches of the virtual cluster.
    pub restores: Restores,
    /// The bindings.
    pub lent: Arc<dyn Lent>,
    /// What is counted.
    pub metrics: Metrics,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no TLS.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The address cannot be used.
    #[error(transparent)]
    Listen(#[from] ListenError),
}

/// Why the server has ended before it was stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the task that follows the certificates of the kubelet's API of virtual nodes has ended")]
pub struct Unfollowed;

/// A server that listens, and does not answer yet.
pub struct Kubelet {
    server: Server,
    trust: Trust,
    keep: BoxFuture<'static, ()>,
    uses: Uses,
}

impl Kubelet {
    /// Reads the certificates and listens. Where the authorities of clients are those of the cluster, this waits until its API server
    /// answers.
    ///
    /// # Errors
    /// A file or the published authorities cannot be used, or the address is taken.
    pub async fn open(options: &Options, uses: Uses) -> Result<Self, StartError> {
        let kept = Kept::read(options, uses.client.clone(), &uses.restores).await?;
        let (settings, trust, keep) = kept.keep();
        let server = Server::listen_within(options::LISTEN, options.listen, Some(settings), BOUNDS).await?;
        Ok(Self { server, trust, keep: keep.boxed(), uses })
    }

    /// The real address.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.address()
    }

    /// Serves until it is stopped. All streams have ended then.
    ///
    /// # Errors
    /// The certificates are not followed any more.
    pub async fn serve(self, stop: CancellationToken) -> Result<(), Unfollowed> {
        let Self { server, trust, keep, uses: Uses { client, restores: _, lent, metrics } } = self;
        let (sender, mut opened) = mpsc::channel::<Stream>(STREAMS);
        let pages = Arc::new(Pages {
            trust,
            access: Access::new(client.clone()),
            reads: Reads::new(client),
            lent,
            crowd: Crowd::new(STREAMS, STREAMS_OF_ONE),
            unjudged: Crowd::new(UNJUDGED, UNJUDGED_OF_ONE),
            strangers: Crowd::new(STRANGERS, STRANGERS_OF_ONE),
            metrics,
            streams: sender,
            stop: stop.clone(),
            trouble: Seldom::default(),
        });
        let (mut keeper, mut streams) = (JoinSet::new(), JoinSet::new());
        keeper.spawn(keep);
        let mut serving = std::pin::pin!(server.serve(serve::router(pages), stop.clone()));
        loop {
            tokio::select! {
                () = serving.as_mut() => break,
                Some(_) = keeper.join_next() => return Err(Unfollowed),
                Some(stream) = opened.recv() => {
                    streams.spawn(stream);
                }
                Some(ended) = streams.join_next(), if !streams.is_empty() => note(ended),
            }
        }
        // Those that were opened last. The pages are gone, so there is an end.
        while let Some(stream) = opened.recv().await {
            streams.spawn(stream);
        }
        while let Some(ended) = streams.join_next().await {
            note(ended);
        }
        Ok(())
    }
}

/// A crash of a stream is a defect, and ends no other one.
fn note(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        let panic = text::of_panic(&*error.into_panic());
        tracing::error!(panic, "a stream to a lent pod crashed (please report it)");
    }
}

#[cfg(test)]
pub(crate) mod tests;
