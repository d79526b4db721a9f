//! Which other programs write HyperNodes, as one look shows it (decision M6): fresh leases of Volcano's controller, and
//! other field managers on objects of a source.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{Api, ListParams};
use schemars::JsonSchema;
use serde::Serialize;
use topoloom_api::HyperNode;
use topoloom_api::names::{FIELD_MANAGER, SOURCE_LABEL};
use topoloom_core::names::SourceName;
use topoloom_core::topology::Object;

use super::convert;
use crate::cluster::leases::{LeaseFreshness, LeaseStatus};
use crate::cluster::{Refusal, single};

/// How long ago a change counts. What Volcano wrote before we took over stays in the lists of managers permanently.
const LATELY: SignedDuration = SignedDuration::from_mins(10);
/// Objects per page.
const PAGE: u32 = 500;
/// Volcano's HyperNode controller among the managers of fields: in one process with its other controllers, and alone.
const VOLCANOS: [&str; 2] = ["vc-controller-manager", "vc-hypernode-controller-manager"];

/// A program that changed objects of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ForeignWriter {
    /// The field manager.
    pub manager: String,
    /// How many objects it changed.
    pub objects: usize,
    /// One of them.
    pub example: String,
}

/// Other programs that wrote HyperNodes of a source.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Writers {
    /// Programs that changed some lately.
    pub lately: Vec<ForeignWriter>,
    /// Volcano's controller, whenever that was, with the objects that nothing of ours has written. Where it runs beside
    /// Volcano's other controllers no lease says that it does, and on a quiet cluster it writes nothing for days.
    pub volcanos: Vec<ForeignWriter>,
}

/// An object of a source, and whether another program made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// Its name.
    pub name: Box<str>,
    /// Another program wrote it before us, or in our place.
    pub by_others: bool,
}

impl Made {
    /// What an object shows.
    #[must_use]
    pub fn of(object: &Object) -> Self {
        let by_others = object.group_id.is_none() || !object.shared_labels.is_empty();
        Self { name: (*object.name).into(), by_others }
    }
}

/// Leases of these names with a holder, in any namespace; and why not all of them could be seen, if so.
pub async fn rivals(client: &kube::Client, names: &[String], now: Timestamp) -> (Vec<LeaseStatus>, Option<Refusal>) {
    let api: Api<Lease> = Api::all(client.clone());
    let (mut fresh, mut refused) = (Vec::new(), None);
    for name in names {
        match api.list(&ListParams::default().fields(&single::named(name))).await {
            Ok(leases) => {
                let held = leases.items.iter().map(|lease| LeaseStatus::of(lease, now));
                fresh.extend(held.filter(|held| held.standing == LeaseFreshness::Fresh));
            }
            Err(error) => refused = Some(Refusal::of(&error)),
        }
    }
    (fresh, refused)
}

