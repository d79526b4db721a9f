//! What the kit found, and how it is kept while checks run.
//!
//! A line for each check, in the order of the table. Texts of plugins are made fit for a terminal where they come in.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use topoloom_core::text;

use super::check::Check;

/// The longest finding, in bytes: a sentence of the host about an answer may list what is wrong with it.
const FINDING: usize = 1 << 10;

/// Findings of one check that are printed: the first ones say what is wrong.
const SHOWN: usize = 5;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// It works, and it could be better.
    Warning,
    /// A promise of the interface is broken, or a host would refuse it.
    Error,
}

impl Level {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// The case that shows it, if it needs one.
    pub case: Option<String>,
    /// What is wrong.
    pub text: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.case {
            Some(case) => write!(f, "case {case}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

/// Why a check was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Skip {
    /// It builds on this one, which failed or was left out for the same reason.
    After(Check),
    /// There is nothing to try it with.
    Nothing(String),
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mark {
    /// It holds.
    Passed,
    /// It holds, with a warning.
    Warned,
    /// It does not hold.
    Failed,
    /// It was left out.
    Skipped,
}

impl Mark {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "pass",
            Self::Warned => "warn",
            Self::Failed => "FAIL",
            Self::Skipped => "skip",
        }
    }
}

/// One check and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The check.
    pub check: Check,
    /// What it found.
    pub findings: Vec<Finding>,
    /// Why it was left out, if it was.
    pub skipped: Option<Skip>,
    /// What it measured, in words.
    pub note: Option<String>,
    /// How long it took.
    pub took: Duration,
}

impl Line {
    /// How it ended.
    #[must_use]
    pub fn mark(&self) -> Mark {
        match self.findings.iter().map(|finding| finding.level).max() {
            Some(Level::Error) => Mark::Failed,
            Some(Level::Warning) => Mark::Warned,
            None if self.skipped.is_some() => Mark::Skipped,
            None => Mark::Passed,
        }
    }

    /// Why it was left out, in words.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        self.skipped.as_ref().map(|skip| match skip {
            Skip::After(check) => format!("{check} failed"),
            Skip::Nothing(why) => why.clone(),
        })
    }
}

/// Everything that was found about one plugin.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// One line for each check, in the order of the table.
    pub lines: Vec<Line>,
}

impl Report {
    /// Whether a check failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.lines.iter().any(|line| line.mark() == Mark::Failed)
    }

    /// The line of a check.
    #[must_use]
    pub fn line(&self, check: Check) -> Option<&Line> {
        self.lines.iter().find(|line| line.check == check)
    }

    /// The checks with a finding, each with its worst one.
    pub fn found(&self) -> impl Iterator<Item = (Check, Level)> + '_ {
        self.lines.iter().filter_map(|line| {
            let worst = line.findings.iter().map(|finding| finding.level).max()?;
            Some((line.check, worst))
        })
    }

    /// How many checks ended in which way.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<Mark, usize> {
        let mut counts = BTreeMap::new();
        for line in &self.lines {
            *counts.entry(line.mark()).or_default() += 1;
        }
        counts
    }

    /// One line per check, below it what it found and where that is explained, last the numbers.
    #[must_use]
    pub fn text(&self) -> String {
        let width = Check::ALL.iter().map(|check| check.id().len()).max().unwrap_or(0);
        let mut text = String::new();
        for line in &self.lines {
            let (mark, id) = (line.mark().as_str(), line.check.id());
            let about = match (line.reason(), &line.note) {
                (Some(why), _) => why,
                (None, Some(note)) => format!("{}: {note}", line.check.says()),
                (None, None) => line.check.says().to_owned(),
            };
            let _ = writeln!(text, "{mark}  {id:width$}  {about}");
            for finding in line.findings.iter().take(SHOWN) {
                let _ = writeln!(text, "      {finding}");
            }
            let more = line.findings.len().saturating_sub(SHOWN);
            if more > 0 {
                let _ = writeln!(text, "      and {more} more");
            }
            if !line.findings.is_empty() {
                let _ = writeln!(text, "      {}", line.check.anchor());
            }
        }
        text + &self.summary()
    }

    /// The numbers, in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let counts = self.counts();
        let count = |mark: Mark| counts.get(&mark).copied().unwrap_or(0);
        format!(
            "{} checks: {} passed, {} with a warning, {} failed, {} left out\n",
            self.lines.len(),
            count(Mark::Passed),
            count(Mark::Warned),
            count(Mark::Failed),
            count(Mark::Skipped)
        )
    }
}

