//! The same discoverer as a native program: its own code, compiled for this machine, with a usual HTTP client.
//!
//! Bodies are parsed while they arrive, on a thread that waits for them, as the sandbox does.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use reqwest::{Certificate, Client, Response};
use tokio::runtime::Handle;
use topoloom_plugin_ufm::Ufm;
use topoloom_sdk::http::Error;
use topoloom_sdk::testing::{Cluster, Reply};
use topoloom_sdk::{Answer, Credential, Outcome};

use super::manager::{Known, TOKEN};
use super::sandbox;

/// A native UFM discoverer.
#[derive(Debug, Clone)]
pub(crate) struct Native {
    client: Client,
    url: String,
    config: String,
}

/// A round that had an answer.
pub(crate) struct Done {
    pub(crate) answer: Answer,
    pub(crate) took: Duration,
}

impl Native {
    pub(crate) fn new(known: &Known) -> Result<Self> {
        // Another part may have installed the provider already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let authority = Certificate::from_pem(known.authority.as_bytes())?;
        let client = Client::builder().no_proxy().http1_only().tls_certs_only([authority]).build()?;
        Ok(Self { client, url: known.ufm.clone(), config: sandbox::config(&known.ufm, known) })
    }

    /// One round.
    pub(crate) async fn discover(&self, nodes: &[String], state: &[u8]) -> Result<Done> {
        let (this, nodes, state, handle) = (self.clone(), nodes.to_vec(), state.to_vec(), Handle::current());
        let round = tokio::task::spawn_blocking(move || {
            let config = this.config.clone();
            let cluster = nodes.iter().fold(Cluster::new(), |cluster, name| cluster.node(name, []));
            let now = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default();
            let cluster = cluster.at(now).state(state).endpoint("ufm", Credential::Token, move |request| {
                this.send(&handle, &request.path_and_query).map_err(|error| Error::Connect(format!("{error:#}")))
            });
            let begin = Instant::now();
            let answer = cluster.discover::<Ufm>(&config);
            (answer, begin.elapsed())
        });
        let (answer, took) = round.await?;
        Ok(Done { answer: answer.map_err(|failure| anyhow!("{failure:?}"))?, took })
    }

    fn send(&self, handle: &Handle, path: &str) -> reqwest::Result<Reply> {
        let url = format!("{}{path}", self.url);
        let request = self.client.get(url).header("authorization", format!("Basic {TOKEN}"));
        let response = handle.block_on(request.header("accept", "application/json").send())?;
        let status = response.status().as_u16();
        Ok(Reply::coming(status, Coming { handle: handle.clone(), response, piece: bytes::Bytes::new() }))
    }
}

/// A body that is still arriving; reading it blocks.
struct Coming {
    handle: Handle,
    response: Response,
    piece: bytes::Bytes,
}

impl Read for Coming {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() {
            let piece = self.handle.block_on(self.response.chunk()).map_err(io::Error::other)?;
            self.piece = piece.unwrap_or_default();
        }
        let length = self.piece.len().min(buffer.len());
        buffer[..length].copy_from_slice(&self.piece.split_to(length));
        Ok(length)
    }
}

/// How many groups an answer has; none if it reports that nothing changed.
pub(crate) fn groups(answer: &Answer) -> Option<usize> {
    match &answer.outcome {
        Outcome::Topology(topology) => Some(topology.groups.len()),
        Outcome::Unchanged => None,
    }
}
