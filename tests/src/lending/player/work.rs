//! The requests of a player. Each can be made twice; what follows from the absence of a physical pod reads that pod first.

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::steps::is_of;
use crate::device_plugin::PodName;
use crate::lending::requests::{Answer, ask, only_this};

/// The two clusters.
#[derive(Clone)]
pub(super) struct Clusters {
    pub(super) virtual_side: Client,
    pub(super) physical_side: Client,
}

/// What has to be done for a virtual pod.
#[derive(Debug)]
pub(super) enum Work {
    /// Writes annotations on it.
    Annotate(PodName, Value),
    /// Creates its physical pod.
    Create(Box<Pod>),
    /// Deletes its physical pod.
    DeletePhysical(PodName, Option<u32>),
    /// Writes its status in this version, in which it has no final phase, if nothing is left of its physical pod.
    Finish { pod: PodName, version: String, physical: Physical, status: Value },
    /// Removes it, if nothing is left of its physical pod.
    Remove { pod: PodName, physical: Physical },
}

/// Where its physical pod would be; and its UID, where only one is meant.
#[derive(Debug, Clone)]
pub(super) struct Physical {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: Option<String>,
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Done {
    /// The step is made, and this is the virtual pod after it.
    Virtual(Box<Pod>),
    /// The step is made, and this is the physical pod after it; nothing where it is gone at once.
    Physical(Option<Box<Pod>>),
    /// The step is made, and the virtual pod is gone, or a finalizer keeps it.
    Removed,
    /// The step is not made: there is a physical pod that was not known.
    Found(Box<Pod>),
    /// It has to be looked at again soon.
    Again,
    Refused(String),
}

/// Does it.
pub(super) async fn perform(clusters: Clusters, work: Work) -> Done {
    let Clusters { virtual_side, physical_side } = clusters;
    match work {
        Work::Annotate(pod, annotations) => {
            let pods: Api<Pod> = Api::namespaced(virtual_side, &pod.namespace);
            let patch = Patch::Merge(json!({"metadata": {"uid": &*pod.uid, "annotations": annotations}}));
            written(ask(pods.patch(&pod.name, &PatchParams::default(), &patch)).await)
        }
        Work::Create(pod) => create(physical_side, &pod).await,
        Work::DeletePhysical(pod, grace) => {
            let pods: Api<Pod> = Api::namespaced(physical_side, &pod.namespace);
            match ask(pods.delete(&pod.name, &only_this(&pod.uid, grace))).await {
                Answer::Done(answer) => Done::Physical(answer.left().map(Box::new)),
                Answer::Absent => Done::Physical(None),
                Answer::Refused(why) => Done::Refused(why),
                Answer::Exists | Answer::Again => Done::Again,
            }
        }
        Work::Finish { pod, version, physical, status } => {
            if let Some(found) = found(physical_side, &physical, &pod.uid).await {
                return found;
            }
            let pods: Api<Pod> = Api::namespaced(virtual_side, &pod.namespace);
            // The bottom-up half may have written how it ended a moment ago: that stays, and the pod is looked at again.
            let metadata = json!({"uid": &*pod.uid, "resourceVersion": version});
            let patch = Patch::Strategic(json!({"metadata": metadata, "status": status}));
            written(ask(pods.patch_status(&pod.name, &PatchParams::default(), &patch)).await)
        }
        Work::Remove { pod, physical } => {
            if let Some(found) = found(physical_side, &physical, &pod.uid).await {
                return found;
            }
            let pods: Api<Pod> = Api::namespaced(virtual_side, &pod.namespace);
            match ask(pods.delete(&pod.name, &only_this(&pod.uid, Some(0)))).await {
                Answer::Done(_) | Answer::Absent => Done::Removed,
                Answer::Refused(why) => Done::Refused(why),
                Answer::Exists | Answer::Again => Done::Again,
            }
        }
    }
}

fn written(answer: Answer<Pod>) -> Done {
    match answer {
        Answer::Done(pod) => Done::Virtual(Box::new(pod)),
        Answer::Refused(why) => Done::Refused(why),
        // If it is gone, the watch will report that.
        Answer::Absent | Answer::Exists | Answer::Again => Done::Again,
    }
}

async fn create(client: Client, pod: &Pod) -> Done {
    let pods: Api<Pod> = Api::namespaced(client, pod.metadata.namespace.as_deref().unwrap_or_default());
    match ask(pods.create(&PostParams::default(), pod)).await {
        Answer::Done(made) => Done::Physical(Some(Box::new(made))),
        Answer::Exists => match ask(pods.get(pod.metadata.name.as_deref().unwrap_or_default())).await {
            Answer::Done(other) => Done::Found(Box::new(other)),
            _ => Done::Again,
        },
        Answer::Refused(why) => Done::Refused(why),
        // Without a pod there can only be no namespace.
        Answer::Absent | Answer::Again => Done::Again,
    }
}

/// Reads the physical pod live: nothing if it is gone, or is another than the one that is meant.
async fn found(client: Client, physical: &Physical, virtual_uid: &str) -> Option<Done> {
    let pods: Api<Pod> = Api::namespaced(client, &physical.namespace);
    match ask(pods.get(&physical.name)).await {
        Answer::Absent => None,
        Answer::Done(pod) => {
            let is_it = physical.uid.is_none() || physical.uid == pod.metadata.uid;
            (is_it && is_of(&pod, virtual_uid)).then(|| Done::Found(Box::new(pod)))
        }
        Answer::Refused(why) => Some(Done::Refused(why)),
        Answer::Exists | Answer::Again => Some(Done::Again),
    }
}
