//! The way to the physical cluster, and whether both clusters are what they were.
//!
//! Owns the steps from a Secret to the watch of the physical cluster, each of which is done once, and the rounds of the witness.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use tokio::time::Instant;
use topoloom_api::cluster_binding::{OtherClusterStatus, RestoredStatus, Side as StoredSide};
use topoloom_cluster::{Refusal, RefusalReason};
use topoloom_core::names::Uid;
use topoloom_core::version::ResourceVersion;
use topoloom_sync::identity::borrower::{Borrower, WhyConflict};
use topoloom_sync::keys;
use topoloom_sync::served::{Unnamed, serves_unnamed};
use topoloom_sync::witness::{Pair, Sign, Store, Unconfirmed, hash};

use super::{Conductor, TICK, replace};
use crate::bindings::borrower::{Access, Taken, take};
use crate::bindings::life::link_terms;
use crate::bindings::orphans;
use crate::bindings::others::Look;
use crate::bindings::report::{self, Conflict};
use crate::bindings::witness::{self, Found, Places, Why};
use crate::metrics::WriteKind;
use crate::physical::{CredentialState, Expected, Physical, Problem};
use crate::troubles::Thing;

impl Conductor {
    pub(super) async fn connect(&mut self) {
        let state = self.parts.link_state.borrow().clone();
        self.judge_cluster(&state);
        let Some(physical) = state.in_use.filter(|_| !self.is_same_cluster) else {
            self.use_link(None);
            return;
        };
        self.use_link(Some(&physical));
        if self.rival.is_some() || self.again.is_some_and(|again| Instant::now() < again) {
            return;
        }
        match self.take(&physical).await {
            Ok(()) => {
                // A namespace that is not ours may be free with the next round.
                self.again = (!self.is_taken).then(|| Instant::now() + self.process.witness);
                self.pauses.succeeded(Instant::now());
            }
            Err(refusal) => {
                tracing::debug!(
                    binding = self.name, reason = refusal.reason.as_str(), error = %refusal,
                    "the way to the physical cluster is not complete"
                );
                self.again = Some(Instant::now() + self.pauses.failed(Instant::now(), refusal.retry_after));
            }
        }
    }

    /// Whether the cluster that answers is the one that the binding borrows from, and another one than its own.
    fn judge_cluster(&mut self, state: &CredentialState) {
        let now = report::second(self.now().wall);
        match (&state.problem, &state.in_use) {
            // Nothing is borrowed from the first one yet, so the Secret may lead elsewhere.
            (Some(Problem::ClusterChanged { found, .. }), _) if self.kept.physical_cluster.is_none() => {
                // The connection in use leads to the virtual cluster until another one takes its place.
                if !self.is_virtual_cluster(found) {
                    self.elsewhere = Some(found.clone());
                    self.set_link_terms();
                }
            }
            (Some(Problem::ClusterChanged { found, .. }), _) => {
                let is_known = self.kept.other_cluster.as_ref().is_some_and(|known| known.uid == **found);
                if !is_known {
                    tracing::warn!(binding = self.name, cluster = %found, "another physical cluster answers");
                    let (uid, hash) = (found.to_string(), short_hash(&["cluster", &self.identity.claim(), found]));
                    self.kept.other_cluster = Some(OtherClusterStatus { uid, hash, since: now });
                }
            }
            // The first one is back, or the other one was confirmed.
            (_, Some(_)) => {
                if self.kept.other_cluster.take().is_some() {
                    self.again = None;
                }
            }
            (_, None) => {}
        }
        self.is_same_cluster =
            state.in_use.as_ref().is_some_and(|physical| self.is_virtual_cluster(physical.cluster()));
        self.say_what_hinders();
    }

    fn is_virtual_cluster(&self, cluster: &Uid) -> bool {
        *cluster == self.process.kube_system || *cluster == self.process.virtual_cluster
    }

    /// What the Secret may lead to, as it is known now.
    pub(super) fn set_link_terms(&self) {
        let mut terms = link_terms(&self.terms, &self.kept, self.process.loopback);
        if let (Expected::First, Some(elsewhere)) = (&terms.expected, &self.elsewhere) {
            terms.expected = Expected::Cluster(elsewhere.clone());
        }
        replace(&self.parts.link_terms, terms);
    }

