//! A slow and plain reading of the same rules, minute by minute, and what is compared with it.

use jiff::Timestamp;
use jiff::civil::Weekday;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use proptest::prelude::*;

use super::*;
use crate::window::Days;

/// Five with daylight saving time of different kinds: an hour in the north and in the west, an hour in the south that begins at
/// midnight, half an hour, and one that skipped a whole day (30 December 2011). One without, and with an offset of a half hour.
const ZONES: [&str; 6] =
    ["Europe/Berlin", "America/New_York", "America/Santiago", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kolkata"];

/// 2001 to 2033.
const YEARS: std::ops::Range<Timestamp> = Timestamp::constant(1_000_000_000, 0)..Timestamp::constant(2_000_000_000, 0);

/// A minute of the week in local time, by the library's own calendar: the place in [`Table`].
fn wall(rules: &TimeZone, at: Timestamp) -> usize {
    let local = rules.to_datetime(at);
    let number = |part: i8| usize::from(part.unsigned_abs());
    number(local.date().weekday().to_monday_zero_offset()) * 1440 + number(local.hour()) * 60 + number(local.minute())
}

/// Every minute from an instant on, with its local time. The library is asked each quarter of an hour: offsets change at no
/// other time.
fn minutes_from(rules: &TimeZone, now: Timestamp) -> impl Iterator<Item = (Timestamp, usize)> {
    let first = now.as_second().div_euclid(60);
    let (mut known, mut place) = (None, 0);
    (first..).map(move |minute| {
        let at = Timestamp::from_second(minute * 60).unwrap();
        let quarter = minute.div_euclid(15);
        place = if known == Some(quarter) { (place + 1) % 10_080 } else { wall(rules, at) };
        known = Some(quarter);
        (at, place)
    })
}

#[test]
fn offsets_change_at_quarters_of_an_hour() {
    for zone in ZONES {
        let rules = TimeZoneDatabase::bundled().get(zone).unwrap();
        let changes = rules.following(YEARS.start).map(|change| change.timestamp());
        for change in changes.take_while(|change| *change < YEARS.end) {
            assert_eq!(change.as_second() % 900, 0, "{zone} {change}");
        }
    }
}

/// Whether windows accept each minute of a week.
struct Table(Vec<bool>);

impl Table {
    fn new(windows: &[TimeWindow], reading: DaysApplyTo) -> Self {
        let days = (0..7).map(|day| Weekday::from_monday_zero_offset(day).unwrap());
        let minutes = days.flat_map(|day| (0..1440).map(move |minute| (day, minute)));
        Self(minutes.map(|(day, minute)| opens(windows, reading, day, minute)).collect())
    }

    fn is_open(&self, rules: &TimeZone, at: Timestamp) -> bool {
        self.0[wall(rules, at)]
    }
}

/// Whether one of the windows accepts a local time.
fn opens(windows: &[TimeWindow], reading: DaysApplyTo, day: Weekday, minute: u16) -> bool {
    let one = |window: &TimeWindow| {
        let (start, end) = (window.start().get(), window.end().get());
        let (today, yesterday) = (window.days().has(day), window.days().has(day.previous()));
        match (start <= end, reading) {
            (true, _) => today && (start..=end).contains(&minute),
            (false, DaysApplyTo::Calendar) => today && !(end + 1..start).contains(&minute),
            (false, DaysApplyTo::Start) => (today && minute >= start) || (yesterday && minute <= end),
        }
    };
    windows.is_empty() || windows.iter().any(one)
}

/// The first minute after an instant at which the windows open or close, within the horizon.
fn next(table: &Table, rules: &TimeZone, now: Timestamp) -> Option<Timestamp> {
    let before = table.is_open(rules, now);
    let until = now.checked_add(HORIZON).unwrap();
    let mut ahead = minutes_from(rules, now).skip(1).take_while(|(at, _)| *at <= until);
    ahead.find(|(_, wall)| table.0[*wall] != before).map(|(at, _)| at)
}

fn window(start: u16, end: u16, days: &[Weekday]) -> TimeWindow {
    let minute = |minute| MinuteOfDay::new(minute).unwrap();
    TimeWindow::new(minute(start), minute(end), Days::of(days.iter().copied()))
}

/// Minutes of a day, half of them in the hours in which offsets change.
fn minutes() -> impl Strategy<Value = u16> {
    prop_oneof![0..DAY, 0_u16..240, Just(0), Just(DAY - 1)]
}

fn windows() -> impl Strategy<Value = Vec<TimeWindow>> {
    let days = prop::collection::vec((0_i8..7).prop_map(|day| Weekday::from_monday_zero_offset(day).unwrap()), 0..4);
    let one = (minutes(), minutes(), days).prop_map(|(start, end, days)| window(start, end, &days));
    // Those that are always open take longest, and differ in nothing.
    prop_oneof![1 => Just(vec![]), 30 => prop::collection::vec(one, 1..4)]
}

/// Instants of many years, most of them within nine days before or after a change of the zone's offset.
fn instants(zone: &'static str) -> impl Strategy<Value = Timestamp> {
    let rules = TimeZoneDatabase::bundled().get(zone).unwrap();
    let changes: Vec<Timestamp> = rules.following(YEARS.start).map(|change| change.timestamp()).take(80).collect();
    let changes = if changes.is_empty() { vec![YEARS.start] } else { changes };
    let any = (YEARS.start.as_second()..YEARS.end.as_second()).boxed();
    let near = (prop::sample::select(changes), -9 * SECONDS_OF_DAY..9 * SECONDS_OF_DAY)
        .prop_map(|(change, off)| change.as_second() + off);
    let second = prop_oneof![1 => any, 3 => near];
    // At the whole minute, at a second of it, and within a second.
    let within = prop_oneof![Just(None), (0_i64..60, 0_i32..1_000_000_000).prop_map(Some)];
    (second, within).prop_map(|(second, within)| match within {
        None => Timestamp::from_second(second.div_euclid(60) * 60).unwrap(),
        Some((off, nanos)) => Timestamp::new(second.div_euclid(60) * 60 + off, nanos).unwrap(),
    })
}

fn situations() -> impl Strategy<Value = (&'static str, Timestamp, Vec<TimeWindow>, DaysApplyTo)> {
    let zone = prop::sample::select(&ZONES[..]);
    let placed = zone.prop_flat_map(|zone| (Just(zone), instants(zone)));
    (placed, windows(), prop::sample::select(&DaysApplyTo::ALL[..]))
        .prop_map(|((zone, now), windows, reading)| (zone, now, windows, reading))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn s18_state_and_next_boundary_are_those_of_a_clock_that_ticks_minutes((zone, now, windows, reading) in situations()) {
        let rules = TimeZoneDatabase::bundled().get(zone).unwrap();
        let schedule = Schedule::new(windows.clone(), Zone::parse(zone).unwrap(), reading);
        let state = schedule.is_open(now);
        let table = Table::new(&windows, reading);
        prop_assert_eq!(state.is_open(), table.is_open(&rules, now));
        if let Openness::Open { window } = state {
            let wall = wall(&rules, now);
            let day = Weekday::from_monday_zero_offset(i8::try_from(wall / 1440).unwrap()).unwrap();
            let minute = u16::try_from(wall % 1440).unwrap();
            let accepts = |window| opens(&windows[window..=window], reading, day, minute);
            prop_assert!(accepts(window) && !(0..window).any(accepts));
        }
        prop_assert_eq!(schedule.next_transition(now), next(&table, &rules, now));
    }
}

/// Every minute of two years with all their changes, of which Apia's are five and one day that did not exist.
#[test]
fn s18_a_chain_of_boundaries_through_whole_years_misses_none_and_adds_none() {
    use Weekday::{Friday, Monday, Saturday, Sunday, Thursday, Tuesday, Wednesday};
    let plans = [
        vec![
            window(18 * 60, 8 * 60, &[Monday, Tuesday, Wednesday, Thursday, Friday]),
            window(0, DAY - 1, &[Saturday, Sunday]),
        ],
        vec![window(22 * 60, 6 * 60, &[Friday, Sunday]), window(2 * 60 + 10, 2 * 60 + 50, &[])],
        vec![window(90, 150, &[Sunday, Saturday]), window(181, 180, &[Thursday])],
    ];
    let begin: Timestamp = "2010-12-31T00:00:00Z".parse().unwrap();
    let end: Timestamp = "2013-01-02T00:00:00Z".parse().unwrap();
    for zone in ZONES {
        let rules = TimeZoneDatabase::bundled().get(zone).unwrap();
        let all = plans.iter().flat_map(|plan| DaysApplyTo::ALL.map(|reading| (plan, reading)));
        let mut watched: Vec<_> = all
            .map(|(plan, reading)| {
                let schedule = Schedule::new(plan.clone(), Zone::parse(zone).unwrap(), reading);
                let (table, next) = (Table::new(plan, reading), schedule.next_transition(begin).unwrap());
                (schedule, table.is_open(&rules, begin), table, next)
            })
            .collect();
        for (now, wall) in minutes_from(&rules, begin).take_while(|(now, _)| *now < end) {
            for (schedule, open, table, next) in &mut watched {
                let is = table.0[wall];
                assert_eq!(is != *open, now == *next, "{zone} {now} {schedule:?}");
                if is != *open {
                    (*open, *next) = (is, schedule.next_transition(now).unwrap());
                }
            }
        }
    }
}
