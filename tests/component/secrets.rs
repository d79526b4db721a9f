//! A guest can read only what it was granted, whatever it tries.
//!
//! The guest `thief` returns all of its memory, grown, before and after it has called every import with every key and
//! name that it can guess. The process also has secrets of every kind; a control shows that the thief finds them if it
//! can reach them.

use std::sync::{Arc, LazyLock};

use topoloom::config::{self, EntryConfig};
use topoloom::delivery::Module;
use topoloom::discovery::revision::{Host, Revision, prepare};
use topoloom::endpoints::{Endpoints, Outside};
use topoloom::plugin::{Call, Compiler, Load, Metrics, Options, Plugin, RoundInput, Runtime};
use topoloom_api::condition::Reason;
use topoloom_api::discovery_source::PluginOrigin as Origin;
use topoloom_core::plugin::{Amount, Answer, CallError, Granted, Limit, Limits, TrapKind};
use topoloom_core::snapshot::{ColumnKey, NodeMeta, Store, View};
use topoloom_core::topology::{Member, Object};
use topoloom_tests::guest;

use crate::guests::{VILLAIN, host, source, stored};

const OPEN: &str = "example.com/open";
const HIDDEN: &str = "example.com/hidden";

/// What the thief may find.
const GRANTED: [&str; 4] = ["open-label-7c1d", "open-annotation-e2f0", "own-object-93ab", "own-configuration-51ce"];
/// What it may find if the operator grants names of nodes.
const NAMES: [&str; 2] = ["node-name-b84e", "gone-node-name-06d7"];
/// What is also in the process, and must stay secret.
const SECRETS: [&str; 6] = [
    "hidden-label-f3a9",
    "hidden-annotation-2b6c",
    "foreign-object-d815",
    "foreign-configuration-4e70",
    "foreign-state-c9f2",
    "foreign-memory-a06b",
];

static THIEF: LazyLock<Arc<[u8]>> = LazyLock::new(|| {
    let module = guest::module("topoloom-guest-thief").unwrap();
    guest::component(&module).unwrap().into()
});

/// Another plugin, which does the same.
fn other_thief() -> Arc<[u8]> {
    // A custom section without content: it has no effect, but it changes the digest.
    [&THIEF[..], &[0, 2, 1, b'x']].concat().into()
}

/// A runtime with room for one instance: every guest gets the memory of the guest before it.
fn narrow() -> Runtime {
    let options = Options { calls: 1, ..Options::default() };
    Runtime::start_with(Compiler::Child { exe: host() }, options, Metrics::default(), None).unwrap()
}

async fn load(runtime: &Runtime, bytes: &Arc<[u8]>) -> Plugin {
    let mut limits = Limits::default();
    // For guests that do not end by themselves.
    limits.set(Limit::Cpu, Amount::seconds(3));
    runtime.load(Load { bytes: Arc::clone(bytes), pinned: None, limits }).await.unwrap()
}

/// The columns of all sources.
fn store() -> Store {
    let mut store = Store::new();
    store.require([OPEN, HIDDEN].into_iter().flat_map(|key| [ColumnKey::label(key), ColumnKey::annotation(key)]));
    store.begin_relist();
    let labels = [(OPEN, GRANTED[0]), (HIDDEN, SECRETS[0])];
    let annotations = [(OPEN, GRANTED[1]), (HIDDEN, SECRETS[1])];
    store.relist(NodeMeta { name: NAMES[0], labels, annotations });
    store.commit_relist();
    store
}

/// All columns; the host would never give them to the thief.
fn everything() -> View {
    let keys = [OPEN, HIDDEN].into_iter().flat_map(|key| [ColumnKey::label(key), ColumnKey::annotation(key)]);
    store().view(&keys.collect::<Vec<_>>())
}

/// An object of a source, with a node that exists and one that is gone.
fn object(name: &str) -> Arc<[Arc<Object>]> {
    let members = NAMES.map(|name| Member::node(name.into())).into();
    let object = Object { group_id: Some(name.into()), ..stored(name, members) };
    [Arc::new(object)].into()
}

fn granted(key: &str, node_names: bool) -> Arc<Granted> {
    let keys = || [key.into()].into();
    Arc::new(Granted { labels: keys(), annotations: keys(), node_names, ..Granted::default() })
}

