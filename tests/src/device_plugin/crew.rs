//! Which kubelet sees which pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::watcher::{self, Event};
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::answers::PAUSE;
use super::kubelet::Kubelet;
use super::queue::{News, uid_of};
use super::{Record, Settings, pass_on};

/// The kubelets, one for each node that ever had a pod.
pub(super) struct Crew {
    client: kube::Client,
    settings: Settings,
    record: Arc<Record>,
    nodes: BTreeMap<String, UnboundedSender<News>>,
    kubelets: JoinSet<()>,
    /// The pods of the present list so far, by node.
    listed: BTreeMap<String, Vec<Pod>>,
}

impl Crew {
    pub(super) fn new(client: kube::Client, settings: Settings, record: Arc<Record>) -> Self {
        let (nodes, kubelets, listed) = (BTreeMap::new(), JoinSet::new(), BTreeMap::new());
        Self { client, settings, record, nodes, kubelets, listed }
    }

    /// Watches all pods until it is stopped.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let mut events = std::pin::pin!(watcher::watcher(pods, watcher::Config::default()));
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                Some(ended) = self.kubelets.join_next() => pass_on(ended),
                event = events.next() => match event {
                    Some(Ok(event)) => self.hear(event),
                    // The API server does not answer, and the request is repeated.
                    Some(Err(_)) => sleep(PAUSE).await,
                    None => break,
                },
            }
        }
        self.kubelets.shutdown().await;
    }

    fn hear(&mut self, event: Event<Pod>) {
        match event {
            Event::Apply(pod) => {
                if let Some(node) = node_of(&pod) {
                    self.notify(&node, News::Pod(Box::new(pod)));
                }
            }
            Event::Delete(pod) => {
                if let Some(node) = node_of(&pod) {
                    self.notify(&node, News::Gone(uid_of(&pod).to_owned()));
                }
            }
            Event::Init => self.listed.clear(),
            Event::InitApply(pod) => {
                if let Some(node) = node_of(&pod) {
                    self.listed.entry(node).or_default().push(pod);
                }
            }
            Event::InitDone => {
                let mut listed = std::mem::take(&mut self.listed);
                for node in self.nodes.keys() {
                    // Its pods may all be gone.
                    listed.entry(node.clone()).or_default();
                }
                for (node, pods) in listed {
                    self.notify(&node, News::All(pods));
                }
            }
        }
    }

    fn notify(&mut self, node: &str, news: News) {
        let told = self.nodes.entry(node.to_owned()).or_insert_with(|| {
            let (told, news) = mpsc::unbounded_channel();
            let (client, settings) = (self.client.clone(), self.settings.clone());
            let kubelet = Kubelet { node: node.into(), client, settings, record: Arc::clone(&self.record) };
            self.kubelets.spawn(kubelet.run(news));
            told
        });
        // A kubelet ends only with all others, or by a panic that is passed on.
        _ = told.send(news);
    }
}

/// The node to which it is bound.
fn node_of(pod: &Pod) -> Option<String> {
    pod.spec.as_ref()?.node_name.clone().filter(|node| !node.is_empty())
}
