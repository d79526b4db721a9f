//! The top-down player: pods go down, and both of them end (`bottomup-syncer.md` 4.3, 8, decision S10). It is a program, too.

use std::process::Stdio;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use topoloom_sync::keys;
use topoloom_tests::controlplane::{WriteKind, eventually};
use topoloom_tests::lending::kubelets::STOP;
use topoloom_tests::lending::player::{Fault, LOST, Scope, Step};
use topoloom_tests::scene::PATIENCE;

use super::lent::Lent;
use super::pair::{BORROWED, Pair, SHOP, annotation};
use super::{phase, reason, until_gone, until_pod};

/// The program, for a binding of this name.
fn program(lent: &Lent, binding: &str) -> Result<Child> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_player"));
    command.arg("--virtual-kubeconfig").arg(lent.virtual_plane.kubeconfig());
    command.arg("--physical-kubeconfig").arg(lent.physical_plane.kubeconfig());
    command.args(["--binding", binding]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command.kill_on_drop(true).spawn()?)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_says_what_is_missing_carries_pods_down_and_ends_with_a_signal_or_its_binding() -> Result<()> {
    let lent = Lent::east(&["w1"], json!({})).await?;
    let output = timeout(PATIENCE, program(&lent, "west")?.wait_with_output()).await??;
    let said = String::from_utf8(output.stderr)?;
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no ClusterBinding west"), "{said}");

    // Its first line says that it handles signals.
    let mut stopped = program(&lent, "east")?;
    let mut lines = BufReader::new(stopped.stdout.take().context("its output is piped")?).lines();
    timeout(PATIENCE, lines.next_line()).await??.context("it has ended at once")?;
    let id = Pid::from_raw(i32::try_from(stopped.id().context("it runs")?)?).context("an id is above 0")?;
    kill_process(id, Signal::TERM)?;
    assert!(timeout(PATIENCE, stopped.wait()).await??.success());

    let player = program(&lent, "east")?;
    lent.until_nodes(&["vnode-east-w1"]).await;
    let virtuals: Api<Pod> = Api::default_namespaced(lent.virtual_plane.client());
    let spec = json!({"nodeName": "vnode-east-w1", "containers": [{"name": "c", "image": "none"}]});
    let pod = serde_json::from_value(json!({"metadata": {"name": "web-0"}, "spec": spec}))?;
    virtuals.create(&PostParams::default(), &pod).await?;
    until_pod(&virtuals, "web-0", "runs", |pod| phase(pod) == "Running").await;

    lent.bindings().delete("east", &DeleteParams::default()).await?;
    let output = timeout(2 * PATIENCE, player.wait_with_output()).await??;
    let (said, refused) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
    assert!(output.status.success() && refused.is_empty(), "{said}{refused}");
    for part in
        ["default/web-0: its physical pod is created", "default/web-0: it is removed", "ClusterBinding east is gone"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    let physicals: Api<Pod> = Api::namespaced(lent.physical_plane.client(), BORROWED);
    assert!(physicals.list(&ListParams::default()).await?.items.is_empty());
    lent.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_pod_is_copied_and_runs_and_both_pods_end_in_order() -> Result<()> {
    let mut pair = Pair::new().await?;
    pair.bound("web-0", json!({STOP: "100ms,Succeeded"})).await?;
    let (_, physical) = pair.until_mapped("web-0").await?;
    let physical_name = physical.metadata.name.clone().context("it has a name")?;
    assert_eq!(physical_name, "web-0-d8e9078212837472931ac9807f48a030");
    until_pod(&pair.physicals(), &physical_name, "runs", |pod| phase(pod) == "Running").await;
    assert_eq!(pair.player.steps(SHOP, "web-0"), [Step::WriteNames, Step::Create, Step::WriteUid]);
    let writes = pair.virtual_plane.writes_in_order("/registry/pods/shop/web-0").await?;
    let annotated =
        |key: &str| writes.iter().position(|write| write.value["metadata"]["annotations"].get(key).is_some());
    assert!(annotated(keys::PHYSICAL_POD_NAME) < annotated(keys::PHYSICAL_POD_UID), "names come before the pod");

    pair.virtuals().delete("web-0", &DeleteParams::default()).await?;
    until_gone(&pair.virtuals(), "web-0").await;
    until_gone(&pair.physicals(), &physical_name).await;
    let steps = pair.player.steps(SHOP, "web-0");
    assert_eq!(steps[3..], [Step::DeletePhysical, Step::WriteFinal, Step::Remove]);
    // Both had their final phase before they went: a Job must not count them as failed.
    for (plane, key) in [
        (&pair.virtual_plane, "/registry/pods/shop/web-0".to_owned()),
        (&pair.physical_plane, format!("/registry/pods/borrowed/{physical_name}")),
    ] {
        let writes = plane.writes_in_order(&key).await?;
        let (last, before) = writes.split_last().context("it was written")?;
        assert_eq!(last.kind, WriteKind::Delete, "{key}");
        assert_eq!(before.last().map(|write| &write.value["status"]["phase"]), Some(&json!("Succeeded")), "{key}");
    }

    // An API server that stops only delays it.
    pair.physical_plane.stop_apiserver().await?;
    pair.bound("web-1", json!({})).await?;
    let named = |pod: &_| annotation(pod, keys::PHYSICAL_POD_NAME).is_some();
    until_pod(&pair.virtuals(), "web-1", "has the names", named).await;
    pair.physical_plane.start_apiserver().await?;
    pair.until_mapped("web-1").await?;
    pair.virtual_plane.stop_apiserver().await?;
    pair.virtual_plane.start_apiserver().await?;
    pair.bound("web-2", json!({})).await?;
    pair.until_mapped("web-2").await?;
    pair.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_player_loses_pods_dies_between_steps_and_forgets_as_it_is_ordered() -> Result<()> {
    let pair = Pair::new().await?;

    // A physical pod that vanishes fails its virtual pod.
    pair.bound("lost", json!({})).await?;
    let (_, physical) = pair.until_mapped("lost").await?;
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    pair.physicals().delete(physical.metadata.name.as_deref().context("it has a name")?, &now).await?;
    let lost = until_pod(&pair.virtuals(), "lost", "is lost", |pod| phase(pod) == "Failed").await;
    assert_eq!(reason(&lost), LOST);

    // It dies before it creates the physical pod, and after it.
    for (name, before) in [("before", Step::Create), ("between", Step::WriteUid)] {
        pair.player.fault(Scope::pod(SHOP, name), Fault::Dies { before });
        pair.bound(name, json!({})).await?;
    }
    let copies = async |name: &str| -> Result<usize> {
        let all = pair.physicals().list(&ListParams::default()).await?.items;
        Ok(all.iter().filter(|pod| annotation(pod, keys::VIRTUAL_POD_NAME) == Some(name)).count())
    };
    let named = |pod: &_| annotation(pod, keys::PHYSICAL_POD_NAME).is_some();
    until_pod(&pair.virtuals(), "before", "has the names", named).await;
    // A pod that came later is done: so would these be.
    pair.bound("whole", json!({})).await?;
    pair.until_mapped("whole").await?;
    assert_eq!(copies("before").await?, 0);
    eventually("the other one is created", PATIENCE, async || match copies("between").await {
        Ok(1) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let between = pair.virtuals().get("between").await?;
    assert_eq!(annotation(&between, keys::PHYSICAL_POD_UID), None);
    for name in ["before", "between"] {
        pair.player.heal(&Scope::pod(SHOP, name));
        pair.until_mapped(name).await?;
        assert_eq!(copies(name).await?, 1, "{name}");
    }

    // It forgets to remove a virtual pod whose physical pod is gone.
    pair.player.fault(Scope::pod(SHOP, "whole"), Fault::Forgets(Step::Remove));
    pair.virtuals().delete("whole", &DeleteParams::default()).await?;
    let whole = until_pod(&pair.virtuals(), "whole", "has a final phase", |pod| phase(pod) == "Failed").await;
    assert!(whole.metadata.deletion_timestamp.is_some());
    assert_eq!(copies("whole").await?, 0);
    pair.bound("last", json!({})).await?;
    pair.until_mapped("last").await?;
    assert!(pair.virtuals().get_opt("whole").await?.is_some());
    pair.player.heal(&Scope::All);
    until_gone(&pair.virtuals(), "whole").await;

    // A virtual pod that is removed by force takes its physical pod along.
    pair.virtuals().delete("last", &now).await?;
    eventually("the physical pod is gone", PATIENCE, async || match copies("last").await {
        Ok(0) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    pair.stop().await
}
