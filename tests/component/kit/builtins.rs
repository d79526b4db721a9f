//! The builtin plugin that reads labels keeps its promises; those that read a fabric are in `fabric/kit.rs`.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use topoloom_tests::builtins;
use topoloom_workshop::kit::{self, Node, Trial};

use super::{Terms, examined};

/// Two spines, each with racks of its own.
fn leaves(config: Value) -> Trial {
    let node = |at: usize| {
        let labels = [
            ("example.com/spine", format!("s{}", at / 6)),
            ("example.com/rack", format!("r{}", at / 3)),
            ("kubernetes.io/hostname", format!("m{at}")),
        ];
        let labels = labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Node { name: format!("m{at}"), labels, annotations: BTreeMap::new() }
    };
    Trial { name: "leaves".to_owned(), config, nodes: (0..12).map(node).collect(), ..Trial::default() }
}

#[tokio::test]
async fn the_label_plugin_passes() {
    let levels = json!([
        {"nodeLabel": "example.com/spine"}, {"nodeLabel": "example.com/rack"}, {"nodeLabel": "kubernetes.io/hostname"}
    ]);
    let trial = leaves(json!({"networkTopologyTypes": {"gpu": levels}}));
    let terms = Terms { sizes: &kit::SIZES, ..Terms::default() };
    let report = examined(&builtins::find("label").bytes, &[trial], &terms, None).await;
    assert!(!report.has_failed(), "{}", report.text());
}
