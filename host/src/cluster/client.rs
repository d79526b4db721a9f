//! Connecting to the API server.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tower::BoxError;
use tower::util::MapErrLayer;

/// How long one request may take until its answer's head is there; watches answer at once and then stream.
const READ_TIMEOUT: Duration = Duration::from_secs(305);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file is missing, unreadable or no kubeconfig.
    #[error("kubeconfig {path}: {message}")]
    Kubeconfig {
        /// The file that was named.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// Neither a kubeconfig nor a ServiceAccount.
    #[error(
        "no API server is configured: give --kubeconfig FILE, set KUBECONFIG, or run inside a cluster with a ServiceAccount ({message})"
    )]
    Nowhere {
        /// What was tried.
        message: String,
    },
    /// The settings were read but no client can be made of them.
    #[error("the client settings cannot be used: {0}")]
    Client(String),
}

/// A client and whom it speaks to.
#[derive(Clone)]
pub struct Connection {
    /// The client.
    pub client: kube::Client,
    /// The URL of the API server.
    pub server: http::Uri,
}

/// Makes a client. Does not talk to the API server yet.
///
/// `kubeconfig` wins over `KUBECONFIG`, that over `~/.kube/config`, that over the ServiceAccount of the pod.
///
/// # Errors
/// Names the file and what is wrong with it.
pub async fn connect(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Connection, ConnectError> {
    let mut config = match kubeconfig {
        Some(path) => {
            let named = |message: String| ConnectError::Kubeconfig { path: path.to_owned(), message };
            if !path.exists() {
                return Err(named("there is no such file".into()));
            }
            let file = Kubeconfig::read_from(path).map_err(|error| named(chain(&error)))?;
            let options = KubeConfigOptions { context: context.map(str::to_owned), ..Default::default() };
            kube::Config::from_custom_kubeconfig(file, &options).await.map_err(|error| named(chain(&error)))?
        }
        None if context.is_some() => {
            let options = KubeConfigOptions { context: context.map(str::to_owned), ..Default::default() };
            kube::Config::from_kubeconfig(&options)
                .await
                .map_err(|error| ConnectError::Nowhere { message: chain(&error) })?
        }
        None => kube::Config::infer().await.map_err(|error| ConnectError::Nowhere { message: chain(&error) })?,
    };
    // We decide ourselves when a write is tried again: a blind retry would hide a 429 from the operator.
    config.default_retry = false;
    config.read_timeout = Some(READ_TIMEOUT);
    config.connect_timeout = Some(Duration::from_secs(10));
    config.headers.push((
        http::header::USER_AGENT,
        http::HeaderValue::from_static(concat!("topoloom/", env!("CARGO_PKG_VERSION"))),
    ));
    let url = config.cluster_url.clone();
    let server: Arc<str> = url.to_string().trim_end_matches('/').into();
    let builder = ClientBuilder::try_from(config).map_err(|error| ConnectError::Client(chain(&error)))?;
    let named = move |source: BoxError| NoAnswer { server: Arc::clone(&server), source };
    Ok(Connection { client: builder.with_layer(&MapErrLayer::new(named)).build(), server: url })
}

/// Which API server did not answer: the client's own errors do not say where they knocked.
#[derive(Debug, thiserror::Error)]
#[error("{server}")]
struct NoAnswer {
    server: Arc<str>,
    source: BoxError,
}

/// An error with everything behind it, each part once: some libraries repeat their source in their own text.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let part = cause.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        source = cause.source();
    }
    text
}
