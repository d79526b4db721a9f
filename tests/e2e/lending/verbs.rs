//! `topoloom lend`: what a lender grants and what holds a borrower to it, and the verbs of operators, all with the real binary.

use std::fs::read_to_string;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use topoloom_api::ResourceLeasingPolicy;
use topoloom_sync::keys;
use topoloom_tests::controlplane::{client_from, eventually};
use topoloom_tests::lending::kubelets::NewNode;
use topoloom_tests::scene::PATIENCE;
use topoloom_tests::{host, schema};

use super::lent::{Lent, cluster, now, says};
use super::pair::BORROWED;

/// What a command printed, and how it ended.
pub(super) struct Said {
    pub(super) code: Option<i32>,
    pub(super) out: String,
    pub(super) err: String,
}

/// Runs the binary, against a cluster if one is given. No terminal is there.
pub(super) async fn topoloom(kubeconfig: Option<&Path>, arguments: &[&str]) -> Result<Said> {
    let mut command = tokio::process::Command::new(host::binary()?);
    command.args(arguments).stdin(Stdio::null()).env_remove("KUBECONFIG");
    if let Some(kubeconfig) = kubeconfig {
        command.arg("--kubeconfig").arg(kubeconfig);
    }
    let output = command.output().await?;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes);
    Ok(Said { code: output.status.code(), out: text(output.stdout)?, err: text(output.stderr)? })
}

impl Said {
    /// The answer of a command that did what it was asked for.
    pub(super) fn done(self) -> Result<String> {
        anyhow::ensure!(self.code == Some(0), "{:?}: {}\n{}", self.code, self.err, self.out);
        Ok(self.out)
    }

    /// What a command printed that refused.
    pub(super) fn refused(self) -> Result<String> {
        anyhow::ensure!(self.code == Some(1), "{:?}: {}\n{}", self.code, self.err, self.out);
        Ok(self.err)
    }
}

fn is_ready(binding: &Value) -> bool {
    says(binding, "Ready", "True", "Ok")
}

/// Nodes of the rack `r1` alone.
fn selector(rack: &str) -> Value {
    json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": [rack]}]}]})
}

fn annotations(all: Value) -> Value {
    json!({"metadata": {"annotations": all}})
}

