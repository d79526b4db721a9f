//! Reads lenient JSON into a [`Config`], and collects problems and notes.

use super::{ANNOTATION, Config, Identity, KEY, place};
use crate::document::{Role, Rules};
use crate::lldp::Protocols;
use regex_lite::Regex;
use std::time::Duration;
use topoloom_fabric::{Reader, Settings, SharedKey};
use topoloom_sdk::json::Value;
use topoloom_sdk::{ConfigMapKey, Problem, Tls};

/// Interfaces without a cable: loopback, and those of virtual bridges, containers and representors.
const VIRTUAL: [&str; 2] = [
    r"^(lo|bond\d*|team\d*|br\d*|br-.*|docker.*|cni.*|veth.*|cali.*|cilium.*|lxc.*|virbr.*|vxlan.*|flannel.*|kube-.*|tun\d*|tap.*|dummy\d*|ovs-.*)$",
    r"^pf\d+(hpf|(vf|sf)\d+)$",
];
/// Members of one high-availability pair, and some more.
const MAX_ENDPOINTS: usize = 8;
/// Below a minute no entry of a collector would ever be fresh.
const SHORTEST_AGE: Duration = Duration::from_secs(60);
/// A limit beyond a year has no effect.
const LONGEST_AGE: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Where documents come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carrier {
    Http,
    Annotation,
    ConfigMap,
}

/// Reads a whole configuration.
pub(super) fn config(text: &str) -> Result<Config, Vec<Problem>> {
    let entries = match Value::parse(text)? {
        Value::Object(entries) => entries,
        Value::Null => Vec::new(),
        other => return Err(vec![Problem::new("", format!("expected a mapping, found {}", other.kind()))]),
    };
    let mut reading = Reading::default();
    for (key, value) in &entries {
        reading.key(key, value);
    }
    reading.finish()
}

struct Reading {
    reader: Reader,
    settings: Settings,
    carriers: Option<(String, Vec<Carrier>)>,
    endpoints: Vec<String>,
    says_endpoint: bool,
    annotation: Option<String>,
    config_map: Option<ConfigMapKey>,
    tls: Tls,
    include: Vec<Regex>,
    exclude: Option<Vec<Regex>>,
    exclude_switches: Vec<Regex>,
    identity: Identity,
    roles: Vec<Role>,
    max_age: Duration,
    protocols: Protocols,
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            reader: Reader::new(),
            settings: Settings::default(),
            carriers: None,
            endpoints: Vec::new(),
            says_endpoint: false,
            annotation: None,
            config_map: None,
            tls: Tls { ca_bundle: None, server_name: None, insecure_skip_verify: false },
            include: Vec::new(),
            exclude: None,
            exclude_switches: Vec::new(),
            identity: Identity::default(),
            roles: vec![Role::Compute],
            max_age: Duration::from_secs(24 * 60 * 60),
            protocols: Protocols::Lldp,
        }
    }
}

impl Reading {
    fn key(&mut self, key: &str, value: &Value) {
        match key.to_ascii_lowercase().as_str() {
            "carriers" => self.carriers = Some((key.to_owned(), self.carriers(key, value))),
            "endpoint" | "endpoints" => self.endpoints(key, value),
            "annotation" => {
                self.annotation = self.checked(key, value, place::annotation);
            }
            "configmap" => self.config_map = self.config_map(key, value),
            "interfaces" => {
                self.mapping(key, value, |this, path, key, value| match key {
                    "include" => this.include = this.reader.regexes(path, value),
                    "exclude" => this.exclude = Some(this.reader.regexes(path, value)),
                    _ => this.reader.unknown(path),
                });
            }
            "switches" => {
                self.mapping(key, value, |this, path, key, value| match key {
                    "exclude" => this.exclude_switches = this.reader.regexes(path, value),
                    "identity" => this.identity = this.identity(path, value),
                    _ => this.reader.unknown(path),
                });
            }
            "roles" => self.roles = self.roles(key, value),
            "maxage" => self.max_age(key, value),
            "allowcdp" => {
                if self.reader.flag(key, value) == Some(true) {
                    self.protocols = Protocols::LldpAndCdp;
                }
            }
            "insecureskipverify" => {
                self.tls.insecure_skip_verify = self.reader.flag(key, value).unwrap_or(false);
            }
            "cabundle" => self.tls.ca_bundle = self.ca_bundle(key, value),
            "servername" => self.tls.server_name = self.reader.host_name(key, value),
            "compat" if is_empty(value) => {}
            "compat" => {
                let shown = self.reader.show(value);
                self.reader.problem(
                    key,
                    format!("{shown}: Volcano has no RoCE discoverer, so there is nothing to be compatible with"),
                );
            }
            _ => {
                if self.settings.read(&mut self.reader, key, value) == SharedKey::No {
                    self.reader.unknown(key);
                }
            }
        }
    }

