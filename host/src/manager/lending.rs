//! `bottomup-syncer`: which bindings this replica stands for, and the group of each that it holds (decision S11).
//!
//! It runs on every replica. It waits only while the definition of ClusterBindings is absent, or may not be read; from then on
//! it stands for the lease of every binding, and runs the group of each that it holds. Owns that these groups come and go, that
//! one ends without the others, and in which order all of it stops. What a group does is behind [`BindingGroups`], which
//! [`super::syncer`] fills; this room reads of a binding its name, UID and age alone, and writes nothing but leases.
//!
//! | room | owns |
//! |---|---|
//! | `bindings` | which ClusterBindings there are |
//! | `members`, `crew` | which replicas serve bindings, and which goes first for each |
//! | `keeper` | the life of one binding on this replica |
//! | `groups` | the contract with what a group does |
//!
//! # Failure story
//!
//! What goes wrong with one binding ends its group and no other, and never the process. A list that cannot be read ends no
//! group, and neither does a binding that is gone: its group ends by itself when nothing of it is left. Bindings that were deleted
//! by force before this process began are found by what their leases keep, once, after the first list. When the process stops, the
//! announcement of this replica is withdrawn while its groups end, so that the other replicas take each binding as soon as its
//! lease is given back.

mod arrivals;
mod bindings;
mod crew;
mod groups;
mod keeper;
mod members;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;
use topoloom_core::controllers::{BOTTOMUP_SYNCER, OURS};
use topoloom_core::names::Uid;
use topoloom_sync::naming::{self, BindingName};

use self::arrivals::Arrivals;
use self::bindings::{Bindings, Seen, Work};
use self::crew::Crew;
use self::keeper::{Keeper, Office};
use self::members::{Announcements, Announcer};
use super::controller::{Context, Controller, InitError, Initialized, Lifetimes, RateClass};
use super::debug::Debug;
use super::election::LeaseGroup;
use super::health::{Health, LeftOut};
use super::tasks::Tasks;
use crate::cluster::gate::{Gate, boot_time};
use crate::cluster::rate::RateLimit;
use crate::cluster::{Check, Restores};

pub use self::groups::{BindingGroups, BindingId, BindingReport, HeldBinding, LeasesOfBindings};

/// So many bindings are served; of more, the oldest: one that is added ends the group of no other. And at most so many that were
/// deleted by force before the process began.
const MOST: usize = 500;
/// So many files a process that serves bindings may open, where the machine allows it: each binding has connections for its lease
/// and to two clusters.
const FILES: u64 = 1 << 16;
/// How much of the drain timeout is left for giving leases back after the groups have ended.
const LAST_WRITES: Duration = Duration::from_secs(6);

/// Makes what the groups of this process are run with.
pub type MakeGroups = Box<dyn FnOnce(&mut Context<'_>) -> Result<Arc<dyn BindingGroups>, InitError> + Send>;

/// The controller, before it is initialised.
pub struct BottomupSyncerController {
    make: MakeGroups,
}

impl BottomupSyncerController {
    /// One whose groups are made by this.
    #[must_use]
    pub fn new(make: MakeGroups) -> Self {
        Self { make }
    }
}

impl Controller for BottomupSyncerController {
    fn name(&self) -> &'static str {
        BOTTOMUP_SYNCER
    }

    fn group(&self) -> Option<LeaseGroup> {
        None
    }

    fn lifetimes(&self) -> Lifetimes {
        Lifetimes::ComeAndGo
    }

    fn rate(&self) -> RateClass {
        RateClass::Unlimited
    }

    fn initialize(self: Box<Self>, mut context: Context<'_>) -> Result<Initialized, InitError> {
        let Some(elections) = context.groups.clone() else {
            return Err(InitError("internal error in topoloom (please report it): it has no elections".to_owned()));
        };
        // Whether there is room for a hash does not depend on what is hashed.
        let own = match elections.leases() {
            Some(leases) => match naming::member_lease(&leases.name, elections.identity()) {
                Ok(own) => Some(own),
                Err(error) => return Ok(Initialized::Waits(format!("--leader-elect-resource-name: {error}"))),
            },
            None => None,
        };
        let groups = (self.make)(&mut context)?;
        let Context { options, connection, requests, restores, health, debug, .. } = context;
        let reads = connection.client.clone();
        // Leases wait in no bucket (decision M3).
        let client = connection.behind(&Gate::none(), requests, &RateLimit::default());
        let client = client.map_err(|error| InitError(error.to_string()))?;
        let crew = Crew::new(elections.identity(), Arc::new(boot_time));
        dump(debug, health, &crew);
        let drain = options.drain.saturating_sub(LAST_WRITES).max(options.drain / 2);
        let runs_another = OURS.into_iter().any(|name| name != BOTTOMUP_SYNCER && options.controllers.enables(name));
        let work = if runs_another { Work::BesideOthers } else { Work::BindingsAlone };
        let check = match work {
            Work::BindingsAlone => health.check_of_bindings_alone("clusterbindings", BOTTOMUP_SYNCER),
            Work::BesideOthers => health.optional_of_controller("clusterbindings", BOTTOMUP_SYNCER),
        };
        let office = Office { groups, elections, crew, health: health.clone(), arrivals: Arrivals::default(), drain };
        let parts = LendingParts { office: Arc::new(office), own, reads, client, restores, check: check.into(), work };
        Ok(Initialized::Runs(Box::new(move |stop| parts.run(stop).boxed())))
    }
}

