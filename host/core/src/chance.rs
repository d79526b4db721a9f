//! Numbers that a seed gives, and histories that are drawn by them: for the models of this crate and of `sync`, which reads
//! this file as its own.
//!
//! Never: chance. The same seed gives the same history, for ever.

/// Numbers that a seed gives (splitmix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below this one.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.roll() % end as u64).unwrap()
    }

    /// One of these.
    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// One of these, each as often as its weight says; nothing where all weights are 0.
    pub(crate) fn weighted<T>(&mut self, all: Vec<(usize, T)>) -> Option<T> {
        let sum: usize = all.iter().map(|(weight, _)| weight).sum();
        if sum == 0 {
            return None;
        }
        let mut drawn = self.below(sum);
        let found = all.into_iter().find(|(weight, _)| {
            let here = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            here
        });
        found.map(|(_, it)| it)
    }
}

/// The same history without what it does not need to break something.
pub(crate) fn shortest<T: Clone>(mut deeds: Vec<T>, breaks: impl Fn(&[T]) -> bool) -> Vec<T> {
    let mut size = deeds.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < deeds.len() {
            let mut fewer = deeds.clone();
            fewer.drain(at..(at + size).min(deeds.len()));
            if breaks(&fewer) { deeds = fewer } else { at += size }
        }
        size /= 2;
    }
    deeds
}

#[test]
fn what_is_drawn_follows_from_the_seed_and_from_the_weights() {
    let draw = |seed| {
        let mut dice = Dice(seed);
        let drawn: Vec<usize> = (0..3_000).filter_map(|_| dice.weighted(vec![(1, 0), (0, 1), (2, 2)])).collect();
        drawn
    };
    let count = |drawn: &[usize], of| drawn.iter().filter(|it| **it == of).count();
    let drawn = draw(7);
    assert_eq!((drawn.len(), &drawn), (3_000, &draw(7)));
    assert_ne!(drawn, draw(8));
    assert_eq!(count(&drawn, 1), 0);
    assert!((900..1_100).contains(&count(&drawn, 0)), "{}", count(&drawn, 0));
    assert_eq!(Dice(0).weighted(vec![(0, 1)]), None);
    assert_eq!(shortest((0..100).collect(), |deeds| deeds.contains(&17) && deeds.contains(&71)), [17, 71]);
}
