//! A model of the API server for HyperNodes, and the faults that what it stores can have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::names::{SourceName, Uid};
use crate::topology::plan::{Action, Base, Plan, PlanStep, Write};
use crate::topology::{Forest, NameInput, Named, Object, TierNames, diff, name};
use crate::version::ResourceVersion;

pub(in crate::topology) fn arc(text: &str) -> Arc<str> {
    Arc::from(text)
}

/// Stored objects by name.
#[derive(Debug, Clone, Default)]
pub(in crate::topology) struct Cluster {
    pub(in crate::topology) objects: BTreeMap<Arc<str>, Object>,
    writes: usize,
}

/// A fault: a state that no reader may ever see.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::topology) enum Fault {
    TwoParents { child: Arc<str>, one: Arc<str>, other: Arc<str> },
    ListedButGone { child: Arc<str>, parent: Arc<str> },
    NotBelow { child: Arc<str>, parent: Arc<str> },
    NoMembers(Arc<str>),
}

/// The uid and resourceVersion that each executed step returned.
pub(in crate::topology) type Versions = BTreeMap<usize, (Uid, ResourceVersion)>;

impl Cluster {
    pub(in crate::topology) fn of(objects: impl IntoIterator<Item = Object>) -> Self {
        let objects = objects.into_iter().map(|object| (Arc::clone(&object.name), object)).collect();
        Self { objects, writes: 0 }
    }

    pub(in crate::topology) fn observed(&self) -> Vec<Arc<Object>> {
        self.objects.values().cloned().map(Arc::new).collect()
    }

    pub(in crate::topology) fn named(&self, forest: &Forest, source: &SourceName) -> Named {
        let observed = self.observed();
        name(forest, &NameInput { source, observed: &observed, tier_names_elsewhere: &TierNames::new() })
    }

    pub(in crate::topology) fn plan(&self, named: &Named) -> Plan {
        diff(&self.observed(), named)
    }

    /// Names, plans and runs everything; what a quiet round does.
    pub(in crate::topology) fn settle(&mut self, forest: &Forest, source: &SourceName) -> Plan {
        let named = self.named(forest, source);
        let plan = self.plan(&named);
        self.run(&plan, source);
        plan
    }

    pub(in crate::topology) fn run(&mut self, plan: &Plan, source: &SourceName) {
        let mut versions = Versions::new();
        for (at, step) in plan.steps.iter().enumerate() {
            self.step(at, step, source, &mut versions);
        }
    }

    /// Runs one step with all its preconditions, as the API server would check them.
    pub(in crate::topology) fn step(
        &mut self,
        at: usize,
        step: &PlanStep,
        source: &SourceName,
        versions: &mut Versions,
    ) {
        self.writes += 1;
        let version = ResourceVersion::from(format!("w{}", self.writes));
        match &step.action {
            Action::Create { write, .. } => {
                assert!(!self.objects.contains_key(&step.name), "create of {} which exists", step.name);
                let mut object = Object {
                    name: Arc::clone(&step.name),
                    uid: format!("uid-w{}", self.writes).into(),
                    resource_version: version,
                    created: 1_000 + i64::try_from(self.writes).unwrap(),
                    source: Some(source.clone()),
                    group_id: None,
                    split_from: None,
                    description: None,
                    labels: BTreeMap::new(),
                    owned_labels: BTreeSet::new(),
                    shared_labels: BTreeSet::new(),
                    spec: write.spec.clone(),
                };
                put(&mut object, write);
                versions.insert(at, (object.uid.clone(), object.resource_version.clone()));
                self.objects.insert(Arc::clone(&step.name), object);
            }
            Action::Update { write, base, .. } => {
                self.check(step, base, source, versions);
                let object = self.objects.get_mut(&step.name).unwrap();
                object.resource_version = version;
                put(object, write);
                versions.insert(at, (object.uid.clone(), object.resource_version.clone()));
            }
            Action::Delete { base, .. } => {
                self.check(step, base, source, versions);
                self.objects.remove(&step.name);
            }
        }
    }