/// A process begins with a limit that is often no more than 1024, and may raise it as far as the machine allows.
fn allow_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(FILES, |most| most.min(FILES));
    if current.is_some_and(|current| current < wanted)
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })
    {
        tracing::warn!(%error, wanted, "the number of files that this process may open cannot be raised");
    }
}

/// What `topoloom debug dump` shows of it.
fn dump(debug: &mut Debug, health: &Health, crew: &Arc<Crew>) {
    let (health, crew) = (health.clone(), Arc::clone(crew));
    debug.part("bindings", move || {
        let bindings = health.bindings();
        let shown: BTreeMap<_, _> = bindings
            .iter()
            .map(|(name, election)| {
                let lease = election.lease().map(|lease| lease.name.clone());
                (
                    &**name,
                    json!({"role": format!("{:?}", election.role()), "lease": lease, "history": election.history()}),
                )
            })
            .collect();
        json!({"liveMembers": crew.live(), "bindings": shown})
    });
}

/// Everything it runs with.
struct LendingParts {
    office: Arc<Office>,
    /// The name of the Lease by which this replica announces itself, where there are leases.
    own: Option<String>,
    /// For the list of bindings.
    reads: kube::Client,
    /// For leases.
    client: kube::Client,
    restores: Restores,
    check: Check,
    work: Work,
}

impl LendingParts {
    async fn run(self, stop: CancellationToken) -> Result<(), String> {
        let (sender, mut wanted) = watch::channel(None);
        let (mut watches, mut warm, mut served) = (Tasks::default(), Tasks::default(), Tasks::default());
        let (cools, leaves, closes) = (CancellationToken::new(), CancellationToken::new(), stop.child_token());
        let (reads, restores, check) = (self.reads.clone(), self.restores.clone(), self.check.clone());
        watches.spawn("bindings", bindings::watch(reads, restores, check, self.work, sender));
        let crew = Arc::clone(&self.office.crew);
        watches.spawn("ranks of replicas", async move { crew.rank().await });
        served.spawn_fallible("what serves bindings on every replica", self.office.groups.serve(closes.clone()));
        let mut announcing = Tasks::default();
        let mut keepers = Keepers::new(Arc::clone(&self.office));
        let mut search = std::pin::pin!(self.recorded(wanted.clone()));
        let mut is_searched = false;
        let ended = loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break Ok(()),
                ended = watches.next() => break Err(ended.to_string()),
                ended = warm.next() => break Err(ended.to_string()),
                ended = served.next() => break Err(ended.to_string()),
                ended = announcing.next() => break Err(ended.to_string()),
                () = keepers.next() => {}
                // The sender is with the watch, which has not ended.
                Ok(()) = wanted.changed() => keepers.want(wanted.borrow_and_update().clone().unwrap_or_default()),
                recorded = &mut search, if !is_searched => {
                    is_searched = true;
                    let listed = wanted.borrow().clone().unwrap_or_default();
                    keepers.left_behind(recorded, &listed);
                }
            }
            if keepers.kept.is_empty() {
                continue;
            }
            if warm.is_empty() {
                allow_files();
                warm.spawn_fallible("caches of bindings", self.office.groups.keep_warm(cools.clone()));
            }
            if announcing.is_empty() {
                self.announce(&mut watches, &mut announcing, &leaves);
            }
        };
        leaves.cancel();
        closes.cancel();
        tokio::join!(announcing.finish(), keepers.stop(), served.finish());
        cools.cancel();
        warm.finish().await;
        watches.cut_off().await;
        ended
    }

    /// The bindings that leases keep something of, once it is known which there are.
    async fn recorded(&self, mut wanted: watch::Receiver<Option<Bindings>>) -> Vec<BindingId> {
        let is_known = wanted.wait_for(Option::is_some).await.is_ok();
        if !is_known {
            // The watch of bindings has ended, and with it all of this.
            return std::future::pending().await;
        }
        let leases = self.office.elections.leases();
        let leases = leases.map(|it| LeasesOfBindings { namespace: it.namespace.clone(), base: it.name.clone() });
        self.office.groups.recorded(leases).await
    }

    /// From the first binding on this replica announces itself, and sees the others.
    fn announce(&self, watches: &mut Tasks, announcing: &mut Tasks, leaves: &CancellationToken) {
        let (Some(leases), Some(own)) = (self.office.elections.leases(), &self.own) else { return };
        let all = Announcements::new(self.client.clone(), &leases.namespace, &leases.name, &self.office.crew);
        watches.spawn("announcements of replicas", all.clone().observe(self.restores.clone()));
        let announcer = Announcer {
            all,
            name: own.clone(),
            identity: Arc::clone(self.office.elections.identity()),
            lasts: leases.duration,
        };
        announcing.spawn("announcement of this replica", announcer.run(leaves.clone()));
    }
}

