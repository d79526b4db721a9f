//! The name of an installation in the status of a binding: ours, or that of another one.
//!
//! Owns what follows from it for the life of the binding. A life whose own name was never in the status leaves the binding to the one
//! that was first; one that serves the binding looks at the other one before it ends ([`Rivalry`]).

use tokio::time::Instant;
use topoloom_api::ClusterBinding;
use topoloom_api::condition::Reason;
use topoloom_cluster::events::Urgency;
use topoloom_sync::served::silence::{Claim, Rival};
use topoloom_sync::served::{Server, server};

use super::Conductor;
use crate::bindings::Ended;
use crate::bindings::elsewhere::{Reads, Rivalry};

impl Conductor {
    /// Whose the binding is now, as its status says.
    pub(super) fn named(&mut self, object: &ClusterBinding) -> Option<Ended> {
        let lease = match server(object.status.lease.as_deref(), &self.served_with) {
            Server::Another(lease) => lease,
            Server::Us => {
                self.taken_from = None;
                self.rival = None;
                return None;
            }
            Server::None => {
                self.rival = None;
                return None;
            }
        };
        let is = |known: Option<&String>| known.is_some_and(|known| known == lease);
        if is(self.taken_from.as_ref()) || is(self.rival.as_ref().map(|rival| &rival.lease)) {
            return None;
        }
        let was_ours = self.rival.is_some() || self.object.status.lease.as_ref() == Some(&self.served_with);
        if !was_ours {
            return Some(Ended::Elsewhere);
        }
        tracing::warn!(
            binding = self.name,
            lease,
            ours = self.served_with,
            "another installation has written its name into the status of a binding that this one serves"
        );
        let rival = if is(self.earlier.as_ref()) {
            Rival::TakenFrom
        } else if is(self.written_over.as_ref()) {
            Rival::Insists
        } else {
            Rival::Stranger
        };
        self.rival = Some(Rivalry::new(lease, rival, &self.parts.heartbeats, self.process.clock.boot()));
        None
    }

    /// Looks at the rival, where there is one and its time has come.
    pub(super) async fn face_rival(&mut self) -> Option<Ended> {
        let mut rival = self.rival.take_if(|rival| rival.at <= Instant::now())?;
        let reads = Reads {
            clients: &self.parts.clients,
            ours: &self.lease,
            binding: &self.name,
            virtual_cluster: &self.process.virtual_cluster,
        };
        let was_said = rival.says.is_some();
        let claim = Box::pin(rival.look(&reads, &self.parts.heartbeats, self.process.clock.boot())).await;
        match claim {
            Claim::Wait(_) => {
                let note =
                    format!("The installation with the Lease {} has written its name into the status.", rival.lease);
                self.rival = Some(rival);
                if !was_said {
                    self.event(Urgency::Warning, Reason::ServedElsewhere, &note).await;
                }
                None
            }
            Claim::Stay => {
                tracing::warn!(
                    binding = self.name,
                    lease = rival.lease,
                    "the installation whose name was written into the status of a binding does not serve it: this one does"
                );
                self.taken_from = Some(rival.lease.clone());
                self.written_over = Some(rival.lease);
                self.again = None;
                // What it said meanwhile counts from now on.
                self.read_spec()
            }
            Claim::Leave(why) => {
                tracing::warn!(binding = self.name, lease = rival.lease, %why, "a binding is left to another installation");
                Some(Ended::Elsewhere)
            }
        }
    }
}
