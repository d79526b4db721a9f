//! Writes of virtual nodes that an API server refuses for what they say, and pods that have more time to end than their machine waits.

use topoloom_sync::copied::{ANNOTATIONS_MAX, annotation_bytes};
use topoloom_sync::merge::INFORMATION;

use super::*;

const CLAIM: &str = "PATCH /api/v1/nodes/w1";
const STATUS: &str = "PATCH /api/v1/nodes/vnode-east-w1/status";
const DELETED: &str = "DELETE /api/v1/namespaces/shop/pods/web-0";

fn at(seconds: u64) -> Now {
    let (now, passed) = (examples::now(), Duration::from_secs(seconds));
    Now { wall: now.wall.checked_add(passed).unwrap(), steady: now.steady + passed }
}

/// No annotation has room.
fn adds_annotations(patch: &Value) -> Option<(u16, Value)> {
    let annotations = patch.pointer("/metadata/annotations").and_then(Value::as_object);
    let adds = annotations.into_iter().flatten().any(|(_, value)| !value.is_null());
    adds.then(|| refused(422, "Invalid", LENT))
}

/// A view of ten nodes whose windows are closed. On the first one a pod runs, for which it is too small: its status is written, too.
fn closed(grace: Option<i64>) -> View {
    let mut view = examples::view(10);
    examples::lend(&mut view, 10);
    view.policy(examples::mornings("morning", grace));
    let _ = view.ledger.virtual_pod(serde_json::from_value(pod()).unwrap()).unwrap();
    view
}

