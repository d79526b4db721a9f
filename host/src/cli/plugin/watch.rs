//! Files as they are, and whether one of them was saved since. Looked at again and again: of the editors of this world no two
//! save alike, and a look at a folder of sources takes less than a millisecond.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use topoloom_workshop::build::is_of_tools;

/// How long until the next look.
const PAUSE: Duration = Duration::from_millis(200);
/// How long nothing may change before a save counts as complete: an editor writes several files one after the other.
const SETTLE: Duration = Duration::from_millis(50);
/// Files that are looked at, at most: a project has a few dozen, and a home folder is none.
const MOST: usize = 10_000;

/// When each file was changed, and how long it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Files(BTreeMap<PathBuf, (SystemTime, u64)>);

impl Files {
    /// These files, and those in these folders but for some paths. What is hidden, and what tools fill, is left out.
    pub(super) fn of(paths: &[PathBuf], but: &[PathBuf]) -> Self {
        let mut files = Self::default();
        for path in paths {
            files.take(path, but, true);
        }
        files
    }

    /// The same with more of them, which may be files alone.
    pub(super) fn and(mut self, paths: &[PathBuf]) -> Self {
        for path in paths {
            self.take(path, &[], true);
        }
        self
    }

    /// `is_root` is a path that was named, and was not found in a folder.
    fn take(&mut self, path: &Path, but: &[PathBuf], is_root: bool) {
        if self.0.len() >= MOST || but.iter().any(|left_out| left_out == path) {
            return;
        }
        // What cannot be looked at is not there.
        let Ok(found) = std::fs::metadata(path) else { return };
        if found.is_dir() {
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            for entry in entries {
                let path = entry.path();
                let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
                if !is_hidden && !is_of_tools(&path, is_root) {
                    self.take(&path, but, false);
                }
            }
        } else if let Ok(changed) = found.modified() {
            self.0.insert(path.to_owned(), (changed, found.len()));
        }
    }

    /// The files that are other ones, or there on one side only.
    pub(super) fn changed(&self, now: &Self) -> BTreeSet<PathBuf> {
        let paths = self.0.keys().chain(now.0.keys());
        paths.filter(|path| self.0.get(*path) != now.0.get(*path)).cloned().collect()
    }
}

/// How many turns in a row must change a file before it counts as made by the build.
const MADE: u32 = 3;

/// Which of the files that changed while a round was built and run were saved by a person: those need one more round. Tools write
/// into the folder that they build, too, and a round for each of these files would never end.
#[derive(Debug, Default)]
pub(super) struct Saves {
    /// What the build makes.
    made: BTreeSet<PathBuf>,
    /// What changed in each of the last turns, and in how many.
    suspects: (BTreeSet<PathBuf>, u32),
}

/// What follows a turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Something was saved meanwhile.
    Again,
    /// The round is of the files as they are, but for these, which the build seems to make.
    Wait(BTreeSet<PathBuf>),
}

impl Saves {
    /// After a turn in which these files changed. No build writes those that are `given` beside the project.
    pub(super) fn after(&mut self, mut changed: BTreeSet<PathBuf>, given: &[PathBuf]) -> Next {
        changed.retain(|path| given.contains(path) || !self.made.contains(path));
        let is_given = changed.iter().any(|path| given.contains(path));
        let suspects: BTreeSet<PathBuf> = changed.iter().filter(|path| !given.contains(path)).cloned().collect();
        let both: BTreeSet<PathBuf> = self.suspects.0.intersection(&suspects).cloned().collect();
        self.suspects = if both.is_empty() { (suspects.clone(), 1) } else { (both, self.suspects.1 + 1) };
        if changed.is_empty() {
            return Next::Wait(BTreeSet::new());
        }
        if self.suspects.1 < MADE {
            return Next::Again;
        }
        let (made, _) = std::mem::take(&mut self.suspects);
        self.made.extend(made.iter().cloned());
        if is_given || made != suspects { Next::Again } else { Next::Wait(made) }
    }
}

