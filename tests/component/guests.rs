//! Builds the guests once per test process and makes rounds for them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use topoloom::plugin::{Compiler, Load, Plugin, Round, Runtime};
use topoloom_core::plugin::{Granted, Limits};
use topoloom_core::snapshot::{ColumnKey, NodeMeta, Store, View};
use topoloom_tests::guest;

/// The label that the villain groups by.
pub(crate) const RACK: &str = "example.com/rack";

/// The villain as a component; `describe` returns at once.
pub(crate) static VILLAIN: LazyLock<Arc<[u8]>> = LazyLock::new(|| component(&villain_module()));

/// The villain whose `describe` never returns.
pub(crate) static MUTE_VILLAIN: LazyLock<Arc<[u8]>> = LazyLock::new(|| {
    let mut module = villain_module();
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

/// The binary that compiles foreign plugins.
pub(crate) fn host() -> PathBuf {
    topoloom_tests::host::binary().unwrap()
}

fn villain_module() -> Vec<u8> {
    guest::module("topoloom-guest-villain").unwrap()
}

fn component(module: &[u8]) -> Arc<[u8]> {
    guest::component(module).unwrap().into()
}
