//! The larger parts of an entry: plugin, permissions, endpoints, limits, safety.

use super::*;
use crate::config::permissions::NodeNames;
use crate::config::tuning::EmptyResult;
use crate::config::{PluginOrigin, Profile};
use crate::endpoints::spec::{
    AddressRule, CaBundle, Carrier, Endpoint, GivenTimeouts, Network, Redirects, Verification,
};
use topoloom_core::plugin::{Amount, KeyPattern, Limit, LimitSetting, Method};

fn plugin(lines: &str) -> String {
    let plugin = config(lines).plugin;
    let origin = match plugin.origin {
        PluginOrigin::Installed(name) => format!("installed {name}"),
        PluginOrigin::Builtin(name) => format!("builtin {name}"),
        PluginOrigin::File(path) => format!("file {}", path.display()),
        PluginOrigin::ConfigMap(it) => format!("map {}/{}/{}", it.namespace.unwrap_or_default(), it.name, it.key),
        PluginOrigin::Oci(it) => {
            let secret = it.pull_secret.map(|it| format!("{}/{}", it.namespace.unwrap_or_default(), it.name));
            format!("{} by {}, {} rules", it.reference, secret.unwrap_or_default(), it.addresses.len())
        }
    };
    format!("{origin}, named {}", plugin.expected_name.as_deref().unwrap_or("anything"))
}

#[test]
fn the_source_names_the_plugin_unless_something_else_does() {
    for (lines, wanted) in [
        ("", "installed label, named label"),
        ("discoverer: ufm", "installed ufm, named ufm"),
        ("plugin: {builtin: ufm}", "builtin ufm, named ufm"),
        ("plugin: {builtin: ufm}\ndiscoverer: ufm", "builtin ufm, named ufm"),
        ("plugin: {file: /plugins/a.wasm}", "file /plugins/a.wasm, named anything"),
        ("plugin: {file: /plugins/a.wasm}\ndiscoverer: acme", "file /plugins/a.wasm, named acme"),
        ("plugin: {configMap: {name: a, key: b.wasm}}", "map /a/b.wasm, named anything"),
        ("plugin: {configMap: {namespace: n, name: a, key: b}}", "map n/a/b, named anything"),
        ("plugin: {oci: {ref: 'oci://r.example/a:1'}}", "oci://r.example/a:1 by , 0 rules, named anything"),
        (
            "plugin: {oci: {ref: 'oci://r.example/a:1', pullSecret: s, addresses: [private]}}\ndiscoverer: acme",
            "oci://r.example/a:1 by /s, 1 rules, named acme",
        ),
        (
            "plugin: {oci: {ref: 'oci://r.example/a:1', pullSecret: {namespace: n, name: s}}}",
            "oci://r.example/a:1 by n/s, 0 rules, named anything",
        ),
        ("plugin: {}", "installed label, named label"),
    ] {
        assert_eq!(plugin(lines), wanted, "{lines}");
    }
    refused("plugin: {builtin: ufm}\ndiscoverer: label", &["discoverer: `label` and plugin.builtin `ufm`"]);
    refused("plugin: {builtin: ufm, file: /a}", &["plugin: at most one of builtin, file, configMap and oci"]);
    refused("plugin: {file: a.wasm}", &["plugin.file: must be an absolute path"]);
    refused("plugin: {configMap: {name: a}}", &["plugin.configMap: needs a name and a key"]);
    refused("plugin: {configMap: {name: A, key: b}}", &["plugin.configMap.name: must be the name of an object"]);
    refused("plugin: {oci: {pullSecret: s}}", &["plugin.oci: needs a ref"]);
    refused("plugin: {oci: {ref: 'a:1'}}", &["plugin.oci.ref: must be oci://"]);
    refused("plugin: {oci: {ref: 'oci://a/b'}}", &["plugin.oci.ref: must be oci://"]);
    refused("plugin: {oci: {ref: 'oci://a/b:1', pullSecret: A}}", &["plugin.oci.pullSecret: must be the name"]);
    refused("plugin: {oci: {ref: 'oci://a/b:1', pullSecret: {}}}", &["plugin.oci.pullSecret: needs a name"]);
    refused("plugin: {oci: {ref: 'oci://a/b:1', addresses: [home]}}", &["plugin.oci.addresses[0]: must be private"]);
    refused(
        "plugin: {oci: {ref: 'oci://a/b:1', insecureSkipVerify: true}}",
        &["plugin.oci.insecureSkipVerify: is not"],
    );
    refused("plugin: {digest: 'md5:1'}", &["plugin.digest: must be `sha256:` and 64"]);
    refused("plugin: {image: a}", &["plugin.image: is not known here"]);
    refused("discoverer: A_b", &["discoverer: must be a plugin's name"]);
}

