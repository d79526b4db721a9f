//! A ClusterBinding and a Secret: what becomes of them, what the status says, and what operators may do.

use std::fs::read_to_string;

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use topoloom_api::cluster_binding::PLURAL;
use topoloom_api::names::{CONFIRM_ANNOTATION, DRAIN_ANNOTATION, PAUSE_ANNOTATION};
use topoloom_simulator::Authority;
use topoloom_sync::guard::GATHER;
use topoloom_sync::keys;
use topoloom_sync::naming::{ClusterId, virtual_node_name};
use topoloom_tests::controlplane::eventually;
use topoloom_tests::lending::kubelets::NewNode;
use topoloom_tests::scene::PATIENCE;

use super::lent::{ELSEWHERE, Lent, cluster, condition, now, says};
use super::pair::BORROWED;

/// The Leases of borrowers in a namespace of the physical cluster.
async fn borrowers(lent: &Lent, namespace: &str) -> Result<Vec<Lease>, String> {
    let leases: Api<Lease> = Api::namespaced(lent.physical_plane.client(), namespace);
    let all = leases.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
    let is_borrower =
        |lease: &Lease| lease.metadata.name.as_deref().is_some_and(|name| name.starts_with("topoloom-borrower-"));
    Ok(all.into_iter().filter(is_borrower).collect())
}

