//! The identity of a switch: the chassis id of its LLDP frames and its system name, cleaned.
//!
//! A chassis id is `<type>:<value>`. One of type `local`, `ifname`, `ifalias` or without a type is a word that the switch
//! chose ("1", "Ethernet1"): it identifies the switch only together with the name.

use serde::{Deserialize, Serialize};

/// LLDP allows no longer name and no longer id.
const MAX: usize = 255;

/// Names that images give to every switch, and words that mean "no name".
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

/// A switch as one end of a cable, or a document, describes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub(crate) struct SwitchClaim {
    /// Cleaned; `None`: there is none, or one that many switches have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chassis: Option<String>,
    /// Trimmed, never empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
}

impl SwitchClaim {
    /// Cleans a description. An error says what is wrong with it. A chassis id with a [`fault`] counts as absent.
    pub(crate) fn new(chassis: Option<&str>, name: Option<&str>) -> Result<Self, String> {
        let name = name.map(|name| text("a switch name", name)).transpose()?;
        let chassis = chassis.map(|chassis| text("a chassis id", chassis)).transpose()?;
        let fault = chassis.and_then(fault);
        let chassis = chassis.filter(|_| fault.is_none()).and_then(clean);
        let seen = Self { chassis, name: name.filter(|name| !name.is_empty()).map(str::to_owned) };
        if seen.chassis.is_none() && seen.name.is_none() {
            let nothing = || "the switch has neither a name nor a usable chassis id".to_owned();
            return Err(fault.unwrap_or_else(nothing));
        }
        Ok(seen)
    }
}

/// Whether a cleaned chassis id identifies a switch without its name.
pub(crate) fn is_unique(chassis: &str) -> bool {
    let kind = chassis.split_once(':').map_or("", |(kind, _)| kind);
    !matches!(kind, "" | "local" | "ifname" | "ifalias" | "unknown" | "unhandled")
}

/// Whether many switches have a name.
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

/// The fault of a chassis id that is meant as a MAC address and is not one. Without this check an address with a missing
/// octet would be a switch of its own.
pub(crate) fn fault(chassis: &str) -> Option<String> {
    let chassis = chassis.trim();
    let value = match chassis.split_once(':') {
        Some((kind, value)) if kind.eq_ignore_ascii_case("mac") => value.trim(),
        _ if looks_like_mac(chassis) => chassis,
        _ => return None,
    };
    (!value.is_empty() && mac(value).is_none()).then(|| {
        format!(
            "chassis {chassis:?} is not a MAC address: six pairs of hexadecimal digits are expected, \
             such as \"mac:7c:8c:09:aa:bb:01\""
        )
    })
}

/// Pairs with colons between them, without a type before them. A word such as `AB:1234` does not look like one.
fn looks_like_mac(chassis: &str) -> bool {
    let is_pair = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let starts_as_one = chassis.split(':').next().is_some_and(|first| !is_kind(first));
    starts_as_one && (4..=7).contains(&chassis.split(':').count()) && chassis.split(':').all(is_pair)
}

/// The form in which chassis ids are compared. `None`: empty, or an address such as all zeros that identifies no switch.
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
    fn a_mac_address_of_five_octets_or_with_a_letter_too_far_is_none() {
        for text in [
            "mac:7c:8c:09:aa:bb",
            "mac:7c:8c:09:aa:bb:0g",
            "MAC:7c8c09aabb011",
            "mac:leaf-7",
            "7c:8c:09:aa:bb",
            "7c:8c:09:aa:bb:0g",
        ] {
            let why = SwitchClaim::new(Some(text), None).unwrap_err();
            assert!(why.contains(text) && why.contains("\"mac:7c:8c:09:aa:bb:01\""), "{why}");
            let named = SwitchClaim::new(Some(text), Some("leaf")).unwrap();
            assert_eq!((named.chassis, named.name.as_deref()), (None, Some("leaf")), "{text}");
        }
    }

    #[test]
    fn other_ids_are_no_mac_addresses_and_are_taken() {
        for text in [
            "7c8c.09aa.bb01",
            "7c-8c-09-aa-bb-01",
            "local:7c:8c",
            "ifname:Ethernet1",
            "AB:1234",
            "fe80::1",
            "7c:8c:09:aa:bb:01:02:03",
            "mac:",
            "123456789012",
        ] {
            assert_eq!(fault(text), None, "{text}");
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
        assert!(SwitchClaim::new(Some("mac:7c:8c:09:aa:bb:01"), Some("a\u{7}b")).is_err());
        assert!(SwitchClaim::new(None, Some(&"x".repeat(256))).is_err());
        assert!(SwitchClaim::new(Some(""), Some("  ")).is_err());
        assert_eq!(SwitchClaim::new(Some(""), Some(" leaf ")).unwrap().name.as_deref(), Some("leaf"));
    }
}
