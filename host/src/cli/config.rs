//! `topoloom config`: files that the host reads, checked where no cluster is.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, FromArgMatches, Subcommand};
use schemars::JsonSchema;
use serde::Serialize;

use super::options::{Reading, flags, read_file};
use super::output::{Document as Shown, OutputArgs};
use super::read_options;
use super::run::{Depth, RunArgs};
use crate::config::sort::{DocumentKind, SortedDocument, sort};
use crate::config::{Document, Error, MAX_BYTES};

/// Verbs about files that the host reads.
#[derive(Debug, Subcommand)]
pub(super) enum ConfigVerb {
    /// Show what each file is, and everything that is wrong with it
    Check(CheckArgs),
}

/// Flags of `config check`.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// Options files, discovery documents, or manifests of ConfigMaps with such a document; - reads standard input
    #[arg(required = true, value_name = "FILE|-")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

/// What was found in files that the host reads.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Checked {
    files: Vec<Findings>,
}

impl Shown for Checked {
    const KIND: &'static str = "ConfigCheck";
}

/// What was found in one file.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Findings {
    /// The file; `-` is standard input.
    file: String,
    /// How many mistakes there are; the exit code is 1 where there are any.
    mistakes: usize,
    /// What the file is, and all its problems, in the order in which they were found.
    findings: Vec<Finding>,
}

/// One thing that was found.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Finding {
    kind: FindingKind,
    /// The message, with the line of the file if there is one.
    message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum FindingKind {
    /// What a part of the file is.
    Part,
    /// The host would refuse it.
    Mistake,
    /// The host accepts it, but something is unusual.
    Warning,
}

