//! An attempt, or a sweep, carried out: each of its orders becomes one request or one wait.
//!
//! Every request has a deadline of its own, and none is made twice unless the attempt orders it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use topoloom_core::nodelock::attempt::{
    Attempt, AttemptOrder, AttemptOutcome, BindFailure, ObservedNode, WriteOutcome,
};
use topoloom_core::nodelock::needs::LockKey;
use topoloom_core::nodelock::sightings::{LiveReads, PodSighting};
use topoloom_core::nodelock::sweep::{self, Sweep};
use topoloom_core::nodelock::{LockValue, NodeName, Note, ParsedValue, Pod, PodId, PodKey, Sightings, bare};
use topoloom_core::version::ResourceVersion;

use super::crowd::BindSeat;
use super::requests::Requests;
use super::view::{Listener, View};
use super::wire::{self, Change};
use topoloom_cluster::Refusal;

/// How often a lock is removed from a node that changes meanwhile.
const REMOVALS: usize = 10;

/// Carries them out.
pub struct Carrier {
    view: Arc<View>,
    requests: Requests,
    /// Which process this is, for notes.
    instance: Arc<str>,
    /// The next attempt's number.
    tokens: AtomicU32,
}

/// An attempt and what it needs to be written down.
pub struct Flight {
    /// The attempt.
    pub attempt: Attempt,
    /// Its pod.
    pub pod: PodId,
    /// Its node.
    pub node: NodeName,
    /// Its keys, with the value for each.
    pub keys: Vec<(LockKey, LockValue)>,
    /// Which attempt it is, for notes.
    pub token: u32,
    /// When it gives up, by the steady clock.
    pub until: Duration,
    /// The same by the wall clock, for notes.
    pub deadline: Timestamp,
    /// Its place among all Binds.
    pub place: BindSeat,
    /// All waiting ends when this is cancelled.
    pub closing: CancellationToken,
}

/// The result of an attempt.
pub struct Landed {
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// The attempt.
    pub attempt: Attempt,
    /// How long it waited for others.
    pub waited: Duration,
}

impl Carrier {
    /// One that knows what this view knows. Attempts are numbered from `token` on, which is different in each process.
    #[must_use]
    pub fn new(view: Arc<View>, requests: Requests, instance: Arc<str>, token: u32) -> Self {
        Self { view, requests, instance, tokens: AtomicU32::new(token) }
    }

    /// What is known.
    #[must_use]
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// Live requests.
    #[must_use]
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// The number of the next attempt.
    pub fn token(&self) -> u32 {
        self.tokens.fetch_add(1, Ordering::Relaxed)
    }

