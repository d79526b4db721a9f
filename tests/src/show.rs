//! What `make demo` shows: which show it is, and how a step of it is printed.

pub mod lending;
pub mod vendor;

use std::fmt;

/// A show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// Nodes become HyperNodes, and plugins come and go.
    Topology,
    /// One cluster lends nodes to another.
    Lending,
}

impl Show {
    /// All of them; the first is the one without a name.
    pub const ALL: [Self; 2] = [Self::Topology, Self::Lending];

    /// Its name on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Topology => "topology",
            Self::Lending => "lending",
        }
    }

    /// Reads the words after the name of the program: one name, or none.
    ///
    /// # Errors
    /// There is no such show; the message has the names of all.
    pub fn read(words: &[String]) -> Result<Self, UnknownShow> {
        match words {
            [] => Ok(Self::Topology),
            [word] => Self::ALL.into_iter().find(|show| show.word() == word).ok_or_else(|| UnknownShow(word.clone())),
            words => Err(UnknownShow(words.join(" "))),
        }
    }
}

/// A name that no show has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownShow(String);

impl fmt::Display for UnknownShow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Show::ALL.map(Show::word).join(" or ");
        write!(f, "SHOW must be {names}, or nothing for {}, got {:?}", Show::Topology.word(), self.0)
    }
}

impl std::error::Error for UnknownShow {}

/// Begins a step.
pub fn step(text: &str) {
    println!("\n== {text}");
}

/// Prints a text below the step.
pub fn indented(text: &str) {
    text.lines().for_each(|line| println!("   {line}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Show, UnknownShow> {
        Show::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn without_a_name_it_is_the_topology_and_another_name_is_refused_with_those_that_there_are() {
        assert_eq!(read(""), Ok(Show::Topology));
        for show in Show::ALL {
            assert_eq!(read(show.word()), Ok(show));
        }
        for wrong in ["borrowing", "Lending", "lending topology"] {
            let message = read(wrong).unwrap_err().to_string();
            assert!(message.contains("topology or lending") && message.contains(wrong), "{message}");
        }
    }
}
