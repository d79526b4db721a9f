//! Times whole rounds natively: configuration, columns (copied, as they cross into a guest), answer.
//!
//! `cargo run --release -p topoloom-plugin-label --example rounds`

#![expect(clippy::print_stdout, reason = "prints what it measures")]

use std::time::Instant;

use topoloom_plugin_label::{config::Config, discover};
use topoloom_sdk::{Column, FromJson};

const CONFIG: &str = r#"{"networkTopologyTypes": {"gpu": [{"nodeLabel": "zone"}, {"nodeLabel": "spine"},
    {"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]}}"#;

fn main() {
    for nodes in [1_000_u32, 10_000, 100_000] {
        let column = |name: &str, size: u32| -> Column {
            (0..nodes).map(|row| Some(format!("{name}-{:06}", row.wrapping_mul(7_919) % nodes / size))).collect()
        };
        // The second table is the hard case: rack numbers repeat in every spine.
        let repeated: Column =
            (0..nodes).map(|row| Some(format!("{}", row.wrapping_mul(7_919) % nodes / 16 % 16))).collect();
        let (rack, spine, zone) = (column("rack", 16), column("spine", 256), column("zone", 4_096));
        for (what, rack) in [("unique racks", &rack), ("repeated racks", &repeated)] {
            let mut times: Vec<_> = (0..50)
                .map(|_| {
                    let begin = Instant::now();
                    let groups = Config::from_json(CONFIG).map(|config| {
                        discover(&config, nodes, |key| match key {
                            "rack" => rack.clone(),
                            "spine" => spine.clone(),
                            _ => zone.clone(),
                        })
                    });
                    let time = begin.elapsed();
                    (time, groups.map(|topology| topology.groups.len()).unwrap_or_default())
                })
                .collect();
            times.sort();
            if let (Some(median), Some(fastest)) = (times.get(times.len() / 2), times.first()) {
                println!(
                    "{nodes:>7} nodes, {what}: median {:?}, fastest {:?}, {} groups",
                    median.0, fastest.0, median.1
                );
            }
        }
    }
}
