use topoloom_sdk::prelude::*;

/// All nodes with the same value of one label are close together.
pub struct Racks;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    label: String,
}

impl Discoverer for Racks {
    type Config = Config;

    fn describe() -> Description {
        let schema = include_str!("../config.schema.json");
        Description::new("racks", "0.1.0").vendor("Acme").summary("One group per rack label").config_schema(schema)
    }

    fn configure(config: &Config) -> Result<Requirements, Vec<Problem>> {
        if config.label.is_empty() {
            return Err(vec![Problem::new("label", "must be the key of a node label, such as example.com/rack")]);
        }
        Ok(Requirements::new().node_label(&config.label).trigger(Trigger::on_columns()))
    }

    fn discover(config: &Config, input: &Input<'_>) -> Result<Answer, Failure> {
        let column = input.nodes.label(&config.label);
        let mut topology = TopologyBuilder::new();
        let racks = topology.level(Level::new(1).named(&config.label));
        // A label may be there and have no value: such a node has no rack.
        for (rack, rows) in column.by_value().into_iter().filter(|(rack, _)| !rack.is_empty()) {
            topology.group(racks, rack).label(&config.label, rack).rows(rows);
        }
        Ok(topology.finish().into())
    }
}

topoloom_plugin!(Racks);
