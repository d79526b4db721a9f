//! Racks and rooms that people wrote into a ConfigMap.
//!
//! The document is the JSON object `{"rooms": {"r1": {"a7": ["m1", "m2"]}}}`: names of nodes by rack, racks by room. The
//! operator says where it is (`permissions.endpoints.document`): a key of a ConfigMap, or a file. For a plugin it is an
//! endpoint with one page, whose `ETag` changes with its content. The last one is in the state, so that a round without a
//! change is one small request.
//!
//! People make mistakes, and a document with one is no document: a node in two racks, or a rack that is written twice, ends the
//! round, and the topology stays.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use topoloom_sdk::prelude::*;

/// Racks and rooms as people wrote them down.
struct Document;

/// There is nothing to configure: the operator sets the place of the document in the entry.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {}

const SCHEMA: &str = r#"{"type": "object", "additionalProperties": false}"#;

/// Larger than any that people write by hand.
const MOST: u64 = 16 << 20;

/// What the document says.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    rooms: Once<Once<Vec<String>>>,
}

/// An object in which each key is once. A map alone keeps the last of two, and the nodes of the other one would have no place.
struct Once<T>(BTreeMap<String, T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Once<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Keys(PhantomData))
    }
}

/// Reads an [`Once`].
struct Keys<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Keys<T> {
    type Value = Once<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Once<T>, A::Error> {
        let mut map = BTreeMap::new();
        while let Some(key) = members.next_key::<String>()? {
            match map.entry(key) {
                Entry::Vacant(place) => {
                    place.insert(members.next_value()?);
                }
                Entry::Occupied(known) => {
                    let words =
                        format!("{:?} is written twice; write it once, with all that belongs to it", known.key());
                    return Err(A::Error::custom(words));
                }
            }
        }
        Ok(Once(map))
    }
}

impl Discoverer for Document {
    type Config = Config;

    fn describe() -> Description {
        let description = Description::new("document", "0.1.0").vendor("Acme").config_schema(SCHEMA);
        description.summary("Racks and rooms of a document in a ConfigMap")
    }

    fn configure(_: &Config) -> Result<Requirements, Vec<Problem>> {
        let endpoint = Endpoint::new("document", "Reads which rack and which room every node is in");
        Ok(Requirements::new().endpoint(endpoint).trigger(Trigger::on_timer()).trigger(Trigger::on_names()))
    }

    fn discover(_: &Config, input: &Input<'_>) -> Result<Answer, Failure> {
        // The state is the ETag, and the nodes that the document was compared with: another node may have a place in it.
        let (known, generation) = remembered(input.state);
        let is_same = generation == Some(input.nodes.generation());
        let mut request = Request::get("document", "");
        if let Some(known) = known.filter(|_| is_same) {
            request = request.header("if-none-match", known);
        }
        let response = input.http.send(&request)?;
        if response.status() == 304 && is_same {
            return Ok(Answer::unchanged(input.state.to_vec()));
        }
        let response = response.success()?;
        let etag = response.header("etag").filter(|etag| is_etag(etag));
        let state = etag.map(|etag| format!("{}\n{etag}", input.nodes.generation()));
        let written = read(response)?;
        Ok(topology(&written, input)?.with_state(state.unwrap_or_default().into_bytes()))
    }
}

topoloom_plugin!(Document);

/// The ETag of the last round and the generation of its nodes. A state that is cut, or of another version, is none.
fn remembered(state: &[u8]) -> (Option<&str>, Option<u64>) {
    let parts = std::str::from_utf8(state).ok().and_then(|text| text.split_once('\n'));
    let Some((generation, etag)) = parts.filter(|(_, etag)| is_etag(etag)) else { return (None, None) };
    (Some(etag), generation.parse().ok())
}

