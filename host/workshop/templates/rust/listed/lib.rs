use std::collections::{BTreeMap, BTreeSet};

use topoloom_sdk::prelude::*;

/// Racks as a service lists them: `{"nodes": [{"name": "m1", "rack": "a7"}, …]}`, or the list alone.
pub struct Listed;

#[derive(serde::Deserialize)]
struct Record {
    name: String,
    rack: String,
}

impl Discoverer for Listed {
    // There is nothing to configure: the operator sets the address of the service in the entry.
    type Config = BTreeMap<String, serde::de::IgnoredAny>;

    fn describe() -> Description {
        let schema = r#"{"type": "object", "additionalProperties": false}"#;
        Description::new("listed", "0.1.0").vendor("Acme").summary("One group per rack of a list").config_schema(schema)
    }

    fn configure(config: &Self::Config) -> Result<Requirements, Vec<Problem>> {
        let unknown: Vec<_> = config.keys().map(|key| Problem::new(key, "is not known here")).collect();
        if !unknown.is_empty() {
            return Err(unknown);
        }
        // Below the URL of the operator; ask for no more than you need. Of the kinds of credential the best comes first.
        let list = Endpoint::new("list", "Reads which rack every node is in").paths(["/v1"]);
        let list = list.credentials([Credential::Bearer, Credential::Basic]);
        Ok(Requirements::new().endpoint(list).trigger(Trigger::on_timer()).trigger(Trigger::on_names()))
    }

    fn discover(_: &Self::Config, input: &Input<'_>) -> Result<Answer, Failure> {
        let mut elements = Elements::new(input.http.send(&Request::get("list", "/v1/nodes"))?.success()?, "nodes");
        let (mut racks, mut all, mut odd) = (BTreeMap::<String, BTreeSet<String>>::new(), 0, 0);
        // An error here means that the list is not whole: what was read before is not used.
        while let Some(text) = elements.next()? {
            all += 1;
            match serde_json::from_slice(text) {
                Ok(Record { name, rack }) if (1..=512).contains(&rack.len()) => {
                    racks.entry(rack).or_default().insert(name);
                }
                _ => odd += 1,
            }
        }
        if !elements.found() || odd * 20 > all {
            return Err(Failure::upstream(format!("no list of nodes, or {odd} of {all} records that cannot be used")));
        }
        let mut topology = TopologyBuilder::new();
        let level = topology.level(Level::new(1).named("rack"));
        for (rack, names) in racks {
            let rows: Vec<Row> = input.nodes.find(&names).into_iter().flatten().collect();
            if !rows.is_empty() {
                topology.group(level, rack).rows(rows);
            }
        }
        if odd > 0 {
            topology.diagnose("unusable-record", Subject::Source, format!("{odd} of {all} records are left out"));
        }
        Ok(topology.finish().into())
    }
}

topoloom_plugin!(Listed);
