//! By which connection streams reach the pods of each binding, on every replica (decision S26).
//!
//! Owns a connection for each binding, whether or not this replica holds its lease. It follows the Secret that the tasks of the
//! binding follow, on their terms, so that where they run here both share one connection. A binding is reached once its status names
//! a physical cluster, and only there. Never writes, and never decides whose a pod is: that is read live for each stream.
//!
//! # Failure story
//!
//! A Secret that is bad, or leads to another cluster, keeps the connection that there is. Where another cluster answers on that
//! connection, the pods of the binding are not reached until the first one is back, and open streams end. A spec with a mistake
//! changes nothing. That the bindings cannot be listed changes nothing either.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::stream::FuturesUnordered;
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use topoloom_api::ClusterBinding;
use topoloom_cluster::watched::{Earlier, Event, Index, Watched};
use topoloom_cluster::watches::{self, Config};
use topoloom_cluster::{Refusal, Restores};
use topoloom_core::names::Uid;
use topoloom_core::version::ResourceVersion;
use topoloom_sync::identity::{Identity, Ownership};
use topoloom_sync::keys;
use topoloom_sync::naming::label_value;

use super::Process;
use super::life::link_terms;
use super::report::Kept;
use super::shown;
use crate::convert::binding::{Surroundings, read};
use crate::kubeconfig::Loopback;
use crate::kubelet::{Lender, Lent};
use crate::physical::{self, Follow, Physical, Registry};

/// So many bindings are followed; of more, the oldest. As many as one process serves.
const MOST: usize = 500;

/// The bindings that streams are passed on for. Clones are the same.
#[derive(Clone, Default)]
pub struct LentBindings(Arc<Mutex<BTreeMap<String, Reached>>>);

/// A binding whose pods are reached.
struct Reached {
    lender: Lender,
    physical: Arc<Physical>,
}

impl Lent for LentBindings {
    fn lender(&self, labels: &BTreeMap<String, String>) -> Option<Lender> {
        let all = self.lock();
        let Reached { lender, physical } = all.get(labels.get(keys::BINDING)?)?;
        let is_ours = Ownership::of(labels, &lender.identity) == Ownership::Ours;
        (is_ours && leads_home(physical)).then(|| lender.clone())
    }
}

/// Whether a connection leads to the cluster that it was made for, as far as is known.
fn leads_home(physical: &Physical) -> bool {
    *physical.identity().borrow() == *physical.cluster()
}

impl LentBindings {
    /// Follows the bindings of a process, until it is dropped. Then none is reached any more.
    pub async fn follow(&self, process: &Process) {
        let api: Api<ClusterBinding> = Api::all(process.lent.clone());
        let ways = Ways {
            registry: Arc::clone(&process.registry),
            secrets: process.secrets.clone(),
            restores: process.restores.clone(),
            around: process.around(),
            loopback: process.loopback,
        };
        self.reach(&ways, watches::events(api, Config::of(&process.restores))).await;
    }

    /// The connection of each binding, for `topoloom debug dump`.
    #[must_use]
    pub fn dump(&self) -> Value {
        self.lock().iter().map(|(label, reached)| (label.clone(), shown::connection(&reached.physical))).collect()
    }

