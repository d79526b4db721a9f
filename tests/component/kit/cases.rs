//! What the kit makes of the cases of a vendor.

use std::collections::BTreeMap;
use std::path::Path;

use topoloom_core::plugin::Limits;
use topoloom_workshop::cases::{Case, play};
use topoloom_workshop::kit::check::Check;
use topoloom_workshop::kit::report::Level;
use topoloom_workshop::kit::{Expected, Time, Trial};

use super::{Terms, assert_only, astray, desk, examined, racks};

/// A case with the nodes of the other tests, and what the good plugin answers.
pub(super) fn write(folder: &Path, time: Option<&str>) {
    let nodes: String = racks()
        .nodes
        .iter()
        .map(|node| {
            let (name, labels, annotations) = (&node.name, &node.labels, &node.annotations);
            let pairs = |map: &BTreeMap<String, String>| {
                let pairs: Vec<String> = map.iter().map(|(key, value)| format!("{key}: {value}")).collect();
                format!("{{{}}}", pairs.join(", "))
            };
            format!("- metadata: {{name: {name}, labels: {}, annotations: {}}}\n", pairs(labels), pairs(annotations))
        })
        .collect();
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("nodes.yaml"), format!("items:\n{nodes}")).unwrap();
    std::fs::write(folder.join("config.yaml"), "label: example.com/rack\n").unwrap();
    let answer = "tier 1 rack | r0 | example.com/rack=r0 | m1 m2\ntier 1 rack | r1 | example.com/rack=r1 | m3 m4\n\
                  tier 1 rack | r2 | example.com/rack=r2 | m5 m6\ntier 2 switch | switch/s0 |  | m1 m2\n\
                  tier 2 switch | switch/s1 |  | m3 m4\ntier 2 switch | switch/s2 |  | m5 m6\n";
    std::fs::write(folder.join("expected.txt"), answer).unwrap();
    if let Some(time) = time {
        std::fs::write(folder.join("time"), time).unwrap();
    }
}

#[tokio::test]
async fn an_answer_that_its_case_does_not_expect_is_found() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("small"), None);
    let [case] = Case::read_all(folder.path()).unwrap().try_into().unwrap();
    for (act, expected) in [("good", None), ("other-ids", Some("rack-r0"))] {
        let bytes = astray(act);
        let desk = desk(&bytes, &Limits::default()).await.unwrap();
        let trial = Trial::of(&case, &play(&desk, &case).await, &desk);
        assert_eq!((trial.nodes.len(), trial.time), (6, Time::Ignored));
        let report = examined(&bytes, &[trial], &Terms::default(), None).await;
        match expected {
            None => assert_eq!(report.found().collect::<Vec<_>>(), [], "{}", report.text()),
            Some(words) => {
                assert_only(&report, Check::CaseExpected, Level::Error, act);
                assert!(report.text().contains(words), "{}", report.text());
            }
        }
    }
}

#[tokio::test]
async fn a_case_may_say_that_the_time_counts() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("dated"), Some("2026-01-31T12:00:00Z\n"));
    let [case] = Case::read_all(folder.path()).unwrap().try_into().unwrap();
    let bytes = astray("time");
    let desk = desk(&bytes, &Limits::default()).await.unwrap();
    let mut trial = Trial::of(&case, &play(&desk, &case).await, &desk);
    assert_eq!(trial.time, Time::Counts);
    // It has the time in its ids, which its case does not expect.
    assert!(matches!(trial.expected, Expected::Differs(_)));
    trial.expected = Expected::Absent;
    let report = examined(&bytes, &[trial], &Terms::default(), None).await;
    assert_eq!(report.found().collect::<Vec<_>>(), [], "{}", report.text());
}
