//! Histories of a few leases at a server whose answers come late, get lost or never come, while nodes are started, stopped and
//! made anew, leases are deleted and changed by others, and the time of day is set.

use prometheus_client::registry::Registry;
use proptest::prelude::*;
use serde_json::{Value, json};

use topoloom_sync::naming::BindingName;

use super::super::lease::WrittenLease;
use super::super::metrics::Metrics;
use super::*;

const NODES: [&str; 3] = ["a", "b", "c"];

#[derive(Debug, Clone)]
enum Event {
    Start(usize, u8),
    Stop(usize, Memory),
    /// Time passes, in milliseconds.
    Passes(u64),
    /// The time of day is set, in seconds.
    Set(i64),
    /// One of the requests under way ends.
    Ends(usize, End),
    /// The lease is deleted.
    Deleted(usize),
    /// Another client annotates it.
    Changed(usize),
}

#[derive(Debug, Clone, Copy)]
enum End {
    Answered,
    /// It was carried out, and not answered.
    Lost,
    /// It was neither.
    Hung,
    Failed,
}

fn event() -> impl Strategy<Value = Event> {
    let node = 0..NODES.len();
    let end = prop_oneof![6 => Just(End::Answered), 1 => Just(End::Lost), 1 => Just(End::Hung), 1 => Just(End::Failed)];
    prop_oneof![
        3 => (node.clone(), 0_u8..3).prop_map(|(node, uid)| Event::Start(node, uid)),
        1 => (node.clone(), prop_oneof![Just(Memory::Kept), Just(Memory::Dropped)])
            .prop_map(|(node, memory)| Event::Stop(node, memory)),
        6 => (1_u64..9_000).prop_map(Event::Passes),
        1 => (-7_200_i64..7_200).prop_map(Event::Set),
        12 => (0_usize..4, end).prop_map(|(which, end)| Event::Ends(which, end)),
        1 => node.clone().prop_map(Event::Deleted),
        1 => node.prop_map(Event::Changed),
    ]
}

/// The server, the book, and what should be true of it.
struct History {
    book: Book,
    now: Duration,
    off: i64,
    /// UIDs of nodes whose leases are to be renewed.
    wanted: HashMap<&'static str, Uid>,
    under_way: Vec<Job>,
    leases: HashMap<NodeName, Value>,
    versions: u64,
    /// The latest time that was ever stored.
    latest: HashMap<NodeName, Timestamp>,
    /// When a write was carried out last.
    written: HashMap<NodeName, Duration>,
}

impl History {
    fn new() -> Self {
        let us = Identity::new("cluster".into(), BindingName::parse("east").unwrap(), "binding".into()).unwrap();
        let now = 1_000 * SURVEY;
        let options = Options::default().in_flight(2).unwrap();
        let metrics = Metrics::register(&mut Registry::default()).of(us.binding());
        Self {
            book: Book::new(us, options, metrics, now),
            now,
            off: 0,
            wanted: HashMap::new(),
            under_way: Vec::new(),
            leases: HashMap::new(),
            versions: 0,
            latest: HashMap::new(),
            written: HashMap::new(),
        }
    }

    fn wall(&self) -> Timestamp {
        let day: Timestamp = "2026-11-25T10:00:00Z".parse().unwrap();
        day + SignedDuration::try_from(self.now).unwrap() + SignedDuration::from_secs(self.off)
    }

    /// Sends what may be sent.
    fn send(&mut self) {
        self.book.turn(self.now);
        let at = (self.now, self.wall());
        while let Some(job) = self.book.take(at) {
            let uid = self.wanted.get(&*job.node).unwrap_or_else(|| panic!("{} was stopped", job.node));
            assert!(self.under_way.iter().all(|other| other.node != job.node), "two requests for {}", job.node);
            if let Some(body) = body(&job.order) {
                assert_eq!(body["metadata"]["ownerReferences"][0]["uid"], **uid, "the owner is the node of now");
            }
            self.under_way.push(job);
        }
        assert!(self.under_way.len() <= 2, "more requests than may be");
    }

    fn store(&mut self, node: &NodeName, mut lease: Value) -> Value {
        self.versions += 1;
        lease["metadata"]["resourceVersion"] = json!(self.versions.to_string());
        self.leases.insert(node.clone(), lease.clone());
        lease
    }

