//! Objects that the view knows one by one, by their names: nodes of either cluster, and CSINodes ([`csi`](super::csi)).
//!
//! Owns how a watch of them becomes events of the view. A kind says which event each becomes ([`Named`]); that a list is whole before
//! it counts, which objects are the binding's, and what becomes of an object that cannot be read, is written once, in
//! [`Feed`].

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

use topoloom_cluster::watched::{Earlier, Index};
use topoloom_core::names::NodeName;
use topoloom_core::version::ResourceVersion;
use topoloom_sync::keys;
use topoloom_sync::node::{LentNode, PhysicalNode};
use topoloom_sync::texts::Keyed;

use super::{Follows, SharedView, locked};
use crate::ledger::{PhysicalName, Touched};
use crate::shared::Shown;
use crate::view::View;

/// A kind of objects that the view knows by their names.
pub trait Named {
    /// The name of one.
    type Name: Eq + Hash + From<Arc<str>>;
    /// What the view knows of one.
    type Object;

    /// What one is called in a log.
    const KIND: &'static str;

    /// The labels by which it is the binding's or another's. Without them all bindings share it.
    fn labels(_: &Self::Object) -> Option<&dyn Keyed> {
        None
    }

    /// A list begins.
    fn begins(_: &mut View) {}

    /// What the view knows of the one of this name.
    fn known(view: &View, name: &Self::Name) -> Option<Arc<Self::Object>>;

    /// All were listed: what is not among these is gone.
    fn all(view: &mut View, objects: HashMap<Self::Name, Arc<Self::Object>>) -> Touched;

    /// One is as it is now.
    fn one(view: &mut View, name: &Self::Name, object: Arc<Self::Object>) -> Touched;

    /// The one of this name is gone.
    fn gone(view: &mut View, name: &str) -> Touched;
}

/// The objects of one kind on their way into the view.
pub struct Feed<T> {
    view: SharedView,
    /// The labels of those that are the binding's, whatever its UID was then.
    wanted: BTreeMap<String, String>,
    of: PhantomData<fn() -> T>,
}

impl<T> Feed<T> {
    /// Into this view.
    #[must_use]
    pub fn of(view: &SharedView) -> Self {
        let mut wanted = locked(view).binding.identity.labels();
        wanted.retain(|key, _| [keys::VIRTUAL_CLUSTER, keys::BINDING].contains(&key.as_str()));
        Self { view: Arc::clone(view), wanted, of: PhantomData }
    }
}

impl<T: Named> Feed<T> {
    fn is_ours(&self, object: &T::Object) -> bool {
        T::labels(object).is_none_or(|labels| self.wanted.iter().all(|(key, value)| labels.text(key) == Some(value)))
    }
}

impl<T: Named> fmt::Debug for Feed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Feed").field(&T::KIND).finish()
    }
}

/// A list on its way.
#[derive(Debug)]
pub struct NamedList<N, O> {
    objects: HashMap<N, Arc<O>>,
    /// Those that are there and were never readable.
    unread: HashSet<N>,
}

impl<T: Named> Index<Shown<T::Object>> for Feed<T> {
    type List = NamedList<T::Name, T::Object>;
    type Change = Touched;

    fn begin(&mut self, _: Earlier) -> Self::List {
        T::begins(&mut locked(&self.view));
        NamedList { objects: HashMap::new(), unread: HashSet::new() }
    }

    fn list(&mut self, list: &mut Self::List, shown: Shown<T::Object>) {
        let name = T::Name::from(shown.key);
        match shown.object {
            Some(object) if self.is_ours(&object) => drop(list.objects.insert(name, object)),
            // It may have been, in the list before.
            Some(_) => drop(list.objects.remove(&name)),
            None => {
                list.unread.insert(name);
            }
        }
    }

    fn reset(&mut self, list: Self::List, _: &ResourceVersion) -> Touched {
        let NamedList { mut objects, unread } = list;
        let mut view = locked(&self.view);
        for name in unread {
            // It is there: to leave it out would say that it is gone.
            if let Some(known) = T::known(&view, &name) {
                objects.insert(name, known);
            }
        }
        T::all(&mut view, objects)
    }

    fn apply(&mut self, shown: Shown<T::Object>) -> Touched {
        match shown.object {
            Some(object) if self.is_ours(&object) => T::one(&mut locked(&self.view), &T::Name::from(shown.key), object),
            Some(_) => T::gone(&mut locked(&self.view), &shown.key),
            None => Touched::new(),
        }
    }

    fn delete(&mut self, shown: Shown<T::Object>) -> Touched {
        T::gone(&mut locked(&self.view), &shown.key)
    }
}

impl<T: Named> Follows<T::Object> for Feed<T> {
    fn given_up(&mut self, _: Option<Self::List>) -> Touched {
        // The view knows nothing of a list that is not whole. It waits for the next one.
        T::begins(&mut locked(&self.view));
        Touched::new()
    }
}

/// The nodes of the physical cluster.
#[derive(Debug)]
pub enum PhysicalNodes {}

impl Named for PhysicalNodes {
    type Name = PhysicalName;
    type Object = PhysicalNode;

    const KIND: &'static str = "physical node";

    fn known(view: &View, name: &PhysicalName) -> Option<Arc<PhysicalNode>> {
        view.shared_physical(name)
    }

    fn all(view: &mut View, nodes: HashMap<PhysicalName, Arc<PhysicalNode>>) -> Touched {
        view.machines(nodes)
    }

    fn one(view: &mut View, name: &PhysicalName, node: Arc<PhysicalNode>) -> Touched {
        view.machine(name, node)
    }

    fn gone(view: &mut View, name: &str) -> Touched {
        view.physical_node_gone(name)
    }
}

/// The virtual nodes of the binding.
#[derive(Debug)]
pub enum LentNodes {}

impl Named for LentNodes {
    type Name = NodeName;
    type Object = LentNode;

    const KIND: &'static str = "virtual node";

    fn labels(node: &LentNode) -> Option<&dyn Keyed> {
        Some(&node.metadata.labels)
    }

    fn known(view: &View, name: &NodeName) -> Option<Arc<LentNode>> {
        view.shared_lent(name)
    }

    fn all(view: &mut View, nodes: HashMap<NodeName, Arc<LentNode>>) -> Touched {
        view.lent_machines(nodes)
    }

    fn one(view: &mut View, name: &NodeName, node: Arc<LentNode>) -> Touched {
        view.lent_machine(name, node)
    }

    fn gone(view: &mut View, name: &str) -> Touched {
        // Without the labels by which it is shown it may be there still.
        view.lent_node_left(name)
    }
}
