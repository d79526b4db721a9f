//! Identities of devices, and the names that are made of them.

use super::random::mix;
use crate::value::BadValue;
use std::fmt;
use std::str::FromStr;

/// The 64-bit identity of a switch or of a port of a host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(u64);

impl Guid {
    /// The number itself.
    pub fn value(self) -> u64 {
        self.0
    }

    /// The low 48 bits as a chassis identity of LLDP, such as `mac:7c:0a:00:00:00:01`. Unique wherever the GUID is.
    pub fn chassis(self) -> String {
        let [_, _, a, b, c, d, e, f] = self.0.to_be_bytes();
        format!("mac:{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Guid {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let digits = text.len() == 16 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        digits
            .then(|| u64::from_str_radix(text, 16).ok())
            .flatten()
            .map(Self)
            .ok_or_else(|| BadValue::new("guid", text, "16 hexadecimal digits"))
    }
}

/// The name of a port as UFM writes it: the GUID of its device and its number, `a1b2c30000aa0172_1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortName {
    /// The GUID of the switch, or of the port of the host.
    pub guid: Guid,
    /// The number on that device, from 1.
    pub number: u32,
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.guid, self.number)
    }
}

impl FromStr for PortName {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bad = || BadValue::new("port", text, "a port name such as a1b2c30000aa0172_1");
        let (guid, number) = text.split_once('_').ok_or_else(bad)?;
        Ok(Self { guid: guid.parse().map_err(|_| bad())?, number: number.parse().map_err(|_| bad())? })
    }
}

/// What a GUID is minted for; the number is the first octet of the chassis address, so it must be even (no multicast).
#[derive(Debug, Clone, Copy)]
pub(super) enum GuidKind {
    Switch = 0x7c,
    HostPort = 0x1c,
}

/// Makes GUIDs that never repeat: a counter, scrambled so that order of creation and order of GUIDs differ.
#[derive(Debug, Clone)]
pub(super) struct Mint {
    prefix: u64,
    mask: u64,
    next: u64,
}

/// Bits of the counter; the rest is prefix and kind.
const COUNTER: u64 = (1 << 40) - 1;

impl Mint {
    pub(super) fn new(seed: u64) -> Self {
        let mixed = mix(seed.wrapping_add(1));
        // Never zero, so that no GUID is all zero; two fabrics with different seeds rarely share it.
        Self { prefix: (mixed >> 48) | 1, mask: mixed & COUNTER, next: 1 }
    }

    pub(super) fn make(&mut self, kind: GuidKind) -> Guid {
        // An odd factor permutes the numbers below 2^40, so different counters stay different.
        let scrambled = (self.next.wrapping_mul(0x5_DEEC_E66D) & COUNTER) ^ self.mask;
        self.next += 1;
        Guid((self.prefix << 48) | ((kind as u64) << 40) | scrambled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn minted_guids_and_their_chassis_never_repeat() {
        let mut mint = Mint::new(3);
        let kinds = [GuidKind::Switch, GuidKind::HostPort];
        let guids: Vec<Guid> = (0..10_000).flat_map(|_| kinds).map(|kind| mint.make(kind)).collect();
        assert_eq!(guids.iter().collect::<BTreeSet<_>>().len(), guids.len());
        assert_eq!(guids.iter().map(|guid| guid.chassis()).collect::<BTreeSet<_>>().len(), guids.len());
        assert!(!guids.is_sorted(), "the order of GUIDs must not give the order of creation away");
    }

    #[test]
    fn a_port_name_is_read_as_it_is_written() {
        let name: PortName = "a1b2c30000aa0172_17".parse().unwrap();
        assert_eq!(name.number, 17);
        assert_eq!(name.to_string(), "a1b2c30000aa0172_17");
        for text in ["", "a1b2c30000aa0172", "a1b2c30000aa017_1", "+1b2c30000aa0172_1", "a1b2c30000aa0172_x"] {
            assert!(text.parse::<PortName>().is_err(), "{text}");
        }
    }
}
