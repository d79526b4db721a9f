//! Points in time as documents write them: RFC 3339, as milliseconds since 1970.

/// Reads `2026-03-04T05:06:07Z`, with or without a fraction, with `Z` or an offset. `None`: the text is not such a
/// time, or is before 1970.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let day = date_of(date)?;
    let zone_begins = rest.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = rest.split_at_checked(zone_begins)?;
    let millis = day.checked_mul(86_400_000)?.checked_add(clock_of(clock)?)?.checked_sub(offset_of(zone)?)?;
    u64::try_from(millis).ok()
}

/// Days since 1970-01-01 in the calendar of today.
fn date_of(text: &str) -> Option<i64> {
    let mut parts = text.split('-');
    let (year, month, day) = (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let longest = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if parts.next().is_some() || !(1..=longest).contains(&day) {
        return None;
    }
    // Counted in years that begin in March, so that a leap day is the last day of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before_year = year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    Some(before_year + (153 * month + 2) / 5 + day - 1 - 719_468)
}

/// Milliseconds since midnight; a leap second counts as the second before it.
fn clock_of(text: &str) -> Option<i64> {
    let (text, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = text.split(':');
    let (hour, minute, second) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let is_number = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 60 || !is_number {
        return None;
    }
    let millis: String = fraction.chars().chain("00".chars()).take(3).collect();
    let millis = millis.parse::<i64>().ok()?;
    Some(((hour * 60 + minute) * 60 + second.min(59)) * 1000 + millis)
}

/// The offset from UTC in milliseconds.
fn offset_of(text: &str) -> Option<i64> {
    let sign = match text.as_bytes().first()? {
        b'Z' | b'z' => return (text.len() == 1).then_some(0),
        b'+' => 1,
        _ => -1,
    };
    let (hours, minutes) = text.get(1..)?.split_once(':')?;
    let (hours, minutes) = (digits(hours, 2)?, digits(minutes, 2)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60_000)
}

/// A number of exactly so many digits.
fn digits(text: &str, length: usize) -> Option<i64> {
    let is_number = text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_from_1970() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("1970-01-02T00:00:00.5Z", Some(86_400_500)),
            ("2026-03-04T05:06:07Z", Some(1_772_600_767_000)),
            ("2024-02-29T23:59:60.123456789z", Some(1_709_251_199_123)),
            ("2026-03-04 07:06:07+02:00", Some(1_772_600_767_000)),
            ("2026-03-03T20:06:07-09:00", Some(1_772_600_767_000)),
            ("1969-12-31T23:59:59Z", None),
            ("2025-02-29T00:00:00Z", None),
            ("2026-03-04T05:06:07", None),
            ("2026-3-4T05:06:07Z", None),
            ("2026-03-04T25:06:07Z", None),
            ("2026-03-04T05:06:07.Z", None),
            ("2026-03-04T05:06:07Zulu", None),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
