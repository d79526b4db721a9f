use super::*;

const WEEKDAYS: [&str; 5] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"];

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn window(start: &str, end: &str, days: &[&str]) -> TimeWindow {
    let days: Vec<String> = days.iter().map(|day| (*day).to_owned()).collect();
    TimeWindow::parse(start, end, &days).unwrap()
}

fn schedule(windows: &[TimeWindow], zone: &str, reading: DaysApplyTo) -> Schedule {
    Schedule::new(windows.to_vec(), Zone::parse(zone).unwrap(), reading)
}

fn calendar(windows: &[TimeWindow], zone: &str) -> Schedule {
    schedule(windows, zone, DaysApplyTo::Calendar)
}

/// The boundaries from an instant on, and whether each opens.
fn boundaries(schedule: &Schedule, from: &str, count: usize) -> Vec<(String, bool)> {
    let next = |at: &Timestamp| schedule.next_transition(*at);
    let all = std::iter::successors(schedule.next_transition(at(from)), next).take(count);
    all.map(|at| (at.to_string(), schedule.is_open(at).is_open())).collect()
}

fn expected(boundaries: &[(&str, bool)]) -> Vec<(String, bool)> {
    boundaries.iter().map(|(at, opens)| ((*at).to_owned(), *opens)).collect()
}

/// Nights of the week and whole weekends.
fn nights() -> [TimeWindow; 2] {
    [window("18:00", "08:00", &WEEKDAYS), window("00:00", "23:59", &["Saturday", "Sunday"])]
}

#[test]
fn table_of_6_4_nights_of_the_week_and_whole_weekends() {
    let schedule = calendar(&nights(), "UTC");
    // 2026-06-01 is a Monday.
    for (now, local, state) in [
        ("2026-06-01T07:59:30Z", "Monday 07:59", Openness::Open { window: 0 }),
        ("2026-06-01T08:00:59.9Z", "Monday 08:00", Openness::Open { window: 0 }),
        ("2026-06-01T08:01:00Z", "Monday 08:01", Openness::Closed),
        ("2026-06-05T18:00:00Z", "Friday 18:00", Openness::Open { window: 0 }),
        ("2026-06-06T03:00:00Z", "Saturday 03:00", Openness::Open { window: 1 }),
        ("2026-06-07T23:59:59Z", "Sunday 23:59", Openness::Open { window: 1 }),
    ] {
        assert_eq!(schedule.local(at(now)).to_string(), local);
        assert_eq!(schedule.is_open(at(now)), state, "{local}");
    }
}

#[test]
fn s18_the_next_boundary_is_that_of_the_union_and_not_of_one_window() {
    let schedule = calendar(&nights(), "UTC");
    let found = boundaries(&schedule, "2026-06-05T12:00:00Z", 4);
    let wanted = [
        // From Friday evening over the weekend to Monday morning it is never closed.
        ("2026-06-05T18:00:00Z", true),
        ("2026-06-08T08:01:00Z", false),
        ("2026-06-08T18:00:00Z", true),
        ("2026-06-09T08:01:00Z", false),
    ];
    assert_eq!(found, expected(&wanted));
}

#[test]
fn d9_windows_are_read_in_the_zone_of_the_policy() {
    let offices = [window("08:00", "17:59", &["Monday"])];
    let first = |zone: &str| calendar(&offices, zone).next_transition(at("2026-06-07T00:00:00Z")).unwrap().to_string();
    assert_eq!(first("UTC"), "2026-06-08T08:00:00Z");
    assert_eq!(first("Europe/Berlin"), "2026-06-08T06:00:00Z");
    assert_eq!(first("Asia/Kolkata"), "2026-06-08T02:30:00Z");
    assert_eq!(first("Pacific/Kiritimati"), "2026-06-07T18:00:00Z");
}

