//! A discoverer that uses everything in its interface once: every import, every form of an answer, every way to fail.
//! The components in `tests/kept` are made of it.

use std::io::Read;
use std::time::Duration;

use topoloom_sdk::http::Request;
use topoloom_sdk::prelude::*;
use topoloom_sdk::{
    ConfigMapKey, Credential, LabelOperator, LabelRequirement, LabelSelector, Level, Location, Members, Outcome, Tls,
    UpstreamFailure, log,
};

const RACK: &str = "example.com/rack";

struct Whole;

/// The word that sets how a round ends. Read without a JSON library, so that the component is small.
struct Word(String);

impl topoloom_sdk::FromJson for Word {
    fn from_json(text: &str) -> Result<Self, Vec<Problem>> {
        let word = text.trim().strip_prefix("{\"end\":\"").and_then(|rest| rest.strip_suffix("\"}"));
        Ok(Self(word.unwrap_or_default().to_owned()))
    }
}

impl Discoverer for Whole {
    type Config = Word;

    fn describe() -> Description {
        Description::new("whole", "0.1.0").vendor("topoloom").summary("Uses everything").config_schema("{}")
    }

    fn configure(Word(end): &Word) -> Result<Requirements, Vec<Problem>> {
        if end == "problem" {
            return Err(vec![Problem::new("end", "is no way to end")]);
        }
        let tls = Tls { ca_bundle: None, server_name: Some("fabric.example".into()), insecure_skip_verify: false };
        let credentials =
            [Credential::None, Credential::Basic, Credential::Token, Credential::Bearer, Credential::Mtls];
        let given = Endpoint::new("given", "Reads what the operator names");
        let fabric = Endpoint::new("fabric", "Reads the fabric").at(["https://fabric.example"]).paths(["/a"]).tls(tls);
        let key = ConfigMapKey { namespace: None, name: "fabric".into(), key: "fabric.json".into() };
        let kept = Endpoint { location: Location::ConfigMap(key), ..Endpoint::new("kept", "A document") };
        let pause = Duration::from_secs(7);
        Ok(Requirements::new()
            .node_label(RACK)
            .node_annotation(RACK)
            .endpoint(given)
            .endpoint(fabric.credentials(credentials))
            .endpoint(kept)
            .trigger(Trigger::on_columns())
            .trigger(Trigger::on_names())
            .trigger(Trigger::on_timer().at_least_apart(pause)))
    }

    fn discover(Word(end): &Word, input: &Input<'_>) -> Result<Answer, Failure> {
        match end.as_str() {
            "config" => return Err(Failure::Config("as told".into())),
            "denied" => return Err(fetch(input).err().unwrap_or(Failure::Denied("by no one".into()))),
            "unauthorized" => return Err(Failure::Unauthorized("as told".into())),
            "upstream" => {
                let failure = UpstreamFailure { message: "as told".into(), retry_after: Some(7_000) };
                return Err(Failure::Upstream(failure));
            }
            "internal" => return Err(Failure::Internal("as told".into())),
            "unchanged" => return Ok(Answer::unchanged(input.state.to_vec())),
            _ => {}
        }
        let (debug, info, warn, error) = (log::debug, log::info, log::warn, log::error);
        [debug, info, warn, error].iter().for_each(|say| say("a line"));
        let state = format!("{} {} {}", input.nodes.generation(), input.time, input.state.len());
        Ok(Answer { outcome: Outcome::Topology(topology(input)), state: state.into_bytes() })
    }
}

topoloom_plugin!(Whole);

/// The answer of an endpoint.
fn fetch(input: &Input<'_>) -> Result<Vec<u8>, Failure> {
    if input.http.credential_of("fabric")? == Credential::None {
        log::debug("no credential");
    }
    let mut body = Vec::new();
    let response = input.http.send(&Request::get("fabric", "/a").header("accept", "*/*"))?.success()?;
    response.take(1 << 20).read_to_end(&mut body).map_err(|error| Failure::upstream(error.to_string()))?;
    Ok(body)
}

fn topology(input: &Input<'_>) -> topoloom_sdk::Topology {
    let mut topology = TopologyBuilder::new();
    topology.additions_only();
    let racks = topology.level(Level::new(1).named("rack").kind("rack"));
    let rows = topology.level(Level::new(2));
    let (labels, annotations) = (input.nodes.label(RACK), input.nodes.annotation(RACK));
    let mut parts = Vec::new();
    for column in [&labels, &annotations] {
        for (rack, nodes) in column.by_value() {
            parts.push(topology.group(racks, rack).label(RACK, rack).fixed_name(&format!("rack-{rack}")).rows(nodes));
        }
    }
    topology.group(rows, "row").description("the row").groups(parts);
    topology.group(racks, "named").names(input.nodes.names().iter().chain(["elsewhere"]));
    let requirement = |operator, values: &[&str]| LabelRequirement {
        key: RACK.into(),
        operator,
        values: values.iter().copied().map(str::to_owned).collect(),
    };
    topology.group(racks, "selected").selector(LabelSelector {
        match_labels: vec![(RACK.into(), "a".into())],
        match_expressions: vec![
            requirement(LabelOperator::In, &["a"]),
            requirement(LabelOperator::NotIn, &["b"]),
            requirement(LabelOperator::Exists, &[]),
            requirement(LabelOperator::DoesNotExist, &[]),
        ],
    });
    let found: Vec<Row> = input.nodes.find(["node-000000", "absent"]).into_iter().flatten().collect();
    topology.diagnose("rows", Subject::Rows(found), format!("{} rows", input.nodes.rows()));
    topology.diagnose("source", Subject::Source, "");
    topology.diagnose("group", Subject::Group(0), "");
    for group in input.applied.groups() {
        let forms = group.members.iter().map(|members| match members {
            Members::Rows(rows) => format!("{} rows", rows.len()),
            Members::Groups(groups) => format!("{} groups", groups.len()),
            Members::Names(names) => format!("{} names", names.len()),
            Members::Selector(_) => "a selector".to_owned(),
        });
        topology.diagnose("applied", Subject::Name(group.name), forms.collect::<Vec<_>>().join(", "));
    }
    topology.finish()
}
