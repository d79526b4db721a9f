//! What a kube-scheduler says to an extender and hears from it (`node-lock-and-bind.md` A20, `k8s.io/kube-scheduler/extender/v1`).
//!
//! Names are read whatever their case is, as Go reads them, since old schedulers wrote other ones; they are written as Go
//! writes them. What is absent is `null`. Unknown fields, and bytes behind the first value, are ignored.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::nodelock::pods::Slice;

/// No more of a body is read.
pub const BODY: usize = 1 << 20;

/// Why a body is no request.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// There is nothing.
    #[error("the body is empty: a JSON object is expected (EOF)")]
    Empty,
    /// It ends in the middle, by itself or because no more of it is read.
    #[error("the body ends in the middle of its JSON (unexpected EOF); at most {BODY} bytes are read")]
    Cut,
    /// It is not JSON.
    #[error("the body is no JSON: {0}")]
    Syntax(String),
    /// It is something else than an object.
    #[error("the body is no JSON object")]
    NoObject,
    /// A field has another type.
    #[error("{field}: {why}")]
    Field {
        /// Which one, as Go names it.
        field: &'static str,
        /// What is wrong with it.
        why: String,
    },
}

/// What `bind` is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindArgs {
    /// `PodName`.
    pub pod: String,
    /// `PodNamespace`.
    pub namespace: String,
    /// `PodUID`.
    pub uid: String,
    /// `Node`.
    pub node: String,
}

/// What `bind` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct BindResult {
    /// Why it failed; empty where it did not.
    pub error: String,
}

/// What `filter` is asked.
#[derive(Debug, Clone)]
pub struct FilterArgs {
    /// `Pod`.
    pub pod: Option<Box<Slice>>,
    /// `Nodes`, where the scheduler sends whole ones.
    pub nodes: Option<NodeList>,
    /// `NodeNames`, where it does not.
    pub names: Option<Vec<String>>,
}

/// What `filter` answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct FilterResult {
    /// The nodes that are left, where whole ones were sent.
    pub nodes: Option<NodeList>,
    /// The names of those that are left, where names were sent.
    pub node_names: Option<Vec<String>>,
    /// Why others are not, by name.
    pub failed_nodes: Option<BTreeMap<String, String>>,
    /// The same for those that no preemption would help; none are.
    pub failed_and_unresolvable_nodes: Option<BTreeMap<String, String>>,
    /// Why there is no answer.
    pub error: String,
}

/// A list of nodes, which go back as they came.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeList {
    /// Its own metadata.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// The nodes.
    #[serde(default, deserialize_with = "or_none")]
    pub items: Vec<Map<String, Value>>,
}

/// Go writes a list without items as `null`.
fn or_none<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// The name of a node.
#[must_use]
pub fn name_of(node: &Map<String, Value>) -> &str {
    node.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Value::as_str).unwrap_or_default()
}

/// The fields of the one object of a body, by their names in lower case. Of two that differ in case only, the last counts.
struct Fields(BTreeMap<String, Value>);

impl Fields {
    fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let body = body.get(..BODY).unwrap_or(body);
        if body.iter().all(u8::is_ascii_whitespace) {
            return Err(DecodeError::Empty);
        }
        let mut values = serde_json::Deserializer::from_slice(body).into_iter::<Pairs>();
        let pairs = match values.next() {
            None => return Err(DecodeError::Empty),
            Some(Err(error)) if error.is_eof() => return Err(DecodeError::Cut),
            Some(Err(error)) if error.is_data() => return Err(DecodeError::NoObject),
            Some(Err(error)) => return Err(DecodeError::Syntax(error.to_string())),
            Some(Ok(Pairs(pairs))) => pairs,
        };
        Ok(Self(pairs.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect()))
    }

    /// A field; `null` and absence are the same.
    fn take<T: DeserializeOwned>(&mut self, field: &'static str) -> Result<Option<T>, DecodeError> {
        match self.0.remove(&field.to_lowercase()) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => serde_json::from_value(value)
                .map(Some)
                .map_err(|error| DecodeError::Field { field, why: error.to_string() }),
        }
    }
}

/// An object as its pairs, in their order.
struct Pairs(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Pairs;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

impl BindArgs {
    /// Reads a body. What is absent is empty, as in Go; whether that is good enough is not decided here.
    ///
    /// # Errors
    /// Names the field, or says where the JSON ends.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut fields = Fields::decode(body)?;
        let mut text = |field| Ok::<_, DecodeError>(fields.take::<String>(field)?.unwrap_or_default());
        Ok(Self { pod: text("PodName")?, namespace: text("PodNamespace")?, uid: text("PodUID")?, node: text("Node")? })
    }
}

impl FilterArgs {
    /// Reads a body.
    ///
    /// # Errors
    /// Names the field, or says where the JSON ends.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut fields = Fields::decode(body)?;
        Ok(Self { pod: fields.take("Pod")?, nodes: fields.take("Nodes")?, names: fields.take("NodeNames")? })
    }
}

