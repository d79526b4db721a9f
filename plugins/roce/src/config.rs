//! The checked, complete configuration. Reading is lenient in form and strict in meaning: all mistakes are reported at
//! once, each with its path; a value that works but may surprise gives a note.

mod place;
mod read;

use crate::carriers::fetch::PATH;
use crate::document::Rules;
use regex_lite::Regex;
use topoloom_fabric::Settings;
use topoloom_sdk::{ConfigMapKey, FromJson, Problem, Tls};

/// The annotation that the collector writes.
pub const ANNOTATION: &str = "topoloom.dev/fabric-links";
/// The key of the ConfigMap.
pub const KEY: &str = "fabric.json";

/// A checked configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the service is: base URLs of one high-availability pair. Empty: this carrier is off.
    pub endpoints: Vec<String>,
    /// The annotation to read. `None`: this carrier is off.
    pub annotation: Option<String>,
    /// The ConfigMap to read. `None`: this carrier is off.
    pub config_map: Option<ConfigMapKey>,
    /// How the service's certificate is checked.
    pub tls: Tls,
    /// Which cables count.
    pub(crate) rules: Rules,
    /// Switches that do not count, by name or identity.
    pub exclude_switches: Vec<Regex>,
    /// What identifies a switch.
    pub identity: Identity,
    /// How long an entry is fresh, in milliseconds.
    pub max_age: u64,
    /// How cables become groups.
    pub settings: Settings,
}

/// What identifies a switch that has a name and a chassis id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Identity {
    /// Its chassis id.
    Chassis,
    /// Its name, unless images give it to every switch.
    Name,
    /// Its chassis id, unless it shows a different one on every port.
    #[default]
    Auto,
}

impl FromJson for Config {
    fn from_json(text: &str) -> Result<Self, Vec<Problem>> {
        read::config(text)
    }
}

impl Config {
    /// The carriers that are on, as messages name them.
    pub(crate) fn carriers(&self) -> String {
        let carriers = [
            (!self.endpoints.is_empty()).then(|| "the service".to_owned()),
            self.annotation.as_ref().map(|key| format!("annotation {key}")),
            self.config_map.as_ref().map(|_| self.config_map_name()),
        ];
        carriers.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }

    /// The path of the document as messages name it. Members of a pair may have different ones.
    pub(crate) fn service_path(&self) -> String {
        let base = |url: &String| {
            let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
            rest.split_once('/').map_or_else(String::new, |(_, path)| format!("/{path}"))
        };
        let mut bases: Vec<String> = self.endpoints.iter().map(base).collect();
        bases.dedup();
        let paths: Vec<String> = bases.iter().map(|base| format!("{base}{PATH}")).collect();
        paths.join(" or ")
    }

    /// The ConfigMap as messages name it.
    pub(crate) fn config_map_name(&self) -> String {
        self.config_map.as_ref().map_or_else(String::new, |map| {
            let namespace = map.namespace.as_ref().map_or_else(String::new, |namespace| format!("{namespace}/"));
            format!("ConfigMap {namespace}{}, key {}", map.name, map.key)
        })
    }
}

#[cfg(test)]
mod tests;
