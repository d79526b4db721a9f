//! The work on a physical pod: what its virtual pod takes over from it, or that it is an orphan.
//!
//! # Failure story
//!
//! A look ends with the first request that fails, and decides from the beginning when it is tried again. A physical pod that is gone
//! before its end was mirrored is looked at in its last state: that one may still be written, and nothing else follows from it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use topoloom_api::Reason;
use topoloom_cluster::work::WorkOutcome;
use topoloom_cluster::{Refusal, RefusalReason};
use topoloom_core::names::{NodeName, Uid};
use topoloom_core::nodelock::PodId;
use topoloom_sync::bars::{Bars, Doing};
use topoloom_sync::deletion::Leave;
use topoloom_sync::identity::Identity;
use topoloom_sync::keys;
use topoloom_sync::naming::virtual_node_name;
use topoloom_sync::node::Now;
use topoloom_sync::pods::{Facts, Orphan, PodDecision, Question, Trusted, Twin, VirtualPod, WhyLeft, WhyNothing};
use topoloom_sync::precondition::Precondition;
use topoloom_sync::projection::{Projection, Report, Sending, StatusPatch};
use tracing::field::Empty;

use super::book::{Presence, Rested, Stray, TwinSight};
use super::key::PodKey;
use super::metrics::PodOutcome;
use super::stray::Unfollowed;
use super::{Ask, Naming, PodError, Pods, QUESTIONS};
use crate::metrics::WriteKind;
use crate::pod_state::PodState;
use crate::slices::pod::{PodName, WholePod};
use crate::view::View;

/// For how long one list of the virtual pods that name physical ones is good.
const SHARED: Duration = Duration::from_secs(60);

/// What was read live for one look.
#[derive(Debug, Default)]
struct Evidence {
    physical: Option<LivePod>,
    twin: Option<LiveTwin>,
    bindings: Option<BTreeSet<Uid>>,
}

/// A physical pod, live.
#[derive(Debug, Clone)]
enum LivePod {
    /// There is none of that name.
    Gone,
    /// This one.
    Found(Arc<PodState>),
}

/// The virtual pod that was asked for, live.
#[derive(Debug, Clone)]
struct LiveTwin {
    pod: Option<Arc<PodState>>,
    /// When the request was sent, by the steady clock.
    asked: Duration,
}

/// The virtual pod, as one look sees it.
enum Seen {
    Unread,
    Cached(Option<Arc<PodState>>),
    Live(LiveTwin),
}

/// One look at a physical pod.
struct Look<'a> {
    name: &'a PodName,
    presence: Presence,
    pod: Arc<PodState>,
    twin: Seen,
    now: Now,
}

/// What a look does next.
enum Step {
    /// Nothing.
    Rest,
    /// Nothing until then.
    Again(Duration),
    /// Reads the physical pod.
    ReadPhysical,
    /// Reads a physical pod that is not followed any more.
    ReadStray(Stray),
    /// Says that the virtual pod does not follow this one.
    Notify(Unfollowed, Rested),
    /// Reads the virtual pod.
    ReadTwin(Question, Arc<PodState>),
    /// Lists the bindings.
    ReadBindings,
    /// Writes what differs.
    Mirror(Arc<PodState>, Arc<PodState>),
    /// Deletes the physical pod.
    Delete(Arc<PodState>, Orphan, Precondition),
}

/// What came of a write.
enum Wrote {
    /// Nothing is left to do.
    Rest,
    /// Nothing was left to do for what was looked at, and one of the two pods is another one now.
    Changed,
    /// The virtual pod is not what was read.
    Stale,
}

impl From<Rested> for Wrote {
    fn from(rested: Rested) -> Self {
        match rested {
            Rested::Yes => Self::Rest,
            Rested::No => Self::Changed,
        }
    }
}

impl Seen {
    fn pod(&self) -> Option<&Arc<PodState>> {
        match self {
            Self::Unread => None,
            Self::Cached(pod) | Self::Live(LiveTwin { pod, .. }) => pod.as_ref(),
        }
    }

    fn fact<'a>(&self, pod: Option<&'a VirtualPod>) -> Twin<'a> {
        match self {
            Self::Unread => Twin::Unread,
            Self::Cached(_) => Twin::Cached(pod),
            Self::Live(live) => Twin::Live { pod, asked: live.asked },
        }
    }
}

