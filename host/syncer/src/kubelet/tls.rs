//! The certificate of the server, and which authorities may have signed those of its clients. Both are followed.
//!
//! Owns what a handshake needs and what a request is checked against. A client may come without a certificate, and gets an answer that
//! says so; one with a certificate of another authority gets no connection. Never trusts the authorities of the machine.
//!
//! # Failure story
//!
//! What cannot be used at the start is an error, and nothing is served. What cannot be used later (a file that is half written, a
//! ConfigMap that is gone) leaves in force what is in force, and is logged once. Authorities that were replaced count for the next
//! request, also on a connection that was made before.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};
use topoloom_cluster::{Refusal, RefusalReason, Restores, Side, single};
use topoloom_serving::TlsSettings;
use topoloom_serving::tls::{TlsError, certificates, key_file};

use super::options::{CERTIFICATE, CLIENTS, ClientAuthorities, KEY, Options};

/// How often the files are read. A certificate is renewed long before the old one ends.
const LOOKS: Duration = Duration::from_secs(10);
/// Where the API server publishes its authorities.
const NAMESPACE: &str = "kube-system";
const CONFIG_MAP: &str = "extension-apiserver-authentication";
const DATA_KEY: &str = "client-ca-file";

/// What clients are checked with, at this moment.
pub(super) type Trust = watch::Receiver<Arc<dyn ClientCertVerifier>>;

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] TlsError),
    /// The API server publishes no authorities that can be used.
    #[error(
        "the authorities of clients in the ConfigMap {NAMESPACE}/{CONFIG_MAP}, {DATA_KEY}: {0}; --{CLIENTS} names a file with \
         others"
    )]
    Published(String),
}

/// Where authorities of clients are read.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Bundle {
    /// In a file, with the others.
    InFile,
    /// What the API server publishes.
    Published(String),
}

/// What settings are made of.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sources {
    /// The bytes of the files.
    files: Vec<Option<Vec<u8>>>,
    bundle: Bundle,
}

/// Settings that are in force, and what keeps them up to date.
pub(super) struct Kept {
    settings: TlsSettings,
    trust: Trust,
    keeper: Keeper,
}

struct Keeper {
    files: Files,
    published: BoxStream<'static, Result<Option<ConfigMap>, Refusal>>,
    /// What there is.
    newest: Sources,
    /// What is used: the newest that could be.
    in_force: Sources,
    settings: watch::Sender<Arc<ServerConfig>>,
    trust: watch::Sender<Arc<dyn ClientCertVerifier>>,
}

/// The files of the options.
struct Files(Options);

impl Kept {
    /// Reads everything. Where the API server has to be asked, this waits until it answers.
    ///
    /// # Errors
    /// What cannot be used.
    pub(super) async fn read(options: &Options, client: kube::Client, restores: &Restores) -> Result<Self, TrustError> {
        let (bundle, published) = match options.clients {
            ClientAuthorities::File(_) => (Bundle::InFile, stream::pending().boxed()),
            ClientAuthorities::Cluster => {
                let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
                let mut published = single::watch(maps, CONFIG_MAP, restores).boxed();
                (Bundle::Published(first(&mut published).await?), published)
            }
        };
        Self::of(options, bundle, published)
    }

    fn of(
        options: &Options,
        bundle: Bundle,
        published: BoxStream<'static, Result<Option<ConfigMap>, Refusal>>,
    ) -> Result<Self, TrustError> {
        let files = Files(options.clone());
        // First what they hold: files that are swapped in between are read again.
        let newest = Sources { files: files.contents(), bundle };
        let (config, verifier) = files.server(&newest.bundle)?;
        let (settings, trust) = (watch::Sender::new(config), watch::Sender::new(verifier));
        let (shown, trusted) = (settings.subscribe(), trust.subscribe());
        let keeper = Keeper { files, published, in_force: newest.clone(), newest, settings, trust };
        Ok(Self { settings: shown, trust: trusted, keeper })
    }

    /// The settings, and what has to run as long as they are used.
    pub(super) fn keep(self) -> (TlsSettings, Trust, impl Future<Output = ()> + Send + 'static) {
        let Self { settings, trust, keeper } = self;
        (settings, trust, keeper.run())
    }
}

/// Whether the files can be used, which needs no API server.
///
/// # Errors
/// The flag and the file, and what is wrong with it.
pub fn check_files(options: &Options) -> Result<(), TrustError> {
    if let ClientAuthorities::File(path) = &options.clients {
        let authorities = certificates(CLIENTS, path)?;
        verifier(authorities).map_err(|why| TlsError::new(CLIENTS, path, why))?;
    }
    let chain = certificates(CERTIFICATE, &options.certificate)?;
    let private = key_file(KEY, &options.key)?;
    let refused = |error: rustls::Error| TlsError::new(KEY, &options.key, error);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(refused)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(refused)?;
    Ok(())
}

