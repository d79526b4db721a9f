//! What was met before in a component, found by looking far back.
//!
//! The quick packing looks for repetitions in the last 128 KiB, at one place for each pattern. This looks at a hundred
//! places within eight MiB, and takes a repetition only if none that begins at one of the next two bytes saves more.

use std::collections::BTreeSet;

use ruzstd::encoding::{CompressionLevel, Matcher, Sequence};

/// The largest block of a frame (RFC 8878, 3.1.1.2.3).
const BLOCK: usize = 128 << 10;

/// The farthest look back: more than this a decoder need not accept (RFC 8878, 3.1.1.1.2).
const WINDOW: usize = 8 << 20;

/// The smallest window that is written down, so that a small component has a usual header.
const LEAST_WINDOW: usize = BLOCK;

/// The shortest repetition that can save anything.
const SHORTEST: usize = 4;

/// Places that are looked at for each byte: the time that it takes grows with them, and what it gains hardly.
const PLACES: usize = 96;

/// A repetition that is as long as this is taken at once.
const LONG: usize = 256;

/// Patterns that are distinguished, as a power of two.
const PATTERNS: u32 = 17;

/// Literals of a block that are written as they are; more are coded, which takes two different bytes at least.
const PLAIN: usize = 1_024;

/// No place.
const NOWHERE: u32 = u32::MAX;

/// Finds repetitions in one component.
pub(super) struct DeepMatcher {
    /// All that was met.
    bytes: Vec<u8>,
    /// Where the last block begins.
    block: usize,
    /// The last place of each pattern.
    last: Vec<u32>,
    /// For each place the one before with the same pattern.
    before: Vec<u32>,
    window: usize,
}

/// Bytes that were there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Repeat {
    length: usize,
    offset: usize,
}

impl Repeat {
    /// Roughly the bits that it saves: six for each byte, against what its place and its length take. Below one it is better
    /// left out.
    fn gain(self) -> i64 {
        6 * self.length as i64 - i64::from(self.offset.ilog2()) - 12
    }
}

impl DeepMatcher {
    /// For a component of so many bytes.
    pub(super) fn new(length: usize) -> Self {
        let window = length.next_power_of_two().clamp(LEAST_WINDOW, WINDOW);
        Self {
            bytes: Vec::with_capacity(length),
            block: 0,
            last: vec![NOWHERE; 1 << PATTERNS],
            before: Vec::with_capacity(length),
            window,
        }
    }

    /// The place of a pattern in the table; `None` too close to the end.
    fn pattern(&self, at: usize) -> Option<usize> {
        let bytes: [u8; SHORTEST] = self.bytes.get(at..at + SHORTEST)?.try_into().ok()?;
        Some((u32::from_le_bytes(bytes).wrapping_mul(0x9e37_79b1) >> (u32::BITS - PATTERNS)) as usize)
    }

    /// Makes places known up to one that follows them.
    fn learn(&mut self, until: usize) {
        while self.before.len() < until {
            let at = self.before.len();
            let mut earlier = NOWHERE;
            if let Some(pattern) = self.pattern(at)
                && let Some(last) = self.last.get_mut(pattern)
            {
                // No component has 4 GiB.
                earlier = std::mem::replace(last, at as u32);
            }
            self.before.push(earlier);
        }
    }

    /// How many bytes are the same at both places, up to the end of the block.
    fn common(&self, earlier: usize, at: usize) -> usize {
        let (Some(earlier), Some(here)) = (self.bytes.get(earlier..), self.bytes.get(at..)) else { return 0 };
        let whole =
            earlier.chunks_exact(8).zip(here.chunks_exact(8)).take_while(|(one, other)| one == other).count() * 8;
        let rest = earlier.iter().zip(here).skip(whole).take_while(|(one, other)| one == other).count();
        whole + rest
    }

