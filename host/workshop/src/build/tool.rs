//! One tool at work: started, listened to, waited for.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::Line;

/// How long until a tool that says nothing is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// How long the pipes of a tool that has ended are read. A server that it has started holds them as long as it lives.
const REST: Duration = Duration::from_secs(2);

/// What tools write in place of the time: the first day that an archive can hold (1980-01-02).
const DATE: &str = "315619200";

/// Where package managers put the programs of one project: they come before those of the machine.
const OWN: [&str; 2] = [".venv/bin", "node_modules/.bin"];

/// What happens to the standard output of a tool. What it writes to standard error is always shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    /// It is for people, too.
    Shown,
    /// It is for this program, which shows nothing of it.
    Read,
}

/// Ends a build from elsewhere. A clone ends the same one.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// The tool that works, and what it has started, is killed; so is the next one.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pipe {
    Output,
    Errors,
}

/// What comes of a tool.
enum Heard {
    Line(Pipe, String),
    End(io::Result<ExitStatus>),
}

/// Gives a tool the surroundings of every build: the folder, the programs of the project, and nothing by which two builds of
/// one source would differ.
pub(super) fn surround(command: &mut Command, root: &Path) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = OWN.iter().map(|folder| root.join(folder)).chain(std::env::split_paths(&path));
    if let Ok(path) = std::env::join_paths(folders) {
        command.env("PATH", path);
    }
    // Tools of Python look there for packages.
    let environment = root.join(".venv");
    if environment.is_dir() {
        command.env("VIRTUAL_ENV", environment);
    }
    command.current_dir(root).env("SOURCE_DATE_EPOCH", DATE).env("TZ", "UTC").env("PYTHONHASHSEED", "0");
}

/// Runs a tool to its end and returns what it wrote to standard output, if that is for this program.
///
/// One that can be stopped is the first of a process group of its own. Otherwise it is in that of this program, so that Ctrl-C at a
/// terminal ends both.
pub(super) fn run(
    command: &mut Command,
    output: Output,
    stop: Option<&Stop>,
    say: &mut dyn FnMut(Line),
) -> io::Result<(ExitStatus, Vec<String>)> {
    if stop.is_some() {
        command.process_group(0);
    }
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let pipes = child.stdout.take().zip(child.stderr.take());
    let (out, errors) = pipes.ok_or_else(|| io::Error::other("its pipes are missing"))?;
    let group = Pid::from_child(&child);
    let (sender, heard) = mpsc::channel();
    let [of_out, of_errors] = [sender.clone(), sender.clone()];
    // Both at once: a full pipe would block the tool. Each thread ends with its pipe, and the last one with the tool.
    thread::spawn(move || forward(out, Pipe::Output, &of_out));
    thread::spawn(move || forward(errors, Pipe::Errors, &of_errors));
    thread::spawn(move || sender.send(Heard::End(child.wait())));
    let mut read = Vec::new();
    let mut ended: Option<(ExitStatus, Instant)> = None;
    loop {
        if ended.is_none() && stop.is_some_and(Stop::is_stopped) {
            // It may end by itself in this moment.
            let _ = kill_process_group(group, Signal::KILL);
        }
        // What was sent already is taken in any case.
        let patience = ended.map_or(LOOK, |(_, since)| REST.saturating_sub(since.elapsed()));
        match (heard.recv_timeout(patience), ended) {
            (Ok(Heard::Line(Pipe::Output, line)), _) if output == Output::Read => read.push(line),
            (Ok(Heard::Line(_, line)), _) => say(Line::Tool(line)),
            (Ok(Heard::End(status)), _) => ended = Some((status?, Instant::now())),
            (Err(_), Some((status, _))) => return Ok((status, read)),
            (Err(RecvTimeoutError::Timeout), None) => {}
            (Err(RecvTimeoutError::Disconnected), None) => return Err(io::Error::other("no one waits for its end")),
        }
    }
}

/// Sends each line of a pipe, until it is closed.
fn forward(pipe: impl Read, which: Pipe, sender: &mpsc::Sender<Heard>) {
    let mut pipe = BufReader::new(pipe);
    let mut line = Vec::new();
    while pipe.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        if sender.send(Heard::Line(which, text)).is_err() {
            break;
        }
        line.clear();
    }
}

