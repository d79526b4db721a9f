//! Builds the guests once per test process and makes rounds for them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock};

use topoloom::plugin::{Compiler, Load, Plugin, Round, Runtime};
use topoloom_core::plugin::{Granted, Limits};
use topoloom_core::snapshot::{ColumnKey, NodeMeta, Store, View};

/// The label that the villain groups by.
pub(crate) const RACK: &str = "example.com/rack";

const TARGET: &str = "wasm32-unknown-unknown";

/// The villain as a component; `describe` returns at once.
pub(crate) static VILLAIN: LazyLock<Arc<[u8]>> = LazyLock::new(|| component(&module("topoloom-guest-villain")));

/// The villain whose `describe` never returns.
pub(crate) static MUTE_VILLAIN: LazyLock<Arc<[u8]>> = LazyLock::new(|| {
    let mut module = module("topoloom-guest-villain");
    let (good, bad) = (b"describe=good", b"describe=loop");
    let at = module.windows(good.len()).position(|bytes| bytes == good).expect("the villain has its mark");
    module[at..at + bad.len()].copy_from_slice(bad);
    component(&module)
});

/// One runtime for all tests of the process, as the host has one.
pub(crate) static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Runtime::start(Compiler::Child { exe: host() }).unwrap());

pub(crate) fn source() -> Arc<str> {
    "test".into()
}

pub(crate) async fn load(bytes: &Arc<[u8]>, limits: Limits) -> Plugin {
    RUNTIME.load(Load { bytes: Arc::clone(bytes), pinned: None, limits }).await.unwrap()
}

pub(crate) async fn villain() -> Plugin {
    load(&VILLAIN, Limits::default()).await
}

/// `count` nodes in racks of 16, named as in a cluster.
pub(crate) fn nodes(count: u32) -> View {
    let mut store = Store::new();
    store.want([ColumnKey::label(RACK)]);
    store.begin_relist();
    for i in 0..count {
        let (name, rack) = (format!("node-{i:06}"), format!("rack-{}", i / 16));
        store.relist(NodeMeta { name: &name, labels: [(RACK, rack.as_str())], annotations: [] });
    }
    store.commit_relist();
    store.view(&[ColumnKey::label(RACK)])
}

pub(crate) fn round(act: &str, nodes: View) -> Round {
    let granted = Granted { labels: [RACK.into()].into(), ..Granted::default() };
    Round {
        config: format!(r#"{{"discover": "{act}"}}"#).into(),
        granted: Arc::new(granted),
        nodes,
        applied: Arc::default(),
        time: jiff::Timestamp::UNIX_EPOCH,
        state: Arc::default(),
    }
}

/// A `.wat` guest.
pub(crate) fn wat(name: &str) -> Arc<[u8]> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("guests/wat").join(name);
    wat::parse_file(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).into()
}

/// The directory of this profile's binaries: this test runs as `<target>/<profile>/deps/component-<hash>`.
fn profile_dir() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    exe.ancestors().nth(2).unwrap().to_owned()
}

/// The binary that compiles foreign plugins.
pub(crate) fn host() -> PathBuf {
    let host = profile_dir().join("topoloom");
    assert!(host.is_file(), "{} is missing: run `cargo build -p topoloom` first", host.display());
    host
}

fn component(module: &[u8]) -> Arc<[u8]> {
    let mut encoder = wit_component::ComponentEncoder::default();
    encoder.validate(true).module(module).unwrap().encode().unwrap().into()
}

/// Builds a guest of this workspace, in the target directory that the host's build script uses.
fn module(package: &str) -> Vec<u8> {
    let target = profile_dir().parent().unwrap().join("guests");
    let output = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--profile", "guest", "--target", TARGET, "--package", package, "--lib"])
        .arg("--target-dir")
        .arg(&target)
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{package} does not build: {}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(target.join(TARGET).join("guest").join(format!("{}.wasm", package.replace('-', "_")))).unwrap()
}