    fn use_link(&mut self, physical: Option<&Arc<Physical>>) {
        let is_same = same(self.parts.link.borrow().as_ref(), physical);
        if is_same {
            return;
        }
        self.restored_physical = physical.map(|physical| physical.restores().changes());
        if let Some(physical) = physical
            && let Err(error) = self.parts.forward.lead(physical.connection(), &self.gate)
        {
            tracing::error!(binding = self.name, %error, "no clients can be made for a physical cluster");
            return;
        }
        self.again = None;
        self.parts.link.send_replace(physical.cloned());
    }

    /// Each step to the watch of the physical cluster that is not done yet.
    async fn take(&mut self, physical: &Arc<Physical>) -> Result<(), Refusal> {
        if self.kept.other_cluster.is_some() || self.is_detached() {
            return Ok(());
        }
        if self.is_gone {
            return self.watch_orphans(physical).await;
        }
        self.claim_binding().await?;
        if self.kept.physical_cluster.is_none() {
            self.kept.physical_cluster = Some(physical.cluster().to_string());
            // Before anything is made there: a process that takes over has to know it.
            if let Err(refusal) = self.store_status().await {
                self.kept.physical_cluster = None;
                return Err(refusal);
            }
        }
        self.set_link_terms();
        self.keep_record().await;
        if !self.is_terminating() && !self.observes() {
            self.hold_object().await?;
        }
        if !self.is_taken {
            self.take_namespace(physical).await?;
        }
        // Also where it is another's: what was lent before is watched, and bars keep it as it is.
        let is_first_conflict = !self.is_taken && self.conflict.is_some() && self.parts.watched.borrow().is_none();
        // An earlier binding of its name may have left nodes, and their machines are there.
        if !is_first_conflict || self.view().size().nodes > 0 {
            self.watch(physical);
        }
        Ok(())
    }

    fn watch(&self, physical: &Arc<Physical>) {
        let is_watched = same(self.parts.watched.borrow().as_ref(), Some(physical));
        if !is_watched {
            self.parts.watched.send_replace(Some(Arc::clone(physical)));
        }
    }

    /// The cluster that orphaned nodes are from is watched, since it decides whether their leases are renewed. Nothing is written.
    async fn watch_orphans(&mut self, physical: &Arc<Physical>) -> Result<(), Refusal> {
        if self.kept.physical_cluster.is_none() {
            return Ok(());
        }
        if !self.is_taken {
            self.take_namespace(physical).await?;
        }
        self.watch(physical);
        Ok(())
    }

    /// The name of this installation is in the status before anything else is written: of two that come at once one has written it.
    /// Where it could not be written that is a trouble already, and tried again.
    async fn claim_binding(&mut self) -> Result<(), Refusal> {
        let is_ours = self.object.status.lease.as_ref() == Some(&self.served_with);
        if is_ours || self.gate.check().is_err() {
            // What may not be written now is written with the next status.
            return Ok(());
        }
        let Err(refusal) = self.store_status().await else { return Ok(()) };
        let why = if refusal.reason == RefusalReason::Conflict { Unnamed::Outrun } else { Unnamed::Refused };
        let nodes = self.view().size().nodes;
        if serves_unnamed(why, nodes) { Ok(()) } else { Err(refusal) }
    }

    /// What the nodes of the binding need if it is deleted by force is in its Lease before the first of them is made (decision S22).
    async fn keep_record(&mut self) {
        let may_write = !self.observes() && self.gate.check().is_ok();
        let (Some(spec), Some(cluster)) = (&self.spec, &self.kept.physical_cluster) else { return };
        let Some(text) = orphans::record(spec, &self.identity, cluster) else { return };
        if !may_write || self.recorded.as_ref() == Some(&text) {
            return;
        }
        let kept = orphans::keep(&self.parts.clients, &self.lease, &text).await;
        match self.told(Thing::BindingRecord, kept) {
            Ok(orphans::Kept::Yes) => self.recorded = Some(text),
            Ok(orphans::Kept::NoLease) => {}
            Err(refusal) => {
                tracing::debug!(
                    binding = self.name, reason = refusal.reason.as_str(), error = %refusal,
                    "the record of a binding could not be written"
                );
            }
        }
    }

    /// The finalizer is on the object before anything is made for it.
    async fn hold_object(&mut self) -> Result<(), Refusal> {
        let mut finalizers = self.object.metadata.finalizers.clone().unwrap_or_default();
        if finalizers.iter().any(|finalizer| finalizer == keys::BINDING_FINALIZER) {
            return Ok(());
        }
        finalizers.push(keys::BINDING_FINALIZER.to_owned());
        let stored = self.parts.clients.finalizers(&self.name, self.version(), &finalizers).await;
        self.parts.writes.wrote(WriteKind::Binding, "finalizer", &stored);
        let stored = self.told(Thing::Binding, stored)?;
        self.has_stored(stored);
        Ok(())
    }

