//! Bindings that come and go on one replica, with elections that a test decides and groups that count their tasks.
//!
//! Time is paused: a lease lasts 15 s and has to be renewed within 10 s, and a group may take 20 s to end. A replica stands for a
//! binding within half a second, and rests for 19 s at most.

mod hands;
mod lives;
mod waits;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use tokio::time::Instant;
use topoloom_core::election::Lost;

use super::*;
use crate::cluster::gate::Closed;
use crate::manager::election::staged::Staged;
use crate::manager::election::{BindingElection, Election, Role, Stands};
use crate::manager::options::LeaseOptions;

const S: Duration = Duration::from_secs(1);
/// How long a group may take to end.
const DRAIN: Duration = Duration::from_secs(20);

fn id(name: &str, uid: &str) -> BindingId {
    BindingId { name: BindingName::parse(name).unwrap(), uid: uid.into() }
}

fn bindings(all: &[(&str, &str)]) -> Bindings {
    let seen = |uid: &str| Seen { uid: uid.into(), created: None };
    all.iter().map(|(name, uid)| (BindingName::parse(name).unwrap(), seen(uid))).collect()
}

/// Elections whose results a test sets.
struct Ballot {
    identity: Arc<str>,
    leases: LeaseOptions,
    /// Every election that was ever begun, in order, with how much later than it could it claims its lease.
    stood: Mutex<Vec<(String, Staged, watch::Receiver<Duration>)>>,
}

impl Ballot {
    /// How many elections were begun for a binding.
    fn count(&self, binding: &str) -> usize {
        self.stood.lock().unwrap().iter().filter(|(name, ..)| name == binding).count()
    }

    /// Does this with the last election of a binding.
    fn last<T>(&self, binding: &str, does: impl FnOnce(&Staged) -> T) -> T {
        let stood = self.stood.lock().unwrap();
        let (_, staged, _) = stood.iter().rfind(|(name, ..)| name == binding).unwrap();
        does(staged)
    }

    /// How many elections were begun, and how many of them were ended.
    fn counts(&self) -> (usize, usize) {
        let stood = self.stood.lock().unwrap();
        (stood.len(), stood.iter().filter(|(_, staged, _)| staged.is_released()).count())
    }

    fn election(&self, binding: &str) -> Election {
        self.last(binding, |staged| staged.election.clone())
    }

    fn courtesy(&self, binding: &str) -> Duration {
        let stood = self.stood.lock().unwrap();
        let (_, _, courtesy) = stood.iter().rfind(|(name, ..)| name == binding).unwrap();
        *courtesy.borrow()
    }
}

impl Stands for Ballot {
    fn stand(&self, wanted: BindingElection) -> Election {
        let BindingElection { binding, courtesy, .. } = wanted;
        let staged = Staged::binding(&binding, S);
        let election = staged.election.clone();
        self.stood.lock().unwrap().push((binding.to_string(), staged, courtesy));
        election
    }

    fn leases(&self) -> Option<&LeaseOptions> {
        Some(&self.leases)
    }

    fn identity(&self) -> &Arc<str> {
        &self.identity
    }
}

/// How a group behaves.
#[derive(Clone, Copy)]
enum Manner {
    /// It ends so long after it was asked to.
    Ends(Duration),
    /// It ends by itself after so long, with an error.
    Fails(Duration),
    /// It panics after so long.
    Breaks(Duration),
}

/// Groups of two tasks each, which count.
struct Counting {
    begun: Instant,
    manner: Mutex<Manner>,
    /// Nothing is left of the bindings of those that end when they are asked to.
    left: CancellationToken,
    /// Of these bindings leases keep something.
    recorded: Mutex<Vec<BindingId>>,
    /// Tasks that run, over all groups.
    tasks: Arc<AtomicUsize>,
    /// What happened, and when.
    told: Arc<Mutex<Vec<String>>>,
    /// What each group was begun with.
    held: Mutex<Vec<HeldBinding>>,
    /// How often bindings were added.
    added: AtomicUsize,
}

/// One task of a group, for as long as it runs.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn one(tasks: &Arc<AtomicUsize>) -> Self {
        tasks.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(tasks))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Counting {
    fn behaves(&self, manner: Manner) {
        *self.manner.lock().unwrap() = manner;
    }

    fn tasks(&self) -> usize {
        self.tasks.load(Ordering::SeqCst)
    }

    fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }

    fn held(&self) -> HeldBinding {
        self.held.lock().unwrap().last().unwrap().clone()
    }

    /// Runs until it is stopped, and tells both.
    fn runs(&self, what: &'static str, stop: CancellationToken) -> BoxFuture<'static, Result<(), String>> {
        let told = Arc::clone(&self.told);
        async move {
            told.lock().unwrap().push(format!("{what} begins"));
            stop.cancelled().await;
            told.lock().unwrap().push(format!("{what} ends"));
            Ok(())
        }
        .boxed()
    }
}