    /// What the server does with a request.
    fn carry_out(&mut self, job: &Job) -> LeaseAnswer {
        let refused = |reason| LeaseAnswer::Refused(Refusal { reason, message: "so".into(), retry_after: None });
        let stored = self.leases.get(&job.node).cloned();
        let Some(mut lease) = body(&job.order) else {
            return match stored {
                Some(lease) => LeaseAnswer::Read(Box::new(serde_json::from_value(lease).unwrap())),
                None => refused(RefusalReason::NotFound),
            };
        };
        match (job.sent, stored) {
            (Sent::Create, Some(_)) => return refused(RefusalReason::AlreadyExists),
            (Sent::Create, None) => lease["metadata"]["uid"] = json!(format!("lease-{}", self.versions)),
            (_, stored) => {
                let same = |key: &str| stored.as_ref().is_some_and(|it| it["metadata"][key] == lease["metadata"][key]);
                if !same("uid") || !same("resourceVersion") {
                    return refused(RefusalReason::Conflict);
                }
            }
        }
        let time: Timestamp = lease["spec"]["renewTime"].as_str().unwrap().parse().unwrap();
        let before = self.latest.insert(job.node.clone(), time);
        assert!(before.is_none_or(|before| before < time), "node-lifecycle saw {before:?} and now {time}");
        self.written.insert(job.node.clone(), self.now);
        let lease = self.store(&job.node, lease);
        LeaseAnswer::Written(WrittenLease::read(lease.to_string().as_bytes()).unwrap())
    }

    fn end(&mut self, which: usize, end: End) {
        if self.under_way.is_empty() {
            return;
        }
        let job = self.under_way.swap_remove(which % self.under_way.len());
        let refused = |reason| LeaseAnswer::Refused(Refusal { reason, message: "so".into(), retry_after: None });
        let answer = match end {
            End::Answered => self.carry_out(&job),
            End::Lost => {
                self.carry_out(&job);
                refused(RefusalReason::Unreachable)
            }
            End::Hung => refused(RefusalReason::Unreachable),
            End::Failed => refused(RefusalReason::ServerError),
        };
        let Job { node, sent, at, .. } = job;
        self.book.done(Done { node, sent, at, answer }, self.now);
    }

    /// A lease that is gone, of a node that was dropped, is one that never was.
    fn forget(&mut self) {
        let (book, leases) = (&self.book.leases, &self.leases);
        self.latest.retain(|node, _| book.contains_key(node) || leases.contains_key(node));
    }

    fn happens(&mut self, event: &Event) {
        self.forget();
        match event {
            Event::Start(node, uid) => {
                let uid: Uid = format!("uid-{uid}").into();
                self.book.start(&NODES[*node].into(), &uid, self.now).unwrap();
                self.wanted.insert(NODES[*node], uid);
            }
            Event::Stop(node, memory) => {
                let name: NodeName = NODES[*node].into();
                let waits = self.book.stop(&name, *memory).is_some();
                assert_eq!(
                    waits,
                    self.under_way.iter().any(|job| job.node == name),
                    "a stop waits for what is under way"
                );
                self.wanted.remove(NODES[*node]);
            }
            Event::Passes(millis) => self.now += Duration::from_millis(*millis),
            Event::Set(off) => self.off = *off,
            Event::Ends(which, end) => self.end(*which, *end),
            Event::Deleted(node) => {
                let (name, latest) = (NODES[*node], self.latest.get(NODES[*node]).copied());
                let known = self.book.leases.get(name);
                if !known.is_some_and(|entry| matches!(entry.step, Step::Renew { .. }) || entry.latest > latest) {
                    // It was dropped, and started again, and its time was not read since then.
                    self.latest.remove(name);
                }
                self.leases.remove(name);
            }
            Event::Changed(node) => {
                if let Some(mut lease) = self.leases.get(NODES[*node]).cloned() {
                    lease["metadata"]["annotations"] = json!({"by": "another"});
                    self.store(&NODES[*node].into(), lease);
                }
            }
        }
        self.send();
    }

    /// The server answers everything at once for a while.
    fn settle(&mut self) {
        for _ in 0..30_000 / 50 {
            self.now += Duration::from_millis(50);
            self.send();
            while !self.under_way.is_empty() {
                self.end(0, End::Answered);
                self.send();
            }
        }
    }
}

fn body(order: &Order) -> Option<Value> {
    match order {
        Order::Renew { body, .. } | Order::Create { body } => Some(serde_json::from_slice(body).unwrap()),
        Order::Look { .. } => None,
    }
}

proptest! {
    #[test]
    fn whatever_happens_each_wanted_lease_is_renewed_in_the_end_and_no_other(
        events in proptest::collection::vec(event(), 1..120),
    ) {
        let mut history = History::new();
        for event in &events {
            history.happens(event);
        }
        // What was under way may have been stored meanwhile, and is not answered.
        while !history.under_way.is_empty() {
            history.end(0, End::Lost);
        }
        let settling = history.now;
        history.settle();
        for node in NODES {
            let written = history.written.get(node).copied();
            if let Some(uid) = history.wanted.get(node) {
                let lease = history.leases.get(node).unwrap_or_else(|| panic!("{node} has no lease"));
                prop_assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"].as_str(), Some(&**uid));
                let ago = history.now - written.unwrap();
                prop_assert!(ago <= Duration::from_secs(11), "{node} was renewed {ago:?} ago");
                prop_assert!(history.book.renewed(node).is_some());
            } else {
                prop_assert!(written.is_none_or(|written| written <= settling), "{node} was stopped");
            }
        }
        prop_assert_eq!(history.book.failing(), 0, "all of them succeeded");
        prop_assert!(history.book.next().is_none() || !history.wanted.is_empty());
    }
}
