//! `configure`: an operator edits by hand what it reads, and repairs what it reports.

use serde_json::{Map, Value, json};
use topoloom_core::plugin::{CallError, Problem, Requirements};

use super::check::Check;
use super::report::Ledger;
use super::schema::{Schema, key_below};
use super::stand::Stand;
use super::trial::Trial;

/// A key that no schema has.
const UNKNOWN: &str = "topoloom-unknown-key";

/// Configurations that break the plugin, after which no more are tried.
const BROKEN: usize = 3;

/// Keys of a schema that are tried.
const KEYS: usize = 64;

/// One value of each type, none of which a plugin expects.
fn values() -> [Value; 6] {
    [Value::Null, json!(true), json!(-7.5), json!("topoloom"), json!([[[]]]), json!({"topoloom": {}})]
}

/// A key of the schema, as steps from the root of a configuration.
#[derive(Debug, Clone, PartialEq)]
struct Key<'a> {
    steps: Vec<Step>,
    /// The path, as a problem would name it.
    path: String,
    /// The name of the key alone.
    name: &'a str,
    /// What the schema says about it.
    part: &'a Value,
}

/// A key that was refused with a value of another type.
#[derive(Debug)]
struct Refused<'a> {
    key: &'a Key<'a>,
    value: Value,
    problems: Vec<Problem>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Element(usize),
}

/// Tries all checks of `configure`; returns what each trial needs, where its configuration is accepted.
pub(super) async fn run(
    stand: &impl Stand,
    schema: Option<&Schema>,
    trials: &[Trial],
    ledger: &mut Ledger,
) -> Vec<Option<Requirements>> {
    let found = cases(stand, trials, ledger).await;
    let config = trials.first().map_or_else(|| json!({}), |trial| trial.config.clone());
    robust(stand, schema, &config, ledger).await;
    types(stand, schema, &config, ledger).await;
    unknown(stand, &config, ledger).await;
    text(stand, &config, ledger).await;
    found
}

async fn cases(stand: &impl Stand, trials: &[Trial], ledger: &mut Ledger) -> Vec<Option<Requirements>> {
    let Some(mut sheet) = ledger.open(Check::ConfigureCases) else { return Vec::new() };
    if trials.is_empty() {
        sheet.nothing("there is no case");
    }
    let mut found = Vec::new();
    for trial in trials {
        let end = stand.configure(&trial.config.to_string()).await.end;
        if let Err(error) = &end {
            sheet.error(Some(&trial.name), &error.to_string());
        }
        found.push(end.ok());
    }
    ledger.close(sheet);
    if let Some(mut sheet) = ledger.open(Check::ConfigureConstant) {
        for (trial, first) in trials.iter().zip(&found) {
            let again = stand.configure(&trial.config.to_string()).await.end;
            if again.as_ref().ok() != first.as_ref() {
                sheet.error(Some(&trial.name), "a second instance asks for something else with the same configuration");
            }
        }
        ledger.close(sheet);
    }
    found
}

/// What is said about a text: `Ok` where it is accepted.
async fn said(stand: &impl Stand, config: &str) -> Result<Result<(), Vec<Problem>>, CallError> {
    match stand.configure(config).await.end {
        Ok(_) => Ok(Ok(())),
        Err(CallError::InvalidConfig(problems)) => Ok(Err(problems)),
        Err(error) => Err(error),
    }
}

/// No text is too odd for an answer.
async fn robust(stand: &impl Stand, schema: Option<&Schema>, config: &Value, ledger: &mut Ledger) {
    let Some(mut sheet) = ledger.open(Check::ConfigureRobust) else { return };
    let mut texts: Vec<String> =
        ["{}", "[]", "null", "7", "\"text\"", "", "{", "{\"a\": 1e999}"].map(str::to_owned).into();
    texts.extend(cut(&config.to_string()));
    texts.push(with(config, &[Step::Field(UNKNOWN.to_owned())], json!(true)).to_string());
    for key in keys(schema, config) {
        texts.extend(values().map(|value| with(config, &key.steps, value).to_string()));
    }
    // A crash costs little, a deadline a second.
    let mut left = BROKEN;
    for text in texts {
        let wrong = match said(stand, &text).await {
            Ok(Err(problems)) if problems.is_empty() => format!("{text} is refused without a problem"),
            Ok(Err(problems)) if problems.iter().any(|problem| problem.message.trim().is_empty()) => {
                format!("{text} is refused with a problem that says nothing")
            }
            // That it asks for what cannot be a key is refused by the host, in words.
            Ok(_) | Err(CallError::InvalidResult(_)) => continue,
            Err(error) => format!("{text}: {error}"),
        };
        sheet.error(None, &wrong);
        left -= 1;
        if left == 0 {
            break;
        }
    }
    ledger.close(sheet);
}