impl Pods {
    /// Looks at a physical pod until nothing has to be read for it any more, and does what follows.
    pub(super) async fn look(&self, name: &PodName) -> Result<WorkOutcome, PodError> {
        let mut evidence = Evidence::default();
        for _ in 0..QUESTIONS {
            match self.step(name, &evidence)? {
                Step::Rest => return Ok(WorkOutcome::Done),
                Step::Again(pause) => return Ok(WorkOutcome::Again(pause)),
                Step::ReadPhysical => evidence.physical = Some(self.read_physical(name).await?),
                Step::ReadStray(stray) => return self.read_stray(name, stray).await,
                Step::Notify(unfollowed, rested) => {
                    self.notify(&unfollowed).await;
                    return Ok(match rested {
                        Rested::Yes => WorkOutcome::Done,
                        Rested::No => WorkOutcome::Again(Duration::ZERO),
                    });
                }
                Step::ReadTwin(question, pod) => evidence.twin = Some(self.read_twin(&question, &pod).await?),
                Step::ReadBindings => {
                    evidence.bindings = Some(self.told(Ask::Bindings, name, self.requests.bindings().await)?);
                }
                Step::Mirror(pod, twin) => match self.mirror(&pod, &twin).await? {
                    Wrote::Rest => return Ok(WorkOutcome::Done),
                    Wrote::Changed => return Ok(WorkOutcome::Again(Duration::ZERO)),
                    Wrote::Stale => evidence.twin = Some(self.read_twin(&named(&twin), &pod).await?),
                },
                Step::Delete(pod, why, precondition) => return self.delete(name, &pod, &why, &precondition).await,
            }
        }
        Err(PodError::Unanswered)
    }

    /// What follows from what is known, and from what was read live.
    fn step(&self, name: &PodName, evidence: &Evidence) -> Result<Step, PodError> {
        let now = (self.now)();
        let sight = self.inbox.book().sight(name);
        let Some(sight) = sight else {
            let rest = self.rest(name);
            return Ok(self.stray(name).map_or(rest, Step::ReadStray));
        };
        if sight.is_at_rest {
            return Ok(self.rest(name));
        }
        let (identity, bars) = {
            let view = self.view();
            (view.binding.identity.clone(), view.bars.clone())
        };
        let pod = match &evidence.physical {
            Some(LivePod::Found(pod)) => Arc::clone(pod),
            Some(LivePod::Gone) => {
                self.inbox.book().not_found(name);
                return Ok(self.rest(name));
            }
            None => match sight.text.as_deref().and_then(PodState::read) {
                Some(pod) => Arc::new(pod),
                // Whatever it says, nothing would follow.
                None if !bars.allow(Doing::Mirror) && !bars.allow(Doing::JudgeOrphan) => return Ok(self.rest(name)),
                None => return Ok(Step::ReadPhysical),
            },
        };
        let twin = match (&evidence.twin, &sight.twin) {
            (Some(live), _) => Seen::Live(live.clone()),
            (None, TwinSight::Unlisted) => Seen::Unread,
            (None, TwinSight::Absent) => Seen::Cached(None),
            (None, TwinSight::Held(text)) => match PodState::read(text) {
                Some(twin) => Seen::Cached(Some(Arc::new(twin))),
                None => return Err(PodError::Unread),
            },
            (None, TwinSight::Unheld(twin)) => {
                let (namespace, name) = twin.parts();
                let question = Question::Named { namespace: namespace.to_owned(), name: name.to_owned() };
                return Ok(Step::ReadTwin(question, pod));
            }
        };
        let look = Look { name, presence: sight.presence, pod, twin, now };
        let decision = self.decide(&look, &identity, &bars, evidence.bindings.as_ref());
        tracing::debug!(pod = %name, %decision, "a physical pod was looked at");
        self.follow(look, decision)
    }

