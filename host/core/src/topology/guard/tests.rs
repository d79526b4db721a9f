//! Every clause of decision H6 by name, and the whole decision against a plain implementation of it.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::snapshot::{NodeMeta, Store};
use crate::topology::model::{LabelSelector, Member, MemberKind, Selector};

/// Name to value of the label `rack`.
type Nodes = BTreeMap<String, Option<String>>;

fn rack_key() -> ColumnKey {
    ColumnKey::label("rack")
}

fn view(nodes: &Nodes) -> View {
    let mut store = Store::new();
    store.require([rack_key()]);
    store.begin_relist();
    for (name, rack) in nodes {
        store.relist(NodeMeta { name, labels: rack.iter().map(|rack| ("rack", rack.as_str())), annotations: [] });
    }
    store.commit_relist();
    store.view(&[rack_key()])
}

fn object(name: &str, members: Vec<Member>) -> Object {
    Object {
        name: name.into(),
        uid: name.into(),
        resource_version: "1".into(),
        created: 0,
        source: Some("label".parse().unwrap()),
        group_id: None,
        split_from: None,
        description: None,
        labels: BTreeMap::new(),
        owned_labels: std::collections::BTreeSet::new(),
        shared_labels: std::collections::BTreeSet::new(),
        spec: Spec { tier: 1, tier_name: None, members },
    }
}

/// A source that the guard judges: `racks` racks of `size` Nodes and, if there is more than one, a spine above them.
struct World {
    stored: Vec<Object>,
    before: Nodes,
    now: Nodes,
    restarted: bool,
    required: Vec<ColumnKey>,
    config: Config,
    safety: Safety,
    losses: Losses,
}

impl World {
    fn new(racks: usize, size: usize) -> Self {
        let node = |r, n| format!("n{r}-{n}");
        let rack = |r: usize| object(&format!("rack{r}"), (0..size).map(|n| Member::node(node(r, n).into())).collect());
        let mut stored: Vec<Object> = (0..racks).map(rack).collect();
        if racks > 1 {
            stored.push(object("spine", (0..racks).map(|r| Member::hyper_node(format!("rack{r}").into())).collect()));
        }
        let before: Nodes =
            (0..racks).flat_map(|r| (0..size).map(move |n| (node(r, n), Some(r.to_string())))).collect();
        Self {
            stored,
            now: before.clone(),
            before,
            restarted: false,
            required: vec![rack_key()],
            config: Config::Same,
            safety: Safety::default(),
            losses: Losses::default(),
        }
    }

    /// Earlier results took the place of these Nodes.
    fn lost_recently<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        let loss = Loss { names: names.into_iter().map(Into::into).collect(), ..Loss::default() };
        self.losses.take_in(&loss, jiff::Timestamp::UNIX_EPOCH);
    }

    /// One object with all existing Nodes.
    fn all_in(&self, name: &str) -> Object {
        object(name, self.now.keys().map(|name| Member::node(name.as_str().into())).collect())
    }

    fn relabel(&mut self, racks: std::ops::Range<usize>, to: Option<&str>) {
        for (name, rack) in &mut self.now {
            if racks.clone().any(|r| name.starts_with(&format!("n{r}-"))) {
                *rack = to.map(str::to_owned);
            }
        }
    }

    fn delete_nodes(&mut self, racks: std::ops::Range<usize>) {
        self.now.retain(|name, _| !racks.clone().any(|r| name.starts_with(&format!("n{r}-"))));
    }

    /// Judges a result that keeps the objects of these names unchanged and has no others.
    fn judge(&self, kept: impl Fn(&str) -> bool) -> GuardVerdict {
        let kept: Vec<&Object> = self.stored.iter().filter(|object| kept(&object.name)).collect();
        self.judge_result(&kept)
    }

    fn judge_result(&self, result: &[&Object]) -> GuardVerdict {
        self.judged(result).verdict
    }

    fn judged(&self, result: &[&Object]) -> Judged {
        let (baseline, now) = (view(&self.before), view(&self.now));
        let mut desired = Desired::default();
        result.iter().for_each(|object| desired.add(&object.name, &object.spec, &now));
        let stored: Vec<&Object> = self.stored.iter().collect();
        judge(&GuardedRound {
            source: &"label".parse().unwrap(),
            stored: &stored,
            desired: &desired,
            baseline: (!self.restarted).then_some(&baseline),
            now: &now,
            required: &self.required,
            losses: &self.losses,
            config: self.config,
            safety: &self.safety,
        })
    }
}

