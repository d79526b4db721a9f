//! What the two definitions of lending accept, what they refuse with the name of the field, and what may exist and be
//! `Failed` (decisions S2, S8 and S28). The API server also estimates the cost of their rules: too dear a rule, and it
//! refuses the definition.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use http::Request;
use http::header::CONTENT_TYPE;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use topoloom_api::{ClusterBinding, ResourceLeasingPolicy, cluster_binding, names};
use topoloom_tests::chart::{merge, parse};
use topoloom_tests::scene::Scene;

const NAME: &str = "subject";

/// An object to apply: a spec that is as small as can be, with this over it.
fn object(kind: &str, over: Value) -> Value {
    let mut spec = match kind {
        "ClusterBinding" => json!({"clusterID": "east", "mountNamespace": "lent", "secretRef": {"name": "east"}}),
        _ => json!({"cluster": "east"}),
    };
    merge(&mut spec, over);
    without_nulls(&mut spec);
    json!({"apiVersion": "topoloom.dev/v1alpha1", "kind": kind, "metadata": {"name": NAME}, "spec": spec})
}

/// Null in a row removes a field.
fn without_nulls(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.retain(|_, value| !value.is_null());
        fields.values_mut().for_each(without_nulls);
    }
}

fn bindings(scene: &Scene) -> Api<ClusterBinding> {
    Api::all(scene.plane.client())
}

fn policies(scene: &Scene) -> Api<ResourceLeasingPolicy> {
    Api::all(scene.plane.client())
}

/// What is written may hold no field that the definition would drop.
fn strictly() -> PatchParams {
    PatchParams::apply("another").force().validation_strict()
}

const BINDINGS: &str = "/apis/topoloom.dev/v1alpha1/clusterbindings";
const POLICIES: &str = "/apis/topoloom.dev/v1alpha1/resourceleasingpolicies";

/// Sends a body as it is, which a typed client could not.
async fn send(scene: &Scene, method: &str, path: &str, content: &str, body: &Value) -> kube::Result<Value> {
    let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, content);
    let request = request.body(body.to_string().into_bytes()).map_err(kube::Error::HttpError)?;
    scene.plane.client().request(request).await
}

/// What the API server would store. Nothing is stored.
async fn tried(scene: &Scene, path: &str, object: &Value) -> kube::Result<Value> {
    send(scene, "POST", &format!("{path}?dryRun=All&fieldValidation=Strict"), "application/json", object).await
}

/// A row: what it is, what is over the smallest spec, and for a refusal parts of the API server's message.
type Row = (String, Value, Vec<String>);

fn good(what: &str, over: Value) -> Row {
    (what.to_owned(), over, Vec::new())
}

fn bad(what: &str, over: Value, words: &[&str]) -> Row {
    (what.to_owned(), over, words.iter().map(|word| (*word).to_owned()).collect())
}

/// Whether the answer is what a row wants.
fn judge<T>(what: &str, answer: kube::Result<T>, refused: &[String]) -> Option<T> {
    match (answer, refused) {
        (Ok(stored), []) => Some(stored),
        (Err(kube::Error::Api(status)), [_, ..]) => {
            assert_eq!(status.code, 422, "{what}: {status:?}");
            for word in refused {
                assert!(status.message.contains(word), "{what}: {word} is not in {}", status.message);
            }
            None
        }
        (Ok(_), _) => panic!("{what}: it is accepted"),
        (Err(error), _) => panic!("{what}: {error:?}"),
    }
}

fn terms(terms: usize, requirements: usize, values: usize) -> Value {
    let values: Vec<_> = (0..values).map(|value| format!("v{value}")).collect();
    let requirement = json!({"key": "pool", "operator": "In", "values": values});
    json!({"nodeSelectorTerms": vec![json!({"matchExpressions": vec![requirement; requirements]}); terms]})
}