    fn decide(
        &self,
        look: &Look<'_>,
        identity: &Identity,
        bars: &Bars,
        bindings: Option<&BTreeSet<Uid>>,
    ) -> PodDecision {
        let mut physical = look.pod.physical_pod();
        // One that is gone is deleted by no one.
        physical.deleting |= look.presence == Presence::Gone;
        let twin = look.twin.pod().map(|twin| twin.virtual_pod());
        let mut book = self.inbox.book();
        let binding = physical.labels.get(keys::BINDING_UID).map(String::as_str);
        let facts = Facts {
            identity,
            pod: Some(&physical),
            twin: look.twin.fact(twin.as_ref()),
            earlier: book.earlier(binding, bindings),
            adopted: book.adopted(look.name, &physical.uid),
            bars,
            orphan_delay: book.orphan_delay(),
            look: None,
        };
        let decision = book.looks.decide(&facts, look.now.steady);
        self.metrics.orphans(book.looks.len());
        decision
    }

    fn follow(&self, look: Look<'_>, decision: PodDecision) -> Result<Step, PodError> {
        let Look { name, presence, pod, twin, now } = look;
        let unfollowed = match &decision {
            PodDecision::Nothing(WhyNothing::Unmanaged) | PodDecision::Leave(WhyLeft::Foreign(_))
                if presence == Presence::There =>
            {
                self.unfollowed(&pod, twin.pod().map(Arc::as_ref))
            }
            _ => None,
        };
        match decision {
            // A person edits one of the two, or the virtual pod goes: either shows.
            PodDecision::Leave(WhyLeft::InUse(_)) if presence == Presence::There => Ok(self.rest(name)),
            PodDecision::Nothing(_) | PodDecision::Leave(_) => {
                let rested = self.inbox.book().done(&pod, twin.pod().map(Arc::as_ref));
                let rest = self.rest(name);
                Ok(match (unfollowed, rested) {
                    (Some(unfollowed), rested) => Step::Notify(unfollowed, rested),
                    (None, Rested::Yes) => rest,
                    (None, Rested::No) => Step::Again(Duration::ZERO),
                })
            }
            // The end of the first list of virtual pods adds everything again.
            PodDecision::Retry if matches!(twin, Seen::Unread) => Ok(Step::Rest),
            PodDecision::Retry => Err(PodError::Unread),
            PodDecision::LookAgain { at, .. } => {
                self.view().orphan_kept(name.text());
                Ok(Step::Again(at.saturating_sub(now.steady)))
            }
            // An operator has to decide about it, so nothing is read for it. What it was asked for stays asked for.
            PodDecision::AskVirtualPod { .. } if self.view().is_orphan_held(name.text(), &pod.uid()) => {
                self.metrics.count(PodOutcome::OrphanHeld);
                Ok(Step::Rest)
            }
            PodDecision::AskVirtualPod { question, .. } => Ok(Step::ReadTwin(question, pod)),
            PodDecision::AskBinding(_) => Ok(Step::ReadBindings),
            PodDecision::Delete { why, precondition } => Ok(Step::Delete(pod, why, precondition)),
            PodDecision::Withheld { .. } => Ok(self.rest(name)),
            PodDecision::Synchronise(trusted) => {
                let Some(twin) = twin.pod().cloned() else { return Err(PodError::Unread) };
                if let Trusted::Mapping(binding) = &trusted {
                    self.inbox.book().adopt(name, &pod.uid());
                    self.view().earlier_is_gone(binding);
                }
                self.inbox.book().followed(&twin.uid());
                self.view().orphan_kept(name.text());
                Ok(Step::Mirror(pod, twin))
            }
        }
    }

    /// Nothing follows, so nothing is asked of the guard either.
    fn rest(&self, name: &PodName) -> Step {
        self.view().orphan_kept(name.text());
        Step::Rest
    }

    async fn read_physical(&self, name: &PodName) -> Result<LivePod, PodError> {
        let found = self.told(Ask::ReadPhysical, name, self.requests.physical(name).await)?;
        let Some(found) = found else { return Ok(LivePod::Gone) };
        let pod = self.told(Ask::ReadPhysical, name, self.state(found))?;
        // One that was made again under the name is another one, which its watch shows.
        let is_known = self.inbox.book().answer_physical(&pod);
        Ok(if is_known { LivePod::Found(Arc::new(pod)) } else { LivePod::Gone })
    }

    async fn read_twin(&self, question: &Question, pod: &PodState) -> Result<LiveTwin, PodError> {
        match question {
            Question::Named { namespace, name } => {
                let (of, asked) = (pod.pod_name(), (self.now)().steady);
                let found = self.told(Ask::ReadTwin, &of, self.requests.twin(namespace, name).await)?;
                let twin = self.told(Ask::ReadTwin, &of, found.map(|found| self.state(found)).transpose())?;
                twin.iter().for_each(|twin| self.show(twin, &of));
                Ok(LiveTwin { pod: twin.map(Arc::new), asked })
            }
            Question::NamingIt => self.read_naming(pod).await,
        }
    }

