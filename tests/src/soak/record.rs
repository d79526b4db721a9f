//! The measurements, and whether they are flat.
//!
//! Replicas are compared with replicas in the same role: a leader uses more than a follower, and a replica that started
//! a moment ago uses less than either.

use std::collections::BTreeMap;
use std::time::Duration;

/// A resource that a process, or the whole cluster, uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// Resident memory in KiB.
    Memory,
    /// Threads.
    Threads,
    /// Open descriptors.
    Descriptors,
    /// Tasks of the runtime.
    Tasks,
    /// Keys that wait for a worker, or are in work, in all queues.
    Queued,
    /// Keys that are looked at later, at a set time, in all queues: at the next boundary of a window, or after a pause.
    Planned,
    /// Series of metrics.
    Series,
    /// Watches that are open at the API servers, of all replicas together.
    Watches,
}

impl Measure {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 8] = [
        Self::Memory,
        Self::Threads,
        Self::Descriptors,
        Self::Tasks,
        Self::Queued,
        Self::Planned,
        Self::Series,
        Self::Watches,
    ];

    /// Its name in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Memory => "RSS MiB",
            Self::Threads => "threads",
            Self::Descriptors => "descriptors",
            Self::Tasks => "tasks",
            Self::Queued => "queued",
            Self::Planned => "planned",
            Self::Series => "series",
            Self::Watches => "watches",
        }
    }

    /// How much more growth than the percentage is still flat: what one more of something costs at a bad moment.
    fn slack(self) -> u64 {
        match self {
            Self::Memory => 8 * 1024,
            Self::Threads => 4,
            Self::Descriptors | Self::Tasks => 8,
            Self::Queued | Self::Planned => 5,
            // Two histograms of what has not happened before.
            Self::Series => 40,
            Self::Watches => 2,
        }
    }

    /// What of a quarter is compared with another quarter.
    fn judged(self) -> Judged {
        match self {
            Self::Memory | Self::Threads | Self::Descriptors | Self::Tasks | Self::Series | Self::Watches => {
                Judged::Median
            }
            // An edit of a policy and a take-over have thousands of keys looked at, so the height of a queue shows when that was. What
            // is never worked off is there at every moment.
            Self::Queued => Judged::Least,
            // It follows from the windows and the pauses that there are at a moment: one key for each node that has one.
            Self::Planned => Judged::Not,
        }
    }

    /// A value as the table shows it.
    pub(super) fn shown(self, value: u64) -> u64 {
        if self == Self::Memory { value / 1024 } else { value }
    }
}

/// What of a quarter is compared with another quarter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judged {
    /// Its median: single peaks do not count.
    Median,
    /// Its least value: what never goes away.
    Least,
    /// Nothing.
    Not,
}

/// Replicas whose samples are compared with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// The replica that lives through all of it, while it follows.
    Steady,
    /// The same one, while it leads.
    Reigning,
    /// The one of the other replicas that leads, over all restarts.
    Leading,
    /// Those of the other replicas that follow.
    Following,
    /// All replicas together, while all of them run.
    Together,
}

impl Who {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 5] = [Self::Steady, Self::Reigning, Self::Leading, Self::Following, Self::Together];

    /// When its time begins, and how long it is, in a soak of this length.
    fn span(self, total: Duration) -> (Duration, Duration) {
        match self {
            Self::Steady | Self::Leading => (Duration::ZERO, total / 2),
            Self::Reigning => (total / 2, total / 2),
            Self::Following | Self::Together => (Duration::ZERO, total),
        }
    }

    /// Its headline in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Steady => "the replica that is never ended (follows)",
            Self::Reigning => "the replica that is never ended (leads)",
            Self::Leading => "replicas that lead, over restarts",
            Self::Following => "replicas that follow, over restarts",
            Self::Together => "all replicas together",
        }
    }
}

/// Growth that is still flat, in percent.
const GROWTH: u64 = 15;

/// Values with their times since the start.
pub(super) type Series = Vec<(Duration, u64)>;

/// Everything measured so far.
#[derive(Debug, Default)]
pub struct Record(BTreeMap<(Who, Measure), Series>);

impl Record {
    /// Adds a value.
    pub fn add(&mut self, who: Who, measure: Measure, at: Duration, value: u64) {
        self.0.entry((who, measure)).or_default().push((at, value));
    }

