//! Where a fault acts and for how long.

use super::Fault;
use crate::value::{BadValue, number};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A fault with its place. Written as `status:429:30 at=/resources/ports times=3`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FaultRule {
    pub(crate) fault: Fault,
    pub(crate) at: Option<String>,
    pub(crate) times: Option<u32>,
}

impl FaultRule {
    /// The fault on the paths where lists are, until it is taken away.
    pub fn new(fault: Fault) -> Self {
        Self { fault, at: None, times: None }
    }

    /// Only on paths that begin like this: the whole path (`/ufmRestV3/app/versioning`), or the one behind the prefix of
    /// the API (`/app/versioning`); `/` is every path. A fault of connections has no path.
    pub fn at(mut self, prefix: impl Into<String>) -> Self {
        self.at = Some(prefix.into());
        self
    }

    /// Ends by itself after so many requests, or connections for a fault of connections.
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// The fault.
    pub fn fault(&self) -> &Fault {
        &self.fault
    }

    /// What cannot be: counting requests that no server receives, paths before there is a request.
    pub(crate) fn check(&self) -> Result<(), BadValue> {
        match self {
            Self { fault: Fault::Refused, times: Some(times), .. } => {
                Err(BadValue::new("times", &times.to_string(), "nothing with refused: no server is there to count"))
            }
            Self { times: Some(0), .. } => Err(BadValue::new("times", "0", "a whole number from 1 to 4294967295")),
            Self { fault, at: Some(at), .. } if fault.is_of_connections() => {
                Err(BadValue::new("at", at, format!("nothing with {fault}: a connection has no path")))
            }
            // What no path begins with would never act, and no test would notice.
            Self { at: Some(at), .. } if !at.starts_with('/') || at.contains(['?', '#']) => {
                Err(BadValue::new("at", at, PATH))
            }
            _ => Ok(()),
        }
    }

    /// Whether it acts on a request of this path; `local` is the path behind the prefix of the API, and `usual` is where
    /// faults act that do not say.
    pub(super) fn fits(&self, path: &str, local: &str, usual: &str) -> bool {
        match self.at.as_deref() {
            Some(at) => path.starts_with(at) || local.starts_with(at),
            None => local.starts_with(usual),
        }
    }
}

/// What `at=` takes.
const PATH: &str = "the beginning of a path, with its first slash and without a query: /ufmRestV3/resources/ports, \
/resources/ports behind any prefix of UFM, /v1/fabric";

impl From<Fault> for FaultRule {
    fn from(fault: Fault) -> Self {
        Self::new(fault)
    }
}

impl FromStr for FaultRule {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let mut words = text.split_whitespace();
        let mut rule = Self::new(words.next().unwrap_or_default().parse()?);
        for word in words {
            match word.split_once('=') {
                Some(("at", prefix)) => rule.at = Some(prefix.to_owned()),
                Some(("times", times)) => rule.times = Some(number("times", times, 1..=u64::from(u32::MAX))? as u32),
                _ => return Err(BadValue::new("fault", word, "at=/<path> or times=<number> after a fault")),
            }
        }
        rule.check()?;
        Ok(rule)
    }
}

impl fmt::Display for FaultRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.fault)?;
        self.at.iter().try_for_each(|at| write!(f, " at={at}"))?;
        self.times.iter().try_for_each(|times| write!(f, " times={times}"))
    }
}

impl TryFrom<String> for FaultRule {
    type Error = BadValue;

    fn try_from(text: String) -> Result<Self, BadValue> {
        text.parse()
    }
}

impl From<FaultRule> for String {
    fn from(rule: FaultRule) -> Self {
        rule.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_as_it_is_written() {
        for text in ["html", "status:429:30 at=/resources/ports times=3", "empty-list at=/", "closed times=2"] {
            assert_eq!(text.parse::<FaultRule>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_rule_that_cannot_be_says_why() {
        for (text, says) in [
            ("refused times=3", "times: \"3\" is not allowed; expected nothing with refused"),
            ("expired-certificate at=/app", "at: \"/app\" is not allowed; expected nothing with expired-certificate"),
            ("html times=0", "times: \"0\" is not allowed"),
            ("html often", "fault: \"often\" is not allowed; expected at=/<path> or times=<number>"),
            ("html at=foo", "at: \"foo\" is not allowed; expected the beginning of a path, with its first slash"),
            ("html at=", "at: \"\" is not allowed; expected the beginning of a path"),
            ("html at=/v1/fabric?limit=1", "at: \"/v1/fabric?limit=1\" is not allowed; expected the beginning"),
            ("", "fault: \"\" is not allowed"),
        ] {
            let error = text.parse::<FaultRule>().unwrap_err().to_string();
            assert!(error.starts_with(says), "{text}: {error}");
        }
    }
}