fn rule(verdict: &GuardVerdict) -> Option<GuardRule> {
    match verdict {
        GuardVerdict::Pass => None,
        GuardVerdict::Held(held) => Some(held.rule),
    }
}

/// Keeps the spine and the racks from this one on.
fn from_rack(first: usize) -> impl Fn(&str) -> bool {
    move |name| name.strip_prefix("rack").is_none_or(|r| r.parse::<usize>().expect("number") >= first)
}

#[test]
fn an_unchanged_result_passes() {
    assert_eq!(World::new(4, 4).judge(|_| true), GuardVerdict::Pass);
}

#[test]
fn more_than_half_of_the_objects_is_held() {
    // 10 objects. The spine keeps a place for every Node, so that only this rule can hold.
    let world = World::new(9, 2);
    let from = |first: usize| {
        let racks =
            world.stored.iter().filter(|object| object.name.starts_with("rack") && from_rack(first)(&object.name));
        racks.cloned().chain([world.all_in("spine")]).collect::<Vec<_>>()
    };
    assert_eq!(world.judge_result(&from(5).iter().collect::<Vec<_>>()), GuardVerdict::Pass);
    let verdict = world.judge_result(&from(6).iter().collect::<Vec<_>>());
    assert_eq!(rule(&verdict), Some(GuardRule::Deletes { deletes: 6, of: 10, explained: 0 }));
}

#[test]
fn one_object_alone_is_never_held() {
    let mut world = World::new(1, 1);
    world.stored.push(object("empty", vec![]));
    world.safety.max_delete_percent = 0;
    assert_eq!(world.judge_result(&[&world.all_in("empty")]), GuardVerdict::Pass);
}

#[test]
fn more_than_a_third_of_the_placed_nodes_is_held() {
    let world = World::new(10, 10);
    let without = |racks: usize| {
        let mut world = World::new(10, 10);
        world.stored = world
            .stored
            .iter()
            .map(|o| if from_rack(racks)(&o.name) { o.clone() } else { object(&o.name, vec![]) })
            .collect();
        world.stored
    };
    assert_eq!(world.judge_result(&without(3).iter().collect::<Vec<_>>()), GuardVerdict::Pass);
    let verdict = world.judge_result(&without(4).iter().collect::<Vec<_>>());
    assert_eq!(rule(&verdict), Some(GuardRule::Loses { nodes: 40, of: 100, earlier: 0 }));
}

#[test]
fn up_to_ten_nodes_may_be_lost_whatever_their_share() {
    // The last label of a small cluster is removed, at once or one by one, and whether or not the host saw it.
    for restarted in [false, true] {
        let mut world = World::new(5, 2);
        world.restarted = restarted;
        world.relabel(0..5, None);
        assert_eq!(world.judge(|_| false), GuardVerdict::Pass);
        assert_eq!(world.judge(|name| name == "rack0"), GuardVerdict::Pass);
    }
    // A plugin that reads no labels is no exception.
    let mut world = World::new(5, 2);
    world.required.clear();
    assert_eq!(world.judge(|_| false), GuardVerdict::Pass);
    let mut world = World::new(1, 11);
    world.relabel(0..1, None);
    let verdict = world.judge_result(&[&object("rack0", vec![])]);
    assert_eq!(rule(&verdict), Some(GuardRule::Loses { nodes: 11, of: 11, earlier: 0 }));
}

