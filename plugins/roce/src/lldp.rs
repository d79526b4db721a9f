//! Reads the output of `lldpcli -f json0 show neighbors` and of `-f json` as neighbours of interfaces.
//!
//! `json0` always has the same shape: arrays of objects, texts as `{"value": …}`. `json` leaves out what has one element,
//! and turns names into keys. One reader serves both: a single value counts as a list of one, and a text is a string or an
//! object with a `value`.

use crate::chassis::{self, SwitchClaim};
use topoloom_sdk::json::Value;

/// Output with more neighbours is not of lldpcli.
const MAX_NEIGHBOURS: usize = 256;

/// One neighbour of one interface.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Neighbour {
    /// The local interface.
    pub(crate) interface: String,
    /// The protocol of its frames.
    pub(crate) via: Via,
    /// The identity that it sends, or why it has none.
    pub(crate) switch: Result<SwitchClaim, String>,
    /// The fault of its chassis id, where its name is enough.
    pub(crate) fault: Option<String>,
    /// Its port; may be empty.
    pub(crate) port: String,
    /// Its kind, by its capabilities.
    pub(crate) duty: Duty,
}

/// The protocol of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    /// LLDP.
    Lldp,
    /// A version of Cisco's protocol.
    Cdp,
    /// Another one.
    Other,
}

/// The kind of a neighbour, by its capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duty {
    /// A bridge or a router.
    Switch,
    /// It sends no capabilities.
    Unknown,
    /// An end of the network: a server, a DPU.
    Station,
}

/// Which protocols count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocols {
    /// LLDP alone.
    Lldp,
    /// CDP too, where no neighbour uses LLDP.
    LldpAndCdp,
}

/// The neighbour of one interface, after all rules.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Peer {
    /// One switch, and its port where that is known.
    Switch {
        /// The switch.
        switch: SwitchClaim,
        /// Its port; may be empty.
        port: String,
    },
    /// No usable switch: the code of the diagnostic, and a sentence that says why.
    Unusable(&'static str, String),
}

impl Peer {
    /// The switch, where there is one.
    pub(crate) fn switch(&self) -> Option<&SwitchClaim> {
        match self {
            Self::Switch { switch, .. } => Some(switch),
            Self::Unusable(..) => None,
        }
    }
}

/// All neighbours of an output. An error is a mistake of the whole.
pub(crate) fn read(output: &Value) -> Result<Vec<Neighbour>, String> {
    let Value::Object(_) = output else { return Err(format!("lldpcli is {}, not its output", output.kind())) };
    let Some(lldp) = get(output, "lldp") else { return Err("lldpcli has no key \"lldp\"".to_owned()) };
    let mut neighbours = Vec::new();
    for lldp in list(lldp) {
        entries("lldpcli.lldp", lldp)?;
        for item in get(lldp, "interface").map(list).unwrap_or_default() {
            let entries = entries("lldpcli.lldp.interface", item)?;
            match get(item, "name").and_then(|name| if is_text(name) { text(name) } else { None }) {
                Some(name) => add(name, item, &mut neighbours),
                None => {
                    for (name, values) in entries {
                        for value in list(values) {
                            self::entries(&format!("lldpcli.lldp.interface.{name}"), value)?;
                            add(name, value, &mut neighbours);
                        }
                    }
                }
            }
        }
    }
    if neighbours.len() > MAX_NEIGHBOURS {
        return Err(format!("lldpcli lists {} neighbours, at most {MAX_NEIGHBOURS} are allowed", neighbours.len()));
    }
    Ok(neighbours)
}

/// The members of an object. Anything else is not an output of lldpcli, so it does not mean "no neighbour".
fn entries<'a>(path: &str, value: &'a Value) -> Result<&'a [(String, Value)], String> {
    match value {
        Value::Object(entries) => Ok(entries),
        other => Err(format!("{path} is {}, an object or a list of objects is expected", other.kind())),
    }
}

/// Decides on the neighbour of each interface, in the order of interfaces.
pub(crate) fn decide(neighbours: Vec<Neighbour>, protocols: Protocols) -> Vec<(String, Peer)> {
    let mut interfaces: Vec<(String, Vec<Neighbour>)> = Vec::new();
    for neighbour in neighbours {
        match interfaces.iter_mut().find(|(name, _)| *name == neighbour.interface) {
            Some((_, list)) => list.push(neighbour),
            None => interfaces.push((neighbour.interface.clone(), vec![neighbour])),
        }
    }
    interfaces.into_iter().map(|(name, list)| (name, one(list, protocols))).collect()
}

/// The one switch among the neighbours of an interface.
fn one(neighbours: Vec<Neighbour>, protocols: Protocols) -> Peer {
    let count = neighbours.len();
    let by = |via: Via| neighbours.iter().filter(move |neighbour| neighbour.via == via).collect::<Vec<_>>();
    let mut left = by(Via::Lldp);
    if left.is_empty() && protocols == Protocols::LldpAndCdp {
        left = by(Via::Cdp);
    }
    if left.is_empty() {
        return Peer::Unusable("not-lldp", format!("{count} neighbours, none by a protocol that counts"));
    }
    if left.iter().any(|neighbour| neighbour.duty == Duty::Switch) {
        left.retain(|neighbour| neighbour.duty == Duty::Switch);
    }
    left.retain(|neighbour| neighbour.duty != Duty::Station);
    let usable = |neighbour: &&Neighbour| Some((neighbour.switch.as_ref().ok()?.clone(), neighbour.port.clone()));
    let mut switches: Vec<(SwitchClaim, String)> = left.iter().filter_map(usable).collect();
    switches.sort();
    switches.dedup_by(|a, b| a.0 == b.0);
    match (switches.as_slice(), left.first()) {
        ([(switch, port)], _) => Peer::Switch { switch: switch.clone(), port: port.clone() },
        ([(first, _), (second, _), ..], _) => Peer::Unusable(
            "several-neighbours",
            format!(
                "has {} switches as neighbours, among them {} and {}: a hub, or another device answers too",
                switches.len(),
                show(first),
                show(second)
            ),
        ),
        ([], Some(neighbour)) => {
            Peer::Unusable("bad-link", neighbour.switch.as_ref().err().cloned().unwrap_or_default())
        }
        ([], None) => Peer::Unusable("not-a-switch", "the neighbour is neither a bridge nor a router".to_owned()),
    }
}

