//! The one place that writes to standard output and standard error.

use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether an answer could not be written.
static FAILED: AtomicBool = AtomicBool::new(false);

/// Prints an answer. A reader that went away is no failure; a full disk is one, see [`failed`].
pub(super) fn out(text: &str) {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(cause) if cause.kind() != ErrorKind::BrokenPipe => {
            FAILED.store(true, Ordering::SeqCst);
            error(&format!("topoloom: the answer could not be written: {cause}"));
        }
        _ => {}
    }
}

/// Whether an answer could not be written completely.
pub(super) fn failed() -> bool {
    FAILED.load(Ordering::SeqCst)
}

/// Prints a remark or a failure.
pub(super) fn error(text: &str) {
    let mut stderr = std::io::stderr().lock();
    // Where standard error is closed, there is no other place to say it.
    let _ = writeln!(stderr, "{text}");
}

/// Columns of text, each as wide as its widest cell, with two blanks between.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width + 2 - cell.chars().count()));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The two largest units of a time in seconds; one below zero is in the future by the clock of this machine.
pub(super) fn span(seconds: i64) -> String {
    let sign = if seconds < 0 { "-" } else { "" };
    let seconds = seconds.unsigned_abs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{sign}{seconds}s"),
        (0, 0, _) => format!("{sign}{minutes}m{}s", seconds % 60),
        (0, ..) => format!("{sign}{hours}h{}m", minutes % 60),
        _ => format!("{sign}{days}d{}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_their_two_largest_units() {
        for (seconds, said) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m0s"),
            (3_599, "59m59s"),
            (3_600, "1h0m"),
            (86_399, "23h59m"),
            (90_061, "1d1h"),
            (-300, "-5m0s"),
        ] {
            assert_eq!(span(seconds), said);
        }
    }
}