    /// The virtual pod that names this physical one. A list of all of them serves every physical pod whose second look was due
    /// when it began, for a while: otherwise many that lost their annotations would cost as many lists.
    async fn read_naming(&self, pod: &PodState) -> Result<LiveTwin, PodError> {
        let mut listed = self.naming.lock().await;
        let now = (self.now)().steady;
        let due = self.inbox.book().second_look(&pod.uid(), now);
        let is_good = |list: &Naming| list.begun >= due && now.saturating_sub(list.begun) < SHARED;
        let list = match listed.take().filter(is_good) {
            Some(list) => list,
            None => {
                let named = self.requests.twins_naming().await;
                Naming { begun: now, pods: self.told(Ask::ReadTwin, &pod.pod_name(), named)? }
            }
        };
        let list = listed.insert(list);
        let mut named = list.pods.get(&pod.pod_name()).into_iter().flatten();
        let twin = named.find(|twin| twin.is_naming(pod)).cloned();
        Ok(LiveTwin { pod: twin, asked: list.begun })
    }

    /// A virtual pod was read, or written: what has to be looked at beside this physical pod is added.
    fn show(&self, twin: &PodState, but: &PodName) {
        let looks = self.inbox.book().answer(twin);
        let others = looks.into_iter().filter(|key| !matches!(key, PodKey::Physical(name) if name == but));
        self.inbox.add(others.collect());
    }

    fn project(&self, pod: &PodState, twin: &PodState, now: Timestamp) -> Projection {
        let copied = Arc::clone(self.inbox.book().copied());
        pod.project(twin, &copied, now)
    }

    /// Writes what differs of the status of a virtual pod, in one patch.
    async fn mirror(&self, pod: &PodState, twin: &PodState) -> Result<Wrote, PodError> {
        if !self.view().knows_lent(&twin.node) {
            // Whose node it is, mirrors it.
            return Ok(self.rested(pod, twin));
        }
        let now = (self.now)().wall;
        let projection = self.project(pod, twin, now);
        tracing::debug!(pod = %twin.pod_name(), %projection, "what a virtual pod takes over");
        let patch = match projection {
            Projection::Write(patch) => patch,
            Projection::Same | Projection::Final { .. } | Projection::Unguarded => return Ok(self.rested(pod, twin)),
        };
        let sending = self.inbox.book().refusals.may_send(&twin.uid(), &pod.version(), &patch);
        match sending {
            Sending::Send => {}
            Sending::Refused | Sending::NotStored => return Ok(self.rested(pod, twin)),
        }
        let name = pod.pod_name();
        let shown = self.inbox.book().take_shown(&name);
        let sent = self.send_status(twin, patch.body()).await;
        match (&sent, shown) {
            (Ok(_), Some(shown)) => self.metrics.mirrored(shown.elapsed()),
            (Ok(_), None) => {}
            (Err(_), shown) => self.inbox.book().put_shown(&name, shown),
        }
        match sent.and_then(|stored| self.state(stored)) {
            Ok(stored) => Ok(self.stored(pod, &stored, now)),
            Err(refusal) if matches!(refusal.reason, RefusalReason::Conflict | RefusalReason::NotFound) => {
                self.metrics.count(PodOutcome::Conflict);
                Ok(Wrote::Stale)
            }
            Err(refusal) if refusal.reason == RefusalReason::Invalid => {
                Ok(self.report(pod, twin, &patch, &refusal.message).await)
            }
            Err(refusal) => self.told(Ask::WriteStatus, &name, Err(refusal)),
        }
    }

    #[tracing::instrument(level = "debug", name = "mirror", skip_all, fields(binding = &*self.binding, pod = %twin.pod_name(), result = Empty, otel.status_code = Empty))]
    async fn send_status(&self, twin: &PodState, body: &Value) -> Result<WholePod, Refusal> {
        let sent = self.requests.patch_status(&twin.namespace, &twin.name, body).await;
        self.counted.wrote(WriteKind::PodStatus, "mirror", &sent);
        sent
    }