#[test]
fn a_node_that_lost_its_place_explains_nothing_whatever_changed_on_it() {
    let mut world = World::new(10, 4);
    world.relabel(0..10, None);
    assert_eq!(rule(&world.judge(|_| false)), Some(GuardRule::Empty { objects: 11 }));
    let wiped = |racks: usize| {
        let mut world = World::new(10, 4);
        world.relabel(0..racks, None);
        world.judge(from_rack(racks))
    };
    assert_eq!(rule(&wiped(8)), Some(GuardRule::Deletes { deletes: 8, of: 11, explained: 0 }));
    assert_eq!(rule(&wiped(4)), Some(GuardRule::Loses { nodes: 16, of: 40, earlier: 0 }));
    // 12 of 40 are few.
    assert_eq!(wiped(3), GuardVerdict::Pass);
}

#[test]
fn recent_losses_count_together_with_new_ones() {
    // Racks 0 to 2 were lost already; rack 3 is lost now.
    let mut world = World::new(10, 4);
    let all: Vec<String> = world.before.keys().cloned().collect();
    world.stored.retain(|object| from_rack(3)(&object.name));
    world.lost_recently(all[..12].iter().map(String::as_str));
    let verdict = world.judge(from_rack(4));
    assert_eq!(rule(&verdict), Some(GuardRule::Loses { nodes: 16, of: 40, earlier: 12 }));
    // A round that takes no place is not held for what earlier rounds took.
    assert_eq!(world.judge(|_| true), GuardVerdict::Pass);
    // Nodes that were deleted since then count on neither side.
    world.delete_nodes(0..2);
    assert_eq!(world.judge(from_rack(4)), GuardVerdict::Pass);
    // After a restart only their number is known: any Node without a place may be one of them, and no other.
    let buckets = [Bucket { at: jiff::Timestamp::UNIX_EPOCH, nodes: 12 }];
    world.losses = Losses::remembered(buckets, None);
    let loss = world.judged(&[]).loss;
    assert_eq!((loss.reference, loss.lost, loss.fresh), (32, 32, 28), "the 4 of rack 2 may be of the 12");
    world.now.extend((0..20).map(|n| (format!("spare{n}"), None)));
    let verdict = world.judge(from_rack(4));
    assert_eq!(rule(&verdict), Some(GuardRule::Loses { nodes: 16, of: 40, earlier: 12 }));
}

#[test]
fn while_a_result_is_held_any_lost_node_holds_the_next() {
    let mut world = World::new(10, 4);
    world.losses.hold();
    let one_is_missing = world.judge(from_rack(1));
    assert_eq!(rule(&one_is_missing), Some(GuardRule::Loses { nodes: 4, of: 40, earlier: 0 }));
    assert!(
        format!("{one_is_missing:?}").contains("4 of 40 placed Nodes without a place (limit 0 while a result is held)")
    );
    assert_eq!(world.judge(|_| true), GuardVerdict::Pass);
    // A missing Node that is deleted does not prolong the hold.
    world.delete_nodes(0..1);
    assert_eq!(world.judge(from_rack(1)), GuardVerdict::Pass);
}

#[test]
fn an_empty_result_is_written_by_itself_where_no_more_than_ten_nodes_are_left() {
    let mut world = World::new(3, 4);
    world.safety.max_lose_percent = 100;
    assert_eq!(rule(&world.judge(|_| false)), Some(GuardRule::Empty { objects: 4 }));
    world.delete_nodes(0..1);
    assert_eq!(world.judge(|_| false), GuardVerdict::Pass);
    // Two more had a place within `holdFor`.
    world.now.extend([("x".to_owned(), None), ("y".to_owned(), None), ("z".to_owned(), None)]);
    world.lost_recently(["x", "y"]);
    assert_eq!(world.judge(|_| false), GuardVerdict::Pass);
    world.lost_recently(["x", "y", "z"]);
    assert_eq!(rule(&world.judge(|_| false)), Some(GuardRule::Empty { objects: 4 }));
}

#[test]
fn a_node_that_moves_to_another_object_loses_nothing() {
    let world = World::new(4, 4);
    let all = world.before.keys().map(|name| Member::node(name.as_str().into())).collect();
    let mut kept: Vec<Object> = world.stored.clone();
    kept.iter_mut().for_each(|object| object.spec.members.clear());
    kept[0].spec.members = all;
    assert_eq!(world.judge_result(&kept.iter().collect::<Vec<_>>()), GuardVerdict::Pass);
}

