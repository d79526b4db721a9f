//! Durations in Go's grammar: an optional sign, then decimal numbers that each have a unit.

use std::time::Duration;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Units, longest spelling first where one begins with another. The two micro signs are different characters.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", MICROSECOND),
    ("\u{b5}s", MICROSECOND),
    ("\u{3bc}s", MICROSECOND),
    ("ms", MILLISECOND),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3600 * SECOND),
];

/// Decimal places that count; what follows is less than a nanosecond of any unit.
const MAX_PLACES: u32 = 18;

/// A duration that may be negative, between about −292 and +292 years.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SignedDuration {
    nanoseconds: i64,
}

impl SignedDuration {
    /// The value in nanoseconds.
    #[must_use]
    pub const fn nanoseconds(self) -> i64 {
        self.nanoseconds
    }

    /// The value where it is above zero.
    #[must_use]
    pub fn positive(self) -> Option<Duration> {
        self.non_negative().filter(|duration| !duration.is_zero())
    }

    /// The value where it is zero or above.
    #[must_use]
    pub fn non_negative(self) -> Option<Duration> {
        u64::try_from(self.nanoseconds).ok().map(Duration::from_nanos)
    }
}

/// Reads a duration such as `90s`, `1h15m30s`, `1.5h`, `-3m` or `0`. No spaces, no days; nothing where the text is none
/// or does not fit.
#[must_use]
pub fn parse(text: &str) -> Option<SignedDuration> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let total = if unsigned == "0" { 0 } else { parse_terms(unsigned)? };
    let signed = if negative { -total } else { total };
    Some(SignedDuration { nanoseconds: i64::try_from(signed).ok()? })
}

fn parse_terms(mut rest: &str) -> Option<i128> {
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (term, after) = parse_term(rest)?;
        total = total.checked_add(term)?;
        rest = after;
    }
    Some(total)
}

/// One number with its unit, in nanoseconds, and what follows.
fn parse_term(text: &str) -> Option<(i128, &str)> {
    let (whole, rest) = split_digits(text);
    let (places, rest) = rest.strip_prefix('.').map_or(("", rest), split_digits);
    if whole.is_empty() && places.is_empty() {
        return None;
    }
    let (unit, rest) = UNITS.iter().find_map(|(name, unit)| Some((*unit, rest.strip_prefix(name)?)))?;
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut fraction: i128 = 0;
    let mut scale: i128 = 1;
    for digit in places.bytes().take(MAX_PLACES as usize) {
        fraction = fraction * 10 + i128::from(digit - b'0');
        scale *= 10;
    }
    let unit = i128::from(unit);
    Some((whole.checked_mul(unit)?.checked_add(fraction * unit / scale)?, rest))
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// The shortest usual spelling: `1h30m`, `250ms`, `0s`. What [`parse`] reads back.
#[must_use]
pub fn format(duration: Duration) -> String {
    if duration.is_zero() {
        return "0s".to_owned();
    }
    let nanoseconds = duration.as_nanos();
    let steps: [(u128, &str); 6] = [
        (u128::from(3600 * SECOND), "h"),
        (u128::from(60 * SECOND), "m"),
        (u128::from(SECOND), "s"),
        (u128::from(MILLISECOND), "ms"),
        (u128::from(MICROSECOND), "us"),
        (1, "ns"),
    ];
    let mut rest = nanoseconds;
    let mut text = String::new();
    for (unit, name) in steps {
        let count = rest / unit;
        rest %= unit;
        if count > 0 {
            text.push_str(&format!("{count}{name}"));
        }
    }
    text
}
