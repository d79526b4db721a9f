//! From what an operator writes about an endpoint, beside what the plugin wishes, to the plan of its calls.

use std::collections::BTreeMap;
use std::time::Duration;

use topoloom_core::plugin::grant::Origin;
use topoloom_core::plugin::{
    CredentialKind, Endpoint as Wish, EndpointPermission, GrantedEndpoint, Location, Method, Tls as WishedTls,
};

use crate::config;
use crate::endpoints::plan::{EntryTerms, Plan, Usual, plan};
use crate::endpoints::spec::{AddressRule, CaBundle, Carrier, Credentials, Endpoint as Word, SecretRef, Verification};

fn wish(location: Location) -> GrantedEndpoint {
    let required = Wish {
        name: "fabric".into(),
        purpose: String::new(),
        location,
        methods: vec![Method::Get],
        paths: vec!["/v1".into()],
        tls: WishedTls { ca_bundle: Some("wished".into()), server_name: None, insecure_skip_verify: false },
        credentials: vec![CredentialKind::Bearer],
    };
    let permission = EndpointPermission { methods: [Method::Get].into(), paths: vec!["/v1".into()] };
    GrantedEndpoint { required, permission }
}

fn urls(url: &str) -> Location {
    Location::Urls(vec![url.to_owned()])
}

/// The operator's words about endpoints.
fn words(yaml: &str) -> BTreeMap<String, Word> {
    let text = format!(
        "networkTopologyDiscovery:\n- source: a\n  enabled: true\n  permissions: {{endpoints: {{fabric: {{{yaml}}}}}}}\n"
    );
    let document = config::parse(&text).unwrap();
    let entry = document.entries[0].config.as_ref().unwrap_or_else(|problems| panic!("{problems:?}"));
    entry.permissions.as_ref().unwrap().endpoints.clone()
}

fn planned(origin: Origin, wish: &GrantedEndpoint, yaml: Option<&str>) -> Result<Plan, String> {
    planned_among(origin, wish, yaml, 1)
}

fn planned_among(origin: Origin, wish: &GrantedEndpoint, yaml: Option<&str>, among: usize) -> Result<Plan, String> {
    let words = yaml.map(words).unwrap_or_default();
    let secret = Credentials::Secret(SecretRef { name: "of-entry".into(), namespace: None });
    let usual = Usual { total: Duration::from_secs(7), max_body: 1000 };
    plan(wish, &EntryTerms { origin, word: words.get("fabric"), credentials: Some((&secret, among)), usual })
}

#[test]
fn the_wish_of_embedded_bytes_is_the_grant() {
    let plan = planned(Origin::Embedded, &wish(urls("https://a:1/x")), None).unwrap();
    let Carrier::Urls(found) = &plan.carrier else { panic!("{plan:?}") };
    assert_eq!(found[0].uri().to_string(), "https://a:1/x");
    assert_eq!(plan.addresses, [AddressRule::Private], "fabric managers stand in private networks");
    assert_eq!(plan.tls.ca_bundle, Some(CaBundle::Inline("wished".into())));
    assert_eq!((plan.timeouts.total.as_secs(), plan.max_body), (7, 1000));
    assert!(matches!(plan.credentials, Some(Credentials::Secret(secret)) if secret.name == "of-entry"));
}

#[test]
fn the_operator_may_change_any_part_of_it() {
    let word = "addresses: [loopback], tls: {serverName: b, insecureSkipVerify: true}, timeouts: {connect: 1s}, \
                maxBody: 2Ki, credentials: {secretRef: {name: own}}";
    let plan = planned(Origin::Embedded, &wish(urls("https://a")), Some(word)).unwrap();
    assert!(matches!(plan.carrier, Carrier::Urls(_)), "it is where the wish says");
    assert_eq!(plan.addresses, [AddressRule::Loopback]);
    assert_eq!(plan.tls.ca_bundle, Some(CaBundle::Inline("wished".into())));
    assert_eq!((plan.tls.server_name.as_deref(), plan.tls.verification), (Some("b"), Verification::Skipped));
    assert_eq!((plan.timeouts.connect.as_secs(), plan.timeouts.total.as_secs(), plan.max_body), (1, 7, 2048));
    assert!(matches!(plan.credentials, Some(Credentials::Secret(secret)) if secret.name == "own"));
    let elsewhere = planned(Origin::Embedded, &wish(urls("https://a")), Some("file: /b")).unwrap();
    assert!(matches!(elsewhere.carrier, Carrier::File(_)));
}

#[test]
fn of_others_only_the_operators_word_counts() {
    let refused = planned(Origin::Foreign, &wish(urls("https://evil")), Some("methods: [GET]")).unwrap_err();
    assert_eq!(refused, "permissions.endpoints.fabric: must have one of url, urls, configMap and file");
    let plan = planned(Origin::Foreign, &wish(urls("https://evil")), Some("url: 'https://good'")).unwrap();
    let Carrier::Urls(found) = &plan.carrier else { panic!("{plan:?}") };
    assert_eq!(found[0].uri().host(), Some("good"));
    assert_eq!((plan.addresses.len(), plan.tls.ca_bundle, plan.credentials), (0, None, None));
}

#[test]
fn a_wish_that_is_no_place_says_so_without_repeating_it() {
    let refused = |location| planned(Origin::Embedded, &wish(location), None).unwrap_err();
    let error = refused(urls("https://user:canary@a"));
    assert!(error.starts_with("the endpoint fabric: ") && !error.contains("canary"), "{error}");
    assert_eq!(refused(Location::Urls(Vec::new())), "the endpoint fabric has no URL");
    assert!(refused(Location::Granted).contains("permissions.endpoints.fabric"));
}

#[test]
fn a_credential_of_the_entry_goes_to_one_endpoint_only() {
    let wish = wish(urls("https://a"));
    let error = planned_among(Origin::Embedded, &wish, None, 2).unwrap_err();
    assert!(error.starts_with("permissions.endpoints.fabric.credentials: name a Secret"), "{error}");
    let own = planned_among(Origin::Embedded, &wish, Some("credentials: {secretRef: {name: own}}"), 2).unwrap();
    assert!(matches!(own.credentials, Some(Credentials::Secret(secret)) if secret.name == "own"));
    let mut open = wish;
    open.required.credentials.clear();
    assert_eq!(planned_among(Origin::Embedded, &open, None, 2).unwrap().credentials, None);
}

#[test]
fn no_pair_offers_the_credential_in_the_clear_as_a_second_choice() {
    let mixed = Location::Urls(vec!["https://a".into(), "http://b".into()]);
    let error = planned(Origin::Embedded, &wish(mixed), None).unwrap_err();
    assert!(error.contains("the credential unencrypted"), "{error}");
    assert!(planned(Origin::Embedded, &wish(urls("http://b")), None).unwrap().is_cleartext());
    assert!(!planned(Origin::Embedded, &wish(urls("https://b")), None).unwrap().is_cleartext());
}

#[test]
fn the_operator_may_narrow_what_embedded_bytes_ask_for() {
    let narrow = planned(Origin::Embedded, &wish(urls("https://a")), Some("methods: [POST], paths: [/v1/x]")).unwrap();
    assert!(narrow.methods.is_empty(), "{narrow:?}");
    assert_eq!((narrow.paths, narrow.narrowed), (vec!["/v1".to_owned()], vec!["/v1/x".to_owned()]));
}

#[test]
fn who_wants_no_credential_gets_none() {
    let mut open = wish(urls("https://a"));
    open.required.credentials.clear();
    assert_eq!(planned(Origin::Embedded, &open, None).unwrap().credentials, None);
}
