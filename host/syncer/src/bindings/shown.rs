//! What each binding that this process serves shows of itself, for `topoloom debug dump`.
//!
//! Owns which bindings can be asked, for as long as each is served. Nothing is copied beforehand: a binding is asked when a person
//! asks. Shows names, numbers and sentences that are in conditions and logs anyway; never a credential.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;
use topoloom_sync::bars::Bar;

use crate::feeds::SharedView;
use crate::heartbeats::Heartbeats;
use crate::physical::{CredentialState, Physical};
use crate::troubles::Troubles;
use crate::view::Counts;

/// How many leases of another are named.
const NAMED: usize = 20;

type State = Arc<dyn Fn() -> Value + Send + Sync>;

/// The bindings that are served. Clones are the same.
#[derive(Clone, Default)]
pub struct Shown(Arc<Mutex<BTreeMap<String, State>>>);

impl Shown {
    /// What each binding says now, by its name.
    #[must_use]
    pub fn dump(&self) -> Value {
        // A binding takes locks of its own to answer.
        let all = self.lock().clone();
        all.into_iter().map(|(name, state)| (name, state())).collect()
    }

    /// A binding can be asked for as long as what is returned is kept. One of the same name that comes later takes its place.
    #[must_use]
    pub(super) fn add(&self, name: &str, state: impl Fn() -> Value + Send + Sync + 'static) -> ShownBinding {
        let state: State = Arc::new(state);
        self.lock().insert(name.to_owned(), Arc::clone(&state));
        ShownBinding { all: self.clone(), name: name.to_owned(), state }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lock().keys()).finish()
    }
}

/// One binding that can be asked.
pub(super) struct ShownBinding {
    all: Shown,
    name: String,
    state: State,
}

impl Drop for ShownBinding {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        if all.get(&self.name).is_some_and(|state| Arc::ptr_eq(state, &self.state)) {
            all.remove(&self.name);
        }
    }
}

/// What the state of a binding is made of.
pub(super) struct Sources {
    pub(super) view: SharedView,
    pub(super) heartbeats: Heartbeats,
    /// The connection that there is.
    pub(super) link: watch::Receiver<Option<Arc<Physical>>>,
    /// What came of its Secret.
    pub(super) credential: watch::Receiver<CredentialState>,
    /// What is refused.
    pub(super) troubles: Troubles,
}

impl Sources {
    pub(super) fn state(&self) -> Value {
        let (identity, cluster, counts, bars, reach, is_listed) = {
            let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
            let bars: Vec<&str> = view.bars.iter().map(Bar::word).collect();
            let (identity, cluster) = (view.binding.identity.clone(), view.binding.cluster.to_string());
            (identity, cluster, view.counts(), bars, format!("{:?}", view.reach), view.is_lent_listed())
        };
        let foreign = self.heartbeats.foreign();
        let refused: Vec<String> = self.troubles.all().iter().map(ToString::to_string).collect();
        let named: BTreeMap<String, String> =
            foreign.iter().take(NAMED).map(|(node, why)| (node.to_string(), why.to_string())).collect();
        json!({
            "uid": &**identity.binding_uid(),
            "clusterID": cluster,
            "bars": bars,
            "reach": reach,
            "lentListed": is_listed,
            "nodes": nodes(&counts),
            "pods": {"bound": counts.bound, "running": counts.running, "orphans": counts.orphans},
            "leases": {"renewed": counts.renewed, "stopped": counts.stopped, "foreign": foreign.len(), "foreignNodes": named},
            "connection": self.link.borrow().as_deref().map(connection),
            "secret": self.credential.borrow().sentence(),
            "refused": refused,
        })
    }
}

fn nodes(counts: &Counts) -> Value {
    json!({
        "selected": counts.selected,
        "lent": counts.lent,
        "ready": counts.ready,
        "outsideWindows": counts.outside,
        "overcommitted": counts.overcommitted,
        "leaving": counts.leaving,
        "frozen": counts.frozen,
        "claimedByOthers": counts.claimed,
    })
}

