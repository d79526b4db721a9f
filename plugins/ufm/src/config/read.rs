//! From lenient JSON to a [`Config`], collecting problems and notes on the way.

use super::{Auth, Config, Down, Fabric, Note, Ports, Uplinks, check};
use regex_lite::Regex;
use topoloom_sdk::json::Value;
use topoloom_sdk::{Problem, Tls};

/// The name of the first endpoint; others are this and their number.
const ENDPOINT: &str = "ufm";
/// More fabrics than one entry should carry.
const MAX_FABRICS: usize = 16;
/// Of a hundred records.
const MAX_UNUSABLE: u32 = 5;
/// Pages smaller than this cost more requests than a round has.
const PAGE: std::ops::RangeInclusive<u64> = 200..=1_000_000;

/// Reads a whole configuration.
pub(super) fn config(text: &str) -> Result<Config, Vec<Problem>> {
    let entries = match Value::parse(text)? {
        Value::Object(entries) => entries,
        Value::Null => Vec::new(),
        other => return Err(vec![Problem::new("", format!("{} where a mapping is expected", other.kind()))]),
    };
    let mut reader = Reader::default();
    let mut config = Config {
        fabrics: Vec::new(),
        down: Down::Skip,
        ports: Ports::default(),
        max_unusable: MAX_UNUSABLE,
        uplinks: Uplinks::Auto,
        page_size: None,
        notes: Vec::new(),
    };
    let mut top = Place::default();
    let mut fabrics = None;
    for (key, value) in &entries {
        if top.take(key, key, value, &mut reader) {
            continue;
        }
        match lower(key).as_str() {
            "fabrics" => fabrics = Some((key.as_str(), value)),
            "includedown" => {
                config.down = if reader.flag(key, value) { Down::Include } else { Down::Skip };
            }
            "ports" => reader.ports(key, value, &mut config.ports),
            "maxunusable" => config.max_unusable = reader.number(key, value, 0..=100).unwrap_or(MAX_UNUSABLE),
            "uplinks" => config.uplinks = reader.uplinks(key, value),
            "pagesize" => config.page_size = reader.number(key, value, PAGE),
            _ => reader.unknown(key),
        }
    }
    reader.fabrics(top, fabrics, &mut config.fabrics);
    config.notes = reader.notes;
    if reader.problems.is_empty() { Ok(config) } else { Err(reader.problems) }
}

/// What says where a UFM is and how to speak to it: at the top, for all fabrics, or in one of them.
#[derive(Debug, Clone, Default)]
struct Place {
    name: Option<String>,
    /// Whether a key that names URLs was there, good or bad.
    placed: bool,
    urls: Vec<String>,
    prefix: Option<String>,
    auth: Option<Auth>,
    ca_bundle: Option<String>,
    server_name: Option<String>,
    insecure: Option<bool>,
}

impl Place {
    /// Reads a key, if it is one of these.
    fn take(&mut self, key: &str, path: &str, value: &Value, reader: &mut Reader) -> bool {
        match lower(key).as_str() {
            "endpoint" => {
                self.placed = true;
                let text = reader.text(path, value).map(|text| (path.to_owned(), text));
                reader.urls(text.into_iter().collect(), &mut self.urls);
            }
            "endpoints" => {
                self.placed = true;
                let texts = reader.texts(path, value);
                if texts.is_empty() && !matches!(value, Value::Array(list) if !list.is_empty()) {
                    reader.problem(path, "the list is empty; at least one URL is expected".to_owned());
                }
                reader.urls(texts, &mut self.urls);
            }
            "apiprefix" => {
                let prefix = reader.text(path, value).map(|text| check::prefix(&text));
                self.prefix = reader.checked(path, prefix);
            }
            "auth" => self.auth = reader.auth(path, value),
            "cabundle" => {
                let bundle = reader.text(path, value);
                if bundle.as_ref().is_some_and(|text| !text.contains("-----BEGIN CERTIFICATE-----")) {
                    reader.problem(path, "no PEM certificate is in it".to_owned());
                }
                self.ca_bundle = bundle;
            }
            "servername" => self.server_name = reader.text(path, value).filter(|name| !name.trim().is_empty()),
            "insecureskipverify" => self.insecure = Some(reader.insecure(path, value)),
            _ => return false,
        }
        true
    }

