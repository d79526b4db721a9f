//! One binding: what is done in which order after each change.
//!
//! Owns the state of a binding that is no node's: which connection is used, whose its namespace is, what was set back, held and
//! confirmed, and what the status says. After each change everything is looked at again, in one order: connect, verbs, bars, guard,
//! witness, deletion, status. So a step that failed is tried with the next change, or the next tick, and none depends on the event that
//! caused it.
//!
//! ```text
//! Secret ─► connection ─► status: lease, physicalClusterUID ─► record ─► finalizer ─► Lease of the borrower
//!        ─► the physical cluster is watched
//! ```
//!
//! # Failure story
//!
//! A request that fails is tried again after a pause, and shows in a condition where a person has to do something. The order above is
//! kept in every failure: nothing is written to a physical cluster before its UID is stored, and the first thing there is the Lease.
//! Bars do not wait for any of this: see [`super::keeper`]. Of a binding that was deleted by force nothing is written but leases and
//! facts about nodes and pods: its object does not exist, and its namespace is looked at alone.

mod link;
mod rival;
mod status;

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};
use topoloom_api::cluster_binding::{Mode, PolicySource};
use topoloom_api::condition::Reason;
use topoloom_api::names::CONFIRM_ANNOTATION;
use topoloom_api::{ClusterBinding, ClusterBindingSpec};
use topoloom_cluster::events::Urgency;
use topoloom_cluster::gate::Gate;
use topoloom_cluster::pause::Pauses;
use topoloom_cluster::work::WorkQueue;
use topoloom_cluster::{Refusal, RefusalReason};
use topoloom_core::names::Uid;
use topoloom_core::version::ResourceVersion;
use topoloom_sync::deletion::Existence;
use topoloom_sync::guard::HeldBatch;
use topoloom_sync::identity::Identity;
use topoloom_sync::keys;
use topoloom_sync::node::Now;
use topoloom_sync::witness::{Sign, Store, Unconfirmed};

use self::link::unconfirmed;
pub(super) use self::status::{notify, unusable};
use super::bars::Hindrances;
use super::elsewhere::Rivalry;
use super::going::{self, Left};
use super::news::News;
use super::others::SameId;
use super::report::{Conflict, Going, Kept, held_sentence, reason_of_batch};
use super::requests::{Clients, LeaseName};
use super::unstored::Unstored;
use super::verbs::Verbs;
use super::witness::Why;
use super::{Beginning, Carried, Ended, Existing, Holding, Process, Seen, Tell};
use crate::convert::binding::{Problems, Reading, Terms, read};
use crate::feeds::SharedView;
use crate::heartbeats::Heartbeats;
use crate::ledger::{PhysicalName, Touched};
use crate::metrics::{Counted, WriteKind};
use crate::physical::{self, CredentialState, Forward, Physical};
use crate::pods::Inbox;
use crate::policies::PolicyFeed;
use crate::troubles::{Thing, Troubles};
use crate::view::{VerbOnBinding, View};

/// How often the clocks are compared, the guard is reviewed, and what failed is tried again.
const TICK: Duration = Duration::from_secs(5);
/// A moment after the first of many changes: they are one report.
const SETTLES: Duration = Duration::from_millis(500);

/// What a conductor works with.
pub(super) struct Parts {
    pub(super) clients: Clients,
    pub(super) view: SharedView,
    pub(super) nodes: WorkQueue<PhysicalName>,
    pub(super) pods: Inbox,
    pub(super) policies: PolicyFeed,
    pub(super) heartbeats: Heartbeats,
    pub(super) forward: Forward,
    pub(super) troubles: Troubles,
    pub(super) writes: Counted,
    /// The connection that there is.
    pub(super) link: watch::Sender<Option<Arc<Physical>>>,
    /// The one that is watched: once the namespace is ours.
    pub(super) watched: watch::Sender<Option<Arc<Physical>>>,
    pub(super) link_terms: watch::Sender<physical::Terms>,
    pub(super) link_state: watch::Receiver<CredentialState>,
    pub(super) source: watch::Sender<PolicySource>,
    pub(super) empty: watch::Sender<Duration>,
    pub(super) hindrances: watch::Sender<Hindrances>,
}