/// Does what the verb says.
pub(super) fn run(verb: ConfigVerb) -> anyhow::Result<ExitCode> {
    let ConfigVerb::Check(args) = verb;
    let found = args.files.iter().map(|path| {
        let text = if path.as_os_str() == "-" { standard_input() } else { read_options(path) };
        let findings = text.map_or_else(Findings::unreadable, |text| check(path, &text));
        Findings { file: path.display().to_string(), ..findings }
    });
    let checked = Checked { files: found.collect() };
    args.output.print(&checked, text)?;
    let is_good = checked.files.iter().all(|findings| findings.mistakes == 0);
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn text(checked: &Checked) -> String {
    let of_file = |findings: &Findings| -> String {
        findings.findings.iter().map(|finding| format!("{}: {}\n", findings.file, finding.line())).collect()
    };
    checked.files.iter().map(of_file).collect()
}

impl Finding {
    fn line(&self) -> String {
        match self.kind {
            FindingKind::Part => self.message.clone(),
            FindingKind::Mistake => format!("mistake: {}", self.message),
            FindingKind::Warning => format!("warning: {}", self.message),
        }
    }
}

fn standard_input() -> Result<String, String> {
    let mut bytes = Vec::new();
    let most = MAX_BYTES as u64;
    std::io::stdin().lock().take(most + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > most {
        return Err(format!("it is larger than {most} bytes, the most that is read"));
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())
}

impl Findings {
    fn unreadable(error: String) -> Self {
        let mut findings = Self::default();
        findings.mistake(&error);
        findings
    }

    fn mistake(&mut self, what: &str) {
        self.mistakes += 1;
        self.put(FindingKind::Mistake, what);
    }

    fn warning(&mut self, what: &str) {
        self.put(FindingKind::Warning, what);
    }

    fn part(&mut self, what: &str) {
        self.put(FindingKind::Part, what);
    }

    fn put(&mut self, kind: FindingKind, what: &str) {
        self.findings.push(Finding { kind, message: what.to_owned() });
    }
}

/// Checks the text of one file.
fn check(path: &Path, text: &str) -> Findings {
    let command = super::command();
    let parts = match sort(text, &flags::keys(&flags::all(&command))) {
        Ok(parts) => parts,
        Err(error) => return Findings::unreadable(error.to_string()),
    };
    let mut findings = Findings::default();
    let mut seen = 0;
    for SortedDocument { line, content } in parts {
        seen += usize::from(!matches!(content, DocumentKind::Manifest(_)));
        match content {
            DocumentKind::Discovery(document) => discovery("discovery document", line, document, &mut findings),
            DocumentKind::ConfigMap(name, document) => {
                discovery(&format!("discovery document in ConfigMap {name}"), line, document, &mut findings);
            }
            DocumentKind::Options(Ok(file)) => {
                let count = file.settings.len();
                findings.part(&format!("line {line}: options file, {count} of its flags known"));
                options(read_file(&command, path, file), &mut findings);
            }
            DocumentKind::Options(Err(error)) => {
                findings.part(&format!("line {line}: options file"));
                findings.mistake(&error.to_string());
            }
            DocumentKind::Manifest(what) => findings.part(&format!("line {line}: {what}, of which nothing is read")),
            DocumentKind::Unknown => findings.mistake(&format!(
                "line {line}: neither options of `run`, whose keys are its flags, nor a discovery document, whose key is \
                 networkTopologyDiscovery"
            )),
        }
    }
    if seen == 0 {
        findings.mistake("it has nothing that topoloom reads");
    }
    findings
}

fn discovery(what: &str, line: usize, document: Result<Document, Error>, findings: &mut Findings) {
    match document {
        Ok(document) => {
            let (all, enabled) = (document.entries.len(), document.enabled().count());
            findings.part(&format!("line {line}: {what}, entries: {all}, enabled and valid: {enabled}"));
            document.errors().for_each(|problem| findings.mistake(&problem.to_string()));
            document.warnings.iter().for_each(|problem| findings.warning(&problem.to_string()));
        }
        Err(error) => {
            findings.part(&format!("line {line}: {what}"));
            findings.mistake(&error.to_string());
        }
    }
}

fn options(reading: Reading, findings: &mut Findings) {
    match reading {
        Reading::Run(read) => {
            let (matches, mut given) = *read;
            match RunArgs::from_arg_matches(&matches) {
                // Files that it names are on another machine.
                Ok(args) => drop(args.settle(Depth::Rules, &mut given)),
                Err(error) => findings.mistake(&error.kind().to_string()),
            }
            given.mistakes().iter().for_each(|mistake| findings.mistake(mistake));
            given.warnings().iter().for_each(|warning| findings.warning(warning));
        }
        Reading::Usage(error) => findings.mistake(&error.kind().to_string()),
        Reading::Other => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> (Vec<String>, usize) {
        let findings = check(Path::new("f.yaml"), text);
        (findings.findings.iter().map(Finding::line).collect(), findings.mistakes)
    }

    #[test]
    fn a_sound_file_is_told_by_its_kind() {
        for (text, wanted) in [
            ("leader-elect: false\nconcurrency: 4\n", "line 1: options file, 2 of its flags known"),
            (
                "networkTopologyDiscovery:\n- source: label\n  enabled: true\n",
                "line 1: discovery document, entries: 1, enabled and valid: 1",
            ),
            (
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: n}\ndata:\n  volcano-controller.conf: |\n    networkTopologyDiscovery: []\n",
                "line 1: discovery document in ConfigMap n/c, entries: 0, enabled and valid: 0",
            ),
        ] {
            assert_eq!(found(text), (vec![wanted.to_owned()], 0), "{text}");
        }
    }

    #[test]
    fn everything_wrong_with_options_is_told_with_lines() {
        let text =
            "concurrency: 0\nleader-elect-lease-duration: 5s\nconcurency: 3\ndrain-timeout: 30\nworker-threads: 2\n";
        let (lines, mistakes) = found(text);
        assert_eq!(mistakes, 4, "{lines:#?}");
        for words in [
            "mistake: f.yaml line 3: concurency: is no flag of `run`; did you mean `concurrency`?",
            "mistake: --concurrency 0 (f.yaml line 1): must be a whole number, 1 to 64",
            "mistake: --drain-timeout 30 (f.yaml line 4): must be a duration with units, 1s to 10m, such as 15s or 1m30s",
            "mistake: --leader-elect-lease-duration 5s (f.yaml line 2), --leader-elect-renew-deadline 10s (default): the lease must last longer than the deadline",
            "warning: --worker-threads 2 (f.yaml line 5): has no effect: topoloom has no such controller",
        ] {
            assert!(lines.iter().any(|line| line == words), "{words}: {lines:#?}");
        }
    }

    #[test]
    fn a_mistake_in_a_wrapped_document_has_the_line_of_the_file() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  volcano-controller.conf: |\n    networkTopologyDiscovery:\n    - source: label\n      enabled: true\n      interval: 5\n";
        let (lines, mistakes) = found(text);
        assert_eq!(mistakes, 1, "{lines:#?}");
        assert!(lines[1].starts_with("mistake: line 9: networkTopologyDiscovery[0].interval: "), "{lines:#?}");
    }

    #[test]
    fn a_stream_is_checked_document_by_document() {
        let text = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n---\nnetworkTopologyDiscovery: 1\n---\nread-only: maybe\n";
        let (lines, mistakes) = found(text);
        assert_eq!(mistakes, 2, "{lines:#?}");
        assert_eq!(lines[0], "line 1: Service s, of which nothing is read");
        assert!(
            lines.iter().any(|line| line.contains("line 5: networkTopologyDiscovery must be a list")),
            "{lines:#?}"
        );
        assert!(
            lines.iter().any(|line| line.contains("--read-only maybe (f.yaml line 7): must be true")),
            "{lines:#?}"
        );
    }

    #[test]
    fn a_key_that_is_never_read_is_a_mistake() {
        for text in ["", "# nothing\n", "a: 1\n", "- 1\n", "a: [\n", "apiVersion: v1\nkind: Service\n"] {
            assert_eq!(found(text).1, 1, "{text:?}: {:?}", found(text));
        }
    }
}
