//! Reads lenient JSON into a [`Config`], and collects problems and notes.

use super::check::{self, MAX_LEVELS, MAX_LONG_NAME};
use super::{Config, DIFFERS, HOSTNAME, LEFT_OUT, Level, Mode, Note, Profile, Scope, Type};
use crate::presets;
use topoloom_sdk::{Problem, json::Value};

const TYPES: &str = "networkTopologyTypes";
/// Values that clouds set where there is no fabric. The empty value is always among them.
const IGNORED: [&str; 4] = ["none", "unknown", "n/a", "null"];

/// Reads a whole configuration.
pub(super) fn config(text: &str) -> Result<Config, Vec<Problem>> {
    let mut reader = Reader::default();
    let entries = match Value::parse(text)? {
        Value::Object(entries) => entries,
        Value::Null => Vec::new(),
        other => return Err(vec![Problem::new("", format!("expected a mapping, found {}", other.kind()))]),
    };
    let mut config = Config {
        mode: Mode::Paths,
        types: Vec::new(),
        profiles: Vec::new(),
        collapse: false,
        ignored: IGNORED.map(str::to_owned).to_vec(),
        notes: Vec::new(),
        left_out: Vec::new(),
    };
    // These keys change the meaning of the lists, so they are read first.
    let mut bad_types = None;
    for (key, value) in &entries {
        match lower(key).as_str() {
            "compat" => config.mode = reader.mode(key, value),
            "valuescope" => reader.scope = reader.scope(key, value),
            "badtypes" => bad_types = Some(reader.bad_types(key, value)),
            _ => {}
        }
    }
    // Volcano leaves such a type out and serves the others.
    reader.bad_types = bad_types.unwrap_or(match config.mode {
        Mode::Volcano => BadTypes::LeaveOut,
        Mode::Paths => BadTypes::Refuse,
    });
    let mut profiles = None;
    let mut asked = false;
    let mut presets = Vec::new();
    for (key, value) in &entries {
        match lower(key).as_str() {
            "networktopologytypes" => {
                asked = true;
                reader.types(config.mode, key, value, &mut config.types);
            }
            "preset" | "presets" => {
                asked = true;
                presets = reader.texts(key, value);
            }
            "compat" | "valuescope" | "badtypes" => {}
            "profiles" => profiles = Some((key, value)),
            "collapse" => config.collapse = reader.flag(key, value),
            "ignorevalues" => {
                config.ignored = reader.texts(key, value).into_iter().map(|(_, text)| lower(text.trim())).collect();
            }
            _ => reader.unknown(key),
        }
    }
    for (path, name) in presets {
        reader.preset(&path, &name, &mut config.types);
    }
    if !asked {
        reader.problem("", format!("{TYPES} or preset is required: it says which labels to read"));
    }
    if let Some((path, value)) = profiles {
        config.profiles = reader.profiles(path, value, &config.types);
    }
    if config.mode == Mode::Volcano {
        reader.only_volcano(&config);
    } else {
        reader.shared_keys(&config.types);
    }
    if asked && reader.problems.is_empty() && config.types.iter().all(|kind| kind.levels.is_empty()) {
        reader.note("no-level", "no type has a level, so no node has a place".to_owned());
    }
    if config.types.is_empty() {
        // No other type is left to serve.
        reader.problems.extend(reader.left_out.drain(..).flat_map(|left| left.problems));
    }
    for LeftOut { name, problems } in std::mem::take(&mut reader.left_out) {
        let said = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        reader.note(LEFT_OUT, format!("type {name:?} is left out and its HyperNodes stay unchanged: {said}"));
        config.left_out.push(name);
    }
    config.notes = reader.notes;
    if reader.problems.is_empty() { Ok(config) } else { Err(reader.problems) }
}

struct Reader {
    problems: Vec<Problem>,
    notes: Vec<Note>,
    /// The scope of levels without one of their own.
    scope: Scope,
    bad_types: BadTypes,
    left_out: Vec<LeftOut>,
}

/// How a type with a mistake is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BadTypes {
    /// The whole configuration is refused.
    Refuse,
    /// It is left out, and the others are served.
    LeaveOut,
}

/// A type that is left out, and why.
struct LeftOut {
    name: String,
    problems: Vec<Problem>,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            problems: Vec::new(),
            notes: Vec::new(),
            scope: Scope::Path,
            bad_types: BadTypes::Refuse,
            left_out: Vec::new(),
        }
    }
}