/// Nodes of the lender as the borrower writes them, without keeping what is accepted.
async fn tries(nodes: &Api<Node>, node: &str, body: &Value) -> Result<(), String> {
    let parameters = PatchParams { dry_run: true, ..PatchParams::default() };
    nodes.patch(node, &parameters, &Patch::Merge(body)).await.map(drop).map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn s19_a_borrower_lends_with_what_lend_grant_and_lend_kubeconfig_print_and_writes_nothing_else() -> Result<()> {
    let mut lent = Lent::without_policies(&["w1", "w2"], now).await?;
    lent.physical_plane.create_nodes([("spare", [("rack", "r9")])]).await?;
    let others = annotations(json!({keys::LEASED_BY: "vc-9/b-9", "hami.io/mutex.lock": "held", "note": "old"}));
    lent.machines().patch("w2", &PatchParams::default(), &Patch::Merge(&others)).await?;
    let physical = lent.physical_plane.kubeconfig();

    // Granted, and a kubeconfig with a token.
    let whom = ["--borrower", "east", "--mount-namespace", BORROWED];
    let grant = [&["lend", "grant"][..], &whom].concat();
    assert_eq!(topoloom(None, &grant).await?.code, Some(2), "the identity of the borrower is missing");
    let id = cluster(&lent.virtual_plane).await?;
    let yaml = topoloom(None, &[&grant[..], &["--virtual-cluster-id", &*id]].concat()).await?.done()?;
    let kubeconfig = [&["lend", "kubeconfig"][..], &whom].concat();
    let early = topoloom(Some(physical.as_path()), &kubeconfig).await?.refused()?;
    assert!(early.contains("there is no ServiceAccount topoloom-lending/east.borrowed"), "{early}");
    lent.physical_plane.kubectl_with(&["apply", "-f", "-"], &yaml).await?;
    let said = topoloom(Some(physical.as_path()), &[&kubeconfig[..], &["--duration", "12h"]].concat()).await?;
    assert!(said.out.starts_with("# The token in this file ends at "), "it says so to the person who has the file");
    let document: Value = serde_saphyr::from_str(&said.out).context("this is no kubeconfig")?;
    let token = document["users"][0]["user"]["token"].as_str().context("there is no token")?.to_owned();
    assert!(said.err.contains("the token ends at ") && said.err.contains("in 11h59m"), "{}", said.err);
    assert!(!said.err.contains(&token) && said.code == Some(0), "the token is in the answer alone");

    // The nodes of the lender, as the borrower reaches them. The policy is enforced a moment after it was stored.
    let file = lent.physical_plane.folder().join("borrower");
    std::fs::write(&file, &said.out)?;
    let borrower = client_from(&file).await?;
    let nodes: Api<Node> = Api::all(borrower.clone());
    let label = json!({"metadata": {"labels": {"rack": "r2"}}});
    eventually("the policy is enforced", PATIENCE, async || match tries(&nodes, "spare", &label).await {
        Err(why) if why.contains("This write changes another label") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    lent.secret("east", &said.out).await?;
    lent.binding("east", json!({"nodeSelector": selector("r1")})).await?;
    lent.serve("east").await?;
    lent.until_nodes(&["vnode-east-w1"]).await;
    let is_told = |binding: &Value| is_ready(binding) && says(binding, "Conflict", "True", "NodesClaimed");
    lent.until_binding("east", "is ready, and says that a node is another's", is_told).await;

    let ours = lent.identity("east").await?.claim();
    let refused = [
        ("a taint", "w1", json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}), "changes spec"),
        ("a cordon", "w1", json!({"spec": {"unschedulable": true}}), "changes spec"),
        ("another label", "w1", label, "changes another label"),
        ("all labels", "w1", json!({"metadata": {"labels": null}}), "changes another label"),
        ("another annotation", "w2", annotations(json!({"note": null})), "changes another annotation"),
        ("a lock", "w1", annotations(json!({"hami.io/mutex.lock": "now"})), "changes another annotation"),
        ("a lock that is held", "w2", annotations(json!({"hami.io/mutex.lock": null})), "changes another annotation"),
        (
            "our notes of locks",
            "w1",
            annotations(json!({"topoloom.dev/node-lock": "{}"})),
            "changes another annotation",
        ),
        ("a finalizer", "w1", json!({"metadata": {"finalizers": ["example.com/f"]}}), "changes metadata.finalizers"),
        ("the claim of another", "w2", annotations(json!({keys::LEASED_BY: ours})), "the claim of another borrower"),
        ("it is taken off", "w2", annotations(json!({keys::LEASED_BY: null})), "the claim of another borrower"),
        ("a claim for another", "w1", annotations(json!({keys::LEASED_BY: "vc-9/b-9"})), "not of the virtual cluster"),
        ("no claim at all", "spare", annotations(json!({keys::LEASED_BY: ""})), "not of the virtual cluster"),
        (
            "the policy of a node of another",
            "w2",
            json!({"metadata": {"labels": {keys::POLICY_APPLIED: "p"}}}),
            "has not claimed",
        ),
        (
            "a policy without a claim",
            "spare",
            json!({"metadata": {"labels": {keys::POLICY_APPLIED: "p"}}}),
            "has not claimed",
        ),
    ];
    for (name, node, body, words) in &refused {
        let why = tries(&nodes, node, body).await.err().unwrap_or_default();
        assert!(why.contains("ValidatingAdmissionPolicy") && why.contains(words), "{name}: {why:?}");
    }
    let mut both = annotations(json!({keys::LEASED_BY: ours}));
    both["metadata"]["labels"] = json!({keys::POLICY_APPLIED: "p"});
    for (name, node, body) in [
        ("a free node is claimed", "spare", both),
        ("a claim of ours goes", "w1", annotations(json!({keys::LEASED_BY: null}))),
        ("one of an earlier binding of this cluster", "w1", annotations(json!({keys::LEASED_BY: format!("{id}/b-0")}))),
    ] {
        assert_eq!(tries(&nodes, node, &body).await, Ok(()), "{name}");
    }

    // The status of policies: the borrower writes that of its own, and of no other.
    let rack = selector("r0");
    lent.policy("ours", json!({"cluster": "east", "nodeSelector": rack})).await?;
    lent.policy("west", json!({"cluster": "west", "nodeSelector": rack})).await?;
    lent.policy("elsewhere", json!({"cluster": "east", "virtualCluster": "vc-9", "nodeSelector": rack})).await?;
    lent.until_policy("ours", "is active", |policy| policy["status"]["phase"] == "Active").await;
    let policies: Api<ResourceLeasingPolicy> = Api::all(borrower.clone());
    let status = Patch::Merge(json!({"status": {"lastValid": {"cluster": "east"}}}));
    let parameters = PatchParams { dry_run: true, ..PatchParams::default() };
    for (name, words) in [("west", "names another binding"), ("elsewhere", "names another virtual cluster")] {
        eventually("the policy about the status of policies is enforced", PATIENCE, async || {
            let why = policies.patch_status(name, &parameters, &status).await.err();
            let why = why.map(|error| error.to_string()).unwrap_or_default();
            if why.contains("ValidatingAdmissionPolicy") && why.contains(words) { Ok(()) } else { Err(why) }
        })
        .await;
    }

    // What no role allows.
    let is_forbidden = |error: kube::Error| matches!(error, kube::Error::Api(status) if status.code == 403);
    let dry = DeleteParams { dry_run: true, ..DeleteParams::default() };
    assert!(nodes.delete("w1", &dry).await.is_err_and(is_forbidden));
    let status = Patch::Merge(json!({"status": {"phase": "Running"}}));
    assert!(nodes.patch_status("w1", &PatchParams::default(), &status).await.is_err_and(is_forbidden));
    let secrets: Api<Secret> = Api::namespaced(borrower.clone(), BORROWED);
    assert!(secrets.list(&ListParams::default()).await.is_err_and(is_forbidden));
    let elsewhere: Api<Pod> = Api::namespaced(borrower, "default");
    assert!(elsewhere.delete("p", &dry).await.is_err_and(is_forbidden));

    verbs(&lent).await?;
    lent.stop().await
}

/// The verbs of an operator, on a binding that lends `w1`.
async fn verbs(lent: &Lent) -> Result<()> {
    let kubeconfig = lent.virtual_plane.kubeconfig();
    let lend =
        async |arguments: &[&str]| topoloom(Some(kubeconfig.as_path()), &[&["lend"][..], arguments].concat()).await;
    let paused = schema::checked(&lend(&["pause", "east", "-o", "json"]).await?.done()?)?;
    assert_eq!((&paused["verb"], &paused["written"], &paused["remarks"]), (&json!("pause"), &json!(true), &json!([])));
    lent.until_binding("east", "is paused", |binding| says(binding, "Paused", "True", "Paused")).await;
    assert!(lend(&["pause", "east"]).await?.done()?.starts_with("nothing was written, since it is so already: "));
    let drained = lend(&["drain", "w1"]).await?.done()?;
    assert!(drained.starts_with("node vnode-east-w1 of ClusterBinding east is drained"), "{drained}");
    assert!(drained.contains("note: the binding is paused"), "{drained}");
    lent.kubelets.register([NewNode::named("w3").label("rack", "r1")]).await?;
    lent.until_nodes(&["vnode-east-w1"]).await;
    lend(&["resume", "east"]).await?.done()?;
    lent.until_nodes(&["vnode-east-w3"]).await;
    lend(&["drain", "vnode-east-w1", "--end"]).await?.done()?;
    lent.until_nodes(&["vnode-east-w1", "vnode-east-w3"]).await;

    let unknown = lend(&["pause", "est"]).await?.refused()?;
    assert!(unknown.contains("there is no ClusterBinding \"est\"; there are: east"), "{unknown}");
    let alive = lend(&["detach", "east", "--force"]).await?.refused()?;
    assert!(alive.contains("is not being deleted"), "{alive}");
    let owned = lend(&["release", "w1", "--yes"]).await?;
    assert!(
        owned.code == Some(1) && owned.out.contains("it belongs to ClusterBinding east, which exists"),
        "{}",
        owned.out
    );
    let nothing = lend(&["confirm", "east", "0123456789ab"]).await?.refused()?;
    assert!(nothing.contains("holds nothing"), "{nothing}");
    Ok(())
}

/// A pod of this name that ends at once when it is deleted.
async fn pod(api: &Api<Pod>, metadata: Value, node: Option<&str>) -> Result<()> {
    let spec = json!({
        "nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "none"}],
        "tolerations": [{"operator": "Exists"}],
    });
    let pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec}))?;
    api.create(&PostParams::default(), &pod).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn s9_s22_what_is_held_is_confirmed_by_its_hash_and_what_a_forced_deletion_left_is_released() -> Result<()> {
    let mut lent = Lent::new(&["w1", "w2", "w3"], now).await?;
    let (own, physical) = (lent.virtual_plane.kubeconfig(), lent.physical_plane.kubeconfig());
    let stop = CancellationToken::new();
    let all = ["vnode-east-w1", "vnode-east-w2", "vnode-east-w3"];
    let fields = |rack: &str| json!({"safety": {"maxNodesPercent": 20}, "nodeSelector": selector(rack)});
    lent.secret("east", &read_to_string(&physical)?).await?;
    lent.binding("east", fields("r1")).await?;
    lent.serve_until("east", stop.clone()).await?;
    lent.until_nodes(&all).await;
    lent.until_binding("east", "is ready", is_ready).await;
    lent.binding("east", fields("r2")).await?;
    let is_held = |binding: &Value| binding["status"]["held"]["extent"]["nodes"] == 3;
    let binding = lent.until_binding("east", "is held", is_held).await;
    let hash = binding["status"]["held"]["hash"].as_str().context("it has a hash")?;

    let lend = async |arguments: &[&str]| topoloom(Some(own.as_path()), &[&["lend"][..], arguments].concat()).await;
    let shown = schema::checked(&lend(&["confirm", "east", "-o", "json"]).await?.done()?)?;
    let batch = &shown["held"][0];
    assert_eq!((&batch["kind"], &batch["hash"], &batch["extent"]["nodes"]), (&json!("batch"), &json!(hash), &json!(3)));
    let wrong = lend(&["confirm", "east", "000000000000"]).await?.refused()?;
    assert!(wrong.contains("does not hold 000000000000") && wrong.contains(hash), "{wrong}");
    lent.until_nodes(&all).await;
    lend(&["confirm", "east", hash]).await?.done()?;
    lent.until_nodes(&[]).await;

    // Lent again, with pods, and then the binding is deleted by force while no replica serves it.
    lent.binding("east", fields("r1")).await?;
    lent.until_nodes(&all).await;
    lent.until_binding("east", "is ready again", is_ready).await;
    let identity = lent.identity("east").await?;
    stop.cancel();
    let virtuals: Api<Pod> = Api::namespaced(lent.virtual_plane.client(), "default");
    let physicals: Api<Pod> = Api::namespaced(lent.physical_plane.client(), BORROWED);
    pod(&virtuals, json!({"name": "web"}), Some("vnode-east-w1")).await?;
    let mut labels = json!(identity.labels());
    labels[keys::MANAGED_BY_LABEL] = keys::MANAGED_BY.into();
    let named = json!({
        keys::VIRTUAL_POD_NAMESPACE: "default", keys::VIRTUAL_POD_NAME: "lost", keys::VIRTUAL_POD_UID: "u",
        keys::VIRTUAL_NODE_NAME: "vnode-east-w1",
    });
    pod(&physicals, json!({"name": "lost", "labels": labels, "annotations": named}), None).await?;
    pod(&physicals, json!({"name": "of-the-lender"}), None).await?;
    lent.bindings().delete("east", &DeleteParams::default()).await?;
    let freed = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    lent.bindings().patch("east", &PatchParams::default(), &freed).await?;

    let file = physical.display().to_string();
    let release = ["release", "east", "--physical-kubeconfig", &file];
    let asks = lend(&release).await?;
    assert!(asks.code == Some(1) && asks.err.contains("there is no terminal to ask at, add --yes"), "{}", asks.err);
    for words in
        ["virtual-node  vnode-east-w1", "after its virtual node vnode-east-w3", "borrowed/lost", "topoloom-borrower-"]
    {
        assert!(asks.out.contains(words), "{words}: {}", asks.out);
    }
    lent.until_nodes(&all).await;
    let released = lend(&[&release[..], &["--yes", "-o", "json"]].concat()).await?.done()?;
    let released = schema::checked(&released)?;
    let things = released["things"].as_array().context("a list")?;
    assert!(things.len() == 8 && things.iter().all(|thing| thing["state"] == "released"), "{released}");
    lent.until_nodes(&[]).await;
    assert!(virtuals.get_opt("web").await?.is_none());
    let machines = lent.machines().list(&ListParams::default()).await?.items;
    let claims = machines.iter().filter_map(|machine| machine.metadata.annotations.as_ref()?.get(keys::LEASED_BY));
    assert_eq!(claims.count(), 0);
    let left = physicals.list(&ListParams::default()).await?.items;
    assert_eq!(left.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect::<Vec<_>>(), ["of-the-lender"]);
    let leases: Api<Lease> = Api::namespaced(lent.physical_plane.client(), BORROWED);
    assert_eq!(leases.list(&ListParams::default()).await?.items.len(), 0);
    let nothing = lend(&["release", "--physical-kubeconfig", &file, "--yes"]).await?.done()?;
    assert!(nothing.starts_with("nothing is left to release of the virtual cluster "), "{nothing}");
    lent.stop().await
}
