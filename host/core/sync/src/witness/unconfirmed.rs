//! What was set back and waits for an operator: which stores, and how that was seen (decision S25).
//!
//! Owns whether a sign is news. What is confirmed is what a person has read, so a store that is set back while another one waits needs
//! a hash of its own. One restore shows by several signs, and needs no second hash for that. Never: what the hash is.
//!
//! # Failure story
//!
//! While a restore waits no number is written, so a number is lower than before only where a store was set back again. Where that makes
//! the numbers agree it is not seen. A process that takes over knows which stores the status names, and takes the numbers of its first
//! look for those of before.

use std::collections::BTreeSet;
use std::fmt;

use super::{SetBack, Store};

/// Between two signs in one sentence.
const AND: &str = "; and ";

/// How it is seen that a store was set back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sign {
    /// The API server shows an earlier version than before.
    Version(Store),
    /// The numbers of the witness disagree: one store was set back, or both.
    Numbers(Vec<SetBack>),
}

impl Sign {
    /// The sentence about what was seen before, and this.
    #[must_use]
    pub fn after(&self, sentence: &str) -> String {
        format!("{sentence}{AND}{self}")
    }
}

impl fmt::Display for Sign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(Store::Virtual) => f.write_str("the virtual API server went back to an earlier version"),
            Self::Version(Store::Physical) => f.write_str("the physical API server went back to an earlier version"),
            Self::Numbers(found) => {
                for (index, found) in found.iter().enumerate() {
                    write!(f, "{}{found}", if index == 0 { "" } else { AND })?;
                }
                Ok(())
            }
        }
    }
}

/// What was set back and is not confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unconfirmed {
    stores: BTreeSet<Store>,
    /// What the numbers showed at the last look; none: there was no look.
    numbers: Vec<SetBack>,
}

impl Unconfirmed {
    /// What an earlier process left: a store, and the sentence about all of them.
    #[must_use]
    pub fn left(store: Option<Store>, sentence: &str) -> Self {
        let begins = |part: &str, with: &str| part.get(..with.len()).is_some_and(|it| it.eq_ignore_ascii_case(with));
        let is_named = |with: &str| sentence.split(AND).any(|part| begins(part, with));
        let named = [(Store::Virtual, "the virtual "), (Store::Physical, "the physical ")];
        let named = named.into_iter().filter(|(_, with)| is_named(with)).map(|(store, _)| store);
        Self { stores: named.chain(store).collect(), numbers: Vec::new() }
    }

    /// Whether this store is one of them.
    #[must_use]
    pub fn names(&self, store: Store) -> bool {
        self.stores.contains(&store)
    }

    /// Takes a sign down. Returns the store of which it shows what no person can have read: one that was not named before, or one
    /// with lower numbers than at the last look.
    pub fn sees(&mut self, sign: &Sign) -> Option<Store> {
        let found = match sign {
            Sign::Version(store) => return self.stores.insert(*store).then_some(*store),
            Sign::Numbers(found) => found,
        };
        let before = std::mem::replace(&mut self.numbers, found.clone());
        let unnamed = found.iter().find(|found| !self.stores.contains(&found.store));
        let is_lower = |now: &&SetBack| before.iter().any(|before| now.is_lower_than(before));
        let news = unnamed.or_else(|| found.iter().find(is_lower)).map(|found| found.store);
        self.stores.extend(found.iter().map(|found| found.store));
        news
    }
}

impl SetBack {
    fn is_lower_than(&self, before: &Self) -> bool {
        self.store == before.store && (self.found < before.found || self.before < before.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSIONS: [Sign; 2] = [Sign::Version(Store::Virtual), Sign::Version(Store::Physical)];

    fn numbers(all: &[(Store, u64, u64)]) -> Sign {
        Sign::Numbers(all.iter().map(|&(store, found, before)| SetBack { store, found, before }).collect())
    }

    #[test]
    fn s25_the_other_store_is_news_while_one_waits_and_another_sign_of_the_same_restore_is_none() {
        let [lent, physical] = VERSIONS;
        let shown = numbers(&[(Store::Virtual, 5, 9)]);
        let mut waits = Unconfirmed::default();
        assert_eq!(waits.sees(&lent), Some(Store::Virtual));
        for sign in [&lent, &shown, &shown, &lent] {
            assert_eq!(waits.sees(sign), None, "{sign}");
        }
        assert_eq!((waits.sees(&physical), waits.sees(&physical)), (Some(Store::Physical), None));
        // The numbers show both at once, where versions have shown one.
        let both = numbers(&[(Store::Virtual, 5, 9), (Store::Physical, 1, 3)]);
        let mut waits = Unconfirmed::default();
        waits.sees(&lent);
        assert_eq!((waits.sees(&both), waits.sees(&both)), (Some(Store::Physical), None));
    }

    #[test]
    fn s25_numbers_that_become_lower_while_one_waits_are_of_another_restore() {
        let mut waits = Unconfirmed::default();
        for (found, before, news) in [
            (5, 9, Some(Store::Virtual)),
            (5, 9, None),
            // The virtual store goes back once more, then the physical one.
            (3, 9, Some(Store::Virtual)),
            (3, 7, Some(Store::Virtual)),
            (3, 8, None),
        ] {
            assert_eq!(waits.sees(&numbers(&[(Store::Virtual, found, before)])), news, "{found} {before}");
        }
    }

    #[test]
    fn s25_a_process_that_takes_over_knows_the_stores_that_the_sentence_names() {
        let [lent, physical] = VERSIONS;
        let shown = numbers(&[(Store::Virtual, 5, 9), (Store::Physical, 1, 3)]);
        let known = |store, sentence: &str| {
            let mut left = Unconfirmed::left(store, sentence);
            VERSIONS.map(|sign| left.sees(&sign).is_none())
        };
        assert_eq!(known(None, &lent.to_string()), [true, false]);
        assert_eq!(known(None, &format!("T{}", &physical.to_string()[1..])), [false, true], "it begins a sentence");
        // The other cluster is named in it, too, and was not set back.
        assert_eq!(known(None, &numbers(&[(Store::Virtual, 5, 9)]).to_string()), [true, false]);
        assert_eq!(known(None, &shown.to_string()), [true; 2]);
        assert_eq!(known(None, &physical.after(&lent.to_string())), [true; 2]);
        assert_eq!(known(Some(Store::Physical), "a person wrote this"), [false, true]);
        assert_eq!(known(None, ""), [false; 2]);
    }
}