impl BindingGroups for Counting {
    fn start_group(&self, held: HeldBinding, stop: CancellationToken) -> BoxFuture<'static, Result<(), String>> {
        let (tasks, told, begun) = (Arc::clone(&self.tasks), Arc::clone(&self.told), self.begun);
        let (manner, who) = (*self.manner.lock().unwrap(), format!("{}/{}", held.binding.name, held.binding.uid));
        let left = self.left.clone();
        self.held.lock().unwrap().push(held);
        let tell = move |what: &str| told.lock().unwrap().push(format!("{who} {what} {}", begun.elapsed().as_secs()));
        async move {
            let _whole = Counted::one(&tasks);
            tell("begins");
            let mut inner = JoinSet::new();
            let part = Counted::one(&tasks);
            inner.spawn(async move {
                let _part = part;
                std::future::pending::<()>().await;
            });
            match manner {
                Manner::Ends(time) => {
                    tokio::select! {
                        () = stop.cancelled() => tell("hears"),
                        () = left.cancelled() => {
                            tell("leaves");
                            return Ok(());
                        }
                    }
                    tokio::time::sleep(time).await;
                    tell("ends");
                    Ok(())
                }
                Manner::Fails(time) => {
                    tokio::time::sleep(time).await;
                    Err("its cluster is another one".to_owned())
                }
                Manner::Breaks(time) => {
                    tokio::time::sleep(time).await;
                    panic!("at {}", 7)
                }
            }
        }
        .boxed()
    }

    fn added(&self) {
        self.added.fetch_add(1, Ordering::SeqCst);
    }

    fn recorded(&self, leases: Option<LeasesOfBindings>) -> BoxFuture<'static, Vec<BindingId>> {
        assert_eq!(leases, Some(LeasesOfBindings { namespace: "n".to_owned(), base: "l".to_owned() }));
        std::future::ready(self.recorded.lock().unwrap().clone()).boxed()
    }

    fn keep_warm(&self, stop: CancellationToken) -> BoxFuture<'static, Result<(), String>> {
        self.runs("warm", stop)
    }

    fn serve(&self, stop: CancellationToken) -> BoxFuture<'static, Result<(), String>> {
        self.runs("serving", stop)
    }
}

/// One replica.
struct Replica {
    ballot: Arc<Ballot>,
    groups: Arc<Counting>,
    crew: Arc<Crew>,
    health: Health,
    office: Arc<Office>,
}

impl Replica {
    fn new() -> Self {
        Self::with_leases("l")
    }

    /// One whose leases have names that begin with this.
    fn with_leases(base: &str) -> Self {
        let begun = Instant::now();
        let leases = LeaseOptions {
            namespace: "n".into(),
            name: base.into(),
            duration: 15 * S,
            renew_deadline: 10 * S,
            retry_period: S / 2,
        };
        let identity: Arc<str> = "pod-0".into();
        let ballot = Arc::new(Ballot { identity: Arc::clone(&identity), leases, stood: Mutex::default() });
        let groups = Arc::new(Counting {
            begun,
            manner: Mutex::new(Manner::Ends(S)),
            left: CancellationToken::new(),
            recorded: Mutex::default(),
            tasks: Arc::default(),
            told: Arc::default(),
            held: Mutex::default(),
            added: AtomicUsize::default(),
        });
        let crew = Crew::new(&identity, Arc::new(move || 1000 * S + begun.elapsed()));
        let health = Health::default();
        let office = Office {
            groups: Arc::clone(&groups) as _,
            elections: Arc::clone(&ballot) as _,
            crew: Arc::clone(&crew),
            health: health.clone(),
            arrivals: Arrivals::default(),
            drain: DRAIN,
        };
        Self { ballot, groups, crew, health, office: Arc::new(office) }
    }

    /// The series of its bindings.
    fn metrics(&self) -> Vec<String> {
        let mut registry = prometheus_client::registry::Registry::with_prefix("topoloom");
        self.health.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text.lines().filter(|line| line.starts_with("topoloom_binding_")).map(str::to_owned).collect()
    }

    fn keepers(&self) -> Keepers {
        Keepers::new(Arc::clone(&self.office))
    }
}

/// Lets all tasks do what they can do now.
async fn settled() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// Time passes for everything that runs.
async fn passes(time: Duration, keepers: &mut Keepers) {
    let mut over = std::pin::pin!(tokio::time::sleep(time));
    loop {
        tokio::select! {
            () = keepers.next() => {}
            () = &mut over => break,
        }
    }
    settled().await;
}

#[test]
fn a_process_that_serves_bindings_may_open_as_many_files_as_the_machine_allows_up_to_a_bound() {
    let files = || getrlimit(Resource::Nofile);
    let maximum = files().maximum;
    let most = maximum.map_or(FILES, |most| most.min(FILES));
    setrlimit(Resource::Nofile, Rlimit { current: Some(most - 1), maximum }).unwrap();
    allow_files();
    assert_eq!((files().current, files().maximum), (Some(most), maximum));
}