    /// Every series.
    pub(super) fn series(&self) -> impl Iterator<Item = (Who, Measure, &Series)> {
        self.0.iter().map(|((who, measure), series)| (*who, *measure, series))
    }

    /// One series; empty where there is none.
    pub(super) fn of(&self, who: Who, measure: Measure) -> &[(Duration, u64)] {
        self.0.get(&(who, measure)).map_or(&[], Vec::as_slice)
    }

    /// A verdict for each series that there has to be, over a soak of this length.
    pub fn verdicts(&self, total: Duration) -> Vec<Verdict> {
        let mut all = Vec::new();
        for who in Who::ALL {
            for measure in Measure::ALL {
                let is_measured = (who == Who::Together) == (measure == Measure::Watches);
                if is_measured && measure.judged() != Judged::Not {
                    all.push(Verdict::of(who, measure, self.of(who, measure), total));
                }
            }
        }
        all
    }
}

/// Least, median and greatest value of a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spread {
    pub(super) least: u64,
    pub(super) median: u64,
    pub(super) greatest: u64,
}

/// The spread of the values from `from` until before `to`; none if there are no values.
pub(super) fn spread(series: &[(Duration, u64)], from: Duration, to: Duration) -> Option<Spread> {
    let within = series.iter().filter(|(at, _)| (from..to).contains(at));
    let mut values: Vec<u64> = within.map(|(_, value)| *value).collect();
    values.sort_unstable();
    let (least, greatest) = (*values.first()?, *values.last()?);
    // Of an even number of values the upper one: there are no half descriptors.
    let median = *values.get(values.len() / 2)?;
    Some(Spread { least, median, greatest })
}

/// Whether one series is flat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The replicas.
    pub who: Who,
    /// The resource.
    pub measure: Measure,
    /// Of the second quarter of its time and of the last one, the median, or the least value of a queue; none where nothing was
    /// measured.
    pub typical: (Option<u64>, Option<u64>),
    /// The greatest last value that is flat.
    pub allowed: Option<u64>,
}

impl Verdict {
    /// The first quarter is for starting and warming up.
    fn of(who: Who, measure: Measure, series: &[(Duration, u64)], total: Duration) -> Self {
        let (from, length) = who.span(total);
        let typical = |quarter: u32| {
            // The last sample may come at the very end, or a moment later.
            let to = if quarter == 3 { Duration::MAX } else { from + length / 4 * (quarter + 1) };
            let spread = spread(series, from + length / 4 * quarter, to)?;
            match measure.judged() {
                Judged::Median => Some(spread.median),
                Judged::Least => Some(spread.least),
                Judged::Not => None,
            }
        };
        let (early, late) = (typical(1), typical(3));
        let allowed = early.map(|early| early.saturating_add(early * GROWTH / 100).saturating_add(measure.slack()));
        Self { who, measure, typical: (early, late), allowed }
    }

