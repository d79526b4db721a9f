//! Whether a definition of lending that an API server serves has every field of this program (decisions S8 and S9).
//!
//! An API server publishes the schemas of its definitions to every authenticated user, as it does with the list of what it serves. What is
//! not in a schema is dropped from what is written. A definition that has more fields is that of a later version, and is well.

use http::Request;
use serde_json::Value;
use topoloom_api::{cluster_binding, resource_leasing_policy};

use super::{APPLY, GRANT};
use crate::cli::preflight::line::Line;
use crate::cluster::{Refusal, Side};

/// How many fields one line names.
const SHOWN: usize = 5;

/// A definition of this program.
pub(super) struct Definition {
    version: &'static str,
    kind: &'static str,
    object: fn() -> Value,
}

/// That of ClusterBindings.
pub(super) const BINDINGS: Definition = Definition {
    version: cluster_binding::API_VERSION,
    kind: cluster_binding::KIND,
    object: cluster_binding::definition,
};
/// That of policies.
pub(super) const POLICIES: Definition = Definition {
    version: resource_leasing_policy::API_VERSION,
    kind: resource_leasing_policy::KIND,
    object: resource_leasing_policy::definition,
};

impl Definition {
    /// Compares it with the one that is served on this side.
    pub(super) async fn compare(&self, client: &kube::Client, what: &str, side: Side) -> Line {
        let version = self.version;
        match self.published(client).await {
            Ok(Some(schema)) => self.judge(&schema, what, side),
            Ok(None) => Line::ok(what, format!("{version} is served; its fields are not published yet")),
            Err(refusal) => {
                let found = format!("{version} is served; its fields could not be read: {}", refusal.on(side));
                Line::warn(what, found, "")
            }
        }
    }

    /// The schema that the API server publishes, where it does.
    async fn published(&self, client: &kube::Client) -> Result<Option<Value>, Refusal> {
        let request = Request::get(format!("/openapi/v3/apis/{}", self.version)).body(Vec::new());
        let request = request.map_err(|error| Refusal::of(&kube::Error::HttpError(error)))?;
        let document: Value = client.request(request).await.map_err(|error| Refusal::of(&error))?;
        let schemas = document.pointer("/components/schemas").and_then(Value::as_object);
        let end = format!(".{}", self.kind);
        let schema = schemas.into_iter().flatten().find(|(name, _)| name.ends_with(&end));
        Ok(schema.map(|(_, schema)| schema.clone()))
    }

    fn judge(&self, schema: &Value, what: &str, side: Side) -> Line {
        let mut missing = Vec::new();
        let ours = (self.object)();
        if let Some(ours) = ours.pointer("/spec/versions/0/schema/openAPIV3Schema") {
            add_missing(ours, schema, "", &mut missing);
        }
        if missing.is_empty() {
            return Line::ok(what, format!("{} is served, with every field of this program", self.version));
        }
        let shown: Vec<&str> = missing.iter().take(SHOWN).map(String::as_str).collect();
        let more = missing.len().saturating_sub(SHOWN);
        let more = if more == 0 { String::new() } else { format!(" and {more} more fields") };
        let found = format!(
            "it is older than this program: it lacks {}{more}, which the API server does not store then",
            shown.join(", ")
        );
        let todo = match side {
            Side::Virtual => APPLY,
            Side::Physical => GRANT,
        };
        Line::warn(what, found, todo)
    }
}

/// The fields of a schema that another one does not have.
fn add_missing(ours: &Value, theirs: &Value, path: &str, missing: &mut Vec<String>) {
    let fields = ours.get("properties").and_then(Value::as_object);
    for (name, ours) in fields.into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match theirs.get("properties").and_then(|fields| fields.get(name)) {
            Some(theirs) => add_missing(ours, theirs, &path, missing),
            None => missing.push(path),
        }
    }
    if let (Some(ours), Some(theirs)) = (ours.get("items"), theirs.get("items")) {
        add_missing(ours, theirs, &format!("{path}[]"), missing);
    }
}
