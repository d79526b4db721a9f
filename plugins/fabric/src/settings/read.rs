//! The shared keys of a configuration.

use topoloom_sdk::json::Value;

use super::{Down, Rewrite, Settings, levels, replace};
use crate::reader::Reader;

/// The limit of the HyperNode's definition.
const MAX_TIER_NAME: usize = 253;
/// Tiers are 1 to 16.
const MAX_TIERS: usize = 16;

/// Whether a key was one of the shared ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedKey {
    /// It was: its value is in the settings or among the reader's problems.
    Yes,
    /// It was not.
    No,
}

impl Settings {
    /// Takes one key of a configuration, in any case.
    pub fn read(&mut self, reader: &mut Reader, key: &str, value: &Value) -> SharedKey {
        match key.to_ascii_lowercase().as_str() {
            "similarity" => self.read_similarity(reader, key, value),
            "tiernames" => self.read_tier_names(reader, key, value),
            "downgrace" => self.read_down_grace(reader, key, value),
            "includedown" => {
                if let Some(flag) = reader.flag(key, value) {
                    self.down = if flag { Down::Count } else { Down::Report };
                }
            }
            "root" => self.read_root(reader, key, value),
            "hostmap" => self.host_map = reader.text_map(key, value),
            "rewrite" => self.rewrite = read_rewrite(reader, key, value),
            "ignorehosts" => self.ignore_hosts = reader.regexes(key, value),
            "maxtier" => self.read_max_tier(reader, key, value),
            "levels" => self.levels = levels::read(reader, key, value),
            "guidannotation" => self.guid_annotation = reader.annotation(key, value),
            _ => return SharedKey::No,
        }
        SharedKey::Yes
    }

    fn read_similarity(&mut self, reader: &mut Reader, key: &str, value: &Value) {
        match reader.number(key, value) {
            Some(share) if share > 0.0 && share < 1.0 => self.similarity = share,
            Some(share) => reader.problem(key, format!("expected a number above 0 and below 1, found {share}")),
            None => {}
        }
    }

    fn read_down_grace(&mut self, reader: &mut Reader, key: &str, value: &Value) {
        if let Some(grace) = reader.duration(key, value) {
            self.down_grace = grace;
        }
    }

    fn read_max_tier(&mut self, reader: &mut Reader, key: &str, value: &Value) {
        if *value == Value::Null {
            return;
        }
        if let Some(tier) = reader.number(key, value) {
            match levels::whole(tier, 1) {
                Some(tier) => self.max_tier = tier.into(),
                None => reader.problem(key, format!("expected a whole number from 1 to {MAX_TIERS}, found {tier}")),
            }
        }
    }

    fn read_root(&mut self, reader: &mut Reader, key: &str, value: &Value) {
        self.root = match value {
            Value::Null | Value::Bool(false) => None,
            Value::Bool(true) => Some("root".to_owned()),
            Value::String(name) if is_tier_name(name) => Some(name.clone()),
            other => {
                reader.problem(
                    key,
                    format!("expected true, false or the name of its tier, found {}", reader.show(other)),
                );
                None
            }
        };
    }

    fn read_tier_names(&mut self, reader: &mut Reader, key: &str, value: &Value) {
        let names = reader.texts(key, value);
        if names.len() > MAX_TIERS {
            reader.problem(key, format!("{} names, at most {MAX_TIERS} are allowed", names.len()));
        }
        for (index, (path, name)) in names.iter().enumerate() {
            if !is_tier_name(name) {
                reader.problem(path, format!("a tier name must have 1 to {MAX_TIER_NAME} bytes"));
            } else if names.iter().take(index).any(|(_, other)| other == name) {
                reader.problem(path, format!("another tier is called {name:?} already"));
            }
        }
        if !names.is_empty() {
            self.tier_names = names.into_iter().map(|(_, name)| name).collect();
        }
    }
}

fn is_tier_name(name: &str) -> bool {
    !name.trim().is_empty() && name.len() <= MAX_TIER_NAME
}

fn read_rewrite(reader: &mut Reader, path: &str, value: &Value) -> Vec<Rewrite> {
    let items = match value {
        Value::Null => return Vec::new(),
        Value::Array(items) => items.as_slice(),
        Value::Object(_) => std::slice::from_ref(value),
        other => {
            reader.problem(path, format!("expected a list of {{regex: …, replace: …}}, found {}", other.kind()));
            return Vec::new();
        }
    };
    let mut rules = Vec::new();
    for (index, item) in items.iter().enumerate() {
        rules.extend(read_rule(reader, &format!("{path}[{index}]"), item));
    }
    rules
}

fn read_rule(reader: &mut Reader, path: &str, value: &Value) -> Option<Rewrite> {
    let Value::Object(entries) = value else {
        reader.problem(path, format!("expected {{regex: …, replace: …}}, found {}", reader.show(value)));
        return None;
    };
    let (mut regex, mut replace) = (None, None);
    for (key, value) in entries {
        let path = format!("{path}.{key}");
        match key.to_ascii_lowercase().as_str() {
            "regex" => regex = Some(reader.regex(&path, value)?),
            "replace" => replace = Some(reader.text(&path, value)?),
            _ => reader.unknown(&path),
        }
    }
    match (regex, replace) {
        (Some(regex), Some(replace)) => match replace::fault(&regex, &replace) {
            None => Some(Rewrite { regex, replace }),
            Some(fault) => {
                reader.problem(&format!("{path}.replace"), fault);
                None
            }
        },
        (None, _) => {
            reader.problem(path, "regex is missing".to_owned());
            None
        }
        (_, None) => {
            reader.problem(path, "replace is missing".to_owned());
            None
        }
    }
}
