//! What a physical API server is asked again and again: whether it is there, and whether it is still the same one.
//!
//! Owns the two rhythms. A probe every 5 s, or more often where a binding wants to know sooner (decisions S5 and S28), feeds the signs of life of its connection. A look every 30 s reads the
//! version of the store and the identity of the cluster: a version below one that was seen means that the store was set back
//! (decision S25), and every watch of that cluster lists again; another identity means that another cluster answers at the same
//! address with the same credential (decision S6). Never decides what follows.
//!
//! # Failure story
//!
//! A question without an answer changes nothing but the trouble that is shown: silence is judged by the signs of life. A right that
//! is missing for a look is shown, too: without it a cluster that is set back, or replaced, would not be found. Where an
//! operator raised the revision with the restore, versions show nothing; the witness of S25 in the leases is for that.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at};
use topoloom_cluster::restores::{Earlier, RestoreWatch};
use topoloom_cluster::{Refusal, Restores};
use topoloom_core::names::Uid;
use topoloom_core::version::ResourceVersion;

use super::contact;
use super::signs::Signs;

/// Between two looks.
pub const LOOK: Duration = Duration::from_secs(30);
/// The shortest time between two probes.
const SHORTEST: Duration = Duration::from_millis(100);

/// What is known of the store of a physical cluster, by whichever connection. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct History {
    restores: Restores,
    known: Arc<Mutex<Option<ResourceVersion>>>,
}

impl History {
    /// Counts how often the store was set back; the watches of the cluster belong to it.
    #[must_use]
    pub fn restores(&self) -> &Restores {
        &self.restores
    }

    fn known(&self) -> Option<ResourceVersion> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self, version: Option<ResourceVersion>) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = version;
    }

    fn has_shown(&self, version: &ResourceVersion) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_none_or(|known| known.is_older_than(version)) {
            *known = Some(version.clone());
        }
    }
}

/// Probes until it is dropped.
pub async fn probes(client: kube::Client, signs: Signs, trouble: watch::Sender<Option<Refusal>>) {
    // No interval may be zero, and no binding asks for one below a third of a second.
    let mut ticks = interval(signs.probe().max(SHORTEST));
    // A machine that slept has one probe due, and not a hundred.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let answer = contact::probe(&client).await;
        if answer.is_ok() {
            signs.answered();
        }
        replace(&trouble, answer.err());
    }
}

/// Looks once in this time, until it is dropped. What it may not see goes to `unseen`.
pub async fn looks(
    client: kube::Client,
    every: Duration,
    signs: Signs,
    history: History,
    identity: watch::Sender<Uid>,
    unseen: watch::Sender<Option<Refusal>>,
) {
    // The first contact was just now.
    let mut ticks = interval_at(Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut member = history.restores.member();
    // What happened before is known.
    member.lists();
    // The first contact has read the identity.
    let refused = look_at_version(&client, &signs, &history, &mut member).await;
    replace(&unseen, refused.err());
    loop {
        ticks.tick().await;
        let version = look_at_version(&client, &signs, &history, &mut member).await;
        let found = contact::identity(&client).await;
        replace(&unseen, version.err().or_else(|| found.as_ref().err().cloned()));
        if let Ok(found) = found {
            signs.answered();
            replace(&identity, found);
        }
    }
}

/// Puts a value in place of another one, and notifies only where they differ.
fn replace<T: PartialEq>(values: &watch::Sender<T>, value: T) {
    values.send_if_modified(|known| {
        let differs = *known != value;
        *known = value;
        differs
    });
}

async fn look_at_version(
    client: &kube::Client,
    signs: &Signs,
    history: &History,
    member: &mut RestoreWatch,
) -> Result<(), Refusal> {
    if member.lists() == Earlier::Void {
        // A watch has found it first, and what was known is of the lost history.
        history.replace(None);
    }
    let known = history.known();
    // That there is no answer shows by the probe and by the watches; that a right is missing may show nowhere else.
    let current = contact::version(client).await;
    let seen = match &current {
        Ok(_) => Ok(()),
        Err(refusal) => Err(refusal.clone()),
    };
    if let Ok(current) = current {
        signs.answered();
        match known.filter(|known| current.is_older_than(known)) {
            Some(known) => {
                member.went_back(&known, &current);
                history.replace(Some(current));
                // Found by us, so it is no news at the next look.
                member.lists();
            }
            None => history.has_shown(&current),
        }
    }
    // It has nothing to list.
    member.listed();
    seen
}
