//! The certificate of the extender, and whose certificates it takes: files that are read again when they change.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::sync::watch;

use super::clients::Clients;
use super::options::ServingFiles;
use topoloom_serving::TlsSettings;
use topoloom_serving::tls::{TlsError, certificates, key_file};

/// How often the files are read. A certificate is renewed long before the old one ends.
pub const LOOKS: Duration = Duration::from_secs(10);

/// The clients that the server trusts, and the authority of the cluster to compare theirs with.
pub struct ClientTrust {
    /// Which clients of the authorities are served.
    pub clients: Arc<Clients>,
    /// Authorities of the cluster itself, in DER.
    pub cluster: Vec<Vec<u8>>,
}

/// Reads the files and makes the settings of a server of them. With authorities of clients, a client without a
/// certificate of theirs, or one with another name, gets no connection.
///
/// # Errors
/// Names the flag, the file and what is wrong with it.
pub fn server(files: &ServingFiles, trust: &ClientTrust) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = certificates("extender-tls-cert-file", &files.certificate)?;
    let refused = |why: String| TlsError::new("extender-tls-private-key-file", &files.key, why);
    let key = key_file("extender-tls-private-key-file", &files.key)?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(error.to_string()))?;
    let builder = match &files.clients {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let refused = |why: String| TlsError::new("extender-client-ca-file", path, why);
            let mut roots = RootCertStore::empty();
            let authorities = certificates("extender-client-ca-file", path)?;
            if authorities.iter().any(|one| trust.cluster.iter().any(|authority| **authority == **one)) {
                tracing::warn!(
                    file = %path.display(),
                    "--extender-client-ca-file has the authority of this cluster, which signs kubelets, administrators and \
                     every user who gets a certificate approved: only --extender-client-names keeps them \
                     from binding pods. A separate authority for kube-scheduler's certificate is safer"
                );
            }
            for certificate in authorities {
                roots.add(certificate).map_err(|error| refused(error.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            let verifier = verifier.map_err(|error| refused(error.to_string()))?;
            builder.with_client_cert_verifier(trust.clients.verifier(verifier))
        }
    };
    builder.with_single_cert(chain, key).map(Arc::new).map_err(|error| refused(error.to_string()))
}

/// The settings, and what keeps them up to date until it is dropped. Files that cannot be used leave the last good ones
/// in force.
///
/// # Errors
/// When the files cannot be used at the beginning.
pub fn kept(
    files: ServingFiles,
    trust: ClientTrust,
) -> Result<(TlsSettings, impl Future<Output = ()> + Send + 'static), TlsError> {
    // First what they hold: files that are swapped in between are read again.
    let mut known = contents(&files);
    let (sender, receiver) = watch::channel(server(&files, &trust)?);
    let keep = async move {
        let mut broken = None;
        loop {
            tokio::time::sleep(LOOKS).await;
            let now = contents(&files);
            if now == known {
                continue;
            }
            match server(&files, &trust) {
                Ok(config) => {
                    tracing::info!("the extender's certificate was read again");
                    sender.send_replace(config);
                    (known, broken) = (now, None);
                }
                // Files are swapped one after the other, so this may pass.
                Err(error) => {
                    let why = error.to_string();
                    if broken.as_ref() != Some(&why) {
                        tracing::warn!(
                            error = why,
                            "the extender's new certificate cannot be used; the previous one stays in use"
                        );
                        broken = Some(why);
                    }
                }
            }
        }
    };
    Ok((receiver, keep))
}

/// The bytes of the files: a time would miss a file that is swapped by renaming a link.
fn contents(files: &ServingFiles) -> Vec<Option<Vec<u8>>> {
    let read = |path: &Path| std::fs::read(path).ok();
    let paths = [Some(&files.certificate), Some(&files.key), files.clients.as_ref()];
    paths.into_iter().flatten().map(|path| read(path)).collect()
}