#[test]
fn key_patterns_are_keys_or_prefixes() {
    for (pattern, key, granted) in [
        ("example.com/rack", "example.com/rack", true),
        ("example.com/rack", "example.com/rack2", false),
        ("example.com/*", "example.com/rack", true),
        ("example.com/*", "example.com", false),
    ] {
        let parsed = KeyPattern::parse(pattern).unwrap_or_else(|| panic!("{pattern}"));
        assert_eq!(parsed.matches(key), granted, "{pattern} {key}");
        assert_eq!(parsed.to_string(), pattern);
    }
    for pattern in ["", "a b", "*", "zone*", "*/a", "a*b", "**", "a/b/*", "a/b*", "Example.com/*", "/*"] {
        assert_eq!(KeyPattern::parse(pattern), None, "{pattern}");
    }
}

#[test]
fn permissions_default_to_nothing() {
    let permissions = config("permissions: {}").permissions.unwrap();
    assert_eq!(permissions, Default::default());
    let permissions =
        config("permissions: {nodeLabels: [a], nodeAnnotations: [b/c], nodeNames: true}").permissions.unwrap();
    assert_eq!(permissions.node_names, NodeNames::Visible);
    assert_eq!((permissions.node_labels.len(), permissions.node_annotations.len()), (1, 1));
    refused("permissions: {nodeLabels: a}", &["permissions.nodeLabels: must be a list"]);
    refused("permissions: {nodeLabels: [a, 'b c']}", &["permissions.nodeLabels[1]: must be a label key"]);
    refused("permissions: {nodelabels: [a]}", &["permissions.nodelabels: is not known here"]);
    refused("permissions: {endpoints: {A: {url: 'http://a'}}}", &["permissions.endpoints.A: an endpoint's name"]);
}

fn endpoint(fields: &str) -> Endpoint {
    config(&format!("permissions: {{endpoints: {{e: {{{fields}}}}}}}")).permissions.unwrap().endpoints["e"].clone()
}

#[track_caller]
fn refused_endpoint(fields: &str, words: &str) {
    refused(&format!("permissions: {{endpoints: {{e: {{{fields}}}}}}}"), &["permissions.endpoints.e", words]);
}

