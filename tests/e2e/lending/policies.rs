//! Policies of a lender: windows and their boundaries, mistakes, several for the same nodes, and policies of the other cluster.

use std::sync::atomic::{AtomicI64, Ordering};

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use topoloom_sync::keys;
use topoloom_sync::node::Now;

use super::accounts::replica_with;
use super::lent::{Lent, condition, now, policy, says};

/// The processors of a virtual node, in thousandths.
fn cpu(node: &Value) -> u64 {
    let text = node["status"]["allocatable"]["cpu"].as_str().unwrap_or_default();
    let number = |text: &str| text.parse::<u64>().unwrap_or_default();
    text.strip_suffix('m').map_or_else(|| 1000 * number(text), number)
}

/// Whether a virtual node is outside of the windows of its policy.
fn is_closed(node: &Value) -> bool {
    let taints = node["spec"]["taints"].as_array();
    taints.into_iter().flatten().any(|taint| taint["key"] == keys::OUT_OF_WINDOWS_TAINT)
}

/// All nodes, and this share of their processors.
fn share(percent: u8) -> Value {
    json!({"cluster": "east", "resourceLimits": [{"resource": "cpu", "percent": percent}]})
}

/// The same with a priority.
fn before_others(percent: u8, priority: i32) -> Value {
    let mut share = share(percent);
    share["priority"] = priority.into();
    share
}

/// How far the wall clock of one test is ahead, in milliseconds.
static AHEAD: AtomicI64 = AtomicI64::new(0);

fn set() -> Now {
    let ahead = SignedDuration::from_millis(AHEAD.load(Ordering::SeqCst));
    let now = now();
    Now { wall: now.wall.checked_add(ahead).unwrap_or(now.wall), ..now }
}

