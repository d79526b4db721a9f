//! The worked examples of section 6.5, and sizes against a second computation in plain integers.

use proptest::prelude::*;

use super::*;
use crate::policy::terms::LimitValue;
use crate::quantity::Format;
use crate::resources::read_list;

fn list(texts: &[(&str, &str)]) -> ResourceList {
    read_list(texts.iter().copied()).unwrap()
}

/// A limit: a resource, a quantity or nothing, a percent or 0 for none.
pub(crate) fn limit(resource: &str, quantity: &str, percent: i64) -> Limit {
    let quantity = (!quantity.is_empty()).then(|| quantity.parse().unwrap());
    let share = (percent != 0).then(|| Percent::new(percent).unwrap());
    Limit { resource: resource.into(), value: LimitValue::new(quantity, share).unwrap() }
}

fn lent(sizes: &Sizes) -> String {
    let texts: Vec<_> = sizes.lent().iter().map(|(name, amount)| format!("{name}={amount}")).collect();
    texts.join(" ")
}

fn steps(sizes: &Sizes, name: &str) -> Vec<String> {
    sizes.resources[name].steps.iter().map(ToString::to_string).collect()
}

/// The node and the policy of example A.
pub(crate) fn example_a() -> Sizes {
    let base = list(&[
        ("cpu", "32"),
        ("memory", "131072Mi"),
        ("pods", "110"),
        ("nvidia.com/gpu", "8"),
        ("ephemeral-storage", "200000000000"),
    ]);
    let usage = list(&[("cpu", "5500m"), ("memory", "20Gi"), ("pods", "14")]);
    let limits =
        [limit("cpu", "20", 70), limit("memory", "", 60), limit("nvidia.com/gpu", "4", 0), limit("foo.io/x", "1", 0)];
    calculate(&base, &usage, &limits)
}

#[test]
fn example_a_a_node_with_foreign_pods_and_a_policy() {
    let sizes = example_a();
    let expected = "cpu=18550m ephemeral-storage=200G memory=69578470195 nvidia.com/gpu=4 pods=96";
    assert_eq!(lent(&sizes), expected);
    let lefts: Vec<_> = sizes.resources.iter().map(|(name, size)| format!("{name}={}", size.left)).collect();
    assert_eq!(lefts.join(" "), "cpu=26500m ephemeral-storage=200G memory=108Gi nvidia.com/gpu=8 pods=96");
    assert_eq!(steps(&sizes, "cpu"), ["limits[0]: at most 20 and 70% of 26500m, which is 18550m; leaves 18550m"]);
    assert_eq!(sizes.resources["cpu"].bound().map(|step| step.bound), Some(Bound::Percent));
    assert_eq!(steps(&sizes, "memory"), ["limits[1]: 60% of 108Gi, which is 69578470195; leaves 69578470195"]);
    assert_eq!(steps(&sizes, "nvidia.com/gpu"), ["limits[2]: at most 4; leaves 4"]);
    assert_eq!(sizes.resources["pods"].bound(), None);
    assert_eq!(sizes.skipped, [SkippedLimit { limit: 3, resource: "foo.io/x".into() }]);
    assert_eq!(sizes.resources["memory"].usage.to_string(), "20Gi");
}

#[test]
fn example_b_a_share_of_pods_is_rounded_down() {
    let base = list(&[("cpu", "7910m"), ("memory", "15432108Ki"), ("pods", "58")]);
    let usage = list(&[("cpu", "1210m"), ("memory", "2100Mi"), ("pods", "9")]);
    let limits = [limit("cpu", "", 33), limit("memory", "", 45), limit("pods", "", 50)];
    let sizes = calculate(&base, &usage, &limits);
    assert_eq!(lent(&sizes), "cpu=2211m memory=6120211046 pods=24");
    assert_eq!(sizes.resources["memory"].left.in_units(), 13_600_468_992);
    assert_eq!(sizes.resources["pods"].rounding, Rounding::Down { from: "24500m".parse().unwrap() });
    assert_eq!(sizes.resources["cpu"].rounding, Rounding::Exact);
}

