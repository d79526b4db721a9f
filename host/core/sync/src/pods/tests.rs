use proptest::prelude::*;

use super::*;
use crate::naming::BindingName;

type Keys = BTreeMap<String, String>;

const NOW: Duration = Duration::from_secs(1_000);

fn us() -> Identity {
    Identity::new("cluster-1".into(), BindingName::parse("east").unwrap(), "binding-2".into()).unwrap()
}

fn keys<const N: usize>(of: [(&str, &str); N]) -> Keys {
    of.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn physical_pod() -> PhysicalPod {
    let mut labels = us().labels();
    labels.insert(keys::MANAGED_BY_LABEL.to_owned(), keys::MANAGED_BY.to_owned());
    PhysicalPod {
        namespace: "lent".to_owned(),
        name: "web-0-d8e9".to_owned(),
        uid: "p-uid".into(),
        version: "7".into(),
        labels,
        annotations: keys([
            (keys::VIRTUAL_POD_NAMESPACE, "shop"),
            (keys::VIRTUAL_POD_NAME, "web-0"),
            (keys::VIRTUAL_POD_UID, "v-uid"),
        ]),
        deleting: false,
    }
}

fn virtual_pod() -> VirtualPod {
    VirtualPod {
        namespace: "shop".to_owned(),
        name: "web-0".to_owned(),
        uid: "v-uid".into(),
        annotations: keys([
            (keys::PHYSICAL_POD_NAMESPACE, "lent"),
            (keys::PHYSICAL_POD_NAME, "web-0-d8e9"),
            (keys::PHYSICAL_POD_UID, "p-uid"),
        ]),
    }
}

#[test]
fn s6_of_two_pods_that_name_each_other_the_labels_that_are_not_ours_are_named() {
    let wrong = |edit: &dyn Fn(&mut PhysicalPod)| {
        let mut pod = physical_pod();
        edit(&mut pod);
        let labels = wrong_labels(&pod, &virtual_pod(), &us());
        labels.into_iter().map(|label| (label.key, label.found)).collect::<Vec<_>>()
    };
    let without = |pod: &mut PhysicalPod, key: &str| drop(pod.labels.remove(key));
    assert_eq!(wrong(&|_| ()), []);
    assert_eq!(wrong(&|pod| without(pod, keys::MANAGED_BY_LABEL)), [(keys::MANAGED_BY_LABEL, None)]);
    let both = [keys::MANAGED_BY_LABEL, keys::VIRTUAL_CLUSTER].map(|key| (key, None));
    assert_eq!(wrong(&|pod| both.iter().for_each(|(key, _)| without(pod, key))), both);
    let other = Some("b-9".to_owned());
    let edit = |pod: &mut PhysicalPod| drop(pod.labels.insert(keys::BINDING_UID.to_owned(), "b-9".to_owned()));
    assert_eq!(wrong(&edit), [(keys::BINDING_UID, other)]);
    // It names no virtual pod, or that names another physical one.
    assert_eq!(wrong(&|pod| pod.annotations.clear()), []);
    let moved = |pod: &mut PhysicalPod| {
        without(pod, keys::BINDING);
        pod.uid = "p-other".into();
    };
    assert_eq!(wrong(&moved), []);
}

/// A scene of one pair of pods.
struct Scene {
    identity: Identity,
    pod: Option<PhysicalPod>,
    twin: Option<VirtualPod>,
    earlier: Earlier,
    adopted: Adopted,
    bars: Bars,
}

impl Scene {
    fn new() -> Self {
        Self {
            identity: us(),
            pod: Some(physical_pod()),
            twin: Some(virtual_pod()),
            earlier: Earlier::Unlisted,
            adopted: Adopted::No,
            bars: Bars::default(),
        }
    }

    fn with(edit: impl FnOnce(&mut PhysicalPod, &mut Option<VirtualPod>)) -> Self {
        let mut scene = Self::new();
        edit(scene.pod.as_mut().unwrap(), &mut scene.twin);
        scene
    }

    fn facts<'a>(&'a self, twin: Twin<'a>, look: Option<Look>) -> Facts<'a> {
        Facts {
            identity: &self.identity,
            pod: self.pod.as_ref(),
            twin,
            earlier: self.earlier,
            adopted: self.adopted,
            bars: &self.bars,
            orphan_delay: ORPHAN_DELAY,
            look,
        }
    }

    fn cached(&self) -> PodDecision {
        decide(&self.facts(Twin::Cached(self.twin.as_ref()), None), NOW)
    }

    fn live(&self) -> Twin<'_> {
        Twin::Live { pod: self.twin.as_ref(), asked: NOW }
    }

    /// The decision with a first look that is so old.
    fn looked(&self, twin: Twin<'_>, row: u8, seconds: u64) -> PodDecision {
        let first = NOW - Duration::from_secs(seconds);
        decide(&self.facts(twin, Some(Look { first, row })), NOW)
    }

    /// Both looks, then the live read: whether it is deleted, and why.
    fn to_the_end(&self, row: u8) -> PodDecision {
        let PodDecision::LookAgain { why, at } = self.cached() else { panic!("{}", self.cached()) };
        assert_eq!((why.row(), at), (row, NOW + ORPHAN_DELAY));
        let early = self.looked(self.live(), row, 29);
        assert!(matches!(early, PodDecision::LookAgain { .. }), "one look and a moment: {early}");
        let cached = self.looked(Twin::Cached(self.twin.as_ref()), row, 30);
        assert!(matches!(cached, PodDecision::AskVirtualPod { .. }), "a cache proves nothing: {cached}");
        let old = Twin::Live { pod: self.twin.as_ref(), asked: NOW - Duration::from_secs(1) };
        let old = self.looked(old, row, 30);
        assert!(matches!(old, PodDecision::AskVirtualPod { .. }), "read before the second look: {old}");
        self.looked(self.live(), row, 30)
    }
}