    /// The best repetition that begins here.
    fn find(&self, at: usize) -> Option<Repeat> {
        let mut place = *self.last.get(self.pattern(at)?)?;
        let mut best: Option<Repeat> = None;
        for _ in 0..PLACES {
            let earlier = place as usize;
            if place == NOWHERE || earlier + self.window < at {
                break;
            }
            place = self.before.get(earlier).copied().unwrap_or(NOWHERE);
            // The next bytes may be known already: those were looked at before this one was passed over.
            if earlier >= at {
                continue;
            }
            // Only what is longer can be better: it is farther away.
            let least = best.map_or(0, |best| best.length);
            if self.bytes.get(earlier + least) != self.bytes.get(at + least) {
                continue;
            }
            let found = Repeat { length: self.common(earlier, at), offset: at - earlier };
            if found.length >= SHORTEST && best.is_none_or(|best| found.gain() > best.gain()) {
                best = Some(found);
            }
            if found.length >= LONG {
                break;
            }
        }
        best.filter(|best| best.gain() > 0)
    }

    /// The repetition at this byte, unless one that begins at one of the next two saves more.
    fn choose(&mut self, at: usize) -> Option<Repeat> {
        self.learn(at);
        let found = self.find(at)?;
        for later in 1..=2_usize {
            if found.length >= LONG {
                break;
            }
            self.learn(at + later);
            let better = |next: Repeat| next.gain() > found.gain() + 4 * later as i64;
            if self.find(at + later).is_some_and(better) {
                return None;
            }
        }
        Some(found)
    }

    /// The repetitions of the last block, each with where it begins.
    fn repeats(&mut self) -> Vec<(usize, Repeat)> {
        let end = self.bytes.len();
        let mut found = Vec::new();
        // The first byte is a literal always: where no sequence of a block has one, the encoder has no code for their number.
        let mut at = self.block + 1;
        while at < end {
            match self.choose(at) {
                Some(repeat) => {
                    found.push((at, repeat));
                    at += repeat.length;
                }
                None => at += 1,
            }
        }
        self.learn(end);
        found
    }

    /// Whether the literals beside these repetitions can be coded.
    fn can_be_coded(&self, repeats: &[(usize, Repeat)]) -> bool {
        let mut distinct: BTreeSet<&u8> = BTreeSet::new();
        let (mut from, mut count) = (self.block, 0);
        let ends = repeats.iter().map(|(at, repeat)| (*at, repeat.length)).chain([(self.bytes.len(), 0)]);
        for (at, length) in ends {
            let literals = self.bytes.get(from..at).unwrap_or_default();
            count += literals.len();
            if distinct.len() < 2 {
                distinct.extend(literals.iter().take(PLAIN));
            }
            from = at + length;
        }
        count <= PLAIN || distinct.len() > 1
    }
}

impl Matcher for DeepMatcher {
    fn get_next_space(&mut self) -> Vec<u8> {
        vec![0; BLOCK]
    }

    fn get_last_space(&mut self) -> &[u8] {
        self.bytes.get(self.block..).unwrap_or_default()
    }

    fn commit_space(&mut self, space: Vec<u8>) {
        self.block = self.bytes.len();
        self.bytes.extend(space);
    }

    fn skip_matching(&mut self) {
        self.learn(self.bytes.len());
    }

    fn start_matching(&mut self, mut handle_sequence: impl for<'a> FnMut(Sequence<'a>)) {
        let mut repeats = self.repeats();
        if !self.can_be_coded(&repeats) {
            repeats.clear();
        }
        let mut from = self.block;
        for (at, Repeat { length, offset }) in repeats {
            let literals = self.bytes.get(from..at).unwrap_or_default();
            handle_sequence(Sequence::Triple { literals, offset, match_len: length });
            from = at + length;
        }
        if let Some(literals) = self.bytes.get(from..).filter(|literals| !literals.is_empty()) {
            handle_sequence(Sequence::Literals { literals });
        }
    }

    fn reset(&mut self, _level: CompressionLevel) {
        self.bytes.clear();
        self.before.clear();
        self.last.fill(NOWHERE);
        self.block = 0;
    }

    fn window_size(&self) -> u64 {
        self.window as u64
    }
}