/// Sets the wall clock, which continues from there.
fn set_clock(to: &str) -> Result<()> {
    let ahead = to.parse::<Timestamp>()?.as_millisecond() - Timestamp::now().as_millisecond();
    AHEAD.store(ahead, Ordering::SeqCst);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn s18_nodes_open_and_close_with_the_windows_and_a_step_of_the_wall_clock_is_seen() -> Result<()> {
    let mut lent = Lent::new(&["w1"], set).await?;
    let mornings = json!({"cluster": "east", "timeWindows": [{"start": "08:00", "end": "11:59"}]});
    lent.policy("mornings", mornings.clone()).await?;
    set_clock("2026-08-03T11:59:30Z")?;
    lent.bind("east", json!({})).await?;
    lent.until("vnode-east-w1", "is open", |node| !is_closed(node)).await;
    let is_active = |policy: &Value| policy["status"]["phase"] == "Active";
    let open = lent.until_policy("mornings", "is active", is_active).await;
    let status = &open["status"];
    assert_eq!(status["nextTransition"], "2026-08-03T12:00:00Z");
    assert_eq!((&status["activeTimeWindow"], &status["timeZone"]), (&json!(true), &json!("UTC")));
    assert_eq!(status["lastValid"], mornings);
    let has_next = |binding: &Value| binding["status"]["nextTransition"] == "2026-08-03T12:00:00Z";
    lent.until_binding("east", "knows the boundary", has_next).await;

    // The boundary comes by itself.
    let is_inactive = |policy: &Value| policy["status"]["phase"] == "Inactive";
    let closed = lent.until_policy("mornings", "is inactive", is_inactive).await;
    assert_eq!(closed["status"]["nextTransition"], "2026-08-04T08:00:00Z");
    assert_eq!(closed["status"]["lastClosing"]["at"], "2026-08-03T12:00:00Z");
    let node = lent.until("vnode-east-w1", "is closed", is_closed).await;

    // A user takes the taint off: it comes back with the time that it had.
    let added = |node: &Value| {
        let mut taints = node["spec"]["taints"].as_array().into_iter().flatten();
        taints.find(|taint| taint["key"] == keys::OUT_OF_WINDOWS_TAINT).map(|taint| taint["timeAdded"].clone())
    };
    let mut others = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    others.retain(|taint| taint["key"] != keys::OUT_OF_WINDOWS_TAINT);
    let untainted = Patch::Merge(json!({"spec": {"taints": others}}));
    lent.lent().patch("vnode-east-w1", &PatchParams::default(), &untainted).await?;
    lent.until("vnode-east-w1", "is closed since then", |now| added(now) == added(&node)).await;

    // A person sets the wall clock: no timer ends because of that.
    set_clock("2026-08-04T08:30:00Z")?;
    lent.until_policy("mornings", "is active again", is_active).await;
    lent.until("vnode-east-w1", "is open again", |node| !is_closed(node)).await;
    lent.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn d5_s8_a_typing_error_changes_nothing_and_a_policy_that_is_deleted_ends() -> Result<()> {
    let mut lent = Lent::new(&["w1"], now).await?;
    lent.policy("half", share(50)).await?;
    lent.bind("east", json!({})).await?;
    let half = cpu(&lent.until("vnode-east-w1", "has processors", |node| cpu(node) > 0).await);
    lent.until_policy("half", "is active", |policy| policy["status"]["phase"] == "Active").await;

    let mut wrong = share(100);
    wrong["timeWindows"] = json!([{"start": "25:00", "end": "12:00"}]);
    lent.policy("half", wrong).await?;
    let is_invalid = |policy: &Value| condition(policy, "Valid")[0] == "False";
    let policy = lent.until_policy("half", "is invalid", is_invalid).await;
    assert_eq!(policy["status"]["phase"], "Failed");
    let [_, _, message] = condition(&policy, "Valid");
    assert!(message.contains("spec.timeWindows[0].start") && message.contains("25:00"), "{message}");
    assert_eq!(policy["status"]["lastValid"], share(50));
    assert_eq!(cpu(&lent.until("vnode-east-w1", "is there", |_| true).await), half);

    // Without it everything is lent, and that is not limited by anything any more.
    lent.policies().delete("half", &DeleteParams::default()).await?;
    lent.until("vnode-east-w1", "is whole", |node| cpu(node) == 2 * half).await;
    // Without one, nothing is lent where the binding says so.
    lent.binding("east", json!({"noPolicy": "Withdraw"})).await?;
    lent.until_nodes(&[]).await;
    lent.policy("half", share(50)).await?;
    lent.until("vnode-east-w1", "is half again", |node| cpu(node) == half).await;
    // What is right counts at once.
    lent.policy("half", share(25)).await?;
    lent.until("vnode-east-w1", "is a quarter", |node| cpu(node) == half / 2).await;
    lent.until_policy("half", "keeps that", |policy| policy["status"]["lastValid"] == share(25)).await;
    lent.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn s18_of_two_policies_for_one_node_the_other_one_says_that_it_is_shadowed() -> Result<()> {
    let mut lent = Lent::new(&["w1", "w2"], now).await?;
    lent.policy("half", before_others(50, 10)).await?;
    lent.policy("quarter", share(25)).await?;
    let mut foreign = before_others(10, 100);
    foreign["cluster"] = "west".into();
    lent.policy("foreign", foreign).await?;
    lent.bind("east", json!({})).await?;
    let half = cpu(&lent.until("vnode-east-w1", "has processors", |node| cpu(node) > 0).await);
    lent.until_policy("quarter", "is shadowed", |policy| condition(policy, "Shadowed")[0] == "True").await;
    let first = lent.until_policy("half", "is in force", |policy| condition(policy, "Shadowed")[0] == "False").await;
    assert_eq!(first["status"]["phase"], "Active");
    // That of another binding is not ours to judge.
    assert!(lent.policies().get("foreign").await?.status.phase.is_none());

    lent.policies().delete("half", &DeleteParams::default()).await?;
    lent.until("vnode-east-w1", "is a quarter", |node| cpu(node) == half / 2).await;
    lent.until_policy("quarter", "is shadowed no more", |policy| condition(policy, "Shadowed")[0] == "False").await;
    lent.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn d2_policies_of_the_virtual_cluster_count_where_the_binding_says_so() -> Result<()> {
    let mut lent = Lent::new(&["w1"], now).await?;
    replica_with(&lent.virtual_plane, json!({"virtualPolicies": true})).await?;
    lent.policy("half", share(50)).await?;
    lent.virtual_plane.apply(&[policy("quarter", share(25))]).await?;
    lent.bind("east", json!({})).await?;
    let half = cpu(&lent.until("vnode-east-w1", "has processors", |node| cpu(node) > 0).await);
    lent.binding("east", json!({"policySource": "virtual"})).await?;
    lent.until("vnode-east-w1", "follows the other policy", |node| cpu(node) == half / 2).await;
    lent.until_binding("east", "is ready", |binding| says(binding, "Ready", "True", "Ok")).await;
    lent.stop().await
}