/// A sentence for `Error`. Older schedulers take it for a format string, so it has no percent sign.
#[must_use]
pub fn plain(error: &str) -> String {
    error.replace('%', " percent").chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(body: &str) -> Result<BindArgs, String> {
        BindArgs::decode(body.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn a20_names_are_read_in_any_case_and_the_rest_is_ignored() {
        let wanted = BindArgs { pod: "p".into(), namespace: "ns".into(), uid: "b3f0".into(), node: "gpu-1".into() };
        for body in [
            r#"{"PodName":"p","PodNamespace":"ns","PodUID":"b3f0","Node":"gpu-1"}"#,
            r#"{"podName":"p","podNamespace":"ns","podUID":"b3f0","node":"gpu-1"}"#,
            r#"{"podname":"p","PODNAMESPACE":"ns","podUid":"b3f0","NODE":"gpu-1","More":[1,{"a":2}]}"#,
            r#" {"PodName":"p","PodNamespace":"ns","PodUID":"b3f0","Node":"gpu-1"} and more {"#,
            r#"{"PodName":"x","podname":"p","PodNamespace":"ns","PodUID":"b3f0","Node":"gpu-1"}"#,
        ] {
            assert_eq!(bind(body), Ok(wanted.clone()), "{body}");
        }
        let none = BindArgs { pod: String::new(), namespace: String::new(), uid: String::new(), node: String::new() };
        assert_eq!(bind("{}"), Ok(none.clone()));
        assert_eq!(bind(r#"{"PodName":null}"#), Ok(none));
    }

    #[test]
    fn a20_what_is_no_request_is_told_with_its_reason() {
        for (body, words) in [
            ("", "empty"),
            (" \n", "empty"),
            ("{not-json", "no JSON"),
            (r#"{"PodName":"p""#, "unexpected EOF"),
            ("[]", "no JSON object"),
            ("7", "no JSON object"),
            ("null", "no JSON object"),
            (r#"{"PodName":7}"#, "PodName: "),
            (r#"{"podname":{}}"#, "PodName: "),
        ] {
            let error = bind(body).unwrap_err();
            assert!(error.contains(words), "{body}: {error}");
        }
        let long = format!(r#"{{"PodName":"{}"}}"#, "x".repeat(BODY));
        assert!(bind(&long).unwrap_err().contains("unexpected EOF"));
        // Whatever lies behind the first value may be as long as it wants.
        let behind = format!("{{}}{}", " ".repeat(2 * BODY));
        assert!(bind(&behind).is_ok());
    }

    #[test]
    fn a20_filter_has_names_or_nodes() {
        let args =
            FilterArgs::decode(br#"{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":["a","b"]}"#).unwrap();
        assert!(args.pod.is_some());
        assert_eq!((args.nodes, args.names), (None, Some(vec!["a".into(), "b".into()])));

        let old = br#"{"pod":{"metadata":{"name":"p"}},"nodes":{"metadata":{},"items":[{"metadata":{"name":"a"}}]},"nodenames":null}"#;
        let args = FilterArgs::decode(old).unwrap();
        assert_eq!(args.nodes.unwrap().items.iter().map(name_of).collect::<Vec<_>>(), ["a"]);
        assert!(args.pod.is_some() && args.names.is_none());
        let none = FilterArgs::decode(br#"{"Nodes":{"metadata":{},"items":null}}"#).unwrap();
        assert!(none.pod.is_none() && none.nodes.unwrap().items.is_empty());

        let error = FilterArgs::decode(br#"{"NodeNames":"a"}"#).unwrap_err().to_string();
        assert!(error.starts_with("NodeNames: "), "{error}");
    }

    #[test]
    fn a20_answers_are_written_as_go_writes_them() {
        let text = |result: &FilterResult| serde_json::to_string(result).unwrap();
        assert_eq!(serde_json::to_string(&BindResult::default()).unwrap(), r#"{"Error":""}"#);
        let good = FilterResult { node_names: Some(vec!["gpu-1".into()]), ..FilterResult::default() };
        assert_eq!(
            text(&good),
            r#"{"Nodes":null,"NodeNames":["gpu-1"],"FailedNodes":null,"FailedAndUnresolvableNodes":null,"Error":""}"#
        );
        let failed = BTreeMap::from([("gpu-2".to_owned(), "it is locked".to_owned())]);
        let bad = FilterResult { failed_nodes: Some(failed), ..FilterResult::default() };
        assert_eq!(
            text(&bad),
            r#"{"Nodes":null,"NodeNames":null,"FailedNodes":{"gpu-2":"it is locked"},"FailedAndUnresolvableNodes":null,"Error":""}"#
        );
    }

    #[test]
    fn an_error_is_no_format_string() {
        assert_eq!(plain("100% of\nthe time"), "100 percent of the time");
    }

    proptest::proptest! {
        #[test]
        fn any_body_has_an_answer(body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let _ = BindArgs::decode(&body);
            let _ = FilterArgs::decode(&body);
        }

        #[test]
        fn any_json_has_an_answer(body in r#"\{("(PodName|Node|Pod|Nodes|NodeNames)":(null|7|"x"|\[\]|\{\}|\["a"\]|\{"items":(null|\[\]|7)\}),?){0,4}\}?"#) {
            let _ = BindArgs::decode(body.as_bytes());
            let _ = FilterArgs::decode(body.as_bytes());
        }
    }
}
