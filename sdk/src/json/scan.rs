//! Finding the few bytes that give JSON its shape, eight bytes at a time.
//!
//! A port list has a hundred and fifty million bytes, and all of them come through here inside the sandbox: a look at
//! each single byte would be most of a round.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;
const SPACES: u64 = 0x2020_2020_2020_2020;

/// Marks bytes that are zero. The lowest mark is right; marks above it may be wrong.
const fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGH
}

const fn repeat(byte: u8) -> u64 {
    ONES * byte as u64
}

/// Where the first byte is that `marks` finds in a word and `is` finds alone.
#[inline]
fn find(text: &[u8], from: usize, marks: impl Fn(u64) -> u64, is: impl Fn(u8) -> bool) -> Option<usize> {
    let (words, tail) = text.get(from..)?.as_chunks::<8>();
    let mut at = from;
    for word in words {
        let found = marks(u64::from_le_bytes(*word));
        if found != 0 {
            return Some(at + (found.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    tail.iter().position(|&byte| is(byte)).map(|length| at + length)
}

/// The first quote or backslash.
#[inline]
pub(super) fn quote(text: &[u8], from: usize) -> Option<usize> {
    let marks = |word: u64| zeros(word ^ repeat(b'"')) | zeros(word ^ repeat(b'\\'));
    find(text, from, marks, |byte| matches!(byte, b'"' | b'\\'))
}

/// The first quote, brace or bracket.
#[inline]
fn structural(text: &[u8], from: usize) -> Option<usize> {
    // Braces are brackets with one more bit.
    let marks = |word: u64| {
        let folded = word | SPACES;
        zeros(word ^ repeat(b'"')) | zeros(folded ^ repeat(b'{')) | zeros(folded ^ repeat(b'}'))
    };
    find(text, from, marks, |byte| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']'))
}

/// The first byte that is no white space.
#[inline]
pub(super) fn after_space(text: &[u8], mut at: usize) -> usize {
    while let Some(byte) = text.get(at) {
        if !byte.is_ascii_whitespace() {
            break;
        }
        at += 1;
        // Indented documents are a third spaces.
        while let Some(word) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
            if u64::from_le_bytes(*word) != SPACES {
                break;
            }
            at += 8;
        }
    }
    at
}

/// Where the scan of a value stands.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ScanPlace {
    Outside,
    Text,
    Escaped,
}

/// The way through one text, object or array, which may come in pieces.
#[derive(Debug)]
pub(super) struct Scan {
    depth: u32,
    place: ScanPlace,
}

impl Scan {
    /// Begins before the first byte of an object or array.
    pub(super) fn nested() -> Self {
        Self { depth: 0, place: ScanPlace::Outside }
    }

    /// Begins behind the first quote of a text.
    pub(super) fn text() -> Self {
        Self { depth: 0, place: ScanPlace::Text }
    }

    /// Goes on through the next piece. The answer is where the value ended in it: behind its last byte.
    #[inline]
    pub(super) fn through(&mut self, piece: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            match self.place {
                ScanPlace::Outside => {
                    at = structural(piece, at)?;
                    match piece.get(at)? {
                        b'"' => self.place = ScanPlace::Text,
                        b'{' | b'[' => self.depth = self.depth.saturating_add(1),
                        _ => self.depth = self.depth.saturating_sub(1),
                    }
                }
                ScanPlace::Text => {
                    at = quote(piece, at)?;
                    self.place = if piece.get(at)? == &b'"' { ScanPlace::Outside } else { ScanPlace::Escaped };
                }
                ScanPlace::Escaped => {
                    piece.get(at)?;
                    self.place = ScanPlace::Text;
                }
            }
            at += 1;
            if self.depth == 0 && self.place == ScanPlace::Outside {
                return Some(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_found_wherever_it_stands() {
        for byte in 0..=u8::MAX {
            for before in 0..20 {
                for filler in [b'a', 0x21, 0x23, 0x5a, 0x7a, 0x7c, 0xff, 0xa2, 0] {
                    let mut text = vec![filler; before];
                    text.push(byte);
                    text.extend([filler; 9]);
                    let naive = |wanted: &[u8]| text.iter().position(|byte| wanted.contains(byte));
                    assert_eq!(quote(&text, 0), naive(b"\"\\"), "{text:?}");
                    assert_eq!(structural(&text, 0), naive(b"\"{}[]"), "{text:?}");
                }
            }
        }
    }

    #[test]
    fn white_space_of_any_length_is_passed() {
        for length in 0..40 {
            let text = [vec![b' '; length], b"\n\t x".to_vec()].concat();
            assert_eq!(after_space(&text, 0), length + 3);
            assert_eq!(after_space(&vec![b' '; length], 0), length);
        }
    }

    #[test]
    fn a_value_in_pieces_ends_where_it_ends_in_one() {
        let value = br#"{"a\\\"]":[{"b":"}\\"},[]],"c":1} "#;
        for cut in 1..value.len() {
            let (left, right) = value.split_at(cut);
            let mut scan = Scan::nested();
            let end = scan.through(left).or_else(|| Some(cut + scan.through(right)?));
            assert_eq!(end, Some(value.len() - 1), "cut at {cut}");
        }
    }
}