    #[tracing::instrument(level = "debug", name = "orphan", skip_all, fields(binding = &*self.binding, pod = %name, verdict = why.word(), result = Empty, otel.status_code = Empty))]
    async fn send_deletion(&self, name: &PodName, why: &Orphan, judged: &Precondition) -> Result<(), Refusal> {
        let sent = self.requests.delete_physical(name, judged).await;
        self.counted.wrote(WriteKind::OrphanDelete, why.word(), &sent);
        sent
    }

    /// The API server took a patch, and this is what it stores.
    fn stored(&self, pod: &PodState, stored: &PodState, now: Timestamp) -> Wrote {
        let rest = match self.project(pod, stored, now) {
            Projection::Write(rest) => Some(rest),
            Projection::Same | Projection::Final { .. } | Projection::Unguarded => None,
        };
        self.metrics.count(if rest.is_some() { PodOutcome::NotStored } else { PodOutcome::Mirrored });
        self.inbox.book().refusals.stored(&stored.uid(), rest.as_ref());
        self.show(stored, &pod.pod_name());
        self.troubles.over_of(Ask::WriteStatus.thing().0, pod.pod_name().text());
        self.rested(pod, stored)
    }

    /// Nothing is left to do for this state of both pods.
    fn rested(&self, pod: &PodState, twin: &PodState) -> Wrote {
        self.inbox.book().done(pod, Some(twin)).into()
    }

    /// The API server refused a patch: a person is notified, once for each version of the physical pod.
    async fn report(&self, pod: &PodState, twin: &PodState, patch: &StatusPatch, why: &str) -> Wrote {
        let wrote = self.rested(pod, twin);
        let report = self.inbox.book().refusals.refused(&twin.uid(), &pod.version());
        if report == Report::Known {
            return wrote;
        }
        self.metrics.count(PodOutcome::Refused);
        let changes: Vec<String> = patch.changes().iter().map(ToString::to_string).collect();
        let note = format!("the status of the physical pod was refused ({}): {why}", changes.join(", "));
        tracing::warn!(pod = %twin.pod_name(), error = why, "the status of a lent pod was refused");
        let id = PodId { namespace: twin.namespace.as_str().into(), name: twin.name.as_str().into(), uid: twin.uid() };
        self.notices.of_pod(&id, Reason::WriteRefused, &note, (self.now)().steady).await;
        wrote
    }

    /// Deletes an orphan, where the guard allows it.
    async fn delete(
        &self,
        name: &PodName,
        pod: &PodState,
        why: &Orphan,
        precondition: &Precondition,
    ) -> Result<WorkOutcome, PodError> {
        let now = (self.now)();
        let leave = {
            let mut view = self.view();
            let node = lent_node(&view, pod);
            view.ask_orphan(name.text(), &pod.uid(), node, now)
        };
        match leave {
            Leave::Given { .. } => {}
            Leave::Gathering { until } => {
                let left = Duration::try_from(until.duration_since(now.wall)).unwrap_or_default();
                return Ok(WorkOutcome::Again(left));
            }
            Leave::Held => {
                self.metrics.count(PodOutcome::OrphanHeld);
                return Ok(WorkOutcome::Done);
            }
        }
        let deleted = self.send_deletion(name, why, precondition).await;
        let may_be_done = deleted.as_ref().map_or_else(|refusal| refusal.reason.may_be_done(), |()| true);
        if may_be_done {
            self.view().orphan_deleted(name.text(), (self.now)());
        }
        self.told(Ask::DeletePhysical, name, deleted)?;
        self.metrics.count(PodOutcome::OrphanDeleted);
        self.metrics.orphan_deleted(why);
        tracing::info!(pod = %name, uid = %pod.uid, %why, verdict = why.word(), "a physical pod without a virtual pod was deleted");
        Ok(WorkOutcome::Done)
    }
}

fn named(pod: &PodState) -> Question {
    Question::Named { namespace: pod.namespace.clone(), name: pod.name.clone() }
}

/// The virtual node that a physical pod is on, as the guard counts it.
fn lent_node(view: &View, pod: &PodState) -> NodeName {
    let named = || pod.annotations.get(keys::VIRTUAL_NODE_NAME).map(|name| name.as_str().into());
    virtual_node_name(&view.binding.cluster, &pod.node).ok().or_else(named).unwrap_or_else(|| "".into())
}
