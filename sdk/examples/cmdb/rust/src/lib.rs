//! Racks and rooms out of a CMDB that answers in pages.
//!
//! `GET /devices?limit=500` answers `{"items": [{"name": "m1", "rack": "a7", "room": "r1"}, …], "next": "CURSOR"}`, and `GET
//! /devices?limit=500&cursor=CURSOR` the page after it. The last page has no `next`.
//!
//! All pages are read before there is an answer: a round that ends between two pages fails, and the topology stays. A rack is
//! the same as long as its room and its name are. Devices that are no nodes of this cluster are of no interest; nodes that are
//! no devices are reported.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use topoloom_sdk::json::Members;
use topoloom_sdk::prelude::*;

/// Racks and rooms as a CMDB lists them.
struct Cmdb;

const SCHEMA: &str = r#"{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "pageSize": {"description": "Devices per request.", "type": "integer", "minimum": 1, "maximum": 1000, "default": 500}
  }
}"#;

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    #[serde(default = "usual_page")]
    page_size: u32,
}

fn usual_page() -> u32 {
    500
}

/// The longest name of a rack or a room: two of them have to fit into an identity of 512 bytes, each byte as `%2F`.
const NAME: usize = 80;

impl Discoverer for Cmdb {
    type Config = Config;

    fn describe() -> Description {
        Description::new("cmdb", "0.1.0").vendor("Acme").summary("Racks and rooms of a CMDB").config_schema(SCHEMA)
    }

    fn configure(config: &Config) -> Result<Requirements, Vec<Problem>> {
        if !(1..=1000).contains(&config.page_size) {
            let message = format!("expected 1 to 1000 devices per page, got {}", config.page_size);
            return Err(vec![Problem::new("pageSize", message)]);
        }
        let endpoint = Endpoint::new("cmdb", "Reads the rack and the room of every device")
            .paths(["/devices"])
            .credentials([Credential::Bearer, Credential::Basic]);
        Ok(Requirements::new().endpoint(endpoint).trigger(Trigger::on_timer()).trigger(Trigger::on_names()))
    }

    fn discover(config: &Config, input: &Input<'_>) -> Result<Answer, Failure> {
        let listed = read(config, input)?;
        // A list with many records that cannot be read is of another form, and no list with few racks.
        if listed.odd * 20 > listed.all {
            return Err(Failure::upstream(format!("{} of {} devices cannot be read", listed.odd, listed.all)));
        }
        Ok(topology(&listed, input))
    }
}

topoloom_plugin!(Cmdb);

/// All pages together.
#[derive(Default)]
struct Listed {
    /// The room and the rack of each device.
    devices: BTreeMap<String, (String, String)>,
    /// Devices that are listed twice, with different places. The first place counts.
    moved: BTreeSet<String>,
    all: usize,
    odd: usize,
}

impl Listed {
    fn add(&mut self, device: Option<(String, String, String)>) {
        self.all += 1;
        let Some((name, room, rack)) = device else {
            self.odd += 1;
            return;
        };
        match self.devices.get(&name) {
            None => _ = self.devices.insert(name, (room, rack)),
            Some(place) if *place == (room, rack) => {}
            Some(_) => _ = self.moved.insert(name),
        }
    }
}

/// Reads page after page.
fn read(config: &Config, input: &Input<'_>) -> Result<Listed, Failure> {
    let mut listed = Listed::default();
    let mut cursors = BTreeSet::new();
    let mut path = format!("/devices?limit={}", config.page_size);
    loop {
        let request = Request::get("cmdb", &path).header("accept", "application/json");
        let mut items = Elements::new(input.http.send(&request)?.success()?, "items");
        while let Some(device) = items.next_members(device)? {
            listed.add(device);
        }
        if !items.found() {
            return Err(Failure::upstream("there is no list of devices in the answer"));
        }
        let Some(cursor) = next(items.envelope())? else { return Ok(listed) };
        path = format!("/devices?limit={}&cursor={}", config.page_size, encoded(&cursor));
        // Otherwise the limit of requests would end the round, after a thousand of them.
        if !cursors.insert(cursor) {
            return Err(Failure::upstream("the same page follows twice"));
        }
    }
}

/// Name, room and rack of one device; `None` where one of them is missing or too long.
fn device(members: &mut Members<'_>) -> Option<(String, String, String)> {
    let (mut name, mut room, mut rack) = (None, None, None);
    for member in members {
        let (key, value) = member.ok()?;
        match key {
            b"name" => name = value.text().map(Cow::into_owned),
            b"room" => room = value.text().map(Cow::into_owned),
            b"rack" => rack = value.text().map(Cow::into_owned),
            _ => {}
        }
    }
    let fits = |place: &String| !place.is_empty() && place.len() <= NAME;
    Some((name.filter(|name| !name.is_empty())?, room.filter(fits)?, rack.filter(fits)?))
}

/// The cursor of the page that follows; `None` after the last one.
fn next(envelope: &[u8]) -> Result<Option<String>, Failure> {
    #[derive(serde::Deserialize)]
    struct Envelope {
        #[serde(default)]
        next: Option<String>,
    }
    if envelope.is_empty() {
        return Ok(None);
    }
    let read = serde_json::from_slice::<Envelope>(envelope);
    let read = read.map_err(|error| Failure::upstream(format!("the page has no usable `next`: {error}")))?;
    Ok(read.next.filter(|cursor| !cursor.is_empty()))
}