    /// The fabric, with what the top says where this says nothing.
    fn fabric(self, number: usize, top: &Self) -> Fabric {
        let name = match number {
            1 => ENDPOINT.to_owned(),
            _ => format!("{ENDPOINT}-{number}"),
        };
        let top = top.clone();
        Fabric {
            name: self.name.unwrap_or(name),
            urls: self.urls,
            prefix: self.prefix.or(top.prefix),
            auth: self.auth.or(top.auth).unwrap_or(Auth::Auto),
            tls: Tls {
                ca_bundle: self.ca_bundle.or(top.ca_bundle),
                server_name: self.server_name.or(top.server_name),
                insecure_skip_verify: self.insecure.or(top.insecure).unwrap_or(false),
            },
        }
    }
}

#[derive(Default)]
struct Reader {
    problems: Vec<Problem>,
    notes: Vec<Note>,
}

impl Reader {
    fn problem(&mut self, path: &str, message: String) {
        self.problems.push(Problem::new(path, message));
    }

    fn note(&mut self, code: &'static str, text: String) {
        self.notes.push(Note { code, text });
    }

    fn unknown(&mut self, path: &str) {
        self.note("unknown-key", format!("{path:?} means nothing here and is ignored"));
    }

    fn checked<T>(&mut self, path: &str, value: Option<Result<T, String>>) -> Option<T> {
        match value? {
            Ok(value) => Some(value),
            Err(message) => {
                self.problem(path, message);
                None
            }
        }
    }

    fn flag(&mut self, path: &str, value: &Value) -> bool {
        match value {
            Value::Bool(flag) => *flag,
            other => {
                self.problem(path, format!("{} where true or false is expected", show(other)));
                false
            }
        }
    }

    /// Volcano takes everything but a boolean for false. So does this: false is the safe side.
    fn insecure(&mut self, path: &str, value: &Value) -> bool {
        if let Value::Bool(flag) = value {
            return *flag;
        }
        self.note("coerced", format!("{path} is {}: certificates are checked; write true or false", value.kind()));
        false
    }

    fn number(&mut self, path: &str, value: &Value, allowed: std::ops::RangeInclusive<u64>) -> Option<u32> {
        let number = match value {
            Value::Number(text) => text.parse::<u64>().ok(),
            _ => None,
        };
        let number = number.filter(|number| allowed.contains(number)).and_then(|number| u32::try_from(number).ok());
        if number.is_none() {
            let (least, most) = allowed.into_inner();
            self.problem(path, format!("{} where a number from {least} to {most} is expected", show(value)));
        }
        number
    }

    /// A string and nothing else: what may be a secret is not shown.
    fn text(&mut self, path: &str, value: &Value) -> Option<String> {
        if let Value::String(text) = value {
            return Some(text.clone());
        }
        self.problem(path, format!("{} where a string is expected", value.kind()));
        None
    }

    /// A list of strings; a single one stands for a list of one.
    fn texts(&mut self, path: &str, value: &Value) -> Vec<(String, String)> {
        let list = match value {
            Value::Null => return Vec::new(),
            Value::Array(list) => list.as_slice(),
            one => return self.text(path, one).map(|text| (path.to_owned(), text)).into_iter().collect(),
        };
        let mut texts = Vec::with_capacity(list.len());
        for (index, item) in list.iter().enumerate() {
            let path = format!("{path}[{index}]");
            texts.extend(self.text(&path, item).map(|text| (path, text)));
        }
        texts
    }

    fn urls(&mut self, texts: Vec<(String, String)>, urls: &mut Vec<String>) {
        for (path, text) in texts {
            match check::url(&text) {
                Ok(url) if urls.contains(&url) => self.problem(&path, "the URL is there twice".to_owned()),
                Ok(url) => urls.push(url),
                Err(message) => self.problem(&path, message.to_owned()),
            }
        }
    }

