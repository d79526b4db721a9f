//! Whether a condition of an object holds, as Kubernetes writes it.
//!
//! Owns the words. A word that this version does not know is kept as it is: a list of conditions is written whole, so what is
//! read of other clients has to be written again unchanged. It cannot fail.

use std::fmt;

/// The status of a condition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It is not known.
    Unknown,
    /// A word that this version does not know.
    Other(Box<str>),
}

impl Truth {
    /// The word of the API.
    #[must_use]
    pub fn word(&self) -> &str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
            Self::Other(word) => word,
        }
    }
}

impl From<&str> for Truth {
    fn from(word: &str) -> Self {
        match word {
            "True" => Self::True,
            "False" => Self::False,
            "Unknown" => Self::Unknown,
            word => Self::Other(word.into()),
        }
    }
}

impl fmt::Display for Truth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_written_as_it_was_read() {
        for (word, truth) in [("True", Truth::True), ("False", Truth::False), ("Unknown", Truth::Unknown)] {
            assert_eq!(Truth::from(word), truth);
        }
        for word in ["True", "False", "Unknown", "true", "", "Perhaps"] {
            assert_eq!(Truth::from(word).to_string(), word);
        }
    }
}