/// Keys with values of a type that the schema forbids.
async fn types(stand: &impl Stand, schema: Option<&Schema>, config: &Value, ledger: &mut Ledger) {
    let Some(mut sheet) = ledger.open(Check::ConfigureTypes) else { return };
    let keys = keys(schema, config);
    if keys.is_empty() {
        sheet.nothing("the schema names no key");
    }
    let mut refused: Vec<Refused<'_>> = Vec::new();
    for key in &keys {
        let is_forbidden = |value: &Value| schema.is_some_and(|schema| !schema.accepts(key.part, value));
        let forbidden: Vec<Value> = values().into_iter().filter(is_forbidden).collect();
        let mut first = None;
        for value in &forbidden {
            let text = with(config, &key.steps, value.clone()).to_string();
            // A lenient reader takes the one or the other; one that takes all of them does not look.
            if let Ok(Err(problems)) = said(stand, &text).await {
                first = Some(Refused { key, value: value.clone(), problems });
                break;
            }
        }
        match first {
            Some(first) => refused.push(first),
            None if forbidden.is_empty() => {}
            None => {
                let shown: Vec<String> = forbidden.iter().map(Value::to_string).collect();
                let (path, shown) = (&key.path, shown.join(", "));
                sheet.error(None, &format!("{path} is accepted with each of {shown}, which the schema forbids"));
            }
        }
    }
    ledger.close(sheet);
    paths(&refused, ledger);
    all(stand, config, &refused, ledger).await;
}

fn paths(refused: &[Refused<'_>], ledger: &mut Ledger) {
    let Some(mut sheet) = ledger.open(Check::ConfigurePath) else { return };
    if refused.is_empty() {
        sheet.nothing("no key is refused by its type");
    }
    for Refused { key, value, problems } in refused {
        if !problems.iter().any(|problem| names(&problem.path, key.name)) {
            let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
            let (path, said) = (&key.path, said.join("; "));
            sheet.error(None, &format!("{path} with {value} is refused by {said:?}, and no path in it names the key"));
        }
    }
    ledger.close(sheet);
}

/// Whether a path has this key in it, in any case.
fn names(path: &str, key: &str) -> bool {
    path.to_lowercase().contains(&key.to_lowercase())
}

/// Every key wrong at the same time.
async fn all(stand: &impl Stand, config: &Value, refused: &[Refused<'_>], ledger: &mut Ledger) {
    let Some(mut sheet) = ledger.open(Check::ConfigureAll) else { return };
    // Those at the top: one below another is gone where that has another type.
    let top: Vec<&Refused<'_>> = refused.iter().filter(|refused| refused.key.steps.len() == 1).collect();
    if top.len() < 2 {
        sheet.nothing("there are no two keys that could be wrong at the same time");
        return ledger.close(sheet);
    }
    let wrong =
        top.iter().fold(config.clone(), |config, Refused { key, value, .. }| with(&config, &key.steps, value.clone()));
    if let Ok(Err(problems)) = said(stand, &wrong.to_string()).await {
        let is_named = |key: &Key<'_>| problems.iter().any(|problem| names(&problem.path, key.name));
        let lost = top.iter().filter(|refused| !is_named(refused.key)).map(|refused| refused.key.name);
        let lost: Vec<&str> = lost.collect();
        if !lost.is_empty() {
            let (lost, all) = (lost.join(", "), top.len());
            let what = format!("of {all} keys that are wrong at the same time it does not report {lost}");
            sheet.warning(None, &format!("{what}: each costs an operator one more edit"));
        }
    }
    ledger.close(sheet);
}

async fn unknown(stand: &impl Stand, config: &Value, ledger: &mut Ledger) {
    let Some(mut sheet) = ledger.open(Check::ConfigureUnknown) else { return };
    let text = with(config, &[Step::Field(UNKNOWN.to_owned())], json!(true)).to_string();
    match said(stand, &text).await {
        Ok(Ok(())) => {
            sheet.warning(None, &format!("the key {UNKNOWN} is accepted: a key that is misspelt is never noticed"));
        }
        Ok(Err(problems)) if !problems.iter().any(|problem| problem.to_string().contains(UNKNOWN)) => {
            sheet.warning(None, &format!("the key {UNKNOWN} is refused by a problem that does not name it"));
        }
        Ok(Err(_)) | Err(_) => {}
    }
    ledger.close(sheet);
}

async fn text(stand: &impl Stand, config: &Value, ledger: &mut Ledger) {
    let Some(mut sheet) = ledger.open(Check::ConfigureText) else { return };
    let texts = cut(&config.to_string());
    if texts.is_empty() {
        sheet.nothing("no case has a configuration that could be cut");
    }
    for text in texts {
        if let Ok(Ok(())) = said(stand, &text).await {
            sheet.warning(None, &format!("{text:?} is accepted and is no JSON: read the configuration with a parser"));
            break;
        }
    }
    ledger.close(sheet);
}

/// A text cut after each quarter; nothing of one that says nothing.
fn cut(text: &str) -> Vec<String> {
    if text.len() <= "{}".len() {
        return Vec::new();
    }
    let quarter = |quarters: usize| {
        let mut end = text.len() * quarters / 4;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.get(..end).unwrap_or_default().to_owned()
    };
    (1..4).map(quarter).collect()
}

/// The keys of a schema: those at the top, and below a key that the configuration has.
fn keys<'a>(schema: Option<&'a Schema>, config: &Value) -> Vec<Key<'a>> {
    let mut found = Vec::new();
    if let Some(schema) = schema {
        collect(schema, schema.root(), Some(config), &mut Vec::new(), "", &mut found);
    }
    found.truncate(KEYS);
    found
}