    fn auth(&mut self, path: &str, value: &Value) -> Option<Auth> {
        match value {
            Value::String(text) if text == "auto" => Some(Auth::Auto),
            Value::String(text) if text == "basic" => Some(Auth::Basic),
            Value::String(text) if text == "token" => Some(Auth::Token),
            Value::String(text) if text == "mtls" => Some(Auth::Mtls),
            other => {
                let message = format!("{} where \"auto\", \"basic\", \"token\" or \"mtls\" is expected", show(other));
                self.problem(path, message);
                None
            }
        }
    }

    /// `off` without quotes is `false` in the YAML of the entry.
    fn uplinks(&mut self, path: &str, value: &Value) -> Uplinks {
        match value {
            Value::Bool(true) => Uplinks::Auto,
            Value::Bool(false) => Uplinks::Off,
            Value::String(text) if text == "auto" => Uplinks::Auto,
            Value::String(text) if text == "off" => Uplinks::Off,
            other => {
                self.problem(path, format!("{} where \"auto\" or \"off\" is expected", show(other)));
                Uplinks::Auto
            }
        }
    }

    fn ports(&mut self, path: &str, value: &Value, ports: &mut Ports) {
        let Value::Object(entries) = value else {
            return self.problem(path, format!("{} where {{include: […], exclude: […]}} is expected", value.kind()));
        };
        for (key, value) in entries {
            let path = format!("{path}.{key}");
            match lower(key).as_str() {
                "include" => ports.include = self.patterns(&path, value),
                "exclude" => ports.exclude = self.patterns(&path, value),
                _ => self.unknown(&path),
            }
        }
    }

    fn patterns(&mut self, path: &str, value: &Value) -> Vec<Regex> {
        let mut patterns = Vec::new();
        for (path, text) in self.texts(path, value) {
            match Regex::new(&text) {
                Ok(regex) => patterns.push(regex),
                Err(error) => self.problem(&path, format!("{text:?} is no regular expression: {error}")),
            }
        }
        patterns
    }

    fn fabrics(&mut self, top: Place, value: Option<(&str, &Value)>, fabrics: &mut Vec<Fabric>) {
        if top.placed {
            fabrics.push(top.clone().fabric(1, &top));
        }
        let list = match value {
            Some((_, Value::Array(list))) => list.as_slice(),
            None | Some((_, Value::Null)) => &[],
            Some((_, one)) => std::slice::from_ref(one),
        };
        if !top.placed && list.is_empty() {
            self.problem("endpoint", "missing: the URL of the UFM, such as \"https://ufm.example.org\"".to_owned());
        }
        if let Some((path, _)) = value {
            for (index, item) in list.iter().enumerate() {
                let path = format!("{path}[{index}]");
                if let Some(place) = self.fabric(&path, item) {
                    let fabric = place.fabric(fabrics.len() + 1, &top);
                    if fabrics.iter().any(|known| known.name == fabric.name) {
                        self.problem(&path, format!("another fabric is called {:?} already", fabric.name));
                    }
                    if fabrics.iter().flat_map(|known| &known.urls).any(|url| fabric.urls.contains(url)) {
                        self.problem(&path, "another fabric has the same URL".to_owned());
                    }
                    fabrics.push(fabric);
                }
            }
            if fabrics.len() > MAX_FABRICS {
                self.problem(path, format!("{} fabrics, at most {MAX_FABRICS} are allowed", fabrics.len()));
            }
        }
    }

    fn fabric(&mut self, path: &str, value: &Value) -> Option<Place> {
        let Value::Object(entries) = value else {
            self.problem(path, format!("{} where {{endpoint: …}} is expected", value.kind()));
            return None;
        };
        let mut place = Place::default();
        for (key, value) in entries {
            let path = format!("{path}.{key}");
            if place.take(key, &path, value, self) {
                continue;
            }
            match lower(key).as_str() {
                "name" => {
                    let name = self.text(&path, value).map(|name| check::name(&name).map(|()| name));
                    place.name = self.checked(&path, name);
                }
                _ => self.unknown(&path),
            }
        }
        if !place.placed {
            self.problem(path, "endpoint is missing".to_owned());
        }
        Some(place)
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