/// The controller of one binding of one UID.
pub(super) struct Conductor {
    process: Arc<Process>,
    name: String,
    lease: LeaseName,
    /// The same as the status has it.
    served_with: String,
    /// The Lease of the installation that the binding is taken over from, until the status has ours.
    taken_from: Option<String>,
    /// That of the one that it was taken over from last.
    earlier: Option<String>,
    /// That of the one over whose name ours was written again.
    written_over: Option<String>,
    /// The installation whose name is in the status in place of ours.
    rival: Option<Rivalry>,
    gate: Gate,
    tell: Tell,
    parts: Parts,
    identity: Identity,
    /// As it was read or written last.
    object: Arc<ClusterBinding>,
    /// The virtual cluster was set back, and nothing of ours was stored since: the version of the object may be of the lost history.
    is_version_void: bool,
    /// Whether it exists, or is made of its record.
    existing: Existing,
    /// The spec that the terms in force are of, where it has no mistake.
    spec: Option<ClusterBindingSpec>,
    /// What the Lease keeps of it.
    recorded: Option<String>,
    /// What is wrong with its spec.
    problems: Option<Problems>,
    /// What is in force of it.
    terms: Terms,
    /// Whether that is without a mistake.
    is_valid: bool,
    is_gone: bool,
    kept: Kept,
    /// What is behind [`Kept::restored`].
    unconfirmed: Unconfirmed,
    conflict: Option<Conflict>,
    is_same_cluster: bool,
    /// Where the Secret leads now, while nothing is borrowed from any cluster: another one than it led to first.
    elsewhere: Option<Uid>,
    /// The namespace is ours.
    is_taken: bool,
    /// When it is looked at whether another binding has the same `clusterID`.
    same_id: SameId,
    verbs: Verbs,
    held: Option<HeldBatch>,
    is_recalling: bool,
    going: Option<Going>,
    /// What failed last on the way to the physical cluster, and when it is tried again.
    pauses: Pauses,
    again: Option<Instant>,
    /// When a round of the witness that something waits for is tried again.
    prove_again: Option<Instant>,
    began: Instant,
    /// When the status was written last.
    written: Option<Instant>,
    /// What of the status that was written last is not stored.
    unstored: Option<Box<Unstored>>,
    /// What was said of that last.
    said_unstored: Option<String>,
    /// A status that differs waits until then.
    report_at: Option<Instant>,
    placement: u64,
    restored_physical: Option<watch::Receiver<u64>>,
}

/// What woke the conductor.
enum Woke {
    Object,
    Changed,
    News,
    VirtualSetBack,
    PhysicalSetBack,
    Tick,
    Minute,
    Ended,
}

impl Conductor {
    pub(super) fn new(process: &Arc<Process>, holding: &Holding, parts: Parts, beginning: Beginning) -> Self {
        let Beginning { object, existing, reading, carried, taken_from, earlier } = beginning;
        let Reading { terms, problems } = reading;
        let spec = problems.is_none().then(|| object.spec.clone().ok()).flatten();
        Self {
            process: Arc::clone(process),
            name: holding.name.clone(),
            lease: holding.lease.clone(),
            served_with: holding.lease.to_string(),
            taken_from,
            earlier,
            written_over: None,
            rival: None,
            spec,
            recorded: None,
            gate: holding.gate.clone(),
            tell: Arc::clone(&holding.tell),
            identity: terms.binding.identity.clone(),
            is_valid: problems.is_none(),
            object,
            is_version_void: false,
            existing,
            problems,
            terms,
            is_gone: existing == Existing::Recorded,
            unconfirmed: unconfirmed(carried.kept.restored.as_ref()),
            kept: carried.kept,
            conflict: None,
            is_same_cluster: false,
            elsewhere: None,
            is_taken: false,
            same_id: SameId::new(&process.added),
            verbs: Verbs::default(),
            held: None,
            is_recalling: false,
            going: None,
            pauses: Pauses::default(),
            again: None,
            prove_again: None,
            began: Instant::now(),
            written: None,
            unstored: None,
            said_unstored: None,
            report_at: None,
            placement: 0,
            restored_physical: None,
            parts,
        }
    }

