//! Writes that an API server takes and does not store.

use super::*;

const STATUS: &str = "PATCH /api/v1/nodes/vnode-east-w1/status";
const CLAIM: &str = "PATCH /api/v1/nodes/w1";
/// After this time it is tried again.
const REST: Duration = Duration::from_secs(600);

fn rested() -> Now {
    let now = examples::now();
    Now { wall: now.wall.checked_add(REST).unwrap(), steady: now.steady + REST }
}

/// The virtual node as its API server has it while nothing changes, in this version.
fn stored(version: &str) -> Value {
    let work = examples::view(1).decide(&"w1".into(), &Evidence::default(), examples::now());
    let [_, NodeOrder::Create { body, .. }] = &work.orders[..] else { panic!("{:?}", work.orders) };
    let mut node = body.clone();
    node["metadata"]["uid"] = "v1".into();
    node["metadata"]["resourceVersion"] = version.into();
    node
}

/// A view of one virtual node whose machine has a new label.
fn labelled() -> View {
    let mut view = examples::view(1);
    examples::lend(&mut view, 1);
    let mut machine = view.physical("w1").unwrap().clone();
    machine.version = "8".into();
    machine.labels.insert("rack".to_owned(), "r1".to_owned());
    view.physical_node(&"w1".into(), machine);
    view
}

/// Answers every patch of this path with the object.
fn answers(path: &'static str, object: Value) -> impl Fn(&str) -> (u16, Value) + Send + 'static {
    move |asked| match asked {
        asked if asked == path => (200, object.clone()),
        asked if is_event(asked) => (201, json!({"metadata": {}})),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn s12_what_a_webhook_takes_out_of_a_virtual_node_is_one_write_and_one_event_until_it_is_tried_again() {
    let mut scene = Scene::served(labelled(), answers(STATUS, stored("21")));
    assert_eq!(scene.nodes.work(&"w1".into()).await.unwrap(), WorkOutcome::Again(Duration::ZERO));
    assert_eq!(scene.asked(), [STATUS]);
    for _ in 0..3 {
        assert_eq!(scene.nodes.work(&"w1".into()).await.unwrap(), WorkOutcome::Again(REST));
    }
    let asked = scene.asked();
    assert!(asked.len() == 1 && is_event(&asked[0]), "{asked:?}");
    assert_eq!(scene.counted.lines(), ["wrote node-status metadata 1", "refused node-status NotStored 1"]);

    scene.nodes.now = rested;
    assert_eq!(scene.nodes.work(&"w1".into()).await.unwrap(), WorkOutcome::Again(Duration::ZERO));
    assert_eq!(scene.nodes.work(&"w1".into()).await.unwrap(), WorkOutcome::Again(REST));
    assert_eq!(scene.asked(), [STATUS], "what was said is not said again");
    assert_eq!(scene.counted.lines(), ["wrote node-status metadata 2", "refused node-status NotStored 2"]);
    let events = scene.events.lock().unwrap().clone();
    let [event] = &events[..] else { panic!("{events:?}") };
    let wanted = "WriteNotStored: physical node w1: patch status of node vnode-east-w1: the API server answered, and did not store \
                  metadata.labels[rack].";
    assert!(event.starts_with(wanted), "{event}");
}

#[tokio::test]
async fn s12_what_was_said_of_a_write_that_is_not_stored_is_forgotten_with_the_node() {
    let scene = Scene::served(labelled(), answers(STATUS, stored("21")));
    for _ in 0..2 {
        scene.nodes.work(&"w1".into()).await.unwrap();
    }
    assert!(!scene.nodes.unstored.is_empty());
    {
        let mut view = scene.view.lock().unwrap();
        view.physical_node_gone("w1");
        view.lent_node_gone(LENT);
    }
    scene.nodes.work(&"w1".into()).await.unwrap();
    assert!(scene.nodes.unstored.is_empty());
}

#[tokio::test]
async fn s7_no_virtual_node_is_made_of_a_machine_whose_claim_a_webhook_of_the_lender_takes_off() {
    let machine = json!({
        "metadata": {"name": "w1", "uid": "u1", "resourceVersion": "8", "labels": {"pool": "gpu"}},
        "status": {
            "allocatable": {"cpu": "4"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    });
    let scene = Scene::served(examples::view(1), answers(CLAIM, machine));
    for _ in 0..3 {
        assert_eq!(scene.nodes.work(&"w1".into()).await.unwrap(), WorkOutcome::Again(REST));
    }
    let asked = scene.asked();
    assert!(asked.len() == 2 && asked[0] == CLAIM && is_event(&asked[1]), "{asked:?}");
    assert_eq!(scene.counted.lines(), ["wrote claim lent 1", "refused claim NotStored 1"]);
    let events = scene.events.lock().unwrap().clone();
    let [event] = &events[..] else { panic!("{events:?}") };
    let field = format!("did not store metadata.annotations[{}].", keys::LEASED_BY);
    assert!(event.starts_with("WriteNotStored: physical node w1: claim the physical node: ") && event.contains(&field));
}
