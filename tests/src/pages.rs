//! Code on pages of documentation, as a reader copies it: whole blocks, nothing added and nothing left out.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

/// A page of this repository, by its path from the root.
///
/// # Errors
/// When there is none.
pub fn page(path: &str) -> Result<String> {
    let file = root()?.join(path);
    std::fs::read_to_string(&file).with_context(|| file.display().to_string())
}

/// The folder of this repository.
///
/// # Errors
/// When this crate has no folder above it.
pub fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here.parent().context("the tests have a folder above them")?.to_owned())
}

/// How a block of commands is run, by an HTML comment on the line before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Run {
    /// No comment: it is run as it is.
    Whole,
    /// `run until stopped`: it runs during the next steps.
    UntilStopped,
    /// `not run by the test: WHY`.
    ByHand(String),
}

/// One block of commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commands {
    /// The line of the page that it begins on.
    pub line: usize,
    /// As a reader copies it.
    pub text: String,
    /// How it is run.
    pub run: Run,
}

const SHELL: &str = "sh";

/// The blocks of commands, in the order of the page.
///
/// # Errors
/// When a comment before one of them says something else.
pub fn commands(page: &str) -> Result<Vec<Commands>> {
    let mut before = "";
    let mut starts = Vec::new();
    let mut open = false;
    for (line, text) in page.lines().enumerate() {
        if let Some(info) = text.strip_prefix("```") {
            if !open && info == SHELL {
                starts.push((line + 1, run(before).with_context(|| format!("line {line}: {before}"))?));
            }
            open = !open;
        }
        before = text;
    }
    let texts = blocks(page, SHELL);
    ensure!(starts.len() == texts.len(), "a block is not closed");
    Ok(starts.into_iter().zip(texts).map(|((line, run), text)| Commands { line, text, run }).collect())
}

fn run(before: &str) -> Result<Run> {
    let Some(comment) = before.strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->")) else {
        return Ok(Run::Whole);
    };
    match comment.trim() {
        "run until stopped" => Ok(Run::UntilStopped),
        other => match other.strip_prefix("not run by the test: ") {
            Some(why) => Ok(Run::ByHand(why.to_owned())),
            None => bail!("a comment before commands is `run until stopped` or `not run by the test: WHY`"),
        },
    }
}

/// The fenced blocks of a language, in the order of the page.
#[must_use]
pub fn blocks(page: &str, language: &str) -> Vec<String> {
    let (mut blocks, mut open) = (Vec::new(), None::<(bool, String)>);
    for line in page.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => open = Some((info == language, String::new())),
            (None, None) => {}
            (Some(_), Some(_)) => blocks.extend(open.take().filter(|(wanted, _)| *wanted).map(|(_, text)| text)),
            (Some((_, text)), None) => *text += &format!("{line}\n"),
        }
    }
    blocks
}

/// The files that a page shows whole: blocks after a line that begins with the name of the file between backticks, as in
/// "`src/lib.rs`, the discoverer:".
#[must_use]
pub fn files(page: &str) -> Vec<(String, String)> {
    let (mut files, mut open, mut before) = (Vec::new(), None::<(Option<String>, String)>, "");
    for line in page.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(_)) => open = Some((file_named(before), String::new())),
            (Some(_), Some(_)) => {
                let (name, text) = open.take().unwrap_or_default();
                files.extend(name.map(|name| (name, text)));
                before = "";
            }
            (Some((_, text)), None) => *text += &format!("{line}\n"),
            (None, None) if line.trim().is_empty() => {}
            (None, None) => before = line,
        }
    }
    files
}

/// The row of a table whose first cell begins with these words: its cells.
#[must_use]
pub fn row(page: &str, begins: &str) -> Option<Vec<String>> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let found = rows.map(|row| row.split(" | ").map(str::to_owned).collect::<Vec<_>>());
    let mut found = found.filter(|cells| cells.first().is_some_and(|cell| cell.starts_with(begins)));
    found.next()
}

/// A size as people write it, in bytes: `24 KB`, `64 KiB`, `18.5 MB`.
#[must_use]
pub fn size(text: &str) -> Option<f64> {
    let (number, unit) = text.split_once(' ')?;
    let unit = match unit {
        "KB" => 1e3,
        "MB" => 1e6,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * unit)
}

/// The file that a line names first; nothing for what is code and no file.
fn file_named(line: &str) -> Option<String> {
    let (name, _) = line.strip_prefix('`')?.split_once('`')?;
    let is_file = name.rsplit('/').next().is_some_and(|last| last.contains('.')) && !name.contains(' ');
    is_file.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_those_of_one_language_and_whole() {
        let page = "a\n```sh\nb\n```\n```rust\nc\n\nd\n```\n```\nrust\n```\n```rust\ne\n```\n";
        assert_eq!(blocks(page, "rust"), ["c\n\nd\n", "e\n"]);
        assert_eq!(blocks(page, "sh"), ["b\n"]);
    }

    #[test]
    fn files_are_named_by_the_line_before_them() {
        let page = "`a/b.go`, the first:\n\n```go\nx\n\ny\n```\n`topoloom plugin build` makes:\n```\nz\n```\n\n`go.mod`\n\n```\nm\n```\n";
        let wanted = [("a/b.go", "x\n\ny\n"), ("go.mod", "m\n")];
        assert_eq!(files(page), wanted.map(|(name, text)| (name.to_owned(), text.to_owned())));
    }

    #[test]
    fn a_table_has_rows_and_sizes() {
        let page = "a\n| what | size |\n| --- | --- |\n| Rust, the SDK | 64 KiB |\n";
        assert_eq!(row(page, "Rust").unwrap(), ["Rust, the SDK", "64 KiB"]);
        assert_eq!(row(page, "Go"), None);
        assert_eq!(["24 KB", "64 KiB", "18.5 MB"].map(size), [24_000.0, 65_536.0, 18_500_000.0].map(Some));
        assert_eq!(["less", "7 apples", "x KB"].map(size), [None; 3]);
    }

    #[test]
    fn commands_are_run_as_the_comment_before_them_says() {
        let page = "```sh\na\n```\n<!-- run until stopped -->\n```sh\nb\n```\n\n```yaml\nc: 1\n```\n\
                    <!-- not run by the test: it takes an hour -->\n```sh\nd\n```\n";
        let found: Vec<_> = commands(page).unwrap().into_iter().map(|it| (it.line, it.text, it.run)).collect();
        let by_hand = Run::ByHand("it takes an hour".to_owned());
        let wanted = [(1, "a", Run::Whole), (5, "b", Run::UntilStopped), (13, "d", by_hand)];
        assert_eq!(found, wanted.map(|(line, text, run)| (line, format!("{text}\n"), run)));
        assert!(commands("<!-- later -->\n```sh\na\n```\n").is_err());
    }
}
