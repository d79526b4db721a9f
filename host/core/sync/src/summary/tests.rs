//! The texts of the two annotations, and how long they can be.

use super::*;
use crate::resources::ResourceList;
use crate::sizes::calculate;
use crate::sizes::tests::{example_a, limit};

#[test]
fn example_a_in_one_line() {
    assert_eq!(
        lease_summary(&example_a()),
        "cpu 18550m (of 32, used 5500m, limits[0] 70%); memory 69578470195 (of 128Gi, used 20Gi, limits[1] 60%); pods 96 (of \
         110, used 14); ephemeral-storage 200G; nvidia.com/gpu 4 (of 8, limits[2] 4)"
    );
}

#[test]
fn a_rounded_size_and_an_empty_node_have_their_lines() {
    let base: ResourceList = [("pods".into(), "49".parse().unwrap())].into();
    let sizes = calculate(&base, &ResourceList::new(), &[limit("pods", "", 50)]);
    assert_eq!(lease_summary(&sizes), "pods 24 (of 49, limits[0] 50%, rounded down)");
    assert_eq!(lease_summary(&Sizes::default()), "");
}

#[test]
fn placeholders_for_host_ports_are_named_where_they_are() {
    let list = |amount: &str| -> ResourceList { [("pods".into(), amount.parse().unwrap())].into() };
    let sizes = calculate(&list("110"), &list("10"), &[limit("pods", "", 50)]).with_placeholders(3);
    assert_eq!(lease_summary(&sizes), "pods 53 (of 110, used 10, limits[0] 50%, with 3 placeholders)");
}

#[test]
fn s23_a_node_with_200_resources_stays_below_4_kib_and_the_first_are_there() {
    let all = |count: usize, name: &dyn Fn(usize) -> String| {
        let amount = |text: &str| text.parse().unwrap();
        let others = (0..count).map(|number| (name(number).as_str().into(), amount("123456789")));
        let base: ResourceList =
            others.chain([("memory".into(), amount("64Gi")), ("cpu".into(), amount("64"))]).collect();
        let limits: Vec<_> = base.keys().map(|name| limit(name, "", 33)).collect();
        lease_summary(&calculate(&base, &ResourceList::new(), &limits))
    };
    let text = all(200, &|number| format!("devices.example.com/accelerator-{number:03}"));
    assert!(text.len() < 4_096 && text.len() > 3_900, "{}", text.len());
    assert!(text.starts_with("cpu 21120m (of 64, limits[0] 33%); memory 22677427322 (of 64Gi"), "{text}");
    let kept = text.matches("rounded down").count();
    assert!(text.ends_with(&format!("; and {} more", 200 - kept)), "{text}");
    // Names as long as they can be, and one that no API server lets through.
    let long = all(200, &|number| format!("{}/{number}", "a".repeat(253)));
    assert!(long.len() < 4_096 && long.starts_with("cpu "), "{}", long.len());
    let longer = all(1, &|_| "a".repeat(5_000));
    assert!(longer.ends_with("(of 64Gi, limits[2] 33%); and 1 more"), "{longer}");
}

#[test]
fn the_limits_of_a_policy_are_listed_with_quantity_and_percent() {
    let limits = [limit("cpu", "20", 70), limit("memory", "", 60), limit("nvidia.com/gpu", "4", 0)];
    assert_eq!(policy_details("night", &limits), "night(cpu=20/70%,memory=/60%,nvidia.com/gpu=4/)");
    assert_eq!(policy_details("night", &[]), "night");
    assert_eq!(policy_details("night", &[limit("cpu", "0", 0)]), "night(cpu=0/)");
}

#[test]
fn ten_thousand_limits_do_not_make_a_node_that_no_server_takes() {
    let limits: Vec<_> = (0..10_000).map(|number| limit(&format!("example.com/{number}"), "1", 0)).collect();
    let text = policy_details(&"p".repeat(253), &limits);
    assert!(text.len() < 4_096, "{}", text.len());
    assert!(text.ends_with(" more)"), "{text}");
    let kept = text.matches("/,").count();
    assert!(text.ends_with(&format!(",and {} more)", 10_000 - kept)), "{text}");
}