/// The round of another source, which has grants that the thief does not have, and leaves its data in memory.
fn foreign(config: &str) -> RoundInput {
    RoundInput {
        config: format!(r#"{{"guesses": ["{HIDDEN}", "{}"], {config}}}"#, SECRETS[3]).into(),
        granted: granted(HIDDEN, true),
        nodes: everything(),
        applied: object(SECRETS[2]),
        endpoints: Endpoints::none(),
        time: jiff::Timestamp::UNIX_EPOCH,
        state: SECRETS[4].as_bytes().into(),
    }
}

/// The round of the thief. It knows every key, and the usual names of endpoints and nodes.
fn theft(granted: Arc<Granted>, names: bool, nodes: View) -> RoundInput {
    let guesses = format!(
        r#"["{OPEN}", "{HIDDEN}", "{HIDDEN}-not", "ufm", "fabric", "default", "*", "", "../ufm", "node-0", "{}"]"#,
        GRANTED[3]
    );
    RoundInput {
        config: format!(r#"{{"ask": ["{OPEN}"], "guesses": {guesses}, "names": {names}, "grow": 40}}"#).into(),
        granted,
        nodes,
        applied: object(GRANTED[2]),
        endpoints: Endpoints::none(),
        time: jiff::Timestamp::UNIX_EPOCH,
        state: Arc::default(),
    }
}

/// The bytes that a guest returned.
struct Loot(Vec<u8>);

impl Loot {
    fn of(call: Call<Answer>) -> Self {
        Self(call.end.unwrap().state)
    }

    fn has(&self, text: &str) -> bool {
        self.0.windows(text.len()).any(|bytes| bytes == text.as_bytes())
    }

    fn count(&self, text: &str) -> usize {
        self.0.windows(text.len()).filter(|bytes| *bytes == text.as_bytes()).count()
    }

    #[track_caller]
    fn has_all(&self, texts: &[&str]) {
        for text in texts {
            assert!(self.has(text), "{text} was not found in {} bytes", self.0.len());
        }
    }

    #[track_caller]
    fn has_none(&self, texts: &[&str]) {
        for text in texts {
            assert!(!self.has(text), "{text} was found");
        }
    }
}

/// The entry of the thief, as an operator writes it.
fn entry(permissions: &str) -> Arc<EntryConfig> {
    let text = format!(
        "networkTopologyDiscovery:\n- source: thief\n  enabled: true\n  plugin: {{file: /thief.wasm}}\n  permissions: \
         {{nodeLabels: [{OPEN}], nodeAnnotations: [{OPEN}]{permissions}}}\n  config: {{ask: [{OPEN}]}}\n"
    );
    let document = config::parse(&text).unwrap();
    let entry = document.enabled().next().cloned();
    Arc::new(entry.unwrap_or_else(|| panic!("{:?}", document.errors().collect::<Vec<_>>())))
}

async fn revision(runtime: &Runtime, permissions: &str) -> Result<Revision, (Reason, String)> {
    let module = Arc::new(Module::plain(Arc::clone(&THIEF), Origin::File));
    let outside = Outside::offline();
    let revision = prepare(Host::at_desk(runtime, &outside), entry(permissions), module, None).await;
    revision.map_err(|refused| (refused.reason, refused.message))
}

#[tokio::test]
async fn a_guest_finds_what_it_was_granted_and_nothing_else() {
    let runtime = narrow();
    // All data of the other source is in this process, and was in the same memory.
    let hoarder = load(&runtime, &other_thief()).await;
    let hoard = format!(r#""names": true, "grow": 2, "hoard": "{}""#, SECRETS[5]);
    let found = Loot::of(hoarder.discover(&source(), foreign(&hoard)).await);
    found.has_all(&SECRETS);
    found.has_all(&NAMES);
    let villain = load(&runtime, &VILLAIN).await;

    let revision = revision(&runtime, ", nodeNames: true").await.unwrap();
    // First with the columns that the host would give it, then with those of all sources.
    for nodes in [store().view(&revision.keys), everything()] {
        let call = revision.plugin.discover(&source(), theft(Arc::clone(&revision.granted), true, nodes)).await;
        let found = Loot::of(call);
        found.has_all(&GRANTED);
        found.has_all(&NAMES);
        found.has_none(&SECRETS);
        // The bytes of another plugin: its file has its texts as they are.
        let mark = "discover panics as configured";
        assert!(villain.bytes().windows(mark.len()).any(|bytes| bytes == mark.as_bytes()));
        found.has_none(&[mark]);
        let environment: Vec<_> = std::env::vars().map(|(key, value)| format!("{key}={value}")).collect();
        assert!(!environment.is_empty());
        found.has_none(&environment.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn names_of_nodes_need_the_operators_word() {
    let runtime = narrow();
    let (reason, message) = revision(&runtime, "").await.unwrap_err();
    assert_eq!(reason, Reason::PermissionDenied);
    assert!(message.contains("nodeNames: true"), "{message}");
    // The host shows every plugin the objects of its own source, without the names of nodes that are gone.
    let plugin = load(&runtime, &THIEF).await;
    let found = Loot::of(plugin.discover(&source(), theft(granted(OPEN, false), false, everything())).await);
    found.has_all(&GRANTED);
    found.has_none(&NAMES);
    found.has_none(&SECRETS);
}

#[tokio::test]
async fn nothing_is_left_in_memory_for_the_next_guest() {
    let runtime = narrow();
    let thief = load(&runtime, &THIEF).await;
    // The same plugin for another source gets the same image and memory, another plugin only the same memory.
    for bytes in [Arc::clone(&THIEF), other_thief()] {
        let hoarder = load(&runtime, &bytes).await;
        for end in ["", "crash", "loop"] {
            // More memory than the runtime keeps for the next guest, and less than the thief reads.
            let hoard = format!(r#""names": true, "grow": 24, "hoard": "{}", "end": "{end}""#, SECRETS[5]);
            let call = hoarder.discover(&source(), foreign(&hoard)).await;
            assert!(call.usage.peak_memory > 24 << 20, "{:?}", call.usage);
            match (end, &call.end) {
                // The text is in memory many times, not only where the host gave it to the guest.
                ("", Ok(_)) => assert!(Loot::of(call).count(SECRETS[5]) > 10_000),
                ("crash", Err(CallError::Trap { kind: TrapKind::Unreachable, .. }))
                | ("loop", Err(CallError::CpuDeadline { .. })) => {}
                (_, other) => panic!("{end}: {other:?}"),
            }
            let call = thief.discover(&source(), theft(granted(OPEN, true), true, everything())).await;
            assert!(call.usage.peak_memory >= 40 << 20, "{:?}", call.usage);
            let found = Loot::of(call);
            found.has_all(&GRANTED);
            found.has_none(&SECRETS);
        }
    }
}
