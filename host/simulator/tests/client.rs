//! A client that trusts one authority, follows nothing and repeats nothing.

use reqwest::{Certificate, Client, Identity, RequestBuilder, redirect};
use serde_json::Value;
use std::sync::Once;
use std::time::Duration;
use topoloom_simulator::{Builder, ClientCertificate, Credentials, Fabric, Shape, Simulator, Ufm, UfmSettings};

static PROVIDER: Once = Once::new();

/// Long enough for a loaded machine, short enough that a hanging test says so.
const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) fn client(ca: Option<&str>, identity: Option<&ClientCertificate>) -> Client {
    PROVIDER.call_once(|| {
        // The test that came first has installed the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    let roots = ca.map(|pem| Certificate::from_pem(pem.as_bytes()).unwrap());
    let builder =
        Client::builder().no_proxy().redirect(redirect::Policy::none()).timeout(DEADLINE).tls_certs_only(roots);
    let pem = identity.map(|identity| format!("{}{}", identity.certificate, identity.key));
    match pem {
        Some(pem) => builder.identity(Identity::from_pem(pem.as_bytes()).unwrap()).build().unwrap(),
        None => builder.build().unwrap(),
    }
}

pub(crate) const TOKEN: &str = "t0ken";

pub(crate) fn fabric(shape: &str) -> Fabric {
    Fabric::generate(&shape.parse::<Shape>().unwrap()).unwrap()
}

/// A UFM over this fabric that knows `root`, the token and nothing else.
pub(crate) fn ufm(shape: &str) -> Builder<UfmSettings> {
    Ufm::builder(fabric(shape)).credentials(Credentials::none().user("root", "secret").token(TOKEN))
}

/// A simulator with a client that trusts it.
pub(crate) struct Site {
    pub(crate) simulator: Simulator,
    pub(crate) client: Client,
}

impl Site {
    pub(crate) async fn start<K>(builder: Builder<K>) -> Self {
        let simulator = builder.start().await.unwrap();
        let client = client(simulator.ca_pem(), None);
        Self { simulator, client }
    }

    /// A request without a credential.
    pub(crate) fn ask(&self, path: &str) -> RequestBuilder {
        self.client.get(format!("{}{path}", self.simulator.url()))
    }

    /// A request below the prefix of tokens, with the token.
    pub(crate) fn get(&self, local: &str) -> RequestBuilder {
        self.ask(&format!("/ufmRestV3/{local}")).header("authorization", format!("Basic {TOKEN}"))
    }

    pub(crate) async fn json(&self, local: &str) -> Value {
        let response = self.get(local).send().await.unwrap();
        assert_eq!(response.status(), 200, "{local}");
        response.json().await.unwrap()
    }

    pub(crate) async fn list(&self, local: &str) -> Vec<Value> {
        match self.json(local).await {
            Value::Array(list) => list,
            other => panic!("{local} is no list: {other}"),
        }
    }

    pub(crate) async fn status(&self, local: &str) -> u16 {
        self.get(local).send().await.unwrap().status().as_u16()
    }
}
