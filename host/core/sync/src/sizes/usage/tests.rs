//! The running sum: event by event, and over random histories against a plain sum.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::super::counted::{NotReason, PhysicalPod, PodOwner, VirtualPod, WholeReason, counted};
use super::*;
use crate::phase::Phase;
use crate::resources::read_list;
use topoloom_core::names::NodeName;

fn list(texts: &[(&str, &str)]) -> ResourceList {
    read_list(texts.iter().copied()).unwrap()
}

fn foreign(requests: &ResourceList, phase: Phase) -> PhysicalPod<'_> {
    PhysicalPod { owner: PodOwner::Foreign, virtual_uid: None, phase, requests }
}

#[test]
fn s15_a_phase_and_a_resize_change_the_sum_and_what_does_not_is_known() {
    let requests = |cpu| list(&[("cpu", cpu), ("pods", "1")]);
    let part = |phase, cpu| {
        let requests = requests(cpu);
        PodUse::new(&counted(&foreign(&requests, phase), None, &"vnode-a".into()), &requests)
    };
    let (a, b): (Uid, Uid) = ("a".into(), "b".into());
    let mut usage = NodeUsage::default();
    assert_eq!(usage.set(&a, part(Phase::Pending, "1")), UsageChange::Changed);
    assert_eq!(usage.set(&a, part(Phase::Running, "1")), UsageChange::Same);
    assert_eq!(usage.set(&b, part(Phase::Running, "250m")), UsageChange::Changed);
    assert_eq!(usage.total(), list(&[("cpu", "1250m"), ("pods", "2")]));
    assert_eq!(usage.set(&a, part(Phase::Running, "3")), UsageChange::Changed);
    assert_eq!(usage.total(), list(&[("cpu", "3250m"), ("pods", "2")]));
    assert_eq!(usage.set(&a, part(Phase::Succeeded, "3")), UsageChange::Changed);
    assert_eq!(usage.remove(&a), UsageChange::Same);
    assert_eq!(usage.remove(&a), UsageChange::Same);
    assert_eq!(usage.remove(&b), UsageChange::Changed);
    assert_eq!(usage, NodeUsage::default());
    assert_eq!(usage.set(&a, part(Phase::Failed, "3")), UsageChange::Same);
}

#[test]
fn the_text_of_the_last_event_s_uid_is_held_also_where_nothing_else_changed() {
    let part = |cpu| PodUse::new(&Counted::Whole(WholeReason::Foreign), &list(&[("cpu", cpu)]));
    let mut usage = NodeUsage::default();
    for cpu in ["1", "1", "2"] {
        let uid: Uid = "a".into();
        let _ = usage.set(&uid, part(cpu));
        let held: Vec<_> = usage.pods().map(|(held, _)| Arc::<str>::from(held).as_ptr()).collect();
        assert_eq!(held, [Arc::<str>::from(&uid).as_ptr()]);
    }
}

#[test]
fn s14_an_excess_is_summed_without_the_rest_of_the_pod() {
    let (requests, over) = (list(&[("cpu", "1200m"), ("pods", "1")]), list(&[("cpu", "200m")]));
    let mut usage = NodeUsage::default();
    let _ = usage.set(&"a".into(), PodUse::new(&Counted::Excess { over: over.clone() }, &requests));
    let _ = usage.set(&"b".into(), PodUse::new(&Counted::Not(NotReason::CountedThere), &requests));
    assert_eq!(usage.total(), over);
    let parts: Vec<_> =
        usage.pods().map(|(uid, part)| (uid.to_string(), part.counted(), part.amounts().count())).collect();
    let not = CountedAs::Not(NotReason::CountedThere);
    assert_eq!(parts, [("a".to_owned(), CountedAs::Excess, 1), ("b".to_owned(), not, 0)]);
}

#[test]
fn a_sum_of_the_largest_amounts_is_exact_again_when_they_are_gone() {
    let large = list(&[("memory", "9223372036854775807")]);
    let part = |requests| PodUse::new(&Counted::Whole(WholeReason::Foreign), requests);
    let mut usage = NodeUsage::default();
    let uids: Vec<Uid> = (0..1_000).map(|number: u32| number.to_string().into()).collect();
    for uid in &uids {
        let _ = usage.set(uid, part(&large));
    }
    assert_eq!(usage.total(), large);
    let _ = usage.set(&"small".into(), part(&list(&[("memory", "1")])));
    for uid in &uids {
        let _ = usage.remove(uid);
    }
    assert_eq!(usage.total(), list(&[("memory", "1")]));
}

const NODE: &str = "vnode-a";
const PHASES: [Phase; 5] = Phase::ALL;

/// A physical pod as a plain record: requests in thousandths of a core and in bytes.
#[derive(Debug, Clone)]
struct Physical {
    is_ours: bool,
    virtual_uid: Option<u8>,
    phase: usize,
    milli: u32,
    bytes: u32,
}

#[derive(Debug, Clone)]
struct Virtual {
    phase: usize,
    is_here: bool,
    milli: u32,
    bytes: u32,
}