#[test]
fn d10_an_overnight_window_of_friday_by_both_readings() {
    let friday = [window("22:00", "06:00", &["Friday"])];
    let found = boundaries(&calendar(&friday, "UTC"), "2026-06-04T12:00:00Z", 4);
    let wanted = [
        ("2026-06-05T00:00:00Z", true),
        ("2026-06-05T06:01:00Z", false),
        ("2026-06-05T22:00:00Z", true),
        ("2026-06-06T00:00:00Z", false),
    ];
    assert_eq!(found, expected(&wanted));
    let found = boundaries(&schedule(&friday, "UTC", DaysApplyTo::Start), "2026-06-04T12:00:00Z", 3);
    let wanted = [("2026-06-05T22:00:00Z", true), ("2026-06-06T06:01:00Z", false), ("2026-06-12T22:00:00Z", true)];
    assert_eq!(found, expected(&wanted));
}

#[test]
fn d10_a_start_day_of_sunday_reaches_into_the_next_week() {
    let sunday = schedule(&[window("22:00", "06:00", &["Sunday"])], "UTC", DaysApplyTo::Start);
    let found = boundaries(&sunday, "2026-06-07T12:00:00Z", 2);
    assert_eq!(found, expected(&[("2026-06-07T22:00:00Z", true), ("2026-06-08T06:01:00Z", false)]));
}

#[test]
fn s18_a_window_in_the_hour_that_a_zone_skips_does_not_open_that_day() {
    // Berlin goes from 01:59 to 03:00 on 29 March 2026.
    let gap = calendar(&[window("02:10", "02:40", &[])], "Europe/Berlin");
    let found = boundaries(&gap, "2026-03-28T00:00:00Z", 4);
    let wanted = [
        ("2026-03-28T01:10:00Z", true),
        ("2026-03-28T01:41:00Z", false),
        ("2026-03-30T00:10:00Z", true),
        ("2026-03-30T00:41:00Z", false),
    ];
    assert_eq!(found, expected(&wanted));
}

#[test]
fn s18_a_window_that_reaches_into_the_skipped_hour_ends_or_begins_with_the_change() {
    let before = calendar(&[window("01:30", "02:30", &[])], "Europe/Berlin");
    let found = boundaries(&before, "2026-03-29T00:00:00Z", 2);
    assert_eq!(found, expected(&[("2026-03-29T00:30:00Z", true), ("2026-03-29T01:00:00Z", false)]));
    let after = calendar(&[window("02:30", "03:30", &[])], "Europe/Berlin");
    let found = boundaries(&after, "2026-03-29T00:00:00Z", 2);
    assert_eq!(found, expected(&[("2026-03-29T01:00:00Z", true), ("2026-03-29T01:31:00Z", false)]));
}

#[test]
fn s18_an_hour_that_occurs_twice_counts_twice() {
    // Berlin goes from 02:59 back to 02:00 on 25 October 2026.
    let fold = calendar(&[window("02:00", "02:30", &[])], "Europe/Berlin");
    let found = boundaries(&fold, "2026-10-24T12:00:00Z", 4);
    let wanted = [
        ("2026-10-25T00:00:00Z", true),
        ("2026-10-25T00:31:00Z", false),
        ("2026-10-25T01:00:00Z", true),
        ("2026-10-25T01:31:00Z", false),
    ];
    assert_eq!(found, expected(&wanted));
}

#[test]
fn s18_a_zone_that_changes_by_half_an_hour_and_one_that_skipped_a_day() {
    // Lord Howe goes from 01:59 to 02:30 on 4 October 2026.
    let howe = calendar(&[window("02:00", "02:29", &[])], "Australia/Lord_Howe");
    let found = boundaries(&howe, "2026-10-02T20:00:00Z", 2);
    assert_eq!(found, expected(&[("2026-10-04T15:00:00Z", true), ("2026-10-04T15:30:00Z", false)]));
    // Apia went from Thursday, 29 December 2011, to Saturday.
    let friday = calendar(&[window("00:00", "23:59", &["Friday"])], "Pacific/Apia");
    assert_eq!(friday.next_transition(at("2011-12-29T00:00:00Z")).unwrap().to_string(), "2012-01-05T10:00:00Z");
}

