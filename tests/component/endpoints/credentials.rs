//! Credentials: added by the host, re-read when they are refused, never shown.

use std::path::Path;

use topoloom::endpoints::spec::{Credentials, SecretRef};
use topoloom::endpoints::vault::Vault;
use topoloom::endpoints::{Denial, Error, Outside};
use topoloom_core::plugin::CredentialKind;

use super::wire::{Wire, ok};
use super::{denied, endpoints, get, plan, session, text};

const CANARY: &str = "canary-token-5b1f0c7e";

pub(super) fn secret() -> Option<Credentials> {
    Some(Credentials::Secret(SecretRef { name: "fabric".into(), namespace: Some("ns".into()) }))
}

pub(super) fn folder(keys: &[(&str, &str)]) -> (tempfile::TempDir, Outside) {
    let folder = tempfile::tempdir().unwrap();
    keys.iter().for_each(|(key, value)| write(folder.path(), key, value));
    let outside = Outside { vault: Vault::folder(folder.path().to_owned()), ..Outside::offline() };
    (folder, outside)
}

pub(super) fn write(folder: &Path, key: &str, value: &str) {
    std::fs::write(folder.join(key), value).unwrap();
}

#[tokio::test]
async fn each_kind_is_added_by_the_host() {
    let server = Wire::saying("127.0.0.2", "good").await;
    let (_folder, outside) = folder(&[("token", "abc\n"), ("username", "admin"), ("password", "123456")]);
    for (kind, header) in [
        (CredentialKind::Bearer, "authorization: Bearer abc\r\n"),
        (CredentialKind::Token, "authorization: Basic abc\r\n"),
        (CredentialKind::Basic, "authorization: Basic YWRtaW46MTIzNDU2\r\n"),
    ] {
        let mut plan = plan(&[&server.url()]);
        (plan.credentials, plan.kinds) = (secret(), vec![CredentialKind::Mtls, kind]);
        let mut session = session(plan, &outside);
        assert_eq!(session.credential("fabric").await.unwrap(), kind);
        session.send(&get("/")).await.unwrap();
        let head = server.heads().pop().unwrap();
        assert!(head.contains(header), "{head}");
    }
}

#[tokio::test]
async fn a_refused_credential_is_read_again_once() {
    let server = Wire::at("127.0.0.2", |head| match head.contains("Bearer new") {
        true => ok("", b"good"),
        false => b"HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer\r\ncontent-length: 0\r\n\r\n".to_vec(),
    })
    .await;
    let (folder, outside) = folder(&[("token", "old")]);
    let mut plan = plan(&[&server.url()]);
    plan.credentials = secret();
    let endpoints = endpoints(plan, &outside);
    let mut first = endpoints.session();
    let reply = first.send(&get("/")).await.unwrap();
    assert_eq!(reply.status(), 401);
    assert!(reply.headers().iter().all(|(name, _)| name != "www-authenticate"), "{:?}", reply.headers());
    assert_eq!(server.heads().len(), 1, "the same credential is not sent again");
    write(folder.path(), "token", "new");
    // The host reads the Secret again once in a call. The next call begins with the value that was read last, and reads
    // again when the server refuses it.
    assert_eq!(first.send(&get("/")).await.unwrap().status(), 401);
    let reply = endpoints.session().send(&get("/")).await.unwrap();
    assert_eq!(text(reply).await.unwrap(), "good");
    assert!(server.heads().pop().unwrap().contains("Bearer new"));
}

#[tokio::test]
async fn a_missing_credential_says_what_is_missing() {
    let server = Wire::saying("127.0.0.2", "good").await;
    let (_folder, outside) = folder(&[("username", "canary-user-1234")]);
    let mut wanting = plan(&[&server.url()]);
    wanting.credentials = secret();
    let mut session = session(wanting.clone(), &outside);
    let before = outside.metrics.denials(&super::source(), Denial::Credential);
    let error = session.send(&get("/")).await.err().unwrap();
    denied(&error, Denial::Credential, &outside, before);
    assert_eq!(error.to_string(), "the Secret ns/fabric: it needs the key `token`");
    assert_eq!(session.lacks(), Some("the Secret ns/fabric: it needs the key `token`"));
    let error = super::session(wanting, &Outside::offline()).credential("fabric").await.unwrap_err();
    assert!(error.to_string().contains("cannot be read without a cluster"), "{error}");
    assert_eq!(server.heads(), Vec::<String>::new());
}

#[tokio::test]
async fn a_server_cannot_tell_a_plugin_what_it_was_sent() {
    let server = Wire::at("127.0.0.2", |head| {
        let sent = head.lines().find(|line| line.starts_with("authorization")).unwrap_or_default().to_owned();
        ok(&format!("x-echo: {sent}\r\nx-other: fine\r\n"), format!("before {sent} after").as_bytes())
    })
    .await;
    for (kind, keys) in [
        (CredentialKind::Bearer, vec![("token", CANARY)]),
        (CredentialKind::Basic, vec![("username", "admin"), ("password", CANARY)]),
    ] {
        let (_folder, outside) = folder(&keys);
        let mut plan = plan(&[&server.url()]);
        (plan.credentials, plan.kinds) = (secret(), vec![kind]);
        let reply = session(plan, &outside).send(&get("/")).await.unwrap();
        let names: Vec<_> = reply.headers().iter().map(|(name, _)| name.clone()).collect();
        assert_eq!(names, ["content-length", "x-other"]);
        let error = text(reply).await.unwrap_err();
        assert!(matches!(&error, Error::Protocol(_)), "{error:?}");
        assert!(error.to_string().contains("repeats the credential") && !error.to_string().contains(CANARY), "{error}");
    }
}

#[tokio::test]
async fn it_is_recognised_in_every_form_that_text_takes() {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};
    let password = "p\"a\\s/s?w>o~r d+9";
    for form in [
        password.to_owned(),
        serde_json::Value::from(password).to_string(),
        "p%22a%5Cs%2Fs%3Fw%3Eo~r%20d%2B9".to_owned(),
        STANDARD.encode(password),
        STANDARD_NO_PAD.encode(password),
        URL_SAFE.encode(password),
        STANDARD.encode(format!("admin:{password}")),
    ] {
        let shown = form.clone();
        let server = Wire::at("127.0.0.2", move |_| ok("", format!("before {shown} after").as_bytes())).await;
        let (_folder, outside) = folder(&[("username", "admin"), ("password", password)]);
        let mut plan = plan(&[&server.url()]);
        (plan.credentials, plan.kinds) = (secret(), vec![CredentialKind::Basic]);
        let reply = session(plan, &outside).send(&get("/")).await.unwrap();
        let error = text(reply).await.unwrap_err();
        assert!(error.to_string().contains("repeats the credential"), "{form}: {error}");
    }
}

#[tokio::test]
async fn a_token_that_stands_in_the_configuration_works() {
    let server = Wire::saying("127.0.0.2", "good").await;
    let mut plan = plan(&[&server.url()]);
    plan.credentials = Some(Credentials::Token(topoloom::endpoints::credential::Hidden::new(CANARY.into())));
    session(plan.clone(), &Outside::offline()).send(&get("/")).await.unwrap();
    assert!(server.heads().pop().unwrap().contains(&format!("authorization: Bearer {CANARY}\r\n")));
    assert!(!format!("{plan:?}").contains(CANARY));
}
