//! The CustomResourceDefinition of ResourceLeasingPolicy.
//!
//! Every list and every text has a bound, so that the object with two specs stays far below what etcd takes. The schema
//! of the last valid spec is that of the spec without any judgement: a refused status helps no one.

use crate::crd::{
    Definition, atomic, bounded, conditions_schema, count, keyed, object, object_of, status, switch, text, time, with,
};
use crate::names::{GROUP, RESOURCE_LEASING_POLICY_CRD};
use crate::node_selector;
use serde_json::{Value, json};

/// The most time windows.
const WINDOWS: usize = 64;
/// The most days of a window: each, and room for a mistake.
const DAYS: usize = 14;
/// The most limits.
const LIMITS: usize = 64;
/// The longest time of day, day and word; what is valid is shorter.
const WORD_LENGTH: usize = 32;
/// The longest time zone; what is valid is shorter.
const ZONE_LENGTH: usize = 128;
/// The longest amount.
const QUANTITY_LENGTH: usize = 64;
/// The longest name of a resource: a prefix, a slash and a name.
const RESOURCE_LENGTH: usize = 317;

/// The definition as the API server takes it. Without it there are no policies, and a binding with LeaseAll would borrow
/// everything.
#[must_use]
pub fn definition() -> Value {
    let spec = spec();
    let mut last_valid = spec.clone();
    without_judgement(&mut last_valid);
    let schema = object_of(
        "What a lender lends to a ClusterBinding, and when.",
        json!({ "spec": spec, "status": status_of_policy(last_valid) }),
    );
    Definition {
        name: RESOURCE_LEASING_POLICY_CRD,
        group: GROUP,
        version: super::VERSION,
        kind: super::KIND,
        plural: super::PLURAL,
        singular: "resourceleasingpolicy",
        short_name: super::SHORT_NAME,
        columns: json!([
            { "name": "Cluster", "type": "string", "jsonPath": ".spec.cluster" },
            { "name": "Phase", "type": "string", "jsonPath": ".status.phase" },
            { "name": "Active", "type": "boolean", "jsonPath": ".status.activeTimeWindow" },
            // As text: kubectl shows a date as an age, and one that is still to come as invalid.
            { "name": "NextTransition", "type": "string", "jsonPath": ".status.nextTransition" },
            { "name": "Zone", "type": "string", "jsonPath": ".status.timeZone" },
            { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
        ]),
        schema: with(schema, "required", json!(["spec"])),
    }
    .object()
}

fn spec() -> Value {
    json!({
        "description": "What is lent, and when. A spec with a mistake is not applied: the condition Valid names it, and the \
            last valid one stays in force.",
        "type": "object",
        "required": ["cluster"],
        "properties": {
            "cluster": {
                "description": "The name of the ClusterBinding that it lends to.",
                "type": "string",
                "minLength": 1,
                "maxLength": 253,
            },
            "virtualCluster": {
                "description": "The virtual cluster of that binding: the UID of its namespace kube-system. Without it: the \
                    one that has claimed the name of the binding here.",
                "type": "string",
                "minLength": 1,
                "maxLength": 63,
            },
            "priority": {
                "description": "Of several policies for a node the one with the highest priority is in force, of equal ones \
                    the oldest. Default: 0.",
                "type": "integer",
                "format": "int32",
                "minimum": i32::MIN,
                "maximum": i32::MAX,
            },
            "nodeSelector": node_selector::schema("Which nodes. Without it, or without terms: all that the binding \
                selects."),
            "timeZone": bounded(
                "The IANA name of the zone of the windows, such as Europe/Berlin. Default: UTC.",
                ZONE_LENGTH,
            ),
            "daysApplyTo": {
                "description": "Which days the days of a window over midnight name: those on which it is open (calendar), \
                    or those on which it begins (start). Default: calendar.",
                "type": "string",
                "enum": ["calendar", "start"],
            },
            "timeWindows": atomic("When. Without any: always.", WINDOWS, window()),
            "resourceLimits": atomic(
                "How much, applied in this order. Without any: everything that is left.",
                LIMITS,
                limit(),
            ),
            "forceReclaim": switch("Whether pods are evicted when the windows close."),
            "gracefulReclaimPeriodSeconds": {
                "description": "How long pods have before that. Default: 0.",
                "type": "integer",
                "format": "int64",
                "minimum": 0,
                "maximum": i32::MAX,
            },
            "reclaimVia": {
                "description": "How pods are evicted: they are deleted at the end of the grace (delete), or disruption \
                    budgets are honoured in its second half (eviction). Default: delete.",
                "type": "string",
                "enum": ["delete", "eviction"],
            },
        },
    })
}

fn window() -> Value {
    let time = |description: &str| bounded(description, WORD_LENGTH);
    let day = json!({ "type": "string", "maxLength": WORD_LENGTH });
    json!({
        "type": "object",
        "required": ["start", "end"],
        "properties": {
            "start": time("Its first minute, HH:MM from 00:00 to 23:59."),
            "end": time("Its last minute, HH:MM from 00:00 to 23:59; earlier than start: on the next day."),
            "days": atomic("English names of weekdays in full. Without any: every day.", DAYS, day),
        },
    })
}

fn limit() -> Value {
    json!({
        "type": "object",
        "required": ["resource"],
        "properties": {
            "resource": bounded("The name of the resource.", RESOURCE_LENGTH),
            "quantity": {
                "description": "The most that is lent; 0 lends nothing.",
                "anyOf": [{ "type": "integer" }, { "type": "string" }],
                "x-kubernetes-int-or-string": true,
                "maxLength": QUANTITY_LENGTH,
            },
            "percent": {
                "description": "The most that is lent, of what is left, from 1 to 100.",
                "type": "integer",
                "format": "int64",
            },
        },
    })
}

fn status_of_policy(last_valid: Value) -> Value {
    let described = json!("The last spec that was valid. It is in force while the spec is invalid.");
    status(json!({
        "observedGeneration": count("The metadata.generation that was looked at."),
        "phase": text("How it is doing: Active, Inactive or Failed."),
        "activeTimeWindow": switch("Whether it is valid and its windows are open."),
        "conditions": keyed(conditions_schema(), "type"),
        "lastAppliedTime": time("When the phase or activeTimeWindow changed last."),
        "nextTransition": time("When the windows open or close next."),
        "nextTransitionSince": time("Since when nextTransition has been announced. A closing that was announced for \
            safety.announce of the binding needs no confirmation."),
        "lastClosing": object(
            "The closing since which the windows are closed, where it was announced before it came.",
            json!({
                "at": time("When the windows closed."),
                "announcedSince": time("Since when that had been announced."),
            }),
        ),
        "timeZone": text("The zone in which the windows are read."),
        "lastValid": with(last_valid, "description", described),
    }))
}

/// Removes from a schema everything that refuses a value of the right type.
fn without_judgement(schema: &mut Value) {
    const JUDGES: [&str; 8] =
        ["enum", "minimum", "maximum", "minLength", "maxLength", "maxItems", "required", "x-kubernetes-validations"];
    let Some(fields) = schema.as_object_mut() else { return };
    fields.retain(|key, _| !JUDGES.contains(&key.as_str()));
    if let Some(items) = fields.get_mut("items") {
        without_judgement(items);
    }
    if let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(without_judgement);
    }
}
