//! Many strings as one text and its end offsets: the form in which a discoverer receives them.

/// Entry `i` is `text[ends[i-1]..ends[i]]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Packed {
    text: String,
    ends: Vec<u32>,
}

/// There is no room for another string: offsets have 32 bits, so one text holds 4 GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

impl Packed {
    /// All entries without separators.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The end of each entry in bytes.
    #[must_use]
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Entry `i`, counted from 0.
    #[must_use]
    pub fn get(&self, i: usize) -> Option<&str> {
        let end = *self.ends.get(i)?;
        let begin = match i.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.text.get(begin as usize..end as usize)
    }

    /// All entries in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(|i| self.get(i))
    }

    /// Adds an entry and returns its number counted from 1, which is its code in a column.
    pub(super) fn push(&mut self, entry: &str) -> Result<u32, Full> {
        let end = u32::try_from(self.text.len() + entry.len()).map_err(|_| Full)?;
        let code = u32::try_from(self.ends.len() + 1).map_err(|_| Full)?;
        self.text.push_str(entry);
        self.ends.push(end);
        Ok(code)
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}

/// Node names fit: 4 GiB are seventeen million names of the greatest length. An entry that does not fit is left out.
impl<'a> FromIterator<&'a str> for Packed {
    fn from_iter<I: IntoIterator<Item = &'a str>>(entries: I) -> Self {
        let mut packed = Self::default();
        for entry in entries {
            if packed.push(entry).is_err() {
                break;
            }
        }
        packed.shrink_to_fit();
        packed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_as_they_went_in() {
        let entries = ["a", "", "bc", "ü"];
        let packed: Packed = entries.into_iter().collect();
        assert_eq!(packed.text(), "abcü");
        assert_eq!(packed.ends(), [1, 1, 3, 5]);
        assert_eq!(packed.iter().collect::<Vec<_>>(), entries);
        assert_eq!(packed.get(4), None);
    }
}
