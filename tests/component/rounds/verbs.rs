//! `topoloom plugin run` and `bench`, with the real binary.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use topoloom_tests::schema;

use super::{ANSWER, ASKS, CALLER, LEVELS, NODES, RECORDED};
use crate::guests::{RACK, VILLAIN, host};

/// How long a program may take until it prints what it should.
const PATIENCE: Duration = Duration::from_secs(60);

struct Desk {
    folder: tempfile::TempDir,
}

struct End {
    code: Option<i32>,
    out: String,
    error: String,
}

impl Desk {
    /// With plugins, nodes and configurations.
    fn new() -> Self {
        let desk = Self { folder: tempfile::tempdir().unwrap() };
        desk.put("villain.wasm", &*VILLAIN);
        desk.put("caller.wasm", &*CALLER);
        desk.put("label.wasm", &*topoloom_tests::builtins::find("label").bytes);
        desk.put("nodes.json", NODES);
        desk.put("levels.yaml", LEVELS);
        desk.put("good.yaml", "discover: good\n");
        desk
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(host());
        command.arg("plugin").args(words.split_whitespace()).current_dir(self.folder.path());
        command.env("TOPOLOOM_LOG", "warn").stdin(Stdio::null());
        command
    }

    fn run(&self, words: &str) -> End {
        Self::ended(&mut self.command(words))
    }

    fn ended(command: &mut Command) -> End {
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        End { code: output.status.code(), out: text(&output.stdout), error: text(&output.stderr) }
    }
}

#[test]
fn one_round_needs_no_entry_and_shows_what_the_plugin_asks_for() {
    let desk = Desk::new();
    let end = desk.run("run villain.wasm --nodes nodes.json --config good.yaml --show-nodes");
    assert_eq!((end.code, end.error.as_str()), (Some(0), ""));
    for words in [
        "villain 0.1.0 (villain.wasm)\n",
        &format!("permissions:\n    nodeLabels: [\"{RACK}\"]\n"),
        "3 of 4 nodes have a place in 2 groups\n",
        "hypernode-villain-tier1-",
        "m1 m2",
        "used: cpu ",
        " of 256Mi (",
    ] {
        assert!(end.out.contains(words), "{words:?} is not in\n{}", end.out);
    }
    // A builtin plugin needs no grants, and the name of the source is in new names where a kind has none.
    let end = desk.run("run label.wasm --nodes nodes.json --config levels.yaml");
    assert!(end.code == Some(0) && end.out.contains("asks for nothing that has to be granted"), "{}", end.out);
}

#[test]
fn a_round_without_an_answer_says_why_and_what_the_plugin_logged() {
    let desk = Desk::new();
    desk.put("panic.yaml", "discover: panic\n");
    let end = desk.run("run villain.wasm --nodes nodes.json --config panic.yaml");
    assert_eq!(end.code, Some(1));
    assert!(end.out.contains("it logged:\n  ") && end.out.contains("discover panics as configured"), "{}", end.out);
    assert!(end.error.starts_with("topoloom: no answer: the plugin crashed (unreachable)"), "{}", end.error);
    // One sentence: the log of the host does not say the same before it.
    let mut loud = desk.command("run villain.wasm --nodes nodes.json --config panic.yaml");
    let end = Desk::ended(loud.env("TOPOLOOM_LOG", "info"));
    assert!(end.error.lines().count() == 1 && !end.error.contains("a plugin was stopped"), "{}", end.error);
    desk.put("problems.yaml", "configure: problems\n");
    let end = desk.run("run villain.wasm --nodes nodes.json --config problems.yaml");
    assert!(end.code == Some(1) && end.error.contains("configure: the configuration has 2 mistakes"), "{}", end.error);
    let end = desk.run("run villain.wasm");
    assert!(end.code == Some(2) && end.error.contains("--nodes"), "{}", end.error);
    let end = desk.run("run villain.wasm --nodes nowhere.json");
    assert!(end.code == Some(1) && end.error.contains("--nodes nowhere.json"), "{}", end.error);
    desk.put("asks.json", ASKS);
    let end = desk.run("run caller.wasm --nodes nodes.json --config asks.json");
    assert!(end.code == Some(1) && end.error.contains("the plugin calls the endpoint fabric"), "{}", end.error);
    assert!(
        end.error.contains("in an entry (--config):\n\npermissions:\n  endpoints:\n    \"fabric\":\n"),
        "{}",
        end.error
    );
}

