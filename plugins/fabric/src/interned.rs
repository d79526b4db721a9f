//! Strings that are stored once and referred to by number.
//!
//! All text lies in one piece and the table holds numbers only: a hundred thousand names cost their text and twelve
//! bytes each. Numbers follow the order of arrival, never the order of a hash.

use crate::bytes::{Reader, Writer};

/// Distinct strings, numbered from 0.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interned {
    text: String,
    ends: Vec<u32>,
    /// Open addressing: number + 1, 0 is free. A power of two, at most half full.
    table: Vec<u32>,
}

impl Interned {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, number: u32) -> &str {
        let index = number as usize;
        let Some(&end) = self.ends.get(index) else { return "" };
        let begin = index.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.text.get(begin as usize..end as usize).unwrap_or_default()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> + '_ {
        (0..self.ends.len()).map(|index| self.get(index as u32))
    }

    pub(crate) fn find(&self, text: &str) -> Option<u32> {
        let mask = self.table.len().checked_sub(1)?;
        let mut slot = hash(text) as usize & mask;
        loop {
            match self.table.get(slot).copied().unwrap_or(0) {
                0 => return None,
                taken if self.get(taken - 1) == text => return Some(taken - 1),
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    pub(crate) fn intern(&mut self, text: &str) -> u32 {
        if let Some(known) = self.find(text) {
            return known;
        }
        let number = self.ends.len() as u32;
        self.text.push_str(text);
        self.ends.push(self.text.len() as u32);
        if self.ends.len() * 2 > self.table.len() {
            self.grow();
        } else {
            self.enter(number);
        }
        number
    }

    fn grow(&mut self) {
        let size = (self.ends.len() * 4).next_power_of_two().max(16);
        self.table.clear();
        self.table.resize(size, 0);
        (0..self.ends.len() as u32).for_each(|number| self.enter(number));
    }

    fn enter(&mut self, number: u32) {
        let mask = self.table.len() - 1;
        let mut slot = hash(self.get(number)) as usize & mask;
        while self.table.get(slot).is_some_and(|&taken| taken != 0) {
            slot = (slot + 1) & mask;
        }
        if let Some(free) = self.table.get_mut(slot) {
            *free = number + 1;
        }
    }
}

/// The same number for the same text, everywhere and always.
pub(crate) fn hash(text: &str) -> u64 {
    hash_bytes(text.as_bytes())
}

/// [`hash`] of bytes.
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = bytes.len() as u64;
    for piece in bytes.chunks(8) {
        let mut word = [0_u8; 8];
        word.iter_mut().zip(piece).for_each(|(to, from)| *to = *from);
        hash = (hash.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(ODD);
    }
    // The low bits choose the slot, and a product is best in its high ones.
    hash ^ (hash >> 32)
}

impl Interned {
    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.number(self.len() as u64);
        self.iter().for_each(|text| writer.text(text));
    }

    /// None where a text occurs twice: the numbers would change.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let mut interned = Self::default();
        for number in 0..reader.count()? {
            if interned.intern(reader.text()?) as usize != number {
                return None;
            }
        }
        Some(interned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_keeps_its_number() {
        let mut names = Interned::default();
        let numbers: Vec<u32> = (0..1000).map(|i| names.intern(&format!("host-{i}"))).collect();
        assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
        assert!((0..1000).all(|i| names.intern(&format!("host-{i}")) == i && names.get(i) == format!("host-{i}")));
        assert_eq!((names.find("host-1000"), names.find(""), names.len()), (None, None, 1000));
        assert_eq!(Interned::default().find("x"), None);
    }
}
