//! Control planes that one test returns and the next one takes: a start costs more than most tests.
//!
//! The changes that a test left are reverted in etcd; the apiserver follows as it follows any other writer of etcd. If
//! that may not revert everything, the servers end and the next test gets new ones. So do those of a test that failed. A test
//! may have stopped and started the apiserver, compacted etcd, or restored both: if only a state that is compacted shows what a
//! key had, this ends the servers, too.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Child;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::ByteString;
use tokio::time::timeout;

use super::access::client_from;
use super::etcd::Gateway;
use super::kept::Content;
use super::launch::keep;
use super::planes::{self, Turn};
use super::process::sweep;
use super::{Builder, ControlPlane, Servers};

/// The control planes that wait for the next test, the one that waits for the longest time first: a request of the test before
/// may still be under way. Never more than may be in use at a time, of both kinds together.
static IDLE: Mutex<VecDeque<Servers>> = Mutex::new(VecDeque::new());

const AT_ONCE: usize = 16;
/// A request of a killed host may end after the first round.
const ROUNDS: usize = 5;
/// A server that stands still is not waited for.
const CLEANED: Duration = Duration::from_secs(30);

/// Keys that the apiserver writes for itself, at any time.
const ITS_OWN: [&str; 4] = [
    "/registry/configmaps/kube-system/",
    "/registry/leases/kube-system/apiserver-",
    "/registry/masterleases/",
    "/registry/ranges/",
];
/// The same for the objects that it writes at its start; objects that other clients add there are removed.
const ITS_OWN_FROM_THE_START: [&str; 2] = ["/registry/flowschemas/", "/registry/prioritylevelconfigurations/"];
/// Objects whose changes the apiserver applies some time later, without a sign: new definitions, webhooks and policies.
const SLOW: [&str; 3] =
    ["/registry/admissionregistration.k8s.io/", "/registry/apiextensions.k8s.io/", "/registry/apiregistration.k8s.io/"];

/// Which of the control planes that tests share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audit {
    /// One that logs no requests.
    Off,
    /// One that logs every request, as with [`Builder::audit`].
    On,
}

/// One of several control planes that a test needs at the same time.
#[derive(Debug, Clone)]
pub enum Wanted {
    /// One that other tests of this process may have used.
    Shared,
    /// The same with an audit log.
    Audited,
    /// A new one with these settings. No other test gets it, and it has only the content that its settings name.
    New(Builder),
}

/// When the next test may get a shared control plane. One of a test that panics is never given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GivenBack {
    /// When the value is dropped or stopped: what writes to it are processes of the test, which have ended by then.
    WithTheValue,
    /// When it is stopped, and not when it is dropped: tasks of the test write to it. Those of a test that returns an error
    /// may outlive the value.
    WhenStopped,
}

/// The state with which every test begins.
pub(super) struct Baseline {
    /// The values of the keys. A test may compact the history.
    values: BTreeMap<String, ByteString>,
    /// The keys, with the revision of their last write; that may be a later write of the same value.
    keys: BTreeMap<String, u64>,
    files: BTreeSet<OsString>,
    sweeper: Sweeper,
}

/// Removes the folder when this process ends without dropping its values, as a test binary does.
struct Sweeper {
    child: Child,
    /// The servers whose end it awaits.
    servers: Vec<u32>,
}

