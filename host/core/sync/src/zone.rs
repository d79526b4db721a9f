//! Time zones by their IANA names (decisions D9 and S18).
//!
//! Owns which names are zones, and the rules of each. The database is compiled in: two replicas on different machines, and
//! `topoloom lend plan` on the desk of an operator, compute the same boundaries. The room never reads the zone of the
//! machine, nor a database in a file system.
//!
//! An unknown name is an error, never a fallback to UTC: a window that is an hour or ten off looks like one that is right.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::given::Given;
use topoloom_core::near;

/// The name of the zone that applies where none is named.
pub const DEFAULT_ZONE: &str = "UTC";

/// No zone has a longer name. A longer text is no typing error.
const NAME_MAX: usize = 64;

/// A time zone with its rules. Prints as its name.
#[derive(Clone, PartialEq, Eq)]
pub struct Zone {
    name: String,
    rules: TimeZone,
}

/// A text that names no time zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be the name of an IANA time zone such as \"Europe/Berlin\", or absent for {DEFAULT_ZONE}, got {0}")]
pub struct ZoneError(Given);

/// An instant from which on a zone may have another offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OffsetChange {
    /// When.
    pub(super) at: Timestamp,
    /// Seconds east of UTC, from then on.
    pub(super) offset: i64,
}

impl Zone {
    /// The zone without offset.
    #[must_use]
    pub fn utc() -> Self {
        Self { name: DEFAULT_ZONE.to_owned(), rules: TimeZone::UTC }
    }

    /// Reads the name of a zone, in any letter case. The zone has the name as the database spells it.
    ///
    /// # Errors
    /// There is no zone of that name. The error suggests near ones.
    pub fn parse(text: &str) -> Result<Self, ZoneError> {
        // The library knows a zone whose name says that it is none. It would behave as UTC without an error.
        let rules = TimeZoneDatabase::bundled().get(text).ok().filter(|rules| !rules.is_unknown());
        let zone = rules.and_then(|rules| Some(Self { name: rules.iana_name()?.to_owned(), rules }));
        zone.ok_or_else(|| ZoneError(suggest(text)))
    }

    /// The name, as the database spells it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Seconds east of UTC at an instant.
    pub(super) fn offset(&self, at: Timestamp) -> i64 {
        i64::from(self.rules.to_offset(at).seconds())
    }

    /// The changes of the offset after an instant, in order.
    pub(super) fn changes(&self, after: Timestamp) -> impl Iterator<Item = OffsetChange> {
        let change = |change: jiff::tz::TimeZoneTransition<'_>| OffsetChange {
            at: change.timestamp(),
            offset: i64::from(change.offset().seconds()),
        };
        self.rules.following(after).map(change)
    }
}

impl Default for Zone {
    fn default() -> Self {
        Self::utc()
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.name, f)
    }
}

/// What was probably meant: a zone of the same city, as people write `Berlin` or `New York`, or the nearest name.
fn suggest(text: &str) -> Given {
    let given = Given::new(text);
    if text.len() > NAME_MAX {
        return given;
    }
    let database = TimeZoneDatabase::bundled();
    let names: Vec<String> = database.available().map(|name| name.as_str().to_owned()).collect();
    let names = || names.iter().map(String::as_str);
    let city = |name: &str| name.rsplit('/').next().unwrap_or_default().trim().replace(' ', "_");
    let wanted = city(text);
    let mut same = names().filter(|name| !wanted.is_empty() && city(name).eq_ignore_ascii_case(&wanted)).peekable();
    if same.peek().is_some() { given.or(same) } else { given.or(near::nearest(text, names())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn d9_a_zone_is_named_in_any_letter_case_and_keeps_its_own_name() {
        for (given, name) in [
            ("Europe/Berlin", "Europe/Berlin"),
            ("europe/berlin", "Europe/Berlin"),
            ("AUSTRALIA/LORD_HOWE", "Australia/Lord_Howe"),
            ("UTC", "UTC"),
            ("utc", "UTC"),
            ("Etc/UTC", "Etc/UTC"),
            // A name for another zone is a name.
            ("US/Eastern", "US/Eastern"),
        ] {
            assert_eq!(Zone::parse(given).map(|zone| zone.name().to_owned()), Ok(name.to_owned()), "{given}");
        }
        assert_eq!(Zone::default().to_string(), DEFAULT_ZONE);
    }

    #[test]
    fn d9_zones_have_the_rules_of_the_database_that_is_compiled_in() {
        let berlin = Zone::parse("Europe/Berlin").unwrap();
        assert_eq!(berlin.offset(at("2026-01-01T00:00:00Z")), 3600);
        assert_eq!(berlin.offset(at("2026-07-01T00:00:00Z")), 7200);
        let next = berlin.changes(at("2026-01-01T00:00:00Z")).next();
        assert_eq!(next, Some(OffsetChange { at: at("2026-03-29T01:00:00Z"), offset: 7200 }));
        // A change is after the instant, never at it.
        let next = berlin.changes(at("2026-03-29T01:00:00Z")).next();
        assert_eq!(next, Some(OffsetChange { at: at("2026-10-25T01:00:00Z"), offset: 3600 }));
        assert_eq!(Zone::utc().changes(at("2026-01-01T00:00:00Z")).next(), None);
    }

    #[test]
    fn s18_an_unknown_zone_is_an_error_that_suggests_near_names() {
        let error = |text: &str| Zone::parse(text).unwrap_err().to_string();
        let rule = "must be the name of an IANA time zone such as \"Europe/Berlin\", or absent for UTC, got ";
        for (given, shown) in [
            ("Europe/Berlim", "\"Europe/Berlim\" (did you mean \"Europe/Berlin\"?)"),
            ("Berlin", "\"Berlin\" (did you mean \"Europe/Berlin\"?)"),
            ("Asia/Berlin", "\"Asia/Berlin\" (did you mean \"Europe/Berlin\"?)"),
            ("America/New York", "\"America/New York\" (did you mean \"America/New_York\"?)"),
            (" UTC", "\" UTC\" (did you mean \"Etc/UTC\" or \"UTC\"?)"),
            ("", "\"\""),
            ("/", "\"/\""),
            ("Mordor/Barad-dur", "\"Mordor/Barad-dur\""),
            ("CET-1CEST,M3.5.0,M10.5.0/3", "\"CET-1CEST,M3.5.0,M10.5.0/3\""),
            ("Etc/Unknown", "\"Etc/Unknown\""),
            ("+02:00", "\"+02:00\""),
        ] {
            assert_eq!(error(given), format!("{rule}{shown}"));
        }
        assert!(error(&"x/".repeat(50_000)).len() < 250);
    }
}
