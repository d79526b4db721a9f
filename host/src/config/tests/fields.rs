//! The plain fields of an entry: types, ranges, defaults.

use super::*;
use crate::config::{Compat, Mode};
use crate::endpoints::spec::{Credentials, SecretRef};
use std::time::Duration;
use topoloom_api::discovery_source::OnRemoval;

#[test]
fn defaults_are_those_of_volcano_and_of_the_decisions() {
    let entry = config("");
    assert_eq!(entry.interval, Duration::from_secs(3600));
    assert_eq!((entry.settle, entry.mode, entry.compat), (Duration::ZERO, Mode::Apply, None));
    assert_eq!((entry.on_removal, entry.credentials.clone(), entry.permissions.clone()), (OnRemoval::Keep, None, None));
    assert_eq!(entry.config, serde_json::json!({}));
    assert_eq!(entry.verbs, Default::default());
    assert_eq!(
        (entry.safety.max_delete_percent, entry.safety.max_lose_percent, entry.safety.confirmations),
        (50, 30, 2)
    );
}

#[test]
fn null_is_the_default_everywhere() {
    let keys = crate::config::entry::KEYS.iter().filter(|key| !["source", "enabled"].contains(*key));
    let all: String = keys.map(|key| format!("{key}: ~\n")).collect();
    assert_eq!(config(&all), config(""));
}

#[test]
fn source_is_any_label_value_and_keeps_its_text() {
    let read = |source: &str| document(&format!("networkTopologyDiscovery: [{{source: {source}, enabled: true}}]"));
    for (written, wanted) in [
        ("5", "5"),
        ("'5'", "5"),
        ("1.50", "1.50"),
        ("0x10", "0x10"),
        ("yes", "yes"),
        ("Rack_7.b", "Rack_7.b"),
        ("!!str 7", "7"),
    ] {
        let document = read(written);
        assert_eq!(document.enabled().map(|it| &*it.source).collect::<Vec<_>>(), [wanted], "{written}");
    }
    for written in ["''", "a b", "a/b", "-a", "[a]", "{a: 1}", &"a".repeat(64), "'ä'"] {
        assert!(read(written).entries[0].config.is_err(), "{written}");
    }
}

#[test]
fn enabled_is_an_unquoted_boolean() {
    let enabled = |written: &str| {
        let document = document(&format!("networkTopologyDiscovery: [{{source: a, enabled: {written}}}]"));
        document.entries[0].config.as_ref().map(|it| it.enabled).map_err(|problems| problems.len())
    };
    for written in ["true", "True", "TRUE", "yes", "Yes", "on", "ON", "y", "Y", "!!bool true", "!!bool 'true'"] {
        assert_eq!(enabled(written), Ok(true), "{written}");
    }
    for written in ["false", "no", "off", "n", "N", "null", "~", ""] {
        assert_eq!(enabled(written), Ok(false), "{written}");
    }
    for written in ["'true'", "\"true\"", "1", "0", "tRuE", "[true]", "!!str true"] {
        assert_eq!(enabled(written), Err(1), "{written}");
    }
}

#[test]
fn interval_follows_gos_grammar_and_falls_back_to_an_hour() {
    for (written, seconds) in [
        ("90s", 90.0),
        ("1h15m30s", 4530.0),
        ("1.5h", 5400.0),
        ("'10m'", 600.0),
        ("250ms", 0.25),
        ("-3m", 3600.0),
        ("0s", 3600.0),
        ("'0'", 3600.0),
        ("0", 3600.0),
    ] {
        assert_eq!(config(&format!("interval: {written}")).interval.as_secs_f64(), seconds, "{written}");
    }
    refused("interval: 600", &["interval: must be a duration", "the number 600 has no unit"]);
    refused("interval: 1.5", &["the number 1.5 has no unit"]);
    for written in ["''", "1d", "1 h", "h", "abc", "10min", "[1h]", "{h: 1}", "yes", "'600'"] {
        refused(&format!("interval: {written}"), &["interval: must be a duration"]);
    }
}

#[test]
fn settle_is_bounded() {
    assert_eq!(config("settle: 30s").settle.as_secs(), 30);
    assert_eq!(config("settle: 0").settle.as_secs(), 0);
    refused(
        "settle: 31s",
        &["settle: must be between 0s and 30s", "`", "31s"].map(|it| if it == "`" { "not" } else { it }),
    );
    refused("settle: -1s", &["between 0s and 30s"]);
    refused("settle: 5", &["has no unit"]);
}

