//! Virtual pods that stay as they are because their physical pod lost a label of ours: a person is notified.
//!
//! The label says whose a pod is, so a pod without it is left alone (decision S6), also where the two pods name each other. Nothing is
//! written and nothing ends because of it: it may be given back.
//!
//! # Failure story
//!
//! A pod that lost a label by which it is watched while no process looked is in no watch of ours, and no one is notified; of one that lost
//! the UID of its binding a person is. A live read that fails is made again with the next try or sweep.

use topoloom_api::Reason;
use topoloom_cluster::work::WorkOutcome;
use topoloom_core::nodelock::PodId;
use topoloom_sync::bars::Doing;
use topoloom_sync::identity::{Difference, Identity};
use topoloom_sync::pods::{PhysicalPod, VirtualPod, wrong_labels};

use super::book::Stray;
use super::{Ask, PodError, Pods};
use crate::pod_state::PodState;
use crate::slices::pod::PodName;

/// A virtual pod that does not follow its physical one, and why not.
#[derive(Debug)]
pub(super) struct Unfollowed {
    pod: PhysicalPod,
    twin: VirtualPod,
    labels: Vec<Difference>,
}

impl Pods {
    /// What a person has to know of two pods that name each other; nothing where the labels of the physical one are right, or the
    /// virtual one ends anyway.
    pub(super) fn unfollowed(&self, pod: &PodState, twin: Option<&PodState>) -> Option<Unfollowed> {
        let is_live = |twin: &&PodState| twin.deletion.is_none() && twin.phase().is_none_or(|phase| !phase.is_final());
        let twin = twin.filter(is_live)?;
        let view = self.view();
        if !view.knows_lent(&twin.node) {
            return None;
        }
        Unfollowed::of(pod.physical_pod(), twin.virtual_pod(), &view.binding.identity)
    }

    /// The virtual pod whose physical one, of this name, is none of ours any more, or is gone, where that may be read.
    pub(super) fn stray(&self, name: &PodName) -> Option<Stray> {
        let stray = self.inbox.book().stray(name)?;
        let view = self.view();
        // Where nothing is mirrored, nothing is missing.
        (view.bars.allow(Doing::Mirror) && view.knows_lent(&stray.node)).then_some(stray)
    }

    /// Reads a physical pod that is not followed any more.
    pub(super) async fn read_stray(&self, name: &PodName, stray: Stray) -> Result<WorkOutcome, PodError> {
        let found = self.told(Ask::ReadPhysical, name, self.requests.physical(name).await)?;
        let found = self.told(Ask::ReadPhysical, name, found.map(|found| self.state(found)).transpose())?;
        self.inbox.book().stray_read(name);
        let identity = self.view().binding.identity.clone();
        if let Some(unfollowed) = found.and_then(|pod| Unfollowed::of(pod.physical_pod(), stray.twin, &identity)) {
            self.notify(&unfollowed).await;
        }
        Ok(WorkOutcome::Done)
    }

    /// Says it once, until the physical pod is followed again or lacks something else.
    pub(super) async fn notify(&self, unfollowed: &Unfollowed) {
        let Unfollowed { pod, twin, labels } = unfollowed;
        let why: Vec<String> = labels.iter().map(ToString::to_string).collect();
        let why = why.join(", and ");
        if !self.inbox.book().is_news(&twin.uid, &why) {
            return;
        }
        let PhysicalPod { namespace, name, .. } = pod;
        let set: Vec<String> = labels.iter().map(|label| format!("{}={}", label.key, label.ours)).collect();
        let note = format!(
            "the physical pod {namespace}/{name} is not followed any more, so this pod stays as it is: {why}. Label it again in the physical \
             cluster: kubectl label pod -n {namespace} {name} --overwrite {}",
            set.join(" ")
        );
        let (of, physical) = (PodName::new(&twin.namespace, &twin.name), PodName::new(namespace, name));
        tracing::warn!(pod = %of, %physical, %why, "a lent pod is not followed");
        let id =
            PodId { namespace: twin.namespace.as_str().into(), name: twin.name.as_str().into(), uid: twin.uid.clone() };
        self.notices.of_pod(&id, Reason::PodNotFollowed, &note, (self.now)().steady).await;
    }
}

impl Unfollowed {
    fn of(pod: PhysicalPod, twin: VirtualPod, us: &Identity) -> Option<Self> {
        let labels = wrong_labels(&pod, &twin, us);
        (!labels.is_empty()).then_some(Self { pod, twin, labels })
    }
}