/// A text as part of a query, or of an identity: without the characters that separate its parts.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            // Writing into a text cannot fail.
            byte => _ = write!(encoded, "%{byte:02X}"),
        }
    }
    encoded
}

fn topology(listed: &Listed, input: &Input<'_>) -> Answer {
    let mut topology = TopologyBuilder::new();
    let (rack_level, room_level) =
        (topology.level(Level::new(1).named("rack")), topology.level(Level::new(2).named("room")));
    let mut rooms: BTreeMap<&str, BTreeMap<&str, Vec<Row>>> = BTreeMap::new();
    let (mut placed, mut twice) = (BTreeSet::new(), Vec::new());
    for (row, (name, (room, rack))) in input.nodes.find(listed.devices.keys()).into_iter().zip(&listed.devices) {
        if let Some(row) = row {
            placed.insert(row);
            if listed.moved.contains(name) {
                twice.push(row);
            }
            rooms.entry(room).or_default().entry(rack).or_default().push(row);
        }
    }
    for (room, racks) in rooms {
        let mut members = Vec::new();
        for (rack, rows) in racks {
            let said = format!("rack {rack} in room {room}");
            let id = format!("{}/{}", encoded(room), encoded(rack));
            members.push(topology.group(rack_level, id).description(&said).rows(rows));
        }
        topology.group(room_level, encoded(room)).groups(members);
    }
    let absent: Vec<Row> = (0..input.nodes.rows()).filter(|row| !placed.contains(row)).collect();
    if !absent.is_empty() {
        topology.diagnose("not-in-cmdb", Subject::Rows(absent), "no device has the name of this node");
    }
    if !twice.is_empty() {
        let said = "it is listed twice, with different places; the first one counts";
        topology.diagnose("listed-twice", Subject::Rows(twice), said);
    }
    if listed.odd > 0 {
        let said = format!("{} of {} devices have no name, rack and room", listed.odd, listed.all);
        topology.diagnose("unusable-device", Subject::Source, said);
    }
    topology.finish().into()
}

#[cfg(test)]
mod tests {
    use topoloom_sdk::testing::{Cluster, Reply};

    use super::*;

    const FIRST: &str = r#"{"items": [{"name": "m1", "rack": "a7", "room": "r1"}, {"name": "m2", "rack": "b1", "room": "r1"}], "next": "p 2"}"#;
    const SECOND: &str = r#"{"items": [{"name": "m3", "rack": "a7", "room": "r1"}, {"name": "x", "rack": "a7", "room": "r1"}], "next": null}"#;

    fn round(answer: impl Fn(&str) -> Reply + 'static) -> Result<String, Failure> {
        let nodes = Cluster::new().node("m1", []).node("m2", []).node("m3", []).node("m4", []);
        let cluster = nodes.endpoint("cmdb", Credential::Bearer, move |request| Ok(answer(&request.path_and_query)));
        cluster.discover::<Cmdb>(r#"{"pageSize": 2}"#).map(|answer| cluster.show(&answer))
    }

    #[test]
    fn pages_become_racks_and_rooms() {
        let shown = round(|path| match path {
            "/devices?limit=2" => Reply::new(200, FIRST),
            "/devices?limit=2&cursor=p%202" => Reply::new(200, SECOND),
            other => panic!("{other}"),
        });
        let wanted = "tier 1 rack | r1/a7 |  | m1 m3 | said rack a7 in room r1\n\
                      tier 1 rack | r1/b1 |  | m2 | said rack b1 in room r1\n\
                      tier 2 room | r1 |  | [r1/a7 r1/b1]\n\
                      ! not-in-cmdb | m4 | no device has the name of this node\n";
        assert_eq!(shown.unwrap(), wanted);
    }

    #[test]
    fn half_of_the_pages_is_no_answer() {
        for second in [Reply::new(500, ""), Reply::new(200, "<html>log in</html>"), Reply::new(200, &SECOND[..90])] {
            let end = round(move |path| if path.contains("cursor") { second.clone() } else { Reply::new(200, FIRST) });
            assert!(matches!(end, Err(Failure::Upstream(_))), "{end:?}");
        }
        let end = round(|_| Reply::new(200, FIRST));
        assert_eq!(end, Err(Failure::upstream("the same page follows twice")));
    }

    #[test]
    fn devices_that_are_no_nodes_are_of_no_interest_however_many_are_listed_twice() {
        let device = |name: &str, rack: &str| format!(r#"{{"name": "{name}", "rack": "{rack}", "room": "r1"}}"#);
        let names: Vec<String> = (0..10_001).map(|at| format!("x{at}")).chain(["m1".to_owned()]).collect();
        let mut items = Vec::new();
        for rack in ["a7", "b1"] {
            items.extend(names.iter().map(|name| device(name, rack)));
        }
        let page = format!(r#"{{"items": [{}]}}"#, items.join(", "));
        let shown = round(move |_| Reply::new(200, page.as_str())).unwrap();
        let twice: Vec<&str> = shown.lines().filter(|line| line.contains("listed-twice")).collect();
        assert_eq!(twice, ["! listed-twice | m1 | it is listed twice, with different places; the first one counts"]);
    }
}