/// The first bundle that the API server publishes.
async fn first(published: &mut BoxStream<'static, Result<Option<ConfigMap>, Refusal>>) -> Result<String, TrustError> {
    while let Some(state) = published.next().await {
        match state {
            Ok(map) => return bundle_of(map).map_err(TrustError::Published),
            // It may answer later, and the watch tries again.
            Err(refusal) if may_pass(refusal.reason) => {
                tracing::warn!(error = %refusal.on(Side::Virtual), "the authorities of clients cannot be read yet");
            }
            Err(refusal) => return Err(TrustError::Published(refusal.on(Side::Virtual).to_string())),
        }
    }
    Err(TrustError::Published("the watch has ended".to_owned()))
}

/// Whether the same request may be answered later without any change of a rule.
fn may_pass(reason: RefusalReason) -> bool {
    match reason {
        RefusalReason::Unreachable
        | RefusalReason::ServerError
        | RefusalReason::TooManyRequests
        | RefusalReason::Expired
        | RefusalReason::Conflict
        | RefusalReason::WebhookUnreachable => true,
        RefusalReason::AlreadyExists
        | RefusalReason::NotFound
        | RefusalReason::NoSuchResource
        | RefusalReason::Forbidden
        | RefusalReason::Unauthorized
        | RefusalReason::Invalid
        | RefusalReason::DeniedByAdmission
        | RefusalReason::TooLarge
        | RefusalReason::NotLeader
        | RefusalReason::ReadOnly => false,
    }
}

fn bundle_of(map: Option<ConfigMap>) -> Result<String, String> {
    let map = map.ok_or("there is no such ConfigMap")?;
    let bundle = map.data.and_then(|mut data| data.remove(DATA_KEY)).filter(|bundle| !bundle.trim().is_empty());
    bundle.ok_or_else(|| "it is empty: the API server runs without --client-ca-file".to_owned())
}

/// What keeps something new from being used, logged once.
#[derive(Default)]
struct Trouble(Option<String>);

impl Trouble {
    fn note(&mut self, outcome: Result<(), String>) {
        let why = outcome.err();
        if let Some(why) = &why
            && self.0.as_ref() != Some(why)
        {
            tracing::warn!(
                error = why,
                "new certificates of the kubelet's API of virtual nodes cannot be used; the previous ones stay in use"
            );
        }
        self.0 = why;
    }
}

impl Keeper {
    async fn run(mut self) {
        let (mut of_files, mut of_published) = (Trouble::default(), Trouble::default());
        // Outside of the loop: what is published more often than that must not keep the files from being read.
        let mut looks = tokio::time::interval_at(Instant::now() + LOOKS, LOOKS);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = looks.tick() => {
                    self.newest.files = self.files.contents();
                    of_files.note(self.use_newest());
                }
                state = self.published.next() => match state {
                    Some(state) => of_published.note(self.take(state)),
                    // It follows the authorities for as long as there is a process, so this is a defect, and shows as one.
                    None => return,
                },
            }
        }
    }

    /// The API server publishes this, or cannot be asked: the watch goes on by itself.
    fn take(&mut self, state: Result<Option<ConfigMap>, Refusal>) -> Result<(), String> {
        let map = state.map_err(|refusal| refusal.on(Side::Virtual).to_string())?;
        self.newest.bundle = Bundle::Published(bundle_of(map)?);
        self.use_newest()
    }

    fn use_newest(&mut self) -> Result<(), String> {
        if self.newest == self.in_force {
            return Ok(());
        }
        let (config, verifier) = self.files.server(&self.newest.bundle).map_err(|error| error.to_string())?;
        // What requests are checked against comes first: no handshake is done by newer rules than the requests behind it.
        self.trust.send_replace(verifier);
        self.settings.send_replace(config);
        self.in_force = self.newest.clone();
        tracing::info!("the certificates of the kubelet's API of virtual nodes were read again");
        Ok(())
    }
}

impl Files {
    /// The bytes of the files: a time would miss a file that is swapped by renaming a link.
    fn contents(&self) -> Vec<Option<Vec<u8>>> {
        let clients = match &self.0.clients {
            ClientAuthorities::File(path) => Some(path),
            ClientAuthorities::Cluster => None,
        };
        let paths = [Some(&self.0.certificate), Some(&self.0.key), clients];
        paths.into_iter().flatten().map(|path| std::fs::read(path).ok()).collect()
    }