#[test]
fn a_mass_relabel_explains_itself() {
    let mut world = World::new(10, 4);
    world.relabel(0..10, Some("other"));
    // Every object is replaced, the spine too: its Nodes are those of its racks.
    assert_eq!(world.judge_result(&[&world.all_in("other")]), GuardVerdict::Pass);
    // But not where their Nodes have no place.
    assert_eq!(rule(&world.judge(|_| false)), Some(GuardRule::Empty { objects: 11 }));
}

#[test]
fn the_same_loss_without_a_change_of_nodes_is_held() {
    assert_eq!(rule(&World::new(10, 4).judge(|_| false)), Some(GuardRule::Empty { objects: 11 }));
    assert_eq!(
        rule(&World::new(10, 4).judge(from_rack(8))),
        Some(GuardRule::Deletes { deletes: 8, of: 11, explained: 0 })
    );
}

#[test]
fn the_other_halves_of_moves_that_are_over_are_explained() {
    // Nine racks are relabelled Node by Node. Their first Nodes are in new objects, and now the last ones follow.
    let mut world = World::new(9, 2);
    let half = |r: usize| {
        let first = object(&format!("half{r}"), vec![Member::node(format!("n{r}-0").into())]);
        Object { split_from: Some(format!("rack{r}").into()), ..first }
    };
    world.stored.extend((0..9).map(half));
    for r in 0..9 {
        world.before.insert(format!("n{r}-0"), Some(format!("new{r}")));
        world.now.insert(format!("n{r}-0"), Some(format!("new{r}")));
        world.now.insert(format!("n{r}-1"), Some(format!("new{r}")));
    }
    world.safety.max_delete_percent = 0;
    assert_eq!(world.judge(|name| !name.starts_with("half")), GuardVerdict::Pass);
    world.stored.iter_mut().for_each(|object| object.split_from = None);
    assert_eq!(
        rule(&world.judge(|name| !name.starts_with("half"))),
        Some(GuardRule::Deletes { deletes: 9, of: 19, explained: 0 })
    );
}

#[test]
fn explained_objects_count_on_neither_side() {
    let mut world = World::new(10, 4);
    world.relabel(0..6, Some("other"));
    let result = |first: usize| {
        let racks =
            world.stored.iter().filter(|object| object.name.starts_with("rack") && from_rack(first)(&object.name));
        racks.cloned().chain([world.all_in("spine")]).collect::<Vec<_>>()
    };
    assert_eq!(world.judge_result(&result(6).iter().collect::<Vec<_>>()), GuardVerdict::Pass);
    // Of the 5 that are left, 3 are deleted without an explanation.
    let verdict = world.judge_result(&result(9).iter().collect::<Vec<_>>());
    assert_eq!(rule(&verdict), Some(GuardRule::Deletes { deletes: 3, of: 5, explained: 6 }));
}

#[test]
fn one_unchanged_node_keeps_its_object_unexplained() {
    let mut world = World::new(4, 4);
    world.relabel(0..4, Some("other"));
    assert_eq!(world.judge_result(&[&world.all_in("other")]), GuardVerdict::Pass);
    for rack in 0..4 {
        world.now.insert(format!("n{rack}-0"), Some(rack.to_string()));
    }
    let verdict = world.judge_result(&[&world.all_in("other")]);
    assert_eq!(rule(&verdict), Some(GuardRule::Deletes { deletes: 5, of: 5, explained: 0 }));
}

#[test]
fn deleted_nodes_explain_their_objects_even_after_a_restart() {
    let mut world = World::new(10, 4);
    world.restarted = true;
    world.delete_nodes(0..8);
    assert_eq!(world.judge(from_rack(8)), GuardVerdict::Pass);
    world.delete_nodes(0..10);
    assert_eq!(world.judge(|_| false), GuardVerdict::Pass);
}