    fn carriers(&mut self, path: &str, value: &Value) -> Vec<Carrier> {
        let mut carriers = Vec::new();
        for (path, word) in self.reader.texts(path, value) {
            let carrier = match word.to_ascii_lowercase().as_str() {
                "http" => Carrier::Http,
                "annotation" => Carrier::Annotation,
                "configmap" => Carrier::ConfigMap,
                _ => {
                    self.reader.problem(&path, format!("expected http, annotation or configMap, found {word:?}"));
                    continue;
                }
            };
            if carriers.contains(&carrier) {
                self.reader.problem(&path, format!("{word:?} is given twice"));
            } else {
                carriers.push(carrier);
            }
        }
        carriers
    }

    fn endpoints(&mut self, path: &str, value: &Value) {
        if self.says_endpoint {
            self.reader.problem(path, "endpoint and endpoints are the same setting: use one of them".to_owned());
        }
        self.says_endpoint = true;
        for (path, text) in self.reader.texts(path, value) {
            match place::url(&text) {
                Ok(url) => {
                    if url.starts_with("http://") {
                        self.reader
                            .note("no-tls", format!("{path} is http: the server that answers is not authenticated"));
                    }
                    self.endpoints.push(url);
                }
                Err(why) => self.reader.problem(&path, why),
            }
        }
        if self.endpoints.len() > MAX_ENDPOINTS {
            let count = self.endpoints.len();
            self.reader.problem(path, format!("{count} endpoints, at most {MAX_ENDPOINTS} are allowed"));
        }
    }

    fn config_map(&mut self, path: &str, value: &Value) -> Option<ConfigMapKey> {
        if let Value::String(_) = value {
            let name = self.checked(path, value, place::object_name)?;
            return Some(ConfigMapKey { namespace: None, name, key: KEY.to_owned() });
        }
        let (mut namespace, mut name, mut map_key) = (None, None, Some(KEY.to_owned()));
        let mut says_name = false;
        self.mapping(path, value, |this, path, key, value| match key {
            "namespace" => namespace = this.checked(path, value, place::namespace),
            "name" => {
                says_name = true;
                name = this.checked(path, value, place::object_name);
            }
            "key" => map_key = this.checked(path, value, place::data_key),
            _ => this.reader.unknown(path),
        });
        if !says_name && matches!(value, Value::Object(_)) {
            self.reader.problem(path, "name is missing".to_owned());
        }
        Some(ConfigMapKey { namespace, name: name?, key: map_key? })
    }

    fn identity(&mut self, path: &str, value: &Value) -> Identity {
        match value {
            Value::Null => Identity::default(),
            Value::String(text) if text.eq_ignore_ascii_case("auto") => Identity::Auto,
            Value::String(text) if text.eq_ignore_ascii_case("chassis") => Identity::Chassis,
            Value::String(text) if text.eq_ignore_ascii_case("name") => Identity::Name,
            other => {
                let shown = self.reader.show(other);
                self.reader.problem(path, format!("expected \"auto\", \"chassis\" or \"name\", found {shown}"));
                Identity::default()
            }
        }
    }

    fn roles(&mut self, path: &str, value: &Value) -> Vec<Role> {
        let mut roles = Vec::new();
        let words = self.reader.texts(path, value);
        if words.is_empty() {
            self.reader.problem(path, "no role: compute, storage or mgmt is expected".to_owned());
        }
        for (path, word) in words {
            match Role::parse(&word.to_ascii_lowercase()) {
                Some(role) => roles.push(role),
                None => self.reader.problem(&path, format!("expected compute, storage or mgmt, found {word:?}")),
            }
        }
        roles
    }

