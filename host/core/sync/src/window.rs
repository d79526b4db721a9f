//! One time window of a policy: two minutes of the day and the days on which they count (`bottomup-syncer.md` 6.4,
//! decisions D5 and D10).
//!
//! Owns how a window is written, and whether it accepts a minute of the week. What an instant is in local time, and the
//! union of several windows, are of [`schedule`](super::schedule). A window that breaks a rule is an error with all its
//! problems; it never becomes one that is closed, since a closed window takes capacity away.

use std::fmt;

use jiff::civil::Weekday;

use super::given::Given;
use topoloom_core::near;

/// Minutes of a day.
pub(super) const DAY: u16 = 24 * 60;

/// The days of a week with the names that policies use.
const WEEK: [(Weekday, &str); 7] = [
    (Weekday::Monday, "Monday"),
    (Weekday::Tuesday, "Tuesday"),
    (Weekday::Wednesday, "Wednesday"),
    (Weekday::Thursday, "Thursday"),
    (Weekday::Friday, "Friday"),
    (Weekday::Saturday, "Saturday"),
    (Weekday::Sunday, "Sunday"),
];

/// A minute of a day, from 00:00 to 23:59. Prints as `HH:MM`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MinuteOfDay(u16);

impl MinuteOfDay {
    /// The first minute of a day.
    pub const FIRST: Self = Self(0);
    /// The last minute of a day.
    pub const LAST: Self = Self(DAY - 1);

    /// The minute that begins so many minutes after midnight; `None` beyond the day.
    #[must_use]
    pub fn new(minutes: u16) -> Option<Self> {
        (minutes < DAY).then_some(Self(minutes))
    }

    /// Reads `HH:MM`: exactly five characters.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let [tens, ones, b':', ten_minutes, minutes] = text.as_bytes() else { return None };
        let number = |tens: &u8, ones: &u8| {
            let both = tens.is_ascii_digit() && ones.is_ascii_digit();
            both.then(|| u16::from(tens & 0xf) * 10 + u16::from(ones & 0xf))
        };
        let (hours, minutes) = (number(tens, ones)?, number(ten_minutes, minutes)?);
        if hours < 24 && minutes < 60 { Self::new(hours * 60 + minutes) } else { None }
    }

    /// Minutes after midnight, below 1440.
    #[must_use]
    pub fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for MinuteOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0 / 60, self.0 % 60)
    }
}

/// Days of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Days(u8);

impl Days {
    /// Every day.
    pub const EVERY: Self = Self(0x7f);

    /// Those days; none are every day, as in a policy.
    #[must_use]
    pub fn of(days: impl IntoIterator<Item = Weekday>) -> Self {
        let days = days.into_iter().fold(0, |days, day| days | bit(day));
        if days == 0 { Self::EVERY } else { Self(days) }
    }

    /// Whether a day is one of them.
    #[must_use]
    pub fn has(self, day: Weekday) -> bool {
        self.0 & bit(day) != 0
    }

    /// The days from Monday on.
    pub fn iter(self) -> impl Iterator<Item = Weekday> {
        WEEK.into_iter().map(|(day, _)| day).filter(move |day| self.has(*day))
    }
}

impl fmt::Display for Days {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::EVERY {
            return f.write_str("every day");
        }
        for (index, day) in self.iter().enumerate() {
            write!(f, "{}{}", if index == 0 { "" } else { ", " }, day_name(day))?;
        }
        Ok(())
    }
}

const fn bit(day: Weekday) -> u8 {
    match day {
        Weekday::Monday => 1,
        Weekday::Tuesday => 1 << 1,
        Weekday::Wednesday => 1 << 2,
        Weekday::Thursday => 1 << 3,
        Weekday::Friday => 1 << 4,
        Weekday::Saturday => 1 << 5,
        Weekday::Sunday => 1 << 6,
    }
}

/// The name of a day, as policies write it.
pub(super) fn day_name(day: Weekday) -> &'static str {
    WEEK.iter().find(|(known, _)| *known == day).map_or("", |(_, name)| name)
}

/// Which days the `days` of an overnight window name (decision D10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DaysApplyTo {
    /// The days on which it is open: a Friday's window is open on Friday morning and on Friday evening.
    #[default]
    Calendar,
    /// The days on which it begins: a Friday's window is open on Friday evening and on Saturday morning.
    Start,
}

impl DaysApplyTo {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Calendar, Self::Start];

    /// The word in a policy.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Calendar => "calendar",
            Self::Start => "start",
        }
    }

    /// Reads the word of a policy.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reading| reading.word() == text)
    }
}

