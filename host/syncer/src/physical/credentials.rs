//! The Secret of a binding, and which connection is used because of it (decisions S6 and S20).
//!
//! Owns one rule: the connection that stands is replaced only by one that has answered a probe and leads to the same cluster. What
//! is wrong otherwise is published as a [`Problem`], beside the connection that is kept. Never decides what a changed cluster means
//! for nodes and pods; it only holds the new connection back until the UID is confirmed.
//!
//! ```text
//!   Secret ──judge──► access ──open, probe, identity──► same cluster? ──share──► in use
//!     │ missing, deleted, refused    │ no answer: again      │ no: until confirmed
//!     └──────────────────────────────┴──────────────────────┴────► problem; what is in use stays
//! ```
//!
//! # Failure story
//!
//! A Secret that is deleted, unreadable or wrong changes nothing but the problem. A server that does not answer is tried again with
//! pauses of up to half a minute. A cluster that changes behind a credential that stays is found by the looks of the connection
//! ([`super::probe`]), and is a problem until it is confirmed or gone. A Secret that changes while an attempt is under way ends that
//! attempt.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use topoloom_cluster::pause::{LONGEST, Pauses};
use topoloom_cluster::watches::Heard;
use topoloom_cluster::{Refusal, RefusalReason, Restores, Side, single};
use topoloom_core::names::Uid;
use topoloom_sync::liveness::ContactTiming;

use super::connection::Connection;
use super::contact::{self, ContactError, Question};
use super::registry::{Physical, Registry};
use crate::kubeconfig::{self, Access, Allowed, CredentialEnd, KubeconfigError};

/// What a binding says about its connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// What its kubeconfig may say.
    pub allowed: Allowed,
    /// Which cluster it leads to.
    pub expected: Expected,
    /// When its connection is suspect.
    pub timing: ContactTiming,
}

/// Which cluster a binding leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// It has not been connected before (`status.physicalClusterUID` is empty): the one that answers first.
    First,
    /// This one: that of the status, or the one that an operator has confirmed.
    Cluster(Uid),
}

/// Which connection is in use, and what is wrong with the credential.
#[derive(Debug, Clone, Default)]
pub struct CredentialState {
    /// The connection that is in use.
    pub in_use: Option<Arc<Physical>>,
    /// When the credential of the connection in use ends.
    pub end: Option<CredentialEnd>,
    /// What keeps the Secret from being used as it is.
    pub problem: Option<Problem>,
}

/// What is wrong with the credential of a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// There is no such Secret.
    Missing,
    /// There was one, and it was deleted.
    Deleted,
    /// The Secret cannot be watched.
    Unwatched(Refusal),
    /// Its kubeconfig is refused.
    Kubeconfig(KubeconfigError),
    /// No client can be made of it.
    Client(String),
    /// The server was not reached, or refuses us.
    Contact(ContactError),
    /// The server and something that the kubeconfig says do not fit together, which a person has to correct.
    Unfit {
        /// Which field, and what would be right.
        why: String,
        /// What came of the contact.
        error: ContactError,
    },
    /// It leads to another cluster (`PhysicalClusterChanged`). Where the connection in use does, what was cached by it is worth
    /// nothing any more, also when the first cluster is back.
    ClusterChanged {
        /// The cluster that it led to.
        known: Uid,
        /// The one that answers.
        found: Uid,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the Secret does not exist"),
            Self::Deleted => f.write_str("the Secret was deleted"),
            Self::Unwatched(refusal) => write!(f, "the Secret cannot be watched: {refusal}"),
            Self::Kubeconfig(error) => error.fmt(f),
            Self::Client(error) => f.write_str(error),
            Self::Contact(error) => error.fmt(f),
            Self::Unfit { why, error } => write!(f, "kubeconfig: {why}; {error}"),
            Self::ClusterChanged { known, found } => write!(
                f,
                "another physical cluster answers: its UID is {found}, and that of the known one is {known}; \
                 `topoloom lend confirm` accepts it"
            ),
        }
    }
}