/// Whether a text is an ETag (RFC 9110): what is between its quotes has no quote, no blank and no line end.
fn is_etag(text: &str) -> bool {
    let text = text.strip_prefix("W/").unwrap_or(text);
    let between = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    between.is_some_and(|tag| tag.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"'))
}

fn read(response: topoloom_sdk::http::Response) -> Result<Written, Failure> {
    use std::io::Read;
    let mut text = Vec::new();
    let mut response = response.take(MOST);
    response.read_to_end(&mut text).map_err(|error| Failure::upstream(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| Failure::upstream(format!("the document cannot be read: {error}")))
}

fn topology(written: &Written, input: &Input<'_>) -> Result<Answer, Failure> {
    let mut topology = TopologyBuilder::new();
    let (racks, rooms) = (topology.level(Level::new(1).named("rack")), topology.level(Level::new(2).named("room")));
    let mut placed = BTreeSet::new();
    let mut unknown = Vec::new();
    for (room, in_room) in &written.rooms.0 {
        let mut members = Vec::new();
        for (rack, names) in &in_room.0 {
            let place = format!("rack {rack:?} of room {room:?}");
            if room.is_empty() || room.contains('/') || room.len() + rack.len() > 500 {
                let rule = "a room has a name without '/', and both names together have 500 bytes at most";
                return Err(Failure::upstream(format!("{place}: {rule}")));
            }
            let mut rows = Vec::new();
            for (name, row) in names.iter().zip(input.nodes.find(names)) {
                match row {
                    Some(row) if placed.insert(row) => rows.push(row),
                    Some(_) => {
                        return Err(Failure::upstream(format!("the node {name:?} of {place} has a place already")));
                    }
                    None => unknown.push(name),
                }
            }
            if !rows.is_empty() {
                members.push(topology.group(racks, format!("{room}/{rack}")).rows(rows));
            }
        }
        if !members.is_empty() {
            topology.group(rooms, room).groups(members);
        }
    }
    for name in unknown {
        topology.diagnose("unknown-node", Subject::Name(name.clone()), "no node has this name of the document");
    }
    Ok(topology.finish().into())
}

#[cfg(test)]
mod tests {
    use topoloom_sdk::Credential;
    use topoloom_sdk::testing::{Cluster, Reply};

    use super::*;

    fn cluster(text: &'static str) -> Cluster {
        Cluster::new().node("m1", []).node("m2", []).node("m3", []).endpoint(
            "document",
            Credential::None,
            move |request| {
                let is_known = request.headers.iter().any(|(name, value)| name == "if-none-match" && value == "\"7\"");
                Ok(if is_known { Reply::new(304, "") } else { Reply::new(200, text).header("etag", "\"7\"") })
            },
        )
    }

    #[test]
    fn a_document_becomes_racks_and_rooms_and_is_read_once() {
        let text = r#"{"rooms": {"r1": {"a7": ["m1", "m2"], "b1": ["gone"]}, "r2": {"a7": ["m3"]}}}"#;
        let answer = cluster(text).discover::<Document>("{}").unwrap();
        let wanted = "tier 1 rack | r1/a7 |  | m1 m2\n\
                      tier 1 rack | r2/a7 |  | m3\n\
                      tier 2 room | r1 |  | [r1/a7]\n\
                      tier 2 room | r2 |  | [r2/a7]\n\
                      ! unknown-node | gone | no node has this name of the document\n";
        assert_eq!(cluster(text).show(&answer), wanted);
        let again = cluster(text).state(answer.state.clone()).discover::<Document>("{}").unwrap();
        assert_eq!(cluster(text).show(&again), "unchanged\n");
        assert_eq!(again.state, answer.state);
        // A state that is cut, or there twice, is none.
        let twice = [&answer.state[..], &answer.state[..]].concat();
        for state in (0..answer.state.len()).map(|end| answer.state[..end].to_vec()).chain([twice]) {
            let fresh = cluster(text).state(state).discover::<Document>("{}").unwrap();
            assert_eq!(cluster(text).show(&fresh), wanted);
        }
    }

    #[test]
    fn a_place_that_is_written_twice_is_named() {
        let text = r#"{"rooms": {"r1": {"a7": ["m1"], "a7": ["m2"]}}}"#;
        let Err(Failure::Upstream(failure)) = cluster(text).discover::<Document>("{}") else { panic!("{text}") };
        let words = "the document cannot be read: \"a7\" is written twice; write it once, with all that belongs to it";
        assert!(failure.message.starts_with(words), "{}", failure.message);
    }

    #[test]
    fn a_document_with_a_mistake_is_none() {
        for text in [
            r#"{"rooms": {"r1": {"a7": ["m1"], "b1": ["m1"]}}}"#,
            r#"{"rooms": {"r1": {"a7": ["m1"], "b1": ["m2"], "a7": ["m3"]}}}"#,
            r#"{"rooms": {"r1": {"a7": ["m1"]}, "r1": {"b1": ["m2"]}}}"#,
            r#"{"rooms": {"r1": ["m1"]}}"#,
            r#"{"rooms": {"r1": {"a7": ["m1"]"#,
            r#"{"racks": {}}"#,
            "",
        ] {
            let end = cluster(text).discover::<Document>("{}");
            assert!(matches!(end, Err(Failure::Upstream(_))), "{text}: {end:?}");
        }
    }
}