    /// The same for any source of bindings.
    async fn reach(&self, ways: &Ways, events: impl Stream<Item = Result<Event<ClusterBinding>, Refusal>> + Send) {
        let _ends = Ends(self);
        let mut events = std::pin::pin!(events);
        let (mut watched, mut known) = (Watched::default(), Known { ways, all: BTreeMap::new() });
        let (mut followed, mut running) = (BTreeMap::new(), FuturesUnordered::new());
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) => {
                        if watched.take(&mut known, event).is_some() {
                            for Followed { wanted, stop } in self.settle(&mut followed, &known.all) {
                                running.push(self.keep(ways, wanted, stop));
                            }
                        }
                    }
                    Some(Err(refusal)) => {
                        tracing::debug!(
                            reason = refusal.reason.as_str(), error = %refusal, "the watch of the bindings of streams broke"
                        );
                    }
                    None => return,
                },
                Some(()) = running.next(), if !running.is_empty() => {}
            }
        }
    }

    /// Ends what is not wanted any more, or not as it is. Returns what has to begin.
    fn settle(&self, followed: &mut BTreeMap<String, Followed>, known: &BTreeMap<String, Wanted>) -> Vec<Followed> {
        let mut oldest: Vec<(&String, &Wanted)> = known.iter().collect();
        oldest.sort_by(|(a, one), (b, other)| (one.created, a).cmp(&(other.created, b)));
        oldest.truncate(MOST);
        let wanted: BTreeMap<&String, &Wanted> = oldest.into_iter().collect();
        followed.retain(|name, Followed { wanted: before, stop }| {
            let stays = wanted.get(name).is_some_and(|wanted| **wanted == *before);
            if !stays {
                stop.cancel();
                self.enter(before, None);
            }
            stays
        });
        let mut begins = Vec::new();
        for (name, wanted) in wanted {
            if !followed.contains_key(name) {
                let one = Followed { wanted: wanted.clone(), stop: CancellationToken::new() };
                followed.insert(name.clone(), one.clone());
                begins.push(one);
            }
        }
        begins
    }

    /// Follows the Secret of one binding until it is stopped.
    async fn keep(&self, ways: &Ways, wanted: Wanted, stop: CancellationToken) {
        let terms = watch::Sender::new(wanted.terms.clone());
        let follow = Follow::new(&ways.registry, terms.subscribe());
        let mut state = follow.state();
        let enters = async {
            loop {
                let in_use = state.borrow_and_update().in_use.clone();
                // Before the look, so that no change is missed.
                let mut identity = in_use.as_ref().map(|physical| physical.identity());
                // What is stopped was taken out already, and another one may have its place.
                if !stop.is_cancelled() {
                    self.enter(&wanted, in_use.as_ref());
                }
                let is_over = tokio::select! {
                    changed = state.changed() => changed.is_err(),
                    () = another_cluster(identity.as_mut()) => false,
                };
                if is_over {
                    return;
                }
            }
        };
        let follows = Box::pin(follow.run(ways.secrets.clone(), &wanted.secret, &ways.restores));
        let _stopped = stop.run_until_cancelled(async { tokio::join!(follows, enters) }).await;
    }

    /// This is the connection of a binding from now on; streams on another one end.
    fn enter(&self, wanted: &Wanted, in_use: Option<&Arc<Physical>>) {
        let label = label_value(wanted.identity.binding());
        let physical = in_use.filter(|physical| leads_home(physical));
        let mut all = self.lock();
        let is_same = match (all.get(&label), physical) {
            (Some(reached), Some(physical)) => Arc::ptr_eq(&reached.physical, physical),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if is_same {
            return;
        }
        if let Some(before) = all.remove(&label) {
            before.lender.ends.cancel();
        }
        if let Some(physical) = physical {
            let lender = Lender {
                identity: wanted.identity.clone(),
                mount_namespace: wanted.mount_namespace.clone(),
                connection: physical.connection().clone(),
                ends: CancellationToken::new(),
            };
            all.insert(label, Reached { lender, physical: Arc::clone(physical) });
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Reached>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for LentBindings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lock().keys()).finish()
    }
}

/// Nothing is followed any more.
struct Ends<'a>(&'a LentBindings);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        for reached in std::mem::take(&mut *self.0.lock()).into_values() {
            reached.lender.ends.cancel();
        }
    }
}

/// Ends when another cluster answers on a connection, or the first one again; never, where there is none.
async fn another_cluster(identity: Option<&mut watch::Receiver<Uid>>) {
    if let Some(identity) = identity
        && identity.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// What all bindings have in common.
struct Ways {
    registry: Arc<Registry>,
    secrets: Api<Secret>,
    restores: Restores,
    around: Surroundings,
    loopback: Loopback,
}

/// What is followed for a binding.
#[derive(Debug, Clone, PartialEq)]
struct Wanted {
    created: Option<Timestamp>,
    identity: Identity,
    mount_namespace: String,
    /// The name of its Secret.
    secret: String,
    /// Where it may lead.
    terms: physical::Terms,
}

/// A binding that is followed.
#[derive(Debug, Clone)]
struct Followed {
    wanted: Wanted,
    stop: CancellationToken,
}

/// What the bindings say, by their names.
struct Known<'a> {
    ways: &'a Ways,
    all: BTreeMap<String, Wanted>,
}

impl Known<'_> {
    /// What has to be followed for a binding; nothing before it has borrowed from a cluster.
    fn read(&self, binding: &ClusterBinding) -> Option<(String, Wanted)> {
        let name = binding.metadata.name.clone()?;
        let kept = Kept::of(&binding.status);
        kept.physical_cluster.as_ref()?;
        let reading = read(binding, &self.ways.around).ok()?;
        let identity = reading.terms.binding.identity.clone();
        // With a mistake in it, the last one that had none stays in force.
        let before = self.all.get(&name).filter(|before| reading.problems.is_some() && before.identity == identity);
        let wanted = before.cloned().unwrap_or_else(|| Wanted {
            created: binding.metadata.creation_timestamp.as_ref().map(|time| time.0),
            identity,
            terms: link_terms(&reading.terms, &kept, self.ways.loopback),
            mount_namespace: reading.terms.mount_namespace,
            secret: reading.terms.secret,
        });
        Some((name, wanted))
    }
}

impl Index<ClusterBinding> for Known<'_> {
    type List = BTreeMap<String, Wanted>;
    type Change = ();

    fn begin(&mut self, _: Earlier) -> Self::List {
        BTreeMap::new()
    }

    fn list(&mut self, list: &mut Self::List, binding: ClusterBinding) {
        list.extend(self.read(&binding));
    }

    fn reset(&mut self, list: Self::List, _: &ResourceVersion) {
        self.all = list;
    }

    fn apply(&mut self, binding: ClusterBinding) {
        match self.read(&binding) {
            Some((name, wanted)) => drop(self.all.insert(name, wanted)),
            None => self.delete(binding),
        }
    }

    fn delete(&mut self, binding: ClusterBinding) {
        if let Some(name) = &binding.metadata.name {
            self.all.remove(name);
        }
    }
}

#[cfg(test)]
mod tests;
