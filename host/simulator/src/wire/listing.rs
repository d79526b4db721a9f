//! Lists that are written while they are sent.

use bytes::Bytes;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Size of a piece: large enough that the cost per piece vanishes, small enough to stay in the cache of a core.
const PIECE: usize = 64 * 1024;
/// Room for the record that crosses the border.
const ROOM: usize = 4 * 1024;

/// Records by number.
pub(crate) trait Rows: Send + Sync {
    /// Appends the JSON of one record. A number beyond the end appends `null`.
    fn write(&self, index: usize, out: &mut Vec<u8>);
}

/// How records are damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spoil {
    /// Of a hundred records, how many.
    pub(crate) percent: u8,
    /// In which way.
    pub(crate) how: Damage,
}

/// The way a record is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// Fields that everybody needs have another type.
    Types,
    /// Numbers that JSON does not have, `NaN` and `Infinity`.
    Numbers,
    /// The record is there twice.
    Twice,
}

/// How much of the records is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All.
    Whole,
    /// The first half, and half of the record after it; then nothing more, not even the closing bracket.
    Torn,
    /// All, again and again.
    Endless,
}

/// A run of records with commas between them.
pub(crate) struct Run {
    rows: Arc<dyn Rows>,
    range: Range<usize>,
    at: usize,
    written: u64,
}

impl Run {
    pub(crate) fn new(rows: Arc<dyn Rows>, range: Range<usize>) -> Self {
        let at = range.start;
        Self { rows, range, at, written: 0 }
    }
}

/// A part of a body.
pub(crate) enum Part {
    /// These bytes.
    Raw(Bytes),
    /// These records.
    Rows(Run),
}

/// A body made of parts.
pub(crate) struct Listing {
    parts: VecDeque<Part>,
    separator: &'static [u8],
    spoil: Option<Spoil>,
    extent: Extent,
}

/// Every needed field of every kind of record, none with the type it should have.
const WRONG_TYPES: &[u8] = br#"{"name": 7, "guid": [], "systemID": {}, "system_name": 17, "description": 3.5, "node_description": false, "peer": ["x"], "peer_guid": 1, "peer_node_guid": true, "peer_node_name": {}, "type": 4, "ports": "none", "source_guid": 1, "source_port": [], "destination_guid": 2, "destination_port": {}, "node": 9, "observedAt": 12, "links": "none", "id": [], "level": "top", "uplinks": 3}"#;
/// What goes before the closing brace of a record.
const NOT_NUMBERS: &[u8] = br#", "effective_ber": NaN, "raw_ber": -Infinity, "temperature": Infinity, "age": 1e999}"#;

impl Listing {
    pub(crate) fn new(parts: impl Into<VecDeque<Part>>, separator: &'static [u8]) -> Self {
        Self { parts: parts.into(), separator, spoil: None, extent: Extent::Whole }
    }

    pub(crate) fn spoiled(mut self, spoil: Option<Spoil>) -> Self {
        self.spoil = spoil;
        self
    }

    pub(crate) fn extent(mut self, extent: Extent) -> Self {
        self.extent = extent;
        self
    }

    /// The next piece, or nothing at the end.
    pub(crate) fn next(&mut self) -> Option<Bytes> {
        let mut out = Vec::with_capacity(PIECE + ROOM);
        while out.len() < PIECE {
            match self.parts.front_mut() {
                None => break,
                Some(Part::Raw(bytes)) => {
                    out.extend_from_slice(bytes);
                    self.parts.pop_front();
                }
                Some(Part::Rows(run)) => match step(run, &mut out, self.separator, self.spoil, self.extent) {
                    ListingStep::More => {}
                    ListingStep::Done => drop(self.parts.pop_front()),
                    ListingStep::Torn => self.parts.clear(),
                },
            }
        }
        (!out.is_empty()).then(|| Bytes::from(out))
    }
}

enum ListingStep {
    More,
    Done,
    Torn,
}