#[test]
fn a_relabel_across_a_restart_explains_nothing() {
    let mut world = World::new(10, 4);
    world.restarted = true;
    world.relabel(0..10, Some("other"));
    let verdict = world.judge_result(&[&world.all_in("other")]);
    assert_eq!(rule(&verdict), Some(GuardRule::Deletes { deletes: 11, of: 11, explained: 0 }));
}

#[test]
fn a_wipe_is_judged_the_same_across_a_restart() {
    for first in 0..=10 {
        let mut world = World::new(10, 4);
        world.relabel(0..first, None);
        let kept = |name: &str| first < 10 && from_rack(first)(name);
        let seen = world.judge(kept);
        world.restarted = true;
        assert_eq!(world.judge(kept), seen, "{first}");
    }
}

#[test]
fn a_change_in_a_column_that_is_not_required_explains_nothing() {
    let mut world = World::new(10, 4);
    world.required = vec![ColumnKey::label("zone")];
    world.relabel(0..10, Some("other"));
    let verdict = world.judge_result(&[&world.all_in("other")]);
    assert_eq!(rule(&verdict), Some(GuardRule::Deletes { deletes: 11, of: 11, explained: 0 }));
}

#[test]
fn a_required_column_that_the_baseline_lacks_shows_no_change() {
    let world = World::new(4, 4);
    let (before, now) = (Store::new().view(&[]), view(&world.now));
    let stored: Vec<&Object> = world.stored.iter().collect();
    let mut desired = Desired::default();
    let all = world.all_in("all");
    desired.add(&all.name, &all.spec, &now);
    let round = GuardedRound {
        source: &"label".parse().unwrap(),
        stored: &stored,
        desired: &desired,
        baseline: Some(&before),
        now: &now,
        required: &[rack_key()],
        losses: &Losses::default(),
        config: Config::Same,
        safety: &Safety::default(),
    };
    assert_eq!(rule(&judge(&round).verdict), Some(GuardRule::Deletes { deletes: 5, of: 5, explained: 0 }));
}

#[test]
fn an_edit_of_the_config_lifts_the_delete_rule_alone() {
    let mut world = World::new(10, 4);
    world.config = Config::Edited;
    // The racks are deleted; the spine takes their Nodes.
    let all = world.before.keys().map(|name| Member::node(name.as_str().into())).collect();
    assert_eq!(world.judge_result(&[&object("spine", all)]), GuardVerdict::Pass);
    assert_eq!(rule(&world.judge(from_rack(6))), Some(GuardRule::Loses { nodes: 24, of: 40, earlier: 0 }));
    assert_eq!(rule(&world.judge(|_| false)), Some(GuardRule::Empty { objects: 11 }));
}

#[test]
fn an_empty_result_is_held_even_for_a_single_object() {
    let mut world = World::new(1, 11);
    assert_eq!(rule(&world.judge(|_| false)), Some(GuardRule::Empty { objects: 1 }));
    world.safety = Safety { allow_empty: true, max_lose_percent: 100, ..world.safety };
    assert_eq!(world.judge(|_| false), GuardVerdict::Pass);
}

#[test]
fn allow_empty_leaves_the_other_rules() {
    let mut world = World::new(10, 4);
    world.safety.allow_empty = true;
    assert_eq!(rule(&world.judge(|_| false)), Some(GuardRule::Deletes { deletes: 11, of: 11, explained: 0 }));
    world.config = Config::Edited;
    assert_eq!(rule(&world.judge(|_| false)), Some(GuardRule::Loses { nodes: 40, of: 40, earlier: 0 }));
}

#[test]
fn a_source_without_objects_may_stay_empty() {
    let mut world = World::new(2, 2);
    world.stored.clear();
    assert_eq!(world.judge(|_| false), GuardVerdict::Pass);
}

#[test]
fn a_result_that_replaces_all_objects_is_held() {
    let world = World::new(4, 2);
    let new: Vec<Object> =
        world.stored.iter().map(|old| object(&format!("new-{}", old.name), old.spec.members.clone())).collect();
    assert_eq!(
        rule(&world.judge_result(&new.iter().collect::<Vec<_>>())),
        Some(GuardRule::Deletes { deletes: 5, of: 5, explained: 0 })
    );
}

