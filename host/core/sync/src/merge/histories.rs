//! Random histories: users edit their own keys, and ours; the syncer writes changing wishes, whole or torn in two. No key
//! of a user is ever lost or changed, ours are always as wanted, and every history comes to rest.

use proptest::prelude::*;

use super::tests::{map, taint};
use super::*;
use crate::texts::{Keyed, TextMap};

/// One step of another client or of the syncer.
#[derive(Debug, Clone)]
enum Deed {
    /// A user sets or removes a label, an annotation and a taint of their own.
    Own(usize, Option<u8>),
    /// A user sets or removes one of the keys that the syncer may want.
    Edit(usize, Option<u8>),
    /// A user writes a time into the window taint, or removes it.
    Window(Option<i64>),
    /// A user cordons the node, or takes a cordon off.
    Cordon(Cordon),
    /// The syncer wants something else from now on.
    Wish(Wish),
    /// The syncer looks and writes.
    Write,
    /// The syncer looks, writes the metadata, and dies before the taints.
    Torn,
}

#[derive(Debug, Clone)]
struct Wish {
    keys: Vec<Option<u8>>,
    window: Option<i64>,
    cordon: bool,
}

const KEYS: usize = 4;

fn deed() -> impl Strategy<Value = Deed> {
    let value = || proptest::option::of(0_u8..3);
    let wish = (proptest::collection::vec(value(), KEYS), proptest::option::of(0_i64..3), any::<bool>())
        .prop_map(|(keys, window, cordon)| Wish { keys, window, cordon });
    prop_oneof![
        3 => (0..KEYS, value()).prop_map(|(at, value)| Deed::Own(at, value)),
        3 => (0..KEYS, value()).prop_map(|(at, value)| Deed::Edit(at, value)),
        1 => proptest::option::of(0_i64..3).prop_map(Deed::Window),
        2 => prop_oneof![Just(Cordon::Open), Just(Cordon::Cordoned)].prop_map(Deed::Cordon),
        3 => wish.prop_map(Deed::Wish),
        4 => Just(Deed::Write),
        2 => Just(Deed::Torn),
    ]
}

fn set(map: &mut TextMap, key: &str, value: Option<u8>) {
    match value {
        Some(value) => map.insert(key, value.to_string()),
        None => map.remove(key),
    };
}

fn set_taint(taints: &mut Vec<Taint>, key: &str, value: Option<u8>) {
    taints.retain(|taint| taint.key != key);
    taints.extend(value.map(|value| Taint::new(key, &value.to_string(), Effect::NoSchedule)));
}

fn everywhere(node: &mut Metadata, key: &str, value: Option<u8>) {
    set(&mut node.labels, key, value);
    set(&mut node.annotations, key, value);
    set_taint(&mut node.taints, key, value);
}

fn value_of<'a>(node: &'a Metadata, key: &str) -> [Option<&'a str>; 3] {
    let tainted = node.taints.iter().find(|taint| taint.key == key).map(|taint| taint.value.as_str());
    [node.labels.text(key), node.annotations.text(key), tainted]
}

fn window(second: i64) -> Taint {
    let time = Timestamp::from_second(second).unwrap();
    Taint { time_added: Some(time), ..Taint::new(keys::OUT_OF_WINDOWS_TAINT, "true", Effect::NoSchedule) }
}

