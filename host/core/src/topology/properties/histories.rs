//! The guard over time (decision H6). Labels are set, moved and removed at any speed, Nodes come and go, the host
//! restarts. After every round the cluster has lost no more than the decision allows without a hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::cluster::{Cluster, arc};
use super::draw::{Dice, source};
use crate::names::Uid;
use crate::snapshot::{ColumnKey, NodeMeta, Store, View};
use crate::topology::guard::{
    ConfirmationState, DecisionCause, Desired, GuardVerdict, GuardedRound, Hold, Losses, Safety, judge,
};
use crate::topology::{Coverage, Forest, Group, Members, Object, Topology, ValidateInput, validate};

/// Racks below one spine.
const PER_SPINE: u16 = 18;

/// A cluster whose Nodes are grouped by a label, and a host that runs rounds on it.
struct Life {
    /// Whether there is a level above the spines.
    has_core: bool,
    /// The Nodes that exist, and the rack that each is labelled with.
    racks: BTreeMap<String, Option<u16>>,
    cluster: Cluster,
    now: Timestamp,
    safety: Safety,
    baseline: Option<View>,
    losses: Losses,
    hold: Hold,
    /// What the test records on its own: when a written result took the place of a Node that still exists.
    lost_at: BTreeMap<String, Timestamp>,
    /// The labels of the last written round.
    written: BTreeMap<String, Option<u16>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Written,
    Confirmed,
    Held,
}

impl Life {
    fn of(racks: BTreeMap<String, Option<u16>>) -> Self {
        let mut life = Self {
            has_core: racks.values().flatten().any(|rack| *rack >= PER_SPINE),
            racks,
            cluster: Cluster::default(),
            now: Timestamp::from_second(1_700_000_000).unwrap(),
            safety: Safety::default(),
            baseline: None,
            losses: Losses::default(),
            hold: Hold::default(),
            lost_at: BTreeMap::new(),
            written: BTreeMap::new(),
        };
        assert_eq!(life.round(), End::Written);
        life
    }

    /// So many Nodes, in racks of that size.
    fn sized(nodes: u16, size: u16) -> Self {
        Self::of((0..nodes).map(|n| (node(n), Some(n / size))).collect())
    }

    fn wait(&mut self, pause: Duration) {
        self.now = self.now.checked_add(SignedDuration::try_from(pause).unwrap()).unwrap();
    }

    fn view(&self) -> View {
        let key = ColumnKey::label("rack");
        let mut store = Store::new();
        store.require([key.clone()]);
        store.begin_relist();
        for (name, rack) in &self.racks {
            let rack = rack.map(|rack| rack.to_string());
            store.relist(NodeMeta { name, labels: rack.iter().map(|rack| ("rack", rack.as_str())), annotations: [] });
        }
        store.commit_relist();
        store.view(&[key])
    }

    fn forest(&self, view: &View) -> Forest {
        let mut racks: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
        for (rack, row) in self.racks.values().zip(0..) {
            if let Some(rack) = rack {
                racks.entry(*rack).or_default().push(row);
            }
        }
        let mut spines: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
        for (rack, at) in racks.keys().zip(0..) {
            spines.entry(rack / PER_SPINE).or_default().push(at);
        }
        let group = |id: String, tier, members| Group {
            id: arc(&id),
            kind: None,
            fixed_name: None,
            description: None,
            tier,
            tier_name: None,
            labels: Vec::new(),
            members,
        };
        let first_spine = u32::try_from(racks.len()).unwrap();
        let core = (0..u32::try_from(spines.len()).unwrap()).map(|at| first_spine + at).collect();
        // A labelled level exists whether it has one group or many.
        let has_core = self.has_core && !spines.is_empty();
        let racks = racks.into_iter().map(|(rack, rows)| group(format!("rack-{rack}"), 1, Members::Rows(rows)));
        let spines = spines.into_iter().map(|(spine, at)| group(format!("spine-{spine}"), 2, Members::Groups(at)));
        let mut groups: Vec<Group> = racks.chain(spines).collect();
        if has_core {
            groups.push(group("core".to_owned(), 3, Members::Groups(core)));
        }
        let topology = Topology { groups, diagnostics: Vec::new(), coverage: Coverage::Complete };
        let input = ValidateInput { source: &source(), nodes: view.names(), reserved_labels: &[] };
        validate(&topology, &input).unwrap_or_else(|violations| panic!("{violations}"))
    }

    /// The existing Nodes that a stored object lists.
    fn placed(&self) -> BTreeSet<String> {
        let listed = self.cluster.objects.values().flat_map(|object| object.spec.exact_nodes());
        listed.map(ToString::to_string).filter(|name| self.racks.contains_key(name)).collect()
    }

    fn names(&self) -> BTreeMap<Arc<str>, Uid> {
        self.cluster.objects.values().map(|object| (Arc::clone(&object.name), object.uid.clone())).collect()
    }