impl CredentialState {
    /// What is wrong, in a sentence that also says whether a connection is kept meanwhile.
    #[must_use]
    pub fn sentence(&self) -> Option<String> {
        let problem = self.problem.as_ref()?;
        let kept = if self.in_use.is_some() { "; the connection that was made before is kept" } else { "" };
        Some(format!("{problem}{kept}"))
    }
}

/// What follows the Secret of one binding.
pub struct Follow {
    registry: Arc<Registry>,
    terms: watch::Receiver<Terms>,
    state: watch::Sender<CredentialState>,
}

impl Follow {
    /// For a binding with these terms, which may change.
    #[must_use]
    pub fn new(registry: &Arc<Registry>, terms: watch::Receiver<Terms>) -> Self {
        Self { registry: Arc::clone(registry), terms, state: watch::Sender::default() }
    }

    /// What came of it so far.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<CredentialState> {
        self.state.subscribe()
    }

    /// Follows the Secret of this name until the terms are dropped. Lists and watches carry its name, so that a Role can restrict
    /// them to it; `restores` are those of the virtual cluster.
    pub async fn run(self, secrets: Api<Secret>, name: &str, restores: &Restores) {
        let works = Arc::new(Notify::new());
        let noted = Arc::clone(&works);
        let heard = Heard::new(move || noted.notify_one());
        self.follow(single::watch_heard(secrets, name, restores, &heard), &works).await;
    }

    /// The same for any source of states. `works` is notified when the source works.
    pub(super) async fn follow(
        self,
        secrets: impl Stream<Item = Result<Option<Secret>, Refusal>> + Send,
        works: &Notify,
    ) {
        let mut secrets = std::pin::pin!(secrets);
        let Self { registry, mut terms, state } = self;
        let mut following = Following::new(registry, terms.borrow_and_update().clone());
        loop {
            tokio::select! {
                biased;
                changed = terms.changed() => match changed {
                    Ok(()) => following.terms(terms.borrow_and_update().clone()),
                    Err(_) => return,
                },
                // Before the next state, which may be an error.
                () = works.notified() => following.watched = None,
                secret = secrets.next() => match secret {
                    Some(secret) => following.secret(secret),
                    None => return,
                },
                outcome = following.attempt.run() => following.attempted(outcome),
                found = other_cluster(&mut following.in_use) => following.answers_as(&found),
            }
            following.publish(&state);
        }
    }
}

/// What came of an attempt.
type Outcome = Result<(Connection, Uid), Problem>;

/// Begins another attempt.
type Again = Box<dyn Fn() -> BoxFuture<'static, Outcome> + Send + Sync>;

/// The attempt at a new connection.
#[derive(Default)]
enum Attempt {
    /// None is wanted.
    #[default]
    None,
    /// One is under way.
    Under(BoxFuture<'static, Outcome>),
    /// One failed, and the next one is due then.
    Due(Instant, Again),
}

impl Attempt {
    /// Resolves with an outcome. What is dropped while it waits goes on at the next call.
    async fn run(&mut self) -> Outcome {
        if let Self::Due(at, again) = self {
            tokio::time::sleep_until(*at).await;
            *self = Self::Under(again());
        }
        match self {
            Self::Under(under) => under.await,
            Self::None | Self::Due(..) => std::future::pending().await,
        }
    }
}

/// One binding.
struct Following {
    registry: Arc<Registry>,
    terms: Terms,
    /// The Secret as it was last seen.
    secret: Option<Secret>,
    /// What it says, where that is accepted.
    access: Option<Access>,
    in_use: Option<InUse>,
    attempt: Attempt,
    pauses: Pauses,
    /// What is wrong with the Secret.
    refused: Option<Problem>,
    /// What is wrong with the server that it names.
    unmet: Option<Problem>,
    /// What is wrong with the watch.
    watched: Option<Refusal>,
    is_news: bool,
}

/// A connection in use.
struct InUse {
    physical: Arc<Physical>,
    identity: watch::Receiver<Uid>,
    timing: ContactTiming,
    end: Option<CredentialEnd>,
}

impl InUse {
    /// Whether it was made of this, and still leads to where it led then.
    fn is_of(&self, access: &Access, timing: ContactTiming) -> bool {
        let is_same = self.physical.connection().fingerprint() == access.fingerprint() && self.timing == timing;
        is_same && *self.identity.borrow() == *self.physical.cluster()
    }
}

/// Resolves when another cluster answers on the connection in use, or the first one again.
async fn other_cluster(in_use: &mut Option<InUse>) -> Uid {
    if let Some(in_use) = in_use
        && in_use.identity.changed().await.is_ok()
    {
        return in_use.identity.borrow_and_update().clone();
    }
    std::future::pending().await
}

impl Following {
    fn new(registry: Arc<Registry>, terms: Terms) -> Self {
        Self {
            registry,
            terms,
            secret: None,
            access: None,
            in_use: None,
            attempt: Attempt::None,
            pauses: Pauses::default(),
            refused: None,
            unmet: None,
            watched: None,
            is_news: true,
        }
    }

