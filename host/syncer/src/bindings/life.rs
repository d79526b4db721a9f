//! The tasks of one binding, of one UID.
//!
//! Owns what they share, and how each of them gets it. When it is stopped, nodes, pods and leases that are worked on are finished
//! first.
//!
//! # Failure story
//!
//! A life that ends leaves leases and nodes as they are: the next one, in this process or in another, takes them over.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use topoloom_cluster::Side;
use topoloom_cluster::work::WorkQueue;
use topoloom_core::names::{NodeName, Uid};
use topoloom_core::queue::{Backoff, Bucket, Limiter};

use super::bars::Hindrances;
use super::conductor::{Conductor, Parts};
use super::keeper::Keeper;
use super::report::Kept;
use super::requests::Clients;
use super::shown::Sources;
use super::{Beginning, Ended, Existing, Holding, ObjectWatch, Process};
use crate::convert::binding::Terms;
use crate::csi::{CsiClients, CsiNodes, CsiRequests};
use crate::feeds::SharedView;
use crate::group::{Group, Lenders, Lists};
use crate::heartbeats::{BeatNews, Heartbeats, Sent};
use crate::kubeconfig::{Allowed, Loopback};
use crate::ledger::PhysicalName;
use crate::metrics::{Counted, Served};
use crate::nodes::{NodeClients, NodeRequests, Nodes};
use crate::physical::{self, Clock, Expected, Follow, Forward, Signs};
use crate::pods::{Inbox, PodClients, PodKey, Pods};
use crate::policies::{PolicyClients, PolicyFeed, PolicyName, PolicyStatuses};
use crate::ports::{Placeholders, PortRequests};
use crate::troubles::{Thing, Troubles};
use crate::view::View;

/// Nodes that wait for a look, or have been dropped: more than any cluster has.
const NODES: NonZeroUsize = NonZeroUsize::new(20_000).unwrap();
/// The same for policies.
const POLICIES: NonZeroUsize = NonZeroUsize::new(20_000).unwrap();
/// The same for pods.
const PODS: NonZeroUsize = NonZeroUsize::new(500_000).unwrap();
/// Nodes with leases of another that wait for a look.
const FOREIGN: usize = 1_024;
/// After a failure of one node: from a second to five minutes (`bottomup-syncer.md` section 12).
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// How many keys that failed are looked at again per second, and a quarter of that at once: as many as the writes that follow from them
/// ([`lanes`](crate::lanes), decision S21). All that was under way in a short outage fails at one moment: at the usual ten per second,
/// thousands of nodes and pods would wait for minutes.
const AGAIN: u32 = 200;

/// What the Secret of a binding may lead to.
pub(super) fn link_terms(terms: &Terms, kept: &Kept, loopback: Loopback) -> physical::Terms {
    physical::Terms {
        allowed: Allowed { insecure: terms.insecure, loopback },
        expected: match &kept.physical_cluster {
            Some(uid) => Expected::Cluster(Uid::from(uid.as_str())),
            None => Expected::First,
        },
        timing: terms.contact,
    }
}

