//! A status that an API server took and did not store whole (decision S9).
//!
//! A server whose definition of ClusterBindings is older than a field drops it, and a mutating webhook changes what is written. The answer
//! is a good one, and the next look finds the same difference: the status would be written for ever, once a second. So wishes are compared
//! with what was written last, for as long as what was stored of that is stored.
//!
//! Owns that comparison, and the sentence for a person. Each write has all that is missing, and after [`AGAIN`] it is written although
//! nothing else differs: so a definition that was applied meanwhile is noticed.
//!
//! # Failure story
//!
//! What is not stored ends with the process: the one that takes over judges again what was allowed. What another client writes into the
//! status is compared with what is wanted, as ever.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use topoloom_api::cluster_binding::ClusterBindingStatus;
use topoloom_api::crd;
use topoloom_api::names::CLUSTER_BINDING_CRD;

use crate::convert::difference::merge_patch;

/// After this time a status is written again that was not stored whole: as often as a sweep tries what was refused.
const AGAIN: Duration = Duration::from_secs(600);
/// How many fields one sentence names.
const SHOWN: usize = 5;

/// What was written, and what was stored of it.
#[derive(Debug)]
pub(super) struct Unstored {
    sent: ClusterBindingStatus,
    stored: ClusterBindingStatus,
    /// The paths of what differs.
    fields: Vec<String>,
    /// When it is written again.
    due: Instant,
}

impl Unstored {
    /// What an answer shows of a write; nothing where all of it is stored.
    pub(super) fn of(sent: ClusterBindingStatus, stored: &ClusterBindingStatus, now: Instant) -> Option<Self> {
        let mut fields = Vec::new();
        name_fields("status", &difference(stored, &sent)?, &mut fields);
        fields.sort();
        Some(Self { sent, stored: stored.clone(), fields, due: now + AGAIN })
    }

    /// The status that wishes are compared with: what was written, unless something else is stored by now than was in the answer.
    pub(super) fn known<'a>(&'a self, stored: &'a ClusterBindingStatus) -> &'a ClusterBindingStatus {
        if *stored == self.stored { &self.sent } else { stored }
    }

    /// Whether it has to be written again although nothing else differs.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due <= now
    }

    /// What a person has to know and to type.
    pub(super) fn sentence(&self) -> String {
        let shown: Vec<&str> = self.fields.iter().take(SHOWN).map(String::as_str).collect();
        let more = self.fields.len().saturating_sub(SHOWN);
        let more = if more == 0 { String::new() } else { format!(" and {more} more fields") };
        format!(
            "The definition of {CLUSTER_BINDING_CRD} is older than this program: `{}`. The API server does not store {}{more}, so another \
             replica would not know that. If the definition is of this version, a webhook changes what is written.",
            crd::APPLY,
            shown.join(", ")
        )
    }
}

/// The merge patch that makes the one status of the other; `None` where nothing differs.
pub(super) fn difference(before: &ClusterBindingStatus, after: &ClusterBindingStatus) -> Option<Value> {
    // What has no JSON has no difference: no status is such a one.
    let json = |status: &ClusterBindingStatus| serde_json::to_value(status).unwrap_or_default();
    merge_patch(&json(before), &json(after))
}

/// The paths of what a patch changes.
fn name_fields(path: &str, patch: &Value, fields: &mut Vec<String>) {
    match patch {
        Value::Object(members) if !members.is_empty() => {
            members.iter().for_each(|(key, patch)| name_fields(&format!("{path}.{key}"), patch, fields));
        }
        _ => fields.push(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use topoloom_api::cluster_binding::{GrantedStatus, HeldBatchStatus};

    use super::*;

    fn sent() -> ClusterBindingStatus {
        let held =
            HeldBatchStatus { hash: "h".to_owned(), earlier: vec!["g".to_owned()], ..HeldBatchStatus::default() };
        let granted =
            GrantedStatus { act: "DeleteNode".to_owned(), nodes: vec!["n1".to_owned()], ..GrantedStatus::default() };
        ClusterBindingStatus {
            message: "m".to_owned(),
            held: Some(held),
            granted: vec![granted],
            ..ClusterBindingStatus::default()
        }
    }

    /// What a server stores whose definition has neither grants nor earlier hashes.
    fn stored() -> ClusterBindingStatus {
        let held = HeldBatchStatus { hash: "h".to_owned(), ..HeldBatchStatus::default() };
        ClusterBindingStatus { held: Some(held), granted: Vec::new(), ..sent() }
    }

    #[test]
    fn s9_fields_that_a_definition_lacks_are_named_with_the_command_that_renews_it() {
        let unstored = Unstored::of(sent(), &stored(), Instant::now()).unwrap();
        assert_eq!(unstored.fields, ["status.granted", "status.held.earlier"]);
        let sentence = unstored.sentence();
        for part in [
            "clusterbindings.topoloom.dev is older than this program: `topoloom crd | kubectl apply --server-side -f -`.",
            "does not store status.granted, status.held.earlier, so",
        ] {
            assert!(sentence.contains(part), "{part}: {sentence}");
        }
        assert!(Unstored::of(sent(), &sent(), Instant::now()).is_none());
    }

    #[test]
    fn s9_wishes_are_compared_with_what_was_written_until_something_else_is_stored() {
        let now = Instant::now();
        let unstored = Unstored::of(sent(), &stored(), now).unwrap();
        assert_eq!(unstored.known(&stored()), &sent());
        let edited = ClusterBindingStatus { message: "of another client".to_owned(), ..stored() };
        assert_eq!(unstored.known(&edited), &edited);
        assert!(!unstored.is_due(now) && unstored.is_due(now + AGAIN));
    }
}
