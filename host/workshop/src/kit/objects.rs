//! The objects that follow from an answer, as a host names and writes them.

use std::collections::BTreeSet;
use std::sync::Arc;

use topoloom_core::names::{SourceName, Uid};
use topoloom_core::topology::{Forest, Named, Object, Observed, Plan, TierNames, diff};

/// What a host would have in the cluster after an answer, and what it would write for it.
#[derive(Debug, Clone)]
pub(super) struct Written {
    pub(super) named: Named,
    pub(super) plan: Plan,
}

impl Written {
    /// Of an answer beside the objects that are there.
    pub(super) fn of(forest: &Arc<Forest>, source: &SourceName, stored: &[Arc<Object>]) -> Self {
        let observed = Observed::new(stored.iter().cloned());
        let wanted = observed.wanted(forest, source, &TierNames::new());
        let plan = diff(&wanted.near, &wanted.named);
        Self { named: wanted.named, plan }
    }

    /// The objects as they are in the cluster then, those of others beside them.
    pub(super) fn stored(&self, before: &[Arc<Object>]) -> Vec<Arc<Object>> {
        let source = &self.named.source;
        let others = before.iter().filter(|object| object.source.as_ref() != Some(source)).cloned();
        let own = self.named.objects.iter().zip(0..).map(|((name, desired), created)| {
            let known = before.iter().find(|object| object.name == *name);
            Arc::new(Object {
                name: Arc::clone(name),
                uid: known.map_or_else(|| Uid::from(&**name), |object| object.uid.clone()),
                resource_version: "1".into(),
                created: known.map_or(created, |object| object.created),
                source: Some(source.clone()),
                group_id: desired.group_id.clone(),
                split_from: desired.split_from.clone(),
                description: desired.description.clone(),
                labels: desired.labels.clone(),
                owned_labels: desired.labels.keys().cloned().collect(),
                shared_labels: BTreeSet::new(),
                spec: desired.spec.clone(),
            })
        });
        own.chain(others).collect()
    }

    /// The name of the object of a group.
    pub(super) fn name_of(&self, id: &str) -> Option<&Arc<str>> {
        let mut objects = self.named.objects.iter();
        objects.find_map(|(name, object)| (object.group_id.as_deref() == Some(id)).then_some(name))
    }
}