#[test]
fn s18_beyond_eight_days_no_boundary_is_known() {
    let sunday = calendar(&[window("02:10", "02:20", &["Sunday"])], "Europe/Berlin");
    // The next Sunday skips the window, and the one after it is too far ahead, up to exactly eight days.
    assert_eq!(sunday.next_transition(at("2026-03-22T01:21:00Z")), None);
    assert_eq!(sunday.next_transition(at("2026-03-28T00:09:59Z")), None);
    assert_eq!(sunday.next_transition(at("2026-03-28T00:10:00Z")), Some(at("2026-04-05T00:10:00Z")));
}

#[test]
fn what_is_always_open_has_no_boundary() {
    for windows in [
        vec![],
        vec![window("00:00", "23:59", &[])],
        vec![window("08:01", "08:00", &[])],
        vec![window("00:00", "11:59", &[]), window("12:00", "23:59", &[])],
    ] {
        for reading in DaysApplyTo::ALL {
            let always = schedule(&windows, "Europe/Berlin", reading);
            for now in ["2026-03-29T01:00:00Z", "2026-10-25T00:30:00Z"] {
                assert_eq!(always.next_transition(at(now)), None);
                assert!(always.is_open(at(now)).is_open());
            }
        }
    }
    assert_eq!(calendar(&[], "UTC").is_open(at("2026-01-01T00:00:00Z")), Openness::Always);
}

#[test]
fn a_window_of_one_minute_is_open_for_one_minute() {
    let minute = calendar(&[window("12:34", "12:34", &["Wednesday"])], "UTC");
    let found = boundaries(&minute, "2026-06-01T00:00:00Z", 3);
    let wanted = [("2026-06-03T12:34:00Z", true), ("2026-06-03T12:35:00Z", false), ("2026-06-10T12:34:00Z", true)];
    assert_eq!(found, expected(&wanted));
    // A boundary is never the instant itself, and never misses the second after one.
    assert_eq!(minute.next_transition(at("2026-06-03T12:33:59.999999999Z")), Some(at("2026-06-03T12:34:00Z")));
    assert_eq!(minute.next_transition(at("2026-06-03T12:34:00.000000001Z")), Some(at("2026-06-03T12:35:00Z")));
}

#[test]
fn instants_at_the_ends_of_time_and_before_1970_are_read_like_all_others() {
    let noon = calendar(&[window("12:00", "12:59", &[])], "Europe/Berlin");
    assert_eq!(noon.next_transition(Timestamp::MAX), None);
    assert!(noon.next_transition(Timestamp::MIN).is_some());
    let before = calendar(&[window("12:00", "12:59", &[])], "UTC");
    let found = before.next_transition(at("1969-12-31T11:59:59.5Z"));
    assert_eq!(found, Some(at("1969-12-31T12:00:00Z")));
    assert_eq!(before.local(at("1969-12-31T23:59:59.5Z")).to_string(), "Wednesday 23:59");
}

#[test]
fn ten_thousand_windows_are_one_union() {
    let minute = |minute: usize| MinuteOfDay::new(u16::try_from(minute % 1440).unwrap()).unwrap();
    let window = |index: usize| {
        // All of them are within the day and none touches 12:00.
        let (from, to) = (minute(index * 7 % 700), minute(721 + index * 11 % 700));
        let days = super::super::window::Days::EVERY;
        if index.is_multiple_of(2) { TimeWindow::new(to, to, days) } else { TimeWindow::new(from, from, days) }
    };
    let many = calendar(&(0..10_000).map(window).collect::<Vec<_>>(), "Europe/Berlin");
    let found = boundaries(&many, "2026-06-01T09:59:30Z", 200);
    assert_eq!(found.len(), 200);
    assert!(found.iter().zip(found.iter().skip(1)).all(|(one, next)| one.1 != next.1));
}
