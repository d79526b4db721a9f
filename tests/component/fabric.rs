//! What an operator does with a fabric on a workstation, with the real binary: simulate, discover, record, replay,
//! report.

mod errors;
mod kit;
mod large;
mod proxies;
mod recording;
mod report;
mod simulate;
mod tiers;

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use topoloom_tests::controlplane::plain_http;

use crate::guests::host;

/// How long a program may take to begin or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two units of four hosts on two rails, below two spines.
const SHAPE: &str = "units=2,hosts-per-unit=4,rails=2,pods=1,spines=2,cores=0,seed=7";

/// A folder with files in it.
struct Desk {
    folder: tempfile::TempDir,
}

/// How the binary ended.
#[derive(Debug)]
struct End {
    code: Option<i32>,
    out: String,
    error: String,
}

impl From<Output> for End {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), out: text(&output.stdout), error: text(&output.stderr) }
    }
}

impl Desk {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// A command with these arguments, separated by spaces.
    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(host());
        command.args(words.split_whitespace()).current_dir(self.folder.path());
        command.env("TOPOLOOM_LOG", "warn").stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    async fn run(&self, words: &str) -> End {
        let output = tokio::time::timeout(PATIENCE, self.command(words).output()).await;
        output.unwrap_or_else(|_| panic!("{words} does not end")).unwrap().into()
    }

    /// Runs a command that must exit with 0; returns what it printed.
    #[track_caller]
    fn done(&self, words: &str) -> impl Future<Output = String> {
        let place = std::panic::Location::caller();
        async move {
            let End { code, out, error } = self.run(words).await;
            assert_eq!(code, Some(0), "{place}: {words}: {out}{error}");
            out
        }
    }

    /// Writes a configuration with one source at the server with this URL.
    fn configure(&self, name: &str, source: &str, url: &str, ca: &str, config: &str) {
        let endpoint = if source == "roce" { "fabric" } else { source };
        let pem: String = ca.lines().map(|line| format!("      {line}\n")).collect();
        let text = format!(
            "- source: {source}
  enabled: true
  credentials: {{secretRef: {{name: any}}}}
  permissions: {{endpoints: {{{endpoint}: {{addresses: [loopback], timeouts: {{total: 20s}}}}}}}}
  config:
    endpoint: \"{url}\"
    caBundle: |
{pem}{config}"
        );
        self.put(name, &format!("networkTopologyDiscovery:\n{text}"));
    }
}

/// A fabric manager that runs as a program of its own.
struct Simulated {
    child: Child,
    text: String,
}

impl Simulated {
    /// Starts it and waits until it prints that it runs.
    async fn start(desk: &Desk, words: &str) -> Self {
        let mut command = desk.command(&format!("fabric simulate --shape {SHAPE} {words}"));
        Self::of(command.stdout(Stdio::piped()).spawn().unwrap()).await
    }

    async fn of(mut child: Child) -> Self {
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut text = String::new();
        let reads = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                text.push_str(&line);
                text.push('\n');
                if line.contains("Ctrl-C") {
                    return;
                }
            }
            panic!("it ended at once");
        };
        tokio::time::timeout(PATIENCE, reads).await.expect("it does not start");
        Self { child, text }
    }

    /// The text that it printed after this title.
    fn said(&self, title: &str) -> String {
        let line = self.text.lines().find_map(|line| line.strip_prefix(title));
        line.unwrap_or_else(|| panic!("no {title} in {}", self.text)).trim().to_owned()
    }

    /// Ends it with a signal; returns its exit code.
    async fn end(mut self, signal: Signal) -> Option<i32> {
        let id = Pid::from_raw(i32::try_from(self.child.id().unwrap()).unwrap()).unwrap();
        kill_process(id, signal).unwrap();
        let status = tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("it does not end").unwrap();
        status.code()
    }
}

/// A client for the admin listener.
fn client() -> reqwest::Client {
    plain_http().build().unwrap()
}

/// How many Nodes a list has.
fn nodes(path: &Path) -> usize {
    std::fs::read_to_string(path).unwrap().matches("kind: Node,").count()
}