#[test]
fn words_are_from_closed_sets() {
    assert_eq!(config("mode: observe").mode, Mode::Observe);
    assert_eq!(config("onRemoval: delete").on_removal, OnRemoval::Delete);
    assert_eq!(config("compat: volcano").compat, Some(Compat::Volcano));
    refused("mode: watch", &["mode: must be apply or observe, not the text \"watch\""]);
    refused("onRemoval: no", &["onRemoval: must be keep or delete, not the boolean no"]);
    refused("compat: Volcano", &["compat: must be volcano"]);
}

#[test]
fn config_is_a_mapping_that_becomes_json() {
    let entry =
        config("config: {a: 42, b: no, c: 'no', d: 1.50, e: ~, f: [y, 010], 5: x, on: z, g: 1.0, h: 2001-01-01}");
    let wanted = serde_json::json!({
        "a": 42, "b": false, "c": "no", "d": 1.5, "e": null, "f": [true, 8], "5": "x", "true": "z", "g": 1, "h": "2001-01-01",
    });
    assert_eq!(entry.config, wanted);
    for written in ["[]", "text", "5", "yes"] {
        refused(&format!("config: {written}"), &["config: must be a mapping"]);
    }
    refused("config: {a: [0, {b: .inf}]}", &["config.a[1].b: is not a finite number"]);
}

#[test]
fn compat_reaches_the_plugin_in_its_config() {
    assert_eq!(config("compat: volcano\nconfig: {a: 1}").config, serde_json::json!({"a": 1, "compat": "volcano"}));
    assert_eq!(config("compat: volcano").config, serde_json::json!({"compat": "volcano"}));
    assert_eq!(config("compat: volcano\nconfig: {compat: volcano}").config, serde_json::json!({"compat": "volcano"}));
    // A plugin may have a key of that name.
    assert_eq!(config("config: {compat: 7}").config, serde_json::json!({"compat": 7}));
    refused("compat: volcano\nconfig: {compat: 7}", &["config: has a `compat` of its own"]);
}

#[test]
fn a_token_in_the_config_of_a_roce_source_goes_no_further() {
    let entry = config("discoverer: roce\nconfig: {endpoint: 'https://a', token: canary-token}");
    assert_eq!(entry.config, serde_json::json!({"endpoint": "https://a"}));
    assert!(matches!(&entry.credentials, Some(Credentials::Token(token)) if token.reveal() == b"canary-token"));
    assert!(!format!("{entry:?} {:?}", entry.credentials).contains("canary"));
    let warned = document(&entry_with("discoverer: roce\nconfig: {token: canary-token}"));
    let warnings = format!("{:?}", warned.warnings);
    assert!(warnings.contains("config.token") && warnings.contains("Secret"), "{warnings}");
    assert!(!warnings.contains("canary"), "{warnings}");
    // A Secret wins over it.
    let both = config("discoverer: roce\ncredentials: {secretRef: {name: a}}\nconfig: {token: canary-token}");
    assert!(matches!(both.credentials, Some(Credentials::Secret(_))));
    assert_eq!(both.config, serde_json::json!({}));
    // However it is written, and wherever the plugin comes from.
    for lines in [
        "discoverer: roce\nconfig: {Token: canary-token}",
        "discoverer: roce\nplugin: {file: /a.wasm}\nconfig: {TOKEN: canary-token, token: canary-token}",
    ] {
        assert_eq!(config(lines).config, serde_json::json!({}), "{lines}");
    }
    // Others may have a key of that name.
    assert_eq!(config("discoverer: acme\nconfig: {token: t}").config, serde_json::json!({"token": "t"}));
    refused("discoverer: roce\nconfig: {token: 7}", &["config.token: must be text"]);
}

