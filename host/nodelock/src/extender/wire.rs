//! What kube-scheduler sends to an extender and receives from it (`node-lock-and-bind.md` A20,
//! `k8s.io/kube-scheduler/extender/v1`).
//!
//! Names are read whatever their case is, as Go reads them, since old schedulers wrote other ones; they are written as
//! Go writes them. What is absent is `null`. Unknown fields, and bytes behind the first value, are ignored.
//!
//! A request is read where it lies: names and whole nodes are parts of the body, and go back as such.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::bodies;
use crate::pods::Slice;

/// Names, or nodes, in one request: more than a cluster has.
const ITEMS: usize = 65_536;

/// Why a body is no request.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// There is nothing.
    #[error("the body is empty: a JSON object is expected (EOF)")]
    Empty,
    /// It ends in the middle, by itself or because no more of it is read.
    #[error("the body ends in the middle of its JSON (unexpected EOF); at most {0} bytes are read")]
    Cut(usize),
    /// It is not JSON.
    #[error("the body is not JSON: {0}")]
    Syntax(String),
    /// It is something else than an object.
    #[error("the body is not a JSON object")]
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

/// The request of `bind`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindArgs {
    /// `PodName`.
    pub pod: String,
    /// `PodNamespace`.
    pub namespace: String,
    /// `PodUID`.
    pub uid: String,
    /// `WireNode`.
    pub node: String,
}

/// What `bind` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct BindResult {
    /// Why it failed; empty where it did not.
    pub error: String,
}

/// The request of `filter`.
#[derive(Debug)]
pub struct FilterArgs<'a> {
    /// `Pod`.
    pub pod: Option<Box<Slice>>,
    /// `Nodes`, where the scheduler sends whole ones.
    pub nodes: Option<NodeList<'a>>,
    /// `NodeNames`, where it does not.
    pub names: Option<Vec<WireNodeName<'a>>>,
}

/// What `filter` answers.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct FilterResult<'a> {
    /// The nodes that are left, where whole ones were sent.
    pub nodes: Option<NodeList<'a>>,
    /// The names of those that are left, where names were sent.
    pub node_names: Option<Vec<WireNodeName<'a>>>,
    /// Why others are not, by name.
    pub failed_nodes: Option<BTreeMap<String, String>>,
    /// The same for those that no preemption would help; none are.
    pub failed_and_unresolvable_nodes: Option<BTreeMap<String, String>>,
    /// Why there is no answer.
    pub error: String,
}

/// The name of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireNodeName<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// A list of nodes, which are returned unchanged.
#[derive(Debug, Serialize, Deserialize)]
pub struct NodeList<'a> {
    /// Its own metadata.
    #[serde(default = "nothing", borrow)]
    pub metadata: &'a RawValue,
    /// The nodes.
    #[serde(default, borrow, deserialize_with = "items_or_none")]
    pub items: Vec<&'a RawValue>,
}

/// An object without fields.
fn nothing<'a>() -> &'a RawValue {
    // What it is made of is known to be JSON.
    serde_json::from_str("{}").unwrap_or(RawValue::NULL)
}

/// Go writes a list without items as `null`.
fn items_or_none<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<&'a RawValue>, D::Error> {
    Ok(Option::<Items<&'a RawValue>>::deserialize(deserializer)?.map(|items| items.0).unwrap_or_default())
}

/// A list that is no longer than any cluster makes it.
struct Items<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bounded<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Bounded<T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {ITEMS}")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    if items.len() >= ITEMS {
                        return Err(serde::de::Error::invalid_length(ITEMS + 1, &self));
                    }
                    items.push(item);
                }
                Ok(items)
            }
        }
        deserializer.deserialize_seq(Bounded(PhantomData)).map(Self)
    }
}

/// The name of a node; empty where it has none.
#[must_use]
pub fn name_of(node: &RawValue) -> Cow<'_, str> {
    #[derive(Deserialize)]
    struct WireNode<'a> {
        #[serde(default, borrow)]
        metadata: Metadata<'a>,
    }
    #[derive(Default, Deserialize)]
    struct Metadata<'a> {
        #[serde(default, borrow)]
        name: Cow<'a, str>,
    }
    serde_json::from_str::<WireNode<'_>>(node.get()).map(|node| node.metadata.name).unwrap_or_default()
}

