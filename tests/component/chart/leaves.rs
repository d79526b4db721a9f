//! Every value has an effect. The test fails with the path of a value that no template reads, and of a new value for
//! which the test has no other one to try.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};
use topoloom_tests::chart::{self, Rendering, merge, values};

/// Values that have an effect only beside others, with those others. The test turns on the switches above a value
/// anyway.
fn beside() -> BTreeMap<&'static str, Value> {
    let existing = json!({"config": {"existing": {"namespace": "one", "name": "conf"}}});
    let collector = json!({"traces": {"endpoint": "http://collector:4318"}});
    let registry = json!({"plugins": {"registries": ["registry.example.com"]}});
    let served = json!({"extender": {"enabled": true, "tls": {"secret": "extender"}}});
    let anonymous = json!({"extender": {"enabled": true, "allowAnonymous": true}});
    let logs = json!({"syncer": {"kubelet": {"enabled": true, "address": "10.96.0.20", "tls": {"secret": "kubelet"}}}});
    BTreeMap::from([
        ("/config/existing/name", existing.clone()),
        ("/config/existing/namespace", existing),
        ("/extender/allowAnonymous", served.clone()),
        ("/extender/enabled", json!({"extender": {"tls": {"secret": "extender"}}})),
        ("/extender/filter", served.clone()),
        ("/extender/httpTimeoutSeconds", served.clone()),
        ("/extender/maxWaitingBinds", served.clone()),
        ("/extender/port", served.clone()),
        ("/extender/preStopSeconds", served.clone()),
        ("/extender/tls/clientNames", served.clone()),
        ("/extender/tls/secret", anonymous),
        ("/leaderElection/enabled", json!({"replicas": 1})),
        ("/networkPolicy/collectorTo", collector.clone()),
        ("/networkPolicy/extenderFrom", served),
        ("/networkPolicy/registriesTo", registry),
        ("/serviceAccount/create", json!({"serviceAccount": {"name": "theirs"}})),
        ("/syncer/networkPolicy/kubeletFrom", logs),
        ("/syncer/serviceAccount/create", json!({"syncer": {"serviceAccount": {"name": "theirs"}}})),
        ("/traces/authoritiesConfigMap", collector.clone()),
        ("/traces/headersSecret", collector),
    ])
}

/// What no value of the syncer has an effect without.
fn of_the_syncer(path: &str) -> Value {
    let mut needed = json!({});
    if path.starts_with("/syncer/") {
        merge(&mut needed, json!({"syncer": {"secrets": ["east"]}}));
    }
    if path.starts_with("/syncer/kubelet/") {
        merge(&mut needed, json!({"syncer": {"kubelet": {"address": "10.96.0.20", "tls": {"secret": "kubelet"}}}}));
    }
    needed
}

/// Other values where [`another`] makes one that is not allowed, or one with the same effect.
fn instead() -> BTreeMap<&'static str, Value> {
    BTreeMap::from([
        // Without a cluster `auto` makes the definition as `always` does.
        ("/crds/discoverySource", json!("never")),
        ("/plugins/memory", json!("384Mi")),
        ("/metrics/rules/docs", json!("https://docs.example.com/")),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn every_value_has_an_effect() -> Result<()> {
    let read = |name: &str| std::fs::read_to_string(chart::folder().join(name)).context("a file of the chart");
    let defaults = chart::parse(&read("values.yaml")?)?.remove(0);
    let schema: Value = serde_json::from_str(&read("values.schema.json")?)?;
    let (beside, instead) = (beside(), instead());
    for path in beside.keys().chain(instead.keys()) {
        assert!(defaults.pointer(path).is_some(), "{path} is no value of the chart");
    }
    let (mut rendered, mut complaints) = (BTreeMap::new(), Vec::<String>::new());
    for (path, value) in leaves(&defaults, "") {
        let mut base = switches(&defaults, &path);
        merge(&mut base, of_the_syncer(&path));
        merge(&mut base, beside.get(path.as_str()).cloned().unwrap_or_else(|| json!({})));
        let outcome = match instead.get(path.as_str()).cloned().or_else(|| another(&path, &value, &schema)) {
            Some(other) => differs(&mut rendered, base, nested(&path, other)).await,
            None => Err(anyhow!("it needs another value, in `values::all` or here")),
        };
        complaints.extend(outcome.err().map(|error| format!("{path}: {error:#}")));
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
    Ok(())
}

/// Renders a base, unless it was rendered before, and the base with a change.
///
/// # Errors
/// When both are the same, or Helm refuses one.
async fn differs(rendered: &mut BTreeMap<String, String>, base: Value, change: Value) -> Result<()> {
    let mut changed = base.clone();
    merge(&mut changed, change);
    let before = match rendered.entry(base.to_string()) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => entry.insert(Rendering::new(base).text().await?),
    };
    let after = Rendering::new(changed.clone()).text().await?;
    ensure!(after != *before, "it has no effect: {changed}");
    Ok(())
}

/// The values that hold no others, each by its path. An empty mapping is one of them.
fn leaves(value: &Value, path: &str) -> Vec<(String, Value)> {
    match value.as_object() {
        Some(mapping) if !mapping.is_empty() => {
            mapping.iter().flat_map(|(key, value)| leaves(value, &format!("{path}/{key}"))).collect()
        }
        _ => vec![(path.to_owned(), value.clone())],
    }
}

/// Every `enabled` above a value, turned on.
fn switches(defaults: &Value, path: &str) -> Value {
    let mut on = json!({});
    let mut rest = path;
    while let Some((parent, _)) = rest.rsplit_once('/') {
        let switch = format!("{parent}/enabled");
        if switch != path && defaults.pointer(&switch).is_some() {
            merge(&mut on, nested(&switch, json!(true)));
        }
        rest = parent;
    }
    on
}

/// Values that hold only this one, at its path.
fn nested(path: &str, value: Value) -> Value {
    path.trim_start_matches('/').rsplit('/').fold(value, |inner, key| json!({ key: inner }))
}

/// Another value for a path: another word of the schema, what [`values::all`] has there, or something of the same type.
fn another(path: &str, value: &Value, schema: &Value) -> Option<Value> {
    let words = schema.pointer(&format!("{}/enum", path.replace('/', "/properties/"))).and_then(Value::as_array);
    let word = words.into_iter().flatten().find(|word| *word != value).cloned();
    let used = || values::all().pointer(path).filter(|used| *used != value).cloned();
    word.or_else(used).or_else(|| alike(value))
}

/// Another value of the same type. There is none for an empty list: its type does not show what it may hold.
fn alike(value: &Value) -> Option<Value> {
    match value {
        Value::Bool(is_on) => Some(json!(!is_on)),
        Value::Number(number) => Some(json!(number.as_i64()? + 1)),
        Value::String(text) => Some(json!(longer(text))),
        Value::Array(items) => {
            let (last, others) = items.split_last()?;
            Some(Value::Array([others, &[alike(last)?]].concat()))
        }
        Value::Object(_) => Some(json!({"another": "another"})),
        Value::Null => None,
    }
}

/// A quantity becomes another one of the same unit, and every other text a longer one.
fn longer(text: &str) -> String {
    let unit = text.trim_start_matches(|sign: char| sign.is_ascii_digit());
    match text.strip_suffix(unit).map(str::parse::<u64>) {
        Some(Ok(number)) => format!("{}{unit}", number + 1),
        _ => format!("{text}another"),
    }
}
