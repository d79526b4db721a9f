//! Another installation that serves a binding, or whose name is in its status (decision S11).
//!
//! Owns the wait of an installation that does not serve the binding, what is said of it meanwhile, and what is read of the other one.
//! Whose a binding is, and when the other installation counts as gone, is decided by [`served`](topoloom_sync::served). What one that
//! serves the binding does about another name in its status is in `rival`. Never writes anything of the binding: its status is
//! that of the other installation, and an Event says that a second one wants it.
//!
//! # Failure story
//!
//! A Lease of the other installation that cannot be read is not one that is not there, and it may never be readable: then the leases
//! of the binding's virtual nodes say whether any installation serves it. Where those cannot be read, either, the binding is left
//! alone, with a sentence in `/readyz` that says how a person ends that.

mod rival;

use std::time::Duration;

use tokio::sync::watch;
use topoloom_api::ClusterBinding;
use topoloom_api::cluster_binding::ConnectionState;
use topoloom_api::condition::Reason;
use topoloom_cluster::Refusal;
use topoloom_cluster::events::Urgency;
use topoloom_core::names::Uid;
use topoloom_core::version::ResourceVersion;
use topoloom_sync::naming::BindingName;
use topoloom_sync::served::silence::{Beats, Doubts, Heard, Silence};
use topoloom_sync::served::{self, LeaseLook, Place, Presence, Server, Vigil};

pub(super) use self::rival::Rivalry;
use super::conductor::notify;
use super::news::News;
use super::orphans;
use super::requests::{Clients, LeaseName, SeenLease};
use super::{Holding, Process, Seen};
use crate::group::of_name;
use crate::troubles::lasts;

/// After what time leases that could not be read are asked for again.
const SOON: Duration = Duration::from_secs(5);
/// The same where a person has to do something.
const AGAIN: Duration = Duration::from_secs(30);
/// What the spec of a released Lease says of its duration: more than nothing, because the field has to be, and no time at all.
const RELEASED: Duration = Duration::from_secs(1);

/// What the task of a binding remembers of other installations, from one life of the binding to the next.
#[derive(Debug, Default)]
pub(super) struct Rivals {
    /// The Lease of the one that is gone.
    gone: Option<String>,
    /// The Lease of the one that the binding was taken over from last.
    taken_from: Option<String>,
    /// How often the binding was left to another, since one was heard for long.
    left: u32,
}

impl Rivals {
    /// The one with this Lease is gone.
    pub(super) fn ended(&mut self, lease: String) {
        self.gone = Some(lease);
    }

    /// The Lease of the one that the binding is taken over from now, because it is gone: if the status names it. That counts once.
    pub(super) fn take_over(&mut self, named: Option<&str>) -> Option<String> {
        let gone = self.gone.take().filter(|gone| named == Some(gone.as_str()))?;
        self.taken_from = Some(gone.clone());
        Some(gone)
    }

    /// The Lease of the one that the binding was taken over from last.
    pub(super) fn taken_from(&self) -> Option<String> {
        self.taken_from.clone()
    }

    /// The binding is left to another one.
    pub(super) fn leave(&mut self) {
        self.left = self.left.saturating_add(1);
    }
}

/// What is read of another installation, and of the nodes of the binding.
#[derive(Clone, Copy)]
pub(super) struct Reads<'a> {
    pub(super) clients: &'a Clients,
    /// Our own Lease of the binding.
    pub(super) ours: &'a LeaseName,
    /// The name of the binding.
    pub(super) binding: &'a str,
    pub(super) virtual_cluster: &'a Uid,
}

impl Reads<'_> {
    /// What the Lease of the other installation shows, and where it is. A text that names no Lease is one that is not there.
    async fn lease(&self, lease: &str) -> Result<(LeaseLook, Place), Refusal> {
        let Some((namespace, name)) = served::place(lease) else { return Ok((LeaseLook::Absent, Place::Elsewhere)) };
        let place = if namespace == self.ours.namespace { Place::Home } else { Place::Elsewhere };
        let other = LeaseName { namespace: namespace.to_owned(), name: name.to_owned() };
        Ok((seen(self.clients.lease(&other).await?), place))
    }

    /// What the leases of all virtual nodes of the binding show.
    async fn beats(&self) -> Result<Beats, Refusal> {
        match BindingName::parse(self.binding) {
            Ok(binding) => self.clients.node_leases(&of_name(self.virtual_cluster, &binding)).await,
            // A binding of such a name has no nodes.
            Err(_) => Ok(Beats::default()),
        }
    }
}

/// What this replica has seen of the installation that it waits for.
#[derive(Debug, Default)]
struct Sight {
    vigil: Vigil,
    silence: Silence,
    /// Whether it has renewed leases of nodes for long.
    is_steady: bool,
}

