//! Builds the guests once per test process and makes rounds for them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use topoloom::endpoints::Endpoints;
use topoloom::plugin::{Compiler, Load, Plugin, RoundInput, Runtime};
use topoloom_core::names::SourceName;
use topoloom_core::plugin::{Granted, Limits};
use topoloom_core::snapshot::{ColumnKey, NodeMeta, Store, View};
use topoloom_core::topology::{Member, Object, Spec};
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

/// A discoverer that requests data from the host without end.
pub(crate) static GLUTTON: LazyLock<Arc<[u8]>> =
    LazyLock::new(|| component(&guest::module("topoloom-guest-glutton").unwrap()));

/// One runtime for all tests of the process, as the host has one.
pub(crate) static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Runtime::start(Compiler::Child { exe: host() }).unwrap());

/// Plugins that many tests load. Machine code without a user is dropped, and each test would compile it again.
static KEPT: Mutex<Vec<Plugin>> = Mutex::new(Vec::new());

/// Keeps the code of a plugin until the process ends, if it is one that many tests load.
pub(crate) fn keep(plugin: &Plugin) {
    let known: [&LazyLock<Arc<[u8]>>; 3] = [&VILLAIN, &MUTE_VILLAIN, &GLUTTON];
    if known.into_iter().any(|bytes| Arc::ptr_eq(plugin.bytes(), bytes)) {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.iter().any(|other| other.digest() == plugin.digest()) {
            kept.push(plugin.clone());
        }
    }
}

pub(crate) fn source() -> SourceName {
    "test".parse().unwrap()
}

pub(crate) async fn load(bytes: &Arc<[u8]>, limits: Limits) -> Plugin {
    let plugin = RUNTIME.load(Load { bytes: Arc::clone(bytes), pinned: None, limits }).await.unwrap();
    keep(&plugin);
    plugin
}

pub(crate) async fn villain() -> Plugin {
    load(&VILLAIN, Limits::default()).await
}

/// `count` nodes in racks of 16, named as in a cluster.
pub(crate) fn nodes(count: u32) -> View {
    let mut store = Store::new();
    store.require([ColumnKey::label(RACK)]);
    store.begin_relist();
    for i in 0..count {
        let (name, rack) = (format!("node-{i:06}"), format!("rack-{}", i / 16));
        store.relist(NodeMeta { name: &name, labels: [(RACK, rack.as_str())], annotations: [] });
    }
    store.commit_relist();
    store.view(&[ColumnKey::label(RACK)])
}

pub(crate) fn round(act: &str, nodes: View) -> RoundInput {
    let granted = Granted { labels: [RACK.into()].into(), ..Granted::default() };
    RoundInput {
        config: format!(r#"{{"discover": "{act}"}}"#).into(),
        granted: Arc::new(granted),
        nodes,
        applied: Arc::default(),
        endpoints: Endpoints::none(),
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

/// The villain with one more component inside it, which misbehaves when the plugin starts: most of what it does cannot
/// be written in a compiled language.
pub(crate) fn grafted(inner: &str) -> Arc<[u8]> {
    let inner = wat::parse_str(inner).unwrap();
    let mut bytes = VILLAIN.to_vec();
    // Section 4 is a component, section 5 instances of components: one instance of this component, without arguments.
    // Its index is the number of components before it, which is one: the encoder wraps the exported interface into one.
    section(&mut bytes, 4, &inner);
    section(&mut bytes, 5, &[1, 0, 1, 0]);
    bytes.into()
}

/// A stored object of tier 1 with these members, without an owner.
pub(crate) fn stored(name: &str, members: Vec<Member>) -> Object {
    Object {
        name: name.into(),
        uid: "u".into(),
        resource_version: "1".into(),
        created: 0,
        source: None,
        group_id: None,
        split_from: None,
        description: None,
        labels: Default::default(),
        owned_labels: Default::default(),
        shared_labels: Default::default(),
        spec: Spec { tier: 1, tier_name: None, members },
    }
}

/// The compiler process, with pipes to talk to it.
pub(crate) fn compiler() -> Child {
    compiler_with(&["quick"])
}

/// The same with other words.
pub(crate) fn compiler_with(words: &[&str]) -> Child {
    let mut command = Command::new(host());
    command.arg("compile-plugin").args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// The villain with one more core module, which no code instantiates: bytes that no tool writes.
pub(crate) fn carrying(module: &[u8]) -> Arc<[u8]> {
    let mut bytes = VILLAIN.to_vec();
    section(&mut bytes, 1, module);
    bytes.into()
}

fn section(bytes: &mut Vec<u8>, id: u8, content: &[u8]) {
    bytes.push(id);
    let mut left = content.len();
    while left >= 0x80 {
        bytes.push(u8::try_from(left & 0x7f).unwrap() | 0x80);
        left >>= 7;
    }
    bytes.push(u8::try_from(left).unwrap());
    bytes.extend_from_slice(content);
}

/// A component with this many instances of one module, which exports this many functions.
pub(crate) fn crowd(instances: usize, links: usize) -> Arc<[u8]> {
    let exports: String = (0..links).map(|i| format!(r#"(export "{i}" (func 0))"#)).collect();
    let instances = "(core instance (instantiate $m))".repeat(instances);
    let text = format!("(component (core module $m (func) {exports}) {instances})");
    wat::parse_str(&text).unwrap().into()
}

/// A plugin that passes the scan and would keep the compiler busy for minutes: loops in loops in loops, all of which change
/// all locals.
pub(crate) fn bomb() -> Arc<[u8]> {
    let locals = "i32 ".repeat(LOOPS);
    let changes: String =
        (0..LOOPS).map(|local| format!(" (local.set {local} (i32.add (local.get {local}) (i32.const 1)))")).collect();
    let (begin, end) = ("loop ".repeat(LOOPS), "local.get 0 br_if 0 end ".repeat(LOOPS));
    let function = format!("(func (local {locals}) {begin}{changes} {end})");
    let export = r#"(instance $d) (export "topoloom:discovery/discoverer@0.1.0" (instance $d))"#;
    wat::parse_str(format!("(component (core module {function}) {export})")).unwrap().into()
}

/// How many loops and how many locals; the compiler's work grows with a high power of it.
const LOOPS: usize = 300;

fn villain_module() -> Vec<u8> {
    guest::module("topoloom-guest-villain").unwrap()
}

fn component(module: &[u8]) -> Arc<[u8]> {
    guest::component(module).unwrap().into()
}