fn selecting(name: &str, key: &str, value: &str) -> Object {
    let match_labels = BTreeMap::from([(key.to_owned(), value.to_owned())]);
    let selector = Selector::Labels(LabelSelector { match_labels, match_expressions: Vec::new() });
    object(name, vec![Member { kind: MemberKind::Node, selector }])
}

#[test]
fn the_nodes_that_a_selector_chose_at_the_baseline_count() {
    let mut world = World::new(2, 8);
    world.stored = vec![selecting("a", "rack", "0"), selecting("b", "rack", "1")];
    assert_eq!(rule(&world.judge(|_| false)), Some(GuardRule::Empty { objects: 2 }));
    world.relabel(0..2, None);
    let empty = world.judge(|_| false);
    assert_eq!(rule(&empty), Some(GuardRule::Empty { objects: 2 }));
    // After a restart it is not known what they chose; but it is known that many Nodes have no place.
    world.restarted = true;
    assert_eq!(rule(&world.judge(|_| false)), Some(GuardRule::Empty { objects: 2 }));
    world.delete_nodes(0..1);
    assert_eq!(world.judge(|_| false), GuardVerdict::Pass);

    let mut world = World::new(2, 8);
    world.stored = vec![selecting("a", "rack", "0"), selecting("b", "rack", "1")];
    world.relabel(0..2, Some("other"));
    assert_eq!(world.judge_result(&[&world.all_in("other")]), GuardVerdict::Pass);
    // The plugin does not require that column, so the Nodes count as unchanged.
    world.required.clear();
    let verdict = world.judge_result(&[&world.all_in("other")]);
    assert_eq!(rule(&verdict), Some(GuardRule::Deletes { deletes: 2, of: 2, explained: 0 }));
}

#[test]
fn nodes_that_left_a_selector_by_their_own_labels_are_not_lost() {
    let mut world = World::new(2, 12);
    world.stored = vec![selecting("a", "rack", "0"), selecting("b", "rack", "1")];
    world.required.clear();
    world.relabel(0..1, None);
    assert_eq!(world.judge(|_| true), GuardVerdict::Pass);
    world.stored.push(object("c", vec![]));
    assert_eq!(world.judge(|name| name != "c"), GuardVerdict::Pass);
}

#[test]
fn an_unreadable_selector_explains_nothing() {
    let mut world = World::new(2, 3);
    world.stored = vec![selecting("a", "zone", "0")];
    world.delete_nodes(0..2);
    assert_eq!(rule(&world.judge(|_| false)), Some(GuardRule::Empty { objects: 1 }));
}

#[test]
fn a_cycle_of_objects_is_explained_through() {
    let mut world = World::new(1, 11);
    let member = |name: &str| Member::hyper_node(name.into());
    let mut a = world.all_in("a");
    a.spec.members.push(member("b"));
    world.stored = vec![a, object("b", vec![member("a"), member("b"), member("gone")])];
    assert_eq!(rule(&world.judge(|_| false)), Some(GuardRule::Empty { objects: 2 }));
    let elsewhere = world.all_in("c");
    let held = GuardRule::Deletes { deletes: 2, of: 2, explained: 0 };
    assert_eq!(rule(&world.judge_result(&[&elsewhere])), Some(held));
    world.relabel(0..1, Some("other"));
    assert_eq!(world.judge_result(&[&elsewhere]), GuardVerdict::Pass);
}