    /// One round, as the host does it.
    fn round(&mut self) -> End {
        let (source, view) = (source(), self.view());
        let forest = self.forest(&view);
        let named = self.cluster.named(&forest, &source);
        let observed = self.cluster.observed();
        let stored: Vec<&Object> = observed.iter().map(|object| &**object).collect();
        let mut desired = Desired::default();
        named.objects.iter().for_each(|(name, object)| desired.add(name, &object.spec, &view));
        self.losses.pass(self.now, &self.safety);
        let judged = judge(&GuardedRound {
            source: &source,
            stored: &stored,
            desired: &desired,
            baseline: self.baseline.as_ref(),
            now: &view,
            required: &[ColumnKey::label("rack")],
            losses: &self.losses,
            config: crate::topology::guard::Config::Same,
            safety: &self.safety,
        });
        let end = match &judged.verdict {
            GuardVerdict::Pass => End::Written,
            GuardVerdict::Held(held) => {
                let hash = forest.hash();
                match self.hold.agree(hash.as_str(), held.rule, self.now, DecisionCause::Round, None, &self.safety) {
                    ConfirmationState::Held { .. } => {
                        println!("{}\n{}\nwanted: {:?}", held.sentence, self.cluster, named.objects.keys());
                        self.losses.hold();
                        return End::Held;
                    }
                    ConfirmationState::Confirmed(_) => End::Confirmed,
                }
            }
        };
        match end {
            End::Confirmed => self.losses.forget(),
            _ => {
                self.losses.release();
                self.losses.take_in(&judged.loss, self.now);
            }
        }
        let before = self.placed();
        self.cluster.settle(&forest, &source);
        self.hold.clear();
        self.baseline = Some(view);
        self.written.clone_from(&self.racks);
        self.account(&before, end);
        end
    }

    /// Compares the loss of the last write with the limits of the decision.
    fn account(&mut self, before: &BTreeSet<String>, end: End) {
        let after = self.placed();
        let taken: Vec<&String> = before.difference(&after).collect();
        if end == End::Confirmed {
            self.lost_at.clear();
            return;
        }
        self.lost_at.extend(taken.iter().map(|name| ((*name).clone(), self.now)));
        self.lost_at.retain(|name, _| !after.contains(name));
        let counts = |at: &Timestamp| at.checked_add(self.safety.hold_for).unwrap() > self.now;
        let lost = self.lost_at.values().filter(|at| counts(at)).count();
        let reference = after.len() + lost;
        let are_few = lost <= 10 || lost * 100 <= reference * 30;
        assert!(taken.is_empty() || are_few, "{} more Nodes lost, {lost} of {reference}", taken.len());
    }

    /// The host stops and another one starts.
    fn restart(&mut self) {
        let was_held = self.hold.waiting().map(|_| self.now);
        self.losses = Losses::remembered(self.losses.buckets(&self.safety), was_held);
        self.hold = Hold::default();
        self.baseline = None;
    }

    fn delete(&mut self, name: &str) {
        self.racks.remove(name);
        self.lost_at.remove(name);
    }

    fn happens(&mut self, event: &Event) -> Vec<End> {
        match event {
            Event::Label(n, rack) => drop(self.racks.insert(node(*n), Some(*rack))),
            Event::Wipe(n) => self.wipe(*n),
            Event::WipeMany { first, count, at_once, pause } => {
                let mut ends = Vec::new();
                for n in 0..*count {
                    self.wipe(first + n);
                    if (n + 1) % at_once == 0 {
                        ends.push(self.round());
                        self.wait(Duration::from_millis(*pause));
                    }
                }
                return ends;
            }
            Event::Delete(n) => self.delete(&node(*n)),
            Event::Restart => self.restart(),
            Event::Wait(seconds) => self.wait(Duration::from_secs(*seconds)),
            Event::Round => return vec![self.round()],
        }
        Vec::new()
    }

    fn wipe(&mut self, n: u16) {
        if let Some(rack) = self.racks.get_mut(&node(n)) {
            *rack = None;
        }
    }
}

fn node(n: u16) -> String {
    format!("n{n:05}")
}

#[derive(Debug, Clone)]
enum Event {
    Label(u16, u16),
    Wipe(u16),
    /// One Node after another, with a round after each few and then a pause of so many milliseconds.
    WipeMany {
        first: u16,
        count: u16,
        at_once: u16,
        pause: u64,
    },
    Delete(u16),
    Restart,
    Wait(u64),
    Round,
}

fn event(nodes: u16) -> impl Strategy<Value = Event> {
    let many = (0..nodes, 1..=nodes, 1..=nodes, 0..20_000_u64);
    prop_oneof![
        6 => (0..nodes, 0..12_u16).prop_map(|(n, rack)| Event::Label(n, rack)),
        3 => (0..nodes).prop_map(Event::Wipe),
        3 => many.prop_map(|(first, count, at_once, pause)| Event::WipeMany { first, count, at_once, pause }),
        2 => (0..nodes).prop_map(Event::Delete),
        2 => Just(Event::Restart),
        2 => (0..900_u64).prop_map(Event::Wait),
        5 => Just(Event::Round),
    ]
}

