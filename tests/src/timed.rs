//! `make test`: cargo runs the tests, with a program around each test binary that records when its tests ended, and what failed.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Seek, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::failed::{Failed, Reader};
use crate::slowest::{Ended, Took, result, slowest, times};
use crate::{controlplane, guest, helm, registry, tools};

/// How many tests are printed.
const MOST: usize = 20;
/// The variable with the file for the times of the tests.
const TIMES: &str = "TOPOLOOM_TEST_TIMES";
/// The variable with the file for the tests that failed.
const FAILED: &str = "TOPOLOOM_TEST_FAILED";
/// The variable with the name of a test binary that another run of cargo runs.
const LEFT_OUT: &str = "TOPOLOOM_TEST_LEFT_OUT";
/// The variable with the number of libtest's threads.
const THREADS: &str = "RUST_TEST_THREADS";
/// The binary of the end-to-end tests.
const E2E: &str = "e2e";
/// Those of the end-to-end tests that compute all the time, and measure how soon something happens.
const BUSY: &str = "failover::";
/// Tests that run in the process of [`BUSY`]: those that compute as much, as the tools of other languages do, and others. Without
/// them it ends in a third of the time that the other process needs, which then has a control plane less than the machine can run.
/// They are to be chosen so that all processes end together: the file with the times of all tests has the sum of each module.
const BESIDE_BUSY: [&str; 8] =
    ["guard::", "languages::", "night::", "pages::", "plugins::", "process::", "restored::", "swaps::"];
/// The same where there are more than two processes.
const BESIDE_BUSY_OF_MORE: [&str; 1] = ["swaps::"];
/// Tests that need two or three control planes at a time, and wait for leases and deadlines while other tests compute: where
/// there are planes for it they have a process of their own, so that both kinds run beside each other from the beginning to the
/// end. In the order of their names all that compute would come first, and two processors would be idle after that.
const PAIRS: &str = "lending::";
/// Tests that run in the process of [`PAIRS`], chosen as [`BESIDE_BUSY`].
const BESIDE_PAIRS: [&str; 1] = ["locks::"];
/// Tests in which the tools of other languages compute, at a lower priority than everything else of `e2e`: they take what is left,
/// from the beginning, and use all processors when the others have ended. Beside tests that wait they would only hold a thread.
const VENDORS: &str = "languages::";
/// How many of those run at a time.
const OF_VENDORS: usize = 2;
/// With so many control planes there are four processes: two pairs at a time, and two other tests. [`VENDORS`] have two planes more.
const FOR_FOUR: usize = 7;
/// With more control planes at once the other processes are those that end first.
const FEW: usize = 8;
/// For the servers of control planes, which are written in Go: there are several times as many as processors, and with more than one
/// thread each they spend a part of their time on looking for something to do and on waking each other.
const ONE_THREAD: (&str, &str) = ("GOMAXPROCS", "1");
/// The niceness of all other tests: end-to-end tests depend on leases, deadlines and time limits of requests, and the
/// others only compute.
const NICE: &str = "5";