#[test]
fn an_endpoint_has_one_carrier() {
    let urls = |fields| match endpoint(fields).carrier {
        Some(Carrier::Urls(urls)) => urls.iter().map(|url| url.uri().to_string()).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(urls("url: 'https://h:1/api/'"), ["https://h:1/api/"]);
    assert_eq!(urls("urls: ['https://a', 'http://[fd00::1]:80']"), ["https://a/", "http://[fd00::1]:80/"]);
    assert!(matches!(endpoint("configMap: {name: a, key: b}").carrier, Some(Carrier::ConfigMap(_))));
    assert!(matches!(endpoint("file: /etc/fabric.json").carrier, Some(Carrier::File(_))));
    // A plugin that comes with the host may say where it is.
    assert_eq!(endpoint("methods: [GET]").carrier, None);
    assert_eq!(endpoint("urls: []").carrier, None);
    refused_endpoint("url: 'https://a', file: /b", "at most one of");
    refused_endpoint("file: /b, tls: {}", "tls: has a meaning only for `url` and `urls`");
    refused_endpoint("url: nowhere", "a URL begins with");
}

#[test]
fn urls_are_checked_and_never_repeated() {
    for url in [
        "https://user:canary@h/",
        "https://h/?token=canary",
        "https://h/#canary",
        "ftp://canary/",
        "canary",
        "https://",
        "https://h/a/../canary",
        "https://h/%2e%2e/canary",
        "https://h/canary%2Fx",
        "//canary/",
        "https://can ary/",
        "https://canary:99999/",
        "https://canary:0/",
        "https://canary:abc/",
        "https://[fd00::1]:70000/canary",
    ] {
        let errors = errors(&format!("permissions: {{endpoints: {{e: {{url: '{url}'}}}}}}"));
        assert!(errors.iter().any(|error| error.contains("endpoints.e.url")), "{url}: {errors:#?}");
        assert!(!format!("{errors:?}").contains("canary"), "{errors:#?}");
    }
}

#[test]
fn endpoint_fields_have_safe_defaults_and_ranges() {
    let plain = endpoint("url: 'https://h'");
    assert_eq!(plain.methods, [Method::Get].into());
    assert_eq!(plain.paths, ["/"]);
    assert_eq!(
        (plain.addresses.len(), plain.redirects, plain.tls.verification),
        (0, Redirects::None, Verification::Full)
    );
    assert_eq!((plain.timeouts, plain.max_body), (GivenTimeouts::default(), None));

    let full = endpoint(
        "url: 'https://h', methods: [get, POST], paths: [/a, /b/], addresses: [private, loopback, 10.1.0.0/16], \
         tls: {caBundle: {configMap: {name: ca, key: ca.crt}}, serverName: Fabric.Example, insecureSkipVerify: true}, \
         timeouts: {connect: 1s, firstByte: 2s, total: 3s}, maxBody: 1Gi, redirects: same-host, \
         credentials: {secretRef: {name: s}}",
    );
    assert_eq!(full.methods, [Method::Get, Method::Post].into());
    assert_eq!(full.addresses[..2], [AddressRule::Private, AddressRule::Loopback]);
    assert!(matches!(full.tls.ca_bundle, Some(CaBundle::ConfigMap(_))));
    assert_eq!((full.redirects, full.tls.verification), (Redirects::SameHost, Verification::Skipped));
    assert!(matches!(endpoint("url: 'https://h', tls: {caBundle: 'PEM'}").tls.ca_bundle, Some(CaBundle::Inline(_))));

    for (fields, words) in [
        ("methods: [CONNECT]", "methods[0]: must be GET"),
        ("paths: [a]", "paths[0]: must begin with `/`"),
        ("paths: [/a/../b]", "paths[0]: must begin"),
        ("addresses: [public]", "addresses[0]: must be private, loopback"),
        ("addresses: [10.0.0.0/33]", "addresses[0]"),
        ("timeouts: {total: 1h}", "timeouts.total: must be between 100ms and 10m"),
        ("maxBody: 2Gi", "maxBody: must be a size between 1Ki and 1Gi"),
        ("maxBody: 64mi", "maxBody: must be a size"),
        ("redirects: all", "redirects: must be none or same-host"),
        ("tls: {verify: no}", "tls.verify: is not known here"),
        ("tls: {caBundle: {}}", "tls.caBundle: must have exactly one of"),
        ("tls: {serverName: 'a b'}", "tls.serverName: must be a host name"),
    ] {
        refused_endpoint(&format!("url: 'https://h', {fields}"), words);
    }
}

#[test]
fn credentials_over_plain_http_are_pointed_out() {
    let lines = "permissions: {endpoints: {e: {url: 'http://h', credentials: {secretRef: {name: s}}}}}";
    assert!(warnings(lines)[0].contains("sent unencrypted"));
}

#[test]
fn networks_contain_their_addresses() {
    for (network, address, inside) in [
        ("10.0.0.0/8", "10.255.0.1", true),
        ("10.0.0.0/8", "11.0.0.1", false),
        ("10.0.0.0/8", "::ffff:10.0.0.1", true),
        ("10.1.2.3", "10.1.2.3", true),
        ("10.1.2.3", "10.1.2.4", false),
        ("0.0.0.0/0", "8.8.8.8", true),
        ("0.0.0.0/0", "fd00::1", false),
        ("fd00::/8", "fdff::1", true),
        ("fd00::/8", "fe00::1", false),
        ("::1", "::1", true),
        ("::ffff:10.0.0.0/104", "10.9.9.9", true),
        ("::ffff:10.0.0.0/104", "11.9.9.9", false),
    ] {
        let parsed = Network::parse(network).unwrap_or_else(|| panic!("{network}"));
        assert_eq!(parsed.contains(address.parse().unwrap()), inside, "{network} {address}");
    }
    for text in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "10.0.0.0/", "10.0.0.0/-1", "a/8"] {
        assert_eq!(Network::parse(text), None, "{text}");
    }
}

