//! The command line: which pod holds which lock, why, and how an operator removes a lock by hand (N9).

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn n9_locks_are_listed_explained_and_released_by_their_whole_value_only() -> Result<()> {
    // No sweeper runs here.
    let stage = LockScene::new(&["gpu-1", "gpu-2", "gpu-3", "gpu-4"], &["--controllers=*,-nodelock-sweeper"]).await?;
    let scene = &stage.scene;
    assert_eq!(scene.cli(&["lock", "list"]).await?, "4 of 4 nodes are free\n");
    let said = scene.cli(&["lock", "explain", "gpu-1"]).await?;
    assert!(said.contains("it is free"), "{said}");

    let pod = stage.gpu_pod("p1").await?;
    assert_eq!(stage.extender.bind(&pod, "gpu-1").await?, "");
    stage.annotate("gpu-2", json!({LOCK: "lock"})).await?;
    let dead = "2026-08-01T06:10:00Z,default,gone";
    stage.annotate("gpu-3", json!({LOCK: dead})).await?;

    let listed = scene.cli(&["lock", "list"]).await?;
    let row = |node: &str| listed.lines().find(|line| line.starts_with(node)).unwrap_or_default().to_owned();
    assert!(
        row("gpu-1").contains("default/p1") && row("gpu-1").contains("allocating  its pod is bound to this node"),
        "{listed}"
    );
    assert!(row("gpu-2").contains("unparsable"), "{listed}");
    assert!(row("gpu-3").contains("vanished"), "{listed}");
    assert!(listed.ends_with("1 of 4 nodes are free\n"), "{listed}");
    let listed = scene.json(&["lock", "list"]).await?;
    let lock = &listed["locks"][0];
    assert_eq!((lock["node"].as_str(), lock["uid"].as_str()), (Some("gpu-1"), pod.metadata.uid.as_deref()));
    assert_eq!((&listed["nodes"], &listed["free"]), (&json!(4), &json!(1)), "{listed}");
    let said = scene.json(&["lock", "explain", "gpu-1"]).await?;
    let lock = &said["locks"][0];
    assert_eq!((lock["key"].as_str(), lock["state"].as_str()), (Some(LOCK), Some("allocating")), "{said}");
    assert_eq!(scene.json(&["lock", "explain", "gpu-4"]).await?["locks"], json!([]));

    let value = stage.annotations("gpu-1").await?[LOCK].clone();
    let said = scene.cli(&["lock", "explain", "gpu-1"]).await?;
    for words in
        ["verdict  allocating", "bound here, not started", "attempt ", &format!("--expect '{value}' --even-if-live")]
    {
        assert!(said.contains(words), "{words}: {said}");
    }

    let release = async |arguments: &[&str]| -> Result<String> {
        scene.cli(&[&["lock", "release"][..], arguments].concat()).await
    };
    let refused = |answer: Result<String>| answer.expect_err("it is refused").to_string();
    let said = refused(release(&["gpu-1"]).await);
    assert!(said.contains(&format!("topoloom lock release gpu-1 --expect '{value}'")), "{said}");
    let said = refused(release(&["gpu-1", "--expect", "something else"]).await);
    assert!(said.contains("node gpu-1 has no lock with this value; nothing was changed"), "{said}");
    let said = refused(release(&["gpu-1", "--expect", &value]).await);
    assert!(said.contains("not released: pod default/p1 is its holder") && said.contains("--even-if-live"), "{said}");
    assert_eq!(stage.annotations("gpu-1").await?[LOCK], value);
    assert!(refused(release(&["nowhere", "--expect", &value]).await).contains("there is no node \"nowhere\""));

    let said = release(&["gpu-1", "--expect", &value, "--even-if-live"]).await?;
    assert!(said.starts_with("released: hami.io/mutex.lock of node gpu-1"), "{said}");
    release(&["gpu-2", "--expect", "lock"]).await?;
    release(&["gpu-3", "--expect", dead]).await?;
    for node in ["gpu-1", "gpu-2", "gpu-3"] {
        assert!(!stage.annotations(node).await?.contains_key(LOCK));
    }
    // The list shows a pod that is bound there without a lock as `unrecorded`.
    let listed = scene.cli(&["lock", "list"]).await?;
    assert!(listed.contains("unrecorded"), "{listed}");

    // A pod that is being bound loses its lock in the right order: the command marks the pod first.
    let slow = stage.gpu_pod("slow").await?;
    let binding = format!("{},default,slow", jiff::Timestamp::now());
    stage.annotate("gpu-4", json!({LOCK: binding})).await?;
    release(&["gpu-4", "--expect", &binding, "--even-if-live"]).await?;
    let marked = stage.pods().get("slow").await?.metadata.annotations.unwrap_or_default();
    assert_eq!(marked.get("topoloom.dev/lock-revoked"), Some(&binding));
    assert_eq!(stage.extender.bind(&slow, "gpu-4").await?, "", "the next attempt is another one");
    // The same holds for an expired lock: an attempt that continues late must not bind the pod.
    stage.gpu_pod("late").await?;
    let expired = format!("{},default,late", jiff::Timestamp::now());
    stage.annotate("gpu-2", json!({LOCK: expired})).await?;
    eventually("its time is over", PATIENCE, async || {
        let said = scene.cli(&["lock", "explain", "gpu-2", "--node-lock-timeout=10s"]).await;
        let said = said.map_err(|error| format!("{error:#}"))?;
        if said.contains("verdict  leaked") { Ok(()) } else { Err(said) }
    })
    .await;
    release(&["gpu-2", "--expect", &expired, "--node-lock-timeout=10s"]).await?;
    let marked = stage.pods().get("late").await?.metadata.annotations.unwrap_or_default();
    assert_eq!(marked.get("topoloom.dev/lock-revoked"), Some(&expired));
    // No pod can have such a name: topoloom looks for no pod, and treats the lock as one that cannot be read.
    let odd = format!("{},default,my pod/log", jiff::Timestamp::now());
    stage.annotate("gpu-3", json!({LOCK: odd})).await?;
    let listed = scene.cli(&["lock", "list"]).await?;
    assert!(listed.contains("unparsable"), "{listed}");
    release(&["gpu-3", "--expect", &odd]).await?;
    // Control characters are printed in a form from which a shell makes the same value.
    let odd = "\u{1b}[31m'lock\n";
    stage.annotate("gpu-3", json!({LOCK: odd})).await?;
    let said = scene.cli(&["lock", "explain", "gpu-3"]).await?;
    assert!(said.contains(r"--expect $'\033[31m\'lock\012'"), "{said}");
    release(&["gpu-3", "--expect", odd]).await?;
    // An unnamed lock may belong to a pod that waits on the node.
    let waits = stage.gpu_pod("waits").await?;
    assert_eq!(stage.extender.bind(&waits, "gpu-3").await?, "");
    let bare = jiff::Timestamp::now().to_string();
    stage.annotate("gpu-3", json!({LOCK: bare})).await?;
    let said = scene.cli(&["lock", "explain", "gpu-3"]).await?;
    for words in ["verdict  nameless", "waits    default/waits (UID ", &format!("--expect '{bare}' --even-if-live")] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let said = refused(release(&["gpu-3", "--expect", &bare]).await);
    assert!(said.contains("not released: pod default/waits"), "{said}");
    assert_eq!(stage.annotations("gpu-3").await?[LOCK], bare);
    release(&["gpu-3", "--expect", &bare, "--even-if-live"]).await?;
    stage.stop().await
}
