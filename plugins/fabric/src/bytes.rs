//! A compact form for numbers and texts, and a reader that checks everything.
//!
//! Numbers are written seven bits to a byte, smallest first. The reader returns `None` for everything that the writer
//! would not have written, and allocates no more memory than the number of bytes justifies.

/// Writes numbers and texts.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// A number that may be smaller than the one before.
    pub(crate) fn step(&mut self, from: u64, to: u64) {
        let step = to.wrapping_sub(from) as i64;
        self.number((step << 1 ^ step >> 63) as u64);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.blob(text.as_bytes());
    }

    pub(crate) fn blob(&mut self, blob: &[u8]) {
        self.number(blob.len() as u64);
        self.bytes.extend_from_slice(blob);
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Reads what a [`Writer`] wrote.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    #[inline]
    pub(crate) fn number(&mut self) -> Option<u64> {
        let (&byte, rest) = self.rest.split_first()?;
        // Most numbers are small.
        if byte & 0x80 == 0 {
            self.rest = rest;
            return Some(u64::from(byte));
        }
        self.long_number()
    }

    fn long_number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn step(&mut self, from: u64) -> Option<u64> {
        let step = self.number()?;
        Some(from.wrapping_add((step >> 1) ^ (step & 1).wrapping_neg()))
    }

    /// A number below a bound.
    pub(crate) fn below(&mut self, bound: usize) -> Option<u32> {
        let number = self.number()?;
        u32::try_from(number).ok().filter(|&number| (number as usize) < bound)
    }

    pub(crate) fn narrow<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.number()?).ok()
    }

    /// How many entries follow, each of at least one byte: never more than there are bytes.
    pub(crate) fn count(&mut self) -> Option<usize> {
        let count: usize = self.narrow()?;
        (count <= self.rest.len()).then_some(count)
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.blob()?).ok()
    }

    pub(crate) fn blob(&mut self) -> Option<&'a [u8]> {
        let length = self.count()?;
        let (blob, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(blob)
    }

    /// Checks that nothing follows.
    pub(crate) fn end(&self) -> Option<()> {
        self.rest.is_empty().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX];
        let mut writer = Writer::default();
        let mut last = 5;
        for number in numbers {
            writer.number(number);
            writer.step(last, number);
            last = number;
        }
        let bytes = writer.finish();
        let mut reader = Reader::new(&bytes);
        let mut last = 5;
        for number in numbers {
            assert_eq!((reader.number(), reader.step(last)), (Some(number), Some(number)));
            last = number;
        }
        assert_eq!(reader.end(), Some(()));
        assert_eq!(reader.number(), None);
        assert_eq!(Reader::new(&[0xff; 10]).number(), None);
        assert_eq!(Reader::new(&[200, 1]).count(), None);
    }
}