/// Runs `cargo test --workspace` with these arguments and prints the slowest tests and, last, those that failed; returns the code
/// with which cargo ended.
///
/// The end-to-end tests wait for a third of their time and more. So one cargo runs them, and a second one beside it
/// runs all others in the time that is left; the output of the second one is printed when it has ended.
///
/// # Errors
/// When cargo cannot be started or the times cannot be read.
pub fn run(workspace: &Path, arguments: &[OsString]) -> Result<i32> {
    let here = std::env::current_exe().context("this program has no path")?;
    let [file, file_of_failed] = ["test-times", "test-failed"].map(|name| here.with_file_name(name));
    for file in [&file, &file_of_failed] {
        File::create(file).with_context(|| format!("{} cannot be written", file.display()))?;
    }
    let runner = format!("target.'cfg(all())'.runner = {}", serde_json::json!([here, "timed"]));
    let cargo = |program: &OsStr, before: &[&OsStr], targets: &[&str]| {
        let mut command = Command::new(program);
        command
            .args(before)
            .args(["test", "--workspace", "--no-fail-fast", "--config", &runner])
            .args(targets)
            .args(arguments);
        command.env(TIMES, &file).env(FAILED, &file_of_failed).current_dir(workspace);
        command
    };
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // Once for both, so that neither waits for the compiler of the other.
    let built = thread::scope(|scope| {
        scope.spawn(prepare);
        cargo(&program, &[], &["--no-run"]).status()
    });
    let built = built.context("cargo cannot be started")?;
    if !built.success() {
        return Ok(built.code().unwrap_or(1));
    }
    // What was built is written to the disk now: stores of control planes would wait for it, longer than a lease lasts.
    rustix::fs::sync();
    let nice: [&OsStr; 3] = ["-n".as_ref(), NICE.as_ref(), &program];
    let mut printed = tempfile::tempfile().context("no file for what the tests print")?;
    let mut others = cargo("nice".as_ref(), &nice, &[])
        .env(LEFT_OUT, E2E)
        .stdin(Stdio::null())
        .stdout(printed.try_clone().context("no file for what the tests print")?)
        .stderr(printed.try_clone().context("no file for what the tests print")?)
        .spawn()
        .context("nice cannot be started")?;
    let (e2e, others) = thread::scope(|scope| {
        let others = scope.spawn(move || {
            let status = others.wait();
            let mut out = io::stdout().lock();
            printed.rewind().and_then(|()| io::copy(&mut printed, &mut out)).and_then(|_| out.flush()).and(status)
        });
        let e2e = cargo(&program, &[], &["--test", E2E]).status();
        (e2e, others.join())
    });
    let others = others.map_err(|_| anyhow::anyhow!("the thread of the other tests panicked"))?;
    let all = fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))?;
    println!("\nthe slowest tests:");
    for took in slowest(all.lines().filter_map(Took::parse).collect(), MOST) {
        println!("{took}");
    }
    let ends = [
        ("the end-to-end tests", e2e.context("cargo cannot be started")?),
        ("the other tests", others.context("what the other tests print cannot be passed on")?),
    ];
    let failed: Vec<_> = ends.iter().filter(|(_, status)| !status.success()).collect();
    if !failed.is_empty() {
        // All that they printed may be far above.
        let all = fs::read_to_string(&file_of_failed);
        eprint!("\n{}", all.with_context(|| format!("{} cannot be read", file_of_failed.display()))?);
    }
    for (which, status) in &failed {
        eprintln!("{which} failed: {status}");
    }
    Ok(failed.first().map_or(0, |(_, status)| status.code().unwrap_or(1)))
}

/// Builds and installs what the first test that needs it would build: it would take minutes of processors that are busy, while
/// other tests wait for it. A failure is that of the test.
fn prepare() {
    let built = [
        ("the guests", guest::build_all()),
        ("Helm", helm::find_or_build().map(drop)),
        ("a registry", registry::find_or_build().map(drop)),
        ("oras", registry::oras::find_or_build().map(drop)),
        ("the tools of other languages", tools::install_all()),
    ];
    for (what, built) in built {
        if let Err(error) = built {
            eprintln!("xtask: {what}: {error:#}");
        }
    }
}

