//! What became of every check, for programs.

use schemars::JsonSchema;
use serde::Serialize;
use topoloom_workshop::kit::Report;
use topoloom_workshop::kit::report::{Finding, Line, Mark};

use super::Examined;
use crate::cli::output::Document;

/// What became of every check of the conformance kit.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Tested {
    file: String,
    /// `sha256:` and 64 hexadecimal digits.
    digest: String,
    /// Its own name; absent if it does not say one.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// Names of the cases.
    cases: Vec<String>,
    /// Whether a check failed; the exit code is 1 then.
    failed: bool,
    checks: Vec<CheckedPromise>,
}

impl Document for Tested {
    const KIND: &'static str = "PluginTest";
}

/// A check.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CheckedPromise {
    /// A short stable word.
    id: String,
    family: String,
    /// What holds when it passes.
    says: String,
    /// `passed`, `warned`, `failed` or `leftOut`.
    mark: &'static str,
    /// Why it was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// What was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// How long it took.
    milliseconds: u64,
    /// Where it is explained.
    page: String,
    findings: Vec<FoundFault>,
}

/// What a check found.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct FoundFault {
    /// `error` or `warning`.
    level: &'static str,
    /// The case that shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    case: Option<String>,
    text: String,
}

impl Tested {
    /// The document of a report.
    pub(super) fn of(report: &Report, examined: &Examined) -> Self {
        let (name, version) = examined.plugin.clone().unzip();
        Self {
            file: examined.file.clone(),
            digest: examined.digest.to_string(),
            name,
            version,
            cases: examined.cases.clone(),
            failed: report.has_failed(),
            checks: report.lines.iter().map(check).collect(),
        }
    }
}

fn check(line: &Line) -> CheckedPromise {
    CheckedPromise {
        id: line.check.id().to_owned(),
        family: line.check.family().as_str().to_owned(),
        says: line.check.says().to_owned(),
        mark: match line.mark() {
            Mark::Passed => "passed",
            Mark::Warned => "warned",
            Mark::Failed => "failed",
            Mark::Skipped => "leftOut",
        },
        reason: line.reason(),
        note: line.note.clone(),
        milliseconds: u64::try_from(line.took.as_millis()).unwrap_or(u64::MAX),
        page: line.check.anchor(),
        findings: line.findings.iter().map(finding).collect(),
    }
}

fn finding(finding: &Finding) -> FoundFault {
    FoundFault { level: finding.level.as_str(), case: finding.case.clone(), text: finding.text.clone() }
}
