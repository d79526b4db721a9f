//! Reads lenient JSON into a [`Config`], and collects problems and notes.

use super::place::Place;
use super::{Auth, Config, Fabric, Mode, Ports, Uplinks, check};
use topoloom_fabric::{Reader, Settings, SharedKey, Tiers};
use topoloom_sdk::Problem;
use topoloom_sdk::json::Value;

/// More fabrics than one entry should carry.
const MAX_FABRICS: usize = 16;
/// Of a hundred records.
const MAX_UNUSABLE: u32 = 5;
/// Smaller pages cost more requests than a round may send.
const PAGE: std::ops::RangeInclusive<u32> = 200..=1_000_000;

/// Reads a whole configuration.
pub(super) fn config(text: &str) -> Result<Config, Vec<Problem>> {
    let entries = match Value::parse(text)? {
        Value::Object(entries) => entries,
        Value::Null => Vec::new(),
        other => return Err(vec![Problem::new("", format!("expected a mapping, found {}", other.kind()))]),
    };
    let mut reader = Reader::new();
    let mut config = Config {
        fabrics: Vec::new(),
        mode: Mode::Bundles,
        settings: Settings::default(),
        ports: Ports::default(),
        max_unusable: MAX_UNUSABLE,
        uplinks: Uplinks::Auto,
        page_size: None,
    };
    let mut top = Place::default();
    let mut listed = None;
    // Keys that have no effect with `compat: volcano`.
    let mut grouping = Vec::new();
    for (key, value) in &entries {
        if top.take(key, key, value, &mut reader) {
            continue;
        }
        match lower(key).as_str() {
            "fabrics" => listed = Some((key.as_str(), value)),
            "compat" => config.mode = mode(&mut reader, key, value),
            "pagesize" => config.page_size = whole(&mut reader, key, value, PAGE),
            "maxunusable" => {
                grouping.push(key);
                config.max_unusable = whole(&mut reader, key, value, 0..=100).unwrap_or(MAX_UNUSABLE);
            }
            "ports" => {
                grouping.push(key);
                config.ports = ports(&mut reader, key, value);
            }
            "uplinks" => {
                grouping.push(key);
                config.uplinks = uplinks(&mut reader, key, value);
                config.settings.tiers = match config.uplinks {
                    Uplinks::Auto => Tiers::All,
                    Uplinks::Off => Tiers::Lowest,
                };
            }
            _ => match config.settings.read(&mut reader, key, value) {
                SharedKey::Yes => grouping.push(key),
                SharedKey::No => reader.unknown(key),
            },
        }
    }
    config.fabrics = fabrics(&mut reader, &top, listed);
    if config.mode == Mode::Volcano {
        for key in grouping {
            reader.note("ignored-key", format!("{key:?} has no effect where compat is \"volcano\""));
        }
    }
    config.settings.notes = reader.finish()?;
    Ok(config)
}

pub(super) fn checked<T>(reader: &mut Reader, path: &str, value: Option<Result<T, String>>) -> Option<T> {
    match value? {
        Ok(value) => Some(value),
        Err(message) => {
            reader.problem(path, message);
            None
        }
    }
}

fn mode(reader: &mut Reader, path: &str, value: &Value) -> Mode {
    match value {
        Value::Null => Mode::Bundles,
        Value::String(text) if text.is_empty() => Mode::Bundles,
        Value::String(text) if text == "volcano" => Mode::Volcano,
        other => {
            let shown = reader.show(other);
            reader.problem(path, format!("expected \"volcano\" or nothing, found {shown}"));
            Mode::Bundles
        }
    }
}

/// Volcano reads everything but a boolean as false. So does this: false is the safe side.
pub(super) fn insecure(reader: &mut Reader, path: &str, value: &Value) -> bool {
    if let Value::Bool(flag) = value {
        return *flag;
    }
    reader.note("coerced", format!("{path} is {}: certificates are checked; write true or false", value.kind()));
    false
}

fn whole(reader: &mut Reader, path: &str, value: &Value, allowed: std::ops::RangeInclusive<u32>) -> Option<u32> {
    let number = reader.number(path, value)?;
    let found = allowed.clone().contains(&(number as u32)) && f64::from(number as u32) == number;
    if !found {
        let (least, most) = allowed.into_inner();
        reader.problem(path, format!("expected a whole number from {least} to {most}, found {number}"));
    }
    found.then_some(number as u32)
}

pub(super) fn urls(reader: &mut Reader, texts: Vec<(String, String)>, urls: &mut Vec<String>) {
    for (path, text) in texts {
        match check::url(&text) {
            Ok(url) if urls.contains(&url) => reader.problem(&path, "the URL is given twice".to_owned()),
            Ok(url) => urls.push(url),
            Err(message) => reader.problem(&path, message.to_owned()),
        }
    }
}

