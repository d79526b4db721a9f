//! What a check found, and what to do about it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::output::Document;

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mark {
    /// The check passed.
    Ok,
    /// The host works; an operator should look.
    Warn,
    /// The host does not work, or only in part.
    Fail,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line {
    pub(super) mark: Mark,
    /// The ClusterBinding that the check is about, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) binding: Option<String>,
    /// What was checked.
    pub(super) what: String,
    /// What was found.
    pub(super) found: String,
    /// What to do, line by line.
    pub(super) todo: Vec<String>,
}

/// Everything that was checked.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Checks {
    /// Checks that passed.
    ok: usize,
    /// Checks that an operator should look at.
    warn: usize,
    /// Checks that failed; the exit code is 1 where there are any.
    fail: usize,
    checks: Vec<Line>,
}

impl Document for Checks {
    const KIND: &'static str = "Preflight";
}

impl Checks {
    /// The checks, counted.
    pub(super) fn of(checks: Vec<Line>) -> Self {
        let count = |mark| checks.iter().filter(|line| line.mark == mark).count();
        Self { ok: count(Mark::Ok), warn: count(Mark::Warn), fail: count(Mark::Fail), checks }
    }

    /// How many ended so.
    pub(super) fn count(&self, mark: Mark) -> usize {
        match mark {
            Mark::Ok => self.ok,
            Mark::Warn => self.warn,
            Mark::Fail => self.fail,
        }
    }
}

impl Line {
    pub(super) fn ok(what: &str, found: impl Into<String>) -> Self {
        Self { mark: Mark::Ok, binding: None, what: what.to_owned(), found: found.into(), todo: Vec::new() }
    }

    pub(super) fn warn(what: &str, found: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { mark: Mark::Warn, todo: lines(todo.into()), ..Self::ok(what, found) }
    }

    pub(super) fn fail(what: &str, found: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { mark: Mark::Fail, todo: lines(todo.into()), ..Self::ok(what, found) }
    }

    /// The same about one ClusterBinding.
    pub(super) fn of(self, binding: &str) -> Self {
        Self { binding: Some(binding.to_owned()), ..self }
    }
}

/// What to do, if there is anything.
fn lines(todo: String) -> Vec<String> {
    if todo.is_empty() { Vec::new() } else { vec![todo] }
}

/// The lines as text, and a last one that counts them.
pub(super) fn render(checks: &Checks) -> String {
    let mut text = String::new();
    for line in &checks.checks {
        let mark = match line.mark {
            Mark::Ok => "[ok]  ",
            Mark::Warn => "[warn]",
            Mark::Fail => "[fail]",
        };
        let of = line.binding.as_ref().map(|binding| format!("binding {binding}: ")).unwrap_or_default();
        text.push_str(&format!("{mark} {of}{}: {}\n", line.what, line.found));
        for todo in &line.todo {
            text.push_str(&format!("       -> {todo}\n"));
        }
    }
    text.push_str(&format!("{} ok, {} to look at, {} missing\n", checks.ok, checks.warn, checks.fail));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_was_found_and_below_it_what_to_do() {
        let lines = vec![
            Line::ok("API server", "v1.34.1"),
            Line::warn("leases", "no replica leads", "start the host"),
            Line::fail("definitions", "none", "topoloom crd | kubectl apply -f -"),
            Line::fail("Secret", "none", "").of("east"),
        ];
        let wanted = "[ok]   API server: v1.34.1\n\
                      [warn] leases: no replica leads\n       -> start the host\n\
                      [fail] definitions: none\n       -> topoloom crd | kubectl apply -f -\n\
                      [fail] binding east: Secret: none\n\
                      1 ok, 1 to look at, 2 missing\n";
        assert_eq!(render(&Checks::of(lines)), wanted);
    }
}