fn is_deletion(decision: &PodDecision) -> bool {
    let guarded = Precondition::of(&"p-uid".into(), &"7".into());
    matches!(decision, PodDecision::Delete { precondition, .. } if Some(precondition) == guarded.as_ref())
}

#[test]
fn every_verdict_about_an_orphan_has_a_word_of_its_own() {
    let part = || BrokenPart { key: keys::VIRTUAL_POD_UID, found: None };
    let named = || VirtualPodRef { namespace: "shop".to_owned(), name: "web-0".to_owned(), uid: "v-uid".into() };
    let all = [
        Orphan::Unmapped(part()),
        Orphan::TwinGone(named()),
        Orphan::TwinReplaced { named: named(), found: "other".into() },
        Orphan::TwinElsewhere { named: named(), mapping: Mapping::VirtualIncomplete(part()) },
    ];
    assert_eq!(all.each_ref().map(Orphan::word), Orphan::WORDS);
}

#[test]
fn table_8_row_1_no_physical_pod_is_no_work() {
    let mut scene = Scene::new();
    scene.pod = None;
    assert_eq!(scene.cached(), PodDecision::Nothing(WhyNothing::Gone));
}

#[test]
fn table_8_row_2_a_pod_that_no_syncer_manages_is_no_work() {
    for value in [None, Some("kubeocean"), Some("")] {
        let scene = Scene::with(|pod, _| match value {
            Some(value) => drop(pod.labels.insert(keys::MANAGED_BY_LABEL.to_owned(), value.to_owned())),
            None => drop(pod.labels.remove(keys::MANAGED_BY_LABEL)),
        });
        assert_eq!(scene.cached(), PodDecision::Nothing(WhyNothing::Unmanaged));
    }
}

#[test]
fn table_8_row_3_a_pod_that_names_no_virtual_pod_goes_after_two_looks_and_a_live_read() {
    for key in [keys::VIRTUAL_POD_NAMESPACE, keys::VIRTUAL_POD_NAME, keys::VIRTUAL_POD_UID] {
        for value in ["", "no/pod"] {
            let scene = Scene::with(|pod, twin| {
                pod.annotations.insert(key.to_owned(), value.to_owned());
                *twin = None;
            });
            assert!(is_deletion(&scene.to_the_end(3)), "{key}");
            let PodDecision::AskVirtualPod { question, .. } = scene.looked(Twin::Unread, 3, 30) else {
                panic!("{key}")
            };
            let named = Question::Named { namespace: "shop".to_owned(), name: "web-0".to_owned() };
            let wanted = if key == keys::VIRTUAL_POD_UID { named } else { Question::NamingIt };
            assert_eq!(question, wanted, "{key}");
        }
    }
}

#[test]
fn table_8_row_3_a_pod_that_a_virtual_pod_still_names_is_left_to_a_person() {
    let mut scene = Scene::with(|pod, _| drop(pod.annotations.remove(keys::VIRTUAL_POD_NAME)));
    assert!(matches!(scene.cached(), PodDecision::Leave(WhyLeft::InUse(_))));
    assert!(matches!(scene.looked(scene.live(), 3, 60), PodDecision::Leave(WhyLeft::InUse(_))));
    // It names an earlier pod of this name.
    let annotations = &mut scene.twin.as_mut().unwrap().annotations;
    annotations.insert(keys::PHYSICAL_POD_UID.to_owned(), "p-0".to_owned());
    assert!(is_deletion(&scene.to_the_end(3)));
}

