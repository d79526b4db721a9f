//! The packages for Python and JavaScript judge the same answers, wishes and requests, and show valid answers alike: each gets all of
//! them in one file, with what the SDK in Rust said.

use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};
use serde_json::json;
use topoloom_core::rules::request::HEADERS;
use topoloom_sdk::Method;
use topoloom_sdk::prelude::*;
use topoloom_sdk::testing::{Cluster, Reply};
use topoloom_tests::pages;

use super::{cases, more_texts};

/// Asks for what its configuration says, and sends one request.
struct Asking;

/// What it asks for, and the request.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Asked {
    labels: Vec<String>,
    annotations: Vec<String>,
    endpoints: usize,
    triggers: usize,
    paths: Vec<String>,
    post: bool,
    body: bool,
    path: String,
    headers: Vec<(String, String)>,
}

impl Discoverer for Asking {
    type Config = Asked;

    fn describe() -> Description {
        Description::new("asking", "0.1.0")
    }

    fn configure(asked: &Asked) -> Result<Requirements, Vec<Problem>> {
        let wish = Endpoint::new("list", "Reads the list").methods([Method::Get, Method::Post]);
        let mut wishes = Requirements::new().endpoint(wish.paths(asked.paths.clone()));
        wishes.node_labels.clone_from(&asked.labels);
        wishes.node_annotations.clone_from(&asked.annotations);
        wishes.endpoints.extend((0..asked.endpoints).map(|at| Endpoint::new(&format!("more{at}"), "Reads more")));
        wishes.triggers.extend((0..asked.triggers).map(|_| Trigger::on_timer()));
        Ok(wishes)
    }

    fn discover(asked: &Asked, input: &Input<'_>) -> Result<Answer, Failure> {
        let method = if asked.post { Method::Post } else { Method::Get };
        let body = asked.body.then(|| b"{}".to_vec());
        let request = Request { method, headers: asked.headers.clone(), body, ..Request::get("list", &asked.path) };
        input.http.send(&request)?;
        Ok(TopologyBuilder::new().finish().into())
    }
}

impl Asked {
    /// What the SDK in Rust says of it.
    fn verdict(&self) -> Option<String> {
        let cluster = Cluster::new().endpoint("list", Credential::None, |_| Ok(Reply::new(200, "")));
        match cluster.discover::<Asking>(&json!(self).to_string()) {
            Ok(_) => None,
            Err(Failure::Denied(words) | Failure::Internal(words)) => Some(words),
            Err(other) => panic!("{other:?}: {self:?}"),
        }
    }
}

/// Paths that a host refuses or not, whatever it granted.
const PATHS: [&str; 32] = [
    "",
    "/",
    "/v1",
    "/v1/x?y=%2f",
    "/v10",
    "/a/b",
    "/a/...",
    "/a%20b",
    "x",
    "//evil.example/x",
    "/a/../b",
    "/..",
    "/a/%2e%2e/b",
    "/a/.%2E/b",
    "/a/%25252e%25252e/b",
    "/a%2fb",
    "/a%252Fb",
    "/a%5cb",
    "/a\\b",
    "/a/..;/b",
    "/a b",
    "/a\r\nHost: evil",
    "/a%0d%0aHost:%20evil",
    "/a%00",
    "/a%c2%85",
    "/a#b",
    "/a%zz",
    "/a%2",
    "/ä",
    "/a/%c0%ae%c0%ae/b",
    "/a%ff",
    "/a/%2525252525252525",
];

/// Wishes and requests, each of them mostly as it should be.
fn asked() -> Vec<Asked> {
    let many = |what: &str, count: usize| -> Vec<String> { (0..count).map(|at| format!("{what}{at}")).collect() };
    let path = |path: &str| Asked { path: path.to_owned(), ..Asked::default() };
    let header = |name: &str, value: &str| Asked { headers: vec![(name.to_owned(), value.to_owned())], ..path("/v1") };
    let mut all: Vec<Asked> = PATHS.iter().map(|text| path(text)).collect();
    all.extend(PATHS.iter().map(|text| Asked { paths: vec!["/v1".to_owned(), "/a/".to_owned()], ..path(text) }));
    all.extend(HEADERS.iter().map(|name| header(name, "x")));
    let headers =
        [("Accept", "a\tb"), ("X-Request-ID", ""), ("authorization", "x"), ("X_Remote_User", "x"), ("a b", "x")];
    all.extend(headers.map(|(name, value)| header(name, value)));
    all.extend(["a\nb", "ä", "\u{7f}"].map(|value| header("accept", value)));
    all.extend([
        header("accept", &"x".repeat(4097)),
        header("x\u{e4}", "x"),
        path(&format!("/{}", "x".repeat(4096))),
        Asked { headers: many("x-", 33).into_iter().map(|name| (name, String::new())).collect(), ..Asked::default() },
        Asked { body: true, ..Asked::default() },
        Asked { body: true, post: true, ..Asked::default() },
        Asked { labels: many("k", 65), ..Asked::default() },
        Asked { annotations: many("k", 65), ..Asked::default() },
        Asked { labels: vec!["acme.example/rack".to_owned(), "no key".to_owned()], ..Asked::default() },
        Asked { annotations: vec![String::new()], ..Asked::default() },
        Asked { endpoints: 15, triggers: 16, ..Asked::default() },
        Asked { endpoints: 16, ..Asked::default() },
        Asked { triggers: 17, ..Asked::default() },
        Asked { paths: many("/p", 65), ..Asked::default() },
        Asked { paths: many(&"/p".repeat(2048), 1), ..Asked::default() },
    ]);
    all
}

/// One line for each answer that the SDKs of other languages can build: they make packed text themselves.
fn answers(file: &Path) {
    let all = cases().into_iter().chain(more_texts());
    let lines = all.filter(|case| !case.said.to_string().contains("\"packed\"")).map(|case| {
        let verdict = case.by_cluster().map(|refused| refused.to_string());
        let names: Vec<String> = case.names().collect();
        let shown = case.shown();
        let line = json!({
            "nodes": names, "hadState": case.had_state, "said": case.said, "verdict": verdict, "shown": shown,
        });
        line.to_string() + "\n"
    });
    let asked = asked().into_iter().map(|asked| json!({"verdict": asked.verdict(), "asked": asked}).to_string() + "\n");
    std::fs::write(file, lines.chain(asked).collect::<String>()).unwrap();
}

/// Runs the judge of a package over all answers. It ends with the first one that it judges otherwise.
fn judged(program: &str, script: &str, set: &[(&str, &str)]) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("answers.jsonl");
    answers(&file);
    let root = pages::root().unwrap();
    let output = Command::new(program)
        .arg(root.join(script))
        .arg(&file)
        .envs(set.iter().map(|(key, path)| (key, root.join(path))))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, error) = (said(&output.stdout), said(&output.stderr));
    assert!(output.status.success(), "{out}{error}");
    assert!(out.contains("answers are judged alike"), "{out}{error}");
}

#[test]
fn some_of_what_is_asked_for_is_refused() {
    let (good, refused): (Vec<Asked>, Vec<Asked>) = asked().into_iter().partition(|asked| asked.verdict().is_none());
    assert!(good.len() > 15 && refused.len() > 30, "{good:?}");
}

#[test]
fn the_package_for_python_judges_alike() {
    judged("python3", "sdk/python/tests/alike.py", &[("PYTHONPATH", "sdk/python")]);
}

#[test]
fn the_package_for_javascript_judges_alike() {
    judged("node", "sdk/js/test/alike.js", &[]);
}
