//! Whether a source continues in Volcano's way because its objects are Volcano's (decision M5).
//!
//! An entry `ufm` that Volcano's controller served owns objects named by position, `leaf-hn-0` and so on, which jobs
//! and people know. Other names and other groups over night would be a surprise, so such a source starts as `compat:
//! volcano` and reports it, until the entry sets `compat`.
//!
//! An entry `label` that it served may have a type with a mistake, which it left out. Such a source continues with the
//! other types.

use serde_json::Value;

use crate::config::{ContentHash, EntryConfig, PluginOrigin};
use crate::topology::writers::Made;

/// The plugins that have this.
const UFM: &str = "ufm";
const LABEL: &str = "label";
/// The key of `label` that decides about a type with a mistake.
const BAD_TYPES: &str = "badTypes";

/// Whether a part of the configuration was assumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assumed {
    /// The operator wrote it.
    Nothing,
    /// `compat: volcano`.
    Compat,
    /// `badTypes: leaveOut`.
    BadTypes,
}

/// The entry with what it leaves open, if the objects of the source say what.
#[must_use]
pub fn assumed(entry: &EntryConfig, objects: &[Made]) -> Option<(EntryConfig, Assumed)> {
    let (key, value, assumed) = match open(entry)? {
        UFM if !objects.is_empty() && objects.iter().all(|object| is_volcanos(&object.name)) => {
            ("compat", "volcano", Assumed::Compat)
        }
        LABEL if objects.iter().any(|object| object.by_others) => (BAD_TYPES, "leaveOut", Assumed::BadTypes),
        _ => return None,
    };
    Some((with(entry, key, value)?, assumed))
}

/// Whether the objects of the source decide.
#[must_use]
pub fn is_open(entry: &EntryConfig) -> bool {
    open(entry).is_some()
}

/// The entry as it would be if one bad type refused all of it; `None` where that is so already, or means nothing.
#[must_use]
pub fn strict(entry: &EntryConfig) -> Option<EntryConfig> {
    (plugin(entry) == Some(LABEL)).then(|| with(entry, BAD_TYPES, "refuse")).flatten()
}

/// The plugin, where it is one of those and the entry leaves something open.
fn open(entry: &EntryConfig) -> Option<&'static str> {
    let plugin = plugin(entry)?;
    let warns_of = |wanted: &str| {
        let keys = entry.config.as_object().into_iter().flatten();
        keys.filter(|(key, _)| key.eq_ignore_ascii_case(wanted)).any(|(_, value)| !value.is_null())
    };
    (entry.compat.is_none() && !warns_of("compat") && !(plugin == LABEL && warns_of(BAD_TYPES))).then_some(plugin)
}

fn plugin(entry: &EntryConfig) -> Option<&'static str> {
    let named = match &entry.plugin.origin {
        PluginOrigin::Installed(name) | PluginOrigin::Builtin(name) => name,
        PluginOrigin::File(_) | PluginOrigin::ConfigMap(_) | PluginOrigin::Oci(_) => return None,
    };
    [UFM, LABEL].into_iter().find(|plugin| *plugin == named.as_str())
}

fn with(entry: &EntryConfig, key: &str, value: &str) -> Option<EntryConfig> {
    let mut changed = entry.clone();
    let config = changed.config.as_object_mut()?;
    config.retain(|given, _| !given.eq_ignore_ascii_case(key));
    config.insert(key.to_owned(), Value::from(value));
    changed.config_hash = ContentHash::of(&changed.config);
    Some(changed)
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

    fn named(objects: &[&str]) -> Vec<Made> {
        objects.iter().map(|name| Made { name: (*name).into(), by_others: true }).collect()
    }

    fn is_assumed(lines: &str, objects: &[&str]) -> bool {
        assumed(&entry(lines), &named(objects)).is_some()
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
        assert!(!is_assumed("  source: roce", &["leaf-hn-0"]));
    }

    #[test]
    fn an_entry_of_labels_that_volcano_served_leaves_bad_types_out() {
        let label = "  source: label\n  config: {networkTopologyTypes: {gpu: [{nodeLabel: rack}]}}";
        let object = |by_others| Made { name: "hypernode-gpu-tier1-abcde".into(), by_others };
        let (changed, what) = assumed(&entry(label), &[object(false), object(true)]).unwrap();
        assert_eq!((what, changed.config["badTypes"].as_str()), (Assumed::BadTypes, Some("leaveOut")));
        assert_eq!(changed.config.get("compat"), None, "all else means what it means without Volcano");
        assert_eq!(assumed(&entry(label), &[object(false)]), None, "a source of our own");
        assert_eq!(assumed(&entry(label), &[]), None);
        for word in ["  compat: none", "  compat: volcano", "  config: {BadTypes: refuse}"] {
            assert_eq!(assumed(&entry(&format!("  source: label\n{word}")), &[object(true)]), None, "{word}");
        }
        let strict = strict(&entry("  source: label\n  config: {BADTYPES: leaveOut, preset: gke}")).unwrap();
        assert_eq!(strict.config, serde_json::json!({"preset": "gke", "badTypes": "refuse"}));
        assert_eq!(super::strict(&entry("  source: ufm")), None);
    }

    #[test]
    fn the_operators_word_decides() {
        for word in ["  compat: volcano", "  compat: none", "  config: {compat: volcano}"] {
            assert!(!is_assumed(&format!("  source: ufm\n{word}"), &["leaf-hn-0"]), "{word}");
        }
        let entry = entry("  source: ufm\n  config: {endpoint: a}");
        let (assumed, _) = assumed(&entry, &named(&["leaf-hn-0"])).unwrap();
        assert_eq!(assumed.config, serde_json::json!({"endpoint": "a", "compat": "volcano"}));
        assert_eq!(assumed.hash, entry.hash, "it is the same entry");
        assert_ne!(assumed.config_hash, entry.config_hash);
    }
}