    /// Serves the binding until it is gone, or has to begin again.
    pub(super) async fn run(mut self, mut objects: watch::Receiver<Seen>) -> Ended {
        let (mut news, troubled) = (self.view().news(), self.parts.troubles.changed());
        let mut virtual_restores = self.process.restores.changes();
        let mut switch = self.gate.switch().changes();
        let mut state = self.parts.link_state.clone();
        let (mut ticks, mut rounds) = (interval(TICK), interval(self.process.witness.max(Duration::from_secs(1))));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick comes at once, and the first round is made when the namespace is ours.
        let mut news_at: Option<Instant> = None;
        loop {
            if let Some(ended) = self.settle().await {
                return ended;
            }
            let woke = loop {
                let (report_at, rival_at) = (self.report_at, self.rival.as_ref().map(|rival| rival.at));
                let woke = tokio::select! {
                    changed = objects.changed() => if changed.is_ok() { Woke::Object } else { Woke::Ended },
                    changed = state.changed() => if changed.is_ok() { Woke::Changed } else { Woke::Ended },
                    changed = virtual_restores.changed() => {
                        if changed.is_ok() { Woke::VirtualSetBack } else { Woke::Ended }
                    }
                    () = set_back(self.restored_physical.as_mut()) => Woke::PhysicalSetBack,
                    changed = switch.changed() => if changed.is_ok() { Woke::Changed } else { Woke::Ended },
                    () = troubled.notified() => Woke::Changed,
                    _ = ticks.tick() => Woke::Tick,
                    _ = rounds.tick() => Woke::Minute,
                    () = due(report_at) => Woke::Changed,
                    () = due(rival_at) => Woke::Changed,
                    () = due(news_at), if news_at.is_some() => Woke::News,
                    changed = news.changed(), if news_at.is_none() => {
                        if changed.is_err() {
                            break Woke::Ended;
                        }
                        news_at = Some(Instant::now() + SETTLES);
                        continue;
                    }
                };
                break woke;
            };
            if matches!(woke, Woke::News) {
                news_at = None;
            }
            if let Some(ended) = self.woke(woke, &mut objects).await {
                return ended;
            }
        }
    }

