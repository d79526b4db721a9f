//! What was found out about a plugin, for people and for programs.

use serde_json::Value;
use topoloom_core::plugin::Limit;
use topoloom_core::plugin::grant::Origin;
use topoloom_core::plugin::model::{Endpoint, Location, Trigger};
use topoloom_core::text;
use topoloom_workshop::pack::ROOM;
use topoloom_workshop::project::Limits;

use super::document::{AskedEndpoint, ConfigMapRoom, Inspected, NeededLimits, Producer, RefusedFor, Requires, Start};
use super::{Report, Wishes};
use crate::cli::plugin::rows::{self, list, row};
use crate::cli::print;

/// The longest description of an endpoint, in bytes: some URLs and paths.
const ENDPOINT: usize = 2 << 10;

/// The longest part of a schema that is none, in bytes.
const SCHEMA: usize = 200;

impl Report {
    /// Everything that is known, in two columns; last the lines to paste.
    pub(super) fn text(&self) -> String {
        let mut rows = vec![
            row("file", &self.file),
            row("digest", &self.digest.to_string()),
            row(
                "size",
                &match self.packed {
                    Some(packed) => format!("{} bytes, packed {packed}", self.size),
                    None => format!("{} bytes", self.size),
                },
            ),
        ];
        if let Some(description) = &self.description {
            rows.push(row("plugin", &format!("{} {}", description.name, description.version)));
            rows.push(row("vendor", &description.vendor));
            rows.push(row("summary", &description.summary));
        }
        if let Some(interface) = self.interface() {
            rows.push(row("interface", interface));
        }
        rows.extend(rows::imports(&self.anatomy.imports, &self.anatomy.functions));
        if let Some(depth) = self.composed() {
            rows.push(row("composed", &format!("of components, {depth} deep")));
        }
        rows.push(rows::config_map(self.in_config_map));
        rows.extend(rows::needs(&self.need(), &Limits::default()));
        if let Some(needs) = self.needs {
            let (tables, elements, instances) = (needs.tables, needs.table_elements, self.anatomy.core_instances);
            let memory = format!("{} bytes of memory; memories {}", needs.memory, needs.memories);
            let tables = format!("tables {tables} (up to {elements} elements), core instances {instances}");
            rows.push(row("starts with", &format!("{memory}, {tables}")));
        }
        rows.extend(list(
            "made by",
            self.anatomy
                .producers
                .iter()
                .map(|[field, name, version]| format!("{field}: {name} {version}").trim_end().to_owned()),
        ));
        rows.push(row(
            "signature",
            &match &self.signature {
                Some(signature) => signature.text(),
                None => "none".to_owned(),
            },
        ));
        if let Some(wishes) = &self.wishes {
            rows.extend(wishes.rows(self.origin));
        }
        if self.description.is_some() && self.schema().is_none() {
            rows.push(row("config", "anything: its schema says nothing"));
        }
        let mut text = print::table(&rows);
        if let Some(grants) = self.wishes.as_ref().and_then(|wishes| wishes.grants.as_ref()) {
            text.push_str("\nTo grant what it requests, add to the entry:\n\n");
            text.push_str(grants);
        }
        if let Some(schema) = self.schema() {
            text.push_str(&format!("\nThe JSON Schema of its configuration:\n\n{schema}\n"));
        }
        text
    }

    /// The same for programs.
    pub(super) fn document(&self) -> Inspected {
        let description = self.description.as_ref();
        let imports = rows::by_interface(&self.anatomy.imports, &self.anatomy.functions);
        let imports = imports.into_iter().map(|(interface, functions)| (interface.to_owned(), texts(functions)));
        let need = self.need();
        let producers = self.anatomy.producers.iter().map(|[field, name, version]| Producer {
            field: field.clone(),
            name: name.clone(),
            version: version.clone(),
        });
        let refused = self
            .refusals
            .iter()
            .map(|refused| RefusedFor { reason: refused.reason.clone(), message: refused.message.clone() });
        Inspected {
            file: self.file.clone(),
            digest: self.digest.to_string(),
            size: self.size,
            packed_size: self.packed,
            config_map: ConfigMapRoom { packed: self.in_config_map, room: ROOM, fits: self.in_config_map <= ROOM },
            needs: (!need.rows.is_empty()).then(|| NeededLimits::of(&need)),
            name: description.map(|description| description.name.to_string()),
            version: description.map(|description| description.version.to_string()),
            vendor: description.map(|description| description.vendor.to_string()),
            summary: description.map(|description| description.summary.to_string()),
            config_schema: description.map(|description| description.config_schema.to_string()),
            embedded: self.origin.map(|origin| origin == Origin::Embedded),
            interface: self.interface().map(str::to_owned),
            imports: imports.collect(),
            exports: self.anatomy.exports.clone(),
            start: self.needs.map(|needs| Start {
                memory: needs.memory,
                memories: needs.memories,
                tables: needs.tables,
                table_elements: needs.table_elements,
                core_instances: self.anatomy.core_instances,
            }),
            producers: producers.collect(),
            requires: self.wishes.as_ref().map(Wishes::document),
            permissions: self.wishes.as_ref().and_then(|wishes| wishes.grants.clone()),
            signature: self.signature.as_ref().map(super::Signature::document),
            refused: refused.collect(),
        }
    }