#[test]
fn table_8_row_4_a_virtual_pod_that_could_not_be_read_is_read_again() {
    let scene = Scene::new();
    assert_eq!(decide(&scene.facts(Twin::Unread, None), NOW), PodDecision::Retry);
    assert_eq!(scene.looked(Twin::Unread, 5, 60), PodDecision::Retry);
    // Another pod was read than the one that is named: that is no answer either.
    let scene = Scene::with(|_, twin| "web-1".clone_into(&mut twin.as_mut().unwrap().name));
    assert_eq!(scene.cached(), PodDecision::Retry);
}

#[test]
fn table_8_row_5_a_pod_whose_virtual_pod_is_gone_goes_after_two_looks_and_a_live_read() {
    let scene = Scene::with(|_, twin| *twin = None);
    let decision = scene.to_the_end(5);
    assert!(is_deletion(&decision));
    assert_eq!(decision.to_string(), "row 5: its virtual pod shop/web-0 (UID v-uid) does not exist; it is deleted");
}

#[test]
fn table_8_row_5_the_live_read_saves_a_pod_that_the_cache_has_lost() {
    let scene = Scene::new();
    let PodDecision::AskVirtualPod { .. } = scene.looked(Twin::Cached(None), 5, 30) else { panic!() };
    assert_eq!(scene.looked(scene.live(), 5, 30), PodDecision::Synchronise(Trusted::Labels));
}

#[test]
fn scenario_15_8_after_a_restart_an_orphan_goes_after_its_second_look_and_not_before() {
    let scene = Scene::with(|_, twin| *twin = None);
    let cached = scene.facts(Twin::Cached(None), None);
    let mut before = Looks::new(10);
    assert!(matches!(before.decide(&cached, NOW), PodDecision::LookAgain { .. }));
    // Another process has not seen it, however long the one before had.
    let (mut looks, first) = (Looks::new(10), NOW + ORPHAN_DELAY);
    let second = first + ORPHAN_DELAY;
    let decision = looks.decide(&cached, first);
    assert!(matches!(decision, PodDecision::LookAgain { at, .. } if at == second), "{decision}");
    assert!(matches!(looks.decide(&cached, second), PodDecision::AskVirtualPod { .. }));
    let live = scene.facts(Twin::Live { pod: None, asked: second }, None);
    assert!(is_deletion(&looks.decide(&live, second)));
}

#[test]
fn s6_one_look_is_enough_where_the_virtual_pod_is_another_one() {
    let scene = Scene::with(|_, twin| twin.as_mut().unwrap().uid = "v-2".into());
    let PodDecision::AskVirtualPod { why: Orphan::TwinReplaced { found, .. }, .. } = scene.cached() else {
        panic!("{}", scene.cached())
    };
    assert_eq!(&*found, "v-2");
    assert!(is_deletion(&decide(&scene.facts(scene.live(), None), NOW)));
}

#[test]
fn table_8_row_6_a_pod_that_its_virtual_pod_does_not_name_goes_after_two_looks_and_a_live_read() {
    for (key, value) in [
        (keys::PHYSICAL_POD_NAMESPACE, ""),
        (keys::PHYSICAL_POD_NAMESPACE, "other"),
        (keys::PHYSICAL_POD_NAME, ""),
        (keys::PHYSICAL_POD_NAME, "other"),
    ] {
        let scene = Scene::with(|_, twin| {
            twin.as_mut().unwrap().annotations.insert(key.to_owned(), value.to_owned());
        });
        assert!(is_deletion(&scene.to_the_end(6)), "{key}: {value}");
    }
}

#[test]
fn d14_a_virtual_pod_that_names_another_physical_uid_makes_an_orphan_and_one_without_uid_does_not() {
    let named = |uid: &str| {
        Scene::with(|_, twin| {
            twin.as_mut().unwrap().annotations.insert(keys::PHYSICAL_POD_UID.to_owned(), uid.to_owned());
        })
    };
    // Two looks: the top-down half writes this UID after it has created the pod.
    assert!(is_deletion(&named("p-0").to_the_end(6)));
    assert_eq!(named("").cached(), PodDecision::Synchronise(Trusted::Labels));
}

#[test]
fn table_8_row_7_pods_that_name_each_other_are_mirrored() {
    assert_eq!(Scene::new().cached(), PodDecision::Synchronise(Trusted::Labels));
    let mut scene = Scene::with(|pod, _| pod.deleting = true);
    assert_eq!(scene.cached(), PodDecision::Synchronise(Trusted::Labels));
    scene.bars = Bars::from_iter([Bar::Suspect]);
    assert_eq!(scene.cached(), PodDecision::Synchronise(Trusted::Labels));
}

#[test]
fn a_pod_that_is_being_deleted_is_not_deleted_again() {
    let scene = Scene::with(|pod, twin| {
        pod.deleting = true;
        *twin = None;
    });
    assert!(matches!(scene.cached(), PodDecision::Nothing(WhyNothing::Terminating(Orphan::TwinGone(_)))));
    assert!(matches!(scene.looked(scene.live(), 5, 60), PodDecision::Nothing(WhyNothing::Terminating(_))));
}

