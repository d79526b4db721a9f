//! The builtin discoverer that reads an InfiniBand fabric from NVIDIA's Unified Fabric Manager.
//!
//! This crate owns the interface of UFM: requests, pages, records, identities, and whether anything changed since the last
//! round. `topoloom-fabric` turns cables into groups. It never answers with half a fabric: a list that is cut off, refused
//! or has too many unusable records makes the round fail, and the active topology stays. `config` reads the configuration,
//! `fetch` sends requests, `port`, `link` and `systems` read records, `gather` and `weave` make cables of them, `rounds`
//! connects these parts.

pub mod config;
mod fetch;
mod gather;
mod link;
mod names;
mod port;
mod rounds;
mod switches;
mod systems;
mod texts;
mod versions;
mod volcano;
mod weave;

#[cfg(test)]
mod tests;

use config::{Config, Fabric, Mode};
use std::time::Duration;
use topoloom_sdk::prelude::*;

/// Many nodes come and go at the same time: one round serves them all.
const PAUSE: Duration = Duration::from_secs(5);

/// The discoverer.
#[derive(Debug)]
pub struct Ufm;

impl Discoverer for Ufm {
    type Config = Config;

    fn describe() -> Description {
        Description::new("ufm", env!("CARGO_PKG_VERSION"))
            .vendor("topoloom")
            .summary("Reads the wiring of an InfiniBand fabric from UFM")
            .config_schema(include_str!("schema.json"))
    }

    fn configure(config: &Config) -> Result<Requirements, Vec<Problem>> {
        let requirements = Requirements::new().trigger(Trigger::on_timer());
        let mut requirements = config.fabrics.iter().map(endpoint).fold(requirements, Requirements::endpoint);
        if config.mode == Mode::Bundles {
            requirements = requirements.trigger(Trigger::on_names().at_least_apart(PAUSE));
            if let Some(key) = &config.settings.guid_annotation {
                let columns = Trigger::on_columns().at_least_apart(PAUSE);
                requirements = requirements.node_annotation(key).trigger(columns);
            }
        }
        Ok(requirements)
    }

    fn discover(config: &Config, input: &Input<'_>) -> Result<Answer, Failure> {
        match config.mode {
            Mode::Bundles => rounds::discover(config, input),
            Mode::Volcano => volcano::discover(config, input),
        }
    }
}

fn endpoint(fabric: &Fabric) -> Endpoint {
    Endpoint::new(&fabric.name, "Reads ports, links and systems of the fabric from UFM")
        .at(fabric.urls.iter().cloned())
        .paths(fabric.prefixes())
        .credentials(fabric.auth.credentials().iter().copied())
        .tls(fabric.tls.clone())
}

topoloom_plugin!(Ufm);
