//! Access to the apiserver: its certificate, the admin's token, kubeconfig files and clients.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;
use topoloom_simulator::{Authority, ClientCertificate};

use super::ControlPlane;

/// The name under which every kubeconfig file here knows cluster, user and context.
const NAME: &str = "topoloom-test";
const TOKEN_SECONDS: i64 = 30 * 24 * 60 * 60;
/// The names of an apiserver: its address, and what pods call its Service.
const NAMES: [&str; 5] = ["127.0.0.1", "10.96.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];

/// Whom each API server is to kubelets.
pub const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";
const KUBELET_CLIENT_GROUP: &str = "kubeadm:cluster-admins";

/// Of all control planes of this process: they may follow each other in one test.
static CLIENTS: LazyLock<Result<Clients, String>> =
    LazyLock::new(|| Clients::generate().map_err(|error| format!("{error:#}")));

struct Clients {
    authority: Authority,
    api_server: ClientCertificate,
}

impl Clients {
    fn generate() -> Result<Self> {
        let authority = Authority::generate()?;
        let api_server = authority.client_of(KUBELET_CLIENT, KUBELET_CLIENT_GROUP)?;
        Ok(Self { authority, api_server })
    }

    fn all() -> Result<&'static Self> {
        CLIENTS.as_ref().map_err(|error| anyhow::Error::msg(error.clone()))
    }
}

/// The authority whose client certificates every control plane accepts.
///
/// # Errors
///
/// When there is none.
pub fn clients() -> Result<&'static Authority> {
    Ok(&Clients::all()?.authority)
}

/// Writes the certificate of that authority, and the certificate with its key by which an API server is known to kubelets, into
/// files of this folder.
pub(super) fn write_clients(folder: &Path) -> Result<ClientFiles> {
    let Clients { authority, api_server } = Clients::all()?;
    let file = |name: &str, text: &str| -> Result<PathBuf> {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    };
    Ok(ClientFiles {
        authority: file("clients.crt", authority.pem())?,
        certificate: file("kubelet-client.crt", &api_server.certificate)?,
        key: file("kubelet-client.key", &api_server.key)?,
    })
}

/// The files of [`write_clients`].
#[derive(Debug)]
pub(super) struct ClientFiles {
    pub(super) authority: PathBuf,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

pub(super) fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).context("no random bytes")?;
    Ok(bytes)
}

/// A new admin token, in a file as the apiserver reads it.
pub(super) fn write_admin_token(path: &Path) -> Result<String> {
    let token: String = random_bytes::<16>()?.iter().map(|byte| format!("{byte:02x}")).collect();
    fs::write(path, format!("{token},admin,admin,\"system:masters\"\n")).context("cannot write the token file")?;
    Ok(token)
}

/// Writes a new serving certificate with the one of its authority, which no other apiserver has, and its key. Both keys are on an
/// elliptic curve: an apiserver makes RSA keys for itself otherwise, and signs with one for each connection, which together were
/// a tenth of all that it did in the tests.
pub(super) fn write_certificate(certificate: &Path, key: &Path) -> Result<()> {
    let authority = Authority::generate()?;
    let ClientCertificate { certificate: serving, key: secret } = authority.serving(&NAMES)?;
    let folder = certificate.parent().context("a certificate lies in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    fs::write(certificate, serving + authority.pem()).context("cannot write the certificate")?;
    fs::write(key, secret).context("cannot write the key of the certificate")
}

/// Writes a kubeconfig file that trusts exactly the certificate in `certificate`.
pub(super) fn write_kubeconfig(
    path: &Path,
    server: &str,
    certificate: &Path,
    namespace: &str,
    token: &str,
) -> Result<()> {
    let certificate = ByteString(fs::read(certificate).context("the apiserver has no certificate")?);
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAME,
        "clusters": [{"name": NAME, "cluster": {"server": server, "certificate-authority-data": certificate}}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": namespace}}],
    });
    // JSON is YAML.
    fs::write(path, serde_json::to_vec_pretty(&document)?).with_context(|| format!("cannot write {}", path.display()))
}

/// Every client needs it; only the first call has an effect.
pub(super) fn install_crypto() {
    _ = rustls::crypto::ring::default_provider().install_default();
}

/// A client for servers of this machine without TLS. Any other reads all certificates that the system trusts, which takes longer
/// than what most tests ask for.
pub fn plain_http() -> reqwest::ClientBuilder {
    install_crypto();
    reqwest::Client::builder().no_proxy().tls_certs_only([])
}

/// A client with the settings of a kubeconfig file.
///
/// # Errors
///
/// When the file cannot be read or is not valid.
pub async fn client_from(kubeconfig: &Path) -> Result<Client> {
    install_crypto();
    let document = Kubeconfig::read_from(kubeconfig).context("the kubeconfig file cannot be read")?;
    let mut config = Config::from_custom_kubeconfig(document, &KubeConfigOptions::default()).await?;
    config.proxy_url = None;
    // A test sees what the apiserver answers, a 429 too.
    config.default_retry = false;
    Client::try_from(config).context("no client from the kubeconfig file")
}

impl ControlPlane {
    /// A kubeconfig file for a ServiceAccount that exists, with a fresh token: RBAC decides what it may do.
    ///
    /// # Errors
    ///
    /// When the apiserver issues no token.
    pub async fn kubeconfig_for(&self, namespace: &str, service_account: &str) -> Result<PathBuf> {
        let token = self.token_for(namespace, service_account, None).await?;
        self.kubeconfig_with(namespace, service_account, &token)
    }

    /// A kubeconfig file with the token that a kubelet would put into a pod that exists: bound to it, and with the name of
    /// its node.
    ///
    /// # Errors
    ///
    /// When the apiserver issues no token.
    pub async fn kubeconfig_for_pod(&self, pod: &Pod) -> Result<PathBuf> {
        let (metadata, spec) = (&pod.metadata, pod.spec.as_ref());
        let namespace = metadata.namespace.as_deref().unwrap_or("default");
        let account = spec.and_then(|spec| spec.service_account_name.as_deref()).unwrap_or("default");
        let name = metadata.name.as_deref().context("the pod has no name")?;
        let token = self.token_for(namespace, account, Some(pod)).await?;
        self.kubeconfig_with(namespace, &format!("pod-{name}"), &token)
    }

    /// A token of a ServiceAccount, bound to a pod or to nothing.
    ///
    /// # Errors
    ///
    /// When the apiserver issues none.
    pub async fn token_for(&self, namespace: &str, service_account: &str, pod: Option<&Pod>) -> Result<String> {
        let api: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let bound = pod.map(|pod| BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
        });
        let spec = TokenRequestSpec {
            bound_object_ref: bound,
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let issued = api.create_token_request(service_account, &PostParams::default(), &request).await;
        let issued = issued.with_context(|| format!("no token for ServiceAccount {namespace}/{service_account}"))?;
        Ok(issued.status.context("the TokenRequest has no status")?.token)
    }

    fn kubeconfig_with(&self, namespace: &str, name: &str, token: &str) -> Result<PathBuf> {
        let path = self.folder().join(format!("kubeconfig-{namespace}-{name}"));
        write_kubeconfig(&path, &self.server_url(), &self.certificate(), namespace, token)?;
        Ok(path)
    }
}