#[test]
fn s1_an_orphan_that_is_not_ours_is_left_alone_whatever_was_seen() {
    for key in [keys::VIRTUAL_CLUSTER, keys::BINDING] {
        for value in [None, Some("other")] {
            let scene = Scene::with(|pod, twin| {
                *twin = None;
                match value {
                    Some(value) => drop(pod.labels.insert(key.to_owned(), value.to_owned())),
                    None => drop(pod.labels.remove(key)),
                }
            });
            for decision in [scene.cached(), scene.looked(scene.live(), 5, 600)] {
                assert!(matches!(decision, PodDecision::Leave(WhyLeft::Foreign(_))), "{key}: {decision}");
            }
        }
    }
    // Managed by name only, like the pods of the original system.
    let scene = Scene::with(|pod, _| pod.labels.retain(|key, _| key == keys::MANAGED_BY_LABEL));
    assert_eq!(scene.cached(), PodDecision::Leave(WhyLeft::Foreign(WhyForeign::Unlabelled)));
}

#[test]
fn s6_a_pod_of_an_earlier_binding_is_adopted_by_its_mapping_and_an_orphan_only_after_that() {
    let earlier = |list, twin: Option<VirtualPod>| {
        let mut scene = Scene::with(|pod, _| drop(pod.labels.insert(keys::BINDING_UID.to_owned(), "b-1".to_owned())));
        scene.earlier = list;
        scene.twin = twin;
        scene
    };
    let ask = PodDecision::AskBinding("b-1".into());
    assert_eq!(earlier(Earlier::Unlisted, Some(virtual_pod())).cached(), ask);
    assert_eq!(earlier(Earlier::Unlisted, None).cached(), ask);
    let adopted = PodDecision::Synchronise(Trusted::Mapping("b-1".into()));
    assert_eq!(earlier(Earlier::Gone, Some(virtual_pod())).cached(), adopted);
    let orphan = earlier(Earlier::Gone, None);
    for decision in [orphan.cached(), orphan.looked(orphan.live(), 5, 600)] {
        assert!(matches!(decision, PodDecision::Leave(WhyLeft::NotAdopted { .. })), "{decision}");
    }
    let stands = earlier(Earlier::Stands, Some(virtual_pod())).cached();
    assert_eq!(stands, PodDecision::Leave(WhyLeft::Foreign(WhyForeign::BindingStands("b-1".into()))));
    // Its virtual pod went after it was adopted.
    let mut orphan = earlier(Earlier::Gone, None);
    orphan.adopted = Adopted::Yes;
    assert!(is_deletion(&orphan.to_the_end(5)));
    // What was adopted is asked for again, and no pod of a binding that stands is ours.
    orphan.earlier = Earlier::Unlisted;
    assert_eq!(orphan.cached(), ask);
    orphan.earlier = Earlier::Stands;
    assert!(matches!(orphan.looked(orphan.live(), 5, 600), PodDecision::Leave(WhyLeft::Foreign(_))));
}

#[test]
fn s5_s23_s25_no_state_but_the_ordinary_one_judges_an_orphan() {
    let mut orphan = Scene::with(|_, twin| *twin = None);
    let mut whole = Scene::new();
    for bar in Bar::ALL {
        (orphan.bars, whole.bars) = (Bars::from_iter([bar]), Bars::from_iter([bar]));
        for decision in [orphan.cached(), orphan.looked(orphan.live(), 5, 600)] {
            let PodDecision::Withheld { order: WithheldOrder::Deletion(_), bar: found } = decision else {
                panic!("{decision}")
            };
            assert_eq!(found, bar);
        }
        let mirrored = [Bar::Suspect, Bar::VirtualUnreachable, Bar::Restored, Bar::Paused, Bar::Invalid, Bar::Orphaned]
            .contains(&bar);
        assert_eq!(whole.cached() == PodDecision::Synchronise(Trusted::Labels), mirrored, "{bar:?}");
    }
}

#[test]
fn a_pod_without_uid_or_version_is_never_deleted() {
    for edit in [|pod: &mut PhysicalPod| pod.uid = "".into(), |pod: &mut PhysicalPod| pod.version = "".into()] {
        let scene = Scene::with(|pod, twin| {
            *twin = None;
            edit(pod);
        });
        assert!(matches!(scene.looked(scene.live(), 5, 30), PodDecision::Leave(WhyLeft::Unguarded(_))));
    }
}