fn collect<'a>(
    schema: &'a Schema,
    part: &'a Value,
    config: Option<&Value>,
    steps: &mut Vec<Step>,
    path: &str,
    found: &mut Vec<Key<'a>>,
) {
    let (Some(rules), true) = (schema.rules(part), found.len() < KEYS) else { return };
    let properties = rules.get("properties").and_then(Value::as_object).into_iter().flatten();
    for (name, part) in properties {
        let path = key_below(path, name);
        let value = config.and_then(|config| config.get(name));
        steps.push(Step::Field(name.clone()));
        found.push(Key { steps: steps.clone(), path: path.clone(), name, part });
        if value.is_some() {
            collect(schema, part, value, steps, &path, found);
        }
        steps.pop();
    }
    // Below what the configuration has under a name of its own, and in the first element of a list.
    if let (Some(part), Some(Value::Object(fields))) = (rules.get("additionalProperties"), config) {
        let own = rules.get("properties").and_then(Value::as_object);
        if let Some((name, value)) = fields.iter().find(|(name, _)| own.is_none_or(|own| !own.contains_key(*name))) {
            steps.push(Step::Field(name.clone()));
            collect(schema, part, Some(value), steps, &key_below(path, name), found);
            steps.pop();
        }
    }
    if let (Some(part), Some(first)) = (rules.get("items"), config.and_then(|config| config.get(0))) {
        steps.push(Step::Element(0));
        collect(schema, part, Some(first), steps, &format!("{path}[0]"), found);
        steps.pop();
    }
}

/// The configuration with this value at the end of the steps. Objects and lists on the way are made.
fn with(config: &Value, steps: &[Step], value: Value) -> Value {
    let mut config = config.clone();
    put(&mut config, steps, value);
    config
}

fn put(place: &mut Value, steps: &[Step], value: Value) {
    let Some((first, rest)) = steps.split_first() else {
        *place = value;
        return;
    };
    match first {
        Step::Field(name) => {
            if !place.is_object() {
                *place = Value::Object(Map::new());
            }
            if let Value::Object(fields) = place {
                put(fields.entry(name.clone()).or_insert(Value::Null), rest, value);
            }
        }
        Step::Element(at) => {
            if place.get(*at).is_none() {
                *place = Value::Array(vec![Value::Null; at + 1]);
            }
            if let Some(element) = place.get_mut(*at) {
                put(element, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths_of(schema: Value, config: Value) -> Vec<String> {
        let schema = Schema::parse(&schema.to_string()).unwrap();
        keys(Some(&schema), &config).into_iter().map(|key| key.path).collect()
    }

    #[test]
    fn keys_are_those_at_the_top_and_below_what_the_configuration_has() {
        let schema = json!({
            "$defs": {"level": {"properties": {"nodeLabel": {"type": "string"}, "name": {"type": "string"}}}},
            "properties": {
                "types": {"additionalProperties": {"items": {"$ref": "#/$defs/level"}}},
                "more": {"properties": {"deep": true}},
            },
        });
        assert_eq!(paths_of(schema.clone(), json!({})), ["more", "types"]);
        let config = json!({"types": {"gpu": [{"nodeLabel": "a"}]}});
        let wanted = ["more", "types", "types.gpu[0].name", "types.gpu[0].nodeLabel"];
        assert_eq!(paths_of(schema, config), wanted);
    }

    #[test]
    fn a_value_is_put_where_its_steps_lead() {
        let field = |name: &str| Step::Field(name.to_owned());
        let config = json!({"a": 1, "b": [{"c": 2}]});
        assert_eq!(with(&config, &[field("x")], json!(true)), json!({"a": 1, "b": [{"c": 2}], "x": true}));
        let steps = [field("b"), Step::Element(0), field("c")];
        assert_eq!(with(&config, &steps, json!(3)), json!({"a": 1, "b": [{"c": 3}]}));
        assert_eq!(with(&json!(null), &steps, json!(3)), json!({"b": [{"c": 3}]}));
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut(r#"{"a": "é"}"#), ["{\"", "{\"a\":", "{\"a\": \""]);
        assert_eq!(cut("{}"), [""; 0]);
    }
}
