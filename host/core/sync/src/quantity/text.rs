//! The texts of amounts: every legal one is read, the canonical one is written.
//!
//! A text is read as its decimal digits and a power of ten; a binary suffix multiplies the digits first. So one rule rounds
//! and one rule stops at the limit, whatever the suffix. The time is linear in the length, which is bounded.

use std::fmt;

use super::{Format, MAX_TEXT, MOST, Quantity, QuantityError, UNIT};

/// Decimal suffixes by rising power of a thousand, from a billionth.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// Binary suffixes by rising power of 1024. Without one the number is decimal.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// How many places a billionth has.
const PLACES: i64 = 9;
/// How often two is multiplied in 1024.
const SHIFT: u32 = 10;

/// What a suffix multiplies a number with, and how it is written.
struct Suffix {
    format: Format,
    power_of_ten: i64,
    power_of_two: u32,
}

pub(super) fn read(text: &str) -> Result<Quantity, QuantityError> {
    if text.is_empty() || text.len() > MAX_TEXT {
        return Err(QuantityError::Length(text.len()));
    }
    let number_wrong = || QuantityError::Number(text.to_owned());
    let is_negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let end = unsigned.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, suffix) = unsigned.split_at_checked(end).ok_or_else(number_wrong)?;
    let (whole, places) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + places.len() == 0 || places.contains('.') {
        return Err(number_wrong());
    }
    let suffix = read_suffix(suffix, text)?;
    let digits: Vec<u8> = whole.bytes().chain(places.bytes()).map(|byte| byte.saturating_sub(b'0')).collect();
    let digits = doubled(&digits, suffix.power_of_two);
    // The length is bounded, so it is far from the end of 64 bits.
    let power = suffix.power_of_ten + PLACES - i64::try_from(places.len()).map_err(|_| number_wrong())?;
    let magnitude = nanos(&digits, power);
    // A part of a unit has no binary form, and Kubernetes changes the format at once.
    let is_part = suffix.format == Format::BinarySi && magnitude != 0 && magnitude < UNIT;
    let format = if is_part { Format::DecimalSi } else { suffix.format };
    Ok(Quantity::from_nanos(if is_negative { -magnitude } else { magnitude }, format))
}

fn read_suffix(suffix: &str, text: &str) -> Result<Suffix, QuantityError> {
    let position = |suffixes: &[&str]| suffixes.iter().position(|known| *known == suffix);
    if let Some(step) = position(&DECIMAL).and_then(|step| i64::try_from(step).ok()) {
        return Ok(Suffix { format: Format::DecimalSi, power_of_ten: step * 3 - PLACES, power_of_two: 0 });
    }
    if let Some(step) = position(&BINARY).and_then(|step| u32::try_from(step).ok()) {
        return Ok(Suffix { format: Format::BinarySi, power_of_ten: 0, power_of_two: step * SHIFT });
    }
    let suffix_wrong = || QuantityError::Suffix(text.to_owned());
    let exponent = suffix.strip_prefix(['e', 'E']).ok_or_else(suffix_wrong)?;
    let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(suffix_wrong());
    }
    let exponent: i32 = exponent.parse().map_err(|_| QuantityError::Exponent(text.to_owned()))?;
    Ok(Suffix { format: Format::DecimalExponent, power_of_ten: exponent.into(), power_of_two: 0 })
}

/// The decimal digits of a number that has these and is doubled so often.
fn doubled(digits: &[u8], times: u32) -> Vec<u8> {
    let factor = 1_u128.checked_shl(times).unwrap_or(1);
    let mut backwards = Vec::with_capacity(digits.len() + 20);
    let mut carry = 0_u128;
    for digit in digits.iter().rev() {
        // The carry stays below the factor, which is 2^60 at most.
        carry += u128::from(*digit) * factor;
        backwards.push(last_digit(carry));
        carry /= 10;
    }
    while carry != 0 {
        backwards.push(last_digit(carry));
        carry /= 10;
    }
    backwards.reverse();
    backwards
}

fn last_digit(number: u128) -> u8 {
    u8::try_from(number % 10).unwrap_or_default()
}

/// The number with these digits times that power of ten, rounded up to a whole one and at most the limit.
fn nanos(digits: &[u8], power: i64) -> i128 {
    let leading = digits.iter().take_while(|digit| **digit == 0).count();
    let digits = digits.get(leading..).unwrap_or_default();
    if digits.is_empty() {
        return 0;
    }
    let cut = usize::try_from(power.saturating_neg()).unwrap_or(0);
    let (kept, dropped) = digits.split_at_checked(digits.len().saturating_sub(cut)).unwrap_or((digits, &[]));
    let zeros = std::iter::repeat_n(&0, usize::try_from(power).unwrap_or(0));
    let mut number = 0;
    for digit in kept.iter().chain(zeros) {
        number = number * 10 + i128::from(*digit);
        if number > MOST {
            return MOST;
        }
    }
    let remainder = i128::from(dropped.iter().any(|digit| *digit != 0));
    (number + remainder).min(MOST)
}

pub(super) fn write(quantity: Quantity, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let nanos = quantity.nanos;
    // A binary number below 1024 or with a part of a unit is written as a decimal one, so that nothing is lost.
    let is_binary = quantity.format == Format::BinarySi && nanos % UNIT == 0 && nanos.abs() >= UNIT << SHIFT;
    if is_binary {
        let (number, step) = without_factors(nanos / UNIT, 1 << SHIFT);
        return write!(f, "{number}{}", BINARY.get(step).copied().unwrap_or_default());
    }
    let (number, step) = without_factors(nanos, 1_000);
    match (quantity.format, i64::try_from(step).unwrap_or_default() * 3 - PLACES) {
        _ if number == 0 => f.write_str("0"),
        (Format::DecimalExponent, 0) => write!(f, "{number}"),
        (Format::DecimalExponent, exponent) => write!(f, "{number}e{exponent}"),
        _ => write!(f, "{number}{}", DECIMAL.get(step).copied().unwrap_or_default()),
    }
}

/// A number without all factors of that kind, and how many there were. The limit of an amount has fewer than there are
/// suffixes.
fn without_factors(mut number: i128, factor: i128) -> (i128, usize) {
    let mut count = 0;
    while number != 0 && number % factor == 0 {
        number /= factor;
        count += 1;
    }
    (number, count)
}
