//! The kubelet of one node: it knows the pods, and calls the device plugins.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use super::answers::{insist, is_gone};
use super::plugin::{Answer, DevicePlugin, Failure};
use super::queue::{News, Queue, Work, uid_of};
use super::{Fate, Outcome, PodName, Record, Served, Settings};
use crate::hami::Vendor;

pub(super) struct Kubelet {
    pub(super) node: Arc<str>,
    pub(super) client: kube::Client,
    pub(super) settings: Settings,
    pub(super) record: Arc<Record>,
}

impl Kubelet {
    pub(super) async fn run(self, mut told: UnboundedReceiver<News>) {
        let mut queue = Queue::default();
        let mut works = FuturesUnordered::new();
        loop {
            while let Some(work) = queue.next() {
                works.push(self.does(work));
            }
            tokio::select! {
                news = told.recv() => match news {
                    Some(news) => queue.hear(news),
                    None => return,
                },
                Some(uid) = works.next() => queue.done(&uid),
            }
        }
    }

    /// Does the work; returns the UID of the pod.
    async fn does(&self, work: Work) -> String {
        match work {
            Work::Admit(pod, gone) => {
                self.admits(&pod, &gone).await;
                uid_of(&pod).to_owned()
            }
            Work::Bury(pod) => {
                self.buries(&PodName::of(&pod)).await;
                uid_of(&pod).to_owned()
            }
        }
    }

    async fn admits(&self, pod: &Pod, gone: &CancellationToken) {
        let asked = PodName::of(pod);
        let requests = requests(pod);
        let fate = if requests.is_empty() { Fate::Completes } else { (self.settings.fate)(pod) };
        for (vendor, count) in requests {
            if fate == Fate::Silent {
                self.serves(vendor, &asked, None, Outcome::Silent);
                gone.cancelled().await;
                return;
            }
            let (node, client) = (Arc::clone(&self.node), self.client.clone());
            let plugin = DevicePlugin { vendor, node, client, answers_after: self.settings.answers_after };
            // The plugin gets no more than this; the test sets its fate, not the kubelet.
            let answer = plugin.allocate(count, fate).await;
            self.judges(vendor, &asked, &answer).await;
            let Answer { found, result } = answer;
            match result {
                Ok(outcome) => self.serves(vendor, &asked, found, outcome),
                Err(failure) => {
                    let why = failure.to_string();
                    let failed = json!({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": why});
                    self.says(&asked, &failed).await;
                    self.serves(vendor, &asked, found, Outcome::Failed(why));
                    return;
                }
            }
        }
        self.says(&asked, &json!({"phase": "Running", "startTime": Timestamp::now().to_string()})).await;
    }

    /// Nothing of the pod runs any more: deletes it without a grace period.
    async fn buries(&self, pod: &PodName) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        let only_it = Preconditions { uid: Some(pod.uid.to_string()), resource_version: None };
        let params =
            DeleteParams { grace_period_seconds: Some(0), preconditions: Some(only_it), ..DeleteParams::default() };
        if let Err(error) = insist(|| pods.delete(&pod.name, &params)).await
            && !is_gone(&error)
        {
            self.record.mistake(format!("{pod} cannot be deleted: {error}"));
        }
    }

    /// Writes the status of a pod, if it is still there.
    async fn says(&self, pod: &PodName, status: &Value) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        let patch = Patch::Merge(json!({"metadata": {"uid": &*pod.uid}, "status": status}));
        let params = PatchParams::default();
        if let Err(error) = insist(|| pods.patch_status(&pod.name, &params, &patch)).await
            && !is_gone(&error)
        {
            self.record.mistake(format!("{pod} cannot be told {status}: {error}"));
        }
    }

    fn serves(&self, vendor: Vendor, asked: &PodName, found: Option<PodName>, outcome: Outcome) {
        self.record.serves(Served { node: Arc::clone(&self.node), vendor, asked: asked.clone(), found, outcome });
    }

    /// Records a mistake if the plugin took the wrong pod; there is no right one for a pod that is gone.
    async fn judges(&self, vendor: Vendor, asked: &PodName, answer: &Answer) {
        let Some(wrong) = wrong(asked, answer) else { return };
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &asked.namespace);
        let is_there = match insist(|| pods.get(&asked.name)).await {
            Ok(pod) => uid_of(&pod) == &*asked.uid,
            Err(error) => !is_gone(&error),
        };
        if is_there {
            self.record.mistake(format!("{}: the {vendor:?} plugin was asked for {asked} and {wrong}", self.node));
        }
    }
}

/// The mistake in the pod that the plugin found, if there is one.
fn wrong(asked: &PodName, answer: &Answer) -> Option<String> {
    match (&answer.found, &answer.result) {
        (Some(found), _) if found.uid != asked.uid => Some(format!("took it for {found}")),
        (None, Err(Failure::NoPod(why))) => Some(format!("did not find it: {why}")),
        _ => None,
    }
}

/// How many devices each container requests, those of init containers first.
fn requests(pod: &Pod) -> Vec<(Vendor, u64)> {
    let spec = pod.spec.iter();
    let init = spec.clone().flat_map(|spec| spec.init_containers.iter().flatten());
    let containers = init.chain(spec.flat_map(|spec| &spec.containers));
    let counts = |container| Vendor::ALL.map(|vendor| (vendor, count(container, vendor)));
    containers.flat_map(counts).filter(|(_, count)| *count > 0).collect()
}

fn count(container: &Container, vendor: Vendor) -> u64 {
    let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    limits.and_then(|limits| limits.get(vendor.resource())?.0.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(uid: &str) -> PodName {
        PodName { namespace: "default".into(), name: "p".into(), uid: uid.into() }
    }

    #[test]
    fn containers_ask_in_the_order_of_the_work_list() {
        let container =
            |name: &str, resource: &str, count: &str| json!({"name": name, "resources": {"limits": {resource: count}}});
        let pod = json!({"spec": {
            "initContainers": [container("init", "nvidia.com/gpu", "3")],
            "containers": [
                container("a", "nvidia.com/gpu", "1"),
                container("b", "cpu", "7"),
                container("c", "nvidia.com/gpu", "0"),
                container("d", "cambricon.com/vmlu", "2"),
                {"name": "e"},
            ],
        }});
        let asked = requests(&serde_json::from_value(pod).unwrap());
        assert_eq!(asked, [(Vendor::Nvidia, 3), (Vendor::Nvidia, 1), (Vendor::Cambricon, 2)]);
        assert_eq!(requests(&Pod::default()), []);
    }

    #[test]
    fn another_pod_or_none_is_wrong() {
        let answer = |found: Option<PodName>, result| Answer { found, result };
        let asked = named("1");
        assert_eq!(wrong(&asked, &answer(Some(named("1")), Ok(Outcome::Completed))), None);
        assert_eq!(wrong(&asked, &answer(Some(named("1")), Err(Failure::Refused("no".into())))), None);
        assert_eq!(wrong(&asked, &answer(None, Err(Failure::Away("no".into())))), None);
        assert!(wrong(&asked, &answer(Some(named("2")), Ok(Outcome::Completed))).is_some());
        assert!(wrong(&asked, &answer(None, Err(Failure::NoPod("no".into())))).is_some());
    }
}