    async fn take_namespace(&mut self, physical: &Physical) -> Result<(), Refusal> {
        // One that does not exist stands in the way of no other.
        if !self.is_gone && self.shares_id(Look::Now).await? {
            return Ok(());
        }
        let access = if self.observes() || self.is_gone { Access::Look } else { Access::Write };
        let (identity, cluster) = (self.identity.clone(), self.terms.binding.cluster.clone());
        let borrower = Borrower { identity: &identity, cluster: &cluster };
        let taken = take(&self.parts.clients, &self.terms.mount_namespace, &borrower, access).await;
        match self.told(Thing::BorrowerLease, taken)? {
            Taken::Ours(_) => {
                self.conflict = None;
                self.is_taken = true;
                // A cluster that was set back while no syncer ran is found before anything is judged by what it shows.
                self.round(Why::Time).await;
            }
            Taken::Another(why) => {
                self.note_earlier_id(physical, &why);
                self.is_anothers(why.to_string());
            }
            Taken::Free => self.conflict = None,
        }
        Ok(())
    }

    /// A Lease of an earlier binding of our name shows that its machines are in the physical cluster that answers.
    fn note_earlier_id(&self, physical: &Physical, why: &WhyConflict) {
        if let WhyConflict::ClusterId { found: Some(id), .. } = why {
            let touched = self.view().was_lent_from(physical.cluster(), id);
            self.look_at(touched);
        }
    }

    /// Whether another binding that was made earlier has the same `clusterID`.
    async fn shares_id(&mut self, look: Look) -> Result<bool, Refusal> {
        let looked = self.same_id.earlier(look, &self.parts.clients, &self.object, &self.terms).await;
        let Some(other) = looked else { return Ok(false) };
        let Some(other) = self.told(Thing::AllBindings, other)? else { return Ok(false) };
        let id = &*self.terms.binding.cluster;
        self.conflict = Some(Conflict::ClusterId(format!("ClusterBinding {other} has the same clusterID {id:?}")));
        self.is_taken = false;
        self.say_what_hinders();
        Ok(true)
    }

    fn is_anothers(&mut self, why: String) {
        self.is_taken = false;
        self.conflict = Some(Conflict::Borrower(why));
        self.say_what_hinders();
    }

    /// A refusal is a trouble until the same succeeds.
    pub(super) fn told<T>(&self, thing: Thing, answer: Result<T, Refusal>) -> Result<T, Refusal> {
        match &answer {
            Ok(_) => self.parts.troubles.over(thing),
            Err(refusal) => self.parts.troubles.met_at(thing, refusal),
        }
        answer
    }

    /// What is looked at each minute: who has what the binding needs, where that may have changed, and whether a cluster was set back.
    pub(super) async fn minute(&mut self) {
        if self.is_gone {
            return;
        }
        if !self.is_taken {
            // The Lease of another may be gone by now.
            self.again = None;
            return;
        }
        // A list that was refused to any part of the binding is tried until it succeeds: the refusal is shown for so long.
        let is_refused = self.parts.troubles.is_met(Thing::AllBindings);
        match self.shares_id(if is_refused { Look::Now } else { Look::WhenDue }).await {
            Ok(true) => {}
            Ok(false) => self.round(Why::Time).await,
            Err(refusal) => {
                tracing::debug!(
                    binding = self.name, reason = refusal.reason.as_str(), error = %refusal,
                    "the bindings could not be listed"
                );
            }
        }
    }

    /// What would be disrupted waits until it is known that neither cluster was set back (decision S25).
    pub(super) async fn prove(&mut self) {
        let is_due = self.prove_again.is_none_or(|again| Instant::now() >= again);
        if self.is_gone || !self.is_taken || !is_due || !self.view().awaits_round() {
            return;
        }
        self.round(Why::Asked).await;
        // Where it could not be made the next tick tries again, and not each change before.
        let is_open = self.view().awaits_round();
        self.prove_again = is_open.then(|| Instant::now() + TICK);
    }

    /// A round of the witness, where it may write.
    async fn round(&mut self, why: Why) {
        let may_write = !self.observes() && !self.is_gone && self.rival.is_none() && self.gate.check().is_ok();
        if !may_write || self.kept.other_cluster.is_some() {
            return;
        }
        // While a restore waits nothing is raised, and the other cluster may be set back, too.
        let why = if self.kept.restored.is_some() { Why::Asked } else { why };
        if let Err(refusal) = self.make_round(why).await {
            tracing::debug!(binding = self.name, reason = refusal.reason.as_str(), error = %refusal, "a round of the witness failed");
        }
    }