#[test]
fn a_round_becomes_a_case_and_its_names_can_be_replaced() {
    let desk = Desk::new();
    desk.put("asks.json", ASKS);
    desk.put("recorded.json", RECORDED);
    let end = desk.run("run label.wasm --nodes nodes.json --config levels.yaml --record first");
    assert_eq!((end.code, end.error.as_str()), (Some(0), ""));
    let read = |name: &str| std::fs::read_to_string(desk.folder.path().join(name)).unwrap();
    assert_eq!(read("cases/first/expected.txt"), ANSWER);
    assert!(
        end.out.contains("the case cases/first:") && end.out.contains("--anonymise replaces the names"),
        "{}",
        end.out
    );
    let end = desk.run("run label.wasm --nodes nodes.json --config levels.yaml --record first");
    assert!(end.code == Some(1) && end.error.contains("cases/first: it exists already"), "{}", end.error);
    let end = desk.run("run label.wasm --nodes nodes.json --config levels.yaml --record ./sent --anonymise");
    assert!(end.code == Some(0) && !read("sent/nodes.yaml").contains("m1"), "{}", end.error);
    // What answered was a recording: it is part of the case, with the plugin that was asking.
    let end = desk.run("run caller.wasm --nodes nodes.json --config asks.json --replay recorded.json --record asked");
    assert_eq!((end.code, end.error.as_str()), (Some(0), ""));
    assert!(read("cases/asked/recording.json").contains("\"name\": \"caller\""));
    assert!(read("cases/asked/expected.txt").contains("200 seven"), "{}", end.out);
}

#[test]
fn a_measure_has_a_table_for_people_and_a_document_for_a_pipeline() {
    let desk = Desk::new();
    let end = desk.run("bench label.wasm --config levels.yaml --nodes nodes.json --size 100,400 --rounds 5");
    assert_eq!((end.code, end.error.as_str()), (Some(0), ""));
    for words in ["instantiate  ", "nodes  groups  rounds  median  p99", "\n100 ", "\n400 "] {
        assert!(end.out.contains(words), "{words:?} is not in\n{}", end.out);
    }
    let end = desk.run("bench villain.wasm --config good.yaml --size 100 --rounds 5 -o json");
    let said = schema::checked(&end.out).unwrap_or_else(|error| panic!("{error:#}: {}", end.error));
    assert_eq!((&said["kind"], &said["sizes"][0]["nodes"]), (&json!("PluginBench"), &json!(100)));
    assert!(said["compileCpuMicros"].as_u64().unwrap() > 0, "{said}");
    // The nodes of the first case, and its configuration.
    desk.run("run label.wasm --nodes nodes.json --config levels.yaml --record first");
    let end = desk.run("bench label.wasm --size 8 --rounds 5 -o json");
    let said = schema::checked(&end.out).unwrap_or_else(|error| panic!("{error:#}: {}", end.error));
    // Two copies of four nodes: of each, two racks and the spine above them.
    assert_eq!(said["sizes"][0]["groups"], json!(6), "{said}");
    desk.put("panic.yaml", "discover: panic\n");
    let end = desk.run("bench villain.wasm --config panic.yaml --size 100");
    assert!(end.code == Some(1) && end.error.contains("no answer over 100 nodes: the plugin crashed"), "{}", end.error);
}

/// A program that watches files; it ends with this value.
struct Watching {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Watching {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sends, lines) = mpsc::channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sends.send(line)));
        Self { child, lines }
    }

    /// Reads until a line has these words; returns all that came.
    fn until(&self, words: &str) -> String {
        let mut seen = String::new();
        loop {
            let line = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no {words:?} in\n{seen}"));
            seen += &format!("{line}\n");
            if line.contains(words) {
                return seen;
            }
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn ctrl_c_ends_a_build_that_works_and_leaves_no_tool() {
    let desk = Desk::new();
    // The tool ends when it reads, and only this test writes.
    desk.put("topoloom-plugin.yaml", "language: other\nbuild: mkfifo held && echo this is $$ && read line < held\n");
    let mut command = desk.command("run . --nodes nodes.json --watch");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut watching = Watching { child, lines: mpsc::channel().1 };
    let mut line = String::new();
    let tool = loop {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "no build");
        if let Some((_, tool)) = line.trim_end().split_once("this is ").filter(|(_, tool)| !tool.starts_with('$')) {
            break tool.to_owned();
        }
    };
    kill_process(Pid::from_child(&watching.child), Signal::INT).unwrap();
    // All that have its standard error end.
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(watching.child.wait().unwrap().success(), "{rest}");
    let stat = format!("/proc/{tool}/stat");
    assert!(!std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")), "{tool} lives");
}

#[test]
fn a_save_runs_again_and_prints_what_moved() {
    let desk = Desk::new();
    let watching = Watching::start(desk.command("run label.wasm --nodes nodes.json --config levels.yaml --watch"));
    watching.until("used: ");
    desk.put("nodes.json", NODES.replace("b1", "c3"));
    let seen = watching.until("~ tier 2 gpu/2/s1: ");
    assert!(seen.contains("- tier 1 gpu/1/s1/b1: m3\n") && seen.contains("+ tier 1 gpu/1/s1/c3: m3\n"), "{seen}");
    // A file that is broken for a while ends nothing.
    desk.put("nodes.json", "{");
    desk.put("levels.yaml", LEVELS.replace("gpu", "tpu"));
    desk.put("nodes.json", NODES);
    watching.until("+ tier 1 tpu/1/s1/a7: m1 m2");
    // Another plugin takes the place of the file.
    desk.put("label.wasm", &*VILLAIN);
    desk.put("levels.yaml", "discover: good\n");
    watching.until("villain 0.1.0");
}
