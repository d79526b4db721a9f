//! The key `levels`: declared levels of switches.

use regex_lite::Regex;
use topoloom_sdk::json::Value;

use super::{Declared, Which};
use crate::guid::Guid;
use crate::reader::Reader;

/// Levels are 1 to 16.
const MAX_LEVEL: u8 = 16;
/// More entries than a fabric has kinds of switches.
const MAX_ENTRIES: usize = 64;

/// A whole number from the least to the highest level.
pub(super) fn whole(number: f64, least: u8) -> Option<u8> {
    (least..=MAX_LEVEL).find(|&level| f64::from(level) == number)
}

/// Reads the list.
pub(super) fn read(reader: &mut Reader, path: &str, value: &Value) -> Vec<Declared> {
    let items = match value {
        Value::Null => return Vec::new(),
        Value::Array(items) => items.as_slice(),
        Value::Object(_) => std::slice::from_ref(value),
        other => {
            let expected = "expected a list of {level: …, names: […], switches: […]}";
            reader.problem(path, format!("{expected}, found {}", other.kind()));
            return Vec::new();
        }
    };
    if items.len() > MAX_ENTRIES {
        reader.problem(path, format!("{} entries, at most {MAX_ENTRIES} are allowed", items.len()));
    }
    let items = items.iter().take(MAX_ENTRIES).enumerate();
    items.filter_map(|(index, item)| entry(reader, &format!("{path}[{index}]"), item)).collect()
}

fn entry(reader: &mut Reader, path: &str, value: &Value) -> Option<Declared> {
    let Value::Object(entries) = value else {
        let shown = reader.show(value);
        reader.problem(path, format!("expected {{level: …, names: […], switches: […]}}, found {shown}"));
        return None;
    };
    let (mut level, mut names, mut ids, mut below) = (None, Vec::new(), Vec::new(), None);
    let (mut says_level, mut is_whole) = (false, true);
    for (key, value) in entries {
        let path = format!("{path}.{key}");
        match key.to_ascii_lowercase().as_str() {
            "level" => {
                says_level = true;
                level = reader.number(&path, value).map(|number| (path, number));
            }
            "names" => {
                let asked = reader.texts(&path, value).len();
                names = reader.regexes(&path, value);
                is_whole &= names.len() == asked;
            }
            "switches" => ids = reader.texts(&path, value).into_iter().map(|(_, id)| identity(&id)).collect(),
            "below" => {
                below = reader.regex(&path, value).and_then(|regex| grouping(reader, &path, regex));
                is_whole &= below.is_some();
            }
            _ => reader.unknown(&path),
        }
    }
    if !says_level {
        reader.problem(path, "level is missing".to_owned());
    }
    let least = if below.is_some() { 2 } else { 1 };
    let (path_of_level, number) = level?;
    let Some(level) = whole(number, least) else {
        let expected = format!("expected a whole number from {least} to {MAX_LEVEL}");
        reader.problem(&path_of_level, format!("{expected}, found {number}"));
        return None;
    };
    let which = match below {
        Some(_) if !names.is_empty() || !ids.is_empty() => {
            reader.problem(path, "below cannot be combined with names or switches".to_owned());
            return None;
        }
        Some(regex) => Which::Below(regex),
        None if names.is_empty() && ids.is_empty() => {
            if is_whole {
                reader.problem(path, "names, switches or below is required: it selects the switches".to_owned());
            }
            return None;
        }
        None => Which::Switches { ids, names },
    };
    Some(Declared { level, which })
}

/// A regular expression whose one capture group names the group.
fn grouping(reader: &mut Reader, path: &str, regex: Regex) -> Option<Regex> {
    let groups = regex.captures_len() - 1;
    if groups == 1 {
        return Some(regex);
    }
    let found = format!("{:?} has {groups} capture groups", regex.as_str());
    reader.problem(path, format!("{found}, exactly one is expected: its match becomes the name of the group"));
    None
}

/// A GUID in the form of switch identities, or the text in lower case.
fn identity(text: &str) -> String {
    Guid::parse(text).map_or_else(|| text.trim().to_lowercase(), |guid| guid.to_string())
}