#[test]
fn s6_the_looks_are_remembered_and_begin_anew_when_the_pod_was_whole_in_between() {
    let (orphan, whole) = (Scene::with(|_, twin| *twin = None), Scene::new());
    let mut looks = Looks::new(10);
    let at = |scene: &Scene, seconds: u64, looks: &mut Looks| {
        let now = Duration::from_secs(seconds);
        let live = Twin::Live { pod: scene.twin.as_ref(), asked: now };
        match looks.decide(&scene.facts(live, None), now) {
            PodDecision::LookAgain { at, .. } => format!("again at {}", at.as_secs()),
            PodDecision::Delete { .. } => "delete".to_owned(),
            PodDecision::Synchronise(_) => "mirror".to_owned(),
            PodDecision::Withheld { .. } => "withheld".to_owned(),
            other => other.to_string(),
        }
    };
    assert_eq!(at(&orphan, 100, &mut looks), "again at 130");
    assert_eq!(at(&orphan, 129, &mut looks), "again at 130");
    assert_eq!(at(&whole, 129, &mut looks), "mirror");
    assert_eq!(looks.len(), 0);
    assert_eq!(at(&orphan, 130, &mut looks), "again at 160");
    // What may not be judged neither counts nor forgets.
    let mut suspect = Scene::with(|_, twin| *twin = None);
    suspect.bars = Bars::from_iter([Bar::Suspect]);
    assert_eq!(at(&suspect, 150, &mut looks), "withheld");
    assert_eq!(at(&orphan, 160, &mut looks), "delete");
    assert_eq!(at(&orphan, 161, &mut looks), "delete");
    // Of another row, it is another orphan.
    let mut elsewhere = Scene::new();
    elsewhere.twin.as_mut().unwrap().annotations.clear();
    assert_eq!(at(&elsewhere, 162, &mut looks), "again at 192");
    assert_eq!(at(&orphan, 192, &mut looks), "again at 222");
    looks.clear();
    assert_eq!(at(&orphan, 222, &mut looks), "again at 252");
    // Nothing was looked at for an hour.
    assert_eq!(at(&orphan, 222 + 3600, &mut looks), "again at 3852");
    suspect.bars = Bars::from_iter([Bar::Restored]);
    looks.clear();
    assert_eq!(at(&suspect, 4000, &mut looks), "withheld");
    assert!(looks.is_empty(), "a look under a server that was set back is no look");
}

#[test]
fn more_orphans_than_there_is_room_for_stay_where_they_are() {
    let scene = Scene::with(|_, twin| *twin = None);
    let mut looks = Looks::new(100);
    let mut decide = |number: usize, seconds: u64| {
        let now = Duration::from_secs(seconds);
        let mut pod = physical_pod();
        pod.uid = number.to_string().into();
        let facts = Facts { pod: Some(&pod), ..scene.facts(Twin::Live { pod: None, asked: now }, None) };
        let decision = looks.decide(&facts, now);
        assert!(looks.len() <= 100);
        decision
    };
    for number in 0..10_000 {
        assert!(matches!(decide(number, 100), PodDecision::LookAgain { .. }));
    }
    assert!(matches!(decide(9_999, 130), PodDecision::LookAgain { .. }));
    assert!(matches!(decide(99, 130), PodDecision::Delete { .. }));
    // The others are forgotten after an hour, and make room.
    assert!(matches!(decide(9_999, 4_000), PodDecision::LookAgain { .. }));
    assert!(matches!(decide(9_999, 4_030), PodDecision::Delete { .. }));
}

/// Edits of so many texts, each with this probability.
fn edits(count: usize, probability: f64) -> impl Strategy<Value = Vec<Option<&'static str>>> {
    let texts = ["cluster-1", "east", "binding-2", "topoloom", "shop", "web-0", "v-uid", "lent", "p-uid", "gone", ""];
    prop::collection::vec(prop::option::weighted(probability, prop::sample::select(texts.to_vec())), count)
}

