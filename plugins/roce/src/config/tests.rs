//! Configurations as people write them, and what they mean.

use super::*;
use crate::lldp::Protocols;

fn good(text: &str) -> Config {
    Config::from_json(text).unwrap_or_else(|problems| panic!("{text}: {problems:?}"))
}

fn problems(text: &str) -> Vec<String> {
    Config::from_json(text).unwrap_err().iter().map(ToString::to_string).collect()
}

fn notes(text: &str) -> Vec<&'static str> {
    good(text).settings.notes.iter().map(|note| note.code).collect()
}

#[test]
fn an_empty_configuration_reads_the_annotation() {
    for text in ["{}", "null"] {
        let config = good(text);
        assert_eq!(config.annotation.as_deref(), Some(ANNOTATION));
        assert!(config.endpoints.is_empty() && config.config_map.is_none());
        assert_eq!(config.max_age, 24 * 60 * 60 * 1000);
        assert_eq!((config.rules.protocols, config.identity), (Protocols::Lldp, Identity::Auto));
    }
}

#[test]
fn every_key_is_read_in_any_case() {
    let config = good(
        r#"{"Carriers": ["http", "ANNOTATION", "configMap"], "endpoint": "fabric.example:9090/base/", "annotation": "acme.com/links",
            "configMap": {"namespace": "net", "name": "wiring", "key": "f.json"},
            "interfaces": {"include": ["^rdma"], "exclude": []}, "switches": {"exclude": "(?i)oob", "Identity": "Name"},
            "roles": ["compute", "Storage"], "maxAge": "48h", "allowCdp": true, "insecureSkipVerify": true,
            "caBundle": "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----", "serverName": "fabric.example",
            "similarity": 0.6, "tierNames": ["leaf"], "guidAnnotation": "acme.com/guids"}"#,
    );
    assert_eq!(config.endpoints, ["https://fabric.example:9090/base"]);
    assert_eq!(config.annotation.as_deref(), Some("acme.com/links"));
    assert_eq!(config.config_map_name(), "ConfigMap net/wiring, key f.json");
    assert_eq!((config.rules.include.len(), config.rules.exclude.len(), config.exclude_switches.len()), (1, 0, 1));
    assert_eq!((config.rules.roles.len(), config.identity), (2, Identity::Name));
    assert_eq!(config.max_age, 48 * 60 * 60 * 1000);
    assert_eq!(config.rules.protocols, Protocols::LldpAndCdp);
    assert!(config.tls.insecure_skip_verify && config.tls.ca_bundle.is_some());
    assert_eq!(config.tls.server_name.as_deref(), Some("fabric.example"));
    assert_eq!((config.settings.similarity, config.settings.tier_names.len()), (0.6, 1));
    assert!(config.settings.notes.is_empty());
}

