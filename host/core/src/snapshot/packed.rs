//! Many strings as one text and its end offsets: the form in which they cross to a discoverer.

/// Entry `i` is `text[ends[i-1]..ends[i]]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Packed {
    text: String,
    ends: Vec<u32>,
}

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
}
