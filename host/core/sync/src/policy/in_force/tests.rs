use jiff::Timestamp;
use proptest::prelude::*;

use super::super::announced::{Announced, Announcement};
use super::super::examples::{broken, invalid, malformed, on_pool, policy, requirement};
use super::super::object::PolicyObject;
use super::super::spec::PolicySpec;
use super::*;
use crate::selector::{RawNodeSelector, RawTerm};
use crate::texts::TextMap;

const VIRTUAL_CLUSTER: &str = "vc";

fn at(day: u32) -> Option<Timestamp> {
    Some(format!("2026-01-{day:02}T00:00:00Z").parse().unwrap())
}

fn policies(objects: impl IntoIterator<Item = PolicyObject>) -> Policies {
    let mut policies = Policies::new(VIRTUAL_CLUSTER);
    policies.set_synced(Synced::Yes);
    for object in objects {
        let _ = policies.insert(Policy::new(object));
    }
    policies
}

fn with(object: PolicyObject, change: impl FnOnce(PolicySpec) -> PolicySpec) -> PolicyObject {
    PolicyObject { spec: change(object.spec), ..object }
}

fn labels(pool: &str) -> TextMap {
    [("pool", pool)].into()
}

/// What is in force on a node of a pool, for the binding `east`, in words.
fn on(policies: &Policies, pool: &str) -> String {
    on_of(policies, pool, "east", NoPolicy::LeaseAll)
}

fn on_of(policies: &Policies, pool: &str, binding: &str, no_policy: NoPolicy) -> String {
    let (selector, labels) = (NodeSelector::default(), labels(pool));
    let binding = BindingFacts { name: binding, selector: &selector, no_policy };
    let node = NodeFacts { name: "w1", labels: &labels };
    let standing = policies.standing(&binding, &node);
    assert_eq!(standing.in_force, policies.in_force(&binding, &node));
    word(&standing.in_force)
}

fn word(in_force: &InForce<'_>) -> String {
    match in_force {
        InForce::Policy { policy, .. } => policy.name().to_owned(),
        InForce::LeaseAll => "all".to_owned(),
        InForce::Withdraw => "withdraw".to_owned(),
        InForce::Frozen { by } => format!("frozen by {}", by.name()),
        InForce::NotSynced => "not synced".to_owned(),
        InForce::OutsideBinding => "outside".to_owned(),
    }
}

fn names(policies: &[&Policy]) -> Vec<String> {
    policies.iter().map(|policy| policy.name().to_owned()).collect()
}

#[test]
fn s18_priority_comes_before_age_and_age_before_name() {
    let aged = |name: &str, day| PolicyObject { created: at(day), ..policy(name) };
    let urgent = |object: PolicyObject, priority| with(object, |spec| PolicySpec { priority, ..spec });
    let all = policies([
        aged("d-young", 9),
        aged("b-old", 2),
        aged("a-old", 2),
        PolicyObject { created: None, ..policy("a-not-created") },
        urgent(aged("first", 20), 5),
        urgent(aged("last", 1), -1),
    ]);
    let order: Vec<_> = all.of("east").map(Policy::name).collect();
    assert_eq!(order, ["first", "a-old", "b-old", "d-young", "a-not-created", "last"]);
    assert_eq!(on(&all, "red"), "first");
}

#[test]
fn s18_the_first_policy_is_in_force_also_outside_its_windows_and_shadows_the_others() {
    let closed = with(PolicyObject { created: at(1), ..policy("closed") }, |spec| PolicySpec {
        time_windows: vec![super::super::examples::window("03:00", "03:00", &["Monday"])],
        ..spec
    });
    let other = with(PolicyObject { created: at(3), ..policy("other") }, |spec| on_pool("blue", spec));
    let all = policies([closed, PolicyObject { created: at(2), ..policy("open") }, other]);
    let selector = NodeSelector::default();
    let binding = BindingFacts { name: "east", selector: &selector, no_policy: NoPolicy::LeaseAll };
    let standing = |pool| all.standing(&binding, &NodeFacts { name: "w1", labels: &labels(pool) });
    assert_eq!(word(&standing("red").in_force), "closed");
    assert_eq!(names(&standing("red").shadowed), ["open"]);
    assert_eq!(names(&standing("blue").shadowed), ["open", "other"]);
}

