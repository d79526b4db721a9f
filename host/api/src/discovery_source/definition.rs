//! The CustomResourceDefinition of DiscoverySource.
//!
//! Written by hand like its neighbour, so that both read alike. Enumerations are not closed here: a host of version
//! N − 1 and a definition of version N live together during an upgrade, and a refused status helps no one.

use crate::crd::{Definition, conditions_schema, count, keyed, list, object, object_of, status, switch, text, time};
use crate::names::GROUP;
use serde_json::{Value, json};

/// The definition as the API server takes it. What a source should do when it is removed is remembered in its object.
#[must_use]
pub fn definition() -> Value {
    Definition {
        name: "discoverysources.topoloom.dev",
        group: GROUP,
        version: super::VERSION,
        kind: super::KIND,
        plural: super::PLURAL,
        singular: "discoverysource",
        short_name: super::SHORT_NAME,
        columns: json!([
            { "name": "Source", "type": "string", "jsonPath": ".status.source" },
            { "name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status" },
            { "name": "Plugin", "type": "string", "jsonPath": ".status.plugin.name" },
            { "name": "Version", "type": "string", "jsonPath": ".status.plugin.version" },
            { "name": "State", "type": "string", "jsonPath": ".status.state" },
            { "name": "Nodes", "type": "integer", "jsonPath": ".status.nodes.covered" },
            { "name": "Groups", "type": "integer", "jsonPath": ".status.groups" },
            { "name": "LastSuccess", "type": "date", "jsonPath": ".status.lastSuccess" },
            { "name": "Message", "type": "string", "jsonPath": ".status.message" },
        ]),
        schema: object_of(
            "The state of one source of the discovery configuration.",
            json!({ "status": status_of_source() }),
        ),
    }
    .object()
}

fn status_of_source() -> Value {
    status(json!({
        "source": text("The source as the configuration names it."),
        "observedGeneration": count("The metadata.generation of the object when this status was written."),
        "state": text("What it is doing: Waiting, Serving, Held, Stale, Failed, Paused, Disabled, Observing or Stopped."),
        "message": text("The reason for the state, in one sentence."),
        "plugin": plugin(),
        "candidate": candidate(),
        "previous": list("Plugins that were active before, newest first: what a rollback can return to.", "digest", json!({
            "digest": text("sha256 of the bytes."),
            "name": text("The plugin's own name."),
            "version": text("The plugin's own version."),
        })),
        "takenBack": json!({
            "description": "Digests of plugins that failed while they were active; the host does not activate \
                them again unless an operator asks for it.",
            "type": "array",
            "items": { "type": "string" },
        }),
        "strikes": count("Consecutive faults of the active plugin."),
        "lastRefusal": object("The last plugin that was refused.", json!({
            "digest": text("sha256 of the bytes."),
            "step": text("The step at which the host refused it."),
            "reason": text("The word."),
            "message": text("The sentence, shortened."),
            "time": time("When."),
        })),
        "lastComparison": comparison("The last comparison of a candidate with the active plugin."),
        "nodes": object("How much of the cluster the applied result covers.", json!({
            "covered": count("Existing Nodes that have a place in it."),
            "total": count("Existing Nodes."),
        })),
        "groups": count("HyperNodes of the applied result."),
        "groupsByTier": list("The number of HyperNodes in each tier, lowest tier first.", "tier", json!({
            "tier": count("The tier, from 1."),
            "groups": count("HyperNodes in it."),
        })),
        "overlaps": count("Nodes that are in two groups of one tier."),
        "lastSuccess": time("When a round last succeeded."),
        "resultHash": text("Hash of the applied result."),
        "configHash": text("Hash of the configuration that the applied result came from."),
        "nodesByName": switch("Whether the plugin has answered with Nodes by name without the grant nodeNames; its own objects are then passed to it without Nodes."),
        "held": held(),
        "lostNodes": list("Nodes that recently written results left without a place, by time; the guard counts them together with the next ones.", "at", json!({
            "at": time("When the last of them lost its place."),
            "nodes": count("How many."),
        })),
        "onRemoval": text("What happens to the HyperNodes when the source is removed: keep or delete."),
        "diagnostics": list("What the last round dropped or corrected, per code.", "code", json!({
            "code": text("The code that the plugin uses for it."),
            "count": count("How often it occurred in the last round."),
            "example": text("One case."),
        })),
        "tierConflicts": list("Tier names left out because another source uses them for another tier.", "tierName", json!({
            "tierName": text("The name."),
            "tier": count("The tier of this source that is left without the name."),
            "takenBy": text("The source that uses the name."),
            "theirTier": count("The tier that has the name in that source."),
        })),
        "conditions": keyed(conditions_schema(), "type"),
    }))
}

fn plugin() -> Value {
    object(
        "The active plugin.",
        json!({
            "name": text("The plugin's own name."),
            "version": text("The plugin's own version."),
            "vendor": text("The vendor that the plugin names."),
            "digest": text("sha256 of the bytes."),
            "origin": text("Where the bytes came from: Builtin, File, ConfigMap, Registry, or Kept (the modules stored for rollback)."),
            "watched": { "description": "Whether this plugin is on probation: it replaced another one a short \
                time ago, and its first fault makes topoloom roll back.", "type": "boolean" },
        }),
    )
}

fn candidate() -> Value {
    object(
        "The candidate plugin.",
        json!({
            "digest": text("sha256 of the bytes."),
            "name": text("The plugin's own name."),
            "version": text("The plugin's own version."),
            "stage": text("The stage: Preparing, Shadow, Held or Refused."),
            "step": text("The step that holds or refuses it; the condition Loaded says why."),
            "strikes": count("Failed tries in a row."),
            "comparison": comparison("How much its answer differs from that of the active plugin."),
        }),
    )
}

fn comparison(description: &str) -> Value {
    object(
        description,
        json!({
            "placed": count("Nodes that the active plugin places."),
            "kept": count("Of these, those that the candidate places too."),
            "moved": count("Of these, those that it places in another group."),
            "gained": count("Nodes that only the candidate places."),
            "sentence": text("The same in words, with the groups by tier that differ."),
        }),
    )
}

fn held() -> Value {
    object(
        "The result that waits for confirmation.",
        json!({
            "rule": text("Which rule holds it: Deletions, LostNodes or Empty."),
            "sentence": text("What writing the result would change, with numbers."),
            "hash": text("The hash of the result; an operator confirms it with the annotation topoloom.dev/confirm."),
            "since": time("Since when."),
            "confirmations": count("Agreeing rounds so far, this one included."),
            "nextRound": time("When the next round runs."),
        }),
    )
}