/// Runs a test binary as cargo would, and records how long its tests took; returns the code with which it ended.
///
/// # Errors
/// When it cannot be started, or its output cannot be passed on.
pub fn one(command: &[OsString]) -> Result<i32> {
    let [program, arguments @ ..] = command else { anyhow::bail!("usage: xtask timed BINARY ARGUMENTS") };
    let binary = name(Path::new(program));
    if std::env::var_os(LEFT_OUT).is_some_and(|left_out| *left_out == *binary) {
        return Ok(0);
    }
    let lanes = lanes(&binary, arguments, std::env::var_os(THREADS).as_deref())?;
    let binary = &*binary;
    let ended: Vec<_> = thread::scope(|scope| {
        let begun: Vec<_> = lanes.iter().map(|lane| scope.spawn(move || lane.run(program, binary))).collect();
        begun.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let (mut code, mut took, mut failed) = (0, String::new(), String::new());
    for lane in ended {
        let ended = lane.map_err(|_| anyhow::anyhow!("the thread of {binary} panicked"))??;
        code = if code == 0 { ended.code } else { code };
        took.extend(ended.times.iter().map(|took| format!("{took}\n")));
        failed.extend(ended.failed.iter().map(|failed| format!("{failed}\n")));
    }
    keep(TIMES, &took).context("the times of the tests cannot be kept")?;
    keep(FAILED, &failed).context("what failed cannot be kept")?;
    Ok(code)
}

/// Appends this to the file of a variable, where it is set: other test binaries do the same.
fn keep(file: &str, text: &str) -> io::Result<()> {
    let Some(file) = std::env::var_os(file) else { return Ok(()) };
    File::options().append(true).open(file)?.write_all(text.as_bytes())
}

/// One process of a test binary, beside others of the same binary.
#[derive(Debug, PartialEq, Eq)]
struct Lane {
    /// Which tests it runs.
    arguments: Vec<OsString>,
    /// How many of them at a time.
    threads: usize,
    /// Its part of the control planes, if other processes have the rest.
    planes: Option<usize>,
}

/// The processes in which a test binary runs. Each test of `e2e` has a control plane, and waits for most of its time;
/// but those of [`BUSY`] keep a processor busy, and several at a time make the machine too slow for the leases that
/// they test: they run one after the other, beside the rest.
fn lanes(binary: &str, arguments: &[OsString], set: Option<&OsStr>) -> Result<Vec<Lane>> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let set = set.and_then(OsStr::to_str).and_then(|text| text.parse().ok());
    let whole = |threads| vec![Lane { arguments: arguments.to_vec(), threads, planes: None }];
    Ok(match (set, binary) {
        (Some(threads), _) => whole(threads),
        (None, E2E) => match controlplane::at_once()? as usize {
            planes if planes > 1 && arguments.is_empty() => side_by_side(planes),
            planes => whole(planes),
        },
        (None, _) => whole(processors),
    })
}

/// The processes of `e2e` that have so many control planes together.
fn side_by_side(planes: usize) -> Vec<Lane> {
    let is_four = planes >= FOR_FOUR;
    let beside: &[&str] = if planes > FEW {
        &[]
    } else if is_four {
        &BESIDE_BUSY_OF_MORE
    } else {
        &BESIDE_BUSY
    };
    let mut named = vec![([&[BUSY][..], beside].concat(), 1)];
    if is_four {
        named.push(([&[PAIRS][..], &BESIDE_PAIRS].concat(), (planes - 1) * 2 / 3));
    }
    let left = planes - named.iter().map(|(_, planes)| planes).sum::<usize>();
    if is_four {
        named.push((vec![VENDORS], OF_VENDORS));
    }
    let others = named.iter().flat_map(|(names, _)| names).flat_map(|name| ["--skip", *name]).collect();
    named.push((others, left));
    let lane = |(arguments, planes): (Vec<&str>, usize)| Lane {
        arguments: arguments.into_iter().map(OsString::from).collect(),
        threads: planes,
        planes: Some(planes),
    };
    named.into_iter().map(lane).collect()
}

/// A process of a test binary has ended.
struct LaneEnded {
    /// Its code.
    code: i32,
    /// How long its tests took.
    times: Vec<Took>,
    failed: Vec<Failed>,
}

impl Lane {
    /// Runs it to its end, and passes on each line that it prints.
    fn run(&self, program: &OsStr, binary: &str) -> Result<LaneEnded> {
        let began = Instant::now();
        let mut command = Command::new(program);
        command.args(&self.arguments).env(THREADS, self.threads.to_string()).stdout(Stdio::piped());
        if let Some(planes) = self.planes {
            command.env(controlplane::AT_ONCE, planes.to_string()).env(ONE_THREAD.0, ONE_THREAD.1);
        }
        let mut child = command.spawn().with_context(|| format!("{} cannot be started", program.display()))?;
        let (mut ended, mut failed) = (Vec::new(), Reader::new(binary));
        let mut output = BufReader::new(child.stdout.take().context("its output is a pipe")?);
        let mut line = Vec::new();
        while output.read_until(b'\n', &mut line).context("its output cannot be read")? > 0 {
            let mut out = io::stdout().lock();
            out.write_all(&line).and_then(|()| out.flush()).context("its output cannot be passed on")?;
            let at = began.elapsed();
            let text = String::from_utf8_lossy(&line);
            ended.extend(result(text.trim_end()).map(|name| Ended { name: name.to_owned(), at }));
            failed.line(text.trim_end());
            line.clear();
        }
        let status = child.wait().context("waiting for it")?;
        // Without a code a signal ended it.
        let (code, times) = (status.code().unwrap_or(101), times(binary, self.threads, &ended));
        Ok(LaneEnded { code, times, failed: failed.end() })
    }
}

/// `e2e` of `target/debug/deps/e2e-0123456789abcdef`.
fn name(program: &Path) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    name.rsplit_once('-').map_or(&*name, |(name, _)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_to_end_tests_run_as_many_at_a_time_as_there_are_control_planes() {
        assert_eq!(name(Path::new("/target/debug/deps/e2e-0123456789abcdef")), "e2e");
        assert_eq!(name(Path::new("/target/debug/deps/topoloom_core-0123")), "topoloom_core");
        let threads = |lanes: Vec<Lane>| lanes.iter().map(|lane| lane.threads).collect::<Vec<_>>();
        let all = controlplane::at_once().unwrap() as usize;
        let vendors = if all >= FOR_FOUR { OF_VENDORS } else { 0 };
        assert_eq!(threads(lanes("e2e", &[], None).unwrap()).iter().sum::<usize>(), all + vendors);
        for (planes, wanted) in [(2, vec![1, 1]), (5, vec![1, 4]), (7, vec![1, 4, 2, 2]), (20, vec![1, 12, 2, 7])] {
            let lanes = side_by_side(planes);
            assert!(lanes.iter().all(|lane| lane.planes == Some(lane.threads)), "{lanes:?}");
            let (last, named) = lanes.split_last().unwrap();
            let names: Vec<_> = named.iter().flat_map(|lane| lane.arguments.clone()).collect();
            assert_eq!(names[0], "failover::");
            let unique: std::collections::BTreeSet<_> = names.iter().collect();
            assert_eq!(unique.len(), names.len(), "a test runs in one process: {names:?}");
            let others: Vec<_> = names.iter().flat_map(|name| ["--skip".into(), name.clone()]).collect();
            assert_eq!(last.arguments, others, "and in one of them");
            assert_eq!(threads(lanes), wanted, "{planes}");
        }
        // If the arguments name tests, one process runs them.
        assert_eq!(threads(lanes("e2e", &["drift::".into()], None).unwrap()), [all]);
        assert_eq!(threads(lanes("e2e", &[], Some(OsStr::new("7"))).unwrap()), [7]);
        let processors = std::thread::available_parallelism().unwrap().get();
        assert_eq!(threads(lanes("component", &[], None).unwrap()), [processors]);
    }

    /// The code of a binary that fails is the code here, too.
    #[test]
    fn the_code_is_that_of_the_binary() {
        let sh = |script: &str| one(&["sh".into(), "-c".into(), script.into()]).unwrap();
        assert_eq!(sh("exit 101"), 101);
        assert_eq!(sh("exit 0"), 0);
        assert_eq!(sh("kill -KILL $$"), 101);
    }
}
