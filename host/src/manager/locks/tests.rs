//! What is said while the watches of the node lock are refused.

use std::sync::atomic::Ordering;

use super::*;
use crate::cluster::watches::staged::forbidding;
use crate::log::captured::Lines;

#[tokio::test(start_paused = true)]
async fn a_rule_that_is_missing_is_one_line_per_kind_and_few_lists() {
    let health = Health::default();
    let shared = Shared {
        view: Arc::new(View::new(
            topoloom_core::nodelock::needs::Backend::known().into(),
            prometheus_client::metrics::histogram::Histogram::new([]),
        )),
        nodes: health.check("lock-nodes").into(),
        pods: health.check("lock-pods").into(),
    };
    let (client, asked) = forbidding();
    let (lines, _guard) = Lines::of_warnings();
    let _ = tokio::time::timeout(Duration::from_secs(60), shared.watch(client)).await;
    assert_eq!(lines.count("does not work"), 2, "{}", lines.text());
    assert_eq!((lines.count("lock-nodes"), lines.count("lock-pods")), (1, 1), "{}", lines.text());
    let asked = asked.load(Ordering::SeqCst);
    assert!(asked <= 2 * 11, "{asked} lists in a minute");
}
