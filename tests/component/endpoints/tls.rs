//! TLS: which certificates a connection trusts, and for which name.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use topoloom::endpoints::plan::Plan;
use topoloom::endpoints::spec::{CaBundle, Tls, Verification};
use topoloom::endpoints::{Endpoints, Error};
use topoloom_simulator::{Authority, Credentials, Fabric, FabricDocument, Fault, Marked, Shape, Simulator, Validity};

use super::credentials::{folder, secret, write};
use super::{endpoints, get, text};

const TOKEN: &str = "canary-token-2c9e";

/// A name that is in the certificate only: no resolver knows it.
const NAME: &str = "fabric.example";

/// A server with a certificate of this authority.
async fn server(authority: &Authority) -> Simulator {
    let fabric =
        Fabric::generate(&"units=1,hosts-per-unit=2,rails=1,pods=1,spines=0,cores=0".parse::<Shape>().unwrap());
    let builder = FabricDocument::builder(fabric.unwrap()).credentials(Credentials::none().token(TOKEN));
    let here = SocketAddr::from(([127, 0, 0, 2], 0));
    builder.tls(authority).name("127.0.0.2").name(NAME).listen(here).start().await.unwrap()
}

fn authority() -> Authority {
    Authority::generate().unwrap()
}

/// An endpoint at the server, with the Secret and this TLS.
fn plan(server: &Simulator, tls: Tls) -> Plan {
    Plan { tls, credentials: secret(), ..super::plan(&[&server.url()]) }
}

fn trusting(bundle: CaBundle) -> Tls {
    Tls { ca_bundle: Some(bundle), ..Tls::default() }
}

fn inline(authority: &Authority) -> Tls {
    trusting(CaBundle::Inline(authority.pem().to_owned()))
}

/// Requests the document in a call of its own.
async fn ask(endpoints: &Arc<Endpoints>) -> Result<(), Error> {
    let opened = endpoints.session().send(&get("/v1/fabric")).await?;
    assert_eq!(opened.status(), 200);
    assert!(text(opened).await?.contains("topoloom.fabric/v1"));
    Ok(())
}

/// Requests the document once, with a Secret that has these keys.
async fn once(server: &Simulator, tls: Tls, keys: &[(&str, &str)]) -> Result<(), Error> {
    let (_folder, outside) = folder(&[&[("token", TOKEN)], keys].concat());
    ask(&endpoints(plan(server, tls), &outside)).await
}

/// Checks that the connection was refused with these words before a request was sent.
#[track_caller]
fn refused(answer: Result<(), Error>, words: &str, server: &Simulator, asked: u64) {
    let Err(Error::Connect(message)) = &answer else { panic!("{words}: {answer:?}") };
    assert!(message.contains(words), "{message}");
    assert_eq!(server.counters().requests, asked, "the token was sent to a server that is not trusted");
}

const UNKNOWN: &str = "its certificate is not signed by a trusted authority";
const OTHER_NAME: &str = "its certificate is for another name; give that one as `serverName`";

#[tokio::test]
async fn a_bundle_in_a_file_is_read_anew_when_it_changes() {
    let (ours, others) = (authority(), authority());
    let server = server(&ours).await;
    let (files, outside) = folder(&[("token", TOKEN)]);
    let bundle = files.path().join("bundle.pem");
    let endpoints = endpoints(plan(&server, trusting(CaBundle::File(bundle))), &outside);
    refused(ask(&endpoints).await, "`caBundle`: ", &server, 0);
    write(files.path(), "bundle.pem", "no certificate");
    refused(ask(&endpoints).await, "bundle.pem holds no PEM certificate", &server, 0);
    write(files.path(), "bundle.pem", others.pem());
    refused(ask(&endpoints).await, UNKNOWN, &server, 0);
    // The bundle may hold several authorities, as while one replaces another.
    write(files.path(), "bundle.pem", &format!("{}{}", others.pem(), ours.pem()));
    ask(&endpoints).await.unwrap();
    // If the operator removes an authority, a connection that is still open does not trust it any more.
    write(files.path(), "bundle.pem", others.pem());
    refused(ask(&endpoints).await, UNKNOWN, &server, 1);
    server.stop().await;
}

#[tokio::test]
async fn the_secret_may_bring_the_authority_along() {
    let (ours, others) = (authority(), authority());
    let server = server(&ours).await;
    // Neither the system nor a bundle has its authority.
    refused(once(&server, Tls::default(), &[]).await, "`caBundle`", &server, 0);
    refused(once(&server, Tls::default(), &[("ca.crt", others.pem())]).await, UNKNOWN, &server, 0);
    once(&server, Tls::default(), &[("ca.crt", ours.pem())]).await.unwrap();
    // With a bundle and `ca.crt`, it is enough that one of them has the authority; if neither has it, the host refuses.
    once(&server, inline(&others), &[("ca.crt", ours.pem())]).await.unwrap();
    once(&server, inline(&ours), &[("ca.crt", others.pem())]).await.unwrap();
    refused(once(&server, inline(&others), &[("ca.crt", others.pem())]).await, UNKNOWN, &server, 3);
    server.stop().await;
}

