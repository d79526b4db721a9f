//! What a kubelet does next: the pods that are bound to its node, and how far each of them is.

use k8s_openapi::api::core::v1::Pod;
use tokio_util::sync::CancellationToken;

/// What the API server reports about the pods of one node.
#[derive(Debug)]
pub(super) enum News {
    /// A pod as it is now.
    Pod(Box<Pod>),
    /// The pod of this UID is gone.
    Gone(String),
    /// All pods of the node.
    All(Vec<Pod>),
}

/// What has to be done.
#[derive(Debug)]
pub(super) enum Work {
    /// A pod is to be admitted. The token is cancelled when the pod is gone.
    Admit(Box<Pod>, CancellationToken),
    /// A terminating pod is to be deleted for good.
    Bury(Box<Pod>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Seen, and nothing was done with it.
    New,
    /// It is being admitted: the only one.
    Admitting,
    Admitted,
    Buried,
}

struct Place {
    pod: Box<Pod>,
    state: State,
    gone: CancellationToken,
}

/// The pods of a node in the order in which they were bound.
#[derive(Default)]
pub(super) struct Queue(Vec<Place>);

impl Queue {
    pub(super) fn hear(&mut self, news: News) {
        match news {
            News::Pod(pod) => self.put(pod),
            News::Gone(uid) => self.remove(|place| uid_of(&place.pod) == uid),
            News::All(mut pods) => {
                self.remove(|place| pods.iter().all(|pod| uid_of(pod) != uid_of(&place.pod)));
                pods.sort_by_cached_key(bound_at);
                pods.into_iter().for_each(|pod| self.put(Box::new(pod)));
            }
        }
    }

    /// The next thing to do, if there is one: pods are admitted one after the other, and end at any time.
    pub(super) fn next(&mut self) -> Option<Work> {
        if let Some(place) = self.0.iter_mut().find(|place| place.is_to_be_buried()) {
            place.state = State::Buried;
            return Some(Work::Bury(place.pod.clone()));
        }
        if self.0.iter().any(|place| place.state == State::Admitting) {
            return None;
        }
        let place = self.0.iter_mut().find(|place| place.is_to_be_admitted())?;
        place.state = State::Admitting;
        Some(Work::Admit(place.pod.clone(), place.gone.clone()))
    }

    /// The work on the pod of this UID is done.
    pub(super) fn done(&mut self, uid: &str) {
        for place in self.0.iter_mut().filter(|place| place.state == State::Admitting && uid_of(&place.pod) == uid) {
            place.state = State::Admitted;
        }
        self.0.retain(|place| place.state == State::Admitting || !place.gone.is_cancelled());
    }

    fn put(&mut self, pod: Box<Pod>) {
        match self.0.iter_mut().find(|place| uid_of(&place.pod) == uid_of(&pod)) {
            Some(place) => place.pod = pod,
            None => self.0.push(Place { pod, state: State::New, gone: CancellationToken::new() }),
        }
    }

    /// A pod that is being admitted keeps its place until that has ended: no other pod is admitted before.
    fn remove(&mut self, is_gone: impl Fn(&Place) -> bool) {
        self.0.iter().filter(|place| is_gone(place)).for_each(|place| place.gone.cancel());
        self.0.retain(|place| place.state == State::Admitting || !place.gone.is_cancelled());
    }
}

impl Place {
    fn is_terminating(&self) -> bool {
        self.pod.metadata.deletion_timestamp.is_some()
    }

    fn is_to_be_buried(&self) -> bool {
        self.is_terminating() && matches!(self.state, State::New | State::Admitted)
    }

