//! Names that occur on thousands of ports, stored once.

use std::collections::HashMap;
use std::rc::Rc;

/// All names of the largest fabric take a hundredth of this.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// Texts by number. Number 0 is the empty text.
#[derive(Debug)]
pub(crate) struct Texts {
    numbers: HashMap<Rc<str>, u32>,
    list: Vec<Rc<str>>,
    bytes: usize,
}

impl Texts {
    pub(crate) fn new() -> Self {
        let empty: Rc<str> = Rc::from("");
        Self { numbers: HashMap::from([(empty.clone(), 0)]), list: vec![empty], bytes: 0 }
    }

    /// The number of a text. Beyond the limit every new text is the empty one; see [`Texts::is_full`].
    pub(crate) fn number(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        self.bytes += text.len() + 64;
        if self.is_full() {
            return 0;
        }
        let number = u32::try_from(self.list.len()).unwrap_or(0);
        let kept: Rc<str> = Rc::from(text);
        self.list.push(kept.clone());
        self.numbers.insert(kept, number);
        number
    }

    pub(crate) fn get(&self, number: u32) -> &str {
        self.list.get(number as usize).map_or("", |text| text)
    }

    /// Whether a text exceeded the limit: then the texts are incomplete and must not be used.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes > MAX_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_keeps_its_number() {
        let mut texts = Texts::new();
        assert_eq!([texts.number(""), texts.number("a"), texts.number("b"), texts.number("a")], [0, 1, 2, 1]);
        assert_eq!([texts.get(2), texts.get(9)], ["b", ""]);
    }

    #[test]
    fn there_is_an_end_to_names() {
        let mut texts = Texts::new();
        let long = "x".repeat(1000);
        for number in 0..40_000 {
            texts.number(&format!("{number}{long}"));
        }
        assert!(texts.is_full() && texts.list.len() < 32_000);
    }
}
