//! Images that outlive the process that made them, and code that sources share.
//!
//! A runtime whose compiler does not exist shows where code came from: a plugin that it loads was compiled before.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use topoloom::plugin::cache::{Cache, CacheKey, CacheOptions, DEFAULT_SIZE, OpenError};
use topoloom::plugin::{Compiler, Load, LoadError, Metrics, Plugin, Runtime};
use topoloom_core::plugin::{Limits, StoreLimits};
use topoloom_tests::builtins;

use crate::guests::{RUNTIME, VILLAIN, host, load, nodes, round, source};

/// A folder for a cache, which does not exist yet, and a key beside it.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), [7; 32]).unwrap();
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn options(&self) -> CacheOptions {
        let key = CacheKey::read(&self.folder.path().join("key")).unwrap();
        CacheOptions { folder: self.path(), key, size: DEFAULT_SIZE }
    }

    /// The images in it.
    fn files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path()).unwrap();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }
}

/// A process with a compiler.
fn first(options: CacheOptions) -> Runtime {
    Runtime::start_with(
        Compiler::Child { exe: host() },
        topoloom::plugin::Options::default(),
        Metrics::default(),
        Some(Cache::open(options).unwrap()),
    )
    .unwrap()
}

/// A process whose compiler does not exist.
fn later(options: CacheOptions) -> Runtime {
    Runtime::start_with(
        Compiler::Child { exe: "/nowhere".into() },
        topoloom::plugin::Options::default(),
        Metrics::default(),
        Some(Cache::open(options).unwrap()),
    )
    .unwrap()
}

async fn try_load(runtime: &Runtime, bytes: &Arc<[u8]>) -> Result<Plugin, LoadError> {
    runtime.load(Load { bytes: Arc::clone(bytes), pinned: None, limits: Limits::default() }).await
}

fn counts(runtime: &Runtime) -> BTreeMap<&'static str, u64> {
    runtime.cache().unwrap().counts()
}

async fn works(plugin: &Plugin) {
    let end = plugin.discover(&source(), round("good", nodes(10))).await.end;
    assert!(end.is_ok(), "{end:?}");
}

/// The villain under another digest: with a custom section of one byte at its end.
fn another(byte: u8) -> Arc<[u8]> {
    let mut bytes = VILLAIN.to_vec();
    bytes.extend([0, 3, 1, b'x', byte]);
    bytes.into()
}

#[tokio::test]
async fn what_one_process_compiled_another_one_loads() {
    let place = Place::new();
    let runtime = first(place.options());
    works(&try_load(&runtime, &VILLAIN).await.unwrap()).await;
    assert_eq!(counts(&runtime), [("Miss", 2), ("Stored", 1)].into());
    let runtime = later(place.options());
    works(&try_load(&runtime, &VILLAIN).await.unwrap()).await;
    assert_eq!(counts(&runtime), [("Hit", 1), ("Miss", 1)].into());
    assert_eq!(try_load(&runtime, &another(1)).await.unwrap_err().reason(), "CompilerUnavailable");
}

#[tokio::test]
async fn what_proved_itself_is_optimised_from_the_beginning() {
    let place = Place::new();
    let plugin = try_load(&first(place.options()), &VILLAIN).await.unwrap();
    plugin.optimise().await.unwrap();
    assert_eq!(place.files().len(), 2);
    let runtime = later(place.options());
    let plugin = try_load(&runtime, &VILLAIN).await.unwrap();
    assert_eq!(counts(&runtime), [("Hit", 1)].into());
    plugin.optimise().await.unwrap();
    works(&plugin).await;
}

#[tokio::test]
async fn a_turned_bit_anywhere_is_noticed_removed_and_compiled_anew() {
    let place = Place::new();
    try_load(&first(place.options()), &VILLAIN).await.unwrap();
    let [path] = &place.files()[..] else { panic!("{:?}", place.files()) };
    let good = std::fs::read(path).unwrap();
    let runtime = later(place.options());
    let step = good.len() / 40;
    let samples = (0..good.len()).step_by(step).chain([8, 40, 50, 100, 150, good.len() - 1]);
    for (at, bit) in samples.zip((0..8).cycle()) {
        let mut bad = good.clone();
        bad[at] ^= 1 << bit;
        std::fs::write(path, bad).unwrap();
        let refused = try_load(&runtime, &VILLAIN).await.unwrap_err();
        assert_eq!(refused.reason(), "CompilerUnavailable", "byte {at}: {refused}");
        assert!(!path.exists(), "byte {at}: the broken file is still there");
    }
    assert!(counts(&runtime)["Seal"] > 30, "{:?}", counts(&runtime));
    assert!(!counts(&runtime).contains_key("Hit"));
    let turned = counts(&runtime)["Length"];
    for length in [0, 1, 31, 32, 200, good.len() / 2, good.len() - 1] {
        std::fs::write(path, &good[..length]).unwrap();
        assert!(try_load(&runtime, &VILLAIN).await.is_err(), "{length}");
    }
    assert_eq!(counts(&runtime)["Length"], turned + 7);
    // With a compiler the plugin loads as before, and the file is whole again.
    std::fs::write(path, &good[..100]).unwrap();
    works(&try_load(&first(place.options()), &VILLAIN).await.unwrap()).await;
    works(&try_load(&later(place.options()), &VILLAIN).await.unwrap()).await;
}