/// The lines while checks run.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    lines: Vec<Line>,
}

impl Ledger {
    /// Begins a check; `None` where one that it builds on failed, which is noted.
    pub(super) fn open(&mut self, check: Check) -> Option<Sheet> {
        let lost = check.needs().iter().copied().find(|needed| self.is_lost(*needed));
        if let Some(lost) = lost {
            // The one that failed, and not the last one of a chain of those that were left out.
            let cause = match self.skip_of(lost) {
                Some(Skip::After(cause)) => *cause,
                _ => lost,
            };
            self.skip(check, Skip::After(cause));
            return None;
        }
        Some(Sheet { check, findings: Vec::new(), note: None, nothing: None, is_tried: false, began: Instant::now() })
    }

    /// Notes what a check found.
    pub(super) fn close(&mut self, sheet: Sheet) {
        let Sheet { check, findings, note, nothing, is_tried: _, began } = sheet;
        let skipped = nothing.filter(|_| findings.is_empty()).map(Skip::Nothing);
        self.lines.push(Line { check, findings, skipped, note, took: began.elapsed() });
    }

    /// Notes why a check was left out.
    pub(super) fn skip(&mut self, check: Check, why: Skip) {
        self.lines.push(Line { check, findings: Vec::new(), skipped: Some(why), note: None, took: Duration::ZERO });
    }

    /// Notes that checks have nothing to try.
    pub(super) fn skip_all(&mut self, checks: &[Check], why: &str) {
        for check in checks {
            if self.open(*check).is_some() {
                self.skip(*check, Skip::Nothing(why.to_owned()));
            }
        }
    }

    /// Notes every check that no family came to: it builds on one that failed, or there is nothing to try.
    pub(super) fn fill(&mut self) {
        let known = |ledger: &Self, check: Check| ledger.lines.iter().any(|line| line.check == check);
        let mut left: Vec<Check> = Check::ALL.iter().copied().filter(|check| !known(self, *check)).collect();
        let is_next = |ledger: &Self, check: &Check| check.needs().iter().all(|needed| known(ledger, *needed));
        while let Some(at) = left.iter().position(|check| is_next(self, check)) {
            self.skip_all(&[left.remove(at)], "there is nothing to try it with");
        }
    }

    /// Whether a check failed, or was left out because another one did.
    fn is_lost(&self, check: Check) -> bool {
        let line = self.lines.iter().find(|line| line.check == check);
        line.is_some_and(|line| line.mark() == Mark::Failed || matches!(line.skipped, Some(Skip::After(_))))
    }

    fn skip_of(&self, check: Check) -> Option<&Skip> {
        self.lines.iter().find(|line| line.check == check).and_then(|line| line.skipped.as_ref())
    }

    /// The report, in the order of the table.
    pub(super) fn report(mut self) -> Report {
        self.lines.sort_by_key(|line| line.check);
        Report { lines: self.lines }
    }
}

/// One check while it runs.
#[derive(Debug)]
pub(super) struct Sheet {
    check: Check,
    findings: Vec<Finding>,
    note: Option<String>,
    nothing: Option<String>,
    /// Whether something was tried with it.
    is_tried: bool,
    began: Instant,
}

impl Sheet {
    /// Something is wrong.
    pub(super) fn error(&mut self, case: Option<&str>, what: &str) {
        self.find(Level::Error, case, what);
    }

    /// Something could be better.
    pub(super) fn warning(&mut self, case: Option<&str>, what: &str) {
        self.find(Level::Warning, case, what);
    }

    /// What was measured.
    pub(super) fn note(&mut self, note: String) {
        self.note = Some(text::line(&note, FINDING));
    }

    /// There was nothing to try it with; what was found counts more.
    pub(super) fn nothing(&mut self, why: &str) {
        self.nothing = Some(text::line(why, FINDING));
    }

    /// Something was tried with it after all.
    pub(super) fn tried(&mut self) {
        self.nothing = None;
        self.is_tried = true;
    }

    /// One thing could not be tried, which is the reason if nothing else was.
    pub(super) fn untried(&mut self, why: &str) {
        if !self.is_tried {
            self.nothing(why);
        }
    }