    /// The cluster that a connection has to lead to, if one is known.
    fn known(&self) -> Option<&Uid> {
        match &self.terms.expected {
            Expected::Cluster(uid) => Some(uid),
            // Its status may not have it yet.
            Expected::First => self.in_use.as_ref().map(|in_use| in_use.physical.cluster()),
        }
    }

    fn secret(&mut self, state: Result<Option<Secret>, Refusal>) {
        match state {
            Ok(Some(secret)) => {
                self.watched = None;
                self.secret = Some(secret);
                self.judge();
            }
            Ok(None) => {
                self.watched = None;
                let was_there = self.secret.is_some() || self.refused == Some(Problem::Deleted);
                self.refused = Some(if was_there { Problem::Deleted } else { Problem::Missing });
                self.secret = None;
                self.access = None;
                self.attempt = Attempt::None;
                self.unmet = self.unmet_in_use();
            }
            Err(refusal) => self.watched = Some(refusal.on(Side::Virtual)),
        }
    }

    fn terms(&mut self, terms: Terms) {
        let before = std::mem::replace(&mut self.terms, terms);
        let is_judged_anew = before.allowed != self.terms.allowed || before.timing != self.terms.timing;
        if is_judged_anew || before.expected != self.terms.expected {
            self.judge();
        }
    }

    /// Judges what the Secret says, and begins an attempt where something else is in use.
    fn judge(&mut self) {
        let Some(secret) = &self.secret else { return };
        self.attempt = Attempt::None;
        self.pauses = Pauses::default();
        match kubeconfig::of_secret(secret, self.terms.allowed) {
            Err(error) => {
                self.refused = Some(Problem::Kubeconfig(error));
                self.access = None;
                self.unmet = self.unmet_in_use();
            }
            Ok(access) => {
                self.refused = None;
                self.unmet = self.unmet_in_use();
                let is_in_use = self.in_use.as_ref().is_some_and(|in_use| in_use.is_of(&access, self.terms.timing));
                if !is_in_use || self.unmet.is_some() {
                    self.attempt = Attempt::Under(attempt(&self.registry, &access));
                }
                self.access = Some(access);
            }
        }
    }

    /// What is wrong with the cluster that the connection in use leads to.
    fn unmet_in_use(&self) -> Option<Problem> {
        let in_use = self.in_use.as_ref()?;
        let (cluster, found) = (in_use.physical.cluster(), in_use.identity.borrow().clone());
        // One that was made for another cluster is a problem until it is replaced, also where that one was confirmed.
        let is_another = || {
            let differs = *cluster != found;
            differs.then(|| Problem::ClusterChanged { known: cluster.clone(), found: found.clone() })
        };
        self.differs(&found).or_else(is_another)
    }

    fn differs(&self, found: &Uid) -> Option<Problem> {
        let known = self.known().filter(|known| *known != found)?;
        Some(Problem::ClusterChanged { known: known.clone(), found: found.clone() })
    }

