//! Reads the JSON text of a configuration into a type, and reports the place of every mistake.

mod de;

use serde::de::DeserializeOwned;
use std::fmt;

use crate::Problem;

/// A configuration that can be read from JSON. Every `serde::Deserialize` type is one.
///
/// Serde stops at the first mistake. A configuration that people write by hand should report all of them at
/// once: such a type implements this trait itself, usually over [`crate::json::Value`], and collects them.
///
/// ```
/// use topoloom_sdk::json::Value;
/// use topoloom_sdk::{FromJson, Problem};
///
/// /// A configuration without any key.
/// struct Nothing;
///
/// impl FromJson for Nothing {
///     fn from_json(text: &str) -> Result<Self, Vec<Problem>> {
///         let Value::Object(entries) = Value::parse(text)? else { return Err(vec![Problem::new("", "expected a mapping")]) };
///         let unknown: Vec<_> = entries.iter().map(|(key, _)| Problem::new(key, "is not known here")).collect();
///         if unknown.is_empty() { Ok(Self) } else { Err(unknown) }
///     }
/// }
///
/// let problems = Nothing::from_json(r#"{"a": 1, "b": 2}"#).err().unwrap();
/// assert_eq!(problems.len(), 2);
/// ```
pub trait FromJson: Sized {
    /// Reads the text of a JSON object.
    ///
    /// # Errors
    ///
    /// What is wrong, each with its path.
    fn from_json(text: &str) -> Result<Self, Vec<Problem>>;
}

impl<T: DeserializeOwned> FromJson for T {
    fn from_json(text: &str) -> Result<Self, Vec<Problem>> {
        de::from_str(text).map_err(|error| vec![error.into()])
    }
}

impl Problem {
    /// A mistake at a path such as `networkTopologyTypes.gpu[2].nodeLabel`; an empty path means the whole configuration.
    ///
    /// ```
    /// let problem = topoloom_sdk::Problem::new("levels[1]", "expected a number, got \"two\"");
    /// assert_eq!(problem.to_string(), "levels[1]: expected a number, got \"two\"");
    /// ```
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            f.write_str(&self.path)?;
            f.write_str(": ")?;
        }
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize, Debug)]
    struct Nested {
        #[expect(dead_code, reason = "only reading matters")]
        levels: Vec<u8>,
    }

    #[test]
    fn a_mistake_names_its_place() {
        let problems = Nested::from_json(r#"{"levels": [1, "two"]}"#).unwrap_err();
        assert_eq!(problems[0].path, "levels[1]");
        assert!(problems[0].message.contains("expected u8"), "{}", problems[0]);
    }

    #[test]
    fn a_mistake_of_the_whole_has_no_path() {
        assert_eq!(Nested::from_json("{}").unwrap_err()[0].path, "");
    }
}
