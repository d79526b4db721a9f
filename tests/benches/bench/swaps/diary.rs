//! What the host wrote into its log, with the times that it wrote there.

use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::Value;
use topoloom_tests::host::Host;

/// One line of interest.
pub(super) struct Line {
    pub(super) at: Timestamp,
    fields: Value,
}

/// The lines of a source with one of these messages, in their order.
pub(super) fn lines(host: &Host, source: &str, messages: &[&str]) -> Result<Vec<Line>> {
    let all = host.log().into_iter().filter_map(|line| serde_json::from_str::<Value>(&line).ok());
    let wanted = |fields: &Value| {
        let message = fields["message"].as_str().unwrap_or_default();
        fields["source"] == source && messages.contains(&message)
    };
    let line = |fields: Value| {
        let at = fields["timestamp"].as_str().context("a line has a time")?.parse()?;
        Ok(Line { at, fields })
    };
    all.filter(wanted).map(line).collect()
}

impl Line {
    /// How long a round took; its line is written at its end.
    pub(super) fn took(&self) -> Result<Duration> {
        self.duration("took")
    }

    /// A field that is a duration.
    pub(super) fn duration(&self, field: &str) -> Result<Duration> {
        let text = self.fields[field].as_str().with_context(|| format!("a line has no {field}"))?;
        // The text is the `Debug` form of `Duration`.
        let number = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let unit = match &text[number.len()..] {
            "ns" => 1e-9,
            "µs" => 1e-6,
            "ms" => 1e-3,
            _ => 1.0,
        };
        Ok(Duration::from_secs_f64(number.parse::<f64>().with_context(|| format!("{text} is no duration"))? * unit))
    }
}

/// The time between two moments; zero if the second is before the first.
pub(super) fn between(from: Timestamp, to: Timestamp) -> Duration {
    to.duration_since(from).try_into().unwrap_or_default()
}