#[test]
fn s8_a_node_is_lent_whole_only_if_all_policies_are_known_and_none_selects_it() {
    let red = |object| with(object, |spec| on_pool("red", spec));
    let mut all = policies([red(policy("red"))]);
    assert_eq!(on(&all, "red"), "red");
    assert_eq!(on(&all, "blue"), "all");
    assert_eq!(on_of(&all, "blue", "east", NoPolicy::Withdraw), "withdraw");
    all.set_synced(Synced::No);
    assert_eq!(on(&all, "red"), "not synced");
    assert_eq!(on(&all, "blue"), "not synced");
    assert_eq!(on(&Policies::new(VIRTUAL_CLUSTER), "blue"), "not synced");
}

#[test]
fn s8_a_policy_that_is_found_gone_keeps_its_nodes_as_they_are_until_a_later_list_confirms_it() {
    let red = |object| with(object, |spec| on_pool("red", spec));
    let mut all =
        policies([red(policy("small")), red(policy("wide")), with(broken("bad"), |spec| on_pool("blue", spec))]);
    let found = |all: &Policies| POOLS.map(|pool| on(all, pool));
    assert_eq!(found(&all), ["small", "frozen by bad", "all"]);
    // Neither the one behind it opens the node, nor is one lent that never was.
    assert!(all.doubt("small").contains("east"));
    assert_eq!(found(&all), ["not synced", "frozen by bad", "all"]);
    assert!(all.doubt("bad").contains("east"));
    assert_eq!(found(&all), ["not synced", "not synced", "all"]);
    assert_eq!(on_of(&all, "red", "west", NoPolicy::LeaseAll), "all", "they are none of another binding's");
    assert_eq!(on_of(&all, "blue", "east", NoPolicy::Withdraw), "not synced");
    // A list that was asked for before the second one was found gone.
    assert!(!all.believe(1) && all.is_in_doubt());
    assert!(all.believe(all.doubts()) && !all.is_in_doubt() && !all.believe(2));
    assert_eq!(found(&all), ["wide", "all", "all"]);
}

#[test]
fn s8_a_policy_that_comes_again_counts_at_once_and_one_that_is_being_deleted_is_doubted_once() {
    let mut all = policies([policy("night")]);
    all.doubt("night");
    let _ = all.insert(Policy::new(policy("night")));
    assert_eq!((on(&all, "red"), all.is_in_doubt()), ("night".to_owned(), false));
    all.doubt("night");
    let going = PolicyObject { deleting: true, ..policy("night") };
    let _ = all.insert(Policy::new(going));
    assert_eq!(on(&all, "red"), "not synced");
    all.doubt("night");
    assert_eq!(all.doubts(), 2);
    assert!(all.believe(2));
    assert_eq!(on(&all, "red"), "all");
    assert!(all.doubt("night").is_empty() && !all.is_in_doubt(), "it is not known");
}

#[test]
fn s8_policies_that_go_without_end_fill_no_memory() {
    let mut all = policies([]);
    for number in 0..1_000 {
        let name = format!("p{number}");
        let _ = all.insert(Policy::new(with(policy(&name), |spec| on_pool("red", spec))));
        all.doubt(&name);
    }
    assert!(matches!(all.gone, Gone::Many));
    assert_eq!(on(&all, "blue"), "not synced", "which nodes they select is not known any more");
    assert!(all.believe(1_000));
    assert_eq!(on(&all, "blue"), "all");
}

#[test]
fn s8_a_policy_that_was_never_valid_freezes_the_nodes_that_it_selects() {
    let all = policies([with(broken("bad"), |spec| on_pool("red", spec))]);
    assert_eq!(on(&all, "red"), "frozen by bad");
    assert_eq!(on(&all, "blue"), "all");
    // Whatever the binding does with nodes without a policy.
    assert_eq!(on_of(&all, "red", "east", NoPolicy::Withdraw), "frozen by bad");
}