fn is_ready(binding: &Value) -> bool {
    says(binding, "Ready", "True", "Ok")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_binding_and_a_secret_alone_lend_nodes_and_its_deletion_takes_everything_back() -> Result<()> {
    let mut lent = Lent::new(&["w1", "w2"], now).await?;
    lent.bind("east", json!({})).await?;
    lent.until_nodes(&["vnode-east-w1", "vnode-east-w2"]).await;
    // A machine that is busy for a moment makes a connection suspect.
    let is_well = |binding: &Value| is_ready(binding) && says(binding, "Connected", "True", "Ok");
    let has_nodes = |binding: &Value| is_well(binding) && binding["status"]["nodes"]["ready"] == 2;
    let binding = lent.until_binding("east", "is ready and connected, with two nodes", has_nodes).await;
    let status = &binding["status"];
    assert_eq!(status["phase"], "Ready");
    assert_eq!(status["holder"], "replica-0");
    assert_eq!(status["physicalClusterUID"], *cluster(&lent.physical_plane).await?);
    assert_eq!(binding["metadata"]["finalizers"], json!([keys::BINDING_FINALIZER]));
    for kind in ["Held", "Conflict", "PhysicalClusterChanged", "Restored", "Paused"] {
        assert!(says(&binding, kind, "False", "Ok"), "{kind}: {:?}", condition(&binding, kind));
    }

    // The namespace is taken, and the witness counts.
    eventually("the Lease of the borrower has a copy of the witness", PATIENCE, async || {
        let leases = borrowers(&lent, BORROWED).await?;
        let [lease] = &leases[..] else { return Err(format!("{leases:?}")) };
        let copy = lease.metadata.annotations.as_ref().and_then(|all| all.get(keys::WITNESS_COPY));
        if copy.is_some() { Ok(()) } else { Err(format!("{lease:?}")) }
    })
    .await;

    // A status is written where something differs, and at no other time.
    let before = lent.virtual_plane.requests().await?;
    lent.annotate("east", "example.com/note", Some("a")).await?;
    // The whole name of its virtual node would be longer than the value of a label may be.
    let machine = "gpu-a100-80gb-rack07-slot12.eu-west-1.compute.internal";
    lent.kubelets.register([NewNode::named(machine)]).await?;
    let long = virtual_node_name(&ClusterId::parse("east")?, machine)?.to_string();
    lent.until_nodes(&[long.as_str(), "vnode-east-w1", "vnode-east-w2"]).await;
    let has_nodes = |binding: &Value| is_ready(binding) && binding["status"]["nodes"]["ready"] == 3;
    lent.until_binding("east", "is ready with three nodes", has_nodes).await;
    let written = lent.virtual_plane.requests().await?.since(&before).writes(PLURAL, "status");
    assert!((1..=5).contains(&written), "{written} writes of a status for one new machine");

    lent.bindings().delete("east", &DeleteParams::default()).await?;
    eventually("the binding is gone", PATIENCE, async || {
        match lent.bindings().get_opt("east").await.map_err(|error| error.to_string())? {
            None => Ok(()),
            Some(binding) => Err(format!("{:?}", binding.status)),
        }
    })
    .await;
    lent.until_nodes(&[]).await;
    assert_eq!(borrowers(&lent, BORROWED).await.unwrap_or_default().len(), 0);
    let machines = lent.machines().list(&ListParams::default()).await?.items;
    let claimed = machines.iter().filter_map(|machine| machine.metadata.annotations.as_ref()?.get(keys::LEASED_BY));
    assert_eq!(claimed.count(), 0);
    lent.stop().await
}

/// A client certificate that has ended, and its key.
fn ended() -> Result<(ByteString, ByteString)> {
    let key = rcgen::KeyPair::generate()?;
    let mut fields = rcgen::CertificateParams::new(vec!["syncer".to_owned()])?;
    fields.not_before = rcgen::date_time_ymd(2020, 1, 1);
    fields.not_after = rcgen::date_time_ymd(2021, 1, 1);
    let certificate = fields.self_signed(&key)?.pem();
    Ok((ByteString(certificate.into_bytes()), ByteString(key.serialize_pem().into_bytes())))
}

/// Kubeconfigs that are refused, or that the API server does not suit: each is a condition and an Event with the field, and shows no
/// credential.
async fn unfit(lent: &Lent, kubeconfig: &str) -> Result<()> {
    let right: Value = serde_json::from_str(kubeconfig)?;
    let token = right["users"][0]["user"]["token"].as_str().context("it has a token")?;
    let another = ByteString(Authority::generate()?.pem().as_bytes().to_vec());
    let (certificate, key) = ended()?;
    for (place, value, reason, words) in [
        (
            "/users/0/user",
            json!({"token": token, "exec": {"command": "aws-iam"}}),
            "CredentialsInvalid",
            ["].user.exec is \"aws-iam\"", "no program is run"],
        ),
        (
            "/users/0/user",
            json!({"token": token, "tokenFile": "/etc/token"}),
            "CredentialsInvalid",
            ["].user.tokenFile is \"/etc/token\"", "no file of this host is read"],
        ),
        (
            "/clusters/0/cluster/certificate-authority-data",
            json!(another),
            "CredentialsInvalid",
            ["cluster.certificate-authority-data", "invalid peer certificate"],
        ),
        ("/users/0/user/token", json!("another"), "Unauthorized", ["].user.token: ", "that has not ended"]),
        (
            "/users/0/user",
            json!({"client-certificate-data": certificate, "client-key-data": key}),
            "Unauthorized",
            ["].user.client-certificate-data: ", "ends at 2021-01-01T00:00:00Z"],
        ),
    ] {
        let mut wrong = right.clone();
        *wrong.pointer_mut(place).context("it has this field")? = value;
        lent.secret("east", &wrong.to_string()).await?;
        let is_it = |binding: &Value| {
            let [_, _, message] = condition(binding, "Ready");
            says(binding, "Ready", "False", reason) && words.iter().all(|word| message.contains(word))
        };
        let binding = lent.until_binding("east", &format!("says {words:?}"), is_it).await;
        assert!(!binding.to_string().contains(token), "{binding}");
    }
    let events: Api<Event> = Api::all(lent.virtual_plane.client());
    let told = eventually("an Event about the last of them", PATIENCE, async || {
        let all = events.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let told = serde_json::to_string(&all).map_err(|error| error.to_string())?;
        if told.contains("Unauthorized") { Ok(told) } else { Err(told) }
    })
    .await;
    assert!(told.contains("CredentialsInvalid") && !told.contains(token), "{told}");
    lent.until_nodes(&[]).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn s20_a_secret_with_a_mistake_is_a_condition_and_its_correction_is_all_that_is_needed() -> Result<()> {
    let mut lent = Lent::new(&["w1"], now).await?;
    let physical = read_to_string(lent.physical_plane.kubeconfig())?;
    lent.binding("east", json!({})).await?;
    lent.serve("east").await?;
    let is_missing = |binding: &Value| says(binding, "Connected", "False", "CredentialsMissing");
    lent.until_binding("east", "has no Secret", is_missing).await;
    lent.secret("east", "apiVersion: v1\nkind: Config\nclusters: 5\n").await?;
    let is_invalid = |binding: &Value| says(binding, "Ready", "False", "CredentialsInvalid");
    let binding = lent.until_binding("east", "has a Secret that is no kubeconfig", is_invalid).await;
    assert_eq!(binding["status"]["phase"], "Failed");
    unfit(&lent, &physical).await?;
    assert_eq!(borrowers(&lent, BORROWED).await.unwrap_or_default().len(), 0);

    // A cluster lends nothing to itself.
    lent.secret("east", &read_to_string(lent.virtual_plane.kubeconfig())?).await?;
    let is_itself = |binding: &Value| says(binding, "Ready", "False", "SameCluster");
    let binding = lent.until_binding("east", "leads to its own cluster", is_itself).await;
    assert_eq!(binding["status"]["physicalClusterUID"], Value::Null);
    lent.until_nodes(&[]).await;

    lent.secret("east", &physical).await?;
    lent.until_nodes(&["vnode-east-w1"]).await;
    lent.until_binding("east", "is ready", is_ready).await;

    // Another cluster in its place: nothing is done, and nothing is taken back.
    lent.secret("east", &read_to_string(lent.virtual_plane.kubeconfig())?).await?;
    let is_another = |binding: &Value| says(binding, "PhysicalClusterChanged", "True", "AnotherCluster");
    let binding = lent.until_binding("east", "leads to another cluster", is_another).await;
    assert_eq!(binding["status"]["otherCluster"]["uid"], *cluster(&lent.virtual_plane).await?);
    assert_eq!(binding["status"]["physicalClusterUID"], *cluster(&lent.physical_plane).await?);
    lent.until_nodes(&["vnode-east-w1"]).await;
    lent.secret("east", &physical).await?;
    lent.until_binding("east", "is ready again", is_ready).await;
    lent.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn s7_the_second_binding_with_one_cluster_id_or_in_one_namespace_is_in_conflict_and_writes_nothing() -> Result<()>
{
    let mut lent = Lent::new(&["w1"], now).await?;
    lent.bind("east", json!({})).await?;
    let first = lent.until_binding("east", "is ready", is_ready).await;
    // Age is counted in seconds.
    let created: Timestamp = first["metadata"]["creationTimestamp"].as_str().unwrap_or_default().parse()?;
    eventually("the next second begins", PATIENCE, async || {
        if Timestamp::now().as_second() > created.as_second() + 1 { Ok(()) } else { Err(created.to_string()) }
    })
    .await;
    lent.bind("twin", json!({"clusterID": "east", "mountNamespace": ELSEWHERE})).await?;
    let has_id = |binding: &Value| says(binding, "Conflict", "True", "ClusterIdTaken");
    let binding = lent.until_binding("twin", "has the id of another", has_id).await;
    let [_, _, message] = condition(&binding, "Conflict");
    assert!(message.contains("ClusterBinding east"), "{message}");
    assert!(borrowers(&lent, ELSEWHERE).await.unwrap_or_default().is_empty());
    lent.until_nodes(&["vnode-east-w1"]).await;
    lent.until_binding("east", "is ready still", is_ready).await;

    // When the first one is gone, it is the turn of the second.
    lent.bindings().delete("east", &DeleteParams::default()).await?;
    lent.until_binding("twin", "is ready", is_ready).await;
    lent.until_nodes(&["vnode-east-w1"]).await;
    assert_eq!(borrowers(&lent, ELSEWHERE).await.unwrap_or_default().len(), 1);
    lent.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_an_edit_counts_without_a_restart_and_one_with_a_mistake_changes_nothing() -> Result<()> {
    let mut lent = Lent::new(&[], now).await?;
    let racks = [("w1", "r1"), ("w2", "r2")];
    lent.kubelets.register(racks.map(|(name, rack)| NewNode::named(name).label("rack", rack))).await?;
    let in_racks = |operator: &str, racks: &[&str]| {
        let requirement = json!({"key": "rack", "operator": operator, "values": racks});
        json!({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}})
    };
    lent.bind("east", in_racks("In", &["r1"])).await?;
    lent.until_nodes(&["vnode-east-w1"]).await;
    lent.binding("east", in_racks("In", &["r1", "r2"])).await?;
    lent.until_nodes(&["vnode-east-w1", "vnode-east-w2"]).await;

    lent.binding("east", in_racks("Within", &["r3"])).await?;
    let is_invalid = |binding: &Value| says(binding, "Ready", "False", "ValidationError");
    let binding = lent.until_binding("east", "is invalid", is_invalid).await;
    let [_, _, message] = condition(&binding, "Ready");
    assert!(message.contains("spec.nodeSelector") && message.contains("Within"), "{message}");
    assert!(message.contains("The last valid version stays in force"), "{message}");
    lent.until_nodes(&["vnode-east-w1", "vnode-east-w2"]).await;

    lent.binding("east", in_racks("NotIn", &["r2"])).await?;
    lent.until_nodes(&["vnode-east-w1"]).await;
    let mut fields = in_racks("NotIn", &["r2"]);
    fields["disableNodeDefaultTaint"] = true.into();
    lent.binding("east", fields).await?;
    let has_no_taint = |node: &Value| node["spec"]["taints"].as_array().is_none_or(Vec::is_empty);
    lent.until("vnode-east-w1", "has no default taint", has_no_taint).await;
    lent.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn s23_operators_pause_and_drain_with_annotations() -> Result<()> {
    let mut lent = Lent::new(&["w1", "w2"], now).await?;
    lent.bind("east", json!({})).await?;
    lent.until_nodes(&["vnode-east-w1", "vnode-east-w2"]).await;
    lent.annotate("east", PAUSE_ANNOTATION, Some("true")).await?;
    lent.until_binding("east", "is paused", |binding| says(binding, "Paused", "True", "Paused")).await;
    // What is paused does not change, though another machine is selected and one is drained.
    lent.annotate("east", DRAIN_ANNOTATION, Some("w1")).await?;
    lent.until_binding("east", "is ready apart from that", |binding| says(binding, "Ready", "False", "Paused")).await;
    lent.until_nodes(&["vnode-east-w1", "vnode-east-w2"]).await;
    lent.annotate("east", PAUSE_ANNOTATION, None).await?;
    lent.until_nodes(&["vnode-east-w2"]).await;
    lent.until_binding("east", "is drained", |binding| says(binding, "Ready", "False", "Draining")).await;
    lent.annotate("east", DRAIN_ANNOTATION, None).await?;
    lent.until_nodes(&["vnode-east-w1", "vnode-east-w2"]).await;
    lent.stop().await
}

/// A binding with three nodes that selects none of them any more.
async fn deselected(lent: &mut Lent, stop: CancellationToken) -> Result<String> {
    let safety = json!({"maxNodesPercent": 20});
    let none = json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "none", "operator": "Exists"}]}]});
    lent.secret("east", &read_to_string(lent.physical_plane.kubeconfig())?).await?;
    lent.binding("east", json!({"safety": safety})).await?;
    lent.serve_until("east", stop).await?;
    lent.until_nodes(&["vnode-east-w1", "vnode-east-w2", "vnode-east-w3"]).await;
    lent.until_binding("east", "is ready", is_ready).await;
    lent.binding("east", json!({"safety": safety, "nodeSelector": none})).await?;
    let binding = lent.until_binding("east", "is held", |binding| held(binding, 3).is_some()).await;
    Ok(held(&binding, 3).unwrap_or_default().to_owned())
}