/// Rows about selectors, which bindings and policies have alike.
fn selectors() -> Vec<Row> {
    let with = |selector: Value| json!({"nodeSelector": selector});
    let nonsense = json!({"nodeSelectorTerms": [
        {},
        {"matchExpressions": [{"key": "-", "operator": "Near", "values": ["a b"]}, {"key": "k", "operator": "Gt"}, {}]},
        {"matchFields": [{"key": "spec.unschedulable", "operator": "Exists"}]},
    ]});
    vec![
        good("an empty selector", with(json!({}))),
        good("a selector that means nothing", with(nonsense)),
        good("256 values in one requirement", with(terms(1, 1, 256))),
        good("256 values in many requirements", with(terms(4, 8, 8))),
        bad(
            "257 values in one requirement",
            with(terms(1, 1, 257)),
            &["nodeSelectorTerms[0].matchExpressions[0].values"],
        ),
        bad(
            "258 values in two requirements",
            with(terms(1, 2, 129)),
            &["spec.nodeSelector", "at most 256 values in all of its requirements together"],
        ),
        bad("257 values in many terms", with(terms(8, 8, 5)), &["spec.nodeSelector", "at most 256 values"]),
        bad("eleven terms", with(terms(11, 1, 1)), &["spec.nodeSelector.nodeSelectorTerms", "10"]),
        bad("eleven requirements", with(terms(1, 11, 1)), &["matchExpressions", "10"]),
        bad("a term that is a text", with(json!({"nodeSelectorTerms": ["all"]})), &["nodeSelectorTerms[0]"]),
    ]
}

fn names_and_words() -> Vec<Row> {
    let id = |id: &str| json!({"clusterID": id});
    let namespace = |name: &str| json!({"mountNamespace": name});
    let mut rows = vec![
        good("the smallest binding", json!({})),
        good("a clusterID of 24 bytes", id(&"a".repeat(24))),
        good("a clusterID of digits and dashes", id("0--9")),
        bad("a clusterID of 25 bytes", id(&"a".repeat(25)), &["spec.clusterID", "24"]),
        bad("a capital in the clusterID", id("East"), &["spec.clusterID"]),
        bad("a dot in the clusterID", id("a.b"), &["spec.clusterID"]),
        bad("a dash at the end of the clusterID", id("east-"), &["spec.clusterID"]),
        bad("an empty clusterID", id(""), &["spec.clusterID"]),
        bad("no clusterID", json!({"clusterID": null}), &["spec.clusterID: Required value"]),
        good("a namespace of 63 bytes", namespace(&"n".repeat(63))),
        bad("a namespace of 64 bytes", namespace(&"n".repeat(64)), &["spec.mountNamespace", "63"]),
        bad("a namespace that is no DNS label", namespace("a.b"), &["spec.mountNamespace"]),
        bad("no namespace", json!({"mountNamespace": null}), &["spec.mountNamespace: Required value"]),
        bad("no Secret", json!({"secretRef": null}), &["spec.secretRef: Required value"]),
        bad("a Secret without a name", json!({"secretRef": {"name": null}}), &["spec.secretRef.name: Required value"]),
        bad("a Secret with a capital", json!({"secretRef": {"name": "East"}}), &["spec.secretRef.name"]),
        // What YAML 1.1 makes of an off without quotes.
        bad("hostPorts: false", json!({"hostPorts": false}), &["spec.hostPorts", "boolean"]),
        good("all switches", json!({"allowInsecure": true, "allowChained": true, "disableNodeDefaultTaint": true})),
        bad("a switch that is a text", json!({"allowInsecure": "yes"}), &["spec.allowInsecure"]),
    ];
    for (field, words) in [
        ("noPolicy", ["LeaseAll", "Withdraw"]),
        ("policySource", ["physical", "virtual"]),
        ("mode", ["enforce", "observe"]),
        ("onUnreachable", ["unknown", "hold"]),
        ("hostPorts", ["off", "mirror"]),
        ("physicalWrites", ["all", "none"]),
    ] {
        rows.extend(words.map(|word| good(&format!("{field}: {word}"), json!({ field: word }))));
        let refused = [format!("spec.{field}: Unsupported value"), words[1].to_owned()];
        rows.push((format!("{field}: maybe"), json!({ field: "maybe" }), refused.into()));
    }
    rows
}

