//! Smaller at once, larger once in ten seconds (S14), and never while growing is barred (S5, S8).

use proptest::prelude::*;

use super::*;
use crate::resources::read_list;

fn list(texts: &[(&str, &str)]) -> ResourceList {
    read_list(texts.iter().copied()).unwrap()
}

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn write(texts: &[(&str, &str)], growth: Growth) -> Pace {
    Pace::Write { sizes: list(texts), growth }
}

#[test]
fn s14_smaller_is_written_at_once() {
    let current = list(&[("cpu", "8"), ("memory", "8Gi"), ("nvidia.com/gpu", "2")]);
    let smaller = [("cpu", "7"), ("memory", "8Gi")];
    for growing in [Growing::Allowed, Growing::Barred, Growing::BarredUntil(at(500))] {
        let pace = pace(&current, &list(&smaller), Some(at(99)), growing, at(100));
        assert_eq!(pace, write(&smaller, Growth::None));
    }
}

#[test]
fn s14_larger_is_written_once_in_ten_seconds() {
    let (current, larger) = (list(&[("cpu", "8")]), [("cpu", "9")]);
    let paced = |last_grown, now| pace(&current, &list(&larger), last_grown, Growing::Allowed, now);
    assert_eq!(paced(None, at(0)), write(&larger, Growth::Some));
    let millis = Duration::from_millis;
    assert_eq!(paced(Some(at(100)), millis(109_999)), Pace::Wait(Rest::Interval { at: at(110) }));
    assert_eq!(paced(Some(at(100)), at(110)), write(&larger, Growth::Some));
}

#[test]
fn s14_what_shrinks_does_not_wait_for_what_grows() {
    let current = list(&[("cpu", "8"), ("memory", "8Gi"), ("pods", "5")]);
    let wanted = list(&[("cpu", "9"), ("memory", "7Gi"), ("nvidia.com/gpu", "1")]);
    let paced = |last_grown| pace(&current, &wanted, last_grown, Growing::Allowed, at(105));
    let sizes = list(&[("cpu", "8"), ("memory", "7Gi")]);
    assert_eq!(paced(Some(at(100))), Pace::Partial { sizes, rest: Rest::Interval { at: at(110) } });
    assert_eq!(paced(Some(at(95))), Pace::Write { sizes: wanted.clone(), growth: Growth::Some });
}

#[test]
fn s5_s8_nothing_grows_while_growing_is_barred() {
    let (current, wanted) = (list(&[("cpu", "8")]), list(&[("cpu", "9")]));
    let paced = |last_grown, growing, now| pace(&current, &wanted, last_grown, growing, now);
    assert_eq!(paced(None, Growing::Barred, at(1_000)), Pace::Wait(Rest::Barred));
    let until = Growing::BarredUntil(at(700));
    assert_eq!(paced(None, until, at(699)), Pace::Wait(Rest::BarredUntil { at: at(700) }));
    assert_eq!(paced(None, until, at(700)), write(&[("cpu", "9")], Growth::Some));
    // The later of two reasons is the one that is named.
    assert_eq!(paced(Some(at(695)), until, at(699)), Pace::Wait(Rest::Interval { at: at(705) }));
    assert_eq!(paced(Some(at(689)), until, at(695)), Pace::Wait(Rest::BarredUntil { at: at(700) }));
    assert_eq!(paced(Some(at(695)), until, at(701)), Pace::Wait(Rest::Interval { at: at(705) }));
}

#[test]
fn what_is_the_same_amount_is_not_written() {
    let current = list(&[("memory", "1Mi"), ("cpu", "1")]);
    let same = list(&[("memory", "1048576"), ("cpu", "1000m")]);
    assert_eq!(pace(&current, &same, None, Growing::Allowed, at(0)), Pace::Same);
    // With nothing of it a resource comes and goes at once: nothing grows.
    let with = [("memory", "1Mi"), ("cpu", "1"), ("nvidia.com/gpu", "0")];
    assert_eq!(pace(&current, &list(&with), Some(at(0)), Growing::Barred, at(0)), write(&with, Growth::None));
}

fn sizes() -> impl Strategy<Value = ResourceList> {
    prop::array::uniform3(prop::option::of(0_u8..4)).prop_map(|amounts| {
        let named = ["cpu", "memory", "nvidia.com/gpu"].into_iter().zip(amounts);
        named.filter_map(|(name, amount)| Some((name.into(), amount?.to_string().parse().unwrap()))).collect()
    })
}

proptest! {
    /// A node that follows what is wanted: it is never larger than that for a moment, grows once per interval, never while it
    /// is barred, and comes to rest at what is wanted.
    #[test]
    fn s14_a_node_is_never_too_large_grows_seldom_and_comes_to_rest(
        steps in prop::collection::vec((sizes(), 0_u64..6, any::<bool>()), 1..30),
    ) {
        let of = |list: &ResourceList, name: &ResourceName| list.get(name).copied().unwrap_or_default();
        let (mut node, mut last_grown, mut now) = (ResourceList::new(), None, at(0));
        let mut grown = Vec::new();
        let last = steps.last().unwrap().0.clone();
        let rest = [(last.clone(), 10, true), (last.clone(), 10, true)];
        for (wanted, pause, may_grow) in steps.into_iter().chain(rest) {
            now += at(pause);
            let growing = if may_grow { Growing::Allowed } else { Growing::Barred };
            let before = node.clone();
            match pace(&node, &wanted, last_grown, growing, now) {
                Pace::Same | Pace::Wait(_) => {}
                Pace::Write { sizes, growth } => {
                    if growth == Growth::Some {
                        last_grown = Some(now);
                    }
                    node = sizes;
                }
                Pace::Partial { sizes, .. } => node = sizes,
            }
            prop_assert!(node.iter().all(|(name, amount)| *amount <= of(&wanted, name)), "{:?} {:?}", node, wanted);
            if node.iter().any(|(name, amount)| *amount > of(&before, name)) {
                prop_assert!(may_grow);
                grown.push(now);
            }
        }
        prop_assert!(grown.windows(2).all(|pair| pair[1] - pair[0] >= GROW_INTERVAL), "{:?}", grown);
        prop_assert_eq!(node, last);
    }
}