#[test]
fn a_key_of_a_carrier_turns_it_on() {
    let carriers = |text: &str| {
        let config = good(text);
        (!config.endpoints.is_empty(), config.annotation.is_some(), config.config_map.is_some())
    };
    assert_eq!(carriers(r#"{"endpoint": "https://a"}"#), (true, false, false));
    assert_eq!(carriers(r#"{"endpoints": ["a:1", "http://b"], "annotation": "x"}"#), (true, true, false));
    assert_eq!(carriers(r#"{"configMap": "wiring"}"#), (false, false, true));
    assert_eq!(
        carriers(r#"{"carriers": ["configMap"], "configMap": "wiring", "endpoint": "a"}"#),
        (false, false, true)
    );
    assert_eq!(good(r#"{"configMap": "wiring"}"#).config_map.unwrap().key, KEY);
}

#[test]
fn an_endpoint_without_a_scheme_means_https() {
    for (text, expected) in [
        ("fabric", "https://fabric"),
        ("fabric:9090/", "https://fabric:9090"),
        ("http://[::1]:80/x", "http://[::1]:80/x"),
        ("https://fabric", "https://fabric"),
    ] {
        assert_eq!(good(&format!(r#"{{"endpoint": "{text}"}}"#)).endpoints, [expected]);
    }
}

#[test]
fn surprises_are_noted() {
    assert_eq!(notes(r#"{"colour": "red", "interfaces": {"only": []}}"#), ["unknown-key", "unknown-key"]);
    assert_eq!(notes(r#"{"endpoint": "http://a"}"#), ["no-tls"]);
    assert_eq!(notes(r#"{"carriers": "annotation", "endpoint": "a"}"#), ["unused-key"]);
    // Taken out by the host. Where one leaves it in, its value is not repeated.
    let config = good(r#"{"token": "s3cret"}"#);
    assert!(!format!("{:?}", config.settings.notes).contains("s3cret"));
}

#[test]
fn a_name_on_a_certificate_is_a_host_name_or_an_address() {
    assert_eq!(good(r#"{"endpoint": "a", "serverName": "10.0.0.1"}"#).tls.server_name.as_deref(), Some("10.0.0.1"));
    let shown = problems(r#"{"endpoint": "a", "serverName": "foo bar", "guidAnnotation": "a b"}"#);
    assert!(shown[0].starts_with("serverName: \"foo bar\" is neither a host name nor an IP address"), "{shown:?}");
    assert!(shown[1].starts_with("guidAnnotation: \"a b\" is not an annotation key"), "{shown:?}");
}

#[test]
fn every_mistake_is_reported_at_once_with_its_place() {
    let problems = problems(
        r#"{"carriers": ["gnmi", "http", "http", "configMap"], "endpoints": ["ftp://a", "https://u:p@b", "c?d", ""],
            "annotation": "a/b/c", "configMap": {"namespace": "a.b", "key": "a/b"},
            "interfaces": {"include": ["("], "exclude": 7}, "switches": [], "roles": ["spare"], "maxAge": "1s",
            "allowCdp": "maybe", "insecureSkipVerify": 2, "caBundle": "none", "serverName": "_", "similarity": 7}"#,
    );
    let paths: Vec<&str> = problems.iter().map(|problem| problem.split(": ").next().unwrap()).collect();
    let expected = [
        "carriers[0]",
        "carriers[2]",
        "endpoints[0]",
        "endpoints[1]",
        "endpoints[2]",
        "endpoints[3]",
        "annotation",
        "configMap.namespace",
        "configMap.key",
        "configMap",
        "interfaces.include[0]",
        "switches",
        "roles[0]",
        "maxAge",
        "allowCdp",
        "insecureSkipVerify",
        "caBundle",
        "serverName",
        "similarity",
        "endpoint",
        "configMap",
    ];
    assert_eq!(paths, expected, "{problems:#?}");
    assert!(!problems.iter().any(|problem| problem.contains("u:p")), "a password is shown");
}

#[test]
fn a_carrier_needs_its_place() {
    assert_eq!(problems(r#"{"carriers": ["http"]}"#), ["endpoint: missing, but the carrier http is on"]);
    assert_eq!(
        problems(r#"{"carriers": []}"#),
        ["carriers: no carrier is on: http, annotation or configMap is expected"]
    );
    assert_eq!(problems(r#"{"endpoint": []}"#), ["endpoint: no endpoint, but the carrier http is on"]);
    assert_eq!(problems(r#"{"endpoint": "a", "endpoints": "b"}"#).len(), 1);
    assert!(problems(r#"{"compat": "volcano"}"#)[0].starts_with("compat: "));
    assert_eq!(problems("[]"), ["expected a mapping, found a list"]);
}

#[test]
fn interfaces_that_are_no_cables_are_left_out_by_default() {
    let excluded = |config: &Config, name: &str| config.rules.exclude.iter().any(|regex| regex.is_match(name));
    let config = good("{}");
    for name in ["lo", "bond0", "br0", "docker0", "veth1a2b", "pf0hpf", "pf0vf12", "cilium_host"] {
        assert!(excluded(&config, name), "{name}");
    }
    for name in ["eth0", "rdma0", "ens1f0np0", "enp3s0f1", "mlx5_0", "ib0"] {
        assert!(!excluded(&config, name), "{name}");
    }
    assert!(!excluded(&good(r#"{"interfaces": {"exclude": ["^eth0$"]}}"#), "bond0"));
}

#[test]
fn the_schema_knows_every_key() {
    let schema: serde_json::Value = serde_json::from_str(include_str!("../schema.json")).unwrap();
    let known = schema["properties"].as_object().unwrap();
    for key in [
        "carriers",
        "endpoint",
        "endpoints",
        "annotation",
        "configMap",
        "interfaces",
        "switches",
        "roles",
        "maxAge",
        "allowCdp",
        "insecureSkipVerify",
        "caBundle",
        "serverName",
        "similarity",
        "tierNames",
        "maxTier",
        "levels",
        "downGrace",
        "includeDown",
        "root",
        "hostMap",
        "rewrite",
        "ignoreHosts",
        "guidAnnotation",
    ] {
        assert!(known.contains_key(key), "{key}");
    }
    assert_eq!(known.len(), 24, "a key that is not read");
}

#[test]
fn what_makes_a_switch_itself_is_one_of_three_words() {
    for (text, identity) in [("auto", Identity::Auto), ("chassis", Identity::Chassis), ("name", Identity::Name)] {
        assert_eq!(good(&format!(r#"{{"switches": {{"identity": "{text}"}}}}"#)).identity, identity);
    }
    for (value, shown) in [(r#""mac""#, r#""mac""#), ("true", "true"), ("[]", "a list")] {
        let expected = format!(r#"switches.identity: expected "auto", "chassis" or "name", found {shown}"#);
        assert_eq!(problems(&format!(r#"{{"switches": {{"identity": {value}}}}}"#)), [expected]);
    }
}