    fn is_to_be_admitted(&self) -> bool {
        let status = self.pod.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
        let is_started = status.is_some_and(|status| status.start_time.is_some());
        self.state == State::New && !self.is_terminating() && !is_started && matches!(phase, "" | "Pending")
    }
}

pub(super) fn uid_of(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

/// When, and by which write, a pod that was not seen before was bound, as far as a list shows it.
fn bound_at(pod: &Pod) -> (Option<jiff::Timestamp>, u64) {
    let conditions = pod.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    let scheduled = conditions.filter(|condition| condition.type_ == "PodScheduled" && condition.status == "True");
    let at = scheduled.filter_map(|condition| condition.last_transition_time.as_ref()).map(|time| time.0).next();
    let version = pod.metadata.resource_version.as_deref().and_then(|version| version.parse().ok());
    (at, version.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(uid: &str, metadata: Value, status: Value) -> Pod {
        let mut pod: Pod = serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap();
        pod.metadata.uid = Some(uid.to_owned());
        pod
    }

    fn waits(uid: &str) -> Pod {
        pod(uid, json!({}), json!({"phase": "Pending"}))
    }

    fn bound(uid: &str, at: &str) -> Pod {
        let condition = json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": at});
        pod(uid, json!({}), json!({"conditions": [condition]}))
    }

    fn terminating(uid: &str) -> Pod {
        pod(uid, json!({"deletionTimestamp": "2026-08-01T06:10:00Z"}), json!({"phase": "Pending"}))
    }

    impl Queue {
        fn sees(&mut self, pod: Pod) {
            self.hear(News::Pod(Box::new(pod)));
        }

        /// Everything that is to be done now.
        fn works(&mut self) -> Vec<String> {
            let named = |work| match work {
                Work::Admit(pod, _) => format!("admit {}", uid_of(&pod)),
                Work::Bury(pod) => format!("bury {}", uid_of(&pod)),
            };
            std::iter::from_fn(|| self.next()).map(named).collect()
        }
    }

    #[test]
    fn pods_are_admitted_one_after_the_other_as_they_were_bound() {
        let mut queue = Queue::default();
        queue.sees(waits("b"));
        queue.sees(waits("a"));
        assert_eq!(queue.works(), ["admit b"]);
        queue.sees(waits("b"));
        assert!(queue.works().is_empty());
        queue.done("b");
        // An event of the watch may be older than the work that is done.
        queue.sees(waits("b"));
        assert_eq!(queue.works(), ["admit a"]);
    }

    #[test]
    fn a_list_is_taken_by_time() {
        let mut queue = Queue::default();
        queue.hear(News::All(vec![bound("a", "2026-08-01T06:10:01Z"), bound("b", "2026-08-01T06:10:00Z")]));
        assert_eq!(queue.works(), ["admit b"]);
        queue.done("b");
        assert_eq!(queue.works(), ["admit a"]);
    }

    #[test]
    fn who_started_or_ended_is_not_admitted() {
        let mut queue = Queue::default();
        queue.sees(pod("started", json!({}), json!({"startTime": "2026-08-01T06:10:00Z"})));
        for phase in ["Running", "Failed", "Succeeded"] {
            queue.sees(pod(phase, json!({}), json!({"phase": phase})));
        }
        assert!(queue.works().is_empty());
    }

    #[test]
    fn who_terminates_is_buried_but_not_while_it_is_admitted() {
        let mut queue = Queue::default();
        queue.sees(waits("a"));
        assert_eq!(queue.works(), ["admit a"]);
        queue.sees(terminating("a"));
        queue.sees(terminating("never admitted"));
        assert_eq!(queue.works(), ["bury never admitted"]);
        queue.done("a");
        assert_eq!(queue.works(), ["bury a"]);
        queue.sees(terminating("a"));
        assert!(queue.works().is_empty());
    }

    #[test]
    fn who_vanishes_while_it_is_admitted_keeps_its_place_until_that_has_ended() {
        let mut queue = Queue::default();
        queue.sees(waits("a"));
        let Some(Work::Admit(_, gone)) = queue.next() else { panic!("it is not admitted") };
        queue.sees(waits("b"));
        assert!(!gone.is_cancelled());
        queue.hear(News::All(vec![waits("b")]));
        assert!(gone.is_cancelled());
        assert!(queue.works().is_empty());
        queue.done("a");
        assert_eq!(queue.works(), ["admit b"]);
    }
}