    /// An attempt has ended.
    fn attempted(&mut self, outcome: Outcome) {
        self.attempt = Attempt::None;
        let Some(access) = self.access.clone() else { return };
        let problem = match outcome {
            Ok((connection, cluster)) => match self.differs(&cluster) {
                None => {
                    let physical = self.registry.share(&cluster, connection, self.terms.timing);
                    let (identity, timing, end) = (physical.identity(), self.terms.timing, access.end());
                    self.in_use = Some(InUse { physical, identity, timing, end });
                    self.unmet = None;
                    return;
                }
                Some(changed) => changed,
            },
            Err(problem) => problem,
        };
        let pause = match &problem {
            // Only a person or a name server ends this.
            Problem::ClusterChanged { .. } => LONGEST,
            Problem::Contact(error) | Problem::Unfit { error, .. } => {
                self.pauses.failed(Instant::now(), error.refusal.retry_after)
            }
            _ => self.pauses.failed(Instant::now(), None),
        };
        self.unmet = Some(problem);
        let registry = Arc::clone(&self.registry);
        self.attempt = Attempt::Due(Instant::now() + pause, Box::new(move || attempt(&registry, &access)));
    }

    /// The connection in use leads to this cluster now.
    fn answers_as(&mut self, found: &Uid) {
        match self.differs(found) {
            Some(changed) => self.unmet = Some(changed),
            // It is back, or it was confirmed before we saw it.
            None => self.judge(),
        }
    }

    fn publish(&mut self, state: &watch::Sender<CredentialState>) {
        let problem = self.refused.clone().or_else(|| self.unmet.clone());
        let problem = problem.or_else(|| self.watched.clone().map(Problem::Unwatched));
        let (in_use, end) = match &self.in_use {
            Some(in_use) => (Some(Arc::clone(&in_use.physical)), in_use.end),
            None => (None, None),
        };
        let is_first = std::mem::take(&mut self.is_news);
        state.send_if_modified(|known| {
            let is_same = match (&known.in_use, &in_use) {
                (Some(known), Some(now)) => Arc::ptr_eq(known, now),
                (None, None) => true,
                _ => false,
            };
            let differs = is_first || !is_same || known.end != end || known.problem != problem;
            *known = CredentialState { in_use, end, problem };
            differs
        });
    }
}

/// Makes a connection, and asks whether it leads anywhere and where.
fn attempt(registry: &Arc<Registry>, access: &Access) -> BoxFuture<'static, Outcome> {
    let (opened, access) = (registry.open(access), access.clone());
    async move {
        let connection = opened.map_err(|error| Problem::Client(error.to_string()))?;
        let contact = contact::first(connection.reads()).await;
        let cluster = contact.map_err(|error| met(error, &access))?;
        Ok((connection, cluster))
    }
    .boxed()
}

/// What TLS says where the certificate of a server does not prove what it has to prove.
const UNPROVEN: &str = "invalid peer certificate";

/// What is wrong where the first contact by what a kubeconfig says failed.
fn met(error: ContactError, access: &Access) -> Problem {
    let why = if error.refusal.reason == RefusalReason::Unauthorized {
        let fields: Vec<&str> = access.kinds().iter().map(|kind| kind.field()).collect();
        let end = access.end().map(|end| format!(" ({end})")).unwrap_or_default();
        format!(
            "{}.{}: the API server does not accept it{end}; allowed is a credential of that cluster that has not ended",
            access.place_of_user(),
            fields.join(" and ")
        )
    } else if error.refusal.reason == RefusalReason::Unreachable && error.refusal.message.contains(UNPROVEN) {
        format!(
            "{}.certificate-authority-data: the certificate of the API server is not proven by it; allowed is the authority that \
             signed that certificate, which also has to be valid now and to have the name of server or tls-server-name",
            access.place_of_cluster()
        )
    } else if (error.asked, error.refusal.reason) == (Question::Probe, RefusalReason::NotFound) {
        format!(
            "{}.server: there is no API server at this URL; allowed is the URL of an API server, with its path",
            access.place_of_cluster()
        )
    } else {
        return Problem::Contact(error);
    };
    Problem::Unfit { why, error }
}