    fn find(&mut self, level: Level, case: Option<&str>, what: &str) {
        let text = text::line(what, FINDING);
        self.findings.push(Finding { level, case: case.map(|case| text::line(case, FINDING)), text });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(report: &Report) -> Vec<(&'static str, Mark)> {
        report.lines.iter().map(|line| (line.check.id(), line.mark())).collect()
    }

    #[test]
    fn what_builds_on_a_failed_check_is_left_out_with_the_one_that_failed() {
        let mut ledger = Ledger::default();
        let mut sheet = ledger.open(Check::FileLoads).unwrap();
        sheet.error(None, "no WebAssembly");
        ledger.close(sheet);
        for check in [Check::DescribeName, Check::DescribeAnswers, Check::DescribeSchema] {
            // In the order of the table the first would come last.
            assert_eq!(ledger.open(check).is_some(), check == Check::DescribeName, "{check}");
        }
        let report = ledger.report();
        assert_eq!(
            marks(&report),
            [("file-loads", Mark::Failed), ("describe-answers", Mark::Skipped), ("describe-schema", Mark::Skipped)]
        );
        let reasons: Vec<_> = report.lines.iter().filter_map(Line::reason).collect();
        assert_eq!(reasons, ["file-loads failed", "file-loads failed"]);
    }

    #[test]
    fn a_warning_and_nothing_to_try_stop_no_other_check() {
        let mut ledger = Ledger::default();
        let mut sheet = ledger.open(Check::FileLoads).unwrap();
        sheet.warning(None, "large");
        ledger.close(sheet);
        let mut sheet = ledger.open(Check::DescribeAnswers).unwrap();
        sheet.nothing("asleep");
        ledger.close(sheet);
        assert!(ledger.open(Check::DescribeName).is_some());
        assert_eq!(marks(&ledger.report()), [("file-loads", Mark::Warned), ("describe-answers", Mark::Skipped)]);
    }

    #[test]
    fn what_a_plugin_says_is_fit_for_a_terminal_wherever_it_comes_in() {
        let mut ledger = Ledger::default();
        let mut sheet = ledger.open(Check::FileLoads).unwrap();
        sheet.note("without \u{1b}[2J".to_owned());
        ledger.close(sheet);
        let mut sheet = ledger.open(Check::DescribeAnswers).unwrap();
        sheet.nothing("a\u{1b}]0;x\u{7}");
        ledger.close(sheet);
        assert!(!ledger.report().text().contains(['\u{1b}', '\u{7}']));
    }

    #[test]
    fn every_check_has_its_line_at_the_end() {
        let mut ledger = Ledger::default();
        let mut sheet = ledger.open(Check::ConfigureCases).unwrap();
        sheet.error(None, "picky");
        ledger.close(sheet);
        ledger.fill();
        let report = ledger.report();
        assert_eq!(report.lines.iter().map(|line| line.check).collect::<Vec<_>>(), Check::ALL);
        let reason = |check: Check| report.line(check).and_then(Line::reason).unwrap_or_default();
        assert_eq!(reason(Check::FileImports), "configure-cases failed");
        assert_eq!(reason(Check::IdentitiesNames), "configure-cases failed");
        assert_eq!(reason(Check::FileNames), "there is nothing to try it with");
    }

    #[test]
    fn a_report_says_what_was_found_and_where_it_is_explained() {
        let mut ledger = Ledger::default();
        let mut sheet = ledger.open(Check::FileLoads).unwrap();
        sheet.note("305 KiB".to_owned());
        ledger.close(sheet);
        let mut sheet = ledger.open(Check::SoundNoNodes).unwrap();
        (0..7).for_each(|at| sheet.error(Some("small"), &format!("crash {at}\n")));
        ledger.close(sheet);
        let text = ledger.report().text();
        assert_eq!(
            text,
            "pass  file-loads             A host loads the file within the limits of its profile: 305 KiB\n\
             FAIL  sound-no-nodes         A cluster without nodes gets a valid answer\n      case small: crash 0\\n\n      \
             case small: crash 1\\n\n      case small: crash 2\\n\n      case small: crash 3\\n\n      \
             case small: crash 4\\n\n      and 2 more\n      docs/vendors/testing.md#sound-no-nodes\n\
             2 checks: 1 passed, 0 with a warning, 1 failed, 0 left out\n"
        );
    }
}
