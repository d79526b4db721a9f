//! A binding that another installation serves (decision S11): this one stays away from it, and takes over when that one is gone.
//!
//! Owns the wait, and what is said of it meanwhile. Whose a binding is, and when the other installation counts as gone, is decided by
//! [`served`](topoloom_sync::served). Never writes anything of the binding: its status is that of the other installation, and an
//! Event says that a second one wants it.
//!
//! # Failure story
//!
//! A Lease of the other installation that cannot be read is not one that is not there: the binding is left alone, with a sentence in
//! `/readyz` that says how a person ends that. Where that installation lives, it writes its name again.

use std::time::Duration;

use tokio::sync::watch;
use topoloom_api::ClusterBinding;
use topoloom_api::condition::Reason;
use topoloom_cluster::Refusal;
use topoloom_cluster::events::Urgency;
use topoloom_core::version::ResourceVersion;
use topoloom_sync::served::{self, LeaseLook, Place, Presence, Server, Vigil};

use super::conductor::notify;
use super::news::News;
use super::orphans;
use super::requests::{Clients, LeaseName, SeenLease};
use super::{Holding, Process, Seen};

/// After what time a Lease that could not be read is asked for again.
const AGAIN: Duration = Duration::from_secs(30);
/// What the spec of a released Lease says of its duration: more than nothing, because the field has to be, and no time at all.
const RELEASED: Duration = Duration::from_secs(1);

/// How the wait for another installation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    /// It is gone: the binding is taken over from it.
    Gone,
    /// The binding is another one now, or is not its any more.
    Changed,
}

/// Waits for as long as the installation with this Lease serves the binding.
pub(super) async fn wait(
    process: &Process,
    holding: &Holding,
    object: &ClusterBinding,
    lease: &str,
    objects: &mut watch::Receiver<Seen>,
) -> Waited {
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
    let mut vigil = Vigil::default();
    loop {
        let (presence, why) = look(&clients, &holding.lease, lease, &mut vigil, (process.now)().steady).await;
        (holding.tell)(Some(&why));
        let again = match presence {
            Presence::Gone => {
                tracing::warn!(
                    binding = holding.name,
                    lease,
                    "the installation that served a binding is gone: it is taken over"
                );
                return Waited::Gone;
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
                        return Waited::Changed;
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

/// Whether the other installation is there, and the sentence about it.
async fn look(
    clients: &Clients,
    ours: &LeaseName,
    lease: &str,
    vigil: &mut Vigil,
    now: Duration,
) -> (Presence, String) {
    let says = Server::Another(lease).to_string();
    let Some((namespace, name)) = served::place(lease) else {
        return (Presence::There(AGAIN), format!("{says}, which is no name of a Lease: {}", by_hand()));
    };
    let place = if namespace == ours.namespace { Place::Home } else { Place::Elsewhere };
    let other = LeaseName { namespace: namespace.to_owned(), name: name.to_owned() };
    match clients.lease(&other).await {
        Ok(found) => (vigil.look(seen(found), place, now), says),
        Err(refusal) => (Presence::There(AGAIN), unreadable(&says, &refusal)),
    }
}

fn unreadable(says: &str, refusal: &Refusal) -> String {
    format!("{says}, which cannot be read: {refusal}. {}", by_hand())
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