#[test]
fn limits_are_overrides_with_ranges() {
    let limits = config("limits: {memory: 512Mi, cpu: 2s, timeout: 1m, maxResult: 1Mi, profile: large}").limits;
    assert_eq!(limits.get(Limit::Memory), Some(Amount::mib(512)));
    assert_eq!((limits.get(Limit::Cpu), limits.profile), (Some(Amount::seconds(2)), Profile::Large));
    let applied = limits.applied();
    assert_eq!((applied.store.memory, applied.call.transfer, applied.scan.file), (512 << 20, 1 << 20, 32 << 20));
    assert_eq!(config("limits: {}").limits, Default::default());
    refused("limits: {memory: 8Gi}", &["limits.memory: must be a size between 1Mi and 4Gi, such as 256Mi"]);
    refused("limits: {memory: lots}", &["limits.memory: must be a size", "\"lots\""]);
    refused("limits: {cpu: 1ms}", &["limits.cpu: must be between 10ms and 10m"]);
    refused("limits: {timeout: 5}", &["limits.timeout", "has no unit"]);
    refused("limits: {requests: 0}", &["limits.requests: must be an integer between 1 and 100000"]);
    refused("limits: {compileMemory: 8Gi}", &["limits.compileMemory: must be a size between 16Mi and 4Gi"]);
    refused("limits: {profile: huge}", &["limits.profile: must be standard or large"]);
    refused("limits: {mem: 1Gi}", &["limits.mem: is not known here"]);
    refused("limits: 5", &["limits: must be a mapping, not a number"]);
}

#[test]
fn every_limit_with_a_key_is_read() {
    for limit in Limit::ALL {
        let LimitSetting::Entry { key, low, high } = limit.row().setting else { continue };
        for amount in [low, high] {
            assert_eq!(config(&format!("limits: {{{key}: {amount}}}")).limits.get(*limit), Some(amount), "{key}");
        }
        let more = match high {
            Amount::Bytes(bytes) => Amount::Bytes(bytes + 1),
            Amount::Time(time) => Amount::Time(time + std::time::Duration::from_secs(1)),
            other => Amount::Count(other.number() + 1),
        };
        refused(&format!("limits: {{{key}: {more}}}"), &[&format!("limits.{key}: must be "), "between"]);
    }
}

#[test]
fn safety_has_ranges() {
    let safety =
        config("safety: {maxDeletePercent: 100, maxLosePercent: 0, confirmations: 5, holdFor: 2h, allowEmpty: yes}")
            .safety;
    assert_eq!((safety.max_delete_percent, safety.max_lose_percent, safety.confirmations), (100, 0, 5));
    assert_eq!((safety.hold_for.map(|it| it.as_secs()), safety.empty), (Some(7200), EmptyResult::ConfirmByTime));
    refused(
        "safety: {maxDeletePercent: 101}",
        &["safety.maxDeletePercent: must be an integer between 0 and 100, not the number 101"],
    );
    refused("safety: {maxDeletePercent: 50%}", &["safety.maxDeletePercent", "\"50%\""]);
    refused("safety: {maxLosePercent: -1}", &["safety.maxLosePercent"]);
    refused("safety: {confirmations: 1}", &["safety.confirmations: must be an integer between 2 and 10"]);
    refused("safety: {holdFor: 1000h}", &["safety.holdFor: must be between 1s and 168h"]);
    refused("safety: {allowEmpty: 'true'}", &["safety.allowEmpty: must be true or false without quotes"]);
    refused("safety: {maxDeletPercent: 10}", &["safety.maxDeletPercent: is not known here"]);
}
