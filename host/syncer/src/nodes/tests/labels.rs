//! Virtual nodes that lost labels of identity, one that leads to no machine, and one of an earlier `clusterID`.

use super::*;

#[tokio::test]
async fn s6_the_lease_of_a_virtual_node_that_lost_a_label_goes_on_until_a_live_read_finds_it_gone_or_anothers() {
    let node = examples::lent(1);
    let stored = move |key: &str, value: Option<&str>| {
        let mut labels = node.metadata.labels.clone();
        match value {
            Some(value) => drop(labels.insert(key.to_owned(), value.to_owned())),
            None => drop(labels.remove(key)),
        }
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let metadata = json!({"name": LENT, "uid": "v1", "resourceVersion": "30", "labels": labels});
        (200, json!({"metadata": metadata, "status": {"conditions": ready}}))
    };
    let gone = refused(404, "NotFound", LENT);
    for (answer, leases) in [
        (stored(keys::VIRTUAL_CLUSTER, None), vec!["start vnode-east-w1 v1"]),
        (stored(keys::VIRTUAL_CLUSTER, Some("")), vec!["start vnode-east-w1 v1"]),
        (stored(keys::BINDING, None), vec!["start vnode-east-w1 v1"]),
        (stored(keys::BINDING, Some("west")), vec!["forget vnode-east-w1"]),
        (gone, vec!["forget vnode-east-w1"]),
        // What cannot be read is as it was.
        ((500, Value::Null), vec![]),
    ] {
        let mut view = examples::view(1);
        examples::lend(&mut view, 1);
        view.lent_node_left(LENT);
        // Nothing is made in its place.
        view.bars = [Bar::Suspect].into_iter().collect();
        let scene = Scene::served(view, move |asked| match asked {
            READ => answer.clone(),
            other => panic!("{other}"),
        });
        let worked = scene.nodes.work(&"w1".into()).await;
        assert_eq!((scene.asked(), worked.is_err()), (vec![READ.to_owned()], leases.is_empty()));
        assert_eq!(*scene.leases.0.lock().unwrap(), leases);
    }
}

