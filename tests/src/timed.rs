//! `make test`: cargo runs the tests, with a program around each test binary that writes down when its tests ended.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::controlplane;
use crate::slowest::{Ended, Took, result, slowest, times};

/// How many tests are printed.
const MOST: usize = 20;
/// Where the times of the tests are written to.
const FILE: &str = "TOPOLOOM_TEST_TIMES";
/// How libtest is configured.
const THREADS: &str = "RUST_TEST_THREADS";

/// Runs `cargo test --workspace` with these arguments and prints the slowest tests; gives the code with which cargo ended.
///
/// # Errors
/// When cargo cannot be started or the times cannot be read.
pub fn run(workspace: &Path, arguments: &[OsString]) -> Result<i32> {
    let here = std::env::current_exe().context("this program has no path")?;
    let file = here.with_file_name("test-times");
    File::create(&file).with_context(|| format!("{} cannot be written", file.display()))?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let runner = serde_json::json!([here, "timed"]);
    let status = Command::new(cargo)
        .args(["test", "--workspace", "--config"])
        .arg(format!("target.'cfg(all())'.runner = {runner}"))
        .args(arguments)
        .env(FILE, &file)
        .current_dir(workspace)
        .status()
        .context("cargo cannot be started")?;
    let all = fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))?;
    println!("\nthe slowest tests:");
    for took in slowest(all.lines().filter_map(Took::parse).collect(), MOST) {
        println!("{took}");
    }
    Ok(status.code().unwrap_or(1))
}

/// Runs a test binary as cargo would, and writes down how long its tests took; gives the code with which it ended.
///
/// # Errors
/// When it cannot be started, or its output cannot be passed on.
pub fn one(command: &[OsString]) -> Result<i32> {
    let [program, arguments @ ..] = command else { anyhow::bail!("usage: xtask timed BINARY ARGUMENTS") };
    let binary = name(Path::new(program));
    let threads = threads(&binary, std::env::var_os(THREADS).as_deref())?;
    let began = Instant::now();
    let mut child = Command::new(program)
        .args(arguments)
        .env(THREADS, threads.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("{} cannot be started", program.display()))?;
    let mut lines = Lines::default();
    let mut ended = Vec::new();
    let mut output = child.stdout.take().context("its output is a pipe")?;
    let mut buffer = [0; 8192];
    loop {
        let read = match output.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => &buffer[..read],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error).context("its output cannot be read"),
        };
        let mut out = io::stdout().lock();
        out.write_all(read).and_then(|()| out.flush()).context("its output cannot be passed on")?;
        let at = began.elapsed();
        for line in lines.of(read) {
            ended.extend(result(&line).map(|name| Ended { name: name.to_owned(), at }));
        }
    }
    let status = child.wait().context("waiting for it")?;
    if let Some(file) = std::env::var_os(FILE).map(PathBuf::from) {
        let took: String = times(&binary, threads, &ended).iter().map(|took| format!("{took}\n")).collect();
        let mut file = File::options().append(true).open(file).context("the times of the tests cannot be kept")?;
        file.write_all(took.as_bytes()).context("the times of the tests cannot be kept")?;
    }
    // Without a code a signal ended it.
    Ok(status.code().unwrap_or(101))
}

/// `e2e` of `target/debug/deps/e2e-0123456789abcdef`.
fn name(program: &Path) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    name.rsplit_once('-').map_or(&*name, |(name, _)| name).to_owned()
}

/// How many tests of a binary run at a time. Each test of `e2e` has a control plane, and waits for most of its time.
fn threads(binary: &str, set: Option<&OsStr>) -> Result<usize> {
    match (set.and_then(OsStr::to_str).and_then(|text| text.parse().ok()), binary) {
        (Some(threads), _) => Ok(threads),
        (None, "e2e") => Ok(controlplane::at_once()? as usize),
        (None, _) => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
    }
}

/// The lines of a stream that comes in pieces.
#[derive(Debug, Default)]
struct Lines {
    /// The piece of a line that has no end yet.
    begun: Vec<u8>,
}

impl Lines {
    fn of(&mut self, piece: &[u8]) -> Vec<String> {
        self.begun.extend_from_slice(piece);
        let Some(end) = self.begun.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let rest = self.begun.split_off(end + 1);
        let whole = std::mem::replace(&mut self.begun, rest);
        String::from_utf8_lossy(&whole).lines().map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_comes_in_pieces_is_one() {
        let mut lines = Lines::default();
        assert_eq!(lines.of(b"test a ... "), [""; 0]);
        assert_eq!(lines.of(b"ok\ntest b"), ["test a ... ok"]);
        assert_eq!(lines.of(b" ... ok\n\n"), ["test b ... ok", ""]);
    }

    #[test]
    fn end_to_end_tests_run_as_many_at_a_time_as_there_are_control_planes() {
        assert_eq!(name(Path::new("/target/debug/deps/e2e-0123456789abcdef")), "e2e");
        assert_eq!(name(Path::new("/target/debug/deps/topoloom_core-0123")), "topoloom_core");
        assert_eq!(threads("e2e", None).unwrap(), controlplane::at_once().unwrap() as usize);
        assert_eq!(threads("e2e", Some(OsStr::new("7"))).unwrap(), 7);
        assert_eq!(threads("component", None).unwrap(), std::thread::available_parallelism().unwrap().get());
    }

    /// A binary that fails is one that fails here, too.
    #[test]
    fn the_code_is_that_of_the_binary() {
        let sh = |script: &str| one(&["sh".into(), "-c".into(), script.into()]).unwrap();
        assert_eq!(sh("exit 101"), 101);
        assert_eq!(sh("exit 0"), 0);
        assert_eq!(sh("kill -KILL $$"), 101);
    }
}