    fn check(&self, step: &PlanStep, base: &Base, source: &SourceName, versions: &Versions) {
        let object = self.objects.get(&step.name).unwrap_or_else(|| panic!("{} is gone: {step}", step.name));
        assert_eq!(object.source.as_ref(), Some(source), "an object of another owner: {step}");
        let (uid, version) = match base {
            Base::Observed { uid, resource_version } => (uid, resource_version),
            Base::Step(earlier) => {
                let (uid, version) = versions.get(&earlier.0).expect("the earlier step must have been run");
                (uid, version)
            }
        };
        assert_eq!((&object.uid, &object.resource_version), (uid, version), "a stale base: {step}");
    }

    /// All faults of what is stored now.
    pub(in crate::topology) fn faults(&self) -> BTreeSet<Fault> {
        let mut faults = BTreeSet::new();
        let mut parents: BTreeMap<&Arc<str>, BTreeSet<&Arc<str>>> = BTreeMap::new();
        for object in self.objects.values() {
            if object.spec.members.is_empty() {
                faults.insert(Fault::NoMembers(object.name.clone()));
            }
            for child in object.spec.children() {
                parents.entry(child).or_default().insert(&object.name);
                let (child, parent) = (child.clone(), object.name.clone());
                match self.objects.get(&child) {
                    None => faults.insert(Fault::ListedButGone { child, parent }),
                    Some(below) if below.spec.tier >= object.spec.tier => {
                        faults.insert(Fault::NotBelow { child, parent })
                    }
                    Some(_) => false,
                };
            }
        }
        for (child, parents) in parents {
            for (at, one) in parents.iter().enumerate() {
                for other in parents.iter().skip(at + 1) {
                    let (one, other) = (Arc::clone(one), Arc::clone(other));
                    faults.insert(Fault::TwoParents { child: child.clone(), one, other });
                }
            }
        }
        faults
    }

    /// Which of the source's objects are not as named, and which are there and should not be.
    pub(in crate::topology) fn differences(&self, named: &Named) -> Vec<String> {
        let mut differences = Vec::new();
        for (name, wanted) in &named.objects {
            let Some(object) = self.objects.get(name) else {
                differences.push(format!("{name} is missing"));
                continue;
            };
            let sorted = |members: &[crate::topology::Member]| members.iter().cloned().collect::<BTreeSet<_>>();
            if sorted(&object.spec.members) != sorted(&wanted.spec.members)
                || (object.spec.tier, &object.spec.tier_name) != (wanted.spec.tier, &wanted.spec.tier_name)
            {
                differences.push(format!("{name} is {:?} and should be {:?}", object.spec, wanted.spec));
            }
            if (&object.group_id, &object.split_from, &object.description)
                != (&wanted.group_id, &wanted.split_from, &wanted.description)
            {
                differences.push(format!("{name} has other annotations"));
            }
            if wanted.labels.iter().any(|(key, value)| object.labels.get(key) != Some(value)) {
                differences.push(format!("{name} has other labels"));
            }
        }
        let ours = self.objects.values().filter(|object| object.source.as_ref() == Some(&named.source));
        for object in ours.filter(|object| !named.held.contains(&object.name)) {
            if !named.objects.contains_key(&object.name) {
                differences.push(format!("{} should not exist", object.name));
            }
        }
        differences
    }
}

/// A server-side apply: labels of ours that it does not state are removed, those of others stay.
fn put(object: &mut Object, write: &Write) {
    assert!(!write.spec.members.is_empty(), "an empty member list for {}", object.name);
    object.spec = write.spec.clone();
    let ours_alone = object.owned_labels.difference(&object.shared_labels);
    for key in write.remove_labels.iter().chain(ours_alone) {
        object.labels.remove(key);
    }
    object.labels.extend(write.labels.iter().map(|(key, value)| (key.clone(), value.clone())));
    object.owned_labels = write.labels.keys().cloned().collect();
    object.shared_labels.retain(|key| write.labels.contains_key(key));
    object.group_id.clone_from(&write.group_id);
    object.split_from.clone_from(&write.split_from);
    object.description.clone_from(&write.description);
}

/// One line per object, for failures.
impl std::fmt::Display for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for object in self.objects.values() {
            let owner = object.source.as_deref().unwrap_or("no source");
            write!(f, "{} of {owner}, tier {}:", object.name, object.spec.tier)?;
            for child in object.spec.children() {
                write!(f, " @{child}")?;
            }
            for node in object.spec.exact_nodes() {
                write!(f, " {node}")?;
            }
            f.write_str("\n")?;
        }
        Ok(())
    }
}
