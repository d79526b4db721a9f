//! Many strings as one text. Authors need this form only for look-ups of names.

use crate::Packed;

impl Packed {
    /// How many strings there are.
    ///
    /// ```
    /// let packed: topoloom_sdk::Packed = ["a", "zürich"].iter().collect();
    /// assert_eq!(packed.len(), 2);
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    ///
    /// ```
    /// let packed: topoloom_sdk::Packed = ["a", "zürich"].iter().collect();
    /// assert!(!packed.is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The string at a position.
    ///
    /// ```
    /// let packed: topoloom_sdk::Packed = ["a", "zürich"].iter().collect();
    /// assert_eq!((packed.get(1), packed.get(2)), (Some("zürich"), None));
    /// ```
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)? as usize;
        let begin = index.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).map(|&end| end as usize))?;
        self.text.get(begin..end)
    }

    /// All strings in order.
    ///
    /// ```
    /// let packed: topoloom_sdk::Packed = ["a", "zürich"].iter().collect();
    /// assert_eq!(packed.iter().collect::<Vec<_>>(), ["a", "zürich"]);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = &str> + '_ {
        let mut begin = 0;
        self.ends.iter().map(move |&end| {
            let text = self.text.get(begin..end as usize).unwrap_or_default();
            begin = end as usize;
            text
        })
    }

    /// Adds a string at the end.
    ///
    /// ```
    /// let mut packed = topoloom_sdk::Packed::default();
    /// packed.push("zürich");
    /// assert_eq!((packed.text.as_str(), packed.ends.as_slice()), ("zürich", &[7][..]));
    /// ```
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        // 4 GiB of text do not fit into a guest: its memory ends there.
        self.ends.push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
    }
}

#[expect(clippy::derivable_impls, reason = "the type is generated")]
impl Default for Packed {
    fn default() -> Self {
        Self { text: String::new(), ends: Vec::new() }
    }
}

impl<S: AsRef<str>> FromIterator<S> for Packed {
    fn from_iter<I: IntoIterator<Item = S>>(strings: I) -> Self {
        let mut packed = Self::default();
        strings.into_iter().for_each(|string| packed.push(string.as_ref()));
        packed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out() {
        let words = ["a", "", "zürich", "b"];
        let packed: Packed = words.iter().collect();
        assert_eq!(packed.iter().collect::<Vec<_>>(), words);
        assert_eq!((packed.get(2), packed.get(4), packed.len()), (Some("zürich"), None, 4));
    }
}
