//! HyperNodes out of a file: what `kubectl get hypernodes -o yaml` prints, or `topoloom discover -o yaml`.
//!
//! Owns the forms of such a file. What an object means is `topoloom_cluster::hyper_nodes`. A file that is something else is
//! one sentence with the place.

use std::sync::Arc;

use serde_json::Value;
use topoloom_api::HyperNode;
use topoloom_api::hyper_node::KIND;
use topoloom_cluster::hyper_nodes;
use topoloom_core::topology::Object;

/// Why a file is no list of HyperNodes.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Neither YAML nor JSON.
    #[error("{0}")]
    Syntax(String),
    /// Something else.
    #[error("no list and no {KIND}; give what `kubectl get hypernodes -o yaml` or `topoloom discover -o yaml` prints")]
    Other,
    /// An object of another kind among them.
    #[error("items[{at}] is a {kind}, not a {KIND}")]
    Kind {
        /// Its position.
        at: usize,
        /// Its kind.
        kind: String,
    },
    /// One that is not written as a HyperNode is.
    #[error("items[{at}]: {message}")]
    Form {
        /// Its position.
        at: usize,
        /// What the reader says.
        message: String,
    },
}

/// Of a list, as `kubectl` prints it, or of objects one after the other, as `discover -o yaml` does.
///
/// # Errors
/// The first thing that is wrong, with its place.
pub fn parse(text: &str) -> Result<Vec<Arc<Object>>, Error> {
    let documents: Vec<Value> = if text.trim_start().starts_with('{') {
        vec![serde_json::from_str(text).map_err(|error| Error::Syntax(error.to_string()))?]
    } else {
        serde_saphyr::from_multiple(text).map_err(|error| Error::Syntax(error.to_string()))?
    };
    let mut items = Vec::new();
    for mut document in documents {
        match document.get_mut("items").map(Value::take) {
            Some(Value::Array(list)) => items.extend(list),
            None if document.get("kind").and_then(Value::as_str) == Some(KIND) => items.push(document),
            None if document.is_null() => {}
            _ => return Err(Error::Other),
        }
    }
    items.into_iter().enumerate().map(|(at, item)| object(at, item)).collect()
}

fn object(at: usize, item: Value) -> Result<Arc<Object>, Error> {
    let kind = item.get("kind").and_then(Value::as_str).unwrap_or(KIND);
    if kind != KIND {
        return Err(Error::Kind { at, kind: kind.to_owned() });
    }
    let item: HyperNode =
        serde_json::from_value(item).map_err(|error| Error::Form { at, message: error.to_string() })?;
    Ok(Arc::new(hyper_nodes::object(&item)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_objects_come_as_a_list_or_one_after_the_other() {
        let object =
            |name: &str| format!("kind: HyperNode\nmetadata: {{name: {name}}}\nspec: {{tier: 1, members: []}}\n");
        let names = |text: &str| -> Result<Vec<String>, String> {
            let objects = parse(text).map_err(|error| error.to_string())?;
            Ok(objects.iter().map(|object| object.name.to_string()).collect())
        };
        assert_eq!(names(&format!("---\n{}---\n{}", object("a"), object("b"))).unwrap(), ["a", "b"]);
        assert_eq!(names(&object("a")).unwrap(), ["a"]);
        assert_eq!(names("kind: List\nitems: []\n").unwrap(), [""; 0]);
        let list = r#"{"items": [{"metadata": {"name": "c"}, "spec": {"tier": 1, "members": []}}]}"#;
        assert_eq!(names(list).unwrap(), ["c"]);
        assert_eq!(names("").unwrap(), [""; 0]);
        assert!(names("kind: Pod\n").unwrap_err().starts_with("no list and no HyperNode"));
        assert_eq!(names("items: [{kind: Pod}]\n").unwrap_err(), "items[0] is a Pod, not a HyperNode");
    }
}