fn owned(map: &TextMap) -> BTreeMap<String, String> {
    map.texts().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn wanted(wish: &Wish, now: usize) -> Wanted {
    let mut node = Metadata::default();
    for (at, value) in wish.keys.iter().enumerate() {
        everywhere(&mut node, &format!("ours{at}"), *value);
    }
    node.taints.extend(wish.window.map(window));
    node.annotations.insert(keys::LAST_SYNC_TIME.to_owned(), now.to_string());
    let cordon = if wish.cordon { CordonWish::Cordon } else { CordonWish::Leave };
    Wanted {
        labels: owned(&node.labels),
        annotations: owned(&node.annotations),
        taints: node.taints,
        cordon,
        ..Wanted::default()
    }
}

/// A world with one node, and what a user has reason to expect of it.
struct World {
    node: Metadata,
    wish: Wish,
    users: Metadata,
    /// Keys of the syncer's pool that users own: set while the syncer neither wanted nor had wanted them. Labels,
    /// annotations, taints.
    taken: [BTreeMap<String, u8>; 3],
    /// The user's cordon, as far as it is not ours.
    cordoned: bool,
}

impl World {
    fn edit(&mut self, at: usize, value: Option<u8>) {
        let key = format!("ours{at}");
        everywhere(&mut self.node, &key, value);
        let base = self.node.base().unwrap_or_default();
        let ours = [base.labels.contains(&key), base.annotations.contains(&key), base.taints.contains_key(&key)];
        for (taken, is_ours) in self.taken.iter_mut().zip(ours) {
            match value {
                Some(value) if !is_ours => taken.insert(key.clone(), value),
                _ => taken.remove(&key),
            };
        }
    }

    fn cordon(&mut self, cordon: Cordon) {
        // A user who cordons a node that we cordoned changes nothing.
        if self.node.cordon != cordon {
            self.cordoned = cordon == Cordon::Cordoned && !self.node.annotations.contains_key(keys::CORDONED);
        }
        self.node.cordon = cordon;
    }

    fn write(&mut self, now: usize, torn: bool) -> Result<(), TestCaseError> {
        let wanted = wanted(&self.wish, now);
        let Some(patch) = merge(&wanted, &self.node).patch else { return Ok(()) };
        if torn {
            let (first, _) = patch.in_two();
            self.node = first.map_or_else(|| self.node.clone(), |first| first.onto(&self.node));
        } else {
            self.node = patch.onto(&self.node);
        }
        for (at, value) in self.wish.keys.iter().enumerate() {
            let key = format!("ours{at}");
            if value.is_some() {
                self.taken.iter_mut().for_each(|taken| taken.retain(|taken, _| *taken != key));
            }
        }
        if !torn {
            self.check(now)?;
        }
        Ok(())
    }

    fn check(&self, now: usize) -> Result<(), TestCaseError> {
        for at in 0..KEYS {
            let (user, ours) = (format!("user{at}"), format!("ours{at}"));
            prop_assert_eq!(value_of(&self.node, &user), value_of(&self.users, &user), "{}", user);
            for (there, taken) in value_of(&self.node, &ours).into_iter().zip(&self.taken) {
                let want = self.wish.keys[at].or(taken.get(&ours).copied()).map(|value| value.to_string());
                prop_assert_eq!(there, want.as_deref(), "{} {:?}", ours, &self.node);
            }
        }
        let closed = self.node.taints.iter().any(|taint| taint.key == keys::OUT_OF_WINDOWS_TAINT);
        prop_assert_eq!(closed, self.wish.window.is_some());
        let cordoned = self.node.cordon == Cordon::Cordoned;
        prop_assert_eq!(cordoned, self.wish.cordon || self.cordoned);
        prop_assert!(self.node.taints.contains(&taint("node.kubernetes.io/not-ready:NoSchedule")));
        let again = merge(&wanted(&self.wish, now + 1), &self.node);
        prop_assert_eq!(again.patch, None);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_history_loses_a_key_of_a_user_and_each_comes_to_rest(deeds in proptest::collection::vec(deed(), 1..40)) {
        let node = Metadata { taints: vec![taint("node.kubernetes.io/not-ready:NoSchedule")], ..Metadata::default() };
        let nothing = Wish { keys: vec![None; KEYS], window: None, cordon: false };
        let (users, taken) = (Metadata::default(), [const { BTreeMap::new() }; 3]);
        let mut world = World { node, wish: nothing, users, taken, cordoned: false };
        for (now, deed) in deeds.into_iter().enumerate() {
            match deed {
                Deed::Own(at, value) => {
                    everywhere(&mut world.node, &format!("user{at}"), value);
                    everywhere(&mut world.users, &format!("user{at}"), value);
                }
                Deed::Edit(at, value) => world.edit(at, value),
                Deed::Window(time) => {
                    world.node.taints.retain(|taint| taint.key != keys::OUT_OF_WINDOWS_TAINT);
                    world.node.taints.extend(time.map(window));
                }
                Deed::Cordon(cordon) => world.cordon(cordon),
                Deed::Wish(wish) => world.wish = wish,
                Deed::Write => world.write(now, false)?,
                Deed::Torn => world.write(now, true)?,
            }
        }
        world.write(100, false)?;
        world.check(100)?;
    }

    #[test]
    fn whatever_stands_in_the_base_no_write_touches_a_key_that_it_does_not_name(
        text in "\\PC{0,40}|[A-Za-z0-9+/]{0,40}={0,2}|\\{\"v\":[0-9],\"l\":\\[(\"ours0\")?\\]\\}",
        value in 0_u8..3,
    ) {
        let mut existing = Metadata { labels: map([("user0", "1"), ("ours0", "1")]), ..Metadata::default() };
        existing.annotations = map([("user0", "1"), (keys::EXPECTED_METADATA, &text)]);
        existing.taints = vec![taint("user0:NoSchedule")];
        let wish = Wish { keys: vec![None, Some(value)], window: None, cordon: false };
        let patch = merge(&wanted(&wish, 0), &existing).patch.unwrap();
        let after = patch.onto(&existing);
        prop_assert_eq!(value_of(&after, "user0"), [Some("1"), Some("1"), Some("")]);
        prop_assert!(after.labels.contains_key("ours0") || text.contains("ours0"));
        prop_assert_eq!(merge(&wanted(&wish, 1), &after).patch, None);
    }
}