/// The keepers of the bindings that there are.
struct Keepers {
    office: Arc<Office>,
    wanted: BTreeMap<BindingName, Uid>,
    /// The UIDs of all that were listed last, also of those that are not served.
    listed: BTreeSet<Uid>,
    /// How many more there are than are served.
    more: usize,
    /// Those for which there can be no lease: they are in the log.
    refused: BTreeSet<BindingName>,
    kept: BTreeMap<BindingName, Kept>,
    tasks: JoinSet<()>,
    names: HashMap<Id, BindingName>,
}

struct Kept {
    uid: Uid,
    stop: CancellationToken,
    /// Cancelled when there is no such binding any more.
    gone: CancellationToken,
}

impl Keepers {
    fn new(office: Arc<Office>) -> Self {
        Self {
            office,
            wanted: BTreeMap::new(),
            listed: BTreeSet::new(),
            more: 0,
            refused: BTreeSet::new(),
            kept: BTreeMap::new(),
            tasks: JoinSet::new(),
            names: HashMap::new(),
        }
    }

    /// These bindings are to be kept from now on.
    fn want(&mut self, bindings: Bindings) {
        let before = std::mem::replace(&mut self.more, bindings.len().saturating_sub(MOST));
        if self.more > 0 && before == 0 {
            tracing::warn!(
                bindings = bindings.len(),
                most = MOST,
                "there are more bindings than one process serves: the newest are not served"
            );
        }
        let listed: BTreeSet<Uid> = bindings.values().map(|seen| seen.uid.clone()).collect();
        if !listed.is_subset(&self.listed) {
            self.office.groups.added();
        }
        self.listed = listed;
        let by_age = bindings.into_iter().map(|(name, Seen { uid, created })| (created, name, uid));
        let mut oldest: Vec<(Option<Timestamp>, BindingName, Uid)> = by_age.collect();
        oldest.sort();
        oldest.truncate(MOST);
        self.wanted = oldest.into_iter().map(|(_, name, uid)| (name, uid)).collect();
        self.settle();
    }

    /// Of these bindings something may be left. Those that are not listed were deleted by force before this process began: they are
    /// kept like one that is gone.
    fn left_behind(&mut self, recorded: Vec<BindingId>, listed: &Bindings) {
        let is_gone = |binding: &BindingId| !listed.contains_key(&binding.name);
        for binding in recorded.into_iter().filter(is_gone).take(MOST) {
            if !self.kept.contains_key(&binding.name) {
                self.begin(binding);
            }
        }
        self.settle();
    }

    /// Waits until a keeper has ended, and begins what waited for that: a binding that was applied again has the lease of the
    /// earlier one, so its keeper begins when that one's has ended.
    async fn next(&mut self) {
        let id = match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => id,
            Some(Err(error)) => error.id(),
            None => return std::future::pending().await,
        };
        if let Some(name) = self.names.remove(&id) {
            self.kept.remove(&name);
        }
        self.settle();
    }

    /// Stops every keeper, and waits for the end of all.
    async fn stop(&mut self) {
        self.wanted.clear();
        self.kept.values().for_each(|kept| kept.stop.cancel());
        while !self.tasks.is_empty() {
            self.next().await;
        }
    }

    fn settle(&mut self) {
        self.refused.retain(|name| self.wanted.contains_key(name));
        for (name, kept) in &self.kept {
            match self.wanted.get(name) {
                Some(uid) if *uid == kept.uid && !kept.gone.is_cancelled() => {}
                // Another one, or one that an API server has shown as gone that was set back: it begins anew.
                Some(_) => kept.stop.cancel(),
                None => kept.gone.cancel(),
            }
        }
        let missing: Vec<BindingId> = self
            .wanted
            .iter()
            .filter(|(name, _)| !self.kept.contains_key(*name) && !self.refused.contains(*name))
            .map(|(name, uid)| BindingId { name: name.clone(), uid: uid.clone() })
            .collect();
        for binding in missing {
            self.begin(binding);
        }
        let left_out = LeftOut { too_many: self.more, no_lease: self.refused.len() };
        self.office.health.bindings_left_out(left_out);
    }

    fn begin(&mut self, binding: BindingId) {
        let lease = match self.office.elections.leases() {
            Some(leases) => match naming::binding_lease(&leases.name, &binding.name) {
                Ok(lease) => lease,
                Err(error) => {
                    tracing::error!(
                        binding = &*binding.name, %error, "there can be no lease for a binding, so no replica serves it"
                    );
                    self.refused.insert(binding.name);
                    return;
                }
            },
            None => String::new(),
        };
        let (stop, gone) = (CancellationToken::new(), CancellationToken::new());
        let kept = Kept { uid: binding.uid.clone(), stop: stop.clone(), gone: gone.clone() };
        let name = binding.name.clone();
        let keeper = Keeper { binding, lease, office: Arc::clone(&self.office), gone };
        let handle = self.tasks.spawn(async move { keeper.run(&stop).await });
        self.names.insert(handle.id(), name.clone());
        self.kept.insert(name, kept);
    }
}

#[cfg(test)]
mod tests;
