//! A discoverer that sends the requests of its configuration and reports the answers, one diagnostic each.
//!
//! ```yaml
//! wants: [{name: fabric, urls: ["https://…"], credentials: [token]}]   # its requirements
//! requests:
//! - {endpoint: fabric, path: "/v1?at={time}", headers: [[accept, text/plain]]}   # {time}: when the round starts
//! hold: true        # keeps all answers open until the end
//! fail: true        # ends with the failure of the last refused request
//! ```

use std::io::Read as _;

use topoloom_sdk::http::Request;
use topoloom_sdk::prelude::*;
use topoloom_sdk::{Credential, Location, Method};

struct Caller;

#[derive(serde::Deserialize)]
struct Config {
    #[serde(default)]
    wants: Vec<Want>,
    #[serde(default)]
    requests: Vec<Sent>,
    /// Keep all answers open until the end.
    #[serde(default)]
    hold: bool,
    /// End with the failure of the last refused request.
    #[serde(default)]
    fail: bool,
}

#[derive(serde::Deserialize)]
struct Want {
    name: String,
    #[serde(default)]
    urls: Vec<String>,
    #[serde(default)]
    paths: Vec<String>,
    #[serde(default)]
    credentials: Vec<String>,
}

#[derive(serde::Deserialize)]
struct Sent {
    endpoint: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    post: bool,
    #[serde(default)]
    headers: Vec<(String, String)>,
    /// How often.
    #[serde(default = "once")]
    times: u32,
}

fn once() -> u32 {
    1
}

impl Discoverer for Caller {
    type Config = Config;

    fn describe() -> Description {
        Description::new("caller", "0.1.0").vendor("topoloom").summary("Sends what its configuration lists")
    }

    fn configure(config: &Config) -> Result<Requirements, Vec<Problem>> {
        let mut requirements = Requirements::new().trigger(Trigger::on_timer());
        for want in &config.wants {
            let kinds = want.credentials.iter().map(|word| match word.as_str() {
                "basic" => Credential::Basic,
                "token" => Credential::Token,
                "bearer" => Credential::Bearer,
                "mtls" => Credential::Mtls,
                _ => Credential::None,
            });
            let mut endpoint = Endpoint::new(&want.name, "To be called").credentials(kinds.collect::<Vec<_>>());
            endpoint.paths.clone_from(&want.paths);
            if !want.urls.is_empty() {
                endpoint.location = Location::Urls(want.urls.clone());
            }
            requirements = requirements.endpoint(endpoint);
        }
        Ok(requirements)
    }

    fn discover(config: &Config, input: &Input<'_>) -> Result<Answer, Failure> {
        let mut topology = TopologyBuilder::new();
        let mut held = Vec::new();
        let mut last = None;
        for want in &config.wants {
            let kind = input.http.credential_of(&want.name);
            topology.diagnose("credential", Subject::Source, format!("{kind:?}"));
            last = kind.err().or(last);
        }
        for sent in &config.requests {
            for _ in 0..sent.times {
                let method = if sent.post { Method::Post } else { Method::Get };
                let path = sent.path.replace("{time}", &input.time.to_string());
                let mut request = Request { method, ..Request::get(&sent.endpoint, &path) };
                request.headers.clone_from(&sent.headers);
                match input.http.send(&request) {
                    Ok(mut response) => {
                        let mut body = Vec::new();
                        let end = response.read_to_end(&mut body);
                        let text = String::from_utf8_lossy(&body);
                        let shown: String = text.chars().take(80).collect();
                        let detail = format!("{} {shown} {} bytes {end:?}", response.status(), body.len());
                        topology.diagnose("answer", Subject::Source, detail);
                        held.extend(config.hold.then_some(response));
                    }
                    Err(error) => {
                        topology.diagnose("refused", Subject::Source, format!("{error:?}"));
                        last = Some(error);
                    }
                }
            }
        }
        match last {
            Some(error) if config.fail => Err(error.into()),
            _ => Ok(topology.finish().into()),
        }
    }
}

topoloom_plugin!(Caller);
