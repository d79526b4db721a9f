//! Amounts of resources as Kubernetes writes them (`500m`, `64Gi`, `12e6`), exact, and what lending computes with them
//! (`bottomup-syncer.md` section 6.5).
//!
//! Owns: reading every legal text, writing the canonical one, and the few operations that sizes need. It never rounds where
//! Kubernetes does not, and never uses a floating point number.
//!
//! An amount is a whole number of billionths in 128 bits, with the format that it was written in. What a text says beyond
//! that is treated so:
//!
//! * more precise than a billionth: rounded away from zero, as Kubernetes does, since a small request must not become none;
//! * larger in magnitude than 2^63-1: taken as that. Kubernetes documents this limit for every format and enforces it for
//!   the binary one. Beyond it no component computes rightly: schedulers and kubelets read a 64-bit number and get zero, and
//!   the canonical text has no suffix left;
//! * longer than [`MAX_TEXT`], without a digit, or with an exponent beyond 32 bits: an error. Kubernetes reads `.` and `k` as
//!   zero; its own grammar demands a digit, and an operator who writes that meant something else.
//!
//! Kubernetes keeps some texts that are not canonical as they came (`1.500`, `5E3`, `+5`). Here every amount has one text.
//!
//! Failure story: reading fails with the text and what would be right; nothing else fails. Sums stop at the limit.

mod text;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

/// The longest text, in bytes. The longest canonical one has 30; people pad with zeros, and programs write a binary fraction
/// with all its decimal places (57 for a tenth).
pub const MAX_TEXT: usize = 128;

/// One unit (a core, a byte, a device) in billionths.
const UNIT: i128 = 1_000_000_000;
/// A thousandth of a unit.
const MILLI: i128 = UNIT / 1_000;
/// A MiB.
const MEBI: i128 = UNIT << 20;
/// The largest amount.
const MOST: i128 = i64::MAX as i128 * UNIT;

/// How an amount is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Format {
    /// With a suffix for a power of a thousand: `1500m`, `12M`.
    #[default]
    DecimalSi,
    /// With a suffix for a power of 1024: `12Mi`.
    BinarySi,
    /// With an exponent: `12e6`.
    DecimalExponent,
}

/// An amount of a resource. Amounts are compared, not texts: `1Ki` and `1024` are equal.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quantity {
    /// At most [`MOST`] in magnitude.
    nanos: i128,
    format: Format,
}

/// A text that is no amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It is empty, or too long to be one.
    #[error("must be a quantity of 1 to {MAX_TEXT} bytes such as `4`, `500m` or `64Gi`, got {0} bytes")]
    Length(usize),
    /// There is no number at its start.
    #[error("must begin with a decimal number such as `4`, `0.5` or `-1`, got {0:?}")]
    Number(String),
    /// What follows the number is no suffix.
    #[error(
        "must end with one of n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei, with an exponent such as `e3`, or with the \
         number, got {0:?}"
    )]
    Suffix(String),
    /// The exponent is out of range.
    #[error("must have an exponent of {least} to {most}, got {0:?}", least = i32::MIN, most = i32::MAX)]
    Exponent(String),
}

/// A number that is no share of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be from {least} to {most}, got {0}", least = Percent::LEAST, most = Percent::MOST)]
pub struct PercentError(i64);

/// A share, in hundredths: 1 to 100 (decision D6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Percent(u8);

impl Percent {
    /// The smallest share.
    pub const LEAST: u8 = 1;
    /// The whole.
    pub const MOST: u8 = 100;

    /// Reads a number of hundredths.
    ///
    /// # Errors
    /// It is not 1 to 100: no share at all is written as the quantity 0.
    pub fn new(percent: i64) -> Result<Self, PercentError> {
        match u8::try_from(percent) {
            Ok(percent @ Self::LEAST..=Self::MOST) => Ok(Self(percent)),
            _ => Err(PercentError(percent)),
        }
    }

    /// The number of hundredths.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };
    /// One of something that is counted.
    pub const ONE: Self = Self { nanos: UNIT, format: Format::DecimalSi };
    /// The largest amount.
    pub const MOST: Self = Self { nanos: MOST, format: Format::DecimalSi };

    /// Reads a text.
    ///
    /// # Errors
    /// The text is no quantity, see [`QuantityError`].
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        text::read(text)
    }

    /// That many billionths, at most the limit.
    #[must_use]
    pub fn from_nanos(nanos: i128, format: Format) -> Self {
        Self { nanos: nanos.clamp(-MOST, MOST), format }
    }

    /// That many whole ones, at most the limit.
    #[must_use]
    pub fn whole(count: usize) -> Self {
        Self::from_nanos(i128::try_from(count).unwrap_or(i128::MAX).saturating_mul(UNIT), Format::DecimalSi)
    }

    /// The number of billionths.
    #[must_use]
    pub const fn nanos(self) -> i128 {
        self.nanos
    }

    /// How it is written.
    #[must_use]
    pub const fn format(self) -> Format {
        self.format
    }

    /// The same amount, written otherwise.
    #[must_use]
    pub const fn with_format(self, format: Format) -> Self {
        Self { nanos: self.nanos, format }
    }

    /// Whether it is nothing.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// The sum, at most the limit. Nothing takes the format of what is added to it, as in Kubernetes.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self::from_nanos(self.nanos.saturating_add(other.nanos), self.format_with(other))
    }

    /// The difference, nothing where it would be negative.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self::from_nanos(self.nanos.saturating_sub(other.nanos).max(0), self.format_with(other))
    }

    /// A share, rounded towards zero: to thousandths in the decimal formats, to whole units (bytes, as a rule) in the binary
    /// one.
    #[must_use]
    pub fn share(self, percent: Percent) -> Self {
        let grain = match self.format {
            Format::BinarySi => UNIT,
            Format::DecimalSi | Format::DecimalExponent => MILLI,
        };
        // At most 2^63 * 1000 * 100: far from the end of 128 bits.
        let share = self.nanos / grain * i128::from(percent.get()) / i128::from(Percent::MOST);
        Self::from_nanos(share * grain, self.format)
    }

    /// The largest whole number that is not larger.
    #[must_use]
    pub fn floor(self) -> Self {
        Self::from_nanos(self.nanos.div_euclid(UNIT) * UNIT, self.format)
    }

    /// Thousandths, rounded down: the unit of the metrics of `cpu` (section 14).
    #[must_use]
    pub fn in_milli(self) -> i128 {
        self.nanos.div_euclid(MILLI)
    }

    /// MiB, rounded down: the unit of the metrics of memory and storage (section 14).
    #[must_use]
    pub fn in_mebi(self) -> i128 {
        self.nanos.div_euclid(MEBI)
    }

    /// Whole units, rounded down: the unit of all other metrics (section 14).
    #[must_use]
    pub fn in_units(self) -> i128 {
        self.nanos.div_euclid(UNIT)
    }

    fn format_with(self, other: Self) -> Format {
        if self.is_zero() { other.format } else { self.format }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write(*self, f)
    }
}

#[cfg(test)]
mod tests;
