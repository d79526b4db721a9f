//! GUIDs of InfiniBand: 64 bits, written in several ways.

use std::fmt;

/// A GUID. Shown as 16 lower-case hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub u64);

impl Guid {
    /// Reads exactly 16 hex digits, with or without `0x`, in any case, not all zero.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
        if digits.len() != 16 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        u64::from_str_radix(digits, 16).ok().filter(|&guid| guid != 0).map(Self)
    }

    /// The GUID part of a port's name, `<guid>_<port>`.
    #[must_use]
    pub fn of_port(name: &str) -> Option<Self> {
        Self::parse(name.split_once('_').map_or(name, |(guid, _)| guid))
    }

    /// All GUIDs of a list that commas, semicolons or white space separate. What is no GUID is left out.
    pub fn list(text: &str) -> impl Iterator<Item = Self> + '_ {
        text.split(|c: char| c == ',' || c == ';' || c.is_whitespace()).filter_map(Self::parse)
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guid_is_read_in_every_form_and_nothing_else_is() {
        let guid = Guid(0x5c6d_7e00_00bb_0203);
        let good = Some(guid);
        for text in ["5c6d7e0000bb0203", "0x5c6d7e0000bb0203", " 0X5C6D7E0000BB0203 "] {
            assert_eq!(Guid::parse(text), good, "{text}");
        }
        for text in [
            "",
            "0",
            "0000000000000000",
            "5c6d7e0000bb020",
            "5c6d7e0000bb02031",
            "5c6d7e0000bb020g",
            "+c6d7e0000bb0203",
        ] {
            assert_eq!(Guid::parse(text), None, "{text}");
        }
        assert_eq!(Guid::of_port("5c6d7e0000bb0203_17"), good);
        assert_eq!(Guid::list("0x5c6d7e0000bb0203, x\n5c6d7e0000bb0203").count(), 2);
        assert_eq!(guid.to_string(), "5c6d7e0000bb0203");
    }
}