/// The programs that changed HyperNodes of a source.
///
/// # Errors
/// The refusal of the list.
pub async fn of_objects(client: &kube::Client, now: Timestamp) -> Result<Writers, Refusal> {
    let api: Api<HyperNode> = Api::all(client.clone());
    let mut page = ListParams::default().labels(SOURCE_LABEL).limit(PAGE);
    let (mut counted_lately, mut counted_volcanos) = (WritersByName::new(), WritersByName::new());
    loop {
        let list = api.list_metadata(&page).await.map_err(|error| Refusal::of(&error))?;
        for object in &list.items {
            let name = object.metadata.name.as_deref().unwrap_or_default();
            let entries = object.metadata.managed_fields.as_deref().unwrap_or_default();
            count(&mut counted_lately, name, lately(entries, now));
            count(&mut counted_volcanos, name, volcanos(entries));
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    let all = |counted: WritersByName| counted.into_values().collect();
    Ok(Writers { lately: all(counted_lately), volcanos: all(counted_volcanos) })
}

/// Every HyperNode that belongs to a source, with that source and whether another program made it.
///
/// # Errors
/// The refusal of the list.
pub async fn made(client: &kube::Client) -> Result<Vec<(SourceName, Made)>, Refusal> {
    let api: Api<HyperNode> = Api::all(client.clone());
    let mut page = ListParams::default().labels(SOURCE_LABEL).limit(PAGE);
    let mut made = Vec::new();
    loop {
        let list = api.list_metadata(&page).await.map_err(|error| Refusal::of(&error))?;
        made.extend(list.items.into_iter().filter_map(|item| {
            let object = convert::object(&HyperNode { metadata: item.metadata, ..HyperNode::default() });
            Some((object.source.clone()?, Made::of(&object)))
        }));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(made),
        }
    }
}

/// Programs by the name of their manager.
type WritersByName = BTreeMap<String, ForeignWriter>;

fn count(counted: &mut WritersByName, name: &str, managers: BTreeSet<&str>) {
    for manager in managers {
        let writer = counted.entry(manager.to_owned()).or_insert_with(|| ForeignWriter {
            manager: manager.to_owned(),
            objects: 0,
            example: name.to_owned(),
        });
        writer.objects += 1;
    }
}

/// The programs that wrote the object itself, and not only its status.
fn of_itself(entries: &[ManagedFieldsEntry]) -> impl Iterator<Item = (&str, &ManagedFieldsEntry)> {
    let itself = entries.iter().filter(|entry| entry.subresource.as_deref().unwrap_or_default().is_empty());
    itself.filter_map(|entry| Some((entry.manager.as_deref()?, entry)))
}

/// The other programs that changed an object lately.
fn lately(entries: &[ManagedFieldsEntry], now: Timestamp) -> BTreeSet<&str> {
    let is_new = |entry: &ManagedFieldsEntry| {
        let time = entry.time.as_ref();
        time.is_some_and(|time| now.duration_since(time.0) <= LATELY)
    };
    let others = of_itself(entries).filter(|(manager, _)| *manager != FIELD_MANAGER);
    others.filter(|(_, entry)| is_new(entry)).map(|(manager, _)| manager).collect()
}

/// Volcano's controller, where it wrote an object and nothing of ours did.
fn volcanos(entries: &[ManagedFieldsEntry]) -> BTreeSet<&str> {
    let managers: BTreeSet<&str> = of_itself(entries).map(|(manager, _)| manager).collect();
    if managers.contains(FIELD_MANAGER) {
        return BTreeSet::new();
    }
    managers.into_iter().filter(|manager| VOLCANOS.contains(manager)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(manager: &str, time: &str, subresource: &str) -> ManagedFieldsEntry {
        serde_json::from_value(json!({"manager": manager, "time": time, "subresource": subresource})).unwrap()
    }

    #[test]
    fn only_others_that_wrote_specs_lately_are_counted() {
        let entries = [
            entry("topoloom", "2026-01-01T00:09:00Z", ""),
            entry("kubectl-edit", "2026-01-01T00:09:00Z", ""),
            // The same program by another verb, on the same object.
            entry("kubectl-edit", "2026-01-01T00:08:00Z", ""),
            entry("vc-controller-manager", "2025-01-01T00:00:00Z", ""),
            entry("another", "2026-01-01T00:09:00Z", "status"),
        ];
        let (mut writers, now) = (WritersByName::new(), "2026-01-01T00:10:00Z".parse().unwrap());
        count(&mut writers, "a", lately(&entries, now));
        count(&mut writers, "b", lately(&entries, now));
        let wanted = ForeignWriter { manager: "kubectl-edit".into(), objects: 2, example: "a".into() };
        assert_eq!(writers.into_values().collect::<Vec<_>>(), [wanted]);
    }

    #[test]
    fn m6_what_volcano_wrote_counts_at_any_age_until_we_write_it_too() {
        let long_ago = "2020-01-01T00:00:00Z";
        for volcano in VOLCANOS {
            let (theirs, ours) = (entry(volcano, long_ago, ""), entry("topoloom", long_ago, ""));
            let (our_count, their_count) = (entry("topoloom", long_ago, "status"), entry(volcano, long_ago, "status"));
            let edit = entry("kubectl-edit", long_ago, "");
            for (entries, is_theirs) in [
                (vec![theirs.clone()], true),
                (vec![theirs.clone(), edit.clone()], true),
                // We count the Nodes below every HyperNode, of any owner.
                (vec![theirs.clone(), our_count], true),
                (vec![theirs, ours], false),
                (vec![their_count, edit], false),
                (vec![], false),
            ] {
                let mut counted = WritersByName::new();
                count(&mut counted, "a", volcanos(&entries));
                assert_eq!(counted.contains_key(volcano), is_theirs, "{entries:?}");
                assert_eq!(counted.len(), usize::from(is_theirs), "{entries:?}");
            }
        }
    }
}
