//! The record as text.

use std::fmt::Write;
use std::time::Duration;

use super::record::{Measure, Record, Verdict, Who, spread};

const MINUTE: Duration = Duration::from_secs(60);

/// Minute by minute, least/median/greatest of each measure.
pub fn minutes(record: &Record) -> String {
    let last = record.series().flat_map(|(.., series)| series.last()).map(|(at, _)| at.as_secs() / 60).max();
    let mut text = String::new();
    for who in Who::ALL {
        let measures: Vec<Measure> =
            Measure::ALL.into_iter().filter(|measure| !record.of(who, *measure).is_empty()).collect();
        if measures.is_empty() {
            continue;
        }
        let _ = write!(text, "\n{}: least/median/greatest\nminute", who.name());
        for measure in &measures {
            let _ = write!(text, " {:>15}", measure.name());
        }
        text.push('\n');
        for minute in 0..=last.unwrap_or_default() {
            let from = MINUTE * u32::try_from(minute).unwrap_or(u32::MAX);
            let _ = write!(text, "{:>6}", minute + 1);
            for measure in &measures {
                let cell = spread(record.of(who, *measure), from, from + MINUTE).map_or("-".to_owned(), |it| {
                    let [least, median, greatest] = [it.least, it.median, it.greatest].map(|it| measure.shown(it));
                    format!("{least}/{median}/{greatest}")
                });
                let _ = write!(text, " {cell:>15}");
            }
            text.push('\n');
        }
    }
    text
}

/// Each verdict in a line, under a headline.
pub fn verdicts(all: &[Verdict]) -> String {
    let mut text = String::from(
        "\nmedians, and the least of what is queued: second quarter of its time, last quarter, the most that is flat\n",
    );
    for verdict in all {
        let measure = verdict.measure;
        let cell = |value: Option<u64>| value.map_or("-".to_owned(), |value| measure.shown(value).to_string());
        let word = match (verdict.is_flat(), verdict.typical) {
            (true, _) => "flat",
            (false, (Some(_), Some(_))) => "NOT FLAT",
            (false, _) => "NOT MEASURED",
        };
        let (early, late) = verdict.typical;
        let (early, late, allowed) = (cell(early), cell(late), cell(verdict.allowed));
        let who = verdict.who.name();
        let _ = writeln!(text, "{who:<42} {:<12} {early:>6} {late:>6} {allowed:>6}  {word}", measure.name());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_rows_and_measures_are_columns() {
        let mut record = Record::default();
        for (second, mebibytes, tasks) in [(1, 40, 9), (2, 60, 7), (3, 50, 8), (121, 70, 5)] {
            record.add(Who::Steady, Measure::Memory, Duration::from_secs(second), mebibytes * 1024);
            record.add(Who::Steady, Measure::Tasks, Duration::from_secs(second), tasks);
        }
        let expected = "
the replica that is never ended (follows): least/median/greatest
minute         RSS MiB           tasks
     1        40/50/60           7/8/9
     2               -               -
     3        70/70/70           5/5/5
";
        assert_eq!(minutes(&record), expected);
        assert_eq!(minutes(&Record::default()), "");
    }

    #[test]
    fn a_verdict_says_what_was_found_and_what_is_allowed() {
        let mut record = Record::default();
        let total = Duration::from_secs(40);
        for (second, tasks) in [(7, 100), (17, 124)] {
            record.add(Who::Leading, Measure::Tasks, Duration::from_secs(second), tasks);
            record.add(Who::Steady, Measure::Tasks, Duration::from_secs(second), 8);
        }
        let text = verdicts(&record.verdicts(total));
        let line = |start: &str| text.lines().find(|line| line.starts_with(start) && line.contains("tasks")).unwrap();
        let words = |line: &str| line.split_whitespace().rev().take(5).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(line("replicas that lead")), ["FLAT", "NOT", "123", "124", "100"]);
        assert_eq!(words(line("the replica")), ["flat", "17", "8", "8", "tasks"]);
        assert!(line("replicas that follow").ends_with("NOT MEASURED"));
    }
}