    /// Carries an attempt to its end. `gone`: its caller does not wait any more; what is under way is still brought to its
    /// end, so this must not be dropped.
    pub async fn carry(&self, flight: Flight, gone: &CancellationToken) -> Landed {
        let Flight { mut attempt, pod, node, keys, token, until, deadline, mut place, closing } = flight;
        let names: Vec<LockKey> = keys.iter().map(|(key, _)| *key).collect();
        let mut listener = self.view.listen(&node);
        let (mut live, mut waited) = (LiveReads::default(), Duration::ZERO);
        loop {
            if gone.is_cancelled() {
                attempt.give_up();
            }
            let requests = self.requests.within(until.saturating_sub(self.view.now()));
            match attempt.next(self.view.now(), super::random()) {
                AttemptOrder::End(outcome) => return Landed { outcome, attempt, waited },
                AttemptOrder::Look { live: must } => match self.look(&requests, &node, &names, must, &live).await {
                    Ok(seen) => {
                        let cached = if must { None } else { self.view.pod(&pod).map(|seen| seen.pod) };
                        attempt.looked(self.view.clock(), seen, cached);
                    }
                    Err(refusal) => attempt.unread(refusal.message.into()),
                },
                AttemptOrder::AskPod => match self.read(&requests, &pod.named()).await {
                    Ok(read) => attempt.asked(read.map(|seen| seen.pod)),
                    Err(refusal) => attempt.unread(refusal.message.into()),
                },
                AttemptOrder::AskHolder { pod: named, value } => {
                    match self.ask_holder(&requests, &node, &named, &value, &mut live).await {
                        Ok(()) => attempt.holder_asked(),
                        Err(refusal) => attempt.unread(refusal.message.into()),
                    }
                }
                AttemptOrder::AskWaiting => match self.ask_waiting(&requests, &node, &mut live).await {
                    Ok(()) => attempt.holder_asked(),
                    Err(refusal) => attempt.unread(refusal.message.into()),
                },
                AttemptOrder::AskUnrecorded { pod: owner } => match self.read(&requests, &owner.named()).await {
                    Ok(read) => attempt.unrecorded_asked(read.map(|seen| seen.pod).as_ref()),
                    Err(refusal) => attempt.unread(refusal.message.into()),
                },
                AttemptOrder::Wait { held, until } => {
                    if closing.is_cancelled() {
                        attempt.turned_away(BindFailure::Stopping);
                        continue;
                    }
                    if let Err(full) = place.wait() {
                        attempt.turned_away(BindFailure::Crowded { node: node.clone(), full, held: Some(held) });
                        continue;
                    }
                    let began = self.view.now();
                    if waited.is_zero() {
                        tracing::debug!(%pod, node = &*node, holder = held.holder.as_ref().map(ToString::to_string), why = held.why.word(), "waits for a lock");
                    }
                    self.wait(&mut listener, until, gone, &closing).await;
                    waited += self.view.now().saturating_sub(began);
                    // What was read before counts no longer.
                    live.clear();
                    attempt.woken();
                }
                // Cancellation does not shorten the back-off of a rollback.
                AttemptOrder::Pause(pause) => tokio::time::sleep(pause).await,
                AttemptOrder::Revoke { pod: from, value } => {
                    attempt.answered(self.revoke_within(&requests, &from, &value).await)
                }
                AttemptOrder::Fence { version, value } => {
                    let patch = wire::fence_patch(&pod.uid, &version, &value);
                    attempt.answered(self.patch_pod(&requests, &pod, &patch).await);
                }
                AttemptOrder::Restore { version, key, pod: owner } => {
                    let token = self.token();
                    let key = names.get(key).copied().unwrap_or(LockKey::Shared);
                    let value = value_of(key, stamp(Timestamp::now(), token), &owner);
                    let change = Change::Claim(value.clone(), self.note(key, value, &owner, token, deadline));
                    attempt.answered(self.patch_node(&requests, &node, &version, &[(key, change)]).await);
                }
                AttemptOrder::Claim { version } => {
                    let note = |key, value: &LockValue| self.note(key, value.clone(), &pod, token, deadline);
                    let change =
                        |(key, value): &(LockKey, LockValue)| (*key, Change::Claim(value.clone(), note(*key, value)));
                    let changes: Vec<_> = keys.iter().map(change).collect();
                    let answer = self.patch_node(&requests, &node, &version, &changes).await;
                    if matches!(answer, WriteOutcome::Done(_)) {
                        keys.iter().for_each(|(_, value)| self.view.stands(value));
                    }
                    attempt.answered(answer);
                }
                AttemptOrder::Release { version, keys: at } => {
                    let keys = at.iter().filter_map(|at| names.get(*at));
                    let changes: Vec<_> = keys.map(|key| (*key, Change::Release)).collect();
                    attempt.answered(self.patch_node(&requests, &node, &version, &changes).await);
                }
                AttemptOrder::Bind { version } => attempt.answered(requests.bind(&pod, &version, &node).await),
            }
        }
    }

    /// Carries a sweep of a node to its end.
    ///
    /// # Errors
    /// When a read failed, or a write was not answered as it should.
    pub async fn sweep(&self, node: &NodeName, sweep: &mut Sweep) -> Result<(), Refusal> {
        let mut live = LiveReads::default();
        let requests = &self.requests;
        while let Some(order) = sweep.next() {
            match order {
                sweep::SweepOrder::Look => {
                    let seen = self.look(requests, node, &LockKey::ALL, false, &live).await?;
                    sweep.looked(self.view.clock(), seen);
                }
                sweep::SweepOrder::AskHolder { pod, value } => {
                    self.ask_holder(requests, node, &pod, &value, &mut live).await?;
                    sweep.holder_asked();
                }
                sweep::SweepOrder::AskWaiting => {
                    self.ask_waiting(requests, node, &mut live).await?;
                    sweep.holder_asked();
                }
                sweep::SweepOrder::Revoke { pod, value } => {
                    sweep.answered(&self.revoke_within(requests, &pod, &value).await)
                }
                sweep::SweepOrder::Release { version, keys } => {
                    let changes: Vec<_> =
                        keys.iter().filter_map(|at| LockKey::ALL.get(*at)).map(|key| (*key, Change::Release)).collect();
                    sweep.answered(&self.patch_node(requests, node, &version, &changes).await);
                }
            }
        }
        Ok(())
    }

    async fn look(
        &self,
        requests: &Requests,
        node: &NodeName,
        keys: &[LockKey],
        must: bool,
        live: &LiveReads,
    ) -> Result<Option<ObservedNode>, Refusal> {
        let cached = if must { None } else { self.view.node(node, keys, live) };
        if cached.is_some() {
            return Ok(cached);
        }
        Ok(requests.node(node).await?.and_then(|meta| self.view.node_read(&meta, keys, live)))
    }

    async fn ask_holder(
        &self,
        requests: &Requests,
        node: &NodeName,
        named: &PodKey,
        value: &LockValue,
        live: &mut LiveReads,
    ) -> Result<(), Refusal> {
        let read = self.read(requests, named).await?;
        self.view.confirmed(node, named, value, read.map(|seen| seen.pod), live);
        Ok(())
    }

    async fn ask_waiting(&self, requests: &Requests, node: &NodeName, live: &mut LiveReads) -> Result<(), Refusal> {
        let before = self.view.known(Sightings::moment);
        live.listed(requests.bound(node).await?, before);
        Ok(())
    }