#[test]
fn the_sentence_has_numbers_limits_and_a_remedy() {
    let sentence = |verdict| match verdict {
        GuardVerdict::Held(held) => held.sentence,
        GuardVerdict::Pass => "passed".to_owned(),
    };
    let mut world = World::new(10, 4);
    assert_eq!(
        sentence(world.judge(|_| false)),
        "Held, nothing was written: the result is empty while the source has 11 HyperNodes, and would delete 11 of 11 \
         HyperNodes (limit 50 %), and would leave 40 of 40 placed Nodes without a place (limit 30 %). Time \
         does not confirm an empty result. If it is right, run `topoloom confirm label` or set safety.allowEmpty; if \
         not, correct what the source reads."
    );
    world.relabel(0..2, Some("other"));
    assert_eq!(
        sentence(world.judge_result(&[&world.all_in("spine")])),
        "Held, nothing was written: the result would delete 8 of 9 HyperNodes (limit 50 %; 2 more are not \
         counted, their Nodes explain them). The host applies it after 2 agreeing rounds, at least 10 min apart. If it \
         is right, `topoloom confirm label` applies it now; if not, correct what the source reads."
    );
    world.now.insert("x".into(), None);
    world.lost_recently(["x"]);
    let racks: Vec<&Object> = world.stored.iter().filter(|object| from_rack(4)(&object.name)).collect();
    assert_eq!(
        sentence(world.judge_result(&racks)),
        "Held, nothing was written: the result would leave 17 of 41 placed Nodes without a place (limit 30 %; 1 \
         of them lost it to earlier results, within 10 min). The host applies it after 2 agreeing rounds, at least \
         10 min apart. If it is right, `topoloom confirm label` applies it now; if not, correct what the source reads."
    );
    let world = World::new(1, 11);
    assert!(
        sentence(world.judge_result(&[&object("rack0", vec![])]))
            .contains("11 of 11 placed Nodes without a place (limit 10).")
    );
}

/// Decision H6 implemented plainly, with sets of names.
fn by_a_plain_implementation(world: &World, result: &[&Object]) -> Option<&'static str> {
    let direct = |object: &Object| -> BTreeSet<String> { object.spec.exact_nodes().map(ToString::to_string).collect() };
    let below = |top: &Object| {
        let (mut seen, mut open, mut nodes) = (BTreeSet::new(), vec![top.name.to_string()], BTreeSet::new());
        while let Some(name) = open.pop() {
            let Some(object) = world.stored.iter().find(|object| *object.name == *name) else { continue };
            if seen.insert(name) {
                nodes.extend(direct(object));
                open.extend(object.spec.children().map(ToString::to_string));
            }
        }
        nodes
    };
    let still: BTreeSet<String> = result.iter().flat_map(|object| direct(object)).collect();
    let exists = |node: &String| world.now.contains_key(node);
    let placed: BTreeSet<String> = world.stored.iter().flat_map(direct).filter(exists).collect();
    let lately: BTreeSet<String> = world.losses.names().map(ToString::to_string).filter(exists).collect();
    let reference: BTreeSet<String> = placed.union(&lately).cloned().collect();
    let lost = reference.difference(&still).count();
    let are_few = !world.losses.is_held()
        && (lost <= 10 || lost * 100 <= reference.len() * usize::from(world.safety.max_lose_percent));
    let is_explained = |object: &&Object| {
        below(object).iter().all(|node| {
            let then = world.before.get(node).cloned().flatten();
            match world.now.get(node) {
                None => true,
                Some(now) if still.contains(node) => !world.restarted && then != *now,
                Some(_) => are_few,
            }
        })
    };
    let left: Vec<&Object> = world.stored.iter().filter(|object| !is_explained(object)).collect();
    let survives = |object: &&&Object| result.iter().any(|other| other.name == object.name);
    let deletes = left.iter().filter(|object| !survives(object)).count();
    let takes = placed.difference(&still).count() > 0;
    if result.is_empty() && (takes || !left.is_empty()) && reference.len() > 10 && !world.safety.allow_empty {
        Some("empty")
    } else if world.config == Config::Same
        && deletes >= 2
        && deletes * 100 > left.len() * usize::from(world.safety.max_delete_percent)
    {
        Some("deletes")
    } else if takes && !are_few {
        Some("loses")
    } else {
        None
    }
}

fn member() -> impl Strategy<Value = Member> {
    prop_oneof![
        4 => (0..30u8).prop_map(|n| Member::node(format!("n{n}").into())),
        1 => (0..6u8).prop_map(|n| Member::hyper_node(format!("h{n}").into())),
    ]
}

