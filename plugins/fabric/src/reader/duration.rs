//! Durations as Go writes them: `1h30m`, `1.5h`, `300ms`.

use std::time::Duration;

/// Reads a duration; `0` needs no unit. None for everything else, negative ones too.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let text = text.trim();
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() {
        return None;
    }
    let mut seconds = 0.0_f64;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (amount, after) = rest.split_at_checked(number)?;
        let unit = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(unit)?;
        seconds += amount.parse::<f64>().ok()? * seconds_of(unit)?;
        rest = after;
    }
    Duration::try_from_secs_f64(seconds).ok()
}

fn seconds_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-9,
        "us" | "µs" | "μs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let seconds = |text: &str| parse(text).map(|duration| duration.as_secs_f64());
        for (text, expected) in
            [("0", 0.0), ("24h", 86400.0), ("1h30m", 5400.0), ("1.5h", 5400.0), (" +2s ", 2.0), (".5s", 0.5)]
        {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        for text in ["", "5", "-1s", "1d", "h", "1h5", "1.2.3s", ".s", "1 h", "9e99h"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