/// Serves a binding until this life of it ends; nothing: it was stopped, and what was under way then has ended.
pub(super) async fn live(
    process: &Arc<Process>,
    holding: &Holding,
    watched_object: ObjectWatch,
    beginning: Beginning,
    stop: &CancellationToken,
) -> Option<Ended> {
    let terms = beginning.reading.terms.clone();
    let (identity, now) = (terms.binding.identity.clone(), process.now);
    let (guard, kept) = (beginning.carried.guard.clone(), &beginning.carried.kept);
    let clock = process.clock.clone();
    let absent = Signs::new(terms.contact, &Clock::new(move || clock.boot()));
    let mut view = View::new(terms.binding.clone(), terms.safety, guard, absent.reach(), now());
    view.orphan_delay = terms.orphan_delay;
    view.set_host_ports(terms.host_ports);
    let view: SharedView = Arc::new(Mutex::new(view));

    let (nodes_queue, csi_queue) = (queue::<PhysicalName>("nodes", NODES), queue::<PhysicalName>("csinodes", NODES));
    let port_queue = queue::<NodeName>("hostports", NODES);
    let statuses = queue::<PolicyName>("policies", POLICIES);
    let pods_queue = queue::<PodKey>("pods", PODS);
    let steady = move || now().steady;
    let inbox = Inbox::new(&identity, &terms.binding.cluster, &terms.mount_namespace, pods_queue, steady);
    inbox.configure(terms.pod_metadata.clone(), terms.orphan_delay);
    let (counted, writes) = (process.pods.of(identity.binding()), Counted::default());
    let ObjectWatch { objects, troubles } = watched_object;
    troubles.keep_only(&[Thing::BindingWatch]);
    let (forward, lists) = (Forward::new(), Arc::new(Lists::physical()));
    let feed = PolicyFeed::new(&view, &statuses);
    let link_terms = watch::Sender::new(link_terms(&terms, kept, process.loopback));
    let follow = Follow::new(&process.registry, link_terms.subscribe());
    let (link, watched) = (watch::Sender::new(None), watch::Sender::new(None));
    let (source, empty) = (watch::Sender::new(terms.policy_source), watch::Sender::new(terms.contact.empty));
    let is_orphaned = beginning.existing == Existing::Recorded;
    let hindrances = watch::Sender::new(Hindrances { mode: terms.mode, is_orphaned, ..Hindrances::default() });

    let (name, refused) = (holding.name.clone(), troubles.clone());
    let (tells, foreign) = mpsc::channel(FOREIGN);
    let looks = look_where_foreign(foreign, Arc::clone(&view), nodes_queue.clone());
    let (beats, renewer) = Heartbeats::new(
        holding.beats.clone(),
        identity,
        terms.heartbeats,
        &process.beats,
        process.clock.clone(),
        Box::new(move |news| {
            beat_news(&name, &news, &refused);
            if let BeatNews::Foreign { node, .. } = news {
                // Where there are too many, the sweep looks at the rest.
                let _refused = tells.try_send(node);
            }
        }),
    );
    let sources = Sources {
        view: Arc::clone(&view),
        heartbeats: beats.clone(),
        link: link.subscribe(),
        credential: follow.state(),
        troubles: troubles.clone(),
    };
    let _shown = process.shown.add(&holding.name, move || sources.state());
    let clients = NodeClients { physical: forward.reads(), claims: forward.nodes(), lent: holding.lent.clone() };
    let nodes = Nodes::new(
        Arc::clone(&view),
        NodeRequests::new(clients),
        beats.clone(),
        process.events.clone().unattended(),
        now,
    )
    .counting(writes.clone())
    .telling(troubles.clone())
    .pacing(process.pace.clone());
    let pod_clients = PodClients { physical: forward.reads(), orphans: forward.others(), lent: holding.lent.clone() };
    let events = process.events.clone().unattended();
    let pods = Pods::new(Arc::clone(&view), inbox.clone(), pod_clients, events, troubles.clone(), counted, now)
        .counting(writes.clone());
    let csi_clients = CsiClients { physical: forward.reads(), lent: holding.lent.clone() };
    let events = process.events.clone().unattended();
    let csi_nodes =
        CsiNodes::new(Arc::clone(&view), CsiRequests::new(csi_clients), events, now).counting(writes.clone());
    let csi_nodes = csi_nodes.telling(troubles.clone());
    let (requests, events) = (PortRequests::new(holding.lent.clone()), process.events.clone().unattended());
    let placeholders =
        Placeholders::new(Arc::clone(&view), requests, events, troubles.clone(), now).counting(writes.clone());
    let policy_clients = PolicyClients { physical: forward.others(), lent: holding.lent.clone() };
    let statuses_of_policies = PolicyStatuses::new(
        &view,
        feed.clone(),
        nodes_queue.clone(),
        policy_clients,
        source.subscribe(),
        process.events.clone().unattended(),
        troubles.clone(),
        now,
    )
    .counting(writes.clone());
    let lenders = Lenders {
        feed: feed.clone(),
        source: source.subscribe(),
        queue: statuses.clone(),
        statuses: Arc::new(statuses_of_policies),
        work: process.work.clone(),
    };
    let group = Group {
        view: Arc::clone(&view),
        queue: nodes_queue.clone(),
        nodes: Arc::new(nodes),
        pods: Arc::new(pods),
        csi_queue,
        csi_nodes: Arc::new(csi_nodes),
        port_queue,
        placeholders: Arc::new(placeholders),
        heartbeats: beats.clone(),
        physical: watched.subscribe(),
        empty: empty.subscribe(),
        lent: process.lent.clone(),
        watches: process.watches.clone(),
        restores: process.restores.clone(),
        work: process.work.clone(),
        policies: lenders,
        troubles: troubles.clone(),
        lists: Arc::clone(&lists),
    };
    let keeper = Keeper {
        view: Arc::clone(&view),
        queue: nodes_queue.clone(),
        pods: inbox.clone(),
        policies: feed.clone(),
        hindrances: hindrances.subscribe(),
        link: link.subscribe(),
        absent: absent.clone(),
        lists,
        lent: process.lent_signs.clone(),
        gate: holding.gate.clone(),
    };
    let _counted = process.metrics.show(Served {
        binding: holding.name.clone(),
        counted: writes.clone(),
        view: Arc::clone(&view),
        link: link.subscribe(),
        credential: follow.state(),
        troubles: troubles.clone(),
        now,
    });
    let conductor = Conductor::new(
        process,
        holding,
        Parts {
            clients: Clients {
                lent: process.lent.clone(),
                lent_writes: holding.lent.clone(),
                physical: forward.reads(),
                physical_writes: forward.others(),
            },
            view,
            nodes: nodes_queue,
            pods: inbox,
            policies: feed,
            heartbeats: beats,
            forward,
            troubles,
            writes,
            link,
            watched,
            link_terms,
            link_state: follow.state(),
            source,
            empty,
            hindrances,
        },
        beginning,
    );
    let secret = terms.secret.clone();
    // The renewer ends the looks with it.
    let works = async {
        tokio::join!(apart(Box::pin(group.run(stop.clone()))), apart(renewer.run(stop.clone())), apart(looks))
    };
    let follows = async {
        tokio::join!(
            apart(Box::pin(follow.run(process.secrets.clone(), &secret, &process.restores))),
            apart(keeper.run()),
            absent.keep()
        )
    };
    let conducts = async {
        match stop.run_until_cancelled(apart(Box::pin(conductor.run(objects)))).await {
            Some(ended) => Some(ended),
            // What is under way ends first, and with it all the rest.
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = conducts => ended,
        _ = works => None,
        _ = follows => None,
    }
}

/// A part of a task that is polled only when something has woken it. The parts of a task share one waker: each renewal of a lease
/// would poll all watches and workers of the binding.
async fn apart<F: Future>(part: F) -> F::Output {
    let mut alone = FuturesUnordered::new();
    alone.push(part);
    match alone.next().await {
        Some(output) => output,
        // It has one part.
        None => std::future::pending().await,
    }
}

fn queue<K: topoloom_cluster::work::WorkKey>(name: &'static str, capacity: NonZeroUsize) -> WorkQueue<K> {
    let bucket = Bucket::new(Duration::from_secs(1) / AGAIN, AGAIN / 4);
    let limiter = Limiter::new(Backoff::new(PAUSES.0, PAUSES.1), bucket);
    WorkQueue::new(name, capacity, limiter)
}

/// Looks at the nodes whose leases are another's: the controller of nodes notifies a person.
async fn look_where_foreign(mut foreign: mpsc::Receiver<NodeName>, view: SharedView, queue: WorkQueue<PhysicalName>) {
    while let Some(node) = foreign.recv().await {
        let machine = view.lock().unwrap_or_else(PoisonError::into_inner).machine_of(&node);
        if let Some(machine) = machine {
            // One that is not taken is looked at by the sweep.
            let _refused = queue.add(machine);
        }
    }
}

/// What a person should know of the heartbeats of a binding.
fn beat_news(binding: &str, news: &BeatNews, troubles: &Troubles) {
    let thing = |sent: &Sent| match sent {
        Sent::Create => Thing::LeaseCreations,
        Sent::Look => Thing::LeaseReads,
        Sent::Renew => Thing::LeaseRenewals,
    };
    match news {
        BeatNews::Foreign { node, why } => {
            tracing::warn!(binding, %node, %why, "the lease of a virtual node is another's, so it is not renewed");
        }
        BeatNews::Skew { node, ahead } => {
            tracing::warn!(binding, %node, ?ahead, "a lease was renewed by a clock that is ahead of ours: one of two clocks is wrong");
        }
        BeatNews::Refused { node, refusal, failing } => {
            tracing::warn!(binding, %node, failing, error = %refusal, "leases cannot be renewed");
        }
        BeatNews::NoRight { sent, refusal } => troubles.met(thing(sent), refusal, Side::Virtual),
        BeatNews::Right { sent } => troubles.over(thing(sent)),
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Poll;

    use futures::FutureExt as _;
    use topoloom_core::queue::{Requeue, RetryVerdict};

    use super::*;
    use crate::view::examples;

    #[tokio::test(start_paused = true)]
    async fn s21_what_fails_at_one_moment_is_looked_at_again_within_seconds_and_each_after_its_own_pause() {
        let nodes = queue::<PhysicalName>("nodes", NODES);
        let names: Vec<PhysicalName> = (0..1_000).map(|number| format!("w{number}").into()).collect();
        for name in &names {
            nodes.add(Arc::clone(name)).unwrap();
        }
        for _ in &names {
            let name = nodes.next().now_or_never().flatten().unwrap();
            let verdict = nodes.failed(&name, Requeue::default());
            let RetryVerdict::AgainAfter(pause) = verdict else { panic!("{verdict:?}") };
            assert!((PAUSES.0..=Duration::from_secs(10)).contains(&pause), "{name}: {pause:?}");
        }
        assert_eq!(nodes.next().now_or_never(), None);
        tokio::time::advance(Duration::from_secs(10)).await;
        for name in &names {
            assert!(nodes.next().now_or_never().flatten().is_some(), "{name}");
        }
        // The pause of each grows as before.
        let again = RetryVerdict::AgainAfter(2 * PAUSES.0);
        for name in names.iter().take(50) {
            assert_eq!(nodes.failed(name, Requeue::default()), again, "{name}");
        }
    }

    #[tokio::test]
    async fn a_part_that_nothing_has_woken_is_not_polled_with_the_others() {
        let polled = AtomicUsize::new(0);
        let waits = poll_fn(|_| -> Poll<()> {
            polled.fetch_add(1, Ordering::Relaxed);
            Poll::Pending
        });
        let works = async {
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            () = apart(waits) => unreachable!("it never ends"),
            () = apart(works) => {}
        }
        assert_eq!(polled.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn s1_a_node_whose_lease_is_anothers_is_looked_at_and_one_that_is_not_known_is_not() {
        let mut view = examples::view(2);
        examples::lend(&mut view, 2);
        let (tells, foreign) = mpsc::channel(FOREIGN);
        for node in ["vnode-east-w9", "vnode-east-w2"] {
            tells.try_send(node.into()).unwrap();
        }
        drop(tells);
        let nodes = queue::<PhysicalName>("nodes", NODES);
        look_where_foreign(foreign, Arc::new(Mutex::new(view)), nodes.clone()).await;
        assert_eq!(nodes.next().now_or_never().flatten(), Some("w2".into()));
        assert_eq!(nodes.next().now_or_never(), None);
    }
}