/// A switch as messages name it.
pub(crate) fn show(seen: &SwitchClaim) -> String {
    match (&seen.name, &seen.chassis) {
        (Some(name), Some(chassis)) => format!("{name:?} ({chassis})"),
        (Some(one), None) | (None, Some(one)) => format!("{one:?}"),
        (None, None) => "an unnamed switch".to_owned(),
    }
}

/// The neighbours in one entry of an interface: one, or several under `chassis`.
fn add(interface: &str, entry: &Value, neighbours: &mut Vec<Neighbour>) {
    let via = match get(entry, "via").and_then(text).unwrap_or("LLDP") {
        via if via.eq_ignore_ascii_case("LLDP") => Via::Lldp,
        via if via.to_ascii_uppercase().starts_with("CDP") => Via::Cdp,
        _ => Via::Other,
    };
    let Some(chassis) = get(entry, "chassis") else { return };
    let port = get(entry, "port").and_then(port).unwrap_or_default();
    let mut push = |name: Option<&str>, value: &Value| {
        if neighbours.len() <= MAX_NEIGHBOURS {
            let ((switch, fault), duty) = (switch(name, value), duty(value));
            neighbours.push(Neighbour {
                interface: interface.to_owned(),
                via,
                switch,
                fault,
                port: port.clone(),
                duty,
            });
        }
    };
    for chassis in list(chassis) {
        let Value::Object(entries) = chassis else {
            push(None, chassis);
            continue;
        };
        if is_chassis(chassis) {
            push(None, chassis);
            continue;
        }
        for (name, values) in entries {
            list(values).iter().for_each(|value| push(Some(name), value));
        }
    }
}

/// Whether an object is a chassis itself, and not a chassis under its name. A system may have the name "id": then `id` is
/// a chassis.
fn is_chassis(value: &Value) -> bool {
    let has_id = get(value, "id").is_some_and(|id| list(id).iter().any(|id| get(id, "value").is_some()));
    let Value::Object(entries) = value else { return false };
    has_id || entries.iter().any(|(_, value)| is_text(value))
}

/// The identity of a chassis, and the fault of its id where its name is enough.
fn switch(name: Option<&str>, value: &Value) -> (Result<SwitchClaim, String>, Option<String>) {
    if !matches!(value, Value::Object(_)) {
        return (Err(format!("chassis is {}, an object is expected", value.kind())), None);
    }
    let name = name.or_else(|| get(value, "name").and_then(text));
    let id = get(value, "id").and_then(|id| list(id).first()).and_then(|id| {
        let kind = get(id, "type").and_then(text).unwrap_or_default();
        Some(format!("{kind}:{}", get(id, "value").and_then(text)?))
    });
    let switch = SwitchClaim::new(id.as_deref(), name);
    let fault = id.as_deref().and_then(chassis::fault).filter(|_| switch.is_ok());
    (switch, fault)
}

/// The port of a neighbour: its id, else its description. A text that is too long or not printable is no port.
fn port(ports: &Value) -> Option<String> {
    let port = list(ports).first()?;
    let id = get(port, "id").and_then(|id| get(list(id).first()?, "value")).and_then(text);
    let port = id.or_else(|| get(port, "descr").and_then(text))?;
    chassis::text("a port", port).ok().map(str::to_owned)
}

fn duty(chassis: &Value) -> Duty {
    let enabled = |kind: &str| {
        let capabilities = get(chassis, "capability").map(list).unwrap_or_default();
        capabilities.iter().any(|capability| {
            let is_kind = get(capability, "type").and_then(text).is_some_and(|text| text.eq_ignore_ascii_case(kind));
            is_kind && get(capability, "enabled").is_some_and(is_on)
        })
    };
    if enabled("Bridge") || enabled("Router") {
        Duty::Switch
    } else if enabled("Station") {
        Duty::Station
    } else {
        Duty::Unknown
    }
}

fn is_on(value: &Value) -> bool {
    match value {
        Value::Bool(on) => *on,
        other => text(other).is_some_and(|text| matches!(text, "on" | "yes" | "true")),
    }
}

/// The first value of a key of an object.
fn get<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    let Value::Object(entries) = value else { return None };
    entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
}

/// A list, or a single value as a list of one.
fn list(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        Value::Null => &[],
        one => std::slice::from_ref(one),
    }
}

/// A text: a string, `{"value": string}`, or the first of a list of them.
fn text(value: &Value) -> Option<&str> {
    match list(value).first()? {
        Value::String(text) | Value::Number(text) => Some(text),
        object @ Value::Object(_) => match get(object, "value")? {
            Value::String(text) | Value::Number(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a value is a text as either form writes it: a string, or objects with nothing but a `value`.
fn is_text(value: &Value) -> bool {
    let bare = |value: &Value| match value {
        Value::String(_) | Value::Number(_) => true,
        Value::Object(entries) => matches!(entries.as_slice(), [(key, Value::String(_))] if key == "value"),
        _ => false,
    };
    !list(value).is_empty() && list(value).iter().all(bare)
}

#[cfg(test)]
mod tests;
