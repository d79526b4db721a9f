//! One port object: the fields that matter.
//!
//! Every field is optional: old releases send a handful of them. A needed field of the wrong type makes the record
//! unusable; mistakes in other fields are ignored.

use std::borrow::Cow;
use topoloom_fabric::{Guid, is_aggregation_node};
use topoloom_sdk::json::{Members, Raw};

/// Values that mean "none".
const NOTHING: [&str; 2] = ["N/A", "None"];

/// Longer texts are not names of a fabric: a NodeDescription has 64 bytes.
const MAX_TEXT: usize = 1024;

/// A text field: absent, `null`, empty and `N/A` are all the same.
pub(crate) type Text<'a> = Option<Cow<'a, str>>;

/// A port.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Port<'a> {
    pub(crate) name: Text<'a>,
    pub(crate) guid: Text<'a>,
    pub(crate) system_id: Text<'a>,
    pub(crate) description: Text<'a>,
    pub(crate) system_name: Text<'a>,
    pub(crate) node_description: Text<'a>,
    pub(crate) dname: Text<'a>,
    pub(crate) physical_state: Text<'a>,
    pub(crate) logical_state: Text<'a>,
    pub(crate) peer: Text<'a>,
    pub(crate) peer_guid: Text<'a>,
    pub(crate) peer_node_guid: Text<'a>,
    pub(crate) peer_node_name: Text<'a>,
    pub(crate) peer_node_description: Text<'a>,
    pub(crate) peer_port_dname: Text<'a>,
}

/// Why a record cannot be used: a field, or the record as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// It is not a JSON object.
    NoObject,
    /// This field has a value of the wrong type, or one that is too long.
    Field(&'static str),
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoObject => f.write_str("it is not a JSON object"),
            Self::Field(key) => write!(f, "its {key} is not a usable text"),
        }
    }
}

/// A text out of a raw value.
pub(crate) fn text<'a>(key: &'static str, value: Raw<'a>) -> Result<Text<'a>, Unusable> {
    if value.is_null() {
        return Ok(None);
    }
    let text = value.text().filter(|text| text.len() <= MAX_TEXT).ok_or(Unusable::Field(key))?;
    Ok((!is_nothing(&text)).then_some(text))
}

/// Whether a text means "there is none".
pub(crate) fn is_nothing(text: &str) -> bool {
    let text = text.trim();
    text.is_empty() || NOTHING.iter().any(|nothing| text.eq_ignore_ascii_case(nothing))
}

impl<'a> Port<'a> {
    /// Reads an element of `resources/ports`.
    pub(crate) fn read(members: &mut Members<'a>) -> Result<Self, Unusable> {
        let mut port = Self::default();
        for member in members {
            let (key, value) = member.map_err(|_| Unusable::NoObject)?;
            let (field, key) = match key {
                // Labels for people and a hint: the record is usable without them.
                b"dname" | b"peer_port_dname" | b"systemID" => {
                    let label = text("", value).unwrap_or_default();
                    match key {
                        b"dname" => port.dname = label,
                        b"systemID" => port.system_id = label,
                        _ => port.peer_port_dname = label,
                    }
                    continue;
                }
                b"name" => (&mut port.name, "name"),
                b"guid" => (&mut port.guid, "guid"),
                b"description" => (&mut port.description, "description"),
                b"system_name" => (&mut port.system_name, "system_name"),
                b"node_description" => (&mut port.node_description, "node_description"),
                b"physical_state" => (&mut port.physical_state, "physical_state"),
                b"logical_state" => (&mut port.logical_state, "logical_state"),
                b"peer" => (&mut port.peer, "peer"),
                b"peer_guid" => (&mut port.peer_guid, "peer_guid"),
                b"peer_node_guid" => (&mut port.peer_node_guid, "peer_node_guid"),
                b"peer_node_name" => (&mut port.peer_node_name, "peer_node_name"),
                b"peer_node_description" => (&mut port.peer_node_description, "peer_node_description"),
                _ => continue,
            };
            *field = text(key, value)?;
        }
        Ok(port)
    }

    /// The GUID of the port itself.
    pub(crate) fn own_guid(&self) -> Option<Guid> {
        let own = self.guid.as_deref().and_then(Guid::parse);
        own.or_else(|| self.name.as_deref().and_then(Guid::of_port))
    }

    /// The GUID of what the port is plugged into.
    pub(crate) fn peer_switch_guid(&self) -> Option<Guid> {
        let fields = [&self.peer_node_guid, &self.peer_guid];
        let named = fields.into_iter().find_map(|field| Guid::parse(field.as_deref()?));
        named.or_else(|| self.peer.as_deref().and_then(Guid::of_port))
    }

