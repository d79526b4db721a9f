//! A report as JUnit writes one: what pipelines read. A family is a suite, a check a case; a warning is text beside it, since the
//! format has no word for one.

use std::fmt::Write as _;
use std::time::Duration;

use super::check::{Check, Family};
use super::report::{Finding, Level, Line, Mark, Report};

/// The document, with the name of what was examined.
#[must_use]
pub fn document(report: &Report, name: &str) -> String {
    let mut families: Vec<Family> = Vec::new();
    for line in &report.lines {
        let family = line.check.family();
        if !families.contains(&family) {
            families.push(family);
        }
    }
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    let _ = writeln!(text, "<testsuites name=\"{}\"{}>", escaped(name), numbers(report.lines.iter()));
    for family in families {
        let lines = || report.lines.iter().filter(|line| line.check.family() == family);
        let _ = writeln!(text, "  <testsuite name=\"{family}\"{}>", numbers(lines()));
        lines().for_each(|line| case(&mut text, line));
        text.push_str("  </testsuite>\n");
    }
    text + "</testsuites>\n"
}

fn numbers<'a>(lines: impl Iterator<Item = &'a Line>) -> String {
    let (mut tests, mut failures, mut skipped, mut took) = (0, 0, 0, Duration::ZERO);
    for line in lines {
        tests += 1;
        failures += usize::from(line.mark() == Mark::Failed);
        skipped += usize::from(line.mark() == Mark::Skipped);
        took += line.took;
    }
    let time = took.as_secs_f64();
    format!(" tests=\"{tests}\" failures=\"{failures}\" skipped=\"{skipped}\" time=\"{time:.3}\"")
}

fn case(text: &mut String, line: &Line) {
    let Line { check, took, findings, note, .. } = line;
    let (family, time) = (check.family(), took.as_secs_f64());
    let _ = write!(text, "    <testcase classname=\"{family}\" name=\"{check}\" time=\"{time:.3}\">");
    if let Some(why) = line.reason() {
        let _ = write!(text, "<skipped message=\"{}\"/>", escaped(&why));
    }
    let of = |level: Level| findings.iter().filter(move |finding| finding.level == level);
    if let Some(first) = of(Level::Error).next() {
        let (first, all) = (escaped(&first.to_string()), listed(*check, of(Level::Error)));
        let _ = write!(text, "<failure type=\"{check}\" message=\"{first}\">{all}</failure>");
    }
    let warnings = of(Level::Warning).map(|warning| format!("warning: {warning}"));
    let said: Vec<String> = note.iter().cloned().chain(warnings).collect();
    if !said.is_empty() {
        let _ = write!(text, "<system-out>{}</system-out>", escaped(&said.join("\n")));
    }
    text.push_str("</testcase>\n");
}

fn listed<'a>(check: Check, findings: impl Iterator<Item = &'a Finding>) -> String {
    let lines: Vec<String> = findings.map(ToString::to_string).chain([check.anchor()]).collect();
    escaped(&lines.join("\n"))
}

/// A text within a document or an attribute. Characters that XML has no place for are left out.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::report::Ledger;

    #[test]
    fn what_xml_has_no_place_for_is_left_out() {
        assert_eq!(escaped("a\u{fffe}\u{ffff}\u{1}\u{fffd}\n<"), "a\u{fffd}&#10;&lt;");
    }

    #[test]
    fn a_family_is_a_suite_and_a_check_a_case() {
        let mut ledger = Ledger::default();
        let mut sheet = ledger.open(Check::FileLoads).unwrap();
        sheet.warning(None, "large");
        sheet.note("5 MiB".to_owned());
        ledger.close(sheet);
        let mut sheet = ledger.open(Check::SoundNoNodes).unwrap();
        sheet.error(Some("a<b"), "crash & burn");
        sheet.error(None, "\"again\"");
        ledger.close(sheet);
        ledger.skip_all(&[Check::SoundBytes], "no annotation");
        let report = ledger.report();
        let text = document(&report, "racks.wasm");
        let without_times: Vec<String> = text
            .split(" time=\"")
            .map(|part| {
                part.split_once('"')
                    .filter(|(time, _)| time.parse::<f64>().is_ok())
                    .map_or(part, |(_, rest)| rest)
                    .to_owned()
            })
            .collect();
        assert_eq!(
            without_times.concat(),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <testsuites name=\"racks.wasm\" tests=\"3\" failures=\"1\" skipped=\"1\">\n  \
             <testsuite name=\"file\" tests=\"1\" failures=\"0\" skipped=\"0\">\n    \
             <testcase classname=\"file\" name=\"file-loads\"><system-out>5 MiB&#10;warning: large</system-out></testcase>\n  \
             </testsuite>\n  \
             <testsuite name=\"sound\" tests=\"2\" failures=\"1\" skipped=\"1\">\n    \
             <testcase classname=\"sound\" name=\"sound-no-nodes\"><failure type=\"sound-no-nodes\" \
             message=\"case a&lt;b: crash &amp; burn\">case a&lt;b: crash &amp; burn&#10;&quot;again&quot;&#10;\
             docs/vendors/testing.md#sound-no-nodes</failure></testcase>\n    \
             <testcase classname=\"sound\" name=\"sound-bytes\"><skipped message=\"no annotation\"/></testcase>\n  \
             </testsuite>\n</testsuites>\n"
        );
    }
}