    /// Changes keys of a node in the version that was decided on, and enters the outcome.
    async fn patch_node(
        &self,
        requests: &Requests,
        name: &NodeName,
        version: &ResourceVersion,
        changes: &[(LockKey, Change)],
    ) -> WriteOutcome {
        // Notes of other keys are kept, so they have to be known in that version.
        let Some(locks) = self.view.known(|known| known.locks_in(name, version).cloned()) else {
            return WriteOutcome::Conflict;
        };
        let (answer, meta) = requests.patch_node(name, &wire::node_patch(version, &locks, changes)).await;
        if let Some(meta) = meta {
            self.view.node_written(version, &meta);
        }
        answer
    }

    /// Waits until something changes, until that moment, or until the caller is gone.
    async fn wait(
        &self,
        listener: &mut Listener,
        until: Duration,
        gone: &CancellationToken,
        closing: &CancellationToken,
    ) {
        tokio::select! {
            () = listener.changed() => {}
            () = tokio::time::sleep_until(self.view.at(until)) => {}
            () = gone.cancelled() => {}
            () = closing.cancelled() => {}
        }
    }

    /// Takes a lock from a pod that is not bound.
    pub async fn revoke(&self, pod: &Pod, value: &LockValue) -> WriteOutcome {
        self.revoke_within(&self.requests, pod, value).await
    }

    async fn revoke_within(&self, requests: &Requests, pod: &Pod, value: &LockValue) -> WriteOutcome {
        let patch = wire::revoke_patch(&pod.key.uid, &pod.version, value);
        self.patch_pod(requests, &pod.key, &patch).await
    }

    /// Marks a pod, and enters the outcome.
    async fn patch_pod(&self, requests: &Requests, pod: &PodId, patch: &serde_json::Value) -> WriteOutcome {
        let (answer, seen) = requests.patch_pod(pod, patch).await;
        if let Some(seen) = seen {
            self.view.pod_read(&seen);
        }
        answer
    }

    /// Reads a pod, and enters what it is.
    async fn read(&self, requests: &Requests, pod: &PodKey) -> Result<Option<PodSighting>, Refusal> {
        let seen = requests.pod(pod).await?;
        if let Some(seen) = &seen {
            self.view.pod_read(seen);
        }
        Ok(seen)
    }

    /// Removes a lock of a node if it is this one, even if the node changes meanwhile; `None` if it is another.
    ///
    /// # Errors
    /// When the node cannot be read.
    pub async fn remove(
        &self,
        node: &NodeName,
        key: LockKey,
        value: &LockValue,
    ) -> Result<Option<WriteOutcome>, Refusal> {
        let mut answer = WriteOutcome::Conflict;
        for _ in 0..REMOVALS {
            let Some(meta) = self.requests.node(node).await? else { return Ok(Some(WriteOutcome::Absent)) };
            let seen = self.view.node_read(&meta, &[key], &LiveReads::default());
            let Some(seen) = seen else { return Ok(Some(WriteOutcome::Absent)) };
            if seen.keys.first().and_then(|sight| sight.lock.as_ref()).is_none_or(|lock| lock.value != *value) {
                return Ok(None);
            }
            answer = self.patch_node(&self.requests, node, &seen.version, &[(key, Change::Release)]).await;
            if answer != WriteOutcome::Conflict {
                break;
            }
        }
        Ok(Some(answer))
    }

    /// The pod with what it needs: as the watch showed it last, or as it is now.
    ///
    /// # Errors
    /// When it has to be read, and cannot be.
    pub async fn find(&self, pod: &PodId) -> Result<Option<PodSighting>, Refusal> {
        match self.view.pod(pod) {
            Some(seen) => Ok(Some(seen)),
            None => self.requests.pod(&pod.named()).await,
        }
    }

    fn note(&self, key: LockKey, value: LockValue, pod: &PodId, token: u32, deadline: Timestamp) -> Note {
        let has_no_name = key != LockKey::Shared;
        Note {
            value,
            uid: pod.uid.clone(),
            pod: has_no_name.then(|| (Arc::clone(&pod.namespace), Arc::clone(&pod.name))),
            attempt: token.to_string().into(),
            instance: Arc::clone(&self.instance),
            deadline,
        }
    }
}

/// What is written under a key for a pod.
pub(super) fn value_of(key: LockKey, time: Timestamp, pod: &PodId) -> LockValue {
    match key {
        LockKey::Shared => ParsedValue::of(time, &pod.namespace, &pod.name).to_string().into(),
        LockKey::Cambricon => bare(time).into(),
    }
}

/// A time with this token in its fraction of a second: a parser reads the second, and no two attempts are equal.
pub(super) fn stamp(wall: Timestamp, token: u32) -> Timestamp {
    let nanoseconds = i32::try_from(token % 1_000_000_000).unwrap_or_default();
    Timestamp::new(wall.as_second(), nanoseconds).unwrap_or(wall)
}

#[cfg(test)]
mod tests;
