//! `topoloom lock release NODE --expect VALUE`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use topoloom_core::nodelock::attempt::WriteOutcome;
use topoloom_core::nodelock::needs::LockKey;
use topoloom_core::nodelock::sweep::FoundLock;
use topoloom_core::nodelock::{LockState, LockValue, NodeName, PodKey, Why};
use topoloom_core::text;

use super::ReleaseArgs;
use super::look::{Judged, Look};
use crate::cli::print;

/// Longest text of a stranger that is repeated.
const SHOWN: usize = 300;

/// Releases.
pub(super) async fn run(args: ReleaseArgs) -> anyhow::Result<ExitCode> {
    let look = Look::at(&args.terms, &args.node).await?;
    let node = &args.node;
    let Some(expect) = &args.expect else { bail!("{}", what_stands(&look, node)) };
    let expect = &LockValue::from(expect.as_str());
    let is_expected = |key: &LockKey| look.lock(node, *key).is_some_and(|lock| lock.value == *expect);
    let key = LockKey::ALL.into_iter().find(is_expected);
    let key = key.with_context(|| {
        format!("node {node} has no lock with this value; nothing was changed. {}", what_stands(&look, node))
    })?;

    let mut stands = judge(&look, node, key).await?;
    if let LockState::Held(held) = &stands.state
        && held.why == Why::Vanished
    {
        // A kubelet may be in the middle of asking for its devices.
        let left = held.left.unwrap_or_default() + Duration::from_millis(1);
        print::error(&format!("topoloom: its pod disappeared a moment ago; waiting {} s", left.as_secs() + 1));
        tokio::time::sleep(left).await;
        stands = judge(&look, node, key).await?;
    }
    let pod = stands.pod.as_ref().map(|pod| format!("pod {pod}")).unwrap_or_else(|| "no pod".to_owned());
    match &stands.state {
        // Its pod is not marked yet, and an attempt that wakes late would bind it.
        LockState::Over(reason) if reason.revokes() => revoke(&look, &stands, expect).await?,
        LockState::Over(_) => {}
        LockState::Held(held) => {
            if let Some(live) = look.endangered(node, &stands).await? {
                if !args.even_if_live {
                    bail!("{}", refused(held.why, &live));
                }
                if held.why == Why::Binding {
                    revoke(&look, &stands, expect).await?;
                } else {
                    print::error(&format!("topoloom: released although its pod is live; this may harm pod {live}"));
                }
            }
        }
    }
    remove(&look, node, key, expect).await?;
    print::out(&format!(
        "released: {} of node {node}, which was {} ({pod})\n",
        key.annotation(),
        text::line(expect, SHOWN)
    ));
    Ok(ExitCode::SUCCESS)
}

/// Why a lock stays.
fn refused(why: Why, live: &PodKey) -> String {
    let held = match why {
        Why::Nameless | Why::Unparsable | Why::Unlisted => {
            format!(
                "not released: pod {live}, which is bound here and waits for its device plugin, may be its holder: {why}"
            )
        }
        _ => format!("not released: pod {live} is its holder: {why}"),
    };
    format!(
        "{held}. Without it, pod {live} may be given the devices of another pod, or another pod those of pod {live}. Deleting the pod is safe. --even-if-live releases the lock in spite of this"
    )
}

/// The locks of the node, with the commands that release them.
fn what_stands(look: &Look, node: &NodeName) -> String {
    let locks = LockKey::ALL.into_iter().filter_map(|key| Some((key, look.lock(node, key)?)));
    let lines: Vec<String> = locks
        .map(|(key, lock)| {
            let value = text::shell_word(&lock.value);
            format!("\n  {}: topoloom lock release {node} --expect {value}", key.annotation())
        })
        .collect();
    match lines.len() {
        0 => format!("Node {node} has no lock"),
        _ => format!("Give the whole value of the lock, so that you do not release a newer one:{}", lines.concat()),
    }
}

async fn judge(look: &Look, node: &NodeName, key: LockKey) -> anyhow::Result<FoundLock> {
    let judged = look.judge(node.clone()).await?;
    let found = judged.stands.into_iter().find(|stands| Judged::key(stands) == key && stands.value.is_some());
    found.context("the lock has gone meanwhile")
}

/// A pod that is being bound must not be bound under a lock that is gone.
async fn revoke(look: &Look, stands: &FoundLock, value: &LockValue) -> anyhow::Result<()> {
    let Some(pod) = look.pod(stands).await? else { return Ok(()) };
    match look.carrier.revoke(&pod, value).await {
        WriteOutcome::Done(_) | WriteOutcome::Absent => Ok(()),
        WriteOutcome::Conflict => bail!("its pod changed meanwhile, so nothing was released: look again"),
        WriteOutcome::Refused(why) | WriteOutcome::Unknown(why) => {
            bail!("the lock could not be revoked, so nothing was released: {why}")
        }
    }
}

async fn remove(look: &Look, node: &NodeName, key: LockKey, value: &LockValue) -> anyhow::Result<()> {
    match look.carrier.remove(node, key, value).await? {
        None => bail!("it is another lock meanwhile, so nothing was released: look again"),
        Some(WriteOutcome::Done(_)) => Ok(()),
        Some(WriteOutcome::Absent) => bail!("the node is gone, and its locks with it"),
        Some(WriteOutcome::Conflict) => bail!("the node changed at every try, so nothing was released: try again"),
        Some(WriteOutcome::Refused(why)) => bail!("it was not released: {why}"),
        Some(WriteOutcome::Unknown(why)) => bail!("it is unknown whether it was released, look again: {why}"),
    }
}