/// The hash of a batch of so many nodes that is held.
fn held(binding: &Value, nodes: u64) -> Option<&str> {
    let held = &binding["status"]["held"];
    let is_held = says(binding, "Held", "True", "TooManyNodesRemoved") && held["extent"]["nodes"] == nodes;
    held["hash"].as_str().filter(|_| is_held)
}

#[tokio::test(flavor = "multi_thread")]
async fn s9_a_batch_that_is_too_large_waits_for_its_hash() -> Result<()> {
    let mut lent = Lent::new(&["w1", "w2", "w3"], now).await?;
    let hash = deselected(&mut lent, CancellationToken::new()).await?;
    let is_removed = |binding: &Value| binding["metadata"]["annotations"].get(CONFIRM_ANNOTATION).is_none();
    lent.annotate("east", CONFIRM_ANNOTATION, Some("000000000000")).await?;
    let binding = lent.until_binding("east", "has lost a wrong hash", is_removed).await;
    assert_eq!(held(&binding, 3), Some(hash.as_str()));
    lent.annotate("east", CONFIRM_ANNOTATION, Some(&hash)).await?;
    lent.until_nodes(&[]).await;
    let is_confirmed = |binding: &Value| binding["status"]["confirmed"][0]["hash"] == hash.as_str();
    lent.until_binding("east", "says what was confirmed", |binding| is_confirmed(binding) && is_removed(binding)).await;
    lent.until_binding("east", "holds nothing", |binding| says(binding, "Held", "False", "Ok")).await;
    lent.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn s9_another_replica_knows_what_is_held_before_it_has_looked_at_anything() -> Result<()> {
    let mut lent = Lent::new(&["w1", "w2", "w3"], now).await?;
    let stop = CancellationToken::new();
    let hash = deselected(&mut lent, stop.clone()).await?;
    stop.cancel();
    // The next one says something new of the same object, so that it is known to have read it.
    lent.annotate("east", PAUSE_ANNOTATION, Some("true")).await?;
    lent.serve("east").await?;
    let is_paused = |binding: &Value| says(binding, "Paused", "True", "Paused");
    lent.until_binding("east", "is paused by the next replica", is_paused).await;
    lent.annotate("east", PAUSE_ANNOTATION, None).await?;
    let is_judged = |binding: &Value| !is_paused(binding) && says(binding, "Connected", "True", "Ok");
    let binding = lent.until_binding("east", "is connected, and paused no more", is_judged).await;
    assert_eq!(held(&binding, 3), Some(hash.as_str()));
    // As long as an act is gathered, and longer.
    let (before, long) = (Timestamp::now(), i64::try_from(2 * GATHER.as_secs())?);
    eventually("an act would have been judged", PATIENCE, async || {
        let seconds = Timestamp::now().as_second() - before.as_second();
        if seconds > long { Ok(()) } else { Err(format!("{seconds}")) }
    })
    .await;
    lent.until_nodes(&["vnode-east-w1", "vnode-east-w2", "vnode-east-w3"]).await;
    let binding = lent.until_binding("east", "is held still", |binding| held(binding, 3).is_some()).await;
    assert_eq!(held(&binding, 3), Some(hash.as_str()));
    lent.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_without_the_definition_of_policies_nothing_is_lent_and_the_condition_says_why() -> Result<()> {
    let mut lent = Lent::without_policies(&["w1"], now).await?;
    lent.bind("east", json!({})).await?;
    let is_missing = |binding: &Value| says(binding, "Ready", "False", "DefinitionMissing");
    lent.until_binding("east", "has no policies", is_missing).await;
    lent.until_nodes(&[]).await;
    lent.physical_plane.apply_crd(topoloom_api::resource_leasing_policy::definition()).await?;
    lent.until_nodes(&["vnode-east-w1"]).await;
    lent.until_binding("east", "is ready", is_ready).await;
    lent.stop().await
}