#[test]
fn example_c_a_node_on_which_more_is_used_than_there_is_lends_nothing() {
    let sizes = calculate(&list(&[("cpu", "4")]), &list(&[("cpu", "4600m")]), &[limit("cpu", "", 80)]);
    assert_eq!(lent(&sizes), "cpu=0");
    assert_eq!(steps(&sizes, "cpu"), ["limits[0]: 80% of 0, which is 0; not reached"]);
}

#[test]
fn example_d_two_limits_on_one_resource_apply_in_their_order() {
    let (base, usage) = (list(&[("cpu", "20")]), list(&[("cpu", "2")]));
    let (twelve, quarter) = (limit("cpu", "12", 0), limit("cpu", "", 25));
    let sizes = calculate(&base, &usage, &[twelve.clone(), quarter.clone()]);
    assert_eq!(lent(&sizes), "cpu=3");
    assert_eq!(
        steps(&sizes, "cpu"),
        ["limits[0]: at most 12; leaves 12", "limits[1]: 25% of 12, which is 3; leaves 3"]
    );
    let swapped = calculate(&base, &usage, &[quarter, twelve]);
    assert_eq!(lent(&swapped), "cpu=4500m");
    assert_eq!(swapped.resources["cpu"].bound().map(|step| step.limit), Some(0));
    assert_eq!(swapped.resources["cpu"].steps[1].bound, Bound::None);
}

#[test]
fn d6_the_quantity_zero_lends_nothing_of_a_resource() {
    let base = list(&[("cpu", "8"), ("nvidia.com/gpu", "4")]);
    let sizes = calculate(&base, &ResourceList::new(), &[limit("nvidia.com/gpu", "0", 0)]);
    assert_eq!(lent(&sizes), "cpu=8 nvidia.com/gpu=0");
    let both = calculate(&base, &ResourceList::new(), &[limit("nvidia.com/gpu", "0", 50)]);
    assert_eq!(lent(&both), "cpu=8 nvidia.com/gpu=0");
}

#[test]
fn d12_devices_are_rounded_down_once_after_all_limits() {
    let sizes = |limits: &[Limit]| {
        let base = list(&[("nvidia.com/gpu", "7"), ("cpu", "7"), ("pods", "7")]);
        lent(&calculate(&base, &ResourceList::new(), limits))
    };
    assert_eq!(sizes(&[limit("nvidia.com/gpu", "", 50), limit("cpu", "", 50)]), "cpu=3500m nvidia.com/gpu=3 pods=7");
    // 7 → 4.69 → 3.0016 → 3; rounded in between it would be 2.
    assert_eq!(
        sizes(&[limit("nvidia.com/gpu", "", 67), limit("nvidia.com/gpu", "", 64)]),
        "cpu=7 nvidia.com/gpu=3 pods=7"
    );
    assert_eq!(sizes(&[limit("pods", "2500m", 0)]), "cpu=7 nvidia.com/gpu=7 pods=2");
    assert_eq!(sizes(&[limit("nvidia.com/gpu", "1500m", 0)]), "cpu=7 nvidia.com/gpu=1 pods=7");
}

#[test]
fn section_11_2_a_placeholder_takes_no_slot_of_those_that_are_lent_and_no_node_shows_more_than_its_machine_has() {
    let (base, usage) = (list(&[("cpu", "4"), ("pods", "110")]), list(&[("pods", "10")]));
    let pods = |limits: &[Limit], placeholders: usize| {
        calculate(&base, &usage, limits).with_placeholders(placeholders).lent()["pods"].to_string()
    };
    assert_eq!([0, 3, 10, 11, usize::MAX].map(|count| pods(&[], count)), ["100", "103", "110", "110", "110"]);
    // After the limits: they say how many pods of the borrower there may be.
    assert_eq!(pods(&[limit("pods", "", 50)], 3), "53");
    assert_eq!(pods(&[limit("pods", "0", 0)], 3), "3");
    let without = calculate(&list(&[("cpu", "4")]), &ResourceList::new(), &[]).with_placeholders(2);
    assert_eq!(lent(&without), "cpu=4");
}

