//! Plugins of other vendors in one process with the runtime of the host: what a call costs, and what a compile that
//! goes wrong costs all other plugins.

mod bombs;
mod overhead;

use std::sync::Arc;

use anyhow::Result;
use topoloom::endpoints::Endpoints;
use topoloom::plugin::{Compiler, RoundInput, Runtime};
use topoloom_core::plugin::Granted;
use topoloom_core::snapshot::{ColumnKey, NodeMeta, Store};
use topoloom_tests::builtins;
use topoloom_tests::guest;

use crate::options::Options;
use crate::table::Table;

/// The label that the guest groups by.
const RACK: &str = "example.com/rack";

pub(crate) async fn measure(options: &Options, table: &mut Table) -> Result<()> {
    if options.wants("bombs") {
        bombs::measure(options, table).await?;
    }
    if options.wants("overhead") {
        overhead::measure(options, table).await?;
    }
    Ok(())
}

/// The runtime as the host starts it.
fn runtime() -> Result<Runtime> {
    Ok(Runtime::start(Compiler::Child { exe: topoloom_tests::host::binary()? })?)
}

/// A small discoverer of another vendor.
fn stranger() -> Result<Vec<u8>> {
    guest::version("good", "1.0.0")
}

/// The arguments of a round over this many nodes in racks of 16.
fn round(size: u32) -> RoundInput {
    let mut store = Store::new();
    store.require([ColumnKey::label(RACK)]);
    store.begin_relist();
    for node in 0..size {
        let (name, rack) = (format!("node-{node:06}"), format!("rack-{}", node / 16));
        store.relist(NodeMeta { name: &name, labels: [(RACK, rack.as_str())], annotations: [] });
    }
    store.commit_relist();
    RoundInput {
        config: "{}".into(),
        granted: Arc::new(Granted { labels: [RACK.into()].into(), ..Granted::default() }),
        nodes: store.view(&[ColumnKey::label(RACK)]),
        applied: Arc::default(),
        endpoints: Endpoints::none(),
        time: jiff::Timestamp::UNIX_EPOCH,
        state: Arc::default(),
    }
}

/// The label plugin under another digest. The host treats it as a plugin of another vendor: it compiles it in the
/// child, and the plugin reads only what the entry grants.
pub(crate) fn variant(number: u32) -> Result<Vec<u8>> {
    let label = builtins::find("label");
    let mut bytes = label.bytes.to_vec();
    let content = [&[1, b'n'][..], &number.to_le_bytes()].concat();
    section(&mut bytes, 0, &content);
    Ok(bytes)
}

/// Appends a section to a component.
fn section(bytes: &mut Vec<u8>, id: u8, content: &[u8]) {
    bytes.push(id);
    number(bytes, content.len());
    bytes.extend_from_slice(content);
}

/// Appends a number as WebAssembly writes it, seven bits at a time.
fn number(bytes: &mut Vec<u8>, mut left: usize) {
    while left >= 0x80 {
        bytes.push((left & 0x7f) as u8 | 0x80);
        left >>= 7;
    }
    bytes.push(left as u8);
}
