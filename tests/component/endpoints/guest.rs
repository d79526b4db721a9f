//! Endpoints as a real guest uses them: its requests, the answers that it gets, and the text of the errors.

use std::sync::{Arc, LazyLock};

use topoloom::config;
use topoloom::delivery::Module;
use topoloom::delivery::Refused;
use topoloom::discovery::revision::{Host, Revision, call_reason, prepare};
use topoloom::endpoints::vault::Vault;
use topoloom::endpoints::{Outside, Tape};
use topoloom::plugin::RoundInput;
use topoloom_api::condition::Reason;
use topoloom_api::discovery_source::PluginOrigin as Origin;
use topoloom_core::plugin::{Answered, CallError, Usage};
use topoloom_tests::guest;

use super::wire::{Wire, ok};
use crate::guests::{RUNTIME, nodes};

/// A discoverer that sends the requests that its configuration lists.
pub(crate) static CALLER: LazyLock<Arc<[u8]>> = LazyLock::new(|| {
    let module = guest::module("topoloom-guest-caller").unwrap();
    guest::component(&module).unwrap().into()
});

/// The caller with these endpoints granted and this configuration.
pub(crate) async fn revision(granted: &str, config: &str, outside: &Outside) -> Result<Revision, Refused> {
    let text = format!(
        "networkTopologyDiscovery:\n- source: caller\n  enabled: true\n  plugin: {{file: /caller.wasm}}\n  permissions: \
         {{endpoints: {granted}}}\n  config: {config}\n"
    );
    let document = config::parse(&text).unwrap();
    let entry = document.enabled().next().cloned();
    let entry = Arc::new(entry.unwrap_or_else(|| panic!("{:?}", document.errors().collect::<Vec<_>>())));
    let module = Arc::new(Module::plain(Arc::clone(&CALLER), Origin::File));
    prepare(Host::at_desk(&RUNTIME, outside), entry, module, None).await
}

/// One round: what it reports, or how it failed.
pub(crate) async fn round(revision: &Revision) -> (Result<Vec<String>, CallError>, Usage) {
    let round = RoundInput {
        config: Arc::clone(&revision.config),
        granted: Arc::clone(&revision.granted),
        endpoints: Arc::clone(&revision.endpoints),
        ..crate::guests::round("", nodes(1))
    };
    let call = revision.plugin.discover(&"caller".parse().unwrap(), round).await;
    let said = call.end.map(|answer| match answer.outcome {
        Answered::Topology(topology) => topology.diagnostics.into_iter().map(|said| said.detail).collect(),
        Answered::Unchanged => panic!("it said that nothing changed"),
    });
    (said, call.usage)
}

#[tokio::test]
async fn a_guest_gets_answers_and_typed_refusals() {
    let server = Wire::at("127.0.0.2", |_| ok("set-cookie: a=b\r\n", b"good")).await;
    let granted = format!("{{fabric: {{url: '{}', paths: [/v1], addresses: [127.0.0.2]}}}}", server.url());
    let config = "{wants: [{name: fabric, paths: [/v1]}], requests: [
        {endpoint: fabric, path: /v1/x}, {endpoint: fabric, path: /v2}, {endpoint: fabric, path: '/v1/../v2'},
        {endpoint: fabric, path: /v1, post: true}, {endpoint: fabric, path: /v1, headers: [[cookie, a]]},
        {endpoint: elsewhere, path: /v1}]}";
    let revision = revision(&granted, config, &Outside::offline()).await.unwrap();
    let said = round(&revision).await.0.unwrap();
    let begins = [
        "Ok(Credential::None)",
        "200 good 4 bytes Ok(4)",
        "Error::Denied(\"the path \\\"/v2\\\" of the endpoint fabric is not granted, only /v1\")",
        "Error::Denied(\"the path \\\"/v1/../v2\\\" is refused",
        "Error::Denied(\"POST is not granted",
        "Error::Denied(\"the header \\\"cookie\\\" belongs to the host",
        "Error::Denied(\"the endpoint \\\"elsewhere\\\" is not granted",
    ];
    assert_eq!(said.len(), begins.len(), "{said:#?}");
    for (said, begins) in said.iter().zip(begins) {
        assert!(said.starts_with(begins), "{said}\n{begins}");
    }
    assert_eq!(server.heads().len(), 1);
}

#[tokio::test]
async fn an_endpoint_that_is_not_granted_is_no_revision() {
    let config = "{wants: [{name: fabric, urls: ['https://evil.example']}]}";
    let refused = revision("{}", config, &Outside::offline()).await.unwrap_err();
    assert_eq!(refused.reason, Reason::PermissionDenied);
    assert!(refused.message.contains("calls the endpoint fabric"), "{}", refused.message);
    let refused = revision("{fabric: {methods: [GET]}}", config, &Outside::offline()).await.unwrap_err();
    assert!(refused.message.contains("permissions.endpoints.fabric: must have one of url"), "{}", refused.message);
}

#[tokio::test]
async fn a_missing_secret_is_the_hosts_word_whatever_the_guest_makes_of_it() {
    let granted = "{fabric: {url: 'https://fabric.example', credentials: {secretRef: {name: s, namespace: ns}}}}";
    let config = "{wants: [{name: fabric, credentials: [bearer]}], fail: true}";
    let empty = tempfile::tempdir().unwrap();
    let outside = Outside { vault: Vault::folder(empty.path().into()), ..Outside::offline() };
    let error = round(&revision(granted, config, &outside).await.unwrap()).await.0.unwrap_err();
    assert_eq!(call_reason(&error), Reason::CredentialsMissing, "{error}");
    assert!(error.to_string().starts_with("a credential is missing: "), "{error}");
}

#[tokio::test]
async fn what_was_recorded_answers_without_a_server_or_a_secret() {
    let server = Wire::saying("127.0.0.2", "recorded").await;
    let granted = format!(
        "{{fabric: {{url: '{}', addresses: [127.0.0.2], credentials: {{secretRef: {{name: s}}}}}}}}",
        server.url()
    );
    let config = "{wants: [{name: fabric, credentials: [token]}], requests: [{endpoint: fabric, path: /a}, {endpoint: fabric, path: '/..'}]}";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("token"), "canary-recording-7f21").unwrap();
    let recorder = topoloom::endpoints::recording::Recorder::default();
    let live = Outside {
        vault: Vault::folder(folder.path().into()),
        tape: Tape::Record(recorder.clone()),
        ..Outside::offline()
    };
    let first = round(&revision(&granted, config, &live).await.unwrap()).await.0.unwrap();
    assert!(first[1].starts_with("200 recorded"), "{first:?}");
    drop(server);
    let text = recorder.recording().print().unwrap();
    assert!(!text.contains("canary"), "{text}");
    let recording = topoloom::endpoints::recording::Recording::parse(&text).unwrap();
    let replay = topoloom::endpoints::recording::Replay::new(recording);
    let again = Outside { tape: Tape::Replay(Arc::new(replay)), ..Outside::offline() };
    assert_eq!(round(&revision(&granted, config, &again).await.unwrap()).await.0.unwrap(), first);
}