impl Reader {
    fn problem(&mut self, path: &str, message: String) {
        self.problems.push(Problem::new(path, message));
    }

    fn note(&mut self, code: &'static str, text: String) {
        self.notes.push(Note { code, text });
    }

    fn unknown(&mut self, path: &str) {
        self.note("unknown-key", format!("{path:?} is not a known key and is ignored"));
    }

    fn mode(&mut self, path: &str, value: &Value) -> Mode {
        match value {
            Value::Null => Mode::Paths,
            Value::String(text) if text.is_empty() => Mode::Paths,
            Value::String(text) if text == "volcano" => Mode::Volcano,
            other => {
                self.problem(path, format!("expected \"volcano\" or nothing, found {}", show(other)));
                Mode::Paths
            }
        }
    }

    fn scope(&mut self, path: &str, value: &Value) -> Scope {
        match value {
            Value::String(text) if text == "path" => Scope::Path,
            Value::String(text) if text == "global" => Scope::Global,
            other => {
                self.problem(path, format!("expected \"path\" or \"global\", found {}", show(other)));
                Scope::Path
            }
        }
    }

    fn bad_types(&mut self, path: &str, value: &Value) -> BadTypes {
        match value {
            Value::String(text) if text == "refuse" => BadTypes::Refuse,
            Value::String(text) if text == "leaveOut" => BadTypes::LeaveOut,
            other => {
                self.problem(path, format!("expected \"refuse\" or \"leaveOut\", found {}", show(other)));
                BadTypes::Refuse
            }
        }
    }

    fn flag(&mut self, path: &str, value: &Value) -> bool {
        match value {
            Value::Bool(flag) => *flag,
            other => {
                self.problem(path, format!("expected true or false, found {}", show(other)));
                false
            }
        }
    }

    /// A string; another scalar becomes one as in Volcano's reader, with a note.
    fn text(&mut self, path: &str, value: &Value) -> Option<String> {
        let text = match value {
            Value::String(text) => return Some(text.clone()),
            Value::Number(number) => number.clone(),
            Value::Bool(flag) => u8::from(*flag).to_string(),
            other => {
                self.problem(path, format!("expected a string, found {}", other.kind()));
                return None;
            }
        };
        self.note("coerced", format!("{path} is {}: read as {text:?}; put it in quotes", value.kind()));
        Some(text)
    }

    /// A list of strings; a single one is a list of one.
    fn texts(&mut self, path: &str, value: &Value) -> Vec<(String, String)> {
        let list = match value {
            Value::Null => return Vec::new(),
            Value::Array(list) => list.as_slice(),
            one => return self.text(path, one).map(|text| (path.to_owned(), text)).into_iter().collect(),
        };
        let texts = list.iter().enumerate().map(|(index, item)| {
            let path = format!("{path}[{index}]");
            self.text(&path, item).map(|text| (path, text))
        });
        texts.collect::<Vec<_>>().into_iter().flatten().collect()
    }

    /// The map of types, or a list of such maps.
    fn types(&mut self, mode: Mode, path: &str, value: &Value, types: &mut Vec<Type>) {
        match value {
            Value::Null => {}
            Value::Object(entries) => {
                for (name, list) in entries {
                    self.type_or_not(mode, &format!("{path}.{name}"), name, list, types);
                }
            }
            Value::Array(maps) => {
                for (index, map) in maps.iter().enumerate() {
                    let path = format!("{path}[{index}]");
                    match map {
                        Value::Object(_) => self.types(mode, &path, map, types),
                        other => {
                            let message = format!("expected a mapping from a type to its list, found {}", other.kind());
                            self.problem(&path, message);
                        }
                    }
                }
            }
            other => self.problem(path, format!("expected a mapping from types to lists, found {}", other.kind())),
        }
    }

    /// A type; with `badTypes: leaveOut` a mistake refuses this type only.
    fn type_or_not(&mut self, mode: Mode, path: &str, name: &str, value: &Value, types: &mut Vec<Type>) {
        let (problems, notes, known) = (self.problems.len(), self.notes.len(), types.len());
        self.one_type(mode, path, name, value, types);
        if self.bad_types == BadTypes::LeaveOut && self.problems.len() > problems {
            types.truncate(known);
            self.notes.truncate(notes);
            self.left_out.push(LeftOut { name: name.to_owned(), problems: self.problems.split_off(problems) });
        }
    }