    /// What has woken the conductor is taken down. What follows is [settled](Self::settle) for all of it.
    async fn woke(&mut self, woke: Woke, objects: &mut watch::Receiver<Seen>) -> Option<Ended> {
        match woke {
            Woke::Object => return self.seen(objects.borrow_and_update().clone()),
            Woke::News | Woke::Changed => {}
            Woke::VirtualSetBack => {
                self.same_id.forget();
                // The Lease is of that earlier state, too.
                self.recorded = None;
                self.is_set_back(&Sign::Version(Store::Virtual), None);
                // The watch may have shown the object of now already, in a version before the one that was known.
                self.is_version_void = true;
                // Where an earlier restore is not confirmed yet, its bar stands already, and does not begin a second time.
                self.view().guard().forget_grants();
                return self.seen(objects.borrow_and_update().clone());
            }
            Woke::PhysicalSetBack => {
                self.is_set_back(&Sign::Version(Store::Physical), None);
            }
            Woke::Tick => self.tick().await,
            Woke::Minute => self.minute().await,
            // A sender is gone, and with it the process.
            Woke::Ended => std::future::pending().await,
        }
        None
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.parts.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look_at(&self, nodes: Touched) {
        for name in nodes {
            // A full queue is counted, and the next sweep adds what it refused.
            let _refused = self.parts.nodes.add(name);
        }
    }

    fn now(&self) -> Now {
        (self.process.now)()
    }

    fn is_terminating(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    fn version(&self) -> &str {
        self.object.metadata.resource_version.as_deref().unwrap_or_default()
    }

    fn observes(&self) -> bool {
        self.terms.mode == Mode::Observe
    }

    /// Whether the operator has said that the physical cluster of a binding that is being deleted is gone for good.
    fn is_detached(&self) -> bool {
        let said = self.verbs.detach.as_deref();
        self.is_terminating() && said.is_some() && said == self.kept.physical_cluster.as_deref()
    }

    /// Everything that follows from what is known.
    async fn settle(&mut self) -> Option<Ended> {
        if let Some(ended) = self.face_rival().await {
            return Some(ended);
        }
        self.verbs = Verbs::read(self.object.metadata.annotations.as_ref());
        self.connect().await;
        if !self.is_gone && self.rival.is_none() {
            self.confirm().await;
        }
        // Also what may be done again.
        self.say_what_hinders();
        self.review().await;
        self.prove().await;
        if !self.is_gone && self.rival.is_none() && self.is_terminating() {
            let ended = self.leave().await;
            if ended.is_some() {
                return ended;
            }
        }
        if self.is_gone {
            // An operator may have released what was orphaned (`lend release`).
            if self.lends_nothing() {
                return Some(Ended::Gone);
            }
            self.say_orphaned();
            return None;
        }
        self.write_status().await;
        None
    }

    /// The binding is as it is now.
    fn seen(&mut self, seen: Seen) -> Option<Ended> {
        let object = match seen {
            Seen::Unread => return None,
            Seen::Gone => return self.gone(),
            Seen::Present(object) => object,
        };
        if object.metadata.uid != self.object.metadata.uid {
            return Some(Ended::Gone);
        }
        if self.existing == Existing::Recorded {
            return Some(Ended::Returned);
        }
        let version = |object: &ClusterBinding| ResourceVersion::from(object.metadata.resource_version.as_deref());
        // An event that is behind the answer to our own write says nothing new.
        if !self.is_version_void && version(&object).is_older_than(&version(&self.object)) {
            return None;
        }
        let ended = self.named(&object);
        if ended.is_some() {
            return ended;
        }
        self.object = object;
        // A server that was set back may have shown it as gone.
        self.is_gone = false;
        // What it says while its status has the name of a rival counts once it is ours.
        if self.rival.is_some() { None } else { self.read_spec() }
    }

    /// The answer to a write of ours shows what is stored.
    fn has_stored(&mut self, object: ClusterBinding) {
        self.object = Arc::new(object);
        self.is_version_void = false;
    }

    /// The object is gone. Where nothing is lent any more, that is all.
    fn gone(&mut self) -> Option<Ended> {
        if self.lends_nothing() {
            return Some(Ended::Gone);
        }
        if !self.is_gone {
            let nodes = self.view().size().nodes;
            tracing::error!(
                binding = self.name,
                nodes,
                "a ClusterBinding was deleted by force while it lent nodes: they are orphaned, and stay as they are. Apply it \
                 again to adopt them, or remove them with topoloom lend release"
            );
        }
        self.is_gone = true;
        self.rival = None;
        self.say_orphaned();
        None
    }

    fn say_orphaned(&self) {
        let (is_listed, nodes) = {
            let view = self.view();
            (view.is_lent_listed(), view.size().nodes)
        };
        if is_listed {
            (self.tell)(Some(&format!("it was deleted by force while it lent {nodes} nodes, which are orphaned")));
        }
    }

    /// Whether it is known that there is no virtual node of the binding.
    fn lends_nothing(&self) -> bool {
        self.view().lends_nothing()
    }

    /// What the spec says counts from now on.
    fn read_spec(&mut self) -> Option<Ended> {
        let reading = read(&self.object, &self.process.around());
        let before = self.terms.clone();
        match reading {
            Ok(Reading { terms, problems }) => {
                let existence = terms.binding.existence;
                let is_valid = problems.is_none();
                // With a mistake in it, the last one that had none stays in force; where there is none, its defaults do, barred.
                if is_valid || !self.is_valid {
                    self.terms = terms;
                    self.is_valid = is_valid;
                }
                if is_valid {
                    self.spec = self.object.spec.clone().ok();
                }
                // That it is being deleted is no part of the spec.
                self.terms.binding.existence = existence;
                self.problems = problems;
            }
            // The names never change, so this is another definition.
            Err(problems) => {
                self.terms.binding.existence =
                    if self.is_terminating() { Existence::Terminating } else { Existence::Alive };
                self.problems = Some(problems);
            }
        }
        if before.heartbeats != self.terms.heartbeats || before.secret != self.terms.secret {
            return Some(Ended::Again { carried: Box::new(self.carried()), taken_from: self.taken_from.clone() });
        }
        let touched = {
            let mut view = self.view();
            view.orphan_delay = self.terms.orphan_delay;
            view.set_terms(self.terms.binding.clone(), self.terms.safety)
        };
        self.look_at(touched);
        if before.mode != self.terms.mode {
            self.again = None;
        }
        if before.host_ports != self.terms.host_ports {
            self.view().set_host_ports(self.terms.host_ports);
            // What was refused before may not be tried again.
            self.parts.troubles.forget(Thing::HostPorts);
        }
        if before.pod_metadata != self.terms.pod_metadata || before.orphan_delay != self.terms.orphan_delay {
            self.parts.pods.configure(self.terms.pod_metadata.clone(), self.terms.orphan_delay);
        }
        replace(&self.parts.source, self.terms.policy_source);
        replace(&self.parts.empty, self.terms.contact.empty);
        self.set_link_terms();
        None
    }

    /// What the next life of this binding begins with. Its status may not have all of it yet.
    fn carried(&self) -> Carried {
        Carried { guard: self.view().guard().left(), kept: self.kept.clone() }
    }

    // Verbs.

    async fn confirm(&mut self) {
        let Some(hash) = self.verbs.confirm.clone() else { return };
        let wall = self.now().wall;
        let other = self.kept.other_cluster.as_ref().filter(|other| other.hash == hash).map(|other| other.uid.clone());
        if let Some(uid) = other {
            tracing::warn!(binding = self.name, cluster = uid, "an operator confirmed another physical cluster");
            self.kept.physical_cluster = Some(uid);
            self.kept.other_cluster = None;
            self.is_taken = false;
            self.again = None;
            self.set_link_terms();
        } else if self.is_restored_by(&hash) {
            // What a confirmation writes would stand in the other cluster, which no person has confirmed.
            if self.kept.other_cluster.is_some() {
                return;
            }
            if let Err(refusal) = self.make_confirmed_round(&hash).await {
                tracing::debug!(binding = self.name, error = %refusal, "the numbers of a restored cluster could not be written yet");
                return;
            }
            // What was found by now has a hash of its own.
            if !self.is_restored_by(&hash) {
                return;
            }
            tracing::warn!(binding = self.name, "an operator confirmed a restored cluster");
            self.kept.restored = None;
            self.unconfirmed = Unconfirmed::default();
        } else {
            let confirmed = {
                let mut view = self.view();
                // What an earlier process held is complete in a moment, and until then it is not known what is confirmed.
                if view.guard().is_recalling() {
                    return;
                }
                view.confirm(&hash)
            };
            match confirmed {
                Ok(touched) => {
                    tracing::warn!(binding = self.name, hash, "an operator confirmed a held batch");
                    self.look_at(touched);
                    self.parts.pods.wake();
                }
                // It was carried out, and the annotation could not be taken off then.
                Err(_) if self.kept.confirmed.iter().any(|confirmed| confirmed.hash == hash) => {}
                Err(not_held) => {
                    let restored = self.kept.restored.as_ref();
                    let waits = restored.map(|it| format!("; what was set back waits with hash {}", it.hash));
                    let note = format!("{not_held}{}", waits.unwrap_or_default());
                    self.event(Urgency::Warning, Reason::Confirmed, &note).await;
                    self.take_off(CONFIRM_ANNOTATION).await;
                    return;
                }
            }
        }
        self.kept.confirm(&hash, wall);
        if self.store_status().await.is_ok() {
            self.take_off(CONFIRM_ANNOTATION).await;
        }
    }

    /// Whether a restore waits for this hash.
    fn is_restored_by(&self, hash: &str) -> bool {
        self.kept.restored.as_ref().is_some_and(|restored| restored.hash == hash)
    }

    /// After a confirmation the numbers agree, which hides what else was set back: that is looked at first. Where nothing may be written
    /// to the physical cluster, there are none to write.
    async fn make_confirmed_round(&mut self, hash: &str) -> Result<(), Refusal> {
        if self.parts.link.borrow().is_none() || self.observes() || self.conflict.is_some() {
            return Ok(());
        }
        self.make_round(Why::Asked).await?;
        if !self.is_restored_by(hash) {
            return Ok(());
        }
        self.make_round(Why::Confirmed).await
    }

    async fn take_off(&mut self, key: &str) {
        let stored = self.parts.clients.take_annotation(&self.name, self.version(), key).await;
        self.parts.writes.wrote(WriteKind::Binding, "verb", &stored);
        match self.told(Thing::Binding, stored) {
            Ok(object) => self.has_stored(object),
            Err(refusal) => {
                tracing::debug!(binding = self.name, error = %refusal, "a verb's annotation could not be removed");
            }
        }
        self.verbs = Verbs::read(self.object.metadata.annotations.as_ref());
    }

    /// At once where something new hinders: no request is waited for in between.
    fn say_what_hinders(&self) {
        let hindrances = Hindrances {
            mode: self.terms.mode,
            is_paused: self.verbs.is_paused,
            is_invalid: !self.is_valid,
            is_orphaned: self.is_gone,
            is_in_conflict: self.conflict.is_some() || self.rival.is_some(),
            is_another_cluster: self.kept.other_cluster.is_some(),
            is_restored: self.kept.restored.is_some(),
            is_detached: self.is_detached(),
        };
        replace(&self.parts.hindrances, hindrances);
        let verb = if self.is_detached() { VerbOnBinding::Detach } else { self.verbs.drain.clone() };
        let touched = self.view().set_verb(verb);
        self.look_at(touched);
    }

    // What time alone changes.

    async fn tick(&mut self) {
        let now = self.now();
        let (news, touched) = {
            let mut view = self.view();
            let news = view.tick(now);
            let touched = if news.is_empty() { Touched::new() } else { view.all() };
            (news, touched)
        };
        self.look_at(touched);
        if !news.is_empty() {
            self.parts.policies.look_at_all();
        }
        for news in news {
            tracing::warn!(binding = self.name, "{news}");
            self.event(Urgency::Warning, Reason::ClockDiffers, &news.to_string()).await;
        }
        let placement = self.view().placement();
        if std::mem::replace(&mut self.placement, placement) != placement {
            // Another policy may be in force somewhere, and one may be shadowed that was not.
            self.parts.policies.look_at_all();
        }
    }

    /// Judges again what is held.
    async fn review(&mut self) {
        let now = self.now();
        let reviewed = self.view().review(now);
        self.look_at(reviewed.touched);
        self.is_recalling = reviewed.is_recalling;
        let is_news = match (&self.held, &reviewed.held) {
            (_, None) => false,
            (None, Some(batch)) => self.object.status.held.as_ref().is_none_or(|known| known.hash != batch.hash),
            (Some(before), Some(batch)) => before.hash != batch.hash,
        };
        if self.held != reviewed.held {
            // What was held of pods without a node may be allowed now.
            self.parts.pods.wake();
        }
        self.held = reviewed.held;
        if let Some(batch) = self.held.clone().filter(|_| is_news && !self.is_recalling) {
            tracing::warn!(
                binding = self.name,
                hash = batch.hash,
                nodes = batch.nodes,
                pods = batch.pods,
                "a batch is held: {batch}"
            );
            let note = format!("held: {}", held_sentence(&batch, &self.name));
            self.event(Urgency::Warning, reason_of_batch(&batch), &note).await;
        }
    }

    async fn event(&self, urgency: Urgency, reason: Reason, note: &str) {
        let news = News { urgency, reason: reason.as_str().to_owned(), note: note.to_owned() };
        let uid = self.identity.binding_uid();
        notify(&self.process, &self.name, Some(&**uid), &[news]).await;
    }

    // The end.

    /// A binding that is being deleted: its nodes go first, and its finalizer last.
    async fn leave(&mut self) -> Option<Ended> {
        let is_held = self.object.metadata.finalizers.iter().flatten().any(|it| it == keys::BINDING_FINALIZER);
        if !is_held {
            // The API server removes it when the finalizers of others are gone.
            self.going = Some(Going::Done);
            return None;
        }
        let left = Left {
            clients: &self.parts.clients,
            identity: &self.identity,
            cluster: &self.terms.binding.cluster,
            namespace: &self.terms.mount_namespace,
            view: &self.parts.view,
            has_connected: self.kept.physical_cluster.is_some(),
            is_connected: self.parts.link.borrow().is_some(),
            is_detached: self.is_detached(),
        };
        let going = going::look(&left).await;
        let is_done = going == Going::Done;
        self.going = Some(going);
        if !is_done {
            return None;
        }
        let others: Vec<String> = self.object.metadata.finalizers.iter().flatten().cloned().collect();
        let others: Vec<String> = others.into_iter().filter(|it| it != keys::BINDING_FINALIZER).collect();
        let stored = self.parts.clients.finalizers(&self.name, self.version(), &others).await;
        self.parts.writes.wrote(WriteKind::Binding, "finalizer", &stored);
        match self.told(Thing::Binding, stored) {
            Ok(_) => Some(Ended::Gone),
            Err(refusal) if refusal.reason == RefusalReason::NotFound => Some(Ended::Gone),
            Err(_) => None,
        }
    }
}

/// Puts a value in place of another one, and notifies only where they differ.
fn replace<T: PartialEq>(values: &watch::Sender<T>, value: T) {
    values.send_if_modified(|before| {
        let differs = *before != value;
        *before = value;
        differs
    });
}

/// Ends at this time; never, where there is none.
async fn due(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Ends when the store of a physical cluster was set back; never, where there is no connection.
async fn set_back(restores: Option<&mut watch::Receiver<u64>>) {
    match restores {
        Some(restores) => {
            if restores.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
