//! A window of a policy that closes in the next minute or two, for one minute: people who watch do not wait until the evening.

use jiff::{SignedDuration, Timestamp};

const MINUTE: i64 = 60;
const DAY: i64 = 24 * 60;

/// One closed minute, and the window around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClosedMinute {
    /// Its first second.
    pub(super) closes: Timestamp,
    /// The first second after it.
    pub(super) opens: Timestamp,
    /// `start` of the window, in UTC.
    pub(super) start: String,
    /// `end` of the window: the last minute before the closed one.
    pub(super) end: String,
}

impl ClosedMinute {
    /// The first whole minute that is at least this far ahead.
    pub(super) fn after(now: Timestamp, ahead: SignedDuration) -> Self {
        let second = now.as_second() + i64::from(now.subsec_nanosecond() > 0);
        let minute = (second + ahead.as_secs() + MINUTE - 1).div_euclid(MINUTE);
        let at = |minute: i64| Timestamp::from_second(minute * MINUTE).unwrap_or(now);
        let word = |minute: i64| {
            let of_day = minute.rem_euclid(DAY);
            format!("{:02}:{:02}", of_day / 60, of_day % 60)
        };
        Self { closes: at(minute), opens: at(minute + 1), start: word(minute + 1), end: word(minute - 1) }
    }

    /// The lines of the policy.
    pub(super) fn lines(&self) -> String {
        format!("  timeZone: UTC\n  timeWindows: [{{start: \"{}\", end: \"{}\"}}]\n", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::Weekday;
    use topoloom_sync::window::{DaysApplyTo, MinuteOfDay, TimeWindow};

    use super::*;

    fn after(now: &str, ahead: i64) -> ClosedMinute {
        ClosedMinute::after(now.parse().unwrap(), SignedDuration::from_secs(ahead))
    }

    #[test]
    fn it_is_the_first_whole_minute_that_is_far_enough_ahead() {
        let found = after("2026-08-03T10:15:20Z", 8);
        assert_eq!(found.closes.to_string(), "2026-08-03T10:16:00Z");
        assert_eq!(found.opens.to_string(), "2026-08-03T10:17:00Z");
        assert_eq!((&*found.start, &*found.end), ("10:17", "10:15"));
        assert_eq!(after("2026-08-03T10:15:52Z", 8).closes.to_string(), "2026-08-03T10:16:00Z");
        assert_eq!(after("2026-08-03T10:15:52.5Z", 8).closes.to_string(), "2026-08-03T10:17:00Z");
        assert_eq!(found.lines(), "  timeZone: UTC\n  timeWindows: [{start: \"10:17\", end: \"10:15\"}]\n");
    }

    #[test]
    fn of_all_minutes_of_a_day_its_window_is_closed_in_that_one_alone() {
        let midnight: Timestamp = "2026-08-03T00:00:00Z".parse().unwrap();
        for minute in 0..DAY {
            let now = midnight + SignedDuration::from_mins(minute);
            let found = ClosedMinute::after(now, SignedDuration::from_secs(8));
            let window = TimeWindow::parse(&found.start, &found.end, &[]).unwrap();
            let closed = (0..u16::try_from(DAY).unwrap()).filter(|minute| {
                !window.accepts(Weekday::Monday, MinuteOfDay::new(*minute).unwrap(), DaysApplyTo::Calendar)
            });
            let wanted = u16::try_from((minute + 1).rem_euclid(DAY)).unwrap();
            assert_eq!(closed.collect::<Vec<_>>(), [wanted], "{found:?}");
        }
    }
}
