use super::{Auth, Config, Mode, Uplinks};
use crate::Ufm;
use topoloom_sdk::{Discoverer, FromJson, Location, Pause, Trigger};

fn config(text: &str) -> Config {
    Config::from_json(text).unwrap()
}

fn problems(text: &str) -> Vec<String> {
    Config::from_json(text).unwrap_err().iter().map(ToString::to_string).collect()
}

fn notes(text: &str) -> Vec<String> {
    config(text).settings.notes.into_iter().map(|note| format!("{} {}", note.code, note.text)).collect()
}

fn urls(text: &str) -> Vec<String> {
    config(text).fabrics.into_iter().flat_map(|fabric| fabric.urls).collect()
}

#[test]
fn volcanos_configuration_is_read() {
    let config = config(r#"{"endpoint": "https://ufm.example.org/", "insecureSkipVerify": true}"#);
    assert_eq!(config.fabrics[0].urls, ["https://ufm.example.org"]);
    assert!(config.fabrics[0].tls.insecure_skip_verify && config.settings.notes.is_empty());
    assert_eq!((config.mode, config.uplinks, config.max_unusable), (Mode::Bundles, Uplinks::Auto, 5));
}

#[test]
fn a_url_without_scheme_is_https_and_keeps_its_path() {
    assert_eq!(urls(r#"{"endpoint": "ufm:8443/site//"}"#), ["https://ufm:8443/site"]);
    assert_eq!(urls(r#"{"endpoints": ["HTTP://a", "[::1]:443"]}"#), ["http://a", "https://[::1]:443"]);
    assert_eq!(urls(r#"{"ENDPOINTS": "one"}"#), ["https://one"]);
}

#[test]
fn bad_urls_are_refused_without_repeating_them() {
    for url in
        ["", "https://", ":443", "ftp://x", "https://root:hunter2@ufm", "ufm?x=hunter2", "u fm", "ufm#x", "u\\\\fm"]
    {
        let problems = problems(&format!(r#"{{"endpoint": "{url}"}}"#));
        assert_eq!(problems.len(), 1, "{url}");
        assert!(problems[0].starts_with("endpoint: ") && !problems[0].contains("hunter2"), "{url}: {problems:?}");
    }
}

#[test]
fn every_mistake_is_reported_at_once_with_its_place() {
    let text = r#"{
        "endpoint": 7.5, "endpoints": [], "auth": "kerberos", "apiPrefix": "no/slash", "caBundle": "text",
        "ports": {"include": ["("], "exclude": [{}]}, "maxUnusable": 101, "uplinks": "up", "pageSize": 10,
        "compat": "slurm", "similarity": 2, "downGrace": "1 day", "includeDown": "maybe",
        "serverName": "foo bar", "rewrite": {"regex": "^a", "replace": "$1"}, "guidAnnotation": "a b",
        "fabrics": [{"name": "A"}, {"endpoint": "x", "name": "ufm"}, 3]
    }"#;
    let paths: Vec<String> = problems(text).iter().map(|line| line.split(": ").next().unwrap().to_owned()).collect();
    assert_eq!(
        paths,
        [
            "endpoints",
            "endpoints",
            "auth",
            "apiPrefix",
            "caBundle",
            "ports.include[0]",
            "ports.exclude[0]",
            "maxUnusable",
            "uplinks",
            "pageSize",
            "compat",
            "similarity",
            "downGrace",
            "includeDown",
            "serverName",
            "rewrite[0].replace",
            "guidAnnotation",
            "fabrics",
            "fabrics[0].name",
            "fabrics[0]",
            "fabrics[1]",
            "fabrics[2]",
        ]
    );
}

#[test]
fn the_words_of_problems_say_what_is_allowed() {
    let all = problems(
        r#"{"endpoint": "x", "auth": 3, "maxUnusable": 1.5, "pageSize": 10, "uplinks": "up", "apiPrefix": "/a/../b"}"#,
    );
    assert_eq!(
        all,
        [
            "auth: expected \"auto\", \"basic\", \"token\" or \"mtls\", found 3",
            "maxUnusable: expected a whole number from 0 to 100, found 1.5",
            "pageSize: expected a whole number from 200 to 1000000, found 10",
            "uplinks: expected \"auto\" or \"off\", found \"up\"",
            "apiPrefix: \"/a/../b\" is not a path prefix such as \"/ufmRest\"",
        ]
    );
}

#[test]
fn an_endpoint_is_required() {
    for text in ["{}", "null", r#"{"fabrics": []}"#, r#"{"insecureSkipVerify": true}"#] {
        assert_eq!(problems(text), ["endpoint: missing: the URL of the UFM, such as \"https://ufm.example.org\""]);
    }
    assert_eq!(problems("[]"), ["expected a mapping, found a list"]);
    assert!(problems("{")[0].contains("the text ends too early"));
}

#[test]
fn surprises_are_noted() {
    assert_eq!(
        notes(r#"{"endpoint": "x", "insecureSkipVerify": "true", "endpoit": 1, "ports": {"only": []}}"#),
        [
            "coerced insecureSkipVerify is a string: certificates are checked; write true or false",
            "unknown-key \"endpoit\" is not a known key and is ignored",
            "unknown-key \"ports.only\" is not a known key and is ignored",
        ]
    );
    let volcano = r#"{"endpoint": "x", "compat": "volcano", "similarity": 0.6, "pageSize": 1000}"#;
    assert_eq!(notes(volcano), ["ignored-key \"similarity\" has no effect where compat is \"volcano\""]);
    assert!(notes(r#"{"endpoint": "x", "compat": null, "uplinks": false}"#).is_empty());
}

#[test]
fn further_fabrics_take_what_they_do_not_say_from_the_top() {
    let config = config(
        r#"{"auth": "token", "serverName": "ufm", "fabrics": [{"endpoint": "a"},
            {"endpoints": ["b", "c"]}, {"name": "site-2", "endpoint": "d", "auth": "basic", "apiPrefix": "/x"}]}"#,
    );
    let shown: Vec<String> = config
        .fabrics
        .iter()
        .map(|f| format!("{} {} {:?} {:?} {:?}", f.name, f.urls.join(","), f.auth, f.prefix, f.tls.server_name))
        .collect();
    assert_eq!(
        shown,
        [
            r#"ufm https://a Token None Some("ufm")"#,
            r#"ufm-2 https://b,https://c Token None Some("ufm")"#,
            r#"site-2 https://d Basic Some("/x") Some("ufm")"#,
        ]
    );
    assert_eq!(
        problems(r#"{"fabrics": [{"endpoint": "a"}, {"endpoint": "a"}]}"#),
        ["fabrics[1]: another fabric has the same URL"]
    );
}

#[test]
fn one_key_says_where_a_ufm_is() {
    let pair = "is set too: write all URLs of the pair into endpoints";
    let list = "is set too: write each UFM into fabrics and remove ";
    for (text, expected) in [
        (r#"{"endpoint": "a", "endpoints": ["b"]}"#, [format!("endpoints: endpoint {pair}")]),
        (r#"{"endpoints": ["b"], "Endpoint": "a"}"#, [format!("Endpoint: endpoints {pair}")]),
        (r#"{"endpoint": "a", "fabrics": [{"endpoint": "b"}]}"#, [format!("fabrics: endpoint {list}endpoint")]),
        (r#"{"fabrics": [{"endpoint": "b"}], "endpoints": ["a"]}"#, [format!("fabrics: endpoints {list}endpoints")]),
        (r#"{"fabrics": [{"endpoint": "a", "endpoints": ["b"]}]}"#, [format!("fabrics[0].endpoints: endpoint {pair}")]),
    ] {
        assert_eq!(problems(text), expected);
    }
    for text in [r#"{"endpoint": "a", "fabrics": null}"#, r#"{"endpoint": "a", "fabrics": []}"#] {
        assert_eq!(urls(text), ["https://a"]);
    }
}

#[test]
fn requirements_name_endpoints_columns_and_triggers() {
    let requirements = |text: &str| Ufm::configure(&config(text)).unwrap();
    let plain = requirements(r#"{"endpoint": "a"}"#);
    let endpoint = &plain.endpoints[0];
    assert_eq!(endpoint.location, Location::Urls(vec!["https://a".into()]));
    assert_eq!((endpoint.name.as_str(), &endpoint.paths), ("ufm", &vec!["/ufmRestV3".into(), "/ufmRest".into()]));
    assert_eq!(endpoint.credentials, Auth::Auto.credentials());
    assert_eq!(plain.triggers, [Trigger::Timer(Pause { at_least: 0 }), Trigger::Names(Pause { at_least: 5000 })]);
    let guids = requirements(r#"{"endpoint": "a", "guidAnnotation": "ex.io/guids", "auth": "mtls"}"#);
    assert_eq!((guids.node_annotations, guids.triggers.len()), (vec!["ex.io/guids".to_owned()], 3));
    assert_eq!(guids.endpoints[0].paths, ["/ufmRest"]);
    let volcano = requirements(r#"{"endpoint": "a", "compat": "volcano", "apiPrefix": ""}"#);
    assert_eq!(volcano.triggers, [Trigger::Timer(Pause { at_least: 0 })]);
    assert_eq!(volcano.endpoints[0].paths, ["/app", "/resources"]);
}

#[test]
fn the_schema_knows_every_key() {
    let schema: serde_json::Value = serde_json::from_str(&Ufm::describe().config_schema).unwrap();
    let keys = schema["properties"].as_object().unwrap();
    for (key, _) in keys {
        let config = format!(r#"{{"endpoint": "a", "{key}": null}}"#);
        let unknown = match Config::from_json(&config) {
            Ok(config) => config.settings.notes.iter().any(|note| note.code == "unknown-key"),
            Err(_) => false,
        };
        assert!(!unknown, "{key}");
    }
    assert_eq!(keys.len(), 24);
}
