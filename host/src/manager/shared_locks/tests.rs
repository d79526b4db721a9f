//! The watches of the node lock: what is reported while they are refused, and what they cost.

use std::sync::atomic::Ordering;
use std::time::Duration;

use topoloom_core::snapshot::ColumnKey;

use super::*;
use crate::cluster::nodes::Nodes;
use crate::cluster::watches::staged::{self, forbidding};
use crate::log::captured::Lines;

#[tokio::test(start_paused = true)]
async fn a_rule_that_is_missing_is_one_line_per_kind_and_few_lists() {
    let health = Health::default();
    let view = Arc::new(View::new(
        topoloom_core::nodelock::needs::Backend::known().into(),
        prometheus_client::metrics::histogram::Histogram::new([]),
    ));
    let nodes = Arc::new(NodeWatch::new(&Restores::default()));
    let check = Check::from(health.check("lock-nodes"));
    nodes.follow(Arc::clone(&view) as _, Box::new(move |answer| check.take(answer)));
    let shared = SharedLocks { view, nodes, pods: health.check("lock-pods").into() };
    let (client, asked) = forbidding();
    let (lines, _guard) = Lines::of_warnings();
    let _ = tokio::time::timeout(Duration::from_secs(60), shared.watch(client)).await;
    assert_eq!(lines.count("a check fails"), 2, "{}", lines.text());
    assert_eq!((lines.count("lock-nodes"), lines.count("lock-pods")), (1, 1), "{}", lines.text());
    let asked = asked.load(Ordering::SeqCst);
    assert!(asked <= 2 * 11, "{asked} lists in a minute");
}

#[tokio::test(start_paused = true)]
async fn columns_and_locks_of_ten_thousand_nodes_take_one_list_of_twenty_pages() {
    const NODES: u32 = 10_000;
    let (client, lists) = staged::nodes(NODES as usize);
    let watch = Arc::new(NodeWatch::new(&Restores::default()));
    let columns = Arc::new(Nodes::of(Arc::clone(&watch)));
    let view = Arc::new(View::new(
        topoloom_core::nodelock::needs::Backend::known().into(),
        prometheus_client::metrics::histogram::Histogram::new([]),
    ));
    watch.follow(Arc::clone(&columns) as _, Box::new(|_| ()));
    watch.follow(Arc::clone(&view) as _, Box::new(|_| ()));
    watch.wait();
    // Both controllers run it, and one of them watches.
    let runs = async { tokio::join!(watch.run(client.clone()), watch.run(client)) };
    let keys = [ColumnKey::label("rack")];
    let interest = columns.keep(keys.to_vec());
    columns.begin();
    tokio::select! {
        _ = runs => panic!("it watches until it is dropped"),
        seen = columns.view(&keys) => assert_eq!(seen.rows(), NODES),
    }
    assert_eq!((view.known(|known| known.sizes().nodes), lists.load(Ordering::SeqCst)), (NODES as usize, 20));
    drop(interest);
}
