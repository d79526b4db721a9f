//! The health page over HTTPS: three files, and a client that looks at what the server shows.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use topoloom_simulator::{Authority, Validity};

use crate::manager::admin;
use crate::manager::health::Health;
use crate::manager::tasks::Tasks;
use crate::serving::Server;
use crate::serving::tls::{TlsFiles, server};

/// The three files in a folder of their own.
struct Files {
    folder: TempDir,
    files: TlsFiles,
}

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::generate().unwrap();
        let issued = authority.client("topoloom.test", Validity::Current).unwrap();
        let file = |name: &str, text: &str| write(folder.path(), name, text);
        let files = TlsFiles {
            authorities: file("ca.crt", authority.pem()),
            certificate: file("tls.crt", &issued.certificate),
            key: file("tls.key", &issued.key),
        };
        Self { folder, files }
    }

    /// Another file in place of one of them.
    fn with(&self, put: fn(&mut TlsFiles) -> &mut PathBuf, text: &str) -> TlsFiles {
        let mut files = self.files.clone();
        *put(&mut files) = write(self.folder.path(), "other.pem", text);
        files
    }
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// A client like a kubelet's probe: it trusts every certificate, and here remembers it. That the server has the key of
/// its certificate is checked.
#[derive(Debug)]
struct Probe {
    provider: Arc<CryptoProvider>,
    shown: Mutex<Option<CertificateDer<'static>>>,
}

impl ServerCertVerifier for Probe {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        *self.shown.lock().unwrap() = Some(certificate.clone().into_owned());
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[tokio::test]
async fn b10_healthz_is_served_over_https_with_the_certificate_of_the_file() {
    let files = Files::new();
    let listening =
        Server::listen("healthz-address", (Ipv4Addr::LOCALHOST, 0).into(), Some(server(&files.files).unwrap()));
    let listening = listening.await.unwrap();
    let address = listening.address().unwrap();
    let (mut tasks, stop) = (Tasks::default(), CancellationToken::new());
    tasks.spawn("health server", listening.serve(admin::health(&Health::default()), stop.clone()));

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let probe = Arc::new(Probe { provider: Arc::clone(&provider), shown: Mutex::default() });
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&probe) as _)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = TcpStream::connect(address).await.unwrap();
    let mut stream = connector.connect("topoloom.test".try_into().unwrap(), stream).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: topoloom.test\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nok"), "{answer}");
    let wanted = CertificateDer::from_pem_file(&files.files.certificate).unwrap();
    assert_eq!(*probe.shown.lock().unwrap(), Some(wanted));

    // A client without TLS gets no answer.
    let mut plain = TcpStream::connect(address).await.unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nhost: topoloom.test\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // The connection may end with a word of TLS, or with none.
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    stop.cancel();
    tasks.finish().await;
}

/// Which of the files.
type Put = fn(&mut TlsFiles) -> &mut PathBuf;

#[test]
fn b5_a_file_that_cannot_be_used_is_named_with_its_flag() {
    let files = Files::new();
    let all: [(&str, Put); 3] = [
        ("ca-cert-file", |files| &mut files.authorities),
        ("tls-cert-file", |files| &mut files.certificate),
        ("tls-private-key-file", |files| &mut files.key),
    ];
    let half = "-----BEGIN CERTIFICATE-----\n!\n";
    for (flag, put) in all {
        for (what, text) in [("empty", ""), ("no PEM", "hello\n"), ("half a PEM", half)] {
            let files = files.with(put, text);
            let said = server(&files).expect_err(what).to_string();
            assert!(said.starts_with(&format!("--{flag} ")), "{what}: {said}");
            assert!(said.contains("other.pem: "), "{what}: {said}");
        }
        let mut files = files.files.clone();
        *put(&mut files) = "/there/is/none.pem".into();
        let said = server(&files).expect_err("there is no such file").to_string();
        assert!(said.starts_with(&format!("--{flag} /there/is/none.pem: ")), "{said}");
    }
}

#[test]
fn b5_the_key_of_another_certificate_is_named_with_its_flag() {
    let files = Files::new();
    let other = std::fs::read_to_string(Files::new().files.key).unwrap();
    let said = server(&files.with(|files| &mut files.key, &other)).expect_err("another's key").to_string();
    assert!(said.starts_with("--tls-private-key-file ") && said.contains("other.pem: "), "{said}");
    server(&files.files).unwrap();
}