/// The fields of the one object of a body, by their names in lower case. Of two that differ in case only, the last
/// counts.
struct Fields<'a>(BTreeMap<&'static str, &'a RawValue>);

impl<'a> Fields<'a> {
    /// Those that are wanted, of a body of which no more than so many bytes were read.
    fn decode(body: &'a [u8], most: usize, wanted: &'static [&'static str]) -> Result<Self, DecodeError> {
        let body = body.get(..most).unwrap_or(body);
        if body.iter().all(u8::is_ascii_whitespace) {
            return Err(DecodeError::Empty);
        }
        let mut values = serde_json::Deserializer::from_slice(body).into_iter::<ObjectPairs<'a>>();
        let pairs = match values.next() {
            None => return Err(DecodeError::Empty),
            Some(Err(error)) if error.is_eof() => return Err(DecodeError::Cut(most)),
            Some(Err(error)) if error.is_data() => return Err(DecodeError::NoObject),
            Some(Err(error)) => return Err(DecodeError::Syntax(error.to_string())),
            Some(Ok(ObjectPairs(pairs))) => pairs,
        };
        let named = |name: &str| wanted.iter().find(|wanted| wanted.to_lowercase() == name.to_lowercase());
        Ok(Self(pairs.into_iter().filter_map(|(name, value)| Some((*named(&name)?, value))).collect()))
    }

    /// A field; `null` and absence are the same.
    fn take<T: Deserialize<'a>>(&mut self, field: &'static str) -> Result<Option<T>, DecodeError> {
        match self.0.remove(field) {
            None => Ok(None),
            Some(value) => {
                serde_json::from_str(value.get()).map_err(|error| DecodeError::Field { field, why: error.to_string() })
            }
        }
    }
}

/// An object as its pairs, in their order.
struct ObjectPairs<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for ObjectPairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// More fields than that are not kept: what is wanted has four.
        const MOST: usize = 256;
        struct Object<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Object<'a> {
            type Value = ObjectPairs<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<ObjectPairs<'a>, A::Error> {
                let mut pairs = Vec::new();
                while let Some((WireNodeName(name), value)) = map.next_entry::<WireNodeName<'a>, &'a RawValue>()? {
                    if pairs.len() < MOST {
                        pairs.push((name, value));
                    }
                }
                Ok(ObjectPairs(pairs))
            }
        }
        deserializer.deserialize_map(Object(PhantomData))
    }
}

impl BindArgs {
    /// Reads a body. What is absent is empty, as in Go; whether that is good enough is not decided here.
    ///
    /// # Errors
    /// Names the field, or says where the JSON ends.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut fields = Fields::decode(body, bodies::BIND, &["PodName", "PodNamespace", "PodUID", "Node"])?;
        let mut text = |field| Ok::<_, DecodeError>(fields.take::<String>(field)?.unwrap_or_default());
        Ok(Self { pod: text("PodName")?, namespace: text("PodNamespace")?, uid: text("PodUID")?, node: text("Node")? })
    }
}

