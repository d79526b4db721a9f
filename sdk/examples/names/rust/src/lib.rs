//! Racks out of the names of nodes.
//!
//! Where names have places in them, `gpu-r12-07`, a pattern says which part is the rack: `gpu-{rack}-*`. `{rack}` is one or
//! more letters and digits, as many as possible; a `*` at the end is any text; everything else is itself.
//!
//! It needs the grant `nodeNames`, and no service outside.

use std::collections::BTreeMap;

use topoloom_sdk::prelude::*;

/// Nodes with the same rack in their names are close together.
struct Names;

const SCHEMA: &str = r#"{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "required": ["pattern"],
  "properties": {
    "pattern": {"description": "The form of names, as gpu-{rack}-*.", "type": "string"}
  }
}"#;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    pattern: String,
}

impl Discoverer for Names {
    type Config = Config;

    fn describe() -> Description {
        let description = Description::new("names", "0.1.0").vendor("Acme").config_schema(SCHEMA);
        description.summary("Racks out of the names of nodes")
    }

    fn configure(config: &Config) -> Result<Requirements, Vec<Problem>> {
        match Pattern::parse(&config.pattern) {
            Some(_) => Ok(Requirements::new().trigger(Trigger::on_names())),
            None => {
                let message = format!("expected one {{rack}}, and * only at the end, got {:?}", config.pattern);
                Err(vec![Problem::new("pattern", message)])
            }
        }
    }

    fn discover(config: &Config, input: &Input<'_>) -> Result<Answer, Failure> {
        let pattern = Pattern::parse(&config.pattern).ok_or_else(|| Failure::Config("no pattern".to_owned()))?;
        let names = input.nodes.names();
        let mut racks: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
        let mut others = Vec::new();
        for (row, name) in (0..).zip(names.iter()) {
            match pattern.rack(name) {
                Some(rack) => racks.entry(rack).or_default().push(row),
                None => others.push(row),
            }
        }
        let mut topology = TopologyBuilder::new();
        let level = topology.level(Level::new(1).named("rack"));
        for (rack, rows) in racks {
            topology.group(level, rack).rows(rows);
        }
        if !others.is_empty() {
            topology.diagnose("name-without-rack", Subject::Rows(others), "the name has not the form of the pattern");
        }
        Ok(topology.finish().into())
    }
}

topoloom_plugin!(Names);

/// The form of names.
#[derive(Debug, PartialEq)]
struct Pattern<'a> {
    before: &'a str,
    behind: &'a str,
    /// Any text may follow.
    is_open: bool,
}

impl<'a> Pattern<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (before, behind) = text.split_once("{rack}")?;
        let (behind, is_open) = behind.strip_suffix('*').map_or((behind, false), |behind| (behind, true));
        let is_plain = |part: &str| !part.contains(['*', '{', '}']);
        (is_plain(before) && is_plain(behind)).then_some(Self { before, behind, is_open })
    }

    /// The rack in a name.
    fn rack<'n>(&self, name: &'n str) -> Option<&'n str> {
        let rest = name.strip_prefix(self.before)?;
        let longest = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let mut ways = (1..=longest).rev().map(|end| rest.split_at(end));
        let is_it = |after: &str| after.strip_prefix(self.behind).is_some_and(|rest| self.is_open || rest.is_empty());
        ways.find(|(_, after)| is_it(after)).map(|(rack, _)| rack)
    }
}

#[cfg(test)]
mod tests {
    use topoloom_sdk::testing::Cluster;

    use super::*;

    #[test]
    fn the_rack_is_where_the_pattern_says() {
        for (pattern, name, wanted) in [
            ("gpu-{rack}-*", "gpu-r12-07", Some("r12")),
            ("gpu-{rack}-*", "gpu-r12", None),
            ("gpu-{rack}-*", "gpu--07", None),
            ("{rack}", "r12", Some("r12")),
            ("{rack}", "r12-1", None),
            ("{rack}.example.com", "r12.example.com", Some("r12")),
            // As many letters and digits as possible.
            ("n{rack}x*", "nr1x2x3", Some("r1x2")),
        ] {
            assert_eq!(Pattern::parse(pattern).unwrap().rack(name), wanted, "{pattern} {name}");
        }
    }

    #[test]
    fn nodes_of_one_rack_are_one_group_and_the_others_are_reported() {
        let cluster = Cluster::new().node("gpu-r1-1", []).node("gpu-r1-2", []).node("gpu-r2-1", []).node("login", []);
        let answer = cluster.discover::<Names>(r#"{"pattern": "gpu-{rack}-*"}"#).unwrap();
        let wanted = "tier 1 rack | r1 |  | gpu-r1-1 gpu-r1-2\n\
                      tier 1 rack | r2 |  | gpu-r2-1\n\
                      ! name-without-rack | login | the name has not the form of the pattern\n";
        assert_eq!(cluster.show(&answer), wanted);
    }

    #[test]
    fn a_pattern_has_one_rack_and_nothing_else_with_a_meaning() {
        for pattern in ["gpu-*", "{rack}{rack}", "*{rack}", "{rack}-{node}", ""] {
            let end = Cluster::new().discover::<Names>(&format!(r#"{{"pattern": "{pattern}"}}"#));
            assert!(matches!(end, Err(Failure::Config(_))), "{pattern}: {end:?}");
        }
    }
}
