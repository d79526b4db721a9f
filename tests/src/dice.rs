//! Random numbers from a seed, so that a failure can be repeated (splitmix64).

/// Neighbouring seeds have nothing in common.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The numbers of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number less than `end`, which is not 0.
    ///
    /// # Panics
    /// When `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.roll() % end as u64).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_again() {
        let numbers = |seed| {
            let mut dice = Dice::new(seed);
            [dice.roll(), dice.roll()]
        };
        // The numbers of the reference implementation.
        assert_eq!(numbers(1_234_567), [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
        assert_eq!(numbers(7), numbers(7));
        assert!((0..1_000).all(|seed| Dice::new(seed).below(3) < 3));
    }
}
