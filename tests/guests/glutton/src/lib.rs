//! A discoverer that requests data from the host without end: `{"take": WHAT}`. A guest of its own beside the villain,
//! because its import list lists what it calls, and the host asks the operator to grant it.

use topoloom_sdk::http::Request;
use topoloom_sdk::prelude::*;

/// The label whose column it reads over and over.
const RACK: &str = "example.com/rack";

struct Glutton;

#[derive(serde::Deserialize)]
struct Config {
    take: String,
    /// How often; without end by default.
    times: Option<u32>,
}

impl Discoverer for Glutton {
    type Config = Config;

    fn describe() -> Description {
        Description::new("glutton", "0.1.0").vendor("topoloom").summary("Takes what it can get")
    }

    fn configure(_: &Config) -> Result<Requirements, Vec<Problem>> {
        Ok(Requirements::new().node_label(RACK).node_annotation(RACK))
    }

    fn discover(config: &Config, input: &Input<'_>) -> Result<Answer, Failure> {
        let mut taken = 0;
        while config.times.is_none_or(|times| taken < times) {
            match config.take.as_str() {
                "labels" => drop(input.nodes.label(RACK)),
                "annotations" => drop(input.nodes.annotation(RACK)),
                "absent" => drop(input.nodes.label("example.com/nothing")),
                "names" => drop(input.nodes.names()),
                "rows" => drop(input.nodes.find(["absent"; 100])),
                "objects" => drop(input.applied.groups()),
                "answers" => drop(input.http.send(&Request::get("nowhere", "/"))),
                "credentials" => drop(input.http.credential_of("nowhere")),
                _ => return Err(Failure::Config("it is not said what to take".into())),
            }
            taken += 1;
        }
        Ok(TopologyBuilder::new().finish().into())
    }
}

topoloom_plugin!(Glutton);
