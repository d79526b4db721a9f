//! The times of a ClusterBinding: how they are written, and what each may be (decision S28).
//!
//! Owns the grammar of a time, the range and the default of each, and the one rule between two of them. The definition
//! is made of the same table, so that the API server refuses what this room refuses. Never: what a time means; that is
//! of the rooms that use it.
//!
//! What goes wrong: an object that was stored under another definition may break a range. It is an error here, with
//! field, value and range, and never a time that was cut to fit.

use super::{ClusterBindingSpec, TimingSpec};
use std::fmt;
use std::time::Duration;

/// How a time is written, as the definition has it. Short enough that no sum overflows, there or here.
pub(super) const GRAMMAR: &str = "^([0-9]{1,5}(ms|s|m|h)){1,3}$";
/// The most parts of a time, and the most digits of a part, as in [`GRAMMAR`].
const PARTS: usize = 3;
const DIGITS: usize = 5;
/// The longest text that [`GRAMMAR`] accepts.
pub(super) const LENGTH: usize = PARTS * (DIGITS + "ms".len());
/// Units in milliseconds; `ms` before `m`, which is its beginning.
const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)];
/// How many characters of a text an error repeats.
const SHOWN: usize = 40;

/// One time: where it stands, what it may be, and what it is where it is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// The path of the field.
    pub field: &'static str,
    /// What it is where the field is absent.
    pub default: Duration,
    /// The least that it may be.
    pub least: Duration,
    /// The most that it may be.
    pub most: Duration,
}

const fn range(field: &'static str, default: u64, least: u64, most: u64) -> TimeRange {
    TimeRange {
        field,
        default: Duration::from_secs(default),
        least: Duration::from_secs(least),
        most: Duration::from_secs(most),
    }
}

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// How long the lease of a virtual node is valid; it is renewed at a quarter of that.
pub const LEASE: TimeRange = range("spec.timing.lease", 40, 4, 5 * MINUTE);
/// After how long without a sign of life the physical cluster is suspect.
pub const SUSPECT: TimeRange = range("spec.timing.suspect", 15, 1, 10 * MINUTE);
/// After how long without a sign of life it is unreachable; at least twice [`SUSPECT`].
pub const UNREACHABLE: TimeRange = range("spec.timing.unreachable", 40, 2, HOUR);
/// How long a list of Nodes that became empty has to stay empty.
pub const EMPTY: TimeRange = range("spec.timing.empty", 30, 1, 10 * MINUTE);
/// How often the pods of a node that is taken away are looked at.
pub const RECHECK: TimeRange = range("spec.timing.recheck", 10, 1, 10 * MINUTE);
/// How far two looks at an orphan are apart.
pub const ORPHAN_DELAY: TimeRange = range("spec.timing.orphanDelay", 30, 1, HOUR);
/// For how long pods are evicted before they are deleted.
pub const EVICTION_DEADLINE: TimeRange = range("spec.timing.evictionDeadline", 5 * MINUTE, 0, DAY);
/// How long a node that left its policy for none waits before it grows.
pub const GROW: TimeRange = range("spec.timing.grow", 10 * MINUTE, 0, DAY);
/// For how long leases stay where the physical cluster is unreachable, with `onUnreachable: hold`.
pub const HOLD_FOR: TimeRange = range("spec.holdFor", HOUR, 1, 7 * DAY);
/// For how long the end of a window has to be announced, for evictions at that end to be free.
pub const ANNOUNCE: TimeRange = range("spec.safety.announce", 10 * MINUTE, 0, DAY);

/// All times of a ClusterBinding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// [`LEASE`].
    pub lease: Duration,
    /// [`SUSPECT`].
    pub suspect: Duration,
    /// [`UNREACHABLE`].
    pub unreachable: Duration,
    /// [`EMPTY`].
    pub empty: Duration,
    /// [`RECHECK`].
    pub recheck: Duration,
    /// [`ORPHAN_DELAY`].
    pub orphan_delay: Duration,
    /// [`EVICTION_DEADLINE`].
    pub eviction_deadline: Duration,
    /// [`GROW`].
    pub grow: Duration,
    /// [`HOLD_FOR`].
    pub hold_for: Duration,
    /// [`ANNOUNCE`].
    pub announce: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            lease: LEASE.default,
            suspect: SUSPECT.default,
            unreachable: UNREACHABLE.default,
            empty: EMPTY.default,
            recheck: RECHECK.default,
            orphan_delay: ORPHAN_DELAY.default,
            eviction_deadline: EVICTION_DEADLINE.default,
            grow: GROW.default,
            hold_for: HOLD_FOR.default,
            announce: ANNOUNCE.default,
        }
    }
}