#[tokio::test]
async fn an_image_sealed_with_another_key_is_not_run() {
    let place = Place::new();
    try_load(&first(place.options()), &VILLAIN).await.unwrap();
    let runtime = later(CacheOptions { key: CacheKey::random().unwrap(), ..place.options() });
    assert!(try_load(&runtime, &VILLAIN).await.is_err());
    assert_eq!(counts(&runtime), [("OtherKey", 1), ("Miss", 1)].into());
    assert!(place.files().is_empty());
}

#[tokio::test]
async fn an_image_under_the_name_of_another_plugin_is_not_run() {
    let place = Place::new();
    let runtime = first(place.options());
    try_load(&runtime, &VILLAIN).await.unwrap();
    let villain = place.files().remove(0);
    try_load(&runtime, &another(1)).await.unwrap();
    let other = place.files().into_iter().find(|path| *path != villain).unwrap();
    std::fs::copy(&other, &villain).unwrap();
    let runtime = later(place.options());
    assert!(try_load(&runtime, &VILLAIN).await.is_err());
    assert_eq!(counts(&runtime)["Other"], 1);
    // A compiled image is no plugin either, even if its seal is valid.
    let file = std::fs::read(&other).unwrap();
    let begins = file.windows(4).position(|bytes| bytes == b"\x7fELF").unwrap();
    let image: Arc<[u8]> = file[begins..].into();
    assert_eq!(try_load(&runtime, &image).await.unwrap_err().reason(), "Precompiled");
}

#[tokio::test]
async fn a_folder_that_takes_nothing_costs_a_compile_and_no_more() {
    // A folder that this user owns, and in which not even root can create a file.
    let folder = Path::new("/proc/self/task").to_owned();
    let runtime = first(CacheOptions { folder, ..Place::new().options() });
    works(&try_load(&runtime, &VILLAIN).await.unwrap()).await;
    assert_eq!(counts(&runtime), [("Miss", 2), ("Write", 1)].into());
    // A folder that is gone.
    let place = Place::new();
    let runtime = first(place.options());
    std::fs::remove_dir(place.path()).unwrap();
    works(&try_load(&runtime, &VILLAIN).await.unwrap()).await;
    assert_eq!(counts(&runtime), [("Miss", 2), ("Write", 1)].into());
}

#[tokio::test]
async fn what_is_no_private_folder_is_no_cache() {
    let place = Place::new();
    let folder = place.folder.path().join("key");
    let refused = Cache::open(CacheOptions { folder, ..place.options() }).unwrap_err();
    assert!(matches!(refused, OpenError::Open { .. }), "{refused}");
    let refused = Cache::open(CacheOptions { folder: "/tmp".into(), ..place.options() }).unwrap_err();
    assert!(matches!(refused, OpenError::Writable { .. } | OpenError::Owner { .. }), "{refused}");
}

#[tokio::test]
async fn the_folder_keeps_its_size() {
    let place = Place::new();
    try_load(&first(place.options()), &another(0)).await.unwrap();
    let size = std::fs::metadata(&place.files()[0]).unwrap().len();
    // Room for two and a half images.
    let options = || CacheOptions { size: size * 5 / 2, ..place.options() };
    let runtime = first(options());
    try_load(&runtime, &another(1)).await.unwrap();
    // The first image is used, so the cache deletes the second one to make room for the third.
    try_load(&later(options()), &another(0)).await.unwrap();
    try_load(&runtime, &another(2)).await.unwrap();
    assert_eq!((place.files().len(), counts(&runtime)["Evicted"]), (2, 1));
    let runtime = later(options());
    for (which, is_there) in [(0, true), (1, false), (2, true)] {
        assert_eq!(try_load(&runtime, &another(which)).await.is_ok(), is_there, "{which}");
    }
    let tiny = first(CacheOptions { size: 1000, ..place.options() });
    works(&try_load(&tiny, &another(3)).await.unwrap()).await;
    assert_eq!(counts(&tiny)["TooLarge"], 1);
}

/// The variable that makes [`a_child_of_another_test`] work; its value is the folder of the [`Place`].
const CHILD: &str = "TOPOLOOM_TEST_CACHE_OF_PARENT";