    /// The interface that it is written against, with its version.
    fn interface(&self) -> Option<&str> {
        let names = self.anatomy.exports.iter().chain(&self.anatomy.imports);
        names.map(String::as_str).find(|name| name.starts_with("topoloom:"))
    }

    /// How deep components are in it, for one that is composed of others. An encoded one has one inside, around its export.
    fn composed(&self) -> Option<u64> {
        self.anatomy.measures.get(&Limit::Depth).map(|depth| depth.number()).filter(|depth| *depth > 2)
    }

    /// The schema of its configuration, if it says anything, in a form that people read.
    fn schema(&self) -> Option<String> {
        let text = &self.description.as_ref()?.config_schema;
        match serde_json::from_str(text) {
            Ok(Value::Bool(true)) => None,
            Ok(Value::Object(schema)) if schema.is_empty() => None,
            Ok(schema) => serde_json::to_string_pretty(&schema).ok().map(|schema| super::harmless(&schema)),
            Err(_) => Some(format!("is no JSON: {}", text::line(text, SCHEMA))),
        }
    }
}

impl Wishes {
    fn rows(&self, origin: Option<Origin>) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        match &self.requirements {
            None => rows.push(row("reads", "depends on its configuration: give one with --config")),
            Some(asked) => {
                rows.extend(list("labels", asked.node_labels.iter().cloned()));
                rows.extend(list("annotations", asked.node_annotations.iter().cloned()));
                rows.extend(list("endpoints", asked.endpoints.iter().map(endpoint)));
                rows.extend(list("rounds start", asked.triggers.iter().map(trigger)));
            }
        }
        if self.node_names {
            rows.push(row("node names", "are read"));
        }
        if origin == Some(Origin::Embedded) {
            rows.push(row("grants", "none needed: these bytes are part of this binary"));
        }
        rows
    }

    fn document(&self) -> Requires {
        let asked = self.requirements.as_ref();
        let endpoint = |endpoint: &Endpoint| AskedEndpoint {
            name: endpoint.name.to_string(),
            purpose: endpoint.purpose.to_string(),
            methods: texts(endpoint.methods.iter().map(|method| method.as_str())),
            paths: texts(&endpoint.paths),
            location: location(&endpoint.location),
        };
        Requires {
            node_labels: asked.map(|asked| texts(&asked.node_labels)),
            node_annotations: asked.map(|asked| texts(&asked.node_annotations)),
            node_names: self.node_names,
            endpoints: asked.map(|asked| asked.endpoints.iter().map(endpoint).collect()),
            triggers: asked.map(|asked| asked.triggers.iter().map(trigger).collect()),
        }
    }
}

/// As texts of their own.
fn texts<T: ToString>(words: impl IntoIterator<Item = T>) -> Vec<String> {
    words.into_iter().map(|word| word.to_string()).collect()
}

fn endpoint(endpoint: &Endpoint) -> String {
    let methods = endpoint.methods.iter().map(|method| method.as_str()).collect::<Vec<_>>().join(", ");
    let paths = if endpoint.paths.is_empty() { "all paths".to_owned() } else { endpoint.paths.join(", ") };
    let whole =
        format!("{}: {methods} {paths} at {} ({})", endpoint.name, location(&endpoint.location), endpoint.purpose);
    // All of this is what the plugin says.
    text::line(&whole, ENDPOINT)
}

fn location(location: &Location) -> String {
    match location {
        Location::Granted => "what the grant says".to_owned(),
        Location::Urls(urls) => urls.join(", "),
        Location::ConfigMap(at) => {
            let namespace = at.namespace.as_deref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
            format!("ConfigMap {namespace}{} key {}", at.name, at.key)
        }
    }
}

fn trigger(trigger: &Trigger) -> String {
    let (what, apart) = match trigger {
        Trigger::Columns(apart) => ("when a label or annotation changes", apart),
        Trigger::Names(apart) => ("when a node comes or goes", apart),
        Trigger::Timer(apart) => ("by the interval of the entry", apart),
    };
    if apart.is_zero() { what.to_owned() } else { format!("{what}, {apart:?} apart") }
}