impl Sweeper {
    fn of(folder: &Path, servers: Vec<u32>) -> Result<Self> {
        Ok(Self { child: sweep(folder, &servers)?, servers })
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        // It has nothing to remove any more, or another one does that. Both fail only for a process that has ended.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

impl ControlPlane {
    /// A control plane that other tests of this process may have used, with this content, which has to be the same for every
    /// caller. `policies` are names of admission policies, and of their bindings, that have the same content in every test.
    ///
    /// # Errors
    ///
    /// When a new one does not start.
    pub async fn shared(audit: Audit, content: &Content, policies: &[String]) -> Result<Self> {
        let turn = planes::take(1).await?;
        Self::shared_with(turn, audit, content, policies).await
    }

    /// Several at the same time, as [`several`](Self::several). One that is not [stopped](Self::stop) ends with its value, and
    /// so does one of a test that panics: no other test gets it.
    ///
    /// # Errors
    ///
    /// When a new one does not start.
    pub async fn several_shared<const N: usize>(
        wanted: [Wanted; N],
        content: &Content,
        policies: &[String],
    ) -> Result<[Self; N]> {
        let turn = planes::take(N).await?;
        let planes = wanted.into_iter().map(|wanted| Self::one_of(wanted, turn.clone(), content, policies));
        let planes = futures::future::try_join_all(planes).await?;
        planes.try_into().map_err(|_| anyhow::anyhow!("there are as many as were wanted"))
    }

    async fn one_of(wanted: Wanted, turn: Turn, content: &Content, policies: &[String]) -> Result<Self> {
        let audit = match wanted {
            Wanted::Shared => Audit::Off,
            Wanted::Audited => Audit::On,
            Wanted::New(builder) => return builder.start_with(turn).await,
        };
        let mut plane = Self::shared_with(turn, audit, content, policies).await?;
        plane.given_back = GivenBack::WhenStopped;
        Ok(plane)
    }

    /// A shared one with a turn that the caller has already.
    async fn shared_with(turn: Turn, audit: Audit, content: &Content, policies: &[String]) -> Result<Self> {
        while let Some(mut servers) = take(audit) {
            let cleaned = timeout(CLEANED, clean(&mut servers, policies)).await;
            match cleaned.unwrap_or_else(|_| Err(anyhow::anyhow!("it does not answer"))) {
                Ok((client, gateway, revision)) => {
                    // There is none where none was requested.
                    let audited_from = fs::metadata(servers.launch.audit_log()).map_or(0, |log| log.len());
                    let (servers, first_revision) = (Some(servers), revision + 1);
                    let given_back = GivenBack::WithTheValue;
                    return Ok(Self {
                        servers,
                        client,
                        gateway,
                        first_revision,
                        audited_from,
                        given_back,
                        _turn: turn,
                    });
                }
                Err(error) => {
                    eprintln!("controlplane: {} is not used again: {error:#}", servers.folder.path().display())
                }
            }
        }
        let builder = Builder::default().audit(audit == Audit::On).content(content.clone());
        let mut plane = builder.start_with(turn).await?;
        if !keep() {
            let baseline = Baseline::of(&plane).await?;
            plane.servers_mut().baseline = Some(baseline);
        }
        Ok(plane)
    }
}

fn take(audit: Audit) -> Option<Servers> {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let first = idle.iter().position(|servers| servers.launch.audit == (audit == Audit::On))?;
    idle.remove(first)
}

pub(super) fn give_back(mut servers: Servers) {
    // They write, so they end first.
    drop(servers.controllers.take());
    let ids = servers.ids();
    let Servers { baseline, folder, .. } = &mut servers;
    if let Some(baseline) = baseline
        && baseline.sweeper.servers != ids
    {
        // A test started a server again.
        match Sweeper::of(folder.path(), ids) {
            Ok(sweeper) => baseline.sweeper = sweeper,
            Err(error) => return eprintln!("controlplane: {} is not used again: {error:#}", folder.path().display()),
        }
    }
    let most = planes::at_once().map_or(1, |most| most as usize);
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    idle.push_back(servers);
    // Of the kind that no test has asked for since.
    let surplus = idle.len().saturating_sub(most);
    let surplus: Vec<Servers> = idle.drain(..surplus).collect();
    drop(idle);
    drop(surplus);
}

impl Baseline {
    async fn of(plane: &ControlPlane) -> Result<Self> {
        let servers = plane.servers();
        // The values are read last: a key that the API server writes between the two is restored with its later value.
        let ((keys, _), values) = (plane.gateway.keys().await?, plane.gateway.values().await?);
        let sweeper = Sweeper::of(plane.folder(), servers.ids())?;
        Ok(Self { values, keys, files: files(plane.folder())?, sweeper })
    }
}

/// Reverts what a test left; returns the client and the gateway of the next test, and the last revision before it.
async fn clean(servers: &mut Servers, policies: &[String]) -> Result<(kube::Client, Gateway, u64)> {
    let baseline = servers.baseline.as_mut().context("it was never meant for others")?;
    let folder = servers.folder.path();
    for name in files(folder)?.difference(&baseline.files) {
        let path = folder.join(name);
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.with_context(|| format!("{} cannot be removed", path.display()))?;
    }
    // Connections belong to the runtime of the test that made them.
    let gateway = Gateway::new(&servers.launch.etcd_url())?;
    let client = client_from(&servers.launch.kubeconfig()).await?;
    for _ in 0..ROUNDS {
        let (keys, revision) = gateway.keys().await?;
        let left = left(&baseline.keys, &keys);
        if left.is_empty() {
            let answer = client.request_text(http::Request::get("/readyz").body(Vec::new())?).await?;
            anyhow::ensure!(answer == "ok", "/readyz says {answer}");
            return Ok((client, gateway, revision));
        }
        for (key, _) in &left {
            let known = policies.iter().any(|name| key.ends_with(&format!("/{name}")));
            anyhow::ensure!(known || !SLOW.iter().any(|slow| key.starts_with(slow)), "{key} was changed");
        }
        let (again, new): (Vec<_>, Vec<_>) = left.into_iter().partition(|(_, kept)| *kept);
        stream::iter(new)
            .map(|(key, _)| {
                let gateway = &gateway;
                async move { gateway.remove(&key).await }
            })
            .buffer_unordered(AT_ONCE)
            .try_for_each(async |()| Ok(()))
            .await?;
        for (key, _) in again {
            let value = baseline.values.get(&key).with_context(|| format!("{key} has no earlier value"))?;
            let revision = gateway.restore(&key, value).await?;
            baseline.keys.insert(key, revision);
        }
    }
    bail!("another process writes to it without end")
}

fn files(folder: &Path) -> Result<BTreeSet<OsString>> {
    let names = fs::read_dir(folder).and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect());
    names.with_context(|| format!("{} cannot be read", folder.display()))
}

/// The keys that differ from the beginning, and whether each existed then.
fn left(then: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>) -> Vec<(String, bool)> {
    let its_own = |key: &str| {
        ITS_OWN.iter().any(|own| key.starts_with(own))
            || then.contains_key(key) && ITS_OWN_FROM_THE_START.iter().any(|own| key.starts_with(own))
    };
    let changed = now.iter().filter(|(key, revision)| then.get(*key) != Some(revision)).map(|(key, _)| key);
    let gone = then.keys().filter(|key| !now.contains_key(*key));
    let all = changed.chain(gone).filter(|key| !its_own(key));
    all.map(|key| (key.clone(), then.contains_key(key))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(list: &[(&str, u64)]) -> BTreeMap<String, u64> {
        list.iter().map(|(key, revision)| ((*key).to_owned(), *revision)).collect()
    }

    #[test]
    fn what_a_test_left_is_all_that_differs_but_what_the_apiserver_writes_for_itself() {
        let then = keys(&[
            ("/registry/namespaces/changed", 3),
            ("/registry/namespaces/gone", 4),
            ("/registry/namespaces/same", 5),
            ("/registry/flowschemas/its-own", 6),
            ("/registry/leases/kube-system/apiserver-x", 7),
        ]);
        let now = keys(&[
            ("/registry/namespaces/changed", 8),
            ("/registry/namespaces/same", 5),
            ("/registry/flowschemas/its-own", 9),
            ("/registry/flowschemas/of-a-test", 10),
            ("/registry/leases/kube-system/apiserver-x", 11),
            ("/registry/leases/volcano-system/of-a-test", 12),
        ]);
        let mut found = left(&then, &now);
        found.sort();
        let wanted = [
            ("/registry/flowschemas/of-a-test", false),
            ("/registry/leases/volcano-system/of-a-test", false),
            ("/registry/namespaces/changed", true),
            ("/registry/namespaces/gone", true),
        ];
        assert_eq!(found, wanted.map(|(key, kept)| (key.to_owned(), kept)));
        assert_eq!(left(&then, &then), []);
    }
}
