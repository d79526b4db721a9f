//! Where documents come from: an HTTP service, a key of a ConfigMap, annotations of the nodes.
//!
//! A carrier gives a whole document or fails. What did not change is not read again: a 304 means the document of an
//! earlier round, which the state keeps beside its `ETag`.

mod annotation;
pub(crate) mod fetch;

pub(crate) use annotation::annotations;
pub(crate) use fetch::{config_map, service};

use crate::document::Sheet;
use serde::{Deserialize, Serialize};
use topoloom_sdk::Failure;

/// A complete document.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Document {
    /// Its version, for the next request. The state keeps it apart, since most rounds need the version only.
    #[serde(skip)]
    pub(crate) etag: Option<String>,
    /// Whether nodes that it does not mention are gone.
    pub(crate) complete: bool,
    /// Its content.
    pub(crate) sheet: Sheet,
}

impl Document {
    /// Refuses a document with too many unusable entries: then its author and this reader do not mean the same format.
    fn checked(self, what: &str) -> Result<Self, Failure> {
        let bad = self.sheet.bad;
        let all = self.sheet.hosts.len() + self.sheet.switches.len() + bad;
        if bad > 1 && bad * 20 > all {
            let example = self.sheet.notes.iter().find(|note| note.code.starts_with("bad-"));
            let example =
                example.map_or_else(String::new, |note| format!(", for instance {}: {}", note.subject, note.detail));
            return Err(Failure::upstream(format!("{what}: {bad} of {all} entries are unusable{example}")));
        }
        Ok(self)
    }
}