impl Times {
    /// Reads the times of a binding; an absent one has its default.
    ///
    /// # Errors
    /// Every time that is none or out of its range, or the two that do not fit together; never none.
    pub(super) fn read(spec: &ClusterBindingSpec) -> Result<Self, Vec<TimeError>> {
        let mut errors = Vec::new();
        let mut read = |range: TimeRange, text: &Option<String>| {
            range.read(text.as_deref()).unwrap_or_else(|error| {
                errors.push(error);
                range.default
            })
        };
        let TimingSpec { lease, suspect, unreachable, empty, recheck, orphan_delay, eviction_deadline, grow } =
            &spec.timing;
        let times = Self {
            lease: read(LEASE, lease),
            suspect: read(SUSPECT, suspect),
            unreachable: read(UNREACHABLE, unreachable),
            empty: read(EMPTY, empty),
            recheck: read(RECHECK, recheck),
            orphan_delay: read(ORPHAN_DELAY, orphan_delay),
            eviction_deadline: read(EVICTION_DEADLINE, eviction_deadline),
            grow: read(GROW, grow),
            hold_for: read(HOLD_FOR, &spec.hold_for),
            announce: read(ANNOUNCE, &spec.safety.announce),
        };
        let Self { suspect, unreachable, .. } = times;
        if errors.is_empty() && unreachable < suspect.saturating_mul(2) {
            errors.push(TimeError::TooSoon { suspect, unreachable });
        }
        if errors.is_empty() { Ok(times) } else { Err(errors) }
    }
}

impl TimeRange {
    /// Reads the field; the default where it is absent.
    ///
    /// # Errors
    /// The text is no time, or one out of the range.
    pub fn read(&self, text: Option<&str>) -> Result<Duration, TimeError> {
        let Some(text) = text else { return Ok(self.default) };
        let time = parse(text).filter(|time| (self.least..=self.most).contains(time));
        time.ok_or_else(|| TimeError::Range { range: *self, got: text.chars().take(SHOWN).collect() })
    }

    /// The name of the field, without its path.
    pub(super) fn name(&self) -> &'static str {
        self.field.rsplit('.').next().unwrap_or_default()
    }

    /// What it may be.
    pub(super) fn rule(&self) -> String {
        format!("must be a time such as 40s, 10m or 1h30m, from {} to {}", shown(self.least), shown(self.most))
    }
}

/// A time that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeError {
    /// It is no time, or out of its range.
    Range {
        /// The field and its range.
        range: TimeRange,
        /// The text.
        got: String,
    },
    /// `unreachable` is less than twice `suspect`.
    TooSoon {
        /// `timing.suspect`.
        suspect: Duration,
        /// `timing.unreachable`.
        unreachable: Duration,
    },
}

/// The rule between two times, as it is written in the definition and here.
pub(super) const TOO_SOON: &str = "spec.timing.unreachable must be at least twice spec.timing.suspect";

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range { range, got } => write!(f, "{} {}, got {got:?}", range.field, range.rule()),
            Self::TooSoon { suspect, unreachable } => {
                write!(f, "{TOO_SOON}, got {} and {}", shown(*unreachable), shown(*suspect))
            }
        }
    }
}

impl std::error::Error for TimeError {}

/// Reads what [`GRAMMAR`] accepts.
fn parse(text: &str) -> Option<Duration> {
    let (mut rest, mut total, mut parts) = (text, 0_u64, 0);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if parts == PARTS || digits > DIGITS {
            return None;
        }
        let (number, after) = rest.split_at_checked(digits)?;
        let (after, unit) = UNITS.iter().find_map(|(name, unit)| Some((after.strip_prefix(name)?, unit)))?;
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(*unit)?)?;
        (rest, parts) = (after, parts + 1);
    }
    (parts > 0).then_some(Duration::from_millis(total))
}