fn seconds() -> impl Strategy<Value = u64> {
    prop_oneof![Just(970), Just(1_000), 960..=1_000_u64]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 700, ..ProptestConfig::default() })]

    /// Whatever two objects hold: what is deleted is ours by all three labels, is not terminating, was seen twice (or its
    /// virtual pod is another one), and a live read shows that no virtual pod of that UID names it.
    #[test]
    fn s1_s6_nothing_is_deleted_that_is_not_certainly_an_orphan_of_ours(
        labels in edits(4, 0.1), down in edits(3, 0.3), up in edits(3, 0.5),
        uid in prop::sample::select(vec!["v-uid", "v-uid", "v-2"]), deleting in prop::bool::weighted(0.1), read in 0..6_u8,
        look in prop::option::weighted(0.9, (seconds(), 3_u8..=6)), earlier in 0..3_usize, bar in 0..40_usize,
        asked in seconds(),
    ) {
        let edit = |into: &mut Keys, keys: &[&str], values: &[Option<&str>]| {
            for (key, value) in keys.iter().zip(values) {
                match *value {
                    Some("gone") => drop(into.remove(*key)),
                    Some(value) => drop(into.insert((*key).to_owned(), value.to_owned())),
                    None => {}
                }
            }
        };
        let mut scene = Scene::new();
        let pod = scene.pod.as_mut().unwrap();
        edit(&mut pod.labels, &[keys::MANAGED_BY_LABEL, keys::VIRTUAL_CLUSTER, keys::BINDING, keys::BINDING_UID], &labels);
        edit(&mut pod.annotations, &[keys::VIRTUAL_POD_NAMESPACE, keys::VIRTUAL_POD_NAME, keys::VIRTUAL_POD_UID], &down);
        pod.deleting = deleting;
        let twin = scene.twin.as_mut().unwrap();
        edit(&mut twin.annotations, &[keys::PHYSICAL_POD_NAMESPACE, keys::PHYSICAL_POD_NAME, keys::PHYSICAL_POD_UID], &up);
        twin.uid = uid.into();
        scene.earlier = [Earlier::Unlisted, Earlier::Stands, Earlier::Gone][earlier];
        scene.bars = Bar::ALL.get(bar).copied().into_iter().collect();
        let asked = Duration::from_secs(asked);
        let twin = match read {
            0 => Twin::Unread,
            1 => Twin::Cached(None),
            2 => Twin::Live { pod: None, asked },
            _ => Twin::Live { pod: scene.twin.as_ref(), asked },
        };
        let look = look.map(|(first, row)| Look { first: Duration::from_secs(first), row });
        let decision = decide(&scene.facts(twin, look), NOW);
        let _ = decision.to_string();
        if let PodDecision::Delete { why, .. } = &decision {
            let pod = scene.pod.as_ref().unwrap();
            prop_assert!(us().labels().iter().all(|(key, value)| pod.labels.get(key) == Some(value)));
            prop_assert!(!pod.deleting && scene.bars == Bars::default());
            let Twin::Live { pod: twin, asked } = twin else { return Err(TestCaseError::fail("by a cache")) };
            let replaced = matches!(why, Orphan::TwinReplaced { .. });
            prop_assert!(replaced || look.is_some_and(|look| look.first + ORPHAN_DELAY <= NOW.min(asked)));
            if let Some(twin) = twin {
                let get = |key: &str| twin.annotations.get(key).map(String::as_str);
                let names_it = get(keys::PHYSICAL_POD_NAMESPACE) == Some("lent")
                    && get(keys::PHYSICAL_POD_NAME) == Some("web-0-d8e9")
                    && get(keys::PHYSICAL_POD_UID).is_none_or(|uid| uid.is_empty() || uid == "p-uid");
                prop_assert!(!names_it || replaced, "{}", decision);
            }
        }
    }
}

mod ending {
    use std::sync::LazyLock;

    use jiff::Timestamp;
    use serde_json::json;

    use super::super::finish::*;
    use super::*;
    use crate::phase::Phase;

    const DELETED: i64 = 1_000;