#[test]
fn s8_a_malformed_selector_selects_every_node_where_it_would_be_lent_whole() {
    let bad = with(policy("bad"), malformed);
    let all = policies([bad.clone()]);
    assert_eq!(on(&all, "red"), "frozen by bad");
    assert_eq!(on(&all, "blue"), "frozen by bad");
    // And only there: on the nodes of another policy that one is in force.
    let all = policies([bad, with(policy("red"), |spec| on_pool("red", spec))]);
    assert_eq!(on(&all, "red"), "red");
    assert_eq!(on(&all, "blue"), "frozen by bad");
    let selector = NodeSelector::default();
    let binding = BindingFacts { name: "east", selector: &selector, no_policy: NoPolicy::LeaseAll };
    let standing = all.standing(&binding, &NodeFacts { name: "w1", labels: &labels("red") });
    assert_eq!(names(&standing.invalid), ["bad"]);
}

#[test]
fn d5_a_mistake_in_a_new_policy_does_not_end_the_one_that_was_in_force() {
    let urgent = with(broken("urgent"), |spec| PolicySpec { priority: 9, ..spec });
    let all = policies([policy("night"), urgent]);
    assert_eq!(on(&all, "red"), "night");
}

#[test]
fn d5_the_last_valid_version_of_an_invalid_policy_stays_in_force_with_its_selector_and_priority() {
    let last = PolicySpec { priority: 3, ..on_pool("red", policy("x").spec) };
    let edited = |change: fn(PolicySpec) -> PolicySpec| {
        let object = with(policy("edited"), |spec| change(PolicySpec { priority: -3, ..spec }));
        policies([PolicyObject { last_valid: Some(last.clone()), ..object }, policy("other")])
    };
    // The present spec selects every node, and is invalid.
    let all = edited(invalid);
    assert_eq!((on(&all, "red"), on(&all, "blue")), ("edited".to_owned(), "other".to_owned()));
    let terms = all.get("edited").and_then(Policy::terms).unwrap();
    assert_eq!((terms.priority, terms.limits.len()), (3, 0));
    let all = edited(malformed);
    assert_eq!(on(&all, "red"), "edited");
    // A last valid version that rules of today refuse is none.
    let refused = PolicyObject { last_valid: Some(invalid(policy("x").spec)), ..broken("bad") };
    assert_eq!(on(&policies([refused]), "red"), "frozen by bad");
}

#[test]
fn s8_what_an_invalid_spec_newly_selects_is_frozen_and_not_lent_whole() {
    let last = on_pool("red", policy("x").spec);
    let object = with(policy("edited"), |spec| invalid(on_pool("blue", spec)));
    let all = policies([PolicyObject { last_valid: Some(last), ..object }]);
    assert_eq!(on(&all, "red"), "edited");
    assert_eq!(on(&all, "blue"), "frozen by edited");
    assert_eq!(on(&all, "green"), "all");
}

#[test]
fn a_policy_that_is_being_deleted_counts_no_more() {
    let all = policies([
        PolicyObject { deleting: true, ..policy("going") },
        PolicyObject { deleting: true, ..broken("bad") },
    ]);
    assert_eq!(on(&all, "red"), "all");
}

#[test]
fn the_selector_of_the_binding_comes_first() {
    let term = RawTerm { match_expressions: vec![requirement("pool", "In", &["red"])], match_fields: vec![] };
    let selector = NodeSelector::parse(&RawNodeSelector { terms: vec![term] }).unwrap();
    let binding = BindingFacts { name: "east", selector: &selector, no_policy: NoPolicy::LeaseAll };
    let all = policies([policy("night"), with(policy("bad"), malformed)]);
    let found = |pool| word(&all.in_force(&binding, &NodeFacts { name: "w1", labels: &labels(pool) }));
    assert_eq!((found("red"), found("blue")), ("night".to_owned(), "outside".to_owned()));
}

#[test]
fn s7_a_policy_is_for_the_virtual_cluster_that_it_names() {
    let named = |name: &str, whom: &str| {
        with(policy(name), |spec| PolicySpec { virtual_cluster: Some(whom.to_owned()), ..spec })
    };
    assert_eq!(on(&policies([named("theirs", "other"), named("ours", VIRTUAL_CLUSTER)]), "red"), "ours");
    // What is for another one does not freeze either, unless the mistake is in that very field.
    assert_eq!(on(&policies([with(named("theirs", "other"), invalid)]), "red"), "all");
    assert_eq!(on(&policies([named("unnamed", "")]), "red"), "frozen by unnamed");
}