/// A connection: where it leads, and how it is doing.
pub(super) fn connection(physical: &Physical) -> Value {
    let trouble = physical.trouble().borrow().as_ref().map(ToString::to_string);
    json!({
        "server": physical.connection().server().to_string(),
        "cluster": &**physical.cluster(),
        "answersAs": &**physical.identity().borrow(),
        "reach": format!("{:?}", physical.signs().reach()),
        "trouble": trouble,
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use http::{Request, Response};
    use kube::client::Body;
    use prometheus_client::registry::Registry;
    use topoloom_cluster::{Refusal, RefusalReason, Side, requests};
    use topoloom_sync::liveness::ContactTiming;

    use super::*;
    use crate::heartbeats;
    use crate::kubeconfig::tests::{SECRET, access, errors};
    use crate::physical::{Clock, Dialer, Problem, Registry as Connections};
    use crate::troubles::Thing;
    use crate::view::examples;

    /// What a binding shows whose credential is [`SECRET`], and is refused for this.
    fn shown(sources: &Sources, credential: &watch::Sender<CredentialState>, problem: Problem) -> String {
        let in_use = sources.link.borrow().clone();
        credential.send_replace(CredentialState { in_use, end: None, problem: Some(problem) });
        let debug = format!("{:?}", credential.borrow());
        format!("{} {debug}", sources.state())
    }

    #[tokio::test]
    async fn s20_no_credential_is_in_what_a_binding_shows_and_what_is_refused_is() {
        let metrics = requests::Metrics::register(&mut Registry::default());
        let connections = Connections::new(Dialer::new(&metrics, 1), Clock::new(|| Duration::ZERO));
        // A name that never resolves (RFC 6761, 6.4).
        let connection = connections.open(&access("https://physical.invalid:6443", SECRET)).unwrap();
        let physical = connections.share(&"c1".into(), connection, ContactTiming::default());
        let view: SharedView = Arc::new(Mutex::new(examples::view(1)));
        let identity = examples::binding().identity;
        let serve = |_: Request<Body>| async { Ok::<_, Infallible>(Response::new(Body::empty())) };
        let (hearts, _renewer) = Heartbeats::new(
            kube::Client::new(tower::service_fn(serve), "default"),
            identity,
            heartbeats::Options::default(),
            &heartbeats::metrics::Metrics::register(&mut Registry::default()),
            heartbeats::Clock::machine(),
            Box::new(|_| {}),
        );
        let (link, credential) = (watch::Sender::new(Some(physical)), watch::Sender::new(CredentialState::default()));
        let sources = Sources {
            view,
            heartbeats: hearts,
            link: link.subscribe(),
            credential: credential.subscribe(),
            troubles: Troubles::default(),
        };
        let forbidden = Refusal { reason: RefusalReason::Forbidden, message: "no".to_owned(), retry_after: None };
        sources.troubles.met(Thing::NodeClaims, &forbidden, Side::Physical);
        assert_eq!(sources.state()["refused"], json!(["the physical cluster: no"]));
        let problems = errors().into_iter().map(Problem::Kubeconfig);
        for problem in problems.chain([Problem::Unwatched(forbidden), Problem::Deleted]) {
            let sentence = problem.to_string();
            let shown = shown(&sources, &credential, problem);
            assert!(shown.contains("https://physical.invalid:6443") && !shown.contains(SECRET), "{shown}");
            // The sentence, as JSON has it.
            let sentence = json!(sentence).to_string();
            assert!(shown.contains(sentence.trim_matches('"')), "{shown}");
        }
    }

    #[test]
    fn a_binding_is_shown_while_it_is_served_and_an_earlier_one_removes_no_later_one() {
        let shown = Shown::default();
        assert_eq!(shown.dump(), json!({}));
        let first = shown.add("east", || json!(1));
        let second = shown.add("east", || json!(2));
        let west = shown.add("west", || json!(3));
        assert_eq!(shown.dump(), json!({"east": 2, "west": 3}));
        drop(first);
        assert_eq!(shown.dump(), json!({"east": 2, "west": 3}));
        drop((second, west));
        assert_eq!(shown.dump(), json!({}));
    }
}