    fn one_type(&mut self, mode: Mode, path: &str, name: &str, value: &Value, types: &mut Vec<Type>) {
        if let Err(message) = check::type_name(name) {
            self.problem(path, message);
        }
        if types.iter().any(|known| known.name == name) {
            self.problem(path, format!("the type {name:?} is given twice"));
        }
        let items: Vec<(String, &Value)> = match value {
            Value::Null => Vec::new(),
            Value::Array(list) => list.iter().enumerate().map(|(i, item)| (format!("{path}[{i}]"), item)).collect(),
            Value::Object(_) => vec![(path.to_owned(), value)],
            other => {
                self.problem(path, format!("expected a list of {{nodeLabel: …}}, found {}", other.kind()));
                return;
            }
        };
        let mut levels: Vec<Level> = Vec::with_capacity(items.len());
        for (path, item) in items {
            let Some(level) = self.level(&path, item) else { continue };
            for key in &level.keys {
                if levels.iter().any(|other| other.keys.contains(key)) {
                    self.problem(&path, format!("the label {key:?} is in this list already"));
                }
            }
            if levels.iter().any(|other| other.name == level.name && other.key() != level.key()) {
                self.problem(&path, format!("another level is called {:?} already", level.name));
            }
            levels.push(level);
        }
        let drops_last = mode == Mode::Volcano || levels.last().is_some_and(|level| level.key() == HOSTNAME);
        if drops_last {
            levels.pop();
        } else if let Some(last) = levels.last() {
            let key = last.key();
            self.note(DIFFERS, format!("type {name:?}: the last label {key:?} is tier 1 here, Volcano would drop it"));
        }
        if levels.len() > MAX_LEVELS {
            self.problem(path, format!("{} levels, at most {MAX_LEVELS} are allowed", levels.len()));
        }
        levels.reverse();
        types.push(Type { name: name.to_owned(), levels });
    }

    fn level(&mut self, path: &str, value: &Value) -> Option<Level> {
        let Value::Object(entries) = value else {
            self.problem(path, format!("expected {{nodeLabel: …}}, found {}", show(value)));
            return None;
        };
        let problems = self.problems.len();
        let mut level = Level { keys: Vec::new(), name: String::new(), extract: None, scope: self.scope };
        let mut fallbacks = Vec::new();
        for (key, value) in entries {
            let path = format!("{path}.{key}");
            match lower(key).as_str() {
                "nodelabel" => {
                    let key = self.text(&path, value).map(|text| (path, text));
                    level.keys = self.keys(key.into_iter().collect());
                }
                "fallbacks" => {
                    let keys = self.texts(&path, value);
                    fallbacks = self.keys(keys);
                }
                "name" => level.name = self.tier_name(&path, value),
                "extract" => {
                    let pattern = self.text(&path, value);
                    level.extract = pattern.and_then(|pattern| match check::extract(&pattern) {
                        Ok(regex) => Some(regex),
                        Err(message) => {
                            self.problem(&path, message);
                            None
                        }
                    });
                }
                "valuescope" => level.scope = self.scope(&path, value),
                _ => self.unknown(&path),
            }
        }
        if level.keys.is_empty() {
            if self.problems.len() == problems {
                self.problem(path, "nodeLabel is missing".to_owned());
            }
            return None;
        }
        level.keys.append(&mut fallbacks);
        if level.name.is_empty() {
            level.name = level.key().to_owned();
        }
        Some(level)
    }

    fn keys(&mut self, keys: Vec<(String, String)>) -> Vec<String> {
        for (path, key) in &keys {
            if let Err(message) = check::label_key(key) {
                self.problem(path, message);
            }
        }
        keys.into_iter().map(|(_, key)| key).collect()
    }

    fn tier_name(&mut self, path: &str, value: &Value) -> String {
        let name = self.text(path, value).unwrap_or_default();
        if name.trim().is_empty() || name.len() > MAX_LONG_NAME {
            self.problem(path, format!("a tier name must have 1 to {MAX_LONG_NAME} bytes"));
        }
        name
    }