    fn max_age(&mut self, path: &str, value: &Value) {
        let Some(age) = self.reader.duration(path, value) else { return };
        if (SHORTEST_AGE..=LONGEST_AGE).contains(&age) {
            self.max_age = age;
        } else {
            let shown = self.reader.show(value);
            self.reader.problem(path, format!("expected a duration from 1m to 8784h, found {shown}"));
        }
    }

    fn ca_bundle(&mut self, path: &str, value: &Value) -> Option<String> {
        let text = self.reader.text(path, value)?;
        if !text.contains("-----BEGIN CERTIFICATE-----") {
            self.reader.problem(path, "expected certificates in PEM, found none".to_owned());
            return None;
        }
        Some(text)
    }

    /// A string that follows a rule; the empty one is none.
    fn checked(&mut self, path: &str, value: &Value, rule: fn(&str) -> Result<(), String>) -> Option<String> {
        let text = self.reader.text(path, value)?;
        match rule(&text) {
            Ok(()) => Some(text),
            Err(why) => {
                self.reader.problem(path, why);
                None
            }
        }
    }

    /// Calls back for each key of a mapping, in lower case, with its path.
    fn mapping(&mut self, path: &str, value: &Value, mut each: impl FnMut(&mut Self, &str, &str, &Value)) {
        match value {
            Value::Null => {}
            Value::Object(entries) => {
                for (key, value) in entries {
                    each(self, &format!("{path}.{key}"), &key.to_ascii_lowercase(), value);
                }
            }
            other => self.reader.problem(path, format!("expected a mapping, found {}", other.kind())),
        }
    }

    fn finish(mut self) -> Result<Config, Vec<Problem>> {
        // Without the key `carriers`, those carriers are on that the configuration has keys for, else the annotation.
        let asked = self.says_endpoint || self.config_map.is_some();
        let implied = [
            (Carrier::Http, self.says_endpoint),
            (Carrier::Annotation, self.annotation.is_some() || !asked),
            (Carrier::ConfigMap, self.config_map.is_some()),
        ];
        let implied = implied.into_iter().filter(|(_, on)| *on).map(|(carrier, _)| carrier).collect();
        let (path, carriers) = self.carriers.take().unwrap_or_else(|| (String::new(), implied));
        let is_on = |carrier: Carrier| carriers.contains(&carrier);
        if carriers.is_empty() && !path.is_empty() {
            self.reader.problem(&path, "no carrier is on: http, annotation or configMap is expected".to_owned());
        }
        if is_on(Carrier::Http) && !self.says_endpoint {
            self.reader.problem("endpoint", "missing, but the carrier http is on".to_owned());
        } else if is_on(Carrier::Http) && self.endpoints.is_empty() {
            self.reader.problem("endpoint", "no endpoint, but the carrier http is on".to_owned());
        }
        if is_on(Carrier::ConfigMap) && self.config_map.is_none() {
            self.reader.problem("configMap", "missing or wrong, but the carrier configMap is on".to_owned());
        }
        for (carrier, key, says) in [
            (Carrier::Http, "endpoint", self.says_endpoint),
            (Carrier::Annotation, "annotation", self.annotation.is_some()),
            (Carrier::ConfigMap, "configMap", self.config_map.is_some()),
        ] {
            if says && !is_on(carrier) {
                self.reader.note("unused-key", format!("{key} is set, but its carrier is off"));
            }
        }
        // Both patterns are constants, and a test matches names with each of them.
        let exclude = self.exclude.unwrap_or_else(|| VIRTUAL.iter().filter_map(|text| Regex::new(text).ok()).collect());
        let annotation = self.annotation.unwrap_or_else(|| ANNOTATION.to_owned());
        self.settings.notes = self.reader.finish()?;
        Ok(Config {
            endpoints: if is_on(Carrier::Http) { self.endpoints } else { Vec::new() },
            annotation: is_on(Carrier::Annotation).then_some(annotation),
            config_map: self.config_map.filter(|_| is_on(Carrier::ConfigMap)),
            tls: self.tls,
            rules: Rules { include: self.include, exclude, roles: self.roles, protocols: self.protocols },
            exclude_switches: self.exclude_switches,
            identity: self.identity,
            max_age: u64::try_from(self.max_age.as_millis()).unwrap_or(u64::MAX),
            settings: self.settings,
        })
    }
}

fn is_empty(value: &Value) -> bool {
    *value == Value::Null || *value == Value::String(String::new())
}