fn step(run: &mut Run, out: &mut Vec<u8>, separator: &[u8], spoil: Option<Spoil>, extent: Extent) -> ListingStep {
    if run.at >= run.range.end {
        match extent {
            // Without a single record there is nothing to repeat; space without end is as endless.
            Extent::Endless if run.range.is_empty() => out.resize(out.len() + PIECE, b' '),
            Extent::Endless => run.at = run.range.start,
            Extent::Whole => return ListingStep::Done,
            Extent::Torn => return ListingStep::Torn,
        }
        return ListingStep::More;
    }
    if run.written > 0 {
        out.push(b',');
    }
    out.extend_from_slice(separator);
    let start = out.len();
    // Spread evenly and the same every time: the share is exact, and the same request shows the same damage.
    let share = |percent: u8, count: usize| count * usize::from(percent) / 100;
    let hit = |spoil: &Spoil| share(spoil.percent, run.at + 1) > share(spoil.percent, run.at);
    let damage = spoil.filter(hit).map(|spoil| spoil.how);
    match damage {
        Some(Damage::Types) => out.extend_from_slice(WRONG_TYPES),
        _ => run.rows.write(run.at, out),
    }
    match damage {
        Some(Damage::Numbers) if out.last() == Some(&b'}') => {
            out.pop();
            out.extend_from_slice(NOT_NUMBERS);
        }
        Some(Damage::Twice) => {
            let record = out.get(start..).unwrap_or_default().to_vec();
            out.push(b',');
            out.extend_from_slice(separator);
            out.extend_from_slice(&record);
        }
        _ => {}
    }
    if extent == Extent::Torn && run.at - run.range.start >= run.range.len() / 2 {
        out.truncate(start + (out.len() - start) / 2);
        return ListingStep::Torn;
    }
    run.at += 1;
    run.written += 1;
    ListingStep::More
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbers;

    impl Rows for Numbers {
        fn write(&self, index: usize, out: &mut Vec<u8>) {
            out.extend_from_slice(format!("{{\"n\":{index}}}").as_bytes());
        }
    }

    fn listing(count: usize) -> Listing {
        let raw = |bytes: &'static [u8]| Part::Raw(Bytes::from_static(bytes));
        Listing::new([raw(b"["), Part::Rows(Run::new(Arc::new(Numbers), 0..count)), raw(b"]")], b"")
    }

    fn all(mut listing: Listing) -> String {
        let bytes: Vec<u8> = std::iter::from_fn(|| listing.next()).flatten().collect();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_list_has_every_record_once_over_all_pieces() {
        for count in [0, 1, 2, 50_000] {
            let read: Vec<serde_json::Value> = serde_json::from_str(&all(listing(count))).unwrap();
            assert_eq!(read.len(), count);
            assert!(read.iter().enumerate().all(|(at, row)| row["n"] == at));
        }
    }

    #[test]
    fn a_torn_list_ends_inside_a_record() {
        assert_eq!(all(listing(4).extent(Extent::Torn)), r#"[{"n":0},{"n":1},{"n"#);
        assert_eq!(all(listing(0).extent(Extent::Torn)), "[");
    }

    #[test]
    fn an_endless_list_goes_on() {
        for count in [0, 3] {
            let mut endless = listing(count).extent(Extent::Endless);
            assert!((0..50).all(|_| endless.next().is_some()));
        }
    }

    #[test]
    fn damage_is_done_to_the_share_asked_for() {
        let spoiled = |how, percent| all(listing(100).spoiled(Some(Spoil { percent, how })));
        assert_eq!(spoiled(Damage::Types, 7).matches("\"name\": 7").count(), 7);
        assert_eq!(spoiled(Damage::Numbers, 100).matches("NaN").count(), 100);
        assert_eq!(spoiled(Damage::Twice, 50).matches("\"n\"").count(), 150);
        assert!(serde_json::from_str::<serde_json::Value>(&spoiled(Damage::Types, 100)).is_ok());
    }
}