/// The flags by which the output of the compiler of Rust does not depend on where it runs: panics name source files.
fn remapped(root: &Path, cargo_home: Option<&Path>) -> Vec<String> {
    let places = cargo_home.map(|home| (home, "/cargo")).into_iter().chain([(root, "/plugin")]);
    places.map(|(place, name)| format!("--remap-path-prefix={}={name}", place.display())).collect()
}

/// The variable with flags for the compiler that cargo takes before all others.
const ENCODED: &str = "CARGO_ENCODED_RUSTFLAGS";

/// What stands between two flags in it.
const BETWEEN: &str = "\x1f";

/// Gives cargo those flags, beside those that it would take. `variable` reads the environment: where flags are set there, cargo takes
/// none of a file or of its command line.
pub(super) fn rust_flags(
    command: &mut Command,
    root: &Path,
    cargo_home: Option<&Path>,
    variable: impl Fn(&str) -> Option<String>,
) {
    let encoded = variable(ENCODED).map(|text| text.replace(BETWEEN, "\n"));
    let set = encoded.or_else(|| variable("RUSTFLAGS").map(|text| text.replace(' ', "\n")));
    let Some(set) = set else {
        // A list in TOML is one in JSON. As `build.rustflags` it leaves the flags that the project itself sets for the target.
        let list = serde_json::Value::from(remapped(root, cargo_home));
        command.arg("--config").arg(format!("build.rustflags={list}"));
        return;
    };
    let set = set.lines().filter(|flag| !flag.is_empty()).map(str::to_owned);
    let all: Vec<String> = set.chain(remapped(root, cargo_home)).collect();
    command.env(ENCODED, all.join(BETWEEN));
}

/// Where cargo keeps the sources of crates.
pub(super) fn cargo_home() -> Option<PathBuf> {
    let of_user = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(of_user)
}

/// The same for a compiler of C.
pub(super) fn c_flags(root: &Path) -> Vec<OsString> {
    vec![format!("-ffile-prefix-map={}=/plugin", root.display()).into()]
}

