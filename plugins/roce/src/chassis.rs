//! What a switch is known by: the chassis id of its LLDP frames and its system name, cleaned.
//!
//! A chassis id is `<type>:<value>`. One of type `local`, `ifname`, `ifalias` or without a type is a word that the switch
//! chose for itself ("1", "Ethernet1"): it says something only together with the name.

use serde::{Deserialize, Serialize};

/// LLDP allows no longer name and no longer id.
const MAX: usize = 255;

/// Names that images give to every switch, and words that stand for "no name".
const DEFAULTS: [&str; 16] = [
    "sonic",
    "cumulus",
    "switch",
    "localhost",
    "localhost.localdomain",
    "ubuntu",
    "debian",
    "linux",
    "arista",
    "eos",
    "unknown",
    "none",
    "n/a",
    "null",
    "-",
    "(none)",
];

/// What one end of a cable, or a document, says about a switch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// Cleaned; `None`: it said none, or one that is the same everywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chassis: Option<String>,
    /// Trimmed, never empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
}

impl Seen {
    /// Cleans what was said. An error says what is wrong with it.
    pub(crate) fn new(chassis: Option<&str>, name: Option<&str>) -> Result<Self, String> {
        let name = name.map(|name| text("a switch name", name)).transpose()?;
        let chassis = chassis.map(|chassis| text("a chassis id", chassis)).transpose()?;
        let seen =
            Self { chassis: chassis.and_then(clean), name: name.filter(|name| !name.is_empty()).map(str::to_owned) };
        if seen.chassis.is_none() && seen.name.is_none() {
            return Err("the switch has neither a name nor a usable chassis id".to_owned());
        }
        Ok(seen)
    }
}

/// Whether a cleaned chassis id stands for one switch wherever it is seen.
pub(crate) fn is_unique(chassis: &str) -> bool {
    let kind = chassis.split_once(':').map_or("", |(kind, _)| kind);
    !matches!(kind, "" | "local" | "ifname" | "ifalias" | "unknown" | "unhandled")
}

/// Whether a name is one that many switches have.
pub(crate) fn is_default(name: &str) -> bool {
    DEFAULTS.iter().any(|default| default.eq_ignore_ascii_case(name))
}

/// A short text from outside, trimmed.
pub(crate) fn text<'a>(what: &str, text: &'a str) -> Result<&'a str, String> {
    let text = text.trim();
    if text.len() > MAX {
        return Err(format!("{what} has {} bytes, at most {MAX} are allowed", text.len()));
    }
    if text.chars().any(char::is_control) {
        return Err(format!("{what} holds a control character: {text:?}"));
    }
    Ok(text)
}

/// The form in which chassis ids are compared. `None`: empty, or an address that stands for none.
fn clean(chassis: &str) -> Option<String> {
    // Without a type only a text with separators is an address: twelve digits alone may be a serial number.
    let bare = |value: &str| mac(value).filter(|_| value.contains([':', '-', '.'])).map(|mac| format!("mac:{mac}"));
    let clean = match chassis.split_once(':') {
        Some((kind, value)) if kind.eq_ignore_ascii_case("mac") => match mac(value) {
            Some(mac) => format!("mac:{mac}"),
            None => format!("mac:{}", value.trim().to_ascii_lowercase()),
        },
        Some((kind, value)) if is_kind(kind) && bare(chassis).is_none() => {
            format!("{}:{}", kind.to_ascii_lowercase(), value.trim())
        }
        _ => bare(chassis).unwrap_or_else(|| chassis.to_owned()),
    };
    let value = clean.split_once(':').map_or(clean.as_str(), |(_, value)| value);
    let is_none = matches!(value, "" | "00:00:00:00:00:00" | "ff:ff:ff:ff:ff:ff" | "0.0.0.0" | "::" | "127.0.0.1");
    (!is_none).then_some(clean)
}

/// A word before the first colon: two hexadecimal digits are no word, they begin a MAC address.
fn is_kind(kind: &str) -> bool {
    kind.len() > 1
        && kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !(kind.len() == 2 && kind.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// A MAC address in any of its spellings, as `7c:8c:09:aa:bb:01`.
fn mac(text: &str) -> Option<String> {
    let text = text.trim();
    let digits: String = text.chars().filter(|c| !matches!(c, ':' | '-' | '.')).collect();
    if digits.len() != 12 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let digits = digits.to_ascii_lowercase();
    let pairs: Vec<&str> = (0..12).step_by(2).filter_map(|at| digits.get(at..at + 2)).collect();
    Some(pairs.join(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_address_has_one_form() {
        for text in [
            "mac:7C:8C:09:AA:BB:01",
            "MAC: 7c-8c-09-aa-bb-01 ",
            "7c:8c:09:aa:bb:01",
            "7c8c.09aa.bb01",
            "mac:7c8c09aabb01",
        ] {
            assert_eq!(clean(text).as_deref(), Some("mac:7c:8c:09:aa:bb:01"), "{text}");
        }
    }

    #[test]
    fn an_address_that_stands_for_none_is_none() {
        for text in ["", "mac:", "mac:00:00:00:00:00:00", "00-00-00-00-00-00", "ip:0.0.0.0", "local:"] {
            assert_eq!(clean(text), None, "{text}");
        }
    }

    #[test]
    fn chassis_types_local_ifname_and_empty_are_unique_only_with_the_name() {
        for (text, unique) in [
            ("mac:7c:8c:09:aa:bb:01", true),
            ("ip:10.0.0.1", true),
            ("local:1", false),
            ("Local:1", false),
            ("ifname:Ethernet1", false),
            ("ifalias:up", false),
            ("1", false),
            ("serial-17", false),
            ("123456789012", false),
        ] {
            assert_eq!(is_unique(&clean(text).unwrap()), unique, "{text}");
        }
    }

    #[test]
    fn texts_are_bounded_and_printable() {
        assert!(Seen::new(Some("mac:7c:8c:09:aa:bb:01"), Some("a\u{7}b")).is_err());
        assert!(Seen::new(None, Some(&"x".repeat(256))).is_err());
        assert!(Seen::new(Some(""), Some("  ")).is_err());
        assert_eq!(Seen::new(Some(""), Some(" leaf ")).unwrap().name.as_deref(), Some("leaf"));
    }
}