    /// Whether it is flat; a series that was not measured is not.
    pub fn is_flat(&self) -> bool {
        self.allowed.zip(self.typical.1).is_some_and(|(allowed, late)| late <= allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOTAL: Duration = Duration::from_secs(400);

    /// One value for each quarter, ten times.
    fn verdict(measure: Measure, quarters: [u64; 4]) -> Verdict {
        let mut record = Record::default();
        for (second, value) in (0..).step_by(10).zip(quarters.into_iter().flat_map(|value| [value; 10])) {
            record.add(Who::Following, measure, Duration::from_secs(second), value);
        }
        let all = record.verdicts(TOTAL);
        all.into_iter().find(|it| (it.who, it.measure) == (Who::Following, measure)).unwrap()
    }

    #[test]
    fn growth_by_the_share_and_the_slack_is_flat_and_one_more_is_not() {
        for (measure, early, last) in [
            (Measure::Memory, 100 * 1024, 123 * 1024),
            (Measure::Threads, 20, 27),
            (Measure::Descriptors, 100, 123),
            (Measure::Tasks, 40, 54),
            (Measure::Queued, 0, 5),
            (Measure::Series, 300, 385),
        ] {
            assert!(verdict(measure, [0, early, 9 * early, last]).is_flat(), "{measure:?}");
            assert!(!verdict(measure, [0, early, 0, last + 1]).is_flat(), "{measure:?}");
        }
    }

    #[test]
    fn what_becomes_less_is_flat() {
        assert!(verdict(Measure::Tasks, [900, 90, 9, 0]).is_flat());
    }

    #[test]
    fn single_peaks_do_not_count() {
        let mut record = Record::default();
        for second in 0..400 {
            let value = if second % 10 == 0 { 1000 } else { 20 };
            record.add(Who::Together, Measure::Watches, Duration::from_secs(second), value);
        }
        let verdicts = record.verdicts(TOTAL);
        let watches = verdicts.iter().find(|it| it.measure == Measure::Watches).unwrap();
        assert_eq!((watches.typical, watches.allowed), ((Some(20), Some(20)), Some(25)));
        assert!(watches.is_flat());
    }

    #[test]
    fn a_queue_that_is_worked_off_is_flat_and_one_with_a_rest_that_stays_is_not() {
        let of_queue = |values: [[u64; 3]; 4]| {
            let mut record = Record::default();
            for (second, value) in (0..).step_by(30).zip(values.into_iter().flatten()) {
                // Quarters are of 100 s; the last value of each is not at its end.
                record.add(Who::Following, Measure::Queued, Duration::from_secs(second + second / 90 * 10), value);
            }
            let all = record.verdicts(TOTAL);
            all.into_iter().find(|it| (it.who, it.measure) == (Who::Following, Measure::Queued)).unwrap()
        };
        let worked_off = of_queue([[900, 0, 900], [2, 900, 10], [900, 900, 900], [4000, 7, 4000]]);
        assert_eq!((worked_off.typical, worked_off.allowed), ((Some(2), Some(7)), Some(7)));
        assert!(worked_off.is_flat());
        assert!(!of_queue([[0, 0, 0], [2, 900, 10], [0, 0, 0], [4000, 8, 4000]]).is_flat());
    }

    #[test]
    fn what_is_planned_is_shown_and_not_judged() {
        let mut record = Record::default();
        record.add(Who::Following, Measure::Planned, TOTAL / 3, 7);
        assert_eq!(record.of(Who::Following, Measure::Planned).len(), 1);
        assert!(record.verdicts(TOTAL).iter().all(|verdict| verdict.measure != Measure::Planned));
    }

    #[test]
    fn what_was_not_measured_is_not_flat() {
        let mut record = Record::default();
        record.add(Who::Leading, Measure::Tasks, TOTAL / 6, 7);
        let verdicts = record.verdicts(TOTAL);
        // Six measures of four kinds of replicas, and the watches.
        assert_eq!(verdicts.len(), 25);
        assert!(verdicts.iter().all(|verdict| !verdict.is_flat()));
        record.add(Who::Leading, Measure::Tasks, TOTAL, 7);
        assert_eq!(record.verdicts(TOTAL).iter().filter(|verdict| verdict.is_flat()).count(), 1);
    }

    #[test]
    fn a_long_reign_is_compared_within_the_second_half() {
        let mut record = Record::default();
        let at = |second: u64| Duration::from_secs(second);
        // It leads from 200 s on: what it held as a follower, and while it took over, does not count.
        for (second, tasks) in [(100, 1), (210, 900), (260, 50), (310, 900), (399, 61)] {
            record.add(Who::Reigning, Measure::Tasks, at(second), tasks);
        }
        let verdicts = record.verdicts(TOTAL);
        let reign = verdicts.iter().find(|it| (it.who, it.measure) == (Who::Reigning, Measure::Tasks)).unwrap();
        assert_eq!((reign.typical, reign.is_flat()), ((Some(50), Some(61)), true));
        record.add(Who::Reigning, Measure::Tasks, at(400), 70);
        assert!(!record.verdicts(TOTAL).iter().any(|it| it.who == Who::Reigning && it.is_flat()));
    }

    #[test]
    fn a_spread_is_that_of_its_stretch_alone() {
        let at = Duration::from_secs;
        let series = [(at(1), 5), (at(2), 1), (at(3), 9), (at(4), 100)];
        let found = spread(&series, at(1), at(4));
        assert_eq!(found, Some(Spread { least: 1, median: 5, greatest: 9 }));
        assert_eq!(spread(&series, at(5), at(9)), None);
    }
}
