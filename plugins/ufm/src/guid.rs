//! GUIDs of ports and switches: 64 bits, written in many ways.

/// A GUID that is not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Guid(pub(crate) u64);

impl Guid {
    /// Sixteen hexadecimal digits in any case, with or without `0x`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
        if digits.len() != 16 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        u64::from_str_radix(digits, 16).ok().filter(|&number| number != 0).map(Self)
    }

    /// Out of `<guid>_<port>`, the name of a port.
    pub(crate) fn of_port_name(name: &str) -> Option<(Self, u32)> {
        let (guid, port) = name.trim().rsplit_once('_')?;
        Some((Self::parse(guid)?, port.parse().ok()?))
    }
}

impl std::fmt::Display for Guid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guid_is_sixteen_digits_however_written() {
        for text in ["a1b2c30000aa0172", "0xa1b2c30000aa0172", "0XA1B2C30000AA0172", " A1b2c30000aa0172 "] {
            assert_eq!(Guid::parse(text).map(|guid| guid.to_string()).as_deref(), Some("a1b2c30000aa0172"), "{text}");
        }
        for text in ["", "N/A", "0000000000000000", "a1b2c30000aa017", "+1b2c30000aa0172", "a1b2c30000aa01720", "0x0xb2c30000aa0172"]
        {
            assert_eq!(Guid::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_name_of_a_port_holds_guid_and_number() {
        assert_eq!(Guid::of_port_name("0xA1b2c30000aa0172_17"), Some((Guid(0xa1b2_c300_00aa_0172), 17)));
        for name in ["N/A", "a1b2c30000aa0172", "a1b2c30000aa0172_", "a1b2c30000aa0172_x", "x_1"] {
            assert_eq!(Guid::of_port_name(name), None, "{name}");
        }
    }
}
