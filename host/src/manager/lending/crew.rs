//! This replica among those that serve bindings: whom it gives way to, and what it hands over (decision S11).
//!
//! `topoloom_sync::spread` decides; here are its inputs, the members that [`super::members`] sees and the bindings that this
//! replica stands for and holds, and its time: it looks when something changes, and when an announcement ends or a hand-over is
//! due. Never decides who holds a binding, and never ends a group itself: it asks the keeper of the binding to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use topoloom_core::names::Uid;
use topoloom_sync::spread::{Announcement, HandOver, HandOvers, HeldBinding, History, MemberName, Members};

/// A clock that runs while the machine sleeps and is never set.
pub(super) type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// The replicas that serve bindings, as this one sees them.
pub(super) struct Crew {
    state: Mutex<CrewState>,
    changed: Notify,
    clock: Clock,
}

struct CrewState {
    members: Members,
    overs: HandOvers,
    /// How much later than it could this replica claims each binding that it stands for.
    standing: BTreeMap<Uid, watch::Sender<Duration>>,
    held: BTreeMap<Uid, HeldPlace>,
}

struct HeldPlace {
    since: Duration,
    hand_over: CancellationToken,
}

impl Crew {
    pub(super) fn new(me: &Arc<str>, clock: Clock) -> Arc<Self> {
        let state = CrewState {
            members: Members::new(Arc::clone(me).into()),
            overs: HandOvers::default(),
            standing: BTreeMap::new(),
            held: BTreeMap::new(),
        };
        Arc::new(Self { state: Mutex::new(state), changed: Notify::new(), clock })
    }

    fn lock(&self) -> MutexGuard<'_, CrewState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An announcement was seen.
    pub(super) fn saw(&self, announcement: Announcement) {
        let now = (self.clock)();
        self.lock().members.saw(now, announcement);
        self.changed.notify_one();
    }

    /// An announcement is gone.
    pub(super) fn left(&self, member: &MemberName) {
        self.lock().members.left(member);
        self.changed.notify_one();
    }

    /// All announcements that there are.
    pub(super) fn relisted(&self, all: Vec<Announcement>, history: History) {
        let now = (self.clock)();
        self.lock().members.relisted(now, all, history);
        self.changed.notify_one();
    }

    /// The members that died long ago.
    pub(super) fn abandoned(&self) -> Vec<MemberName> {
        self.lock().members.abandoned((self.clock)())
    }

    /// How many members count as live, this replica among them.
    pub(super) fn live(&self) -> usize {
        self.lock().members.live((self.clock)()).len()
    }

    /// This replica stands for a binding, for as long as what is returned is kept.
    pub(super) fn stand(self: &Arc<Self>, binding: &Uid) -> Candidacy {
        let now = (self.clock)();
        let mut state = self.lock();
        let (sender, courtesy) = watch::channel(state.members.courtesy(now, binding));
        state.standing.insert(binding.clone(), sender);
        Candidacy { crew: Arc::clone(self), binding: binding.clone(), courtesy }
    }

    /// This replica holds a binding, for as long as what is returned is kept.
    pub(super) fn hold(self: &Arc<Self>, binding: &Uid) -> Tenure {
        let hand_over = CancellationToken::new();
        let place = HeldPlace { since: (self.clock)(), hand_over: hand_over.clone() };
        self.lock().held.insert(binding.clone(), place);
        self.changed.notify_one();
        Tenure { crew: Arc::clone(self), binding: binding.clone(), hand_over }
    }

    /// Gives way and hands over as members and bindings come and go, for as long as it is polled.
    pub(super) async fn rank(&self) {
        loop {
            // Before the look, so that no change is missed.
            let changed = self.changed.notified();
            let Some(pause) = self.look() else {
                changed.await;
                continue;
            };
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Does what is due; says when the next look is, if nothing changes.
    fn look(&self) -> Option<Duration> {
        let now = (self.clock)();
        let mut state = self.lock();
        let CrewState { members, overs, standing, held } = &mut *state;
        for (binding, sender) in standing.iter() {
            let courtesy = members.courtesy(now, binding);
            sender.send_if_modified(|sent| std::mem::replace(sent, courtesy) != courtesy);
        }
        // One that was asked for takes a moment to end.
        let asked = held.iter().filter(|(_, place)| !place.hand_over.is_cancelled());
        let all: Vec<HeldBinding> =
            asked.map(|(binding, place)| HeldBinding { binding: binding.clone(), since: place.since }).collect();
        let due = match overs.next(now, members, &all) {
            HandOver::Release(binding) => {
                overs.done(now);
                if let Some(place) = held.get(&*binding) {
                    place.hand_over.cancel();
                }
                Some(now)
            }
            HandOver::At(at) => Some(at),
            HandOver::Nothing => None,
        };
        let next = [due, members.next_end(now)].into_iter().flatten().min();
        next.map(|next| next.saturating_sub(now))
    }
}

/// This replica stands for a binding.
pub(super) struct Candidacy {
    crew: Arc<Crew>,
    binding: Uid,
    courtesy: watch::Receiver<Duration>,
}

impl Candidacy {
    /// How much later than it could this replica claims the lease.
    pub(super) fn courtesy(&self) -> watch::Receiver<Duration> {
        self.courtesy.clone()
    }
}

impl Drop for Candidacy {
    fn drop(&mut self) {
        self.crew.lock().standing.remove(&*self.binding);
    }
}

/// This replica holds a binding.
pub(super) struct Tenure {
    crew: Arc<Crew>,
    binding: Uid,
    hand_over: CancellationToken,
}

impl Tenure {
    /// Waits until the binding is to be handed over.
    pub(super) async fn is_handed_over(&self) {
        self.hand_over.cancelled().await;
    }
}

impl Drop for Tenure {
    fn drop(&mut self) {
        self.crew.lock().held.remove(&*self.binding);
        self.crew.changed.notify_one();
    }
}
