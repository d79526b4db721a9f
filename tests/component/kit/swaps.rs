//! Versions that a host would not swap in, or not without a person.

use serde_json::json;
use topoloom_core::plugin::Limits;
use topoloom_workshop::kit::check::Check;
use topoloom_workshop::kit::report::Level;

use super::{RACK, Terms, aged, assert_only, astray, desk, examined, racks, trial, with_section};

#[tokio::test]
async fn a_version_that_a_host_would_not_swap_in_is_found() {
    let old = desk(&aged("good", "0.9.0"), &Limits::default()).await.unwrap();
    let with_pod = trial(json!({"label": RACK, "pod": "example.com/pod"}));
    let rows = [
        ("renamed", Check::SwapName, Level::Error, racks()),
        ("needs-pod", Check::SwapConfigure, Level::Error, with_pod),
        ("asks-more", Check::SwapGrants, Level::Warning, racks()),
        ("half-nodes", Check::SwapRails, Level::Warning, racks()),
    ];
    for (act, check, level, case) in rows {
        let report = examined(&astray(act), &[case], &Terms::default(), Some(&old)).await;
        assert_only(&report, check, level, act);
    }
}

#[tokio::test]
async fn other_bytes_under_an_old_version_are_found_and_a_good_version_passes() {
    let old = desk(&astray("good"), &Limits::default()).await.unwrap();
    let same = with_section(&astray("good"), b"one more build");
    let report = examined(&same, &[racks()], &Terms::default(), Some(&old)).await;
    assert_only(&report, Check::SwapVersion, Level::Warning, "the same version");
    let report = examined(&aged("good", "1.1.0"), &[racks()], &Terms::default(), Some(&old)).await;
    assert_eq!(report.found().collect::<Vec<_>>(), [], "{}", report.text());
}
