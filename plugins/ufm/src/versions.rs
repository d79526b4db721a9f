//! Shows whether anything changed since the last round: the counters of the UFM, and a hash of the nodes.

use crate::fetch::{Fetched, Ufm};
use std::hash::{DefaultHasher, Hash, Hasher};
use topoloom_sdk::json::Members;
use topoloom_sdk::{Failure, Input};

/// The counters that concern the wiring.
const KEYS: [&str; 4] = ["ports_version", "links_version", "switches_version", "servers_version"];
/// The document has some twenty numbers.
const MAX_BYTES: u64 = 64 * 1024;
const FORMAT: u8 = 1;

/// The counters of a UFM at one moment, in the order of `KEYS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Versions([u64; 4]);

impl Versions {
    /// Reads the counters of a UFM. None: it has none, so a change cannot be excluded.
    pub(crate) fn ask(ufm: &Ufm<'_>) -> Result<Option<Self>, Failure> {
        Ok(match ufm.document("app/versioning", MAX_BYTES)? {
            Fetched::Read(text) => Self::read(&text),
            Fetched::Missing(_) => None,
        })
    }

    /// Reads the document. None unless it has all four counters.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let mut found = [None; 4];
        for member in Members::of(text.trim_ascii()).ok()? {
            let (key, value) = member.ok()?;
            if let Some(at) = KEYS.iter().position(|known| known.as_bytes() == key) {
                *found.get_mut(at)? = Some(value.number()?);
            }
        }
        let [a, b, c, d] = found;
        Some(Self([a?, b?, c?, d?]))
    }
}

/// What a round stores beside the wiring of a fabric, to compare with in the next round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastRound {
    pub(crate) versions: Option<Versions>,
    /// A hash of the nodes.
    pub(crate) nodes: u64,
    /// When hosts were placed, milliseconds since 1970.
    pub(crate) placed: u64,
}

impl LastRound {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let [a, b, c, d] = self.versions.map_or([0; 4], |versions| versions.0);
        let mut bytes = vec![FORMAT, u8::from(self.versions.is_some())];
        for number in [a, b, c, d, self.nodes, self.placed] {
            bytes.extend(number.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&[format, has_versions], numbers) = bytes.split_first_chunk::<2>()?;
        let (numbers, rest) = numbers.as_chunks::<8>();
        let numbers: Vec<u64> = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        let &[a, b, c, d, nodes, placed] = numbers.as_slice() else { return None };
        if format != FORMAT || !rest.is_empty() {
            return None;
        }
        let versions = (has_versions == 1).then_some(Versions([a, b, c, d]));
        Some(Self { versions, nodes, placed })
    }
}

/// A hash of the names of all nodes and of one annotation, in any order of rows.
pub(crate) fn nodes(input: &Input<'_>, annotation: Option<&str>) -> u64 {
    let names = input.nodes.names();
    let column = annotation.map(|key| input.nodes.annotation(key));
    let rows = (0..).zip(names.iter()).map(|(row, name)| {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        column.as_ref().and_then(|column| column.value(row)).hash(&mut hasher);
        hasher.finish()
    });
    rows.fold(names.len() as u64, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_four_counters_or_none() {
        let full =
            r#" {"ports_version": 7, "x": NaN, "links_version": 8, "switches_version": 9, "servers_version": 10} "#;
        assert_eq!(Versions::read(full.as_bytes()), Some(Versions([7, 8, 9, 10])));
        for odd in [
            "",
            "{}",
            "[]",
            "<html>",
            r#"{"ports_version": 7, "links_version": 8, "switches_version": 9}"#,
            r#"{"ports_version": "7", "links_version": 8, "switches_version": 9, "servers_version": 10}"#,
            r#"{"ports_version": -7, "links_version": 8, "switches_version": 9, "servers_version": 10}"#,
        ] {
            assert_eq!(Versions::read(odd.as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn what_was_seen_is_read_back_and_anything_else_is_nothing() {
        let seen = LastRound { versions: Some(Versions([1, 2, 3, u64::MAX])), nodes: 5, placed: 6 };
        let bytes = seen.to_bytes();
        assert_eq!(LastRound::from_bytes(&bytes), Some(seen));
        let without = LastRound { versions: None, ..seen };
        assert_eq!(LastRound::from_bytes(&without.to_bytes()), Some(without));
        for length in 0..bytes.len() {
            assert_eq!(LastRound::from_bytes(&bytes[..length]), None);
        }
        assert_eq!(LastRound::from_bytes(&[bytes, vec![0]].concat()), None);
    }
}