#[test]
fn s8_a_policy_that_changes_its_binding_makes_both_look_again() {
    let mut all = policies([]);
    let to = |cluster: &str| with(policy("night"), |spec| PolicySpec { cluster: cluster.to_owned(), ..spec });
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(all.insert(Policy::new(to("east"))), set(&["east"]));
    assert_eq!(all.insert(Policy::new(to("east"))), set(&[]), "nothing changed");
    assert_eq!(all.insert(Policy::new(to("west"))), set(&["east", "west"]));
    assert_eq!(on(&all, "red"), "all");
    assert_eq!(on_of(&all, "red", "west", NoPolicy::LeaseAll), "night");
    // Moved by an invalid edit it stays in force where it was, and freezes where it is to be.
    let moved = PolicyObject { last_valid: Some(to("west").spec), ..with(to("south"), invalid) };
    assert_eq!(all.insert(Policy::new(moved)), set(&["south", "west"]));
    assert_eq!(on_of(&all, "red", "west", NoPolicy::LeaseAll), "night");
    assert_eq!(on_of(&all, "red", "south", NoPolicy::LeaseAll), "frozen by night");
    assert_eq!(all.remove("night"), set(&["south", "west"]));
    assert_eq!(all.remove("night"), set(&[]));
    assert_eq!(all.get("night"), None);
    assert_eq!(on_of(&all, "red", "west", NoPolicy::LeaseAll), "all");
}

#[test]
fn s8_what_only_the_status_of_a_policy_says_is_known_and_makes_no_binding_look() {
    let mut all = policies([policy("night")]);
    let since = at(2).unwrap();
    let next = Some(Announcement { at: at(3).unwrap(), since });
    let stored = PolicyObject {
        generation: 2,
        last_valid: Some(policy("night").spec),
        announced: Announced { next, closing: None },
        ..policy("night")
    };
    assert_eq!(all.insert(Policy::new(stored.clone())), BTreeSet::new());
    assert_eq!(all.get("night").map(Policy::object), Some(&stored));
    assert!(all.of("east").map(Policy::object).eq([&stored]));
    // A last valid version that is in force in place of the present one decides.
    let broken = with(stored.clone(), invalid);
    assert!(all.insert(Policy::new(broken.clone())).contains("east"));
    let other = PolicyObject { last_valid: Some(on_pool("red", policy("night").spec)), ..broken };
    assert!(all.insert(Policy::new(other)).contains("east"));
    assert_eq!((on(&all, "red"), on(&all, "blue")), ("night".to_owned(), "frozen by night".to_owned()));
}

#[test]
fn s7_a_policy_is_for_a_binding_by_its_terms_or_by_its_present_spec() {
    let to = |cluster: &str| PolicySpec { cluster: cluster.to_owned(), ..policy("p").spec };
    let is_for = |object: &PolicyObject| {
        let policy = Policy::new(object.clone());
        ["east", "west"].map(|binding| policy.is_for(binding, VIRTUAL_CLUSTER))
    };
    assert_eq!(is_for(&policy("p")), [true, false]);
    let moved = PolicyObject { last_valid: Some(to("west")), ..policy("p") };
    assert_eq!(is_for(&moved), [true, false], "its present spec is valid");
    assert_eq!(is_for(&with(moved, invalid)), [true, true]);
    let named = |whom: &str| PolicySpec { virtual_cluster: Some(whom.to_owned()), ..to("east") };
    let found = ["other", VIRTUAL_CLUSTER, ""].map(|whom| is_for(&with(policy("p"), |_| named(whom))));
    assert_eq!(found, [[false, false], [true, false], [true, false]]);
}

#[test]
fn reasons_are_sentences() {
    let (bad, night) = (Policy::new(broken("bad")), Policy::new(policy("night")));
    let edited = Policy::new(PolicyObject { last_valid: Some(policy("x").spec), ..broken("edited") });
    let under = |policy| InForce::Policy { policy, terms: night.terms().unwrap() };
    assert_eq!(under(&night).to_string(), "policy night");
    assert_eq!(under(&edited).to_string(), "policy edited, in its last valid version");
    assert_eq!(
        InForce::Frozen { by: &bad }.to_string(),
        "policy bad is invalid and selects the node, and no valid policy does: the node keeps its size and taints"
    );
    assert_eq!(
        bad.judgement().to_string(),
        "invalid, and no valid version of it is known, so it is not applied: spec.resourceLimits[0].percent must be from 1 to \
         100, got 101"
    );
}

