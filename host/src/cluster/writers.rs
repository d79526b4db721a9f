//! Who else writes HyperNodes, for somebody who looks once (decision M6): fresh leases of Volcano's controller, and other
//! field managers on objects of a source.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{Api, ListParams};
use serde::Serialize;
use topoloom_api::HyperNode;
use topoloom_api::names::{FIELD_MANAGER, SOURCE_LABEL};

use super::Refusal;
use super::leases::{Held, Standing};
use super::single;

/// How long ago a change counts. What Volcano wrote before we took over stays in the lists of managers for ever.
const LATELY: SignedDuration = SignedDuration::from_mins(10);
/// Objects per page.
const PAGE: u32 = 500;

/// A program that changed objects of ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Writer {
    /// The field manager.
    pub manager: String,
    /// How many objects it changed lately.
    pub objects: usize,
    /// One of them.
    pub example: String,
}

/// Leases of these names that somebody holds, in whichever namespace; and why not all of them could be seen, if so.
pub async fn rivals(client: &kube::Client, names: &[String], now: Timestamp) -> (Vec<Held>, Option<Refusal>) {
    let api: Api<Lease> = Api::all(client.clone());
    let (mut fresh, mut refused) = (Vec::new(), None);
    for name in names {
        match api.list(&ListParams::default().fields(&single::named(name))).await {
            Ok(leases) => {
                let held = leases.items.iter().map(|lease| Held::of(lease, now));
                fresh.extend(held.filter(|held| held.standing == Standing::Fresh));
            }
            Err(error) => refused = Some(Refusal::of(&error)),
        }
    }
    (fresh, refused)
}

/// Who changed HyperNodes that belong to a source.
///
/// # Errors
/// The refusal of the list.
pub async fn of_objects(client: &kube::Client, now: Timestamp) -> Result<Vec<Writer>, Refusal> {
    let api: Api<HyperNode> = Api::all(client.clone());
    let mut page = ListParams::default().labels(SOURCE_LABEL).limit(PAGE);
    let mut writers = BTreeMap::new();
    loop {
        let list = api.list_metadata(&page).await.map_err(|error| Refusal::of(&error))?;
        for object in &list.items {
            let name = object.metadata.name.as_deref().unwrap_or_default();
            count(&mut writers, name, object.metadata.managed_fields.as_deref().unwrap_or_default(), now);
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(writers.into_values().collect()),
        }
    }
}

fn count(writers: &mut BTreeMap<String, Writer>, name: &str, entries: &[ManagedFieldsEntry], now: Timestamp) {
    for entry in entries.iter().filter(|entry| entry.subresource.as_deref().unwrap_or_default().is_empty()) {
        let Some(manager) = entry.manager.as_deref().filter(|manager| *manager != FIELD_MANAGER) else { continue };
        if entry.time.as_ref().is_none_or(|time| now.duration_since(time.0) > LATELY) {
            continue;
        }
        let writer = writers.entry(manager.to_owned()).or_insert_with(|| Writer {
            manager: manager.to_owned(),
            objects: 0,
            example: name.to_owned(),
        });
        writer.objects += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn others_that_wrote_specs_lately_are_counted_and_nobody_else() {
        let entry = |manager: &str, time: &str, subresource: &str| -> ManagedFieldsEntry {
            serde_json::from_value(json!({"manager": manager, "time": time, "subresource": subresource})).unwrap()
        };
        let entries = [
            entry("topoloom", "2026-01-01T00:09:00Z", ""),
            entry("kubectl-edit", "2026-01-01T00:09:00Z", ""),
            entry("vc-controller-manager", "2025-01-01T00:00:00Z", ""),
            entry("somebody", "2026-01-01T00:09:00Z", "status"),
        ];
        let (mut writers, now) = (BTreeMap::new(), "2026-01-01T00:10:00Z".parse().unwrap());
        count(&mut writers, "a", &entries, now);
        count(&mut writers, "b", &entries, now);
        let wanted = Writer { manager: "kubectl-edit".into(), objects: 2, example: "a".into() };
        assert_eq!(writers.into_values().collect::<Vec<_>>(), [wanted]);
    }
}
