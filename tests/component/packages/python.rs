//! The package for Python: its tests over the source, and over the wheel in an environment that has nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use topoloom_tests::pages::root;
use topoloom_tests::tools::Tool;

use super::{build, copy, file, kept, run, template};

/// What builds the wheel; it needs nothing itself. Downloaded once.
const BACKEND: &str = "flit_core==3.12.0";
/// The tests, and the discoverer that they ask.
const TESTS: [&str; 2] = ["test_topoloom.py", "racks.py"];
/// Words for every call of pip.
const QUIET: [&str; 3] = ["--quiet", "--disable-pip-version-check", "--no-input"];

fn package() -> PathBuf {
    root().unwrap().join("sdk/python")
}

/// Runs the tests that are in a folder.
fn unittest(python: &Path, folder: &Path, sources: Option<&Path>) {
    let mut command = Command::new(python);
    command.args(["-m", "unittest", "--quiet", "test_topoloom"]).current_dir(folder);
    command.env_remove("PYTHONPATH").env("PYTHONDONTWRITEBYTECODE", "1");
    if let Some(sources) = sources {
        command.env("PYTHONPATH", sources);
    }
    let said = run(&mut command);
    assert!(said.contains("Ran ") && !said.contains("Ran 0"), "{said}");
}

/// A virtual environment with pip alone.
fn environment(within: &Path) -> PathBuf {
    let own = within.join("env");
    run(Command::new("python3").args(["-m", "venv"]).arg(&own));
    own.join("bin/python3")
}

fn pip(python: &Path, verb: &str) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pip", verb]).args(QUIET);
    command
}

/// Builds the wheel into a folder.
fn wheel(python: &Path, folder: &Path) -> PathBuf {
    let backend = kept("python");
    let has_it = fs::read_dir(&backend).unwrap().any(|entry| entry.unwrap().path().extension() == Some("whl".as_ref()));
    if !has_it {
        run(pip(python, "download").args(["--no-deps", BACKEND, "--dest"]).arg(&backend));
    }
    let words = ["--no-index", "--no-deps", "--wheel-dir"];
    run(pip(python, "wheel").args(words).arg(folder).arg("--find-links").arg(&backend).arg(package()));
    file(folder, "-py3-none-any.whl")
}

#[test]
fn the_tests_of_the_package_pass() {
    unittest(Path::new("python3"), &package().join("tests"), Some(&package()));
}

#[test]
fn the_wheel_works_in_an_empty_environment_and_builds_the_template() {
    let desk = tempfile::tempdir().unwrap();
    let python = environment(desk.path());
    let wheel = wheel(&python, desk.path());
    run(pip(&python, "install").args(["--no-index", "--no-deps"]).arg(&wheel));
    let tests = desk.path().join("tests");
    copy(&package().join("tests"), &TESTS, &tests);
    unittest(&python, &tests, None);
    let words = "import topoloom, os; place = os.path.dirname(topoloom.__file__); print(place, os.listdir(place))";
    let place = run(Command::new(&python).args(["-c", words]).current_dir(&tests).env_remove("PYTHONPATH"));
    // Types of a package are used where it says so.
    assert!(place.contains("site-packages") && place.contains("py.typed"), "{place}");
    let words = "import importlib.metadata as known; print(*known.files('topoloom-sdk'))";
    let files = run(Command::new(&python).args(["-c", words]).current_dir(&tests).env_remove("PYTHONPATH"));
    assert!(files.contains(".dist-info/licenses/LICENSE"), "{files}");
    // The package that the template brings makes room for the wheel.
    let project = template(desk.path(), "python");
    fs::remove_dir_all(project.join("topoloom")).unwrap();
    run(pip(&python, "install").args(["--no-index", "--no-deps", "--target"]).arg(&project).arg(&wheel));
    build(&project, Tool::ComponentizePy);
}
