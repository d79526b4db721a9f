//! Whether a source goes on in Volcano's words because its objects are Volcano's (decision M5).
//!
//! An entry `ufm` that Volcano's controller served owns objects named by position, `leaf-hn-0` and so on, which jobs and
//! people know. Other names and other groups over night would be a surprise, so such a source starts as
//! `compat: volcano` and says so, until the operator writes down what he wants.

use serde_json::Value;

use crate::config::{ContentHash, EntryConfig, PluginOrigin};

/// The plugin that has this mode.
const UFM: &str = "ufm";

/// The entry with `compat: volcano`, if it says nothing about that and all objects of the source have Volcano's names.
#[must_use]
pub fn assumed<'a>(entry: &EntryConfig, objects: impl IntoIterator<Item = &'a str>) -> Option<EntryConfig> {
    if !is_open(entry) {
        return None;
    }
    let mut objects = objects.into_iter().peekable();
    objects.peek()?;
    if !objects.all(is_volcanos) {
        return None;
    }
    let mut assumed = entry.clone();
    assumed.config.as_object_mut()?.insert("compat".to_owned(), Value::from("volcano"));
    assumed.config_hash = ContentHash::of(&assumed.config);
    Some(assumed)
}

/// Whether the objects of the source decide.
#[must_use]
pub fn is_open(entry: &EntryConfig) -> bool {
    let named = match &entry.plugin.origin {
        PluginOrigin::Installed(name) | PluginOrigin::Builtin(name) => name == UFM,
        PluginOrigin::File(_) | PluginOrigin::ConfigMap(_) => false,
    };
    named && entry.compat.is_none() && entry.config.get("compat").is_none_or(Value::is_null)
}

/// `spine-hn`, or `leaf-hn-` and a number.
fn is_volcanos(name: &str) -> bool {
    let number = name.strip_prefix("leaf-hn-").unwrap_or_default();
    name == "spine-hn" || (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    fn entry(lines: &str) -> EntryConfig {
        let text = format!("networkTopologyDiscovery:\n- enabled: true\n{lines}\n");
        let document = config::parse(&text).unwrap();
        document.enabled().next().cloned().unwrap_or_else(|| panic!("{:?}", document.errors().collect::<Vec<_>>()))
    }

    fn is_assumed(lines: &str, objects: &[&str]) -> bool {
        assumed(&entry(lines), objects.iter().copied()).is_some()
    }

    #[test]
    fn only_objects_of_volcano_alone_speak_for_volcano() {
        let ufm = "  source: ufm";
        assert!(is_assumed(ufm, &["leaf-hn-0", "leaf-hn-12", "spine-hn"]));
        assert!(is_assumed("  source: east\n  discoverer: ufm", &["leaf-hn-0"]));
        assert!(!is_assumed(ufm, &[]), "a source without objects is ours from the beginning");
        for other in ["hypernode-ufm-tier1-abcde", "leaf-hn-", "leaf-hn-x", "my-leaf-hn-1", "spine-hn-0"] {
            assert!(!is_assumed(ufm, &["leaf-hn-0", other]), "{other}");
        }
        assert!(!is_assumed("  source: label", &["leaf-hn-0"]));
    }

    #[test]
    fn the_operators_word_decides() {
        for word in ["  compat: volcano", "  compat: none", "  config: {compat: volcano}"] {
            assert!(!is_assumed(&format!("  source: ufm\n{word}"), &["leaf-hn-0"]), "{word}");
        }
        let entry = entry("  source: ufm\n  config: {endpoint: a}");
        let assumed = assumed(&entry, ["leaf-hn-0"]).unwrap();
        assert_eq!(assumed.config, serde_json::json!({"endpoint": "a", "compat": "volcano"}));
        assert_eq!(assumed.hash, entry.hash, "it is the same entry");
        assert_ne!(assumed.config_hash, entry.config_hash);
    }
}
