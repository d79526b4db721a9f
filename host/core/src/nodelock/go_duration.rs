//! Durations as Go writes them (`node-lock-and-bind.md` A3): messages of the lock are read beside those of programs in Go.

use std::fmt;
use std::time::Duration;

/// A duration as Go prints it: `5m0s`, `28s`, `300ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Go(pub Duration);

impl fmt::Display for Go {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0.as_secs(), u128::from(self.0.subsec_nanos()));
        let below = |f: &mut fmt::Formatter<'_>, whole: u128, digits: usize, unit: &str| {
            let one = 10_u128.pow(u32::try_from(digits).unwrap_or(0));
            let fraction = format!("{:0digits$}", whole % one);
            let fraction = fraction.trim_end_matches('0');
            let dot = if digits == 0 || fraction.is_empty() { "" } else { "." };
            let fraction = if digits == 0 { "" } else { fraction };
            write!(f, "{}{dot}{fraction}{unit}", whole / one)
        };
        match (seconds, nanos) {
            (0, 0) => f.write_str("0s"),
            (0, nanos) if nanos < 1_000 => below(f, nanos, 0, "ns"),
            (0, nanos) if nanos < 1_000_000 => below(f, nanos, 3, "µs"),
            (0, nanos) => below(f, nanos, 6, "ms"),
            (seconds, nanos) => {
                let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
                if hours > 0 {
                    write!(f, "{hours}h")?;
                }
                if hours > 0 || minutes > 0 {
                    write!(f, "{minutes}m")?;
                }
                below(f, u128::from(seconds % 60) * 1_000_000_000 + nanos, 9, "s")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a3_messages_print_durations_as_go_does() {
        let printed = |nanos: u64| Go(Duration::from_nanos(nanos)).to_string();
        let rows = [
            (120_000_000_000, "2m0s"),
            (300_000_000_000, "5m0s"),
            (28_000_000_000, "28s"),
            (300_000_000, "300ms"),
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (1_500_000, "1.5ms"),
            (5_400_000_000_000, "1h30m0s"),
            (3_600_000_000_000, "1h0m0s"),
            (61_500_000_000, "1m1.5s"),
            (2_000_000_001, "2.000000001s"),
        ];
        for (nanos, wanted) in rows {
            assert_eq!(printed(nanos), wanted);
        }
    }
}
