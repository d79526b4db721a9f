//! Credentials of every kind, with a guest that returns everything it can read and a server that repeats everything it
//! receives. No credential is in the guest's answer, the recording, the metrics, or debug output.

use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use topoloom::config;
use topoloom::delivery::Module;
use topoloom::discovery::revision::{Host, prepare};
use topoloom::endpoints::metrics::Metrics;
use topoloom::endpoints::recording::Recorder;
use topoloom::endpoints::vault::Vault;
use topoloom::endpoints::{Outside, Tape};
use topoloom::plugin::RoundInput;
use topoloom_api::discovery_source::PluginOrigin as Origin;
use topoloom_simulator::{Authority, Validity};
use topoloom_tests::guest;

use super::wire::{Wire, ok};
use crate::guests::{RUNTIME, nodes};

static THIEF: LazyLock<Arc<[u8]>> = LazyLock::new(|| {
    let module = guest::module("topoloom-guest-thief").unwrap();
    guest::component(&module).unwrap().into()
});

const TOKEN: &str = "canary-token-61d0c2f7a9";
const PASSWORD: &str = "canary-password-8e42b7";

/// Repeats everything that it received, in every part of an answer.
async fn parrot() -> Wire {
    Wire::at("127.0.0.2", |head| {
        let told = head.lines().find(|line| line.starts_with("authorization")).unwrap_or("authorization: none");
        let secret = told.split(' ').next_back().unwrap_or_default();
        match head.split(' ').nth(1).unwrap_or_default() {
            "/echo" => ok("", head.as_bytes()),
            "/header" => ok(&format!("x-echo: {told}\r\netag: \"{secret}\"\r\nset-cookie: s={secret}\r\n"), b"x"),
            "/redirect" => format!(
                "HTTP/1.1 302 Found\r\nlocation: https://{secret}@127.0.0.2/{secret}?t={secret}\r\nwww-authenticate: \
                 {told}\r\ncontent-length: 0\r\n\r\n"
            )
            .into_bytes(),
            "/broken" => {
                format!("HTTP/1.1 200 OK {secret}\r\n{secret} {secret}\r\nconnection: close\r\n\r\n").into_bytes()
            }
            _ => ok("", b"nothing to say"),
        }
    })
    .await
}

/// What must not be found: the value, and the forms in which it is sent.
fn forms(secret: &str) -> Vec<String> {
    let base64 = base64::engine::general_purpose::STANDARD.encode(secret);
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("admin:{secret}"));
    vec![secret.to_owned(), base64, pair]
}

#[tokio::test]
async fn no_credential_comes_home_with_a_thief() {
    let server = parrot().await;
    let client = Authority::generate().unwrap().client("canary", Validity::Current).unwrap();
    let key_line = client.key.lines().nth(1).unwrap().to_owned();
    let kinds: [(&str, Vec<(&str, &str)>); 5] = [
        ("token", vec![("token", TOKEN)]),
        ("basic", vec![("username", "admin"), ("password", PASSWORD)]),
        ("mtls", vec![("tls.crt", &client.certificate), ("tls.key", &client.key)]),
        ("odd", vec![("token", "canary-token-61d0c2f7a9\r\nx: canary-token-61d0c2f7a9")]),
        ("half", vec![("tls.crt", "-----BEGIN canary-token-61d0c2f7a9"), ("tls.key", TOKEN)]),
    ];
    // The code of a plugin is there for as long as one of its revisions: the thief is compiled once.
    let mut first = None;
    for (kind, keys) in kinds {
        let folder = tempfile::tempdir().unwrap();
        for (name, value) in &keys {
            std::fs::write(folder.path().join(name), value).unwrap();
        }
        let recorder = Recorder::default();
        let mut registry = prometheus_client::registry::Registry::default();
        let outside = Outside {
            vault: Vault::folder(folder.path().into()),
            tape: Tape::Record(recorder.clone()),
            metrics: Metrics::register(&mut registry),
            ..Outside::offline()
        };
        for end in ["", "crash"] {
            let text = format!(
                "networkTopologyDiscovery:\n- source: thief\n  enabled: true\n  plugin: {{file: /thief.wasm}}\n  \
                 permissions: {{nodeNames: true, endpoints: {{fabric: {{url: '{}', addresses: [127.0.0.2], credentials: {{secretRef: \
                 {{name: s}}}}}}}}}}\n  config: {{endpoints: [fabric], guesses: [fabric], grow: 4, end: '{end}'}}\n",
                server.url()
            );
            let document = config::parse(&text).unwrap();
            let entry = Arc::new(document.enabled().next().cloned().unwrap());
            let module = Arc::new(Module::plain(Arc::clone(&THIEF), Origin::File));
            let revision = prepare(Host::at_desk(&RUNTIME, &outside), entry, module, None).await.unwrap();
            let round = RoundInput {
                config: Arc::clone(&revision.config),
                granted: Arc::clone(&revision.granted),
                endpoints: Arc::clone(&revision.endpoints),
                ..crate::guests::round("", nodes(1))
            };
            let call = revision.plugin.discover(&"thief".parse().unwrap(), round).await;
            let mut found = match &call.end {
                Ok(answer) => answer.state.clone(),
                Err(error) => format!("{error} {error:?}").into_bytes(),
            };
            assert_eq!(call.end.is_ok(), end.is_empty(), "{kind}: {:?}", call.end.err());
            found.extend(format!("{revision:?} {:?}", call.usage).into_bytes());
            found.extend(recorder.recording().print().unwrap().into_bytes());
            let mut counted = String::new();
            prometheus_client::encoding::text::encode(&mut counted, &registry).unwrap();
            found.extend(counted.into_bytes());
            for canary in [TOKEN, PASSWORD, &key_line] {
                for form in forms(canary) {
                    let is_there = memchr::memmem::find(&found, form.as_bytes()).is_some();
                    assert!(!is_there, "{kind} {end}: {form} was found");
                }
            }
            // The guest looked for secrets, and the server received the credential.
            if end.is_empty() && matches!(kind, "token" | "basic") {
                assert!(memchr::memmem::find(&found, b"nothing to say").is_some(), "{kind}");
                assert!(memchr::memmem::find(&found, b"repeats the credential").is_some(), "{kind}");
            }
            first.get_or_insert(revision);
        }
    }
    let told = server.heads().join("");
    assert!(
        forms(TOKEN).iter().any(|form| told.contains(form)) && forms(PASSWORD).iter().any(|form| told.contains(form))
    );
}