impl<'a> FilterArgs<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// Names the field, or says where the JSON ends.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut fields = Fields::decode(body, bodies::FILTER, &["Pod", "Nodes", "NodeNames"])?;
        let (pod, nodes) = (fields.take("Pod")?, fields.take("Nodes")?);
        let names = fields.take::<Items<WireNodeName<'a>>>("NodeNames")?.map(|names| names.0);
        Ok(Self { pod, nodes, names })
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
            ("{not-json", "not JSON"),
            (r#"{"PodName":"p""#, "unexpected EOF"),
            ("[]", "not a JSON object"),
            ("7", "not a JSON object"),
            ("null", "not a JSON object"),
            (r#"{"PodName":7}"#, "PodName: "),
            (r#"{"podname":{}}"#, "PodName: "),
        ] {
            let error = bind(body).unwrap_err();
            assert!(error.contains(words), "{body}: {error}");
        }
        let long = format!(r#"{{"PodName":"{}"}}"#, "x".repeat(bodies::BIND));
        assert!(bind(&long).unwrap_err().contains("unexpected EOF"));
        // The bytes after the first value may be of any length.
        let behind = format!("{{}}{}", " ".repeat(2 * bodies::BIND));
        assert!(bind(&behind).is_ok());
    }

    #[test]
    fn a20_filter_has_names_or_nodes() {
        let args =
            FilterArgs::decode(br#"{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":["a","b"]}"#).unwrap();
        assert!(args.pod.is_some());
        assert!(args.nodes.is_none());
        assert_eq!(args.names, Some(vec![WireNodeName("a".into()), WireNodeName("b".into())]));

        let old = br#"{"pod":{"metadata":{"name":"p"}},"nodes":{"metadata":{},"items":[{"metadata":{"name":"a"}}]},"nodenames":null}"#;
        let args = FilterArgs::decode(old).unwrap();
        assert_eq!(args.nodes.unwrap().items.into_iter().map(name_of).collect::<Vec<_>>(), ["a"]);
        assert!(args.pod.is_some() && args.names.is_none());
        let none = FilterArgs::decode(br#"{"Nodes":{"metadata":{},"items":null}}"#).unwrap();
        assert!(none.pod.is_none() && none.nodes.unwrap().items.is_empty());

        let error = FilterArgs::decode(br#"{"NodeNames":"a"}"#).unwrap_err().to_string();
        assert!(error.starts_with("NodeNames: "), "{error}");
    }

    #[test]
    fn a20_answers_are_written_as_go_writes_them() {
        let text = |result: &FilterResult<'_>| serde_json::to_string(result).unwrap();
        assert_eq!(serde_json::to_string(&BindResult::default()).unwrap(), r#"{"Error":""}"#);
        let good = FilterResult { node_names: Some(vec![WireNodeName("gpu-1".into())]), ..FilterResult::default() };
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

    /// A whole node is long: its images alone are tens of kilobytes.
    #[test]
    fn a20_thirty_thousand_names_and_whole_nodes_are_read_where_they_lie_and_no_list_is_without_end() {
        let within = |body: &str, part: &str| body.as_bytes().as_ptr_range().contains(&part.as_ptr());
        let names: Vec<String> = (0..30_000).map(|node| format!("{node:06}.{}", "n".repeat(246))).collect();
        let body = serde_json::json!({"Pod": {}, "NodeNames": names}).to_string();
        assert!(body.len() < bodies::FILTER, "{}", body.len());
        let args = FilterArgs::decode(body.as_bytes()).unwrap();
        let read = args.names.unwrap();
        assert_eq!(read.len(), names.len());
        assert!(read.iter().zip(&names).all(|(read, name)| read.0 == *name && within(&body, &read.0)));

        let node = |index: usize| serde_json::json!({"metadata": {"name": format!("n{index}")}, "status": "s".repeat(64 << 10)});
        let nodes: Vec<_> = (0..250).map(node).collect();
        let body = serde_json::json!({"Nodes": {"metadata": {}, "items": nodes}}).to_string();
        assert!(body.len() < bodies::FILTER, "{}", body.len());
        let read = FilterArgs::decode(body.as_bytes()).unwrap().nodes.unwrap();
        assert!(read.items.iter().all(|node| within(&body, node.get())));
        assert_eq!(name_of(read.items[249]), "n249");

        for (list, good) in [(ITEMS, true), (ITEMS + 1, false)] {
            let body = format!("{{\"NodeNames\":[{}\"\"]}}", "\"\",".repeat(list - 1));
            assert_eq!(FilterArgs::decode(body.as_bytes()).is_ok(), good, "{list}");
        }
        let error =
            FilterArgs::decode(format!("{{\"NodeNames\":[{}1]}}", "\"\",".repeat(ITEMS)).as_bytes()).unwrap_err();
        assert!(error.to_string().starts_with("NodeNames: "), "{error}");
        assert!(name_of(serde_json::from_str(r#"{"metadata":{"name":7}}"#).unwrap()).is_empty());
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