#[test]
fn credentials_name_a_secret_and_show_nothing() {
    let secret = |name: &str, namespace: Option<&str>| {
        Some(Credentials::Secret(SecretRef { name: name.into(), namespace: namespace.map(str::to_owned) }))
    };
    assert_eq!(config("credentials: {secretRef: {name: a, namespace: b}}").credentials, secret("a", Some("b")));
    assert_eq!(config("credentials: {secretRef: {name: a}}").credentials, secret("a", None));
    assert_eq!(config("credentials: {secretRef: {name: a, namespace: ''}}").credentials, secret("a", None));
    for empty in ["{}", "{secretRef: {}}", "{secretRef: ~}", "{secretRef: {name: ''}}", "{secretRef: {namespace: a}}"] {
        assert_eq!(config(&format!("credentials: {empty}")).credentials, None, "{empty}");
    }
    assert_eq!(warnings("credentials: {secretRef: {name: a, key: b}}").len(), 1);
    for wrong in [
        "canary-1",
        "{secretRef: canary-1}",
        "{secretRef: {name: Canary_1}}",
        "{secretRef: {name: a, namespace: Canary_1}}",
    ] {
        let errors = errors(&format!("credentials: {wrong}"));
        assert_eq!(errors.len(), 1, "{wrong}");
        assert!(!errors[0].to_lowercase().contains("canary"), "{}", errors[0]);
    }
}

#[test]
fn the_reserved_key_is_reported_and_changes_nothing() {
    assert!(warnings("tierBase: 3")[0].contains("tierBase: is reserved"));
    assert_eq!(config("tierBase: 3").hash, config("").hash);
}

#[test]
fn verbs_are_read_and_do_not_change_the_entry() {
    let digest = format!("sha256:{}", "Ab".repeat(32));
    let entry = config(&format!("confirm: abc\ncontinue: {digest}\nserve: {digest}\nrun: 7\npause: yes"));
    assert_eq!(entry.verbs.confirm.as_deref(), Some("abc"));
    assert_eq!(entry.verbs.continue_with.map(|it| it.to_string()), Some(digest.to_lowercase()));
    assert_eq!(entry.verbs.serve, entry.verbs.continue_with);
    assert_eq!(entry.verbs.run.as_deref(), Some("7"));
    assert!(entry.verbs.pause);
    assert_eq!(entry.hash, config("").hash);
    refused("serve: sha256:abc", &["serve: must be `sha256:` and 64 hexadecimal digits"]);
    refused("pause: 1", &["pause: must be true or false"]);
}

#[test]
fn the_hash_sees_content_and_nothing_else() {
    let base = config("interval: 5m\nconfig: {a: 1, b: {c: [x, y], d: yes}}");
    for same in [
        "config: {b: {d: true, c: [x, y]}, a: 1}\ninterval: 5m",
        "# a comment\ninterval:   5m\nconfig:\n  b:\n    c:\n    - x\n    - y\n    d: on\n  a: 0x1\n",
        "interval: 5m\nconfig: {a: 1, b: {c: [x, y], d: yes}}\nsettle: ~\nunknown: 1",
        "config: {a: 2}\ninterval: 5m\nconfig: {a: 1, b: {c: [x, y], d: yes}}",
    ] {
        let same = config(same);
        assert_eq!((same.hash, same.config_hash), (base.hash, base.config_hash));
    }
    for other in [
        "interval: 5m\nconfig: {a: 1, b: {c: [y, x], d: yes}}",
        "interval: 5m\nconfig: {a: 1, b: {c: [x, y], d: 'yes'}}",
        "interval: 5m\nconfig: {a: '1', b: {c: [x, y], d: yes}}",
        "interval: 5m\nconfig: {a: 1}\nlimits: {memory: 1Gi}",
    ] {
        assert_ne!(config(other).hash, base.hash, "{other}");
    }
    let slower = config("interval: 6m\nconfig: {a: 1, b: {c: [x, y], d: yes}}");
    assert_ne!(slower.hash, base.hash);
    assert_eq!(slower.config_hash, base.config_hash);
}

#[test]
fn all_mistakes_of_an_entry_are_found_at_once() {
    let errors =
        errors("interval: 600\nsettle: 1h\nmode: x\nconfig: []\nlimits: {memory: 5, cpu: x}\nsafety: {typo: 1}");
    assert_eq!(errors.len(), 7, "{errors:#?}");
}

#[test]
fn debug_text_shows_nothing_of_the_free_form_part() {
    let entry = config(
        "config: {token: canary-1}\npermissions: {endpoints: {a: {url: 'https://h/', tls: {caBundle: canary-1}}}}",
    );
    assert!(!format!("{entry:?} {entry:#?}").contains("canary"));
}
