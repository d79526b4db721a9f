//! What a verb shows: text for people, or one JSON document for programs.
//!
//! A document has a version and a kind, as objects of Kubernetes have, and a schema that is made from its type and lies under
//! `docs/operators/schemas`. Within a version fields are added, and none is taken away or changes its meaning.

pub(super) mod parts;

use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Value, json};

use super::print;

/// The version of all documents.
const VERSION: &str = "cli.topoloom.dev/v1";

/// The flag that all these verbs have.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct OutputArgs {
    /// Text for people or JSON for programs
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

/// What one verb shows.
pub(super) trait Document: Serialize + JsonSchema {
    /// What it is called in the field `kind`, and its schema by file name.
    const KIND: &'static str;
}

impl OutputArgs {
    /// Whether a program reads the answer: then nothing else may be printed, and no one can be asked.
    pub(super) fn is_json(self) -> bool {
        self.output == Output::Json
    }

    /// Prints what was asked for.
    pub(super) fn print<D: Document>(self, document: &D, text: impl FnOnce(&D) -> String) -> anyhow::Result<()> {
        match self.output {
            Output::Text => print::out(&text(document)),
            Output::Json => print::out(&json_of(document)?),
        }
        Ok(())
    }
}

/// A document with its version and its kind.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Versioned<T> {
    /// The version of this shape.
    api_version: &'static str,
    /// What this document is.
    kind: &'static str,
    #[serde(flatten)]
    document: T,
}

/// The document as text, for verbs with more forms than these.
pub(super) fn json_of<D: Document>(document: &D) -> anyhow::Result<String> {
    let whole = Versioned { api_version: VERSION, kind: D::KIND, document };
    Ok(serde_json::to_string_pretty(&whole)? + "\n")
}

/// The schema of a document, by its kind.
fn schema<D: Document>() -> (&'static str, Value) {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<Versioned<D>>().to_value();
    for (field, word) in [("apiVersion", VERSION), ("kind", D::KIND)] {
        if let Some(field) = schema.pointer_mut(&format!("/properties/{field}")).and_then(Value::as_object_mut) {
            field.insert("const".to_owned(), json!(word));
        }
    }
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("title".to_owned(), json!(D::KIND));
    }
    (D::KIND, schema)
}

/// The schema of every document that is printed with `-o json`, by its kind.
#[must_use]
pub fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        schema::<super::config::Checked>(),
        schema::<super::explain::Explained>(),
        schema::<super::fabric::report::Reports>(),
        schema::<super::lend::confirm::HeldByBinding>(),
        schema::<super::lend::explain::document::LendExplanation>(),
        schema::<super::lend::orders::Order>(),
        schema::<super::lend::plan::document::LendPlans>(),
        schema::<super::lend::release::Released>(),
        schema::<super::lend::report::document::LendReport>(),
        schema::<super::lock::explain::Locks>(),
        schema::<super::lock::list::Listed>(),
        schema::<super::plan::document::Plans>(),
        schema::<super::plugin::Benched>(),
        schema::<super::plugin::Tested>(),
        schema::<super::plugin::inspect::Inspected>(),
        schema::<super::plugin::serving::Serving>(),
        schema::<super::preflight::line::Checks>(),
        schema::<super::source::list::Sources>(),
        schema::<super::status::Status>(),
        schema::<super::tree::document::Trees>(),
    ]
}