    fn preset(&mut self, path: &str, name: &str, types: &mut Vec<Type>) {
        let Some(keys) = presets::find(name) else {
            return self.problem(path, format!("there is no preset {name:?}; there are {}", presets::names()));
        };
        if types.iter().any(|known| known.name == name) {
            return self.problem(path, format!("the type {name:?} is given twice"));
        }
        let level = |key: &&str| Level {
            keys: vec![(*key).to_owned()],
            name: (*key).to_owned(),
            extract: None,
            scope: self.scope,
        };
        types.push(Type { name: name.to_owned(), levels: keys.iter().rev().map(level).collect() });
    }

    fn profiles(&mut self, path: &str, value: &Value, types: &[Type]) -> Vec<Profile> {
        let items = match value {
            Value::Array(items) => items.as_slice(),
            Value::Object(_) => std::slice::from_ref(value),
            other => {
                self.problem(path, format!("expected a list of {{type: …, nodeSelector: …}}, found {}", other.kind()));
                return Vec::new();
            }
        };
        let profiles =
            items.iter().enumerate().map(|(index, item)| self.profile(&format!("{path}[{index}]"), item, types));
        profiles.collect::<Vec<_>>().into_iter().flatten().collect()
    }

    fn profile(&mut self, path: &str, value: &Value, types: &[Type]) -> Option<Profile> {
        let Value::Object(entries) = value else {
            self.problem(path, format!("expected {{type: …, nodeSelector: …}}, found {}", show(value)));
            return None;
        };
        let (mut kind, mut selector) = (None, None);
        for (key, value) in entries {
            let path = format!("{path}.{key}");
            match lower(key).as_str() {
                "type" => {
                    let name = self.text(&path, value)?;
                    kind = types.iter().position(|known| known.name == name);
                    if kind.is_none() {
                        self.problem(&path, format!("there is no type {name:?}"));
                        return None;
                    }
                }
                "nodeselector" => selector = self.selector(&path, value),
                _ => self.unknown(&path),
            }
        }
        match (kind, selector) {
            (Some(kind), Some(selector)) => Some(Profile { kind, selector }),
            (None, _) => {
                self.problem(path, "type is missing".to_owned());
                None
            }
            (_, None) => {
                self.problem(path, "nodeSelector is missing; {} selects all nodes".to_owned());
                None
            }
        }
    }

    fn selector(&mut self, path: &str, value: &Value) -> Option<Vec<(String, String)>> {
        let Value::Object(entries) = value else {
            self.problem(path, format!("expected a mapping from labels to values, found {}", value.kind()));
            return None;
        };
        let pairs = entries.iter().map(|(key, value)| {
            let path = format!("{path}.{key}");
            if let Err(message) = check::label_key(key) {
                self.problem(&path, message);
            }
            // Without a text there is a problem already, so the empty value is never used.
            (key.clone(), self.text(&path, value).unwrap_or_default())
        });
        Some(pairs.collect())
    }

    /// `compat: volcano` means Volcano's result, so keys that Volcano does not know are refused.
    fn only_volcano(&mut self, config: &Config) {
        let extended = config.types.iter().flat_map(|kind| &kind.levels).any(|level| {
            level.keys.len() > 1 || level.name != level.key() || level.extract.is_some() || level.scope == Scope::Global
        });
        if extended || config.collapse || !config.profiles.is_empty() {
            self.problem(
                "compat",
                "\"volcano\" allows networkTopologyTypes, preset and nodeLabel only: \
                 not name, fallbacks, extract, valueScope, profiles or collapse"
                    .to_owned(),
            );
        }
    }

    /// Notes types that share a label: each has a tree of its own here, and in Volcano they have one mixed tree.
    fn shared_keys(&mut self, types: &[Type]) {
        for (index, kind) in types.iter().enumerate() {
            let earlier = types.get(..index).unwrap_or_default();
            for level in &kind.levels {
                let shared = |other: &&Type| other.levels.iter().any(|other| other.key() == level.key());
                if let Some(other) = earlier.iter().find(shared) {
                    self.note(
                        DIFFERS,
                        format!(
                            "types {:?} and {:?} share the label {:?}: each has domains of its own here, Volcano mixes them",
                            other.name, kind.name, level.key()
                        ),
                    );
                }
            }
        }
    }
}

fn lower(text: &str) -> String {
    text.to_ascii_lowercase()
}

fn show(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Number(number) => number.clone(),
        Value::Bool(flag) => flag.to_string(),
        other => other.kind().to_owned(),
    }
}
