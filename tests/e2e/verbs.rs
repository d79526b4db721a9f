//! The command line against a live cluster.

use anyhow::Result;
use serde_json::json;
use topoloom_tests::scene::{RACKS, Scene};

#[tokio::test(flavor = "multi_thread")]
async fn tree_plan_explain_pause_and_list_tell_the_truth() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["m1 ex.io/rack=a ex.io/spine=s", "m2 ex.io/rack=b ex.io/spine=s", "m8 ex.io/spine=s"]).await?;
    scene.configure(RACKS).await?;
    let host = scene.host().await?;
    scene
        .until(&[
            "tier 2 ex.io/spine=s (2): ex.io/rack=a ex.io/rack=b",
            "tier 1 ex.io/rack=a (1): m1",
            "tier 1 ex.io/rack=b (1): m2",
        ])
        .await;
    let tree = scene.cli(&["tree"]).await?;
    assert!(tree.contains("├─ tier 1") && tree.contains("ex.io/rack=a") && !tree.contains("drift"), "{tree}");
    let explained = scene.cli(&["explain", "m8"]).await?;
    assert!(explained.contains("not placed") && explained.contains("ex.io/rack"), "{explained}");
    // The same as JSON for programs; each document follows its schema.
    let explained = scene.json(&["explain", "m8"]).await?;
    let of_label = &explained["sources"][0];
    assert_eq!((&explained["exists"], &of_label["placements"]), (&json!(true), &json!([])), "{explained}");
    let read = of_label["read"].as_array().cloned().unwrap_or_default();
    assert!(read.iter().any(|column| column["value"] == "s") && read.iter().any(|column| column["value"].is_null()));
    let placed = scene.json(&["explain", "m1"]).await?;
    let placed = &placed["sources"][0];
    let groups = placed["placements"][0]["groups"].as_array().cloned().unwrap_or_default();
    let tiers: Vec<_> = groups.iter().map(|group| group["tier"].clone()).collect();
    assert_eq!((tiers, &placed["inForce"][0]), (vec![json!(1), json!(2)], &groups[0]["name"]), "{placed}");
    let tree = scene.json(&["tree"]).await?;
    let label = &tree["sources"][0];
    assert_eq!((&label["source"], &label["state"], &label["drift"]), (&json!("label"), &json!("Serving"), &json!(0)));
    assert_eq!(label["round"]["nodes"], json!({"covered": 2, "total": 3}), "{tree}");
    let objects = label["hyperNodes"].as_array().cloned().unwrap_or_default();
    let spine = objects.iter().find(|object| object["content"]["tier"] == 2).cloned().unwrap_or_default();
    assert_eq!((&spine["nodeCount"], &spine["storedNodeCount"]), (&json!(2), &json!(2)), "{tree}");
    assert_eq!(spine["content"]["children"].as_array().map(Vec::len), Some(2), "{tree}");

    scene.cli(&["source", "pause", "label"]).await?;
    scene.until_state("label", "Paused").await;
    scene.plane.relabel("m2", "ex.io/rack", "a").await?;
    let plan = scene.cli(&["plan"]).await?;
    assert!(plan.contains("update") && plan.contains("delete"), "{plan}");
    let tree = scene.cli(&["tree"]).await?;
    assert!(tree.contains("drift"), "{tree}");
    let plan = scene.json(&["plan"]).await?;
    let writes = plan["sources"][0]["writes"].as_array().cloned().unwrap_or_default();
    let verbs: Vec<_> = writes.iter().filter_map(|write| write["action"].as_str()).collect();
    assert!(verbs.contains(&"update") && verbs.last() == Some(&"delete"), "{plan}");
    assert!(writes.last().is_some_and(|write| write["after"] != json!([]) && write.get("content").is_none()), "{plan}");
    let list = scene.cli(&["source", "list"]).await?;
    assert!(list.contains("Paused"), "{list}");
    let list = scene.json(&["source", "list"]).await?;
    let label = &list["sources"][0];
    assert_eq!((&label["state"], &label["nodes"]), (&json!("Paused"), &json!({"covered": 2, "total": 3})), "{list}");
    let plugins = scene.json(&["plugin", "list"]).await?;
    let serving = &plugins["sources"][0];
    assert_eq!((&serving["plugin"], &serving["origin"]), (&label["plugin"], &json!("Builtin")), "{plugins}");
    assert_eq!(scene.topology().await?.len(), 3, "a paused source writes nothing");
    scene.cli(&["source", "pause", "label", "--resume"]).await?;
    scene.until(&["tier 2 ex.io/spine=s (2): ex.io/rack=a", "tier 1 ex.io/rack=a (2): m1 m2"]).await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_discover_prints_is_what_run_makes() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["m1 ex.io/rack=a ex.io/spine=s", "m2 ex.io/rack=b ex.io/spine=s", "m3 ex.io/rack=c"]).await?;
    scene.configure(RACKS).await?;
    let folder = scene.plane.folder();
    let (nodes, config) = (folder.join("nodes.json"), folder.join("config.yaml"));
    std::fs::write(&nodes, scene.plane.kubectl(&["get", "nodes", "-o", "json"]).await?)?;
    std::fs::write(&config, RACKS)?;
    let output = tokio::process::Command::new(topoloom_tests::host::binary()?)
        .args(["discover", "-o", "yaml", "--nodes"])
        .arg(&nodes)
        .arg("--config")
        .arg(&config)
        .output()
        .await?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file = folder.join("objects.yaml");
    std::fs::write(&file, &output.stdout)?;
    scene.plane.kubectl(&["apply", "--server-side", "-f", &file.to_string_lossy()]).await?;
    let applied = scene.stored().await?;
    scene.plane.kubectl(&["delete", "hypernodes", "--all"]).await?;
    let host = scene.host().await?;
    scene
        .until(&[
            "tier 2 ex.io/spine=s (2): ex.io/rack=a ex.io/rack=b",
            "tier 1 ex.io/rack=a (1): m1",
            "tier 1 ex.io/rack=b (1): m2",
            "tier 1 ex.io/rack=c (1): m3",
        ])
        .await;
    let made = scene.stored().await?;
    assert_eq!(applied.keys().collect::<Vec<_>>(), made.keys().collect::<Vec<_>>());
    for (name, object) in &made {
        assert_eq!(object.spec, applied[name].spec);
        assert_eq!(object.metadata.labels, applied[name].metadata.labels);
        assert_eq!(object.metadata.annotations, applied[name].metadata.annotations);
    }
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_is_wrong_is_not_taken_for_switched_off() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["m1 ex.io/rack=a ex.io/spine=s"]).await?;
    scene.configure(&RACKS.replace("  enabled: true\n", "  enabled: true\n  interval: 10\n")).await?;
    for verb in [&["plan"][..], &["plan", "--source", "label"], &["explain", "m1"]] {
        let told = scene.cli(verb).await.unwrap_err().to_string();
        assert!(told.contains("interval") && told.contains("no result for: label"), "{verb:?}: {told}");
    }
    let told = scene.cli(&["plan", "--source", "nope"]).await.unwrap_err().to_string();
    assert!(told.contains("\"nope\"") && told.contains("none is enabled"), "{told}");
    for verb in [&["tree", "--source", "nope"][..], &["source", "delete", "nope"]] {
        let told = scene.cli(verb).await.unwrap_err().to_string();
        assert!(told.contains("\"nope\""), "{verb:?}: {told}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_at_the_desk_reads_the_nodes_of_a_cluster_keeps_names_and_writes_nothing() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["m1 ex.io/rack=a ex.io/spine=s", "m2 ex.io/rack=b ex.io/spine=s"]).await?;
    scene.configure(RACKS).await?;
    let host = scene.host().await?;
    scene
        .until(&[
            "tier 2 ex.io/spine=s (2): ex.io/rack=a ex.io/rack=b",
            "tier 1 ex.io/rack=a (1): m1",
            "tier 1 ex.io/rack=b (1): m2",
        ])
        .await;
    host.stop().await?;
    let folder = tempfile::tempdir()?;
    let text = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    std::fs::write(text("racks.yaml"), RACKS)?;
    std::fs::write(text("label.wasm"), &topoloom_tests::builtins::find("label").bytes)?;
    let before = scene.plane.requests().await?;
    let (plugin, config, case) = (text("label.wasm"), text("racks.yaml"), text("cases/first"));
    let words = ["plugin", "run", &plugin, "--cluster", "--config", &config, "--show-nodes", "--record", &case];
    let told = scene.cli(&words).await?;
    assert!(told.contains("2 of 2 nodes have a place in 3 groups"), "{told}");
    // The source of the entry owns what is there.
    for name in scene.stored().await?.keys() {
        assert!(told.contains(name.as_str()), "{name} is not in\n{told}");
    }
    assert!(std::fs::read_to_string(text("cases/first/existing.yaml"))?.contains("kind: HyperNode"));
    assert_eq!(scene.writes_since(&before).await?, (0, 0));
    Ok(())
}
