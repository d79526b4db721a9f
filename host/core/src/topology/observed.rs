//! All HyperNodes of a cluster at one moment, indexed so that the objects that concern one source are found without a
//! look at the others. The index is built once per change; every source reads it in every round.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, OnceLock};

use super::forest::Forest;
use super::merge::merge_additions;
use super::model::{Coverage, Object};
use super::naming::{NameInput, Named, TierNames, name};
use crate::names::SourceName;

/// Stored objects, by name, by source and by what they list.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// Sorted by name.
    objects: Vec<Arc<Object>>,
    /// Positions of the objects of each source.
    by_source: BTreeMap<SourceName, Vec<usize>>,
    /// Built at the first look-up: a source that is alone in a cluster never needs it.
    listers: OnceLock<Listers>,
}

/// Positions of the objects that list a name. Only looked up, never iterated, so its order does not matter.
type Listers = HashMap<Arc<str>, Vec<usize>, BuildHasherDefault<DefaultHasher>>;

/// What the cluster should hold according to a valid answer.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The answer; an additions-only answer is completed from the stored objects.
    pub forest: Arc<Forest>,
    /// The objects that follow from it.
    pub named: Named,
    /// All stored objects that are connected with them. [`diff`](super::diff) needs no others.
    pub near: Vec<Arc<Object>>,
}

impl Observed {
    /// Indexes the stored objects.
    #[must_use]
    pub fn new(objects: impl IntoIterator<Item = Arc<Object>>) -> Self {
        let mut objects: Vec<Arc<Object>> = objects.into_iter().collect();
        objects.sort_by(|a, b| a.name.cmp(&b.name));
        let mut observed = Self { objects, ..Self::default() };
        for (at, object) in observed.objects.iter().enumerate() {
            if let Some(source) = &object.source {
                match observed.by_source.get_mut(source) {
                    Some(positions) => positions.push(at),
                    None => drop(observed.by_source.insert(source.clone(), vec![at])),
                }
            }
        }
        observed
    }

    fn listers(&self, name: &str) -> impl Iterator<Item = usize> {
        let listers = self.listers.get_or_init(|| {
            let mut listers = Listers::default();
            for (at, object) in self.objects.iter().enumerate() {
                for child in object.spec.children() {
                    listers.entry(Arc::clone(child)).or_default().push(at);
                }
            }
            listers
        });
        listers.get(name).into_iter().flatten().copied()
    }

    /// Every object, by name.
    #[must_use]
    pub fn all(&self) -> &[Arc<Object>] {
        &self.objects
    }

    /// The objects of a source, by name.
    pub fn of(&self, source: &SourceName) -> impl Iterator<Item = &Arc<Object>> {
        self.by_source.get(source).into_iter().flatten().filter_map(|at| self.objects.get(*at))
    }

    /// The sources that have objects.
    pub fn sources(&self) -> impl Iterator<Item = &SourceName> {
        self.by_source.keys()
    }

    /// What an answer means for the stored objects. An additions-only answer depends on the stored objects, so it is
    /// completed here, each time (decisions H11 and H13).
    ///
    /// The result is the same as if every object had been read; most of them are not.
    #[must_use]
    pub fn wanted(&self, forest: &Arc<Forest>, source: &SourceName, tier_names_elsewhere: &TierNames) -> Wanted {
        let is_alone = self.by_source.get(source).is_some_and(|own| own.len() == self.objects.len());
        if is_alone {
            return among(self.objects.clone(), forest, source, tier_names_elsewhere);
        }
        let own = self.of(source).map(|object| &object.name);
        let fixed = forest.domains().iter().filter_map(|domain| domain.fixed_name.as_ref());
        let near = self.around(own.chain(fixed));
        let wanted = among(near, forest, source, tier_names_elsewhere);
        if self.is_enough(&wanted) { wanted } else { among(self.objects.clone(), forest, source, tier_names_elsewhere) }
    }

    /// The objects with these names, those that list one of these names, those that they list, and so on.
    fn around<'a>(&'a self, names: impl Iterator<Item = &'a Arc<str>>) -> Vec<Arc<Object>> {
        let mut seen: BTreeSet<usize> = BTreeSet::new();
        let mut asked: BTreeSet<&str> = BTreeSet::new();
        let mut open: Vec<&str> = names.map(|name| &**name).collect();
        while let Some(name) = open.pop() {
            if !asked.insert(name) {
                continue;
            }
            for at in self.position(name).into_iter().chain(self.listers(name)) {
                if let (true, Some(object)) = (seen.insert(at), self.objects.get(at)) {
                    open.push(&object.name);
                    open.extend(object.spec.children().map(|child| &**child));
                }
            }
        }
        seen.into_iter().filter_map(|at| self.objects.get(at)).cloned().collect()
    }

    /// Whether the objects that were left out have nothing to do with the wanted ones. A generated name may be one that
    /// another object has or lists.
    fn is_enough(&self, wanted: &Wanted) -> bool {
        let is_near = |at: usize| {
            let object = self.objects.get(at);
            object.is_some_and(|object| wanted.near.binary_search_by(|near| near.name.cmp(&object.name)).is_ok())
        };
        wanted
            .named
            .objects
            .iter()
            .filter(|(_, desired)| desired.continues.is_none())
            .all(|(name, _)| self.position(name).into_iter().chain(self.listers(name)).all(is_near))
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.objects.binary_search_by(|object| (*object.name).cmp(name)).ok()
    }
}

fn among(
    near: Vec<Arc<Object>>,
    forest: &Arc<Forest>,
    source: &SourceName,
    tier_names_elsewhere: &TierNames,
) -> Wanted {
    let forest = match forest.coverage() {
        Coverage::Complete => Arc::clone(forest),
        Coverage::AdditionsOnly => Arc::new(merge_additions(Forest::clone(forest), source, &near)),
    };
    let named = name(&forest, &NameInput { source, observed: &near, tier_names_elsewhere });
    Wanted { forest, named, near }
}
