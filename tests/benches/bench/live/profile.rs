//! Where a busy host spends its processor time: nodes move from leaf to leaf as fast as the API server accepts the
//! edits, the entry is edited every few seconds, and the host profiles itself meanwhile.
//!
//! The folded stacks, from which flame graphs are drawn, stay in `target/profile.folded`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use topoloom_tests::host::Host;

use super::Live;
use crate::cluster::{KEYS, LEAF, configuration, leaf, leaf_value, name, values};
use crate::process::{held, peak_mib};
use crate::stacks;
use crate::table::{Row, Table, mib};

const SECONDS: u64 = 30;
/// Edits of labels under way at a time.
const MOVES_AT_ONCE: usize = 4;
const EDIT: Duration = Duration::from_secs(3);
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/profile.folded");

pub(super) async fn measure(live: &Live, table: &mut Table) -> Result<()> {
    live.clear().await?;
    let mut watch = live.watch();
    let host = Host::launch(&live.scene.plane.kubeconfig(), &["--log", "info", "--profiling"]).await?;
    watch.until_right(live.size).await?;
    let id = host.id().context("the host has ended")?;
    // Before the profile: to name functions, it reads the symbols of the whole binary.
    let (quiet, peak) = (held(id)?.resident, peak_mib(id)?);
    let moves = AtomicU64::new(0);
    let path = format!("/debug/profile?seconds={SECONDS}");
    let folded = tokio::select! {
        folded = host.get(&path) => folded?,
        moved = moving(live, &moves) => return moved.context("the nodes stopped moving"),
        edited = editing(live) => return edited.context("the edits stopped"),
    };
    // Restores nodes and configuration for the next measurement.
    restore(live).await?;
    live.scene.configure(&configuration()).await?;
    watch.until_right(live.size).await?;
    let what = format!("busy host, {} nodes", live.size);
    table.add(Row::new(format!("{what}: memory before, and its peak"), format!("{}, {}", mib(quiet), mib(peak))));
    let each = moves.load(Ordering::Relaxed) / SECONDS;
    table.add(Row::new(format!("{what}: nodes moved per second"), each.to_string()));
    std::fs::write(FILE, &folded).with_context(|| format!("cannot write {FILE}"))?;
    stacks::show(&folded, &what, SECONDS, table);
    host.stop().await
}

/// Moves nodes to the next leaf and back, for ever.
async fn moving(live: &Live, moves: &AtomicU64) -> Result<()> {
    let there = |turn: u32| {
        let node = turn.wrapping_mul(7919) % live.size;
        let other = (leaf(node) + 1) % (live.size / LEAF).max(1);
        (name(node), if (turn / live.size).is_multiple_of(2) { other } else { leaf(node) })
    };
    stream::iter((0..u32::MAX).map(there))
        .map(|(node, to)| async move {
            live.scene.plane.relabel(&node, KEYS[0], leaf_value(to).as_str()).await?;
            moves.fetch_add(1, Ordering::Relaxed);
            anyhow::Ok(())
        })
        .buffer_unordered(MOVES_AT_ONCE)
        .try_for_each(async |()| Ok(()))
        .await
}

/// Puts every node back where it was.
async fn restore(live: &Live) -> Result<()> {
    stream::iter(0..live.size)
        .map(|node| async move {
            live.scene.plane.relabel(&name(node), KEYS[0], values(node)[0].as_str()).await.map(drop)
        })
        .buffer_unordered(MOVES_AT_ONCE * 4)
        .try_for_each(async |()| Ok(()))
        .await
}

/// Another limit in the entry every few seconds, for ever: its plugin is configured anew and answers for all nodes.
async fn editing(live: &Live) -> Result<()> {
    let mut beat = tokio::time::interval(EDIT);
    for turn in 0_u64.. {
        beat.tick().await;
        let limits = format!(r#""enabled": true, "limits": {{"cpu": "{}s"}}"#, 5 + turn % 2);
        live.scene.configure(&configuration().replace(r#""enabled": true"#, &limits)).await?;
    }
    Ok(())
}