pub(super) fn auth(reader: &mut Reader, path: &str, value: &Value) -> Option<Auth> {
    match value {
        Value::Null => None,
        Value::String(text) if text == "auto" => Some(Auth::Auto),
        Value::String(text) if text == "basic" => Some(Auth::Basic),
        Value::String(text) if text == "token" => Some(Auth::Token),
        Value::String(text) if text == "mtls" => Some(Auth::Mtls),
        other => {
            let shown = reader.show(other);
            reader.problem(path, format!("expected \"auto\", \"basic\", \"token\" or \"mtls\", found {shown}"));
            None
        }
    }
}

/// `off` without quotes is `false` in the YAML of the entry.
fn uplinks(reader: &mut Reader, path: &str, value: &Value) -> Uplinks {
    match value {
        Value::Bool(true) | Value::Null => Uplinks::Auto,
        Value::Bool(false) => Uplinks::Off,
        Value::String(text) if text == "auto" => Uplinks::Auto,
        Value::String(text) if text == "off" => Uplinks::Off,
        other => {
            let shown = reader.show(other);
            reader.problem(path, format!("expected \"auto\" or \"off\", found {shown}"));
            Uplinks::Auto
        }
    }
}

fn ports(reader: &mut Reader, path: &str, value: &Value) -> Ports {
    let mut ports = Ports::default();
    let entries = match value {
        Value::Object(entries) => entries.as_slice(),
        Value::Null => &[],
        other => {
            reader.problem(path, format!("expected {{include: […], exclude: […]}}, found {}", other.kind()));
            &[]
        }
    };
    for (key, value) in entries {
        let path = format!("{path}.{key}");
        match lower(key).as_str() {
            "include" => ports.include = reader.regexes(&path, value),
            "exclude" => ports.exclude = reader.regexes(&path, value),
            _ => reader.unknown(&path),
        }
    }
    ports
}

fn fabrics(reader: &mut Reader, top: &Place, listed: Option<(&str, &Value)>) -> Vec<Fabric> {
    let list = match listed {
        Some((_, Value::Array(list))) => list.as_slice(),
        None | Some((_, Value::Null)) => &[],
        Some((_, one)) => std::slice::from_ref(one),
    };
    if top.placed.is_none() && list.is_empty() {
        reader.problem("endpoint", "missing: the URL of the UFM, such as \"https://ufm.example.org\"".to_owned());
    }
    let mut fabrics: Vec<Fabric> = Vec::new();
    let key = listed.map_or("", |(key, _)| key);
    if let Some(other) = &top.placed {
        if !list.is_empty() {
            reader.problem(key, format!("{other} is set too: write each UFM into {key} and remove {other}"));
        }
        fabrics.push(top.clone().fabric(1, top));
    }
    for (index, item) in list.iter().enumerate() {
        let path = format!("{key}[{index}]");
        let Some(place) = fabric(reader, &path, item) else { continue };
        let fabric = place.fabric(fabrics.len() + 1, top);
        if fabrics.iter().any(|known| known.name == fabric.name) {
            reader.problem(&path, format!("another fabric is called {:?} already", fabric.name));
        }
        if fabrics.iter().flat_map(|known| &known.urls).any(|url| fabric.urls.contains(url)) {
            reader.problem(&path, "another fabric has the same URL".to_owned());
        }
        fabrics.push(fabric);
    }
    if fabrics.len() > MAX_FABRICS {
        reader.problem(key, format!("{} fabrics, at most {MAX_FABRICS} are allowed", fabrics.len()));
    }
    fabrics
}

fn fabric(reader: &mut Reader, path: &str, value: &Value) -> Option<Place> {
    let Value::Object(entries) = value else {
        reader.problem(path, format!("expected {{endpoint: …}}, found {}", value.kind()));
        return None;
    };
    let mut place = Place::default();
    for (key, value) in entries {
        let path = format!("{path}.{key}");
        if place.take(key, &path, value, reader) {
            continue;
        }
        match lower(key).as_str() {
            "name" => {
                let name = reader.text(&path, value).map(|name| check::name(&name).map(|()| name));
                place.name = checked(reader, &path, name);
            }
            _ => reader.unknown(&path),
        }
    }
    if place.placed.is_none() {
        reader.problem(path, "endpoint is missing".to_owned());
    }
    Some(place)
}

pub(super) fn lower(text: &str) -> String {
    text.to_ascii_lowercase()
}
