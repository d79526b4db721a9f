//! From the edit of a node's label until both HyperNodes are right, members and counts: one edit at a time.
//!
//! The time begins before the edit is sent and ends when the watch has shown the last of the four writes.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Result;
use topoloom_api::HyperNode;

use super::Live;
use super::watch::Watch;
use crate::cluster::{KEYS, LEAF, leaf_value, name};
use crate::options::Options;
use crate::sample::Sample;
use crate::table::{Row, Table, Target, seconds, time};

const EDITS: usize = 200;
const MEDIAN_SECONDS: f64 = 0.05;
const P99_SECONDS: f64 = 0.25;

/// A leaf and how many nodes it should have.
pub(crate) type Leaf = (u32, i64);

pub(super) async fn measure(live: &Live, watch: &mut Watch, options: &Options, table: &mut Table) -> Result<()> {
    let mut sample = Sample::default();
    // Pairs of neighbouring leaves; the last leaf may be smaller than the others and is left alone.
    let pairs = (live.size / LEAF).saturating_sub(1) / 2;
    anyhow::ensure!(pairs > 0, "{} nodes are too few leaves for edits", live.size);
    for edit in 0..options.runs(EDITS).max(100) as u32 {
        // Another pair each time: a node moves to the other leaf, and back in the next turn of the pair.
        let (pair, turn) = (edit % pairs, edit / pairs % 2);
        let (here, there) = (pair * 2, pair * 2 + 1);
        let node = name(here * LEAF);
        let (from, to) = if turn == 0 { ((here, 17), (there, 19)) } else { ((there, 18), (here, 18)) };
        let value = leaf_value(to.0);
        let begin = Instant::now();
        live.scene.plane.relabel(&node, KEYS[0], value.as_str()).await?;
        watch.until("the edit has arrived", |objects| is_moved(objects, &node, from, to)).await?;
        sample.push(begin.elapsed());
    }
    for (what, percent, target) in [("median", 50, MEDIAN_SECONDS), ("p99", 99, P99_SECONDS)] {
        let took = sample.percentile(percent);
        let measure = format!("label edit → both HyperNodes right, {what} of {}, {} nodes", sample.len(), live.size);
        table.add(Row::new(measure, time(took)).target(took.as_secs_f64(), Target::Below(target), seconds));
    }
    Ok(())
}

/// Whether the node has left one leaf, has arrived in the other, and both counts say so.
pub(crate) fn is_moved(objects: &BTreeMap<String, HyperNode>, node: &str, from: Leaf, to: Leaf) -> bool {
    let is = |(leaf, count): Leaf, has_node: bool| {
        let value = leaf_value(leaf);
        let label = |object: &HyperNode| object.metadata.labels.as_ref()?.get(KEYS[0]).map(|found| *found == value);
        objects.values().find(|object| label(object) == Some(true)).is_some_and(|object| {
            object.status.as_ref().and_then(|status| status.node_count) == Some(count)
                && object.spec.members.len() as i64 == count
                && has(object, node) == has_node
        })
    };
    is(from, false) && is(to, true)
}

fn has(object: &HyperNode, node: &str) -> bool {
    let mut selectors = object.spec.members.iter().filter_map(|member| member.selector.as_ref());
    selectors.any(|selector| selector.exact_match.as_ref().is_some_and(|exact| exact.name == node))
}