/// Ten thousand policies, of which each node is under the first: a walk that sorted them for each would take minutes.
#[test]
fn ten_thousand_policies_are_in_order_once() {
    let many = policies((0..10_000).map(|number| policy(&format!("p{number:05}"))));
    for _ in 0..10_000 {
        assert_eq!(
            many.in_force(
                &BindingFacts { name: "east", selector: &NodeSelector::default(), no_policy: NoPolicy::LeaseAll },
                &NodeFacts { name: "w1", labels: &TextMap::default() },
            )
            .policy_name(),
            Some("p00000")
        );
    }
}

#[derive(Debug, Clone)]
struct Drawn {
    name: u8,
    priority: i32,
    day: u32,
    pool: u8,
    invalid: u8,
    last: bool,
    deleting: bool,
    cluster: u8,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let flags = (0_u8..4, any::<bool>(), prop::bool::weighted(0.1));
    (0_u8..6, -1_i32..2, 1_u32..4, 0_u8..4, flags, 0_u8..2).prop_map(
        |(name, priority, day, pool, (invalid, last, deleting), cluster)| Drawn {
            name,
            priority,
            day,
            pool,
            invalid,
            last,
            deleting,
            cluster,
        },
    )
}

const POOLS: [&str; 3] = ["red", "blue", "green"];
const CLUSTERS: [&str; 2] = ["east", "west"];

impl Drawn {
    fn object(&self) -> PolicyObject {
        let spec = PolicySpec {
            cluster: CLUSTERS[usize::from(self.cluster)].to_owned(),
            priority: self.priority,
            ..PolicySpec::default()
        };
        let good = POOLS.get(usize::from(self.pool)).map_or(spec.clone(), |pool| on_pool(pool, spec));
        let spec = match self.invalid {
            2 => invalid(good.clone()),
            3 => malformed(good.clone()),
            _ => good.clone(),
        };
        let last_valid = self.last.then_some(good);
        let name = format!("p{}", self.name);
        PolicyObject { created: at(self.day), deleting: self.deleting, spec, last_valid, ..policy(&name) }
    }

    fn selects(&self, pool: &str) -> bool {
        POOLS.get(usize::from(self.pool)).is_none_or(|of| *of == pool)
    }
}

/// The same rule over all policies, sorted each time.
fn plainly(all: &BTreeMap<u8, Drawn>, pool: &str, cluster: usize) -> String {
    let mut alive: Vec<_> = all.values().filter(|p| !p.deleting && usize::from(p.cluster) == cluster).collect();
    alive.sort_by_key(|p| (-p.priority, p.day, p.name));
    let applies = |p: &&&Drawn| (p.invalid < 2 || p.last) && p.selects(pool);
    let closes = |p: &&&Drawn| p.invalid == 3 || (p.invalid == 2 && p.selects(pool));
    let first = alive.iter().find(applies).map(|p| format!("p{}", p.name));
    let frozen = || alive.iter().find(closes).map(|p| format!("frozen by p{}", p.name));
    first.or_else(frozen).unwrap_or_else(|| "all".to_owned())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Through any history of edits and deletions. What changes what is in force on a node of a binding names that binding.
    #[test]
    fn s8_policies_that_come_change_and_go_decide_as_if_all_were_sorted_each_time(
        history in prop::collection::vec((drawn(), prop::bool::weighted(0.2)), 1..12),
    ) {
        let mut indexed = policies([]);
        let mut plain = BTreeMap::new();
        let all = |indexed: &Policies| {
            let of = |cluster: &&str| POOLS.map(|pool| on_of(indexed, pool, cluster, NoPolicy::LeaseAll));
            CLUSTERS.iter().map(of).collect::<Vec<_>>()
        };
        for (drawn, is_removed) in history {
            let before = all(&indexed);
            let affected = if is_removed {
                plain.remove(&drawn.name);
                indexed.remove(&format!("p{}", drawn.name))
            } else {
                plain.insert(drawn.name, drawn.clone());
                indexed.insert(Policy::new(drawn.object()))
            };
            let after = all(&indexed);
            for (index, cluster) in CLUSTERS.iter().enumerate() {
                let wanted = POOLS.map(|pool| plainly(&plain, pool, index));
                prop_assert_eq!(&after[index], &wanted);
                prop_assert!(before[index] == after[index] || affected.contains(*cluster));
            }
        }
    }
}