/// Waits for as long as the installation with this Lease serves the binding; or until the binding is another one, or not its any more.
pub(super) async fn wait(
    process: &Process,
    holding: &Holding,
    object: &ClusterBinding,
    lease: &str,
    objects: &mut watch::Receiver<Seen>,
    rivals: &mut Rivals,
) {
    let ours = holding.lease.to_string();
    tracing::warn!(
        binding = holding.name,
        lease,
        ours,
        "another installation serves a binding: this one stays away from it until that one is gone"
    );
    let clients = Clients::of_virtual(&process.lent, &holding.lent);
    // What this installation kept of it is not how it is served now.
    if let Ok(kept) = clients.lease(&holding.lease).await {
        orphans::forget(&clients, &holding.lease, kept.as_ref()).await;
    }
    let _shown = process.metrics.elsewhere(&holding.name);
    let note = format!(
        "The installation with the Lease {lease} serves the binding, and another one with {ours} wants it, too."
    );
    let news = News { urgency: Urgency::Warning, reason: Reason::ServedElsewhere.as_str().to_owned(), note };
    notify(process, &holding.name, object.metadata.uid.as_deref(), &[news]).await;
    let reads = Reads {
        clients: &clients,
        ours: &holding.lease,
        binding: &holding.name,
        virtual_cluster: &process.virtual_cluster,
    };
    let mut sight = Sight::default();
    loop {
        let doubts = Doubts { left: rivals.left, says_unreachable: says_unreachable(&objects.borrow()) };
        let (presence, why) = look(&reads, lease, &mut sight, doubts, (process.now)().steady).await;
        if sight.is_steady {
            rivals.left = 0;
        }
        (holding.tell)(Some(&why));
        let again = match presence {
            Presence::Gone => {
                tracing::warn!(
                    binding = holding.name,
                    lease,
                    why,
                    "the installation that served a binding is gone: it is taken over"
                );
                rivals.ended(lease.to_owned());
                return;
            }
            Presence::There(again) => again,
        };
        let mut pause = std::pin::pin!(tokio::time::sleep(again));
        loop {
            tokio::select! {
                () = &mut pause => break,
                changed = objects.changed() => {
                    if changed.is_err() {
                        // The watch has ended, and with it this task.
                        std::future::pending::<()>().await;
                    }
                    if !is_of(&objects.borrow_and_update(), object, lease) {
                        return;
                    }
                }
            }
        }
    }
}

/// Whether this is the same binding, and the same installation serves it.
fn is_of(seen: &Seen, object: &ClusterBinding, lease: &str) -> bool {
    match seen {
        Seen::Unread => true,
        Seen::Gone => false,
        Seen::Present(now) => now.metadata.uid == object.metadata.uid && now.status.lease.as_deref() == Some(lease),
    }
}

/// Whether the status says that leases of nodes may be stopped on purpose.
fn says_unreachable(seen: &Seen) -> bool {
    let Seen::Present(object) = seen else { return false };
    object.status.connection.as_ref().is_some_and(|connection| match connection.state {
        ConnectionState::Reachable | ConnectionState::Suspect => false,
        ConnectionState::Connecting | ConnectionState::Unreachable | ConnectionState::Unknown => true,
    })
}

/// Whether the other installation is there, and the sentence about it.
async fn look(reads: &Reads<'_>, lease: &str, sight: &mut Sight, doubts: Doubts, now: Duration) -> (Presence, String) {
    let says = Server::Another(lease).to_string();
    let refusal = match reads.lease(lease).await {
        Ok((look, place)) => return (sight.vigil.look(look, place, now), says),
        Err(refusal) => refusal,
    };
    let says = format!("{says}, which cannot be read: {refusal}.");
    let beats = match reads.beats().await {
        Ok(beats) => beats,
        Err(refusal) => {
            sight.silence.unread();
            let why = format!("{says} The leases of virtual nodes cannot be read, either: {refusal}. {}", by_hand());
            return (Presence::There(pause_after(&refusal)), why);
        }
    };
    let heard = sight.silence.heard(beats, doubts, now);
    sight.is_steady = matches!(heard, Heard::Steady(_));
    match heard {
        Heard::Renewed(again) | Heard::Steady(again) => {
            (Presence::There(again), format!("{says} The leases of virtual nodes are renewed, so it lives"))
        }
        Heard::Quiet(again) if doubts == Doubts::default() => {
            let why = "If no lease of a virtual node is renewed for half of the time that it lasts, the binding is taken over";
            (Presence::There(again), format!("{says} {why}"))
        }
        Heard::Quiet(again) => {
            let why = "No lease of a virtual node is renewed, as where the physical cluster does not answer or nothing is lent, so the \
                       binding is taken over later";
            (Presence::There(again), format!("{says} {why}. {}", by_hand()))
        }
        Heard::Silent => (Presence::Gone, format!("{says} No lease of a virtual node is renewed")),
    }
}

fn pause_after(refusal: &Refusal) -> Duration {
    if lasts(refusal.reason) { AGAIN } else { SOON }
}

/// What a person does who knows better.
fn by_hand() -> &'static str {
    "If that installation is gone, remove status.lease of the ClusterBinding; one that lives writes it again"
}

/// What the Lease shows.
fn seen(lease: Option<SeenLease>) -> LeaseLook {
    let Some(SeenLease { holder, version, lasts, .. }) = lease else { return LeaseLook::Absent };
    let version = ResourceVersion::from(version);
    match lasts {
        Some(lasts) if holder.is_empty() && lasts <= RELEASED => LeaseLook::Released,
        Some(_) | None if holder.is_empty() => LeaseLook::Unelected(version),
        lasts => LeaseLook::Held { version, lasts },
    }
}

#[cfg(test)]
mod tests;
