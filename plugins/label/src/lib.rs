//! The builtin discoverer that reads node labels: each label is a level, each value a domain.
//!
//! This crate defines the meaning of the labels. It does not read names, readiness or cordons, calls no endpoint and keeps
//! no state: the same labels give the same answer. A configuration with a mistake is refused whole, with every mistake; only
//! a type with a mistake may be left out beside valid ones, as for Volcano's document. A node whose labels do not give it a
//! place is reported, never guessed. `config` reads, `domains` and `volcano` decide, this file connects them.

mod classes;
pub mod config;
mod domains;
mod identity;
mod kept;
mod logic;
mod presets;
#[cfg(test)]
mod properties;
mod volcano;

pub use logic::discover;

use config::{Config, Mode};
use topoloom_sdk::prelude::*;

/// The discoverer.
#[derive(Debug)]
pub struct Label;

impl Discoverer for Label {
    type Config = Config;

    fn describe() -> Description {
        Description::new("label", env!("CARGO_PKG_VERSION"))
            .vendor("topoloom")
            .summary("Reads the topology from node labels, one label per level")
            .config_schema(include_str!("schema.json"))
    }

    fn configure(config: &Config) -> Result<Requirements, Vec<Problem>> {
        let levels = config.types.iter().flat_map(|kind| &kind.levels).flat_map(|level| &level.keys);
        let selectors = config.profiles.iter().flat_map(|profile| &profile.selector).map(|(key, _)| key);
        let requirements = Requirements::new().trigger(Trigger::on_columns());
        Ok(levels.chain(selectors).fold(requirements, |requirements, key| requirements.node_label(key)))
    }

    fn discover(config: &Config, input: &Input<'_>) -> Result<Answer, Failure> {
        let read = |key: &str| input.nodes.label(key);
        let mut answer = match config.mode {
            Mode::Paths => logic::discover(config, input.nodes.rows(), read),
            Mode::Volcano => volcano::discover(config, read),
        };
        if !config.left_out.is_empty() {
            kept::keep(config, &input.applied.groups(), &mut answer);
        }
        Ok(answer.into())
    }
}

topoloom_plugin!(Label);