/// A window of time. `end` belongs to it as a whole minute. One that ends before it begins goes over midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimeWindow {
    start: MinuteOfDay,
    end: MinuteOfDay,
    days: Days,
}

impl TimeWindow {
    /// A window.
    #[must_use]
    pub fn new(start: MinuteOfDay, end: MinuteOfDay, days: Days) -> Self {
        Self { start, end, days }
    }

    /// Reads a window as a policy has it. Without days it counts every day.
    ///
    /// # Errors
    /// Every problem, in the order start, end, days; never none.
    pub fn parse(start: &str, end: &str, days: &[String]) -> Result<Self, Vec<WindowError>> {
        let mut errors = Vec::new();
        let mut time = |text: &str, field: WindowField| {
            let minute = MinuteOfDay::parse(text);
            if minute.is_none() {
                errors.push(WindowError { field, problem: WindowProblem::Time(suggest_time(text, field)) });
            }
            minute
        };
        let (start, end) = (time(start, WindowField::Start), time(end, WindowField::End));
        let mut listed = Vec::with_capacity(days.len().min(WEEK.len()));
        for (index, text) in days.iter().enumerate() {
            match WEEK.iter().find(|(_, name)| name.eq_ignore_ascii_case(text)) {
                Some((day, _)) => listed.push(*day),
                None => errors.push(WindowError {
                    field: WindowField::Day(index),
                    problem: WindowProblem::Day(suggest_day(text)),
                }),
            }
        }
        match (start, end) {
            (Some(start), Some(end)) if errors.is_empty() => Ok(Self::new(start, end, Days::of(listed))),
            _ => Err(errors),
        }
    }

    /// Its first minute.
    #[must_use]
    pub fn start(&self) -> MinuteOfDay {
        self.start
    }

    /// Its last minute.
    #[must_use]
    pub fn end(&self) -> MinuteOfDay {
        self.end
    }

    /// The days on which it counts.
    #[must_use]
    pub fn days(&self) -> Days {
        self.days
    }

    /// Whether it goes over midnight.
    #[must_use]
    pub fn is_overnight(&self) -> bool {
        self.end < self.start
    }

    /// Whether it accepts a minute of a day.
    #[must_use]
    pub fn accepts(&self, day: Weekday, minute: MinuteOfDay, reading: DaysApplyTo) -> bool {
        if !self.is_overnight() {
            return self.days.has(day) && self.start <= minute && minute <= self.end;
        }
        let of_morning = match reading {
            DaysApplyTo::Calendar => day,
            DaysApplyTo::Start => day.previous(),
        };
        (minute >= self.start && self.days.has(day)) || (minute <= self.end && self.days.has(of_morning))
    }
}

impl fmt::Display for TimeWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{} {}", self.start, self.end, self.days)
    }
}

/// A field of a window that breaks its rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct WindowError {
    /// Which one.
    pub field: WindowField,
    /// What is wrong with it.
    pub problem: WindowProblem,
}

/// A field of a window. Prints as its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowField {
    /// `start`.
    Start,
    /// `end`.
    End,
    /// One of `days`, by its place.
    Day(usize),
}

impl fmt::Display for WindowField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => f.write_str("start"),
            Self::End => f.write_str("end"),
            Self::Day(index) => write!(f, "days[{index}]"),
        }
    }
}

/// What is wrong with a field of a window.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WindowProblem {
    /// Not a time of the day.
    #[error("must be a time of the day as HH:MM from 00:00 to 23:59, got {0}")]
    Time(Given),
    /// Not a day of the week.
    #[error("must be the English name of a weekday in full, Monday to Sunday, got {0}")]
    Day(Given),
}

/// People write midnight as the end of a day, and leave out the zero of an hour.
fn suggest_time(text: &str, field: WindowField) -> Given {
    let midnight = if field == WindowField::Start { MinuteOfDay::FIRST } else { MinuteOfDay::LAST };
    // The length bounds what a stranger makes us copy.
    let padded = if text.len() < 5 { MinuteOfDay::parse(&format!("0{text}")) } else { None };
    let meant = if text == "24:00" { Some(midnight) } else { padded };
    Given::new(text).or(meant.map(|meant| meant.to_string()).as_deref())
}

/// People abbreviate days.
fn suggest_day(text: &str) -> Given {
    let names = || WEEK.into_iter().map(|(_, name)| name);
    let begins = |name: &str| name.get(..text.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(text));
    let abbreviated = if text.len() < 2 { None } else { names().find(|name| begins(name)) };
    Given::new(text).or(abbreviated.or_else(|| near::nearest(text, names())))
}

#[cfg(test)]
mod tests;