#[tokio::test]
async fn s6_s7_a_node_without_labels_that_has_the_name_is_renewed_by_our_finalizer_and_our_claim() {
    let mut view = examples::view(1);
    examples::lend(&mut view, 1);
    // Another process has made it, and its Lease is gone, too.
    view.lent_node_gone(LENT);
    let metadata = json!({"name": LENT, "uid": "v1", "resourceVersion": "30", "finalizers": [keys::VNODE_FINALIZER]});
    let stored = json!({"metadata": metadata, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let scene = Scene::served(view, move |asked| match asked {
        "POST /api/v1/nodes" => refused(409, "AlreadyExists", LENT),
        READ => (200, stored.clone()),
        other => panic!("{other}"),
    });
    assert!(matches!(scene.nodes.work(&"w1".into()).await.unwrap(), WorkOutcome::Again(_)));
    assert_eq!(scene.asked(), ["POST /api/v1/nodes", READ]);
    let leases = scene.leases.0.lock().unwrap().clone();
    assert_eq!(leases.last().map(String::as_str), Some("start vnode-east-w1 v1"));
    assert_eq!(scene.view.lock().unwrap().strays().stripped.len(), 1);
    // What was read is good for a while.
    scene.nodes.work(&"w1".into()).await.unwrap();
    assert_eq!(scene.asked(), [""; 0]);
}

#[tokio::test]
async fn s6_a_copy_that_a_person_made_gets_no_lease_and_loses_our_finalizer_once_it_was_deleted_and_has_no_pods() {
    const COPY: &str = "vnode-east-copy";
    let mut view = examples::view(1);
    examples::lend(&mut view, 1);
    let copy = LentNode { uid: "copy".into(), existence: Existence::Terminating, ..examples::lent(1) };
    view.lent_node(&COPY.into(), copy);
    let freed = json!({"metadata": {
        "name": COPY, "uid": "copy", "resourceVersion": "41", "deletionTimestamp": "2026-08-03T12:00:00Z", "finalizers": [],
    }});
    let scene = Scene::served(view, move |asked| match asked {
        asked if asked.starts_with(LIST) => list(&[]),
        "PATCH /api/v1/nodes/vnode-east-copy" => (200, freed.clone()),
        other => panic!("{other}"),
    });
    assert!(scene.nodes.all().contains(&PhysicalName::from(COPY)), "the sweep looks at it, too");
    // Were the finalizer not gone, no write would follow this one at once.
    let recheck = scene.view.lock().unwrap().binding.deletion.recheck;
    assert_eq!(scene.nodes.work(&COPY.into()).await.unwrap(), WorkOutcome::Again(recheck));
    let asked = scene.asked();
    assert!(asked.len() == 2 && asked[0].contains("spec.nodeName%3Dvnode-east-copy"), "{asked:?}");
    let leases = scene.leases.0.lock().unwrap().clone();
    assert!(!leases.is_empty() && leases.iter().all(|line| line == "stop vnode-east-copy"), "{leases:?}");
    assert!(scene.view.lock().unwrap().lent(COPY).is_none());
    assert_eq!(scene.nodes.work(&COPY.into()).await.unwrap(), WorkOutcome::Done);
    assert_eq!(scene.asked(), [""; 0]);
}

/// A live list of the bindings.
fn bindings(uids: &[&str]) -> (u16, Value) {
    let items: Vec<Value> = uids.iter().map(|uid| json!({"metadata": {"name": uid, "uid": uid}})).collect();
    let kind = "PartialObjectMetadataList";
    (200, json!({"apiVersion": "meta.k8s.io/v1", "kind": kind, "metadata": {}, "items": items}))
}

const BINDINGS: &str = "GET /apis/topoloom.dev/v1alpha1/clusterbindings";

#[tokio::test]
async fn s4_s22_the_lease_of_a_node_of_an_earlier_cluster_id_stops_after_a_live_read_of_the_machine_that_it_names() {
    const MACHINE: &str = "GET /api/v1/nodes/w1";
    for (answer, leases) in [
        (refused(404, "NotFound", "w1"), vec!["stop vnode-est-w1"]),
        ((200, json!({"metadata": {"name": "w1", "uid": "u1"}})), vec!["start vnode-est-w1 v1"]),
        // What cannot be read is as it was.
        ((500, Value::Null), vec![]),
    ] {
        let mut view = examples::view(1);
        let (name, node) = examples::of_est(1, "b-0");
        view.lent_node(&name, node);
        view.physical_node_gone("w1");
        let scene = Scene::served(view, move |asked| match asked {
            BINDINGS => bindings(&["b-1"]),
            MACHINE => answer.clone(),
            other => panic!("{other}"),
        });
        let worked = scene.nodes.work(&(&name).into()).await;
        assert_eq!(
            (scene.asked(), worked.is_err()),
            (vec![BINDINGS.to_owned(), MACHINE.to_owned()], leases.is_empty())
        );
        assert_eq!(*scene.leases.0.lock().unwrap(), leases);
    }
}

#[tokio::test]
async fn s4_s6_the_lease_of_a_node_of_an_earlier_cluster_id_goes_on_unless_the_binding_that_made_it_exists() {
    for (uids, lease) in [(vec!["b-1"], "start vnode-est-w1 v1"), (vec!["b-1", "b-0"], "stop vnode-est-w1")] {
        let mut view = examples::view(1);
        let (name, node) = examples::of_est(1, "b-0");
        view.lent_node(&name, node);
        let listed = bindings(&uids);
        let scene = Scene::served(view, move |asked| match asked {
            BINDINGS => listed.clone(),
            other => panic!("{other}"),
        });
        assert_eq!(scene.nodes.work(&(&name).into()).await.unwrap(), WorkOutcome::Done);
        assert_eq!(*scene.leases.0.lock().unwrap(), [lease]);
    }
}