fn numbers_and_lists() -> Vec<Row> {
    let mut rows = Vec::new();
    for field in ["maxEvictPercent", "maxNodesPercent"] {
        let with = |percent: i64| json!({"safety": { field: percent }});
        rows.extend([1, 100].map(|percent| good(&format!("{field}: {percent}"), with(percent))));
        let path = format!("spec.safety.{field}");
        rows.extend([-1, 0, 101].map(|percent| (format!("{field}: {percent}"), with(percent), vec![path.clone()])));
    }
    for field in ["labels", "annotations"] {
        for list in ["allow", "deny"] {
            let with = |items: Vec<String>| json!({"copy": { field: { list: items } }});
            let path = format!("spec.copy.{field}.{list}");
            rows.push(good(&path, with(vec!["example.com/*".to_owned(); 128])));
            rows.push((
                format!("129 of {path}"),
                with(vec!["a".to_owned(); 129]),
                vec![path.clone(), "128".to_owned()],
            ));
            rows.push((format!("a long one of {path}"), with(vec!["a".repeat(318)]), vec![format!("{path}[0]")]));
        }
    }
    let metadata = |items: Value| json!({"copy": {"podMetadata": items}});
    rows.push(good("metadata of pods", metadata(json!(["example.com/rank"]))));
    rows.push(bad("an empty key", metadata(json!([""])), &["spec.copy.podMetadata[0]"]));
    rows
}

/// A spec with this time at the place of a range.
fn at(range: &cluster_binding::times::TimeRange, time: Value) -> Value {
    let path = range.field.trim_start_matches("spec.");
    path.rsplit('.').fold(time, |inner, key| json!({ key: inner }))
}