/// What both API servers answer where nothing is refused.
fn answers(view: &View) -> impl Fn(&str) -> (u16, Value) + Send + use<> {
    let (claim, labels) = (examples::binding().identity.claim(), view.lent(LENT).unwrap().metadata.labels.clone());
    let labelled = json!({"pool": "gpu", keys::POLICY_APPLIED: "morning"});
    let machine = json!({
        "metadata": {
            "name": "w1", "uid": "u1", "resourceVersion": "8", "labels": labelled, "annotations": {keys::LEASED_BY: claim},
        },
        "status": {
            "allocatable": {"cpu": "4"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    });
    let lent = json!({"metadata": {"name": LENT, "uid": "v1", "resourceVersion": "40", "labels": labels}});
    move |asked| match asked {
        CLAIM => (200, machine.clone()),
        STATUS | TAINTED => (200, lent.clone()),
        DELETED => (200, evicted().1),
        asked if is_event(asked) => (201, json!({"metadata": {}})),
        other => panic!("{other}"),
    }
}

fn without_events(scene: &Scene) -> Vec<String> {
    scene.asked().into_iter().filter(|asked| !is_event(asked)).collect()
}

#[tokio::test]
async fn s17_pods_of_a_node_whose_windows_are_closed_go_although_the_taint_is_refused() {
    let mut view = closed(None);
    // The guard has gathered what follows.
    drop(view.decide(&"w1".into(), &Evidence::default(), examples::now()));
    let answers = answers(&view);
    let mut scene = Scene::refusing(view, adds_annotations, answers);
    scene.nodes.now = || at(10);
    assert!(scene.nodes.work(&"w1".into()).await.is_err(), "the taint is tried again");
    assert_eq!(without_events(&scene), [CLAIM, STATUS, TAINTED, DELETED]);
    let events = scene.events.lock().unwrap().clone();
    assert!(events.iter().any(|event| event.starts_with("WriteRefused: patch node vnode-east-w1")), "{events:?}");
}

#[tokio::test]
async fn s17_a_grace_whose_taint_is_refused_runs_from_the_first_look_and_is_neither_skipped_nor_begun_again() {
    let view = closed(Some(600));
    let answers = answers(&view);
    let mut scene = Scene::refusing(view, adds_annotations, answers);
    assert!(scene.nodes.work(&"w1".into()).await.is_err());
    assert_eq!(without_events(&scene), [CLAIM, STATUS, TAINTED]);
    let looks: [fn() -> Now; 3] = [|| at(590), || at(600), || at(610)];
    let refused = [STATUS, TAINTED];
    let wanted = [&refused[..], &refused, &[STATUS, TAINTED, DELETED]];
    for (now, wanted) in looks.into_iter().zip(wanted) {
        scene.nodes.now = now;
        assert!(scene.nodes.work(&"w1".into()).await.is_err());
        assert_eq!(without_events(&scene), wanted, "{:?}", now().wall);
    }
}

#[tokio::test]
async fn s12_s17_where_annotations_are_full_the_taint_is_written_without_them_and_nothing_is_refused() {
    let mut view = closed(None);
    let mut node = view.lent(LENT).unwrap().clone();
    let annotations = &mut node.metadata.annotations;
    INFORMATION.iter().for_each(|key| drop(annotations.remove(key)));
    let left = ANNOTATIONS_MAX - annotation_bytes(annotations) - "filler".len();
    annotations.insert("filler".to_owned(), "x".repeat(left));
    node.version = "21".into();
    view.lent_node(&LENT.into(), node);
    drop(view.decide(&"w1".into(), &Evidence::default(), examples::now()));
    let answers = answers(&view);
    let mut scene = Scene::refusing(view, adds_annotations, answers);
    scene.nodes.now = || at(10);
    scene.nodes.work(&"w1".into()).await.unwrap();
    assert_eq!(without_events(&scene), [CLAIM, STATUS, TAINTED, DELETED]);
    let events = scene.events.lock().unwrap().clone();
    let crowded =
        |event: &String| event.contains("262144") && event.contains("kubectl annotate node vnode-east-w1 filler-");
    assert!(events.iter().any(crowded), "{events:?}");
}

#[tokio::test]
async fn s12_a_taint_behind_a_status_that_is_refused_is_written_in_the_version_that_was_looked_at() {
    let view = machine_changed();
    let answers = answers(&view);
    let scene = Scene::served(view, move |asked| match asked {
        STATUS => refused(422, "Invalid", LENT),
        other => answers(other),
    });
    assert!(scene.nodes.work(&"w1".into()).await.is_err(), "the status is tried again");
    assert_eq!(without_events(&scene), [STATUS, TAINTED]);
    assert_eq!(*scene.judged.lock().unwrap(), ["20", "20"]);
}

#[tokio::test]
async fn s10_a_pod_that_is_being_deleted_with_the_grace_of_a_year_gets_an_hour_after_the_deadline_and_once() {
    let mut slow = pod();
    slow["metadata"]["deletionTimestamp"] = "2027-08-03T12:00:00Z".into();
    slow["metadata"]["deletionGracePeriodSeconds"] = 31_536_000.into();
    let view = leaving(&[slow]);
    let answers = answers(&view);
    let mut scene = Scene::served(view, answers);
    scene.nodes.work(&"w1".into()).await.unwrap();
    assert_eq!(without_events(&scene), [""; 0]);
    scene.nodes.now = || at(300);
    for asked in [vec![DELETED.to_owned()], vec![]] {
        scene.nodes.work(&"w1".into()).await.unwrap();
        assert_eq!(without_events(&scene), asked);
    }
    let deletions = scene.deletions.lock().unwrap().clone();
    let [options] = &deletions[..] else { panic!("{deletions:?}") };
    assert_eq!((&options["gracePeriodSeconds"], &options["preconditions"]["uid"]), (&json!(3_600), &json!("v-uid")));
    let events = scene.events.lock().unwrap().clone();
    let [event] = &events[..] else { panic!("{events:?}") };
    assert!(event.starts_with("PodsRemoved: have an hour at most to end ("), "{event}");
    assert_eq!(scene.counted.lines(), ["wrote pod-delete selector 1"], "it was not evicted a second time");
}
