//! The table that is printed: every number with what it is compared with.

use std::fmt;
use std::time::Duration;

const HEADS: [&str; 6] = ["measure", "value", "compared with", "ratio", "target", ""];

/// All rows so far.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<[String; 6]>,
}

/// One row under construction.
#[derive(Debug)]
pub(crate) struct Row {
    cells: [String; 6],
}

/// The limit for a measured number.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    AtMost(f64),
    Below(f64),
    /// No limit: the number is only shown.
    None,
}

impl Target {
    fn verdict(self, number: f64) -> &'static str {
        let holds = match self {
            Self::AtMost(bound) => number <= bound,
            Self::Below(bound) => number < bound,
            Self::None => return "",
        };
        if holds { "ok" } else { "over" }
    }
}

impl Table {
    /// Adds a row, and prints it at once: all rows together take minutes.
    pub(crate) fn add(&mut self, row: Row) {
        let [measure, value, compared, ratio, target, verdict] = &row.cells;
        println!("{measure}: {value} {compared} {ratio} {target} {verdict}");
        self.rows.push(row.cells);
    }
}

impl Row {
    pub(crate) fn new(measure: impl Into<String>, value: impl Into<String>) -> Self {
        let mut cells = [const { String::new() }; 6];
        [cells[0], cells[1]] = [measure.into(), value.into()];
        Self { cells }
    }

    /// A duration compared with another one; the target is for their ratio.
    pub(crate) fn against(self, what: &str, value: Duration, other: Duration, target: Target) -> Self {
        self.beside(what, value.as_secs_f64(), other.as_secs_f64(), seconds, target)
    }

    /// A number compared with another one, in the unit that `show` writes; the target is for their ratio.
    pub(crate) fn beside(
        mut self,
        what: &str,
        value: f64,
        other: f64,
        show: impl Fn(f64) -> String,
        target: Target,
    ) -> Self {
        let ratio = value / other;
        self.cells[2] = format!("{what} {}", show(other));
        self.cells[3] = format!("{ratio:.2}");
        self.cells[4] = match target {
            Target::AtMost(bound) => format!("≤ {bound} ×"),
            Target::Below(bound) => format!("< {bound} ×"),
            Target::None => String::new(),
        };
        self.cells[5] = target.verdict(ratio).to_owned();
        self
    }

    /// A number with a target of its own, in the unit that `show` writes.
    pub(crate) fn target(mut self, number: f64, target: Target, show: impl Fn(f64) -> String) -> Self {
        self.cells[4] = match target {
            Target::AtMost(bound) => format!("≤ {}", show(bound)),
            Target::Below(bound) => format!("< {}", show(bound)),
            Target::None => String::new(),
        };
        self.cells[5] = target.verdict(number).to_owned();
        self
    }

    /// A check, which holds or does not.
    pub(crate) fn exactly(mut self, holds: bool, wanted: String) -> Self {
        self.cells[4] = wanted;
        self.cells[5] = if holds { "ok" } else { "over" }.to_owned();
        self
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = HEADS.map(str::to_owned);
        let rows = || std::iter::once(&heads).chain(&self.rows);
        let width = |column: usize| rows().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; 6] = std::array::from_fn(width);
        for row in rows() {
            let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            writeln!(f, "{}", cells.join(" | ").trim_end_matches([' ', '|']))?;
            if *row == heads {
                let lines: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
                writeln!(f, "{}", lines.join("-|-"))?;
            }
        }
        Ok(())
    }
}

/// A duration with at least two significant digits.
pub(crate) fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        _ if seconds >= 10.0 => format!("{seconds:.1} s"),
        _ if seconds >= 1.0 => format!("{seconds:.2} s"),
        _ if seconds >= 0.1 => format!("{:.0} ms", seconds * 1e3),
        _ if seconds >= 0.01 => format!("{:.1} ms", seconds * 1e3),
        _ if seconds >= 0.001 => format!("{:.2} ms", seconds * 1e3),
        _ => format!("{:.0} µs", seconds * 1e6),
    }
}

/// A number of seconds, as [`time`] writes it.
pub(crate) fn seconds(seconds: f64) -> String {
    time(Duration::from_secs_f64(seconds))
}

/// A number of MiB.
pub(crate) fn mib(mib: f64) -> String {
    format!("{mib:.1} MiB")
}
