//! Packed files: those that are too large as delivered, and small ones that unpack to a large size.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use topoloom::config;
use topoloom::config::{EntryConfig, PluginOrigin, PluginRef};
use topoloom::delivery::Refused;
use topoloom::delivery::unpack::{UNPACKED, pack};
use topoloom::delivery::{Delivery, Module, Offer, Sites};
use topoloom::discovery::revision::{Host, prepare};
use topoloom::endpoints::Outside;
use topoloom::plugin::{Compiler, Metrics, Options, Runtime};
use topoloom_api::condition::Reason;
use topoloom_core::plugin::rollout::{Failed, RolloutStep};
use topoloom_core::plugin::{Amount, Limit, Profile};

use super::sentence;
use crate::guests::{VILLAIN, host};

/// The offer for this file, which is read as in the host.
async fn delivered(file: &[u8], metrics: &Metrics) -> Offer {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("acme.wasm.zst");
    std::fs::write(&path, file).unwrap();
    let sites = Sites { poll: Duration::from_secs(3600), ..Sites::at("") };
    let plugin = PluginRef { origin: PluginOrigin::File(path), digest: None, trust: None, expected_name: None };
    Delivery::new(None, sites, metrics.clone()).once(&plugin).await
}

fn module(offer: Offer) -> Arc<Module> {
    match offer {
        Offer::Module(module) => module,
        other => panic!("{other:?}"),
    }
}

/// An entry with these limits, as an operator writes it.
fn entry(limits: &str) -> Arc<EntryConfig> {
    let text = format!(
        "networkTopologyDiscovery:\n- source: acme\n  enabled: true\n  plugin: {{file: {}}}\n  limits: {limits}\n",
        Path::new("/acme.wasm").display()
    );
    let document = config::parse(&text).unwrap();
    let entry = document.enabled().next().cloned();
    Arc::new(entry.unwrap_or_else(|| panic!("{:?}", document.errors().collect::<Vec<_>>())))
}

async fn refused(runtime: &Runtime, limits: &str, module: &Arc<Module>) -> Refused {
    prepare(Host::at_desk(runtime, &Outside::offline()), entry(limits), Arc::clone(module), None)
        .await
        .expect_err("it became a revision")
}

fn runtime() -> Runtime {
    Runtime::start_with(Compiler::Child { exe: host() }, Options::default(), Metrics::default(), None).unwrap()
}

/// Bytes that cannot be compressed.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let step = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(step).take(bytes).collect()
}

/// A frame (RFC 8878, 3.1.1) of this many MiB of one byte, in eight blocks of four bytes for each MiB. Its header has
/// the unpacked size only with `says`.
fn bomb(mib: u64, says: bool) -> Vec<u8> {
    const BLOCK: u32 = 128 << 10;
    // A window of 128 KiB, and with `says` eight bytes of size.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, if says { 0xc0 } else { 0x00 }, 0x38];
    if says {
        frame.extend((mib << 20).to_le_bytes());
    }
    let blocks = mib * 8;
    for block in 1..=blocks {
        // Size, "one byte many times", and whether it is the last.
        let header = BLOCK << 3 | 1 << 1 | u32::from(block == blocks);
        frame.extend(&header.to_le_bytes()[..3]);
        frame.push(0);
    }
    frame
}

pub(super) async fn prove(row: Limit) {
    let runtime = runtime();
    let most = row.default(Profile::Standard).size();
    let packed = pack(&noise(most));
    assert!(packed.len() > most, "{}", packed.len());
    let module = module(delivered(&packed, runtime.metrics()).await);
    assert_eq!(module.packed, Some(packed.len()));
    let refused = refused(&runtime, "{}", &module).await;
    assert_eq!(
        (refused.step, refused.reason, refused.failed),
        (RolloutStep::Receive, Reason::PluginInvalid, Failed::ForGood)
    );
    sentence(row, &refused.message, &format!("the packed module has {} bytes and may have {most}", packed.len()));
    assert_eq!(runtime.metrics().hits(row), 1);
}

#[tokio::test]
async fn the_entry_may_allow_as_much_as_the_table_says() {
    let runtime = runtime();
    // More than the large profile allows.
    let packed = pack(&noise(Amount::mib(9).size()));
    let module = module(delivered(&packed, runtime.metrics()).await);
    for (limits, step) in
        [("{profile: large}", RolloutStep::Receive), ("{profile: large, packed: 10Mi}", RolloutStep::Scan)]
    {
        let refused = refused(&runtime, limits, &module).await;
        assert_eq!(refused.step, step, "{limits}: {}", refused.message);
    }
}

#[tokio::test]
async fn a_plugin_within_the_limit_is_unpacked_and_serves() {
    let runtime = runtime();
    let module = module(delivered(&pack(&VILLAIN), runtime.metrics()).await);
    let limits = format!("{{packed: {}Ki}}", module.packed.unwrap().div_ceil(1 << 10));
    let permissions = refused(&runtime, &limits, &module).await;
    // Only the operator's grant of the label is still missing.
    assert_eq!(permissions.step, RolloutStep::Grant, "{}", permissions.message);
}

#[tokio::test]
async fn a_bomb_is_unpacked_up_to_the_bound_and_no_further() {
    let row = Limit::File;
    for says in [false, true] {
        let metrics = Metrics::default();
        let bomb = bomb(300, says);
        assert!(bomb.len() < 10 << 10, "{}", bomb.len());
        let offer = delivered(&bomb, &metrics).await;
        let Offer::Beyond(beyond, message) = &offer else { panic!("{offer:?}") };
        assert_eq!((*beyond, offer.trouble().unwrap().0), (row, Reason::PluginInvalid));
        assert!(message.ends_with(&format!("the module unpacks to more than {UNPACKED} bytes")), "{message}");
        assert_eq!(metrics.hits(row), 1, "{says}");
    }
}

#[tokio::test]
async fn a_bomb_below_the_bound_is_too_large_for_its_entry() {
    let runtime = runtime();
    let module = module(delivered(&bomb(20, false), runtime.metrics()).await);
    let refused = refused(&runtime, "{}", &module).await;
    assert_eq!((refused.step, refused.reason), (RolloutStep::Scan, Reason::PluginInvalid));
    sentence(Limit::File, &refused.message, "the plugin has 20971520 bytes and may have 4194304");
    assert_eq!(runtime.metrics().hits(Limit::File), 1);
}
