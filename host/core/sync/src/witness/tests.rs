use proptest::prelude::*;

use super::*;

/// Two stores, each with everything that it ever held.
#[derive(Debug, Clone, Default)]
struct World {
    kept: Vec<Option<Kept>>,
    copies: Vec<Option<u64>>,
}

impl World {
    fn new() -> Self {
        Self { kept: vec![None], copies: vec![None] }
    }

    fn now(&self) -> (Option<Kept>, Option<u64>) {
        (*self.kept.last().unwrap(), *self.copies.last().unwrap())
    }

    fn write(&mut self, step: Step) {
        match step {
            Step::Keep(kept) | Step::Confirm(kept) => self.kept.push(Some(kept)),
            Step::Copy(copy) => self.copies.push(Some(copy)),
        }
    }

    fn judge(&self) -> Verdict {
        let (kept, copy) = self.now();
        judge(kept, copy)
    }

    /// A round of which so many steps happen before the process ends.
    fn round(&mut self, steps: usize) {
        let (kept, copy) = self.now();
        round(kept, copy).into_iter().take(steps).for_each(|step| self.write(step));
    }
}

fn stores(verdict: &Verdict) -> Vec<Store> {
    match verdict {
        Verdict::Agree => Vec::new(),
        Verdict::SetBack(found) => found.iter().map(|found| found.store).collect(),
    }
}

#[test]
fn s25_a_counter_below_its_copy_and_a_copy_below_what_was_confirmed_were_set_back() {
    let kept = |counter, confirmed| Some(Kept { counter, confirmed });
    for (stored, copy, wanted) in [
        (None, None, vec![]),
        (kept(1, 0), None, vec![]),
        (kept(5, 4), Some(4), vec![]),
        (kept(5, 4), Some(5), vec![]),
        (kept(5, 5), Some(5), vec![]),
        (kept(3, 3), Some(5), vec![Store::Virtual]),
        (None, Some(5), vec![Store::Virtual]),
        (kept(5, 5), Some(3), vec![Store::Physical]),
        (kept(5, 5), None, vec![Store::Physical]),
    ] {
        assert_eq!(stores(&judge(stored, copy)), wanted, "{stored:?} {copy:?}");
    }
    let Verdict::SetBack(found) = judge(kept(5, 5), Some(3)) else { panic!() };
    assert_eq!(
        found[0].to_string(),
        "the physical cluster was set back to an earlier state: its copy of the counter is 3, and 5 was confirmed"
    );
}

#[test]
fn s25_numbers_of_another_binding_or_cluster_are_none() {
    let pair = |binding: &str, physical: &str| Pair { binding: binding.into(), physical: physical.into() };
    let (us, kept) = (pair("b1", "c1"), Kept { counter: 12, confirmed: 11 });
    let (text, copy) = (write_kept(&us, kept), write_copy(&us, 12));
    assert_eq!((read_kept(&us, Some(&text)), read_copy(&us, Some(&copy))), (Some(kept), Some(12)));
    for other in [pair("b2", "c1"), pair("b1", "c2")] {
        assert_eq!((read_kept(&other, Some(&text)), read_copy(&other, Some(&copy))), (None, None));
    }
    for text in ["", "b1/c1", "b1/c1/x/1", "b1/c1/1", "b1/c1/1/2/3", "b1/c1/-1/0"] {
        assert_eq!(read_kept(&us, Some(text)), None, "{text}");
    }
    assert_eq!((read_kept(&us, None), read_copy(&us, Some("b1/c1/1/2"))), (None, None));
    let found = |before| [SetBack { store: Store::Physical, found: 3, before }];
    assert_eq!(hash(&us, &found(5)), hash(&us, &found(5)));
    assert_ne!(hash(&us, &found(5)), hash(&us, &found(6)));
    assert_ne!(hash(&us, &found(5)), hash(&pair("b2", "c1"), &found(5)));
}

proptest! {
    /// Rounds that end anywhere, in one process or in many, never look like a store that was set back.
    #[test]
    fn s25_without_a_restore_the_numbers_agree(rounds in prop::collection::vec(0..=3_usize, 0..20)) {
        let mut world = World::new();
        for steps in rounds {
            world.round(steps);
            prop_assert_eq!(world.judge(), Verdict::Agree);
        }
    }

    /// One store is set back by at least a whole round, under a running syncer or a stopped one: the next look finds it.
    #[test]
    fn s25_a_store_that_is_set_back_by_a_round_is_found_and_after_a_confirmation_all_is_as_before(
        before in prop::collection::vec(0..=3_usize, 0..6),
        after in 1..6_usize,
        steps in 0..=3_usize,
        is_virtual in any::<bool>(),
        cut in 0..=3_usize,
    ) {
        let mut world = World::new();
        before.into_iter().for_each(|steps| world.round(steps));
        let (kept, copies) = (world.kept.len(), world.copies.len());
        (0..after).for_each(|_| world.round(3));
        // The last round was under way.
        world.round(steps);
        let wanted = if is_virtual {
            world.kept.truncate(kept);
            Store::Virtual
        } else {
            world.copies.truncate(copies);
            Store::Physical
        };
        prop_assert_eq!(stores(&world.judge()), [wanted]);
        // It is confirmed, and the process that does so ends in the middle.
        let (kept, copy) = world.now();
        for step in resume(kept, copy).into_iter().take(cut) {
            world.write(step);
            prop_assert_eq!(world.judge(), Verdict::Agree);
        }
        if cut == 0 {
            resume(kept, copy).into_iter().for_each(|step| world.write(step));
        }
        world.round(3);
        prop_assert_eq!(world.judge(), Verdict::Agree);
        // The next one is found, too.
        let copies = world.copies.len();
        world.round(3);
        world.copies.truncate(copies);
        prop_assert_eq!(stores(&world.judge()), [Store::Physical]);
    }
}