/// Waits until a look shows something else, and has shown it for a moment.
pub(super) async fn changes(before: &Files, mut look: impl FnMut() -> Files) -> Files {
    loop {
        tokio::time::sleep(PAUSE).await;
        let mut now = look();
        if now == *before {
            continue;
        }
        loop {
            tokio::time::sleep(SETTLE).await;
            let later = look();
            if later == now {
                return now;
            }
            now = later;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn names(files: &BTreeSet<PathBuf>, folder: &Path) -> Vec<String> {
        files.iter().map(|path| path.strip_prefix(folder).unwrap().display().to_string()).collect()
    }

    #[test]
    fn a_file_that_is_new_gone_or_different_is_found_and_what_is_built_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let all = ["a.py", "src/b.py", "src/dist/d.py", "target/x", ".venv/y", "out.wasm", "cases/one/nodes.yaml"];
        for name in all {
            write(root, name, "1");
        }
        let look = || Files::of(&[root.to_owned()], &[root.join("out.wasm"), root.join("cases")]);
        let before = look();
        assert_eq!(before.0.len(), 3);
        for name in ["target/x", ".venv/y", "out.wasm", "cases/one/nodes.yaml"] {
            write(root, name, "other");
        }
        assert_eq!(before, look());
        write(root, "src/b.py", "longer");
        write(root, "c.py", "1");
        std::fs::remove_file(root.join("a.py")).unwrap();
        let now = look();
        assert_eq!(names(&before.changed(&now), root), ["a.py", "c.py", "src/b.py"]);
        // A file of its own counts wherever it is.
        let alone = root.join("cases/one/nodes.yaml");
        assert_eq!(names(&now.changed(&look().and(&[alone])), root), ["cases/one/nodes.yaml"]);
    }

    fn paths(names: &[&str]) -> BTreeSet<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn what_is_saved_while_a_round_runs_is_never_lost() {
        let given = [PathBuf::from("nodes.yaml"), PathBuf::from("config.yaml")];
        let mut saves = Saves::default();
        for changed in [&["config.yaml"], &["nodes.yaml"], &["config.yaml"], &["config.yaml"], &["config.yaml"]] {
            assert_eq!(saves.after(paths(changed), &given), Next::Again);
        }
        assert_eq!(saves.after(paths(&[]), &given), Next::Wait(paths(&[])));
        // Two builds in a row during which the same file is saved, again and again.
        for _ in 0..5 {
            assert_eq!(saves.after(paths(&["app.py"]), &given), Next::Again);
            assert_eq!(saves.after(paths(&["app.py"]), &given), Next::Again);
            assert_eq!(saves.after(paths(&[]), &given), Next::Wait(paths(&[])));
        }
    }

    #[test]
    fn what_each_build_writes_is_found_out_and_named_once() {
        let given = [PathBuf::from("nodes.yaml")];
        let mut saves = Saves::default();
        assert_eq!(saves.after(paths(&["app.py", "made.py"]), &given), Next::Again);
        assert_eq!(saves.after(paths(&["made.py"]), &given), Next::Again);
        assert_eq!(saves.after(paths(&["made.py"]), &given), Next::Wait(paths(&["made.py"])));
        assert_eq!(saves.after(paths(&["made.py"]), &given), Next::Wait(paths(&[])));
        assert_eq!(saves.after(paths(&["made.py", "app.py"]), &given), Next::Again);
        assert_eq!(saves.after(paths(&["made.py"]), &given), Next::Wait(paths(&[])));
        // What a person saves meanwhile is not taken for it.
        let mut saves = Saves::default();
        assert_eq!(saves.after(paths(&["made.py"]), &given), Next::Again);
        assert_eq!(saves.after(paths(&["made.py", "nodes.yaml"]), &given), Next::Again);
        assert_eq!(saves.after(paths(&["made.py", "app.py"]), &given), Next::Again);
        assert_eq!(saves.after(paths(&["made.py"]), &given), Next::Wait(paths(&[])));
        assert_eq!(saves.after(paths(&["nodes.yaml"]), &given), Next::Again);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_counts_once_it_has_settled() {
        let looks = |lengths: &[u64]| {
            let file = |length: &u64| Files([(PathBuf::from("a"), (SystemTime::UNIX_EPOCH, *length))].into());
            lengths.iter().map(file).collect::<Vec<_>>()
        };
        let before = looks(&[1]).remove(0);
        let mut seen = looks(&[1, 1, 2, 3, 3, 9]).into_iter();
        let found = changes(&before, || seen.next().expect("one more look than there is")).await;
        assert_eq!(found, looks(&[3]).remove(0));
        assert_eq!(seen.len(), 1);
    }
}
