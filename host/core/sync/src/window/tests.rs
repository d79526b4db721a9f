use super::*;

fn window(start: &str, end: &str, days: &[&str]) -> Result<TimeWindow, Vec<String>> {
    let days: Vec<String> = days.iter().map(|day| (*day).to_owned()).collect();
    TimeWindow::parse(start, end, &days).map_err(|errors| errors.iter().map(WindowError::to_string).collect())
}

fn minute(text: &str) -> MinuteOfDay {
    MinuteOfDay::parse(text).unwrap()
}

#[test]
fn minutes_are_five_characters_within_a_day() {
    for (text, minutes) in [("00:00", 0), ("08:05", 485), ("23:59", 1439)] {
        assert_eq!(MinuteOfDay::parse(text).map(MinuteOfDay::get), Some(minutes));
        assert_eq!(minute(text).to_string(), text);
    }
    for text in
        ["24:00", "7:30", "07:60", "", ":", "07-30", "07:3", "007:30", "+7:30", " 7:30", "07:30 ", "０7:30", "ab:cd"]
    {
        assert_eq!(MinuteOfDay::parse(text), None, "{text:?}");
    }
    assert_eq!(MinuteOfDay::new(1439), Some(MinuteOfDay::LAST));
    assert_eq!(MinuteOfDay::new(1440), None);
}

#[test]
fn d5_a_window_is_refused_with_all_its_problems_and_what_was_meant() {
    let time = "must be a time of the day as HH:MM from 00:00 to 23:59, got";
    let day = "must be the English name of a weekday in full, Monday to Sunday, got";
    let refused = window("7:30", "24:00", &["Friday", "mon", "Sumday", "", "Freitag"]).unwrap_err();
    assert_eq!(
        refused,
        [
            format!("start {time} \"7:30\" (did you mean \"07:30\"?)"),
            format!("end {time} \"24:00\" (did you mean \"23:59\"?)"),
            format!("days[1] {day} \"mon\" (did you mean \"Monday\"?)"),
            format!("days[2] {day} \"Sumday\" (did you mean \"Sunday\"?)"),
            format!("days[3] {day} \"\""),
            format!("days[4] {day} \"Freitag\""),
        ]
    );
    assert_eq!(window("24:00", "x", &[]).unwrap_err().len(), 2);
    assert!(window("24:00", "23:59", &[]).unwrap_err()[0].ends_with("(did you mean \"00:00\"?)"));
    assert_eq!(window("", "", &["é"]).unwrap_err().len(), 3);
}

#[test]
fn days_are_named_in_any_letter_case_and_none_are_all() {
    let named = window("08:00", "09:00", &["FRIDAY", "friday", "monday"]).unwrap();
    assert_eq!(named.days(), Days::of([Weekday::Monday, Weekday::Friday]));
    assert_eq!(named.to_string(), "08:00-09:00 Monday, Friday");
    let every = window("08:00", "09:00", &[]).unwrap();
    assert_eq!((every.days(), every.to_string().as_str()), (Days::EVERY, "08:00-09:00 every day"));
    assert_eq!(Days::EVERY.iter().count(), 7);
}

#[test]
fn both_ends_of_a_window_belong_to_it() {
    let window = window("08:00", "09:30", &["Monday"]).unwrap();
    for reading in DaysApplyTo::ALL {
        for (text, accepted) in [("07:59", false), ("08:00", true), ("09:30", true), ("09:31", false)] {
            assert_eq!(window.accepts(Weekday::Monday, minute(text), reading), accepted, "{text}");
            assert!(!window.accepts(Weekday::Tuesday, minute(text), reading));
        }
    }
}

#[test]
fn d10_an_overnight_window_counts_by_the_calendar_or_by_its_start() {
    let window = window("22:00", "06:00", &["Friday"]).unwrap();
    use Weekday::{Friday, Saturday, Thursday};
    for (day, text, calendar, start) in [
        (Friday, "03:00", true, false),
        (Friday, "06:00", true, false),
        (Friday, "06:01", false, false),
        (Friday, "21:59", false, false),
        (Friday, "22:00", true, true),
        (Friday, "23:59", true, true),
        (Saturday, "00:00", false, true),
        (Saturday, "06:00", false, true),
        (Saturday, "06:01", false, false),
        (Saturday, "22:00", false, false),
        (Thursday, "22:00", false, false),
    ] {
        let accepts = DaysApplyTo::ALL.map(|reading| window.accepts(day, minute(text), reading));
        assert_eq!(accepts, [calendar, start], "{day:?} {text}");
    }
    for reading in DaysApplyTo::ALL {
        assert_eq!(DaysApplyTo::parse(reading.word()), Some(reading));
    }
    assert_eq!(DaysApplyTo::parse("Start"), None);
}