fn times() -> Vec<Row> {
    use cluster_binding::times::{
        ANNOUNCE, EMPTY, EVICTION_DEADLINE, GROW, HOLD_FOR, LEASE, ORPHAN_DELAY, RECHECK, SUSPECT, UNREACHABLE,
    };
    let mut rows = Vec::new();
    for range in
        [LEASE, SUSPECT, UNREACHABLE, EMPTY, RECHECK, ORPHAN_DELAY, EVICTION_DEADLINE, GROW, HOLD_FOR, ANNOUNCE]
    {
        let field = range.field;
        let most = format!("{}m", range.most.as_secs() / 60);
        for end in [format!("{}s", range.least.as_secs()), most.clone()] {
            let mut spec = at(&range, json!(end));
            // The other one of the two that have to fit together.
            if field == SUSPECT.field && end == most {
                merge(&mut spec, at(&UNREACHABLE, json!("1h")));
            } else if field == UNREACHABLE.field {
                merge(&mut spec, at(&SUSPECT, json!("1s")));
            }
            rows.push(good(&format!("{field}: {end}"), spec));
        }
        let refused = || vec![field.to_owned(), "must be a time such as 40s, 10m or 1h30m, from".to_owned()];
        let less = range.least.checked_sub(Duration::from_millis(1)).map(|less| format!("{}ms", less.as_millis()));
        let wrong = ["40", "1d", "soon", "-5s", "1.5h", "", "100000s"].map(str::to_owned);
        for text in wrong.into_iter().chain([format!("{most}1ms")]).chain(less) {
            rows.push((format!("{field}: {text:?}"), at(&range, json!(text)), refused()));
        }
        rows.push((format!("{field}: a number"), at(&range, json!(40)), vec![field.to_owned()]));
    }
    let too_soon = ["spec.timing", "spec.timing.unreachable must be at least twice spec.timing.suspect"];
    rows.push(bad("a late suspect beside the default", json!({"timing": {"suspect": "20s1ms"}}), &too_soon));
    rows.push(good("the latest suspect beside the default", json!({"timing": {"suspect": "20s"}})));
    rows.push(bad("an early unreachable beside the default", json!({"timing": {"unreachable": "29s"}}), &too_soon));
    rows.push(bad("both", json!({"timing": {"suspect": "3s", "unreachable": "5s"}}), &too_soon));
    let fast = json!({"lease": "4s", "suspect": "1s", "unreachable": "2s", "empty": "1s", "recheck": "1s", "orphanDelay": "1s",
                      "evictionDeadline": "0s", "grow": "0s"});
    rows.push(good("the fastest times", json!({"timing": fast})));
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_s28_a_binding_is_accepted_or_refused_with_the_name_of_the_field() -> Result<()> {
    let scene = Scene::new().await?;
    let rows = [names_and_words(), numbers_and_lists(), times(), selectors()];
    for (what, over, refused) in rows.into_iter().flatten() {
        let object = object("ClusterBinding", over);
        if let Some(stored) = judge(&what, tried(&scene, BINDINGS, &object).await, &refused) {
            let read = serde_json::from_value::<ClusterBinding>(stored)?.spec.with_context(|| what.clone())?;
            // What the definition accepts is what the code reads.
            assert!(read.times().is_ok(), "{what}: {:?}", read.times());
            assert_eq!(read.node_selector.is_some(), object["spec"].get("nodeSelector").is_some(), "{what}");
            let rest = |mut spec: Value| {
                spec["nodeSelector"].take();
                without_nulls(&mut spec);
                spec
            };
            assert_eq!(rest(serde_json::to_value(&read)?), rest(object["spec"].clone()), "{what}");
        }
    }
    let mut without = object("ClusterBinding", json!({}));
    without["spec"].take();
    without_nulls(&mut without);
    judge("no spec", tried(&scene, BINDINGS, &without).await, &["spec: Required value".to_owned()]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_what_never_changes_is_neither_changed_nor_removed_nor_set_again() -> Result<()> {
    let scene = Scene::new().await?;
    let api = bindings(&scene);
    let made = serde_json::from_value(object("ClusterBinding", json!({"noPolicy": "Withdraw"})))?;
    api.create(&PostParams::default(), &made).await?;
    let merged = |body: Value| {
        let api = api.clone();
        async move { api.patch(NAME, &PatchParams::default(), &Patch::Merge(&body)).await }
    };
    for (field, other) in [("clusterID", "west"), ("mountNamespace", "elsewhere")] {
        let changed = vec![format!("spec.{field}: Invalid value"), format!("{field} cannot be changed")];
        let required = vec![format!("spec.{field}: Required value")];
        judge(field, merged(json!({"spec": { field: other }})).await, &changed);
        // Removed and set again, in two requests and in one.
        judge(field, merged(json!({"spec": { field: null }})).await, &required);
        judge(field, merged(json!({"spec": { field: other }})).await, &changed);
        let steps = json!([
            {"op": "remove", "path": format!("/spec/{field}")},
            {"op": "add", "path": format!("/spec/{field}"), "value": other},
        ]);
        let path = format!("{BINDINGS}/{NAME}");
        let answer = send(&scene, "PATCH", &path, "application/json-patch+json", &steps).await;
        judge(field, answer, &changed);
    }
    judge("spec", merged(json!({"spec": null})).await, &["spec: Required value".to_owned()]);
    // A whole object without them, as `kubectl replace` sends it.
    let mut stored = api.get(NAME).await?;
    if let Ok(spec) = &mut stored.spec {
        spec.cluster_id.clear();
    }
    judge(
        "replace",
        api.replace(NAME, &PostParams::default(), &stored).await,
        &["spec.clusterID: Required value".to_owned()],
    );
    // Through the status nothing of the spec changes.
    let body = json!({"spec": {"clusterID": "west"}, "status": {"message": "seen"}});
    let stored = api.patch_status(NAME, &PatchParams::default(), &Patch::Merge(&body)).await?;
    assert_eq!((stored.spec?.cluster_id.as_str(), stored.status.message.as_str()), ("east", "seen"));
    // Everything else may change.
    let stored =
        merged(json!({"spec": {"clusterID": "east", "noPolicy": null, "secretRef": {"name": "west"}}})).await?;
    assert_eq!(stored.spec?.secret_ref.name, "west");
    Ok(())
}

fn windows(count: usize) -> Value {
    json!({"timeWindows": vec![json!({"start": "18:00", "end": "08:00"}); count]})
}

fn limits(limits: Value) -> Value {
    json!({ "resourceLimits": limits })
}

/// Policies that are wrong, and exist.
fn failed() -> Vec<(&'static str, Value)> {
    vec![
        ("a window until 24:00", json!({"timeWindows": [{"start": "18:00", "end": "24:00"}]})),
        ("a window that has no time", json!({"timeWindows": [{"start": "", "end": "evening", "days": ["mon", ""]}]})),
        ("101 percent", limits(json!([{"resource": "cpu", "percent": 101}]))),
        ("no percent", limits(json!([{"resource": "cpu", "percent": 0}]))),
        ("minus five percent", limits(json!([{"resource": "cpu", "percent": -5}]))),
        ("the largest percent", limits(json!([{"resource": "cpu", "percent": i64::MAX}]))),
        ("an unknown zone", json!({"timeZone": "Mars/Olympus"})),
        ("a negative amount", limits(json!([{"resource": "cpu", "quantity": "-1"}]))),
        ("an amount that is none", limits(json!([{"resource": "cpu", "quantity": "much"}]))),
        ("a limit that limits nothing", limits(json!([{"resource": "-"}]))),
        (
            "the same resource twice",
            limits(json!([{"resource": "cpu", "quantity": "12"}, {"resource": "cpu", "percent": 25}])),
        ),
    ]
}

fn policy_rows() -> Vec<Row> {
    let long = "x".repeat(65);
    vec![
        good("the smallest policy", json!({})),
        good("an amount as a number", limits(json!([{"resource": "nvidia.com/gpu", "quantity": 4}]))),
        good("an amount as a text", limits(json!([{"resource": "memory", "quantity": "100Gi", "percent": 60}]))),
        bad(
            "half an amount as a number",
            limits(json!([{"resource": "cpu", "quantity": 0.5}])),
            &["spec.resourceLimits[0].quantity"],
        ),
        bad(
            "a long amount",
            limits(json!([{"resource": "cpu", "quantity": long}])),
            &["spec.resourceLimits[0].quantity", "64"],
        ),
        bad(
            "a limit without a resource",
            limits(json!([{"percent": 5}])),
            &["spec.resourceLimits[0].resource: Required value"],
        ),
        bad(
            "percent as a text",
            limits(json!([{"resource": "cpu", "percent": "5"}])),
            &["spec.resourceLimits[0].percent"],
        ),
        bad("65 limits", limits(json!(vec![json!({"resource": "cpu"}); 65])), &["spec.resourceLimits", "64"]),
        good("64 windows", windows(64)),
        bad("65 windows", windows(65), &["spec.timeWindows", "64"]),
        bad(
            "a window without an end",
            json!({"timeWindows": [{"start": "18:00"}]}),
            &["spec.timeWindows[0].end: Required value"],
        ),
        bad(
            "15 days",
            json!({"timeWindows": [{"start": "18:00", "end": "08:00", "days": vec!["Monday"; 15]}]}),
            &["spec.timeWindows[0].days", "14"],
        ),
        bad("no cluster", json!({"cluster": null}), &["spec.cluster: Required value"]),
        bad("an empty cluster", json!({"cluster": ""}), &["spec.cluster"]),
        bad("an empty virtual cluster", json!({"virtualCluster": ""}), &["spec.virtualCluster"]),
        good("days that apply to the start", json!({"daysApplyTo": "start"})),
        bad(
            "days that apply to nothing",
            json!({"daysApplyTo": "end"}),
            &["spec.daysApplyTo: Unsupported value", "calendar"],
        ),
        good(
            "reclaim by eviction",
            json!({"forceReclaim": true, "reclaimVia": "eviction", "gracefulReclaimPeriodSeconds": 600}),
        ),
        bad(
            "reclaim by another way",
            json!({"reclaimVia": "kill"}),
            &["spec.reclaimVia: Unsupported value", "eviction"],
        ),
        bad("a negative grace", json!({"gracefulReclaimPeriodSeconds": -1}), &["spec.gracefulReclaimPeriodSeconds"]),
        bad(
            "a grace beyond 68 years",
            json!({"gracefulReclaimPeriodSeconds": 1_i64 << 31}),
            &["spec.gracefulReclaimPeriodSeconds"],
        ),
        good("the lowest priority", json!({"priority": i32::MIN})),
        bad("a priority beyond", json!({"priority": 1_i64 << 31}), &["spec.priority"]),
        bad("a long zone", json!({"timeZone": "x".repeat(129)}), &["spec.timeZone", "128"]),
        bad("forceReclaim as a text", json!({"forceReclaim": "yes"}), &["spec.forceReclaim"]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_s8_a_policy_with_a_mistake_exists_and_only_sizes_and_words_are_refused() -> Result<()> {
    let scene = Scene::new().await?;
    let api = policies(&scene);
    for (what, over, refused) in [policy_rows(), selectors()].into_iter().flatten() {
        let object = object("ResourceLeasingPolicy", over);
        if let Some(stored) = judge(&what, tried(&scene, POLICIES, &object).await, &refused) {
            let read = serde_json::from_value::<ResourceLeasingPolicy>(stored)?.spec.with_context(|| what.clone())?;
            assert_eq!(read.cluster, "east");
            let count = |list: &str| object["spec"][list].as_array().map_or(0, Vec::len);
            assert_eq!(read.time_windows.len(), count("timeWindows"), "{what}");
            assert_eq!(read.resource_limits.len(), count("resourceLimits"), "{what}");
        }
    }
    // All that are wrong exist beside each other in one list, and are read as they are.
    for (at, (what, over)) in failed().into_iter().enumerate() {
        let mut object = object("ResourceLeasingPolicy", over);
        let name = format!("failed-{at}");
        object["metadata"]["name"] = json!(name);
        api.patch(&name, &strictly(), &Patch::Apply(&object)).await.with_context(|| what)?;
    }
    let listed = api.list(&ListParams::default()).await?.items;
    assert_eq!(listed.len(), failed().len());
    let percents: Vec<i64> = listed
        .iter()
        .flat_map(|policy| policy.spec.iter().flat_map(|spec| &spec.resource_limits))
        .filter_map(|limit| limit.percent)
        .collect();
    assert!([101, 0, -5, i64::MAX].iter().all(|wanted| percents.contains(wanted)), "{percents:?}");
    Ok(())
}

/// The largest spec that is accepted, with all its texts made of one character.
fn largest(character: &str) -> Value {
    let text = |length: usize| character.repeat(length);
    // As many requirements as there may be, and as many values as there may be in all.
    let requirement =
        |values: usize| json!({"key": text(317), "operator": text(32), "values": vec![text(253); values]});
    let term = json!({"matchExpressions": vec![requirement(2); 10], "matchFields": vec![requirement(2); 2]});
    let mut terms = vec![term; 10];
    terms[0]["matchFields"][1] = requirement(18);
    let window = json!({"start": text(32), "end": text(32), "days": vec![text(32); 14]});
    let limit = json!({"resource": text(317), "quantity": text(64), "percent": i64::MIN});
    json!({
        "cluster": text(253),
        "virtualCluster": text(63),
        "priority": i32::MIN,
        "nodeSelector": {"nodeSelectorTerms": terms},
        "timeZone": text(128),
        "daysApplyTo": "calendar",
        "timeWindows": vec![window; 64],
        "resourceLimits": vec![limit; 64],
        "forceReclaim": true,
        "gracefulReclaimPeriodSeconds": i32::MAX,
        "reclaimVia": "eviction",
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_the_largest_last_valid_spec_is_written_beside_the_largest_invalid_one() -> Result<()> {
    let scene = Scene::new().await?;
    let api = policies(&scene);
    let object = |spec: Value| json!({"apiVersion": "topoloom.dev/v1alpha1", "kind": "ResourceLeasingPolicy", "metadata": {"name": NAME}, "spec": spec});
    let valid = largest("v");
    let stored = api.patch(NAME, &strictly(), &Patch::Apply(&object(valid.clone()))).await?;
    let condition = |kind: &str| {
        json!({"type": kind, "status": "False", "reason": "ValidationError", "message": "m".repeat(4000), "observedGeneration": 1,
               "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let status = json!({
        "metadata": {"resourceVersion": stored.metadata.resource_version},
        "status": {
            "observedGeneration": 1,
            "phase": "Failed",
            "activeTimeWindow": false,
            "conditions": (["Valid", "Active", "Shadowed"].map(condition)),
            "lastAppliedTime": "2026-01-01T00:00:00Z",
            "nextTransition": "2026-01-01T08:01:00Z",
            "timeZone": "Europe/Berlin",
            "lastValid": valid,
        },
    });
    api.patch_status(NAME, &PatchParams::default(), &Patch::Merge(&status)).await?;
    // No character has more bytes.
    let invalid = largest("\u{10348}");
    api.patch(NAME, &strictly(), &Patch::Apply(&object(invalid.clone()))).await?;
    // The status is written again, as it is when the new spec was judged.
    let generation = json!({"status": {"observedGeneration": 2}});
    let stored = api.patch_status(NAME, &PatchParams::default(), &Patch::Merge(&generation)).await?;
    assert_eq!(serde_json::to_value(stored.spec?)?, invalid);
    assert_eq!(serde_json::to_value(&stored.status.last_valid)?, valid);
    let bytes = serde_json::to_vec(&json!({"spec": invalid, "status": status["status"]}))?.len();
    // etcd takes 1.5 MiB.
    assert!((700_000..1_000_000).contains(&bytes), "{bytes}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_the_last_valid_spec_outlives_an_invalid_one_and_takes_words_of_a_later_version() -> Result<()> {
    let scene = Scene::new().await?;
    let api = policies(&scene);
    let valid = json!({"cluster": "east", "timeWindows": [{"start": "18:00", "end": "08:00"}],
                       "resourceLimits": [{"resource": "cpu", "quantity": "20", "percent": 70}]});
    api.patch(NAME, &strictly(), &Patch::Apply(&object("ResourceLeasingPolicy", valid.clone()))).await?;
    let status = json!({"status": {"phase": "Active", "activeTimeWindow": true, "lastValid": valid,
                                   "nextTransition": "2026-01-01T08:01:00Z", "timeZone": "UTC"}});
    let strict = PatchParams::default().validation_strict();
    api.patch_status(NAME, &strict, &Patch::Merge(&status)).await?;
    let wrong = json!({"spec": {"timeWindows": [{"start": "18:00", "end": "24:00"}]}});
    let stored = api.patch(NAME, &strict, &Patch::Merge(&wrong)).await?;
    assert_eq!(stored.spec?.time_windows[0].end, "24:00");
    assert_eq!(serde_json::to_value(&stored.status.last_valid)?, valid);
    let later = json!({"status": {"phase": "Levitating", "lastValid": {"reclaimVia": "persuasion", "priority": 7}}});
    let stored = api.patch_status(NAME, &strict, &Patch::Merge(&later)).await?;
    let last = stored.status.last_valid.context("there is a last valid spec")?;
    assert_eq!((last.reclaim_via.as_deref(), last.priority), (Some("persuasion"), Some(7)));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_the_definitions_are_established_and_their_columns_answer_the_first_question() -> Result<()> {
    let scene = Scene::new().await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(scene.plane.client());
    for name in [names::CLUSTER_BINDING_CRD, names::RESOURCE_LEASING_POLICY_CRD] {
        let stored = definitions.get(name).await?.status.and_then(|status| status.conditions).unwrap_or_default();
        let found: Vec<_> = stored.iter().map(|it| (it.type_.as_str(), it.status.as_str())).collect();
        assert!(found.contains(&("Established", "True")) && found.contains(&("NamesAccepted", "True")), "{found:?}");
        assert!(!found.iter().any(|(type_, _)| *type_ == "NonStructuralSchema"), "{stored:?}");
    }
    bindings(&scene).patch(NAME, &strictly(), &Patch::Apply(&object("ClusterBinding", json!({})))).await?;
    policies(&scene).patch(NAME, &strictly(), &Patch::Apply(&object("ResourceLeasingPolicy", json!({})))).await?;
    let status = json!({"status": {"phase": "Ready", "connection": {"state": "Reachable"}, "nodes": {"lent": 8}, "pods": {"running": 40},
                                   "held": {"hash": "abc123"}, "message": "fine"}});
    bindings(&scene).patch_status(NAME, &PatchParams::default(), &Patch::Merge(&status)).await?;
    let status = json!({"status": {"phase": "Inactive", "activeTimeWindow": false, "nextTransition": "2099-01-01T18:00:00Z", "timeZone": "UTC"}});
    policies(&scene).patch_status(NAME, &PatchParams::default(), &Patch::Merge(&status)).await?;
    for (short, head, row) in [
        ("cb", "NAME CLUSTERID PHASE CONNECTION NODES PODS HELD AGE", "subject east Ready Reachable 8 40 abc123 "),
        (
            "rlp",
            "NAME CLUSTER PHASE ACTIVE NEXTTRANSITION ZONE AGE",
            "subject east Inactive false 2099-01-01T18:00:00Z UTC ",
        ),
    ] {
        let table = scene.plane.kubectl(&["get", short]).await?;
        let lines: Vec<String> =
            table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines[0], head);
        assert!(lines[1].starts_with(row), "{table}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_of_lending_are_accepted() -> Result<()> {
    let scene = Scene::new().await?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/examples/lending");
    for (file, count) in [("binding.yaml", 1), ("policies.yaml", 2)] {
        let text = std::fs::read_to_string(folder.join(file)).context(file)?;
        let objects = parse(&text)?;
        assert_eq!(objects.len(), count, "{file}");
        scene.plane.apply(&objects).await?;
    }
    let binding = bindings(&scene).get("east").await?.spec?;
    assert!(binding.times().is_ok());
    for policy in policies(&scene).list(&ListParams::default()).await?.items {
        assert_eq!(policy.spec?.cluster, "east");
    }
    Ok(())
}
