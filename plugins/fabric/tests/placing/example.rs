use crate::fabric::drawn;
use crate::round::{cluster, first, groups, reports};

const EXAMPLE: &str = "
    h1: r1 r2 st
    h2: r1 r2 st
    h3: r1 st
    h4: q1 q2 st
    h5: q1 q2 st
    h6: q1 q2 st r2
";

#[test]
fn a_shared_storage_leaf_a_dead_hca_and_a_wrong_cable_leave_two_units() {
    let cluster = cluster(&["h1", "h2", "h3", "h4", "h5", "h6"]);
    let outcome = first(&cluster, &drawn(EXAMPLE).wiring());
    assert_eq!(
        groups(&cluster, &outcome),
        "tier 1 leaf-group | q1 |  | h4 h5 h6\ntier 1 leaf-group | r1 |  | h1 h2 h3\n"
    );
    let miscabled = reports(&cluster, &outcome, "miscabled-host");
    let expected = "h6 | host \"h6\" is in group \"q1\" with 2 of 4 links, but also cabled to switch \"r2\" (host port to-r2) of group \"r1\"";
    assert_eq!(miscabled, [expected]);
    let tied = reports(&cluster, &outcome, "tied-host");
    assert_eq!(tied.len(), 1);
    assert!(tied[0].starts_with("h3 | host \"h3\" is in group \"r1\""), "{tied:?}");
    let shared = reports(&cluster, &outcome, "shared-leaf");
    assert_eq!(shared, ["st | switch \"st\" serves several groups; its 6 hosts: 3 in \"q1\", 3 in \"r1\""]);
    assert_eq!((outcome.counts.matched, outcome.counts.unmatched, outcome.counts.ambiguous), (6, 0, 0));
}