/// The same, but each Node moves to its own rack's label.
fn at_home(event: Event) -> Event {
    match event {
        Event::Label(n, _) => Event::Label(n, n / 3),
        event => event,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// [`Life::account`] checks every write.
    #[test]
    fn nothing_is_lost_beyond_the_limits_without_a_hold_and_a_hold_ends_when_labels_return(
        (nodes, size) in (1..60_u16, 1..6_u16),
        history in prop::collection::vec(event(60), 1..40),
        does_restart in any::<bool>(),
    ) {
        let mut life = Life::sized(nodes, size);
        for event in &history {
            life.happens(event);
        }
        if does_restart {
            life.restart();
        }
        let good: Vec<_> = life.written.iter().map(|(name, rack)| (name.clone(), *rack)).collect();
        for (name, rack) in good {
            if let (Some(now), Some(_)) = (life.racks.get_mut(&name), rack) {
                *now = rack;
            }
        }
        prop_assert_eq!(life.round(), End::Written, "all labels are back");
    }

    #[test]
    fn relabelling_rack_by_rack_or_all_at_once_is_never_held(
        (nodes, size) in (2..60_u16, 1..6_u16),
        moves in prop::collection::vec((prop::collection::vec((0..60_u16, 0..40_u16), 1..60), any::<bool>(), 0..900_u64), 1..8),
        renames in prop::collection::vec((0..30_u16, 0..60_u16), 0..20),
    ) {
        let mut life = Life::sized(nodes, size);
        for (batch, does_restart, pause) in moves {
            for (n, rack) in batch {
                if let Some(label) = life.racks.get_mut(&node(n)) {
                    *label = Some(rack);
                }
            }
            prop_assert_eq!(life.round(), End::Written);
            life.wait(Duration::from_secs(pause));
            if does_restart {
                life.restart();
                prop_assert_eq!(life.round(), End::Written);
            }
        }
        for (from, to) in renames {
            life.racks.values_mut().filter(|rack| **rack == Some(from)).for_each(|rack| *rack = Some(to));
            prop_assert_eq!(life.round(), End::Written, "rack {} becomes {}", from, to);
        }
    }

    #[test]
    fn the_last_label_of_a_small_cluster_is_not_held(
        nodes in 1..=10_u16,
        history in prop::collection::vec(event(10).prop_map(at_home), 1..40),
    ) {
        let mut life = Life::of((0..nodes).map(|n| (node(n), Some(n / 3))).collect());
        for event in &history {
            let ends = life.happens(event);
            prop_assert!(!ends.contains(&End::Held), "{:?}", event);
        }
        for n in 0..10 {
            life.wipe(n);
            prop_assert_eq!(life.round(), End::Written);
        }
        prop_assert!(life.cluster.objects.is_empty());
    }

    /// All labels are removed, at any speed within the wait, and return in any order, with restarts in between.
    #[test]
    fn names_survive_wipe_and_return(
        (nodes, size) in (11..60_u16, 1..6_u16),
        (at_once, pause) in (1..60_u16, 0..4_500_u64),
        restarts in prop::collection::btree_set(0..120_u16, 0..6),
        seed in any::<u64>(),
    ) {
        let mut life = Life::sized(nodes, size);
        let (before, labels) = (life.names(), life.racks.clone());
        let limit = usize::from((nodes * 30 / 100).max(10));
        let mut order: Vec<u16> = (0..nodes).collect();
        let mut dice = Dice(seed | 1);
        let mut step = 0;
        let mut is_held = false;
        for returns in [false, true] {
            for at in (1..order.len()).rev() {
                order.swap(at, dice.below(at + 1));
            }
            for batch in order.chunks(usize::from(at_once)) {
                for n in batch {
                    let name = node(*n);
                    let rack = labels[&name].filter(|_| returns);
                    life.racks.insert(name, rack);
                }
                if restarts.contains(&step) {
                    life.restart();
                }
                step += 1;
                is_held = life.round() == End::Held;
                prop_assert!(life.placed().len() + limit >= usize::from(nodes), "after step {}", step);
                life.wait(Duration::from_millis(pause));
            }
            prop_assert_eq!(is_held, !returns, "after all");
        }
        let after = life.names();
        prop_assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
        let anew = before.iter().filter(|(name, uid)| after[*name] != **uid).count();
        // The spine above them may be one of them.
        prop_assert!(anew <= limit + 2, "{} of {} objects were made anew", anew, before.len());
    }
}

#[test]
fn of_twenty_thousand_nodes_seven_thousand_stripped_ones_delete_nothing() {
    let stripped = |how_many: u16| {
        let mut life = Life::sized(20_000, PER_SPINE);
        let before = life.names();
        assert_eq!(before.len(), 1175);
        (0..how_many).for_each(|n| life.wipe(n));
        let end = life.round();
        let after = life.names();
        let lost = before.keys().filter(|name| !after.contains_key(*name)).count();
        println!("{how_many} of 20000 Nodes stripped: {end:?}, {lost} of {} objects deleted", before.len());
        (end, lost)
    };
    assert_eq!(stripped(7000), (End::Held, 0));
    assert_eq!(stripped(6000).0, End::Written, "30 % of them are few");
}
