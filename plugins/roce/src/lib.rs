//! The builtin discoverer that reads Ethernet fabrics: which switch every node is plugged into.
//!
//! No single service knows an Ethernet fabric. So there is one contract, the document `topoloom.fabric/v1`, and three
//! carriers that deliver it: an annotation on each node, an HTTP service, a key of a ConfigMap. This crate defines the
//! meaning of that document and of the output of `lldpcli`, and decides which cables end at the same switch. It never
//! connects to a switch, and `topoloom-fabric` does the grouping, as for every fabric. A carrier that fails makes the round
//! fail; an invalid entry is ignored and reported. `carriers` asks, `document` and `lldp` read, `merge` and `switches` decide,
//! `round` connects.

mod carriers;
mod chassis;
pub mod config;
mod document;
mod kept;
mod lldp;
mod merge;
mod reports;
mod round;
mod switches;
mod time;

#[cfg(test)]
mod cases;
#[cfg(test)]
mod collector;
#[cfg(test)]
mod fabrics;
#[cfg(test)]
mod lost;
#[cfg(test)]
mod mutations;

use carriers::fetch::{DOCUMENT, FABRIC, PATH};
use config::Config;
use std::time::Duration;
use topoloom_sdk::prelude::*;
use topoloom_sdk::{Credential, Location};

/// A roll-out writes thousands of annotations within a minute: one round serves many of them.
const PAUSE: Duration = Duration::from_secs(5);

/// The discoverer.
#[derive(Debug)]
pub struct Roce;

impl Discoverer for Roce {
    type Config = Config;

    fn describe() -> Description {
        Description::new("roce", env!("CARGO_PKG_VERSION"))
            .vendor("topoloom")
            .summary("Reads Ethernet fabrics: LLDP neighbours of nodes, or a document of the network team")
            .config_schema(include_str!("schema.json"))
    }

    fn configure(config: &Config) -> Result<Requirements, Vec<Problem>> {
        let mut requirements = Requirements::new()
            .trigger(Trigger::on_names().at_least_apart(PAUSE))
            .trigger(Trigger::on_timer().at_least_apart(PAUSE));
        let columns = [&config.annotation, &config.settings.guid_annotation];
        if columns.iter().any(|column| column.is_some()) {
            requirements = requirements.trigger(Trigger::on_columns().at_least_apart(PAUSE));
        }
        for key in columns.into_iter().flatten() {
            requirements = requirements.node_annotation(key);
        }
        if !config.endpoints.is_empty() {
            let endpoint = Endpoint::new(FABRIC, "Reads which switch every node is plugged into")
                .at(config.endpoints.iter().cloned())
                .paths([PATH])
                .tls(config.tls.clone())
                .credentials([Credential::Bearer, Credential::Basic, Credential::Mtls]);
            requirements = requirements.endpoint(endpoint);
        }
        if let Some(map) = &config.config_map {
            let endpoint = Endpoint::new(DOCUMENT, "Reads which switch every node is plugged into, as written by hand");
            requirements = requirements.endpoint(Endpoint { location: Location::ConfigMap(map.clone()), ..endpoint });
        }
        Ok(requirements)
    }

    fn discover(config: &Config, input: &Input<'_>) -> Result<Answer, Failure> {
        round::discover(config, input)
    }
}

topoloom_plugin!(Roce);