fn objects(prefix: &'static str) -> impl Strategy<Value = Vec<Object>> {
    let members = prop::collection::vec(member(), 0..12);
    prop::collection::btree_map(0..6u8, members, 0..6).prop_map(move |objects| {
        objects.into_iter().map(|(n, members)| object(&format!("{prefix}{n}"), members)).collect()
    })
}

fn nodes() -> impl Strategy<Value = Nodes> {
    prop::collection::btree_map((0..30u8).prop_map(|n| format!("n{n}")), prop::option::of("[ab]"), 0..40)
}

fn world() -> impl Strategy<Value = World> {
    let edits = prop::collection::vec((0..30u8, prop::option::of(prop::option::of("[ab]"))), 0..20);
    let stable = (nodes(), edits, prop::collection::btree_set(0..40u8, 0..20));
    (objects("h"), stable, any::<bool>(), any::<bool>(), any::<(bool, bool)>(), 0..=100u8, 0..=100u8).prop_map(
        |(
            stored,
            (before, edits, lately),
            restarted,
            edited,
            (allow_empty, is_held),
            max_delete_percent,
            max_lose_percent,
        )| {
            let mut now = before.clone();
            for (n, edit) in edits {
                match edit {
                    Some(rack) => now.insert(format!("n{n}"), rack),
                    None => now.remove(&format!("n{n}")),
                };
            }
            let mut world = World {
                stored,
                before,
                now,
                restarted,
                required: vec![rack_key()],
                config: if edited { Config::Edited } else { Config::Same },
                safety: Safety { max_delete_percent, max_lose_percent, allow_empty, ..Safety::default() },
                losses: Losses::default(),
            };
            let lately: Vec<String> = lately.iter().map(|n| format!("n{n}")).collect();
            world.lost_recently(lately.iter().map(String::as_str));
            if is_held {
                world.losses.hold();
            }
            world
        },
    )
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for object in &self.stored {
            writeln!(f, "{}: {:?}", object.name, object.spec.members)?;
        }
        writeln!(f, "{:?}\n-> {:?}", self.before, self.now)?;
        write!(f, "restarted {} {:?} {:?} {:?}", self.restarted, self.config, self.safety, self.losses)
    }
}

proptest! {
    #[test]
    fn the_guard_judges_like_a_plain_implementation_of_the_decision(
        world in world(), keep in any::<u8>(), edited in objects("h"), new in objects("new"),
    ) {
        // Some objects survive as they are, some with other members, some are new.
        let mut result: Vec<&Object> = Vec::new();
        for (i, object) in world.stored.iter().enumerate() {
            if keep >> i & 1 == 1 {
                result.push(edited.iter().find(|edited| edited.name == object.name).unwrap_or(object));
            }
        }
        if keep >> 6 & 1 == 1 {
            result.extend(&new);
        }
        let verdict = world.judge_result(&result);
        let word = rule(&verdict).map(|rule| match rule {
            GuardRule::Empty { .. } => "empty",
            GuardRule::Deletes { .. } => "deletes",
            GuardRule::Loses { .. } => "loses",
        });
        prop_assert_eq!(word, by_a_plain_implementation(&world, &result));
    }

    /// When every Node has changed and has a place, the round passes, whatever happens to the objects.
    #[test]
    fn a_loss_that_is_explained_throughout_passes(mut world in world(), keep in any::<u8>()) {
        world.restarted = false;
        for (name, rack) in &world.before {
            if let Some(now) = world.now.get_mut(name) {
                *now = Some(format!("not-{}", rack.as_deref().unwrap_or("none")));
            }
        }
        world.now.retain(|name, _| world.before.contains_key(name));
        let all = world.all_in("all");
        let stored = world.stored.iter().enumerate().filter(|(i, _)| keep >> i & 1 == 1).map(|(_, object)| object);
        let result: Vec<&Object> = stored.chain([&all]).collect();
        prop_assert_eq!(world.judge_result(&result), GuardVerdict::Pass);
    }
}