/// The module that cargo says it has made last, by its messages (`--message-format json-render-diagnostics`). The crate itself
/// comes after all that it depends on.
pub(super) fn module_of_cargo(messages: &[String]) -> Option<PathBuf> {
    let mut files = messages.iter().filter_map(|message| {
        let message: serde_json::Value = serde_json::from_str(message).ok()?;
        let is_artifact = message.get("reason")?.as_str()? == "compiler-artifact";
        let files = message.get("filenames").filter(|_| is_artifact)?.as_array()?;
        let module = files.iter().filter_map(|file| file.as_str()).find(|file| file.ends_with(".wasm"))?;
        Some(PathBuf::from(module))
    });
    files.next_back()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    fn shell(text: &str, output: Output) -> (bool, Vec<String>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        surround(command.args(["-c", text]), folder.path());
        let mut said = Vec::new();
        let mut say = |line| match line {
            Line::Tool(line) => said.push(line),
            Line::Step(step) => panic!("{step}"),
        };
        let (status, read) = run(&mut command, output, None, &mut say).unwrap();
        (status.success(), said, read)
    }

    #[test]
    fn what_a_tool_says_is_shown_while_it_works_and_its_end_is_known() {
        let (ended, said, read) = shell("echo one; echo two >&2; exit 3", Output::Shown);
        assert!(!ended && read.is_empty());
        assert_eq!(std::collections::BTreeSet::from_iter(said), ["one", "two"].map(str::to_owned).into());
        let (ended, said, read) = shell("echo one; echo two >&2; printf three", Output::Read);
        assert_eq!((ended, said, read), (true, vec!["two".to_owned()], vec!["one".to_owned(), "three".to_owned()]));
        // More than a pipe holds, on both at once.
        let much = "i=0; while [ $i -lt 20000 ]; do echo out$i; echo err$i >&2; i=$((i+1)); done";
        let (ended, said, read) = shell(much, Output::Read);
        assert_eq!((ended, said.len(), read.len()), (true, 20_000, 20_000));
    }

    /// The process with this number, as a tool printed it.
    fn process(number: &str) -> Pid {
        Pid::from_raw(number.parse().unwrap()).unwrap()
    }

    #[test]
    fn a_tool_has_ended_though_a_server_that_it_started_has_its_pipes() {
        let began = Instant::now();
        let (ended, said, read) = shell("sleep 120 & echo $!; echo last >&2", Output::Read);
        rustix::process::kill_process(process(&read[0]), Signal::KILL).unwrap();
        assert!(ended && said == ["last"] && began.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn a_tool_that_is_stopped_is_killed_with_what_it_started() {
        let stop = Stop::default();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 120 & echo $!; wait"]);
        let mut started = String::new();
        let mut say = |line| {
            started = Line::to_string(&line);
            stop.stop();
        };
        let (status, _) = run(&mut command, Output::Shown, Some(&stop), &mut say).unwrap();
        assert!(!status.success());
        // No one may have waited for it yet: it is a zombie then.
        let stat = format!("/proc/{started}/stat");
        let lives = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
        let began = Instant::now();
        while lives() {
            assert!(began.elapsed() < Duration::from_secs(60), "{stat}");
            thread::yield_now();
        }
    }

    #[test]
    fn nothing_in_the_surroundings_is_another_at_another_time() {
        let (_, _, read) = shell("echo $SOURCE_DATE_EPOCH $TZ $PYTHONHASHSEED; echo ${PATH%%:*}", Output::Read);
        assert_eq!(read[0], format!("{DATE} UTC 0"));
        assert!(read[1].ends_with("/.venv/bin"), "{}", read[1]);
    }

    #[test]
    fn a_tool_that_cannot_be_started_is_an_error() {
        let mut command = Command::new("/no/such/tool");
        assert_eq!(run(&mut command, Output::Shown, None, &mut |_| {}).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn cargo_names_the_module_of_the_crate_last() {
        let messages = [
            r#"{"reason":"compiler-artifact","filenames":["/t/libserde.rlib"]}"#,
            "a line of a build script",
            r#"{"reason":"compiler-artifact","filenames":["/t/deps/other.wasm"]}"#,
            r#"{"reason":"compiler-artifact","filenames":["/t/racks.wasm","/t/libracks.rlib"]}"#,
            r#"{"reason":"build-finished","success":true}"#,
        ]
        .map(str::to_owned);
        assert_eq!(module_of_cargo(&messages), Some("/t/racks.wasm".into()));
        assert_eq!(module_of_cargo(&messages[..2]), None);
    }

    #[test]
    fn flags_put_names_in_place_of_folders() {
        let given = |variables: &[(&str, &str)]| {
            let mut command = Command::new("cargo");
            let find =
                |name: &str| variables.iter().find(|(found, _)| *found == name).map(|(_, text)| (*text).to_owned());
            rust_flags(&mut command, Path::new("/home/me/a \"b\""), Some(Path::new("/home/me/.cargo")), find);
            let arguments = command.get_args().map(|word| word.to_string_lossy().into_owned());
            let variable = |(name, text): (&OsStr, Option<&OsStr>)| {
                format!("{}={}", name.to_string_lossy(), text.unwrap_or_default().to_string_lossy())
            };
            let variables = command.get_envs().map(variable);
            (arguments.collect::<Vec<_>>().join(" "), variables.collect::<Vec<_>>().join(" "))
        };
        let (arguments, variables) = given(&[]);
        assert_eq!(
            arguments,
            r#"--config build.rustflags=["--remap-path-prefix=/home/me/.cargo=/cargo","--remap-path-prefix=/home/me/a \"b\"=/plugin"]"#
        );
        assert_eq!(variables, "");
        // Where flags are set in the environment, cargo takes no others.
        let remapped = "--remap-path-prefix=/home/me/.cargo=/cargo\x1f--remap-path-prefix=/home/me/a \"b\"=/plugin";
        for (variables, set) in [
            (&[("RUSTFLAGS", "-C  debuginfo=1")][..], "-C\x1fdebuginfo=1\x1f"),
            (&[("RUSTFLAGS", "")], ""),
            (&[(ENCODED, "--cfg\x1fa b"), ("RUSTFLAGS", "-Cx")], "--cfg\x1fa b\x1f"),
        ] {
            let (arguments, found) = given(variables);
            assert_eq!(arguments, "");
            assert_eq!(found, format!("{ENCODED}={set}{remapped}"));
        }
        assert_eq!(c_flags(Path::new("/x")), ["-ffile-prefix-map=/x=/plugin"]);
    }
}
