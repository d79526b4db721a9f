//! New names: `hypernode-<kind>-tier<t>-<suffix>` (decision H2).
//!
//! The suffix is a hash of the identity and not random, so a name depends on nothing but the identity and the names
//! that are taken. It has Volcano's alphabet and, as long as it is free, Volcano's length.

use crate::names::SourceName;
use crate::rules::{Kind, Tier};
use crate::topology::canonical::Hasher;

/// No vowels, so that the suffix forms no words, and no digits that look like letters.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Volcano's length.
const SHORTEST: usize = 5;
/// The room that a [`Kind`] leaves.
const LONGEST: usize = 32;

/// The identity of a new object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identity<'a> {
    pub(super) source: &'a SourceName,
    pub(super) kind: &'a Kind,
    pub(super) tier: Tier,
    pub(super) id: &'a str,
}

/// The shortest name for the identity that is free.
pub(super) fn new_name(identity: Identity<'_>, mut is_taken: impl FnMut(&str) -> bool) -> String {
    let prefix = identity.kind.prefix(identity.tier);
    let mut round = 0;
    loop {
        let letters = letters(identity, round);
        // Later rounds are here for completeness: they begin after 28 collisions.
        for length in SHORTEST..=LONGEST {
            let name: String = prefix.chars().chain(letters.iter().take(length).copied()).collect();
            if !is_taken(&name) {
                return name;
            }
        }
        round += 1;
    }
}

/// The digits of a hash in base 27.
fn letters(identity: Identity<'_>, round: usize) -> Vec<char> {
    let mut hasher = Hasher::new();
    hasher.text(identity.source);
    hasher.text(identity.kind.as_str());
    hasher.number(identity.tier.get() as usize);
    hasher.text(identity.id);
    if round > 0 {
        hasher.number(round);
    }
    let mut number = hasher.finish();
    let mut digit = || {
        let mut rest = 0_usize;
        for byte in &mut number {
            let dividend = rest * 256 + usize::from(*byte);
            *byte = u8::try_from(dividend / ALPHABET.len()).unwrap_or(u8::MAX);
            rest = dividend % ALPHABET.len();
        }
        ALPHABET.get(rest).map_or('b', |byte| char::from(*byte))
    };
    (0..LONGEST).map(|_| digit()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::rules::is_object_name;

    #[test]
    fn names_have_the_documented_form_and_grow_until_free() {
        let kind = Kind::clean("Trn2").unwrap();
        let identity = Identity { source: &"label".parse().unwrap(), kind: &kind, tier: Tier::MIN, id: "s1/a7" };
        let mut taken = BTreeSet::new();
        for attempt in 0..40 {
            let name = new_name(identity, |name| taken.contains(name));
            let suffix = name.strip_prefix("hypernode-trn2-tier1-").unwrap();
            assert_eq!(suffix.len(), if attempt < 28 { 5 + attempt } else { 5 + attempt - 28 }, "{name}");
            assert!(suffix.bytes().all(|byte| ALPHABET.contains(&byte)), "{name}");
            assert_eq!(is_object_name(&name), Ok(()));
            assert!(taken.insert(name));
        }
    }

    #[test]
    fn fields_do_not_run_into_each_other() {
        let (a, ab) = (Kind::clean("a").unwrap(), Kind::clean("ab").unwrap());
        let source = &"s".parse().unwrap();
        let one = letters(Identity { source, kind: &a, tier: Tier::MIN, id: "bc" }, 0);
        let two = letters(Identity { source, kind: &ab, tier: Tier::MIN, id: "c" }, 0);
        assert_ne!(one, two);
    }
}