    /// What a server speaks, and what its clients are checked with.
    fn server(&self, bundle: &Bundle) -> Result<(Arc<ServerConfig>, Arc<dyn ClientCertVerifier>), TrustError> {
        let Options { certificate, key, clients, .. } = &self.0;
        let verifier = match (bundle, clients) {
            (Bundle::Published(text), _) => verifier(published(text)?).map_err(TrustError::Published)?,
            (Bundle::InFile, ClientAuthorities::File(path)) => {
                let authorities = certificates(CLIENTS, path)?;
                verifier(authorities).map_err(|why| TlsError::new(CLIENTS, path, why))?
            }
            (Bundle::InFile, ClientAuthorities::Cluster) => {
                return Err(TrustError::Published("they were not read".to_owned()));
            }
        };
        let chain = certificates(CERTIFICATE, certificate)?;
        let private = key_file(KEY, key)?;
        let refused = |error: rustls::Error| TlsError::new(KEY, key, error);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(refused)?
            .with_client_cert_verifier(Arc::clone(&verifier))
            .with_single_cert(chain, private)
            .map_err(refused)?;
        // There is nothing else: upgraded streams need it.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok((Arc::new(config), verifier))
    }
}

fn published(text: &str) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let read = read.map_err(|error| TrustError::Published(error.to_string()))?;
    if read.is_empty() { Err(TrustError::Published("there is no certificate in it".to_owned())) } else { Ok(read) }
}