/// [`a_child_of_another_test`] in a process of its own, which has its own compiled code.
fn child(shell: &str, place: &Place) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("{shell} exec \"$0\" --exact cache::a_child_of_another_test --nocapture")])
        .arg(std::env::current_exe().unwrap())
        .env(CHILD, place.folder.path());
    command
}

/// Does something only if another test started it: loads the villain and prints what the cache did. It runs no plugin:
/// an instance has a file of its own, in memory, and the parent may have limited the size of files.
#[tokio::test]
async fn a_child_of_another_test() {
    let Some(folder) = std::env::var_os(CHILD) else { return };
    let key = CacheKey::read(&Path::new(&folder).join("key")).unwrap();
    let options = CacheOptions { folder: Path::new(&folder).join("cache"), key, size: DEFAULT_SIZE };
    let runtime = first(options);
    try_load(&runtime, &VILLAIN).await.unwrap();
    println!("counts: {:?}", counts(&runtime));
}

#[test]
fn a_full_disk_costs_a_compile_and_leaves_nothing_behind() {
    let place = Place::new();
    std::sync::LazyLock::force(&VILLAIN);
    // The size of files is limited to four KiB, as on a disk that is full: a part is written, and the next write fails.
    let output = child("trap '' XFSZ; ulimit -f 8;", &place).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(r#"{"Miss": 2, "Write": 1}"#), "{said}");
    assert!(place.files().is_empty(), "{:?}", place.files());
}

#[tokio::test]
async fn processes_that_write_the_same_image_at_one_time_do_not_meet() {
    let place = Place::new();
    std::sync::LazyLock::force(&VILLAIN);
    let children: Vec<_> =
        (0..4).map(|_| child("", &place).stdout(std::process::Stdio::null()).spawn().unwrap()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(place.files().len(), 1, "{:?}", place.files());
    works(&try_load(&later(place.options()), &VILLAIN).await.unwrap()).await;
}

#[tokio::test]
async fn embedded_plugins_leave_no_trace_in_the_cache() {
    let place = Place::new();
    let runtime = first(place.options());
    let plugin = try_load(&runtime, &builtins::find("label").bytes).await.unwrap();
    plugin.optimise().await.unwrap();
    assert!(place.files().is_empty() && counts(&runtime).is_empty());
}

#[tokio::test]
async fn sources_with_the_same_plugin_share_its_code_and_not_its_limits() {
    let plugin = load(&VILLAIN, Limits::default()).await;
    let store = StoreLimits { memory: 64 << 20, ..StoreLimits::default() };
    let other = load(&VILLAIN, Limits { store, ..Limits::default() }).await;
    assert!(plugin.shares_code_with(&other) && !plugin.is(&other));
    assert_eq!((plugin.limits().store.memory, other.limits().store.memory), (256 << 20, 64 << 20));
    // A plugin that starts with more memory than its limit is refused, though its code is in memory.
    let store = StoreLimits { memory: 64 << 10, ..StoreLimits::default() };
    let limits = Limits { store, ..Limits::default() };
    let refused = RUNTIME.load(Load { bytes: Arc::clone(&VILLAIN), pinned: None, limits }).await.unwrap_err();
    assert_eq!(refused.reason(), "InitialSize");
    assert!(!plugin.shares_code_with(&load(&another(1), Limits::default()).await));
    let label = || try_load(&RUNTIME, &builtins::find("label").bytes);
    assert!(label().await.unwrap().shares_code_with(&label().await.unwrap()));
}

#[tokio::test]
async fn sources_that_start_together_compile_once() {
    let place = Place::new();
    let runtime = first(place.options());
    let bytes = another(9);
    let plugins = futures::future::join_all((0..4).map(|_| try_load(&runtime, &bytes))).await;
    let plugins: Vec<Plugin> = plugins.into_iter().map(Result::unwrap).collect();
    assert!(plugins.iter().all(|plugin| plugin.shares_code_with(&plugins[0])));
    assert_eq!(counts(&runtime)["Stored"], 1);
    futures::future::join_all(plugins.iter().map(Plugin::optimise)).await.into_iter().for_each(Result::unwrap);
    assert!(plugins.iter().all(|plugin| plugin.shares_code_with(&plugins[0])));
    assert_eq!(counts(&runtime)["Stored"], 2);
    // The code is dropped with its last user; after that the host reads the cache again.
    let hits = counts(&runtime).get("Hit").copied().unwrap_or(0);
    try_load(&runtime, &bytes).await.unwrap();
    assert_eq!(counts(&runtime).get("Hit").copied().unwrap_or(0), hits, "it is in use");
    drop(plugins);
    try_load(&runtime, &bytes).await.unwrap();
    assert_eq!(counts(&runtime)["Hit"], hits + 1);
}