#[tokio::test]
async fn a_certificate_must_be_for_the_name_that_is_expected() {
    let ours = authority();
    let server = server(&ours).await;
    let named = |name: &str| Tls { server_name: Some(name.to_owned()), ..inline(&ours) };
    once(&server, inline(&ours), &[]).await.unwrap();
    once(&server, named(NAME), &[]).await.unwrap();
    refused(once(&server, named("wrong.example"), &[]).await, OTHER_NAME, &server, 2);
    // A certificate that does not name the address.
    server.faults().set(Fault::WrongNameCertificate).await.unwrap();
    refused(once(&server, inline(&ours), &[]).await, OTHER_NAME, &server, 2);
    once(&server, named("elsewhere.invalid"), &[]).await.unwrap();
    refused(once(&server, named(NAME), &[]).await, OTHER_NAME, &server, 3);
    server.stop().await;
}

/// A self-signed certificate for the address and the name.
fn itself(validity: Validity, marked: Marked) -> Authority {
    Authority::self_signed(&["127.0.0.2".to_owned(), NAME.to_owned()], validity, marked).unwrap()
}

#[tokio::test]
async fn a_certificate_that_signed_itself_is_believed_where_this_very_one_is_given() {
    for marked in [Marked::Authority, Marked::Server] {
        let (ours, others) = (itself(Validity::Current, marked), itself(Validity::Current, marked));
        let server = server(&ours).await;
        // As a bundle, as `ca.crt`, and beside others.
        once(&server, inline(&ours), &[]).await.unwrap();
        once(&server, Tls::default(), &[("ca.crt", ours.pem())]).await.unwrap();
        let both = trusting(CaBundle::Inline(format!("{}{}", others.pem(), ours.pem())));
        once(&server, both, &[]).await.unwrap();
        // Another certificate with the same names is not trusted, however it is marked.
        let unknown = match marked {
            Marked::Authority => "give this certificate with `caBundle`",
            Marked::Server => UNKNOWN,
        };
        refused(once(&server, inline(&others), &[]).await, unknown, &server, 3);
        refused(once(&server, inline(&authority()), &[]).await, "its certificate is ", &server, 3);
        // The host checks the name as usual.
        let named = |name: &str| Tls { server_name: Some(name.to_owned()), ..inline(&ours) };
        once(&server, named(NAME), &[]).await.unwrap();
        refused(once(&server, named("wrong.example"), &[]).await, OTHER_NAME, &server, 4);
        server.stop().await;
        // It checks the dates, too.
        let late = itself(Validity::Expired, marked);
        let server = self::server(&late).await;
        refused(once(&server, inline(&late), &[]).await, "its certificate has expired", &server, 0);
        server.stop().await;
    }
}

#[tokio::test]
async fn a_certificate_that_another_one_signed_is_believed_where_it_is_given_itself() {
    // The operator does not have the authority, and has copied the certificate that the server shows.
    let hidden = authority();
    let shown = hidden.serving(&["127.0.0.2"]).unwrap();
    let settings = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth();
    let chain = CertificateDer::pem_slice_iter(shown.certificate.as_bytes()).collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(shown.key.as_bytes()).unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(settings.with_single_cert(chain, key).unwrap()));
    let listener = tokio::net::TcpListener::bind("127.0.0.2:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut serving = tokio::task::JoinSet::new();
    serving.spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // The handshake with a client that does not trust the certificate fails here.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut asked = [0; 1024];
            while stream.read(&mut asked).await.is_ok_and(|read| read > 0) {
                stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
            }
        }
    });
    let ask = async |bundle: &str| {
        let (_folder, outside) = folder(&[("token", TOKEN)]);
        let url = format!("https://{address}");
        let plan =
            Plan { tls: trusting(CaBundle::Inline(bundle.to_owned())), credentials: secret(), ..super::plan(&[&url]) };
        endpoints(plan, &outside).session().send(&get("/v1/fabric")).await.map(|opened| opened.status())
    };
    assert_eq!(ask(&shown.certificate).await.unwrap(), 204);
    let another = authority().serving(&["127.0.0.2"]).unwrap().certificate;
    assert!(matches!(ask(&another).await, Err(Error::Connect(message)) if message.contains(UNKNOWN)));
    serving.shutdown().await;
}

#[tokio::test]
async fn the_certificate_goes_unchecked_only_where_the_operator_says_so() {
    let ours = authority();
    let server = server(&ours).await;
    for fault in [Fault::UntrustedCertificate, Fault::ExpiredCertificate, Fault::WrongNameCertificate] {
        server.faults().set(fault).await.unwrap();
        let asked = server.counters().requests;
        refused(once(&server, inline(&ours), &[]).await, "its certificate ", &server, asked);
        let blind = Tls { verification: Verification::Skipped, ..inline(&ours) };
        once(&server, blind, &[]).await.unwrap();
    }
    server.stop().await;
}
