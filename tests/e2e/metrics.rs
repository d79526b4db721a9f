//! What a running host shows is in the list that alerts, dashboard and documentation are checked against.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use topoloom::manager::metrics::catalogue::catalogue;
use topoloom_tests::scene::{RACKS, Scene};

#[tokio::test(flavor = "multi_thread")]
async fn a_running_host_shows_no_metric_that_is_not_in_the_list() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["n1 ex.io/rack=a"]).await?;
    scene.configure(RACKS).await?;
    let host = scene.host().await?;
    scene.until(&["tier 1 ex.io/rack=a (1): n1"]).await;
    let text = host.get("/metrics").await?;
    let known: BTreeMap<String, _> = catalogue().into_iter().map(|metric| (metric.name.clone(), metric)).collect();
    let mut shown = 0;
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').context("a name and a kind")?;
        let metric = known.get(name).with_context(|| format!("{name} is not in the list"))?;
        assert_eq!(metric.kind.to_string(), kind, "{name}");
        let series =
            text.lines().filter(|line| metric.series().iter().any(|name| line.starts_with(&format!("{name}{{"))));
        for line in series {
            let (labels, _) = line.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).context("labels")?;
            for label in labels.split("\",").filter_map(|pair| pair.split_once("=\"")).map(|(label, _)| label) {
                assert!(label == "le" || metric.labels.contains_key(label), "{name} has no label {label} in the list");
            }
        }
        shown += 1;
    }
    assert!(shown > 15, "{text}");
    host.stop().await
}