    /// The label of the port that this one is plugged into.
    pub(crate) fn peer_label(&self) -> &str {
        let number = || self.peer.as_deref().and_then(|peer| peer.rsplit_once('_')).map(|(_, number)| number);
        self.peer_port_dname.as_deref().or_else(number).unwrap_or_default()
    }

    /// Whether the port or its peer is an aggregation node.
    pub(crate) fn aggregates(&self) -> [bool; 2] {
        // Most names are one word.
        let has_words = |text: &&Cow<'_, str>| text.contains(' ');
        let is = |texts: [&Text<'_>; 2]| texts.into_iter().flatten().filter(has_words).any(|t| is_aggregation_node(t));
        [is([&self.system_name, &self.node_description]), is([&self.peer_node_name, &self.peer_node_description])]
    }

    /// Whether the link is up; a port without a state counts as up.
    pub(crate) fn is_up(&self) -> bool {
        let is = |state: &Text<'_>, up: &str| state.as_ref().is_none_or(|state| state.trim().eq_ignore_ascii_case(up));
        is(&self.logical_state, "Active") && is(&self.physical_state, "Link Up")
    }

    /// The owner of the port.
    pub(crate) fn owner(&self) -> Owner {
        let first = self.description.as_deref().and_then(|text| text.split_whitespace().next()).unwrap_or_default();
        let is = |word: &str| first.eq_ignore_ascii_case(word);
        match first {
            _ if is("Computer") => Owner::Host,
            _ if is("Switch") => Owner::Switch,
            _ if is("Gateway") || is("Router") => Owner::Gateway,
            _ => Owner::Unknown,
        }
    }
}

/// What kind of system a port belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Host,
    Switch,
    /// A gateway or a router.
    Gateway,
    /// The description does not say; `resources/systems` may know.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(object: &str) -> Result<Port<'_>, Unusable> {
        Port::read(&mut Members::of(object.as_bytes()).map_err(|_| Unusable::NoObject)?)
    }

    #[test]
    fn odd_values_in_unused_fields_cost_nothing() {
        let port = r#"{"name": "a_1", "tier": "4", "mtu": "Unknown", "lid": NaN, "ber": -Infinity, "x": {"name": 3},
            "system_name": "old", "system_name": "h1", "peer": null, "dname": " n/a ", "description": "Computer IB Port"}"#;
        let port = read(port).unwrap();
        assert_eq!((port.name.as_deref(), port.system_name.as_deref()), (Some("a_1"), Some("h1")));
        assert_eq!((port.peer.as_deref(), port.dname.as_deref(), port.owner()), (None, None, Owner::Host));
    }

    #[test]
    fn a_wrong_type_in_a_needed_field_makes_the_record_unusable() {
        for key in ["system_name", "peer_node_guid", "description"] {
            for value in ["17", "[]", "true", "NaN", "{}"] {
                let object = format!(r#"{{"{key}": {value}}}"#);
                let wrong = read(&object);
                assert!(matches!(wrong, Err(Unusable::Field(named)) if named == key), "{object}: {wrong:?}");
            }
        }
        let long = format!(r#"{{"peer": "{}"}}"#, "x".repeat(MAX_TEXT + 1));
        assert_eq!(read(&long), Err(Unusable::Field("peer")));
        for element in ["17", "null", "[]", r#""x""#, r#"{"name" 1}"#] {
            assert_eq!(read(element), Err(Unusable::NoObject), "{element}");
        }
    }

    #[test]
    fn a_link_is_up_unless_a_state_says_otherwise() {
        let up = |states: &str| read(&format!("{{{states}}}")).unwrap().is_up();
        assert!(up(""));
        assert!(up(r#""logical_state": "ACTIVE", "physical_state": "link up""#));
        assert!(up(r#""logical_state": "N/A", "physical_state": "Link Up""#));
        assert!(!up(r#""logical_state": "Initialize", "physical_state": "Link Up""#));
        assert!(!up(r#""logical_state": "Active", "physical_state": "Polling""#));
    }

    #[test]
    fn the_first_word_says_who_owns_a_port() {
        let owner = |text: &str| {
            let object = format!(r#"{{"description": "{text}"}}"#);
            read(&object).unwrap().owner()
        };
        assert_eq!([owner("Computer Ethernet Port"), owner("computer IB Port")], [Owner::Host; 2]);
        assert_eq!([owner("Switch IB Port"), owner("Router IB Port")], [Owner::Switch, Owner::Gateway]);
        assert_eq!([owner("A Computer"), owner("")], [Owner::Unknown; 2]);
    }
}
