//! The JSON form, by serde: unknown parts are skipped without being built.

use std::cell::RefCell;
use std::fmt;
use std::io::BufRead;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{Error, FileNode, NodeCollector, NotNodes, Raw, is_list_kind, is_node_kind};

pub(super) fn read<F: FnMut(FileNode)>(reader: impl BufRead, collector: &mut NodeCollector<F>) -> Result<(), Error> {
    // An own error cannot travel through serde's error type: it waits here while serde unwinds.
    let own: RefCell<Option<Error>> = RefCell::new(None);
    let mut parser = serde_json::Deserializer::from_reader(reader);
    let result = NodeListFile { collector, own: &own }.deserialize(&mut parser).and_then(|()| parser.end());
    match (own.into_inner(), result) {
        (Some(error), _) => Err(error),
        (None, Err(error)) if error.is_data() => Err(NotNodes::Form(error.to_string()).into()),
        (None, Err(error)) => Err(Error::Syntax(error.to_string())),
        (None, Ok(())) => Ok(()),
    }
}

/// The whole file: a list object, one node, or a bare array of nodes.
struct NodeListFile<'a, F> {
    collector: &'a mut NodeCollector<F>,
    own: &'a RefCell<Option<Error>>,
}

impl<'de, F: FnMut(FileNode)> DeserializeSeed<'de> for NodeListFile<'_, F> {
    type Value = ();
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: FnMut(FileNode)> Visitor<'de> for NodeListFile<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of nodes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(item) = seq.next_element::<Item>()? {
            take(self.collector, item).map_err(|error| stop::<A::Error>(self.own, error))?;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut kind, mut metadata, mut list) = (None::<String>, None::<Metadata>, false);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "kind" => kind = Some(map.next_value()?),
                "items" => {
                    list = true;
                    map.next_value_seed(NodeListFile { collector: self.collector, own: self.own })?;
                }
                "metadata" => metadata = Some(map.next_value()?),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let kind = kind.unwrap_or_default();
        if list {
            return match kind.is_empty() || is_list_kind(&kind) {
                true => Ok(()),
                false => Err(stop(self.own, NotNodes::Kind(kind).into())),
            };
        }
        match metadata {
            Some(metadata) if is_node_kind(&kind) => {
                take(self.collector, Item { kind, metadata }).map_err(|error| stop(self.own, error))
            }
            _ if is_list_kind(&kind) => Err(stop(self.own, NotNodes::NoItems.into())),
            _ => Err(stop(self.own, NotNodes::Kind(kind).into())),
        }
    }
}

fn take<F: FnMut(FileNode)>(collector: &mut NodeCollector<F>, item: Item) -> Result<(), Error> {
    if !item.kind.is_empty() && !is_node_kind(&item.kind) {
        return Err(NotNodes::Item { index: collector.count, kind: item.kind }.into());
    }
    let Metadata { name, labels: Pairs(labels), annotations: Pairs(annotations) } = item.metadata;
    collector.node(Raw { name, labels, annotations })
}

/// Sets an own error aside; what is returned makes serde end.
fn stop<E: serde::de::Error>(own: &RefCell<Option<Error>>, error: Error) -> E {
    let end = E::custom(&error);
    own.replace(Some(error));
    end
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default)]
struct Metadata {
    name: String,
    labels: Pairs,
    annotations: Pairs,
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Fields {
            #[serde(default, deserialize_with = "name")]
            name: String,
            #[serde(default)]
            labels: Option<Pairs>,
            #[serde(default)]
            annotations: Option<Pairs>,
        }
        fn name<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
            String::deserialize(deserializer).map_err(|error| D::Error::custom(format_args!("metadata.name: {error}")))
        }
        let raw = Fields::deserialize(deserializer)?;
        Ok(Self {
            name: raw.name,
            labels: raw.labels.unwrap_or_default(),
            annotations: raw.annotations.unwrap_or_default(),
        })
    }
}

/// A mapping of strings, in the order of the file.
#[derive(Default)]
struct Pairs(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;
        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = Pairs;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping of strings")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(PairsVisitor)
    }
}