    pub(super) async fn make_round(&mut self, why: Why) -> Result<(), Refusal> {
        let Some(pair) = self.pair() else { return Ok(()) };
        let (identity, cluster) = (self.identity.clone(), self.terms.binding.cluster.clone());
        let places = Places {
            lease: &self.lease,
            namespace: &self.terms.mount_namespace,
            borrower: Borrower { identity: &identity, cluster: &cluster },
            pair: &pair,
        };
        let begun = self.now().steady;
        let found = witness::make(&self.parts.clients, &places, why).await;
        // One that only compares writes nothing, so its success says nothing about the right to write.
        let thing = if why == Why::Asked { Thing::WitnessReads } else { Thing::Witness };
        match self.told(thing, found)? {
            // While a restore waits both stores may be of one earlier moment.
            Found::Agree if self.kept.restored.is_some() && why != Why::Confirmed => {}
            Found::Agree => {
                self.view().agreed(begun);
            }
            Found::NoLease => {
                tracing::debug!(binding = self.name, "there is no lease that keeps the counter of the witness")
            }
            Found::Taken(why) => self.is_anothers(why),
            Found::SetBack(found) => {
                let stores: Vec<Store> = found.iter().map(|found| found.store).collect();
                let hash = hash(&pair, &found);
                if self.is_set_back(&Sign::Numbers(found), Some(hash)) {
                    self.contradict(&stores);
                }
            }
        }
        Ok(())
    }

    fn pair(&self) -> Option<Pair> {
        let physical = Uid::from(self.kept.physical_cluster.as_deref()?);
        Some(Pair { binding: self.identity.binding_uid().clone(), physical })
    }

    /// Versions may show nothing: then the watches learn here that what they know is of another history.
    fn contradict(&self, stores: &[Store]) {
        let (before, after) = (ResourceVersion::default(), ResourceVersion::default());
        for store in stores {
            match store {
                Store::Physical => {
                    if let Some(physical) = self.parts.link.borrow().as_ref() {
                        physical.restores().contradicted(&before, &after);
                    }
                }
                Store::Virtual => self.process.restores.contradicted(&before, &after),
            }
        }
    }

    /// A cluster was set back: nothing is judged by what is missing there until an operator confirms it. Where another restore waits,
    /// both are confirmed together, by a hash that no person has seen before. Returns whether it was news.
    pub(super) fn is_set_back(&mut self, sign: &Sign, hash: Option<String>) -> bool {
        let Some(store) = self.unconfirmed.sees(sign) else { return false };
        let (cluster, sentence) = (side(store), sign.to_string());
        tracing::warn!(
            binding = self.name,
            ?cluster,
            sentence,
            "a cluster of a binding was set back; confirm that to continue"
        );
        let restored = match self.kept.restored.take() {
            Some(known) => RestoredStatus {
                cluster,
                hash: short_hash(&["restored", &known.hash, &sentence]),
                sentence: sign.after(&known.sentence),
                since: known.since,
            },
            None => {
                let since = report::second(self.now().wall);
                let of_version = || short_hash(&["restored", &self.identity.claim(), &format!("{cluster:?}"), &since]);
                RestoredStatus {
                    cluster,
                    hash: hash.unwrap_or_else(of_version),
                    sentence: report::capital(&sentence),
                    since,
                }
            }
        };
        self.kept.restored = Some(restored);
        // Claims are read again.
        self.is_taken = false;
        self.again = None;
        self.say_what_hinders();
        true
    }
}

/// What is known to be set back and not confirmed, by what was stored of it.
pub(super) fn unconfirmed(restored: Option<&RestoredStatus>) -> Unconfirmed {
    let Some(restored) = restored else { return Unconfirmed::default() };
    let store = match restored.cluster {
        StoredSide::Virtual => Some(Store::Virtual),
        StoredSide::Physical => Some(Store::Physical),
        StoredSide::Unknown => None,
    };
    Unconfirmed::left(store, &restored.sentence)
}

fn side(store: Store) -> StoredSide {
    match store {
        Store::Virtual => StoredSide::Virtual,
        Store::Physical => StoredSide::Physical,
    }
}

/// Whether both are the same connection.
fn same(one: Option<&Arc<Physical>>, other: Option<&Arc<Physical>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}
/// Twelve digits that stand for these texts.
fn short_hash(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
        hasher.update([0]);
    }
    hasher.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
