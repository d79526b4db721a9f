//! The requests for leases, each with a deadline, and the answers to them.
//!
//! Owns the way to the API server and back: method, address and body of a request, the bound on an answer, and the reading of
//! it. Never decides what comes next, and never tries anything again.
//!
//! # Failure story
//!
//! An API server that does not answer holds a request until its deadline, which is shorter than the time between two
//! renewals. What is not a Lease, or too large for one, is a refusal like any other.

use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, Uri};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use topoloom_cluster::deadline::answered;
use topoloom_cluster::{Refusal, RefusalReason};

use super::lease::{NAMESPACE, StoredLease, WrittenLease};

/// The most that an answer with one Lease may have: what etcd stores of one object at most, and some.
const LEASE_BYTES: usize = 2 << 20;
/// The most that a page of a list may have.
const PAGE_BYTES: usize = 64 << 20;
/// So many leases are in one page.
const PAGE: usize = 500;
/// So many pages at most: more leases than any cluster has nodes.
const PAGES: usize = 1000;

/// Where leases of nodes are made and listed.
const COLLECTION: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// The address of the lease of a node, whose name has to be that of an object: it becomes part of a path.
pub(super) fn address(node: &str) -> Result<Uri, http::Error> {
    Ok(Uri::try_from(format!("{COLLECTION}/{node}"))?)
}

/// One request.
#[derive(Debug)]
pub(super) enum Order {
    /// Replaces a Lease in the version that the body names.
    Renew { address: Uri, body: Vec<u8> },
    /// Makes a Lease.
    Create { body: Vec<u8> },
    /// Reads a Lease.
    Look { address: Uri },
}

/// What the API server answered.
#[derive(Debug)]
pub(super) enum LeaseAnswer {
    /// It is written.
    Written(WrittenLease),
    /// It is as it was read.
    Read(Box<StoredLease>),
    /// Neither.
    Refused(Refusal),
}

/// Sends requests.
pub(super) struct Requests {
    client: kube::Client,
    /// How long one request may take.
    patience: Duration,
}

impl Requests {
    pub(super) fn new(client: kube::Client, patience: Duration) -> Self {
        Self { client, patience }
    }

    /// Sends one request.
    pub(super) async fn send(&self, order: Order) -> LeaseAnswer {
        let answered = match order {
            Order::Renew { address, body } => self.write(Method::PUT, address, body).await.map(LeaseAnswer::Written),
            Order::Create { body } => {
                self.write(Method::POST, Uri::from_static(COLLECTION), body).await.map(LeaseAnswer::Written)
            }
            Order::Look { address } => {
                let lease: Result<StoredLease, _> = self.read(address, LEASE_BYTES).await;
                lease.map(|lease| LeaseAnswer::Read(Box::new(lease)))
            }
        };
        answered.unwrap_or_else(LeaseAnswer::Refused)
    }

    async fn write(&self, method: Method, address: Uri, body: Vec<u8>) -> Result<WrittenLease, Refusal> {
        let mut request = Request::new(Body::from(body));
        *request.method_mut() = method;
        *request.uri_mut() = address;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.exchange(request, LEASE_BYTES, WrittenLease::read).await
    }

    async fn read<T: DeserializeOwned>(&self, address: Uri, most: usize) -> Result<T, Refusal> {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = address;
        self.exchange(request, most, |bytes| serde_json::from_slice(bytes)).await
    }

    async fn exchange<T>(
        &self,
        request: Request<Body>,
        most: usize,
        read: impl FnOnce(&[u8]) -> Result<T, serde_json::Error>,
    ) -> Result<T, Refusal> {
        let exchange = async {
            let answer = self.client.send(request).await.map_err(|error| Refusal::of(&error))?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, most)
                .collect()
                .await
                .map_err(|error| Refusal::of(&kube::Error::Service(error)))?
                .to_bytes();
            if head.status.is_success() {
                return read(&body).map_err(|error| {
                    no_lease(&format!("the API server answered {}, and not with a Lease: {error}", head.status))
                });
            }
            Err(Refusal::of_answer(&Response::from_parts(head, &*body)))
        };
        answered(self.patience, exchange).await
    }

    /// The leases with these labels, by one list in pages.
    pub(super) async fn list(&self, labels: &str) -> Result<Vec<StoredLease>, Refusal> {
        let mut found = Vec::new();
        let mut token = String::new();
        for _ in 0..PAGES {
            let address = Uri::try_from(format!("{COLLECTION}?labelSelector={}&limit={PAGE}{token}", escaped(labels)));
            let address = address.map_err(|error| Refusal::of(&kube::Error::HttpError(error.into())))?;
            let page: Page = self.read(address, PAGE_BYTES).await?;
            found.extend(page.items);
            if page.metadata.next.is_empty() {
                return Ok(found);
            }
            token = format!("&continue={}", escaped(&page.metadata.next));
        }
        Err(no_lease(&format!("the list of leases in {NAMESPACE} did not end after {PAGES} pages of {PAGE}")))
    }
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(default)]
    items: Vec<StoredLease>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    next: String,
}

/// The text as a part of a query.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

fn no_lease(message: &str) -> Refusal {
    Refusal { reason: RefusalReason::ServerError, message: message.to_owned(), retry_after: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_becomes_part_of_a_query() {
        assert_eq!(escaped("a.b/c=d,e=f&g"), "a.b%2Fc%3Dd%2Ce%3Df%26g");
    }
}
