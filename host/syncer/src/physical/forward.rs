//! Clients that always lead to the connection in use.
//!
//! Owns which connection that is, for everything that a binding sends to its physical cluster. A credential that is replaced makes a
//! new connection (decision S20); a holder of one of these clients uses it from the next request on. Never decides which one is
//! used.
//!
//! # Failure story
//!
//! Before the first connection there is none to send to, and every request fails as if the server did not answer. A request that is
//! under way on a connection that is replaced ends on it. A watch ends with its connection, and its owner opens it again.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use http::Request;
use kube::client::Body;
use topoloom_cluster::client::ConnectError;
use topoloom_cluster::gate::Gate;
use tower::BoxError;

use super::connection::Connection;

/// Nothing to send to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no connection to the physical cluster yet")]
pub struct NotConnected;

/// The clients of a binding's physical cluster. Clones are the same.
#[derive(Clone)]
pub struct Forward {
    in_use: Arc<Mutex<Option<InUse>>>,
    reads: kube::Client,
    nodes: kube::Client,
    others: kube::Client,
}

/// The clients of one connection.
struct InUse {
    reads: kube::Client,
    nodes: kube::Client,
    others: kube::Client,
}

impl Forward {
    /// Leads nowhere yet. Must be called in a runtime.
    #[must_use]
    pub fn new() -> Self {
        let in_use = Arc::default();
        Self {
            reads: client(&in_use, |clients| &clients.reads),
            nodes: client(&in_use, |clients| &clients.nodes),
            others: client(&in_use, |clients| &clients.others),
            in_use,
        }
    }

    /// From the next request on it leads to this connection, and writes go while the gate is open.
    ///
    /// # Errors
    /// When no clients can be made of the connection; then it leads where it did.
    pub fn lead(&self, connection: &Connection, gate: &Gate) -> Result<(), ConnectError> {
        let writers = connection.writers(gate)?;
        let clients = InUse { reads: connection.reads().clone(), nodes: writers.nodes, others: writers.others };
        *self.in_use.lock().unwrap_or_else(PoisonError::into_inner) = Some(clients);
        Ok(())
    }

    /// For lists, watches and single reads.
    #[must_use]
    pub fn reads(&self) -> kube::Client {
        self.reads.clone()
    }

    /// For claims on nodes and their labels.
    #[must_use]
    pub fn nodes(&self) -> kube::Client {
        self.nodes.clone()
    }

    /// For all other writes.
    #[must_use]
    pub fn others(&self) -> kube::Client {
        self.others.clone()
    }
}

impl Default for Forward {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_connected = self.in_use.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        f.debug_tuple("Forward").field(&is_connected).finish()
    }
}

/// A client that sends on the one of the clients in use that is meant.
fn client(in_use: &Arc<Mutex<Option<InUse>>>, which: fn(&InUse) -> &kube::Client) -> kube::Client {
    let in_use = Arc::clone(in_use);
    let send = move |request: Request<Body>| {
        let client =
            in_use.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|clients| which(clients).clone());
        async move {
            let client = client.ok_or_else(|| BoxError::from(NotConnected))?;
            // An error of the client is passed on as it is, so that the reason of a refusal is found in it.
            client.send(request).await.map_err(BoxError::from)
        }
    };
    kube::Client::new(tower::service_fn(send), "default")
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Response;
    use k8s_openapi::api::core::v1::Namespace;
    use kube::Api;
    use serde_json::json;
    use topoloom_cluster::gate::{ReadOnly, Switch};
    use topoloom_cluster::{Refusal, RefusalReason};

    use super::super::connection::Writers;
    use super::*;
    use crate::kubeconfig::tests::access;

    /// A connection to a server that answers with this name.
    fn named(name: &'static str) -> Connection {
        let serve = move |request: Request<Body>| async move {
            let status = if request.uri().path().ends_with("/missing") { 404 } else { 200 };
            let body = match status {
                404 => {
                    json!({"kind": "Status", "status": "Failure", "message": "not found", "reason": "NotFound", "code": 404})
                }
                _ => json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
            };
            let answer = Response::builder().status(status).body(Body::from(body.to_string().into_bytes()));
            Ok::<_, Infallible>(answer.unwrap())
        };
        let client = kube::Client::new(tower::service_fn(serve), "default");
        let writes = client.clone();
        let writers = move |_: &Gate| Ok(Writers { nodes: writes.clone(), others: writes.clone() });
        Connection::of(&access("https://a:6443", "t"), client, writers)
    }

    async fn get(client: kube::Client, name: &str) -> Result<String, Refusal> {
        let answer = Api::<Namespace>::all(client).get(name).await.map_err(|error| Refusal::of(&error))?;
        Ok(answer.metadata.name.unwrap_or_default())
    }

    #[tokio::test]
    async fn s20_a_client_that_was_given_out_leads_to_the_connection_that_replaced_the_first() {
        let forward = Forward::new();
        let (reads, writes) = (forward.reads(), forward.others());
        let none = get(reads.clone(), "x").await.unwrap_err();
        assert_eq!(none.reason, RefusalReason::Unreachable);
        assert!(none.message.contains("there is no connection to the physical cluster yet"), "{none}");
        let gate = Gate::open(&Switch::new(ReadOnly::No));
        for name in ["first", "second"] {
            forward.lead(&named(name), &gate).unwrap();
            assert_eq!(get(reads.clone(), "x").await.as_deref(), Ok(name));
            assert_eq!(get(writes.clone(), "x").await.as_deref(), Ok(name));
        }
        // A refusal is the server's.
        assert_eq!(get(forward.nodes(), "missing").await.unwrap_err().reason, RefusalReason::NotFound);
    }
}