#[derive(Debug, Clone)]
enum Event {
    /// A pod is created, resized, becomes ours, finishes, is replayed: the cache has this of it now.
    Physical(u8, Physical),
    /// The last event of this pod comes again.
    Again(u8),
    PhysicalGone(u8),
    Virtual(u8, Virtual),
    VirtualGone(u8),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let size = || (0_u32..5_000, 0_u32..5_000);
    let physical = (any::<bool>(), prop::option::of(0_u8..4), 0_usize..5, size()).prop_map(
        |(is_ours, virtual_uid, phase, (milli, bytes))| Physical { is_ours, virtual_uid, phase, milli, bytes },
    );
    let virtually = (0_usize..5, prop::bool::weighted(0.8), size())
        .prop_map(|(phase, is_here, (milli, bytes))| Virtual { phase, is_here, milli, bytes });
    let event = prop_oneof![
        6 => (0_u8..6, physical).prop_map(|(uid, pod)| Event::Physical(uid, pod)),
        2 => (0_u8..6).prop_map(Event::Again),
        2 => (0_u8..6).prop_map(Event::PhysicalGone),
        4 => (0_u8..4, virtually).prop_map(|(uid, pod)| Event::Virtual(uid, pod)),
        1 => (0_u8..4).prop_map(Event::VirtualGone),
    ];
    prop::collection::vec(event, 0..60)
}

#[derive(Debug, Default)]
struct World {
    physical: BTreeMap<u8, Physical>,
    virtually: BTreeMap<u8, Virtual>,
    usage: NodeUsage,
}

fn requests(milli: u32, bytes: u32) -> ResourceList {
    let mut requests = list(&[("cpu", &format!("{milli}m")), ("memory", &bytes.to_string()), ("pods", "1")]);
    // Some pods name no memory at all.
    if bytes.is_multiple_of(3) {
        requests.remove("memory");
    }
    requests
}

fn uid(number: u8) -> Uid {
    number.to_string().into()
}

impl World {
    fn apply(&mut self, event: Event) {
        match event {
            Event::Physical(number, pod) => {
                self.physical.insert(number, pod);
                self.follow(number);
            }
            Event::Again(number) => self.follow(number),
            Event::PhysicalGone(number) => {
                self.physical.remove(&number);
                let _ = self.usage.remove(&uid(number));
            }
            Event::Virtual(number, pod) => {
                self.virtually.insert(number, pod);
                self.follow_twins(number);
            }
            Event::VirtualGone(number) => {
                self.virtually.remove(&number);
                self.follow_twins(number);
            }
        }
    }

    fn follow_twins(&mut self, number: u8) {
        let twins = self.physical.iter().filter(|(_, pod)| pod.virtual_uid == Some(number));
        for pod in twins.map(|(pod, _)| *pod).collect::<Vec<_>>() {
            self.follow(pod);
        }
    }

    /// What the syncer does with an event of a pod.
    fn follow(&mut self, number: u8) {
        let Some(pod) = self.physical.get(&number) else { return };
        let node: NodeName = NODE.into();
        let elsewhere: NodeName = "vnode-b".into();
        let total = requests(pod.milli, pod.bytes);
        let virtual_uid = pod.virtual_uid.map(uid);
        let facts = PhysicalPod {
            owner: if pod.is_ours { PodOwner::Ours } else { PodOwner::Foreign },
            virtual_uid: virtual_uid.as_deref(),
            phase: PHASES[pod.phase],
            requests: &total,
        };
        let twin = pod.virtual_uid.and_then(|number| Some((uid(number), self.virtually.get(&number)?)));
        let there = twin.as_ref().map(|(_, twin)| requests(twin.milli, twin.bytes));
        let twin = twin.as_ref().zip(there.as_ref()).map(|((uid, twin), requests)| VirtualPod {
            uid,
            phase: PHASES[twin.phase],
            node: Some(if twin.is_here { &node } else { &elsewhere }),
            requests,
        });
        let part = PodUse::new(&counted(&facts, twin.as_ref(), &node), &total);
        let before = self.usage.total();
        let change = self.usage.set(&uid(number), part);
        assert_eq!(change == UsageChange::Changed, before != self.usage.total());
    }

    /// The sums of S14, with no memory of what was: thousandths of cores, bytes, pods.
    fn plain(&self) -> [i64; 3] {
        let mut sums = [0, 0, 0];
        for pod in self.physical.values() {
            if matches!(PHASES[pod.phase], Phase::Succeeded | Phase::Failed) {
                continue;
            }
            let bytes_of = |bytes: u32| if bytes.is_multiple_of(3) { 0 } else { i64::from(bytes) };
            let mut part = [i64::from(pod.milli), bytes_of(pod.bytes), 1];
            let twin = pod.virtual_uid.and_then(|number| self.virtually.get(&number));
            if let Some(twin) = twin
                && pod.is_ours
                && twin.is_here
                && !matches!(PHASES[twin.phase], Phase::Succeeded | Phase::Failed)
            {
                let there = [i64::from(twin.milli), bytes_of(twin.bytes), 1];
                part = std::array::from_fn(|index| (part[index] - there[index]).max(0));
            }
            sums = std::array::from_fn(|index| sums[index] + part[index]);
        }
        sums
    }
}

proptest! {
    #[test]
    fn s14_the_running_sum_is_the_plain_one_after_every_event(events in events()) {
        let mut world = World::default();
        for event in events {
            world.apply(event.clone());
            let total = world.usage.total();
            let of = |name: &str| total.get(name).copied().unwrap_or_default();
            let sums = [of("cpu").in_milli(), of("memory").in_units(), of("pods").in_units()];
            prop_assert_eq!(sums, world.plain().map(i128::from), "after {:?}", event);
            prop_assert!(total.values().all(|amount| !amount.is_zero()));
            prop_assert_eq!(world.usage.pods().count(), world.physical.len());
        }
        for number in world.physical.keys().copied().collect::<Vec<_>>() {
            world.apply(Event::PhysicalGone(number));
        }
        prop_assert_eq!(world.usage, NodeUsage::default());
    }
}
