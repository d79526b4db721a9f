//! Sizes as Kubernetes quantities (`256Mi`, `1G`, `0.5Gi`, `1e6`), in bytes.

use std::fmt;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

const KIBI: u64 = 1 << 10;
const MEBI: u64 = 1 << 20;
const GIBI: u64 = 1 << 30;

/// Suffixes and what they multiply with, the two-letter ones first. The parts of one (`m`, `u`, `n`) are left out on
/// purpose: no one means a thousandth of a byte, but many write `m` and mean mega.
const SUFFIXES: [(&str, u64); 12] = [
    ("Ki", KIBI),
    ("Mi", MEBI),
    ("Gi", GIBI),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("Ei", 1 << 60),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("E", 1_000_000_000_000_000_000),
];

/// More digits than any size needs; fewer than 128 bits hold.
const MAX_DIGITS: usize = 18;

impl ByteSize {
    /// That many bytes.
    #[must_use]
    pub const fn bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// That many KiB.
    #[must_use]
    pub const fn kibi(count: u32) -> Self {
        Self(count as u64 * KIBI)
    }

    /// That many MiB.
    #[must_use]
    pub const fn mebi(count: u32) -> Self {
        Self(count as u64 * MEBI)
    }

    /// That many GiB.
    #[must_use]
    pub const fn gibi(count: u32) -> Self {
        Self(count as u64 * GIBI)
    }

    /// The number of bytes.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The number of bytes, at most what an address can be.
    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// Reads a quantity of bytes, rounded up to a whole one; nothing where the text is none or does not fit.
#[must_use]
pub fn parse(text: &str) -> Option<ByteSize> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, suffix) = text.split_at_checked(end)?;
    let (whole, places) = number.split_once('.').unwrap_or((number, ""));
    let digits = whole.len() + places.len();
    if digits == 0 || digits > MAX_DIGITS || places.contains('.') {
        return None;
    }
    let mantissa: u128 = format!("{whole}{places}").parse().ok()?;
    let divisor = 10_u128.checked_pow(u32::try_from(places.len()).ok()?)?;
    let bytes = mantissa.checked_mul(multiplier(suffix)?)?.div_ceil(divisor);
    Some(ByteSize(u64::try_from(bytes).ok()?))
}

fn multiplier(suffix: &str) -> Option<u128> {
    if suffix.is_empty() {
        return Some(1);
    }
    if let Some((_, factor)) = SUFFIXES.iter().find(|(name, _)| *name == suffix) {
        return Some(u128::from(*factor));
    }
    let exponent: u32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    if exponent > MAX_DIGITS as u32 { None } else { 10_u128.checked_pow(exponent) }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, name) in [(GIBI, "Gi"), (MEBI, "Mi"), (KIBI, "Ki")] {
            if self.0 >= unit && self.0.is_multiple_of(unit) {
                return write!(f, "{}{name}", self.0 / unit);
            }
        }
        write!(f, "{}", self.0)
    }
}
