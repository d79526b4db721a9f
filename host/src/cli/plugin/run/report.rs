//! What a round shows on a terminal.

use topoloom_core::plugin::LimitSet;
use topoloom_core::text;
use topoloom_workshop::rounds::Judged;
use topoloom_workshop::rounds::shares::of_round;

use super::Turn;
use crate::cli::tree::{Leaf, forest_text};
use crate::endpoints::recording::Misfit;
use crate::plugin::LogLine;

/// The longest line of a plugin's log on a terminal, in bytes.
const LINE: usize = 1 << 10;
/// Groups and nodes that moved and are listed.
const MOVED: usize = 50;

/// Everything, in the order in which a person reads it: what runs, what it asks for, what it found, what it said and took.
pub(super) fn text(turn: &Turn, show_nodes: bool) -> String {
    let mut text = String::new();
    let description = &turn.description;
    push_line!(text, "{} {} ({})", description.name, description.version, turn.component.file.display());
    match turn.desk.permissions(&turn.configured.requirements) {
        Some(lines) => push_line!(text, "it asks for, and has here:\n{}", indented(lines.trim_end())),
        None => text.push_str("it asks for nothing that has to be granted\n"),
    }
    match &turn.round.end {
        Ok(Judged::Found(found)) => {
            let numbers = &found.decision.numbers;
            let (covered, total) = (numbers.covered, numbers.total);
            push_line!(text, "\n{covered} of {total} nodes have a place in {} groups", numbers.groups());
            text.push_str(&forest_text(&Leaf::of_named(&found.decision.named), show_nodes));
            for (code, (count, example)) in &numbers.diagnostics {
                push_line!(text, "  {code} ({count}): {example}");
            }
        }
        Ok(Judged::Unchanged) => text.push_str("\nunchanged\n"),
        // Said where failures are looked for.
        Err(_) => {}
    }
    text.push_str(&misfit(&turn.round.misfit));
    text.push_str(&log(&turn.round.log, turn.round.usage.log_dropped));
    let limits = turn.desk.plugin().limits();
    let shares = of_round(&turn.round.usage, limits).into_iter().filter(|share| share.percent() > 0.0);
    let shares: Vec<String> = shares.map(|share| share.to_string()).collect();
    if !shares.is_empty() {
        push_line!(text, "\nused: {}", shares.join(", "));
    }
    text.push_str(&met(turn.round.usage.met));
    text
}

fn indented(lines: &str) -> String {
    lines.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// Where a recording and the requests of the plugin differ.
fn misfit(misfit: &Misfit) -> String {
    let missing = misfit.missing.iter().map(|asked| format!("  ! the recording does not have {asked}\n"));
    let unasked = misfit.unasked.iter().map(|asked| format!("  ! the plugin did not ask {asked}\n"));
    missing.chain(unasked).collect()
}

/// What the plugin logged.
fn log(lines: &[LogLine], dropped: usize) -> String {
    let mut said = String::new();
    if !lines.is_empty() {
        said.push_str("\nit logged:\n");
    }
    for line in lines {
        push_line!(said, "  {:<5} {}", line.level.as_str(), text::line(&line.text, LINE));
    }
    if dropped > 0 {
        push_line!(said, "  and {dropped} more lines, beyond the limit of a call");
    }
    said
}

/// Limits that acted although there is an answer.
fn met(limits: LimitSet) -> String {
    let words: Vec<&str> = limits.iter().map(|limit| limit.word()).collect();
    if words.is_empty() { String::new() } else { format!("limits that took effect: {}\n", words.join(", ")) }
}

/// What moved against the round before.
pub(super) fn moved_text(moved: &[String]) -> String {
    if moved.is_empty() {
        return "\nnothing moved\n".to_owned();
    }
    let mut said = "\nmoved:\n".to_owned();
    for line in moved.iter().take(MOVED) {
        push_line!(said, "  {line}");
    }
    if let Some(more @ 1..) = moved.len().checked_sub(MOVED) {
        push_line!(said, "  and {more} more");
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::LineLevel;

    #[test]
    fn what_moved_is_listed_to_a_length_that_a_person_reads() {
        assert_eq!(moved_text(&[]), "\nnothing moved\n");
        let many: Vec<String> = (0..60).map(|i| format!("+ tier 1 {i}")).collect();
        let said = moved_text(&many);
        assert!(said.starts_with("\nmoved:\n  + tier 1 0\n") && said.ends_with("  and 10 more\n"), "{said}");
        assert!(!moved_text(&many[..50]).contains("more"));
    }

    #[test]
    fn lines_of_a_plugin_stay_lines() {
        let lines = [LogLine { level: LineLevel::Warn, text: "a\u{1b}[2Jb".to_owned() }];
        assert_eq!(
            log(&lines, 2),
            "\nit logged:\n  warn  a\\u{1b}[2Jb\n  and 2 more lines, beyond the limit of a call\n"
        );
        assert_eq!(log(&[], 0), "");
    }
}