    fn pod(phase: &str) -> EndingPod {
        EndingPod {
            uid: "v-uid".into(),
            version: "9".into(),
            phase: Phase::parse(phase),
            annotations: virtual_pod().annotations,
            deletion: Some(at(DELETED)),
            grace: Some(30),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn facts<'a>(pod: &'a EndingPod, physical: &'a PodEvidence, physical_node: NodeEvidence) -> EndFacts<'a> {
        static FREE: LazyLock<Bars> = LazyLock::new(Bars::default);
        let terminating_for = Duration::ZERO;
        let (node, bars) = (&Owner::Ours, &*FREE);
        EndFacts { pod, terminating_for, node, physical, physical_node, bearer: None, seen: None, bars }
    }

    fn late(facts: &EndFacts<'_>) -> EndDecision {
        finish(facts, 90)
    }

    /// What follows for a pod that has been seen to terminate for so many seconds.
    fn finish(facts: &EndFacts<'_>, seconds: u64) -> EndDecision {
        super::super::finish::decide(&EndFacts { terminating_for: Duration::from_secs(seconds), ..*facts })
    }

    #[test]
    fn s10_the_top_down_half_has_a_minute_after_the_grace() {
        let (pod, gone) = (pod("Running"), PodEvidence::Absent);
        let facts = facts(&pod, &gone, NodeEvidence::Gone);
        assert_eq!(finish(&facts, 0), EndDecision::Wait { left: Duration::from_secs(90) });
        assert_eq!(finish(&facts, 89), EndDecision::Wait { left: Duration::from_secs(1) });
        assert!(matches!(finish(&facts, 90), EndDecision::WriteFinalPhase { .. }));
        let living = EndingPod { deletion: None, ..pod.clone() };
        let nothing = EndDecision::Nothing(WhyNotFinished::NotTerminating);
        assert_eq!(late(&EndFacts { pod: &living, ..facts }), nothing);
        let never = EndingPod { grace: Some(i64::MAX), ..pod.clone() };
        assert!(matches!(late(&EndFacts { pod: &never, ..facts }), EndDecision::Wait { .. }));
    }

    #[test]
    fn s10_what_the_clock_of_the_api_server_shows_makes_the_time_of_the_top_down_half_neither_longer_nor_shorter() {
        let gone = PodEvidence::Absent;
        for deletion in [Timestamp::MIN, at(0), at(DELETED), Timestamp::MAX] {
            let pod = EndingPod { deletion: Some(deletion), ..pod("Failed") };
            let facts = facts(&pod, &gone, NodeEvidence::Gone);
            assert!(matches!(finish(&facts, 89), EndDecision::Wait { .. }), "{deletion}");
            assert!(matches!(finish(&facts, 90), EndDecision::Delete { .. }), "{deletion}");
        }
    }

    /// What happens in the life of a pod that terminates.
    #[derive(Debug, Clone, Copy)]
    enum Happens {
        /// So many seconds pass.
        Pass(u64),
        /// Another process takes over, and sees the pod after so many seconds.
        TakeOver(u64),
    }

    proptest! {
        /// Whichever process takes over, and when: the pod is not finished before its grace and a minute are over since the request to delete
        /// it, and it is once one process has seen it for that long.
        #[test]
        fn s10_no_pod_is_finished_early_by_any_process_and_none_waits_for_ever(
            grace in prop_oneof![Just(None), (0..400_i64).prop_map(Some), Just(Some(-1))],
            first in 0..100_u64,
            life in prop::collection::vec(
                prop_oneof![3 => (1..200_u64).prop_map(Happens::Pass), 1 => (0..100_u64).prop_map(Happens::TakeOver)], 1..20
            ),
        ) {
            let whole = 60 + grace.map_or(30, |grace| u64::try_from(grace).unwrap_or(0));
            let (pod, gone) = (EndingPod { grace, ..pod("Failed") }, PodEvidence::Absent);
            let facts = facts(&pod, &gone, NodeEvidence::Gone);
            // By a clock that begins with the request.
            let (mut now, mut seen) = (first, first);
            for happens in life {
                match happens {
                    Happens::Pass(seconds) => now += seconds,
                    Happens::TakeOver(seconds) => {
                        now += seconds;
                        seen = now;
                    }
                }
                let waits = matches!(finish(&facts, now - seen), EndDecision::Wait { .. });
                prop_assert!(waits || now >= whole, "{now} s after the request");
                prop_assert!(!waits || now - seen < whole, "{now} s after the request");
            }
        }
    }

    #[test]
    fn s10_a_pod_is_finished_only_where_its_physical_pod_by_uid_or_its_node_is_gone() {
        let pod = pod("Failed");
        let named = PhysicalPodRef::read(&pod.annotations).unwrap();
        let judge = |pod: &EndingPod, physical: PodEvidence, node| late(&facts(pod, &physical, node));
        let ask = EndDecision::AskPhysicalPod(named.clone());
        assert_eq!(judge(&pod, PodEvidence::Unasked, NodeEvidence::Unasked), ask);
        assert_eq!(judge(&pod, PodEvidence::Unasked, NodeEvidence::Present), ask);
        let same = || PodEvidence::Present("p-uid".into());
        assert_eq!(judge(&pod, same(), NodeEvidence::Unasked), EndDecision::AskPhysicalNode);
        let lives = EndDecision::Nothing(WhyNotFinished::Lives);
        assert_eq!(judge(&pod, same(), NodeEvidence::Present), lives);
        let why = |decision| match decision {
            EndDecision::Delete { why, precondition } => {
                assert_eq!((&**precondition.uid(), &**precondition.version()), ("v-uid", "9"));
                why
            }
            other => panic!("{other}"),
        };
        let gone = WhyFinished::PodGone(named);
        assert_eq!(why(judge(&pod, PodEvidence::Absent, NodeEvidence::Present)), gone);
        assert_eq!(why(judge(&pod, PodEvidence::Present("p-2".into()), NodeEvidence::Unasked)), gone);
        assert_eq!(why(judge(&pod, PodEvidence::Unasked, NodeEvidence::Gone)), WhyFinished::NodeGone);
        assert_eq!(why(judge(&pod, same(), NodeEvidence::Gone)), WhyFinished::NodeGone);
        // It names no UID, so the pod of that name may be its own.
        let mut unsure = pod.clone();
        unsure.annotations.remove(keys::PHYSICAL_POD_UID);
        assert_eq!(judge(&unsure, PodEvidence::Present("p-2".into()), NodeEvidence::Present), lives);
        // It names none at all: only the node decides.
        unsure.annotations.clear();
        assert_eq!(judge(&unsure, PodEvidence::Unasked, NodeEvidence::Unasked), EndDecision::AskPhysicalNode);
        assert_eq!(judge(&unsure, PodEvidence::Absent, NodeEvidence::Present), lives);
    }

    #[test]
    fn s10_a_final_phase_is_written_before_a_delete_with_grace_0() {
        let gone = PodEvidence::Absent;
        for phase in ["Pending", "Running", "Unknown", "", "Odd"] {
            let pod = pod(phase);
            let EndDecision::WriteFinalPhase { patch, .. } = late(&facts(&pod, &gone, NodeEvidence::Present)) else {
                panic!("{phase}")
            };
            assert_eq!(patch["metadata"], json!({"resourceVersion": "9"}));
            assert_eq!(
                (&patch["status"]["phase"], &patch["status"]["reason"]),
                (&json!("Failed"), &json!("PhysicalPodLost"))
            );
            for seen in Phase::ALL {
                let facts = EndFacts { seen: Some(seen), ..facts(&pod, &gone, NodeEvidence::Present) };
                let EndDecision::WriteFinalPhase { patch: of_seen, .. } = late(&facts) else { panic!("{seen}") };
                let ended = json!({"phase": seen.word()});
                assert_eq!(of_seen["status"], if seen.is_final() { ended } else { patch["status"].clone() }, "{seen}");
            }
        }
        for phase in ["Succeeded", "Failed"] {
            let pod = pod(phase);
            assert!(matches!(late(&facts(&pod, &gone, NodeEvidence::Present)), EndDecision::Delete { .. }), "{phase}");
        }
    }

    #[test]
    fn s10_a_pod_that_another_physical_pod_runs_for_than_it_names_is_not_finished_while_its_node_is_there() {
        let (pod, bearer) = (pod("Running"), Uid::from("p-other"));
        for physical in [PodEvidence::Absent, PodEvidence::Present("p-again".into())] {
            let of = |node| EndFacts { bearer: Some(&bearer), ..facts(&pod, &physical, node) };
            assert_eq!(late(&of(NodeEvidence::Unasked)), EndDecision::AskPhysicalNode);
            assert_eq!(late(&of(NodeEvidence::Present)), EndDecision::Nothing(WhyNotFinished::Lives));
            let gone = late(&of(NodeEvidence::Gone));
            assert!(matches!(gone, EndDecision::WriteFinalPhase { why: WhyFinished::NodeGone, .. }), "{gone}");
            assert!(matches!(
                late(&facts(&pod, &physical, NodeEvidence::Unasked)),
                EndDecision::WriteFinalPhase { why: WhyFinished::PodGone(_), .. }
            ));
        }
    }

    #[test]
    fn s10_a_pod_that_only_its_finalizers_keep_is_not_deleted_again() {
        let gone = PodEvidence::Absent;
        let ended = EndingPod { grace: Some(0), ..pod("Failed") };
        let nothing = EndDecision::Nothing(WhyNotFinished::Finalizers);
        assert_eq!(late(&facts(&ended, &gone, NodeEvidence::Present)), nothing);
        let forced = EndingPod { grace: Some(0), ..pod("Running") };
        assert!(matches!(late(&facts(&forced, &gone, NodeEvidence::Present)), EndDecision::WriteFinalPhase { .. }));
    }

    #[test]
    fn s1_s10_a_pod_on_a_foreign_node_or_under_any_bar_is_not_finished() {
        let (pod, gone) = (pod("Failed"), PodEvidence::Absent);
        let facts = facts(&pod, &gone, NodeEvidence::Gone);
        let foreign = Owner::Foreign(WhyForeign::Unlabelled);
        let nothing = EndDecision::Nothing(WhyNotFinished::Foreign(WhyForeign::Unlabelled));
        assert_eq!(late(&EndFacts { node: &foreign, ..facts }), nothing);
        let unknown = EndDecision::Nothing(WhyNotFinished::NodeUnknown);
        for node in [Owner::Unknown("b-1".into()), Owner::Adoptable("b-1".into())] {
            assert_eq!(late(&EndFacts { node: &node, ..facts }), unknown);
        }
        for bar in Bar::ALL {
            assert_eq!(late(&EndFacts { bars: &Bars::from_iter([bar]), ..facts }), EndDecision::Withheld(bar));
        }
        let unguarded = EndDecision::Nothing(WhyNotFinished::Unguarded);
        let unguarded_pod = EndingPod { version: "".into(), ..pod.clone() };
        assert_eq!(late(&EndFacts { pod: &unguarded_pod, ..facts }), unguarded);
        let unguarded_pod = EndingPod { uid: "".into(), ..pod.clone() };
        assert_eq!(late(&EndFacts { pod: &unguarded_pod, ..facts }), unguarded);
    }
}