/// Checks clients against these authorities; one without a certificate is let in, and answered accordingly.
fn verifier(authorities: Vec<CertificateDer<'static>>) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in authorities {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    builder.allow_unauthenticated().build().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use futures::FutureExt as _;
    use futures::channel::mpsc;
    use rustls::pki_types::UnixTime;
    use serde_json::json;

    use super::*;
    use crate::kubelet::tests::authority::{Authority, Files as Written};

    /// The options with the files of a folder.
    fn options(written: &Written, clients: ClientAuthorities) -> Options {
        Options {
            address: std::net::Ipv4Addr::LOCALHOST.into(),
            port: 10_250,
            listen: (std::net::Ipv4Addr::LOCALHOST, 0).into(),
            certificate: written.certificate.clone(),
            key: written.key.clone(),
            clients,
        }
    }

    fn map(bundle: &str) -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": CONFIG_MAP}, "data": {DATA_KEY: bundle}})).unwrap()
    }

    /// Whether a client of this authority is trusted now.
    fn trusts(trust: &Trust, authority: &Authority) -> bool {
        let client = authority.client(&["a"], &[]).der;
        trust.borrow().verify_client_cert(&client, &[], UnixTime::now()).is_ok()
    }

    fn refused(options: &Options) -> String {
        Kept::of(options, Bundle::InFile, stream::pending().boxed()).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn s26_a_file_that_cannot_be_used_is_named_with_its_flag() {
        let authority = Authority::new();
        let written = Written::of(&authority);
        let good = options(&written, ClientAuthorities::File(written.authorities.clone()));
        assert!(Kept::of(&good, Bundle::InFile, stream::pending().boxed()).is_ok());
        assert!(check_files(&good).is_ok());
        assert!(check_files(&options(&written, ClientAuthorities::Cluster)).is_ok(), "no API server is asked");
        let other = written.write("other.pem", "no PEM");
        type Put = fn(&mut Options, PathBuf);
        let all: [(&str, Put); 3] = [
            (CERTIFICATE, |options, path| options.certificate = path),
            (KEY, |options, path| options.key = path),
            (CLIENTS, |options, path| options.clients = ClientAuthorities::File(path)),
        ];
        for (flag, put) in all {
            for path in [other.as_path(), Path::new("/there/is/none.pem")] {
                let mut options = good.clone();
                put(&mut options, path.to_owned());
                let said = refused(&options);
                assert!(said.starts_with(&format!("--{flag} {}: ", path.display())), "{said}");
                assert_eq!(check_files(&options).unwrap_err().to_string(), said);
            }
        }
        let another = Written::of(&Authority::new());
        let others = Options { key: another.key.clone(), ..good };
        let said = refused(&others);
        assert_eq!(check_files(&others).unwrap_err().to_string(), said);
        assert!(said.starts_with(&format!("--{KEY} ")), "the key of another certificate: {said}");
    }

    #[tokio::test(start_paused = true)]
    async fn s26_authorities_of_the_cluster_have_to_be_there_at_the_start_and_an_api_server_may_be_late() {
        let read = async |states: Vec<Result<Option<ConfigMap>, Refusal>>| {
            first(&mut stream::iter(states).boxed()).await.map_err(|error| error.to_string())
        };
        let late = Refusal { reason: RefusalReason::Unreachable, message: "no answer".to_owned(), retry_after: None };
        assert_eq!(read(vec![Err(late), Ok(Some(map("PEM")))]).await.as_deref(), Ok("PEM"));
        let forbidden = Refusal { reason: RefusalReason::Forbidden, message: "no".to_owned(), retry_after: None };
        for (state, part) in [
            (Ok(None), "there is no such ConfigMap; --syncer-client-ca-file names a file with others"),
            (Ok(Some(map(" "))), "the API server runs without --client-ca-file"),
            (Ok(Some(ConfigMap::default())), "the API server runs without --client-ca-file"),
            (Err(forbidden), "the virtual cluster: no"),
        ] {
            let said = read(vec![state]).await.unwrap_err();
            assert!(said.contains("kube-system/extension-apiserver-authentication, client-ca-file: "), "{said}");
            assert!(said.contains(part), "{said}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn s26_authorities_that_are_published_are_followed_and_what_cannot_be_used_changes_nothing() {
        let (first, second) = (Authority::new(), Authority::new());
        let written = Written::of(&first);
        let options = options(&written, ClientAuthorities::Cluster);
        let (sender, states) = mpsc::unbounded();
        let kept = Kept::of(&options, Bundle::Published(first.pem()), states.boxed()).unwrap();
        let (mut settings, trust, keep) = kept.keep();
        let mut keep = std::pin::pin!(keep);
        let mut publish = |state| {
            sender.unbounded_send(state).unwrap();
            assert!(keep.as_mut().now_or_never().is_none());
        };
        assert_eq!([&first, &second].map(|authority| trusts(&trust, authority)), [true, false]);
        for nothing in [None, Some(map("no PEM")), Some(map(""))] {
            publish(Ok(nothing));
            assert_eq!([&first, &second].map(|authority| trusts(&trust, authority)), [true, false]);
        }
        publish(Err(Refusal { reason: RefusalReason::Unreachable, message: "no".to_owned(), retry_after: None }));
        assert!(!settings.has_changed().unwrap());
        publish(Ok(Some(map(&second.pem()))));
        assert_eq!([&first, &second].map(|authority| trusts(&trust, authority)), [false, true]);
        assert!(settings.has_changed().unwrap());
        settings.mark_unchanged();
        publish(Ok(Some(map(&second.pem()))));
        assert!(!settings.has_changed().unwrap(), "the same again");
    }

    #[tokio::test(start_paused = true)]
    async fn s26_files_are_read_while_more_is_published_than_there_are_looks_and_a_watch_that_ends_shows() {
        let (first, second) = (Authority::new(), Authority::new());
        let written = Written::of(&first);
        let options = options(&written, ClientAuthorities::Cluster);
        let (sender, states) = mpsc::unbounded();
        let (settings, _trust, keep) =
            Kept::of(&options, Bundle::Published(first.pem()), states.boxed()).unwrap().keep();
        let mut keep = std::pin::pin!(keep);
        let other = Written::of(&second);
        std::fs::copy(&other.certificate, &written.certificate).unwrap();
        std::fs::copy(&other.key, &written.key).unwrap();
        for _ in 0..4 {
            sender.unbounded_send(Ok(Some(map(&first.pem())))).unwrap();
            tokio::select! {
                () = keep.as_mut() => panic!("it has ended"),
                () = tokio::time::sleep(LOOKS / 2) => {}
            }
        }
        assert!(settings.has_changed().unwrap());
        drop(sender);
        assert!(keep.as_mut().now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn s26_files_that_change_are_read_again_and_half_of_a_change_is_not_used() {
        let (first, second) = (Authority::new(), Authority::new());
        let written = Written::of(&first);
        let options = options(&written, ClientAuthorities::File(written.authorities.clone()));
        let kept = Kept::of(&options, Bundle::InFile, stream::pending().boxed()).unwrap();
        let (settings, trust, keep) = kept.keep();
        let mut keep = std::pin::pin!(keep);
        assert!(keep.as_mut().now_or_never().is_none());
        let other = Written::of(&second);
        let copy = |from: &Path, to: &Path| {
            std::fs::copy(from, to).unwrap();
        };
        let mut look = async || {
            tokio::select! {
                () = keep.as_mut() => panic!("it has ended"),
                () = tokio::time::sleep(LOOKS + Duration::from_secs(1)) => {}
            }
        };
        // The certificate before its key.
        copy(&other.certificate, &written.certificate);
        copy(&other.authorities, &written.authorities);
        look().await;
        assert_eq!((settings.has_changed().unwrap(), trusts(&trust, &first)), (false, true));
        copy(&other.key, &written.key);
        look().await;
        assert_eq!((settings.has_changed().unwrap(), trusts(&trust, &second)), (true, true));
    }
}