/// A time in its shortest spelling. [`parse`] reads it, up to 99999 hours.
pub(super) fn shown(time: Duration) -> String {
    let mut rest = time.as_millis();
    let mut text = String::new();
    for (name, unit) in UNITS.iter().rev() {
        let unit = u128::from(*unit);
        if rest >= unit {
            text.push_str(&format!("{}{name}", rest / unit));
            rest %= unit;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All of them.
    const ALL: [TimeRange; 10] =
        [LEASE, SUSPECT, UNREACHABLE, EMPTY, RECHECK, ORPHAN_DELAY, EVICTION_DEADLINE, GROW, HOLD_FOR, ANNOUNCE];

    fn spec(timing: TimingSpec) -> ClusterBindingSpec {
        ClusterBindingSpec { timing, ..ClusterBindingSpec::default() }
    }

    #[test]
    fn times_are_read_as_they_are_written() {
        for (text, milliseconds) in [
            ("0s", 0),
            ("250ms", 250),
            ("40s", 40_000),
            ("1m30s", 90_000),
            ("1h30m5s", 5_405_000),
            ("99999h", 359_996_400_000),
            ("007s", 7000),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "40", "s", "40 s", "-1s", "1.5h", "1d", "1h1m1s1ms", "100000s", "4०s", "1s\n", "S", "40S"] {
            assert_eq!(parse(text), None, "{text}");
        }
        for text in ["0s", "1ms", "40s", "1m30s", "2h", "168h"] {
            assert_eq!(parse(text).map(shown).as_deref(), Some(text));
        }
    }

    #[test]
    fn s28_every_default_is_in_its_range_and_both_ends_are_read() {
        for range in ALL {
            let TimeRange { field, default, least, most } = range;
            assert!(least <= default && default <= most, "{field}");
            for end in [least, default, most] {
                assert_eq!(range.read(Some(&shown(end))), Ok(end), "{field}");
                assert!(shown(end).len() <= LENGTH);
            }
            let more = shown(most + Duration::from_secs(1));
            let error = range.read(Some(&more)).unwrap_err().to_string();
            let wanted = format!("{field} must be a time such as 40s, 10m or 1h30m, from ");
            assert!(error.starts_with(&wanted) && error.ends_with(&format!(", got {more:?}")), "{error}");
            if let Some(less) = least.checked_sub(Duration::from_millis(1)) {
                assert!(range.read(Some(&shown(less))).is_err(), "{field}");
            }
        }
    }

    #[test]
    fn s28_absent_times_have_the_defaults_of_the_decision() {
        let times = Times::read(&spec(TimingSpec::default())).unwrap();
        assert_eq!(times, Times::default());
        let seconds = [times.lease, times.suspect, times.unreachable, times.recheck, times.orphan_delay, times.grow];
        assert_eq!(seconds.map(|time| time.as_secs()), [40, 15, 40, 10, 30, 600]);
        assert_eq!([times.eviction_deadline, times.hold_for, times.announce].map(|it| it.as_secs()), [300, 3600, 600]);
    }

    #[test]
    fn s28_unreachable_is_at_least_twice_suspect_also_where_one_of_them_is_a_default() {
        let of = |suspect: Option<&str>, unreachable: Option<&str>| {
            let text = |text: Option<&str>| text.map(str::to_owned);
            let timing = TimingSpec { suspect: text(suspect), unreachable: text(unreachable), ..TimingSpec::default() };
            Times::read(&spec(timing))
        };
        assert!(of(Some("20s"), None).is_ok() && of(None, Some("30s")).is_ok() && of(Some("1s"), Some("2s")).is_ok());
        for (suspect, unreachable, got) in [
            (Some("21s"), None, "got 40s and 21s"),
            (None, Some("29s"), "got 29s and 15s"),
            (Some("3s"), Some("5s999ms"), "got 5s999ms and 3s"),
        ] {
            let errors = of(suspect, unreachable).unwrap_err();
            assert_eq!(errors.len(), 1);
            assert_eq!(errors[0].to_string(), format!("{TOO_SOON}, {got}"));
        }
        // What is no time breaks no rule between two.
        let errors = of(Some("soon"), Some("29s")).unwrap_err();
        assert_eq!(errors.len(), 1);
        assert!(errors[0].to_string().ends_with("from 1s to 10m, got \"soon\""), "{}", errors[0]);
    }
}
