//! What plugins may reach over the network, against malicious servers: no request goes beyond the granted endpoint,
//! every refusal has its type and is counted, and no credential reaches the plugin.

mod bodies;
mod canaries;
mod credentials;
pub(crate) mod guest;
mod pairs;
mod ssrf;
mod tls;
pub(crate) mod wire;

use std::sync::Arc;
use std::time::Duration;

use topoloom::endpoints::plan::Plan;
use topoloom::endpoints::spec::{AddressRule, BaseUrl, Carrier, Network, Redirects, Timeouts, Tls};
use topoloom::endpoints::{Denial, EndpointRequest, Endpoints, Error, Opened, Outside, Session};
use topoloom_core::names::SourceName;
use topoloom_core::plugin::{CredentialKind, Method};

/// The source in all of these tests.
fn source() -> SourceName {
    "fabric-source".parse().unwrap()
}

/// An endpoint named `fabric` at these URLs, which may dial 127.0.0.2 and no other address of this machine.
fn plan(urls: &[&str]) -> Plan {
    Plan {
        name: "fabric".into(),
        carrier: Carrier::Urls(urls.iter().map(|url| BaseUrl::parse(url).unwrap()).collect()),
        methods: [Method::Get].into(),
        paths: Vec::new(),
        narrowed: Vec::new(),
        addresses: vec![AddressRule::Network(Network::parse("127.0.0.2").unwrap())],
        tls: Tls::default(),
        timeouts: Timeouts {
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(5),
            total: Duration::from_secs(10),
        },
        max_body: 1 << 20,
        redirects: Redirects::None,
        kinds: vec![CredentialKind::Bearer],
        credentials: None,
    }
}

fn endpoints(plan: Plan, outside: &Outside) -> Arc<Endpoints> {
    Arc::new(Endpoints::new(&source(), vec![plan], outside))
}

fn session(plan: Plan, outside: &Outside) -> Session {
    endpoints(plan, outside).session()
}

fn get(path: &str) -> EndpointRequest {
    EndpointRequest {
        endpoint: "fabric".into(),
        method: Method::Get,
        path_and_query: path.into(),
        headers: Vec::new(),
        body: None,
    }
}

/// The whole body of an answer.
async fn text(mut opened: Opened) -> Result<String, Error> {
    let mut whole = Vec::new();
    loop {
        let piece = opened.read(10_000).await?;
        if piece.is_empty() {
            return Ok(String::from_utf8(whole).unwrap());
        }
        whole.extend(piece);
    }
}

/// Checks that the error is a refusal of this kind, and that it was counted.
#[track_caller]
fn denied(error: &Error, expected: Denial, outside: &Outside, before: u64) {
    assert!(matches!(error, Error::Denied { denial, .. } if *denial == expected), "{error:?}");
    assert_eq!(outside.metrics.denials(&source(), expected), before + 1, "{error} was not counted");
}
