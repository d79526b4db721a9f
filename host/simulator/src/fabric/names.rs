//! Names of hosts by pattern, so that they can equal the names of Kubernetes nodes.

use crate::value::BadValue;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A pattern such as `gpu-{index:05}` or `su{unit}-node{host:02}`.
///
/// `{index}` counts hosts over the whole fabric, `{unit}` units, `{host}` hosts within their unit; all from 0, each with
/// an optional width that is filled with zeros. A pattern must tell all hosts apart: it has `{index}`, or both others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NamePattern {
    parts: Vec<NamePart>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum NamePart {
    Text(String),
    Number { what: What, width: usize },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Index,
    Unit,
    Host,
}

/// The numbers of one host.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbers {
    pub(super) index: u32,
    pub(super) unit: u32,
    pub(super) host: u32,
}

impl NamePattern {
    pub(super) fn name(&self, numbers: Numbers) -> String {
        use fmt::Write as _;
        self.parts.iter().fold(String::new(), |mut name, part| {
            match part {
                NamePart::Text(text) => name.push_str(text),
                NamePart::Number { what, width } => {
                    let number = match what {
                        What::Index => numbers.index,
                        What::Unit => numbers.unit,
                        What::Host => numbers.host,
                    };
                    // Writing into a String cannot fail.
                    let _ = write!(name, "{number:0width$}");
                }
            }
            name
        })
    }

    fn has(&self, wanted: What) -> bool {
        self.parts.iter().any(|part| matches!(part, NamePart::Number { what, .. } if *what == wanted))
    }
}

impl Default for NamePattern {
    fn default() -> Self {
        Self { parts: vec![NamePart::Text("gpu-".into()), NamePart::Number { what: What::Index, width: 5 }] }
    }
}

/// Widest number: a host name is a DNS label of at most 63 characters, and no fabric has 10^12 hosts.
const WIDEST: usize = 12;
/// Longest pattern, so that names stay within a DNS subdomain.
const LONGEST: usize = 200;

impl FromStr for NamePattern {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bad = |expected: &str| BadValue::new("host-names", text, expected);
        if text.len() > LONGEST {
            return Err(bad("at most 200 bytes"));
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (inside, after) = after.split_once('}').ok_or_else(|| bad("a closing brace after {"))?;
            let (what, width) = inside.split_once(':').unwrap_or((inside, "1"));
            let what = match what {
                "index" => What::Index,
                "unit" => What::Unit,
                "host" => What::Host,
                _ => return Err(bad("{index}, {unit} or {host} in braces")),
            };
            let width = width.parse().ok().filter(|width| (1..=WIDEST).contains(width));
            let width = width.ok_or_else(|| bad("a width from 1 to 12, such as {index:05}"))?;
            parts.extend([NamePart::Text(before.into()), NamePart::Number { what, width }]);
            rest = after;
        }
        parts.push(NamePart::Text(rest.into()));
        parts.retain(|part| !matches!(part, NamePart::Text(text) if text.is_empty()));
        let pattern = Self { parts };
        // Numbers side by side would run together: unit 1, host 11 and unit 11, host 1 would both be "111".
        let together =
            pattern.parts.windows(2).any(|pair| pair.iter().all(|part| matches!(part, NamePart::Number { .. })));
        if together {
            return Err(bad("text between two numbers"));
        }
        match pattern.has(What::Index) || (pattern.has(What::Unit) && pattern.has(What::Host)) {
            true => Ok(pattern),
            false => Err(bad("{index}, or both {unit} and {host}")),
        }
    }
}

impl TryFrom<String> for NamePattern {
    type Error = BadValue;

    fn try_from(text: String) -> Result<Self, BadValue> {
        text.parse()
    }
}

impl From<NamePattern> for String {
    fn from(pattern: NamePattern) -> Self {
        pattern.to_string()
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| {
            let (what, width) = match part {
                NamePart::Text(text) => return f.write_str(text),
                NamePart::Number { what, width } => (what, width),
            };
            let what = match what {
                What::Index => "index",
                What::Unit => "unit",
                What::Host => "host",
            };
            match width {
                1 => write!(f, "{{{what}}}"),
                width => write!(f, "{{{what}:0{width}}}"),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(pattern: &str) -> String {
        pattern.parse::<NamePattern>().unwrap().name(Numbers { index: 70, unit: 2, host: 6 })
    }

    #[test]
    fn a_pattern_makes_names() {
        assert_eq!(name("gpu-{index:05}"), "gpu-00070");
        assert_eq!(name("su{unit}-node{host:02}.cluster"), "su2-node06.cluster");
        assert_eq!("a{unit}-{host:02}b".parse::<NamePattern>().unwrap().to_string(), "a{unit}-{host:02}b");
        assert_eq!(NamePattern::default().to_string(), "gpu-{index:05}");
    }

    #[test]
    fn a_pattern_that_cannot_tell_hosts_apart_is_refused() {
        for pattern in ["", "gpu", "gpu-{unit}", "{unit}{host}", "gpu-{index", "gpu-{nr}", "gpu-{index:99}"] {
            let error = pattern.parse::<NamePattern>().unwrap_err();
            assert_eq!(error.field, "host-names", "{pattern}");
        }
    }
}