#[test]
fn the_base_is_what_can_be_allocated_or_else_what_is_there() {
    let (allocatable, capacity, none) = (list(&[("cpu", "7")]), list(&[("cpu", "8")]), ResourceList::new());
    assert_eq!(base_of(&allocatable, &capacity), (&allocatable, BaseSource::Allocatable));
    assert_eq!(base_of(&none, &capacity), (&capacity, BaseSource::Capacity));
    assert_eq!(lent(&calculate(&none, &allocatable, &[limit("cpu", "1", 0)])), "");
}

#[test]
fn a_negative_amount_makes_no_node_larger_and_no_size_negative() {
    let base = list(&[("cpu", "4"), ("memory", "-1Gi")]);
    let usage = list(&[("cpu", "-4"), ("memory", "-2Gi")]);
    let sizes = calculate(&base, &usage, &[limit("cpu", "-3", 0)]);
    assert_eq!(lent(&sizes), "cpu=0 memory=0");
    assert_eq!(lent(&calculate(&base, &usage, &[])), "cpu=4 memory=0");
}

#[test]
fn what_is_lent_by_quantity_is_written_as_the_policy_writes_it() {
    let sizes = calculate(&list(&[("memory", "128Gi")]), &ResourceList::new(), &[limit("memory", "100G", 0)]);
    assert_eq!(lent(&sizes), "memory=100G");
}

/// In thousandths, for the decimal resources; in bytes for the binary one.
#[derive(Debug, Clone)]
struct PlainLimit {
    resource: usize,
    quantity: Option<i64>,
    percent: Option<i64>,
}

const RESOURCES: [(&str, Format, i128); 3] = [
    ("cpu", Format::DecimalSi, 1_000_000),
    ("memory", Format::BinarySi, 1_000_000_000),
    ("nvidia.com/gpu", Format::DecimalSi, 1_000_000),
];

fn plain_limits() -> impl Strategy<Value = Vec<PlainLimit>> {
    let limit = (0_usize..4, prop::option::of(0_i64..40_000), prop::option::of(1_i64..=100));
    let limit = limit.prop_map(|(resource, quantity, percent)| PlainLimit { resource, quantity, percent });
    prop::collection::vec(limit, 0..8)
}

proptest! {
    #[test]
    fn sizes_are_those_of_a_plain_computation(
        base in prop::array::uniform3(0_i64..60_000),
        usage in prop::array::uniform3(0_i64..60_000),
        limits in plain_limits(),
    ) {
        let amount = |index: usize, plain: i64| {
            let (_, format, grain) = RESOURCES[index];
            Quantity::from_nanos(i128::from(plain) * grain, format)
        };
        let named = |plain: [i64; 3]| -> ResourceList {
            plain.iter().enumerate().map(|(index, plain)| (RESOURCES[index].0.into(), amount(index, *plain))).collect()
        };
        // One without quantity and percent limits nothing: there is none, here as in a valid policy.
        let limits: Vec<_> = limits.into_iter().filter(|limit| (limit.quantity, limit.percent) != (None, None)).collect();
        let real: Vec<Limit> = limits.iter().map(|limit| {
            let quantity = limit.quantity.map(|plain| amount(limit.resource.min(2), plain));
            let share = limit.percent.map(|percent| Percent::new(percent).unwrap());
            let resource = RESOURCES.get(limit.resource).map_or("foo.io/x", |resource| resource.0).into();
            Limit { resource, value: LimitValue::new(quantity, share).unwrap() }
        }).collect();
        let sizes = calculate(&named(base), &named(usage), &real);
        prop_assert_eq!(sizes.skipped.len(), limits.iter().filter(|limit| limit.resource == 3).count());
        for (index, (name, _, _)) in RESOURCES.iter().enumerate() {
            let mut left = (base[index] - usage[index]).max(0);
            for limit in limits.iter().filter(|limit| limit.resource == index) {
                let caps = [limit.quantity, limit.percent.map(|percent| left * percent / 100)];
                left = caps.into_iter().flatten().fold(left, i64::min);
            }
            if index == 2 {
                left = left / 1_000 * 1_000;
            }
            let size = &sizes.resources[*name];
            prop_assert_eq!(size.result, amount(index, left), "{}", name);
            prop_assert!(size.result <= size.left && size.left <= size.base);
        }
    }
}
